//! What a lock of a pool needs, which [thin](crate::thin) locks have one after the other: a thread
//! may come late, and take (or count itself in) what is another lock's by now.

use core::sync::atomic::Ordering;

use super::word::{Flags, Word};
use super::{Policy, RwSem};
use crate::platform::Platform;
use crate::thin::Calm;
use crate::wait::{Access, WaitContext, WaitError};

impl<P: Platform> RwSem<P> {
    /// A sealed lock: held for writing, by nobody in particular.
    pub(crate) fn sealed(policy: Policy) -> Self {
        Self::with_word(policy, Word::WRITTEN.with(Flags::SEALED))
    }

    pub(crate) fn calm(&self) -> &Calm {
        &self.calm
    }

    /// The caller has the lock for writing; from here on it is sealed, and the caller has it no
    /// longer.
    pub(crate) fn seal(&self) {
        // Release: the caller's section comes before whatever is done to the lock next.
        self.word.set(Flags::SEALED, Ordering::Release);
    }

    /// The sealed lock becomes a writer's.
    pub(crate) fn adopt_sealed_writer(&self) {
        // Relaxed: whoever publishes the lock afterwards does so with Release.
        self.word.clear(Flags::SEALED, Ordering::Relaxed);
    }

    /// A sealed lock becomes free, or its readers'. Nobody waits for it before this.
    pub(crate) fn unseal(&self) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word.is_sealed() {
            let open = word.without(Flags::SEALED.with(Flags::WRITER_LOCKED));
            // Both bits in one step, so that a reader that comes again finds no writer. Release: as
            // where a writer leaves.
            match self.word.compare_exchange_weak(word, open, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Takes the lock for reading if nothing is in the way but those that wait. `Some` if it did:
    /// whether the lock was free.
    #[inline(always)]
    pub(crate) fn read_past_queue(&self) -> Option<bool> {
        // Acquire: owns the lock if nothing was in the way (rule 3).
        let before = self.word.enter(Access::Shared, Ordering::Acquire);
        if before.is_open_to_readers() {
            return Some(before == Word::FREE);
        }
        if before.has_room()
            && let Some(tenure) = self.in_tenure()
        {
            if !tenure.keeps_count(before) {
                return None;
            }
            // As in `read_slow`.
            if self.word.load(Ordering::Relaxed).has_room() {
                return Some(false);
            }
        }
        // SAFETY: the thread gives up a count as a reader inside does, and it may be the last one.
        unsafe { self.unlock_read() };
        None
    }

    /// As [`read_past_queue`](Self::read_past_queue), for writing.
    #[inline(always)]
    pub(crate) fn write_past_queue(&self) -> Option<bool> {
        // Without looking at the word first: that would fetch the line twice, to read it and to
        // write it. Where somebody waits the exchange would fail, which costs more.
        if !self.holder.is_awaited() && self.try_write() {
            return Some(true);
        }
        self.in_tenure()?.steal_in_turn(Access::Exclusive)
    }

    /// As [`read_past_queue`](Self::read_past_queue), for reading upgradably.
    #[inline(always)]
    pub(crate) fn upgradable_past_queue(&self) -> Option<bool> {
        if self.upgradable_fast() {
            return Some(true);
        }
        self.try_upgradable_read().then_some(false)
    }

    /// Takes the lock for reading without going to sleep for it.
    #[cold]
    pub(crate) fn read_awake(&self, context: &WaitContext<'_, P>) -> bool {
        let Some(tenure) = self.in_tenure() else { return self.try_read() };
        tenure.compete(Access::Shared, context) && self.keep_if_room().is_ok()
    }

    /// The rest of `read`: sleeps.
    pub(crate) fn read_asleep(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        match self.in_tenure() {
            Some(tenure) if self.word.load(Ordering::Relaxed).has_room() => {
                tenure.wait(Access::Shared, context)?;
                self.keep_if_room()
            }
            _ => self.read_with(context),
        }
    }

    /// As [`read_awake`](Self::read_awake), for writing.
    #[cold]
    pub(crate) fn write_awake(&self, context: &WaitContext<'_, P>) -> bool {
        match self.in_tenure() {
            Some(tenure) => {
                tenure.steal_at_once(Access::Exclusive)
                    || tenure.compete(Access::Exclusive, context)
            }
            None => self.try_write(),
        }
    }

    /// As [`read_awake`](Self::read_awake), upgradably.
    #[cold]
    pub(crate) fn upgradable_awake(&self, context: &WaitContext<'_, P>) -> bool {
        self.try_upgradable_read()
            || self.in_tenure().is_some_and(|tenure| tenure.compete(Access::Upgradable, context))
    }

    /// The rest of `write`: sleeps.
    pub(crate) fn write_asleep(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        match self.in_tenure() {
            Some(tenure) => tenure.wait(Access::Exclusive, context),
            None => self.write_with(context),
        }
    }

    /// The only reader, upgradable or not, becomes a writer, without a gap; not if anybody waits.
    ///
    /// # Safety
    /// The caller holds the lock for reading, upgradably if `upgradable`. Where the result is true,
    /// it holds the lock for writing from then on.
    pub(crate) unsafe fn try_upgrade_alone(&self, upgradable: bool) -> bool {
        let access = if upgradable { Access::Upgradable } else { Access::Shared };
        let alone = Word::FREE.taken(access);
        // Acquire: the sections of the readers before it, too, come before what follows (rule 3).
        // Release: the caller gives up its share as a reader.
        self.word
            .compare_exchange(alone, Word::WRITTEN, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// One of the adopted readers is upgradable.
    pub(crate) fn adopt_upgradable(&self) {
        // Relaxed: whoever publishes the lock afterwards does so with Release.
        self.word.change(Access::Shared, Access::Upgradable, Ordering::Relaxed);
    }

    /// Takes `UPGRADABLE` off the readers adopted: the upgradable one is not this lock's, as in
    /// [`disown_readers`](Self::disown_readers).
    pub(crate) fn disown_upgradable(&self) {
        // Relaxed: as it was adopted.
        self.word.change(Access::Upgradable, Access::Shared, Ordering::Relaxed);
    }

    /// Takes back `count` adopted readers, which are not this lock's. Nobody may have entered the
    /// lock meanwhile.
    pub(crate) fn disown_readers(&self, count: usize) {
        // Relaxed: as they were adopted. By subtraction: a thread that is late may be counted, too.
        self.word.leave_readers(count, Ordering::Relaxed);
    }
}

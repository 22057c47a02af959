//! For locks in a pool, which [thin](crate::thin) ones share one after the other: somebody
//! may come late, and take or count itself in what is another's lock by now.

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

    /// The caller, which has the lock for writing, has it no longer; nobody does.
    pub(crate) fn seal(&self) {
        // Release: its section comes before whatever is done to the lock next.
        self.word.set(Flags::SEALED, Ordering::Release);
    }

    /// A writer has the sealed lock.
    pub(crate) fn adopt_sealed_writer(&self) {
        // Relaxed: as readers are adopted.
        self.word.clear(Flags::SEALED, Ordering::Relaxed);
    }

    /// If the lock is sealed, it is free then, or its readers'. Nobody waits for it before this.
    pub(crate) fn unseal(&self) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word.is_sealed() {
            let open = word.without(Flags::SEALED.with(Flags::WRITER_LOCKED));
            // Both bits in one step: a reader that comes again finds no writer. Release: as
            // by a writer.
            match self.word.compare_exchange_weak(word, open, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Takes the lock for reading if nothing is in the way but those that wait; then, whether
    /// it was free.
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
        // SAFETY: it gives up a count as a reader inside does, which may be the last.
        unsafe { self.unlock_read() };
        None
    }

    /// The same for writing.
    #[inline(always)]
    pub(crate) fn write_past_queue(&self) -> Option<bool> {
        // Without a look: that would fetch the line twice, to read it and to write it.
        if self.try_write() {
            return Some(true);
        }
        self.in_tenure()?.steal_at_once(Access::Exclusive).then_some(false)
    }

    /// The same for reading upgradably.
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

    /// From the only reader, upgradable or not, to a writer, without a gap; not if anybody waits.
    ///
    /// # Safety
    /// The caller holds the lock for reading, in this way; where it is true, for writing then.
    pub(crate) unsafe fn try_upgrade_alone(&self, upgradable: bool) -> bool {
        let access = if upgradable { Access::Upgradable } else { Access::Shared };
        let alone = Word::FREE.taken(access);
        // Acquire: the sections of the readers before it, too, come before what follows
        // (rule 3). Release: nothing else hands its own on.
        self.word
            .compare_exchange(alone, Word::WRITTEN, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// One of the adopted readers is upgradable.
    pub(crate) fn adopt_upgradable(&self) {
        // Relaxed: whoever publishes the lock afterwards does so with Release.
        self.word.change(Access::Shared, Access::Upgradable, Ordering::Relaxed);
    }

    /// The adopted upgradable reader is not this lock's, as [`disown_readers`](Self::disown_readers).
    pub(crate) fn disown_upgradable(&self) {
        // Relaxed: as it was adopted.
        self.word.change(Access::Upgradable, Access::Shared, Ordering::Relaxed);
    }

    /// So many adopted readers are not this lock's, which nobody may have entered meanwhile.
    pub(crate) fn disown_readers(&self, count: usize) {
        // Relaxed: as they were adopted. By subtraction: who is late may be counted, too.
        self.word.leave_readers(count, Ordering::Relaxed);
    }
}

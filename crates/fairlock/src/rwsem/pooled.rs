//! What a lock of a pool needs, which [thin](crate::thin) locks have one after the other: a thread
//! may come late, and take (or count itself in) what is another lock's by now.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

use super::RwSem;
use super::policy::TenurePolicy;
use super::tenure::{Again, InTenure, PastQueue};
use super::word::{AtomicWord, Flags, Word};
use crate::platform::Platform;
use crate::wait::{Access, Kind, Thread, WaitContext, WaitError, Waiter};

/// A lock is calm when its count reaches this: one up for each acquisition that found it free,
/// [`CONFLICT`] down for each that did not. So many uncontended acquisitions save, in a thin lock,
/// what it costs to inflate it again. In acquisitions; compared with those that found the lock
/// free.
const CALM: u32 = if cfg!(fairlock_loom) { 1 } else { 32 };
/// A lock becomes thin only if less than one in so many of its acquisitions finds it taken. In
/// acquisitions; compared, as so many that found it free, with one that did not.
const CONFLICT: u32 = 4;

/// How often the lock was found free of late. Whoever has it counts; readers may overwrite each other's
/// counts.
///
/// The count is in the lock, in the cache line of the word that each acquisition writes. A count of
/// each thread, over all its locks, would cost no store to that line. But where a few of many locks
/// have a queue, threads find those as often as the others, and no lock would ever become thin.
#[doc(hidden)]
pub struct Calm(AtomicU32);

impl Calm {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// A thread has found the lock free, or not.
    #[inline(always)]
    pub(crate) fn note(&self, found_free: bool) {
        let before = self.0.load(Ordering::Relaxed);
        let now = if found_free { CALM.min(before + 1) } else { before.saturating_sub(CONFLICT) };
        if now != before {
            self.0.store(now, Ordering::Relaxed);
        }
    }

    /// Whether the lock was found free often enough to become thin.
    #[inline(always)]
    pub(crate) fn is_enough(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= CALM
    }

    /// Counting begins anew.
    #[inline(always)]
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl<P: Platform> RwSem<P> {
    /// The calling thread, `me`, takes the lock for reading if nothing is in the way but those that
    /// wait.
    #[inline(always)]
    #[must_use]
    pub(crate) fn read_past_queue(&self, me: &Thread<P>) -> Option<PastQueue> {
        // Before it is counted: else the writer would not find the lock free.
        if self.holder.has_awake_writer() {
            return None;
        }
        // Acquire: owns the lock if nothing was in the way (rule 3).
        let before = self.word.enter(Access::Shared, Ordering::Acquire);
        let stays = before.is_open_to_readers()
            || before.has_room() && self.in_tenure().is_some_and(|t| t.may_stay(me, before));
        if stays {
            return Some(PastQueue { kind: Kind::Reader, before });
        }
        self.leave_at_once(before)
    }

    /// A reader, counted already, that found `before`, may not stay.
    #[cold]
    #[inline(never)]
    fn leave_at_once(&self, before: Word) -> Option<PastQueue> {
        match self.in_tenure() {
            Some(tenure) if before.has_room() => tenure.take_count_back(),
            // SAFETY: the thread gives up a count as a reader inside does, and it may be the last
            // one.
            _ => unsafe { self.unlock_read() },
        }
        None
    }

    /// As [`read_past_queue`](Self::read_past_queue), for writing.
    #[inline(always)]
    #[must_use]
    pub(crate) fn write_past_queue(&self, me: &Thread<P>) -> Option<PastQueue> {
        // Without looking at the word first: that would fetch the line twice, to read it and to
        // write it. Where somebody waits the exchange would fail, which costs more.
        if !self.holder.is_awaited() && self.try_write() {
            return Some(PastQueue { kind: Kind::Writer, before: Word::FREE });
        }
        self.in_tenure()?.steal_in_turn(me, Access::Exclusive)
    }

    /// As [`write_past_queue`](Self::write_past_queue), with the note. Returns whether the lock was
    /// free, if it did.
    pub(crate) fn take_past_queue(&self) -> Option<bool> {
        let me = P::thread();
        let taken = self.write_past_queue(me)?;
        let found_free = taken.found_free();
        taken.note(self, me);
        Some(found_free)
    }

    /// As [`read_past_queue`](Self::read_past_queue), for reading upgradably.
    #[inline(always)]
    #[must_use]
    pub(crate) fn upgradable_past_queue(&self, me: &Thread<P>) -> Option<PastQueue> {
        self.in_tenure()?.steal_in_turn(me, Access::Upgradable)
    }

    // ---- a lock with the default policy, and a thread that had it last ----

    /// The calling thread, `me`, takes the lock in this way, if it had it last, somebody waits, and
    /// nothing else is in the way.
    #[inline(always)]
    #[must_use]
    pub(crate) fn take_again(&self, me: &Thread<P>, access: Access) -> Option<Again> {
        InTenure::of(self, TenurePolicy::DEFAULT).take_again(me, access)
    }

    /// The calling thread, `me`, leaves the lock as a writer, if somebody waits, and nobody is to be
    /// woken or given way to. Returns whether it did.
    #[inline(always)]
    pub(crate) fn leave_again(&self, me: &Thread<P>) -> bool {
        InTenure::of(self, TenurePolicy::DEFAULT).write_release_at_once(me)
    }

    /// As if somebody slept in the queue, and the calling thread had the lock last.
    #[cfg(all(test, feature = "std", not(fairlock_loom)))]
    pub(crate) fn seem_busy(&self) {
        self.word.set(Flags::WAITERS, Ordering::Relaxed);
        self.holder.set(P::thread());
    }

    // ---- awake, and asleep ----

    /// Takes the lock in this way without going to sleep for it.
    #[cold]
    pub(crate) fn take_awake(&self, access: Access, context: &WaitContext<'_, P>) -> bool {
        match (access, self.in_tenure()) {
            (Access::Shared, Some(t)) => t.compete(access, context) && self.keep_if_room().is_ok(),
            (Access::Shared, None) => self.try_read(),
            (Access::Upgradable, tenure) => {
                self.try_upgradable_read() || tenure.is_some_and(|t| t.compete(access, context))
            }
            (Access::Exclusive, Some(t)) => t.steal_at_once(access) || t.compete(access, context),
            (Access::Exclusive, None) => self.try_write(),
        }
    }

    /// The rest of the wait: sleeps.
    pub(crate) fn take_asleep(
        &self,
        access: Access,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        match (access, self.in_tenure()) {
            (Access::Shared, Some(tenure)) if self.word.load(Ordering::Relaxed).has_room() => {
                tenure.wait(access, context)?;
                self.keep_if_room()
            }
            (Access::Shared, _) => self.read_with(context.into()),
            (Access::Upgradable, _) => self.upgradable_read_with(context.into()),
            (Access::Exclusive, Some(tenure)) => tenure.wait(access, context),
            (Access::Exclusive, None) => self.write_with(context.into()),
        }
    }

    /// Queues a writer that sleeps, at a lock with the default policy. It is woken once it is next and
    /// the lock is left free, and takes it by [`write_queued`](Self::write_queued).
    ///
    /// # Safety
    /// The waiter is in no queue, and stays where it is until its thread has the lock.
    pub(crate) unsafe fn queue_sleeping_writer(&self, waiter: &Waiter<P>) {
        // SAFETY: the caller's promise.
        unsafe { InTenure::of(self, TenurePolicy::DEFAULT).queue_sleeping(waiter) };
    }

    /// The calling thread, whose waiter this is, was [queued](Self::queue_sleeping_writer) or is just
    /// being: waits until it has the lock.
    pub(crate) fn write_queued(&self, waiter: &Waiter<P>) {
        InTenure::of(self, TenurePolicy::DEFAULT).wait_for_ever(waiter);
    }

    /// Takes the lock, which follows the default policy, in this way if that needs no waiting; `again`:
    /// beside readers even past waiting writers. If not, whether a seal was in the way.
    pub(crate) fn try_take(&self, access: Access, again: bool) -> Result<(), bool> {
        if access == Access::Exclusive {
            return self.write_fast().map_err(Word::is_sealed);
        }
        let sealed = Cell::new(false);
        let may = |word: Word| {
            sealed.set(word.is_sealed());
            word.is_open_to_readers() && !(access == Access::Upgradable && word.is_upgradable())
                || again && word.is_joinable()
        };
        let taken = self.word.take_while(self.word.load(Ordering::Relaxed), access, may);
        taken.map(|_| ()).ok_or(sealed.get())
    }
}

/// The seal: a lock that is held for writing, by nobody in particular.
impl<P: Platform> AtomicWord<P> {
    /// Of a new lock, which nobody knows yet: without an operation on the word.
    pub(crate) fn make_sealed(&mut self) {
        *self = Self::new(Word::WRITTEN.with(Flags::SEALED));
    }

    /// The caller has the lock for writing; from here on it is sealed, and the caller has it no
    /// longer.
    pub(crate) fn seal(&self) {
        // Release: the caller's section comes before whatever is done to the lock next.
        self.set(Flags::SEALED, Ordering::Release);
    }

    /// The sealed lock becomes a writer's.
    pub(crate) fn adopt_sealed_writer(&self) {
        // Relaxed: whoever publishes the lock afterwards does so with Release.
        self.clear(Flags::SEALED, Ordering::Relaxed);
    }

    /// A sealed lock becomes free, or its readers'. Nobody waits for it before this.
    pub(crate) fn unseal(&self) {
        let mut word = self.load(Ordering::Relaxed);
        while word.is_sealed() {
            let open = word.without(Flags::SEALED.with(Flags::WRITER_LOCKED));
            // Both bits in one step, so that a reader that comes again finds no writer. Release: as
            // where a writer leaves.
            match self.compare_exchange_weak(word, open, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// The only reader, upgradable or not, seals the lock, and is still counted; it is not upgradable
    /// any more. Not if anybody waits.
    ///
    /// # Safety
    /// The caller holds the lock in this way; for reading from then on if the result is true.
    pub(crate) unsafe fn seal_alone(&self, access: Access) -> bool {
        // Acquire: the sections of the readers before it, too, come before what follows (rule 3).
        // Release: the next upgradable reader may write what this one has read.
        self.seal_from(Word::FREE.taken(access), Word::FREE.with_reader(), Ordering::AcqRel)
    }

    /// Seals the lock if it is free.
    pub(crate) fn seal_free(&self) -> bool {
        // Acquire: the sections before come before what follows.
        self.seal_from(Word::FREE, Word::FREE, Ordering::Acquire)
    }

    fn seal_from(&self, from: Word, to: Word, order: Ordering) -> bool {
        let sealed = to.with(Flags::SEALED.with(Flags::WRITER_LOCKED));
        self.compare_exchange(from, sealed, order, Ordering::Relaxed).is_ok()
    }

    /// Whether the lock is sealed.
    pub(crate) fn is_sealed(&self) -> bool {
        // Relaxed: whoever asks has closed the slot, or found it closed, and acquired that.
        self.load(Ordering::Relaxed).is_sealed()
    }

    /// One of the adopted readers is upgradable.
    pub(crate) fn adopt_upgradable(&self) {
        // Relaxed: whoever publishes the lock afterwards does so with Release.
        self.change(Access::Shared, Access::Upgradable, Ordering::Relaxed);
    }

    /// Takes `UPGRADABLE` off the readers adopted: the upgradable one is not this lock's, as in
    /// [`disown_readers`](Self::disown_readers).
    pub(crate) fn disown_upgradable(&self) {
        // Relaxed: as it was adopted.
        self.change(Access::Upgradable, Access::Shared, Ordering::Relaxed);
    }

    /// Takes back `count` adopted readers, which are not this lock's. Nobody may have entered the
    /// lock meanwhile.
    pub(crate) fn disown_readers(&self, count: usize) {
        // Relaxed: as they were adopted. By subtraction: a thread that is late may be counted, too.
        self.leave_readers(count, Ordering::Relaxed);
    }
}

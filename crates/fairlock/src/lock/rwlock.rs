//! The reader/writer lock of eight bytes: one word.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use super::Raw;
use super::holder::Holder;
use super::policy::Policy;
use super::slot::PooledPlatform;
use super::visible::looking;
use super::word::{Flags, Word};
use super::words::{Names, One, Words};
use crate::deadlock::{Id, Noted};
use crate::events::EventCounts;
use crate::platform::ConstZero;
use crate::wait::{Access, Wait, WaitContext, WaitError, nap};

/// A sleeping reader/writer lock of eight bytes, without data. See [`RwLock`](crate::RwLock), the one with data, for what
/// it promises and when it blocks.
///
/// A method that takes the lock comes in several forms:
///
/// | form | ends without the lock |
/// |---|---|
/// | `write` | never; `read` and `read_recursive` panic if no more readers can be counted |
/// | `try_write` | with `false`, immediately |
/// | `write_with` | as its [`Wait`] says; the methods that read, also with [`TooManyReaders`](WaitError::TooManyReaders) |
///
/// # Slots
///
/// A lock has a slot of a pool while threads wait for it. Where a thread has to wait for a lock without one, and the system
/// has no memory for it, or 134 million locks have one, the thread looks at the lock from time to time, and gets it in no order. A
/// lock with a policy of its own needs one from its first use, by any method, and has the default policy without.
pub struct RawRwLock<P: PooledPlatform> {
    pub(super) raw: Raw<One<P>>,
    id: Id,
}

impl<P: PooledPlatform> Noted for RawRwLock<P> {
    #[inline]
    fn id(&self) -> &Id {
        &self.id
    }
}

impl<P: PooledPlatform> RawRwLock<P> {
    /// A free lock that follows `policy`. An `aim` of more than three days is shortened to three days.
    pub fn new(policy: Policy) -> Self {
        Self { raw: Raw(One::new(Word::of_policy(policy))), id: Id::new() }
    }

    /// A free lock that follows the default policy.
    pub const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
    {
        Self { raw: Raw(One::new_const()), id: Id::new() }
    }

    /// As [`new`](Self::new), for statics.
    pub const fn with_policy(policy: Policy) -> Self
    where
        P: PooledPlatform<AtomicU64 = AtomicU64>,
    {
        let word = AtomicU64::new(Word::of_policy(policy).bits());
        Self { raw: Raw(One::of(word)), id: Id::new() }
    }

    #[inline(always)]
    pub(super) fn words(&self) -> &One<P> {
        &self.raw.0
    }

    // ---- read ----

    /// Takes the lock for reading; blocks until it has it.
    ///
    /// # Panics
    /// If there are [`TooManyReaders`](WaitError::TooManyReaders).
    #[inline]
    pub fn read(&self) {
        if let Some(me) = looking::<P>() {
            return self.read_looking(me);
        }
        if let Err(word) = self.words().take(Word::FREE, Access::Shared) {
            self.read_slow(word);
        }
    }

    /// Takes the lock for reading if that needs no waiting. Never blocks.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_read(&self) -> bool {
        self.read_shown() || self.try_enter(Access::Shared)
    }

    /// Takes the lock for reading; gives up as `wait` says.
    #[inline]
    pub fn read_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        if self.read_shown() { Ok(()) } else { self.enter_with(Access::Shared, wait) }
    }

    /// The lock had this word: one more reader is counted beside those inside, and takes its count back if the lock was
    /// closed meanwhile.
    #[inline(never)]
    pub(super) fn read_slow(&self, word: Word) {
        if !self.read_counted(word) {
            self.enter_for_ever_slow(Access::Shared);
        }
    }

    /// The attempt of that; returns whether the caller reads.
    #[inline(always)]
    pub(super) fn read_counted(&self, word: Word) -> bool {
        if !word.is_open_to_new_readers() {
            return false;
        }
        // Acquire: owns the lock if nothing was in the way.
        let before = self.words().enter(Access::Shared, Ordering::Acquire);
        if before.is_open_to_new_readers() || !before.is_odd() && self.raw.may_stay(before) {
            self.raw.note(Access::Shared, before);
            return true;
        }
        if before.is_visible() {
            return true; // it is counted
        }
        self.leave(Access::Shared);
        false
    }

    /// Gives up the lock held for reading.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    #[inline]
    pub unsafe fn unlock_read(&self) {
        if let Some(me) = looking::<P>() {
            return self.leave_looking(me);
        }
        self.leave(Access::Shared);
    }

    /// Takes the lock for reading, even past waiting writers if readers already hold it; otherwise like
    /// [`read`](Self::read). For a thread that may already hold the lock.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    #[inline]
    pub fn read_recursive(&self) {
        if !self.try_read_recursive() {
            self.read();
        }
    }

    /// As [`read_recursive`](Self::read_recursive), without waiting; false if the lock is
    /// [saturated](Self::is_saturated), too.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_read_recursive(&self) -> bool {
        // Such a thread never waits here: it is counted, so no writer is inside (one that upgrades may be about to be). That
        // goes for a lock that is visible no longer, too.
        self.enter_if(self.raw.load(), Access::Shared, |word| {
            word.is_joinable() || word.is_open(Access::Shared)
        })
    }

    /// As [`read_recursive`](Self::read_recursive); gives up as `wait` says.
    pub fn read_recursive_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        if self.try_read_recursive() { Ok(()) } else { self.read_with(wait) }
    }

    // ---- write ----

    /// Takes the lock for writing; blocks until it has it.
    #[inline]
    pub fn write(&self) {
        if let Err(word) = self.words().take(Word::FREE, Access::Exclusive) {
            self.write_slow(word);
        }
    }

    #[inline(never)]
    fn write_slow(&self, word: Word) {
        if !self.raw.steal_in_turn(word, Access::Exclusive) {
            self.enter_for_ever_slow(Access::Exclusive);
        }
    }

    /// Takes the lock for writing if that needs no waiting. It never waits for another thread's section; but if the lock is
    /// [visible](Self::show_readers), the call ends that first, by `membarrier` and a look at each thread's record, which may take tens of
    /// microseconds.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_write(&self) -> bool {
        self.try_enter(Access::Exclusive)
    }

    /// Takes the lock for writing; gives up as `wait` says.
    #[inline]
    pub fn write_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        self.enter_with(Access::Exclusive, wait)
    }

    /// Releases the lock held for writing. The call does not touch the lock after another thread can acquire it, so the
    /// next owner may free the lock even before the call returns.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    #[inline]
    pub unsafe fn unlock_write(&self) {
        self.leave(Access::Exclusive);
    }

    /// Turns the lock held for writing into one held for reading, with no gap in which another writer could get in, and
    /// lets queued readers in beside the caller. Never blocks.
    ///
    /// # Safety
    /// The caller holds the lock for writing; after the call, for reading.
    pub unsafe fn downgrade(&self) {
        self.become_reader(Access::Shared);
    }

    /// Releases the lock held for writing, to the queue if anyone waits: nobody gets in before the waiter whose turn it
    /// is.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    pub unsafe fn unlock_write_fair(&self) {
        self.raw.close_for_next();
        self.leave(Access::Exclusive);
    }

    /// Releases the lock held for reading; if anyone waits, nobody gets in before the waiter whose turn it is. Other
    /// readers stay inside.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    pub unsafe fn unlock_read_fair(&self) {
        self.raw.close_for_next();
        // SAFETY: the caller's promise.
        unsafe { self.unlock_read() };
    }

    // ---- what all ways share ----

    /// Takes the lock in this way if that needs no waiting.
    #[inline]
    pub(super) fn try_enter(&self, access: Access) -> bool {
        match self.words().take(Word::FREE, access) {
            Ok(()) => true,
            Err(word) => self.try_enter_slow(word, access),
        }
    }

    #[inline(never)]
    fn try_enter_slow(&self, word: Word, access: Access) -> bool {
        self.enter_if(word, access, |word| word.is_open(access))
            || self.words().forgets_stray(access)
                && self.enter_if(self.raw.load(), access, |word| word.is_open(access))
            || access == Access::Shared
                && self.raw.try_past_writers(access, self.raw.priority(word))
            || self.raw.steals_past_late(access)
    }

    /// Takes the lock, which had this word, in this way, as long as `may` allows it for the word. Whether it did.
    fn enter_if(&self, mut word: Word, access: Access, may: impl Fn(Word) -> bool) -> bool {
        loop {
            while word.is_odd() {
                if self.words().enter_odd(word, access) {
                    return true;
                }
                word = self.raw.load();
            }
            let Err(now) = self.raw.enter_while(word, access, &may) else { return true };
            word = self.raw.here(now);
            if word == now && !now.is_odd() {
                return false;
            }
        }
    }

    /// Takes the lock in this way; gives up as `wait` says.
    #[inline]
    pub(super) fn enter_with(&self, access: Access, wait: Wait<'_, P>) -> Result<(), WaitError> {
        // Not counted before it has the lock: readers that come and give up repeatedly could hide a free lock from a
        // writer at each of its looks.
        match self.words().take(Word::FREE, access) {
            Ok(()) => Ok(()),
            Err(_) => self.enter_slow(access, &wait.begin()),
        }
    }

    #[inline]
    pub(super) fn enter_for_ever(&self, access: Access) {
        if self.words().take(Word::FREE, access).is_err() {
            self.enter_for_ever_slow(access);
        }
    }

    #[cold]
    fn enter_for_ever_slow(&self, access: Access) {
        if let Err(error) = self.enter_slow(access, &WaitContext::FOREVER) {
            panic!("{error}");
        }
    }

    fn enter_slow(&self, access: Access, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let word = self.raw.load();
        if word.is_full() && access != Access::Exclusive {
            return Err(WaitError::TooManyReaders);
        }
        let pauses = access == Access::Shared && self.raw.holds_off(word);
        if !word.is_odd() && !pauses && self.raw.steal_in_turn(word, access) {
            return Ok(());
        }
        self.raw.take_slow(access, context)
    }

    /// Leaves the lock, which the caller holds in this way.
    #[inline(always)]
    pub(super) fn leave(&self, access: Access) {
        let raw = core::ptr::from_ref(&self.raw);
        let before = self.words().leave(access);
        // From here on the lock may be gone (R5).
        if before != Word::FREE.taken(access) {
            Raw::left(raw, before, access);
        }
    }

    /// The holder becomes one of another kind, in one step; returns the word before.
    #[inline(always)]
    pub(super) fn change(&self, from: Access, to: Access) -> Word {
        self.words().convert(from, to)
    }

    /// The lock, once it is neither visible nor unused.
    pub(super) fn settle(&self) {
        loop {
            let word = self.raw.load();
            if !word.is_odd() {
                return;
            }
            self.words().settle(word);
        }
    }

    /// The lock has a slot from here on, as if a thread had waited. (Not a visible one.)
    #[cfg(all(test, fairlock_loom))]
    pub(super) fn bring_slot(&self) {
        self.settle();
        _ = self.raw.with_slot(|_, slot| Some(self.words().keep(slot.name()).is_ok()));
    }

    #[cfg(all(test, fairlock_loom))]
    pub(super) fn words_mut(&mut self) -> &mut One<P> {
        &mut self.raw.0
    }

    // ---- looking ----

    /// Whether anyone holds the lock at this instant.
    pub fn is_locked(&self) -> bool {
        loop {
            let word = self.raw.load();
            if !word.is_odd() {
                return !word.is_free();
            }
            if word.is_unused() {
                return false;
            }
            let is_read = self.words().is_read_visibly(word);
            if self.raw.load() == word {
                return is_read;
            }
        }
    }

    /// Whether a writer holds the lock at this instant.
    pub fn is_write_locked(&self) -> bool {
        self.raw.load().has_writer_inside()
    }

    /// Whether a thread is queued at this instant.
    pub fn has_waiters(&self) -> bool {
        self.raw.here(self.raw.load()).has_waiters()
    }

    /// Whether as many readers hold the lock as can be counted.
    pub fn is_saturated(&self) -> bool {
        self.raw.load().is_full()
    }

    /// The policy this lock was made with.
    pub fn policy(&self) -> Policy {
        let word = self.raw.load();
        if word.is_unused() {
            return word.policy();
        }
        self.raw.lock_queue().map_or(Policy::DEFAULT, |queued| queued.policy)
    }

    /// Counts this lock's [events](crate::events::Event) in `counts` too; with `None`, no longer. Several locks may share
    /// one `counts`. From then on the lock keeps its slot.
    pub fn set_events(&self, counts: Option<&'static EventCounts>) {
        loop {
            self.settle();
            let set = self.raw.with_slot(|_, slot| {
                if self.raw.load().name() != slot.name() {
                    self.words().keep(slot.name()).ok()?;
                }
                slot.holder.set_stays(true);
                slot.events.set(counts);
                Some(())
            });
            match set {
                Ok(()) => return,
                Err(word) if word.is_odd() => {}
                Err(_) => nap::<P>(),
            }
        }
    }

    /// The bound, in nanoseconds, on the wait of a thread with `grants_ahead` grants, to either side, before its own, from
    /// what the lock has measured so far: the sum of (tenure + handoff) over these grants, if at least half as many
    /// threads want the lock. A thread that retries with timeouts may be away when its turn comes, and waits at most
    /// twice as long. The bound does not include the last sections of holders, nor the time for which the system does
    /// not run threads that could run.
    pub fn planned_wait_ns(&self, grants_ahead: usize) -> u64 {
        self.raw.planned_wait_ns(grants_ahead)
    }

    /// Gives the slot back to the pool, unless somebody waits. Returns whether the lock has none
    /// now. Other threads may use the lock meanwhile.
    pub fn trim(&self) -> bool {
        let name = self.raw.load().name();
        if name != 0 {
            self.raw.drop_name(name);
        }
        self.raw.load().name() == 0
    }

    /// Whether the lock has a slot at this instant.
    #[doc(hidden)]
    pub fn has_slot(&self) -> bool {
        self.raw.load().name() != 0
    }

    /// Whether the lock keeps its slot until it is dropped, once it has one: it has a policy of its own, or counts events.
    #[doc(hidden)]
    pub fn keeps_slot(&self) -> bool {
        let word = self.raw.load();
        word.is_unused() || Raw::<One<P>>::holder(word).is_some_and(Holder::stays)
    }

    /// `count` more readers hold this lock, which nobody else uses.
    ///
    /// # Safety
    /// No writer holds the lock, and those counted already leave room for these.
    #[doc(hidden)]
    pub unsafe fn adopt_readers(&self, count: usize) {
        self.settle();
        self.words().enter_readers(count.min(super::word::READERS_LIMIT));
    }
}

impl<P: PooledPlatform> One<P> {
    /// Whether only waiters seemed to be in the way of a thread that takes the lock in this way, and their queue was not this
    /// lock's: that is forgotten. Does not block.
    fn forgets_stray(&self, access: Access) -> bool {
        let word = self.load();
        let seems_awaited = || word.without(Flags::QUEUE).is_open(access);
        P::NAMES_MAY_BE_STRAY && seems_awaited() && {
            drop(Raw::of(self).try_lock_queue(word));
            !self.load().has_waiters()
        }
    }

    /// The lock, which was not used yet, with this word, keeps a slot with its policy from here on. Without memory
    /// for one it has the platform's policy.
    #[cold]
    pub(super) fn begin(&self, word: Word) {
        // Where names may be stray, so is the word: no lock is made with a policy there.
        let slot = if P::NAMES_MAY_BE_STRAY { None } else { P::slots().take() };
        let Some(slot) = slot else {
            // Relaxed: there is nothing to see. If the exchange fails, another thread has done it.
            _ = self.exchange(word, Word::FREE, Ordering::Relaxed);
            return;
        };
        let queued = slot.begin(super::Raw::<Self>::of(self).as_known(), word.policy());
        let free = Word::FREE.named(slot.name());
        // Release: the slot is as it should be for a thread that follows the name.
        if self.exchange(word, free, Ordering::AcqRel).is_err() {
            P::slots().give(queued);
        }
    }

    /// The lock, which is visible or unused, with this word, is so no longer.
    pub(super) fn settle(&self, word: Word) {
        if word.is_unused() {
            self.begin(word);
        } else {
            self.revoke(word);
        }
    }
}

impl<P: PooledPlatform> Drop for RawRwLock<P> {
    fn drop(&mut self) {
        self.words().forget_readers();
        self.raw.give_slot_back();
    }
}

impl<P: PooledPlatform> fmt::Debug for RawRwLock<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRwLock")
            .field("locked", &self.is_locked())
            .field("write_locked", &self.is_write_locked())
            .field("waiters", &self.has_waiters())
            .field("visible", &self.shows_readers())
            .finish()
    }
}

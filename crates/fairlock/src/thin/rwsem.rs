//! The reader/writer lock of eight bytes.
//!
//! | bits | thin | inflated | nascent |
//! |---|---|---|---|
//! | 0 | 0 | 1: `INFLATED` | 0 |
//! | 1 | `WRITER`: a writer is inside | 0 | 0 |
//! | 2 | 0 | `STICKY`: stays inflated | 0 |
//! | 3 | 0 | 0 | 1: `NASCENT` |
//! | 4 | `UPGRADABLE`: one of the readers, counted, may become the writer | 0 | a policy: see [`nascent`] |
//! | 5-7 | 0 | 0 | the same |
//! | 8-63 | how many readers are inside; full at [`FULL`] | 8-39: index of the slot | the same |
//!
//! Zero is a free lock. Nascent is a lock that follows another policy than the default one and
//! was not used yet: its first use inflates it for good. So does [`ThinRwSem::set_events`].
//!
//! Orderings: entering is an Acquire and leaving a Release, so one section happens before
//! the next. A section inside the thin lock happens before those in the slot, as the
//! installing exchange acquires what came before it, and whoever follows the index acquires
//! that. Becoming thin is a release by whoever has acquired the full lock alone.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use super::slot::Slot;
use super::{marks, nascent};
use crate::events::EventCounts;
use crate::fault::{Fault, active};
use crate::platform::{Atomic, ConstZero, Platform, PooledPlatform};
use crate::rwsem::{MOST_READERS, Policy, RwSem, YIELDS, yield_to_others};
use crate::wait::{CancelToken, WaitContext, WaitError};

const INFLATED: u64 = 1 << 0;
const WRITER: u64 = 1 << 1;
const STICKY: u64 = 1 << 2;
pub(super) const NASCENT: u64 = 1 << 3;
const UPGRADABLE: u64 = 1 << 4;
const READER_SHIFT: u32 = 8;
const READER: u64 = 1 << READER_SHIFT;
/// The count of readers is full: no more stay.
const FULL: u64 = (MOST_READERS as u64) << READER_SHIFT;
/// The lock is elsewhere.
const ELSEWHERE: u64 = INFLATED | NASCENT;

/// How often a thread looks again at a thin lock that is taken before it inflates it,
const LOOKS: u32 = 3;
/// and how long for the first time; each look is twice as long as the one before. Then it gives
/// its CPU to others, as at a full lock ([`YIELDS`]).
const LOOK_NS: u64 = 200;
/// How often a thread tries before it takes the others for a crowd, which is better off with
/// a full lock's `fetch_add`.
const ATTEMPTS: u32 = 4;

/// A sleeping reader/writer lock of eight bytes, without data; see
/// [`RwLock`](crate::RwLock) for the one with data.
///
/// It is an [`RwSem`] while somebody waits, which it has of a pool. A policy other than the
/// default one, and [events](crate::events), are of that: such a lock keeps its `RwSem`, once it
/// is used, until it is dropped. A lock that is dropped while a forgotten guard holds it keeps
/// it for good.
pub struct ThinRwSem<P: PooledPlatform> {
    pub(super) word: P::AtomicU64,
}

/// How a thread wants to be inside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    ReadRecursive,
    Upgradable,
    Write,
}

/// What came of an attempt to enter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Entered,
    /// Somebody is in the way, in a thin lock.
    Taken,
    /// The same, in an inflated one.
    TakenElsewhere,
    /// Others changed the word, time and again.
    Crowded,
    /// One more reader cannot be counted, in a thin lock.
    Full,
    /// The lock has to be inflated.
    Nascent,
}

impl<P: PooledPlatform> ThinRwSem<P> {
    /// A free lock that follows `policy`, but an aim or a `handoff_after` of more than nine hours is
    /// shortened to that.
    pub fn new(policy: Policy) -> Self {
        Self { word: P::AtomicU64::new(nascent::word(policy)) }
    }

    /// A free lock that follows the default policy.
    pub const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
    {
        Self { word: ConstZero::ZERO }
    }

    /// As [`new`](Self::new), for statics.
    pub const fn with_policy(policy: Policy) -> Self
    where
        P: PooledPlatform<AtomicU64 = AtomicU64>,
    {
        Self { word: AtomicU64::new(nascent::word(policy)) }
    }

    /// The policy this lock was made with.
    pub fn policy(&self) -> &Policy {
        if self.load() & (NASCENT | STICKY) == 0 {
            return &Policy::DEFAULT;
        }
        self.on_full(RwSem::policy)
    }

    /// Counts this lock's [events](crate::events::Event) in `counts` too, or no
    /// longer. Several locks may share them. From then on the lock stays inflated.
    pub fn set_events(&self, counts: Option<&'static EventCounts>) {
        self.on_full(|sem| {
            sem.set_events(counts);
            // Pinned, so the word names the slot now and later. Relaxed: not ownership.
            self.word.fetch_or(STICKY, Ordering::Relaxed);
        });
    }

    // ---- read ----

    /// Takes the lock for reading; blocks until it has it.
    ///
    /// # Panics
    /// Where [`checked_read`](Self::checked_read) fails.
    #[inline]
    pub fn read(&self) {
        if !self.read_at_once() && !self.read_full_at_once() {
            self.enter_for_ever(Access::Read);
        }
    }

    /// Takes the lock for reading; blocks until it has it, or there are
    /// [`TooManyReaders`](WaitError::TooManyReaders).
    pub fn checked_read(&self) -> Result<(), WaitError> {
        self.read_with(&WaitContext::FOREVER)
    }

    /// Takes the lock for reading if that needs no waiting. It may fail while another
    /// thread begins to wait, if only readers are inside.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_read(&self) -> bool {
        self.read_at_once() || self.try_enter(Access::Read)
    }

    /// As [`checked_read`](Self::checked_read), or gives up at `deadline` (nanoseconds
    /// of [`Platform::now`]).
    pub fn read_until(&self, deadline: u64) -> Result<(), WaitError> {
        self.read_with(&WaitContext::until(deadline))
    }

    /// As [`checked_read`](Self::checked_read), or gives up when a signal handler ran.
    pub fn read_interruptible(&self) -> Result<(), WaitError> {
        self.read_with(&WaitContext::interruptible())
    }

    /// As [`checked_read`](Self::checked_read), or gives up when `token` is cancelled.
    pub fn read_cancellable(&self, token: &CancelToken<P>) -> Result<(), WaitError> {
        self.read_with(&WaitContext::cancellable(token))
    }

    pub(crate) fn read_with(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        if self.read_at_once() { Ok(()) } else { self.enter(Access::Read, context) }
    }

    /// Enters a thin lock as a reader, if nothing is in the way, and nobody else comes at the
    /// same time.
    #[inline(always)]
    fn read_at_once(&self) -> bool {
        // Acquire: owns the lock on success (rule 3).
        let count = |word| self.exchange(word, word + READER, Ordering::Acquire);
        let word = self.expected(0);
        may_count(word)
            && match count(word) {
                Ok(()) => true,
                Err(word) => may_count(word) && count(word).is_ok(),
            }
    }

    /// Enters an inflated lock as a reader, if nothing is in the way but those that wait.
    #[inline(never)] // or it would be in every caller's loop
    fn read_full_at_once(&self) -> bool {
        self.full_at_once(Access::Read, RwSem::read_past_queue)
    }

    /// Gives up the lock held for reading.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    #[inline]
    pub unsafe fn unlock_read(&self) {
        let word = self.expected(READER);
        if word & INFLATED != 0 {
            self.leave_full(word, Access::Read);
        } else if self.exchange(word, word - READER, Ordering::Release).is_err() {
            // Release: what was read under the lock stays before the next writer.
            self.leave(READER, Access::Read);
        }
    }

    /// Takes the lock for reading even past waiting writers if readers hold it
    /// already; else like [`read`](Self::read). For a thread that may hold it.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    #[inline]
    pub fn read_recursive(&self) {
        if !self.read_at_once() {
            self.enter_for_ever(Access::ReadRecursive);
        }
    }

    /// As [`read_recursive`](Self::read_recursive), or there are
    /// [`TooManyReaders`](WaitError::TooManyReaders).
    pub fn checked_read_recursive(&self) -> Result<(), WaitError> {
        self.read_recursive_with(&WaitContext::FOREVER)
    }

    /// As [`checked_read_recursive`](Self::checked_read_recursive), or gives up at
    /// `deadline` (nanoseconds of [`Platform::now`]).
    pub fn read_recursive_until(&self, deadline: u64) -> Result<(), WaitError> {
        self.read_recursive_with(&WaitContext::until(deadline))
    }

    /// As [`checked_read_recursive`](Self::checked_read_recursive), or gives up when a
    /// signal handler ran.
    pub fn read_recursive_interruptible(&self) -> Result<(), WaitError> {
        self.read_recursive_with(&WaitContext::interruptible())
    }

    /// As [`checked_read_recursive`](Self::checked_read_recursive), or gives up when
    /// `token` is cancelled.
    pub fn read_recursive_cancellable(&self, token: &CancelToken<P>) -> Result<(), WaitError> {
        self.read_recursive_with(&WaitContext::cancellable(token))
    }

    /// As [`read_recursive`](Self::read_recursive), without waiting; false if the lock
    /// is [saturated](Self::is_saturated), too.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_read_recursive(&self) -> bool {
        self.read_at_once() || self.try_enter(Access::ReadRecursive)
    }

    pub(crate) fn read_recursive_with(
        &self,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        if self.read_at_once() { Ok(()) } else { self.enter(Access::ReadRecursive, context) }
    }

    // ---- write ----

    /// Takes the lock for writing; blocks until it has it.
    #[inline]
    pub fn write(&self) {
        if !self.write_at_once() && !self.write_full_at_once() {
            self.enter_for_ever(Access::Write);
        }
    }

    /// Takes the lock for writing if that needs no waiting. It may fail while another
    /// thread begins to wait.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_write(&self) -> bool {
        self.write_at_once() || self.try_enter(Access::Write)
    }

    /// Takes the lock for writing, or gives up at `deadline` (nanoseconds of
    /// [`Platform::now`]).
    pub fn write_until(&self, deadline: u64) -> Result<(), WaitError> {
        self.write_with(&WaitContext::until(deadline))
    }

    /// Takes the lock for writing, or gives up when a signal handler ran.
    pub fn write_interruptible(&self) -> Result<(), WaitError> {
        self.write_with(&WaitContext::interruptible())
    }

    /// Takes the lock for writing, or gives up when `token` is cancelled.
    pub fn write_cancellable(&self, token: &CancelToken<P>) -> Result<(), WaitError> {
        self.write_with(&WaitContext::cancellable(token))
    }

    pub(crate) fn write_with(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        if self.write_at_once() { Ok(()) } else { self.enter(Access::Write, context) }
    }

    /// Enters a free thin lock as a writer.
    #[inline(always)]
    fn write_at_once(&self) -> bool {
        self.expected(0) == 0 && self.exchange(0, WRITER, Ordering::Acquire).is_ok()
    }

    /// Enters an inflated lock as a writer, if nobody is inside.
    #[inline(never)]
    fn write_full_at_once(&self) -> bool {
        self.full_at_once(Access::Write, RwSem::write_past_queue)
    }

    /// One attempt of `take` at the full lock: it says whether that was free.
    #[inline(always)]
    fn full_at_once(&self, access: Access, take: impl Fn(&RwSem<P>) -> Option<bool>) -> bool {
        let word = self.load();
        if word & INFLATED == 0 {
            return false;
        }
        let found_free = take(&self.slot(word).full);
        found_free.is_some_and(|found_free| self.verify(word, access, found_free))
    }

    /// The caller has just taken the full lock that `word` named, which was free or not: whether
    /// that is this lock's. If not, the caller does not have it any more.
    #[inline(always)]
    fn verify(&self, word: u64, access: Access, found_free: bool) -> bool {
        let is_mine = self.names(word) || active(Fault::TakesAnySlot);
        if is_mine {
            self.slot(word).note(found_free);
            marks::mark::<P, _>(self);
        } else {
            // SAFETY: just taken: another lock's.
            unsafe { access.leave(&self.slot(word).full) };
        }
        is_mine
    }

    /// Gives up the lock held for writing. Nothing touches it after another thread can
    /// have it, so the next owner may free it even before this returns.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    #[inline]
    pub unsafe fn unlock_write(&self) {
        // Release: what was written is seen by whoever takes the lock next.
        let word = self.expected(WRITER);
        if word & INFLATED != 0 {
            self.leave_full(word, Access::Write);
        } else if let Err(word) = self.exchange(WRITER, 0, Ordering::Release) {
            self.leave_full(word, Access::Write);
        }
    }

    /// Turns the lock held for writing into one held for reading, with no gap in which another
    /// writer could get in, and lets queued readers in beside the caller. Never blocks.
    ///
    /// # Safety
    /// The caller holds the lock for writing; after the call, for reading.
    pub unsafe fn downgrade(&self) {
        // Release: the readers let in see what was written.
        if let Err(word) = self.exchange(WRITER, READER, Ordering::Release) {
            // SAFETY: the caller's promise; a holder's slot stays.
            unsafe { self.slot(word).full.downgrade() }
        }
    }

    /// Gives up the lock held for writing, to the queue if anyone waits: nobody
    /// gets in before the waiter whose turn it is.
    ///
    /// # Safety
    /// The caller holds the lock for writing.
    pub unsafe fn unlock_write_fair(&self) {
        let word = self.load();
        // SAFETY: the caller's promise; a holder's slot stays.
        unsafe {
            match word & INFLATED != 0 {
                true => self.slot(word).full.unlock_write_fair(),
                false => self.unlock_write(),
            }
        }
    }

    /// Gives up the lock held for reading; if anyone waits, nobody gets in
    /// before the waiter whose turn it is. Other readers inside stay inside.
    ///
    /// # Safety
    /// The caller holds the lock for reading.
    pub unsafe fn unlock_read_fair(&self) {
        let word = self.load();
        // SAFETY: the caller's promise; a holder's slot stays.
        unsafe {
            match word & INFLATED != 0 {
                true => self.slot(word).full.unlock_read_fair(),
                false => self.unlock_read(),
            }
        }
    }

    // ---- upgradable ----

    /// As [`RwSem::upgradable_read`].
    #[inline]
    pub fn upgradable_read(&self) {
        if !self.upgradable_at_once()
            && !self.full_at_once(Access::Upgradable, RwSem::upgradable_past_queue)
        {
            self.enter_for_ever(Access::Upgradable);
        }
    }

    /// As [`RwSem::try_upgradable_read`]. It may fail while another thread begins to wait.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_upgradable_read(&self) -> bool {
        self.upgradable_at_once() || self.try_enter(Access::Upgradable)
    }

    /// As [`RwSem::upgradable_read_until`].
    pub fn upgradable_read_until(&self, deadline: u64) -> Result<(), WaitError> {
        self.upgradable_with(&WaitContext::until(deadline))
    }

    /// As [`RwSem::upgradable_read_interruptible`].
    pub fn upgradable_read_interruptible(&self) -> Result<(), WaitError> {
        self.upgradable_with(&WaitContext::interruptible())
    }

    /// As [`RwSem::upgradable_read_cancellable`].
    pub fn upgradable_read_cancellable(&self, token: &CancelToken<P>) -> Result<(), WaitError> {
        self.upgradable_with(&WaitContext::cancellable(token))
    }

    fn upgradable_with(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        if self.upgradable_at_once() { Ok(()) } else { self.enter(Access::Upgradable, context) }
    }

    /// Enters a free thin lock upgradably.
    #[inline(always)]
    fn upgradable_at_once(&self) -> bool {
        // As `write_at_once`.
        self.expected(0) == 0 && self.exchange(0, READER | UPGRADABLE, Ordering::Acquire).is_ok()
    }

    /// As [`RwSem::unlock_upgradable`].
    ///
    /// # Safety
    /// The caller holds the lock upgradably.
    #[inline]
    pub unsafe fn unlock_upgradable(&self) {
        let word = self.expected(READER | UPGRADABLE);
        let next = word.wrapping_sub(READER | UPGRADABLE);
        // Release: what was read under the lock stays before the next writer.
        if word & INFLATED != 0 || self.exchange(word, next, Ordering::Release).is_err() {
            self.leave(READER | UPGRADABLE, Access::Upgradable);
        }
    }

    /// As [`RwSem::unlock_upgradable_fair`].
    ///
    /// # Safety
    /// The caller holds the lock upgradably.
    pub unsafe fn unlock_upgradable_fair(&self) {
        let word = self.load();
        // SAFETY: the caller's promise; a holder's slot stays.
        unsafe {
            match word & INFLATED != 0 {
                true => self.slot(word).full.unlock_upgradable_fair(),
                false => self.unlock_upgradable(),
            }
        }
    }

    /// As [`RwSem::downgrade_upgradable`].
    ///
    /// # Safety
    /// The caller holds the lock upgradably; after the call, for reading.
    pub unsafe fn downgrade_upgradable(&self) {
        let mut word = self.load();
        while word & INFLATED == 0 {
            // Release: the next upgradable reader may write what this one has read.
            match self.exchange(word, word & !UPGRADABLE, Ordering::Release) {
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
        // SAFETY: the caller's promise; a holder's slot stays.
        unsafe { self.slot(word).full.downgrade_upgradable() }
    }

    /// As [`RwSem::downgrade_to_upgradable`].
    ///
    /// # Safety
    /// The caller holds the lock for writing; after the call, upgradably.
    pub unsafe fn downgrade_to_upgradable(&self) {
        // Release: the readers let in see what was written.
        if let Err(word) = self.exchange(WRITER, READER | UPGRADABLE, Ordering::Release) {
            // SAFETY: the caller's promise; a holder's slot stays.
            unsafe { self.slot(word).full.downgrade_to_upgradable() }
        }
    }

    /// As [`RwSem::upgrade`].
    ///
    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing.
    #[inline]
    pub unsafe fn upgrade(&self) {
        // SAFETY: the caller's promise. Waiting for ever ends with the lock only.
        let _ = unsafe { self.upgrade_with(&WaitContext::FOREVER) };
    }

    /// As [`RwSem::try_upgrade`].
    ///
    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing where it is true.
    #[inline]
    #[must_use = "it says in which way the caller holds the lock"]
    pub unsafe fn try_upgrade(&self) -> bool {
        // Acquire: owns what readers have left (rule 3).
        match self.exchange(READER | UPGRADABLE, WRITER, Ordering::Acquire) {
            Ok(()) => true,
            // By way of a pin: the slot may be sealed still. SAFETY: the caller's promise.
            Err(word) if word & INFLATED != 0 => self.on_full(|sem| unsafe { sem.try_upgrade() }),
            Err(_) => false,
        }
    }

    /// As [`RwSem::upgrade_until`].
    ///
    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing if it succeeded.
    pub unsafe fn upgrade_until(&self, deadline: u64) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        unsafe { self.upgrade_with(&WaitContext::until(deadline)) }
    }

    /// As [`RwSem::upgrade_interruptible`].
    ///
    /// # Safety
    /// As [`upgrade_until`](Self::upgrade_until).
    pub unsafe fn upgrade_interruptible(&self) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        unsafe { self.upgrade_with(&WaitContext::interruptible()) }
    }

    /// As [`RwSem::upgrade_cancellable`].
    ///
    /// # Safety
    /// As [`upgrade_until`](Self::upgrade_until).
    pub unsafe fn upgrade_cancellable(&self, token: &CancelToken<P>) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        unsafe { self.upgrade_with(&WaitContext::cancellable(token)) }
    }

    /// # Safety
    /// As [`upgrade_until`](Self::upgrade_until).
    #[inline]
    unsafe fn upgrade_with(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        unsafe {
            if self.try_upgrade() {
                return Ok(());
            }
            // Readers are inside: those that a thin lock counts, the full one adopts.
            self.on_full(|sem| sem.upgrade_with(context))
        }
    }

    // ---- looking ----

    /// Whether anyone holds the lock at this instant.
    pub fn is_locked(&self) -> bool {
        self.look(|word| word != 0, RwSem::is_locked)
    }

    /// Whether a writer holds the lock at this instant.
    pub fn is_write_locked(&self) -> bool {
        self.look(|word| word & WRITER != 0, RwSem::is_write_locked)
    }

    /// Whether a thread is queued at this instant.
    pub fn has_waiters(&self) -> bool {
        self.look(|_| false, RwSem::has_waiters)
    }

    /// As [`RwSem::is_saturated`].
    pub fn is_saturated(&self) -> bool {
        self.look(|word| word >= FULL, RwSem::is_saturated)
    }

    /// As [`RwSem::planned_wait_ns`].
    pub fn planned_wait_ns(&self, grants_ahead: usize) -> Option<u64> {
        self.on_full(|sem| sem.planned_wait_ns(grants_ahead))
    }

    /// Whether the lock is an [`RwSem`] of the pool at this instant.
    #[doc(hidden)]
    pub fn is_inflated(&self) -> bool {
        self.load() & INFLATED != 0
    }

    /// Whether the lock keeps its full one, once it is used, until it is dropped.
    pub fn keeps_full(&self) -> bool {
        self.load() & (NASCENT | STICKY) != 0
    }

    /// Gives the full lock back to the pool, unless somebody holds it or waits, or the lock
    /// [keeps](Self::keeps_full) it: whether the lock has none now. Others may use it meanwhile.
    pub fn trim(&self) -> bool {
        let word = self.load();
        if word & INFLATED != 0 && word & STICKY == 0 && self.try_write() {
            let word = self.load();
            // SAFETY: just taken; a holder's slot stays.
            unsafe {
                if word & INFLATED == 0 || word & STICKY != 0 {
                    self.unlock_write();
                } else if !self.deflate(word, self.slot(word)) {
                    self.slot(word).full.unlock_write();
                }
            }
        }
        !self.is_inflated()
    }

    /// `count` more readers hold this lock, which nobody else uses.
    #[doc(hidden)]
    pub fn adopt_readers(&self, count: usize) {
        if self.load() & ELSEWHERE == 0 {
            self.word.fetch_add(count.min(MOST_READERS) as u64 * READER, Ordering::Relaxed);
        } else {
            self.on_full(|sem| sem.adopt_readers(count));
        }
    }

    fn look<R>(&self, thin: impl Fn(u64) -> R, full: impl Fn(&RwSem<P>) -> R) -> R {
        loop {
            let word = self.load();
            if word & INFLATED == 0 {
                return thin(if word & NASCENT != 0 { 0 } else { word });
            }
            let seen = full(&self.slot(word).full);
            if self.names(word) {
                return seen;
            }
        }
    }

    // ---- the ways in ----

    #[cold]
    fn enter_for_ever(&self, access: Access) {
        if let Err(error) = self.enter(access, &WaitContext::FOREVER) {
            panic!("{error}");
        }
    }

    /// The way in where one exchange does not do.
    fn enter(&self, access: Access, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let mut looks = 0;
        loop {
            match self.attempt(access, false, |access, sem| access.awake(sem, context)) {
                Entry::Entered => return Ok(()),
                Entry::Full => return Err(WaitError::TooManyReaders),
                Entry::Taken if looks < LOOKS => {
                    P::spin_until(&self.word, LOOK_NS << looks, |word| !is_taken(access, word));
                    looks += 1;
                }
                Entry::Taken if looks < LOOKS + YIELDS && yield_to_others(context) => looks += 1,
                Entry::Taken | Entry::TakenElsewhere => break,
                // More readers at once than a word of its own can take, or another policy.
                Entry::Crowded | Entry::Nascent => _ = self.inflated(),
            }
        }
        self.on_full(|sem| match access {
            Access::Read => sem.read_asleep(context),
            Access::ReadRecursive => sem.read_recursive_with(context),
            Access::Upgradable => sem.upgradable_with(context),
            Access::Write => sem.write_asleep(context),
        })
    }

    /// Enters without waiting; only a nascent lock is inflated for that.
    fn try_enter(&self, access: Access) -> bool {
        loop {
            match self.attempt(access, true, Access::at_once) {
                Entry::Entered => return true,
                Entry::Taken | Entry::TakenElsewhere | Entry::Full => return false,
                // Lock-free: others were quicker.
                Entry::Crowded => {}
                Entry::Nascent => self.on_full(|_| ()),
            }
        }
    }

    /// Enters if that needs no waiting. `full` is the attempt at a full lock, and `is_calm`
    /// whether that lock was free if it succeeds.
    #[inline(always)]
    fn attempt(
        &self,
        access: Access,
        is_calm: bool,
        full: impl Fn(Access, &RwSem<P>) -> bool,
    ) -> Entry {
        let mut word = self.load();
        for _ in 0..ATTEMPTS {
            if word & INFLATED != 0 {
                if full(access, &self.slot(word).full) {
                    if self.verify(word, access, is_calm) {
                        return Entry::Entered;
                    }
                } else if self.names(word) {
                    return Entry::TakenElsewhere;
                }
                word = self.load();
                continue;
            }
            if word & NASCENT != 0 {
                return Entry::Nascent;
            }
            if is_taken(access, word) {
                return Entry::Taken;
            }
            let next = match access {
                Access::Write => WRITER,
                _ if word >= FULL => return Entry::Full,
                Access::Read | Access::ReadRecursive => word + READER,
                Access::Upgradable => word + (READER | UPGRADABLE),
            };
            match self.exchange(word, next, Ordering::Acquire) {
                Ok(()) => {
                    marks::unmark::<P, _>(self);
                    return Entry::Entered;
                }
                Err(now) => word = now,
            }
        }
        Entry::Crowded
    }

    // ---- the ways out ----

    /// Takes `own` off the word of a thin lock, or leaves the full one.
    #[cold]
    fn leave(&self, own: u64, access: Access) {
        let mut word = self.load();
        while word & INFLATED == 0 {
            // Release: as on the fast path.
            match self.exchange(word, word - own, Ordering::Release) {
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
        self.leave_full(word, access);
    }

    /// The caller is inside, so the slot that `word` names is the lock's, and made: it has been
    /// there before.
    fn leave_full(&self, word: u64, access: Access) {
        debug_assert!(word & INFLATED != 0);
        let slot = self.slot(word);
        // SAFETY: the caller holds the lock in this way, and then, if it was alone, for writing.
        unsafe {
            if word & STICKY != 0
                || !slot.is_calm(index(word))
                || !access.becomes_writer(&slot.full)
            {
                access.leave(&slot.full);
            } else if !self.deflate(word, slot) {
                slot.full.unlock_write();
            }
        }
    }

    /// In place of a release by who is alone inside: the lock is thin, and free. Not if somebody
    /// waits. Nothing of the lock is touched after the exchange.
    #[cold]
    fn deflate(&self, word: u64, slot: &'static Slot<P, RwSem<P>>) -> bool {
        if !slot.close() && !active(Fault::DeflatesPinned) {
            return false;
        }
        marks::unmark::<P, _>(self);
        // Fails if somebody has made it sticky.
        let thin = self.exchange(word, 0, Ordering::Release).is_ok();
        if thin {
            slot.full.seal();
        }
        slot.reopen();
        if thin {
            P::rwsem_slots().give(slot);
        }
        thin
    }

    // ---- the full lock ----

    /// Runs `f` on the full lock, which stays this one's meanwhile.
    pub(crate) fn on_full<R>(&self, f: impl FnOnce(&'static RwSem<P>) -> R) -> R {
        loop {
            let word = self.inflated();
            let slot = self.slot(word);
            if word & STICKY != 0 {
                return f(&slot.full);
            }
            let Some(_pin) = slot.pin() else {
                // Whoever is alone inside is on its way out.
                P::pause();
                continue;
            };
            if !self.names(word) && !active(Fault::PinsAnySlot) {
                continue;
            }
            slot.full.unseal();
            slot.note(false);
            marks::mark::<P, _>(self);
            return f(&slot.full);
        }
    }

    /// The word of the lock, which is inflated, if need be just now.
    fn inflated(&self) -> u64 {
        let word = self.load();
        if word & INFLATED != 0 { word } else { self.inflate(word) }
    }

    #[cold]
    fn inflate(&self, mut word: u64) -> u64 {
        let slots = P::rwsem_slots();
        if word & NASCENT != 0 {
            let slot = slots.take_for(nascent::policy(word));
            return self.install(word, slot, STICKY).unwrap_or_else(|now| {
                slots.set_aside(slot);
                now
            });
        }
        let slot = slots.take_sealed();
        while word & INFLATED == 0 {
            adopt(slot, word);
            match self.install(word, slot, 0) {
                Ok(new) => return new,
                Err(now) => {
                    disown(slot, word);
                    word = now;
                }
            }
        }
        slots.give(slot);
        word
    }

    fn install(&self, word: u64, slot: &'static Slot<P, RwSem<P>>, flags: u64) -> Result<u64, u64> {
        let new = INFLATED | flags | u64::from(slot.index) << READER_SHIFT;
        // Acquire and Release: between whoever was inside the thin lock, whom the slot has
        // adopted, and whoever finds that the word names it.
        self.exchange(word, new, Ordering::AcqRel).map(|()| new)
    }

    /// The slot that the word of an inflated lock names.
    #[inline(always)]
    fn slot(&self, word: u64) -> &'static Slot<P, RwSem<P>> {
        P::rwsem_slots().get(index(word))
    }

    /// Whether the lock's slot is the one that `word` names.
    #[inline(always)]
    fn names(&self, word: u64) -> bool {
        (self.load() ^ word) & !STICKY == 0
    }

    /// The word, if the thread remembers that the lock is inflated: then all read it, and
    /// nobody should take the line. Otherwise `thin`, without a look. Relaxed: only a guess.
    #[inline(always)]
    fn expected(&self, thin: u64) -> u64 {
        if !marks::is_marked::<P, _>(self) {
            return thin;
        }
        let word = self.word.load(Ordering::Relaxed);
        if word & INFLATED == 0 {
            marks::unmark::<P, _>(self);
        }
        word
    }

    /// Acquire: whoever finds an index may follow it.
    #[inline(always)]
    fn load(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    /// Acquire where it fails: the word may be an index.
    #[inline(always)]
    fn exchange(&self, word: u64, next: u64, order: Ordering) -> Result<(), u64> {
        self.word.compare_exchange(word, next, order, Ordering::Acquire).map(|_| ())
    }
}

/// Of the slot that the word of an inflated lock names.
#[inline(always)]
fn index(word: u64) -> u32 {
    (word >> READER_SHIFT) as u32
}

/// A thin lock, and nothing is in a reader's way.
#[inline(always)]
fn may_count(word: u64) -> bool {
    word & (ELSEWHERE | WRITER) == 0 && word < FULL
}

/// Somebody is in the way in a thin lock.
fn is_taken(access: Access, word: u64) -> bool {
    word & ELSEWHERE == 0
        && match access {
            Access::Write => word != 0,
            Access::Read | Access::ReadRecursive => word & WRITER != 0,
            Access::Upgradable => word & (WRITER | UPGRADABLE) != 0,
        }
}

/// The slot, which no word names, has the holders of a thin lock.
fn adopt<P: Platform>(slot: &Slot<P, RwSem<P>>, word: u64) {
    if word & WRITER != 0 {
        slot.full.adopt_sealed_writer();
    } else {
        slot.full.adopt_readers((word >> READER_SHIFT) as usize);
        if word & UPGRADABLE != 0 {
            slot.full.adopt_upgradable();
        }
    }
}

/// The slot, which no word names, does not have them any more.
fn disown<P: Platform>(slot: &Slot<P, RwSem<P>>, word: u64) {
    if word & WRITER != 0 {
        slot.full.seal();
    } else {
        slot.full.disown_readers((word >> READER_SHIFT) as usize);
        if word & UPGRADABLE != 0 {
            slot.full.disown_upgradable();
        }
    }
}

impl Access {
    /// Takes the full lock without waiting, or a trace of it.
    fn at_once<P: Platform>(self, sem: &RwSem<P>) -> bool {
        match self {
            Self::Read => sem.try_read(),
            Self::ReadRecursive => sem.try_read_recursive(),
            Self::Upgradable => sem.try_upgradable_read(),
            Self::Write => sem.try_write(),
        }
    }

    /// Takes the full lock without going to sleep for it.
    fn awake<P: Platform>(self, sem: &RwSem<P>, context: &WaitContext<'_, P>) -> bool {
        match self {
            Self::Read => sem.read_awake(context),
            Self::ReadRecursive => sem.try_read_recursive(),
            Self::Upgradable => sem.upgradable_awake(context),
            Self::Write => sem.write_awake(context),
        }
    }

    /// From the only one inside to a writer, without a gap; not if anybody waits.
    ///
    /// # Safety
    /// The caller holds the lock in this way; where it is true, for writing then.
    unsafe fn becomes_writer<P: Platform>(self, sem: &RwSem<P>) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Read | Self::ReadRecursive => sem.try_upgrade_alone(false),
                Self::Upgradable => sem.try_upgrade_alone(true),
                Self::Write => true,
            }
        }
    }

    /// # Safety
    /// The caller holds the lock in this way.
    unsafe fn leave<P: Platform>(self, sem: &RwSem<P>) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Read | Self::ReadRecursive => sem.unlock_read(),
                Self::Upgradable => sem.unlock_upgradable(),
                Self::Write => sem.unlock_write(),
            }
        }
    }
}

impl<P: PooledPlatform> Drop for ThinRwSem<P> {
    fn drop(&mut self) {
        let word = self.load();
        if word & INFLATED != 0 {
            let slot = self.slot(word);
            slot.full.set_events(None);
            P::rwsem_slots().give_up(slot);
        }
    }
}

impl<P: PooledPlatform> fmt::Debug for ThinRwSem<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThinRwSem")
            .field("locked", &self.is_locked())
            .field("write_locked", &self.is_write_locked())
            .field("waiters", &self.has_waiters())
            .field("inflated", &self.is_inflated())
            .finish()
    }
}

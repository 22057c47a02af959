//! The lock: its parts, and every way to become its holder.

use core::cell::{Cell, UnsafeCell};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;

use super::batch::BatchSize;
use super::park::{Inbox, Lot};
use super::solo::Solo;
use super::word::{AtomicHints, AtomicWord, Word};
use crate::may_dangle::MayDangle;
use crate::platform::{ConstZero, Platform};
use crate::wait::{WaitContext, WaitError};

/// A ticket lock whose tickets are served in batches of a size `S`.
///
/// See the [module](super) for what it promises.
#[repr(transparent)]
pub struct TicketLock<P: Platform, S: BatchSize>(MayDangle<Parts<P, S>>);

/// What a lock consists of.
#[doc(hidden)]
#[repr(C)] // the words first: what follows is touched with them
pub struct Parts<P: Platform, S: BatchSize> {
    pub(super) word: AtomicWord<P>,
    /// The holder without a ticket, while nobody takes one.
    pub(super) solo: Solo<P>,
    pub(super) inbox: Inbox<P>,
    pub(super) hints: AtomicHints<P>,
    /// Whether the holder has a ticket. Belongs to the holder.
    pub(super) ticketed: Cell<bool>,
    /// Belongs to the holder.
    pub(super) own: UnsafeCell<Own<P, S>>,
    size: PhantomData<S>,
}

#[doc(hidden)] // its parts are its own
impl<P: Platform, S: BatchSize> Deref for TicketLock<P, S> {
    type Target = Parts<P, S>;

    #[inline(always)]
    fn deref(&self) -> &Parts<P, S> {
        &self.0
    }
}

#[doc(hidden)]
impl<P: Platform, S: BatchSize> DerefMut for TicketLock<P, S> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Parts<P, S> {
        &mut self.0
    }
}

/// What only the holder of the lock touches.
pub(super) struct Own<P: Platform, S: BatchSize> {
    pub(super) lot: Lot<P>,
    pub(super) pace: S::Pace,
    #[cfg(test)]
    served: super::Served,
}

/// Whether queue locks are as they ship: see the table in `native::loom`.
#[cfg(fairlock_loom)]
fn whole() -> bool {
    static WHOLE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *WHOLE.get_or_init(|| std::env::var_os("FAIRLOCK_LOOM_WHOLE").is_some())
}

/// The result for a caller that has LOCK. `Ok`: it has the lock. An error: its wait for the solo
/// holder ended without the lock, and the caller has to withdraw.
pub(super) type Taken = Result<(), WaitError>;

// SAFETY: `own` and `ticketed` are touched by the holder of the lock only, which
// takes it with Acquire and gives it away with Release; the pointers in it are to entries
// that stay alive while they are in it (invariant 1 of `park`).
unsafe impl<P: Platform, S: BatchSize> Sync for TicketLock<P, S> {}
// SAFETY: as above; a lock that can be moved has no waiters.
unsafe impl<P: Platform, S: BatchSize> Send for TicketLock<P, S> {}

impl<P: Platform, S: BatchSize> TicketLock<P, S> {
    /// Whether locks have no solo holders, only tickets, as in model checks of code that uses a
    /// lock (batches of 8 and more), but not in those of the whole lock.
    #[inline(always)]
    fn tickets_only() -> bool {
        #[cfg(fairlock_loom)]
        return S::MAX >= 8 && !whole();
        #[cfg(not(fairlock_loom))]
        false
    }

    /// A free lock.
    pub fn new() -> Self {
        Self::with(AtomicWord::new(Word::IDLE), Solo::new(), Inbox::new(), AtomicHints::new())
    }

    /// A free lock, for statics.
    pub const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
    {
        Self::with(ConstZero::ZERO, Solo::new_const(), Inbox::new_const(), ConstZero::ZERO)
    }

    const fn with(
        word: AtomicWord<P>,
        solo: Solo<P>,
        inbox: Inbox<P>,
        hints: AtomicHints<P>,
    ) -> Self {
        let own = Own {
            lot: Lot::new(),
            pace: S::START,
            #[cfg(test)]
            served: super::Served::NEW,
        };
        let ticketed = Cell::new(false);
        let own = UnsafeCell::new(own);
        Self(MayDangle::new(Parts { word, solo, inbox, hints, ticketed, own, size: PhantomData }))
    }

    /// A free lock that has already served `tickets`.
    #[cfg(test)]
    pub(super) fn after(tickets: u32) -> Self {
        let mut lock = Self::new();
        lock.word = AtomicWord::new(Word::after(tickets));
        // Solo holders come from IDLE only.
        lock.ticketed.set(Word::after(tickets) != Word::IDLE);
        lock
    }

    /// Takes the lock; blocks until it has it. A thread that already holds the lock deadlocks.
    #[inline]
    pub fn lock(&self) {
        if !self.take_solo() {
            self.lock_contended();
        }
    }

    /// As [`lock`](Self::lock), for threads that do little between two sections. A thread that
    /// repeatedly contends with another stands back for some microseconds before it takes its
    /// ticket. Meanwhile the other has the lock to itself, and the guarded data stays in one CPU's
    /// caches.
    #[inline]
    pub fn lock_with_backoff(&self) {
        if !self.take_solo() {
            self.lock_contended_with_backoff();
        }
    }

    /// Takes the lock if that needs no waiting and overtakes nobody of an earlier batch; otherwise
    /// returns `false`. Never blocks. May also fail if another thread tries at the same moment.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_lock(&self) -> bool {
        if self.take_solo() {
            return true;
        }
        // Not as the first in line, which may have to wait for a solo holder.
        let word = self.load();
        word.is_serving() && self.steal(word, &WaitContext::FOREVER) == Some(Ok(()))
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[inline]
    pub unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.release(false) }
    }

    /// Releases the lock; if threads of the current batch wait, they acquire it before any thread
    /// that comes later, the caller included. That ends the batch early.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub unsafe fn unlock_fair(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.release(true) }
    }

    /// # Safety
    /// The caller holds the lock.
    #[inline(always)]
    unsafe fn release(&self, fair: bool) {
        if Self::tickets_only() {
            let released = self.word.exchange(Word::SOLE, Word::IDLE, Ordering::Release);
            if let Err(word) = released {
                // SAFETY: the caller holds the lock.
                unsafe { self.unlock_contended(word, fair) }
            }
            return;
        }
        // The holder of a ticket sees at least that ticket in the word. The thread that takes the first
        // ticket from now on waits for `solo`.
        let word = self.load();
        if word == Word::IDLE {
            self.solo.leave();
        } else {
            // SAFETY: the caller holds the lock.
            unsafe { self.unlock_contended(word, fair) }
        }
    }

    /// Whether somebody holds the lock.
    pub fn is_locked(&self) -> bool {
        self.load().is_locked() || self.solo.is_held()
    }

    /// Whether somebody waits for the lock.
    pub fn is_contended(&self) -> bool {
        let word = self.load();
        let served = word.is_locked() && !self.solo.is_held();
        word.outstanding() > u32::from(served)
    }

    /// Relaxed: every decision based on it is confirmed by a read-modify-write of the word.
    #[inline]
    pub(super) fn load(&self) -> Word {
        self.word.load(Ordering::Relaxed)
    }

    /// Takes the lock without a ticket, if nobody has one.
    #[inline]
    pub(super) fn take_solo(&self) -> bool {
        if Self::tickets_only() {
            return self.exchange(Word::IDLE, Word::SOLE, 0, &WaitContext::FOREVER) == Ok(Ok(()));
        }
        if self.load() != Word::IDLE || !self.solo.enter() {
            return false;
        }
        // Acquire: the section of the last ticket's holder, which left IDLE.
        let word = self.word.load(Ordering::Acquire);
        if word != Word::IDLE {
            // Somebody took a ticket first, and may wait for this thread.
            self.solo.leave_to_waiter();
            return false;
        }
        #[cfg(test)]
        self.note(0);
        true
    }

    /// Takes a ticket and LOCK together, if that is free and the
    /// ticket would be of the current batch, as seen in `word`.
    #[inline]
    pub(super) fn steal(&self, word: Word, until: &WaitContext<'_, P>) -> Option<Taken> {
        if word.is_locked() || !word.is_open(S::MAX) {
            return None;
        }
        self.exchange(word, word.with_ticket().locked(), word.tail(), until).ok()
    }

    /// One attempt to have LOCK, with `ticket`.
    #[inline]
    pub(super) fn exchange(
        &self,
        word: Word,
        locked: Word,
        ticket: u32,
        until: &WaitContext<'_, P>,
    ) -> Result<Taken, Word> {
        // Acquire: every way to own the lock is one (rule 3).
        self.word.exchange(word, locked, Ordering::Acquire)?;
        if !word.is_serving() {
            if !Self::tickets_only() {
                if let Err(why) = self.solo.wait_until_free(until) {
                    return Ok(Err(why));
                }
            }
            self.ticketed.set(true);
        }
        #[cfg(test)]
        self.note(ticket);
        let _ = ticket;
        Ok(Ok(()))
    }

    /// Takes LOCK with `ticket` if it is free and the ticket's turn has
    /// come, as seen in `word`.
    pub(super) fn take(
        &self,
        mut word: Word,
        ticket: u32,
        until: &WaitContext<'_, P>,
    ) -> Option<Taken> {
        while can_take::<S>(word, ticket) {
            match self.exchange(word, word.locked(), ticket, until) {
                Ok(taken) => return Some(taken),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Records, under the lock just taken, whose turn it was.
    #[cfg(test)]
    fn note(&self, ticket: u32) {
        let head = self.load().head();
        // SAFETY: the caller holds the lock.
        unsafe { (*self.own.get()).served = super::Served { ticket, head } };
    }

    /// The ticket whose turn it is, and the head of its batch.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[cfg(test)]
    pub(super) unsafe fn served(&self) -> super::Served {
        // SAFETY: the caller holds the lock.
        unsafe { (*self.own.get()).served }
    }
}

#[cfg(all(test, fairlock_loom))]
impl<
    P: Platform<
            AtomicUsize = loom::sync::atomic::AtomicUsize,
            AtomicU32 = loom::sync::atomic::AtomicU32,
            AtomicU64 = loom::sync::atomic::AtomicU64,
        >,
    S: BatchSize,
> TicketLock<P, S>
{
    /// Has loom check that every access so far happens before this one.
    pub(crate) fn access_mut(&mut self) {
        self.word.access_mut();
        self.solo.access_mut();
        self.hints.access_mut();
        self.inbox.access_mut();
    }
}

#[inline]
pub(super) fn can_take<S: BatchSize>(word: Word, ticket: u32) -> bool {
    !word.is_locked() && word.is_eligible(ticket, S::MAX)
}

impl<P: Platform, S: BatchSize> ConstZero for TicketLock<P, S>
where
    P::AtomicU64: ConstZero,
    P::AtomicUsize: ConstZero,
    P::AtomicU32: ConstZero,
{
    const ZERO: Self = Self::new_const();
}

impl<P: Platform, S: BatchSize> Default for TicketLock<P, S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, S: BatchSize> core::fmt::Debug for TicketLock<P, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TicketLock")
            .field("locked", &self.is_locked())
            .field("waiting", &self.is_contended())
            .finish_non_exhaustive()
    }
}

//! The mutex of eight bytes: a word in two halves of four.
//!
//! `held` says whether somebody is inside, and `queue` what the queue says. An uncontended acquisition is one
//! read-modify-write of `held` and a look at `queue`; its release is a look at `queue` and a plain store of `held`, which
//! costs half of a read-modify-write. (A release neither reads nor widens what it stores: that would cost as much.)
//!
//! A plain store may wipe the flag `WAKE_NEXT`, which the waiter that is next has set in `held` between the look and the
//! store. So (R7):
//!
//! * a thread that comes in while somebody waits sets `KNOWN`, and then releases by a read-modify-write, which sees the flag;
//! * `KNOWN` stays until a thread comes in and finds nobody waiting. So once it is set while somebody waits, each
//!   later holder knows;
//! * the waiter that is next, behind a holder that does not know, sleeps no longer than for a
//!   [nap](super::wait): until that holder, or the next thread that comes, has seen that somebody waits.
//!
//! *Order.* A thread that takes `held` looks at `queue` after that. If the lock has been closed, it leaves again. If the lock
//! is closed after its look, it is inside already.
//!
//! *Freeing.* The last access of a release is the step on `held`; then only the slot is touched that `queue` named
//! while the memory was still the lock's.

use core::fmt;
use core::sync::atomic::Ordering;

use super::Raw;
use super::slot::PooledPlatform;
use super::word::{Flags, Word, is_held};
use super::words::{Names, Words};
use crate::may_dangle::MayDangle;
use crate::platform::{Atomic, ConstZero, Platform};
use crate::wait::{Access, Collision, Duty, Sleeper, Wait, WaitContext, WaitError, Waiter};

/// The two halves of a mutex.
#[repr(C)]
pub(crate) struct Two<P: Platform> {
    held: P::AtomicU32,
    queue: P::AtomicU32,
}

const FREE: u32 = 0;
const WRITTEN: u32 = Word::FREE.taken(Access::Exclusive).held();

/// Whether a release that sees this in the queue's half is a read-modify-write.
#[inline(always)]
const fn is_awaited(queue: u32) -> bool {
    Word::of_halves(FREE, queue).has_any(Flags::WAITERS.with(Flags::KNOWN))
}

impl<P: PooledPlatform> Two<P> {
    /// The caller holds the lock, and releases it; `queue` is what it saw in that half.
    #[inline(never)]
    fn leave_known(&self, queue: u32) {
        let lock = core::ptr::from_ref(self).cast::<Raw<Self>>();
        // Release: what was done under the lock comes before what the next owner does. From here on the lock may be gone.
        let held = self.held.fetch_sub(WRITTEN, Ordering::Release);
        Raw::left(lock, Word::of_halves(held, queue), Access::Exclusive);
    }

    /// The calling thread has just taken `held`: the other half, in which it has noted that somebody waits, or that
    /// nobody does.
    fn know(&self) -> u32 {
        // Acquire, here and where the exchange fails: the name that is found may be followed.
        let mut queue = self.queue.load(Ordering::Acquire);
        loop {
            let next = known(queue);
            // Relaxed: the holder decides by it how it releases.
            if next == queue {
                return queue;
            }
            match self.queue.compare_exchange_weak(
                queue,
                next,
                Ordering::Relaxed,
                Ordering::Acquire,
            ) {
                Ok(_) => return next,
                Err(now) => queue = now,
            }
        }
    }

    /// Makes the queue's half what `step` says, as long as it says anything; returns it as it was.
    fn change_queue(&self, step: impl Fn(u32) -> Option<u32>) -> Result<u32, u32> {
        // Acquire, here and below: as in `know`.
        let mut queue = self.queue.load(Ordering::Acquire);
        while let Some(next) = step(queue) {
            // Release: a slot is as it should be for a thread that follows its name.
            match self.queue.compare_exchange_weak(queue, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(queue),
                Err(now) => queue = now,
            }
        }
        Err(queue)
    }

    fn with_held(&self, queue: u32) -> Word {
        Word::of_halves(self.held.load(Ordering::Relaxed), queue)
    }
}

/// The queue's half as a holder that has seen it leaves it.
#[inline(always)]
const fn known(queue: u32) -> u32 {
    if queue & Flags::WAITERS.queue() != 0 {
        queue | Flags::KNOWN.queue()
    } else {
        queue & !Flags::KNOWN.queue()
    }
}

impl<P: PooledPlatform> Names for Two<P> {
    type P = P;

    const KIND: usize = 0;

    #[inline(always)]
    fn load(&self) -> Word {
        // Acquire: before the look at the other half. Below: the name that is found may be followed.
        let held = self.held.load(Ordering::Acquire);
        Word::of_halves(held, self.queue.load(Ordering::Acquire))
    }

    fn name(&self, name: u32) -> Result<Word, Word> {
        let named = |queue: u32| {
            let word = Word::of_halves(0, queue);
            (word.name() == 0).then(|| word.named(name).with(Flags::WAITERS).queue())
        };
        let named = self.change_queue(named);
        named.map(|queue| self.with_held(queue)).map_err(|queue| self.with_held(queue))
    }

    fn unname(&self, name: u32) -> bool {
        let unnamed = |queue: u32| {
            let word = Word::of_halves(0, queue);
            let is_due = word.name() == name && !word.has_waiters();
            is_due.then(|| word.without_name().queue())
        };
        self.change_queue(unnamed).is_ok()
    }

    fn forget_queue(&self, name: u32, next: u32) -> bool {
        let forgotten = |word: Word| word.without_name().without(Flags::QUEUE).named(next);
        // `WAKE_NEXT` stays: a waiter of another slot may have set it by the time that this thread could clear it. A release
        // that sees it for nothing finds nobody to wake; one that does not look clears it.
        self.change_queue(|queue| {
            let word = Word::of_halves(0, queue);
            (word.name() == name).then(|| forgotten(word).queue())
        })
        .is_ok()
    }

    fn set(&self, flags: Flags) -> Word {
        // In this order: if the holder is known to know before the flag is set, it sees the flag, as each later one does. Acquire
        // keeps the order; without it a later holder's `KNOWN` could be seen beside a flag that an earlier one has wiped.
        let queue = match flags.queue() {
            0 => self.queue.load(Ordering::Acquire),
            flags => self.queue.fetch_or(flags, Ordering::AcqRel),
        };
        let held = match flags.held() {
            0 => self.held.load(Ordering::Acquire),
            // Relaxed: the flag is not ownership.
            flags => self.held.fetch_or(flags, Ordering::Relaxed),
        };
        Word::of_halves(held, queue)
    }

    fn clear(&self, flags: Flags) -> Word {
        // Relaxed: the flags are not ownership.
        let order = Ordering::Relaxed;
        let queue = match flags.queue() {
            0 => self.queue.load(order),
            flags => self.queue.fetch_and(!flags, order),
        };
        let held = match flags.held() {
            0 => self.held.load(order),
            flags => self.held.fetch_and(!flags, order),
        };
        Word::of_halves(held, queue)
    }
}

impl<P: PooledPlatform> Words for Two<P> {
    const HAS_READERS: bool = false;

    fn enter_odd(&self, _: Word, _: Access) -> bool {
        false
    }

    fn take_while(
        &self,
        mut seen: Word,
        access: Access,
        may: impl Fn(Word) -> bool,
    ) -> Result<Word, Word> {
        while may(seen) {
            let (held, taken) = (seen.held(), seen.taken(access).held());
            // Acquire: owns the lock on success.
            let made =
                self.held.compare_exchange(held, taken, Ordering::Acquire, Ordering::Relaxed);
            match made {
                Ok(_) => {
                    let queue = self.know();
                    let before = Word::of_halves(held, queue);
                    if may(before) {
                        return Ok(before);
                    }
                    self.leave_known(queue);
                    return Err(before);
                }
                Err(now) => seen = Word::of_halves(now, self.queue.load(Ordering::Acquire)),
            }
        }
        Err(seen)
    }

    fn take_queued(&self, step: impl Fn(Word) -> Option<Word>) -> Option<Word> {
        let mut word = self.load();
        loop {
            let (held, taken) = (word.held(), step(word)?.held());
            // Acquire: owns the lock on success.
            let made =
                self.held.compare_exchange_weak(held, taken, Ordering::Acquire, Ordering::Relaxed);
            match made {
                Ok(_) => {
                    let step =
                        |queue| step(Word::of_halves(held, queue)).map(Word::queue).map(known);
                    let queue = self.change_queue(step).unwrap_or_else(|queue| queue);
                    return Some(Word::of_halves(held, queue));
                }
                Err(_) => word = self.load(),
            }
        }
    }

    fn flag_queue(&self, flags: Flags) -> Word {
        let flagged = |queue: u32| {
            let next = queue | flags.queue();
            (queue & Flags::WAITERS.queue() != 0 && next != queue).then_some(next)
        };
        let queue =
            self.change_queue(flagged).map_or_else(|queue| queue, |queue| queue | flags.queue());
        if flags.held() != 0 && queue & Flags::WAITERS.queue() != 0 {
            self.held.fetch_or(flags.held(), Ordering::Relaxed);
        }
        self.with_held(queue)
    }

    fn spin_until(&self, bound_ns: u64, done: impl Fn(Word) -> bool) -> bool {
        P::spin_until(&self.held, bound_ns, |held| done(Word::of_halves(held, 0)))
    }

    #[inline(always)]
    fn is_seen(word: Word) -> bool {
        word.is_known()
    }
}

/// What came of an attempt on a [`RawMutex`] in one step.
#[doc(hidden)]
pub enum AtOnce {
    /// Somebody holds the lock.
    Not,
    /// The calling thread has the lock.
    Taken,
    /// It has, and somebody has waited for it lately: it is to ask whether it [may stay](RawMutex::may_stay).
    Named,
}

/// A mutex of eight bytes, without data; see [`Mutex`](crate::Mutex) for the one with data.
///
/// It has a slot of a pool while threads wait for it. Where no slot is to be had, they look at it from time to time, as
/// at a [`RawRwLock`](super::RawRwLock#slots).
#[repr(transparent)]
pub struct RawMutex<P: PooledPlatform> {
    raw: Raw<Two<P>>,
}

impl<P: PooledPlatform> RawMutex<P> {
    /// A free lock.
    pub fn new() -> Self {
        let free = || P::AtomicU32::new(FREE);
        Self { raw: Raw(Two { held: free(), queue: free() }) }
    }

    /// A free lock, for statics.
    pub const fn new_const() -> Self
    where
        P::AtomicU32: ConstZero,
    {
        Self { raw: Raw(Two { held: ConstZero::ZERO, queue: ConstZero::ZERO }) }
    }

    /// Takes the lock; blocks until it has it. A thread that repeatedly wants the lock back soon after releasing it, and
    /// finds it held, leaves it to the others for 16 microseconds if nobody is queued.
    #[inline]
    pub fn lock(&self) {
        if !self.enter() {
            self.lock_for_ever();
        }
    }

    /// Takes the lock if it is free and nobody waits, or if that needs only a note.
    #[inline(always)]
    pub(super) fn enter(&self) -> bool {
        match self.lock_fast() {
            AtOnce::Taken => true,
            // SAFETY: just taken.
            AtOnce::Named => unsafe { self.may_stay() },
            AtOnce::Not => false,
        }
    }

    /// As [`try_lock`](Self::try_lock) of a lock that nobody has waited for lately.
    #[doc(hidden)]
    #[inline(always)]
    pub fn lock_fast(&self) -> AtOnce {
        let Two { held, queue } = &self.raw.0;
        // Acquire: owns the lock on success. A flag stays as it is, and so does the half if somebody is inside. (Of one bit
        // this is a bit test: two instructions, where a compare-exchange takes four.)
        if is_held(held.fetch_or(WRITTEN, Ordering::Acquire)) {
            return AtOnce::Not;
        }
        // Relaxed: what a holder before has put there is seen.
        if queue.load(Ordering::Relaxed) == 0 { AtOnce::Taken } else { AtOnce::Named }
    }

    /// The calling thread has taken `held`, and the lock has a slot. Whether it may stay; else it has left.
    ///
    /// # Safety
    /// It holds the lock, and gives it up only if it may stay.
    #[doc(hidden)]
    #[inline(never)]
    pub unsafe fn may_stay(&self) -> bool {
        let two = &self.raw.0;
        let queue = two.know();
        // But for a flag of the waiter that is next, which stays.
        let before = Word::of_halves(FREE, queue);
        let is_others = || self.raw.is_others_turn(P::thread(), Access::Exclusive.kind(), before);
        if before.has_waiters() && (before.is_closed() || is_others()) {
            two.leave_known(queue);
            return false;
        }
        self.raw.note(Access::Exclusive, before);
        true
    }

    /// Takes the lock if that needs no waiting. Never blocks. It may also fail while another thread that has just come finds that it is
    /// not its turn: that thread holds the lock for some instructions.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_lock(&self) -> bool {
        self.enter()
            || self.settled().is_free() && self.raw.steal(self.raw.load(), Access::Exclusive)
            || self.raw.steals_past_late(Access::Exclusive)
    }

    /// The word of the lock. If it is free, but seems closed by a stray name, that is forgotten first.
    fn settled(&self) -> Word {
        let word = self.raw.here(self.raw.load());
        if !P::NAMES_MAY_BE_STRAY || !word.is_reserved() {
            return word;
        }
        drop(self.raw.lock_queue());
        self.raw.load()
    }

    /// As [`lock`](Self::lock); gives up as `wait` says.
    pub fn lock_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        if self.enter() { Ok(()) } else { self.lock_slow(&wait.begin()) }
    }

    #[inline(never)]
    fn lock_for_ever(&self) {
        let taken = self.lock_slow(&WaitContext::FOREVER);
        debug_assert!(taken.is_ok(), "a wait for ever has ended");
    }

    fn lock_slow(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let word = self.raw.load();
        if self.raw.steal_in_turn(word, Access::Exclusive) {
            return Ok(());
        }
        let mut collision = Collision::none();
        if !word.has_waiters() {
            collision.begin(&P::thread().collisions, self.raw.id(), context);
        }
        self.raw.take_slow(Access::Exclusive, context)?;
        collision.end::<P>();
        Ok(())
    }

    /// Releases the lock. The call does not touch the lock after another thread can acquire it, so the next owner may
    /// free it even before the call returns.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[inline]
    pub unsafe fn unlock(&self) {
        // Acquire: the name that is found may be followed. A waiter that is not seen here naps (R7).
        let seen = self.raw.0.queue.load(Ordering::Acquire);
        if is_awaited(seen) { self.raw.0.leave_known(seen) } else { self.leave_unknown() }
    }

    /// The caller, which holds the lock and has seen nobody wait, releases it.
    #[inline(always)]
    fn leave_unknown(&self) {
        let held = &self.raw.0.held;
        // Release: what was done under the lock comes before what the next owner does.
        if cfg!(fairlock_loom) {
            // Loom orders a store and the exchanges of others in ways the language does not allow.
            held.swap(FREE, Ordering::Release);
        } else {
            held.store(FREE, Ordering::Release);
        }
    }

    // ---- for the library that is preloaded ----

    /// As [`lock_fast`](Self::lock_fast) without a locked operation.
    ///
    /// # Safety
    /// The process has one thread, and that one's signal handlers leave a lock as they find it.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn lock_alone(&self) -> AtOnce {
        let Two { held, queue } = &self.raw.0;
        // Relaxed: the process has one thread. A thread that is made later sees it.
        if held.load(Ordering::Relaxed) != FREE || queue.load(Ordering::Relaxed) != 0 {
            return AtOnce::Not;
        }
        held.store(WRITTEN, Ordering::Relaxed);
        AtOnce::Taken
    }

    /// The first attempt of a thread that may have to wait: as [`try_lock`](Self::try_lock), but not where it is another
    /// thread's turn.
    #[doc(hidden)]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn lock_in_turn(&self) -> bool {
        self.enter() || self.raw.steal_in_turn(self.raw.here(self.raw.load()), Access::Exclusive)
    }

    /// Releases the lock, after a call of `leave`, if nobody seems to wait; returns whether it did.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn unlock_fast(&self, leave: impl FnOnce()) -> bool {
        // Acquire: as in `unlock`.
        let seen = self.raw.0.queue.load(Ordering::Acquire);
        if is_awaited(seen) {
            return false;
        }
        leave();
        self.leave_unknown();
        true
    }

    /// Releases the lock, to the queue if anyone waits: nobody gets in before the waiter whose turn it is.
    ///
    /// # Safety
    /// The caller holds the lock.
    pub unsafe fn unlock_fair(&self) {
        self.raw.close_for_next();
        // SAFETY: the caller's promise.
        unsafe { self.unlock() }
    }

    /// Gives the slot back to the pool, unless somebody holds the lock or waits for it. Returns whether the lock has none
    /// now. Other threads may use the lock meanwhile.
    pub fn trim(&self) -> bool {
        if self.try_lock() {
            let name = self.raw.load().name();
            if name != 0 {
                self.raw.drop_name(name);
            }
            // SAFETY: just taken.
            unsafe { self.unlock() };
        }
        !self.has_slot()
    }

    // ---- looking ----

    /// The mutex has a slot, as if a thread had waited, and the holder releases it as one that knows that somebody may wait.
    #[cfg(test)]
    pub(crate) fn know_of_waiters(&self) {
        _ = self.raw.with_slot(|_, slot| {
            let known = |queue: u32| {
                let word = Word::of_halves(0, queue);
                let named = if word.name() == 0 { word.named(slot.name()) } else { word };
                Some(named.with(Flags::KNOWN).queue())
            };
            self.raw.0.change_queue(known).ok()
        });
    }

    pub(super) fn raw(&self) -> &Raw<Two<P>> {
        &self.raw
    }

    /// Whether somebody holds the lock.
    pub fn is_locked(&self) -> bool {
        !self.raw.load().is_free()
    }

    /// Whether somebody waits for the lock.
    pub fn is_contended(&self) -> bool {
        self.raw.here(self.raw.load()).has_waiters()
    }

    /// As [`RawRwLock::planned_wait_ns`](super::RawRwLock::planned_wait_ns).
    pub fn planned_wait_ns(&self, waiters_ahead: usize) -> u64 {
        self.raw.planned_wait_ns(waiters_ahead)
    }

    /// Whether the lock has a slot at this instant.
    #[doc(hidden)]
    pub fn has_slot(&self) -> bool {
        self.raw.load().name() != 0
    }
}

// ---- a seat in the queue ----

/// A sleeping thread's place in the queue of a [`RawMutex`]: if the mutex is held, a thread that would wake the sleeper
/// queues it instead, and the release wakes it.
#[doc(hidden)]
pub struct Seat<P: PooledPlatform>(MayDangle<Waiter<P>>);

impl<P: PooledPlatform> RawMutex<P> {
    /// A seat for `thread`, if that sleeps; `None` if nobody holds the mutex, or if the holder may not see that somebody
    /// waits.
    pub(crate) fn seat(&self, thread: &'static Sleeper<P>) -> Option<Seat<P>> {
        let word = self.raw.load();
        // The mutex first: the thread's record may be on another CPU.
        if !word.is_written() || !word.is_known() || !thread.is_asleep() {
            return None;
        }
        // Mutexes ask for no priorities.
        let mut waiter = Waiter::new(Access::Exclusive, thread, P::now(), 0);
        waiter.seated = true;
        waiter.set_duty(Duty::Sleeps);
        Some(Seat(MayDangle::new(waiter)))
    }

    /// Queues the thread that has the seat, which is for this mutex. It is woken once it is next and the mutex is left free.
    ///
    /// # Safety
    /// This is done once, and the seat stays where it is until the thread has the mutex.
    pub(crate) unsafe fn queue(&self, seat: &Seat<P>) {
        // SAFETY: the caller's promise.
        unsafe { self.raw.queue_sleeping_writer(&seat.0) };
    }

    /// The calling thread was given the seat, and [has been queued](Self::queue) or is just being queued: waits until it
    /// has the mutex.
    #[cold]
    pub(crate) fn lock_seated(&self, seat: &Seat<P>) {
        self.raw.wait_seated(&seat.0);
    }
}

impl<P: PooledPlatform> Drop for RawMutex<P> {
    fn drop(&mut self) {
        self.raw.give_slot_back();
    }
}

impl<P: PooledPlatform> ConstZero for RawMutex<P>
where
    P::AtomicU32: ConstZero,
{
    const ZERO: Self = Self::new_const();
}

impl<P: PooledPlatform> Default for RawMutex<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: PooledPlatform> fmt::Debug for RawMutex<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawMutex")
            .field("locked", &self.is_locked())
            .field("waiting", &self.is_contended())
            .finish()
    }
}

//! How a lock of one word gets a full lock of a pool, and becomes thin again: what all such locks
//! have in common; and the pool.
//!
//! A lock says by a [`Codec`] how its word tells that it is inflated, and by [`Inflates`] who is inside
//! while it is thin. Everything else here is written once. Why it is safe is in [`thin`](super).
//!
//! The full locks that thin locks have one after the other are in the [`Slots`] of a platform. Becoming full and thin
//! again touches only the list of a [`Pool`].

use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::Ordering;
use std::boxed::Box;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use super::local::{MUTEX_SLOT, SLOT};
use super::visible::VisibleReaders;
pub(super) use super::word::{AtomicOf, Codec};
use super::word::{Holder, Pins};
use crate::platform::{Atomic, ConstZero, Platform};
use crate::pool::{Memory, Pool, Pooled, SMALLEST, name};
use crate::rwsem::{Head, Policy, RwSem, Turns};
use crate::system::fork::PerProcess;
use crate::system::{Cell, errno};
use crate::wait::Access;

/// A lock that becomes a full one.
pub(super) trait Inflates: Sized {
    type P: PooledPlatform;
    type Word: Codec;
    type Atomic: Atomic<<Self::Word as Codec>::Bits>;
    type Full: Full<Self::P> + 'static;

    fn slots() -> &'static Slots<Self::P, Self::Full>;

    fn word(&self) -> &AtomicOf<Self::Word, Self::Atomic>;

    /// The full lock, which is sealed, and which no word names yet, gets the holders that the word of
    /// the thin lock tells of.
    fn adopt(full: &Self::Full, word: Self::Word);

    /// Whether this word of a lock that is not inflated says who is inside.
    #[inline(always)]
    fn tells_holders(_word: Self::Word) -> bool {
        true
    }

    /// Takes the adopted holders off the full lock, which no word names.
    fn disown(full: &Self::Full, word: Self::Word);

    /// Leaves the full lock; `fair`: to the queue, if anyone waits.
    ///
    /// # Safety
    /// The caller holds it in this way.
    unsafe fn release(full: &Self::Full, access: Access, fair: bool);

    /// The lock, which has this word, becomes thin, in place of a release by the caller, who holds
    /// it in this way, and has closed the slot. Nothing of the lock is touched after the step that lets
    /// the next owner have it. Not if the lock has become permanent.
    fn make_thin(&self, word: Self::Word, by: Holder) -> bool;

    // ---- the slot ----

    #[inline(always)]
    fn load(&self) -> Self::Word {
        self.word().load()
    }

    /// The slot that the word of an inflated lock names.
    #[inline(always)]
    fn slot(&self, word: Self::Word) -> &'static SlotOf<Self> {
        Self::slots().get(word.name())
    }

    /// Whether the lock's slot is the one that `word` names.
    #[inline(always)]
    fn names(&self, word: Self::Word) -> bool {
        self.load().is_as(word)
    }

    /// Keeps the slot that `word` names with this lock. `None` if it is not this lock's; an error as in
    /// [`Slot::pin`].
    #[inline(always)]
    fn pin(&self, word: Self::Word) -> Result<Option<PinOf<Self>>, (Holder, PinOf<Self>)> {
        let pin = self.slot(word).pin()?;
        Ok(self.names(word).then_some(pin))
    }

    /// What `thin` finds in the word, or `full` in the full lock.
    fn look<R>(
        &self,
        thin: impl Fn(Self::Word) -> R,
        full: impl Fn(&'static Self::Full) -> R,
    ) -> R {
        loop {
            let word = self.load();
            if !word.is_inflated() {
                return thin(word);
            }
            let seen = full(&self.slot(word).full);
            if self.names(word) {
                return seen;
            }
        }
    }

    // ---- in ----

    /// The caller has just taken, in this way, the full lock that `word` named, which it found free or
    /// not. Returns whether that is this lock's; if not, the caller does not have it any more.
    #[inline(always)]
    fn entered(
        &self,
        word: Self::Word,
        slot: &'static SlotOf<Self>,
        access: Access,
        found_free: bool,
    ) -> bool {
        let is_ours = self.names(word);
        match is_ours {
            true => slot.note(found_free),
            false => leave_other::<Self>(slot, access),
        }
        is_ours
    }

    // ---- out ----

    /// Leaves the full lock; `fair`: to the queue, if anyone waits. The caller is inside in this way, so
    /// the slot that `word` names is the lock's, and exists.
    #[inline(never)]
    fn leave_full(&self, word: Self::Word, mut access: Access, fair: bool) {
        debug_assert!(word.is_inflated());
        let slot = self.slot(word);
        if !word.is_permanent() && slot.is_uncontended(word.name()) {
            // SAFETY: the caller holds the lock in this way.
            let seals = || unsafe { slot.full.head().word.seal_alone(access) };
            if access == Access::Exclusive || seals() {
                if access == Access::Upgradable {
                    access = Access::Shared;
                }
                if self.deflate(word, slot, Some(access)) {
                    return;
                }
            }
        }
        // SAFETY: the caller holds the lock in this way.
        unsafe { Self::release(&slot.full, access, fair) }
    }

    // ---- thin to full, and back ----

    /// Gives the lock, which had this word, a full one. Returns its word; as an error if another thread has done
    /// so, or the word no longer says who is inside.
    #[cold]
    fn inflate(&self, mut word: Self::Word) -> Result<Self::Word, Self::Word> {
        let slots = Self::slots();
        let slot = slots.take_sealed();
        let new = Self::Word::inflated(slot.name);
        loop {
            if word.is_inflated() || !Self::tells_holders(word) {
                break;
            }
            Self::adopt(&slot.full, word);
            // Acquire and Release: orders the sections inside the thin lock, whose holders the slot has
            // adopted, before those of whoever finds that the word names the slot.
            match self.word().exchange(word, new, Ordering::AcqRel) {
                Ok(()) => return Ok(new),
                Err(now) => {
                    Self::disown(&slot.full, word);
                    word = now;
                }
            }
        }
        slots.give(slot);
        Err(word)
    }

    /// The caller, who holds the full lock in this way and is alone there, leaves and makes the lock
    /// thin; a reader has sealed it. Or the caller trims the lock, which has no seal, and has pinned the slot. Not
    /// if somebody else has pinned it, or holds the lock: then there is no seal afterwards.
    #[cold]
    fn deflate(&self, word: Self::Word, slot: &'static SlotOf<Self>, by: Holder) -> bool {
        let lock = &slot.full.head().word;
        if !slot.pins.close(by) {
            lock.unseal();
            return false;
        }
        let is_sealed = match by {
            // Only now: nobody can take the seal off any more, nor be about to wait for a lock that it found unsealed.
            // (The seal of a reader, which is counted, is not taken for this one; and the reader wakes who waits.)
            None => lock.seal_free(),
            // A thread that had pinned the slot may have taken it off.
            Some(Access::Shared) => lock.is_sealed(true),
            Some(_) => true,
        };
        if !is_sealed {
            slot.pins.reopen();
            return false;
        }
        if !self.make_thin(word, by) {
            slot.pins.reopen();
            lock.unseal();
            return false;
        }
        match by {
            None => {}
            Some(Access::Exclusive) => lock.seal(),
            Some(_) => lock.disown_readers(1),
        }
        slot.pins.reopen();
        Self::slots().give(slot);
        true
    }

    /// The lock is dropped.
    fn give_up(&self) {
        let word = self.load();
        if word.is_inflated() {
            Self::slots().give_up(self.slot(word));
        }
    }
}

pub(super) type SlotOf<L> = Slot<<L as Inflates>::P, <L as Inflates>::Full>;
pub(super) type PinOf<L> = Pin<'static, <L as Inflates>::P, <L as Inflates>::Full>;

/// The caller has just taken another lock's slot in this way: not any more.
#[cold]
#[inline(never)]
pub(super) fn leave_other<L: Inflates>(slot: &SlotOf<L>, access: Access) {
    // SAFETY: the caller has just taken it.
    unsafe { L::release(&slot.full, access, false) };
}

// ---- the pool ----

/// A lock whose slot has this name or a later one is uncontended at once: slots should not be many.
const MANY: u32 = name(1 << 10);

/// A full lock that locks may have one after the other.
#[doc(hidden)]
pub trait Full<P: Platform> {
    /// What a thread's mark of such a slot has in its low bits.
    const MARK: u64;

    /// A lock that follows the default policy, and is sealed.
    fn sealed() -> Self;

    /// Seals the lock, which belonged to a thin one that is no more, if it follows the default
    /// policy and nobody holds it. It may be tried again later.
    fn try_seal(&self) -> bool;

    /// The word of the lock, and how often it was free of late.
    fn head(&self) -> &Head<P>;
}

/// A full lock of type `F`, in a pool. See [`thin`](super).
#[doc(hidden)]
// In cache lines of its own, as its neighbour is the lock of other data. The words that pin it are
// not in the lines of the full lock.
#[repr(C, align(128))]
pub struct Slot<P: Platform, F> {
    pub(super) pins: Pins<P>,
    /// The next slot in the list of free ones, which is the pool's.
    next: P::AtomicU32,
    pub(super) index: u32,
    /// What the words of locks call the slot: see [`name`].
    pub(super) name: u32,
    pub(super) full: F,
}

impl<P: Platform, F> Slot<P, F> {
    pub(super) fn new(full: F, index: u32) -> Self {
        Self { full, pins: Pins::new(), next: P::AtomicU32::new(0), index, name: name(index) }
    }

    /// Pins the slot: it stays with the lock whose word names it *after* this. If the slot is just
    /// being taken from its lock, it is too late for that: then returns by whom, with a pin that
    /// keeps the slot from being given to another lock. So if the word of a lock names the slot, it
    /// is that lock which is about to be made thin.
    pub(super) fn pin(&self) -> Result<Pin<'_, P, F>, (Holder, Pin<'_, P, F>)> {
        let added = self.pins.add();
        let pin = Pin(self);
        match added {
            Ok(()) => Ok(pin),
            Err(by) => Err((by, pin)),
        }
    }
}

impl<P: Platform, F: Full<P>> Slot<P, F> {
    /// The calling thread has the full lock, which it found free or not; or is about to wait for
    /// it.
    #[inline(always)]
    pub(super) fn note(&self, found_free: bool) {
        self.full.head().uncontended.note(found_free);
    }

    /// Whether the thread that leaves the lock should make it thin; then counting begins anew.
    /// `name` is the slot's: the caller has it at hand, and the slot's own is in a line that
    /// pinning writes.
    #[inline(always)]
    pub(super) fn is_uncontended(&self, name: u32) -> bool {
        let is_uncontended = self.seems_uncontended(name);
        if is_uncontended {
            self.full.head().uncontended.reset();
        }
        is_uncontended
    }

    /// As [`is_uncontended`](Self::is_uncontended), and nothing begins anew.
    #[inline(always)]
    pub(super) fn seems_uncontended(&self, name: u32) -> bool {
        self.is_one_of_many(name) || self.full.head().uncontended.is_enough()
    }

    /// Whether so many slots are in use that a lock keeps none longer than it has to. `name` is the slot's.
    #[inline(always)]
    pub(super) fn is_one_of_many(&self, name: u32) -> bool {
        name >= MANY
    }

    /// Whether the slot may stay with a lock that does without it.
    pub(super) fn may_be_kept(&self) -> bool {
        self.name < MANY
    }
}

/// Keeps a slot with its lock.
pub(super) struct Pin<'a, P: Platform, F>(&'a Slot<P, F>);

impl<'a, P: Platform, F> Pin<'a, P, F> {
    pub(super) fn slot(&self) -> &'a Slot<P, F> {
        self.0
    }
}

impl<P: Platform, F> Drop for Pin<'_, P, F> {
    fn drop(&mut self) {
        self.0.pins.remove();
    }
}

impl<P: Platform, F> Pooled for Slot<P, F> {
    type Link = P::AtomicU32;

    #[inline(always)]
    fn link(&self) -> (u32, &P::AtomicU32) {
        (self.index, &self.next)
    }
}

/// The program's allocator.
pub(crate) struct Heap;

// SAFETY: a boxed slice of that many items.
unsafe impl Memory for Heap {
    fn take<T>(items: usize) -> Option<*mut T> {
        Some(Box::into_raw(Box::<[T]>::new_uninit_slice(items)).cast())
    }

    unsafe fn give_back<T>(memory: *mut T, items: usize) {
        let slice = ptr::slice_from_raw_parts_mut(memory.cast::<MaybeUninit<T>>(), items);
        // SAFETY: made in this way by `take`, and the caller's promise.
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// The pool of the locks of type `F`. See [`thin`](super).
#[doc(hidden)]
pub struct Slots<P: Platform, F: 'static> {
    pool: Pool<P::AtomicU64, Slot<P, F>, Heap>,
    /// The names of slots that are not sealed: see [`set_aside`](Self::set_aside).
    aside: PerProcess<Mutex<Vec<u32>>>,
}

// SAFETY: a slot is written before its index is known to anybody else, and shared then.
unsafe impl<P: Platform, F: Send + Sync> Sync for Slots<P, F> {}

impl<P: Platform, F> Slots<P, F> {
    /// No slots yet.
    #[allow(clippy::new_without_default)] // made by platforms, on purpose
    pub fn new() -> Self {
        // SAFETY: the platform's atomics are atomic; a slot's link is its pool's.
        Self { pool: unsafe { Pool::new(P::AtomicU64::new(0)) }, aside: Self::nothing() }
    }

    /// As [`new`](Self::new), for statics.
    pub const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
    {
        // SAFETY: as above.
        Self { pool: unsafe { Pool::new(ConstZero::ZERO) }, aside: Self::nothing() }
    }

    const fn nothing() -> PerProcess<Mutex<Vec<u32>>> {
        PerProcess::new(Mutex::new(Vec::new()))
    }

    /// The child of a fork makes new slots: threads that it does not have may have been late at
    /// the free ones.
    ///
    /// # Safety
    /// The calling thread is the only one of the process, and in no other function of this.
    pub(crate) unsafe fn enter_child(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.aside.renew(Mutex::new(Vec::new())) };
        self.pool.forget_free();
    }

    /// A new slot.
    #[cold]
    pub(super) fn make(&self, slot: impl FnOnce(u32) -> Slot<P, F>) -> &Slot<P, F> {
        // Sees to it that the child of a fork is told (`enter_child`).
        P::thread();
        self.pool.make(slot).expect("too many locks are waited for")
    }

    /// The slot, which is sealed, goes into the list: nobody uses it any more.
    pub(super) fn give(&self, slot: &Slot<P, F>) {
        // SAFETY: the caller has it from this pool, and it is the last to.
        unsafe { self.pool.give(slot) };
    }

    /// The slot of this name, which was given out.
    #[inline(always)]
    pub(super) fn get(&self, name: u32) -> &Slot<P, F> {
        // SAFETY: names are in words of locks, in `aside` and below `made`, all of slots that were made.
        unsafe { self.pool.get(name) }
    }

    /// Keeps a slot that nobody uses any more, but that cannot go into the list: its lock follows
    /// another policy, or was dropped while a forgotten guard held it.
    pub(super) fn set_aside(&self, slot: &Slot<P, F>) {
        self.aside().push(slot.name);
    }

    /// One of the slots set aside, if `fits` accepts one. Only some are looked at: forgotten guards
    /// may have made many useless.
    pub(super) fn aside_that(&self, fits: impl Fn(&Slot<P, F>) -> bool) -> Option<&Slot<P, F>> {
        // Taken from the list first. Where threads are simulated, a thread that looks at a lock may
        // be switched from, and would keep the thread of the system from running others that want
        // the list.
        let mut looked_at = {
            let mut aside = self.aside();
            let first = aside.len().saturating_sub(SMALLEST as usize);
            aside.split_off(first)
        };
        let at = looked_at.iter().rposition(|&name| fits(self.get(name)));
        let found = at.map(|at| self.get(looked_at.swap_remove(at)));
        if !looked_at.is_empty() {
            self.aside().append(&mut looked_at);
        }
        found
    }

    fn aside(&self) -> MutexGuard<'_, Vec<u32>> {
        errno::kept(|| self.aside.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `f` with the index of each slot in the list, which nobody changes.
    pub(super) fn for_each_free(&self, f: impl FnMut(u32)) {
        self.pool.for_each_free(f);
    }

    /// How many slots were made.
    #[doc(hidden)]
    pub fn made(&self) -> u32 {
        self.pool.made()
    }
}

impl<P: Platform, F: Full<P>> Slots<P, F> {
    /// A sealed slot of a lock that follows the default policy. None that a thread has pinned, or came too late to pin.
    pub(super) fn take_sealed(&self) -> &Slot<P, F> {
        match self.pool.take() {
            Some(slot) if slot.pins.any() => {
                let other = self.take_sealed();
                self.give(slot);
                other
            }
            Some(slot) => slot,
            None => self
                .aside_that(|slot| !slot.pins.any() && slot.full.try_seal())
                .unwrap_or_else(|| self.make(|index| Slot::new(F::sealed(), index))),
        }
    }

    /// The thin lock that had the slot is no more.
    #[cold]
    pub(super) fn give_up(&self, slot: &Slot<P, F>) {
        slot.full.head().set_events(None);
        // A forgotten guard may hold it, or, for a moment, a thread that is late.
        if slot.full.try_seal() {
            self.give(slot);
        } else {
            self.set_aside(slot);
        }
    }
}

/// A new lock that is sealed.
fn sealed<P: Platform>() -> Turns<P> {
    let mut lock = Turns::new(Policy::DEFAULT);
    lock.word.make_sealed();
    lock
}

/// Seals the lock if nobody holds it.
fn try_seal<P: Platform>(lock: &Turns<P>) -> bool {
    let is_free = lock.try_write();
    if is_free {
        lock.word.seal();
    }
    is_free
}

impl<P: Platform> Full<P> for RwSem<P> {
    const MARK: u64 = SLOT;

    fn sealed() -> Self {
        Self::of(sealed())
    }

    fn try_seal(&self) -> bool {
        *self.policy() == Policy::DEFAULT && try_seal(self.turns())
    }

    #[inline(always)]
    fn head(&self) -> &Head<P> {
        self
    }
}

/// What a [`ThinMutex`] has while somebody waits.
#[doc(hidden)]
pub struct FullMutex<P: Platform> {
    /// Only written.
    pub(super) lock: Turns<P>,
    /// Somebody may still be inside the thin lock. Belongs to the holder of `lock`, who does not
    /// change it while there is somebody.
    pub(super) follows: Cell<bool>,
    /// Where the thread sleeps that waits for the thin lock's holder.
    pub(super) sleeper: P::AtomicUsize,
}

// SAFETY: `follows` is touched by the holder of `lock`, who is the only one to change it, and
// by holders of the thin lock, each of whom is gone before it is changed (acquired from `solo`).
unsafe impl<P: Platform> Sync for FullMutex<P> {}

impl<P: Platform> Full<P> for FullMutex<P> {
    const MARK: u64 = MUTEX_SLOT;

    fn sealed() -> Self {
        Self { lock: sealed(), follows: Cell::new(false), sleeper: P::AtomicUsize::new(0) }
    }

    fn try_seal(&self) -> bool {
        try_seal(&self.lock)
    }

    #[inline(always)]
    fn head(&self) -> &Head<P> {
        &self.lock
    }
}

impl<P: Platform> Slots<P, RwSem<P>> {
    /// A slot whose lock follows `policy`, and has nobody inside. No thread is late at it: each
    /// thin lock that had it kept it to its end.
    pub(super) fn take_for(&self, policy: Policy) -> &Slot<P, RwSem<P>> {
        self.aside_that(|slot| *slot.full.policy() == policy && !slot.full.is_locked())
            .unwrap_or_else(|| self.make(|index| Slot::new(RwSem::new(policy), index)))
    }
}

/// A [`Platform`] that thin locks are on: it has the pool of their full ones.
///
/// # Safety
///
/// The [`thread_hint`](crate::system::System::thread_hint) is zero, or the address of the calling thread's record;
/// and each function always returns the same pool to the threads that have a record, one after the
/// other.
pub unsafe trait PooledPlatform: Platform {
    /// The pool of [`ThinRwSem`](crate::thin::ThinRwSem).
    fn rwsem_slots() -> &'static Slots<Self, RwSem<Self>>;

    /// The pool of [`ThinMutex`](crate::thin::ThinMutex).
    fn mutex_slots() -> &'static Slots<Self, FullMutex<Self>>;

    /// What visible readers share, if the platform has any: then it has a
    /// [`process_barrier`](crate::system::System::process_barrier). See `thin::visible`.
    #[inline(always)]
    fn visible_readers() -> Option<&'static VisibleReaders<Self>> {
        None
    }

    /// Locks become visible by themselves.
    const WATCHES_READERS: bool = false;

    /// Called by a reader that leaves a thin lock in which others are; now and then that is to be watched, whether it
    /// is only read.
    #[inline(always)]
    fn begins_watch() -> bool {
        Self::WATCHES_READERS && Self::thread().shown.periods.ends()
    }
}

#[cfg(all(test, target_os = "linux", not(any(fairlock_loom, miri))))]
mod tests {
    use std::cell::Cell;
    use std::sync::Barrier;
    use std::thread;

    use super::*;
    use crate::events::{Event, EventCounts};
    use crate::platform::linux::Linux;
    use crate::thin::ThinRwSem;
    use crate::wait::Wait;

    /// Where threads are simulated, a thread that looks at a lock may be switched from, and the
    /// next one that wants the list is the same thread of the system.
    #[test]
    fn nobody_looks_at_a_lock_while_it_has_the_list_of_those_set_aside() {
        let slots = Slots::<Linux, RwSem<Linux>>::new_const();
        let [first, last] =
            [(); 2].map(|()| slots.make(|index| Slot::new(RwSem::<_>::sealed(), index)));
        slots.set_aside(first);
        slots.set_aside(last);
        let looks = Cell::new(0);
        let found = slots.aside_that(|slot| {
            assert!(slots.aside.try_lock().is_ok());
            looks.set(looks.get() + 1);
            slot.index == first.index
        });
        assert_eq!((found.map(|slot| slot.index), looks.get()), (Some(first.index), 2));
        // The slot taken out for a look is in the list again.
        assert!(slots.aside_that(|slot| slot.index == first.index).is_none());
        assert!(slots.aside_that(|slot| slot.index == last.index).is_some());
        assert!(slots.aside_that(|_| true).is_none());
    }

    #[test]
    fn where_very_many_slots_are_in_use_a_lock_keeps_none_that_it_can_do_without() {
        for (index, keeps) in [((1 << 10) - 1, true), (1 << 10, false)] {
            let slot = Slot::<Linux, _>::new(RwSem::<Linux>::sealed(), index);
            let (name, may_be_kept) = (slot.name, slot.may_be_kept());
            assert_eq!((may_be_kept, slot.is_one_of_many(name)), (keeps, !keeps));
            assert_eq!(slot.seems_uncontended(name), !keeps);
        }
    }

    /// Whoever has pinned it may have come too late, and looks at it.
    #[test]
    fn a_slot_that_is_pinned_is_given_to_no_lock() {
        let slots = Slots::<Linux, RwSem<Linux>>::new_const();
        let slot = slots.take_sealed();
        let pin = slot.pin().ok();
        slots.give(slot);
        assert_ne!(slots.take_sealed().index, slot.index);
        drop(pin);
        assert_eq!(slots.take_sealed().index, slot.index);
    }

    #[test]
    fn what_happens_at_a_slot_is_not_counted_for_the_lock_that_had_it() {
        static COUNTS: EventCounts = EventCounts::new();
        let slots = Slots::<Linux, RwSem<Linux>>::new_const();
        let slot = slots.take_sealed();
        let count = || {
            slot.full.write_with(Wait::until_nanos(0)).unwrap_err();
            COUNTS.get(Event::WriteFail)
        };
        slot.full.head().set_events(Some(&COUNTS));
        assert_eq!(count(), 1);
        slots.give_up(slot);
        assert_eq!(count(), 1);
    }

    /// Who reads by a slot of its record is in no count of the lock.
    #[test]
    fn a_child_waits_for_no_visible_reader_of_its_parent() {
        fairlock_testing::alone(|| {
            let lock = &ThinRwSem::<Linux>::new_const();
            if !lock.show_readers() {
                return;
            }
            let [reads, forked] = &[(); 2].map(|()| Barrier::new(2));
            thread::scope(|s| {
                s.spawn(|| {
                    lock.read();
                    reads.wait();
                    forked.wait();
                });
                reads.wait();
                assert!(lock.is_locked());
                fairlock_testing::in_child(|| assert!(!lock.is_locked() && lock.try_write()));
                forked.wait();
            });
        });
    }

    /// The name in its word is none of a slot: it is full once more, to give that back.
    #[test]
    fn a_lock_that_is_visible_and_full_as_it_is_dropped_gives_its_slot_back() {
        fairlock_testing::alone(|| {
            let slots = Linux::rwsem_slots();
            let in_use = || {
                let mut free = 0;
                slots.for_each_free(|_| free += 1);
                slots.made() - free
            };
            let before = in_use();
            let lock = ThinRwSem::<Linux>::new_const();
            lock.on_full(|_| {});
            if !lock.show_readers() {
                return;
            }
            assert!(lock.shows_readers());
            assert_eq!(in_use(), before + 1);
            drop(lock);
            assert_eq!(in_use(), before);
        });
    }

    #[test]
    fn a_child_waits_for_nothing_that_a_thread_of_its_parent_had() {
        fairlock_testing::alone(|| {
            let slots = Linux::rwsem_slots();
            let late = slots.take_sealed();
            // A thread that is late at the slot counts itself, and the fork comes before it backs
            // out.
            // SAFETY: nobody holds a sealed lock.
            unsafe { late.full.adopt_readers(1) };
            slots.give(late);
            let [changes, forked] = [(); 2].map(|()| Barrier::new(2));
            thread::scope(|s| {
                s.spawn(|| {
                    let aside = slots.aside();
                    changes.wait();
                    forked.wait();
                    drop(aside);
                });
                changes.wait();
                fairlock_testing::in_child(|| {
                    for _ in 0..2 * SMALLEST {
                        let lock = ThinRwSem::<Linux>::new(Policy::DEFAULT.with_priorities());
                        assert!(lock.try_write());
                    }
                    let lock = ThinRwSem::<Linux>::new_const();
                    let slot = lock.on_full(core::ptr::from_ref);
                    assert_ne!(slot, core::ptr::from_ref(&late.full));
                    lock.write();
                    // SAFETY: taken just now.
                    unsafe { lock.unlock_write() };
                });
                forked.wait();
            });
        });
    }
}

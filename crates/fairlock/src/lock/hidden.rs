//! What does not belong to the interface: for the library that is preloaded; and for concurrency testers, whether a lock is what its word says, seen between two
//! steps of its threads.

use core::fmt;
use core::mem::offset_of;
use core::sync::atomic::Ordering;

use super::raw::SlotOf;
use super::rwlock::RawRwLock;
use super::slot::{PooledPlatform, Slot, Slots};
use super::turn::is_sound;
use super::word::{Flags, Word};
use super::words::{Names, One, Words};
use super::{Raw, RawMutex};
use crate::inspect;
use crate::platform::Platform;
use crate::wait::{Access, Kind, Queue, Wait, WaitError};

// ---- for the library that is preloaded ----

impl<P: PooledPlatform> RawRwLock<P> {
    /// As [`read_with`](Self::read_with); `wait` is asked for only if the caller has to wait. `gives_up`: the caller
    /// may not try again after that, and so is not counted before it has the lock.
    #[doc(hidden)]
    #[inline]
    pub fn read_until_of<'a>(
        &self,
        gives_up: bool,
        wait: impl FnOnce() -> Wait<'a, P>,
    ) -> Result<(), WaitError>
    where
        P: 'a,
    {
        if !gives_up && self.read_counted(self.raw.load()) {
            Ok(())
        } else {
            self.read_with(wait())
        }
    }

    /// Takes the lock for writing if that needs no waiting, past those that wait if it is the calling thread's turn.
    #[doc(hidden)]
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn take_write_at_once(&self) -> bool {
        let word = self.raw.here(self.raw.load());
        if word.is_odd() {
            self.try_write()
        } else {
            self.raw.steal_in_turn(word, Access::Exclusive)
        }
    }

    /// As [`unlock_read`](Self::unlock_read), by the count, if a reader is inside; returns whether one was.
    ///
    /// # Safety
    /// If a reader is inside, the caller may end its read.
    #[doc(hidden)]
    pub unsafe fn try_unlock_read(&self) -> bool {
        let word = self.raw.load();
        let is_read = match word.is_odd() {
            true => word.is_visible() && self.words().is_read_visibly(word),
            false => word.readers() > 0,
        };
        if is_read {
            self.leave(Access::Shared);
        }
        is_read
    }

    /// The lock, which may be held, is free from here on, and gives its slot back unless somebody waits.
    ///
    /// # Safety
    /// No holder relies on the lock.
    #[doc(hidden)]
    pub unsafe fn forget(&self) {
        if self.raw.load() == Word::FREE {
            return;
        }
        self.words().forget_readers();
        self.settle();
        self.words().forget_holders();
        self.trim();
    }

    /// The child of a fork: the lock was held for writing at the fork, and is. Readers that the word counts were about to take
    /// that back, and do not exist.
    ///
    /// # Safety
    /// That is so.
    #[doc(hidden)]
    pub unsafe fn forget_passing(&self) {
        let word = self.raw.load();
        if word.has_writer_inside() && word.readers() > 0 {
            self.words().leave_readers(word.readers());
        }
    }

    /// When the first queued writer came.
    #[doc(hidden)]
    pub fn first_writer_since(&self) -> Option<u64> {
        self.with_waiters(|waiters| waiters.first(Kind::Writer).map(|writer| writer.arrived))
            .flatten()
    }

    /// Runs `f` on the queue, if the lock has one. `f` must not panic, and must not use this lock.
    pub(crate) fn with_waiters<R>(&self, f: impl FnOnce(&Queue<P>) -> R) -> Option<R> {
        self.raw.lock_queue().map(|queued| f(&queued.waiters))
    }
}

/// A reader/writer lock, taken and released in one step, if nothing is in the way: as most sections of most locks are.
#[doc(hidden)]
pub struct InOneStep<'a, P: PooledPlatform>(&'a One<P>);

impl<'a, P: PooledPlatform> InOneStep<'a, P> {
    const READ: Word = Word::FREE.taken(Access::Shared);
    const WRITTEN: Word = Word::FREE.taken(Access::Exclusive);

    #[inline(always)]
    pub fn of(lock: &'a RawRwLock<P>) -> Self {
        Self(lock.words())
    }

    /// Takes the lock for reading, if its word is free.
    #[inline(always)]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn read(&self) -> bool {
        self.0.take(Word::FREE, Access::Shared).is_ok()
    }

    /// Takes the lock for writing, if its word is free.
    #[inline(always)]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn write(&self) -> bool {
        self.0.take(Word::FREE, Access::Exclusive).is_ok()
    }

    /// Takes the lock for reading, if only readers are inside, all of them counted, and nobody waits; not if the word changes
    /// meanwhile. (This looks at the thread's record.)
    #[inline(always)]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn read_beside(&self) -> bool {
        let word = self.0.load();
        if !word.is_read_only() || word.is_full() || word.has_awake_writer() {
            return false;
        }
        let taken = self.0.take(word, Access::Shared).is_ok();
        if taken && word.readers() > 0 {
            self.0.reads_beside(word);
        }
        taken
    }

    /// Gives up the lock held for reading, if only readers are inside, and nobody waits; not if the word changes meanwhile. Returns
    /// whether it has.
    ///
    /// # Safety
    /// If a reader is inside, the caller may end its read.
    #[inline(always)]
    pub unsafe fn unlock_read(&self) -> bool {
        // Release: as in `leave`.
        match self.0.exchange(Self::READ, Word::FREE, Ordering::Release) {
            Ok(()) => true,
            Err(word) if word.is_read_only() && word.readers() > 0 => {
                self.0.exchange(word, word.left(Access::Shared), Ordering::Release).is_ok()
            }
            Err(_) => false,
        }
    }

    /// Gives up the lock held for writing, if nobody waits, and the lock has no slot. Returns whether it has.
    ///
    /// # Safety
    /// If a writer is inside, the caller may end its section.
    #[inline(always)]
    pub unsafe fn unlock_write(&self) -> bool {
        // Release: as in `leave`.
        self.0.exchange(Self::WRITTEN, Word::FREE, Ordering::Release).is_ok()
    }
}

impl<P: PooledPlatform> One<P> {
    /// Nobody holds the lock, whatever its word says.
    fn forget_holders(&self) {
        _ = self.change(Ordering::Relaxed, |word| Some(word.without_holders()));
    }
}

// ---- for testers ----

/// The word, taken apart.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub writer: bool,
    pub readers: usize,
    pub upgradable: bool,
    pub waiters: bool,
    pub closed: bool,
    pub readers_turn: bool,
    pub wake_next: bool,
    pub visible: bool,
    /// Of a mutex: the holder knows that somebody may wait.
    pub known: bool,
    /// The index of the slot.
    pub slot: Option<u32>,
}

impl From<Word> for Snapshot {
    fn from(word: Word) -> Self {
        // A lock that was not used yet is free: the rest is its policy.
        let word = if word.is_unused() { Word::FREE } else { word };
        Self {
            writer: word.is_written(),
            readers: word.readers(),
            upgradable: word.is_upgradable(),
            waiters: word.has_waiters(),
            closed: word.has_waiters() && word.is_closed(),
            readers_turn: word.has_waiters() && word.is_readers_turn(),
            wake_next: word.has_next_to_wake(),
            visible: word.is_visible(),
            known: !word.is_odd() && word.is_known(),
            slot: word.name().checked_sub(1),
        }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writer, readers, waiters, upgradable, closed, .. } = *self;
        inspect::write_those(
            f,
            &[
                (writer, &"WRITER"),
                (readers > 0, &format_args!("readers={readers}")),
                (upgradable, &"UPGRADABLE"),
                (waiters, &"WAITERS"),
                (closed, &"CLOSED"),
                (self.readers_turn, &"READERS_TURN"),
                (self.wake_next, &"WAKE_NEXT"),
                (self.visible, &"VISIBLE"),
                (self.known, &"KNOWN"),
                (!writer && readers == 0, &"free"),
            ],
        )
    }
}

impl<W: Words> Raw<W> {
    /// As [`slot`](Self::slot), of a lock that may be wrong.
    fn made_slot(word: Word) -> Result<Option<&'static SlotOf<W>>, &'static str> {
        match word.name() {
            0 => Ok(None),
            name => match W::P::slots().find(name) {
                None => Err("the word names a slot that was not made"),
                slot => Ok(slot),
            },
        }
    }

    /// # Safety
    /// No thread runs in a method of this lock meanwhile; any may be stopped in one.
    unsafe fn check(
        &self,
        inside: usize,
        writer: bool,
        threads: usize,
    ) -> Result<(), &'static str> {
        let word = self.load();
        if word.is_odd() {
            return if writer { Err("a writer is inside a visible lock") } else { Ok(()) };
        }
        if word.is_upgradable() && !word.is_written() && word.readers() == 0 {
            return Err("an upgradable reader is not counted");
        }
        if writer && !word.is_written() {
            return Err("the word does not know of the writer inside");
        }
        // While a name is revoked, the units of its readers are counted.
        if word.readers() < inside || writer && word.readers() > threads {
            return Err("the word does not count the readers inside");
        }
        let flags = Flags::CLOSED.with(Flags::READERS_TURN);
        if !word.has_waiters() && word.has_any(flags) {
            return Err("a flag of the queue is set, and nobody is queued");
        }
        let Some(slot) = Self::made_slot(word)? else {
            return if word.has_waiters() {
                Err("somebody waits, and there is no slot")
            } else {
                Ok(())
            };
        };
        // SAFETY: the caller's promise.
        match unsafe { slot.peek() } {
            Some(q) if q.lock != self.as_known() => Err("the slot belongs to another lock"),
            Some(q) => is_sound(word, q),
            None => Ok(()), // somebody is changing the queue
        }
    }

    /// # Safety
    /// As [`check`](Self::check).
    unsafe fn for_each_queued(&self, mut f: impl FnMut(usize, char)) -> bool {
        let Ok(slot) = Self::made_slot(self.load()) else { return false };
        let Some(slot) = slot else { return true };
        // SAFETY: the caller's promise.
        let Some(q) = (unsafe { slot.peek() }) else { return false };
        let letter = |state| ['W', 'N', 'I', 'G'].get(state as usize).copied().unwrap_or('?');
        q.waiters.iter().for_each(|waiter| f(waiter.thread.hint(), letter(waiter.state())));
        true
    }

    /// # Safety
    /// As [`check`](Self::check).
    unsafe fn check_idle(&self) -> Result<(), &'static str> {
        // SAFETY: the caller's promise.
        unsafe { self.check(0, false, 0) }?;
        let word = self.load();
        if !word.is_odd()
            && (!word.is_free() || word.has_waiters() || word.has_any(Flags::AWAKE_WRITER))
        {
            return Err("the lock is not free after everybody has left");
        }
        match Self::made_slot(word)? {
            // SAFETY: the caller's promise.
            Some(slot) if unsafe { slot.peek() }.is_none() => Err("somebody has the queue lock"),
            _ => Ok(()),
        }
    }
}

impl<P: PooledPlatform> RawRwLock<P> {
    #[doc(hidden)]
    pub fn snapshot(&self) -> Snapshot {
        self.raw.load().into()
    }

    /// What is wrong with the lock, if `inside` readers, or a `writer`, are known to be inside, and there are so many
    /// `threads`.
    ///
    /// # Safety
    /// No thread runs in a method of this lock meanwhile; any may be stopped in one.
    #[doc(hidden)]
    pub unsafe fn check(
        &self,
        inside: usize,
        writer: bool,
        threads: usize,
    ) -> Result<(), &'static str> {
        // SAFETY: the caller's promise.
        unsafe { self.raw.check(inside, writer, threads) }
    }

    /// Calls `f` with the hint of each queued thread and a letter for its state; false if somebody is changing the queue.
    ///
    /// # Safety
    /// As [`check`](Self::check).
    #[doc(hidden)]
    pub unsafe fn for_each_queued(&self, f: impl FnMut(usize, char)) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.raw.for_each_queued(f) }
    }

    /// What is left in the lock, which nobody uses.
    ///
    /// # Safety
    /// As [`check`](Self::check).
    #[doc(hidden)]
    pub unsafe fn check_idle(&self) -> Result<(), &'static str> {
        // SAFETY: the caller's promise.
        unsafe { self.raw.check_idle() }
    }

    /// The name of what is at an address: in the lock, or in its slot.
    #[doc(hidden)]
    pub fn field_at(&self, address: usize) -> Option<&'static str> {
        inspect::field_at(self, address, &[(0, size_of::<Self>(), "word")])
            .or_else(|| Raw::<One<P>>::made_slot(self.raw.load()).ok()??.field_at(address))
    }
}

impl<P: PooledPlatform> RawMutex<P> {
    #[doc(hidden)]
    pub fn snapshot(&self) -> Snapshot {
        self.raw().load().into()
    }

    /// As [`RawRwLock::check`].
    ///
    /// # Safety
    /// As there.
    #[doc(hidden)]
    pub unsafe fn check(&self, is_held: bool) -> Result<(), &'static str> {
        // SAFETY: the caller's promise.
        unsafe { self.raw().check(0, is_held, 0) }
    }

    /// Calls `f` with the hint of each thread that is queued; false if somebody is changing the queue.
    ///
    /// # Safety
    /// As [`RawRwLock::check`].
    #[doc(hidden)]
    pub unsafe fn for_each_queued(&self, mut f: impl FnMut(usize)) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.raw().for_each_queued(|hint, _| f(hint)) }
    }
}

impl<P: PooledPlatform> Slots<P> {
    /// The next lock that the calling thread takes, and at which nobody waits, gives its slot back.
    #[doc(hidden)]
    pub fn seem_calm() {
        P::thread().lock.seem_calm();
    }
}

impl<P: Platform> Slot<P> {
    /// The name of what is at an address in the slot.
    fn field_at(&self, address: usize) -> Option<&'static str> {
        let fields = [
            (offset_of!(Self, holder), size_of_val(&self.holder), "holder"),
            (0, size_of::<Self>(), "queue"),
        ];
        inspect::field_at(self, address, &fields)
    }
}

impl<P: PooledPlatform> Slots<P> {
    /// How many slots locks have.
    #[doc(hidden)]
    pub fn in_use(&self) -> u32 {
        let mut free = 0;
        self.for_each_free(|_| free += 1);
        self.made() - free
    }
}

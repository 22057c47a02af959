//! The parts of a lock, its fast paths, how its slow paths begin and end, and the way
//! from reader to writer; and what both measure a lock by ([`Uncontended`], [`Yield`]).
//!
//! What the waits under tenure do is in its [`Rules`].

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;

use super::word::{AtomicWord, Flags, Word};
use crate::events::{self, Event, EventCounts};
use crate::inspect::Field;
use crate::may_dangle::MayDangle;
use crate::platform::{Atomic, ConstZero, Platform, Thread};
use crate::ticket::AdaptiveTicketLock;
use crate::wait::{Access, Kind, Queue, WATCH_NS, Wait, WaitContext, WaitError};

/// A discipline, as what the locks share sees it. The type is that of its numbers, which each lock has.
///
/// Each function is called at one occasion. What has a default does not matter to each discipline.
pub(crate) trait Rules<P: Platform>: Copy + Send + Sync + 'static {
    /// What is written together with the word, and is in its cache line.
    type Near: Default + Send + Sync;
    /// What has cache lines of its own.
    type Lines: Default + Send + Sync;
    /// What the queue lock guards for the discipline.
    type Queued: Send;
    /// That of a new lock.
    const QUEUED: Self::Queued;

    /// Whether real-time threads go first.
    fn priorities(&self) -> bool;

    // ---- in ----

    /// A reader could not stay. `counted`: the word that it found as it counted itself; none if it did not.
    fn read(
        sem: &Sem<P, Self>,
        counted: Option<Word>,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError>;
    /// A writer found `word`.
    fn write(sem: &Sem<P, Self>, word: Word, context: &WaitContext<'_, P>)
    -> Result<(), WaitError>;
    /// An upgradable reader found the lock taken.
    fn upgradable(sem: &Sem<P, Self>, context: &WaitContext<'_, P>) -> Result<(), WaitError>;

    // ---- out ----

    /// Whether anybody is queued, as far as that is known without a look at the word.
    #[inline(always)]
    fn is_awaited(_: &Sem<P, Self>) -> bool {
        false
    }
    /// Whether a reader that has left as the last one has to look whom to wake: only if somebody waits.
    /// `before` is the word that still counted it.
    #[inline(always)]
    fn wakes_after(before: Word) -> bool {
        before.is_waited_for()
    }
    /// Such a reader has left the lock free.
    fn read_release(sem: &Sem<P, Self>);
    /// The writer leaves, and the word is not just its own.
    fn write_release(sem: &Sem<P, Self>);
    /// An upgradable reader is none any more, and somebody is queued. `before` is the word that still
    /// counted the one that has left.
    fn upgradable_left(sem: &Sem<P, Self>, before: Word);
    /// Closes the lock: nobody else gets in before the waiter whose turn it is has had it.
    fn close_for_next(sem: &Sem<P, Self>);
    /// A writer has become a reader, and somebody is queued: readers may join it.
    fn let_readers_join(sem: &Sem<P, Self>);

    // ---- looking ----

    /// Whether the queue knows who is next, if it should.
    fn knows_next(_: &Queued<P, Self::Queued>) -> bool {
        true
    }
    /// The fields of `Lines`.
    const FIELDS: &'static [Field];
}

/// A lock of one discipline. Its methods do what those of [`RwSem`](super::RwSem) do that have their names.
#[repr(transparent)]
pub(crate) struct Sem<P: Platform, D: Rules<P>>(MayDangle<Parts<P, D>>);

/// What a lock consists of. The first cache line has the word, and what is touched with it; the queue
/// lock is in none that the discipline has.
#[repr(C, align(64))]
pub(crate) struct Parts<P: Platform, D: Rules<P>> {
    pub(super) head: Head<P>,
    /// The numbers of the policy.
    pub(super) policy: D,
    pub(super) near: D::Near,
    pub(super) lines: D::Lines,
    pub(super) queue: LockedQueue<P, D::Queued>,
}

/// What is the same in each lock.
#[doc(hidden)]
#[repr(C)]
pub struct Head<P: Platform> {
    /// The state: see [`word`](super::word).
    pub(crate) word: AtomicWord<P>,
    /// For a lock of a pool: how often it was free of late.
    pub(crate) uncontended: Uncontended,
    /// For such a lock: since when nobody wrote, as far as readers know; zero if somebody may have.
    pub(crate) read_since: AtomicU32,
    pub(super) events: events::Sink,
}

impl<P: Platform, D: Rules<P>> Sem<P, D> {
    /// Whether its parts are in the cache lines that they should be in.
    #[cfg(all(feature = "std", not(fairlock_loom)))]
    #[allow(dead_code)] // Rust 1.85 sees no use in an assertion
    pub(super) const IS_IN_LINES: bool = {
        use core::mem::offset_of;
        const LINE: usize = 64;
        offset_of!(Parts<P, D>, near) + size_of::<D::Near>() <= LINE
            && offset_of!(Parts<P, D>, lines) == LINE
            && offset_of!(Parts<P, D>, queue) == LINE + size_of::<D::Lines>()
            && size_of::<D::Lines>() % LINE == 0
    };

    /// A free lock.
    pub(crate) fn new(policy: D) -> Self {
        Self(MayDangle::new(Parts {
            head: Head::of(AtomicWord::default()),
            policy,
            near: D::Near::default(),
            lines: D::Lines::default(),
            queue: LockedQueue::of(AdaptiveTicketLock::new(), D::QUEUED),
        }))
    }

    /// As [`new`](Self::new), for statics.
    pub(crate) const fn new_const(policy: D) -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
        D::Near: ConstZero,
        D::Lines: ConstZero,
    {
        Self(MayDangle::new(Parts {
            head: Head::of(AtomicWord::ZERO),
            policy,
            near: ConstZero::ZERO,
            lines: ConstZero::ZERO,
            queue: LockedQueue::of(AdaptiveTicketLock::new_const(), D::QUEUED),
        }))
    }
}

impl<P: Platform> Head<P> {
    const fn of(word: AtomicWord<P>) -> Self {
        Self {
            word,
            uncontended: Uncontended::new(),
            read_since: AtomicU32::new(0),
            events: events::Sink::new(),
        }
    }
}

impl<P: Platform, D: Rules<P>> Deref for Sem<P, D> {
    type Target = Parts<P, D>;

    #[inline(always)]
    fn deref(&self) -> &Parts<P, D> {
        &self.0
    }
}

impl<P: Platform, D: Rules<P>> DerefMut for Sem<P, D> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Parts<P, D> {
        &mut self.0
    }
}

impl<P: Platform, D: Rules<P>> Deref for Parts<P, D> {
    type Target = Head<P>;

    #[inline(always)]
    fn deref(&self) -> &Head<P> {
        &self.head
    }
}

impl<P: Platform, D: Rules<P>> DerefMut for Parts<P, D> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Head<P> {
        &mut self.head
    }
}

/// How often the lock was found free of late. Whoever has it counts, but for readers that remember the lock: those
/// count by themselves, as a store would take the word's line from other readers. Others may overwrite each other's
/// counts.
///
/// The count is in the lock, in the cache line of the word that each acquisition writes. A count of
/// each thread, over all its locks, would cost no store to that line. But where a few of many locks
/// have a queue, threads find those as often as the others, and no lock would ever become thin.
#[doc(hidden)]
pub struct Uncontended(AtomicU32);

impl Uncontended {
    /// A lock is uncontended when its count reaches this: one up for each acquisition that found it free,
    /// [`CONFLICT`](Self::CONFLICT) down for each that did not. So many uncontended acquisitions save, in a thin
    /// lock, what it costs to inflate it again. In acquisitions; compared with those that found the lock
    /// free.
    const ENOUGH: u32 = if cfg!(fairlock_loom) { 1 } else { 32 };
    /// A lock becomes thin only if less than one in so many of its acquisitions finds it taken. In
    /// acquisitions; compared, as so many that found it free, with one that did not.
    const CONFLICT: u32 = 4;

    const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// A thread has found the lock free, or not.
    #[inline(always)]
    pub(crate) fn note(&self, found_free: bool) {
        let before = self.0.load(Ordering::Relaxed);
        let now = match found_free {
            true => Self::ENOUGH.min(before + 1),
            false => before.saturating_sub(Self::CONFLICT),
        };
        if now != before {
            self.0.store(now, Ordering::Relaxed);
        }
    }

    /// A reader, which counts by itself, has found the lock free often enough.
    pub(crate) fn seems_enough(&self) {
        self.0.store(Self::ENOUGH, Ordering::Relaxed);
    }

    /// Whether the lock was found free often enough to become thin.
    #[inline(always)]
    pub(crate) fn is_enough(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= Self::ENOUGH
    }

    /// Counting begins anew.
    #[inline(always)]
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

// ---- the queue ----

/// What the queue lock guards.
pub(crate) struct Queued<P: Platform, T> {
    pub(super) waiters: Queue<P>,
    /// The thread that holds the lock upgradably and waits for the readers inside to leave.
    pub(super) upgrader: Option<&'static Thread<P>>,
    /// What the discipline knows about whose turn it is.
    pub(super) own: T,
}

/// The queue behind its lock.
pub(super) struct LockedQueue<P: Platform, T> {
    lock: AdaptiveTicketLock<P>,
    /// Guarded by `lock`.
    queued: UnsafeCell<Queued<P, T>>,
}

// SAFETY: `queued` is reached under `lock` only.
unsafe impl<P: Platform, T: Send> Send for LockedQueue<P, T> {}
// SAFETY: as above.
unsafe impl<P: Platform, T: Send> Sync for LockedQueue<P, T> {}

impl<P: Platform, T> LockedQueue<P, T> {
    pub(super) const fn of(lock: AdaptiveTicketLock<P>, own: T) -> Self {
        let queued = Queued { waiters: Queue::new(), upgrader: None, own };
        Self { lock, queued: UnsafeCell::new(queued) }
    }

    /// Runs `f` on the queue, under its lock. `f` does not panic.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Queued<P, T>) -> R) -> R {
        self.lock.lock();
        // SAFETY: `lock` is held, so this is the only reference to the queue; nothing in the
        // crate panics while it is held.
        let result = f(unsafe { &mut *self.queued.get() });
        // SAFETY: taken above.
        unsafe { self.lock.unlock() };
        result
    }

    /// The queue of a lock that nobody else uses.
    pub(super) fn get_mut(&mut self) -> &mut Queued<P, T> {
        self.queued.get_mut()
    }

    /// Leaves the queue lock held, as a fork does while another thread is in the queue.
    #[cfg(test)]
    pub(super) fn leave_locked(&self) {
        self.lock.lock();
    }

    /// Whether nobody has the queue lock or waits for it.
    pub(super) fn is_quiet(&self) -> bool {
        !self.lock.is_locked() && !self.lock.is_contended()
    }

    /// For testers, between two steps of all threads: the queue, unless one of them is
    /// changing it.
    ///
    /// # Safety
    /// No thread runs in a method of the lock meanwhile.
    pub(super) unsafe fn peek(&self) -> Option<&Queued<P, T>> {
        // SAFETY: nobody has the queue lock, and nobody runs who could take it.
        (!self.lock.is_locked()).then(|| unsafe { &*self.queued.get() })
    }

    /// For testers: what is left in the queue lock, which nobody uses.
    pub(super) fn check_idle(&self) -> Result<(), &'static str> {
        self.lock.check_idle()
    }

    /// The last reader has left a lock that is being upgraded, or one that was only passing through.
    #[cold]
    pub(super) fn wake_upgrader(&self) {
        // The record outlives the wait (rule 12).
        if let Some(thread) = self.with(|q| q.upgrader) {
            thread.parker.unpark();
        }
    }
}

#[cfg(all(test, fairlock_loom))]
impl<
    P: Platform<
            AtomicUsize = loom::sync::atomic::AtomicUsize,
            AtomicU32 = loom::sync::atomic::AtomicU32,
            AtomicU64 = loom::sync::atomic::AtomicU64,
        >,
    T,
> LockedQueue<P, T>
{
    /// Has loom check that every access so far happens before this one.
    pub(super) fn access_mut(&mut self) {
        self.lock.access_mut();
    }
}

// ---- looking ----

impl<P: Platform> Head<P> {
    pub(super) fn now(&self) -> Word {
        self.word.load(Ordering::Relaxed)
    }

    /// Somebody may have written.
    #[inline(always)]
    pub(crate) fn is_read_no_longer(&self) {
        // A load first: another thread may read the line.
        if self.read_since.load(Ordering::Relaxed) != 0 {
            self.read_since.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn set_events(&self, counts: Option<&'static EventCounts>) {
        self.events.set(counts);
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.now().is_held()
    }

    pub(crate) fn is_write_locked(&self) -> bool {
        self.now().is_held_by_writer()
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.now().has_waiters()
    }

    pub(crate) fn is_saturated(&self) -> bool {
        !self.now().has_room()
    }

    // ---- one step of the word, whatever the discipline ----

    /// One atomic operation. When it fails, it returns the word it found and the reader stays
    /// counted: the slow path takes the count back, or keeps it if the reader may steal.
    #[inline(always)]
    pub(super) fn read_fast(&self) -> Result<(), Word> {
        // Acquire: owns the lock if nothing was in the way (rule 3).
        let before = self.word.enter(Access::Shared, Ordering::Acquire);
        if before.is_open_to_new_readers() { Ok(()) } else { Err(before) }
    }

    /// Takes the lock in this way, if the word that it has then may be taken so.
    pub(super) fn take_if(&self, access: Access, may: impl Fn(Word) -> bool) -> bool {
        self.word.take_while(self.now(), access, may).is_some()
    }
}

impl<P: Platform, D: Rules<P>> Sem<P, D> {
    // ---- in, to read ----

    #[inline]
    pub(crate) fn read(&self) {
        if let Err(before) = self.read_fast() {
            self.read_slow_forever(before);
        }
    }

    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub(crate) fn try_read(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        self.word.take_while(word, Access::Shared, Word::is_open_to_readers).is_some()
            || self.policy.priorities() && self.try_read_past_writers()
    }

    #[inline]
    pub(crate) fn read_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        self.read_until(wait.is_attempt(), || wait.begin())
    }

    /// `gives_up`: the reader may leave without the lock. Such a reader is not counted before it has the lock: readers that
    /// come and give up again and again could hide a free lock from a writer at each of its looks.
    #[inline(always)]
    pub(super) fn read_until<'a>(
        &self,
        gives_up: bool,
        wait: impl FnOnce() -> WaitContext<'a, P>,
    ) -> Result<(), WaitError>
    where
        P: 'a,
    {
        if !gives_up {
            return self.read_fast().or_else(|before| self.read_slow(Some(before), &wait()));
        }
        // Without looking at the word first: that would fetch its line twice, to read it and to write it.
        let open = Word::is_open_to_new_readers;
        match self.word.take_while(Word::FREE, Access::Shared, open) {
            Some(_) => Ok(()),
            None => self.read_slow(None, &wait()),
        }
    }

    #[cold]
    pub(super) fn read_slow_forever(&self, before: Word) {
        if let Err(error) = self.read_slow(Some(before), &WaitContext::FOREVER) {
            panic!("{error}");
        }
    }

    /// The fast path did not do; `counted` as in [`Rules::read`].
    #[cold]
    fn read_slow(
        &self,
        counted: Option<Word>,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        if !counted.unwrap_or_else(|| self.now()).has_room() {
            return self.refuse_reader(counted.is_some());
        }
        D::read(self, counted, context)?;
        self.keep_if_room()
    }

    /// A reader was counted, by itself or by its granter, without a look for room: may it stay?
    pub(super) fn keep_if_room(&self) -> Result<(), WaitError> {
        // Relaxed: this thread knows of its own count, so it sees the word with it.
        if self.word.load(Ordering::Relaxed).has_room() { Ok(()) } else { self.refuse_reader(true) }
    }

    /// A reader finds no room; if it is `counted`, it takes its count back.
    fn refuse_reader(&self, counted: bool) -> Result<(), WaitError> {
        self.events.count(Event::fail(Kind::Reader));
        if counted {
            // SAFETY: the thread gives up a count as a reader inside does, and it may be the last one.
            unsafe { self.unlock_read() };
        }
        Err(WaitError::TooManyReaders)
    }

    // Reads that go past waiting writers: for a thread that may hold the lock for reading already. As an
    // ordinary reader it would wait for a writer that waits for it. Such a thread never waits here: it is
    // counted, so no writer is inside (one that upgrades may be about to be). A thread that does not hold the
    // lock waits as an ordinary reader.

    pub(crate) fn read_recursive(&self) {
        if !self.try_read_recursive() {
            self.read();
        }
    }

    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub(crate) fn try_read_recursive(&self) -> bool {
        self.take_if(Access::Shared, Word::is_joinable) || self.try_read()
    }

    pub(crate) fn read_recursive_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        if self.try_read_recursive() { Ok(()) } else { self.read_with(wait) }
    }

    // Real-time priorities, for locks whose policy asks for them. What POSIX wants ("Thread Execution
    // Scheduling"), and what follows from it:
    //
    // * When the lock becomes available it goes to the waiter with the highest priority, and among equals to a
    //   writer: the order of `Queue`.
    // * A reader gets in unless a writer is inside, or a waiter of its own or a higher priority waits: it passes
    //   waiters of a lower priority, and those that have none.
    // * A thread that does not have to wait takes nothing from one that does: while a real-time thread is queued,
    //   the lock is closed (`HANDOFF`), whoever's tenure it is. It is closed under the queue lock when such a
    //   thread queues, and a grant opens it only if none is left.
    //
    // Priorities are asked of threads that wait, and of nobody else.

    /// The priority with which the calling thread waits.
    pub(super) fn priority(&self) -> u8 {
        if self.policy.priorities() { P::priority() } else { 0 }
    }

    /// A reader that found somebody waiting gets in if it passes all writers that wait.
    #[cold]
    fn try_read_past_writers(&self) -> bool {
        let priority = self.priority();
        if priority == 0 {
            return false;
        }
        // The lock may be closed: then the last one out grants it.
        let may = |word: Word| !word.is_written() && word.has_room();
        let passed = self
            .queue
            .with(|q| passes_writers(&q.waiters, priority) && self.take_if(Access::Shared, may));
        if passed {
            self.events.count(Event::ReadSteal);
        }
        passed
    }

    // ---- in, to write ----

    #[inline]
    pub(crate) fn write(&self) {
        if let Err(word) = self.write_fast() {
            self.write_slow_forever(word);
        }
    }

    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub(crate) fn try_write(&self) -> bool {
        self.write_fast().is_ok()
    }

    #[inline]
    pub(crate) fn write_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        self.write_fast().or_else(|word| D::write(self, word, &wait.begin()))
    }

    /// One compare-exchange from 0. When it fails, it returns the word it found.
    #[inline(always)]
    pub(super) fn write_fast(&self) -> Result<(), Word> {
        // Acquire: owns the lock on success (rule 3). Relaxed on failure: only
        // a hint for the slow path.
        self.word.compare_exchange(
            Word::FREE,
            Word::WRITTEN,
            Ordering::Acquire,
            Ordering::Relaxed,
        )?;
        Ok(())
    }

    #[cold]
    pub(super) fn write_slow_forever(&self, word: Word) {
        // Waiting for ever ends with the lock only.
        let _ = D::write(self, word, &WaitContext::FOREVER);
    }

    /// Takes the lock in this way if that needs no waiting; `again`: as one who may hold it for reading.
    pub(super) fn try_in(&self, access: Access, again: bool) -> bool {
        match access {
            Access::Shared if again => self.try_read_recursive(),
            Access::Shared => self.try_read(),
            Access::Upgradable => self.try_upgradable_read(),
            Access::Exclusive => self.try_write(),
        }
    }

    /// Takes the lock in this way; gives up as `wait` says.
    pub(super) fn take_with(&self, access: Access, wait: Wait<'_, P>) -> Result<(), WaitError> {
        match access {
            Access::Shared => self.read_with(wait),
            Access::Upgradable => self.upgradable_read_with(wait),
            Access::Exclusive => self.write_with(wait),
        }
    }

    // ---- out ----

    /// # Safety
    /// The caller holds the lock for reading.
    #[inline]
    pub(crate) unsafe fn unlock_read(&self) {
        // Release: what was read under the lock stays before the next writer.
        let before = self.word.leave(Access::Shared, Ordering::Release);
        if before.readers() == 1 && D::wakes_after(before) {
            self.read_release_slow(before);
        }
    }

    /// # Safety
    /// As [`RwSem::try_unlock_read`](super::RwSem::try_unlock_read).
    #[inline]
    pub(crate) unsafe fn try_unlock_read(&self) -> bool {
        // Release: as above. Without a look at the word first: that would fetch its line twice, to read it and to write it.
        let before = self.word.leave(Access::Shared, Ordering::Release);
        if before.readers() == 0 {
            // Relaxed: nobody has entered.
            self.word.enter(Access::Shared, Ordering::Relaxed);
            return false;
        }
        if before.readers() == 1 && D::wakes_after(before) {
            self.read_release_slow(before);
        }
        true
    }

    /// The last reader left, the word was `before`, and somebody waits.
    #[cold]
    fn read_release_slow(&self, before: Word) {
        if !before.is_written() {
            D::read_release(self);
        } else if before.is_upgradable() {
            // The lock is not free. Beside a writer that is inside, the reader was only passing
            // through.
            self.queue.wake_upgrader();
        }
    }

    /// # Safety
    /// The caller holds the lock for writing.
    #[inline]
    pub(crate) unsafe fn unlock_write(&self) {
        // Release: what was written is seen by whoever takes the lock next.
        // The load comes first, as an exchange that fails costs time. A load of the word, right
        // after the locked operation that took it, would cost time too: whether anybody waits is on
        // another line.
        if D::is_awaited(self)
            || self
                .word
                .compare_exchange(Word::WRITTEN, Word::FREE, Ordering::Release, Ordering::Relaxed)
                .is_err()
        {
            self.write_release_slow();
        }
    }

    #[inline(never)]
    fn write_release_slow(&self) {
        D::write_release(self);
    }

    /// # Safety
    /// The caller holds the lock for writing.
    pub(crate) unsafe fn unlock_write_fair(&self) {
        D::close_for_next(self);
        // SAFETY: the caller's promise.
        unsafe { self.unlock_write() }
    }

    /// # Safety
    /// The caller holds the lock for reading.
    pub(crate) unsafe fn unlock_read_fair(&self) {
        D::close_for_next(self);
        // SAFETY: the caller's promise.
        unsafe { self.unlock_read() }
    }

    // ---- from writer to reader ----

    /// # Safety
    /// The caller holds the lock for writing; after the call, for reading.
    pub(crate) unsafe fn downgrade(&self) {
        self.become_reader(Access::Shared);
    }

    /// The writer becomes a reader that holds the lock in this way.
    pub(super) fn become_reader(&self, access: Access) {
        // One step, so there is no gap. Release: the readers let in see what was written.
        // `WRITER_LOCKED` is the caller's own, so a subtraction takes off exactly that bit.
        let before = self.word.change(Access::Exclusive, access, Ordering::Release);
        if before.has_waiters() {
            D::let_readers_join(self);
        }
    }
}

// ---- upgradable reads ----
//
// A reader that may become the writer, with no other writer in between.
//
// An upgradable reader is counted as a reader, and sets `UPGRADABLE`, which keeps other upgradable
// readers out; readers come and go beside it. A thread that waits to read upgradably waits on the
// writers' side of the queue. So it is served in the writers' order, and as soon as a writer would
// be; but readers may be inside when it gets in.
//
// ```text
// upgrade    in one step it sets WRITER_LOCKED and is no longer counted: from here on
//            nobody gets in, closed or not, whoever's turn it is
// drain      it waits for the readers inside to leave; the last one, which finds
//            WRITER_LOCKED with the count that it takes to zero, wakes it
// done       when the count is zero it clears UPGRADABLE, and is a writer like any other
// give up    in one step it is counted again, and WRITER_LOCKED is gone: a downgrade
// ```
//
// So an upgrade waits for no more than the sections of those that are inside, and nobody who holds
// the lock ever waits in the queue. Readers that may be inside already and read again
// (`read_recursive`) get in while the upgrader drains the lock: otherwise they
// would wait for it, and it for them.
//
// Why no wake-up is lost: the upgrader makes itself known under the queue lock, in the
// section in which it sets `WRITER_LOCKED`. Whoever takes the count to zero after that sees
// the flag in that same step, and then finds the upgrader under the queue lock. That
// goes for counts of readers that only pass through, too (rule 15).

impl<P: Platform, D: Rules<P>> Sem<P, D> {
    // ---- in ----

    #[inline]
    pub(crate) fn upgradable_read(&self) {
        if !self.upgradable_fast() {
            // Waiting for ever ends with the lock only.
            let _ = self.upgradable_slow(&WaitContext::FOREVER);
        }
    }

    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub(crate) fn try_upgradable_read(&self) -> bool {
        self.upgradable_fast() || self.upgradable_beside_readers()
    }

    pub(crate) fn upgradable_read_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        if self.upgradable_fast() { Ok(()) } else { self.upgradable_slow(&wait.begin()) }
    }

    /// One compare-exchange from 0.
    #[inline(always)]
    fn upgradable_fast(&self) -> bool {
        // Acquire: owns the lock on success (rule 3).
        self.word
            .compare_exchange(Word::FREE, Word::UPGRADABLE, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the lock beside readers, if a reader may come in and no other is upgradable.
    fn upgradable_beside_readers(&self) -> bool {
        let may = |word: Word| word.is_open_to_readers() && !word.is_upgradable();
        self.take_if(Access::Upgradable, may)
    }

    #[cold]
    fn upgradable_slow(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        if self.upgradable_beside_readers() {
            return Ok(());
        }
        D::upgradable(self, context)
    }

    // ---- out ----

    /// # Safety
    /// The caller holds the lock upgradably.
    #[inline]
    pub(crate) unsafe fn unlock_upgradable(&self) {
        // Release: what was read under the lock stays before the next writer.
        let before = self.word.leave(Access::Upgradable, Ordering::Release);
        if before.has_waiters() {
            self.upgradable_left(before);
        }
    }

    /// # Safety
    /// The caller holds the lock upgradably.
    pub(crate) unsafe fn unlock_upgradable_fair(&self) {
        D::close_for_next(self);
        // SAFETY: the caller's promise.
        unsafe { self.unlock_upgradable() }
    }

    /// # Safety
    /// The caller holds the lock upgradably; after the call, for reading.
    pub(crate) unsafe fn downgrade_upgradable(&self) {
        // Relaxed: it stays counted as a reader, and wrote nothing. Who writes next waits until it leaves, by a Release.
        let before = self.word.clear(Flags::UPGRADABLE, Ordering::Relaxed);
        if before.has_waiters() {
            // It stays inside, as a reader.
            self.upgradable_left(before.with_reader());
        }
    }

    /// Wakes whoever waits for `UPGRADABLE` to be clear, or for a free lock. `before` is the word
    /// that still counted the one that has left.
    #[cold]
    fn upgradable_left(&self, before: Word) {
        D::upgradable_left(self, before);
    }

    // ---- up and down ----

    /// # Safety
    /// The caller holds the lock for writing; after the call, upgradably.
    pub(crate) unsafe fn downgrade_to_upgradable(&self) {
        self.become_reader(Access::Upgradable);
    }

    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing. A thread that holds
    /// it for reading, too, waits for itself.
    #[inline]
    pub(crate) unsafe fn upgrade(&self) {
        // SAFETY: the caller's promise.
        if !unsafe { self.try_upgrade() } {
            // Waiting for ever ends with the lock only.
            let _ = self.upgrade_slow(&WaitContext::FOREVER);
        }
    }

    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing where it is true.
    #[inline]
    #[must_use = "it says in which way the caller holds the lock"]
    pub(crate) unsafe fn try_upgrade(&self) -> bool {
        let mut word = Word::UPGRADABLE;
        // With WRITER_LOCKED this is a slot that nobody in particular holds until it is unsealed
        // (`thin`): that is not this thread's to keep.
        while word.readers() == 1 && !word.is_written() {
            // Acquire: owns what readers have left (rule 3).
            let writer = word.upgraded();
            match self.word.compare_exchange(word, writer, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing if it succeeded.
    pub(crate) unsafe fn upgrade_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        if unsafe { self.try_upgrade() } { Ok(()) } else { self.upgrade_slow(&wait.begin()) }
    }

    /// Others are inside.
    #[cold]
    fn upgrade_slow(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let me = P::thread();
        me.parker.forget_notification();
        self.queue.with(|q| {
            q.upgrader = Some(me);
            // Relaxed: this thread owns nothing more yet. It is in as a reader, and stays in.
            self.word.change(Access::Shared, Access::Exclusive, Ordering::Relaxed);
        });
        let result = context.listed(me, || self.drain(me, context));
        self.queue.with(|q| q.upgrader = None);
        if result.is_err() {
            self.become_reader(Access::Shared);
        }
        result
    }

    /// Waits until the readers inside have left.
    fn drain(&self, me: &'static Thread<P>, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let mut spun = false;
        let mut ended = context.expired(P::now);
        loop {
            // After the end of the wait: its last act is a try.
            if self.take_drained() {
                return Ok(());
            }
            if let Some(error) = ended {
                return Err(error);
            }
            if !spun {
                spun = true;
                if self.word.spin_until(WATCH_NS, Word::is_drained) {
                    continue;
                }
            }
            self.events.count(Event::sleep(Kind::Writer));
            ended = context.sleep(&me.parker, None);
        }
    }

    /// Makes the upgrader a writer, if all readers have left.
    fn take_drained(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word.is_drained() {
            // Acquire: owns the lock on success (rule 3).
            match self.word.compare_exchange_weak(
                word,
                word.without(Flags::UPGRADABLE),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }
}

/// Whether a reader of this priority passes the writers that wait; not if a reader of a higher
/// priority waits, which is about to go first.
pub(super) fn passes_writers<P: Platform>(queue: &Queue<P>, priority: u8) -> bool {
    priority > queue.priority(Kind::Writer) && priority >= queue.priority(Kind::Reader)
}

/// Stores a hint only if it has changed: everybody reads the line.
#[inline(always)]
pub(super) fn set<T: Copy + PartialEq>(hint: &impl Atomic<T>, value: T) {
    if hint.load(Ordering::Relaxed) != value {
        hint.store(value, Ordering::Relaxed);
    }
}

// ---- what a lock yields ----

/// Acquisitions, and the time that they took. Seven digits are enough, in half the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yield {
    acquisitions: f32,
    ns: f32,
}

/// What is measured loses this part of itself with each later sample: one divided by this. As many samples are taken
/// before anything is concluded from them. In samples; compared with those since the first waiter came.
pub(super) const FADES: u16 = 8;

impl Yield {
    /// Of no time.
    pub(super) const NONE: Self = Self { acquisitions: 0.0, ns: 0.0 };

    pub(super) fn new(acquisitions: u64, ns: u64) -> Self {
        Self { acquisitions: acquisitions as f32, ns: ns as f32 }
    }

    /// So many acquisitions in a nanosecond, for `ns`.
    pub(super) fn at(rate: f32, ns: u64) -> Self {
        Self { acquisitions: rate * ns as f32, ns: ns as f32 }
    }

    /// How long it took.
    pub(super) fn ns(self) -> f32 {
        self.ns
    }

    /// Acquisitions in a nanosecond. There must have been some time.
    pub(super) fn rate(self) -> f32 {
        self.acquisitions / self.ns
    }

    /// Both times together.
    pub(super) fn add(&mut self, other: Self) {
        self.acquisitions += other.acquisitions;
        self.ns += other.ns;
    }

    /// Both times together, the `later` one counting more. Long times weigh more than short ones,
    /// as they should: what is wanted is acquisitions for time.
    pub(super) fn add_later(&mut self, later: Self) {
        let rest = 1.0 - 1.0 / f32::from(FADES);
        self.acquisitions *= rest;
        self.ns *= rest;
        self.add(later);
    }

    /// Whether this yield, counted `worth` times, is at least the `other` one. Also if there was no
    /// time to compare.
    pub(super) fn is_worth(self, other: Self, worth: f32) -> bool {
        self.acquisitions * other.ns * worth >= other.acquisitions * self.ns
    }
}

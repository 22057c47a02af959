//! Waiters of a lock: a waiter in its thread's stack frame, the FIFO queue of waiters, and the list
//! of threads to wake; and the [`List`] that each queue of the crate is made of.

use core::cmp;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;
#[cfg(feature = "async")]
use core::task::Waker;

use super::task::Task;
use super::{Hint, Sleeper};
use crate::may_dangle::MayDangle;
use crate::system::{Atomic, Cell, System};

/// Which way a waiter wants the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Reader = 0,
    Writer = 1,
}

impl Kind {
    pub(crate) fn other(self) -> Self {
        match self {
            Kind::Reader => Kind::Writer,
            Kind::Writer => Kind::Reader,
        }
    }
}

/// How a thread wants to hold the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Beside other readers.
    Shared,
    /// Beside readers, and the only one that may become the writer.
    Upgradable,
    /// Alone.
    Exclusive,
}

impl Access {
    /// The side on which it waits: an upgradable reader excludes others of its sort, as a writer
    /// does.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Access::Shared => Kind::Reader,
            Access::Upgradable | Access::Exclusive => Kind::Writer,
        }
    }
}

/// Lives in the acquiring thread's frame and is linked into the queue under
/// the queue lock. Its parker, in the thread record, outlives it (rule 12).
///
/// | state | meaning | who leaves it |
/// |---|---|---|
/// | WAITING | queued | a holder of the queue lock |
/// | NEXT | queued, and first in line: watches the lock | a holder of the queue lock |
/// | INVITED | queued reader that may join the readers inside | the waiter, under the queue lock |
/// | GRANTED | out of the queue, owns the lock; not of the default locks, whose waiters take the lock themselves | nobody: final |
///
/// Only a holder of the queue lock stores the state; the waiter reads it
/// without. Once GRANTED is stored nobody else touches the waiter.
pub(crate) struct Waiter<P: System>(MayDangle<Frame<P>>);

/// What others see of the waiter's frame.
pub(crate) struct Frame<P: System> {
    pub(crate) access: Access,
    /// Its side.
    pub(crate) kind: Kind,
    pub(crate) thread: &'static Sleeper<P>,
    /// When it arrived; if it made several attempts, as if it had waited all the time that they lasted.
    pub(crate) arrived: u64,
    /// Whether its place depends on when it arrived; otherwise it is behind all others.
    pub(crate) returns: bool,
    /// Whether another thread queues it, and its own sleeps elsewhere meanwhile.
    pub(crate) seated: bool,
    /// Of a semaphore: how many permits it wants.
    pub(crate) permits: u32,
    /// Its real-time priority: goes before all that have a lower one.
    pub(crate) priority: u8,
    /// Its place among all waiters of the lock, readers and writers; set by the queue.
    pub(super) ticket: Cell<u64>,
    links: Links<Waiter<P>>,
    state: P::AtomicU32,
    duty: Hint,
    pub(crate) task: Task,
}

/// What a waiter of the default locks that is not next is about. Changed under the queue lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// It sleeps until it is woken.
    Sleeps = 0,
    /// It looks from time to time whether the waiter that is next comes.
    Looks = 1,
    /// It was next, and did not come.
    Late = 2,
    /// It is to look now.
    Asked = 3,
}

pub(crate) const WAITING: u32 = 0;
pub(crate) const NEXT: u32 = 1;
pub(crate) const INVITED: u32 = 2;
pub(crate) const GRANTED: u32 = 3;

impl<P: System> Deref for Waiter<P> {
    type Target = Frame<P>;

    #[inline(always)]
    fn deref(&self) -> &Frame<P> {
        &self.0
    }
}

impl<P: System> DerefMut for Waiter<P> {
    fn deref_mut(&mut self) -> &mut Frame<P> {
        &mut self.0
    }
}

impl<P: System> Waiter<P> {
    pub(crate) fn new(
        access: Access,
        thread: &'static Sleeper<P>,
        arrived: u64,
        priority: u8,
    ) -> Self {
        Self::with_task(access, thread, arrived, priority, Task::none())
    }

    /// A task that is polled by `thread`, and has this waker.
    #[cfg(feature = "async")]
    pub(crate) fn of_task(
        access: Access,
        thread: &'static Sleeper<P>,
        arrived: u64,
        waker: Waker,
    ) -> Self {
        let waiter = Self::with_task(access, thread, arrived, 0, Task::polled_by(waker));
        waiter.set_duty(Duty::Sleeps);
        waiter
    }

    #[inline(always)]
    fn with_task(
        access: Access,
        thread: &'static Sleeper<P>,
        arrived: u64,
        priority: u8,
        task: Task,
    ) -> Self {
        Self(MayDangle::new(Frame {
            access,
            kind: access.kind(),
            thread,
            arrived,
            returns: false,
            seated: false,
            permits: 0,
            priority,
            ticket: Cell::new(0),
            links: Links::new(),
            state: P::AtomicU32::new(WAITING),
            duty: Hint::new(Duty::Looks as usize),
            task,
        }))
    }

    /// Acquire: with GRANTED comes everything the granter did under the lock.
    #[inline]
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    /// The word of the state, for [`System::spin_until`].
    pub(crate) fn state_word(&self) -> &P::AtomicU32 {
        &self.state
    }

    /// Under the queue lock. Release: pairs with [`state`](Self::state).
    pub(crate) fn set_state(&self, state: u32) {
        self.state.store(state, Ordering::Release);
    }

    /// Relaxed: the thread that waits is woken after a change that it is to see.
    #[inline]
    pub(crate) fn duty(&self) -> Duty {
        let duty = self.duty.load(Ordering::Relaxed);
        let is = |other: &Duty| duty == *other as usize;
        [Duty::Sleeps, Duty::Looks, Duty::Late].into_iter().find(is).unwrap_or(Duty::Asked)
    }

    /// Under the queue lock, or before the waiter is queued.
    pub(crate) fn set_duty(&self, duty: Duty) {
        self.duty.store(duty as usize, Ordering::Relaxed);
    }

    /// Whether it was next, and did not come.
    #[inline]
    pub(crate) fn is_late(&self) -> bool {
        self.duty() == Duty::Late
    }

    /// The waiter, which is out of the queue, owns the lock. Rule 1: the grant is published first,
    /// and the waiter woken after it. The thread's record outlives both (rule 12).
    pub(crate) fn grant<const MOST: usize>(&self, wakes: &mut WakeList<P, MOST>) {
        let thread = self.thread;
        self.set_state(GRANTED);
        wakes.push(thread);
    }
}

// ---- lists of what lies in the frames of threads that wait ----

/// By what an item is linked with its neighbours in a [`List`].
pub(crate) struct Links<T> {
    /// Out of a list it is its owner's, who may chain items by it.
    pub(crate) next: Cell<*const T>,
    prev: Cell<*const T>,
}

impl<T> Links<T> {
    pub(crate) fn new() -> Self {
        Self { next: Cell::new(core::ptr::null()), prev: Cell::new(core::ptr::null()) }
    }
}

/// What may be in a [`List`].
pub(crate) trait Linked: Sized {
    fn links(&self) -> &Links<Self>;
}

/// A list, which belongs to one thread at a time: that has the lock around it.
///
/// Invariant: an item is alive and stays where it is until it is taken out.
pub(crate) struct List<T> {
    first: *const T,
    last: *const T,
}

impl<T: Linked> List<T> {
    pub(crate) const fn new() -> Self {
        Self { first: core::ptr::null(), last: core::ptr::null() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// The first item, or null.
    pub(crate) fn head(&self) -> *const T {
        self.first
    }

    /// The first item.
    pub(crate) fn first(&self) -> Option<&T> {
        // SAFETY: the invariant.
        unsafe { self.first.as_ref() }
    }

    /// The item behind `item`, which is in the list.
    pub(crate) fn after(&self, item: &T) -> Option<&T> {
        // SAFETY: the invariant.
        unsafe { item.links().next.get().as_ref() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        core::iter::successors(self.first(), |item| self.after(item))
    }

    /// From the last one on.
    pub(crate) fn iter_back(&self) -> impl Iterator<Item = &T> {
        // SAFETY: the invariant.
        let at = |item: *const T| unsafe { item.as_ref() };
        core::iter::successors(at(self.last), move |item| at(item.links().prev.get()))
    }

    /// Puts an item behind the last one that it `follows`, or in front of all.
    ///
    /// # Safety
    /// The item is in no list. It keeps the invariant.
    pub(crate) unsafe fn insert(&mut self, item: &T, follows: impl Fn(&T) -> bool) {
        let mut prev = self.last;
        // SAFETY: the invariant.
        while let Some(other) = unsafe { prev.as_ref() }.filter(|other| !follows(other)) {
            prev = other.links().prev.get();
        }
        // SAFETY: as above.
        let next = match unsafe { prev.as_ref() } {
            Some(prev) => prev.links().next.replace(item),
            None => core::mem::replace(&mut self.first, item),
        };
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.links().prev.set(item),
            None => self.last = item,
        }
        item.links().prev.set(prev);
        item.links().next.set(next);
    }

    /// Takes an item out, wherever it stands.
    ///
    /// # Safety
    /// The item is in this list.
    pub(crate) unsafe fn remove(&mut self, item: &T) {
        let (prev, next) = (item.links().prev.get(), item.links().next.get());
        // SAFETY: neighbours are in the list, so the invariant holds for them.
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.links().next.set(next),
            None => self.first = next,
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.links().prev.set(prev),
            None => self.last = prev,
        }
    }
}

// ---- the queue ----

impl<P: System> Linked for Waiter<P> {
    #[inline(always)]
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

/// Waiters by priority, and in order of arrival within one.
///
/// Invariants: a waiter in a list is alive and pinned in its frame until it is
/// removed (its frame cannot return before); `len` counts both lists; in a list
/// nobody stands behind one of a lower priority.
pub(crate) struct Queue<P: System> {
    lists: [List<Waiter<P>>; 2],
    len: usize,
    /// How many of them are `seated`.
    seated: usize,
    /// How many of them are tasks.
    #[cfg(feature = "async")]
    tasks: usize,
    next_ticket: u64,
}

// SAFETY: the pointers are to waiters whose fields are either atomics or used
// under the queue lock, which also guards the queue.
unsafe impl<P: System> Send for Queue<P> {}

impl<P: System> Queue<P> {
    pub(crate) const fn new() -> Self {
        Self {
            lists: [List::new(), List::new()],
            len: 0,
            seated: 0,
            #[cfg(feature = "async")]
            tasks: 0,
            next_ticket: 0,
        }
    }

    /// How many waiters were queued by other threads, and sleep elsewhere.
    pub(crate) fn seated(&self) -> usize {
        self.seated
    }

    /// Whether a thread waits.
    pub(crate) fn has_threads(&self) -> bool {
        #[cfg(feature = "async")]
        let tasks = self.tasks;
        #[cfg(not(feature = "async"))]
        let tasks = 0;
        self.len > tasks
    }

    /// How many tasks wait.
    #[cfg(feature = "async")]
    pub(crate) fn tasks(&self) -> usize {
        self.tasks
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first waiter of one kind.
    pub(crate) fn first(&self, kind: Kind) -> Option<&Waiter<P>> {
        self.lists[kind as usize].first()
    }

    /// The first waiter of one kind that is not late.
    pub(crate) fn present(&self, kind: Kind) -> Option<&Waiter<P>> {
        let mut waiter = self.first(kind);
        while let Some(late) = waiter.filter(|waiter| waiter.is_late()) {
            waiter = self.after(late);
        }
        waiter
    }

    /// The first waiter of one kind that is not late, or else the first one.
    pub(crate) fn first_present(&self, kind: Kind) -> Option<&Waiter<P>> {
        self.present(kind).or_else(|| self.first(kind))
    }

    /// The waiter that comes first, whoever asks (rule 16): the one of the highest priority. Among equals it is the one
    /// that arrived first; among real-time threads of one priority a writer.
    pub(crate) fn head(&self) -> Option<&Waiter<P>> {
        match (self.first(Kind::Reader), self.first(Kind::Writer)) {
            (Some(r), Some(w)) => Some(match r.priority.cmp(&w.priority) {
                cmp::Ordering::Greater => r,
                cmp::Ordering::Equal if r.priority == 0 && r.ticket.get() < w.ticket.get() => r,
                cmp::Ordering::Equal | cmp::Ordering::Less => w,
            }),
            (r, w) => r.or(w),
        }
    }

    /// The waiter that comes first, if that is a real-time thread.
    pub(crate) fn urgent(&self) -> Option<&Waiter<P>> {
        self.head().filter(|head| head.priority > 0)
    }

    /// Whether a real-time thread waits beside `waiter`, which is queued.
    pub(crate) fn is_urgent_beside(&self, waiter: &Waiter<P>) -> bool {
        [Kind::Reader, Kind::Writer].into_iter().any(|kind| {
            let first = self.first(kind);
            let is_own = first.is_some_and(|first| core::ptr::eq(first, waiter));
            let other = if is_own { self.after(waiter) } else { first };
            other.is_some_and(|other| other.priority > 0)
        })
    }

    /// The highest priority of a kind; zero too if none of it waits.
    pub(crate) fn priority(&self, kind: Kind) -> u8 {
        self.first(kind).map_or(0, |first| first.priority)
    }

    /// All waiters: readers, then writers, each in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiter<P>> {
        self.lists.iter().flat_map(List::iter)
    }

    /// The same from the last one on.
    pub(crate) fn iter_back(&self) -> impl Iterator<Item = &Waiter<P>> {
        self.lists.iter().rev().flat_map(List::iter_back)
    }

    pub(crate) fn is_head(&self, waiter: &Waiter<P>) -> bool {
        self.head().is_some_and(|head| core::ptr::eq(head, waiter))
    }

    /// Adds a waiter behind those of its priority; if it `returns`, only behind those that came
    /// before its first attempt, and behind the one that is next.
    ///
    /// # Safety
    /// The waiter stays where it is until [`remove`](Self::remove) has taken it out.
    pub(crate) unsafe fn push(&mut self, waiter: &Waiter<P>) {
        waiter.ticket.set(self.next_ticket);
        self.next_ticket += 1;
        let follows = |other: &Waiter<P>| {
            let goes_before = other.priority < waiter.priority
                || waiter.returns
                    && other.priority == waiter.priority
                    && other.arrived > waiter.arrived;
            !goes_before
        };
        // SAFETY: the caller's promise.
        unsafe { self.lists[waiter.kind as usize].insert(waiter, follows) };
        self.len += 1;
        self.seated += usize::from(waiter.seated);
        #[cfg(feature = "async")]
        {
            self.tasks += usize::from(waiter.task.is_task());
        }
    }

    /// Takes a queued waiter out, wherever it stands.
    pub(crate) fn remove(&mut self, waiter: &Waiter<P>) {
        // SAFETY: it is in the list of its kind.
        unsafe { self.lists[waiter.kind as usize].remove(waiter) };
        self.len -= 1;
        self.seated -= usize::from(waiter.seated);
        #[cfg(feature = "async")]
        {
            self.tasks -= usize::from(waiter.task.is_task());
        }
    }

    /// Takes out the first waiter of one kind.
    ///
    /// # Safety
    /// The caller uses the reference only until it publishes the waiter's
    /// grant: the frame may return right after.
    pub(crate) unsafe fn take_first<'a>(&mut self, kind: Kind) -> Option<&'a Waiter<P>> {
        // SAFETY: a queued waiter is alive (see the type), and stays so until
        // its grant is published.
        let first = unsafe { self.lists[kind as usize].head().as_ref() }?;
        self.remove(first);
        Some(first)
    }

    /// The waiter behind `waiter` in its list.
    pub(crate) fn after(&self, waiter: &Waiter<P>) -> Option<&Waiter<P>> {
        self.lists[waiter.kind as usize].after(waiter)
    }
}

/// Whom to wake.
enum Wake<P: System> {
    Thread(&'static Sleeper<P>),
    #[cfg(feature = "async")]
    Task(Waker),
}

impl<P: System> Wake<P> {
    fn wake(self) {
        match self {
            Wake::Thread(thread) => thread.parker.unpark(),
            #[cfg(feature = "async")]
            Wake::Task(waker) => super::task::survive(|| waker.wake()),
        }
    }
}

/// Threads and tasks to wake once the queue lock is free: up to `MOST` of them.
///
/// The long list takes 2 KiB of the stack, or 4 KiB if tasks wait, too. So it belongs in a frame of its own, which is left before
/// the thread waits: signal handlers have small stacks.
pub(crate) struct WakeList<P: System, const MOST: usize = MAX_WAKES> {
    len: usize,
    wakes: [MaybeUninit<Wake<P>>; MOST],
}

/// How many waiters one release wakes at most. In waiters; compared with those granted in one go.
pub(crate) const MAX_WAKES: usize = 256;

/// How many are woken together if each of them wakes others. In waiters; compared with those on the
/// list.
pub(crate) const FEW_WAKES: usize = 16;

impl<P: System, const MOST: usize> WakeList<P, MOST> {
    pub(crate) fn new() -> Self {
        Self { len: 0, wakes: [const { MaybeUninit::uninit() }; MOST] }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a thread is listed.
    pub(crate) fn has_threads(&self) -> bool {
        // SAFETY: the first `len` entries were written by `list`.
        let mut wakes = self.wakes[..self.len].iter().map(|wake| unsafe { wake.assume_init_ref() });
        wakes.any(|wake| matches!(wake, Wake::Thread(_)))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == MOST
    }

    /// Lists a thread; one for which there is no room is woken immediately.
    pub(crate) fn push(&mut self, thread: &'static Sleeper<P>) {
        self.list(Wake::Thread(thread));
    }

    /// Lists a waiter, which is queued; not a task that was called already.
    #[inline]
    pub(crate) fn push_waiter(&mut self, waiter: &Waiter<P>) {
        #[cfg(feature = "async")]
        if waiter.task.is_task() {
            debug_assert!(!self.is_full(), "a waker would be called under the queue lock");
            if let Some(waker) = waiter.task.take_waker() {
                self.list(Wake::Task(waker));
            }
            return;
        }
        self.push(waiter.thread);
    }

    fn list(&mut self, wake: Wake<P>) {
        match self.wakes.get_mut(self.len) {
            Some(place) => {
                place.write(wake);
                self.len += 1;
            }
            None => wake.wake(),
        }
    }

    /// Wakes them all, which empties the list. The records are never freed, so it does not matter that
    /// a thread may have returned from its wait, or ended, meanwhile.
    pub(crate) fn wake_all(&mut self) {
        let len = core::mem::take(&mut self.len);
        for wake in &mut self.wakes[..len] {
            // SAFETY: the first `len` entries were written by `list`, and are read once.
            unsafe { wake.assume_init_read() }.wake();
        }
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::Native;
    use crate::wait::{Access, Thread};

    /// A waiter that came then.
    fn with_priority(kind: Kind, arrived: u64, priority: u8) -> Waiter<Native> {
        let thread = Box::leak(Box::new(Thread::new()));
        let access = [Access::Shared, Access::Exclusive][kind as usize];
        Waiter::new(access, thread, arrived, priority)
    }

    /// When the writers in the queue came, in its order.
    fn order(queue: &Queue<Native>) -> Vec<u64> {
        let arrived: Vec<_> = queue.iter().map(|waiter| waiter.arrived).collect();
        assert_eq!(queue.len(), arrived.len());
        arrived
    }

    #[test]
    fn a_real_time_thread_is_beside_all_others_and_not_beside_itself() {
        let [urgent, reader, writer] = [(Kind::Writer, 2), (Kind::Reader, 0), (Kind::Writer, 0)]
            .map(|(kind, priority)| with_priority(kind, 0, priority));
        let mut queue = Queue::new();
        for waiter in [&reader, &writer, &urgent] {
            // SAFETY: they outlive the queue.
            unsafe { queue.push(waiter) };
        }
        assert_eq!(
            [&urgent, &reader, &writer].map(|w| queue.is_urgent_beside(w)),
            [false, true, true]
        );
        let second = with_priority(Kind::Writer, 0, 1);
        // SAFETY: it outlives the queue.
        unsafe { queue.push(&second) };
        assert!(queue.is_urgent_beside(&urgent));
        for waiter in [&urgent, &reader, &writer, &second] {
            queue.remove(waiter);
        }
    }

    #[test]
    fn higher_priorities_stand_first_and_equal_ones_as_they_came() {
        let waiters = [(1, 0), (2, 5), (3, 0), (4, 9), (5, 5), (6, 9)]
            .map(|(arrived, p)| with_priority(Kind::Writer, arrived, p));
        let mut queue = Queue::new();
        for waiter in &waiters {
            // SAFETY: they outlive the queue.
            unsafe { queue.push(waiter) };
        }
        assert_eq!(order(&queue), [4, 6, 2, 5, 1, 3]);
        queue.remove(&waiters[3]);
        assert_eq!(order(&queue), [6, 2, 5, 1, 3]);
    }

    /// Not before one that came earlier, nor one of a higher priority.
    #[test]
    fn one_that_comes_back_stands_in_front_of_those_that_came_since() {
        for (before, expected) in [([(1, 0), (5, 0)], [1, 2, 5]), ([(3, 9), (5, 0)], [3, 2, 5])] {
            let waiters = before.map(|(arrived, p)| with_priority(Kind::Writer, arrived, p));
            let mut back = with_priority(Kind::Writer, 2, 0);
            back.returns = true;
            let mut queue = Queue::new();
            for waiter in waiters.iter().chain([&back]) {
                // SAFETY: they outlive the queue.
                unsafe { queue.push(waiter) };
            }
            assert_eq!(order(&queue), expected);
        }
    }

    #[test]
    fn writers_go_before_readers_of_the_same_priority_but_not_of_a_higher() {
        let [low, reader, writer, high] =
            [(Kind::Writer, 0), (Kind::Reader, 5), (Kind::Writer, 5), (Kind::Reader, 6)]
                .map(|(kind, priority)| with_priority(kind, 0, priority));
        let mut queue = Queue::new();
        let is_head = |queue: &Queue<Native>, waiter| queue.is_head(waiter);
        // SAFETY: they outlive the queue.
        unsafe { queue.push(&low) };
        assert!(is_head(&queue, &low) && queue.urgent().is_none());
        // SAFETY: as above.
        unsafe { queue.push(&reader) };
        assert!(is_head(&queue, &reader) && queue.urgent().is_some());
        // SAFETY: as above.
        unsafe { queue.push(&writer) };
        assert!(is_head(&queue, &writer));
        // SAFETY: as above.
        unsafe { queue.push(&high) };
        assert!(is_head(&queue, &high));
    }

    // ---- lists ----

    struct Item(u32, Links<Item>);

    impl Linked for Item {
        fn links(&self) -> &Links<Self> {
            &self.1
        }
    }

    /// What is in the list, which is the same from both ends.
    fn seen(list: &List<Item>) -> Vec<u32> {
        let mut last = core::ptr::null();
        let seen = list.iter().map(|item| {
            assert!(core::ptr::eq(item.1.prev.get(), last), "the links back are not those on");
            last = item;
            item.0
        });
        let seen: Vec<_> = seen.collect();
        assert!(list.iter_back().map(|item| item.0).eq(seen.iter().rev().copied()));
        assert!(core::ptr::eq(list.last, last) && list.is_empty() == last.is_null());
        seen
    }

    #[test]
    fn items_stand_as_they_follow_each_other_and_leave_from_anywhere() {
        for leaves in 0..4 {
            let items = [2, 0, 3, 1].map(|number| Item(number, Links::new()));
            let mut list = List::new();
            for item in &items {
                // SAFETY: it outlives the list.
                unsafe { list.insert(item, |other| other.0 < item.0) };
                seen(&list);
            }
            assert_eq!(seen(&list), [0, 1, 2, 3]);
            for left in (0..4).map(|n| (n + leaves) % 4) {
                // SAFETY: inserted above.
                unsafe { list.remove(&items[left]) };
                assert!(!seen(&list).contains(&items[left].0));
            }
            assert!(list.is_empty());
        }
    }

    #[test]
    fn a_list_of_threads_to_wake_is_full_when_it_has_no_room() {
        let thread = Box::leak(Box::new(Thread::new()));
        let mut wakes = WakeList::<Native, 2>::new();
        let full = [(); 2].map(|()| {
            let full = wakes.is_full();
            wakes.push(thread);
            full
        });
        assert_eq!(full, [false, false]);
        assert!(wakes.is_full());
    }
}

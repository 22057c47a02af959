//! The FIFO queue of waiters: one list of readers and one of writers, with one
//! order of arrival over both. Real-time threads stand before all others, by
//! priority. Everything here happens under the queue lock.

use core::cmp::Ordering;

use super::{Kind, Waiter};
use crate::system::System;

struct List<P: System> {
    head: *const Waiter<P>,
    tail: *const Waiter<P>,
}

impl<P: System> List<P> {
    const EMPTY: Self = Self { head: core::ptr::null(), tail: core::ptr::null() };
}

/// Waiters by priority, and in order of arrival within one.
///
/// Invariants: a waiter in a list is alive and pinned in its frame until it is
/// removed (its frame cannot return before); `len` counts both lists; in a list
/// nobody stands behind one of a lower priority.
pub(crate) struct Queue<P: System> {
    lists: [List<P>; 2],
    len: usize,
    next_ticket: u64,
}

// SAFETY: the pointers are to waiters whose fields are either atomics or used
// under the queue lock, which also guards the queue.
unsafe impl<P: System> Send for Queue<P> {}

impl<P: System> Queue<P> {
    pub(crate) const fn new() -> Self {
        Self { lists: [List::EMPTY, List::EMPTY], len: 0, next_ticket: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first waiter of one kind.
    pub(crate) fn first(&self, kind: Kind) -> Option<&Waiter<P>> {
        // SAFETY: a queued waiter is alive (see the type).
        unsafe { self.lists[kind as usize].head.as_ref() }
    }

    /// The waiter that comes first, whoever asks (rule 16): the one of the highest priority. Among equals it is the one
    /// that arrived first; among real-time threads of one priority a writer.
    pub(crate) fn head(&self) -> Option<&Waiter<P>> {
        match (self.first(Kind::Reader), self.first(Kind::Writer)) {
            (Some(r), Some(w)) => Some(match r.priority.cmp(&w.priority) {
                Ordering::Greater => r,
                Ordering::Equal if r.priority == 0 && r.ticket.get() < w.ticket.get() => r,
                Ordering::Equal | Ordering::Less => w,
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
        [Kind::Reader, Kind::Writer].into_iter().flat_map(|kind| {
            // SAFETY: a queued waiter is alive (see the type).
            core::iter::successors(self.first(kind), |w| unsafe { w.next.get().as_ref() })
        })
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
        let mut last = self.lists[waiter.kind as usize].tail;
        // SAFETY: a queued waiter is alive (see the type).
        while let Some(lower) = unsafe { last.as_ref() }
            && (lower.priority < waiter.priority
                || waiter.returns
                    && lower.priority == waiter.priority
                    && lower.arrived > waiter.arrived)
        {
            last = lower.prev.get();
        }
        self.link(waiter, last);
    }

    /// Puts a waiter that is in no list behind `prev`, or first if that is null.
    fn link(&mut self, waiter: &Waiter<P>, prev: *const Waiter<P>) {
        let list = &mut self.lists[waiter.kind as usize];
        let this = core::ptr::from_ref(waiter);
        waiter.prev.set(prev);
        // SAFETY: a queued waiter is alive (see the type).
        let next = match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.replace(this),
            None => core::mem::replace(&mut list.head, this),
        };
        waiter.next.set(next);
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.prev.set(this),
            None => list.tail = this,
        }
        self.len += 1;
    }

    /// Takes a queued waiter out, wherever it stands.
    pub(crate) fn remove(&mut self, waiter: &Waiter<P>) {
        let list = &mut self.lists[waiter.kind as usize];
        let (prev, next) = (waiter.prev.get(), waiter.next.get());
        // SAFETY: neighbours of a queued waiter are queued, so alive (see the type).
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.set(next),
            None => list.head = next,
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.prev.set(prev),
            None => list.tail = prev,
        }
        self.len -= 1;
    }

    /// Takes out the first waiter of one kind.
    ///
    /// # Safety
    /// The caller uses the reference only until it publishes the waiter's
    /// grant: the frame may return right after.
    pub(crate) unsafe fn take_first<'a>(&mut self, kind: Kind) -> Option<&'a Waiter<P>> {
        // SAFETY: a queued waiter is alive (see the type), and stays so until
        // its grant is published.
        let first = unsafe { self.lists[kind as usize].head.as_ref() }?;
        self.remove(first);
        Some(first)
    }

    /// The waiter behind `waiter` in its list.
    pub(crate) fn after(&self, waiter: &Waiter<P>) -> Option<&Waiter<P>> {
        // SAFETY: a queued waiter is alive (see the type).
        unsafe { waiter.next.get().as_ref() }
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

    /// When the writers in the queue came, in its order; checks the links both ways.
    fn order(queue: &Queue<Native>) -> Vec<u64> {
        let mut waiters = vec![];
        let mut next = queue.first(Kind::Writer);
        while let Some(waiter) = next {
            let before = waiters.last().map_or(core::ptr::null(), |&w| core::ptr::from_ref(w));
            assert!(core::ptr::eq(waiter.prev.get(), before));
            waiters.push(waiter);
            next = queue.after(waiter);
        }
        assert_eq!(queue.len(), waiters.len());
        waiters.iter().map(|waiter| waiter.arrived).collect()
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
}

//! What the discipline knows: under a lock's queue lock, and of a thread.

use core::cell::Cell;

use super::ages::Ages;
use super::clock::TenureClock;
use super::mode::Modes;
use crate::system::System;
use crate::wait::Waiter;

/// What the queue lock guards for the discipline.
pub(crate) struct Tenure<P: System> {
    /// The waiter that is next, and was told so: null if nobody waits. It is in the queue.
    pub(super) next: *const Waiter<P>,
    /// A fair release left the lock to that waiter: nobody goes before it.
    pub(super) is_promised: bool,
    /// Whose turn it is and until when.
    pub(crate) clock: TenureClock,
    /// How threads that are not queued share the lock.
    pub(super) modes: Modes,
    /// When the closed lock became free; zero if it has not.
    pub(super) freed: u64,
    /// The waiter that is next was not woken yet, and `WAKE_NEXT` was set for it.
    pub(super) unwoken: bool,
}

// SAFETY: `next` is used as an address, or under the queue lock while the waiter is queued.
unsafe impl<P: System> Send for Tenure<P> {}

impl<P: System> Tenure<P> {
    pub(crate) const fn new() -> Self {
        Self {
            next: core::ptr::null(),
            is_promised: false,
            clock: TenureClock::new(),
            modes: Modes::new(),
            freed: 0,
            unwoken: false,
        }
    }

    /// The waiter that is next.
    pub(crate) fn next(&self) -> Option<&Waiter<P>> {
        // SAFETY: queued (see the field), so alive: nobody leaves the queue without the
        // queue lock, which the caller has.
        unsafe { self.next.as_ref() }
    }

    /// Whether this waiter is next.
    pub(crate) fn is_next(&self, waiter: *const Waiter<P>) -> bool {
        core::ptr::eq(self.next, waiter)
    }
}

/// After so many reads in writers' tenures without a write, a thread is treated as a reader again.
/// In reads; compared with those since the thread last wrote.
const MOST_JOINS: u16 = 256;

/// What the discipline remembers of a thread. Used by that thread only.
pub(crate) struct TenureLocal {
    /// The lock after whose release the thread yields its CPU: an address, only compared; or zero.
    pub(crate) gives_way: Cell<usize>,
    /// The address of the lock that the thread last took for writing, or upgradably, while others waited;
    /// zero once it has joined readers there [`MOST_JOINS`] times. An upgrade needs no store: the
    /// upgradable acquisition before it made one.
    wrote: Cell<usize>,
    /// How often it has joined readers there.
    joins: Cell<u16>,
    /// The tenure's end for which it last yielded, and when it may yield again for that end.
    gave_way_for: Cell<u64>,
    pub(crate) gives_way_again: Cell<u64>,
    /// For how long it has waited at locks that it did not get.
    pub(crate) ages: Ages,
    /// What it cost the thread to wake others the last time, in nanoseconds.
    pub(super) wake_cost: Cell<u64>,
    /// Acquisitions not yet added to the lock's counter, where threads share the lock.
    pub(super) untold_steals: Cell<u32>,
}

impl TenureLocal {
    pub(crate) const fn new() -> Self {
        Self {
            gives_way: Cell::new(0),
            wrote: Cell::new(0),
            joins: Cell::new(0),
            gave_way_for: Cell::new(0),
            gives_way_again: Cell::new(0),
            ages: Ages::new(),
            wake_cost: Cell::new(0),
            untold_steals: Cell::new(0),
        }
    }

    /// Has the thread yield its CPU when it leaves the lock: at the `end` of the tenure the waiter that is
    /// next has not come. Not if the thread has yielded for that end a short time ago.
    pub(crate) fn is_to_give_way(&self, lock: usize, end: u64, now: u64) {
        if self.gave_way_for.replace(end) != end || now >= self.gives_way_again.get() {
            self.gives_way.set(lock);
        }
    }

    /// The thread has [yielded](Self::is_to_give_way). From `again` on it may yield for the same end once
    /// more.
    pub(crate) fn gave_way(&self, again: u64) {
        self.gives_way.set(0);
        self.gives_way_again.set(again);
    }

    /// The thread takes the lock at `address` for writing, or
    /// upgradably, while others wait.
    #[inline(always)]
    pub(crate) fn writes(&self, address: usize) {
        self.wrote.set(address);
        self.joins.set(0);
    }

    /// It joins readers of the lock that it wrote last, in a tenure of writers.
    pub(crate) fn joins_as_writer(&self) {
        let joins = self.joins.get() + 1;
        self.joins.set(joins);
        if joins >= MOST_JOINS {
            self.writes(0);
        }
    }

    /// Whether it has lately written the lock at `address`, as far as that is known.
    #[inline(always)]
    pub(crate) fn wrote(&self, address: usize) -> bool {
        self.wrote.get() == address
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_way_for_an_end_again_after_a_pause_unless_its_cpu_was_long_gone() {
        let local = TenureLocal::new();
        let again = 1_000;
        let gives_way = |end, now, again| {
            local.is_to_give_way(1, end, now);
            let gives_way = local.gives_way.get() != 0;
            if gives_way {
                local.gave_way(again);
            }
            gives_way
        };
        assert!(gives_way(10, 0, again));
        assert!(!gives_way(10, again - 1, again), "too early");
        assert!(gives_way(10, again, again));
        assert!(gives_way(20, 0, u64::MAX), "another end");
        assert!(!gives_way(20, u64::MAX - 1, u64::MAX), "others want the CPU");
        assert!(gives_way(30, 0, u64::MAX));
    }
}

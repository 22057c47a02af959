//! A queued waiter that does not come: its thread is stopped, or has no CPU. It does not stop those behind it.
//!
//! In the tree a range is granted, so a thread that sleeps would own it. Therefore a thread that has slept in the queue
//! is only *offered* its range: it takes it when it runs, under the tree lock. If it has not come for [`MISSED_NS`], any waiter
//! that looks *passes* it: its range leaves the tree, which lets others in. When the thread runs it enters its range again, at its
//! old place in the order: before those that came later and wait, behind those that hold a part of it by then.
//!
//! A waiter looks as it is listed or queued; each time that it wakes in the queue, which it does at intervals that double; and if a
//! thread that leaves a range asks it to, as the offer before was a millisecond ago or more.
//!
//! A thread that is granted its range awake has it, as any thread that runs and is stopped afterwards. And with
//! [`RangePolicy::FIFO`](crate::range::RangePolicy::FIFO), which is the published lock, ranges are granted to all: the order is
//! exact, and a thread that is stopped stops those behind it. So are they where the concurrency tester compares each step with
//! the specification ([`OFFERS_RANGES`](crate::lock::PooledPlatform::OFFERS_RANGES)), which has no offers.

use core::ptr::from_ref;

use super::patient::Rest;
use super::waiter::{self, RangeWaiter};
use crate::lock::Lookout;
use crate::platform::PooledPlatform;
use crate::range::slots::Missed;
use crate::range::tree::queue::Queue;
use crate::range::{Core, Hold};
use crate::wait::{MISSED_NS, WakeList};

impl<P: PooledPlatform> Core<P> {
    /// Passes those that have been offered for too long what the waiter waits for. Returns when another one is late.
    pub(in crate::range) fn look(
        &self,
        q: &mut Queue<P>,
        waiter: &RangeWaiter<P>,
        wakes: &mut WakeList<P>,
    ) -> Option<u64> {
        loop {
            // In the order of the offers: the first is late first.
            let first = q.offers.iter().find(|offered| offered.conflicts(waiter))?;
            let due = first.offered().saturating_add(MISSED_NS);
            if due > P::now() {
                return Some(due);
            }
            let (late, node) = (from_ref(first), first.node());
            // SAFETY: its range is offered: it is in its frame, and leaves that with the tree lock only.
            let late = unsafe { &*late };
            q.offers.remove(late);
            late.set_offered(q.ranges.seq(node));
            late.enter(node, waiter::PASSED);
            q.remove(node, wakes);
        }
    }

    /// The calling thread, whose waiter is in the tree, is about to sleep, or has slept: then it looks first. An offer in its way
    /// is late when it is `due`, if that is known.
    pub(in crate::range) fn rest_queued(
        &self,
        waiter: &RangeWaiter<P>,
        lookout: &mut Lookout,
        mut due: Option<u64>,
    ) -> Rest {
        if self.policy.is_fifo() || !P::OFFERS_RANGES {
            return Rest::Until(None);
        }
        if waiter.sleeps() {
            due = self.with_queue_and_wakes(|q, wakes| self.look(q, waiter, wakes));
            if waiter.state() != waiter::QUEUED {
                return Rest::Not;
            }
        }
        waiter.set_sleeps(true);
        let until = lookout.next_look(due, P::now());
        // Loom's clock stands still.
        Rest::Until((!cfg!(fairlock_loom)).then_some(until))
    }

    /// The waiter's thread, the calling one, runs, and was offered its range, or passed. Returns the range, if it has it. An error
    /// if it was passed, and others have passed the gate since.
    ///
    /// # Safety
    /// The waiter stays where it is until it is granted or taken out.
    pub(in crate::range) unsafe fn come(
        &self,
        waiter: &RangeWaiter<P>,
    ) -> Result<Option<Hold>, Missed> {
        self.with_queue_and_wakes(|q, wakes| match waiter.state() {
            waiter::OFFERED => Ok(q.take_out(waiter, wakes).map(Hold::node)),
            waiter::PASSED => {
                waiter.set_sleeps(false);
                // SAFETY: the caller's promise; it is in no list.
                unsafe { self.enqueue(q, waiter, Some(waiter.offered()), wakes) }.map(|()| None)
            }
            _ => Ok(None),
        })
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::{Native, System};
    use crate::range::span::Span;
    use crate::range::{HeldIn, RangePolicy, RangeRwLock};
    use crate::wait::Kind;

    type Lock = RangeRwLock<Native>;
    type Waiter = RangeWaiter<Native>;

    /// A writer that waits for positions from 0 on, and whose thread sleeps.
    fn asleep(end: u64) -> Waiter {
        let span = Span::new(0..end).unwrap();
        let waiter = Waiter::new(Native::thread(), span, Kind::Writer, Native::now());
        waiter.set_sleeps(true);
        waiter
    }

    /// Queues the waiters behind a holder, which then leaves.
    fn let_in(lock: &Lock, waiters: &[Waiter]) {
        let held = lock.write(0..10).unwrap();
        lock.core.with_queue_and_wakes(|q, wakes| {
            for waiter in waiters {
                // SAFETY: the waiters stay until each of them has had its range.
                unsafe { lock.core.enqueue(q, waiter, None, wakes) }.unwrap();
            }
        });
        drop(held);
    }

    fn states<const N: usize>(waiters: &[Waiter; N]) -> [u32; N] {
        waiters.each_ref().map(Waiter::state)
    }

    /// When the offer in its way is late, if there is one.
    fn look(lock: &Lock, waiter: &Waiter) -> Option<u64> {
        lock.core.with_queue_and_wakes(|q, wakes| lock.core.look(q, waiter, wakes))
    }

    /// The offer was made so long ago.
    fn outwait(lock: &Lock, offered: &Waiter) {
        let since = Native::now().saturating_sub(MISSED_NS);
        lock.core.with_queue(|_| offered.set_offered(since));
    }

    fn come(lock: &Lock, waiter: &Waiter) -> Option<Hold> {
        // SAFETY: as in `let_in`.
        unsafe { lock.core.come(waiter) }.unwrap()
    }

    fn release(lock: &Lock, hold: &Hold) {
        let HeldIn::Node(id) = hold.place() else { panic!("it is in the tree") };
        lock.core.release_node(id);
    }

    #[test]
    fn an_offer_that_is_not_taken_goes_on_and_its_owner_keeps_its_place() {
        use waiter::{GRANTED, OFFERED, PASSED, QUEUED};
        let lock = &Lock::with_policy(RangePolicy::FIFO);
        let waiters = [10, 5, 15].map(asleep);
        let [late, second, third] = &waiters;
        let_in(lock, &waiters);
        assert_eq!(states(&waiters), [OFFERED, QUEUED, QUEUED]);
        let due = look(lock, second).unwrap();
        assert!(due > late.offered() && states(&waiters) == [OFFERED, QUEUED, QUEUED]);
        outwait(lock, late);
        // It is passed by the first that looks, as long as it does not come.
        look(lock, third);
        assert_eq!(states(&waiters), [PASSED, OFFERED, QUEUED]);
        let hold = come(lock, second).unwrap();
        assert!(come(lock, late).is_none());
        assert_eq!((late.state(), third.state()), (QUEUED, QUEUED));
        release(lock, &hold);
        // It was awake.
        assert_eq!((late.state(), third.state()), (GRANTED, QUEUED));
        lock.core.release_node(late.node());
        release(lock, &come(lock, third).unwrap());
        assert!(!lock.is_locked());
    }

    #[test]
    fn an_offer_that_is_taken_is_none_any_more() {
        let lock = &Lock::with_policy(RangePolicy::FIFO);
        let waiters = [10, 5].map(asleep);
        let [first, second] = &waiters;
        let_in(lock, &waiters);
        outwait(lock, first);
        let hold = come(lock, first).unwrap();
        assert!(look(lock, second).is_none() && second.state() == waiter::QUEUED);
        release(lock, &hold);
        release(lock, &come(lock, second).unwrap());
        assert!(!lock.is_locked());
    }

    /// Two that are passed, and come back in the other order.
    #[test]
    fn those_that_were_passed_have_their_places_again() {
        let lock = &Lock::with_policy(RangePolicy::FIFO);
        let waiters = [10, 10, 10].map(asleep);
        let [first, second, third] = &waiters;
        let_in(lock, &waiters);
        for late in [first, second] {
            outwait(lock, late);
            look(lock, third);
            assert_eq!(late.state(), waiter::PASSED);
        }
        let hold = come(lock, third).unwrap();
        assert!(come(lock, second).is_none() && come(lock, first).is_none());
        release(lock, &hold);
        assert_eq!((first.state(), second.state()), (waiter::GRANTED, waiter::QUEUED));
        lock.core.release_node(first.node());
        assert_eq!(second.state(), waiter::GRANTED);
        lock.core.release_node(second.node());
        assert!(!lock.is_locked());
    }

    /// A wait that has ended takes what it was offered, or leaves nothing behind.
    #[test]
    fn a_wait_that_ends_takes_its_offer_or_leaves_nothing() {
        let lock = &Lock::with_policy(RangePolicy::FIFO);
        let waiters = [10, 5].map(asleep);
        let [first, second] = &waiters;
        let take_out =
            |waiter| lock.core.with_queue_and_wakes(|q, wakes| q.take_out(waiter, wakes));
        let_in(lock, &waiters);
        outwait(lock, first);
        look(lock, second);
        assert_eq!(take_out(first), None);
        let node = take_out(second).unwrap();
        lock.core.release_node(node);
        assert!(!lock.is_locked());
    }
}

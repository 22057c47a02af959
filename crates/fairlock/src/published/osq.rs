//! The spinner queue: one spinner looks at the lock, the others wait on their
//! own node, so that a contended word is not hammered by all of them.
//!
//! ```text
//! enter: swap self into `tail`; nobody there: at the head
//!        else link behind the previous node and wait, bounded, for TURN
//!        bound passed: WAITING -> LEFT; the node stays in its place
//! leave: give TURN to the next WAITING node, freeing every LEFT node between
//!        nobody behind: tail -> 0
//!        somebody swapped the tail but has not linked: mark the own node GONE;
//!        whoever links finds that, takes the turn and frees the node
//! ```
//!
//! So nobody ever waits for a neighbour to do its part (it may not be running): a spinner that
//! gives up, and one that leaves, are done in a few steps. The price is that a node may still be in
//! the queue after its thread has gone. Until the node is free again, its thread does not spin, on
//! this lock or another.
//! Nodes live in the thread records, which are never freed (rule 11).
//!
//! The queue holds no node once nobody is inside `enter`..`leave`: the last to
//! leave has freed all that were left before it, so a lock may be dropped.
//!
//! | state | meaning | who leaves it |
//! |---|---|---|
//! | `FREE` | in no queue | its thread |
//! | `WAITING` | behind somebody, or at the head of a queue it found empty | its thread, or whoever gives it the turn |
//! | `TURN` | at the head | its thread |
//! | `LEFT` | given up by its thread; still linked | whoever passes the turn over it |

use core::sync::atomic::Ordering;

use super::local::SpinnerNode;
use crate::platform::{Atomic, Platform, Thread};
use crate::system::all_zero;

const FREE: u32 = 0;
const WAITING: u32 = 1;
const TURN: u32 = 2;
const LEFT: u32 = 3;

/// In `next`: the node's thread left before it knew who was behind. Not the
/// address of a record.
const GONE: usize = 1;

pub(crate) struct SpinnerQueue<P: Platform> {
    /// The hint of the last node, or zero.
    tail: P::AtomicUsize,
}

all_zero!(SpinnerQueue of [AtomicUsize]: [tail], []);

impl<P: Platform> SpinnerQueue<P> {
    /// Waits to be at the head, `bound_ns` at most; returns whether the caller is. If so it must
    /// [`leave`](Self::leave).
    pub(crate) fn enter(&self, me: &'static Thread<P>, bound_ns: u64) -> bool {
        let node = &me.published.spinner;
        // Acquire: whoever freed the node is done with it.
        if node.state.load(Ordering::Acquire) != FREE {
            return false;
        }
        // Relaxed: published by the swap of the tail.
        node.next.store(0, Ordering::Relaxed);
        node.state.store(WAITING, Ordering::Relaxed);
        // Release: the node is ready before it can be found. Acquire: so is
        // the previous one.
        let previous = self.tail.swap(me.hint(), Ordering::AcqRel);
        if previous == 0 {
            return true;
        }
        let previous = Self::node(previous);
        // Release: whoever follows the link finds the node ready. Acquire: if
        // the previous one is GONE, it is done with its node.
        if previous.next.swap(me.hint(), Ordering::AcqRel) == GONE {
            Self::free(previous);
            return true;
        }
        // Rule 9: bounded.
        if P::spin_until(&node.state, bound_ns, |state| state == TURN) {
            return true;
        }
        // Relaxed: the thread has done nothing to its node since it linked it. Acquire: as for a
        // spinner that is given the turn.
        node.state.compare_exchange(WAITING, LEFT, Ordering::Relaxed, Ordering::Acquire).is_err()
    }

    /// Gives up the head.
    pub(crate) fn leave(&self, me: &'static Thread<P>) {
        let mut hint = me.hint();
        loop {
            let node = Self::node(hint);
            let Some(next) = self.next_of(hint, node) else { return };
            Self::free(node);
            // Release: a link of the chain by which a spinner's steps precede
            // the next one's. Relaxed: the node's thread left it as it linked it.
            let given = Self::node(next).state.compare_exchange(
                WAITING,
                TURN,
                Ordering::Release,
                Ordering::Relaxed,
            );
            if given.is_ok() {
                return;
            }
            // The thread of that node has left: pass the turn on in its place.
            hint = next;
        }
    }

    /// The node behind the head. `None`: there is none, or its thread will see that the head is
    /// gone; then the head's node is not the caller's any more.
    fn next_of(&self, hint: usize, node: &SpinnerNode<P>) -> Option<usize> {
        let mut next = node.next.load(Ordering::Acquire);
        if next == 0 {
            // Release: the next to swap the tail comes after this spinner.
            let empty = self.tail.compare_exchange(hint, 0, Ordering::Release, Ordering::Relaxed);
            if empty.is_ok() {
                Self::free(node);
                return None;
            }
            // Somebody is between its swap and its link. Release: that thread frees the node.
            // Acquire: it may have linked meanwhile.
            match node.next.compare_exchange(0, GONE, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return None,
                Err(now) => next = now,
            }
        }
        Some(next)
    }

    /// Relaxed: a hint, while others run.
    pub(crate) fn is_empty(&self) -> bool {
        self.tail.load(Ordering::Relaxed) == 0
    }

    /// Release: nobody but the node's thread touches it after this.
    fn free(node: &SpinnerNode<P>) {
        node.state.store(FREE, Ordering::Release);
    }

    fn node(hint: usize) -> &'static SpinnerNode<P> {
        // SAFETY: `tail` and `next` hold hints of threads only (zero and GONE
        // were told apart before), and those are the addresses of records,
        // which are never freed (rule 11).
        unsafe { &(*(hint as *const Thread<P>)).published.spinner }
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::{Native, System};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::thread;

    use fairlock_testing::{rounds, scope, until};

    type Queue = SpinnerQueue<Native>;

    const LONG: u64 = 60_000_000_000;

    /// A thread may be given a record whose last one left its node in the queue
    /// of another test's lock.
    fn me() -> &'static Thread<Native> {
        let me = Native::thread();
        until(|| me.published.spinner.state.load(Ordering::Acquire) != LEFT);
        me
    }

    #[test]
    fn alone_it_is_at_the_head_and_leaves_nothing() {
        let (queue, me) = (Queue::default(), me());
        for _ in 0..3 {
            assert!(queue.enter(me, 0));
            assert!(!queue.is_empty());
            queue.leave(me);
            assert!(queue.is_empty());
            assert_eq!(me.published.spinner.state.load(Ordering::SeqCst), FREE);
        }
    }

    #[test]
    fn spinner_that_left_does_not_spin_until_its_node_is_free() {
        let queue = Queue::default();
        // The thread that left stays alive, so that no other is given its record.
        let (left, freed) = (Barrier::new(2), Barrier::new(2));
        assert!(queue.enter(me(), 0));
        scope(|s| {
            s.spawn(|| {
                let me = me();
                assert!(!queue.enter(me, 1_000));
                assert_eq!(me.published.spinner.state.load(Ordering::SeqCst), LEFT);
                assert!(!queue.enter(me, 1_000));
                left.wait();
                freed.wait();
                assert_eq!(me.published.spinner.state.load(Ordering::SeqCst), FREE);
            });
            left.wait();
            queue.leave(me());
            assert!(queue.is_empty());
            freed.wait();
        });
    }

    #[test]
    fn turn_passes_over_those_who_left() {
        let queue = Queue::default();
        assert!(queue.enter(me(), 0));
        // Those who left stay alive, so that no thread is given their records.
        let (all_left, end) = (Barrier::new(4), Barrier::new(5));
        scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    assert!(!queue.enter(me(), 1_000));
                    all_left.wait();
                    end.wait();
                });
            }
            all_left.wait();
            s.spawn(|| {
                assert!(queue.enter(me(), LONG));
                queue.leave(me());
                end.wait();
            });
            thread::yield_now();
            queue.leave(me());
            end.wait();
        });
        assert!(queue.is_empty());
    }

    #[test]
    fn one_at_a_time_at_the_head_while_others_leave() {
        const THREADS: usize = 6;
        let (queue, start) = (&Queue::default(), &Barrier::new(THREADS));
        let (inside, entered) = (&AtomicBool::new(false), &AtomicUsize::new(0));
        scope(|s| {
            for i in 0..THREADS {
                s.spawn(move || {
                    let me = me();
                    start.wait();
                    for round in 0..rounds(20_000) {
                        let bound = if (i + round) % 3 == 0 { 0 } else { 20_000 };
                        if queue.enter(me, bound) {
                            assert!(!inside.swap(true, Ordering::Relaxed));
                            entered.fetch_add(1, Ordering::Relaxed);
                            inside.store(false, Ordering::Relaxed);
                            queue.leave(me);
                        }
                    }
                });
            }
        });
        assert!(entered.load(Ordering::Relaxed) > 0);
        assert!(queue.is_empty());
    }
}

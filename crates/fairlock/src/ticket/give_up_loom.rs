//! Waits that end, beside releases, the ends of batches and cancellation, in every
//! interleaving: as `ticket_loom`.
//!
//! A sleep with a deadline ends when the model likes, so each wait comes to the lock in
//! some schedules and gives up in others. A ticket that nobody retires is a deadlock for
//! those behind it, or leaves a lock that is not idle.

use loom::sync::Arc;

use super::ticket_loom::Guarded;
use super::{Adaptive, BatchSize, Fixed};
#[cfg(fairlock_faults)]
use crate::models::controls;
use crate::platform::System;
use crate::platform::loom::Loom;
use crate::wait::{CancelToken, Wait};

/// Long enough to park.
const TIMEOUT_NS: u64 = 10_000_000;

impl<S: BatchSize> Guarded<S> {
    fn add_timed(&self) -> u32 {
        let taken = self.lock.lock_with(Wait::until_nanos(Loom::now() + TIMEOUT_NS)).is_ok();
        if taken {
            self.add_held();
        }
        u32::from(taken)
    }

    fn add_once(&self) -> u32 {
        self.add();
        1
    }
}

/// Runs each in a thread of its own, the last one in the model's.
fn check<S: BatchSize, const N: usize>(served: u32, threads: [fn(&Guarded<S>) -> u32; N]) {
    loom::model(move || {
        let lock = Guarded::<S>::new(served);
        let [others @ .., own] = &threads[..] else { return };
        let others: Vec<_> = others
            .iter()
            .map(|&other| {
                let lock = lock.clone();
                loom::thread::spawn(move || other(&lock))
            })
            .collect();
        let mut sections = own(&lock);
        for other in others {
            sections += other.join().unwrap();
        }
        lock.lock.check_idle().unwrap();
        lock.check(sections);
    });
}

#[test]
fn a_timeout_against_a_release() {
    check::<Fixed<1>, 2>(0, [Guarded::add_timed, Guarded::add_once]);
    check::<Fixed<1>, 2>(2, [Guarded::add_timed, Guarded::add_once]);
    check::<Fixed<4>, 2>(2, [Guarded::add_timed, |lock| lock.add_once() + lock.add_once()]);
}

#[test]
fn timeouts_against_each_other() {
    check::<Fixed<1>, 2>(0, [Guarded::add_timed, Guarded::add_timed]);
    check::<Fixed<1>, 2>(2, [Guarded::add_timed, |lock| lock.add_timed() + lock.add_timed()]);
}

/// The waiter that gives up is before another, behind one, or the last of its batch.
#[test]
fn a_timeout_between_two_that_wait_in_order() {
    check::<Fixed<1>, 3>(0, [Guarded::add_timed, Guarded::add_once, Guarded::add_once]);
}

#[test]
fn a_timeout_between_two_that_wait_in_order_with_tickets_only() {
    check::<Fixed<1>, 3>(2, [Guarded::add_timed, Guarded::add_once, Guarded::add_once]);
}

#[test]
fn a_timeout_in_batches_of_two() {
    check::<Fixed<2>, 3>(2, [Guarded::add_timed, Guarded::add_once, Guarded::add_once]);
}

#[test]
fn a_timeout_in_an_adaptive_batch() {
    check::<Adaptive<4>, 3>(2, [Guarded::add_timed, Guarded::add_once, Guarded::add_once]);
}

/// The second attempt may find the first one's ticket.
#[test]
fn a_second_attempt_against_a_release() {
    check::<Fixed<1>, 2>(
        2,
        [
            |lock| {
                let first = lock.add_timed();
                first + lock.add_once()
            },
            Guarded::add_once,
        ],
    );
}

#[test]
fn a_cancel_against_a_release() {
    for served in [0, 2] {
        loom::model(move || {
            let lock = Guarded::<Fixed<1>>::new(served);
            let token = Arc::new(CancelToken::new());
            let waiter = {
                let (lock, token) = (lock.clone(), token.clone());
                loom::thread::spawn(move || {
                    let taken = lock.lock.lock_with(Wait::FOREVER.cancellable(&token)).is_ok();
                    if taken {
                        lock.add_held();
                    }
                    u32::from(taken)
                })
            };
            lock.lock.lock();
            token.cancel();
            lock.add_held();
            let sections = 1 + waiter.join().unwrap();
            lock.lock.check_idle().unwrap();
            lock.check(sections);
        });
    }
}

#[cfg(fairlock_faults)]
controls! {
    broken_gives_up_quietly: "not idle";
    broken_gives_up_blindly: "not idle";
}

#[cfg(fairlock_faults)]
mod broken {
    use super::*;
    use crate::fault::{Fault, with_fault};

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_gives_up_quietly() {
        with_fault(Some(Fault::GivesUpQuietly), || {
            check::<Fixed<4>, 2>(2, [Guarded::add_timed, |lock| lock.add_once() + lock.add_once()]);
        });
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_gives_up_blindly() {
        with_fault(Some(Fault::GivesUpBlindly), || {
            check::<Fixed<1>, 2>(2, [Guarded::add_timed, Guarded::add_once]);
        });
    }
}

//! `Mutex`, `ReentrantMutex`, ticket locks and `Semaphore`.

use std::sync::atomic::{AtomicU32, Ordering};

use fairlock::platform::Native;
use fairlock::ticket::{AdaptiveTicketLock, BatchedTicketLock};
use fairlock::{Mutex, MutexExt, MutexGuard, ReentrantMutex, Semaphore};

use super::{Lock, Pair, wake_ups};
use crate::torture::seat::{Refusal, Request, Seat, Subject};
use crate::torture::visit::{How, Op, Section, Visit};

pub(super) const LOCKS: &[Lock] = &[
    Lock { name: "mutex", make: || Box::new(Guarded::default()) },
    // Its waits cannot be cancelled or interrupted.
    Lock {
        name: "reentrant",
        make: || Box::new(Reentrant { lock: ReentrantMutex::new(()), pair: Pair::default() }),
    },
    Lock {
        name: "ticket:1",
        make: || Box::new(Ticket(BatchedTicketLock::<Native, 1>::new(), Pair::default())),
    },
    Lock {
        name: "ticket:8",
        make: || Box::new(Ticket(BatchedTicketLock::<Native, 8>::new(), Pair::default())),
    },
    Lock {
        name: "ticket:adaptive",
        make: || Box::new(Ticket(AdaptiveTicketLock::<Native>::new(), Pair::default())),
    },
    Lock { name: "semaphore", make: || Box::new(Permits::new(PERMITS)) },
];

pub(super) const BROKEN: &[Lock] = &[
    // A semaphore with one permit too many.
    Lock { name: "broken:semaphore", make: || Box::new(Permits::new(PERMITS + 1)) },
];

#[derive(Default)]
struct Guarded {
    lock: Mutex<()>,
    pair: Pair,
}

impl Subject for Guarded {
    fn visit(&self, visit: &Visit, seat: &Seat<'_>) {
        let taken = seat.acquire(visit, |request| match request {
            Request::Try => self.lock.try_lock().ok_or(Refusal::Busy),
            Request::With(wait) => self.lock.lock_with(wait).map_err(Refusal::Ended),
        });
        if let Some(guard) = taken {
            self.pair.write(seat, visit.section);
            seat.release(|| if visit.fair { MutexGuard::unlock_fair(guard) } else { drop(guard) });
        }
    }

    fn planned_ns(&self, others: usize) -> Option<u64> {
        Some(self.lock.planned_wait_ns(self.grants(others)))
    }

    fn is_idle(&self) -> bool {
        !self.lock.is_locked()
    }

    fn check_guarded(&self) -> Result<(), String> {
        self.pair.check_idle()
    }
}

struct Reentrant {
    lock: ReentrantMutex<()>,
    pair: Pair,
}

impl Subject for Reentrant {
    fn ops(&self) -> &'static [Op] {
        &[Op::Write, Op::LockAgain]
    }

    fn visit(&self, visit: &Visit, seat: &Seat<'_>) {
        let taken = seat.acquire(visit, |request| match (request, visit.how) {
            (Request::Try, _) => self.lock.try_lock().ok_or(Refusal::Busy),
            (_, How::For(timeout)) => {
                self.lock.try_lock_for(timeout).ok_or(Refusal::Ended(fairlock::WaitError::TimedOut))
            }
            _ => Ok(self.lock.lock()),
        });
        let Some(guard) = taken else { return };
        self.pair.write(seat, visit.section);
        if visit.op == Op::LockAgain {
            let again = self.lock.lock();
            self.pair.write(seat, Section::Nothing);
            drop(again);
        }
        self.pair.read(seat, Section::Nothing);
        seat.release(|| drop(guard));
    }

    /// As that of a new mutex, which it has inside.
    fn planned_ns(&self, others: usize) -> Option<u64> {
        Some(Mutex::new(()).planned_wait_ns(self.grants(others)).saturating_mul(2))
    }

    fn is_idle(&self) -> bool {
        !self.lock.is_locked()
    }

    fn check_guarded(&self) -> Result<(), String> {
        self.pair.check_idle()
    }
}

struct Ticket<L>(L, Pair);

macro_rules! ticket_lock {
    ($lock:ty) => {
        impl Subject for Ticket<$lock> {
            fn visit(&self, visit: &Visit, seat: &Seat<'_>) {
                let take = |request: Request<'_>| {
                    request.take(|| self.0.try_lock(), |wait| self.0.lock_with(wait))
                };
                if seat.acquire(visit, take).is_some() {
                    self.1.write(seat, visit.section);
                    // SAFETY: just taken.
                    let leave = || unsafe {
                        if visit.fair { self.0.unlock_fair() } else { self.0.unlock() }
                    };
                    seat.release(leave);
                }
            }

            fn planned_ns(&self, others: usize) -> Option<u64> {
                Some(wake_ups(self.grants(others)))
            }

            /// A thread that comes again may be in the batch of one that waits: each may have been once in that before.
            fn grants(&self, others: usize) -> usize {
                2 * others + 10
            }

            fn state(&self) -> String {
                format!("locked: {}, contended: {}", self.0.is_locked(), self.0.is_contended())
            }

            fn is_idle(&self) -> bool {
                !self.0.is_locked() && !self.0.is_contended()
            }

            fn check_guarded(&self) -> Result<(), String> {
                self.1.check_idle()
            }
        }
    };
}

ticket_lock!(BatchedTicketLock<Native, 1>);
ticket_lock!(BatchedTicketLock<Native, 8>);
ticket_lock!(AdaptiveTicketLock<Native>);

/// How many permits there should be.
const PERMITS: u32 = 4;

struct Permits {
    lock: Semaphore,
    inside: AtomicU32,
}

impl Permits {
    fn new(permits: u32) -> Self {
        Self { lock: Semaphore::new(permits), inside: AtomicU32::new(0) }
    }
}

impl Subject for Permits {
    fn ops(&self) -> &'static [Op] {
        &[Op::Permits(1), Op::Permits(1), Op::Permits(2), Op::Permits(3), Op::Permits(PERMITS)]
    }

    fn visit(&self, visit: &Visit, seat: &Seat<'_>) {
        let Op::Permits(count) = visit.op else { return };
        let taken = seat.acquire(visit, |request| match request {
            Request::Try => self.lock.try_acquire_many(count).ok_or(Refusal::Busy),
            Request::With(wait) => self.lock.acquire_many_with(count, wait).map_err(Refusal::Ended),
        });
        let Some(permit) = taken else { return };
        let inside = self.inside.fetch_add(count, Ordering::Relaxed) + count;
        if inside > PERMITS {
            seat.fail(format!("exclusion: {inside} permits of {PERMITS} are taken"));
        }
        visit.section.stay();
        self.inside.fetch_sub(count, Ordering::Relaxed);
        seat.release(|| drop(permit));
    }

    fn planned_ns(&self, others: usize) -> Option<u64> {
        Some(wake_ups(others))
    }

    fn state(&self) -> String {
        let free = self.lock.available_permits();
        format!("{free} permits free, threads wait: {}", self.lock.has_waiters())
    }

    fn is_idle(&self) -> bool {
        self.lock.available_permits() == PERMITS && !self.lock.has_waiters()
    }
}

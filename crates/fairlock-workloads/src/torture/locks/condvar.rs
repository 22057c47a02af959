//! `Condvar` with its `Mutex`: some threads put items, others wait for them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fairlock::{Condvar, CondvarExt, Mutex, MutexExt, MutexGuard};

use super::{Lock, Pair};
use crate::torture::seat::{Refusal, Request, Seat, Subject};
use crate::torture::threads::now;
use crate::torture::visit::{How, Op, Visit};

pub(super) const LOCKS: &[Lock] = &[Lock { name: "condvar", make: || Box::new(Store::new(false)) }];

pub(super) const BROKEN: &[Lock] = &[
    // A condition variable that notifies nobody after a while.
    Lock { name: "broken:condvar", make: || Box::new(Store::new(true)) },
];

/// What nobody has taken yet; more are not put.
const MOST: u64 = 16;

#[derive(Default)]
struct Items {
    there: u64,
    put: u64,
    taken: u64,
}

struct Store {
    items: Mutex<Items>,
    changed: Condvar,
    pair: Pair,
    /// Since when there are items; zero: there are none.
    since: AtomicU64,
    closed: AtomicBool,
    forgets: bool,
}

impl Store {
    fn new(forgets: bool) -> Self {
        Self {
            items: Mutex::default(),
            changed: Condvar::new(),
            pair: Pair::default(),
            since: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            forgets,
        }
    }

    fn lock(&self, visit: &Visit, seat: &Seat<'_>) -> Option<MutexGuard<'_, Items>> {
        seat.acquire(visit, |request| match request {
            Request::Try => self.items.try_lock().ok_or(Refusal::Busy),
            Request::With(wait) => self.items.lock_with(wait).map_err(Refusal::Ended),
        })
    }

    fn put(&self, visit: &Visit, seat: &Seat<'_>, items: &mut Items) {
        self.pair.write(seat, visit.section);
        let count = if visit.op == Op::PutMany { 5 } else { 1 };
        if items.there + count > MOST {
            return;
        }
        if items.there == 0 {
            self.since.store(now(), Ordering::Relaxed);
        }
        items.there += count;
        items.put += count;
        if self.forgets && items.put > 100 {
            return;
        }
        if visit.op == Op::PutMany {
            self.changed.notify_all();
        } else {
            self.changed.notify_one();
        }
    }

    /// Waits for an item as the visit says.
    fn take(&self, visit: &Visit, seat: &Seat<'_>, guard: &mut MutexGuard<'_, Items>) {
        while guard.there == 0 {
            if self.closed.load(Ordering::Relaxed) {
                return;
            }
            let notified = seat.await_notification(visit, |request| match request {
                Request::Try => Err(Refusal::Busy),
                Request::With(wait) => self.changed.wait_with(guard, wait).map_err(Refusal::Ended),
            });
            if !notified {
                return;
            }
        }
        guard.there -= 1;
        guard.taken += 1;
        if guard.there == 0 {
            self.since.store(0, Ordering::Relaxed);
        }
        self.pair.write(seat, visit.section);
    }
}

impl Subject for Store {
    fn ops(&self) -> &'static [Op] {
        &[Op::Put, Op::Put, Op::PutMany, Op::Take, Op::Take, Op::Take]
    }

    fn visit(&self, visit: &Visit, seat: &Seat<'_>) {
        // Who takes says how to wait for an item.
        let how = if visit.op == Op::Take { How::Wait } else { visit.how };
        let Some(mut guard) = self.lock(&Visit { how, ..*visit }, seat) else { return };
        if visit.op == Op::Take {
            self.take(visit, seat, &mut guard);
        } else {
            self.put(visit, seat, &mut guard);
        }
        seat.release(|| if visit.fair { MutexGuard::unlock_fair(guard) } else { drop(guard) });
    }

    fn planned_ns(&self, others: usize) -> Option<u64> {
        // Notified threads queue at the mutex beside all others.
        Some(self.items.planned_wait_ns(self.grants(others)).saturating_mul(2))
    }

    /// Beside those that ask for the mutex come those that are notified.
    fn grants(&self, others: usize) -> usize {
        2 * others + 3
    }

    fn state(&self) -> String {
        let since = match self.since.load(Ordering::Relaxed) {
            0 => "there are no items".to_owned(),
            since => {
                format!("there are items since {} ms", now().saturating_sub(since) / 1_000_000)
            }
        };
        format!("{since}; the mutex is {}locked", if self.items.is_locked() { "" } else { "not " })
    }

    /// Each item that is put while threads wait lets one of them go, which takes it. So if one waits on, there are
    /// no items, or others were let go and have yet to take them.
    fn overdue_since(&self) -> Option<u64> {
        Some(self.since.load(Ordering::Relaxed)).filter(|&since| since != 0)
    }

    fn close(&self) {
        // Not under the mutex: if that is broken, this must not wait. Those that look before and sleep after are
        // woken by the next call.
        self.closed.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    fn check_guarded(&self) -> Result<(), String> {
        let Some(items) = self.items.try_lock() else {
            return Err("everybody has left, but the mutex is locked".to_owned());
        };
        let Items { there, put, taken } = *items;
        if put != taken + there {
            return Err(format!("{put} items were put and {taken} taken, but {there} are there"));
        }
        self.pair.check_idle()
    }
}

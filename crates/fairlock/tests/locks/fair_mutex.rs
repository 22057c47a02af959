//! The fair release of the ticket locks, and of `Mutex`.

use std::sync::Mutex as Order;

use fairlock::platform::Native;
use fairlock::ticket::{Adaptive, BatchSize, Fixed, TicketLock};
use fairlock::{Mutex, MutexGuard};
use fairlock_testing::{rounds, scope, until};

/// Takes the lock, with a ticket, while another thread waits for it; releases it fairly, and
/// takes it again. Whether the other one was before the second time, or the first.
fn waiter_goes_first<S: BatchSize>() {
    let lock = TicketLock::<Native, S>::new();
    let order = Order::new(vec![]);
    let turn = |name: &'static str| {
        lock.lock();
        order.lock().unwrap().push(name);
    };
    let tickets = |count| until(|| lock.tickets().0 == count);
    // Without a ticket: as long as it has the lock, nobody is served.
    lock.lock();
    scope(|scope| {
        // SAFETY: each releases what it has taken.
        scope.spawn(|| unsafe {
            turn("first in line");
            lock.unlock();
        });
        tickets(1);
        // SAFETY: as above.
        scope.spawn(|| unsafe {
            turn("fair");
            lock.unlock_fair();
            turn("again");
            lock.unlock();
        });
        tickets(2);
        // SAFETY: as above.
        scope.spawn(|| unsafe {
            turn("waiter");
            lock.unlock();
        });
        tickets(3);
        // SAFETY: taken above.
        unsafe { lock.unlock() };
    });
    let order = order.into_inner().unwrap();
    let place = |name| order.iter().position(|&other| other == name).unwrap();
    assert!(place("waiter") < place("again"), "{order:?}");
    lock.check_idle().unwrap();
}

/// Of two the batch ends with the fair release, and the waiter is of the next one.
#[test]
fn who_waits_goes_before_who_comes_after_a_fair_release() {
    for _ in 0..rounds(200) {
        waiter_goes_first::<Fixed<1>>();
        waiter_goes_first::<Fixed<2>>();
        waiter_goes_first::<Fixed<8>>();
        waiter_goes_first::<Adaptive<65_536>>();
    }
}

#[test]
fn a_fair_release_of_a_mutex_goes_to_the_waiter() {
    for _ in 0..rounds(200) {
        let mutex = Mutex::new(vec![]);
        scope(|scope| {
            let mut guard = mutex.lock();
            scope.spawn(|| mutex.lock().push("waiter"));
            // SAFETY: only looked at.
            until(|| unsafe { mutex.raw() }.is_contended());
            guard.push("holder");
            MutexGuard::bump(&mut guard);
            guard.push("holder");
            MutexGuard::unlock_fair(guard);
        });
        assert_eq!(mutex.into_inner(), ["holder", "waiter", "holder"]);
    }
}

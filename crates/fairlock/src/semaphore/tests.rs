//! Waiters that do not run. They are in the frame of a test, which does not look at the permits for them.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;

use fairlock_testing::{join, rounds, scope, until, within};

use super::line::PermitLine;
use super::*;
use crate::lock::{Line, Slot};
use crate::platform::System;
use crate::wait::{Access, Duty, MISSED_NS, Waiter};

const MISSED: Duration = Duration::from_nanos(MISSED_NS);

/// A waiter for so many permits, whose thread is stopped.
fn stopped(count: u32) -> Waiter<Native> {
    let mut waiter = Waiter::new(Access::Exclusive, Native::thread(), Native::now(), 0);
    waiter.permits = count;
    waiter
}

/// Queues the waiter, and returns the slot.
///
/// # Safety
/// It is in no queue, and stays where it is until it is out of this one.
unsafe fn queue(semaphore: &Semaphore, waiter: &Waiter<Native>) -> &'static Slot<Native> {
    // SAFETY: the caller's promise.
    let (slot, waits) = unsafe { line::queue(&semaphore.raw, waiter) }.expect("there is memory");
    assert!(waits, "there are permits for it");
    slot
}

impl PermitLine<'_> {
    fn is_next(&self, waiter: &Waiter<Native>) -> bool {
        self.with_queue(|q| q.is_next(waiter))
    }

    fn len(&self) -> usize {
        self.with_queue(|q| q.waiters.len())
    }

    /// The thread runs; whether it has its permits.
    fn runs(&self, waiter: &Waiter<Native>) -> bool {
        let taken = self.run(waiter, false);
        waiter.thread.parker.forget_notification();
        taken
    }
}

/// The first one sleeps on, although it was woken: others behind it wait for a millisecond, and it is next again when it runs.
#[test]
fn a_waiter_that_does_not_come_is_passed_by_those_behind_it_and_keeps_its_place() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire();
    let late = stopped(1);
    // SAFETY: it leaves below, in this frame.
    let slot = unsafe { queue(&semaphore, &late) };
    let line = PermitLine { semaphore: &semaphore.raw, slot };
    scope(|s| {
        let others: Vec<_> = (0..3).map(|_| s.spawn(|| semaphore.acquire().count())).collect();
        until(|| line.len() == 4);
        drop(held);
        for other in others {
            assert_eq!(join(other), 1);
        }
    });
    assert!(line.is_next(&late), "it is the last one");
    let held = semaphore.try_acquire().expect("nobody waits who is not late");
    scope(|s| {
        let behind = s.spawn(|| semaphore.acquire().count());
        until(|| line.len() == 2);
        assert!(!line.runs(&late) && line.is_next(&late), "it has lost its place");
        drop(held);
        // The other one passes it again, if this thread has no CPU for so long.
        until(|| line.runs(&late));
        semaphore.release(1);
        assert_eq!(join(behind), 1);
    });
}

/// Two in front are stopped, and so is another behind. The permits came long after all fell asleep.
#[test]
fn waiters_that_are_stopped_stop_no_other() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.acquire_many(2);
    let late = [1, 2, 1].map(stopped);
    // SAFETY: they leave below, in this frame.
    let slot = unsafe { (queue(&semaphore, &late[0]), queue(&semaphore, &late[1])).0 };
    let line = PermitLine { semaphore: &semaphore.raw, slot };
    scope(|s| {
        let others: Vec<_> = (0..2).map(|_| s.spawn(|| semaphore.acquire().count())).collect();
        until(|| line.len() == 4);
        // SAFETY: it leaves below, in this frame.
        unsafe { queue(&semaphore, &late[2]) };
        within(Duration::from_millis(50), || false);
        drop(held);
        for other in others {
            assert_eq!(join(other), 1);
        }
    });
    assert!([0, 1].iter().all(|&i| late[i].duty() == Duty::Late) && line.is_next(&late[2]));
    for waiter in &late {
        assert!(line.runs(waiter), "its place is before those behind it");
        semaphore.release(waiter.permits);
    }
    assert!(!semaphore.has_waiters());
}

/// A late one that wants many is passed by those that want few; one that is not late is not.
#[test]
fn an_attempt_passes_waiters_that_are_late_and_no_other() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.acquire_many(3);
    let late = stopped(2);
    // SAFETY: it leaves below, in this frame.
    let slot = unsafe { queue(&semaphore, &late) };
    let line = PermitLine { semaphore: &semaphore.raw, slot };
    semaphore.release(1);
    for _ in 0..3 {
        assert!(!within(MISSED, || semaphore.try_acquire().is_some()), "it is not late");
    }
    semaphore.release(1);
    until(|| semaphore.try_acquire().is_some());
    assert!(semaphore.try_acquire_many(3).is_none());
    assert_eq!(semaphore.acquire_many(2).count(), 2);
    assert!(line.runs(&late));
    core::mem::forget(held);
}

/// A slot was another lock's before, whose fair release left that to the waiter that was next.
#[test]
fn what_was_promised_to_the_one_that_was_next_is_not_kept_for_another() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.acquire_many(2);
    let waiters = [1, 1, 1].map(stopped);
    // SAFETY: they leave below, in this frame.
    let [slot, ..] = [0, 1, 2].map(|i| unsafe { queue(&semaphore, &waiters[i]) });
    let line = PermitLine { semaphore: &semaphore.raw, slot };
    line.with_queue(|q| q.is_promised = true);
    semaphore.release(1);
    assert!(line.runs(&waiters[0]) && line.is_next(&waiters[1]));
    semaphore.release(1);
    until(|| line.runs(&waiters[2]));
    semaphore.release(1);
    assert!(line.runs(&waiters[1]));
    core::mem::forget(held);
}

/// The one that is next wants more than there is, and so is not late, however long it does not run.
#[test]
fn nobody_is_late_whose_permits_are_not_there() {
    let semaphore = Semaphore::new(1);
    let waiter = stopped(2);
    // SAFETY: it leaves below, in this frame.
    let slot = unsafe { queue(&semaphore, &waiter) };
    let line = PermitLine { semaphore: &semaphore.raw, slot };
    let soon = Wait::within(5 * MISSED);
    assert_eq!(semaphore.acquire_many_with(1, soon).err(), Some(WaitError::TimedOut));
    semaphore.release(1);
    assert!(line.runs(&waiter));
    assert!(!semaphore.has_waiters());
}

/// A thread that gives too few leaves the waiter asleep, for the one that gives the rest.
#[test]
fn permits_that_come_one_by_one_wake_a_thread_that_wants_several() {
    let (semaphore, given) = (&Semaphore::new(0), &AtomicU32::new(0));
    scope(|s| {
        let waiter = s.spawn(|| {
            let count = semaphore.acquire_many(3).count();
            assert_eq!(given.load(Ordering::Relaxed), 3);
            count
        });
        until(|| semaphore.has_waiters());
        for _ in 0..3 {
            given.fetch_add(1, Ordering::Relaxed);
            semaphore.release(1);
        }
        assert_eq!(join(waiter), 3);
    });
}

/// The slot goes back when the last waiter leaves, with permits or without.
#[test]
fn a_semaphore_that_nobody_waits_for_has_no_slot() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire();
    for count in [1, 2] {
        let waiter = stopped(count);
        // SAFETY: it leaves below, in this frame.
        let slot = unsafe { queue(&semaphore, &waiter) };
        let line = PermitLine { semaphore: &semaphore.raw, slot };
        assert_eq!(semaphore.raw.load().name(), slot.name());
        assert!(!line.run(&waiter, true));
        assert_eq!(semaphore.raw.load().name(), 0);
    }
    drop(held);
}

/// Threads that have slept for long look soon, once somebody is missed: not at the ends of their naps.
#[test]
#[cfg_attr(miri, ignore = "its clock passes too fast")]
fn a_waiter_that_does_not_come_is_passed_soon_however_long_others_have_slept() {
    until(|| {
        let semaphore = Semaphore::new(1);
        let held = semaphore.acquire();
        let late = stopped(1);
        // SAFETY: it leaves below, in this frame.
        let slot = unsafe { queue(&semaphore, &late) };
        let line = PermitLine { semaphore: &semaphore.raw, slot };
        let mut passed_after = 0;
        scope(|s| {
            let behind = s.spawn(|| drop(semaphore.acquire()));
            until(|| line.len() == 2);
            // After its first nap, of 32 ms, and long before the end of the second one.
            within(Duration::from_millis(50), || false);
            let given = Native::now();
            drop(held);
            join(behind);
            passed_after = Native::now() - given;
        });
        assert!(line.runs(&late));
        semaphore.release(1);
        passed_after < 20 * MISSED_NS
    });
}

/// The lookout is next itself by then: one that comes takes its place. Until all is done within a millisecond.
#[test]
#[cfg_attr(miri, ignore = "its clock passes too fast")]
fn one_that_comes_behind_a_waiter_that_is_missed_looks() {
    until(|| {
        let semaphore = Semaphore::new(0);
        let late = [1, 1, 2, 3].map(stopped);
        let is_asked = |place: usize| late[place].duty() == Duty::Asked;
        let began = Native::now();
        // SAFETY: they leave below, in this frame.
        let slot = unsafe { (queue(&semaphore, &late[0]), queue(&semaphore, &late[1])).0 };
        let line = PermitLine { semaphore: &semaphore.raw, slot };
        semaphore.release(1);
        let mut asked = vec![is_asked(1)];
        // SAFETY: as above.
        unsafe { queue(&semaphore, &late[2]) };
        assert!(line.runs(&late[0]));
        semaphore.release(1);
        asked.push(is_asked(2));
        assert!(line.run(&late[1], false));
        semaphore.release(2);
        // SAFETY: as above.
        unsafe { queue(&semaphore, &late[3]) };
        asked.push(is_asked(3));
        assert!(line.runs(&late[2]));
        semaphore.release(3);
        assert!(line.runs(&late[3]) && !semaphore.has_waiters());
        asked == [true; 3] && Native::now() - began < MISSED_NS
    });
}

/// In the queue it would be in the way of those that ask for what is there.
#[test]
fn an_attempt_whose_time_is_over_does_not_queue() {
    let (semaphore, ended) = (Semaphore::new(1), AtomicBool::new(false));
    scope(|s| {
        s.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                assert!(semaphore.acquire_many_with(2, Wait::within(Duration::ZERO)).is_err());
            }
        });
        let in_the_way = (0..rounds(100_000)).filter(|_| semaphore.try_acquire().is_none()).count();
        ended.store(true, Ordering::Relaxed);
        assert_eq!(in_the_way, 0);
    });
}

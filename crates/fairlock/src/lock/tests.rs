//! Stress on real threads: exclusion, no lost wake-up, nothing left behind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::policy::Policy;
use super::slot::{FewWakes, Queued};
use super::turn::{Arrival, Turns};
use super::word::Flags;
use super::words::Names;
use super::*;
use crate::condvar::WordCondvar;
use crate::platform::{Native, System};
use crate::wait::{Access, Duty, INVITED, Wait, Waiter};

type Lock = RawRwLock<Native>;

/// A lock and what it guards, two words that writers keep equal.
struct Guarded {
    lock: Lock,
    words: [AtomicU64; 2],
}

impl Guarded {
    fn write(&self) {
        let [first, second] = &self.words;
        let before = first.load(Ordering::Relaxed);
        assert_eq!(before, second.load(Ordering::Relaxed));
        first.store(before + 1, Ordering::Relaxed);
        std::hint::spin_loop();
        second.store(before + 1, Ordering::Relaxed);
    }

    fn read(&self) {
        let [first, second] = &self.words;
        assert_eq!(first.load(Ordering::Relaxed), second.load(Ordering::Relaxed));
    }
}

#[test]
fn writers_exclude_all_and_nobody_is_forgotten() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 20_000 };
    for threads in [2, 3, 8] {
        let locks =
            [(); 2].map(|()| Guarded { lock: Lock::new_const(), words: Default::default() });
        let writes = AtomicU64::new(0);
        std::thread::scope(|s| {
            for thread in 0..threads {
                let (locks, writes) = (&locks, &writes);
                s.spawn(move || {
                    let mut random: u64 = thread * 2 + 1;
                    for _ in 0..ROUNDS {
                        random =
                            u64::wrapping_mul(random, 6_364_136_223_846_793_005).wrapping_add(1);
                        let guarded = &locks[(random >> 40) as usize % 2];
                        let lock = &guarded.lock;
                        let wait = || Wait::<Native>::within(Duration::from_micros(random >> 58));
                        // SAFETY: each gives up what it has just taken.
                        unsafe {
                            match random >> 33 & 15 {
                                0..6 => {
                                    lock.read();
                                    guarded.read();
                                    lock.unlock_read();
                                }
                                6..10 => {
                                    lock.write();
                                    guarded.write();
                                    writes.fetch_add(1, Ordering::Relaxed);
                                    lock.unlock_write();
                                }
                                10 => {
                                    if lock.write_with(wait()).is_ok() {
                                        guarded.write();
                                        writes.fetch_add(1, Ordering::Relaxed);
                                        lock.unlock_write_fair();
                                    }
                                }
                                11 => {
                                    if lock.read_with(wait()).is_ok() {
                                        guarded.read();
                                        lock.unlock_read_fair();
                                    }
                                }
                                12 => {
                                    if lock.try_write() {
                                        guarded.write();
                                        writes.fetch_add(1, Ordering::Relaxed);
                                        lock.downgrade();
                                        guarded.read();
                                        lock.unlock_read();
                                    }
                                }
                                13 => {
                                    lock.upgradable_read();
                                    guarded.read();
                                    lock.upgrade();
                                    guarded.write();
                                    writes.fetch_add(1, Ordering::Relaxed);
                                    lock.downgrade_to_upgradable();
                                    guarded.read();
                                    lock.unlock_upgradable();
                                }
                                14 => {
                                    lock.upgradable_read();
                                    if lock.upgrade_with(wait()).is_ok() {
                                        guarded.write();
                                        writes.fetch_add(1, Ordering::Relaxed);
                                        lock.unlock_write();
                                    } else {
                                        guarded.read();
                                        lock.downgrade_upgradable();
                                        guarded.read();
                                        lock.unlock_read();
                                    }
                                }
                                _ => {
                                    lock.show_readers();
                                    if lock.try_read() {
                                        guarded.read();
                                        lock.unlock_read();
                                    }
                                }
                            }
                        }
                    }
                });
            }
        });
        let counted: u64 =
            locks.iter().map(|guarded| guarded.words[0].load(Ordering::Relaxed)).sum();
        assert_eq!(counted, writes.load(Ordering::Relaxed));
        for guarded in &locks {
            assert!(guarded.lock.trim() && !guarded.lock.is_locked(), "{:?}", guarded.lock);
            assert!(guarded.lock.try_write());
        }
    }
}

#[test]
fn holders_of_a_mutex_exclude_each_other_and_nobody_is_forgotten() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 40_000 };
    for threads in [2, 3, 8] {
        let mutexes = [(); 2].map(|()| (RawMutex::<Native>::new_const(), AtomicU64::new(0)));
        let taken = AtomicU64::new(0);
        std::thread::scope(|s| {
            for thread in 0..threads {
                let (mutexes, taken) = (&mutexes, &taken);
                s.spawn(move || {
                    let mut random: u64 = thread * 2 + 1;
                    for _ in 0..ROUNDS {
                        random =
                            u64::wrapping_mul(random, 6_364_136_223_846_793_005).wrapping_add(1);
                        let (mutex, count) = &mutexes[(random >> 40) as usize % 2];
                        let wait = || Wait::<Native>::within(Duration::from_micros(random >> 58));
                        let is_taken = match random >> 33 & 15 {
                            0..12 => {
                                mutex.lock();
                                true
                            }
                            12 => mutex.try_lock(),
                            _ => mutex.lock_with(wait()).is_ok(),
                        };
                        if !is_taken {
                            continue;
                        }
                        taken.fetch_add(1, Ordering::Relaxed);
                        let before = count.load(Ordering::Relaxed);
                        if random >> 50 & 63 == 0 {
                            std::thread::yield_now();
                        }
                        count.store(before + 1, Ordering::Relaxed);
                        // SAFETY: just taken.
                        unsafe {
                            if random >> 60 == 0 { mutex.unlock_fair() } else { mutex.unlock() }
                        }
                    }
                });
            }
        });
        let counted: u64 = mutexes.iter().map(|(_, count)| count.load(Ordering::Relaxed)).sum();
        assert_eq!(counted, taken.load(Ordering::Relaxed));
        for (mutex, _) in &mutexes {
            assert!(mutex.trim() && !mutex.is_locked(), "{mutex:?}");
        }
    }
}

#[test]
fn a_lock_with_a_policy_keeps_it() {
    let policy = Policy { aim: Duration::from_millis(1), ..Policy::DEFAULT };
    let lock = Lock::new(policy);
    assert!(!lock.is_locked() && lock.policy() == policy);
    lock.read();
    assert!(lock.is_locked() && lock.policy() == policy && lock.has_slot());
    // SAFETY: taken above.
    unsafe { lock.unlock_read() };
    assert!(lock.try_write() && !lock.trim());
    let _ = Native::now();
}

/// A thread gave up waiting for a lock, and takes it by an attempt.
#[test]
fn an_attempt_that_takes_the_lock_ends_the_age_of_its_thread() {
    let ages = &Native::thread().lock.ages;
    let takes: [fn(&Lock); 3] = [
        |lock| assert!(lock.try_write()),
        |lock| assert!(lock.try_read()),
        |lock| assert!(lock.write_with(Wait::within(Duration::ZERO)).is_ok()),
    ];
    for take in takes {
        // With a slot.
        let lock = Lock::new(Policy { aim: Duration::from_millis(1), ..Policy::DEFAULT });
        lock.set_events(None);
        ages.note(lock.raw.id(), 100, 200);
        take(&lock);
        assert!(ages.at(lock.raw.id()).is_none());
    }
    // Without one, beside another reader.
    let lock = Lock::new_const();
    lock.read();
    ages.note(lock.raw.id(), 100, 200);
    assert!(lock.try_read() && ages.at(lock.raw.id()).is_none());
}

/// Queues the waiter, unless it can have the lock.
///
/// # Safety
/// It is in no queue, and stays where it is until it is out of this one.
unsafe fn arrive(lock: &Lock, waiter: &Waiter<Native>) -> Arrival {
    let mut wakes = FewWakes::new();
    // SAFETY: the caller's promise.
    let arrives = |q: &mut Queued<Native>, slot| unsafe {
        Turns { lock: &lock.raw, slot }.arrive(q, waiter, &mut wakes)
    };
    let arrival = lock.raw.with_slot(arrives);
    wakes.wake_all();
    arrival.unwrap_or_else(|_| unreachable!("it is not visible"))
}

/// The lock, which has a slot, and its slot.
fn turns(lock: &Lock) -> Turns<'_, words::One<Native>> {
    let slot = Raw::<words::One<Native>>::slot(lock.raw.load());
    Turns { lock: &lock.raw, slot: slot.expect("somebody waits") }
}

/// The waiter that is next waits to read upgradably, and has closed the lock, as an upgradable reader is inside.
#[test]
fn readers_join_an_upgradable_one_at_a_lock_that_is_closed_for_the_next() {
    for comes_before in [false, true] {
        let lock = Lock::new_const();
        let me = Native::thread();
        lock.write();
        let waiter = |access| Waiter::<Native>::new(access, me, 0, 0);
        let (next, reader) = (waiter(Access::Upgradable), waiter(Access::Shared));
        // SAFETY: each is in no queue, and leaves below, in this frame.
        let arrive = |waiter| unsafe { arrive(&lock, waiter) };
        let mut wakes = FewWakes::new();
        arrive(&next);
        lock.raw.close();
        if comes_before {
            arrive(&reader);
        }
        // SAFETY: taken above.
        unsafe { lock.downgrade_to_upgradable() };
        if comes_before {
            let turns = turns(&lock);
            let joined = turns.with_queue(|q| {
                assert!(q.is_next(&next) && reader.state() == INVITED);
                turns.take(q, &reader, Native::now(), &mut wakes)
            });
            assert!(joined, "an invited reader");
        } else {
            assert!(matches!(arrive(&reader), Arrival::Acquired), "a reader that comes");
        }
        let turns = turns(&lock);
        turns.with_queue(|q| turns.leave(q, &next, &mut wakes));
        wakes.wake_all();
        me.parker.forget_notification();
        // SAFETY: the reader is inside, and an upgradable one.
        unsafe {
            lock.unlock_read();
            lock.unlock_upgradable();
        }
    }
}

/// The waiter that is next was stopped before the lock came free. (All others slept on at the free lock.)
#[test]
fn a_waiter_that_does_not_come_is_passed_by_those_behind_it_and_keeps_its_place() {
    for reads in [false, true] {
        let lock = Lock::new_const();
        let me = Native::thread();
        lock.write();
        let stopped = Waiter::<Native>::new(Access::Exclusive, me, 0, 0);
        let mut wakes = FewWakes::new();
        // SAFETY: it is in no queue, and leaves below, in this frame.
        assert!(matches!(unsafe { arrive(&lock, &stopped) }, Arrival::Queued(_)));
        let turns = turns(&lock);
        fairlock_testing::scope(|s| {
            let others: Vec<_> = (0..3)
                .map(|_| {
                    s.spawn(|| {
                        if reads {
                            lock.read();
                        } else {
                            lock.write();
                        }
                        // SAFETY: just taken.
                        unsafe { if reads { lock.unlock_read() } else { lock.unlock_write() } }
                    })
                })
                .collect();
            fairlock_testing::until(|| turns.with_queue(|q| q.waiters.len()) == 4);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            others.into_iter().for_each(fairlock_testing::join);
        });
        turns.with_queue(|q| {
            assert!(q.is_next(&stopped), "it is the last one");
            assert!(turns.take(q, &stopped, Native::now(), &mut wakes));
        });
        wakes.wake_all();
        me.parker.forget_notification();
        // SAFETY: just taken.
        unsafe { lock.unlock_write() };
    }
}

/// Two in front are stopped, and so is another behind them. A late one that runs has its place again.
#[test]
fn waiters_that_are_stopped_stop_no_other() {
    let lock = Lock::new_const();
    let me = Native::thread();
    lock.write();
    let stopped = [(); 3].map(|()| Waiter::<Native>::new(Access::Exclusive, me, 0, 0));
    // SAFETY: it is in no queue, and leaves below, in this frame.
    let stop = |waiter| assert!(matches!(unsafe { arrive(&lock, waiter) }, Arrival::Queued(_)));
    stopped[..2].iter().for_each(stop);
    let turns = turns(&lock);
    let mut wakes = FewWakes::new();
    fairlock_testing::scope(|s| {
        let other = s.spawn(|| {
            lock.write();
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
        });
        fairlock_testing::until(|| turns.with_queue(|q| q.waiters.len()) == 3);
        stop(&stopped[2]);
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        fairlock_testing::join(other);
    });
    turns.with_queue(|q| {
        assert!([0, 1].iter().all(|&i| stopped[i].duty() == Duty::Late) && q.is_next(&stopped[2]));
        stopped[0].set_duty(Duty::Looks);
        // A closed lock would be kept for the one that is next.
        Names::clear(&lock.raw.0, Flags::CLOSED);
        turns.recheck(q, None, &mut wakes);
        assert!(q.is_next(&stopped[0]), "it runs");
        stopped.iter().for_each(|waiter| turns.leave(q, waiter, &mut wakes));
    });
    wakes.wake_all();
    me.parker.forget_notification();
}

/// A thread that sleeps at a condition variable and was queued at the mutex has no timer.
#[test]
fn a_sleeper_that_was_queued_behind_one_that_is_stopped_has_the_mutex() {
    let (mutex, condvar) = (&RawMutex::<Native>::new(), &WordCondvar::<Native>::new());
    let mut stopped = Waiter::<Native>::new(Access::Exclusive, Native::thread(), 0, 0);
    stopped.seated = true;
    stopped.set_duty(Duty::Sleeps);
    let queued = || mutex.raw().lock_queue().map_or(0, |queued| queued.waiters.len());
    fairlock_testing::scope(|s| {
        let waiter = s.spawn(|| {
            mutex.lock();
            // SAFETY: just taken; and taken again.
            unsafe { (condvar.wait(mutex), mutex.unlock()) };
        });
        fairlock_testing::until(|| condvar.has_waiters());
        // It is about to fall asleep: otherwise it is woken, and has a timer.
        fairlock_testing::within(Duration::from_millis(20), || false);
        mutex.lock();
        mutex.know_of_waiters();
        // SAFETY: it is in no queue, and leaves below, in this frame.
        unsafe { mutex.raw().queue_sleeping_writer(&stopped) };
        assert!(condvar.notify_one());
        fairlock_testing::until(|| queued() == 2);
        // SAFETY: taken above.
        unsafe { mutex.unlock() };
        fairlock_testing::join(waiter);
    });
    let slot = Raw::<mutex::Two<Native>>::slot(mutex.raw().load()).expect("it waits");
    let turns = Turns { lock: mutex.raw(), slot };
    turns.with_queue(|q| turns.leave(q, &stopped, &mut FewWakes::new()));
    Native::thread().parker.forget_notification();
}

/// A closed lock goes to the waiter that was next: neither one that has waited longer, by attempts before,
/// nor one of the other side is put before it.
#[test]
fn a_closed_lock_is_kept_for_the_waiter_that_is_next_whoever_comes() {
    let lock = Lock::new_const();
    let me = Native::thread();
    lock.write();
    let next = Waiter::<Native>::new(Access::Exclusive, me, 1_000, 0);
    let mut older = Waiter::new(Access::Exclusive, me, 0, 0);
    older.returns = true;
    let reader = Waiter::new(Access::Shared, me, 1_000, 0);
    // SAFETY: all leave below, in this frame.
    unsafe {
        assert!(matches!(arrive(&lock, &next), Arrival::Queued(_)));
        lock.raw.close_for_next();
        assert!(matches!(arrive(&lock, &older), Arrival::Queued(_)));
        assert!(matches!(arrive(&lock, &reader), Arrival::Queued(_)));
    }
    let mut wakes = FewWakes::new();
    let turns = turns(&lock);
    turns.with_queue(|q| {
        assert!(q.is_next(&next));
        for waiter in [&next, &older, &reader] {
            turns.leave(q, waiter, &mut wakes);
        }
    });
    wakes.wake_all();
    me.parker.forget_notification();
    // SAFETY: taken above.
    unsafe { lock.unlock_write() };
}

/// The waiter that is next has no CPU for ever, as a collector of garbage has stopped it. A thread that comes gets the
/// closed lock after a while, and the other stays next; but not after a fair release.
#[test]
fn a_closed_lock_is_had_by_another_where_the_waiter_that_is_next_does_not_run() {
    let lock = Lock::new_const();
    lock.write();
    let stopped = Waiter::<Native>::new(Access::Exclusive, Native::thread(), 0, 0);
    // SAFETY: it leaves below, in this frame.
    unsafe { lock.raw.queue_sleeping_writer(&stopped) };
    lock.raw.close();
    let turns = turns(&lock);
    for _ in 0..2 {
        // SAFETY: taken above, or by the step before.
        unsafe { lock.unlock_write() };
        lock.write_with(Wait::within(Duration::from_secs(60))).expect("the lock is free");
        assert!(lock.raw.load().is_closed() && turns.with_queue(|q| q.is_next(&stopped)));
    }
    // SAFETY: taken above.
    unsafe { lock.unlock_write_fair() };
    let soon = Wait::within(Duration::from_millis(5));
    assert_eq!(
        lock.write_with(soon),
        Err(crate::wait::WaitError::TimedOut),
        "the release promised it"
    );
    turns.with_queue(|q| turns.leave(q, &stopped, &mut FewWakes::new()));
    assert!(lock.try_write());
    // SAFETY: just taken.
    unsafe { lock.unlock_write() };
}

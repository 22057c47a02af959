//! The lock of the kernel proposals as callers see it.
//!
//! No test depends on timing to pass: what must happen is waited for
//! (`fairlock_testing::until`), and short waits are only used to make an
//! interleaving likely.

#![cfg(not(fairlock_loom))]

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::WaitError;
use fairlock::events::{Event, EventCounts};
use fairlock::platform::{Native, System};
use fairlock::published::{Policy, ReaderSpin, RwSem};
use fairlock::wait::{CancelToken, Wait};
use fairlock_testing::{join, scope, until};

type Lock = RwSem<Native>;
type Token = CancelToken<Native>;

const IMMEDIATE: Policy = Policy { handoff_after: Some(Duration::ZERO), ..Policy::HANDOFF };

const IMMEDIATE_PHASE: Policy =
    Policy { handoff_after: Some(Duration::ZERO), writer_phase: true, ..Policy::HANDOFF };

const POLICIES: [(&str, Policy); 9] = [
    ("unfair", Policy::UNFAIR),
    ("handoff", Policy::HANDOFF),
    ("no reader spin", Policy::NO_READER_SPIN),
    ("writer phase", Policy::WRITER_PHASE),
    ("immediate", IMMEDIATE),
    ("one reader spins", Policy { reader_spin: ReaderSpin::One, ..Policy::HANDOFF }),
    ("readers always spin", Policy { reader_spin: ReaderSpin::Always, ..Policy::HANDOFF }),
    ("no writer spin", Policy { writer_spin: false, ..Policy::NO_READER_SPIN }),
    ("immediate writer phase", IMMEDIATE_PHASE),
];

fn for_each_policy(test: impl Fn(Arc<Lock>)) {
    for (name, policy) in POLICIES {
        println!("policy: {name}");
        let lock = Arc::new(Lock::new(policy));
        test(lock.clone());
        assert_no_trace(&lock);
    }
}

/// A lock that nobody holds or waits for has nothing in its word: only then
/// does the writers' fast path, a compare-exchange from zero, succeed.
fn assert_no_trace(lock: &Lock) {
    assert!(!lock.has_waiters() && !lock.is_locked(), "{lock:?}");
    assert!(lock.try_write(), "{lock:?}");
    // SAFETY: just taken.
    unsafe { lock.unlock_write() };
}

fn soon(ms: u64) -> u64 {
    Native::now() + ms * 1_000_000
}

/// Gives threads that were started time to queue. Nothing depends on it.
fn let_them_queue() {
    thread::sleep(Duration::from_millis(20));
}

/// Who is inside, checked at every entry.
#[derive(Default)]
struct Inside {
    /// Readers inside, or -1 for a writer.
    now: AtomicI64,
    /// Added to by writers, one step at a time.
    plain: AtomicI64,
    writes: AtomicI64,
}

impl Inside {
    fn read(&self) {
        assert!(self.now.fetch_add(1, Ordering::Relaxed) >= 0, "reader beside a writer");
        let before = self.plain.load(Ordering::Relaxed);
        std::hint::spin_loop();
        assert_eq!(self.plain.load(Ordering::Relaxed), before, "written while read");
        assert!(self.now.fetch_sub(1, Ordering::Relaxed) > 0);
    }

    fn write(&self) {
        assert_eq!(self.now.swap(-1, Ordering::Relaxed), 0, "writer beside another");
        let before = self.plain.load(Ordering::Relaxed);
        std::hint::spin_loop();
        self.plain.store(before + 1, Ordering::Relaxed);
        assert_eq!(self.now.swap(0, Ordering::Relaxed), -1);
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    fn check(&self) {
        assert_eq!(self.now.load(Ordering::Relaxed), 0);
        assert_eq!(self.plain.load(Ordering::Relaxed), self.writes.load(Ordering::Relaxed));
    }
}

fn release_read(lock: &Lock, inside: &Inside, fair: bool) {
    inside.read();
    // SAFETY: the caller holds it for reading.
    unsafe { if fair { lock.unlock_read_fair() } else { lock.unlock_read() } }
}

fn release_write(lock: &Lock, inside: &Inside, how: u64) {
    inside.write();
    // SAFETY: the caller holds it for writing, and after `downgrade` for reading.
    unsafe {
        match how % 8 {
            0 => lock.unlock_write_fair(),
            1 | 2 => {
                lock.downgrade();
                release_read(lock, inside, how % 3 == 0);
            }
            _ => lock.unlock_write(),
        }
    }
}

/// Every way in and every way out, by every thread, at random.
fn visit(lock: &Lock, inside: &Inside, token: &Token, random: u64) {
    let deadline = Native::now() + random % 50_000;
    match random >> 32 & 15 {
        0 | 1 => {
            if lock.read_with(Wait::until_nanos(deadline)).is_ok() {
                release_read(lock, inside, false);
            }
        }
        2 | 3 => {
            if lock.write_with(Wait::until_nanos(deadline)).is_ok() {
                release_write(lock, inside, random >> 40);
            }
        }
        4 => {
            if lock.try_read() {
                release_read(lock, inside, false);
            }
        }
        5 => {
            if lock.try_write() {
                release_write(lock, inside, random >> 40);
            }
        }
        6 => {
            if lock.read_with(Wait::FOREVER.cancellable(token)).is_ok() {
                release_read(lock, inside, false);
            }
        }
        7 => {
            if lock.write_with(Wait::FOREVER.cancellable(token)).is_ok() {
                release_write(lock, inside, random >> 40);
            }
        }
        8 => {
            lock.read_recursive();
            release_read(lock, inside, true);
        }
        9 | 10 => {
            lock.write();
            release_write(lock, inside, random >> 40);
        }
        _ => {
            lock.read();
            release_read(lock, inside, random >> 40 & 15 == 0);
        }
    }
}

fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn writers_exclude_everybody_whichever_way_in_and_out() {
    const THREADS: u64 = 6;
    const VISITS: usize = 8_000;
    for_each_policy(|lock| {
        let inside = Inside::default();
        let tokens: Vec<Token> = (0..64).map(|_| Token::new()).collect();
        let current = AtomicUsize::new(0);
        let done = AtomicBool::new(false);
        scope(|s| {
            let workers: Vec<_> = (0..THREADS)
                .map(|i| {
                    let (lock, inside, tokens, current) = (&lock, &inside, &tokens, &current);
                    s.spawn(move || {
                        let mut random = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        for _ in 0..VISITS {
                            let token = &tokens[current.load(Ordering::Relaxed)];
                            visit(lock, inside, token, xorshift(&mut random));
                        }
                    })
                })
                .collect();
            s.spawn(|| {
                for (i, token) in tokens.iter().enumerate() {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    current.store(i, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(1));
                    token.cancel();
                }
            });
            for worker in workers {
                join(worker);
            }
            done.store(true, Ordering::Relaxed);
        });
        inside.check();
    });
}

/// Rule 13: a small fixed number of writers, and nobody else to wake a
/// forgotten one.
#[test]
fn three_four_and_five_writers_lose_no_wake_up() {
    for_each_policy(|lock| {
        for writers in 3..=5 {
            let inside = Inside::default();
            let visits = if lock.policy().handoff_after == Some(Duration::ZERO) { 1 } else { 10 };
            scope(|s| {
                for _ in 0..writers {
                    s.spawn(|| {
                        for _ in 0..visits * 500 {
                            lock.write();
                            release_write(&lock, &inside, 7);
                        }
                    });
                }
            });
            inside.check();
            assert_no_trace(&lock);
        }
    });
}

/// Rule 15 and rule 7: readers that pass through must not keep a writer asleep.
#[test]
fn one_writer_among_passing_readers_loses_no_wake_up() {
    for_each_policy(|lock| {
        let inside = Inside::default();
        let done = AtomicBool::new(false);
        scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        if lock.read_with(Wait::until_nanos(Native::now() + 1_000)).is_ok() {
                            release_read(&lock, &inside, false);
                        }
                    }
                });
            }
            for _ in 0..1_000 {
                lock.write();
                release_write(&lock, &inside, 7);
            }
            done.store(true, Ordering::Relaxed);
        });
        inside.check();
    });
}

/// Rule 14.
#[test]
fn timed_out_writer_wakes_the_readers_behind_it() {
    for_each_policy(|lock| {
        lock.read();
        scope(|s| {
            let writer = s.spawn(|| lock.write_with(Wait::until_nanos(soon(100))));
            until(|| lock.has_waiters() || writer.is_finished());
            let readers: Vec<_> = (0..3).map(|_| s.spawn(|| lock.read())).collect();
            // The lock stays read by this thread: only the writer's leaving
            // lets them in.
            for reader in readers {
                join(reader);
            }
            assert_eq!(join(writer), Err(WaitError::TimedOut));
        });
        // SAFETY: this thread's, and the three readers'.
        unsafe { (0..4).for_each(|_| lock.unlock_read()) };
    });
}

/// Rules 5, 6 and 8, at the head, in the middle and at the end of the queue.
#[test]
fn cancelled_waiter_leaves_no_trace_wherever_it_stands() {
    for_each_policy(|lock| {
        for position in 0..3 {
            for cancel_reader in [false, true] {
                cancel_at(&lock, position, cancel_reader);
                assert_no_trace(&lock);
            }
        }
    });
}

fn cancel_at(lock: &Lock, position: usize, cancel_reader: bool) {
    let token = Token::new();
    lock.write();
    scope(|s| {
        let mut others = Vec::new();
        let mut cancelled = None;
        for i in 0..3 {
            if i == position {
                let token = &token;
                cancelled = Some(s.spawn(move || match cancel_reader {
                    true => lock.read_with(Wait::FOREVER.cancellable(token)),
                    false => lock.write_with(Wait::FOREVER.cancellable(token)),
                }));
            } else {
                others.push(s.spawn(move || {
                    lock.write();
                    // SAFETY: just taken.
                    unsafe { lock.unlock_write() };
                }));
            }
            let_them_queue();
        }
        token.cancel();
        assert_eq!(cancelled.unwrap().join().unwrap(), Err(WaitError::Cancelled));
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        for other in others {
            join(other);
        }
    });
}

/// Rule 8: with a reader at the head and the lock read, only the leaving
/// writer ahead of it can let it in.
#[test]
fn cancelled_writer_lets_in_the_reader_behind_it() {
    for_each_policy(|lock| {
        let token = Token::new();
        lock.read();
        scope(|s| {
            let writer = s.spawn(|| lock.write_with(Wait::FOREVER.cancellable(&token)));
            until(|| lock.has_waiters());
            let reader = s.spawn(|| lock.read());
            let_them_queue();
            token.cancel();
            join(reader);
            assert_eq!(join(writer), Err(WaitError::Cancelled));
        });
        // SAFETY: this thread's and the reader's.
        unsafe { (0..2).for_each(|_| lock.unlock_read()) };
    });
}

#[test]
fn wait_that_is_cancelled_beforehand_ends_at_once() {
    for_each_policy(|lock| {
        let token = Token::new();
        token.cancel();
        lock.write();
        assert_eq!(lock.read_with(Wait::FOREVER.cancellable(&token)), Err(WaitError::Cancelled));
        assert_eq!(lock.write_with(Wait::FOREVER.cancellable(&token)), Err(WaitError::Cancelled));
        assert_eq!(lock.read_with(Wait::until_nanos(0)), Err(WaitError::TimedOut));
        assert_eq!(lock.write_with(Wait::until_nanos(0)), Err(WaitError::TimedOut));
        assert!(!lock.has_waiters());
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
    });
}

#[test]
fn reader_does_not_join_readers_while_a_writer_waits() {
    for_each_policy(|lock| {
        lock.read();
        scope(|s| {
            let writer = s.spawn(|| {
                lock.write();
                // SAFETY: just taken.
                unsafe { lock.unlock_write() };
            });
            until(|| lock.has_waiters());
            assert!(!lock.try_read());
            assert_eq!(lock.read_with(Wait::until_nanos(soon(5))), Err(WaitError::TimedOut));
            // One that holds it already may.
            assert!(lock.try_read_recursive());
            // SAFETY: taken twice.
            unsafe { (0..2).for_each(|_| lock.unlock_read()) };
            join(writer);
        });
    });
}

/// Rule 2, and more readers than one wake takes.
#[test]
fn readers_are_woken_together_however_many() {
    const READERS: usize = 300;
    for (name, policy) in [("handoff", Policy::HANDOFF), ("writer phase", Policy::WRITER_PHASE)] {
        println!("policy: {name}");
        let lock = Lock::new(policy);
        let all_inside = Barrier::new(READERS);
        lock.write();
        scope(|s| {
            for _ in 0..READERS {
                s.spawn(|| {
                    lock.read();
                    // Nobody leaves before all are in.
                    all_inside.wait();
                    // SAFETY: just taken.
                    unsafe { lock.unlock_read() };
                });
            }
            let_them_queue();
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
        });
        assert_no_trace(&lock);
    }
}

fn downgrade_wakes(lock: &Lock) {
    lock.write();
    scope(|s| {
        let readers: Vec<_> = (0..4).map(|_| s.spawn(|| lock.read())).collect();
        let_them_queue();
        // SAFETY: taken above.
        unsafe { lock.downgrade() };
        // This thread still reads: only the downgrade lets them in.
        for reader in readers {
            join(reader);
        }
    });
    assert!(lock.is_locked() && !lock.is_write_locked() && !lock.try_write());
    // SAFETY: this thread's and the readers'.
    unsafe { (0..5).for_each(|_| lock.unlock_read()) };
}

#[test]
fn downgrade_wakes_queued_readers() {
    for_each_policy(|lock| downgrade_wakes(&lock));
}

#[test]
fn downgrade_lets_no_writer_in_between() {
    for (name, policy) in POLICIES {
        println!("policy: {name}");
        let lock = Lock::new(policy);
        let value = AtomicUsize::new(0);
        scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..300 {
                        lock.write();
                        let mine = value.load(Ordering::Relaxed) + 1;
                        value.store(mine, Ordering::Relaxed);
                        // SAFETY: held for writing.
                        unsafe { lock.downgrade() };
                        assert_eq!(value.load(Ordering::Relaxed), mine);
                        // SAFETY: held for reading.
                        unsafe { lock.unlock_read() };
                    }
                });
            }
        });
        assert_eq!(value.load(Ordering::Relaxed), 1_200);
        assert_no_trace(&lock);
    }
}

/// Lets go and comes back at once, by `again`; a waiter must have been first.
fn waiter_is_first(lock: &Lock, reads: bool, let_go: impl Fn(), again: impl Fn()) {
    let had_it = AtomicBool::new(false);
    scope(|s| {
        s.spawn(|| {
            if reads {
                lock.read();
                had_it.store(true, Ordering::Relaxed);
                // SAFETY: just taken.
                unsafe { lock.unlock_read() };
            } else {
                lock.write();
                had_it.store(true, Ordering::Relaxed);
                // SAFETY: just taken.
                unsafe { lock.unlock_write() };
            }
        });
        until(|| lock.has_waiters());
        let_go();
        again();
        assert!(had_it.load(Ordering::Relaxed), "overtook the waiter");
        // SAFETY: `again` took it.
        unsafe { lock.unlock_write() };
    });
}

#[test]
fn fair_unlock_lets_nobody_in_before_the_waiter() {
    for (name, policy) in POLICIES {
        println!("policy: {name}");
        let lock = Lock::new(policy);
        for i in 0..40 {
            let for_reading = i % 2 == 0;
            if for_reading {
                lock.read()
            } else {
                lock.write()
            }
            // SAFETY: taken in the line before.
            let let_go = || unsafe {
                if for_reading { lock.unlock_read_fair() } else { lock.unlock_write_fair() }
            };
            if i % 4 < 2 {
                waiter_is_first(&lock, false, let_go, || lock.write());
            } else {
                waiter_is_first(&lock, false, let_go, || until(|| lock.try_write()));
            }
        }
        assert_no_trace(&lock);
    }
}

/// Proposal 1. With a deadline of zero the waiter is past it when it arrives.
#[test]
fn waiter_past_its_deadline_is_not_overtaken() {
    for policy in [IMMEDIATE, IMMEDIATE_PHASE] {
        let lock = Lock::new(policy);
        for i in 0..40 {
            let counts: &EventCounts = Box::leak(Box::default());
            lock.set_events(Some(counts));
            let reads = i % 2 == 0;
            let handoff = if reads { Event::ReadHandoff } else { Event::WriteHandoff };
            lock.write();
            let let_go = || {
                until(|| counts.get(handoff) > 0);
                // SAFETY: taken above.
                unsafe { lock.unlock_write() };
            };
            if i % 4 < 2 {
                waiter_is_first(&lock, reads, let_go, || lock.write());
            } else {
                waiter_is_first(&lock, reads, let_go, || until(|| lock.try_write()));
            }
        }
        assert_no_trace(&lock);
    }
}

/// Proposal 1: a waiter is served although running threads take the lock all
/// the time. (The unfair lock promises nothing.)
#[test]
fn waiters_are_served_among_thieves() {
    for (name, policy) in POLICIES.into_iter().filter(|(name, _)| *name != "unfair") {
        println!("policy: {name}");
        let lock = Lock::new(policy);
        let served = AtomicUsize::new(0);
        scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    while served.load(Ordering::Relaxed) < 20 {
                        lock.write();
                        // SAFETY: just taken.
                        unsafe { lock.unlock_write() };
                    }
                });
            }
            for _ in 0..10 {
                lock.read();
                served.fetch_add(1, Ordering::Relaxed);
                // SAFETY: just taken.
                unsafe { lock.unlock_read() };
                lock.write();
                served.fetch_add(1, Ordering::Relaxed);
                // SAFETY: just taken.
                unsafe { lock.unlock_write() };
            }
        });
        assert_no_trace(&lock);
    }
}

/// Rules 5 and 6: with immediate handoff the first waiter sets HANDOFF; it and
/// the one that inherits it give up; nothing is left.
#[test]
fn handoff_ends_with_the_last_waiter_that_gives_up() {
    for policy in [IMMEDIATE, IMMEDIATE_PHASE] {
        let lock = Lock::new(policy);
        for i in 0..4 {
            lock.write();
            scope(|s| {
                let mut waits = Vec::new();
                for j in 0..2 {
                    let lock = &lock;
                    waits.push(s.spawn(move || match (i >> j) & 1 {
                        0 => lock.write_with(Wait::until_nanos(soon(30))),
                        _ => lock.read_with(Wait::until_nanos(soon(30))),
                    }));
                }
                for wait in waits {
                    assert_eq!(join(wait), Err(WaitError::TimedOut));
                }
            });
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            assert_no_trace(&lock);
        }
    }
}

/// Rule 5: a free lock is not refused because someone who left had set HANDOFF.
#[test]
fn head_takes_the_free_lock_under_an_inherited_handoff() {
    let lock = Lock::new(IMMEDIATE);
    lock.write();
    scope(|s| {
        let first = s.spawn(|| lock.write_with(Wait::until_nanos(soon(50))));
        until(|| lock.has_waiters() || first.is_finished());
        let second = s.spawn(|| lock.write());
        assert_eq!(join(first), Err(WaitError::TimedOut));
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        join(second);
        // SAFETY: the second's.
        unsafe { lock.unlock_write() };
    });
    assert_no_trace(&lock);
}

/// Rule 9: a spinner on a lock whose owner does not run goes to sleep; it does
/// not time out late by more than a bounded spin.
#[test]
fn timed_wait_ends_while_the_owner_sleeps() {
    for_each_policy(|lock| {
        lock.write();
        for _ in 0..3 {
            let started = Instant::now();
            let end = soon(2);
            scope(|s| {
                s.spawn(|| {
                    assert_eq!(lock.write_with(Wait::until_nanos(end)), Err(WaitError::TimedOut))
                });
                s.spawn(|| {
                    assert_eq!(lock.read_with(Wait::until_nanos(end)), Err(WaitError::TimedOut))
                });
            });
            assert!(started.elapsed() >= Duration::from_millis(2));
        }
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
    });
}

//! Upgradable reads, whatever the policy.

use crate::events::{Event, EventCounts};
use crate::platform::System;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;

#[test]
fn readers_come_and_go_beside_an_upgradable_one_and_nobody_else() {
    for_each_policy(|lock| {
        lock.upgradable_read();
        assert!(lock.try_read() && !lock.try_upgradable_read() && !lock.try_write());
        assert!(lock.upgradable_read_with(Wait::until_nanos(Native::now())).is_err());
        // SAFETY: taken above.
        unsafe { lock.unlock_read() };
        // SAFETY: as above.
        assert!(unsafe { lock.try_upgrade() });
        assert!(!lock.try_read() && !lock.try_upgradable_read() && lock.is_write_locked());
        // SAFETY: upgraded.
        unsafe { lock.downgrade_to_upgradable() };
        assert!(lock.try_read() && !lock.try_upgradable_read());
        // SAFETY: taken above; and upgradable.
        unsafe { (lock.unlock_read(), lock.downgrade_upgradable()) };
        assert!(lock.try_upgradable_read());
        // SAFETY: each is held once.
        unsafe { (lock.unlock_upgradable(), lock.unlock_read()) };
    });
}

/// `inside` runs beside an upgrade that waits for a reader, and has the reader leave. `counts` are those of the lock.
fn while_upgrading(counts: &'static EventCounts, inside: impl Fn(&Lock)) {
    for_each_policy(|lock| {
        lock.set_events(Some(counts));
        counts.reset();
        assert!(lock.try_read());
        scope(|s| {
            let upgrader = s.spawn(|| {
                lock.upgradable_read();
                // SAFETY: upgradable, and then written.
                unsafe { (lock.upgrade(), lock.unlock_write()) };
            });
            inside(lock);
            join(upgrader);
        });
    });
}

#[test]
fn an_upgrade_lets_nobody_in_and_ends_when_the_last_reader_leaves() {
    static COUNTS: EventCounts = EventCounts::new();
    while_upgrading(&COUNTS, |lock| {
        // The upgrader waits for this thread alone.
        until(|| lock.word.load(Relaxed).is_written());
        assert!(lock.is_locked() && !lock.is_write_locked());
        assert!(!lock.try_read() && !lock.try_upgradable_read() && !lock.try_write());
        // A thread that reads may read again.
        assert!(lock.try_read_recursive());
        until(|| COUNTS.get(Event::SleepWriter) == 1);
        // SAFETY: taken twice.
        unsafe { (lock.unlock_read(), lock.unlock_read()) };
    });
}

#[test]
fn an_upgrade_that_gives_up_is_upgradable_as_before_and_lets_readers_in() {
    for_each_policy(|lock| {
        assert!(lock.try_read());
        lock.upgradable_read();
        let token = CancelToken::new();
        token.cancel();
        // SAFETY: upgradable throughout.
        unsafe {
            assert_eq!(
                lock.upgrade_with(Wait::until_nanos(Native::now())),
                Err(WaitError::TimedOut)
            );
            assert_eq!(
                lock.upgrade_with(Wait::FOREVER.cancellable(&token)),
                Err(WaitError::Cancelled)
            );
        }
        assert!(lock.try_read() && !lock.try_upgradable_read() && !lock.is_write_locked());
        // SAFETY: taken twice.
        unsafe { (lock.unlock_read(), lock.unlock_read()) };
        // SAFETY: upgradable, and then written.
        unsafe { (lock.upgrade(), lock.unlock_write()) };
    });
}

/// The last of the readers that an upgrade waits for may be one that only passed through.
#[test]
fn an_upgrade_ends_when_the_last_reader_takes_its_count_back() {
    static COUNTS: EventCounts = EventCounts::new();
    while_upgrading(&COUNTS, |lock| {
        until(|| COUNTS.get(Event::SleepWriter) == 1);
        take_count_back(lock);
    });
}

/// Such a lock is a sealed slot, which nobody in particular holds.
#[test]
fn nobody_upgrades_a_lock_that_is_written_as_well() {
    for_each_policy(|lock| {
        lock.upgradable_read();
        lock.word.set(Flags::WRITER_LOCKED, Relaxed);
        // SAFETY: held upgradably.
        assert!(!unsafe { lock.try_upgrade() });
        lock.word.clear(Flags::WRITER_LOCKED, Relaxed);
        // SAFETY: as above.
        unsafe { lock.unlock_upgradable() };
    });
}

/// A thread that waits for the upgradable place gets it although readers stay inside.
#[test]
fn an_upgradable_place_is_handed_on_beside_readers() {
    for_each_policy(|lock| {
        assert!(lock.try_read());
        for downgrades in [false, true] {
            lock.upgradable_read();
            scope(|s| {
                let next = s.spawn(|| {
                    lock.upgradable_read();
                    // SAFETY: just taken.
                    unsafe { lock.unlock_upgradable() };
                });
                until(|| lock.has_waiters());
                // SAFETY: held upgradably, and then for reading.
                unsafe {
                    match downgrades {
                        false => lock.unlock_upgradable(),
                        true => lock.downgrade_upgradable(),
                    }
                }
                join(next);
                if downgrades {
                    // SAFETY: as above.
                    unsafe { lock.unlock_read() };
                }
            });
        }
        // SAFETY: taken above.
        unsafe { lock.unlock_read() };
    });
}

/// They need not wait until it leaves.
#[test]
fn readers_behind_an_upgradable_one_in_the_queue_join_it() {
    for_each_policy(|lock| {
        lock.write();
        scope(|s| {
            let upgradable = s.spawn(|| lock.upgradable_read());
            until(|| waiters(lock) == 1);
            let reader = visit_asleep(&s, lock, Kind::Reader);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            join(upgradable);
            join(reader);
        });
        // SAFETY: taken by that thread.
        unsafe { lock.unlock_upgradable() };
    });
}

/// Readers, writers and upgraders keep coming: each has its turn, and sees what it should.
#[test]
fn nobody_starves_and_nothing_is_lost_between_read_and_upgrade() {
    for_each_policy(|lock| {
        let value = &AtomicUsize::new(0);
        let times = rounds(300) as usize;
        scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..times {
                        lock.upgradable_read();
                        let seen = value.load(Relaxed);
                        // SAFETY: upgradable, and then written.
                        unsafe { lock.upgrade() };
                        assert_eq!(value.load(Relaxed), seen);
                        value.store(seen + 1, Relaxed);
                        // SAFETY: as above.
                        unsafe { lock.unlock_write() };
                    }
                });
                s.spawn(|| {
                    for _ in 0..times {
                        lock.write();
                        value.store(value.load(Relaxed) + 1, Relaxed);
                        // SAFETY: just taken.
                        unsafe { lock.unlock_write() };
                    }
                });
                s.spawn(|| {
                    for _ in 0..times {
                        lock.read();
                        let seen = value.load(Relaxed);
                        std::thread::yield_now();
                        assert_eq!(value.load(Relaxed), seen);
                        // SAFETY: just taken.
                        unsafe { lock.unlock_read() };
                    }
                });
            }
        });
        assert_eq!(value.load(Relaxed), 4 * times);
    });
}

/// The state of a thin lock while it is inflated: the upgradable reader is adopted, the slot
/// sealed.
#[test]
fn an_upgrade_leaves_a_sealed_slot_to_who_unseals_it() {
    let lock = Lock::new(Policy::DEFAULT);
    assert!(lock.word.seal_free());
    // SAFETY: nobody holds a sealed lock.
    unsafe { lock.adopt_readers(1) };
    lock.word.adopt_upgradable();
    // SAFETY: held upgradably, and sealed for nobody in particular.
    unsafe {
        assert!(!lock.try_upgrade());
        lock.word.unseal();
        assert!(lock.try_upgrade());
        assert!(!lock.try_read() && lock.is_write_locked());
        lock.unlock_write();
    }
    assert_free(&lock);
}

/// The last reader leaves while the handler runs.
#[test]
#[cfg(all(target_os = "linux", not(miri)))] // elsewhere nobody tells of signals
fn an_interrupted_upgrade_that_finds_the_readers_gone_succeeds() {
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::SeqCst};

    static HANDLING: AtomicBool = AtomicBool::new(false);
    static LEFT: AtomicBool = AtomicBool::new(false);
    extern "C" fn handler(_signal: libc::c_int) {
        HANDLING.store(true, SeqCst);
        while !LEFT.load(SeqCst) {
            core::hint::spin_loop();
        }
    }
    let signal = libc::SIGRTMIN() + 1;
    // SAFETY: a zeroed `sigaction` is a valid one; the handler uses atomics only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
    for_each_policy(|lock| {
        let tid = AtomicI32::new(0);
        HANDLING.store(false, SeqCst);
        LEFT.store(false, SeqCst);
        assert!(lock.try_read());
        scope(|s| {
            let upgrader = s.spawn(|| {
                lock.upgradable_read();
                // SAFETY: no arguments.
                tid.store(unsafe { libc::gettid() }, SeqCst);
                // SAFETY: upgradable, and then written.
                unsafe {
                    lock.upgrade_with(Wait::FOREVER.interruptible()).unwrap();
                    lock.unlock_write();
                }
            });
            until(|| lock.word.load(Relaxed).is_written());
            let tid = tid.load(SeqCst);
            until(|| {
                let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
                stat.rsplit(") ").next().unwrap().starts_with('S')
            });
            // SAFETY: the thread sleeps.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) };
            until(|| HANDLING.load(SeqCst));
            // SAFETY: taken above.
            unsafe { lock.unlock_read() };
            LEFT.store(true, SeqCst);
            join(upgrader);
        });
        assert_free(lock);
    });
}

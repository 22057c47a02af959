//! Readers that no lock counts: each is in the record of its thread.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use fairlock::events::{Event, EventCounts, global, set_counting};
use fairlock::platform::{Native, System};
use fairlock::{RawRwLock, RwLock, RwLockExt, RwLockUpgradableReadGuard, RwLockWriteGuard};
use fairlock_testing::{rounds, scope, until};

fn raw<T>(lock: &RwLock<T>) -> &RawRwLock {
    // SAFETY: it is only looked at, and taken and given up in pairs.
    unsafe { lock.raw() }
}

/// Whether the readers of the lock are visible from here on: only where the system has the barrier.
fn show<T>(lock: &RwLock<T>) -> bool {
    raw(lock).show_readers();
    assert_eq!(raw(lock).shows_readers(), Native::has_process_barrier());
    raw(lock).shows_readers()
}

#[test]
fn a_visible_reader_keeps_a_writer_out_until_it_leaves() {
    let lock = RwLock::new(1);
    show(&lock);
    let reader = lock.read();
    assert!(lock.is_locked() && !lock.is_locked_exclusive());
    assert!(lock.try_write().is_none() && !raw(&lock).shows_readers());
    assert!(lock.is_locked());
    drop(reader);
    assert!(!lock.is_locked());
    *lock.write() += 1;
    assert_eq!(*lock.read(), 2);
}

#[test]
fn readers_that_are_shown_and_revoked_are_counted() {
    let counts = || [Event::ReadersShown, Event::ReadersRevoked].map(|event| global().get(event));
    let lock = RwLock::new(0);
    set_counting(true);
    let before = counts();
    if show(&lock) {
        assert!(counts()[0] > before[0]);
        *lock.write() = 1;
        assert!(!raw(&lock).shows_readers() && counts()[1] > before[1]);
    }
}

#[test]
fn a_writer_sleeps_until_the_last_visible_reader_has_left() {
    let lock = RwLock::new(0);
    show(&lock);
    let (first, second) = (lock.read(), lock.read());
    scope(|s| {
        s.spawn(|| *lock.write() = 1);
        until(|| lock.has_waiters());
        assert_eq!(*first, 0);
        drop(first);
        assert!(lock.has_waiters() && *second == 0);
        drop(second);
    });
    assert_eq!(*lock.read(), 1);
}

#[test]
fn a_lock_that_is_only_read_becomes_visible_and_stays_so() {
    let lock = RwLock::new(0);
    let (reads, stop) = (AtomicUsize::new(0), AtomicBool::new(!Native::has_process_barrier()));
    scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(*lock.read(), 0);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until(|| stop.load(Ordering::Relaxed) || raw(&lock).shows_readers());
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(raw(&lock).shows_readers(), Native::has_process_barrier());
}

/// The lock, which is held, gets a slot, as for a writer that waits.
fn bring_slot<T>(lock: &RwLock<T>) {
    until(|| {
        assert!(lock.try_write_for(Duration::from_millis(1)).is_none());
        raw(lock).has_slot()
    });
}

#[test]
fn a_lock_that_some_reader_always_holds_becomes_visible() {
    let lock = RwLock::new(0);
    let reader = lock.read();
    for _ in 0..3 {
        bring_slot(&lock);
        until(|| {
            assert_eq!(*lock.read(), 0);
            raw(&lock).shows_readers() || !Native::has_process_barrier()
        });
    }
    drop(reader);
    *lock.write() += 1;
    assert!(raw(&lock).trim());
}

#[test]
fn readers_of_a_lock_that_had_a_slot_leave_by_the_count_and_by_their_records() {
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0]] {
        let lock = RwLock::new(0);
        let mut readers = vec![Some(lock.read())];
        bring_slot(&lock);
        if !show(&lock) {
            return;
        }
        // The first of these is in the record of the thread.
        readers.extend([Some(lock.read()), Some(lock.read())]);
        for which in order {
            assert!(lock.is_locked() && !lock.is_locked_exclusive());
            readers[which] = None;
        }
        assert!(!lock.is_locked() && raw(&lock).shows_readers());
        assert!(lock.try_write().is_some() && !raw(&lock).shows_readers());
        assert!(raw(&lock).show_readers() && raw(&lock).trim() && !raw(&lock).has_slot());
    }
}

#[test]
fn a_reader_of_a_lock_that_had_a_slot_that_another_thread_gives_up_has_left() {
    let lock = RwLock::new(0);
    let reader = lock.read();
    bring_slot(&lock);
    if !show(&lock) {
        return;
    }
    scope(|s| {
        s.spawn(|| raw(&lock).read());
    });
    drop(reader);
    assert!(lock.is_locked() && raw(&lock).shows_readers());
    // SAFETY: taken by the thread, which did not give it up.
    unsafe { raw(&lock).unlock_read() };
    assert!(!lock.is_locked() && raw(&lock).shows_readers());
    assert!(lock.try_write().is_some());
}

#[test]
fn an_upgradable_reader_writes_where_the_lock_is_visible() {
    let lock = RwLock::new(0);
    for upgrades in [true, false] {
        show(&lock);
        let upgradable = lock.upgradable_read();
        assert!(!raw(&lock).shows_readers() && !raw(&lock).show_readers());
        if upgrades {
            *RwLockUpgradableReadGuard::upgrade(upgradable) += 1;
            continue;
        }
        let reader = RwLockUpgradableReadGuard::downgrade(upgradable);
        show(&lock);
        assert!(lock.try_upgradable_read().is_some() && *reader == 1);
    }
    assert!(lock.try_write().is_some());
}

#[test]
fn a_lock_that_counts_events_is_not_visible() {
    static COUNTS: EventCounts = EventCounts::new();
    let lock = RwLock::new(0);
    let reader = lock.read();
    bring_slot(&lock);
    show(&lock);
    raw(&lock).set_events(Some(&COUNTS));
    assert!(!raw(&lock).shows_readers() && !raw(&lock).show_readers());
    drop(reader);
    assert!(lock.try_write().is_some());
}

/// A lock that is dropped while it is visible: nobody has the slot twice that it had.
#[test]
fn a_lock_that_is_visible_is_dropped() {
    for is_forgotten in [false, true] {
        for _ in 0..rounds(100) {
            let lock = RwLock::new(0);
            let reader = lock.read();
            bring_slot(&lock);
            show(&lock);
            scope(|s| {
                s.spawn(|| {
                    let reader = lock.read();
                    if is_forgotten {
                        mem::forget(reader);
                    }
                });
            });
            drop(reader);
            assert_eq!(lock.is_locked(), is_forgotten);
        }
    }
}

#[test]
fn a_lock_with_one_write_in_ten_never_becomes_visible() {
    let lock = RwLock::new(0_u64);
    for _ in 0..rounds(400_000) {
        (0..9).for_each(|_| assert_eq!(*lock.read() % 2, 0));
        *lock.write() += 2;
        assert!(!raw(&lock).shows_readers());
    }
}

/// Each thread reads, and gives up readers that others have sent; some write. A writer is alone.
#[test]
fn readers_that_other_threads_give_up_count_as_any() {
    const THREADS: usize = 4;
    let lock = RwLock::new((0_usize, 0_usize));
    let writes = AtomicUsize::new(0);
    let turns = rounds(3_000);
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| mpsc::channel::<()>()).unzip();
    scope(|s| {
        for (number, sent) in receivers.into_iter().enumerate() {
            let (lock, writes, senders) = (&lock, &writes, senders.clone());
            s.spawn(move || {
                for turn in 0..turns {
                    lock.read_with_pair();
                    match (turn + number) % 7 {
                        0 => {
                            raw(lock).read();
                            _ = senders[(number + 1) % THREADS].send(());
                        }
                        1 => _ = raw(lock).show_readers(),
                        2 => lock.write_pair(writes),
                        _ => {}
                    }
                    for () in sent.try_iter() {
                        // SAFETY: taken by the sender, which does not give it up.
                        unsafe { raw(lock).unlock_read() };
                    }
                }
                drop(senders);
                for () in sent {
                    // SAFETY: as above.
                    unsafe { raw(lock).unlock_read() };
                }
            });
        }
        drop(senders);
    });
    assert!(!lock.is_locked());
    assert_eq!(lock.read().0, writes.load(Ordering::Relaxed));
}

trait Pair {
    fn read_with_pair(&self);
    fn write_pair(&self, writes: &AtomicUsize);
}

impl Pair for RwLock<(usize, usize)> {
    fn read_with_pair(&self) {
        let guard = self.read_recursive();
        assert_eq!(guard.0, guard.1);
        let again = self.read_recursive();
        assert_eq!(again.0, guard.1);
    }

    fn write_pair(&self, writes: &AtomicUsize) {
        // A reader that was sent may be inside for as long as this thread.
        if let Some(mut guard) = self.try_write() {
            guard.0 += 1;
            thread::yield_now();
            guard.1 += 1;
            writes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Every way in, at more locks than a thread has slots.
#[test]
fn writers_are_alone_whichever_way_they_and_the_readers_come() {
    const LOCKS: usize = 40;
    let locks: Vec<_> = (0..LOCKS).map(|_| RwLock::new((0_usize, 0_usize))).collect();
    let writes = AtomicUsize::new(0);
    let turns = rounds(20_000);
    scope(|s| {
        for thread in 0..4_usize {
            let (locks, writes) = (&locks, &writes);
            s.spawn(move || {
                let mut random = thread * 7919 + 1;
                for _ in 0..turns {
                    random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7fff_ffff;
                    // One of them is read by all.
                    let lock = &locks[if random % 2 == 0 { 0 } else { (random >> 12) % LOCKS }];
                    let wrote = |guard: &mut (usize, usize)| {
                        guard.0 += 1;
                        thread::yield_now();
                        guard.1 += 1;
                        writes.fetch_add(1, Ordering::Relaxed);
                    };
                    match (random >> 20) % 64 {
                        0 => wrote(&mut lock.write()),
                        1 => _ = lock.try_write().as_deref_mut().map(wrote),
                        2 => {
                            let mut guard = lock.write();
                            wrote(&mut guard);
                            let guard = RwLockWriteGuard::downgrade(guard);
                            assert_eq!(guard.0, guard.1);
                        }
                        3 => {
                            let guard = lock.upgradable_read();
                            wrote(&mut RwLockUpgradableReadGuard::upgrade(guard));
                        }
                        4..8 => _ = raw(lock).show_readers(),
                        8 => _ = lock.try_read().map(|guard| assert_eq!(guard.0, guard.1)),
                        _ => {
                            let guard = lock.read();
                            // Another lock, in this order only, so that nobody waits in a circle.
                            let next = locks.last().filter(|last| !std::ptr::eq(*last, lock));
                            let other = next.and_then(|last| last.try_read());
                            assert_eq!(guard.0, guard.1);
                            assert!(other.is_none_or(|other| other.0 == other.1));
                        }
                    }
                }
            });
        }
    });
    let written: usize = locks.iter().map(|lock| lock.read().0).sum();
    assert_eq!(written, writes.load(Ordering::Relaxed));
    assert!(locks.iter().all(|lock| !lock.is_locked()));
}

#[test]
fn a_forgotten_reader_keeps_writers_out_and_only_of_its_lock() {
    let lock = RwLock::new(());
    show(&lock);
    mem::forget(lock.read());
    assert!(lock.is_locked() && lock.try_write().is_none() && lock.try_read().is_some());
    // The lock is moved: it is still held.
    let moved = Box::new(lock);
    assert!(moved.is_locked() && moved.try_write().is_none());
    // SAFETY: forgotten.
    unsafe { moved.force_unlock_read() };
    assert!(!moved.is_locked() && moved.try_write().is_some());
    for _ in 0..100 {
        let lock = RwLock::new(());
        show(&lock);
        mem::forget(lock.read());
        drop(lock);
        let other = RwLock::new(());
        show(&other);
        drop(other.read());
        assert!(other.try_write().is_some());
    }
}

#[test]
fn a_lock_that_is_moved_while_a_forgotten_reader_is_visible_stays_held() {
    let lock = RwLock::new(());
    show(&lock);
    mem::forget(lock.read());
    let moved = Box::new(lock);
    assert!(moved.is_locked() && moved.try_write().is_none() && moved.is_locked());
    // SAFETY: forgotten.
    unsafe { moved.force_unlock_read() };
    assert!(moved.try_write().is_some());
}

#[test]
fn a_thread_that_ends_as_a_reader_is_one_still() {
    let lock = RwLock::new(0);
    show(&lock);
    scope(|s| {
        s.spawn(|| mem::forget(lock.read()));
    });
    // Its record is another thread's now.
    scope(|s| {
        s.spawn(|| drop(lock.read()));
    });
    assert!(lock.is_locked() && lock.try_write().is_none());
    // SAFETY: forgotten.
    unsafe { lock.force_unlock_read() };
    assert!(lock.try_write().is_some());
}

/// The last reader frees what the lock is in, as a writer that came after the others may.
#[test]
fn a_reader_that_leaves_touches_nothing_of_the_lock() {
    for _ in 0..rounds(300) {
        let lock: &'static RwLock<u32> = Box::leak(Box::new(RwLock::new(1)));
        show(lock);
        let begin = Barrier::new(2);
        scope(|s| {
            s.spawn(|| {
                let guard = lock.read();
                begin.wait();
                drop(guard);
            });
            begin.wait();
            drop(lock.write());
            // SAFETY: from a box; the reader was there before the writer.
            drop(unsafe { Box::from_raw(std::ptr::from_ref(lock).cast_mut()) });
        });
    }
}

/// Refuses `membarrier` to the calling thread from here on.
#[cfg(all(target_os = "linux", not(miri)))]
fn refuse_membarrier() {
    let statement =
        |code: u32, jump: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: jump, k };
    let mut filter = [
        // The number of the call comes first.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_membarrier as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program is there during the call.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    };
    assert!(refused);
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn no_lock_becomes_visible_once_the_barrier_is_refused() {
    fairlock_testing::alone(|| {
        show(&RwLock::new(0));
        fairlock_testing::in_child(|| {
            let lock = RwLock::new(0);
            show(&lock);
            drop(lock.write());
            refuse_membarrier();
            assert!(!raw(&lock).show_readers() && !raw(&lock).shows_readers());
            assert!(!Native::has_process_barrier());
            drop(lock.read());
            *lock.write() += 1;
        });
    });
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_child_goes_on_with_the_readers_of_the_thread_that_forked() {
    fairlock_testing::alone(|| {
        let (lock, free) = (RwLock::new(0), RwLock::new(0));
        show(&lock);
        show(&free);
        drop(free.read());
        let guard = lock.read();
        fairlock_testing::in_child(|| {
            assert!(lock.try_write().is_none() && free.try_write().is_some());
            thread::spawn(|| ()).join().unwrap();
            // SAFETY: the guard of the thread that forked is not used in the child.
            unsafe { lock.force_unlock_read() };
            assert!(lock.try_write().is_some());
            show(&free);
            let reader = free.read();
            assert!(free.try_write().is_none());
            drop(reader);
        });
        drop(guard);
        assert!(lock.try_write().is_some());
    });
}

/// A handler interrupts a reader of the lock anywhere, and reads it, too. Whatever comes out if it never meets the
/// reader in the midst of a call: then this shows less. `lock/interrupted_test.rs` has each of the steps.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn a_signal_handler_that_reads_the_lock_of_its_thread_leaves_no_reader_behind() {
    static LOCK: RwLock<[u64; 2]> = RwLock::new([0; 2]);

    extern "C" fn handler(_: i32) {
        if let Some(now) = LOCK.try_read() {
            assert_eq!(now[0], now[1]);
        }
    }

    if !show(&LOCK) {
        return;
    }
    let (ends, (send, reader)) = (&AtomicBool::new(false), mpsc::channel());
    scope(|s| {
        s.spawn(|| {
            let handler: extern "C" fn(i32) = handler;
            // SAFETY: the handler reads a lock of which its thread has a record, and does not wait for it.
            unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
            drop(LOCK.read());
            // SAFETY: the calling thread's own.
            send.send(unsafe { libc::pthread_self() }).unwrap();
            while !ends.load(Ordering::Acquire) {
                let now = LOCK.read();
                assert_eq!(now[0], now[1]);
            }
        });
        let reader = reader.recv().unwrap();
        for _ in 0..rounds(100_000) {
            raw(&LOCK).show_readers();
            // SAFETY: that thread ends only once it is told to.
            unsafe { libc::pthread_kill(reader, libc::SIGUSR1) };
            // Without a wait: the handler would queue for the lock of a queue that its thread may have.
            until(|| LOCK.try_write().map(|mut now| *now = now.map(|n| n + 1)).is_some());
        }
        ends.store(true, Ordering::Release);
    });
    assert!(!LOCK.is_locked() && LOCK.try_write().is_some());
}

#[test]
fn a_lock_that_is_read_within_a_time_becomes_visible() {
    let lock = RwLock::new(0);
    let stop = AtomicBool::new(!Native::has_process_barrier());
    scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert!(lock.try_read_for(Duration::from_secs(60)).is_some());
                }
            });
        }
        until(|| stop.load(Ordering::Relaxed) || raw(&lock).shows_readers());
        stop.store(true, Ordering::Relaxed);
    });
}

/// An attempt without time, of a thread whose earlier one has failed, is an attempt.
#[test]
fn an_attempt_without_time_enters_a_visible_lock() {
    let lock = &RwLock::new(0);
    scope(|s| {
        let held = lock.write();
        let (failed, has_failed) = std::sync::mpsc::channel();
        let (shown, is_shown) = std::sync::mpsc::channel();
        let attempts = s.spawn(move || {
            assert!(lock.try_read_for(Duration::from_millis(1)).is_none());
            assert!(lock.try_write_for(Duration::from_millis(1)).is_none());
            failed.send(()).unwrap();
            is_shown.recv().unwrap();
            let read = lock.try_read_for(Duration::ZERO).is_some();
            (read, lock.try_write_for(Duration::ZERO).is_some())
        });
        has_failed.recv().unwrap();
        drop(held);
        assert_eq!(raw(lock).show_readers(), Native::has_process_barrier());
        shown.send(()).unwrap();
        assert_eq!(attempts.join().unwrap(), (true, true));
    });
}

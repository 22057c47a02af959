//! Visible locks in bytes that a program copies and forgets, on the platform of `stray_test`. Each test is alone: one takes the
//! numbers of others away.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, Ordering};

use super::owners::VisibleOwners;
use super::stray_test::{PROCESS, Stray};
use super::word::{HELD, Word};
use super::words::{Names, One};
use super::{PooledPlatform, RawRwLock, VisibleReaders};
use crate::platform::System;

/// Bytes that are a lock, and are never dropped.
struct Bytes(MaybeUninit<RawRwLock<Stray>>);

impl Bytes {
    fn free() -> Self {
        Self(MaybeUninit::new(RawRwLock::new_const()))
    }

    /// None where no lock becomes visible.
    fn visible() -> Option<Box<Self>> {
        let bytes = Box::new(Self::free());
        let shows = bytes.lock().show_readers();
        assert_eq!(shows, Stray::has_process_barrier());
        shows.then_some(bytes)
    }

    fn lock(&self) -> &RawRwLock<Stray> {
        // SAFETY: any bytes are.
        unsafe { self.0.assume_init_ref() }
    }

    fn words(&self) -> &One<Stray> {
        self.lock().words()
    }

    /// As a program copies them.
    fn copied(&self) -> Self {
        let copy = Self::free();
        copy.words().put(self.words().load());
        copy
    }
}

fn elsewhere<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|s| s.spawn(f).join().unwrap())
}

/// Whether a thread could write it, and then has.
fn is_free(bytes: &Bytes) -> bool {
    elsewhere(|| {
        let taken = bytes.lock().try_write();
        if taken {
            // SAFETY: just taken.
            unsafe { bytes.lock().unlock_write() };
        }
        taken
    })
}

fn unlock_read(bytes: &Bytes) {
    // SAFETY: the tests' threads read it.
    unsafe { bytes.lock().unlock_read() };
}

fn readers() -> &'static VisibleReaders<Stray> {
    Stray::visible_readers().unwrap()
}

fn owners() -> &'static VisibleOwners<Stray> {
    Stray::visible_owners().unwrap()
}

/// Takes the number of the visible lock away, unless it is read. Whether it has.
fn take_number_of(bytes: &Bytes) -> bool {
    let word = bytes.words().load();
    let mut taken = false;
    Stray::forgetting(|| {
        let is_owned = word.is_visible() && bytes.words().owns(word);
        let is_shown = |number| readers().shows(number);
        taken = is_owned && owners().sweep(word.number(), Stray::process(), is_shown);
    });
    taken
}

#[test]
fn a_copy_of_a_visible_lock_leaves_its_readers_alone() {
    fairlock_testing::alone(|| {
        let Some(lock) = Bytes::visible() else { return };
        lock.lock().read();
        assert_eq!(lock.words().load().counted_beside(), 0, "the reader is not counted");
        let copy = lock.copied();
        assert!(!copy.lock().is_locked() && is_free(&copy) && !copy.lock().shows_readers());
        assert!(!is_free(&lock), "its reader is inside");
        unlock_read(&lock);
        assert!(is_free(&lock));
        // A thread that gives up a read of the copy, which nobody reads, does not give up one of the lock.
        let lock = Bytes::visible().unwrap();
        lock.lock().read();
        // Some of the copies have the place of the lock in the thread's record.
        let copies = [(); 64].map(|()| Box::new(lock.copied()));
        for copy in &copies {
            // SAFETY: nobody relies on a copy.
            assert!(!unsafe { copy.lock().unlock_shown() || copy.lock().try_unlock_read() });
        }
        assert!(!is_free(&lock));
        unlock_read(&lock);
        assert!(is_free(&lock));
    });
}

#[test]
fn a_reader_that_is_counted_is_in_the_copy_too() {
    fairlock_testing::alone(|| {
        let Some(lock) = Bytes::visible() else { return };
        (0..2).for_each(|_| lock.lock().read());
        assert_eq!(lock.words().load().counted_beside(), 1, "a thread shows it once");
        let copy = lock.copied();
        assert!(copy.lock().is_locked() && !is_free(&copy));
        unlock_read(&copy);
        assert!(is_free(&copy));
        (0..2).for_each(|_| unlock_read(&lock));
        assert!(is_free(&lock));
    });
}

/// Whatever their number is.
#[test]
fn visible_bytes_that_nobody_reads_are_a_free_lock() {
    fairlock_testing::alone(|| {
        let mut random: u64 = 1;
        for round in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = if round % 2 == 0 { random >> 29 } else { random >> 60 };
            let bytes = Bytes::free();
            // Some were given up by threads that did not show them.
            let units = Word::of(((HELD - round % 3) as u64) << 8);
            bytes.words().put(units.with_number(number));
            assert!(!bytes.lock().is_locked(), "{number:#x}");
            assert!(bytes.lock().try_read() && !bytes.lock().try_write());
            unlock_read(&bytes);
            bytes.lock().write();
            // SAFETY: just taken.
            unsafe { bytes.lock().unlock_write() };
        }
    });
}

#[test]
fn the_numbers_of_locks_that_are_gone_go_to_others() {
    fairlock_testing::alone(|| {
        for _ in 0..100_000 {
            if Bytes::visible().is_none() {
                return;
            }
        }
    });
}

#[test]
fn a_lock_that_is_read_keeps_its_number() {
    fairlock_testing::alone(|| {
        let Some(lock) = Bytes::visible() else { return };
        lock.lock().read();
        assert!(!take_number_of(&lock));
        assert!(lock.words().owns(lock.words().load()) && !is_free(&lock));
        unlock_read(&lock);
        // And one that is not loses only that it is visible.
        let lock = Bytes::visible().unwrap();
        (0..3).for_each(|_| lock.lock().read());
        unlock_read(&lock);
        assert_eq!(lock.words().load().counted_beside(), 2);
        assert!(take_number_of(&lock) && lock.lock().is_locked());
        // SAFETY: a reader that is counted.
        unsafe { lock.lock().try_unlock_read() };
        assert!(!is_free(&lock));
        unlock_read(&lock);
        assert!(is_free(&lock) && lock.lock().show_readers());
    });
}

/// The record of a thread has a place for each lock, which a lock that is gone must not keep.
#[test]
fn a_reader_of_a_lock_that_is_gone_is_forgotten() {
    fairlock_testing::alone(|| {
        let Some(lock) = Bytes::visible() else { return };
        for is_destroyed in [true, false, true] {
            assert!(lock.lock().show_readers());
            lock.lock().read();
            assert_eq!(lock.words().load().counted_beside(), 0);
            if is_destroyed {
                // SAFETY: the reader does not rely on it.
                unsafe { lock.lock().forget() };
            } else {
                lock.words().put(Word::FREE); // as where memory is used again
            }
            assert!(is_free(&lock));
        }
    });
}

/// Threads read and write three locks, become visible, and lose their numbers.
#[test]
fn readers_and_writers_exclude_each_other_whatever_numbers_do() {
    fairlock_testing::alone(|| {
        if !Stray::has_process_barrier() {
            return;
        }
        let locks = [(); 3].map(|()| (Bytes::free(), [const { AtomicU64::new(0) }; 2]));
        fairlock_testing::scope(|s| {
            for thread in 0..4_usize {
                let locks = &locks;
                s.spawn(move || {
                    for round in 0..20_000_usize {
                        let (bytes, [first, second]) = &locks[round % locks.len()];
                        let lock = bytes.lock();
                        if (round / 3 + 16 * thread) % 64 == 0 {
                            lock.write();
                            let seen = first.fetch_add(1, Ordering::Relaxed);
                            std::thread::yield_now();
                            assert_eq!(second.swap(seen + 1, Ordering::Relaxed), seen);
                            // SAFETY: just taken.
                            unsafe { lock.unlock_write() };
                        } else {
                            lock.read();
                            let seen = first.load(Ordering::Relaxed);
                            if round % 16 == 0 {
                                std::thread::yield_now();
                            }
                            assert_eq!(second.load(Ordering::Relaxed), seen);
                            unlock_read(bytes);
                        }
                        if round % 24 < 3 {
                            lock.show_readers();
                        } else if thread == 0 && round % 8 < 3 {
                            take_number_of(bytes);
                        } else if thread == 1 && round % 32 == 0 {
                            let copy = bytes.copied();
                            if copy.words().load().counted_beside() == 0 {
                                assert!(copy.lock().try_write() || !copy.lock().shows_readers());
                            }
                        }
                    }
                });
            }
        });
        assert!(locks.iter().all(|(bytes, _)| is_free(bytes)));
    });
}

/// Seems to fork: the threads of the parent are not there, and what they were about is.
fn fork() {
    PROCESS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the locks of these tests exist, and nobody uses them.
    unsafe { readers().finish_for_parent() };
}

#[test]
fn the_child_of_a_fork_finishes_what_a_thread_was_revoking() {
    fairlock_testing::alone(|| {
        for steps in 0..3 {
            let Some(lock) = Bytes::visible() else { return };
            lock.lock().read();
            let word = lock.words().load();
            // How far another thread had come.
            let address = core::ptr::from_ref(lock.words()).addr();
            owners().begin_revoking(word.number(), address, Stray::process());
            if steps > 0 {
                lock.words().put(word.revoked());
            }
            if steps > 1 {
                readers().records().for_each(|shown| _ = shown.mark_all(word.shown()));
            }
            fork();
            assert!(!is_free(&lock) && lock.lock().is_locked());
            unlock_read(&lock);
            assert!(is_free(&lock), "after {steps} steps");
            // A second child does nothing again.
            lock.lock().read();
            fork();
            assert_eq!(lock.words().load().readers(), 1);
            unlock_read(&lock);
        }
    });
}

#[test]
fn the_child_of_a_fork_gives_back_a_number_that_a_thread_was_looking_for() {
    fairlock_testing::alone(|| {
        let Some(lock) = Bytes::visible() else { return };
        lock.lock().read();
        owners().begin_sweeping(lock.words().load().number(), Stray::process()).unwrap();
        assert!(!lock.words().owns(lock.words().load()));
        fork();
        assert!(lock.words().owns(lock.words().load()) && !is_free(&lock));
        unlock_read(&lock);
        assert!(is_free(&lock));
    });
}

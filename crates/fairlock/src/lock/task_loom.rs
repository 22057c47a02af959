//! Tasks at the locks, in every interleaving of two or three threads, each of which polls a task: offers that are taken, that
//! are dropped, that nobody takes. No model has a timer: an offer is ended by a thread or task that comes, and behind the holder of
//! a mutex that does not know that somebody waits a task is polled again and again (see [`task`](super::task)).

use core::pin::pin;
use core::task::Waker;
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU32;

use super::alarms::Alarm;
use super::{Percent, Policy, PooledPlatform, RawMutex, RawRwLock};
use crate::fault::Fault;
#[cfg(fairlock_faults)]
use crate::models::controls;
use crate::models::tasks::Task;
use crate::models::{self, Scene, enough, models};
use crate::platform::loom::Loom;
use crate::system::System;
use crate::wait::{CancelToken, MISSED_NS, Wait};

// ---- wakers ----

/// A waker that takes the lock at this address, and is called while that exists.
struct Takes(usize, Waker);

impl Wake for Takes {
    fn wake(self: Arc<Self>) {
        // SAFETY: the visit has not ended whose waker it is.
        let lock = unsafe { &*(self.0 as *const RawRwLock<Loom>) };
        self.1.wake_by_ref();
        lock.write();
        // SAFETY: just taken.
        unsafe { lock.unlock_write() };
    }
}

/// A waker that wakes nobody.
struct Ignores;

impl Wake for Ignores {
    fn wake(self: Arc<Self>) {}
}

// ---- the scene ----

/// Tenures of the reader/writer lock are over after a look or two at the clock; those of the mutex are not.
const SHORT: Policy =
    Policy { aim: Duration::from_nanos(1), budget: Percent::new(100).unwrap(), ..Policy::DEFAULT };

struct Both {
    mutex: RawMutex<Loom>,
    lock: RawRwLock<Loom>,
    token: CancelToken<Loom>,
    values: [UnsafeCell<u32>; 2],
}

// SAFETY: the values are touched under the locks only (loom checks that).
unsafe impl Sync for Both {}
// SAFETY: as above.
unsafe impl Send for Both {}

/// What a thread does once, at one of the locks.
#[derive(Clone, Copy)]
enum Visit {
    /// A task.
    Lock,
    /// A task that gives up when it was queued.
    DropQueued,
    /// A task that gives up when it was woken.
    DropOffered,
    /// Two futures of one task; the first one is polled once.
    Twice,
    /// Two futures of a task that is not told of the first one, which is polled once.
    Forget,
    /// A task that gives up when it was woken, while another one waits behind it.
    PassOn,
    /// A task whose token is cancelled, while another one waits behind it.
    EndQueued,
    /// A task that waits under a token, and for nothing else.
    AwaitCancel,
    /// Cancels that token, and does what the timer does then.
    Cancel,
    /// A future that is polled by another task from the second time on.
    Move,
    /// A task whose waker takes the lock.
    TakeAsWoken,
    /// A future that is polled once, and again when so much time has passed that it is late.
    Late,
    /// A thread.
    LockThread,
    LockFair,
    TryLock,
    /// Knows the lock, as a thread that finds it taken does.
    Know,
    Read,
    Write,
    WriteThread,
    WriteFair,
    ReadThread,
    DropWrite,
    DropRead,
    UpgradableRead,
}
use Visit::*;

impl Both {
    fn change(&self, value: usize) -> u32 {
        // SAFETY: the lock is held (loom checks that).
        self.values[value].with_mut(|value| unsafe { *value += 1 });
        1
    }

    /// Changes the mutex's value if it was taken, and releases it; returns how often it did.
    fn section(&self, taken: bool) -> u32 {
        if !taken {
            return 0;
        }
        self.change(0);
        // SAFETY: just taken.
        unsafe { self.mutex.unlock() };
        1
    }

    fn written(&self, taken: bool) -> u32 {
        if !taken {
            return 0;
        }
        self.change(1);
        // SAFETY: just taken.
        unsafe { self.lock.unlock_write() };
        1
    }

    fn read(&self, taken: bool) -> u32 {
        if taken {
            // SAFETY: the lock is held (loom checks that).
            self.values[1].with(|value| assert!(unsafe { *value } < 10));
            // SAFETY: just taken.
            unsafe { self.lock.unlock_read() };
        }
        0
    }
}

impl Scene for Both {
    type Visit = Visit;

    fn visit(&self, visit: Visit) -> u32 {
        let (mutex, lock) = (&self.mutex, &self.lock);
        let task = Task::new();
        match visit {
            Lock => {
                task.block_on(mutex.lock_async());
                self.section(true)
            }
            DropQueued => self.section(task.poll_and_drop(mutex.lock_async(), 1)),
            DropOffered => self.section(task.poll_and_drop(mutex.lock_async(), 2)),
            Twice => {
                let mut first = pin!(mutex.lock_async());
                if task.poll(first.as_mut()).is_some() {
                    return self.section(true);
                }
                task.block_on(mutex.lock_async());
                self.section(true)
            }
            Forget => {
                let mut first = pin!(mutex.lock_async());
                let other = Task(task.0.clone(), Arc::new(Ignores).into());
                if other.poll(first.as_mut()).is_some() {
                    return self.section(true);
                }
                // Nobody would wake this task once it waits: nothing here is a timer.
                while mutex.is_locked() {
                    loom::thread::yield_now();
                }
                Loom::wait(&AtomicU32::new(0), 0, Some(Loom::now() + 2 * MISSED_NS), false);
                task.block_on(mutex.lock_async());
                self.section(true)
            }
            PassOn => {
                let (mut first, other) = (Box::pin(mutex.lock_async()), Task::new());
                if other.poll(first.as_mut()).is_some() {
                    return self.section(true);
                }
                let mut second = pin!(mutex.lock_async());
                let taken = task.poll(second.as_mut()).is_some();
                if !taken {
                    other.until_called();
                    drop(first);
                    task.block_on(second);
                }
                self.section(true)
            }
            EndQueued => {
                let (token, other) = (CancelToken::new(), Task::new());
                let mut first = pin!(mutex.lock_async_with(Wait::FOREVER.cancellable(&token)));
                if other.poll(first.as_mut()).is_some() {
                    return self.section(true);
                }
                let mut second = pin!(mutex.lock_async());
                if task.poll(second.as_mut()).is_some() {
                    return self.section(true);
                }
                token.cancel();
                let Some(ended) = other.poll(first) else {
                    panic!("a wait that was cancelled goes on")
                };
                let changes = self.section(ended.is_ok());
                task.block_on(second);
                changes + self.section(true)
            }
            AwaitCancel => {
                let alarm = pin!(Alarm::new());
                let (alarms, wait) =
                    (&Loom::slots().alarms, Wait::FOREVER.cancellable(&self.token));
                // SAFETY: it is pinned, and disarmed below.
                if !unsafe { alarms.arm(&alarm, &wait.begin(), task.1.clone()) } {
                    task.until_called();
                }
                alarms.disarm(&alarm);
                assert!(self.token.is_cancelled());
                0
            }
            Cancel => {
                self.token.cancel();
                Loom::slots().alarms.sound(0, None, &mut Vec::new());
                0
            }
            Move => {
                let mut future = pin!(mutex.lock_async());
                if Task::new().poll(future.as_mut()).is_none() {
                    task.block_on(future);
                }
                self.section(true)
            }
            TakeAsWoken => {
                let takes = Takes(core::ptr::from_ref(lock).addr(), task.1.clone());
                let waker = Arc::new(takes).into();
                Task(task.0.clone(), waker).block_on(lock.write_async());
                self.written(true)
            }
            Late => {
                let mut first = pin!(mutex.lock_async());
                if task.poll(first.as_mut()).is_some() {
                    return self.section(true);
                }
                Loom::wait(&AtomicU32::new(0), 0, Some(Loom::now() + 2 * MISSED_NS), false);
                task.block_on(first);
                self.section(true)
            }
            LockThread => {
                mutex.lock();
                self.section(true)
            }
            LockFair => {
                mutex.lock();
                self.change(0);
                // SAFETY: just taken.
                unsafe { mutex.unlock_fair() };
                1
            }
            TryLock => self.section(mutex.try_lock()),
            Know => {
                mutex.lock();
                mutex.know_of_waiters();
                self.section(true)
            }
            Write => {
                task.block_on(lock.write_async());
                self.written(true)
            }
            WriteFair => {
                lock.write();
                self.change(1);
                // SAFETY: just taken.
                unsafe { lock.unlock_write_fair() };
                1
            }
            WriteThread => {
                lock.write();
                self.written(true)
            }
            DropWrite => self.written(task.poll_and_drop(lock.write_async(), 2)),
            Read => {
                task.block_on(lock.read_async());
                self.read(true)
            }
            ReadThread => {
                lock.read();
                self.read(true)
            }
            DropRead => self.read(task.poll_and_drop(lock.read_async(), 2)),
            UpgradableRead => {
                task.block_on(lock.upgradable_read_async());
                // SAFETY: just taken.
                unsafe {
                    lock.upgrade();
                    self.change(1);
                    lock.unlock_write();
                }
                1
            }
        }
    }

    fn check(&self, changed: u32) {
        assert!(!self.mutex.is_contended() && !self.mutex.is_locked());
        assert!(!self.lock.has_waiters() && !self.lock.is_locked());
        // SAFETY: nobody else is here.
        let values = self.values.each_ref().map(|value| value.with(|value| unsafe { *value }));
        assert_eq!(values.iter().sum::<u32>(), changed);
    }
}

fn check(fault: Option<Fault>, threads: &'static [&'static [Visit]]) {
    let both = || Both {
        mutex: RawMutex::new(),
        lock: RawRwLock::new(SHORT),
        token: CancelToken::new(),
        values: [UnsafeCell::new(0), UnsafeCell::new(0)],
    };
    models::check(&enough(), fault, both, threads);
}

models! {
    check;
    two_tasks: [&[Lock, Lock], &[Lock, Lock]];
    a_task_behind_a_known_holder: [&[Know], &[Lock]];
    a_task_beside_a_thread: [&[LockThread, LockThread], &[Lock]];
    a_fair_release_beside_a_task: [&[LockFair], &[Lock]];
    a_task_that_gives_up_as_it_is_queued: [&[Know], &[DropQueued, Lock]];
    a_task_that_gives_up_as_it_is_woken: [&[Know], &[DropOffered, Lock]];
    an_offer_that_is_passed_on: [&[Know], &[PassOn]];
    a_deadline_or_token_against_an_offer: [&[Know], &[EndQueued]];
    a_cancellation_of_a_task: [&[Cancel], &[AwaitCancel]];
    a_cancellation_of_two_tasks: [&[Cancel], &[AwaitCancel], &[AwaitCancel]];
    two_futures_of_one_task: [&[Know], &[Twice]];
    two_futures_of_one_task_and_a_fair_release: [&[LockFair], &[Twice]];
    a_future_that_nobody_polls: [&[LockFair], &[Forget]];
    a_future_that_moves_to_another_task: [&[Know], &[Move]];
    a_waker_that_takes_the_lock: [&[Know], &[TakeAsWoken]];
    a_waker_that_takes_the_lock_beside_writers: [&[WriteThread, WriteThread], &[TakeAsWoken]];
    a_waker_that_takes_a_lock_that_was_left_fairly: [&[WriteFair], &[TakeAsWoken]];
    a_task_that_comes_late: [&[LockFair], &[Late]];
    attempts_beside_a_task: [&[Know, TryLock], &[Lock]];
    two_writers: [&[Write, Write], &[Write, Write]];
    a_reader_and_a_writer: [&[Read], &[Write]];
    a_writer_that_gives_up: [&[ReadThread], &[DropWrite, Read]];
    a_reader_that_gives_up: [&[WriteThread], &[DropRead, Read]];
    two_upgradable_readers: [&[UpgradableRead], &[UpgradableRead]];
    three_tasks: [&[Lock], &[Lock], &[Lock]];
    a_task_and_two_threads: [&[LockThread], &[Lock], &[LockThread]];
    a_task_that_gives_up_before_another: [&[Know], &[DropOffered], &[Lock]];
    a_task_that_comes_late_beside_threads: [&[LockFair], &[Late], &[LockThread, TryLock]];
    readers_and_a_writer: [&[Read], &[Write], &[Read]];
    a_task_that_reads_and_threads: [&[WriteThread], &[Read], &[ReadThread]];
    a_task_that_writes_and_threads: [&[ReadThread], &[Write], &[WriteThread]];
    an_upgradable_reader: [&[Read], &[UpgradableRead], &[Write]];
}

#[cfg(fairlock_faults)]
controls! {
    broken_asks_blindly: "deadlock";
    broken_leaves_quietly: "nobody is next";
    broken_ends_quietly: "nobody is next";
    broken_tells_first: "deadlock";
    broken_keeps_waker: "deadlock";
    broken_waits_for_late: "deadlock";
    broken_ignores_own_task: "deadlock";
    broken_calls_under_lock: "deadlock";
}

#[cfg(fairlock_faults)]
mod broken {
    use super::*;

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_asks_blindly() {
        check(Some(Fault::AsksBlindly), &[&[Know], &[Lock]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_leaves_quietly() {
        check(Some(Fault::WriterLeavesQuietly), &[&[Know], &[PassOn]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_ends_quietly() {
        check(Some(Fault::WriterLeavesQuietly), &[&[Know], &[EndQueued]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_tells_first() {
        check(Some(Fault::TellsFirst), &[&[Cancel], &[AwaitCancel]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_keeps_waker() {
        check(Some(Fault::KeepsWaker), &[&[Know], &[Move]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_waits_for_late() {
        check(Some(Fault::WaitsForLate), &[&[LockFair], &[Forget]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_ignores_own_task() {
        check(Some(Fault::IgnoresOwnTask), &[&[Know], &[Twice]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_calls_under_lock() {
        check(Some(Fault::CallsUnderLock), &[&[WriteFair], &[TakeAsWoken]]);
    }
}

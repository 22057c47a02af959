//! The semaphore in every interleaving of two or three threads, some of which poll tasks:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib semaphore_loom`

use core::pin::pin;

use loom::cell::UnsafeCell;

use crate::fault::Fault;
#[cfg(fairlock_faults)]
use crate::models::controls;
use crate::models::tasks::Task;
use crate::models::{self, Scene, many, models};
use crate::platform::System;
use crate::platform::loom::Loom;
use crate::wait::{CancelToken, Wait};
use crate::{Semaphore, SemaphorePermit};

/// Long enough to park.
const TIMEOUT_NS: u64 = 10_000_000;

const PERMITS: u32 = 2;

struct Shared {
    semaphore: Semaphore,
    token: CancelToken<Loom>,
    /// Changed by the thread that has all permits.
    data: UnsafeCell<u32>,
}

// SAFETY: one thread at a time changes `data`, the one that has all permits (loom checks that).
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// What a thread does once.
#[derive(Clone, Copy)]
enum Visit {
    One,
    All,
    AllTimed,
    AllCancelled,
    Cancel,
    TryOne,
    /// Takes all permits, and gives them one by one.
    GiveEach,
    /// A task, as those below.
    OneTask,
    AllTask,
    /// Gives up when it was queued.
    DropQueued,
    /// Gives up when it was woken.
    DropOffered,
    /// Two futures of one task, of which the first is polled once.
    Twice,
    /// A task that gives up when it was woken, while another one waits behind it.
    PassOn,
    /// A future that is polled by another task from the second time on.
    Move,
}
use Visit::*;

impl Shared {
    /// Reads, or changes the data if all permits were taken; returns how often it did.
    fn section(&self, permit: Option<SemaphorePermit<'_>>) -> u32 {
        let Some(permit) = permit else { return 0 };
        if permit.count() < PERMITS {
            // SAFETY: nobody else has all.
            self.data.with(|data| assert!(unsafe { *data } < 10));
            return 0;
        }
        // SAFETY: the caller has all permits.
        self.data.with_mut(|data| unsafe { *data += 1 });
        1
    }

    fn with(&self, wait: Wait<'_, Loom>) -> u32 {
        self.section(self.semaphore.acquire_many_with(PERMITS, wait).ok())
    }
}

impl Scene for Shared {
    type Visit = Visit;

    fn visit(&self, visit: Visit) -> u32 {
        let semaphore = &self.semaphore;
        let (task, all) = (Task::new(), || semaphore.acquire_many_async(PERMITS));
        match visit {
            One => self.section(Some(semaphore.acquire())),
            All => self.with(Wait::FOREVER),
            AllTimed => self.with(Wait::until_nanos(Loom::now() + TIMEOUT_NS)),
            AllCancelled => self.with(Wait::FOREVER.cancellable(&self.token)),
            Cancel => {
                self.token.cancel();
                0
            }
            TryOne => self.section(semaphore.try_acquire()),
            GiveEach => {
                core::mem::forget(semaphore.acquire_many(PERMITS));
                // SAFETY: this thread has all permits.
                self.data.with_mut(|data| unsafe { *data += 1 });
                (0..PERMITS).for_each(|_| semaphore.release(1));
                1
            }
            OneTask => self.section(Some(task.block_on(semaphore.acquire_async()))),
            AllTask => self.section(Some(task.block_on(all()))),
            DropQueued => {
                task.poll_and_drop(all(), 1);
                0
            }
            DropOffered => {
                task.poll_and_drop(all(), 2);
                0
            }
            Twice => {
                let mut first = pin!(all());
                match task.poll(first.as_mut()) {
                    Some(permit) => self.section(Some(permit)),
                    None => self.section(Some(task.block_on(all()))),
                }
            }
            PassOn => {
                let (mut first, other) = (Box::pin(all()), Task::new());
                if let Some(permit) = other.poll(first.as_mut()) {
                    return self.section(Some(permit));
                }
                let mut second = pin!(all());
                let permit = task.poll(second.as_mut());
                if permit.is_some() {
                    return self.section(permit);
                }
                other.until_called();
                drop(first);
                self.section(Some(task.block_on(second)))
            }
            Move => {
                let mut future = pin!(all());
                match Task::new().poll(future.as_mut()) {
                    Some(permit) => self.section(Some(permit)),
                    None => self.section(Some(task.block_on(future))),
                }
            }
        }
    }

    fn check(&self, changed: u32) {
        assert!(!self.semaphore.has_waiters());
        assert_eq!(self.semaphore.available_permits(), PERMITS);
        // SAFETY: nobody else is here.
        assert_eq!(self.data.with(|data| unsafe { *data }), changed);
    }
}

fn check(fault: Option<Fault>, threads: &'static [&'static [Visit]]) {
    let shared = || Shared {
        semaphore: Semaphore::new(PERMITS),
        token: CancelToken::new(),
        data: UnsafeCell::new(0),
    };
    models::check(&many(), fault, shared, threads);
}

models! {
    check;
    all_permits_exclude_and_wake: [&[All, All], &[All, All]];
    a_thread_that_wants_all_permits_has_them: [&[All], &[One, One]];
    permits_that_are_given_one_by_one: [&[GiveEach], &[All]];
    an_attempt_beside_a_waiter: [&[All], &[All], &[TryOne]];
    a_wait_that_times_out_leaves_nothing: [&[AllTimed], &[All]];
    a_wait_that_times_out_before_another: [&[All], &[AllTimed], &[One]];
    a_wait_that_is_cancelled_leaves_nothing: [&[AllCancelled], &[All, Cancel]];
    three_threads: [&[All], &[One], &[All]];
    two_tasks: [&[AllTask, AllTask], &[AllTask, AllTask]];
    a_task_beside_a_thread: [&[All, One], &[AllTask, OneTask]];
    permits_that_are_given_one_by_one_to_a_task: [&[GiveEach], &[AllTask]];
    a_task_that_gives_up_as_it_is_queued: [&[All], &[DropQueued, AllTask]];
    a_task_that_gives_up_as_it_is_woken: [&[All], &[DropOffered], &[OneTask]];
    an_offer_that_is_passed_on: [&[All], &[PassOn]];
    two_futures_of_one_task: [&[All], &[Twice]];
    a_future_that_moves_to_another_task: [&[All], &[Move]];
    a_task_and_two_threads: [&[All], &[AllTask], &[One]];
}

/// Two owners take the permit, one after the other; the last one takes the semaphore apart as soon as it has the permit: loom reports
/// an access of the other that does not come before that.
fn take_apart() {
    let own = |semaphore: *mut Owned| {
        // SAFETY: the last owner takes it apart, and has had the permit after the other one.
        let is_last = unsafe {
            core::mem::forget((*semaphore).semaphore.acquire());
            (*semaphore).left.with_mut(|left| {
                *left -= 1;
                *left == 0
            })
        };
        // SAFETY: as above.
        unsafe {
            if is_last {
                (*semaphore).semaphore.raw.0.access_mut();
            } else {
                (*semaphore).semaphore.release(1);
            }
        }
    };
    many().check(move || {
        let owned = Owned { semaphore: Semaphore::new(1), left: UnsafeCell::new(2) };
        let owned = Box::into_raw(Box::new(owned)) as usize;
        let other = loom::thread::spawn(move || own(owned as *mut Owned));
        own(owned as *mut Owned);
        other.join().unwrap();
        // SAFETY: both are done with it.
        drop(unsafe { Box::from_raw(owned as *mut Owned) });
    });
}

struct Owned {
    semaphore: Semaphore,
    left: UnsafeCell<u32>,
}

#[test]
fn nothing_touches_the_semaphore_once_its_last_owner_has_the_permit() {
    take_apart();
}

#[cfg(fairlock_faults)]
controls! {
    broken_gives_quietly: "deadlock";
    broken_touches_given: "ausality violation";
    broken_arrives_blindly: "deadlock";
    broken_leaves_quietly: "nobody is next";
}

#[cfg(fairlock_faults)]
mod broken {
    use super::*;
    use crate::fault::with_fault;

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_gives_quietly() {
        check(Some(Fault::ReleasesQuietly), &[&[All], &[All]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_touches_given() {
        with_fault(Some(Fault::TouchesReleased), take_apart);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_arrives_blindly() {
        check(Some(Fault::ArrivesBlindly), &[&[All], &[AllTask]]);
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_leaves_quietly() {
        check(Some(Fault::WriterLeavesQuietly), &[&[All], &[PassOn]]);
    }
}

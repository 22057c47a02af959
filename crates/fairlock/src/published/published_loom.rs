//! The spinner queue and the published discipline, in every interleaving of
//! two or three threads, with every value the memory model lets them read:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib published_loom`

use core::time::Duration;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use super::osq::SpinnerQueue;
use crate::models::{self, Scene};
use crate::platform::System;
use crate::platform::loom::Loom;
use crate::rwsem::{Policy, PublishedPolicy, ReaderSpin, RwSem};
use crate::wait::{Access, CancelToken, Wait, WaitContext, WaitError};

struct Spun {
    queue: SpinnerQueue<Loom>,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is touched at the head of `queue` only (loom checks that).
unsafe impl Sync for Spun {}
// SAFETY: as above.
unsafe impl Send for Spun {}

impl Spun {
    /// Loom's spin is one look, so a spinner that is not first mostly leaves.
    fn enter(&self) {
        let me = Loom::thread();
        if self.queue.enter(me, 0) {
            // SAFETY: at the head.
            self.value.with_mut(|value| unsafe { *value += 1 });
            self.queue.leave(me);
        }
    }
}

#[test]
fn spinners_are_at_the_head_one_at_a_time_and_leave_an_empty_queue() {
    loom::model(|| {
        let spun = Arc::new(Spun { queue: SpinnerQueue::default(), value: UnsafeCell::new(0) });
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let spun = spun.clone();
                thread::spawn(move || {
                    spun.enter();
                    spun.enter();
                })
            })
            .collect();
        spun.enter();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(spun.queue.is_empty());
        // No node is in use any more: this thread's node can be used again.
        assert!(spun.queue.enter(Loom::thread(), 0));
    });
}

struct Guarded {
    lock: RwSem<Loom>,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is touched under `lock` only (loom checks that).
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

#[derive(Clone, Copy)]
enum Visit {
    Read,
    Write,
    /// Under loom a wait with a deadline may end at any moment.
    ReadTimed,
    WriteTimed,
    Downgrade,
    WriteFair,
}

impl Guarded {
    fn add(&self) {
        // SAFETY: the lock is held for writing.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn look(&self) {
        // SAFETY: the lock is held for reading.
        self.value.with(|value| unsafe { *value });
        // SAFETY: as above.
        unsafe { self.lock.unlock_read() };
    }
}

impl Scene for Guarded {
    type Visit = Visit;

    /// How many sections were written.
    fn visit(&self, visit: Visit) -> u32 {
        let taken = match visit {
            Visit::Read => Ok(self.lock.read()),
            Visit::ReadTimed => self.lock.read_with(Wait::until_nanos(1)),
            Visit::Write | Visit::WriteFair | Visit::Downgrade => Ok(self.lock.write()),
            Visit::WriteTimed => self.lock.write_with(Wait::until_nanos(1)),
        };
        if taken.is_err() {
            return 0;
        }
        if let Visit::Read | Visit::ReadTimed = visit {
            self.look();
            return 0;
        }
        self.add();
        // SAFETY: taken above, for writing.
        unsafe {
            match visit {
                Visit::WriteFair => self.lock.unlock_write_fair(),
                Visit::Downgrade => {
                    self.lock.downgrade();
                    self.look();
                }
                _ => self.lock.unlock_write(),
            }
        }
        1
    }

    fn check(&self, written: u32) {
        assert!(self.lock.try_write());
        // SAFETY: held for writing.
        assert_eq!(self.value.with(|value| unsafe { *value }), written);
    }
}

/// Without spinning, whose bounds are times, and time stands still under loom:
/// the queue and the wakes must not depend on it.
const ASLEEP: PublishedPolicy = PublishedPolicy {
    writer_spin: false,
    reader_spin: ReaderSpin::Off,
    ..PublishedPolicy::HANDOFF
};
const IMMEDIATE: PublishedPolicy =
    PublishedPolicy { handoff_after: Some(Duration::ZERO), ..ASLEEP };
const PHASE: PublishedPolicy = PublishedPolicy { writer_phase: true, ..ASLEEP };
const IMMEDIATE_PHASE: PublishedPolicy = PublishedPolicy { writer_phase: true, ..IMMEDIATE };

/// Each thread makes its visits; a lost wake-up is a deadlock, which loom reports. At the end
/// nothing is left in the word.
fn model(policy: PublishedPolicy, threads: &'static [&'static [Visit]]) {
    let guarded =
        move || Guarded { lock: RwSem::new(Policy::published(policy)), value: UnsafeCell::new(0) };
    models::check(&Builder::new(), None, guarded, threads);
}

use Visit::{Downgrade, Read, ReadTimed, Write, WriteFair, WriteTimed};

#[test]
fn two_writers() {
    model(ASLEEP, &[&[Write, Write], &[Write]]);
}

#[test]
fn two_writers_handed_off() {
    model(IMMEDIATE, &[&[Write, Write], &[Write]]);
}

#[test]
fn writer_and_reader() {
    model(ASLEEP, &[&[Write], &[Read, Read]]);
}

#[test]
fn writer_and_reader_handed_off() {
    model(IMMEDIATE_PHASE, &[&[Write], &[Read, Read]]);
}

#[test]
fn writer_that_times_out_beside_a_writer() {
    model(IMMEDIATE_PHASE, &[&[WriteTimed], &[Write]]);
}

#[test]
fn reader_that_times_out_beside_a_writer() {
    model(IMMEDIATE_PHASE, &[&[ReadTimed], &[Write]]);
}

#[test]
fn downgrade_beside_a_reader() {
    model(PHASE, &[&[Downgrade], &[Read]]);
}

#[test]
fn downgrade_beside_a_writer() {
    model(IMMEDIATE, &[&[Downgrade], &[Write]]);
}

#[test]
fn fair_unlock_beside_a_writer() {
    model(ASLEEP, &[&[WriteFair], &[Write]]);
}

/// Rule 13.
#[test]
fn three_writers() {
    model(ASLEEP, &[&[Write], &[Write], &[Write]]);
}

/// Rule 13.
#[test]
fn three_writers_handed_off() {
    model(IMMEDIATE, &[&[Write], &[Write], &[Write]]);
}

#[test]
fn writer_between_two_readers() {
    model(PHASE, &[&[Read], &[Write], &[Read]]);
}

#[test]
fn writer_between_two_readers_handed_off() {
    model(IMMEDIATE, &[&[Read], &[Write], &[Read]]);
}

/// Rules 8 and 14.
#[test]
fn timed_out_writer_and_the_reader_behind_it() {
    model(IMMEDIATE_PHASE, &[&[Read], &[WriteTimed], &[Read]]);
}

/// Rules 5 and 6.
#[test]
fn timed_out_reader_between_writers() {
    model(IMMEDIATE, &[&[Write], &[ReadTimed], &[Write]]);
}

/// A thread comes in by one step, while the writer inside leaves.
fn after_a_writer(policy: PublishedPolicy, comes: fn(&Guarded)) {
    loom::model(move || {
        let lock = RwSem::new(Policy::published(policy));
        let guarded = Arc::new(Guarded { lock, value: UnsafeCell::new(0) });
        guarded.lock.write();
        let other = guarded.clone();
        let other = thread::spawn(move || comes(&other));
        guarded.add();
        // SAFETY: taken above.
        unsafe { guarded.lock.unlock_write() };
        other.join().unwrap();
    });
}

#[test]
fn a_writer_that_spins_comes_after_the_one_before() {
    after_a_writer(PublishedPolicy { writer_spin: true, ..ASLEEP }, |guarded| {
        if guarded.lock.kernel().spin_for_write(Loom::thread(), &WaitContext::FOREVER) {
            guarded.add();
            // SAFETY: just taken.
            unsafe { guarded.lock.unlock_write() };
        }
    });
}

#[test]
fn a_reader_past_the_queue_comes_after_the_writer_before() {
    after_a_writer(ASLEEP, |guarded| {
        if guarded.lock.kernel().past_queue(Loom::thread(), Access::Shared).is_some() {
            guarded.look();
        }
    });
}

#[test]
fn cancelled_wait_ends() {
    loom::model(|| {
        let lock = Arc::new(RwSem::<Loom>::new(Policy::published(ASLEEP)));
        let token = Arc::new(CancelToken::<Loom>::new());
        lock.write();
        let waiter = {
            let (lock, token) = (lock.clone(), token.clone());
            thread::spawn(move || lock.write_with(Wait::FOREVER.cancellable(&token)))
        };
        token.cancel();
        assert_eq!(waiter.join().unwrap(), Err(WaitError::Cancelled));
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        assert!(lock.try_write());
    });
}

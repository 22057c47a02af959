//! The spinner queue and the lock, in every interleaving of
//! two or three threads, with every value the memory model lets them read:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib published_loom`

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use super::osq::SpinnerQueue;
use super::word::{READERS_LIMIT, Word};
use super::{Policy, ReaderSpin, RwSem};
use crate::models::{self, Scene, enough};
use crate::platform::System;
use crate::platform::loom::Loom;
use crate::wait::{CancelToken, Wait, WaitContext, WaitError};

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
    stop: CancelToken<Loom>,
}

// SAFETY: `value` is touched under `lock` only (loom checks that).
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

#[derive(Clone, Copy)]
enum Visit {
    Read,
    Write,
    TryRead,
    TryWrite,
    ReadRecursive,
    /// Under loom a wait with a deadline may end at any moment.
    ReadTimed,
    WriteTimed,
    ReadCancellable,
    WriteCancellable,
    ReadInterruptible,
    WriteInterruptible,
    Downgrade,
    ReadFair,
    WriteFair,
    Cancel,
}

impl Guarded {
    fn new(policy: Policy) -> Self {
        Self { lock: RwSem::new(policy), value: UnsafeCell::new(0), stop: CancelToken::new() }
    }

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
        let lock = &self.lock;
        let timed = Wait::until_nanos(1);
        let tried = |taken: bool| taken.then_some(()).ok_or(WaitError::TimedOut);
        let taken = match visit {
            Read | ReadFair => Ok(lock.read()),
            Write | WriteFair | Downgrade => Ok(lock.write()),
            TryRead => tried(lock.try_read()),
            TryWrite => tried(lock.try_write()),
            ReadRecursive => Ok(lock.read_recursive()),
            ReadTimed => lock.read_with(timed),
            WriteTimed => lock.write_with(timed),
            ReadCancellable => lock.read_with(Wait::FOREVER.cancellable(&self.stop)),
            WriteCancellable => lock.write_with(Wait::FOREVER.cancellable(&self.stop)),
            ReadInterruptible => lock.read_with(Wait::FOREVER.interruptible()),
            WriteInterruptible => lock.write_with(Wait::FOREVER.interruptible()),
            Cancel => {
                self.stop.cancel();
                return 0;
            }
        };
        if taken.is_err() {
            return 0;
        }
        match visit {
            Write | TryWrite | WriteTimed | WriteCancellable | WriteInterruptible | WriteFair
            | Downgrade => {
                self.add();
                // SAFETY: taken above, for writing.
                unsafe {
                    match visit {
                        WriteFair => lock.unlock_write_fair(),
                        Downgrade => {
                            lock.downgrade();
                            self.look();
                        }
                        _ => lock.unlock_write(),
                    }
                }
                1
            }
            ReadFair => {
                // SAFETY: taken above, for reading.
                unsafe {
                    self.value.with(|value| *value);
                    lock.unlock_read_fair();
                }
                0
            }
            _ => {
                self.look();
                0
            }
        }
    }

    fn check(&self, written: u32) {
        assert_eq!(self.lock.word.load(Ordering::Relaxed), Word::FREE);
        assert!(self.lock.try_write());
        // SAFETY: held for writing.
        assert_eq!(self.value.with(|value| unsafe { *value }), written);
    }
}

/// Without spinning, whose bounds are times, and time stands still under loom:
/// the queue and the wakes must not depend on it.
const ASLEEP: Policy =
    Policy { writer_spin: false, reader_spin: ReaderSpin::Off, ..Policy::HANDOFF };
const IMMEDIATE: Policy = Policy { handoff_after: Some(Duration::ZERO), ..ASLEEP };
const PHASE: Policy = Policy { writer_phase: true, ..ASLEEP };
const IMMEDIATE_PHASE: Policy = Policy { writer_phase: true, ..IMMEDIATE };

/// The lock is never handed on.
const STOLEN: Policy = Policy { handoff_after: None, ..PHASE };
/// Spinners beside sleepers.
const SPUN: Policy = Policy::HANDOFF;

/// Each thread makes its visits; a lost wake-up is a deadlock, which loom reports. At the end
/// nothing is left in the word.
fn model(policy: Policy, threads: &'static [&'static [Visit]]) {
    models::check(&Builder::new(), None, move || Guarded::new(policy), threads);
}

/// As [`model`], with as many interleavings as are enough.
fn longer(policy: Policy, threads: &'static [&'static [Visit]]) {
    models::check(&enough(), None, move || Guarded::new(policy), threads);
}

use Visit::*;

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

#[test]
fn two_writers_twice() {
    for policy in [IMMEDIATE_PHASE, STOLEN, SPUN] {
        longer(policy, &[&[Write, Write], &[Write, Write]]);
        longer(policy, &[&[Write, Write], &[Read, Read]]);
    }
}

/// Rule 15.
#[test]
fn failed_try_read() {
    longer(IMMEDIATE_PHASE, &[&[Write, TryWrite], &[TryRead, TryRead, Write]]);
    longer(IMMEDIATE_PHASE, &[&[Write], &[TryRead, TryRead], &[Write]]);
}

#[test]
fn recursive_reader_and_writer() {
    longer(IMMEDIATE_PHASE, &[&[ReadRecursive, Read], &[Write, Write]]);
}

#[test]
fn fair_unlocks() {
    longer(IMMEDIATE_PHASE, &[&[WriteFair, ReadFair], &[Write, Read]]);
}

#[test]
fn downgrade_between_reader_and_writer() {
    longer(IMMEDIATE_PHASE, &[&[Read], &[Downgrade], &[Write]]);
}

#[test]
fn cancelled_waits() {
    longer(IMMEDIATE_PHASE, &[&[Write, Cancel], &[WriteCancellable]]);
    longer(IMMEDIATE_PHASE, &[&[Write, Cancel], &[ReadCancellable]]);
    longer(IMMEDIATE_PHASE, &[&[Write, Cancel], &[WriteCancellable], &[Write]]);
}

#[test]
fn interrupted_waits() {
    longer(IMMEDIATE_PHASE, &[&[Write, Write], &[WriteInterruptible, WriteInterruptible]]);
    longer(IMMEDIATE_PHASE, &[&[Write, Write], &[ReadInterruptible, ReadInterruptible]]);
}

/// A thread comes in by one step, while the writer inside leaves.
fn after_a_writer(policy: Policy, comes: fn(&Guarded)) {
    loom::model(move || {
        let guarded = Arc::new(Guarded::new(policy));
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
    after_a_writer(Policy { writer_spin: true, ..ASLEEP }, |guarded| {
        if guarded.lock.spin_for_write(Loom::thread(), &WaitContext::FOREVER) {
            guarded.add();
            // SAFETY: just taken.
            unsafe { guarded.lock.unlock_write() };
        }
    });
}

#[test]
fn a_reader_past_the_queue_comes_after_the_writer_before() {
    after_a_writer(ASLEEP, |guarded| {
        if guarded.lock.try_read() {
            guarded.look();
        }
    });
}

#[test]
fn cancelled_wait_ends() {
    loom::model(|| {
        let lock = Arc::new(RwSem::<Loom>::new(ASLEEP));
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

/// A writer becomes the last reader but one, while two others come. Not one of loom's
/// atomics: `inside` is to be seen as it is.
#[test]
fn room_for_one_is_for_one() {
    enough().check(|| {
        let lock = Arc::new(RwSem::<Loom>::new(IMMEDIATE_PHASE));
        let inside = Arc::new(AtomicUsize::new(0));
        lock.write();
        let others = [(); 2].map(|()| {
            let (lock, inside) = (lock.clone(), inside.clone());
            thread::spawn(move || match lock.read_with(Wait::FOREVER) {
                Ok(()) => {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "there was room for one");
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    // SAFETY: just taken.
                    unsafe { lock.unlock_read() };
                }
                Err(error) => assert_eq!(error, WaitError::TooManyReaders),
            })
        });
        lock.word.enter_readers(READERS_LIMIT - 2, Ordering::Relaxed);
        // SAFETY: written above.
        unsafe { lock.downgrade() };
        others.into_iter().for_each(|other| other.join().unwrap());
        let full_but_one = Word::FREE.with_readers(READERS_LIMIT - 1);
        assert_eq!(lock.word.load(Ordering::Relaxed), full_but_one);
    });
}

/// A reader that may not stay is done with the lock when it has taken its count back: whoever has the lock next may free it.
#[test]
fn a_count_that_was_taken_back_comes_before_the_next_holder() {
    Builder::new().check(|| {
        let guarded = Box::into_raw(Box::new(Guarded::new(IMMEDIATE_PHASE)));
        let (address, has_left) = (guarded as usize, Arc::new(AtomicU32::new(0)));
        let reader = {
            let has_left = has_left.clone();
            thread::spawn(move || {
                // SAFETY: freed below, after this thread has ended.
                let lock = unsafe { &(*(address as *const Guarded)).lock };
                lock.word.enter(Ordering::Acquire);
                lock.take_back_count();
                has_left.store(1, Ordering::Relaxed);
            })
        };
        // SAFETY: the reader does not come again.
        if has_left.load(Ordering::Relaxed) == 1 && unsafe { (*guarded).lock.try_write() } {
            // SAFETY: nobody else is there.
            unsafe { (*guarded).lock.word.access_mut() };
        }
        reader.join().unwrap();
        // SAFETY: from a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(guarded) });
    });
}

//! A lock, what it guards, and what the threads of a model do with both.

use core::ops::RangeInclusive;
use core::sync::atomic::Ordering;
use core::time::Duration;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use crate::fault::{Fault, with_fault};
use crate::platform::loom::Loom;
use crate::range::slots::word::{Flags, Word};
use crate::range::{RangeError, RangePolicy, RangeReadGuard, RangeRwLock, RangeWriteGuard};
use crate::wait::{CancelToken, Wait};

pub(super) const DEFAULT: RangePolicy = RangePolicy::DEFAULT;
pub(super) const FIFO: RangePolicy = RangePolicy::FIFO;
/// A waiter is queued as soon as the clock has gone on.
pub(super) const HASTY: RangePolicy = RangePolicy { overtaken_for: Duration::from_nanos(1) };

/// A waiter is never queued, so no timer ends a wait.
pub(super) const OVERTAKEN: RangePolicy = RangePolicy { overtaken_for: Duration::MAX };

/// Two positions, A and B: `LOW` has A, `HIGH` has B, the others both.
pub(super) type Range = RangeInclusive<u64>;
pub(super) const LOW: Range = 0..=9;
pub(super) const HIGH: Range = 10..=19;
pub(super) const BOTH: Range = 5..=15;
/// A range that has neither A nor B.
pub(super) const APART: Range = 30..=39;
pub(super) const FULL: Range = 0..=u64::MAX;
/// Ranges in a lock that is striped for regions of 2^SHIFT positions: `FIRST` has A and is one
/// region, `SECOND` has B and is the next; `BOTH` has both, in two stripes; `MORE` has both and a
/// third region, and goes to the tree.
pub(super) const SHIFT: u32 = 3;
pub(super) const FIRST: Range = 0..=7;
pub(super) const SECOND: Range = 8..=15;
pub(super) const MORE: Range = 5..=16;
/// A range with both, too odd to be packed: it goes to the tree.
pub(super) const ODD: Range = 1..=(1 << 40) + 2;

/// In the middle of a wait, as the clock goes.
pub(super) const SOON: Duration = Duration::from_micros(90);

/// A lock, what it guards, and what ends the waits for it.
pub(super) struct Guarded {
    pub(super) lock: RangeRwLock<Loom>,
    pub(super) values: [UnsafeCell<u32>; 2],
    pub(super) stop: CancelToken<Loom>,
}

// SAFETY: `values` are touched under their positions only (loom checks that).
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

/// What a thread does once.
#[derive(Clone, Debug)]
pub(super) enum Visit {
    Read(Range),
    Write(Range),
    TryRead(Range),
    TryWrite(Range),
    ReadRecursive(Range),
    ReadRecursiveFor(Range),
    ReadRecursiveCancellable(Range),
    WriteCancellable(Range),
    ReadCancellable(Range),
    WriteFor(Range),
    Downgrade(Range),
    /// Keeps B only.
    Shrink(Range),
    Split(Range),
    Cancel,
    /// Stripes the lock; the next two do so for regions twice as large, and end it.
    Stripe,
    StripeWider,
    EndStripes,
}
use Visit::*;

impl Guarded {
    pub(super) fn new(policy: RangePolicy) -> Self {
        let lock = RangeRwLock::on_platform(policy);
        Self { lock, values: [UnsafeCell::new(0), UnsafeCell::new(0)], stop: CancelToken::new() }
    }

    fn places(&self, start: u64, last: u64) -> impl Iterator<Item = &UnsafeCell<u32>> {
        let [a, b] = &self.values;
        [(a, 7), (b, 12)]
            .into_iter()
            .filter(move |(_, at)| (start..=last).contains(at))
            .map(|p| p.0)
    }

    pub(super) fn write_inside(&self, guard: &RangeWriteGuard<'_, Loom>) -> u32 {
        let span = guard.span();
        // SAFETY: the positions are held for writing.
        self.places(span.start(), span.last()).map(|v| v.with_mut(|v| unsafe { *v += 1 })).count()
            as u32
    }

    pub(super) fn read_inside(&self, guard: &RangeReadGuard<'_, Loom>) {
        let span = guard.span();
        // SAFETY: the positions are held for reading.
        self.places(span.start(), span.last()).for_each(|v| {
            v.with(|v| unsafe { *v });
        });
    }

    pub(super) fn read(&self, guard: Result<RangeReadGuard<'_, Loom>, RangeError>) -> u32 {
        if let Ok(guard) = guard {
            self.read_inside(&guard);
        }
        0
    }

    pub(super) fn write(&self, guard: Result<RangeWriteGuard<'_, Loom>, RangeError>) -> u32 {
        guard.map_or(0, |guard| self.write_inside(&guard))
    }

    /// Makes the visit; returns how many positions were written.
    pub(super) fn visit(&self, visit: Visit) -> u32 {
        let lock = &self.lock;
        match visit {
            Read(range) => self.read(lock.read(range)),
            Write(range) => self.write(lock.write(range)),
            TryRead(range) => self.read(lock.try_read(range)),
            TryWrite(range) => self.write(lock.try_write(range)),
            ReadRecursive(range) => self.read(lock.read_recursive(range)),
            ReadRecursiveFor(range) => {
                self.read(lock.read_recursive_with(range, Wait::within(SOON)))
            }
            ReadRecursiveCancellable(range) => {
                self.read(lock.read_recursive_with(range, Wait::FOREVER.cancellable(&self.stop)))
            }
            WriteCancellable(range) => {
                self.write(lock.write_with(range, Wait::FOREVER.cancellable(&self.stop)))
            }
            ReadCancellable(range) => {
                self.read(lock.read_with(range, Wait::FOREVER.cancellable(&self.stop)))
            }
            WriteFor(range) => self.write(lock.write_with(range, Wait::within(SOON))),
            Downgrade(range) => {
                let guard = lock.write(range).unwrap();
                let wrote = self.write_inside(&guard);
                self.read_inside(&guard.downgrade());
                wrote
            }
            Shrink(range) => {
                let mut guard = lock.write(range).unwrap();
                let wrote = self.write_inside(&guard);
                guard.shrink(*HIGH.start()..=guard.span().last().min(*HIGH.end())).unwrap();
                wrote + self.write_inside(&guard)
            }
            Split(range) => {
                let (low, high) = lock.write(range).unwrap().split_at(*HIGH.start()).unwrap();
                let wrote = self.write_inside(&low);
                drop(low);
                wrote + self.write_inside(&high)
            }
            Cancel => {
                self.stop.cancel();
                0
            }
            Stripe => {
                lock.stripe(SHIFT);
                0
            }
            StripeWider => {
                lock.stripe(SHIFT + 1);
                0
            }
            EndStripes => {
                lock.core.with_queue(|q| lock.core.end_stripes(q));
                0
            }
        }
    }

    /// Nobody is inside, and nothing is left.
    pub(super) fn check(&self, written: u32) {
        let word = self.lock.core.word.load(Ordering::Acquire);
        let others = Flags::WHOLE.with(Flags::DRAIN).with(Flags::STRIPED);
        assert_eq!(word.without(others), Word::FREE, "{word:?}");
        let is_left = |(_, word): (usize, Word)| word.has_slots();
        assert!(!self.lock.core.striped.words().any(is_left));
        self.lock.core.with_queue(|q| assert!(q.ranges.is_empty() && q.patient.is_empty()));
        assert!(!self.lock.gate.lock.is_locked());
        // SAFETY: the other threads have ended.
        let sum: u32 = self.values.iter().map(|v| v.with(|v| unsafe { *v })).sum();
        assert_eq!(sum, written);
    }
}

pub(super) fn visit_all(guarded: &Guarded, visits: &[Visit]) -> u32 {
    visits.iter().map(|visit| guarded.visit(visit.clone())).sum()
}

pub(super) fn spawn_all(
    guarded: &Arc<Guarded>,
    threads: &[&'static [Visit]],
) -> Vec<thread::JoinHandle<u32>> {
    let spawn = |&visits: &&'static [Visit]| {
        let guarded = guarded.clone();
        thread::spawn(move || visit_all(&guarded, visits))
    };
    threads.iter().map(spawn).collect()
}

pub(super) fn join_all(threads: Vec<thread::JoinHandle<u32>>) -> u32 {
    threads.into_iter().map(|thread| thread.join().unwrap()).sum()
}

/// Each inner list is a thread; the last is this one.
pub(super) fn model_with<const N: usize>(
    policy: RangePolicy,
    fault: Option<Fault>,
    threads: [&'static [Visit]; N],
) {
    check(Builder::new(), policy, fault, threads);
}

/// As `model`, for a large model: with one preemption less than was asked for.
pub(super) fn model_with_one_less<const N: usize>(
    policy: RangePolicy,
    threads: [&'static [Visit]; N],
) {
    check(one_less(), policy, None, threads);
}

fn one_less() -> Builder {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.map(|bound| bound.saturating_sub(1));
    builder
}

pub(super) fn check<const N: usize>(
    builder: Builder,
    policy: RangePolicy,
    fault: Option<Fault>,
    threads: [&'static [Visit]; N],
) {
    let model = move || {
        let guarded = Arc::new(Guarded::new(policy));
        let (here, others) = threads.split_last().unwrap();
        let others = spawn_all(&guarded, others);
        let written = visit_all(&guarded, here);
        guarded.check(written + join_all(others));
    };
    with_fault(fault, || builder.check(model));
}

/// This thread writes `held` before the others come, and then leaves it: three threads, at little
/// more than the price of two.
pub(super) fn model_held<const N: usize>(
    policy: RangePolicy,
    held: Range,
    threads: [&'static [Visit]; N],
) {
    check_held(Builder::new(), policy, held, threads);
}

/// As [`model_held`], with one preemption less than was asked for: for models in which all three
/// threads wait for each other.
pub(super) fn model_held_with_one_less<const N: usize>(
    policy: RangePolicy,
    held: Range,
    threads: [&'static [Visit]; N],
) {
    check_held(one_less(), policy, held, threads);
}

fn check_held<const N: usize>(
    builder: Builder,
    policy: RangePolicy,
    held: Range,
    threads: [&'static [Visit]; N],
) {
    builder.check(move || {
        let guarded = Arc::new(Guarded::new(policy));
        let guard = guarded.lock.write(held.clone()).unwrap();
        let others = spawn_all(&guarded, &threads);
        let written = guarded.write(Ok(guard));
        guarded.check(written + join_all(others));
    });
}

/// As `model_with`, in a lock that is striped from the start.
pub(super) fn model_striped<const N: usize>(
    policy: RangePolicy,
    fault: Option<Fault>,
    threads: [&'static [Visit]; N],
) {
    let model = move || {
        let guarded = Arc::new(Guarded::new(policy));
        assert!(guarded.lock.stripe(SHIFT));
        let others = spawn_all(&guarded, &threads[1..]);
        let written = visit_all(&guarded, threads[0]);
        guarded.check(written + join_all(others));
    };
    with_fault(fault, || Builder::new().check(model));
}

pub(super) fn model<const N: usize>(policy: RangePolicy, threads: [&'static [Visit]; N]) {
    model_with(policy, None, threads);
}

pub(super) fn each_policy<const N: usize>(threads: [&'static [Visit]; N]) {
    for policy in [DEFAULT, FIFO, HASTY] {
        model(policy, threads);
    }
}

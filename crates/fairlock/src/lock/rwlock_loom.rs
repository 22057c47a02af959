//! The reader/writer lock, in every interleaving of two
//! or three threads, with every value the memory model lets them read:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib loom`
//!
//! Loom reports two threads inside at once, a section that does not see the one
//! before (rule 3, for every way to own the lock), and a lost wake-up, which is
//! a deadlock.

use core::sync::atomic::Ordering;
use core::time::Duration;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;
use loom::thread;

use super::words::Names;
use super::{Percent, Policy, RawRwLock};
use crate::models::{self, Scene, enough};
use crate::platform::loom::{Loom, set_priority};
use crate::wait::{Access, CancelToken, Wait, WaitError};

/// Tenures that are over after a look or two at the clock.
const SHORT: Policy =
    Policy { aim: Duration::from_nanos(1), budget: Percent::new(100).unwrap(), ..Policy::DEFAULT };
/// The same with real-time priorities.
const SHORT_RANKED: Policy = SHORT.with_priorities();
/// Tenures that outlast a timer or two.
const LONG: Policy = Policy::DEFAULT;

/// A lock, what it guards, and what ends the waits for it.
struct Guarded {
    lock: RawRwLock<Loom>,
    value: UnsafeCell<u32>,
    stop: CancelToken<Loom>,
}

// SAFETY: `value` is touched under `lock` only (loom checks that).
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

/// What a thread does once.
#[derive(Clone, Copy, Debug)]
enum Visit {
    Read,
    Write,
    TryRead,
    TryWrite,
    ReadRecursive,
    Downgrade,
    ReadFair,
    WriteFair,
    ReadUntil,
    WriteUntil,
    ReadCancellable,
    WriteCancellable,
    ReadInterruptible,
    WriteInterruptible,
    /// Reads upgradably, and leaves.
    Upgradable,
    /// Reads upgradably, and stays as a reader.
    UpgradableDown,
    /// Reads upgradably, and then writes, if it waits for the readers inside.
    Upgrade,
    TryUpgrade,
    UpgradeUntil,
    UpgradeCancellable,
    UpgradableUntil,
    UpgradableFair,
    /// Writes, reads upgradably, and writes again.
    DownAndUp,
    Cancel,
    /// Becomes a real-time thread.
    Urgent,
}
use Visit::*;

/// In the middle of the first tenure, as the clock goes.
const DEADLINE: u64 = 100_000;

impl Guarded {
    fn new(policy: Policy) -> Self {
        Self { lock: RawRwLock::new(policy), value: UnsafeCell::new(0), stop: CancelToken::new() }
    }

    /// Upgrades, writes if it could, and leaves; tells how many sections were written.
    ///
    /// # Safety
    /// The caller holds the lock upgradably.
    unsafe fn write_upgraded(&self, visit: Visit) -> u32 {
        let lock = &self.lock;
        // SAFETY: the caller's promise; and each visit lets the lock go in the way in which it
        // holds it.
        unsafe {
            let seen = self.value.with(|value| *value);
            let upgraded = match visit {
                TryUpgrade => lock.try_upgrade(),
                UpgradeUntil => lock.upgrade_with(Wait::until_nanos(DEADLINE)).is_ok(),
                UpgradeCancellable => {
                    lock.upgrade_with(Wait::FOREVER.cancellable(&self.stop)).is_ok()
                }
                _ => {
                    lock.upgrade();
                    true
                }
            };
            if upgraded {
                // No writer got in between.
                self.value.with_mut(|value| {
                    assert_eq!(*value, seen);
                    *value += 1;
                });
                lock.unlock_write();
            } else {
                assert_eq!(self.value.with(|value| *value), seen);
                lock.unlock_upgradable();
            }
            upgraded.into()
        }
    }
}

impl Scene for Guarded {
    type Visit = Visit;

    /// How many sections were written.
    fn visit(&self, visit: Visit) -> u32 {
        let lock = &self.lock;
        let taken = match visit {
            Read => Ok(lock.read()),
            Write | Downgrade | WriteFair => Ok(lock.write()),
            ReadFair => Ok(lock.read()),
            ReadRecursive => Ok(lock.read_recursive()),
            TryRead => lock.try_read().then_some(()).ok_or(WaitError::TimedOut),
            TryWrite => lock.try_write().then_some(()).ok_or(WaitError::TimedOut),
            ReadUntil => lock.read_with(Wait::until_nanos(DEADLINE)),
            WriteUntil => lock.write_with(Wait::until_nanos(DEADLINE)),
            ReadCancellable => lock.read_with(Wait::FOREVER.cancellable(&self.stop)),
            WriteCancellable => lock.write_with(Wait::FOREVER.cancellable(&self.stop)),
            ReadInterruptible => lock.read_with(Wait::FOREVER.interruptible()),
            WriteInterruptible => lock.write_with(Wait::FOREVER.interruptible()),
            Upgradable | UpgradableDown | Upgrade | TryUpgrade | UpgradeUntil
            | UpgradeCancellable | UpgradableFair => Ok(lock.upgradable_read()),
            UpgradableUntil => lock.upgradable_read_with(Wait::until_nanos(DEADLINE)),
            DownAndUp => Ok(lock.write()),
            Cancel => {
                self.stop.cancel();
                return 0;
            }
            Urgent => {
                set_priority(5);
                return 0;
            }
        };
        if taken.is_err() {
            return 0;
        }
        // SAFETY: each visit lets the lock go in the way in which it holds it.
        unsafe {
            match visit {
                Write | TryWrite | WriteUntil | WriteCancellable | WriteInterruptible => {
                    self.value.with_mut(|value| *value += 1);
                    lock.unlock_write();
                    1
                }
                WriteFair => {
                    self.value.with_mut(|value| *value += 1);
                    lock.unlock_write_fair();
                    1
                }
                Downgrade => {
                    let wrote = self.value.with_mut(|value| {
                        *value += 1;
                        *value
                    });
                    lock.downgrade();
                    // No writer got in between.
                    assert_eq!(self.value.with(|value| *value), wrote);
                    lock.unlock_read();
                    1
                }
                Upgradable | UpgradableUntil => {
                    self.value.with(|value| *value);
                    lock.unlock_upgradable();
                    0
                }
                UpgradableFair => {
                    self.value.with(|value| *value);
                    lock.unlock_upgradable_fair();
                    0
                }
                UpgradableDown => {
                    self.value.with(|value| *value);
                    lock.downgrade_upgradable();
                    self.value.with(|value| *value);
                    lock.unlock_read();
                    0
                }
                Upgrade | TryUpgrade | UpgradeUntil | UpgradeCancellable => {
                    self.write_upgraded(visit)
                }
                DownAndUp => {
                    self.value.with_mut(|value| *value += 1);
                    lock.downgrade_to_upgradable();
                    1 + self.write_upgraded(Upgrade)
                }
                ReadFair => {
                    self.value.with(|value| *value);
                    lock.unlock_read_fair();
                    0
                }
                _ => {
                    self.value.with(|value| *value);
                    lock.unlock_read();
                    0
                }
            }
        }
    }

    fn check(&self, written: u32) {
        assert!(!self.lock.has_waiters() && !self.lock.is_locked());
        assert_eq!(self.lock.trim(), self.lock.policy() == Policy::DEFAULT);
        // SAFETY: the other threads have ended.
        assert_eq!(self.value.with(|value| unsafe { *value }), written);
        assert!(self.lock.try_write());
    }
}

fn model(policy: Policy, threads: &'static [&'static [Visit]]) {
    check(&enough(), policy, threads);
}

/// As [`model`], but small enough to be tried to the end.
fn whole(policy: Policy, threads: &'static [&'static [Visit]]) {
    let mut builder = Builder::new();
    if threads.len() > 2 {
        // The models of three threads are small enough with one preemption only.
        builder.preemption_bound = builder.preemption_bound.map(|bound| bound.min(1));
    }
    check(&builder, policy, threads);
}

/// As [`whole`], for the largest models: with one preemption less than was asked for.
fn whole_with_one_less(policy: Policy, threads: &'static [&'static [Visit]]) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.map(|bound| bound.saturating_sub(1));
    check(&builder, policy, threads);
}

fn check(builder: &Builder, policy: Policy, threads: &'static [&'static [Visit]]) {
    models::check(builder, None, move || Guarded::new(policy), threads);
}

/// One test a policy: those that a model is worth running under.
macro_rules! models {
    ($how:ident; $($name:ident: $threads:expr, [$($policy:ident $under:ident),+];)+) => {$(
        mod $name {
            use super::*;
            $(#[test]
            fn $under() {
                $how($policy, &$threads);
            })+
        }
    )+};
}

models! {
    model;
    // The word.
    rule_03_two_writers: [&[Write, Write], &[Write, Write]],
        [SHORT short_tenure, LONG long_tenure];
    rule_03_writer_and_reader: [&[Write, Write], &[Read, Read]],
        [SHORT short_tenure, LONG long_tenure];
    rule_15_failed_try_read: [&[Write, TryWrite], &[TryRead, TryRead, Write]],
        [SHORT short_tenure, LONG long_tenure];
    rule_15_try_read_beside_writers: [&[Write], &[TryRead, TryRead], &[Write]],
        [SHORT short_tenure];
    recursive_reader_and_writer: [&[ReadRecursive, Read], &[Write, Write]],
        [SHORT short_tenure, LONG long_tenure];

    // The queue.
    rule_13_three_writers: [&[Write], &[Write], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    rule_01_writer_between_readers: [&[Read], &[Write], &[Read]],
        [SHORT short_tenure, LONG long_tenure];
    rule_02_reader_between_writers: [&[Write], &[Read], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    fair_unlocks: [&[WriteFair, ReadFair], &[Write, Read]],
        [SHORT short_tenure, LONG long_tenure];

    // From writer to reader.
    downgrade_beside_reader: [&[Downgrade, Downgrade], &[Read, Read]],
        [SHORT short_tenure, LONG long_tenure];
    downgrade_beside_writer: [&[Downgrade, Downgrade], &[Write, Write]],
        [SHORT short_tenure, LONG long_tenure];
    downgrade_between_reader_and_writer: [&[Read], &[Downgrade], &[Write]],
        [SHORT short_tenure];

    // From reader to writer.
    upgrade_beside_reader: [&[Upgrade, Upgrade], &[Read, Read]],
        [SHORT short_tenure, LONG long_tenure];
    upgrade_beside_writer: [&[Upgrade, Upgrade], &[Write, Write]],
        [SHORT short_tenure, LONG long_tenure];
    upgrade_beside_upgrade: [&[Upgrade, DownAndUp], &[Upgrade, UpgradableDown]],
        [SHORT short_tenure, LONG long_tenure];
    upgrade_between_reader_and_writer: [&[Read], &[Upgrade], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    upgrade_between_readers: [&[Read], &[Upgrade], &[Read]],
        [SHORT short_tenure];
    upgradable_between_reader_and_upgrade: [&[Read], &[Upgradable], &[Upgrade]],
        [SHORT short_tenure, LONG long_tenure];
    upgrade_beside_recursive_reader: [&[Upgrade], &[ReadRecursive, ReadRecursive]],
        [SHORT short_tenure];
    timed_out_upgrade_beside_reader: [&[UpgradeUntil, Write], &[Read, UpgradableUntil]],
        [SHORT short_tenure, LONG long_tenure];
    timed_out_upgrade_between_reader_and_writer: [&[Read], &[UpgradeUntil], &[Write]],
        [SHORT short_tenure];
    timed_out_upgradable: [&[Write], &[UpgradableUntil], &[Upgrade]],
        [SHORT short_tenure];
    cancelled_upgrade: [&[Read, Cancel], &[UpgradeCancellable]],
        [SHORT short_tenure, LONG long_tenure];
    // The reader may still be inside: then the upgrader is counted again.
    cancelled_upgrade_beside_reader: [&[Read], &[Cancel], &[UpgradeCancellable]],
        [SHORT short_tenure];
    tried_upgrade_and_fair_release: [&[TryUpgrade, UpgradableFair], &[Read, Write]],
        [SHORT short_tenure, LONG long_tenure];

    // Waits that end without the lock, against the grant.
    rule_05_timed_out_writers: [&[WriteUntil, Write], &[WriteUntil, Write]],
        [SHORT short_tenure, LONG long_tenure];
    rule_05_timed_out_reader: [&[ReadUntil, Read], &[Write, Write]],
        [SHORT short_tenure, LONG long_tenure];
    rule_08_timed_out_reader_at_the_head: [&[Write], &[ReadUntil], &[Write]],
        [SHORT short_tenure];
    rule_14_timed_out_writer_before_reader: [&[Read], &[WriteUntil], &[Read]],
        [SHORT short_tenure];
    cancelled_writer: [&[Write, Cancel], &[WriteCancellable]],
        [SHORT short_tenure, LONG long_tenure];
    cancelled_reader: [&[Write, Cancel], &[ReadCancellable]],
        [SHORT short_tenure, LONG long_tenure];
    cancelled_writer_before_another: [&[Write, Cancel], &[WriteCancellable], &[Write]],
        [SHORT short_tenure];
    interrupted_writer: [&[Write, Write], &[WriteInterruptible, WriteInterruptible]],
        [SHORT short_tenure, LONG long_tenure];
    interrupted_reader: [&[Write, Write], &[ReadInterruptible, ReadInterruptible]],
        [SHORT short_tenure, LONG long_tenure];

    // Priorities.
    urgent_writer_between_others: [&[Write], &[Urgent, Write], &[Read]],
        [SHORT_RANKED short_tenure];
    urgent_reader_past_a_writer: [&[Read], &[Urgent, Read, TryRead], &[Write]],
        [SHORT_RANKED short_tenure];
    urgent_writer_that_times_out: [&[Read], &[Urgent, WriteUntil], &[Write]],
        [SHORT_RANKED short_tenure];
}

// Tried to the end, where those above are not: two threads under tenure, and
// three with one preemption.
models! {
    whole;
    whole_two_writers: [&[Write], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_writer_and_reader: [&[Write], &[Read]],
        [SHORT short_tenure];
    whole_reader_twice_and_writer: [&[Read, Read], &[Write]],
        [SHORT short_tenure];
    whole_recursive_reader_and_writer: [&[ReadRecursive], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_urgent_writer_and_reader: [&[Urgent, Write], &[Read]],
        [SHORT_RANKED short_tenure];
    whole_urgent_reader_and_writer: [&[Urgent, Read, TryRead], &[Write]],
        [SHORT_RANKED short_tenure];
    whole_try_read_and_writer: [&[TryRead, Write], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_fair_writer_and_writer: [&[WriteFair], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_fair_writer_and_reader: [&[WriteFair], &[Read]],
        [SHORT short_tenure];
    whole_fair_reader_and_writer: [&[ReadFair], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_downgrade_and_reader: [&[Downgrade], &[Read]],
        [SHORT short_tenure];
    whole_downgrade_and_writer: [&[Downgrade], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_upgrade_and_reader: [&[Upgrade], &[Read]],
        [SHORT short_tenure, LONG long_tenure];
    whole_upgrade_and_writer: [&[Upgrade], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_upgrades: [&[Upgrade], &[Upgrade]],
        [SHORT short_tenure, LONG long_tenure];
    whole_upgrade_and_upgradable: [&[Upgrade], &[UpgradableDown]],
        [SHORT short_tenure, LONG long_tenure];
    whole_timed_out_upgrade_and_reader: [&[UpgradeUntil], &[Read]],
        [SHORT short_tenure, LONG long_tenure];
    whole_upgrade_between_reader_and_writer: [&[Read], &[Upgrade], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_timed_out_writer_and_writer: [&[WriteUntil], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_timed_out_writers: [&[WriteUntil], &[WriteUntil]],
        [SHORT short_tenure, LONG long_tenure];
    whole_timed_out_writer_and_reader: [&[WriteUntil], &[Read]],
        [SHORT short_tenure];
    whole_timed_out_reader_and_writer: [&[ReadUntil], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_interrupted_writer: [&[WriteInterruptible], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_interrupted_reader: [&[ReadInterruptible], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_three_writers: [&[Write], &[Write], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_writer_between_readers: [&[Read], &[Write], &[Read]],
        [SHORT short_tenure, LONG long_tenure];
    whole_reader_between_writers: [&[Write], &[Read], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_downgrade_between_reader_and_writer: [&[Read], &[Downgrade], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_timed_out_reader_at_the_head: [&[Write], &[ReadUntil], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_timed_out_writer_before_reader: [&[Read], &[WriteUntil], &[Read]],
        [SHORT short_tenure, LONG long_tenure];
    whole_cancelled_writer_before_another: [&[Write, Cancel], &[WriteCancellable], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
    whole_try_read_beside_writers: [&[Write], &[TryRead], &[Write]],
        [SHORT short_tenure, LONG long_tenure];
}

models! {
    whole_with_one_less;
    longer_writer_and_reader: [&[Write], &[Read]], [LONG long_tenure];
    longer_fair_writer_and_reader: [&[WriteFair], &[Read]], [LONG long_tenure];
    longer_downgrade_and_reader: [&[Downgrade], &[Read]], [LONG long_tenure];
    longer_timed_out_writer_and_reader: [&[WriteUntil], &[Read]], [LONG long_tenure];
}

impl RawRwLock<Loom> {
    /// Has loom check that every access so far happens before this one.
    fn access_mut(&mut self) {
        self.words_mut().access_mut();
    }
}

/// Takes the lock with so many writers, of which the last one takes it apart as soon as it has
/// released it: loom reports an access of another writer that does not come before that.
fn free_at_once(policy: Policy, visit: Visit, writers: u32) {
    enough().check(move || {
        let write = move |lock: *mut Guarded| {
            // SAFETY: the last writer takes it apart, and nobody comes twice.
            let shared = unsafe { &*lock };
            shared.lock.write();
            // SAFETY: the lock is held.
            let last = shared.value.with_mut(|value| unsafe {
                *value += 1;
                *value == writers
            });
            // SAFETY: the lock is held.
            unsafe {
                match visit {
                    WriteFair => shared.lock.unlock_write_fair(),
                    _ => shared.lock.unlock_write(),
                }
            }
            if last {
                // SAFETY: the others have had their turns.
                unsafe { (*lock).lock.access_mut() };
            }
        };
        let lock = Box::into_raw(Box::new(Guarded::new(policy)));
        let others: Vec<_> = (1..writers)
            .map(|_| {
                let address = lock as usize;
                thread::spawn(move || write(address as *mut Guarded))
            })
            .collect();
        write(lock);
        others.into_iter().for_each(|other| other.join().unwrap());
        // SAFETY: all are done with it.
        drop(unsafe { Box::from_raw(lock) });
    });
}

#[test]
fn nothing_touches_the_lock_after_its_last_writer_has_released_it() {
    for policy in [SHORT, LONG] {
        for visit in [Write, WriteFair] {
            free_at_once(policy, visit, 2);
            free_at_once(policy, visit, 3);
        }
    }
}

/// A reader that may not stay is done with the lock when it has taken its count back: the thread that has the lock next may
/// free it.
#[test]
fn a_count_that_was_taken_back_comes_before_the_next_holder() {
    Builder::new().check(move || {
        let guarded = Box::into_raw(Box::new(Guarded::new(LONG)));
        let (address, has_left) = (guarded as usize, Arc::new(AtomicU32::new(0)));
        let reader = {
            let has_left = has_left.clone();
            thread::spawn(move || {
                // SAFETY: freed below, after this thread has ended.
                let lock = unsafe { &(*(address as *const Guarded)).lock };
                lock.words().enter(Access::Shared, Ordering::Acquire);
                lock.leave(Access::Shared);
                has_left.store(1, Ordering::Relaxed);
            })
        };
        // SAFETY: the reader does not come again.
        if has_left.load(Ordering::Relaxed) == 1 && unsafe { (*guarded).lock.try_write() } {
            // SAFETY: nobody else is there.
            unsafe { (*guarded).lock.access_mut() };
        }
        reader.join().unwrap();
        // SAFETY: from a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(guarded) });
    });
}

/// Nor for a moment: readers that come and give up again and again would hide a free lock from a writer.
#[test]
fn a_reader_that_gives_up_is_never_counted() {
    for deadline in [0, DEADLINE] {
        enough().check(move || {
            let guarded = Arc::new(Guarded::new(SHORT));
            guarded.lock.write();
            let reader = {
                let guarded = guarded.clone();
                thread::spawn(move || guarded.lock.read_with(Wait::until_nanos(deadline)))
            };
            assert_eq!(guarded.lock.words().load().readers(), 0);
            assert_eq!(reader.join().unwrap(), Err(WaitError::TimedOut));
            // SAFETY: written above.
            unsafe { guarded.lock.unlock_write() };
        });
    }
}

//! A mutex that may be copied, whose slot is taken away while threads use it, in every interleaving of two or three threads,
//! with every value the memory model lets them read. See `mutex_loom`.

use super::stray_test::Stray;
use super::{PooledPlatform, RawMutex};
use crate::fault::Fault;
use crate::models::{self, Scene, enough, models};
use crate::wait::Wait;

type Guarded = models::Guarded<RawMutex<Stray>>;

/// Two locks, which share a pool.
struct Both([Guarded; 2]);

/// What a thread does once, at the first lock.
#[derive(Clone, Copy)]
enum Visit {
    Lock,
    TryLock,
    LockUntil,
    /// Knows the lock, as a thread that finds it taken does.
    Know,
    /// At the second lock, which has a slot from there on.
    KnowOther,
    LockOther,
    /// Takes the slots away from locks at which nobody waits.
    Sweep,
}
use Visit::*;

impl Scene for Both {
    type Visit = Visit;

    /// Returns how often the first value was changed.
    fn visit(&self, visit: Visit) -> u32 {
        let [guarded, other] = &self.0;
        match visit {
            Lock => {
                guarded.lock.lock();
                guarded.section(true)
            }
            TryLock => guarded.section(guarded.lock.try_lock()),
            LockUntil => {
                guarded.section(guarded.lock.lock_with(Wait::until_nanos(100_000)).is_ok())
            }
            Know => {
                guarded.lock.lock();
                guarded.lock.know_of_waiters();
                guarded.section(true)
            }
            KnowOther => {
                other.lock.know_of_waiters();
                0
            }
            LockOther => {
                other.lock.lock();
                other.section(true);
                0
            }
            Sweep => {
                // A slot that was used is left at the first look.
                (0..2).for_each(|_| Stray::slots().sweep());
                0
            }
        }
    }

    fn check(&self, changed: u32) {
        for guarded in &self.0 {
            let lock = &guarded.lock;
            assert!(!lock.is_contended() && !lock.is_locked());
            // An acquisition in which nobody waits forgets the name, whether it is stray or not.
            lock.lock();
            // SAFETY: just taken.
            unsafe { lock.unlock() };
            assert!(!lock.has_slot());
        }
        assert_eq!(self.0[0].seen(), changed);
    }
}

fn check(fault: Option<Fault>, threads: &'static [&'static [Visit]]) {
    let guarded = || Guarded::new(RawMutex::new());
    let both = move || {
        // As many as are used, and before any thread looks at them: that a slot was made, a thread sees by a hint.
        let slots = [(); 3].map(|()| Stray::slots().take());
        slots.into_iter().flatten().for_each(|slot| Stray::slots().give(slot.lock()));
        Both([guarded(), guarded()])
    };
    models::check(&enough(), fault, both, threads);
}

models! {
    check;
    a_slot_is_taken_away_beside_a_holder: [&[Know, Lock], &[Sweep]];
    a_slot_is_taken_away_beside_two: [&[Know, Lock], &[Lock], &[Sweep]];
    a_slot_is_taken_away_beside_attempts: [&[Know, TryLock], &[TryLock, Lock], &[Sweep]];
    a_slot_is_taken_away_beside_a_wait_that_times_out: [&[Know, Lock], &[LockUntil], &[Sweep]];
    a_slot_that_is_taken_away_is_used_by_another_lock: [&[Know, Lock], &[Sweep, KnowOther, LockOther]];
    a_slot_that_is_taken_away_is_another_s_beside_a_waiter:
        [&[Know, Lock], &[Sweep, KnowOther, LockOther], &[Lock]];
    a_slot_that_was_taken_away_comes_back: [&[Know, Sweep, KnowOther, Lock], &[Lock], &[Sweep]];
}

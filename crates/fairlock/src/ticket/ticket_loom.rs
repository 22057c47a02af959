//! Every interleaving of two or three threads, with every value the memory
//! model lets them read:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib ticket_loom`

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::batch::{Step, sealed};
use super::word::Word;
use super::{Adaptive, BatchSize, Fixed, TicketLock};
#[cfg(fairlock_faults)]
use crate::models::controls;
use crate::platform::loom::Loom;

/// A lock and what it guards: loom reports two threads inside at once, and a
/// section that does not see the one before.
pub(super) struct Guarded<S: BatchSize> {
    pub(super) lock: TicketLock<Loom, S>,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is touched under `lock` only (loom checks that).
unsafe impl<S: BatchSize> Sync for Guarded<S> {}
// SAFETY: as above.
unsafe impl<S: BatchSize> Send for Guarded<S> {}

impl<S: BatchSize> Guarded<S> {
    pub(super) fn new(served: u32) -> Arc<Self> {
        Arc::new(Self { lock: TicketLock::after(served), value: UnsafeCell::new(0) })
    }

    pub(super) fn add(&self) {
        self.lock.lock();
        self.add_held();
    }

    fn try_add(&self) -> u32 {
        let taken = self.lock.try_lock();
        if taken {
            self.add_held();
        }
        u32::from(taken)
    }

    pub(super) fn add_held(&self) {
        // SAFETY: the lock is held.
        self.value.with_mut(|value| unsafe { *value += 1 });
        // SAFETY: the lock is held.
        unsafe { self.lock.unlock() };
    }

    pub(super) fn check(&self, sections: u32) {
        assert!(!self.lock.is_locked() && !self.lock.is_contended());
        // SAFETY: the other threads have ended.
        assert_eq!(self.value.with(|value| unsafe { *value }), sections);
    }
}

/// `others` threads and this one, each with `times` sections; a lost wake-up is a deadlock, which
/// loom reports.
fn contend<S: BatchSize>(others: usize, times: usize, served: u32) {
    loom::model(move || {
        let lock = Guarded::<S>::new(served);
        let threads: Vec<_> = (0..others)
            .map(|_| {
                let lock = lock.clone();
                loom::thread::spawn(move || (0..times).for_each(|_| lock.add()))
            })
            .collect();
        (0..times).for_each(|_| lock.add());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        lock.check(((others + 1) * times) as u32);
    });
}

#[test]
fn two_threads_park_and_kick_in_order() {
    contend::<Fixed<1>>(1, 2, 0);
}

#[test]
fn two_threads_park_and_kick_in_a_batch() {
    contend::<Fixed<4>>(1, 2, 0);
}

#[test]
fn three_threads_park_and_kick_in_order() {
    contend::<Fixed<1>>(2, 1, 0);
}

#[test]
fn three_threads_share_batches_of_two() {
    contend::<Fixed<2>>(2, 1, 0);
}

#[test]
fn three_threads_share_an_adaptive_batch() {
    contend::<Adaptive<4>>(2, 1, 0);
}

/// As the queue locks in models of what has one.
#[test]
fn two_threads_in_a_lock_without_solo_holders() {
    contend::<Fixed<8>>(1, 1, 0);
}

/// Tickets from the start, so that nobody holds the lock solo at first.
#[test]
fn three_threads_park_and_kick_with_tickets_only() {
    contend::<Fixed<1>>(2, 1, 2);
    contend::<Adaptive<4>>(2, 1, 2);
}

/// Batches that close at once, and may be reopened.
#[derive(Debug)]
struct Reopened;

/// Whether a batch was reopened.
static WAS_REOPENED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

impl sealed::Sealed for Reopened {}

impl BatchSize for Reopened {
    const MAX: u32 = 4;
    const LONG: bool = true;
    /// Where the batch began, once known: a model may begin with tickets already served.
    type Pace = Option<u32>;
    const START: Option<u32> = None;

    fn pace(first: &mut Option<u32>, word: u64, _now: impl Fn() -> u64) -> Step {
        let word = Word(word);
        if !word.is_serving() {
            *first = Some(0);
        }
        first.get_or_insert(word.head());
        let tickets = Self::spent(first, word.0) + word.left(Self::MAX);
        assert!(tickets <= Self::MAX, "a batch is too large");
        if word.left(Self::MAX) > 1 {
            return Step::Close;
        }
        *first = Some(word.released().head());
        Step::Next(1)
    }

    fn spent(first: &Option<u32>, word: u64) -> u32 {
        first.map_or(0, |first| Word(word).head_since(first))
    }

    fn reopen(_first: &mut Option<u32>, _ns: u64, _now: impl Fn() -> u64) -> u32 {
        WAS_REOPENED.store(true, core::sync::atomic::Ordering::Relaxed);
        1
    }
}

/// Waiters of the next batch do not wait for stragglers.
#[test]
fn three_threads_reopen_a_batch() {
    for served in [0, 2] {
        contend::<Reopened>(2, 1, served);
    }
    assert!(WAS_REOPENED.load(core::sync::atomic::Ordering::Relaxed));
}

#[test]
fn head_and_tail_wrap_around() {
    contend::<Fixed<1>>(1, 2, u32::MAX);
    contend::<Fixed<2>>(2, 1, u32::MAX - 1);
}

#[test]
fn try_lock_against_lock() {
    loom::model(|| {
        let lock = Guarded::<Fixed<2>>::new(0);
        let other = {
            let lock = lock.clone();
            loom::thread::spawn(move || {
                lock.add();
                lock.try_add()
            })
        };
        let here = lock.try_add();
        lock.add();
        let there = other.join().unwrap();
        lock.check(2 + here + there);
    });
}

/// The last owner takes the lock apart as soon as it has released it: loom reports an access of the
/// other thread that does not come before that.
fn free_at_once<S: BatchSize>(served: u32) {
    fn use_once<S: BatchSize>(lock: *mut Guarded<S>) {
        // SAFETY: the last thread frees it, and nobody comes twice.
        let shared = unsafe { &*lock };
        shared.lock.lock();
        // SAFETY: the lock is held.
        let last = shared.value.with_mut(|value| unsafe {
            *value += 1;
            *value == 2
        });
        // SAFETY: the lock is held.
        unsafe { shared.lock.unlock() };
        if last {
            // SAFETY: the other thread has had its turn.
            unsafe { (*lock).lock.access_mut() };
        }
    }
    loom::model(move || {
        let guarded = Guarded::<S> { lock: TicketLock::after(served), value: UnsafeCell::new(0) };
        let lock = Box::into_raw(Box::new(guarded));
        let address = lock as usize;
        let other = loom::thread::spawn(move || use_once(address as *mut Guarded<S>));
        use_once(lock);
        other.join().unwrap();
        // SAFETY: both threads are done with it.
        drop(unsafe { Box::from_raw(lock) });
    });
}

#[test]
fn nothing_touches_the_lock_after_its_last_release() {
    for served in [0, 2] {
        free_at_once::<Fixed<1>>(served);
        free_at_once::<Fixed<2>>(served);
    }
}

#[cfg(fairlock_faults)]
controls! {
    broken_parks_blindly: "deadlock";
    broken_looks_too_early: "deadlock";
    broken_touches_released: "ausality violation";
    broken_enters_blindly: "oncurrent";
    broken_overtakes_solo: "oncurrent";
}

#[cfg(fairlock_faults)]
mod broken {
    use super::*;
    use crate::fault::{Fault, with_fault};

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_parks_blindly() {
        with_fault(Some(Fault::ParksBlindly), || contend::<Fixed<1>>(1, 1, 2));
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_looks_too_early() {
        with_fault(Some(Fault::CollectsTooEarly), || contend::<Fixed<1>>(2, 1, 2));
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_touches_released() {
        with_fault(Some(Fault::TouchesReleased), || free_at_once::<Fixed<1>>(2));
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_enters_blindly() {
        // One section beside two: a second section of the other thread would hide the fault, since
        // the lock is then taken from that one.
        let model = || {
            let lock = Guarded::<Fixed<1>>::new(0);
            let other = {
                let lock = lock.clone();
                loom::thread::spawn(move || lock.add())
            };
            lock.add();
            lock.add();
            other.join().unwrap();
        };
        with_fault(Some(Fault::EntersBlindly), || loom::model(model));
    }

    #[test]
    #[ignore = "fails: a negative control"]
    fn broken_overtakes_solo() {
        with_fault(Some(Fault::OvertakesSolo), || contend::<Fixed<1>>(1, 1, 0));
    }
}

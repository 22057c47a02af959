//! What a lock shows to threads that leave a range: the state of the waiters that may be overtaken.
//!
//! `Shown::patient` is one of:
//!
//! | shown | meaning | set by |
//! |---|---|---|
//! | `NOBODY` | nobody may be overtaken | a holder of the tree lock |
//! | `ASLEEP` | all such waiters are asleep, or about to be: a thread that leaves a range wakes them | a holder of the tree lock |
//! | `AWAKE` | some are awake | a holder of the tree lock |
//! | above, up to `BUSY` | the same, and that many ranges were left since the last look | the thread that leaves a range adds one |
//!
//! How those values come about, and why nobody sleeps at a free range, is in `patient`.

use core::sync::atomic::Ordering;

use crate::platform::{Atomic, ConstZero, PooledPlatform};

pub(in crate::range) const NOBODY: u32 = 0;
pub(in crate::range) const ASLEEP: u32 = 1;
pub(in crate::range) const AWAKE: u32 = 2;
/// Up to here ranges that were left since the last look are counted.
pub(in crate::range) const BUSY: u32 = AWAKE + 8;

/// What those that may be overtaken show to whoever leaves a range.
pub(in crate::range) struct Shown<P: PooledPlatform> {
    /// When one of them last looked.
    pub(super) looked: P::AtomicU64,
    /// How things stand with them: see the table above,
    pub(in crate::range) patient: P::AtomicU32,
    /// and which slots they sleep for. The thread that leaves a slot looks here. It is not in the state
    /// word, which threads guess: it would never be what they expect.
    pub(super) watched: P::AtomicU32,
}

impl<P: PooledPlatform> Shown<P> {
    pub(in crate::range) fn new() -> Self {
        let zero = || P::AtomicU32::new(0);
        Self { looked: P::AtomicU64::new(0), patient: zero(), watched: zero() }
    }

    pub(in crate::range) const fn new_const() -> Self
    where
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
    {
        Self { looked: ConstZero::ZERO, patient: ConstZero::ZERO, watched: ConstZero::ZERO }
    }

    /// Whether threads wait that may be overtaken.
    pub(in crate::range) fn has_patient(&self) -> bool {
        // Relaxed: a hint.
        self.patient.load(Ordering::Relaxed) != NOBODY
    }

    /// Whether somebody sleeps for this slot of the lock itself. To be asked after the slot was
    /// left.
    #[inline(always)]
    pub(in crate::range) fn is_watched(&self, slot: usize) -> bool {
        self.watched() & (1 << slot) != 0
    }

    /// The slots of the lock itself that are watched.
    pub(in crate::range) fn watched(&self) -> u32 {
        // Relaxed: changed under the tree lock; for looks without it, see `patient`.
        self.watched.load(Ordering::Relaxed)
    }

    pub(super) fn show_watched(&self, watched: u32) {
        if self.watched() != watched {
            // Relaxed: see `patient`.
            self.watched.store(watched, Ordering::Relaxed);
        }
    }

    /// Under the tree lock: notes a look at those that may be overtaken. Returns how long after the
    /// last.
    pub(super) fn note_look(&self, now: u64) -> u64 {
        // Relaxed: guarded by the lock, or a guess.
        let before = self.looked.load(Ordering::Relaxed);
        self.looked.store(now, Ordering::Relaxed);
        now.saturating_sub(before)
    }

    /// Under the tree lock: shows how things stand, where `last` says what was shown last.
    pub(super) fn show(&self, last: &mut u32, shown: u32) {
        *last = shown;
        // Relaxed: see `patient`.
        self.patient.store(shown, Ordering::Relaxed);
    }
}

//! What a lock shows to whoever leaves a range, of those that may be overtaken.
//!
//! `Shown::patient` is how things stand with them:
//!
//! | shown | meaning | set by |
//! |---|---|---|
//! | `NOBODY` | nobody may be overtaken | a holder of the tree lock |
//! | `ASLEEP` | all that may be are asleep, or about to be: who leaves a range wakes | a holder of the tree lock |
//! | `AWAKE` | some are awake | a holder of the tree lock |
//! | more, to `BUSY` | the same, and so many ranges were left since the last look | whoever leaves a range, one more |
//!
//! How those values come about, and why nobody sleeps at a free range, is in `patient`.

use core::sync::atomic::Ordering;

use crate::platform::{Atomic, ConstZero, Platform};

pub(in crate::range) const NOBODY: u32 = 0;
pub(in crate::range) const ASLEEP: u32 = 1;
pub(in crate::range) const AWAKE: u32 = 2;
/// Ranges that were left since the last look are counted so far.
pub(in crate::range) const BUSY: u32 = AWAKE + 8;

/// What those that may be overtaken show to whoever leaves a range.
pub(in crate::range) struct Shown<P: Platform> {
    /// When one of them last looked.
    pub(super) looked: P::AtomicU64,
    /// How things stand with them,
    pub(in crate::range) patient: P::AtomicU32,
    /// and which slots they sleep for: whoever leaves a slot looks here, so it is not in
    /// the word, which would never be what they guess.
    pub(super) watched: P::AtomicU32,
}

impl<P: Platform> Shown<P> {
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
}

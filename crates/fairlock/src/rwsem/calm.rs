//! How often a lock of a pool was free of late.

use core::sync::atomic::{AtomicU32, Ordering};

/// A lock is calm when its count reaches this: one up for each acquisition that found it free,
/// [`CONFLICT`] down for each that did not. So many uncontended acquisitions save, in a thin lock,
/// what it costs to inflate it again. In acquisitions; compared with those that found the lock
/// free.
const CALM: u32 = if cfg!(fairlock_loom) { 1 } else { 32 };
/// A lock becomes thin only if less than one in so many of its acquisitions finds it taken. In
/// acquisitions; compared, as so many that found it free, with one that did not.
const CONFLICT: u32 = 4;

/// How often the lock was found free of late. Whoever has it counts; readers may overwrite each other's
/// counts.
///
/// The count is in the lock, in the cache line of the word that each acquisition writes. A count of
/// each thread, over all its locks, would cost no store to that line. But where a few of many locks
/// have a queue, threads find those as often as the others, and no lock would ever become thin.
#[doc(hidden)]
pub struct Calm(AtomicU32);

impl Calm {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// A thread has found the lock free, or not.
    #[inline(always)]
    pub(crate) fn note(&self, found_free: bool) {
        let before = self.0.load(Ordering::Relaxed);
        let now = if found_free { CALM.min(before + 1) } else { before.saturating_sub(CONFLICT) };
        if now != before {
            self.0.store(now, Ordering::Relaxed);
        }
    }

    /// Whether the lock was found free often enough to become thin.
    #[inline(always)]
    pub(crate) fn is_enough(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= CALM
    }

    /// Counting begins anew.
    #[inline(always)]
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

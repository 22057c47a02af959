//! How often an inflated lock was found free of late: if that was often enough, it becomes thin.
//!
//! The count is in the lock, in the cache line of the word that each acquisition writes. A count of
//! each thread, over all its locks, would cost no store to that line. But where a few of many locks
//! have a queue, threads find those as often as the others, and no lock would ever become thin.

use core::sync::atomic::{AtomicU32, Ordering};

use super::pool::{self, Full};
use super::slot::Slot;
use crate::platform::Platform;

/// A lock is calm when its count reaches this: one up for each acquisition that found it free,
/// [`CONFLICT`] down for each that did not. So many uncontended acquisitions save, in a thin lock,
/// what it costs to inflate it again. In acquisitions; compared with those that found the lock
/// free.
const CALM: u32 = if cfg!(fairlock_loom) { 1 } else { 32 };
/// A lock becomes thin only if less than one in so many of its acquisitions finds it taken. In
/// acquisitions; compared, as so many that found it free, with one that did not.
const CONFLICT: u32 = 4;
/// A lock whose slot has this name or a later one is calm at once: slots should not be many.
const MANY: u32 = pool::name(1 << 10);

/// How calm a full lock is. Whoever has the lock counts; readers may overwrite each other's counts.
#[doc(hidden)]
pub struct Calm(AtomicU32);

impl Calm {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl<P: Platform, F: Full> Slot<P, F> {
    /// The calling thread has the full lock, which it found free or not; or is about to wait for
    /// it.
    #[inline(always)]
    pub(super) fn note(&self, found_free: bool) {
        let Calm(count) = self.full.calm();
        let before = count.load(Ordering::Relaxed);
        let now = if found_free { CALM.min(before + 1) } else { before.saturating_sub(CONFLICT) };
        if now != before {
            count.store(now, Ordering::Relaxed);
        }
    }

    /// Whether the thread that leaves the lock should make it thin; then counting begins anew.
    /// `name` is the slot's: the caller has it at hand, and the slot's own is in a line that
    /// pinning writes.
    #[inline(always)]
    pub(super) fn is_calm(&self, name: u32) -> bool {
        let is_calm = self.seems_calm(name);
        if is_calm {
            let Calm(count) = self.full.calm();
            count.store(0, Ordering::Relaxed);
        }
        is_calm
    }

    /// As [`is_calm`](Self::is_calm), and nothing begins anew.
    #[inline(always)]
    pub(super) fn seems_calm(&self, name: u32) -> bool {
        let Calm(count) = self.full.calm();
        name >= MANY || count.load(Ordering::Relaxed) >= CALM
    }
}

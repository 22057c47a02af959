//! Whether an inflated lock becomes thin: it does once it was found free often enough of late.

use super::pool::Full;
use super::slot::{self, Slot};
use crate::platform::Platform;

/// A lock whose slot has this name or a later one is calm at once: slots should not be many.
const MANY: u32 = slot::name(1 << 10);

impl<P: Platform, F: Full> Slot<P, F> {
    /// The calling thread has the full lock, which it found free or not; or is about to wait for
    /// it.
    #[inline(always)]
    pub(super) fn note(&self, found_free: bool) {
        self.full.calm().note(found_free);
    }

    /// Whether the thread that leaves the lock should make it thin; then counting begins anew.
    /// `name` is the slot's: the caller has it at hand, and the slot's own is in a line that
    /// pinning writes.
    #[inline(always)]
    pub(super) fn is_calm(&self, name: u32) -> bool {
        let is_calm = self.seems_calm(name);
        if is_calm {
            self.full.calm().reset();
        }
        is_calm
    }

    /// As [`is_calm`](Self::is_calm), and nothing begins anew.
    #[inline(always)]
    pub(super) fn seems_calm(&self, name: u32) -> bool {
        name >= MANY || self.full.calm().is_enough()
    }
}

//! Whether statistics are on.

use core::sync::atomic::{AtomicBool, Ordering};

static COLLECTS: AtomicBool = AtomicBool::new(true);

/// Switches the statistics of all named locks on or off. On at first. While they are off nothing is
/// counted, and an acquisition costs one load and a branch more than that of a lock without a name.
pub fn set_collecting(on: bool) {
    // Relaxed, here and below: a count that comes too early or too late by an instant is none the
    // worse.
    COLLECTS.store(on, Ordering::Relaxed);
}

/// Whether there is to be anything counted.
#[inline]
pub(super) fn is_collecting() -> bool {
    COLLECTS.load(Ordering::Relaxed)
}

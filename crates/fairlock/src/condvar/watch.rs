//! Whether a thread that waits for a notification should stay awake for a moment.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use crate::system::{Atomic, System};
use crate::wait::{Habit, MISSED_NS, SOON_NS, WAKE_NS, WaitContext, give_way};

/// How many yields the thread skips after one that took [`MISSED_NS`]: it gave the CPU to a thread that was not about to notify. In yields; compared with those left out since.
const KEEPS: u32 = 15;

/// What a thread remembers of its last waits, for whichever condition variables.
pub(crate) struct Watch {
    spins: Habit,
    pub(crate) yields: Habit,
    /// How many times more the thread keeps its CPU, as others have kept it for long.
    keeps: Cell<u32>,
}

impl Watch {
    pub(crate) const fn new() -> Self {
        Self { spins: Habit::new(), yields: Habit::new(), keeps: Cell::new(0) }
    }

    /// Another thread has the record.
    #[cfg(all(feature = "std", not(fairlock_loom)))]
    pub(crate) fn forget(&self) {
        [&self.spins, &self.yields].into_iter().for_each(|habit| habit.ended(true));
        self.keeps.set(0);
    }

    /// Waits, awake, until `word` is `woken` or the deadline has passed: spins for as long as it
    /// costs to sleep and be woken, unless spinning has lately been in vain; then, if the thread `yields`, yields for at most
    /// [`WAKE_NS`].
    pub(crate) fn stay_awake<P: System>(
        &self,
        word: &P::AtomicU32,
        woken: u32,
        until: &WaitContext<'_, P>,
        yields: impl FnOnce() -> bool,
    ) {
        // Loom's clock stands still.
        if !cfg!(fairlock_loom) && P::cpus() > 1 && self.spins.begins() {
            let came = until.spin(word, 2 * SOON_NS, |now| now == woken);
            self.spins.ended(came);
            if came {
                return;
            }
        }
        if yields() {
            // Relaxed: the caller looks again.
            let is_woken = || word.load(Ordering::Relaxed) == woken;
            self.yields.ended(self.give_way(until, WAKE_NS, is_woken));
        }
    }

    /// Gives way again and again until `done`, for `bound_ns` and until the deadline at most; returns whether it is done.
    /// Ends early where others want the CPU for longer than a notification takes.
    pub(super) fn give_way<P: System>(
        &self,
        until: &WaitContext<'_, P>,
        bound_ns: u64,
        mut done: impl FnMut() -> bool,
    ) -> bool {
        let end = P::now().saturating_add(bound_ns).min(until.deadline.unwrap_or(u64::MAX));
        loop {
            if done() {
                return true;
            }
            // Loom takes a yield for a promise that somebody else must run, and its clock stands
            // still.
            if cfg!(fairlock_loom) || P::now() >= end || !self.may_give_way() {
                return false;
            }
            self.gave_way(give_way::<P>());
        }
    }

    /// Whether to give the CPU away: not for [`KEEPS`] times after it came back late.
    fn may_give_way(&self) -> bool {
        let keeps = self.keeps.get();
        self.keeps.set(keeps.saturating_sub(1));
        keeps == 0
    }

    /// The thread gave its CPU away, and had it back after `ns`.
    fn gave_way(&self, ns: u64) {
        if ns >= MISSED_NS {
            self.keeps.set(KEEPS);
        }
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_came_back_late_is_kept_for_a_while() {
        let watch = Watch::new();
        watch.gave_way(MISSED_NS - 1);
        assert!(watch.may_give_way());
        watch.gave_way(MISSED_NS);
        assert!((0..KEEPS).all(|_| !watch.may_give_way()));
        assert!(watch.may_give_way());
    }
}

//! Whether a thread that waits for a notification should stay awake for a moment.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use crate::system::{Atomic, System};
use crate::wait::{MOST_DOUBLINGS, SOON_NS, WAKE_NS, WaitContext, give_way};

/// A yield that took this long gave the CPU to a thread that was not about to notify. In ns;
/// compared with how long one yield took.
const LONG_YIELD_NS: u64 = 1_000_000;
/// How many yields the thread skips after that. In yields; compared with those left out since.
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
        if ns >= LONG_YIELD_NS {
            self.keeps.set(KEEPS);
        }
    }
}

/// A way to stay awake, and whether it has lately been worth it.
pub(crate) struct Habit {
    /// Grows with each wait in which the thread stayed awake in vain; in half as many it then does
    /// not.
    skips: Cell<u32>,
    /// How many are left of those.
    left: Cell<u32>,
}

impl Habit {
    const fn new() -> Self {
        Self { skips: Cell::new(0), left: Cell::new(0) }
    }

    /// A wait begins: whether to stay awake at first.
    pub(crate) fn begins(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left == 0
    }

    /// The thread stayed awake; `came` says whether the notification came.
    pub(crate) fn ended(&self, came: bool) {
        let skips =
            if came { 0 } else { (2 * self.skips.get() + 1).min((2 << MOST_DOUBLINGS) - 1) };
        self.skips.set(skips);
        // The first time in vain may be chance.
        self.left.set(skips / 2);
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_came_back_late_is_kept_for_a_while() {
        let watch = Watch::new();
        watch.gave_way(LONG_YIELD_NS - 1);
        assert!(watch.may_give_way());
        watch.gave_way(LONG_YIELD_NS);
        assert!((0..KEEPS).all(|_| !watch.may_give_way()));
        assert!(watch.may_give_way());
    }

    fn watched(habit: &Habit, waits: usize, came: bool) -> usize {
        (0..waits)
            .filter(|_| {
                let watched = habit.begins();
                if watched {
                    habit.ended(came);
                }
                watched
            })
            .count()
    }

    #[test]
    fn waits_are_watched_as_long_as_that_pays() {
        let habit = Habit::new();
        assert_eq!(watched(&habit, 100, true), 100);
        assert!(watched(&habit, 1_000, false) < 50);
        // Staying awake pays again: this is noticed within so many waits.
        watched(&habit, 2 << MOST_DOUBLINGS, true);
        assert_eq!(watched(&habit, 100, true), 100);
    }

    #[test]
    fn one_in_vain_is_no_reason_to_stop() {
        let habit = Habit::new();
        watched(&habit, 1, false);
        assert!(habit.begins());
    }
}

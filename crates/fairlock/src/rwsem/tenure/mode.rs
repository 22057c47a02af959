//! Whether a busy lock is better shared or taken in turns, found by trying.
//!
//! *Shared*, whoever runs takes the lock when it is free. Several CPUs get more done that way
//! if their threads have something to do outside; if not, what the lock guards travels
//! between caches for nothing. *In turns*, only the thread whose tenure it is takes the lock
//! again and again; others take it when it has been free for a moment, or sleep. Which one
//! yields more depends on what threads do and on the machine, so the lock measures both, a
//! tenure at a time. Pure, and changed under the queue lock only.

/// How threads that are not queued share the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rwsem) enum Mode {
    Shared = 0,
    InTurns = 1,
}

/// What tenures of either mode yielded lately.
#[derive(Debug)]
pub(in crate::rwsem) struct Modes {
    mode: Mode,
    /// Acquisitions in a second, smoothed; zero if not tried yet.
    rates: [u64; 2],
    /// After so many tenures in the better mode the other one is tried,
    left: u32,
    /// and if it is still worse, after twice as many.
    interval: u32,
}

/// A tenure shorter than this says nothing.
const SHORTEST_NS: u64 = 20_000;
const INTERVAL: u32 = 16;
const LONGEST_INTERVAL: u32 = 4_096;

impl Modes {
    pub(in crate::rwsem) const fn new() -> Self {
        Self { mode: Mode::Shared, rates: [0; 2], left: 1, interval: INTERVAL }
    }

    pub(in crate::rwsem) fn mode(&self) -> Mode {
        self.mode
    }

    /// A tenure of writers has ended that lasted for `ns` and had so many acquisitions:
    /// chooses the mode of the next one.
    pub(in crate::rwsem) fn tenure_ended(&mut self, acquisitions: u64, ns: u64) {
        if ns < SHORTEST_NS {
            return;
        }
        let sample = acquisitions.saturating_mul(1_000_000_000) / ns;
        let rate = &mut self.rates[self.mode as usize];
        *rate = if *rate == 0 { sample } else { rate.saturating_mul(7).saturating_add(sample) / 8 };
        let better = self.better();
        if better != self.mode {
            let tried = self.left == 0;
            self.interval =
                if tried { (2 * self.interval).min(LONGEST_INTERVAL) } else { INTERVAL };
            self.left = self.interval;
            self.mode = better;
        } else if self.left > 0 {
            self.left -= 1;
            if self.left == 0 {
                // What is known of the other mode may be out of date.
                self.mode = self.mode.other();
                self.rates[self.mode as usize] = 0;
            }
        } else {
            // The one that was tried is better.
            self.interval = INTERVAL;
            self.left = INTERVAL;
        }
    }

    /// The mode that yields more. A fifth less is worth it where threads take turns: waits are
    /// shorter, and CPUs are left to others.
    fn better(&self) -> Mode {
        let [shared, turns] = self.rates;
        if turns.saturating_add(turns / 4) >= shared { Mode::InTurns } else { Mode::Shared }
    }
}

impl Mode {
    fn other(self) -> Self {
        match self {
            Mode::Shared => Mode::InTurns,
            Mode::InTurns => Mode::Shared,
        }
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;

    /// Tenures of 100 us at these rates: how many of `tenures` were in turns.
    fn in_turns(modes: &mut Modes, shared: u64, turns: u64, tenures: u32) -> u32 {
        (0..tenures)
            .map(|_| {
                let mode = modes.mode();
                let rate = if mode == Mode::Shared { shared } else { turns };
                modes.tenure_ended(rate / 10_000, 100_000);
                u32::from(mode == Mode::InTurns)
            })
            .sum()
    }

    #[test]
    fn the_mode_that_yields_more_is_found_and_kept() {
        let mut modes = Modes::new();
        assert!(in_turns(&mut modes, 1_000_000, 1_000_000, 2_000) > 1_980, "a saturated lock");
        assert!(in_turns(&mut modes, 2_000_000, 1_000_000, 10_000) < 4_300, "it is not any more");
        assert!(in_turns(&mut modes, 2_000_000, 1_000_000, 10_000) < 30, "and known by now");
        assert!(in_turns(&mut modes, 1_000_000, 3_000_000, 10_000) > 5_000, "nor for ever");
    }
}

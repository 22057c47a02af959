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

/// What either mode yielded lately.
#[derive(Debug)]
pub(in crate::rwsem) struct Modes {
    mode: Mode,
    /// Since when acquisitions are counted, and what the count was then.
    since: u64,
    counted: usize,
    /// What is counted for the next sample: for how long, and how many.
    ns: u32,
    acquisitions: u32,
    /// The next sample is of a mode that has just begun, and its threads still asleep.
    settles: bool,
    /// Acquisitions in a second, smoothed; zero if not tried yet.
    rates: [u32; 2],
    /// After so many samples of the better mode the other one is tried,
    left: u16,
    /// and if it is still worse, after twice as many.
    interval: u16,
}

/// A sample is over so much time: less says nothing.
const SAMPLE_NS: u32 = 250_000;
const INTERVAL: u16 = 32;
const LONGEST_INTERVAL: u16 = 1_024;
/// Turns are worth so many eighths of what they yield: waits are shorter, and CPUs are left to
/// others.
const WORTH_IN_EIGHTHS: u32 = 9;

impl Modes {
    pub(in crate::rwsem) const fn new() -> Self {
        Self {
            mode: Mode::Shared,
            since: 0,
            counted: 0,
            ns: 0,
            acquisitions: 0,
            settles: false,
            rates: [0; 2],
            left: 1,
            interval: INTERVAL,
        }
    }

    pub(in crate::rwsem) fn mode(&self) -> Mode {
        self.mode
    }

    /// Counting begins at `now`: writers have the lock and somebody waits. So many
    /// acquisitions were counted before.
    pub(in crate::rwsem) fn begin(&mut self, now: u64, count: usize) {
        self.since = now;
        self.counted = count;
    }

    /// One of the queue takes the lock at `now`, and writers had it since counting began:
    /// chooses the mode from here on.
    pub(in crate::rwsem) fn next_takes(&mut self, now: u64, count: usize) {
        self.ns = self.ns.saturating_add(at_most_u32(now.saturating_sub(self.since)));
        let acquisitions = count.wrapping_sub(self.counted);
        self.acquisitions = self.acquisitions.saturating_add(at_most_u32(acquisitions as u64));
        self.begin(now, count);
        if self.ns >= SAMPLE_NS {
            let sample = u64::from(self.acquisitions) * 1_000_000_000 / u64::from(self.ns);
            let sample = at_most_u32(sample);
            (self.ns, self.acquisitions) = (0, 0);
            if core::mem::take(&mut self.settles) {
                return;
            }
            self.sampled(sample);
        }
    }

    /// The mode yielded so many acquisitions in a second.
    fn sampled(&mut self, sample: u32) {
        let rate = &mut self.rates[self.mode as usize];
        *rate = if *rate == 0 { sample } else { *rate - *rate / 8 + sample / 8 };
        let better = self.better();
        if better != self.mode {
            let tried = self.left == 0;
            self.interval =
                if tried { (2 * self.interval).min(LONGEST_INTERVAL) } else { INTERVAL };
            self.left = self.interval;
            self.enter(better);
        } else if self.left > 0 {
            self.left -= 1;
            if self.left == 0 {
                // What is known of the other mode may be out of date.
                self.enter(self.mode.other());
                self.rates[self.mode as usize] = 0;
            }
        } else {
            // The one that was tried is better.
            self.interval = INTERVAL;
            self.left = INTERVAL;
        }
    }

    fn enter(&mut self, mode: Mode) {
        self.mode = mode;
        self.settles = true;
    }

    /// The mode that is worth more.
    fn better(&self) -> Mode {
        let [shared, turns] = self.rates;
        if (turns / 8).saturating_mul(WORTH_IN_EIGHTHS) >= shared {
            Mode::InTurns
        } else {
            Mode::Shared
        }
    }
}

fn at_most_u32(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
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

    /// Samples of these rates: how many of `samples` were in turns.
    fn in_turns(modes: &mut Modes, shared: u32, turns: u32, samples: u32) -> u32 {
        (0..samples)
            .map(|_| {
                let mode = modes.mode();
                let rate = if mode == Mode::Shared { shared } else { turns };
                modes.sampled(rate);
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

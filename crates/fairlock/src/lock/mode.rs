//! Whether a busy lock is better shared or taken in turns, found by trying.
//!
//! *Shared*: any running thread takes the lock when it is free. Several CPUs get more done that way
//! if their threads also work outside the lock; if not, the data that the lock guards moves between
//! caches for nothing. *In turns*: only the thread whose tenure it is takes the lock again and
//! again; others take it when it has been free for a moment, or sleep. Which mode yields more
//! acquisitions depends on the program and on the machine, so the lock measures both, one sample at
//! a time. Pure, and changed under the queue lock only.
//!
//! Acquisitions are counted while somebody waits, in tenures of both sides: if each thread reads
//! and writes, much of the yield of sharing comes in readers' tenures. A shared lock often has
//! waiters only because its holder has lost its CPU, so samples of these times alone would favour
//! turns. Therefore a sample includes the time without waiters, too: that time counts at the rate
//! of the best recent sample, or at a higher one if the lock was shared. A pooled lock starts with
//! the samples of the lock that had its slot before, and with up to a few milliseconds of the time
//! between them.

use crate::wait::{MOST_DOUBLINGS, WAKE_NS};

/// How threads that are not queued share the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared = 0,
    InTurns = 1,
}

/// What either mode yielded lately.
#[derive(Debug)]
pub(crate) struct Modes {
    mode: Mode,
    /// When the present count of acquisitions began; while nobody waits, when the last waiter left.
    /// Zero if not known.
    since: u64,
    /// What the count of acquisitions was when counting began.
    counted: usize,
    /// What is counted for the next sample,
    sample: Yield,
    /// and how long nobody waited meanwhile.
    empty_ns: u32,
    /// The next sample is the first of its mode, and is not counted: the mode's threads are still
    /// asleep.
    settles: bool,
    /// What each mode yielded lately; nothing if it has not been tried since the last trial began.
    yields: [Yield; 2],
    /// The rate of the best recent sample, of either mode.
    best: f32,
    /// After so many samples of the better mode the other one is tried,
    left: u16,
    /// and if it is still worse, after twice as many.
    interval: u16,
}

/// The least time with waiters in a sample: a shorter sample says nothing. In ns, a sixth of a
/// slice; compared with the time with waiters since the last sample.
pub(super) const SAMPLE_NS: u64 = 250_000;
/// How many samples lie between two trials of turns, at first; a trial that shows no gain doubles
/// the number.
const APART: u16 = 4 * FADES;
/// The yield of turns counts for this many eighths, since in turns waits are shorter, and CPUs are
/// left to others.
///
/// While nobody waits for a shared lock, it counts as taken one eighth more often. So if as much
/// gets done while somebody waits as in turns, the lock takes turns if threads wait for it for more
/// than half of the time. The less gets done while somebody waits, the less waiting it takes: a
/// tenth of the time if nothing gets done, and even less once the best sample is forgotten. In
/// eighths; compared with the yield of sharing.
const WORTH_IN_EIGHTHS: u16 = 9;

impl Modes {
    pub(crate) const fn new() -> Self {
        Self {
            mode: Mode::Shared,
            since: 0,
            counted: 0,
            sample: Yield::NONE,
            empty_ns: 0,
            settles: false,
            yields: [Yield::NONE; 2],
            best: 0.0,
            // In one sample alone the holder may have been off its CPU.
            left: FADES,
            interval: APART,
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the lock is taken less often than a sleeping thread could be woken: its sections are long, or holders sleep. Then
    /// it is of no use to watch it.
    pub(crate) fn is_slow(&self) -> bool {
        0.0 < self.best && self.best * (WAKE_NS as f32) < 1.0
    }

    /// How long so many acquisitions take at least, where the lock is slow: mostly the sections themselves. Else nothing.
    pub(crate) fn slow_ns(&self, acquisitions: usize) -> u64 {
        if self.is_slow() { (acquisitions as f32 / self.best) as u64 } else { 0 }
    }

    /// The first waiter comes at `now`. So many acquisitions were counted before.
    pub(crate) fn first_comes(&mut self, now: u64, count: usize) {
        if self.since != 0 {
            let empty_ns = u64::from(self.empty_ns).saturating_add(now.saturating_sub(self.since));
            // A longer time without waiters says little of the next busy one.
            self.empty_ns = empty_ns.min(16 * SAMPLE_NS) as u32;
        }
        self.begin(now, count);
    }

    fn begin(&mut self, now: u64, count: usize) {
        self.since = now;
        self.counted = count;
    }

    /// The last waiter gives up at `now`.
    pub(crate) fn last_gives_up(&mut self, now: u64, count: usize) {
        self.count_until(now, count);
    }

    /// One of the queue takes the lock at `now`: chooses the mode from here on.
    pub(crate) fn next_takes(&mut self, now: u64, count: usize) {
        self.count_until(now, count);
        if self.sample.ns() < SAMPLE_NS as f32 {
            return;
        }
        let sample = core::mem::replace(&mut self.sample, Yield::NONE);
        let empty_ns = core::mem::take(&mut self.empty_ns);
        if !core::mem::take(&mut self.settles) {
            self.sampled(sample, empty_ns);
        }
    }

    fn count_until(&mut self, now: u64, count: usize) {
        // A thread that lost its CPU between loading and storing the count sets it back.
        let acquisitions = (count.wrapping_sub(self.counted) as isize).max(0) as u64;
        self.sample.add(Yield::new(acquisitions, now.saturating_sub(self.since)));
        self.begin(now, count);
    }

    fn sampled(&mut self, mut sample: Yield, empty_ns: u32) {
        // The best rate lasts for about two intervals.
        let lasts = f32::from(2 * APART);
        self.best = sample.rate().max(self.best * (1.0 - 1.0 / lasts));
        let worth = if self.mode == Mode::Shared { WORTH_IN_EIGHTHS + 1 } else { 8 };
        let rate = self.best * f32::from(worth) / 8.0;
        sample.add(Yield::at(rate, empty_ns.into()));
        self.yields[self.mode as usize].add_later(sample);
        let better = self.better();
        if better != self.mode {
            let tried = self.left == 0;
            self.interval =
                if tried { (2 * self.interval).min(APART << MOST_DOUBLINGS) } else { APART };
            self.left = self.interval;
            self.enter(better);
        } else if self.left > 0 {
            self.left -= 1;
            if self.left == 0 {
                // What is known of the other mode may be out of date.
                self.enter(self.mode.other());
                self.yields[self.mode as usize] = Yield::NONE;
            }
        } else {
            // The one that was tried is better.
            self.interval = APART;
            self.left = APART;
        }
    }

    fn enter(&mut self, mode: Mode) {
        self.mode = mode;
        self.settles = true;
    }

    /// The mode that is worth more.
    fn better(&self) -> Mode {
        let [shared, turns] = self.yields;
        let worth = f32::from(WORTH_IN_EIGHTHS) / 8.0;
        if turns.ns() > 0.0 && turns.is_worth(shared, worth) { Mode::InTurns } else { Mode::Shared }
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

// ---- what a lock yields ----

/// Acquisitions, and the time that they took. Seven digits are enough, in half the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yield {
    acquisitions: f32,
    ns: f32,
}

/// What is measured loses this part of itself with each later sample: one divided by this. As many samples are taken
/// before anything is concluded from them. In samples; compared with those since the first waiter came.
pub(super) const FADES: u16 = 8;

impl Yield {
    /// Of no time.
    pub(super) const NONE: Self = Self { acquisitions: 0.0, ns: 0.0 };

    pub(super) fn new(acquisitions: u64, ns: u64) -> Self {
        Self { acquisitions: acquisitions as f32, ns: ns as f32 }
    }

    /// So many acquisitions in a nanosecond, for `ns`.
    pub(super) fn at(rate: f32, ns: u64) -> Self {
        Self { acquisitions: rate * ns as f32, ns: ns as f32 }
    }

    /// How long it took.
    pub(super) fn ns(self) -> f32 {
        self.ns
    }

    /// Acquisitions in a nanosecond. There must have been some time.
    pub(super) fn rate(self) -> f32 {
        self.acquisitions / self.ns
    }

    /// Both times together.
    pub(super) fn add(&mut self, other: Self) {
        self.acquisitions += other.acquisitions;
        self.ns += other.ns;
    }

    /// Both times together, the `later` one counting more. Long times weigh more than short ones,
    /// as they should: what is wanted is acquisitions for time.
    pub(super) fn add_later(&mut self, later: Self) {
        let rest = 1.0 - 1.0 / f32::from(FADES);
        self.acquisitions *= rest;
        self.ns *= rest;
        self.add(later);
    }

    /// Whether this yield, counted `worth` times, is at least the `other` one. Also if there was no
    /// time to compare.
    pub(super) fn is_worth(self, other: Self, worth: f32) -> bool {
        self.acquisitions * other.ns * worth >= other.acquisitions * self.ns
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;

    /// How many of `samples` were taken in turns, where the modes yield these rates.
    fn in_turns(modes: &mut Modes, shared: f32, turns: f32, samples: u32) -> u32 {
        (0..samples)
            .map(|_| {
                let mode = modes.mode();
                let rate = if mode == Mode::Shared { shared } else { turns };
                modes.sampled(Yield::at(rate, SAMPLE_NS), 0);
                u32::from(mode == Mode::InTurns)
            })
            .sum()
    }

    #[test]
    fn the_mode_that_yields_more_is_found_and_kept() {
        let mut modes = Modes::new();
        assert!(in_turns(&mut modes, 1e-3, 1e-3, 2_000) > 1_980, "a saturated lock");
        assert!(in_turns(&mut modes, 2e-3, 1e-3, 10_000) < 4_300, "it is not any more");
        assert!(in_turns(&mut modes, 2e-3, 1e-3, 10_000) < 30, "and known by now");
        assert!(in_turns(&mut modes, 1e-3, 3e-3, 10_000) > 5_000, "nor for ever");
    }

    /// A lock's time and its count of acquisitions.
    struct Lock {
        modes: Modes,
        now: u64,
        count: usize,
    }

    impl Lock {
        fn new() -> Self {
            let mut lock = Self { modes: Modes::new(), now: 1, count: 0 };
            lock.modes.first_comes(lock.now, lock.count);
            lock
        }

        fn is_in_turns(&self) -> bool {
            self.modes.mode() == Mode::InTurns
        }

        fn passes(&mut self, us: u64, per_us: usize) {
            self.now += us * 1_000;
            self.count += us as usize * per_us;
        }

        /// Writers have the lock for `us`, and one of the queue takes it then.
        fn taken_after(&mut self, us: u64, per_us: usize) {
            self.passes(us, per_us);
            self.modes.next_takes(self.now, self.count);
        }

        /// The queue has ended, and another one begins after `us`.
        fn empty_for(&mut self, us: u64) {
            self.passes(us, 0);
            self.modes.first_comes(self.now, self.count);
        }

        fn rate(&self, mode: Mode) -> f32 {
            self.modes.yields[mode as usize].rate()
        }
    }

    /// Threads wait only while the holder is off its CPU, and a moment after that; in turns half
    /// as much gets done, and somebody waits all the time.
    #[test]
    fn a_shared_lock_is_not_judged_by_the_times_of_its_queues_alone() {
        let mut lock = Lock::new();
        let mut in_turns = 0;
        for _ in 0..2_000 {
            if lock.is_in_turns() {
                lock.taken_after(1_000, 2);
                in_turns += 1;
                continue;
            }
            for (us, per_us, empty_us) in [(1_200, 0, 0), (300, 4, 4_000)] {
                if !lock.is_in_turns() {
                    lock.taken_after(us, per_us);
                    lock.empty_for(empty_us);
                }
            }
        }
        assert!(in_turns < 100, "{in_turns}");
    }

    /// A thread sleeps now and then; meanwhile another gets as much done as it would in its turn, or
    /// nothing. Of the time in which both run nothing is known.
    #[test]
    fn a_lock_that_is_seldom_waited_for_is_shared() {
        let cases = [(40, 1, true), (490, 1, true), (510, 1, false), (300, 0, false)];
        for (waited_us, per_us, is_shared) in cases {
            let mut lock = Lock::new();
            let mut in_turns = 0;
            for _ in 0..10_000 {
                if lock.is_in_turns() {
                    lock.taken_after(1_000, 1);
                    in_turns += 1;
                } else {
                    lock.taken_after(waited_us, per_us);
                    lock.empty_for(1_000 - waited_us);
                }
            }
            assert_eq!(in_turns < 1_000, is_shared, "{waited_us} us of 1,000: {in_turns}");
        }
    }

    /// The queues of one sample are an eighth as long as what was before them.
    #[test]
    fn time_without_waiters_counts_for_four_milliseconds_a_sample() {
        for (empty_us, queues) in [(1_000_000, 1), (2_000, 25)] {
            let mut lock = Lock::new();
            lock.taken_after(1_000, 4);
            for _ in 0..queues {
                lock.empty_for(empty_us);
                lock.taken_after(250 / queues, 0);
            }
            let ns = lock.modes.yields[Mode::Shared as usize].ns();
            assert!((ns - (1e6 * 7.0 / 8.0 + 4e6 + 250e3)).abs() < 1e3, "{ns}");
        }
    }

    /// What was assumed of the time without waiters does not become the best rate, which is
    /// forgotten.
    #[test]
    fn the_best_rate_is_counted_and_not_for_ever() {
        let mut lock = Lock::new();
        lock.taken_after(250, 100);
        for _ in 0..8 * APART {
            lock.empty_for(4_000);
            lock.taken_after(250, 1);
        }
        assert!(lock.modes.best < 25e-3, "{}", lock.modes.best);
    }

    #[test]
    fn what_was_counted_until_a_waiter_gave_up_is_part_of_the_sample() {
        let mut lock = Lock::new();
        for _ in 0..100 {
            lock.passes(100, 1);
            lock.modes.last_gives_up(lock.now, lock.count);
            lock.empty_for(0);
        }
        lock.taken_after(1, 1);
        let rate = lock.rate(Mode::Shared);
        assert!((rate - 1e-3).abs() < 1e-6, "{rate}");
        assert!(lock.modes.yields[Mode::Shared as usize].ns() > 10e6);
    }

    #[test]
    fn a_lock_with_long_sections_is_slow_and_says_how_slow() {
        for (section_us, is_slow) in [(10, false), (1_000, true)] {
            let mut lock = Lock::new();
            for _ in 0..100 {
                lock.passes(section_us, 0);
                lock.count += 1;
                lock.modes.next_takes(lock.now, lock.count);
            }
            let ns = lock.modes.slow_ns(7) as f64;
            assert_eq!(lock.modes.is_slow(), is_slow);
            let wanted = if is_slow { 7e6 } else { 0.0 };
            assert!((ns - wanted).abs() < 1e4, "{ns}");
        }
    }

    #[test]
    fn a_count_that_was_set_back_is_no_yield() {
        let mut lock = Lock::new();
        for _ in 0..1_000 {
            let per_us = if lock.is_in_turns() { 1 } else { 2 };
            lock.taken_after(300, per_us);
        }
        lock.count -= 100_000;
        lock.taken_after(300, 0);
        assert!(lock.modes.best < 3e-3, "{}", lock.modes.best);
        assert!(lock.rate(Mode::Shared) < 3e-3);
    }
}

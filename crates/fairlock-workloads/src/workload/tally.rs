//! What one thread counts: operations, and how long each acquire took.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::team::Phase;
use crate::cell::{CellReport, Side, SideReport, Times};

/// Times of one thread, in clock ticks. Recording must cost next to nothing, as
/// it happens between two operations: short times, which are nearly all, go to
/// an array; the others to a histogram of 1 % resolution; the longest is exact.
pub struct Durations {
    short: Box<[u64; Self::SHORT]>,
    long: Histogram<u64>,
    longest: u64,
}

impl Durations {
    const SHORT: usize = 256;
    /// log2 of the ticks that share one entry of `short`.
    const SHORT_SHIFT: u32 = 4;
    /// About a day in ticks: nothing here runs longer.
    const LONGEST: u64 = 1 << 48;

    pub fn new() -> Self {
        Self {
            short: Box::new([0; Self::SHORT]),
            long: Histogram::new_with_max(Self::LONGEST, 2).expect("the bounds are valid"),
            longest: 0,
        }
    }

    #[inline(always)]
    pub fn record(&mut self, ticks: u64) {
        self.longest = self.longest.max(ticks);
        match self.short.get_mut((ticks >> Self::SHORT_SHIFT) as usize) {
            Some(count) => *count += 1,
            None => self.long.saturating_record(ticks),
        }
    }

    /// Adds the other's times to this one's.
    fn merge(&mut self, other: &Self) {
        self.longest = self.longest.max(other.longest);
        for (sum, count) in self.short.iter_mut().zip(other.short.iter()) {
            *sum += count;
        }
        self.long.add(&other.long).expect("the bounds are the same");
    }

    fn summary(mut self, ns_per_tick: f64) -> Times {
        for (index, &count) in self.short.iter().enumerate() {
            let middle = ((index as u64) << Self::SHORT_SHIFT) + (1 << (Self::SHORT_SHIFT - 1));
            self.long.saturating_record_n(middle, count);
        }
        let ns = |ticks: u64| (ticks.min(self.longest) as f64 * ns_per_tick) as u64;
        Times {
            p50: ns(self.long.value_at_quantile(0.5)),
            p99: ns(self.long.value_at_quantile(0.99)),
            p999: ns(self.long.value_at_quantile(0.999)),
            max: ns(self.longest),
        }
    }

    /// The summary of all times, or `None` if there are none.
    pub fn summarize(all: impl IntoIterator<Item = Self>, ns_per_tick: f64) -> Option<Times> {
        let mut all = all.into_iter();
        let mut sum = all.next()?;
        all.for_each(|other| sum.merge(&other));
        Some(sum.summary(ns_per_tick))
    }
}

/// One thread's operations of one side.
pub struct Tally {
    pub ops: u64,
    pub waits: Durations,
}

impl Tally {
    pub fn new() -> Self {
        Self { ops: 0, waits: Durations::new() }
    }

    /// Counts an operation that ended in `phase`; returns whether it is the thread's last. One that
    /// ended after the window is no operation of the window, but its wait was in it: the wait of a
    /// starved thread is found only here.
    #[inline(always)]
    pub fn count(&mut self, phase: Phase, wait: u64) -> bool {
        self.wait(phase, wait);
        if phase == Phase::Measure {
            self.ops += 1;
        }
        phase == Phase::Stop
    }

    /// Counts a wait that is not the only one of its operation.
    #[inline(always)]
    pub fn wait(&mut self, phase: Phase, wait: u64) {
        if phase != Phase::WarmUp {
            self.waits.record(wait);
        }
    }

    /// The report of a side's threads, or `None` if the side has none.
    pub fn report(all: Vec<Self>, ns_per_tick: f64) -> Option<SideReport> {
        if all.is_empty() {
            return None;
        }
        let ops = all.iter().map(|tally| tally.ops).collect();
        let wait = Durations::summarize(all.into_iter().map(|tally| tally.waits), ns_per_tick);
        Some(SideReport { ops, wait, ..SideReport::default() })
    }
}

/// What the threads counted, or why one of them failed.
pub fn all<C, E>(results: Vec<Result<C, E>>) -> Result<Vec<C>, E> {
    results.into_iter().collect()
}

/// What threads counted, of those that read and of those that do not.
pub fn by_side<C>(all: Vec<(bool, C)>) -> [Vec<C>; 2] {
    let (read, write): (Vec<_>, Vec<_>) = all.into_iter().partition(|&(reads, _)| reads);
    [read, write].map(|side| side.into_iter().map(|(_, counted)| counted).collect())
}

/// The operations of a thread that reads and writes.
pub struct Both {
    pub read: Tally,
    pub write: Tally,
}

impl Both {
    pub fn new() -> Self {
        Self { read: Tally::new(), write: Tally::new() }
    }

    #[inline(always)]
    pub fn side(&mut self, side: Side) -> &mut Tally {
        if side == Side::Read { &mut self.read } else { &mut self.write }
    }

    /// How long the thread waited, to read or to write.
    pub fn waits(&self) -> Durations {
        let mut all = Durations::new();
        all.merge(&self.read.waits);
        all.merge(&self.write.waits);
        all
    }

    /// The report of reads and of writes, both in the order of the threads: `sides` says of a thread,
    /// by its number, whether it has each.
    pub fn report(
        window: Duration,
        all: Vec<Self>,
        sides: &dyn Fn(usize) -> (bool, bool),
        ns_per_tick: f64,
    ) -> CellReport {
        let (mut read, mut write) = (Vec::new(), Vec::new());
        for (index, both) in all.into_iter().enumerate() {
            let (reads, writes) = sides(index);
            read.extend(reads.then_some(both.read));
            write.extend(writes.then_some(both.write));
        }
        let [read, write] = [read, write].map(|side| Tally::report(side, ns_per_tick));
        CellReport::of(window, read, write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_is_exact_and_never_lost() {
        let mut few = Durations::new();
        let mut many = Durations::new();
        few.record(123_456_789);
        (0..100_000).for_each(|_| many.record(20));
        let times = Durations::summarize([many, few], 2.0).unwrap();
        assert_eq!(times.max, 246_913_578);
        assert!(times.p50 < times.max && times.p999 < times.max);
    }

    #[test]
    fn an_operation_after_the_window_counts_only_its_wait() {
        let mut tally = Tally::new();
        tally.count(Phase::WarmUp, 50);
        assert_eq!((tally.ops, tally.waits.longest), (0, 0));
        tally.count(Phase::Stop, 9_000_000);
        assert_eq!((tally.ops, tally.waits.longest), (0, 9_000_000));
        tally.count(Phase::Measure, 10);
        assert_eq!((tally.ops, tally.waits.longest), (1, 9_000_000));
    }

    #[test]
    fn no_threads_no_times() {
        assert_eq!(Durations::summarize([], 1.0), None);
    }
}

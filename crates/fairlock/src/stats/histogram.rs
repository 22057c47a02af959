//! How long something took, many times: counted by size.

use core::array;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::vec::Vec;

/// Each power of two is divided into `1 << SUB_BITS` equal parts, so a part is at most a quarter
/// of what is in it.
const SUB_BITS: u32 = 2;
/// 2^37 ns are 137 s; what is longer is counted in the last part.
const PARTS: usize = 36 << SUB_BITS;

/// Durations, counted by size. The processor's own atomics: statistics order nothing.
pub(super) struct Histogram {
    parts: [AtomicU64; PARTS],
    total_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self {
            parts: array::from_fn(|_| AtomicU64::new(0)),
            total_ns: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
        }
    }

    /// Returns whether it is the longest.
    // Relaxed, here and below: statistics.
    pub(super) fn add(&self, ns: u64) -> bool {
        self.parts[part(ns)].fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
        self.add_longest(ns)
    }

    /// As [`add`](Self::add), but it counts as the longest only, if it is.
    pub(super) fn add_longest(&self, ns: u64) -> bool {
        ns > self.longest_ns.load(Ordering::Relaxed)
            && ns > self.longest_ns.fetch_max(ns, Ordering::Relaxed)
    }

    /// Counts what `other` has counted, too.
    pub(super) fn absorb(&self, other: &Self) {
        for (part, other) in self.parts.iter().zip(&other.parts) {
            match other.load(Ordering::Relaxed) {
                0 => {}
                count => _ = part.fetch_add(count, Ordering::Relaxed),
            }
        }
        self.total_ns.fetch_add(other.total_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        self.add_longest(other.longest_ns.load(Ordering::Relaxed));
    }

    pub(super) fn times(&self) -> Times {
        let parts = self.parts.iter().map(|part| part.load(Ordering::Relaxed)).collect();
        let total = self.total_ns.load(Ordering::Relaxed);
        Times::new(parts, total, self.longest_ns.load(Ordering::Relaxed))
    }
}

impl Times {
    fn new(mut parts: Vec<u64>, total: u64, longest: u64) -> Self {
        parts.truncate(parts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1));
        let count: u64 = parts.iter().sum();
        let at = |part_in_1000: u64| {
            // At least so many are not longer.
            let wanted = (count * part_in_1000).div_ceil(1000).max(1);
            let mut seen = 0;
            let found = parts.iter().position(|part| {
                seen += part;
                seen >= wanted
            });
            let end = |part| if part + 1 < PARTS { end(part).min(longest) } else { longest };
            Duration::from_nanos(found.map_or(0, end))
        };
        Times {
            count,
            total: Duration::from_nanos(total),
            p50: at(500),
            p99: at(990),
            p999: at(999),
            longest: Duration::from_nanos(longest),
            parts,
        }
    }

    /// In which class how many are: for each class that is not empty the longest duration that belongs to it, and how
    /// many there are, from short to long. A class ends at most a quarter after it begins.
    ///
    /// Added up, they are the buckets of a histogram of Prometheus.
    ///
    /// ```
    /// use fairlock::stats::{self, NamedExt};
    ///
    /// let jobs = fairlock::Mutex::named("timed jobs", 0);
    /// *jobs.lock() += 1;
    /// let now = stats::snapshot();
    /// let held = &now.get("timed jobs").unwrap().writes.held;
    /// let (mut below, name) = (0, "hold_seconds_bucket");
    /// for (longest, count) in held.buckets() {
    ///     below += count;
    ///     println!("{name}{{le=\"{}\"}} {below}", longest.as_secs_f64());
    /// }
    /// assert_eq!(below, held.count);
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let parts = self.parts.iter().enumerate().filter(|(_, count)| **count > 0);
        parts.map(|(part, count)| (Duration::from_nanos(end(part)), *count))
    }

    /// Those that came after `earlier` was read, of the same. If the longest of all came before, the longest since is
    /// known as percentiles are: up to a quarter too long.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let before = earlier.parts.iter().copied().chain(core::iter::repeat(0));
        let parts: Vec<u64> =
            self.parts.iter().zip(before).map(|(now, then)| now.saturating_sub(then)).collect();
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let last = parts.iter().rposition(|count| *count > 0);
        let longest = if self.longest > earlier.longest {
            ns(self.longest)
        } else {
            last.map_or(0, end).min(ns(self.longest))
        };
        Self::new(parts, ns(self.total.saturating_sub(earlier.total)), longest)
    }
}

/// Statistics of durations. A percentile is at most a quarter longer than the true one, and never
/// shorter: durations are counted in classes, and a percentile is the end of its class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// How many there were.
    pub count: u64,
    /// Their sum.
    pub total: Duration,
    /// The median.
    pub p50: Duration,
    /// 99 % are not longer.
    pub p99: Duration,
    /// 99.9 % are not longer.
    pub p999: Duration,
    /// The longest, to the nanosecond.
    pub longest: Duration,
    /// How many are in each class, up to the last that has any.
    parts: Vec<u64>,
}

/// Where a duration is counted.
fn part(ns: u64) -> usize {
    let shift = ns.checked_ilog2().unwrap_or(0).saturating_sub(SUB_BITS);
    // The highest bits: from 0 to 7; at least 4 once something is shifted out.
    let high = (ns >> shift) as usize;
    ((shift as usize) << SUB_BITS).saturating_add(high).min(PARTS - 1)
}

/// The longest duration that is counted there.
fn end(part: usize) -> u64 {
    let shift = (part >> SUB_BITS).saturating_sub(1);
    let high = (part - (shift << SUB_BITS)) as u64;
    ((high + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_ends_at_most_a_quarter_after_what_is_in_it() {
        let mut last = 0;
        for ns in (0..5000).chain((1..36).flat_map(|bit| [(1 << bit) - 1, 1 << bit, 3 << bit])) {
            let end = end(part(ns));
            assert!(end >= ns && end <= ns + ns / 4, "{ns} is in a class that ends at {end}");
        }
        for ns in 0..5000 {
            let part = part(ns);
            assert!(part == last || part == last + 1, "a class is left out before {ns}");
            last = part;
        }
        assert_eq!(part(u64::MAX), PARTS - 1);
    }

    #[test]
    fn percentiles_are_those_of_what_was_added() {
        let histogram = Histogram::new();
        assert_eq!(histogram.times(), Times::default());
        (0..998).for_each(|_| _ = histogram.add(100));
        assert!(histogram.add(5_000) && histogram.add(1_000_001));
        let times = histogram.times();
        let ns = |time: Duration| time.as_nanos();
        assert_eq!((times.count, ns(times.total)), (1000, 99_800 + 5_000 + 1_000_001));
        assert_eq!((ns(times.p50), ns(times.p99)), (111, 111));
        assert_eq!((ns(times.p999), ns(times.longest)), (5_119, 1_000_001));
    }

    #[test]
    fn what_came_since_an_earlier_look_is_the_difference() {
        let histogram = Histogram::new();
        assert!(histogram.add(1_000) && histogram.add(1_000_000));
        let earlier = histogram.times();
        assert_eq!(earlier.since(&earlier), Times::default());
        (0..3).for_each(|_| _ = histogram.add(2_000));
        let since = histogram.times().since(&earlier);
        let ns = |time: Duration| time.as_nanos();
        assert_eq!((since.count, ns(since.total)), (3, 6_000));
        // The class that 2,000 is in; not the longest before.
        assert_eq!((ns(since.p50), ns(since.longest)), (2_047, 2_047));
        assert_eq!(since.buckets().collect::<Vec<_>>(), [(Duration::from_nanos(2_047), 3)]);
        histogram.add(2_000_000);
        assert_eq!(ns(histogram.times().since(&earlier).longest), 2_000_000);
    }

    #[test]
    fn sums_are_those_of_both() {
        let [one, other] = [(); 2].map(|()| Histogram::new());
        one.add(100);
        other.add(5_000);
        one.absorb(&other);
        let times = one.times();
        assert_eq!((times.count, times.total.as_nanos()), (2, 5_100));
        assert_eq!((times.p50.as_nanos(), times.longest.as_nanos()), (111, 5_000));
    }
}

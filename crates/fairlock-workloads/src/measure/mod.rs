//! What this machine takes for what locks are made of, measured many times: for `doctor`, which says it,
//! and `calibrate`, which writes it into a machine file.

#[cfg(target_os = "linux")]
pub mod calls;
#[cfg(target_os = "linux")]
pub mod transfer;
#[cfg(target_os = "linux")]
pub mod wakes;

use std::time::{Duration, Instant};

/// How much of a figure's samples is said: from the 10th to the 90th of a hundred.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub median: f64,
    pub high: f64,
    pub samples: usize,
}

impl Interval {
    /// None without samples.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut all: Vec<f64> = samples.into_iter().collect();
        all.sort_by(f64::total_cmp);
        let last = all.len().checked_sub(1)?;
        let at = |share: f64| all[(share * last as f64).round() as usize];
        Some(Self { low: at(0.1), median: at(0.5), high: at(0.9), samples: all.len() })
    }

    /// The median, and the others in brackets.
    pub fn words(&self, show: impl Fn(f64) -> String) -> String {
        format!("{} ({} to {})", show(self.median), show(self.low), show(self.high))
    }
}

/// What one of `n` calls takes, in nanoseconds.
pub fn each(n: u32, mut call: impl FnMut()) -> f64 {
    let begun = Instant::now();
    (0..n).for_each(|_| call());
    begun.elapsed().as_nanos() as f64 / f64::from(n)
}

/// How late a sleep of a microsecond ends, in nanoseconds.
pub fn sleep_lateness() -> f64 {
    const SLEEP: Duration = Duration::from_micros(1);
    each(1, || std::thread::sleep(SLEEP)) - SLEEP.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_leaves_a_tenth_out_on_either_side() {
        let interval = Interval::of((0..=100).rev().map(f64::from)).unwrap();
        let expected = Interval { low: 10.0, median: 50.0, high: 90.0, samples: 101 };
        assert_eq!(interval, expected);
        assert_eq!(interval.words(|n| n.to_string()), "50 (10 to 90)");
        assert_eq!(Interval::of([7.0]).map(|one| (one.low, one.high)), Some((7.0, 7.0)));
        assert_eq!(Interval::of([]), None);
    }
}

//! By how much a difference of means could be chance: the bootstrap, studentized.
//!
//! Runs are drawn again, with replacement, from those there are, and the difference of each draw is
//! taken in units of the draw's own standard error. The distribution of these says how far the real
//! difference may be from ours, also with few runs and with tails that are not normal. The drawing
//! begins with a fixed seed, so that the same files give the same answer.

use crate::workload::random::Random;

/// How many draws are made.
const DRAWS: usize = 10_000;

/// A number, and the interval that its true value is in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Estimate {
    /// Whether the whole interval is above zero, or all of it below.
    pub fn is_certain(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Half of the interval's length.
    pub fn doubt(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// A mean, or a weighted sum of means: its value, and what each draw has for it.
#[derive(Clone)]
pub struct Sum {
    value: f64,
    drawn: Vec<Draw>,
    /// The variance of the value, estimated from the runs.
    variance: f64,
    /// False if a mean in the sum is of one run: one run does not say how runs vary.
    tells: bool,
}

/// How far a draw is from the value, and the draw's own variance.
#[derive(Clone, Copy, Default)]
struct Draw {
    off: f64,
    variance: f64,
}

impl Sum {
    /// The empty sum.
    pub fn zero() -> Self {
        Self { value: 0.0, drawn: vec![Draw::default(); DRAWS], variance: 0.0, tells: true }
    }

    /// The mean of these values, of which there must be at least one.
    pub fn mean(values: &[f64], random: &mut Random) -> Self {
        let count = values.len();
        let (value, centred) = centred(values);
        let again = |_| {
            let pick = (0..count).map(|_| centred[random.below(count as u64) as usize]);
            moments(count, pick)
        };
        Self {
            value,
            variance: moments(count, centred.iter().copied()).variance,
            drawn: (0..DRAWS).map(again).collect(),
            tells: count > 1,
        }
    }

    /// Adds `weight` times another sum.
    pub fn add(&mut self, weight: f64, other: &Self) {
        self.value += weight * other.value;
        self.variance += weight * weight * other.variance;
        self.tells &= other.tells;
        for (draw, of_other) in self.drawn.iter_mut().zip(&other.drawn) {
            draw.off += weight * of_other.off;
            draw.variance += weight * weight * of_other.variance;
        }
    }

    /// The sum with an interval that misses the truth with probability `error`. The interval has no
    /// bounds if the runs do not say how they vary.
    pub fn estimate(&self, error: f64) -> Estimate {
        let value = self.value;
        if !self.tells {
            return Estimate { value, low: f64::NEG_INFINITY, high: f64::INFINITY };
        }
        // A draw of one value again and again has variance zero, which says nothing.
        let ratio =
            |draw: &Draw| if draw.off == 0.0 { 0.0 } else { draw.off / draw.variance.sqrt() };
        let mut ratios: Vec<f64> = self.drawn.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let beyond = (error / 2.0 * DRAWS as f64) as usize;
        let (least, most) = (ratios[beyond], ratios[DRAWS - 1 - beyond]);
        let scale = self.variance.sqrt();
        let bound = |ratio: f64| if scale == 0.0 { value } else { value - ratio * scale };
        Estimate { value, low: bound(most), high: bound(least) }
    }
}

/// The variance of the mean of these values, of which there must be at least one; zero of one alone.
pub fn variance_of_mean(values: &[f64]) -> f64 {
    moments(values.len(), centred(values).1.into_iter()).variance
}

/// Their mean, and how far each is from it.
fn centred(values: &[f64]) -> (f64, Vec<f64>) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, values.iter().map(|each| each - mean).collect())
}

/// Mean and variance of the mean, summed as values come. Nearly all the time of the command goes
/// into this.
fn moments(count: usize, values: impl Iterator<Item = f64>) -> Draw {
    let (mut sum, mut squares) = (0.0, 0.0);
    for value in values {
        sum += value;
        squares += value * value;
    }
    let n = count as f64;
    let mean = sum / n;
    let variance = (squares - sum * mean).max(0.0) / (n - 1.0).max(1.0);
    Draw { off: mean, variance: variance / n }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that is distributed about normally, with deviation 1.
    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20)).sum::<f64>() - 6.0
    }

    fn difference(before: &[f64], after: &[f64]) -> Sum {
        let mut random = Random::new(1, 0);
        let mut sum = Sum::mean(after, &mut random);
        sum.add(-1.0, &Sum::mean(before, &mut random));
        sum
    }

    #[test]
    fn intervals_miss_the_truth_about_as_often_as_they_say() {
        for runs in [3, 10] {
            let mut random = Random::new(7, runs);
            let missed = (0..200)
                .filter(|_| {
                    let mut values = || (0..runs).map(|_| normal(&mut random)).collect::<Vec<_>>();
                    let (before, after) = (values(), values());
                    difference(&before, &after).estimate(0.1).is_certain()
                })
                .count();
            // 20 misses are expected.
            assert!(missed <= 32, "{runs} runs: {missed} of 200");
        }
    }

    #[test]
    fn a_single_run_tells_nothing() {
        let estimate = difference(&[1.0], &[5.0, 5.1, 5.2]).estimate(0.05);
        assert!((estimate.value - 4.1).abs() < 1e-9 && !estimate.is_certain());
        assert!(estimate.doubt().is_infinite());
    }

    #[test]
    fn runs_that_do_not_vary_leave_no_doubt() {
        let estimate = difference(&[1.0; 4], &[1.5; 4]).estimate(0.01);
        assert_eq!((estimate.low, estimate.value, estimate.high), (0.5, 0.5, 0.5));
    }
}

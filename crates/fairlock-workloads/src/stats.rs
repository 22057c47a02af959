//! Figures computed from counts.

/// Jain's fairness index of per-thread counts: 1 when all are equal, 1/n when
/// one thread had everything. `None` without threads; 1 when nobody had anything.
pub fn jain(counts: &[u64]) -> Option<f64> {
    if counts.is_empty() {
        return None;
    }
    let sum: f64 = counts.iter().map(|&x| x as f64).sum();
    let squares: f64 = counts.iter().map(|&x| (x as f64) * (x as f64)).sum();
    Some(if squares == 0.0 { 1.0 } else { sum * sum / (counts.len() as f64 * squares) })
}

/// Threads with at most one operation.
pub fn starved(counts: &[u64]) -> usize {
    counts.iter().filter(|&&x| x <= 1).count()
}

/// The median; the mean of the middle two when there are two. `None` if empty.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(values[n / 2]),
        _ => Some((values[n / 2 - 1] + values[n / 2]) / 2.0),
    }
}

/// The standard deviation of what these are a sample of. `None` if they are fewer than two.
pub fn deviation(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt())
}

/// Spearman's rank correlation: 1 when both put everything in the same order, -1 when
/// in opposite orders. `None` with fewer than two pairs, or if one side is all equal.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let ranks = |pick: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let mut sorted: Vec<f64> = pairs.iter().map(pick).collect();
        sorted.sort_by(f64::total_cmp);
        let rank = |value: f64| {
            let below = sorted.partition_point(|&other| other < value);
            let equal = sorted[below..].partition_point(|&other| other <= value);
            // Equal values share the mean of their places.
            below as f64 + (equal - 1) as f64 / 2.0
        };
        pairs.iter().map(|pair| rank(pick(pair))).collect()
    };
    let (a, b) = (ranks(|pair| pair.0), ranks(|pair| pair.1));
    let mean = (pairs.len() as f64 - 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum()
    };
    let spread = product(&a, &a) * product(&b, &b);
    (spread > 0.0).then(|| product(&a, &b) / spread.sqrt())
}

/// How evenly a mix treats its sides: 2 min(r/R, w/W), where r and w are the
/// mixed rates and R and W the rates of the same threads alone. 1 means that each
/// side does at least half of what it does alone.
pub fn balance_score(mixed: (f64, f64), alone: (f64, f64)) -> Option<f64> {
    let (r, w) = mixed;
    let (read_alone, write_alone) = alone;
    (read_alone > 0.0 && write_alone > 0.0).then(|| 2.0 * (r / read_alone).min(w / write_alone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_for_equal_and_one_nth_for_a_monopoly() {
        assert_eq!(jain(&[7, 7, 7]), Some(1.0));
        assert_eq!(jain(&[9, 0, 0]), Some(1.0 / 3.0));
        assert_eq!(jain(&[0, 0]), Some(1.0));
        assert_eq!(jain(&[]), None);
    }

    #[test]
    fn jain_survives_counts_whose_squares_overflow() {
        assert_eq!(jain(&[u64::MAX, u64::MAX]), Some(1.0));
    }

    #[test]
    fn one_operation_still_counts_as_starved() {
        assert_eq!(starved(&[0, 1, 2, 500]), 2);
    }

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn deviation_is_that_of_a_sample() {
        assert_eq!(deviation([2.0, 4.0, 6.0]), Some(2.0));
        assert_eq!(deviation([7.0, 7.0]), Some(0.0));
        assert_eq!(deviation([7.0]), None);
        assert_eq!(deviation([]), None);
    }

    #[test]
    fn rank_correlation_looks_at_the_order_only() {
        let with = |b: [f64; 4]| {
            let pairs: Vec<_> = [1.0, 2.0, 3.0, 40.0].into_iter().zip(b).collect();
            spearman(&pairs)
        };
        assert_eq!(with([10.0, 11.0, 12.0, 13.0]), Some(1.0));
        assert_eq!(with([4.0, 3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(with([2.0, 1.0, 3.0, 4.0]), Some(0.8));
        // Ties share the mean of their places.
        assert!((with([1.0, 1.0, 2.0, 3.0]).unwrap() - 0.948_683).abs() < 1e-6);
        assert_eq!(with([5.0; 4]), None);
        assert_eq!(spearman(&[(1.0, 1.0)]), None);
    }

    #[test]
    fn balance_score_is_that_of_the_worse_side() {
        assert_eq!(balance_score((50.0, 25.0), (100.0, 50.0)), Some(1.0));
        assert_eq!(balance_score((90.0, 5.0), (100.0, 100.0)), Some(0.1));
        assert_eq!(balance_score((1.0, 1.0), (0.0, 1.0)), None);
    }
}

//! Buckets for times: four for each power of two, so a time is known to an eighth.

/// How many there are.
pub const COUNT: usize = 160;

/// Where a time belongs. The last bucket has all that are longer, too: over half an hour.
pub fn of(ns: u64) -> usize {
    if ns < 4 {
        return ns as usize;
    }
    let power = ns.ilog2();
    let quarter = (ns >> (power - 2)) & 3;
    ((power as usize - 1) * 4 + quarter as usize).min(COUNT - 1)
}

/// The shortest time that belongs there.
pub fn lowest(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    (4 + bucket as u64 % 4) << (bucket / 4 - 1)
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    (lowest(bucket) + lowest(bucket + 1) - 1) / 2
}

/// The time that so large a share of all does not exceed, as far as the buckets know; zero if
/// there are none.
pub fn percentile(counts: &[u64], share: f64) -> u64 {
    // Counts of a damaged record may be any.
    let all = counts.iter().copied().fold(0, u64::saturating_add);
    let wanted = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
    let mut seen = 0_u64;
    for (bucket, count) in counts.iter().enumerate() {
        seen = seen.saturating_add(*count);
        if seen >= wanted {
            return middle(bucket);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_bucket_that_begins_below_it() {
        for ns in (0..10_000).chain((0..41).map(|power| (1 << power) + 1)) {
            let bucket = of(ns);
            assert!(lowest(bucket) <= ns && ns < lowest(bucket + 1), "{ns} in {bucket}");
        }
        assert_eq!(of(u64::MAX), COUNT - 1);
    }

    #[test]
    fn percentiles_are_true_to_an_eighth() {
        let mut counts = vec![0; COUNT];
        (1..=1000_u64).for_each(|ns| counts[of(ns * 1000)] += 1);
        for (share, exact) in [(0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let found = percentile(&counts, share) as f64;
            assert!((found / exact - 1.0).abs() <= 0.126, "{share}: {found}");
        }
        assert_eq!(percentile(&[0; COUNT], 0.5), 0);
        assert_eq!(percentile(&[u64::MAX; COUNT], 1.0), 0, "the first has them all");
    }
}

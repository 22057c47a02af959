//! Published claims that are not figures of a table, beside ours.

use std::collections::HashSet;

use fairlock::range::{RangeReadGuard, RangeRwLock};
use fairlock::{RawRwLock, platform::Native};

use crate::row::{Index, Row};
use crate::units::{range, several, two_digits};

/// Proposal 4: with no more threads than CPUs, batches make no significant difference on bare metal.
pub fn batches_of_few_threads(rows: &[&Row]) -> String {
    let few: Vec<&Row> =
        rows.iter().copied().filter(|row| row.overcommit.is_some_and(|x| x <= 1.0)).collect();
    let index = Index::of(few.iter().copied());
    let mut out = String::new();
    for lock in ["fairlock:batch4", "fairlock:batch8"] {
        let ratio = |row: &&Row| {
            let one = index.row("fairlock:batch1", &row.configuration())?;
            Some(row.rate()? / one.rate()?).filter(|ratio| ratio.is_finite())
        };
        let of_lock = few.iter().filter(|row| row.lock == lock);
        let ratios: Vec<f64> = of_lock.filter_map(ratio).collect();
        if !ratios.is_empty() {
            out.push_str(&format!(
                "threads <= CPUs, {lock} in relation to fairlock:batch1: {} over {}; published, on \
                 bare metal: no significant difference\n",
                range(ratios.iter().copied(), two_digits),
                several(ratios.len(), "cell"),
            ));
        }
    }
    out
}

/// Proposal 3: what the lock and a guard take. From its posting, "Introduce range reader/writer
/// lock" (linux-mm, 2018-02-05 and 2019-05-20): 32 bytes where the plain lock takes 40, and 72 a range.
pub fn sizes_of_ranges(rows: &[&Row]) -> String {
    let locks: HashSet<&str> = rows.iter().map(|row| row.lock.as_str()).collect();
    if !locks.iter().any(|lock| lock.starts_with("fairlock:range")) {
        return String::new();
    }
    format!(
        "bytes: RangeRwLock {} (published 32), a guard {}, without the tree's node of a range that waits or \
         is held for long (published, for each range 72), the plain lock, RwLock {} (published 40)\n",
        size_of::<RangeRwLock<Native>>(),
        size_of::<RangeReadGuard<'_, Native>>(),
        size_of::<RawRwLock>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Case;
    use crate::row::{rows, tests::measured};

    #[test]
    fn batches_are_compared_where_no_thread_lacks_a_cpu() {
        let cell = |lock: &str, overcommit: f64, ops| {
            let mut measured = measured(lock, Case::Tiny, None, Some([ops; 2]));
            measured.cell.overcommit = Some(overcommit);
            measured
        };
        let all = rows(&[
            cell("fairlock:batch1", 0.5, 100),
            cell("fairlock:batch8", 0.5, 101),
            cell("fairlock:batch1", 1.0, 100),
            cell("fairlock:batch8", 1.0, 98),
            cell("fairlock:batch1", 2.0, 100),
            cell("fairlock:batch8", 2.0, 178),
        ]);
        let said = batches_of_few_threads(&all.iter().collect::<Vec<_>>());
        assert!(said.starts_with("threads <= CPUs, fairlock:batch8 in relation"), "{said}");
        assert!(said.contains(": 0.98 to 1.01 over 2 cells; published"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }

    #[test]
    fn sizes_are_said_of_range_locks_only() {
        let all = rows(&[measured("fairlock:range", Case::FullWrite, None, Some([1; 2]))]);
        let said = sizes_of_ranges(&all.iter().collect::<Vec<_>>());
        assert!(said.contains("RwLock 8 (published 40)"), "{said}");
        assert_eq!(sizes_of_ranges(&[]), "");
    }
}

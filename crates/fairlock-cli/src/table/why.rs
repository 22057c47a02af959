//! Why waits were long, as a table.

use crate::cell::LongWaits;
use crate::layout::{Column, Table, or_dash};
use crate::row::{Row, locks};
use crate::units::{count, percent, percents, time};

/// A line for the long waits of each lock, those of all its cells together, and one for the longest
/// of them. Empty if no wait was long.
pub fn long_waits(rows: &[&Row], width: Option<usize>) -> String {
    let found: Vec<_> = locks(rows.iter().copied())
        .into_iter()
        .filter_map(|lock| {
            let of_lock = rows.iter().filter(|row| row.lock == lock);
            let found = of_lock.filter_map(|row| row.figures.long_waits).reduce(LongWaits::and)?;
            (found.count > 0).then_some((lock, found))
        })
        .collect();
    let Some((_, first)) = found.first() else { return String::new() };
    let is_real = first.seen.is_some();
    let parts = first.all.parts().map(|(name, _)| Column::figure(name));
    let seen = ["unsure", "sleeps", "preempted"].map(Column::figure);
    // Which waits a row is about is said again where the table is in two parts.
    let lead = [Column::lock(), Column::name("waits"), Column::figure("time")];
    let mut table = Table::new(lead.into_iter().chain(parts).chain(seen));
    for (lock, found) in &found {
        let (all, longest) = (count(found.count), "longest".to_owned());
        for (waits, split, seen) in [(all, found.all, found.seen), (longest, found.longest, None)] {
            let total = split.total_ns();
            let shares = percents(&split.parts().map(|(_, ns)| ns).collect::<Vec<_>>());
            let each = |n: u64| format!("{:.1}", n as f64 / found.count as f64);
            let besides = [
                or_dash(seen, |seen| percent(seen.uncertain_ns as f64 / total as f64)),
                or_dash(seen, |seen| each(seen.sleeps)),
                or_dash(seen, |seen| each(seen.preemptions)),
            ];
            let lead = [(*lock).to_owned(), waits, time(total)];
            table.row(lead.into_iter().chain(shares).chain(besides));
        }
    }
    if !is_real {
        ["unsure", "sleeps", "preempted"].into_iter().for_each(|head| table.leave_out(head));
    }
    table.titled("waits of more than 1 ms", if is_real { REAL } else { SIMULATED }, width)
}

const SIMULATED: &str =
    "shares of their time, all seeds; without CPU: awake before; lock free: nobody inside";
const REAL: &str = "shares of their time, all runs; on the way: woken, without a CPU yet; without CPU: \
     awake before;\none of these: a waiter did both; unsure: at most this much is in a wrong column; \
     sleeps, preempted: a wait";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Workload;
    use crate::row::tests::widest;

    #[test]
    fn where_there_is_little_room_the_shares_of_a_wait_still_add_up() {
        for is_real in [true, false] {
            let rows = widest(Workload::Handoff, is_real);
            let rows: Vec<&Row> = rows.iter().collect();
            let text = long_waits(&rows, Some(80));
            assert!(!text.contains("left out"), "{text}");
            // In the parts of the table together; what is unsure is not in them.
            let is_own = |line: &&str| line.starts_with("reader_spin") && line.contains("longest");
            let own = text.lines().filter(is_own);
            let words = own.flat_map(|line| line.split_whitespace()).collect::<Vec<_>>();
            let shares = words.windows(2).filter(|pair| pair[1] == "%").map(|pair| pair[0]);
            let tenths = shares.map(|share| share.replace('.', "").parse::<u64>().unwrap());
            assert_eq!(tenths.sum::<u64>(), 1_000, "{text}");
        }
    }
}

//! Rows in relation to each other: a mix to each of its sides alone, a lock to the peers.

use super::{Configuration, Figures, Index, Ratios, Row};
use crate::cell::{Case, Side, Workload};
use crate::locks::is_peer;
use crate::stats::balance_score;

/// Fills in what relates rows to each other.
pub fn relate(rows: &mut [Row]) {
    each(rows, scores, |row, [balance, share]| {
        row.figures.balance_score = balance;
        row.figures.share_of_alone = share;
    });
    // Scores first: they say which peers do the whole job.
    each(rows, ratios, |row, ratios| row.ratios = ratios);
}

/// Puts into each row what is found out about it among all rows as they were before.
pub fn each<T>(rows: &mut [Row], find: impl Fn(&Row, &Index<'_>) -> T, put: impl Fn(&mut Row, T)) {
    let index = Index::of(&*rows);
    let found: Vec<T> = rows.iter().map(|row| find(row, &index)).collect();
    rows.iter_mut().zip(found).for_each(|(row, found)| put(row, found));
}

/// The balance score of a mix; the rate of one side of it in relation to that of the same threads
/// alone.
fn scores(row: &Row, index: &Index<'_>) -> [Option<f64>; 2] {
    const MIX: Case = Case::Mixed;
    if row.case != MIX {
        return [None; 2];
    }
    let own = row.configuration();
    let rate =
        |case, side| index.row(&row.lock, &Configuration { case, side, ..own })?.figures.ops_per_s;
    let (read, read_alone) = (rate(MIX, Side::Read), rate(Case::ReaderAlone, Side::Read));
    let (write, write_alone) = (rate(MIX, Side::Write), rate(Case::WriterAlone, Side::Write));
    let (Some(mix), Some(alone)) = (read.zip(write), read_alone.zip(write_alone)) else {
        return [None; 2];
    };
    match row.side {
        Side::All => [balance_score(mix, alone), None],
        Side::Read => [None, finite(mix.0 / alone.0)],
        Side::Write => [None, finite(mix.1 / alone.1)],
    }
}

fn finite(ratio: f64) -> Option<f64> {
    Some(ratio).filter(|ratio| ratio.is_finite())
}

/// The rows that stand for a whole cell, not for one side of a mix.
pub fn whole<'a>(rows: impl IntoIterator<Item = &'a Row, IntoIter: Clone>) -> Vec<&'a Row> {
    let rows = rows.into_iter();
    let index = Index::of(rows.clone());
    rows.filter(|row| row.side == Side::All || !is_mix(row, &index)).collect()
}

/// Whether the row is one side of a cell that has two.
fn is_mix(row: &Row, index: &Index<'_>) -> bool {
    let whole = Configuration { side: Side::All, ..row.configuration() };
    row.case == Case::Mixed || index.row(&row.lock, &whole).is_some()
}

/// A row's speed in relation to the fastest peer of its configuration, and to the fastest that does
/// the whole job. One side of a mix is not a whole job.
fn ratios(row: &Row, index: &Index<'_>) -> Ratios {
    if row.side != Side::All && is_mix(row, index) {
        return Ratios::default();
    }
    let own = row.configuration();
    let peers = || index.rows(&own).iter().copied().filter(|other| is_peer(&other.lock));
    if row.workload == Workload::Idle {
        // `idle` is not about speed, but about how long a free lock is waited for.
        let ratio = |pick: fn(&Figures) -> Option<u64>| {
            let least = peers().filter_map(|peer| pick(&peer.figures)).min()?;
            finite(pick(&row.figures)? as f64 / least as f64)
        };
        return Ratios {
            free_p50_ratio_to_best_peer: ratio(|f| f.free_p50_ns),
            free_p99_ratio_to_best_peer: ratio(|f| f.free_p99_ns),
            ..Ratios::default()
        };
    }
    let fastest = peers().filter_map(Row::speed).reduce(f64::max);
    let best = peers().filter(|row| sets_the_mark(row)).filter_map(Row::speed).reduce(f64::max);
    // A peer that did nothing gives no ratio.
    let ratio = |to: Option<f64>| finite(row.speed()? / to?);
    Ratios {
        ratio_to_best_peer: ratio(best),
        ratio_to_fastest_peer: ratio(fastest),
        ..Ratios::default()
    }
}

/// Whether a row does the whole job, so that, if it is a peer's, others are measured by it.
fn sets_the_mark(row: &Row) -> bool {
    !row.starves() && row.figures.balance_score.is_none_or(|score| score >= 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::{measured, mix, total};
    use crate::row::{growth, rows};

    #[test]
    fn balance_score_comes_from_the_same_locks_rates_alone() {
        let rows = rows(&mix("fairlock:rwlock", [50, 50], [25, 25]));
        let total = total(&rows, "fairlock:rwlock");
        assert_eq!(total.figures.balance_score, Some(1.0));
        assert_eq!(total.figures.ops_per_s, Some(150.0));
        let write = rows.iter().find(|r| r.side == Side::Write && r.case == Case::Mixed).unwrap();
        assert_eq!(write.figures.share_of_alone, Some(0.5));
    }

    #[test]
    fn a_mix_is_scored_by_its_own_machine() {
        let on = |machine: &str, write| {
            mix("fairlock:rwlock", [50, 50], write).map(|mut measured| {
                measured.cell.machine = Some(machine.to_owned());
                measured
            })
        };
        let all = [on("opteron_4", [25, 25]), on("nvme_8", [0, 0])];
        let rows = rows(all.as_flattened());
        let scores = rows.iter().filter(|row| row.case == Case::Mixed && row.side == Side::All);
        let scores: Vec<_> = scores.map(|row| row.figures.balance_score).collect();
        assert_eq!(scores, [Some(1.0), Some(0.0)]);
    }

    #[test]
    fn a_peer_that_starves_or_is_lopsided_sets_no_mark() {
        let mut all = Vec::from(mix("std", [100, 100], [0, 0]));
        all.extend(mix("parking_lot", [100, 90], [4, 2]));
        all.extend(mix("abseil", [40, 40], [20, 20]));
        all.extend(mix("fairlock:rwlock", [50, 50], [25, 25]));
        let rows = rows(&all);
        assert_eq!(total(&rows, "abseil").ratios.ratio_to_best_peer, Some(1.0));
        assert_eq!(total(&rows, "fairlock:rwlock").ratios.ratio_to_best_peer, Some(1.25));
        assert_eq!(total(&rows, "std").figures.starved_threads, Some(2));
    }

    #[test]
    fn nothing_is_so_many_times_as_fast_as_a_peer_that_did_nothing() {
        let all = [
            measured("std", Case::WriterAlone, None, Some([0, 0])),
            measured("fairlock:rwlock", Case::WriterAlone, None, Some([40, 35])),
        ];
        for row in rows(&all) {
            let ratios = (row.ratios.ratio_to_best_peer, row.ratios.ratio_to_fastest_peer);
            assert_eq!(ratios, (None, None), "{}", row.lock);
        }
    }

    #[test]
    fn the_fastest_peer_may_be_one_that_starves() {
        let all = [
            measured("std", Case::WriterAlone, None, Some([100, 0])),
            measured("parking_lot", Case::WriterAlone, None, Some([25, 25])),
            measured("fairlock:rwlock", Case::WriterAlone, None, Some([40, 35])),
            measured("ref:tas", Case::WriterAlone, None, Some([200, 200])),
        ];
        let rows = rows(&all);
        let ours = rows.iter().find(|row| row.lock == "fairlock:rwlock").unwrap();
        assert_eq!(
            (ours.ratios.ratio_to_best_peer, ours.ratios.ratio_to_fastest_peer),
            (Some(1.5), Some(0.75))
        );
    }

    #[test]
    fn relating_grows_as_the_rows_do() {
        growth::is_linear(Workload::ReaderSpin, |rows| {
            relate(rows);
            assert!(total(rows, "fairlock:rwlock").ratios.ratio_to_best_peer.is_some());
            assert_eq!(
                whole(&*rows).len(),
                rows.iter().filter(|row| row.side == Side::All).count()
            );
        });
    }
}

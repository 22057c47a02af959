//! Rows in relation to each other: a mix to each of its sides alone, a lock to the peers.

use super::{Figures, Row};
use crate::cell::{Case, Side, Workload};
use crate::locks::is_peer;
use crate::stats::balance_score;

/// Sets rows in relation to each other.
pub fn relate(rows: &mut [Row]) {
    fill_scores(rows);
    fill_ratios(rows);
}

/// Sets the mixed rates in relation to those of the same threads alone.
fn fill_scores(rows: &mut [Row]) {
    for index in 0..rows.len() {
        let row = &rows[index];
        if row.case != Case::Mixed || row.side != Side::All {
            continue;
        }
        let find = |case: Case, side: Side| {
            rows.iter().position(|other| {
                other.lock == row.lock
                    && other.configuration()
                        == (row.workload, case, row.threads, row.cs_load, row.range, side)
            })
        };
        let rate = |index: Option<usize>| rows[index?].figures.ops_per_s;
        let (read, write) = (find(Case::Mixed, Side::Read), find(Case::Mixed, Side::Write));
        let alone =
            (rate(find(Case::ReaderAlone, Side::Read)), rate(find(Case::WriterAlone, Side::Write)));
        let (Some(r), Some(w), (Some(read_alone), Some(write_alone))) =
            (rate(read), rate(write), alone)
        else {
            continue;
        };
        rows[index].figures.balance_score = balance_score((r, w), (read_alone, write_alone));
        for (index, share) in [(read, r / read_alone), (write, w / write_alone)] {
            if let Some(index) = index {
                rows[index].figures.share_of_alone = share.is_finite().then_some(share);
            }
        }
    }
}

/// The rows that stand for a whole cell: not one side of a mix.
pub fn whole(rows: &[Row]) -> Vec<&Row> {
    rows.iter().filter(|row| row.side == Side::All || !is_mix(rows, row)).collect()
}

/// Whether the row is one side of a measurement that had two.
fn is_mix(rows: &[Row], row: &Row) -> bool {
    let (workload, case, threads, cs_load, range, _) = row.configuration();
    let whole = (workload, case, threads, cs_load, range, Side::All);
    row.case == Case::Mixed
        || rows.iter().any(|other| other.lock == row.lock && other.configuration() == whole)
}

/// Sets every row in relation to the fastest peer of its configuration that does
/// the whole job. One side of a mix is no job by itself.
fn fill_ratios(rows: &mut [Row]) {
    for index in 0..rows.len() {
        let row = &rows[index];
        if row.side != Side::All && is_mix(rows, row) {
            continue;
        }
        let peers = || {
            rows.iter().filter(|other| {
                is_peer(&other.lock) && other.configuration() == row.configuration()
            })
        };
        if row.workload == Workload::Idle {
            // It is not about speed.
            let ratio = |pick: fn(&Figures) -> Option<u64>| {
                let least = peers().filter_map(|peer| pick(&peer.figures)).min()?;
                Some(pick(&row.figures)? as f64 / least as f64).filter(|ratio| ratio.is_finite())
            };
            let (p50, p99) = (ratio(|f| f.free_p50_ns), ratio(|f| f.free_p99_ns));
            rows[index].free_p50_ratio_to_best_peer = p50;
            rows[index].free_p99_ratio_to_best_peer = p99;
            continue;
        }
        let fastest = peers().filter_map(Row::speed).reduce(f64::max);
        let best = peers().filter(|row| sets_the_mark(row)).filter_map(Row::speed).reduce(f64::max);
        // To one that did nothing there is none.
        let ratio =
            |to: Option<f64>| Some(row.speed()? / to?).filter(|ratio: &f64| ratio.is_finite());
        let (to_best, to_fastest) = (ratio(best), ratio(fastest));
        rows[index].ratio_to_best_peer = to_best;
        rows[index].ratio_to_fastest_peer = to_fastest;
    }
}

/// Whether it does the whole job: a peer that does is what others are measured by.
fn sets_the_mark(row: &Row) -> bool {
    row.figures.starved_threads.unwrap_or(0) == 0
        && row.figures.balance_score.is_none_or(|score| score >= 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::rows;
    use crate::row::tests::{measured, mix, total};

    #[test]
    fn balance_score_comes_from_the_same_locks_rates_alone() {
        let rows = rows(&mix("fairlock:default", [50, 50], [25, 25]));
        let total = total(&rows, "fairlock:default");
        assert_eq!(total.figures.balance_score, Some(1.0));
        assert_eq!(total.figures.ops_per_s, Some(150.0));
        let write = rows.iter().find(|r| r.side == Side::Write && r.case == Case::Mixed).unwrap();
        assert_eq!(write.figures.share_of_alone, Some(0.5));
    }

    #[test]
    fn a_peer_that_starves_or_is_lopsided_sets_no_mark() {
        let mut all = Vec::from(mix("std", [100, 100], [0, 0]));
        all.extend(mix("parking_lot", [100, 90], [4, 2]));
        all.extend(mix("abseil", [40, 40], [20, 20]));
        all.extend(mix("fairlock:default", [50, 50], [25, 25]));
        let rows = rows(&all);
        assert_eq!(total(&rows, "abseil").ratio_to_best_peer, Some(1.0));
        assert_eq!(total(&rows, "fairlock:default").ratio_to_best_peer, Some(1.25));
        assert_eq!(total(&rows, "std").figures.starved_threads, Some(2));
    }

    #[test]
    fn nothing_is_so_many_times_as_fast_as_a_peer_that_did_nothing() {
        let all = [
            measured("std", Case::WriterAlone, None, Some([0, 0])),
            measured("fairlock:default", Case::WriterAlone, None, Some([40, 35])),
        ];
        for row in rows(&all) {
            let ratios = (row.ratio_to_best_peer, row.ratio_to_fastest_peer);
            assert_eq!(ratios, (None, None), "{}", row.lock);
        }
    }

    #[test]
    fn the_fastest_peer_may_be_one_that_starves() {
        let all = [
            measured("std", Case::WriterAlone, None, Some([100, 0])),
            measured("parking_lot", Case::WriterAlone, None, Some([25, 25])),
            measured("fairlock:default", Case::WriterAlone, None, Some([40, 35])),
            measured("ref:tas", Case::WriterAlone, None, Some([200, 200])),
        ];
        let rows = rows(&all);
        let ours = rows.iter().find(|row| row.lock == "fairlock:default").unwrap();
        assert_eq!((ours.ratio_to_best_peer, ours.ratio_to_fastest_peer), (Some(1.5), Some(0.75)));
    }
}

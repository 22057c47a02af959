//! What models that know nothing would score, beside what the simulation scores. A table that such a
//! model predicts as well shows nothing.

use std::fmt::Write as _;

use fairlock_cli::simulated::{
    Row, Rows, baseline, is_real, is_relative, latency_ns, range, several, two_digits,
};

use crate::cell::Workload;
use crate::score::{Null, Score};
use crate::stats::spearman;

/// What is further off than this counts as this far off: a lock that got nothing done is infinitely
/// far off, and would leave nothing to say of the others.
const FURTHEST: f64 = 100.0;

/// A ratio that differs from 1 by no more than this counts as 1.
const SAME: f64 = 0.03;

/// On which side of another lock a lock is.
pub fn side_of(ratio: f64) -> &'static str {
    if ratio < 1.0 - SAME {
        "less"
    } else if ratio > 1.0 + SAME {
        "more"
    } else {
        "as much"
    }
}

impl Null {
    const ALL: [Self; 3] = [Self::AllEqual, Self::PlainLock, Self::PlainLatency];

    /// What it says of the configurations, and what the score is of.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::AllEqual => ("all locks are equal", "relation to the plain lock"),
            Self::PlainLock => ("the plain lock's throughput", "throughput"),
            Self::PlainLatency => ("the plain lock's latency", "latency"),
        }
    }

    /// The figure with a seed.
    fn ours(self, row: &Row, plain: &Row, seed: usize) -> Option<f64> {
        match self {
            Self::AllEqual => Some(row.rate_of(seed)? / plain.rate_of(seed)?),
            Self::PlainLock => row.rate_of(seed),
            Self::PlainLatency => row.by_seed.get(seed)?.latency_p50_ns.map(|ns| ns as f64),
        }
    }

    /// The published figure, and what this model says.
    fn published(self, row: &Row, plain: &Row) -> Option<(f64, f64)> {
        let figure = |row: &Row| row.comparison.published;
        match self {
            Self::AllEqual => Some((figure(row)? / figure(plain)?, 1.0)),
            Self::PlainLock if is_relative(row) => None,
            Self::PlainLock => figure(row).zip(figure(plain)),
            Self::PlainLatency => latency_ns(row).zip(latency_ns(plain)),
        }
    }
}

/// A cell of a lock that is not the plain one.
struct Pair<'a> {
    row: &'a Row,
    plain: &'a Row,
}

/// The plain lock of a row's table: what was there before.
fn plain(row: &Row) -> Option<&str> {
    match row.workload {
        Workload::DirectIo => Some("fairlock:no_reader_spin"),
        _ => baseline(row).map(|(lock, _)| lock),
    }
}

/// The part of a table that a row is in.
fn load(row: &Row) -> Option<String> {
    let pauses = || row.cs_load.map(|n| several(n, "pause"));
    row.overcommit.map(|x| format!("{x}x")).or_else(pauses)
}

/// Whether a number was fitted on this part of the workload's published table, or is one of its figures: wake-ups on
/// `handoff`, four numbers on 20 pauses, the work between two sections on the gains at 2x, the disk on its latency.
fn is_in_sample(workload: Workload, load: Option<&str>) -> bool {
    match workload {
        Workload::Handoff | Workload::DirectIo => true,
        Workload::ReaderSpin => load.is_none_or(|load| load == "20 pauses"),
        Workload::Batch => load.is_none_or(|load| load == "2x"),
        _ => false,
    }
}

/// The scores of a workload's rows: of each machine, and of each load if there are several.
pub fn scores(rows: &Rows<'_>) -> Vec<Score> {
    let pairs: Vec<Pair<'_>> = rows
        .iter()
        .filter(|row| row.comparison.published.is_some())
        .filter_map(|row| Some(Pair { row, plain: rows.of_lock(row, plain(row)?)? }))
        .filter(|pair| pair.row.lock != pair.plain.lock)
        .collect();
    let mut parts: Vec<(&str, Option<String>)> = Vec::new();
    for row in pairs.iter().map(|pair| pair.row) {
        let machine = row.machine.as_deref().unwrap_or_default();
        for part in [(machine, None), (machine, load(row))] {
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    let several_loads = |of: &str| parts.iter().filter(|(machine, _)| *machine == of).count() > 2;
    let mut scores = Vec::new();
    for (machine, part) in &parts {
        if part.is_some() && !several_loads(machine) {
            continue;
        }
        let is_in = |pair: &&Pair<'_>| {
            pair.row.machine.as_deref() == Some(machine)
                && (part.is_none() || load(pair.row) == *part)
        };
        let cells: Vec<_> = pairs.iter().filter(is_in).collect();
        scores
            .extend(Null::ALL.into_iter().filter_map(|null| score(null, &cells, part, rows.seeds)));
    }
    scores
}

fn score(null: Null, cells: &[&Pair<'_>], load: &Option<String>, seeds: usize) -> Option<Score> {
    let cells: Vec<_> = cells
        .iter()
        .filter_map(|pair| Some((pair, null.published(pair.row, pair.plain)?)))
        .collect();
    let first = cells.first()?.0;
    let by_seed: Vec<Vec<(f64, f64)>> = (0..seeds)
        .map(|seed| {
            let ours = |pair: &Pair<'_>| null.ours(pair.row, pair.plain, seed);
            // Nothing in relation to nothing is as far off as can be, too.
            let ours = |pair| ours(pair).filter(|ratio| !ratio.is_nan()).unwrap_or(0.0);
            cells.iter().map(|(pair, (published, _))| (ours(pair), *published)).collect()
        })
        .collect();
    let of_null: Vec<(f64, f64)> =
        cells.iter().map(|(_, (published, null))| (*null, *published)).collect();
    let log_error: Vec<f64> = by_seed.iter().map(|pairs| error(pairs)).collect();
    let log_error_of_null = error(&of_null);
    let rank: Vec<f64> = by_seed.iter().filter_map(|pairs| spearman(pairs)).collect();
    let rank_of_null = spearman(&of_null);
    let beats = log_error.iter().all(|&error| error < log_error_of_null)
        && rank.iter().all(|&rank| rank_of_null.map_or(rank > 0.0, |of_null| rank >= of_null))
        && seeds > 0;
    let of_relations = null == Null::AllEqual;
    let measured = is_real(first.row);
    Some(Score {
        workload: first.row.workload,
        measured,
        in_sample: !measured && is_in_sample(first.row.workload, load.as_deref()),
        machine: first.row.machine.clone().unwrap_or_default(),
        load: load.clone(),
        null,
        cells: cells.len(),
        log_error,
        log_error_of_null,
        rank,
        rank_of_null,
        signs: by_seed.iter().filter(|_| of_relations).map(|pairs| agreeing(pairs)).collect(),
        signs_of_null: of_relations.then(|| agreeing(&of_null)),
        beats,
    })
}

/// The root of the mean square of the logarithm of how far off the first is from the second.
fn error(pairs: &[(f64, f64)]) -> f64 {
    let most = FURTHEST.ln();
    let squares = pairs.iter().map(|(a, b)| (a / b).ln().clamp(-most, most).powi(2));
    (squares.sum::<f64>() / pairs.len() as f64).sqrt()
}

/// How many pairs are on the same side of 1.
fn agreeing(pairs: &[(f64, f64)]) -> usize {
    pairs.iter().filter(|(a, b)| side_of(*a) == side_of(*b)).count()
}

/// The scores in words, a line each.
pub fn in_words(scores: &[Score]) -> String {
    let mut out = String::new();
    for score in scores {
        let (model, figure) = score.null.names();
        let load = score.load.as_ref().map_or_else(String::new, |load| format!(", {load}"));
        let verdict = match (score.beats, score.in_sample) {
            (true, true) => "beats it, in-sample",
            (true, false) => "beats it",
            (false, _) => "does not beat it",
        };
        let figures = if score.measured { "measured" } else { "published" };
        // Writing to a string does not fail.
        let _ = write!(
            out,
            "{}{load}, {figure} over {}: log error {} ({model}: {:.2}), rank correlation {} ({})",
            score.machine,
            several(score.cells, "cell"),
            range(score.log_error.iter().copied(), two_digits),
            score.log_error_of_null,
            range(score.rank.iter().copied(), two_digits),
            score.rank_of_null.map_or_else(|| "-".to_owned(), two_digits),
        );
        if let Some(of_null) = score.signs_of_null {
            let signs = range(score.signs.iter().map(|&n| n as f64), |n| format!("{n:.0}"));
            let _ = write!(
                out,
                ", {signs} of {} on the {figures} side of 1 ± {SAME} ({of_null})",
                score.cells
            );
        }
        let _ = writeln!(out, ": {verdict}");
    }
    out
}

#[cfg(test)]
mod tests {
    use fairlock_cli::simulated::Figures;

    use super::*;
    use crate::tests::row;

    /// Two locks with 1, 20 and 100 pauses, published at these rates; ours have the others, with
    /// two seeds.
    fn scored(published: [[f64; 2]; 3], ours: [[f64; 2]; 3]) -> Vec<Score> {
        let mut all = Vec::new();
        for ((published, ours), pauses) in published.into_iter().zip(ours).zip([1, 20, 100]) {
            for (at, lock) in ["fairlock:reader_spin_always", "fairlock:handoff"].iter().enumerate()
            {
                let mut row = row("reader-spin", "mixed", lock, "all", 2);
                row.machine = Some("a machine".to_owned());
                row.cs_load = Some(pauses);
                row.comparison.published = Some(published[at]);
                let seed = Figures { ops_per_s: Some(ours[at]), ..Figures::default() };
                row.by_seed = vec![seed.clone(), seed];
                all.push(row);
            }
        }
        scores(&Rows::of(&all))
    }

    #[test]
    fn what_is_right_beats_models_that_know_nothing() {
        let published = [[100.0, 25.0], [90.0, 80.0], [50.0, 60.0]];
        let scores = scored(published, published);
        assert_eq!(scores.len(), 8, "a table and three loads, each against two models");
        for score in &scores {
            assert!(score.beats && score.log_error == [0.0, 0.0]);
        }
        let words = in_words(&scores);
        let of_sample = words.lines().filter(|line| line.ends_with("beats it, in-sample")).count();
        assert_eq!(of_sample, 4, "the table and 20 pauses: {words}");
        let table = &scores[0];
        let (far, near, over) = ((0.25f64).ln(), (80.0f64 / 90.0).ln(), (1.2f64).ln());
        let expected = ((far * far + near * near + over * over) / 3.0).sqrt();
        assert!((table.log_error_of_null - expected).abs() < 1e-12);
        assert_eq!((table.signs.as_slice(), table.signs_of_null), (&[3, 3][..], Some(0)));
        assert_eq!((table.rank.as_slice(), table.rank_of_null), (&[1.0, 1.0][..], None));
    }

    #[test]
    fn what_says_that_all_locks_are_equal_does_not_beat_the_model_that_says_so() {
        let published = [[100.0, 25.0], [90.0, 80.0], [50.0, 60.0]];
        let equal = published.map(|[plain, _]| [plain, plain]);
        let words = in_words(&scored(published, equal));
        assert!(!words.contains(": beats it"), "{words}");
        assert_eq!(words.matches(": does not beat it").count(), 8, "{words}");
    }

    #[test]
    fn a_lock_that_gets_nothing_done_is_far_off_and_no_further() {
        assert_eq!(error(&[(0.0, 1.0)]), FURTHEST.ln());
        assert_eq!(error(&[(f64::INFINITY, 1.0)]), FURTHEST.ln());
        let scores = scored([[100.0, 25.0]; 3], [[0.0, 0.0]; 3]);
        assert!(scores.iter().all(|score| !score.beats && score.log_error[0] == FURTHEST.ln()));
    }
}

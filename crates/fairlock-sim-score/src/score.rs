//! The score of a simulated table, and all scores as a table for docs/simulator.md.

use std::fmt::Write as _;

use crate::cell::Workload;

/// A model that knows nothing about locks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Null {
    /// Every lock does what the plain lock does in the same configuration. Of the locks in relation
    /// to each other it knows nothing.
    AllEqual,
    /// The same, as rates: what was published of the plain lock stands for every lock. It knows a
    /// column of the table, and so the machine.
    PlainLock,
    /// The same, of latencies.
    PlainLatency,
}

/// How near a table comes to what was published, beside a model that knows nothing.
pub struct Score {
    pub workload: Workload,
    pub machine: String,
    /// Whether the figures beside ours were measured by `bench`, not published.
    pub measured: bool,
    /// Whether a number of the machine, or of the workload, was fitted on these cells, or is one of them.
    pub in_sample: bool,
    /// The part of the table; all of it if absent.
    pub load: Option<String>,
    pub null: Null,
    pub cells: usize,
    /// The root of the mean square of the logarithm of ours in relation to the published figure; for
    /// each seed.
    pub log_error: Vec<f64>,
    pub log_error_of_null: f64,
    /// Rank correlation with the published or measured figures; for each seed.
    pub rank: Vec<f64>,
    pub rank_of_null: Option<f64>,
    /// Cells on the published or measured side of the plain lock, where 3 % more or less are as much; for each seed.
    pub signs: Vec<usize>,
    pub signs_of_null: Option<usize>,
    /// Whether the log error is less than the model's with every seed, and the rank no worse; it is positive if the
    /// model has none.
    pub beats: bool,
}

/// The scores as a table in Markdown, each the range over the seeds.
pub fn table(scores: &[Score]) -> String {
    let mut out =
        "| table | figure | cells | log error | null | rank | null | signs | null | verdict |\n\
                   |---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for score in scores {
        let figure = match score.null {
            Null::AllEqual => "relation",
            Null::PlainLock => "throughput",
            Null::PlainLatency => "latency",
        };
        let load = score.load.as_ref().map_or_else(String::new, |load| format!(" {load}"));
        let signs: Vec<f64> = score.signs.iter().map(|&cells| cells as f64).collect();
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "| `{}` {}{load} | {figure} | {} | {} | {:.2} | {} | {} | {} | {} | {} |",
            score.workload.name(),
            score.machine,
            score.cells,
            over_seeds(&score.log_error, 2),
            score.log_error_of_null,
            over_seeds(&score.rank, 2),
            over_seeds(score.rank_of_null.as_slice(), 2),
            over_seeds(&signs, 0),
            score.signs_of_null.map_or_else(|| "–".to_owned(), |cells| cells.to_string()),
            match (score.beats, score.in_sample) {
                (true, true) => "beats it, in-sample",
                (true, false) => "beats it",
                (false, _) => "**does not**",
            },
        );
    }
    out
}

/// The least and the greatest, or the one that there is.
fn over_seeds(figures: &[f64], digits: usize) -> String {
    let shown = |figure: f64| format!("{figure:.digits$}");
    let least = figures.iter().copied().reduce(f64::min).map(shown);
    let most = figures.iter().copied().reduce(f64::max).map(shown);
    match (least, most) {
        (Some(least), Some(most)) if least == most => least,
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "–".to_owned(),
    }
}

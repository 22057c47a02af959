//! `fairlock compare`, and `fairlock bench --baseline`: what changed between two results by more
//! than the runs differ among themselves.

pub mod bootstrap;
mod change;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::error::{Error, FAILED};
use crate::flags::MOST_RUNS;
use crate::layout::{Column, Table};
use crate::locks::is_peer;
use crate::output::{Page, complain};
use crate::results::Results;
use crate::row::Row;
use crate::table::or_dash;
use bootstrap::Estimate;
use change::{Comparison, LockChange, in_percent, is_change};

/// What to compare.
#[derive(Args)]
pub struct CompareFlags {
    /// The earlier result: a file of `bench --json` or `sim --json`
    #[arg(value_name = "BEFORE.json")]
    pub before: PathBuf,
    /// The later result, of the same command
    #[arg(value_name = "AFTER.json")]
    pub after: PathBuf,
    #[command(flatten)]
    pub check: Check,
}

/// What of a comparison is a failure.
#[derive(Args, Clone, Copy, Default)]
pub struct Check {
    /// Exit with 1 if a lock is certainly slower, by this many percent or more
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fail_on_regression: Option<f64>,
}

/// The change, in percent, that is looked for unless told otherwise.
const LOOKED_FOR: f64 = 5.0;
/// How many cells are listed at most.
const LISTED: usize = 12;

const NOTE: &str = "speed: mean over the cells, of which the steadier ones count more, less what the peers did \
     (for locks that are none);\ninterval: where the real change is (with all intervals of this \
     table, 99 % of the time); wait p99.9: by how many times it is as long;\nstarved: threads; -: a measurement \
     is too short to tell";

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().map_err(|_| "use a number, such as 5".to_owned())?;
    if (0.0..100.0).contains(&percent) { Ok(percent) } else { Err("use 0 to 99".to_owned()) }
}

/// Compares two files.
pub fn compare(flags: &CompareFlags) -> Result<ExitCode, Error> {
    let (before, after) = (Results::load(&flags.before)?, Results::load(&flags.after)?);
    let mut head = String::new();
    for (name, results) in [("before", &before), ("after ", &after)] {
        head += &format!(
            "{name}: {} ({}; {})\n",
            results.file.display(),
            results.command,
            results.origin()
        );
    }
    if before.machine != after.machine {
        head += "These are different machines: what changed may be they, and not the locks.\n";
    }
    if before.interrupted || after.interrupted {
        head += "One of these was interrupted: cells are missing.\n";
    }
    Page::Stdout.show(&format!("{head}\n"))?;
    show(&before.rows, &after.rows, flags.check, Page::Stdout)
}

/// Shows what changed; the exit code says whether the change is a failure.
pub fn show(before: &[Row], after: &[Row], check: Check, page: Page) -> Result<ExitCode, Error> {
    let comparison = Comparison::of(before, after);
    if comparison.locks.is_empty() {
        return Err(Error::failed(
            "nothing to compare: no lock is in both results in the same configuration; make both \
             with the same command",
        ));
    }
    let looked_for = check.fail_on_regression.unwrap_or(LOOKED_FOR);
    // Simulated runs differ by their seeds.
    let more = if after.iter().any(|row| row.machine.is_some()) { "seeds" } else { "runs" };
    page.show(&text(&comparison, looked_for, more, page.width()))?;
    let regressions = check.fail_on_regression.map(|percent| comparison.regressions(percent));
    match regressions.as_deref() {
        None | Some([]) => Ok(ExitCode::SUCCESS),
        Some(slower) => {
            complain(&format!("slower by {looked_for} % or more: {}", slower.join("; ")));
            Ok(ExitCode::from(FAILED))
        }
    }
}

/// `more` is what there could be more of, to tell what cannot be told.
fn text(comparison: &Comparison, looked_for: f64, more: &str, width: Option<usize>) -> String {
    let mut table = Table::new([
        Column::lock(),
        Column::figure("cells").rank(2),
        Column::figure("runs").rank(3),
        Column::figure("speed"),
        Column::figure("interval"),
        Column::name("verdict"),
        Column::figure("wait p99.9").rank(4),
        Column::figure("interval").rank(1),
        Column::figure("starved").rank(4),
    ]);
    for change in &comparison.locks {
        table.row([
            change.lock.clone(),
            change.cells.to_string(),
            change.runs.to_string(),
            signed(change.speed.value),
            interval(&change.speed, signed),
            verdict(change, looked_for, more),
            or_dash(change.wait, |wait| times(wait.value)),
            or_dash(change.wait, |wait| interval(&wait, times)),
            starved(change),
        ]);
    }
    let mut text = table.titled("what changed, by lock", NOTE, width);
    text += &match &comparison.peers {
        Some(peers) => format!(
            "peers: {} ({}); that is the machine, and taken from what the others did\n",
            signed(peers.value),
            interval(peers, signed)
        ),
        None => "no peers in both: what the machine did meanwhile counts as the locks' doing; \
                 include some (--locks …,std,parking_lot)\n"
            .to_owned(),
    };
    if !comparison.cells.is_empty() {
        text += "\ncells that changed by themselves:\n";
        for cell in comparison.cells.iter().take(LISTED) {
            text += &format!(
                "{} ({}): {}, {}\n",
                signed(cell.speed.value),
                interval(&cell.speed, signed),
                cell.lock,
                cell.what
            );
        }
        if let Some(more) = comparison.cells.len().checked_sub(LISTED).filter(|&more| more > 0) {
            text += &format!("and {more} more\n");
        }
    }
    for (count, what) in [
        (comparison.only_before, "in the first result only"),
        (comparison.only_after, "in the second result only"),
        (comparison.without_speed, "left out: in one of the results nothing was done"),
    ] {
        if count > 0 {
            text += &format!("cells {what}: {count}\n");
        }
    }
    text
}

fn starved(change: &LockChange) -> String {
    match change.starved.map(|threads| or_dash(threads, |threads| threads.to_string())) {
        [before, after] if before == after => before,
        [before, after] => format!("{before} to {after}"),
    }
}

/// The last column of a lock's line: what its change means.
fn verdict(change: &LockChange, looked_for: f64, more: &str) -> String {
    if is_peer(&change.lock) {
        return "(a peer)".to_owned();
    }
    let bound = (looked_for / 100.0).ln_1p();
    let speed = &change.speed;
    if is_change(speed) {
        return if speed.value < 0.0 { "slower" } else { "faster" }.to_owned();
    }
    if speed.low > -bound && speed.high < bound {
        return format!("within {looked_for} %");
    }
    // The interval shrinks with the square root of the number of runs.
    let doubt = speed.doubt();
    let runs = if doubt.is_finite() && bound > 0.0 {
        (change.runs as f64 * (doubt / bound).powi(2)).ceil().max(change.runs as f64 + 1.0)
    } else {
        3.0_f64.max(2.0 * change.runs as f64)
    };
    if runs > f64::from(MOST_RUNS) {
        return format!("cannot tell: too small to see with {MOST_RUNS} {more}");
    }
    format!("cannot tell: try --{more} {runs:.0}")
}

fn signed(logarithm: f64) -> String {
    format!("{:+.1} %", in_percent(logarithm))
}

fn times(logarithm: f64) -> String {
    format!("{:.2}", logarithm.exp())
}

fn interval(estimate: &Estimate, show: fn(f64) -> String) -> String {
    if estimate.doubt().is_finite() {
        format!("{} to {}", show(estimate.low), show(estimate.high))
    } else {
        "any".to_owned()
    }
}

//! `fairlock compare`, and `fairlock bench --baseline`: what changed between two results by more
//! than the runs differ among themselves; or between two profiles of a program.

mod change;
mod profiles;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::bootstrap::Estimate;
use crate::error::{Error, FAILED};
use crate::layout::{Column, Table, or_dash};
use crate::locks::is_peer;
use crate::output::{Page, complain};
use crate::preload::document::{Document, SCHEMA};
use crate::results::{Machine, Results, origin};
use crate::row::Row;
use crate::row::runs::MOST_RUNS;
use crate::written::Written;
use change::{Comparison, LockChange, in_percent, is_change};

/// What to compare.
#[derive(Args)]
pub struct CompareFlags {
    /// The earlier result: a file of `bench --json`, `sim --json` or `run --json`
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
    const BY: &str = "`fairlock bench … --json FILE`, `sim … --json FILE` or `run --json FILE …`";
    let read = |path| Written::read(path, BY);
    let (before, after) = (read(&flags.before)?, read(&flags.after)?);
    let is_profile = |written: &Written<'_>| Ok(written.schema()?.starts_with("fairlock-profile/"));
    match (is_profile(&before)?, is_profile(&after)?) {
        (true, true) => compare_profiles(flags, &before, &after),
        (false, false) => compare_results(flags, &before, &after),
        _ => Err(Error::usage(
            "one of these is the profile of a program, and the other is none: compare two of the \
             same command",
        )),
    }
}

fn compare_results(
    flags: &CompareFlags,
    before: &Written<'_>,
    after: &Written<'_>,
) -> Result<ExitCode, Error> {
    let results = (Results::of(&flags.before, before)?, Results::of(&flags.after, after)?);
    let (before, after) = (&results.0, &results.1);
    let of = |results: &Results| (results.command.clone(), results.origin());
    let mut head = head(flags, [of(before), of(after)], before.machine == after.machine);
    if before.interrupted || after.interrupted {
        head += "One of these was interrupted: cells are missing.\n";
    }
    Page::Stdout.show(&format!("{head}\n"))?;
    show(&before.rows, &after.rows, flags.check, Page::Stdout)
}

fn compare_profiles(
    flags: &CompareFlags,
    before: &Written<'_>,
    after: &Written<'_>,
) -> Result<ExitCode, Error> {
    if flags.check.fail_on_regression.is_some() {
        return Err(Error::usage(
            "--fail-on-regression: a profile is of one run, which does not tell what is chance; use \
             results of `bench` or `sim`",
        ));
    }
    let document = |written: &Written<'_>| written.document::<Document<Machine>>(SCHEMA);
    let documents = [document(before)?, document(after)?];
    let of = |document: &Document<Machine>| {
        let machine = document.machine.clone().unwrap_or_default();
        let origin = origin(&machine, document.made.as_deref(), Some(&document.version));
        let command = document.command.clone().unwrap_or_else(|| "fairlock run".to_owned());
        (command, format!("{origin}; {}", document.served()))
    };
    let [before, after] = &documents;
    let head = head(flags, [of(before), of(after)], before.machine == after.machine);
    let text = profiles::text([before, after], Page::Stdout.width());
    Page::Stdout.show(&format!("{head}\n{text}"))?;
    Ok(ExitCode::SUCCESS)
}

/// What is compared: of each file, the command that made it, and where it is from.
fn head(flags: &CompareFlags, made: [(String, String); 2], same_machine: bool) -> String {
    let [before, after] = made;
    let line = |name: &str, file: &Path, (command, origin): (String, String)| {
        format!("{name}: {} ({command}; {origin})\n", file.display())
    };
    let mut head = line("before", &flags.before, before) + &line("after ", &flags.after, after);
    if !same_machine {
        head += "These are different machines: changes may be theirs, not the locks'.\n";
    }
    head
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
    let table = Table::of(
        &comparison.locks,
        [
            (Column::lock(), &|change: &LockChange| change.lock.clone()),
            (Column::figure("cells").rank(2), &|change| change.cells.to_string()),
            (Column::figure("runs").rank(3), &|change| change.runs.to_string()),
            (Column::figure("speed"), &|change| signed(change.speed.value)),
            (Column::figure("interval"), &|change| interval(&change.speed, signed)),
            (Column::name("verdict"), &|change| verdict(change, looked_for, more)),
            (Column::figure("wait p99.9").rank(4), &|change| {
                or_dash(change.wait, |wait| times(wait.value))
            }),
            (Column::figure("interval").rank(1), &|change| {
                or_dash(change.wait, |wait| interval(&wait, times))
            }),
            (Column::figure("starved").rank(4), &starved),
        ],
    );
    let mut text = table.titled("what changed, by lock", NOTE, width);
    text += &match &comparison.peers {
        Some(peers) => format!(
            "peers: {} ({}); that is the machine, and subtracted from the other changes\n",
            signed(peers.value),
            interval(peers, signed)
        ),
        None => "no peers in both: what the machine did meanwhile counts as the locks' doing; \
                 include some (--locks …,std,parking_lot)\n"
            .to_owned(),
    };
    text + &cells(comparison)
}

/// Cells that changed by themselves, and how many could not be compared.
fn cells(comparison: &Comparison) -> String {
    let mut text = String::new();
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

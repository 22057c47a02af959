//! `fairlock torture --real`: plan, run, show.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use fairlock_workloads::torture::{self, Lock, Plan, Tortured};

use super::{RealRow, Row, TortureFlags, Written};
use crate::error::{Error, FAILED, INTERRUPTED, unknown};
use crate::layout::{Column, NOTHING, Showing, Table};
use crate::machine;
use crate::output::complain;
use crate::runner::{Event, Events, progress};
use crate::units::time;

/// Threads for each CPU.
const OVERCOMMIT: [f64; 6] = [0.5, 1.0, 2.0, 4.0, 8.0, 50.0];
const LASTING: Duration = Duration::from_secs(60);

/// Runs for as long as the flags say, or until a lock fails. Ctrl-C ends it early: what was tried by then is shown.
pub fn torture(flags: &TortureFlags, written: &Written) -> Result<ExitCode, Error> {
    let plan = plan(flags)?;
    let events = Events::<()>::install()?;
    let interrupted = std::cell::Cell::new(false);
    let stop = || {
        if let Some(Event::Interrupted) = events.next(Duration::ZERO) {
            interrupted.set(true);
        }
        interrupted.get()
    };
    let bar = progress::bar(plan.lasting.as_secs());
    let began = Instant::now();
    let tortured = torture::run(&plan, stop, |what| {
        bar.set_position(began.elapsed().as_secs());
        bar.set_message(what.to_owned());
    })?;
    bar.finish_and_clear();
    let failure =
        tortured.iter().find_map(|of| of.failure.as_ref().map(|failure| (of.lock, failure)));
    let mut text = table(&tortured, written.width());
    if let Some((lock, (round, what))) = failure {
        let (name, seed) = (lock.name, seed_of(&plan, *round));
        let lasting = humantime::format_duration(plan.lasting);
        text.push_str(&format!(
            "\nfailed: {name}, seed {seed}: {what}\nagain: fairlock torture --real --locks {name} --seed {seed} --for {lasting}\n"
        ));
    }
    let rows = tortured.iter().filter(|of| of.rounds > 0).map(|of| row(of, &plan)).collect();
    written.show(&text, rows, flags.seed, interrupted.get())?;
    if failure.is_some() {
        return Ok(ExitCode::from(FAILED));
    }
    if interrupted.get() {
        complain("interrupted; what was finished is shown");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(ExitCode::SUCCESS)
}

/// With this seed the round is the first.
fn seed_of(plan: &Plan, round: u64) -> u64 {
    torture::seed(plan.seed, round)
}

fn plan(flags: &TortureFlags) -> Result<Plan, Error> {
    let overcommit = match &flags.overcommit[..] {
        [] => OVERCOMMIT.to_vec(),
        chosen => chosen.to_vec(),
    };
    if let Some(wrong) = overcommit.iter().find(|&&share| !(share > 0.0 && share <= 1_000.0)) {
        return Err(Error::usage(format!(
            "--overcommit {wrong}: use more than 0, and 1000 at most"
        )));
    }
    let lasting = flags.lasting.unwrap_or(LASTING);
    Ok(Plan {
        locks: chosen(&flags.locks)?,
        lasting,
        overcommit,
        cpus: machine::cpus(),
        seed: flags.seed,
    })
}

fn chosen(names: &[String]) -> Result<Vec<Lock>, Error> {
    let all = torture::all();
    let known: Vec<&str> = all.iter().map(|lock| lock.name).collect();
    let named = |name: &String| {
        torture::named(name).ok_or_else(|| unknown("lock to torture", name, &known))
    };
    if names.is_empty() { Ok(all) } else { names.iter().map(named).collect() }
}

fn table(tortured: &[Tortured], width: Option<usize>) -> String {
    let refused = |of: &Tortured, which: usize| of.tally.refused[which].to_string();
    let columns: [Showing<'_, Tortured>; 10] = [
        (Column::name("lock"), &|of: &Tortured| of.lock.name.to_owned()),
        (Column::figure("rounds"), &|of| of.rounds.to_string()),
        (Column::figure("threads"), &|of| of.threads.to_string()),
        (Column::figure("acquired"), &|of| of.tally.had.to_string()),
        (Column::figure("busy"), &|of| refused(of, 0)),
        (Column::figure("timed out"), &|of| refused(of, 1)),
        (Column::figure("cancelled"), &|of| refused(of, 2)),
        (Column::figure("interrupted"), &|of| refused(of, 3)),
        (Column::figure("longest"), &|of| time(of.tally.longest)),
        (Column::figure("of bound"), &|of| match of.tally.part {
            0.0 => NOTHING.to_owned(),
            part => format!("{:.0} %", part * 100.0),
        }),
    ];
    let note = match torture::knows_delays() {
        true => "of bound: the largest share of its bound that a wait took; -: all below 10 ms",
        false => "this system does not say who lacked a CPU: only waits of 20 s are found",
    };
    Table::of(tortured.iter().filter(|of| of.rounds > 0), columns).titled(
        "torture, real threads",
        note,
        width,
    )
}

fn row(of: &Tortured, plan: &Plan) -> Row {
    let failure = of.failure.as_ref().map(|(round, what)| (seed_of(plan, *round), what.clone()));
    let [busy, timed_out, cancelled, interrupted] = of.tally.refused;
    let real = RealRow {
        rounds: of.rounds,
        threads: of.threads,
        acquired: of.tally.had,
        busy,
        timed_out,
        cancelled,
        interrupted,
        wait_max_ns: of.tally.longest,
        bound_ns: of.tally.its_bound,
        part_of_bound: (of.tally.part * 1_000.0).round() / 1_000.0,
    };
    Row { real: Some(real), ..Row::new(of.lock.name, failure) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::assert_fits;

    #[test]
    fn the_table_fits_however_large_its_figures_are() {
        let of = |lock| {
            let mut of = Tortured {
                lock,
                rounds: u64::MAX,
                threads: 99_999,
                tally: Default::default(),
                failure: None,
            };
            (of.tally.had, of.tally.refused) = (u64::MAX, [u64::MAX; 4]);
            (of.tally.longest, of.tally.part) = (u64::MAX, 9e9);
            of
        };
        let all: Vec<_> = torture::all().into_iter().map(of).collect();
        assert_fits(&table(&all, Some(80)), 80);
    }
}

//! `fairlock torture`: the locks under many schedules of a simulated machine (`schedules`), or on real threads
//! (`real`).

mod real;
mod schedules;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::error::Error;
use crate::json::{Document, Target};
use crate::machine::Machine;
use crate::output::both;
use crate::units::lasting;
use crate::{command_line, names};

const SCHEMA: &str = "fairlock-torture/1";
/// What a document may have in it, as JSON Schema.
pub const SCHEMA_FILE: &[u8] = include_bytes!("../../data/schema/fairlock-torture-1.json");

/// What to try.
#[derive(Args, Clone)]
pub struct TortureFlags {
    /// Use real threads of this machine rather than a simulated one: every operation of each lock at random,
    /// with signals, cancellations, and CPUs that are taken away. A wait beyond its bound is a failure
    #[arg(long)]
    pub real: bool,
    /// Locks to test, separated by commas; default: all
    #[arg(long, value_name = "LOCK", value_delimiter = ',', value_parser = names::tortured_lock(),
          hide_possible_values = true)]
    pub locks: Vec<String>,
    /// How many schedules of each lock [default: 20000]; not with --real
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub schedules: Option<u64>,
    /// With --real: for how long, with its unit: minutes or days [default: 1m]
    #[arg(long = "for", value_name = "TIME", value_parser = lasting)]
    pub lasting: Option<Duration>,
    /// With --real: threads for each CPU, one of these in each round of two seconds [default:
    /// 0.5,1,2,4,8,50]
    #[arg(long, value_name = "X", value_delimiter = ',')]
    pub overcommit: Vec<f64>,
    /// Seed of the first schedule; those of the others follow. `--schedules 1` repeats one that
    /// failed. With --real: seed of the mixes of operations; the timing still differs
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Also write the results to this file, as JSON; `-` is stdout, and the table goes to stderr
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Tortures as the flags say.
pub fn torture(flags: &TortureFlags) -> Result<ExitCode, Error> {
    let target = flags.json.as_deref().map(|file| Target::new("--json", file)).transpose()?;
    let written = Written(target);
    if flags.real {
        if flags.schedules.is_some() {
            let mend = "--real has no schedules to choose: leave out --schedules, or use --for";
            return Err(Error::usage(mend));
        }
        return real::torture(flags, &written);
    }
    if flags.lasting.is_some() || !flags.overcommit.is_empty() {
        return Err(Error::usage("--for and --overcommit are of real threads: add --real"));
    }
    schedules::torture(flags, &written)
}

/// What is in the document.
#[derive(Serialize)]
struct Tortured {
    seed: u64,
    rows: Vec<Row>,
}

/// One lock; what does not apply is left out.
#[derive(Serialize, Default)]
struct Row {
    lock: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedules: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    #[serde(flatten)]
    real: Option<RealRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failed>,
}

/// On real threads.
#[derive(Serialize)]
struct RealRow {
    rounds: u64,
    threads: usize,
    acquired: u64,
    busy: u64,
    timed_out: u64,
    cancelled: u64,
    interrupted: u64,
    wait_max_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_ns: Option<u64>,
    part_of_bound: f64,
}

/// What is wrong with a lock, and the seed that finds it again.
#[derive(Serialize)]
struct Failed {
    seed: u64,
    what: String,
}

impl Row {
    fn new(lock: &'static str, failure: Option<(u64, String)>) -> Self {
        let failure = failure.map(|(seed, what)| Failed { seed, what });
        Self { lock, failure, ..Self::default() }
    }
}

/// Where the results go.
struct Written(Option<Target>);

impl Written {
    /// How wide a table may be.
    fn width(&self) -> Option<usize> {
        Target::page_beside(&[&self.0]).width()
    }

    fn show(&self, text: &str, rows: Vec<Row>, seed: u64, interrupted: bool) -> Result<(), Error> {
        let shown = Target::page_beside(&[&self.0]).show(text);
        let document = |target: &Target| {
            let (machine, content) = (Machine::this(), Tortured { seed, rows });
            target.write(&Document::new(SCHEMA, &machine, command_line(), interrupted, content))
        };
        both(shown, self.0.as_ref().map_or(Ok(()), document))
    }
}

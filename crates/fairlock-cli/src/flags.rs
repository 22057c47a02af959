//! The flags of `fairlock bench`, and those of them that `fairlock sim` has, too.

use std::path::PathBuf;

use clap::Args;

use crate::cell::Workload::{
    self, Batch, Condvar, DirectIo, Handoff, Idle, Range, ReaderSpin, Spread, Think,
};
use crate::cell::{Case, Form, Holder, Shape};
use crate::compare::Check;
use crate::error::Error;
use crate::names;

/// A flag that only some workloads have.
pub struct OfSome {
    flag: &'static str,
    is_given: bool,
    workloads: &'static [Workload],
}

impl OfSome {
    pub fn new<T>(flag: &'static str, given: &[T], workloads: &'static [Workload]) -> Self {
        Self { flag, is_given: !given.is_empty(), workloads }
    }
}

/// Fails if a flag is given that none of these workloads has: it would be ignored without a word.
pub fn check_are_had(flags: &[OfSome], workloads: &[Workload]) -> Result<(), Error> {
    let is_idle = |flag: &&OfSome| {
        flag.is_given && !flag.workloads.iter().any(|workload| workloads.contains(workload))
    };
    let Some(OfSome { flag, workloads, .. }) = flags.iter().find(is_idle) else { return Ok(()) };
    let names: Vec<_> = workloads.iter().map(|workload| workload.name()).collect();
    Err(Error::usage(format!("{flag} is only for {}: leave it out", names.join(", "))))
}

/// Which cells of the workloads that take locks as programs do.
#[derive(Args, Clone, Default)]
pub struct ProgramFlags {
    /// What the locks are used as (think, spread, idle: rwlock,mutex,range)
    #[arg(long, value_name = "FORM", value_delimiter = ',', value_parser = names::form(),
          hide_possible_values = true)]
    pub form: Vec<Form>,
    /// Work outside the lock, as a multiple of the work inside (think: 0,1,10,100,1000)
    #[arg(long, value_name = "X", value_delimiter = ',')]
    pub outside: Vec<u32>,
    /// How many locks there are; each operation is on one of them (spread: 1,16,64,1000)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub among: Vec<usize>,
    /// What the holder does after its section (idle: away,back)
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = names::holder(),
          hide_possible_values = true)]
    pub holder: Vec<Holder>,
}

impl ProgramFlags {
    pub fn of_some(&self) -> [OfSome; 4] {
        [
            OfSome::new("--form", &self.form, &[Think, Spread, Idle]),
            OfSome::new("--outside", &self.outside, &[Think]),
            OfSome::new("--among", &self.among, &[Spread]),
            OfSome::new("--holder", &self.holder, &[Idle]),
        ]
    }
}

/// How to run workloads.
#[derive(Args, Clone, Default)]
pub struct Flags {
    /// Locks to run, separated by commas (see `fairlock locks`), or ours by its parameters:
    /// tenure:handoff_after=1ms,budget=20 (see `sim`); default: all (uncontended, think, spread, idle: our
    /// default locks, and those in use)
    #[arg(long, value_name = "LOCK", value_delimiter = ',', value_parser = names::lock(),
          hide_possible_values = true)]
    pub locks: Vec<String>,
    /// Thread counts (handoff: 60; reader-spin: 2,4,8,16,32,64,96;
    /// range: 1,2,4,8,16; think: 2,8,32,96;
    /// spread: 4,8,32)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub threads: Vec<usize>,
    /// Threads for each CPU (batch: 0.5,1,1.5,2,4,8,16)
    #[arg(long, value_name = "X", value_delimiter = ',')]
    pub overcommit: Vec<f64>,
    /// Pause instructions in the section (reader-spin: 1,20,100; batch: 50)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub cs_load: Vec<u32>,
    /// Only these cases of the workloads
    #[arg(long, value_name = "CASE", value_delimiter = ',', value_parser = names::case())]
    pub case: Vec<Case>,
    /// Which part of the array (range: full,disjoint,random)
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', value_parser = names::shape(),
          hide_possible_values = true)]
    pub shape: Vec<Shape>,
    /// Reads in a hundred operations of each thread (range, array: 0,60,100; think: 0,50,90,99;
    /// spread: 0,90; idle, of the waiting thread: 0,100)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub reads: Vec<u8>,
    /// Length of the section in nanoseconds (range: array 100,1000,10000, others 1000;
    /// think: 10,1000; spread: 50; idle: 30000 to 10000000)
    #[arg(long, value_name = "NS", value_delimiter = ',')]
    pub section: Vec<u32>,
    /// Ranges that are held meanwhile (range, read and write: 0,16,256,4096,50000)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub held: Vec<usize>,
    #[command(flatten)]
    pub program: ProgramFlags,
    /// Length of one measurement in seconds
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub secs: Option<f64>,
    /// Measurements of each lock and configuration; their median is shown
    #[arg(long, value_name = "N")]
    pub runs: Option<u32>,
    /// Seed of the order of the measurements, and of all that is random in them
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Run beside this many busy processes, which want a CPU all the time as other programs do
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub beside: usize,
    /// Also count what our locks do: sleeps, wake-ups, steals, handoffs; that costs them some speed
    #[arg(long)]
    pub events: bool,
    /// First impression: one measurement of 0.2 s for each lock and configuration
    #[arg(long)]
    pub quick: bool,
    /// Also write the results to this file, as JSON; `-` is stdout, and the table goes to stderr
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also say what changed since this earlier result of the same command
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    #[command(flatten)]
    pub check: Check,
    /// Folder for the files of direct-io and range, on the disk to be measured; default: this one
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Seconds a child may take beyond its window before it is killed
    #[arg(long, value_name = "S", default_value_t = 20, hide = true,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub patience: u64,
}

impl Flags {
    /// A scenario has none of them, and says so of `--threads` itself.
    pub fn of_some(&self) -> Vec<OfSome> {
        const WITH_THREADS: &[Workload] =
            &[Handoff, ReaderSpin, Batch, Range, Think, Spread, Condvar];
        let own = [
            OfSome::new("--threads", &self.threads, WITH_THREADS),
            OfSome::new("--overcommit", &self.overcommit, &[Batch]),
            OfSome::new("--cs-load", &self.cs_load, &[ReaderSpin, Batch]),
            OfSome::new("--shape", &self.shape, &[Range]),
            OfSome::new("--reads", &self.reads, &[Range, Think, Spread, Idle]),
            OfSome::new("--section", &self.section, &[Range, Think, Spread, Idle]),
            OfSome::new("--held", &self.held, &[Range]),
            OfSome::new("--dir", self.dir.as_slice(), &[DirectIo, Range]),
        ];
        own.into_iter().chain(self.program.of_some()).collect()
    }
}

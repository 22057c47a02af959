//! The flags of `fairlock sim`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::shard::Shard;
use crate::cell::Case;
use crate::cell::Workload::{
    self, Batch, Condvar, Handoff, Idle, Range, ReaderSpin, Spread, Think,
};
use crate::flags::{OfSome, ProgramFlags};
use crate::names;
use crate::row::runs::MOST_RUNS;
use crate::units::lasting;

/// The flags that choose cells: a real run has its own.
const CHOICES: [&str; 11] = [
    "locks",
    "threads",
    "overcommit",
    "cs_load",
    "reads",
    "section",
    "form",
    "outside",
    "among",
    "holder",
    "case",
];

/// How to simulate workloads.
#[derive(Args, Clone, Default)]
pub struct SimFlags {
    /// Machine to simulate: the name of one that is built in, or the path of a machine
    /// file; default: the one the figures were published for
    #[arg(long, value_name = "NAME|FILE", value_parser = names::machine(),
          hide_possible_values = true)]
    pub machine: Option<String>,
    /// Locks, separated by commas: those of `fairlock locks` that begin with fairlock:
    /// or ref:; a policy's name is enough, or its parameters: tenure:handoff_after=1ms,budget=20
    /// or published:handoff_after=4ms,reader_spin=off,writer_spin=true,writer_phase=true.
    /// Default: those of the publication, and ours
    #[arg(long, visible_alias = "policy", value_name = "LOCK", value_delimiter = ',',
          value_parser = names::simulated_lock(), hide_possible_values = true)]
    pub locks: Vec<String>,
    /// Thread counts; default: as published
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub threads: Vec<usize>,
    /// Threads for each CPU (batch: 0.5,1,1.5,2; more guests, if there are any)
    #[arg(long, value_name = "X", value_delimiter = ',')]
    pub overcommit: Vec<f64>,
    /// Pause instructions in the section (reader-spin; handoff, mixed: 1,20,100; batch, tiny: 50)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub cs_load: Vec<u32>,
    /// Reads in a hundred operations (think: 0,50,90,99; spread: 0,90; idle: 0,100)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub reads: Vec<u8>,
    /// Length of the section in nanoseconds (think: 10,1000; spread: 50; idle: 30000
    /// to 10000000)
    #[arg(long, value_name = "NS", value_delimiter = ',')]
    pub section: Vec<u32>,
    #[command(flatten)]
    pub program: ProgramFlags,
    /// Only these cases: sleep; mixed, writer_alone, reader_alone; chunks, tiny; full_write,
    /// full_read, full_mixed, array
    #[arg(long, value_name = "CASE", value_delimiter = ',', value_parser = names::case(),
          hide_possible_values = true)]
    pub case: Vec<Case>,
    /// Length of one simulation in virtual time, with its unit, such as 300ms; default:
    /// handoff 5s (mixed 300ms), direct-io 1s, reader-spin and batch 300ms, range 10s and 20ms
    #[arg(long, value_name = "TIME", value_parser = lasting)]
    pub duration: Option<Duration>,
    /// First seed: sets all that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Simulate everything with this many seeds, and show medians and ranges
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RUNS)))]
    pub seeds: u32,
    /// Also simulate with each unknown of machine and run lower and higher than assumed (hold,
    /// wake-up latencies, the gap between operations)
    #[arg(long, conflicts_with = "real")]
    pub unknowns: bool,
    /// Simulate beside this many busy loops, in threads of their own
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub beside: usize,
    /// Simulate a host that takes each CPU away for this many percent of the time, 5 ms at a time
    /// (or as long as the machine file says)
    #[arg(long, value_name = "PERCENT")]
    pub stolen: Option<f64>,
    /// Also count what our locks do: sleeps, wake-ups, steals, handoffs; simulates one cell at a time
    #[arg(long)]
    pub events: bool,
    /// First impression: shorter simulations, and fewer cells
    #[arg(long)]
    pub quick: bool,
    /// Simulate the cells of this real run (`sim-score sim` compares with its figures), on
    /// the machine two_cpu: a file of `fairlock bench handoff batch --json FILE`
    #[arg(long, value_name = "FILE", conflicts_with_all = CHOICES)]
    pub real: Option<PathBuf>,
    /// Simulate only part I of N of the cells; `sim-score merge` joins the parts
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Also write a timeline of the one simulation to this file, for ui.perfetto.dev:
    /// what each thread does, which runs on each CPU. Some MB for each millisecond; `-` is
    /// stdout
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Also write the results to this file, as JSON; `-` is stdout, and the table goes to stderr
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl SimFlags {
    /// A scenario has none of them, and says so of `--threads` itself.
    pub fn of_some(&self) -> Vec<OfSome> {
        const WITH_THREADS: &[Workload] =
            &[Handoff, ReaderSpin, Batch, Range, Think, Spread, Condvar];
        let own = [
            OfSome::new("--threads", &self.threads, WITH_THREADS),
            OfSome::new("--overcommit", &self.overcommit, &[Batch]),
            OfSome::new("--cs-load", &self.cs_load, &[Handoff, ReaderSpin, Batch]),
            OfSome::new("--reads", &self.reads, &[Think, Spread, Idle]),
            OfSome::new("--section", &self.section, &[Think, Spread, Idle]),
        ];
        own.into_iter().chain(self.program.of_some()).collect()
    }
}

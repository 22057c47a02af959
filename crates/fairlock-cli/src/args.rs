//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::compare::{Check, CompareFlags};
use crate::doctor::DoctorFlags;
use crate::preload::{self, RunFlags, TopFlags};
use crate::report::ReportFlags;
use crate::sim::flags::SimFlags;
use crate::torture::TortureFlags;
use crate::{json, names};

/// Measures and compares locks.
///
/// Without a subcommand: who starves whom on this machine, in about a minute.
#[derive(Parser)]
#[command(name = "fairlock", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub flags: Flags,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // there is one of it
pub enum Command {
    /// Run workloads on real threads: handoff, reader-spin, direct-io, uncontended,
    /// read-mostly, batch, range, think, spread, idle, condvar, all; or a scenario, FILE.toml
    Bench {
        /// Which workloads
        #[arg(value_name = "WORKLOAD", value_parser = names::workload(),
              hide_possible_values = true)]
        workloads: Vec<String>,
        #[command(flatten)]
        flags: Flags,
    },
    /// Simulate published runs, on the machines they were published for: handoff,
    /// reader-spin, direct-io, batch, range; and think, spread, idle; all. Or a scenario, FILE.toml
    Sim {
        /// Which workloads
        #[arg(value_name = "WORKLOAD", value_parser = names::simulated_workload(),
              hide_possible_values = true)]
        workloads: Vec<String>,
        #[command(flatten)]
        flags: SimFlags,
    },
    /// Join the JSON files of `sim --shard 1/N` to `N/N`
    Merge {
        /// The parts, all of one command
        #[arg(value_name = "PART", required = true)]
        parts: Vec<PathBuf>,
        /// Also write the whole to this file, as JSON; `-` is stdout, and the table goes to stderr
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Say what changed between two results, by more than the runs differ anyway
    Compare {
        #[command(flatten)]
        flags: CompareFlags,
    },
    /// Make a page of results, or one picture, or tables
    Report {
        #[command(flatten)]
        flags: ReportFlags,
    },
    /// Look at this machine: what it offers to locks, and what that means for figures
    Doctor {
        #[command(flatten)]
        flags: DoctorFlags,
    },
    /// Try our locks under many schedules, checked after every step
    Torture {
        #[command(flatten)]
        flags: TortureFlags,
    },
    /// Run a program with our locks under its pthread rwlocks, mutexes and condition variables, and
    /// report on them
    Run {
        #[command(flatten)]
        flags: RunFlags,
    },
    /// Show a program's locks while it runs: those of PID, or of a program to start
    Top {
        #[command(flatten)]
        flags: TopFlags,
    },
    /// List the locks of this build
    Locks,
    /// List the machines that are built in
    Machines {
        #[command(subcommand)]
        command: Option<MachinesCommand>,
    },
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Print the schema of the JSON files (JSON Schema, 2020-12)
    Schema {
        /// Which: of bench, sim and merge, or of run
        #[arg(value_name = "OF", default_value = "results")]
        of: Document,
    },
    /// Print the manual page (troff), with all subcommands in it
    Man,
    /// Run one cell: JSON in, JSON out (how `bench` runs its children)
    #[command(hide = true)]
    Cell,
}

#[derive(Subcommand)]
pub enum MachinesCommand {
    /// Print the file of one, to be changed and given to `sim --machine`
    Show {
        /// Which one
        #[arg(value_parser = names::machine())]
        name: String,
    },
}

/// What has a schema.
#[derive(Clone, Copy, ValueEnum)]
pub enum Document {
    Results,
    Profile,
}

impl Document {
    /// As JSON Schema.
    pub fn schema(self) -> &'static [u8] {
        match self {
            Self::Results => json::SCHEMA_FILE,
            Self::Profile => preload::document::SCHEMA_FILE,
        }
    }
}

/// Which cells of the workloads that take locks as programs do.
#[derive(Args, Clone, Default)]
pub struct ProgramFlags {
    /// As what locks are used (think, spread, idle: rwlock,mutex,range)
    #[arg(long, value_name = "FORM", value_delimiter = ',', value_parser = names::form(),
          hide_possible_values = true)]
    pub form: Vec<String>,
    /// Work outside in relation to that inside (think: 0,1,10,100,1000)
    #[arg(long, value_name = "X", value_delimiter = ',')]
    pub outside: Vec<u32>,
    /// Locks of which each operation is on one (spread: 1,16,64,1000)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub among: Vec<usize>,
    /// What the holder does after its section (idle: away,back)
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = names::holder(),
          hide_possible_values = true)]
    pub holder: Vec<String>,
}

/// How to run workloads.
#[derive(Args, Clone, Default)]
pub struct Flags {
    /// Locks to run, separated by commas (see `fairlock locks`), or ours by its parameters:
    /// tenure:handoff_after=1ms,budget=20 (see `sim`); default: all
    #[arg(long, value_name = "LOCK", value_delimiter = ',', value_parser = names::lock(),
          hide_possible_values = true)]
    pub locks: Vec<String>,
    /// Thread counts (handoff: 60; reader-spin: 2,4,8,16,32,64,96; read-mostly: 8;
    /// range: 1,2,4,8,16; think: 2,8,32,96;
    /// spread: 4,8,32)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub threads: Vec<usize>,
    /// Threads in relation to CPUs (batch: 0.5,1,1.5,2,4,8,16)
    #[arg(long, value_name = "X", value_delimiter = ',')]
    pub overcommit: Vec<f64>,
    /// Pauses in the critical section (reader-spin: 1,20,100; read-mostly: 20;
    /// batch: 50)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub cs_load: Vec<u32>,
    /// Only these cases: busy, sleep, mixed, reader_alone, writer_alone, read, write,
    /// mutex, tiny, chunks; of range: full_write, full_read, full_mixed, array, wide,
    /// read, write, file; of condvar: ping_pong, one_to_many, queue, timed_queue,
    /// notify_all, untimed, half_time_out
    #[arg(long, value_name = "CASE", value_delimiter = ',', value_parser = names::case(),
          hide_possible_values = true)]
    pub case: Vec<String>,
    /// Which part of the array (range: full,disjoint,random)
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', value_parser = names::shape(),
          hide_possible_values = true)]
    pub shape: Vec<String>,
    /// Reads in a hundred operations of each thread (range, array: 0,60,100; think:
    /// 0,50,90,99; spread: 0,90; idle, of the one that waits: 0,100)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub reads: Vec<u8>,
    /// Length of the section in nanoseconds (range: array 100,1000,10000, others 1000;
    /// think: 10,1000; spread: 50; idle: 30000 to 10000000)
    #[arg(long, value_name = "NS", value_delimiter = ',')]
    pub section: Vec<u32>,
    /// Ranges held meanwhile (range, read and write: 0,16,256,4096,50000)
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub held: Vec<usize>,
    #[command(flatten)]
    pub program: ProgramFlags,
    /// Length of one measurement in seconds
    #[arg(long, value_name = "S")]
    pub secs: Option<f64>,
    /// Measurements of each lock and configuration; their median is shown
    #[arg(long, value_name = "N")]
    pub runs: Option<u32>,
    /// Seed of the order in which they are made, and of what is random in them
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Beside so many busy loops a CPU, in threads of their own
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub background: usize,
    /// A first impression: measurements of 0.2 s, one of each
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
    /// Folder for the files of direct-io and range, on the disk to be measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Seconds a child may take beyond its window before it is killed
    #[arg(long, value_name = "S", default_value_t = 20, hide = true,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub patience: u64,
}

//! The command line.

use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::compare::CompareFlags;
use crate::doctor::DoctorFlags;
use crate::flags::Flags;
use crate::preload::{self, RunFlags, TopFlags};
use crate::report::ReportFlags;
use crate::sim::SimArguments;
use crate::snapshot::{self, SnapshotFlags};
use crate::torture::TortureFlags;
use crate::units::lasting;
use crate::{names, results, torture};

/// Measures and compares locks.
///
/// Without a subcommand: which locks make threads wait longest on this machine, on one screen,
/// after half a minute.
#[derive(Parser)]
#[command(name = "fairlock", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Also run our other policies and each side alone; first show all columns, and why waits were
    /// long
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub flags: Flags,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // there is one of it
pub enum Command {
    /// Run workloads on real threads: handoff, reader-spin, direct-io, uncontended,
    /// batch, range, think, spread, idle, condvar, all; or a scenario, FILE.toml
    Bench {
        /// Which workloads
        #[arg(value_name = "WORKLOAD", value_parser = names::workload(),
              hide_possible_values = true)]
        workloads: Vec<String>,
        #[command(flatten)]
        flags: Flags,
    },
    /// Simulate published runs, on the machines they were published for: handoff,
    /// reader-spin, direct-io, batch, range; and think, spread, idle, condvar; all. Or a scenario,
    /// FILE.toml
    Sim(SimArguments),
    /// Say what changed between two results by more than their runs vary, or between two profiles
    /// of a program
    Compare {
        #[command(flatten)]
        flags: CompareFlags,
    },
    /// Make a page of results, or one picture, or tables
    Report {
        #[command(flatten)]
        flags: ReportFlags,
    },
    /// Say what this machine offers to locks, and what that means for figures
    Doctor {
        #[command(flatten)]
        flags: DoctorFlags,
    },
    /// Measure this machine, and print a machine file for `sim --machine`
    Calibrate {
        /// For how long to measure, with its unit: slow changes of the machine show only in minutes
        #[arg(long = "for", value_name = "TIME", value_parser = lasting,
              default_value = "2m")]
        lasting: Duration,
    },
    /// Try our locks under many schedules of a simulated machine, checked after every step; or on real
    /// threads, for as long as you like (--real)
    Torture {
        #[command(flatten)]
        flags: TortureFlags,
    },
    /// Run a program with our locks under its pthread rwlocks, mutexes and condition variables, and
    /// report on them. The exit code is the program's, or 35 if threads were in a deadlock at its end
    Run {
        #[command(flatten)]
        flags: RunFlags,
    },
    /// Show a program's locks while it runs: those of PID, or of a program to start. The key q ends it
    Top {
        #[command(flatten)]
        flags: TopFlags,
    },
    /// Say what each thread of a running process waits for, and which thread holds it. The process is not
    /// stopped and needs no preparation. Exit code 35: threads wait for each other for ever
    Snapshot {
        #[command(flatten)]
        flags: SnapshotFlags,
    },
    /// List the locks of this build
    Locks,
    /// List the built-in machines
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
        /// Which: of bench and sim, of run, of run --compare, of snapshot, or of torture
        #[arg(value_name = "OF", default_value = "results")]
        of: Document,
    },
    /// Print the manual page (troff), with all subcommands in it
    Man,
    /// Run one cell: JSON in, JSON out (how `bench` runs its children)
    #[command(hide = true)]
    Cell,
    /// Be busy until stdin is closed (`bench --beside` runs such processes)
    #[command(hide = true)]
    Busy,
}

#[derive(Subcommand)]
pub enum MachinesCommand {
    /// Print the file of a machine, to change it and give it to `sim --machine`
    Show {
        /// Which machine
        #[arg(value_parser = names::machine())]
        name: String,
    },
}

/// What has a schema.
#[derive(Clone, Copy, ValueEnum)]
pub enum Document {
    Results,
    Profile,
    Compared,
    Snapshot,
    Torture,
}

impl Document {
    /// As JSON Schema.
    pub fn schema(self) -> &'static [u8] {
        match self {
            Self::Results => results::SCHEMA_FILE,
            Self::Profile => preload::document::SCHEMA_FILE,
            Self::Compared => preload::document::COMPARED_FILE,
            Self::Snapshot => snapshot::document::SCHEMA_FILE,
            Self::Torture => torture::SCHEMA_FILE,
        }
    }
}

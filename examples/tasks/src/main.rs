//! Tasks at one lock: ours, and those that tasks use today; and threads beside them. Prints tables of Markdown, and each
//! cell as it is measured on standard error.
//!
//! `cargo run --release --manifest-path examples/tasks/Cargo.toml [ROUNDS] [PART...]`
//!
//! A part is `free`, `mixed`, `mutex` or `rwlock`; or, of the last two, a number of tasks: 10, 1000 or 10000. Without parts all
//! are measured: a quarter of an hour with 3 rounds. Each figure is the median over rounds in which the locks take turns, so a
//! busy machine does not favour one of them.

mod free;
mod locks;
mod mixed;
mod run;

use std::time::Duration;

use locks::{
    AsyncLock, AsyncLockRw, Fairlock, FairlockRw, Futures, Saa, SaaRw, Std, StdRw, Tokio, TokioRw,
};
use run::{Seen, Work, run};

type Run = fn(u32, usize, Work) -> Option<Seen>;

/// The first is ours, and the second tokio's.
const MUTEXES: &[(&str, Run)] = &[
    ("fairlock", run::<Fairlock>),
    ("tokio", run::<Tokio>),
    ("async-lock", run::<AsyncLock>),
    ("futures", run::<Futures>),
    ("saa", run::<Saa>),
    ("std, spawn_blocking", run::<Std>),
];
const RWLOCKS: &[(&str, Run)] = &[
    ("fairlock", run::<FairlockRw>),
    ("tokio", run::<TokioRw>),
    ("async-lock", run::<AsyncLockRw>),
    ("saa", run::<SaaRw>),
    ("std, spawn_blocking", run::<StdRw>),
];

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What was measured of one shape.
struct Cell {
    name: String,
    /// Of ours.
    rate: f64,
    /// Our rate, in those of the others.
    ratios: Vec<f64>,
    /// Waits of ours and of tokio's.
    p999_ms: [f64; 2],
    longest_ms: [f64; 2],
}

impl Cell {
    fn measure(
        locks: &[(&str, Run)],
        tasks: u32,
        workers: usize,
        work: Work,
        rounds: usize,
    ) -> Self {
        let mut seen = vec![Vec::new(); locks.len()];
        for _ in 0..rounds {
            for (seen, (_, run)) in seen.iter_mut().zip(locks) {
                seen.extend(run(tasks, workers, work));
            }
        }
        let ratio = |others: &Vec<Seen>| {
            median(seen[0].iter().zip(others).map(|(own, other)| own.rate / other.rate))
        };
        let of_two =
            |show: fn(&Seen) -> f64| [0, 1].map(|at: usize| median(seen[at].iter().map(show)));
        let cell = Self {
            name: format!(
                "{tasks} tasks, {workers} workers, {:?} inside{}, {:?} outside, {} % reads",
                work.inside,
                if work.awaits { " and an await" } else { "" },
                work.outside,
                work.reads,
            ),
            rate: median(seen[0].iter().map(|seen| seen.rate)),
            ratios: seen[1..].iter().map(ratio).collect(),
            p999_ms: of_two(|seen| seen.p999_ms),
            longest_ms: of_two(|seen| seen.longest_ms),
        };
        let ratios: Vec<String> = cell.ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
        eprintln!(
            "{}: {:.1} k/s, ratios {}; p99.9 {:.2} ms (tokio {:.2}), longest {:.2} ({:.2})",
            cell.name,
            cell.rate / 1e3,
            ratios.join(" "),
            cell.p999_ms[0],
            cell.p999_ms[1],
            cell.longest_ms[0],
            cell.longest_ms[1],
        );
        cell
    }

    fn waits_longer(&self) -> bool {
        let longer = |[own, tokio]: [f64; 2]| own > tokio + 2.0;
        longer(self.p999_ms) || longer(self.longest_ms)
    }
}

/// A row for so many tasks, workers and reads: over sections of three lengths, with and without an await, and with and
/// without work outside.
fn contended(locks: &[(&str, Run)], sizes: &[u32], reads: &[u32], rounds: usize) {
    let heads: Vec<String> = locks[1..].iter().map(|(name, _)| format!(" {name} |")).collect();
    println!("| tasks | workers | reads |{} waits longer than tokio's + 2 ms |", heads.concat());
    println!("|--:|--:|--:|{}--:|", "--:|".repeat(heads.len()));
    let mut all = Vec::new();
    for &reads in reads {
        for (&tasks, workers) in sizes.iter().flat_map(|tasks| [(tasks, 1), (tasks, 2)]) {
            let mut cells = Vec::new();
            for inside in [50, 1_000, 100_000].map(Duration::from_nanos) {
                for (awaits, outside) in [(false, 0), (false, 10), (true, 0), (true, 10)] {
                    let work = Work { inside, outside: inside * outside, awaits, reads };
                    cells.push(Cell::measure(locks, tasks, workers, work, rounds));
                }
            }
            let against = |other: usize| {
                let mut ratios: Vec<f64> =
                    cells.iter().map(|cell| cell.ratios[other]).filter(|r| !r.is_nan()).collect();
                ratios.sort_by(f64::total_cmp);
                format!(
                    " {:.2} ({:.2} to {:.2}) |",
                    median(ratios.clone()),
                    ratios[0],
                    ratios[ratios.len() - 1]
                )
            };
            let ratios: String = (0..heads.len()).map(against).collect();
            let longer = cells.iter().filter(|cell| cell.waits_longer()).count();
            println!("| {tasks} | {workers} | {reads} % |{ratios} {longer} of {} |", cells.len());
            all.extend(cells);
        }
    }
    all.sort_by(|a, b| a.ratios[0].total_cmp(&b.ratios[0]));
    println!("\nFurthest behind tokio:\n");
    for cell in &all[..all.len().min(5)] {
        println!("- {}: {:.2}, {:.1} k/s", cell.name, cell.ratios[0], cell.rate / 1e3);
    }
}

fn main() {
    let mut parts: Vec<String> = std::env::args().skip(1).collect();
    let is_rounds =
        parts.first().is_some_and(|first| first.parse::<usize>().is_ok_and(|rounds| rounds < 10));
    let rounds = if is_rounds { parts.remove(0).parse().unwrap() } else { 3 };
    let sizes: Vec<u32> = parts.iter().filter_map(|part| part.parse().ok()).collect();
    parts.retain(|part| part.parse::<u32>().is_err());
    let sizes = if sizes.is_empty() { vec![10, 1_000, 10_000] } else { sizes };
    let wants = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    if wants("free") {
        free::free(rounds.max(9));
    }
    if wants("mutex") {
        println!(
            "\nMutex: sections a second of ours / theirs, median of 12 shapes (least to most)\n"
        );
        contended(MUTEXES, &sizes, &[0], rounds);
    }
    if wants("rwlock") {
        println!("\nRwLock: likewise\n");
        contended(RWLOCKS, &sizes, &[0, 90, 99], rounds);
    }
    if wants("mixed") {
        println!("\nThreads and tasks at one mutex, 1 us inside, nothing outside\n");
        mixed::mixed(rounds);
    }
}

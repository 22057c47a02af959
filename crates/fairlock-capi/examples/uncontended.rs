//! What a lock and unlock costs when nobody else wants the lock, from C beside Rust: runs
//! itself and the program of `bench/uncontended.c` by turns. `make bench` calls it.
//!
//! Exit 1 if the way through C costs more than 3 ns on top.

use std::env;
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::time::Instant;

use fairlock::{Mutex, RangeRwLock, RwLock};

/// Each program runs so often.
const RUNS: usize = 7;
const BATCHES: usize = 301;
const BATCH: u32 = 20_000;
/// What a call through the C interface may cost on top of one from Rust, in nanoseconds.
const MAY_COST: f64 = 3.0;

static RWLOCK: RwLock<()> = RwLock::new(());
static MUTEX: Mutex<()> = Mutex::new(());
static RANGES: RangeRwLock = RangeRwLock::new();

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure(name: &str, operation: impl Fn()) {
    let batch = || {
        let begin = Instant::now();
        (0..BATCH).for_each(|_| operation());
        begin.elapsed().as_nanos() as f64 / f64::from(BATCH)
    };
    println!("{name} {:.4}", median((0..BATCHES).map(|_| batch()).collect()));
}

fn measure_all() {
    measure("read", || drop(RWLOCK.read()));
    measure("write", || drop(RWLOCK.write()));
    measure("mutex", || drop(MUTEX.lock()));
    measure("range-read", || drop(RANGES.read(black_box(7)..=black_box(9))));
    measure("range-write", || drop(RANGES.write(black_box(7)..=black_box(9))));
}

/// Runs a program that prints names and nanoseconds.
fn run(command: &mut Command) -> Vec<(String, f64)> {
    let output = command.output().unwrap_or_else(|e| panic!("cannot run {command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", output.status);
    let parse = |line: &str| {
        let (name, ns) = line.split_once(' ')?;
        Some((name.to_owned(), ns.parse().ok()?))
    };
    String::from_utf8_lossy(&output.stdout).lines().filter_map(parse).collect()
}

fn main() -> ExitCode {
    let Some(c_program) = env::args_os().nth(1) else {
        eprintln!("uncontended: names no program; run it by: make -C crates/fairlock-capi bench");
        return ExitCode::from(2);
    };
    if c_program == "--rust" {
        measure_all();
        return ExitCode::SUCCESS;
    }
    let this_program = env::current_exe().expect("a program that runs has a path");
    let (mut rust, mut c) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        rust.push(run(Command::new(&this_program).arg("--rust")));
        c.push(run(&mut Command::new(&c_program)));
    }
    println!("lock and unlock, nobody else; ns, medians of {RUNS} runs by turns");
    println!("{:<12}{:>8}{:>8}{:>10}", "", "Rust", "C", "on top");
    let mut dear = false;
    for (i, (name, _)) in rust[0].iter().enumerate() {
        let of = |runs: &[Vec<(String, f64)>]| median(runs.iter().map(|run| run[i].1).collect());
        let (rust, c) = (of(&rust), of(&c));
        println!("{name:<12}{rust:>8.2}{c:>8.2}{:>10.2}", c - rust);
        dear |= c - rust > MAY_COST;
    }
    if dear {
        eprintln!("uncontended: a call from C costs more than {MAY_COST} ns on top");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

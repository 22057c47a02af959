//! `condvar`: threads that wait for each other by a condition variable, and threads whose waits for
//! its mutex may end.

use std::time::Duration;

use super::tally::Tally;
use super::team::Padded;
use super::testbed::Testbed;
use crate::cell::{Case, Cell, CellReport};
use crate::error::Error;
use crate::locks::condvar::{BenchCondvar, Stage, Which};

/// Two threads that take turns; one that produces for others; half for half; the same with waits
/// that end; one that lets all others go at once. Then the mutex alone: with waits that never end
/// without it, and with waits of which half do.
pub const CASES: [Case; 7] = [
    Case::PingPong,
    Case::OneToMany,
    Case::Queue,
    Case::TimedQueue,
    Case::NotifyAll,
    Case::Untimed,
    Case::HalfTimeOut,
];
/// All numbers of threads, unless told otherwise: each case has its own of them.
pub const THREADS: [usize; 7] = [2, 5, 17, 8, 32, 65, 1001];

/// Items that fit into the queue.
const CAPACITY: u64 = 16;
/// How long a timed wait for an item is.
const PATIENCE: Duration = Duration::from_micros(100);
/// How long a section of the mutex alone is, and the work outside it.
const SECTION_NS: u64 = 1_000;

/// Whether the case runs with this many threads: wherever it can, if numbers were `asked` for.
pub fn runs_with(case: Case, threads: usize, asked: &[usize]) -> bool {
    if !asked.is_empty() {
        return threads >= 2 && (case != Case::PingPong || threads == 2);
    }
    let of_case: &[usize] = match case {
        Case::PingPong => &[2],
        Case::OneToMany => &[5, 17],
        Case::NotifyAll => &[65, 1001],
        Case::Queue | Case::TimedQueue => &[8, 32],
        _ => &[32],
    };
    of_case.contains(&threads)
}

/// Runs one cell.
pub fn run<C: BenchCondvar, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let shared = Padded(C::create());
    let shared = &shared.0;
    let (window, tallies) = testbed.run_team(cell, cell.threads, |index, gate| {
        let mut timeout_ns = SECTION_NS * cell.threads as u64;
        let tally = repeat(testbed, gate, || match cell.case {
            Case::PingPong => take_turn(shared, index as u64),
            Case::OneToMany if index == 0 => put(shared, false),
            Case::OneToMany => take(shared, false),
            Case::Queue | Case::TimedQueue if index % 2 == 0 => {
                put(shared, cell.case == Case::TimedQueue)
            }
            Case::Queue | Case::TimedQueue => take(shared, cell.case == Case::TimedQueue),
            Case::NotifyAll if index == 0 => let_go(shared, cell.threads as u64 - 1),
            Case::NotifyAll => wait_to_go(shared, cell.threads as u64 - 1),
            Case::Untimed => drop(section(testbed, shared.lock())),
            _ => lock_with_timeouts(testbed, shared, &mut timeout_ns),
        });
        end(shared);
        tally
    })?;
    // The threads that are let go, or served, are counted.
    let first = usize::from(matches!(cell.case, Case::OneToMany | Case::NotifyAll));
    let tallies = tallies.into_iter().skip(first).collect();
    Ok(CellReport::of(window, None, Tally::report(tallies, testbed.ns_per_tick())))
}

/// The loop of one thread: what it waits for is how long `operate` takes.
fn repeat<T: Testbed>(testbed: &T, gate: &T::Gate, mut operate: impl FnMut()) -> Tally {
    let mut tally = Tally::new();
    loop {
        let began = testbed.now();
        operate();
        let took = testbed.now().saturating_sub(began);
        if tally.count(testbed.phase(gate), took) {
            return tally;
        }
    }
}

/// The calling thread stops, so the others must not wait for it.
fn end<C: BenchCondvar>(shared: &C) {
    shared.lock().over = true;
    shared.notify_all(Which::First);
    shared.notify_all(Which::Second);
}

/// Waits until the stage is as wanted, or all is over.
fn wait_until<'a, C: BenchCondvar>(
    shared: &'a C,
    which: Which,
    timed: bool,
    is_so: impl Fn(&Stage) -> bool,
) -> C::Guard<'a> {
    let mut stage = shared.lock();
    while !stage.over && !is_so(&stage) {
        stage = shared.wait(which, stage, timed.then_some(PATIENCE));
    }
    stage
}

fn take_turn<C: BenchCondvar>(shared: &C, me: u64) {
    let (mine, others) =
        if me == 0 { (Which::First, Which::Second) } else { (Which::Second, Which::First) };
    let mut stage = wait_until(shared, mine, false, |stage| stage.count == me);
    stage.count = 1 - me;
    drop(stage);
    shared.notify_one(others);
}

fn put<C: BenchCondvar>(shared: &C, timed: bool) {
    let mut stage = wait_until(shared, Which::First, timed, |stage| stage.count < CAPACITY);
    stage.count += 1;
    drop(stage);
    shared.notify_one(Which::Second);
}

fn take<C: BenchCondvar>(shared: &C, timed: bool) {
    let mut stage = wait_until(shared, Which::Second, timed, |stage| stage.count > 0);
    stage.count = stage.count.saturating_sub(1);
    drop(stage);
    shared.notify_one(Which::First);
}

/// Lets the waiters go once all of them wait.
fn let_go<C: BenchCondvar>(shared: &C, waiters: u64) {
    let mut stage = wait_until(shared, Which::First, false, |stage| stage.count == waiters);
    stage.count = 0;
    stage.round += 1;
    shared.notify_all(Which::Second);
}

fn wait_to_go<C: BenchCondvar>(shared: &C, waiters: u64) {
    let mut stage = shared.lock();
    stage.count += 1;
    if stage.count == waiters {
        shared.notify_one(Which::First);
    }
    let round = stage.round;
    while !stage.over && stage.round == round {
        stage = shared.wait(Which::Second, stage, None);
    }
}

fn section<T: Testbed, G>(testbed: &T, guard: G) -> G {
    testbed.work(SECTION_NS);
    guard
}

/// Takes the mutex by timed attempts, with a timeout for which half of the attempts that wait fail.
fn lock_with_timeouts<C: BenchCondvar, T: Testbed>(testbed: &T, shared: &C, timeout_ns: &mut u64) {
    let mut taken = shared.lock_for(Duration::ZERO);
    while taken.is_none() {
        taken = shared.lock_for(Duration::from_nanos(*timeout_ns));
        match taken {
            Some(_) => *timeout_ns -= *timeout_ns / 8,
            None => *timeout_ns += *timeout_ns / 8 + 8,
        }
    }
    drop(section(testbed, taken));
}

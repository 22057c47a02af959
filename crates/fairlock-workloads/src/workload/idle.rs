//! `idle`: how long a free lock is waited for. One thread stays inside for a while, and then does
//! something else; another one has come meanwhile. From the release on nobody is in the other's
//! way: how long does it take until that one has the lock?

use std::cell::OnceCell;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use fairlock::platform::Atomic;

use super::range::SLOTS;
use super::setup::{Chosen, grid};
use super::tally::{Durations, Tally};
use super::team::{Padded, Phase};
use super::testbed::Testbed;
use crate::cell::{Case, Cell, CellReport, Form, Holder, Setup, Side, SideReport, Workload};
use crate::error::Error;
use crate::locks::range::{BenchRange, Range};

/// The holder is busy inside, or sleeps.
pub const CASES: [Case; 2] = [Case::Busy, Case::Sleep];
/// The grid, and which part of it is for a first impression. Nanoseconds inside; whether the waiting
/// thread wants to write, or to read.
const GRID: Chosen<'_> = Chosen {
    forms: &Form::ALL,
    sections: &[30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000],
    reads: &[0, 100],
    holders: &Holder::ALL,
    ..Chosen::NOTHING
};
const QUICK: Chosen<'_> = Chosen { sections: &[100_000], reads: &[0], ..GRID };
/// The thread that holds and the one that waits.
const THREADS: usize = 2;

/// How long a holder that goes away sleeps.
const AWAY: Duration = Duration::from_millis(6);
/// What a holder that comes back does first, in nanoseconds.
const BACK_NS: u64 = 20_000;
/// How long the waiting thread sleeps before it looks for the next section whose end it waits for.
const REST: Duration = Duration::from_millis(3);

/// The cells of a case, in all forms or those chosen.
pub fn cells(case: Case, chosen: &Chosen<'_>) -> Vec<Cell> {
    let mut all = grid(Workload::Idle, case, chosen, if chosen.quick { &QUICK } else { &GRID });
    for it in &mut all {
        it.threads = THREADS;
        (it.readers, it.writers) = if it.range.reads_percent > Some(0) { (1, 0) } else { (0, 1) };
    }
    all
}

/// How long to measure at least, for enough waits.
pub fn enough_secs(setup: &Setup) -> f64 {
    const WAITS: f64 = 40.0;
    WAITS * (f64::from(setup.section_ns.unwrap_or(0)) / 1e9 + AWAY.as_secs_f64())
}

/// What the two threads tell each other. Relaxed wherever the lock orders it.
struct Shared<W> {
    /// Whether the waiting thread is ready for the next section.
    ready: Padded<W>,
    /// The number of sections so far whose ends it waits for.
    round: Padded<W>,
    /// The number of those for which it has come.
    asked: Padded<W>,
    inside: Padded<Inside<W>>,
}

/// Changed only by the holder, inside.
struct Inside<W> {
    /// When the holder last left.
    released: W,
    /// When it left the last section that was waited for from its beginning.
    first_released: W,
    /// How long it has been outside so far, up to the section that it is in.
    outside: W,
}

impl<W: Atomic<u64>> Shared<W> {
    fn new() -> Self {
        let word = || Padded(W::new(0));
        let inside = Inside { released: W::new(0), first_released: W::new(0), outside: W::new(0) };
        Self { ready: word(), round: word(), asked: word(), inside: Padded(inside) }
    }

    /// The holder is inside; returns whether the other thread now comes. That has a moment to do
    /// so, in which it may have to get a CPU.
    fn enters<T: Testbed<Word = W>>(&self, testbed: &T, gate: &T::Gate, now: u64) -> bool {
        const LOOKS: u32 = 100;
        const PAUSES: u32 = 5;
        const NAP: Duration = Duration::from_micros(50);
        let inside = &self.inside.0;
        let last = inside.released.load(Relaxed);
        if last > 0 {
            let gap = now.saturating_sub(last);
            inside.outside.store(inside.outside.load(Relaxed) + gap, Relaxed);
        }
        if self.ready.0.load(Relaxed) == 0 {
            return false;
        }
        self.ready.0.store(0, Relaxed);
        let round = self.round.0.load(Relaxed) + 1;
        // Release: a thread that sees the round sees what the holder did before it.
        self.round.0.store(round, Release);
        let mut looks = 0;
        while self.asked.0.load(Relaxed) != round && testbed.phase(gate) != Phase::Stop {
            looks += 1;
            if looks < LOOKS { testbed.pauses(PAUSES) } else { testbed.sleep(NAP) }
        }
        true
    }

    /// The holder is about to release.
    fn leaves(&self, was_waited_for: bool, now: u64) {
        let inside = &self.inside.0;
        inside.released.store(now, Relaxed);
        if was_waited_for {
            inside.first_released.store(now, Relaxed);
        }
    }
}

/// What the waiting thread has seen.
struct Waits {
    tally: Tally,
    free: Option<Durations>,
}

/// Which ranges, of how many positions, the two threads take. With a range lock the ranges differ,
/// but overlap.
fn ranges(form: Option<Form>) -> (u64, [Range; 2]) {
    match form {
        Some(Form::Range) => (SLOTS, [0..=SLOTS / 2, SLOTS / 4..=SLOTS * 3 / 4]),
        _ => (1, [0..=0, 0..=0]),
    }
}

/// Runs one cell.
pub fn run<L: BenchRange, T: Testbed>(cell: &Cell, testbed: &T) -> Result<CellReport, Error> {
    let (positions, [held, wanted]) = ranges(cell.range.form);
    let lock = Padded(L::create(positions, THREADS)?);
    let shared = Shared::<T::Word>::new();
    let side = Side::of(cell.readers > 0);
    let (window, results) = testbed.run_team(cell, THREADS, |index, gate| {
        if index == 0 {
            hold(cell, testbed, gate, &shared, &|section| {
                lock.0.hold(Side::Write, index, &held, section);
            });
            return None;
        }
        Some(wait(testbed, gate, &shared, side, &|section| {
            lock.0.hold(side, index, &wanted, section);
        }))
    })?;
    Ok(report(window, side, results, testbed.ns_per_tick()))
}

/// Not compiled for each lock.
fn report(
    window: Duration,
    side: Side,
    results: Vec<Option<Waits>>,
    ns_per_tick: f64,
) -> CellReport {
    let waits = results.into_iter().flatten().next().expect("one of the two waits");
    let free = Durations::summarize(waits.free, ns_per_tick);
    let report = Tally::report(vec![waits.tally], ns_per_tick);
    let report = report.map(|report| SideReport { free, ..report });
    let (read, write) = if side == Side::Read { (report, None) } else { (None, report) };
    CellReport::of(window, read, write)
}

/// The holding thread: `write` runs a section.
fn hold<T: Testbed>(
    cell: &Cell,
    testbed: &T,
    gate: &T::Gate,
    shared: &Shared<T::Word>,
    write: &dyn Fn(&dyn Fn()),
) {
    let section_ns = u64::from(cell.range.section_ns.unwrap_or(0));
    loop {
        let (asked, acquired) = (testbed.asks(Side::Write), OnceCell::new());
        write(&|| {
            let acquired = *acquired.get_or_init(|| testbed.acquired(Side::Write));
            let was_waited_for = shared.enters(testbed, gate, acquired);
            match cell.case {
                Case::Sleep => testbed.sleep(Duration::from_nanos(section_ns)),
                _ => testbed.work(section_ns),
            }
            testbed.leaves(Side::Write);
            shared.leaves(was_waited_for, testbed.now());
        });
        testbed.released(Side::Write, asked, acquired.get().copied().unwrap_or(asked));
        if testbed.phase(gate) == Phase::Stop {
            return;
        }
        match cell.range.holder {
            Some(Holder::Back) => testbed.work(BACK_NS),
            _ => testbed.sleep(AWAY),
        }
    }
}

/// The waiting thread: `acquire` runs a section.
fn wait<T: Testbed>(
    testbed: &T,
    gate: &T::Gate,
    shared: &Shared<T::Word>,
    side: Side,
    acquire: &dyn Fn(&mut dyn FnMut()),
) -> Waits {
    let mut waits = Waits { tally: Tally::new(), free: None };
    let inside = &shared.inside.0;
    loop {
        testbed.sleep(REST);
        let before = shared.round.0.load(Relaxed);
        shared.ready.0.store(1, Relaxed);
        let round = testbed.watch(gate, &shared.round.0, before);
        if round == before {
            return waits; // the run has ended
        }
        let outside_before = inside.outside.load(Relaxed);
        let asked = testbed.asks(side);
        shared.asked.0.store(round, Relaxed);
        let (mut waited, mut free) = (0, None);
        acquire(&mut || {
            let acquired = testbed.acquired(side);
            waited = acquired.saturating_sub(asked);
            // Otherwise the run has ended, and the holder was gone.
            if inside.first_released.load(Relaxed) >= asked {
                let outside = inside.outside.load(Relaxed) - outside_before;
                free = Some(outside + acquired.saturating_sub(inside.released.load(Relaxed)));
            }
            testbed.leaves(side);
        });
        testbed.released(side, asked, asked + waited);
        let phase = testbed.phase(gate);
        if let Some(free) = free {
            waits.tally.count(phase, waited);
            if phase != Phase::WarmUp {
                waits.free.get_or_insert_with(Durations::new).record(free);
            }
        }
        if phase == Phase::Stop {
            return waits;
        }
    }
}

//! What workloads run on: this machine, or a simulated one. A workload is written
//! once, against [`Testbed`].

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fairlock::platform::{Atomic, Native, System};

use super::events::Counted;
use super::team::{self, Gate, Phase};
use super::why;
use crate::cell::{Cell, Events, LongWaits, Side};
use crate::clock::{Clock, busy, pauses};
use crate::direct_file::{BlockFile, DirectFile};
use crate::error::Error;
use crate::locks::range::Range;

/// Where the threads of a workload run, and how their time is measured.
pub trait Testbed: Sync {
    /// What tells a team's threads in which phase the run is.
    type Gate;
    /// A file whose blocks are read and written directly.
    type File: BlockFile;
    /// A word of the memory that a lock guards: its cost depends on who had it last.
    type Word: Atomic<u64>;

    /// Runs `body(index, gate)` on `threads` threads through the cell's warm-up and
    /// window. Returns the length of the window and what the threads returned.
    fn run_team<R: Send>(
        &self,
        cell: &Cell,
        threads: usize,
        body: impl Fn(usize, &Self::Gate) -> R + Sync,
    ) -> Result<(Duration, Vec<R>), Error>;

    /// The phase of the run.
    fn phase(&self, gate: &Self::Gate) -> Phase;

    /// The time, in ticks.
    fn now(&self) -> u64;

    /// What a tick is worth. More exact the later it is asked for.
    fn ns_per_tick(&self) -> f64;

    /// CPU work of this length.
    fn work(&self, ns: u64);

    /// `n` pause instructions.
    fn pauses(&self, n: u32);

    /// Sleeps.
    fn sleep(&self, duration: Duration);

    /// Waits, awake, until `word` is no longer `before`, or the run ends; returns the word.
    fn watch(&self, gate: &Self::Gate, word: &Self::Word, before: u64) -> u64;

    /// A file of `blocks` blocks for the cell, the first of them written.
    fn file(&self, cell: &Cell, blocks: u64) -> Result<Self::File, Error>;

    /// A section under the lock, which does `work`. Returns when it began, and the result.
    #[inline(always)]
    fn section<R>(&self, side: Side, work: impl FnOnce() -> R) -> (u64, R) {
        let acquired = self.acquired(side);
        let result = work();
        self.leaves(side);
        (acquired, result)
    }

    /// An operation of a thread that asked at this time: `take` runs a section under the lock.
    /// Returns how long the thread waited, and the result.
    #[inline(always)]
    fn operation<R>(&self, side: Side, asked: u64, take: impl FnOnce() -> (u64, R)) -> (u64, R) {
        let (acquired, result) = take();
        self.released(side, asked, acquired);
        (acquired.saturating_sub(asked), result)
    }

    /// How many groups the threads form that share no lock: the guests of a host.
    fn groups(&self) -> usize {
        1
    }

    /// Work was done that takes `_ns` on a machine that has to do it.
    #[inline(always)]
    fn spend(&self, _ns: u64) {}

    /// Has `body` write all of `memory`: a word at a time, where threads really do that.
    #[inline(always)]
    fn fill<R>(&self, _memory: &[Self::Word], body: impl FnOnce() -> R) -> R {
        body()
    }

    /// This thread asks for the lock, or that of its group; returns the time.
    #[inline(always)]
    fn asks(&self, _side: Side) -> u64 {
        self.now()
    }

    /// This thread asks for one of many locks, or for a part of one; returns the time.
    #[inline(always)]
    fn asks_for(&self, _side: Side, _wanted: Wanted<'_>) -> u64 {
        self.now()
    }

    /// This thread has the lock; returns the time.
    #[inline(always)]
    fn acquired(&self, _side: Side) -> u64 {
        self.now()
    }

    /// This thread's section is over, and it is about to give the lock back.
    #[inline(always)]
    fn leaves(&self, _side: Side) {}

    /// This thread has given the lock back that it asked for and acquired at these times.
    #[inline(always)]
    fn released(&self, _side: Side, _asked: u64, _acquired: u64) {}
}

/// What a thread asks for, where there are several.
#[derive(Clone, Copy)]
pub enum Wanted<'a> {
    /// The lock of this number.
    Lock(usize),
    /// A range, of a lock on ranges.
    Range(&'a Range),
}

/// This machine.
pub struct Real {
    clock: Clock,
    busy_turns_per_us: u64,
    gate: Gate,
    /// Of the threads that have ended.
    long_waits: Mutex<Option<LongWaits>>,
    counted: Counted,
}

impl Real {
    /// This machine, with the clock starting now, and the busy section of the cell.
    pub fn new(cell: &Cell) -> Self {
        Self {
            clock: Clock::start(),
            busy_turns_per_us: cell.busy_turns_per_us,
            gate: Gate::new(),
            long_waits: Mutex::default(),
            counted: Counted::default(),
        }
    }

    /// Why waits were long, once the cell has been run; `None` if the system does not say.
    pub fn long_waits(&self) -> Option<LongWaits> {
        *self.long_waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What our locks did, once the cell has been run, if they counted.
    pub fn events(&self) -> Option<Events> {
        self.counted.events()
    }

    /// A thread of the team ends.
    #[inline(never)]
    fn ends(&self) {
        let mut all = self.long_waits.lock().unwrap_or_else(PoisonError::into_inner);
        *all = all.into_iter().chain(why::finish()).reduce(LongWaits::and);
    }
}

impl Testbed for Real {
    type Gate = Gate;
    type File = DirectFile;
    type Word = <Native as System>::AtomicU64;

    fn run_team<R: Send>(
        &self,
        cell: &Cell,
        threads: usize,
        body: impl Fn(usize, &Gate) -> R + Sync,
    ) -> Result<(Duration, Vec<R>), Error> {
        team::run_team(cell, &self.gate, &self.counted, threads, &|index, gate| {
            let result = body(index, gate);
            self.ends();
            result
        })
    }

    #[inline(always)]
    fn phase(&self, gate: &Gate) -> Phase {
        gate.phase()
    }

    #[inline(always)]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn ns_per_tick(&self) -> f64 {
        self.clock.ns_per_tick()
    }

    #[inline(always)]
    fn work(&self, ns: u64) {
        busy((self.busy_turns_per_us * ns).div_ceil(1_000));
    }

    #[inline(always)]
    fn pauses(&self, n: u32) {
        pauses(n);
    }

    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }

    fn watch(&self, gate: &Gate, word: &Self::Word, before: u64) -> u64 {
        loop {
            // Acquire: sees what was done before the word was changed.
            let now = word.load(Ordering::Acquire);
            if now != before || gate.phase() == Phase::Stop {
                return now;
            }
            std::hint::spin_loop();
        }
    }

    #[inline(always)]
    fn asks(&self, _side: Side) -> u64 {
        let now = self.now();
        if why::is_due(now) { why::look(&self.clock) } else { now }
    }

    #[inline(always)]
    fn asks_for(&self, side: Side, _wanted: Wanted<'_>) -> u64 {
        self.asks(side)
    }

    #[inline(always)]
    fn released(&self, _side: Side, asked: u64, acquired: u64) {
        // A look was due later than this thread asked, so only then the wait may have been long.
        if why::is_due(acquired) {
            why::waited(&self.clock, &self.gate, asked, acquired);
        }
    }

    fn file(&self, cell: &Cell, blocks: u64) -> Result<DirectFile, Error> {
        DirectFile::create(cell.folder(), blocks)
    }
}

//! A simulated machine that workloads run on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fairlock::platform::{Atomic, System};
use fairlock_sim::{
    Machine, Mark, Observer, Sim, SimU64, Simulation, SimulationError, ThreadState, mark,
};

use super::Shared;
use super::free::Locks;
use super::trace::Recorder;
use super::why::Waits;
use crate::cell::{Cell, Events, Free, LongWaits, Side};
use crate::direct_file::{Block, BlockFile};
use crate::error::Error;
use crate::workload::Phase;
use crate::workload::events::Counted;
use crate::workload::testbed::{Testbed, Wanted};

/// A simulated machine. Its ticks are nanoseconds.
pub struct Simulated {
    machine: Arc<Machine>,
    /// The time between two operations of a thread, in nanoseconds.
    gap_ns: u64,
    /// A clock tick in nanoseconds, where threads run and halt by turns; zero: they do not halt.
    halt_tick_ns: u64,
    /// A look of the workload at its own clock, in nanoseconds.
    look_ns: u64,
    recorder: Option<Recorder>,
    free: Shared<Locks>,
    waits: Shared<Waits>,
    counted: Counted,
}

/// Those that are told about everything.
struct Watchers {
    recorder: Option<Recorder>,
    free: Shared<Locks>,
    waits: Shared<Waits>,
}

impl Observer for Watchers {
    fn thread(&mut self, now: u64, thread: usize, cpu: usize, state: ThreadState) {
        self.free.with(|locks| locks.state(now, thread, state));
        self.waits.with(|waits| waits.state(now, thread, state));
        if let Some(recorder) = &mut self.recorder {
            recorder.thread(now, thread, cpu, state);
        }
    }

    fn mark(&mut self, now: u64, thread: usize, mark: Mark) {
        if let Some(recorder) = &mut self.recorder {
            recorder.mark(now, thread, mark);
        }
    }
}

impl Simulated {
    /// This machine, watched by the recorder if there is one. Threads leave `gap_ns` between two
    /// operations, and look at the clock before they ask for a lock and once they have it, for `look_ns`
    /// each time. If `halt_tick_ns` is not zero they run and halt by turns, as Linux' lock
    /// torture with such a tick.
    ///
    /// # Safety
    /// As for [`begin_locks`](fairlock_sim::begin_locks).
    pub unsafe fn new(
        machine: Arc<Machine>,
        gap_ns: u64,
        halt_tick_ns: u64,
        look_ns: u64,
        recorder: Option<Recorder>,
    ) -> Self {
        // SAFETY: the caller's promise.
        unsafe { fairlock_sim::begin_locks() };
        Self {
            machine,
            gap_ns,
            halt_tick_ns,
            look_ns,
            recorder,
            free: Shared::default(),
            waits: Shared::default(),
            counted: Counted::default(),
        }
    }

    /// The shares of the time in which the lock was free and waited for, once the cell has been
    /// run.
    pub fn free(&self) -> Free {
        self.free.with(Locks::finish)
    }

    /// Why waits were long, once the cell has been run; `None` for a lock on ranges.
    pub fn long_waits(&self) -> Option<LongWaits> {
        self.waits.with(|waits| waits.found())
    }

    /// What our locks did, once the cell has been run, if they counted, and if no other cell was run
    /// meanwhile: they count for the whole process.
    pub fn events(&self) -> Option<Events> {
        self.counted.events()
    }

    /// The workload looks at its clock; returns the time.
    fn look(&self) -> u64 {
        self.spend(self.look_ns);
        fairlock_sim::now()
    }

    /// Sleeps through a halt that has begun.
    fn halt(&self) {
        while let Some(ns) = halted_for(fairlock_sim::now(), self.halt_tick_ns) {
            fairlock_sim::sleep(ns);
        }
    }
}

// How the threads of Linux' lock torture halt (its `stutter`, 5 unless told otherwise, with kernel/torture.c of 2017): a timer of
// 4 ticks runs, then one of 1, in which those that come wait awake, then one of 5, in which they look again after timers of 1.
// Linux' timers take a tick more than asked for, so that they are never early.

/// For how long they run,
const RUN_TICKS: u64 = 5;
/// before the halt and the next run.
const CYCLE_TICKS: u64 = 13;
/// Those that come at the beginning of the halt are there when it ends; the others look again and again.
const AWAKE_TICKS: u64 = 2;
const LOOK_TICKS: u64 = 2;

/// For how long a thread that comes at `now` sleeps before it looks again, if threads halt then.
fn halted_for(now: u64, tick: u64) -> Option<u64> {
    let at = now.checked_rem(CYCLE_TICKS * tick)?;
    match at / tick {
        ..RUN_TICKS => None,
        nth if nth < RUN_TICKS + AWAKE_TICKS => Some(CYCLE_TICKS * tick - at),
        _ => Some(LOOK_TICKS * tick - at % tick),
    }
}

/// Unmeasured time before the window, relative to it. Nothing has to wake up first here, so short
/// windows need no longer warm-up.
const WARM_UP: f64 = 0.2;

/// Seconds as whole nanoseconds.
fn ns(secs: f64) -> u64 {
    (secs * 1e9).round() as u64
}

/// The time between two looks of a busy loop whether the run has ended.
const BUSY_NS: u64 = 1_000_000;

/// Tells a team's threads in which phase the run is: from here on it is measured.
pub struct Window {
    begins_ns: u64,
}

impl Testbed for Simulated {
    type Gate = Window;
    type File = Disk;
    type Word = SimU64;

    /// Threads join the groups in turn.
    fn run_team<R: Send>(
        &self,
        cell: &Cell,
        threads: usize,
        body: impl Fn(usize, &Window) -> R + Sync,
    ) -> Result<(Duration, Vec<R>), Error> {
        let window = Window { begins_ns: ns(cell.secs * WARM_UP) };
        let (window, body) = (&window, &body);
        let mut simulation = Simulation::new(&self.machine, cell.seed);
        let (recorder, free) = (self.recorder.clone(), self.free.clone());
        simulation.observe(Watchers { recorder, free, waits: self.waits.clone() });
        let team: Vec<_> = (0..threads)
            .map(|index| {
                let name = format!("thread {index}");
                simulation.spawn_in(index % self.groups(), &name, move || body(index, window))
            })
            .collect();
        let groups = self.groups();
        for index in 0..cell.disturbance.loops() {
            simulation.spawn_in(index % groups, "busy loop", || {
                while !fairlock_sim::stopped() {
                    fairlock_sim::busy(BUSY_NS);
                }
            });
        }
        let measured_ns = ns(cell.secs);
        self.free.with(|it| it.window = (window.begins_ns, window.begins_ns + measured_ns));
        self.waits.with(|it| it.begins_ns = window.begins_ns);
        simulation.run_for(window.begins_ns + measured_ns).map_err(|error| match error {
            SimulationError::NoMemory { .. } => {
                Error::failed(format!("{error}; use fewer --threads"))
            }
            SimulationError::Stuck(_) => {
                Error::failed(error.to_string().lines().next().unwrap_or_default())
            }
        })?;
        let results = team.into_iter().map(|thread| thread.join()).collect();
        Ok((Duration::from_nanos(measured_ns), results))
    }

    fn phase(&self, window: &Window) -> Phase {
        if fairlock_sim::stopped() {
            self.counted.ends();
            Phase::Stop
        } else if fairlock_sim::now() < window.begins_ns {
            Phase::WarmUp
        } else {
            self.counted.begins();
            Phase::Measure
        }
    }

    fn now(&self) -> u64 {
        fairlock_sim::now()
    }

    fn ns_per_tick(&self) -> f64 {
        1.0
    }

    /// Where threads halt it is the kernel's lock torture, whose sections look at the clock and pause until
    /// the time is over, so another hardware thread of the core does not lengthen them.
    fn work(&self, ns: u64) {
        if self.halt_tick_ns > 0 {
            let pause_ns = self.machine.description().instructions.pause_ns;
            fairlock_sim::pause((ns as f64 / pause_ns).round() as u32);
        } else {
            fairlock_sim::busy(ns);
        }
    }

    fn pauses(&self, n: u32) {
        fairlock_sim::pause(n);
    }

    fn sleep(&self, duration: Duration) {
        fairlock_sim::sleep(duration.as_nanos() as u64);
    }

    fn watch(&self, _window: &Window, word: &SimU64, before: u64) -> u64 {
        /// The time between two looks whether the run has ended.
        const LOOK_NS: u64 = 1_000_000;
        while !fairlock_sim::stopped() {
            if Sim::spin_until(word, LOOK_NS, |now: u64| now != before) {
                break;
            }
        }
        word.load(Ordering::Acquire)
    }

    fn file(&self, _cell: &Cell, _blocks: u64) -> Result<Disk, Error> {
        Ok(Disk)
    }

    fn groups(&self) -> usize {
        self.machine.guests()
    }

    fn spend(&self, ns: u64) {
        if ns > 0 {
            fairlock_sim::busy(ns);
        }
    }

    fn fill<R>(&self, memory: &[SimU64], body: impl FnOnce() -> R) -> R {
        fairlock_sim::fill(memory, body)
    }

    fn asks(&self, side: Side) -> u64 {
        self.asks_for(side, Wanted::Lock(fairlock_sim::thread() % self.groups()))
    }

    fn asks_for(&self, side: Side, wanted: Wanted<'_>) -> u64 {
        let now = self.look();
        mark(Mark::Waiting(side.name()));
        if let Wanted::Lock(number) = wanted {
            self.waits.with(|waits| waits.asks(now, fairlock_sim::thread(), number));
        }
        self.free.with(|locks| locks.asks(now, fairlock_sim::thread(), wanted));
        now
    }

    fn acquired(&self, side: Side) -> u64 {
        let now = fairlock_sim::now();
        mark(Mark::Holding(side.name()));
        self.free.with(|locks| locks.acquired(now, fairlock_sim::thread()));
        let long = self.waits.with(|waits| waits.acquired(now, fairlock_sim::thread()));
        if let Some((recorder, long)) = self.recorder.as_ref().zip(long) {
            recorder.waited_long(now, fairlock_sim::thread(), &long);
        }
        // In the section: whoever waits, waits for it, too.
        self.spend(self.look_ns);
        now
    }

    fn leaves(&self, side: Side) {
        mark(Mark::Releasing(side.name()));
        self.free.with(|locks| locks.leaves(fairlock_sim::now(), fairlock_sim::thread()));
        self.waits.with(|waits| waits.leaves(fairlock_sim::now(), fairlock_sim::thread()));
    }

    fn released(&self, side: Side, _asked: u64, _acquired: u64) {
        mark(Mark::Released(side.name()));
        self.free.with(|locks| locks.released(fairlock_sim::thread()));
        self.waits.with(|waits| waits.released(fairlock_sim::thread()));
        self.spend(self.gap_ns);
        self.halt();
    }
}

/// A disk that takes the same time for every block, whoever else uses it.
pub struct Disk;

/// How long it takes from a request to the interrupt. The published latency of the writer alone is
/// 20 us; the wake-up that follows the interrupt is a part of that, 5 us on the machine of that run. For
/// reading nothing was published; it is assumed to take the same.
const DISK: Duration = Duration::from_micros(15);

impl BlockFile for Disk {
    fn write(&self, _index: u64, _block: &Block) -> Result<(), Error> {
        fairlock_sim::device(DISK.as_nanos() as u64);
        Ok(())
    }

    fn read(&self, _index: u64, _block: &mut Block) -> Result<(), Error> {
        fairlock_sim::device(DISK.as_nanos() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::halted_for;

    #[test]
    fn threads_run_for_five_ticks_of_thirteen() {
        assert_eq!(halted_for(50, 0), None);
        for cycle in [0_u64, 1_300] {
            let from = |at: u64| halted_for(cycle + at, 100);
            assert_eq!((from(0), from(499)), (None, None));
            // Awake until the halt is over.
            assert_eq!((from(500), from(699)), (Some(800), Some(601)));
            // Asleep, until the next tick but one.
            assert_eq!((from(700), from(750), from(1_299)), (Some(200), Some(150), Some(101)));
        }
    }
}

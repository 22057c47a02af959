//! Simulations: threads on a machine, from the first to the last.

use std::cell::RefCell;
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Duration;

use crate::engine::with_engine;
use crate::error::SimulationError;
use crate::fiber::{Fiber, FiberStack, Panic};
use crate::machine::Machine;
use crate::observe::Observer;
use crate::report::Report;
use crate::world::{Step, World};

/// Threads on a simulated machine.
///
/// Runs on the OS thread that calls [`run`](Self::run); several can run on several OS threads. The
/// same machine, threads and seed give the same report, as long as locks are aligned to cache lines
/// (fairlock's are) and threads do nothing that depends on the world outside. Where memory is makes no
/// difference: a thread's stack is one line, whatever is in its frames.
///
/// ```
/// use fairlock::lock::{Policy, RawRwLock};
/// use fairlock_sim::{Machine, Sim, Simulation};
///
/// let machine = Machine::builtin("cascade_lake_96")?;
/// // SAFETY: no lock of an earlier simulation is used any more.
/// unsafe { fairlock_sim::begin_locks() };
/// let lock = RawRwLock::<Sim>::new(Policy::DEFAULT);
/// let mut simulation = Simulation::new(&machine, 1);
/// let writers: Vec<_> = (0..96)
///     .map(|_| {
///         simulation.spawn(|| {
///             let mut operations = 0;
///             while !fairlock_sim::stopped() {
///                 lock.write();
///                 fairlock_sim::busy(1_000);
///                 // SAFETY: taken above.
///                 unsafe { lock.unlock_write() };
///                 operations += 1;
///             }
///             operations
///         })
///     })
///     .collect();
/// simulation.run_for(1_000_000)?;
/// let operations: u32 = writers.into_iter().map(|writer| writer.join()).sum();
/// assert!((100..1_000).contains(&operations));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation<'env> {
    world: Box<World<'env>>,
    bodies: Vec<Box<dyn FnOnce() + 'env>>,
    patience_ns: u64,
    guests: usize,
}

/// The watchdog's patience unless told otherwise.
const PATIENCE_NS: u64 = 1_000_000_000;

impl<'env> Simulation<'env> {
    /// An idle machine. `seed` decides everything that is left to chance.
    pub fn new(machine: &Machine, seed: u64) -> Self {
        Self {
            world: Box::new(World::new(machine, seed)),
            bodies: Vec::new(),
            patience_ns: PATIENCE_NS,
            guests: machine.guests(),
        }
    }

    /// Adds a thread, named by its number; in guest 0, if there are guests.
    pub fn spawn<T: 'env>(&mut self, body: impl FnOnce() -> T + 'env) -> JoinHandle<T> {
        self.spawn_in(0, &format!("thread {}", self.bodies.len()), body)
    }

    /// Adds a thread of a guest, with a name for reports. Threads begin within some microseconds of
    /// each other, on CPUs in the order in which an idle machine fills up.
    ///
    /// # Panics
    /// The machine has no such guest; without guests there is only guest 0.
    pub fn spawn_in<T: 'env>(
        &mut self,
        guest: usize,
        name: &str,
        body: impl FnOnce() -> T + 'env,
    ) -> JoinHandle<T> {
        assert!(guest < self.guests, "guest {guest}: the machine has {}", self.guests);
        let result = Rc::new(RefCell::new(None));
        let slot = Rc::clone(&result);
        self.world.add_thread(name.to_owned(), guest);
        self.bodies.push(Box::new(move || *slot.borrow_mut() = Some(body())));
        JoinHandle(result)
    }

    /// Has `observer` told about everything that happens to threads. It is called in the middle of
    /// operations, where it cannot use the platform.
    pub fn observe(&mut self, observer: impl Observer + 'env) {
        self.world.observe_with(Box::new(observer));
    }

    /// For how long nobody may get anything done; a second unless set. Somebody
    /// does whenever a section passes ([`busy`](crate::busy),
    /// [`pause`](crate::pause), [`sleep`](crate::sleep)), a thread ends, or says
    /// something ([`mark`](crate::mark)). At most half a year.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX).max(1);
    }

    /// Runs until all threads have ended.
    ///
    /// # Errors
    /// Nobody gets anything done, for too long: then the threads' frames stay in memory
    /// for good, since locks may refer to them. Or there is no memory for the threads'
    /// stacks.
    ///
    /// # Panics
    /// A thread panicked.
    pub fn run(self) -> Result<Report, SimulationError> {
        self.run_until(None)
    }

    /// Runs until all threads have ended. After `ns` nanoseconds they are asked to end:
    /// [`stopped`](crate::stopped).
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_for(self, ns: u64) -> Result<Report, SimulationError> {
        self.run_until(Some(ns))
    }

    fn run_until(mut self, stop_ns: Option<u64>) -> Result<Report, SimulationError> {
        let threads = self.bodies.len();
        // All stacks are made before there is a fiber, which is leaked if it does not end; and
        // after there is room in the lists, which could not grow where there is no memory.
        let (mut fibers, mut stacks) = (Vec::with_capacity(threads), Vec::with_capacity(threads));
        for nth in 0..threads {
            let stack = FiberStack::new(nth);
            stacks.push(stack.map_err(|error| SimulationError::NoMemory { threads, error })?);
        }
        stacks.iter().for_each(|stack| self.world.add_stack(stack.addresses()));
        fibers.extend(stacks.into_iter().zip(self.bodies).map(|(s, body)| Fiber::new(s, body)));
        self.world.start(
            stop_ns.map(|ns| ns.saturating_mul(1000)),
            self.patience_ns.saturating_mul(1000),
        );
        let world = NonNull::from(&mut *self.world);
        let world_mut = || {
            let mut world = world;
            // SAFETY: `self.world` is used only through `world` meanwhile. Its references end
            // before the next one is made: the loop below and the fibers take turns.
            unsafe { world.as_mut() }
        };
        loop {
            match world_mut().step() {
                Step::Resume(thread) => {
                    // SAFETY: as above.
                    match unsafe { with_engine(world, || fibers[thread].resume()) } {
                        None => {}
                        Some(Ok(())) => world_mut().ended(),
                        Some(Err(panic)) => std::panic::resume_unwind(panic as Panic),
                    }
                }
                Step::Finished => {
                    let world = world_mut();
                    return Ok(Report {
                        ended_ns: world.now_ns(),
                        operations: world.operations(),
                        threads: world.thread_reports(),
                    });
                }
                Step::Stuck(stuck) => return Err(SimulationError::Stuck(stuck)),
            }
        }
    }
}

impl fmt::Debug for Simulation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("threads", &self.bodies.len()).finish_non_exhaustive()
    }
}

/// What a thread returns, once the simulation has ended.
#[derive(Debug)]
pub struct JoinHandle<T>(Rc<RefCell<Option<T>>>);

impl<T> JoinHandle<T> {
    /// The thread's result.
    ///
    /// # Panics
    /// The simulation has not ended well.
    pub fn join(self) -> T {
        self.0.take().expect("a thread's result is there when its simulation has ended")
    }
}

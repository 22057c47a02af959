//! What stands behind the platform while a simulation runs: an [`Engine`].
//!
//! The platform asks the engine about every operation. An engine says what an operation costs and
//! when it happens; it never touches the memory that the operation is about. The engine here is the
//! machine ([`World`](crate::world)); another one, which tries schedules, can stand in its place.

use std::cell::Cell;
use std::ptr::NonNull;

use fairlock::platform::WaitOutcome;
use fairlock::wait::Thread;

use crate::observe::Mark;
use crate::sim::Sim;

/// What else a thread spends time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Clock,
    /// This many pause instructions, in a spin loop.
    Pause(u32),
    /// The same as a section: the watchdog counts it as something done.
    Pauses(u32),
    /// Nanoseconds of other work.
    Busy(u64),
    /// A look whether the thread should end.
    Look,
    Yield,
    /// Entering a wait, or a wake-up.
    WaitCall,
    WakeCall,
    /// The barrier of all threads of the process.
    Barrier,
}

/// What the caller of an engine does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Next {
    /// Go on: the operation is done.
    Go,
    /// Go on; if the operation was a write, report it.
    Tell,
    /// Suspend; the operation is done when the thread is resumed. If it was a write, report it.
    Suspend,
}

/// What a spinner waits for, evaluated without cost.
pub(crate) struct Condition(*const dyn Fn() -> bool);

impl Condition {
    /// # Safety
    /// `look` stays where it is until the spin that it is for has ended.
    pub(crate) unsafe fn new(look: &dyn Fn() -> bool) -> Self {
        // SAFETY: only the lifetime changes; the caller keeps it alive.
        Self(unsafe {
            std::mem::transmute::<*const dyn Fn() -> bool, *const dyn Fn() -> bool>(look)
        })
    }

    /// Whether the spinner would be content with what it would see now.
    pub(crate) fn holds(&self) -> bool {
        // SAFETY: alive, see `new`.
        aside(|| unsafe { (*self.0)() })
    }
}

/// What decides when things happen. All calls are for the thread that runs.
pub(crate) trait Engine {
    /// A load is about to be made. Nothing is reported when it is done.
    fn load(&mut self, address: usize) -> Next;
    /// A store is about to be made.
    fn store(&mut self, address: usize) -> Next;
    /// A read-modify-write is about to be made.
    fn modify(&mut self, address: usize) -> Next;
    /// A write that was to be reported is done.
    fn wrote(&mut self, address: usize);
    /// The thread writes all of `bytes` bytes of plain memory.
    fn fill(&mut self, address: usize, bytes: usize) -> Next;
    /// The thread spends time.
    fn work(&mut self, work: Work) -> Next;
    /// The thread enters a wait or a wake-up on the word at `address`.
    fn call(&mut self, call: Work, _address: usize) -> Next {
        self.work(call)
    }
    /// The thread, which is not content with the word at `address`, spins until
    /// it is, at most for `bound_ns`. It suspends; see [`spun`](Self::spun).
    fn spin(&mut self, address: usize, bound_ns: u64, look: Condition);
    /// Whether the spin ended because the look held.
    fn spun(&mut self) -> bool;
    /// The thread sleeps, on the word at `address` unless that is 0, until
    /// `deadline`. It suspends; see [`slept`](Self::slept).
    fn sleep(&mut self, address: usize, deadline: Option<u64>);
    /// The thread sleeps until an interrupt at `time`, which no timer delays. It suspends.
    fn sleep_for_interrupt(&mut self, time: u64) {
        self.sleep(0, Some(time));
    }
    /// How the sleep ended.
    fn slept(&mut self) -> WaitOutcome;
    /// Wakes one thread that sleeps on the word at `address`.
    fn wake(&mut self, address: usize) -> Next;
    /// Nanoseconds since the simulation began.
    fn now(&self) -> u64;
    /// Whether threads should end.
    fn stopped(&self) -> bool;
    /// A number that stands for this address, as far from those of its neighbours as it is.
    fn name_of(&mut self, address: usize) -> usize {
        address
    }
    fn cpu(&self) -> u32;
    fn cpus(&self) -> usize;
    /// The socket that the thread is in, as it sees it. Guests see one.
    fn socket(&self) -> usize {
        0
    }
    /// The thread's number, in order of spawning.
    fn number(&self) -> usize;
    fn thread(&self) -> &'static Thread<Sim>;
    /// The thread's real-time priority. The machine has none.
    fn priority(&self) -> u8 {
        0
    }
    /// The thread changes its priority.
    fn set_priority(&mut self, _priority: u8) {}
    /// A number below `below` from the thread's own random sequence.
    fn random(&mut self, below: u64) -> u64;
    /// The thread says what it does.
    fn mark(&mut self, mark: Mark);
}

std::thread_local! {
    /// The engine of the simulated thread that runs on this OS thread, if one does.
    static ENGINE: Cell<Option<NonNull<dyn Engine>>> = const { Cell::new(None) };
}

/// Runs `body` with `engine` behind the platform.
///
/// # Safety
/// `engine` can be dereferenced, and nobody else refers to it, whenever `body` uses the platform.
#[inline(always)]
pub(crate) unsafe fn with_engine<'a, R>(
    engine: NonNull<dyn Engine + 'a>,
    body: impl FnOnce() -> R,
) -> R {
    // SAFETY: only the lifetime changes; it is removed below.
    ENGINE.set(Some(unsafe {
        std::mem::transmute::<NonNull<dyn Engine + 'a>, NonNull<dyn Engine>>(engine)
    }));
    let result = body();
    ENGINE.set(None);
    result
}

/// Runs what an engine was given from outside. That finds no engine behind the platform: it costs
/// nothing, and cannot ask the engine that runs it.
pub(crate) fn aside<R>(body: impl FnOnce() -> R) -> R {
    let engine = ENGINE.take();
    let result = body();
    ENGINE.set(engine);
    result
}

/// Asks the engine behind the caller; `None` outside of a simulation.
#[inline(always)]
pub(crate) fn ask<R>(question: impl FnOnce(&mut dyn Engine) -> R) -> Option<R> {
    // SAFETY: `with_engine` keeps it alive, and nobody else uses it: no question asks another.
    ENGINE.get().map(|mut engine| question(unsafe { engine.as_mut() }))
}

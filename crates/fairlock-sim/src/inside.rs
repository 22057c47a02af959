//! What simulated threads can do beside taking locks.
//!
//! All of it panics outside of a simulation.

use crate::engine::{Next, Work, aside, ask};
use crate::fiber::suspend;
use crate::observe::Mark;
use crate::platform::work;

/// Asks the engine, which must be there.
fn engine<R>(question: impl FnOnce(&mut dyn crate::engine::Engine) -> R) -> R {
    ask(question).expect("called outside of a simulation")
}

/// Nanoseconds since the simulation began. Costs nothing, unlike a look at the
/// machine's clock.
pub fn now() -> u64 {
    engine(|engine| engine.now())
}

/// The calling thread's number, in the order in which they were spawned.
pub fn thread() -> usize {
    engine(|engine| engine.number())
}

/// The socket that the calling thread is in, by number. Guests see one.
pub fn socket() -> usize {
    engine(|engine| engine.socket())
}

/// Whether the simulation wants its threads to end; see
/// [`Simulation::run_for`](crate::Simulation::run_for). Costs a load, so that time passes in a loop
/// around it.
pub fn stopped() -> bool {
    work(Work::Look);
    engine(|engine| engine.stopped())
}

/// Executes `n` pause instructions, as a section of that length.
pub fn pause(n: u32) {
    work(Work::Pauses(n));
}

/// Uses the CPU for `ns` nanoseconds.
pub fn busy(ns: u64) {
    work(Work::Busy(ns));
}

/// Has `body` write all of `memory`. Lines of it that other CPUs have come here, which takes the
/// time that the machine file says; what `body` does takes none, so it cannot wait.
pub fn fill<T, R>(memory: &[T], body: impl FnOnce() -> R) -> R {
    let address = memory.as_ptr() as usize;
    if engine(|engine| engine.fill(address, size_of_val(memory))) == Next::Suspend {
        suspend();
    }
    aside(body)
}

/// Sleeps for `ns` nanoseconds and the machine's timer slack.
pub fn sleep(ns: u64) {
    work(Work::WaitCall);
    engine(|engine| {
        let until = engine.now().saturating_add(ns);
        engine.sleep(0, Some(until));
    });
    suspend();
}

/// Sleeps until a device that takes `ns` nanoseconds reports by an interrupt that it is done. The
/// thread's wake-up comes on top.
pub fn device(ns: u64) {
    work(Work::WaitCall);
    engine(|engine| {
        let done = engine.now().saturating_add(ns);
        engine.sleep_for_interrupt(done);
    });
    suspend();
}

/// Lets another thread have this CPU, if one waits for it.
pub fn yield_now() {
    work(Work::Yield);
}

/// A number below `below`, by chance as the seed has it. Zero if `below` is zero.
pub fn random(below: u64) -> u64 {
    if below == 0 { 0 } else { engine(|engine| engine.random(below)) }
}

/// Gives the thread a real-time priority, if the engine has priorities.
pub(crate) fn set_priority(priority: u8) {
    engine(|engine| engine.set_priority(priority));
}

/// Says what the thread does, for [observers](crate::Observer) and the watchdog.
pub fn mark(mark: Mark) {
    engine(|engine| engine.mark(mark));
}

//! A batch whose stragglers have no CPU does not keep the lock from threads that have one:
//! in virtual time, on machines whose CPUs others want, too.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use fairlock::ticket::AdaptiveTicketLock;
use fairlock_sim::{
    Machine, Mark, Observer, Sim, Simulation, ThreadState, busy, now, random, stopped,
};
use fairlock_testing as _; // the watchdog

const RUN_NS: u64 = 300_000_000;

/// Time in which the lock was free, and wanted by a thread that was not merely short of a CPU.
#[derive(Default)]
struct Idle {
    wants: RefCell<Vec<bool>>,
    /// Whether it has a CPU, or none to have as it sleeps.
    could: RefCell<Vec<bool>>,
    held: Cell<bool>,
    since: Cell<Option<u64>>,
    total: Cell<u64>,
}

impl Idle {
    fn new(threads: usize) -> Rc<Self> {
        let no = || RefCell::new(vec![false; threads]);
        Rc::new(Self { wants: no(), could: no(), ..Self::default() })
    }

    fn set(&self, now: u64, thread: usize, wants: bool, held: bool) {
        self.wants.borrow_mut()[thread] = wants;
        self.held.set(held);
        self.note(now);
    }

    fn note(&self, now: u64) {
        let (wants, could) = (self.wants.borrow(), self.could.borrow());
        let wanted = wants.iter().zip(&*could).any(|(wants, could)| *wants && *could);
        if let Some(since) = self.since.take() {
            self.total.set(self.total.get() + now - since);
        }
        if wanted && !self.held.get() {
            self.since.set(Some(now));
        }
    }
}

/// Sees who has a CPU.
struct Watch(Rc<Idle>);

impl Observer for Watch {
    fn thread(&mut self, now: u64, thread: usize, _cpu: usize, state: ThreadState) {
        let short = matches!(state, ThreadState::Runnable | ThreadState::Stalled);
        if let Some(could) = self.0.could.borrow_mut().get_mut(thread) {
            *could = !short;
        }
        self.0.note(now);
    }

    fn mark(&mut self, _: u64, _: usize, _: Mark) {}
}

/// What threads came to that take a lock for a microsecond, then stay away for another one.
struct Run {
    idle_ns: u64,
    longest_wait_ns: u64,
}

/// So many threads, and so many others that want the CPUs.
fn run(threads: usize, others: usize) -> Run {
    const SECTION_NS: u64 = 1_000;
    let machine = Machine::builtin("two_cpu").unwrap();
    let lock = AdaptiveTicketLock::<Sim>::new();
    let (idle, longest_wait_ns) = (Idle::new(threads), Cell::new(0));
    let mut simulation = Simulation::new(&machine, 1);
    for thread in 0..threads {
        simulation.spawn({
            let (lock, idle, longest_wait_ns) = (&lock, idle.clone(), &longest_wait_ns);
            move || {
                while !stopped() {
                    let came = now();
                    idle.set(came, thread, true, idle.held.get());
                    lock.lock();
                    idle.set(now(), thread, false, true);
                    longest_wait_ns.set(longest_wait_ns.get().max(now() - came));
                    busy(SECTION_NS);
                    idle.set(now(), thread, false, false);
                    // SAFETY: taken above.
                    unsafe { lock.unlock() };
                    busy(SECTION_NS + random(SECTION_NS / 4));
                }
            }
        });
    }
    for _ in 0..others {
        simulation.spawn(|| {
            while !stopped() {
                busy(10_000);
            }
        });
    }
    simulation.observe(Watch(idle.clone()));
    simulation.run_for(RUN_NS).unwrap_or_else(|stuck| panic!("{stuck}"));
    Run { idle_ns: idle.total.get(), longest_wait_ns: longest_wait_ns.get() }
}

/// (For half of the time the lock was free, and its waiters slept.)
#[test]
fn a_batch_whose_straggler_has_no_cpu_goes_on_without_it() {
    let Run { idle_ns, longest_wait_ns } = run(3, 2);
    assert!(idle_ns < RUN_NS / 10, "free for {idle_ns} ns");
    // A few slices of the others; a straggler waits for its CPU, and about as long again.
    assert!(longest_wait_ns < 20_000_000, "waited for {longest_wait_ns} ns");
}

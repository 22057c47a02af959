//! How long threads wait for a lock, in time with CPUs: what a simulated machine knows, and a real one does not tell.
//!
//! A nanosecond of a wait counts unless somebody lacks a CPU who may have to have one for the lock to get on: all that
//! are inside, or any waiter that is awake. A wake-up counts until the thread is in the run queue of a CPU.

use std::cell::RefCell;
use std::rc::Rc;

use fairlock_sim::{Mark, Observer, ThreadState};

#[derive(Clone, Copy, Default, PartialEq)]
enum Stage {
    #[default]
    Elsewhere,
    Waits,
    Inside,
    /// In the call that gives the lock back.
    Leaves,
}

#[derive(Clone, Copy, Default)]
struct Thread {
    stage: Stage,
    lacks_cpu: bool,
    /// For how long it has waited, as far as that counts; an attempt that failed is part of the wait.
    waited: u64,
    /// The lock's clock when `waited` was brought up to now.
    clock: u64,
}

/// What is known of one lock and its threads.
#[derive(Default)]
struct Known {
    threads: Vec<Thread>,
    /// For how long the lock could get on.
    clock: u64,
    clock_until: u64,
}

/// A lock that is watched: of the threads that use it, and of the simulation.
#[derive(Clone, Default)]
pub struct Watch(Rc<RefCell<Known>>);

impl Watch {
    pub fn asks(&self, now: u64, thread: usize) {
        self.0.borrow_mut().enters(now, thread, Stage::Waits);
    }

    /// The attempt has ended without the lock: the next one goes on with the wait.
    pub fn gives_up(&self, now: u64, thread: usize) {
        self.0.borrow_mut().enters(now, thread, Stage::Elsewhere);
    }

    /// The thread has the lock. Returns for how long it has waited.
    pub fn acquired(&self, now: u64, thread: usize) -> u64 {
        let known = &mut *self.0.borrow_mut();
        known.enters(now, thread, Stage::Inside);
        // Whoever was on its way out is out.
        let leaves = known.threads.iter_mut().filter(|thread| thread.stage == Stage::Leaves);
        leaves.for_each(|thread| thread.stage = Stage::Elsewhere);
        std::mem::take(&mut known.threads[thread].waited)
    }

    pub fn leaves(&self, now: u64, thread: usize) {
        self.0.borrow_mut().enters(now, thread, Stage::Leaves);
    }

    pub fn left(&self, now: u64, thread: usize) {
        self.0.borrow_mut().enters(now, thread, Stage::Elsewhere);
    }
}

impl Known {
    /// Brings the clock, and what the thread has waited, up to now, before something changes.
    fn count(&mut self, now: u64, thread: usize) {
        let (mut inside, mut run_inside, mut awake_in_vain) = (0, 0, 0);
        for thread in &self.threads {
            match thread.stage {
                Stage::Inside => {
                    inside += 1;
                    run_inside += usize::from(!thread.lacks_cpu);
                }
                // Inside, unless it only was about to return.
                Stage::Leaves => inside += usize::from(thread.lacks_cpu),
                Stage::Waits => awake_in_vain += usize::from(thread.lacks_cpu),
                Stage::Elsewhere => {}
            }
        }
        let gets_on = awake_in_vain == 0 && (inside == 0 || run_inside > 0);
        self.clock += if gets_on { now - self.clock_until } else { 0 };
        self.clock_until = now;
        let this = &mut self.threads[thread];
        if this.stage == Stage::Waits && !this.lacks_cpu {
            this.waited += self.clock - this.clock;
        }
        this.clock = self.clock;
    }

    fn enters(&mut self, now: u64, thread: usize, stage: Stage) {
        self.has(thread);
        self.count(now, thread);
        self.threads[thread].stage = stage;
    }

    fn has(&mut self, thread: usize) {
        if self.threads.len() <= thread {
            self.threads.resize(thread + 1, Thread::default());
        }
    }
}

impl Observer for Watch {
    fn thread(&mut self, now: u64, thread: usize, _cpu: usize, state: ThreadState) {
        let known = &mut *self.0.borrow_mut();
        known.has(thread);
        let lacks_cpu = state.lacks_cpu();
        if known.threads[thread].lacks_cpu != lacks_cpu {
            known.count(now, thread);
            known.threads[thread].lacks_cpu = lacks_cpu;
        }
    }

    fn mark(&mut self, _: u64, _: usize, _: Mark) {}
}

/// All locks of a simulation.
pub struct All(pub Vec<Watch>);

impl Observer for All {
    fn thread(&mut self, now: u64, thread: usize, cpu: usize, state: ThreadState) {
        self.0.iter_mut().for_each(|watch| watch.thread(now, thread, cpu, state));
    }

    fn mark(&mut self, _: u64, _: usize, _: Mark) {}
}

//! Who runs: what the levels decide becomes starts and stops of threads.

use super::level::TaskState;
use super::{HOST, THREADS, World};
use crate::events::Event;
use crate::observe::ThreadState;

impl World<'_> {
    /// Sends a blocked task towards a CPU.
    pub(super) fn wake_task(&mut self, level: usize, task: u32, waker: Option<usize>) {
        let usual = self.levels[level].send(task, waker, self.now);
        let latency = self.vary(level, usual);
        self.events.push(self.now + latency, Event::Arrive(level, task));
        if level == THREADS {
            self.observe(task, ThreadState::Woken);
        }
    }

    /// A woken task has reached its CPU.
    pub(super) fn arrive(&mut self, level: usize, task: u32) {
        let l = &mut self.levels[level];
        l.arrive(task, self.now);
        let cpu = l.tasks[task as usize].cpu;
        if l.cpus[cpu].current.is_none() {
            self.run_next(level, cpu, None);
        } else if l.preempts(task, self.now) && self.has_cpu(level, cpu) {
            self.preempt(level, cpu);
        } else {
            self.plan_tick(level, cpu);
        }
        if level == THREADS && self.levels[level].tasks[task as usize].state == TaskState::Queued {
            self.observe(task, ThreadState::Runnable);
        }
    }

    /// The task of a CPU has to wait for its next turn.
    fn preempt(&mut self, level: usize, cpu: usize) {
        self.stop_running(level, cpu, true);
        self.run_next(level, cpu, None);
    }

    /// The task of a CPU has nothing to do.
    pub(super) fn block(&mut self, level: usize, cpu: usize) {
        self.stop_running(level, cpu, false);
        self.run_next(level, cpu, None);
    }

    /// The task of a CPU lets others go first; returns whether there is one.
    pub(super) fn yield_cpu(&mut self, cpu: usize) -> bool {
        let queue = &self.levels[THREADS].cpus[cpu].queue;
        if queue.is_empty() {
            return false;
        }
        let task = self.levels[THREADS].cpus[cpu].current;
        self.stop_running(THREADS, cpu, true);
        if let Some(task) = task {
            self.levels[THREADS].forfeit(task);
        }
        self.run_next(THREADS, cpu, task);
        true
    }

    fn stop_running(&mut self, level: usize, cpu: usize, again: bool) {
        let Some(task) = self.levels[level].stop(cpu, again, self.now) else { return };
        if level == HOST {
            if let Some(thread) = self.levels[THREADS].cpus[task as usize].current {
                self.freeze(thread);
                self.observe(thread, ThreadState::Stalled);
            }
        } else if again {
            self.freeze(task);
            self.observe(task, ThreadState::Runnable);
        }
    }

    /// Gives a CPU to the next task that wants it, except `but` if there is another.
    fn run_next(&mut self, level: usize, cpu: usize, but: Option<u32>) {
        let l = &mut self.levels[level];
        let next = l.take_first(cpu, but).or_else(|| l.pull(cpu, self.now));
        match next {
            Some(task) => self.run_task(level, task),
            None => {
                l.rest(cpu, self.now);
                // A virtual CPU without threads halts.
                if level == THREADS && self.has_host() && self.has_cpu(level, cpu) {
                    let host = self.levels[HOST].tasks[cpu].cpu;
                    self.block(HOST, host);
                }
            }
        }
    }

    fn run_task(&mut self, level: usize, task: u32) {
        let usual = self.levels[level].run(task, self.now);
        let switch = self.vary(level, usual);
        let cpu = self.levels[level].tasks[task as usize].cpu;
        if level == THREADS {
            self.threads[task as usize].rest += switch;
            if self.has_cpu(level, cpu) {
                self.thaw(task);
            } else {
                self.observe(task, ThreadState::Stalled);
                if self.has_host() && self.levels[HOST].tasks[cpu].state == TaskState::Blocked {
                    // The host is told: the kick.
                    self.wake_task(HOST, cpu as u32, None);
                }
            }
        } else if let Some(thread) = self.levels[THREADS].cpus[task as usize].current {
            self.threads[thread as usize].rest += switch;
            self.thaw(thread);
            self.plan_tick(THREADS, task as usize);
        } else {
            // Its threads went elsewhere while it was on its way to a CPU.
            self.halt_if_empty(task as usize);
        }
        self.plan_tick(level, cpu);
    }

    /// A virtual CPU that got a CPU and has nothing to run halts again.
    fn halt_if_empty(&mut self, vcpu: usize) {
        self.run_next(THREADS, vcpu, None);
    }

    /// Plans the next look whether another task is due, if any waits.
    pub(super) fn plan_tick(&mut self, level: usize, cpu: usize) {
        let l = &mut self.levels[level];
        if l.cpus[cpu].tick == 0 && !l.cpus[cpu].queue.is_empty() {
            let time = l.next_tick(cpu, self.now);
            l.cpus[cpu].tick = self.events.push(time, Event::Tick(level, cpu as u32));
        }
    }

    pub(super) fn tick(&mut self, level: usize, cpu: usize) {
        self.levels[level].cpus[cpu].tick = 0;
        if !self.has_cpu(level, cpu) {
            return; // planned anew when it has
        }
        // An idle CPU does not look for work itself: one that has too much sends it some.
        if !self.levels[level].cpus[cpu].queue.is_empty()
            && let Some(idle) = self.levels[level].idle_for(cpu)
        {
            self.run_next(level, idle, None);
        }
        if self.levels[level].is_due(cpu, self.now) {
            self.preempt(level, cpu);
        } else {
            self.plan_tick(level, cpu);
        }
    }

    pub(super) fn has_host(&self) -> bool {
        self.levels.len() > HOST
    }

    /// Whether a CPU of a level can run anything: virtual ones need a real one, and a host
    /// may have taken it.
    pub(super) fn has_cpu(&self, level: usize, cpu: usize) -> bool {
        if level == THREADS && self.has_host() {
            self.levels[HOST].tasks[cpu].state == TaskState::Running
        } else {
            !self.gone.contains(cpu)
        }
    }
}

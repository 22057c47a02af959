//! Spinning and sleeping.
//!
//! A spinner polls a copy of the line, which costs others nothing, so that is not simulated: the
//! spinner is asleep until the line is written. Then its copy is gone, and it loads the line again.
//! When that has arrived it looks, and if it is not content it sleeps on. If the look would be in
//! vain at the time of the write, the load is not simulated.

use fairlock::platform::WaitOutcome;

use super::{Sleep, Spin, THREADS, World};
use crate::engine::Condition;
use crate::observe::ThreadState;

impl World<'_> {
    // ---- spinning ----

    pub(super) fn begin_spin(&mut self, address: usize, bound_ns: u64, look: Condition) {
        let thread = self.running;
        let line = self.memory.number(address);
        let late = self.random_below(self.costs.pause);
        let deadline = self.now.saturating_add(bound_ns.saturating_mul(1000)).saturating_add(late);
        self.operations.spins += 1;
        let t = &mut self.threads[thread as usize];
        t.spin = Some(Spin { line, look, deadline, watching: true });
        self.events.set_timer(thread, deadline);
        self.memory.cell(line).spinners.push(thread);
        self.observe(thread, ThreadState::Spinning);
    }

    /// A line that is spun on was written. The requests of those nearer to the writer arrive first; others stay in
    /// order.
    pub(super) fn tell_spinners(&mut self, line: u32) {
        let mut by_distance = std::mem::take(&mut self.by_distance);
        for thread in self.memory.cell(line).spinners.drain(..) {
            let place = self.threads[thread as usize].place;
            by_distance[self.costs.nth_distance(self.here, place)].push(thread);
        }
        for thread in by_distance.iter_mut().flat_map(|threads| threads.drain(..)) {
            if !self.tell(thread, line) {
                self.memory.cell(line).spinners.push(thread);
            }
        }
        self.by_distance = by_distance;
    }

    /// The line of a spinner was written; returns whether the spinner will look.
    fn tell(&mut self, thread: u32, line: u32) -> bool {
        self.operations.reloads += 1;
        let t = &mut self.threads[thread as usize];
        let spin = t.spin.as_mut().expect("a thread among the spinners of a line spins");
        let line = &mut self.memory.cell(line).line;
        if !spin.look.holds() {
            line.read_in_vain(t.place, self.now, &self.costs);
            return false;
        }
        spin.watching = false;
        let loaded = line.read(t.place, self.now, &self.costs);
        // The spinner may be in the middle of a pause.
        let done = loaded + self.random_below(self.costs.pause);
        self.plan(thread, done);
        true
    }

    /// A spinner sees the line again; returns whether its spin has ended.
    pub(super) fn look_again(&mut self, thread: u32) -> bool {
        let t = &mut self.threads[thread as usize];
        let Some(spin) = &mut t.spin else { return true };
        t.content = spin.look.holds();
        if t.content || self.now >= spin.deadline {
            self.end_spin(thread);
            return true;
        }
        spin.watching = true;
        let line = spin.line;
        if !self.events.has_timer(thread) {
            self.events.set_timer(thread, spin.deadline);
        }
        self.memory.cell(line).spinners.push(thread);
        false
    }

    fn end_spin(&mut self, thread: u32) {
        let t = &mut self.threads[thread as usize];
        t.spin = None;
        self.events.cancel_timer(thread);
        self.observe(thread, ThreadState::Running);
    }

    /// A spinner has no CPU any more; it looks again when it has one.
    pub(super) fn look_away(&mut self, thread: u32) {
        let t = &mut self.threads[thread as usize];
        if let Some(spin) = &mut t.spin
            && std::mem::replace(&mut spin.watching, false)
        {
            let line = spin.line;
            self.memory.cell(line).spinners.retain(|&other| other != thread);
        }
    }

    // ---- sleeping ----

    /// The running thread sleeps. Its timer is `slack` picoseconds late.
    pub(super) fn begin_sleep(&mut self, address: usize, deadline: Option<u64>, slack: u64) {
        let thread = self.running;
        let mut line = 0;
        if address != 0 {
            line = self.memory.number(address);
            self.memory.cell(line).sleepers.push(thread);
        } else {
            self.progress += 1;
        }
        if let Some(deadline) = deadline {
            let deadline = deadline.saturating_mul(1000);
            // A deadline that has passed needs no timer.
            let slack = if deadline > self.now { slack } else { 0 };
            let time = deadline.max(self.now).saturating_add(slack);
            self.events.set_timer(thread, time);
        }
        let t = &mut self.threads[thread as usize];
        t.sleep = Some(Sleep { address, line });
        t.sleeps += 1;
        self.observe(thread, ThreadState::Sleeping);
        self.block(THREADS, self.this_cpu());
    }

    /// Wakes the first thread that sleeps on a word; returns whether there is one.
    pub(super) fn wake_sleeper(&mut self, address: usize) -> bool {
        let line = self.memory.number(address);
        let threads = &self.threads;
        let sleepers = &mut self.memory.cell(line).sleepers;
        let sleeps_here = |&thread: &u32| {
            threads[thread as usize].sleep.as_ref().is_some_and(|sleep| sleep.address == address)
        };
        let Some(first) = sleepers.iter().position(sleeps_here) else { return false };
        let thread = sleepers.remove(first);
        self.end_sleep(thread, WaitOutcome::Woken, Some(self.this_cpu()));
        true
    }

    fn end_sleep(&mut self, thread: u32, outcome: WaitOutcome, waker: Option<usize>) {
        let t = &mut self.threads[thread as usize];
        t.sleep = None;
        t.outcome = outcome;
        self.events.cancel_timer(thread);
        self.wake_task(THREADS, thread, waker);
    }

    /// A thread's timer expires; returns whether the thread goes on at once.
    pub(super) fn expire(&mut self, thread: u32) -> bool {
        let t = &mut self.threads[thread as usize];
        if let Some(sleep) = &t.sleep {
            let (address, line) = (sleep.address, sleep.line);
            if address != 0 {
                self.memory.cell(line).sleepers.retain(|&other| other != thread);
            } else {
                self.progress += 1;
            }
            self.end_sleep(thread, WaitOutcome::TimedOut, None);
            return false;
        }
        // A spinner that has no CPU, or whose load is on its way, notices the time itself.
        if t.spin.as_ref().is_none_or(|spin| !spin.watching) {
            return false;
        }
        self.look_away(thread);
        self.threads[thread as usize].content = false;
        self.end_spin(thread);
        true
    }
}

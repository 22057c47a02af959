//! What a running thread asks for, and what it costs.

use fairlock::platform::WaitOutcome;
use fairlock::wait::Thread as Record;

use super::{THREADS, World};
use crate::engine::{Condition, Engine, Next, Work};
use crate::events::Event;
use crate::memory::LINE_BYTES;
use crate::observe::{Mark, ThreadState};
use crate::sim::Sim;

impl World<'_> {
    /// The running thread's operation is done at `done`.
    #[inline]
    fn finish_at(&mut self, done: u64) -> Next {
        if self.events.none_until(done) {
            self.now = done;
            return Next::Go;
        }
        self.plan(self.running, done);
        Next::Suspend
    }

    /// A thread's operation will be done at `done`.
    pub(super) fn plan(&mut self, thread: u32, done: u64) {
        let t = &mut self.threads[thread as usize];
        t.done = done;
        t.operation = self.events.push(done, Event::Operation(thread));
    }

    /// A write is about to be made, which costs `local` on a line that the thread's core owns.
    #[inline]
    fn write(&mut self, address: usize, local: u64) -> Next {
        let number = self.memory.number(address);
        let local = self.beside_siblings(local);
        let cell = self.memory.cell(number);
        let done = cell.line.write(self.here, self.now, local, &self.costs);
        let watched = !cell.spinners.is_empty();
        match self.finish_at(done) {
            Next::Go if watched => Next::Tell,
            next => next,
        }
    }

    /// A thread loses its CPU in the middle of an operation.
    pub(super) fn freeze(&mut self, thread: u32) {
        let t = &mut self.threads[thread as usize];
        if t.operation != 0 {
            t.operation = 0;
            t.rest = t.done - self.now;
        }
        self.look_away(thread);
    }

    /// A thread has a CPU, and goes on with its operation.
    pub(super) fn thaw(&mut self, thread: u32) {
        let place = self.physical_place(thread);
        let t = &mut self.threads[thread as usize];
        t.place = place;
        let spins = t.spin.is_some();
        let done = self.now + std::mem::take(&mut t.rest);
        self.plan(thread, done);
        self.observe(thread, if spins { ThreadState::Spinning } else { ThreadState::Running });
    }

    /// What work of this thread takes that takes `alone` on a core of its own.
    #[inline]
    fn beside_siblings(&self, alone: u64) -> u64 {
        if self.threads_per_core == 1 {
            return alone;
        }
        let cpu = self.here.cpu as usize;
        let first = usize::from(self.here.core) * self.threads_per_core;
        let mut siblings = (first..first + self.threads_per_core).filter(|&other| other != cpu);
        if siblings.any(|sibling| self.works(sibling)) {
            self.costs.beside_other_work(alone)
        } else {
            alone
        }
    }

    /// Whether a thread works on a CPU of the machine: it has it, and neither spins nor pauses.
    fn works(&self, cpu: usize) -> bool {
        let on_machine = self.levels[self.levels.len() - 1].cpus[cpu].current;
        let thread = match self.has_host() {
            true => on_machine.and_then(|vcpu| self.levels[THREADS].cpus[vcpu as usize].current),
            false => on_machine,
        };
        thread.is_some_and(|thread| {
            let t = &self.threads[thread as usize];
            t.spin.is_none() && t.pauses_until <= self.now
        })
    }

    /// What the running thread is about to do, and for how long.
    fn cost(&mut self, work: Work) -> u64 {
        let cost = self.cost_alone(work);
        if let Work::Pause(_) | Work::Pauses(_) = work {
            self.threads[self.running as usize].pauses_until = self.now.saturating_add(cost);
            cost
        } else {
            self.beside_siblings(cost)
        }
    }

    fn cost_alone(&mut self, work: Work) -> u64 {
        let (costs, count) = (&self.costs, &mut self.operations);
        match work {
            Work::Clock => {
                count.clocks += 1;
                costs.clock
            }
            Work::Pause(n) => {
                count.pauses += 1;
                costs.pause * u64::from(n)
            }
            Work::Pauses(n) => {
                self.progress += 1;
                count.pauses += 1;
                costs.pause * u64::from(n)
            }
            Work::Busy(ns) => {
                self.progress += 1;
                count.others += 1;
                ns.saturating_mul(1000)
            }
            Work::Look => {
                count.loads += 1;
                costs.load
            }
            Work::Yield => {
                count.others += 1;
                costs.yielding
            }
            Work::WaitCall => {
                count.waits += 1;
                costs.wait
            }
            Work::WakeCall => {
                count.wakes += 1;
                costs.wake
            }
            // Without its interrupts, which are not the caller's work.
            Work::Barrier => {
                count.others += 1;
                costs.barrier.call
            }
        }
    }

    /// The running thread interrupts each CPU that runs another thread of its process, or of its guest, and waits
    /// for the slowest. Returns when all have answered. A CPU that the host has taken is not waited for.
    fn interrupt_others(&mut self) -> u64 {
        let own = self.this_cpu();
        let cpus = if self.has_host() { self.guest_cpus } else { self.cpus_seen };
        let first = own - own % cpus;
        let mut sent = self.now + self.cost(Work::Barrier);
        let mut answered = sent;
        for cpu in (first..first + cpus).filter(|&cpu| cpu != own) {
            let Some(other) = self.levels[THREADS].cpus[cpu].current else { continue };
            if !self.has_cpu(THREADS, cpu) {
                continue;
            }
            sent += self.costs.barrier.send;
            answered = answered.max(sent + self.vary(THREADS, self.costs.barrier.answer));
            // What it does now is done later.
            let t = &self.threads[other as usize];
            if t.operation != 0 {
                self.plan(other, t.done + self.costs.barrier.interrupt);
            }
        }
        answered
    }
}

impl Engine for World<'_> {
    fn load(&mut self, address: usize) -> Next {
        self.operations.loads += 1;
        let number = self.memory.number(address);
        let done = self.memory.cell(number).line.read(self.here, self.now, &self.costs);
        self.finish_at(done)
    }

    fn store(&mut self, address: usize) -> Next {
        self.operations.stores += 1;
        self.write(address, self.costs.store)
    }

    fn modify(&mut self, address: usize) -> Next {
        self.operations.atomics += 1;
        self.write(address, self.costs.atomic)
    }

    fn wrote(&mut self, address: usize) {
        let number = self.memory.number(address);
        if !self.memory.cell(number).spinners.is_empty() {
            self.tell_spinners(number);
        }
    }

    fn fill(&mut self, address: usize, bytes: usize) -> Next {
        self.operations.others += 1;
        let mut time = self.now;
        for line in (address..address + bytes).step_by(LINE_BYTES) {
            let number = self.memory.number(line);
            let line = &mut self.memory.cell(number).line;
            let took = line.write(self.here, time, self.costs.fill, &self.costs) - time;
            // The next lines are on their way meanwhile.
            time += (took / self.costs.in_flight).max(self.costs.fill);
        }
        self.finish_at(time)
    }

    fn work(&mut self, work: Work) -> Next {
        if work == Work::Barrier {
            let answered = self.interrupt_others();
            return self.finish_at(answered);
        }
        let cost = self.cost(work);
        if work == Work::Yield {
            let thread = self.running;
            self.threads[thread as usize].rest = cost;
            if self.yield_cpu(self.cpu_of(thread)) {
                return Next::Suspend;
            }
            self.threads[thread as usize].rest = 0;
        }
        self.finish_at(self.now.saturating_add(cost))
    }

    fn call(&mut self, call: Work, address: usize) -> Next {
        let cost = self.cost(call);
        let bucket = self.bucket(address);
        let line = &mut self.memory.cell(bucket).line;
        let done = match call {
            // A waker looks first whether anybody is there.
            Work::WakeCall => line.read(self.here, self.now, &self.costs),
            _ => line.write(self.here, self.now, self.costs.atomic, &self.costs),
        };
        self.finish_at(done.saturating_add(cost))
    }

    fn spin(&mut self, address: usize, bound_ns: u64, look: Condition) {
        self.begin_spin(address, bound_ns, look);
    }

    fn spun(&mut self) -> bool {
        self.threads[self.running as usize].content
    }

    fn sleep(&mut self, address: usize, deadline: Option<u64>) {
        let slack = self.levels[THREADS].tunables.timer_slack;
        self.begin_sleep(address, deadline, slack);
    }

    fn sleep_for_interrupt(&mut self, time: u64) {
        self.begin_sleep(0, Some(time), 0);
    }

    fn slept(&mut self) -> WaitOutcome {
        self.threads[self.running as usize].outcome
    }

    fn wake(&mut self, address: usize) -> Next {
        if self.wake_sleeper(address) {
            let bucket = self.bucket(address);
            let line = &mut self.memory.cell(bucket).line;
            let locked = line.write(self.here, self.now, self.costs.atomic, &self.costs);
            let took = self.vary(THREADS, self.costs.wake_sleeper);
            self.finish_at(locked + took)
        } else {
            Next::Go
        }
    }

    fn now(&self) -> u64 {
        self.now / 1000
    }

    fn stopped(&self) -> bool {
        self.stopped
    }

    fn name_of(&mut self, address: usize) -> usize {
        self.memory.name_of(address)
    }

    fn cpu(&self) -> u32 {
        let cpu = self.cpu_of(self.running);
        if self.has_host() { (cpu % self.guest_cpus) as u32 } else { cpu as u32 }
    }

    fn cpus(&self) -> usize {
        self.cpus_seen
    }

    fn socket(&self) -> usize {
        if self.has_host() { 0 } else { usize::from(self.physical_place(self.running).socket) }
    }

    fn number(&self) -> usize {
        self.running as usize
    }

    fn thread(&self) -> &'static Record<Sim> {
        self.threads[self.running as usize].record
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random_below(below)
    }

    fn mark(&mut self, mark: Mark) {
        let (now, thread) = (self.now / 1000, self.running as usize);
        self.progress += 1;
        self.threads[thread].last_mark = Some(mark);
        if let Some(observer) = &mut self.observer {
            crate::engine::aside(|| observer.mark(now, thread, mark));
        }
    }
}

/// Linux has this many queues of sleepers for each CPU, in a table whose size is a power of two.
const BUCKETS_PER_CPU: usize = 256;

impl World<'_> {
    /// The line of the queue that sleepers on a word are in. Words of the same queue share it.
    fn bucket(&mut self, address: usize) -> u32 {
        let word = self.memory.number(address) as usize;
        let buckets = (BUCKETS_PER_CPU * self.cpus_seen).next_power_of_two();
        let hash = word.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize) >> (usize::BITS / 2);
        // No program has memory at the end of the address space.
        self.memory.number(usize::MAX - LINE_BYTES * (hash % buckets))
    }

    /// The CPU of the thread that runs.
    pub(super) fn this_cpu(&self) -> usize {
        self.levels[THREADS].tasks[self.running as usize].cpu
    }
}

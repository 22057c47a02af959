//! A host that takes CPUs away for a while. The threads on them do not go on, and their scheduler
//! keeps to its rules: it neither notices nor makes up for it.

use super::{THREADS, World};
use crate::events::Event;
use crate::observe::ThreadState;

impl World<'_> {
    /// Plans when each CPU is taken first.
    pub(super) fn begin_stealing(&mut self) {
        let Some(times) = self.stolen else { return };
        for cpu in 0..self.levels[THREADS].cpus.len() {
            let first = self.random_below(times.gone + times.there + 1);
            self.events.push(first, Event::Steal(cpu as u32));
        }
    }

    /// The host takes a CPU.
    pub(super) fn steal(&mut self, cpu: usize) {
        let Some(times) = self.stolen else { return };
        self.gone.insert(cpu);
        if let Some(thread) = self.levels[THREADS].cpus[cpu].current {
            self.freeze(thread);
            self.observe(thread, ThreadState::Stalled);
        }
        self.events.push(self.now + times.gone, Event::Return(cpu as u32));
    }

    /// The host gives a CPU back.
    pub(super) fn give_back(&mut self, cpu: usize) {
        let Some(times) = self.stolen else { return };
        self.gone.remove(cpu);
        if let Some(thread) = self.levels[THREADS].cpus[cpu].current {
            self.thaw(thread);
            self.plan_tick(THREADS, cpu);
        }
        let stays = times.there / 2 + self.random_below(times.there + 1);
        self.events.push(self.now + stays, Event::Steal(cpu as u32));
    }
}

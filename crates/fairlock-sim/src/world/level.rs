//! Run queues: tasks that share CPUs. Threads on the CPUs of a machine or of its
//! guests are one level, virtual CPUs on those of the host another.

use crate::cpu_set::CpuSet;
use crate::events::Ticket;
use crate::machine::{CpuPosition, Placement, Tunables};

/// What a task does at its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskState {
    /// Waits for something other than a CPU.
    Blocked,
    /// Woken, and on its way to its CPU.
    Waking,
    /// In the queue of its CPU.
    Queued,
    /// Has its CPU.
    Running,
}

/// Something that wants to run.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) state: TaskState,
    /// The CPU it is on, or was on last.
    pub(super) cpu: usize,
    /// CPU time it has had, on the scale of its CPU.
    virtual_time: i64,
    /// Since when it runs.
    since: u64,
    /// Since when it does not run; `None` if it never ran.
    left: Option<u64>,
    /// CPU time it has had in all.
    pub(super) ran: u64,
    /// How often it lost its CPU to another one.
    pub(super) preemptions: u64,
}

/// A CPU of a level.
#[derive(Debug)]
pub(super) struct Cpu {
    pub(super) current: Option<u32>,
    pub(super) queue: Vec<u32>,
    /// Woken tasks on their way here.
    expected: u32,
    idle_since: u64,
    /// How long it was idle the last time.
    idle_last: u64,
    /// The virtual time that a newcomer starts with, less its credit.
    virtual_time: i64,
    /// The next look whether another task is due, if one is planned.
    pub(super) tick: Ticket,
    /// The task that ran last: if it runs again there is nothing to switch.
    last: Option<u32>,
}

/// Tasks, their CPUs, and the rules between them.
pub(super) struct Level {
    pub(super) tasks: Vec<Task>,
    pub(super) cpus: Vec<Cpu>,
    places: Vec<CpuPosition>,
    /// CPUs that nobody runs on, or is on its way to.
    idle: CpuSet,
    /// The CPUs of each socket.
    sockets: Vec<CpuSet>,
    /// Tasks that wait in queues.
    queued: usize,
    pub(super) tunables: Tunables,
    /// Whether tasks stay in the socket that they begin in: guests do not share CPUs.
    confined: bool,
}

impl Level {
    pub(super) fn new(places: Vec<CpuPosition>, tunables: Tunables, confined: bool) -> Self {
        let mut idle = CpuSet::default();
        let mut sockets = Vec::new();
        for place in &places {
            idle.insert(place.cpu as usize);
            sockets.resize(sockets.len().max(place.socket as usize + 1), CpuSet::default());
            sockets[place.socket as usize].insert(place.cpu as usize);
        }
        let cpu = |_: &CpuPosition| Cpu {
            current: None,
            queue: Vec::new(),
            expected: 0,
            idle_since: 0,
            idle_last: 0,
            virtual_time: 0,
            tick: 0,
            last: None,
        };
        let cpus = places.iter().map(cpu).collect();
        Self { tasks: Vec::new(), cpus, places, idle, sockets, queued: 0, tunables, confined }
    }

    pub(super) fn add_task(&mut self, cpu: usize) -> u32 {
        self.tasks.push(Task {
            state: TaskState::Blocked,
            cpu,
            virtual_time: 0,
            since: 0,
            left: None,
            ran: 0,
            preemptions: 0,
        });
        self.tasks.len() as u32 - 1
    }

    pub(super) fn place(&self, cpu: usize) -> CpuPosition {
        self.places[cpu]
    }

    /// CPUs in the order in which an idle machine fills up: first one hardware thread
    /// of each core, then the others; of sockets as `placement` says.
    pub(super) fn filling_order(&self, placement: Placement) -> Vec<usize> {
        let mut order: Vec<_> = self.places.iter().collect();
        let nth =
            |place: &CpuPosition, key: fn(&CpuPosition) -> u16, same: fn(&CpuPosition) -> u16| {
                self.places
                    .iter()
                    .filter(|p| same(p) == same(place) && p.cpu < place.cpu && key(p) != key(place))
                    .map(key)
                    .collect::<std::collections::BTreeSet<_>>()
                    .len()
            };
        order.sort_by_cached_key(|place| {
            let thread = nth(place, |p| p.cpu, |p| p.core);
            let core = nth(place, |p| p.core, |p| p.socket);
            match placement {
                Placement::Spread => (thread, core, place.socket),
                Placement::Packed => (thread, place.socket as usize, core as u16),
            }
        });
        order.into_iter().map(|place| place.cpu as usize).collect()
    }

    // ---- waking ----

    /// Sends a blocked task to a CPU. `waker` is the one the wake-up comes from.
    /// Returns how long it takes.
    pub(super) fn send(&mut self, task: u32, waker: Option<usize>, now: u64) -> u64 {
        let last = self.tasks[task as usize].cpu;
        let cpu = self.choose(last, waker);
        self.move_to(task, cpu, now);
        self.tasks[task as usize].state = TaskState::Waking;
        let was_idle = self.idle.contains(cpu);
        self.idle.remove(cpu);
        self.cpus[cpu].expected += 1;
        if !was_idle {
            self.tunables.wake_busy
        } else {
            self.tunables.wake_idle + self.leave_idle(cpu, now)
        }
    }

    /// What the idle state of a CPU that is woken adds to the wake-up.
    fn leave_idle(&mut self, cpu: usize, now: u64) -> u64 {
        let Tunables { tick, idle, .. } = &self.tunables;
        let cpu = &mut self.cpus[cpu];
        let lasted = now - cpu.idle_since;
        let last = std::mem::replace(&mut cpu.idle_last, lasted);
        // The tick of an idle CPU reconsiders.
        let expected = if lasted < *tick { last } else { lasted };
        idle.iter().rfind(|state| state[0] <= expected).map_or(0, |state| state[1])
    }

    /// The last CPU if it is idle. Otherwise an idle core or an idle CPU, in its socket or else in
    /// the waker's; otherwise the last CPU.
    fn choose(&self, last: usize, waker: Option<usize>) -> usize {
        if self.idle.contains(last) {
            return last;
        }
        let home = self.places[last].socket;
        let away = waker.map(|cpu| self.places[cpu].socket).filter(|_| !self.confined);
        let found = self.idle_in(home, last);
        found.or_else(|| self.idle_in(away.filter(|&away| away != home)?, last)).unwrap_or(last)
    }

    /// An idle CPU of a socket, on an idle core if there is one, counting from `from`.
    fn idle_in(&self, socket: u16, from: usize) -> Option<usize> {
        let idle = self.idle.intersection(&self.sockets[socket as usize]);
        if idle.is_empty() {
            return None;
        }
        let around = || idle.iter().filter(|&c| c > from).chain(idle.iter().filter(|&c| c < from));
        around().find(|&cpu| self.has_idle_core(cpu)).or_else(|| around().next())
    }

    fn has_idle_core(&self, cpu: usize) -> bool {
        let core = self.places[cpu].core;
        let before = (0..cpu).rev().take_while(|&c| self.places[c].core == core);
        let after = (cpu..self.places.len()).take_while(|&c| self.places[c].core == core);
        before.chain(after).all(|c| self.idle.contains(c))
    }

    /// A task reaches its CPU, and queues there.
    pub(super) fn arrive(&mut self, task: u32, now: u64) {
        self.advance(self.tasks[task as usize].cpu, now);
        let t = &mut self.tasks[task as usize];
        let cpu = &mut self.cpus[t.cpu];
        cpu.expected -= 1;
        // A task that slept is ahead of those that ran, but not by all the time that it slept.
        let credit = self.tunables.sleeper_credit as i64;
        t.virtual_time = t.virtual_time.max(cpu.virtual_time - credit);
        self.queue(task);
    }

    fn queue(&mut self, task: u32) {
        let t = &mut self.tasks[task as usize];
        t.state = TaskState::Queued;
        self.cpus[t.cpu].queue.push(task);
        self.queued += 1;
    }

    /// Whether `task`, just woken, takes the CPU at once from the task that runs there.
    pub(super) fn preempts(&self, task: u32, now: u64) -> bool {
        let t = &self.tasks[task as usize];
        self.cpus[t.cpu].current.is_some_and(|current| {
            let ahead = self.virtual_time(current, now) - t.virtual_time;
            ahead > self.tunables.wake_preempt as i64
        })
    }

    /// Brings the virtual time of a CPU up to that of its task that has had least time.
    fn advance(&mut self, cpu: usize, now: u64) {
        let c = &self.cpus[cpu];
        let waiting = c.queue.iter().map(|&task| self.tasks[task as usize].virtual_time);
        let running = c.current.map(|task| self.virtual_time(task, now));
        if let Some(least) = waiting.chain(running).min() {
            self.cpus[cpu].virtual_time = c.virtual_time.max(least);
        }
    }

    fn virtual_time(&self, running: u32, now: u64) -> i64 {
        let t = &self.tasks[running as usize];
        t.virtual_time + (now - t.since) as i64
    }

    // ---- running ----

    /// Takes the task that is furthest behind from the queue of `cpu`, except
    /// `but`, if there is another one.
    pub(super) fn take_first(&mut self, cpu: usize, but: Option<u32>) -> Option<u32> {
        let queue = &self.cpus[cpu].queue;
        let first = (0..queue.len())
            .min_by_key(|&i| (Some(queue[i]) == but, self.tasks[queue[i] as usize].virtual_time))?;
        Some(self.take(cpu, first))
    }

    /// Takes the `nth` task from the queue of `cpu`.
    fn take(&mut self, cpu: usize, nth: usize) -> u32 {
        self.queued -= 1;
        self.cpus[cpu].queue.remove(nth)
    }

    /// The tasks in the queue of `cpu` that may leave it, as they did not run of late; each with its place there.
    fn movable(&self, cpu: usize, now: u64) -> impl Iterator<Item = (usize, &Task)> {
        let tasks = self.cpus[cpu].queue.iter().map(|&task| &self.tasks[task as usize]);
        tasks.enumerate().filter(move |(_, task)| {
            task.left.is_none_or(|left| now - left >= self.tunables.migration_cost)
        })
    }

    /// Moves a task that waits elsewhere to the idle `cpu`: from the longest queue of its socket,
    /// or else of the machine.
    pub(super) fn pull(&mut self, cpu: usize, now: u64) -> Option<u32> {
        if self.queued == 0 {
            return None;
        }
        let socket = self.places[cpu].socket;
        let near = |c: &usize| self.places[*c].socket == socket;
        let busy = |c: &usize| self.movable(*c, now).next().is_some();
        let longest = |cpus: &mut dyn Iterator<Item = usize>| {
            cpus.max_by_key(|&c| (self.cpus[c].queue.len(), std::cmp::Reverse(c)))
        };
        let all = || (0..self.cpus.len()).filter(busy);
        let from = longest(&mut all().filter(near))
            .or_else(|| longest(&mut all().filter(|_| !self.confined)))?;
        let (nth, _) = self.movable(from, now).min_by_key(|(_, task)| task.virtual_time)?;
        let task = self.take(from, nth);
        self.move_to(task, cpu, now);
        Some(task)
    }

    /// An idle CPU that could run what waits on `cpu`, as near as possible.
    pub(super) fn idle_for(&self, cpu: usize) -> Option<usize> {
        let socket = self.places[cpu].socket;
        self.idle_in(socket, cpu).or_else(|| {
            let mut others = (0..self.sockets.len() as u16).filter(|&s| s != socket);
            if self.confined { None } else { others.find_map(|s| self.idle_in(s, cpu)) }
        })
    }

    /// Moves a task to `cpu`, where it is as far ahead as it was where it comes from.
    fn move_to(&mut self, task: u32, cpu: usize, now: u64) {
        self.advance(self.tasks[task as usize].cpu, now);
        self.advance(cpu, now);
        let t = &mut self.tasks[task as usize];
        t.virtual_time += self.cpus[cpu].virtual_time - self.cpus[t.cpu].virtual_time;
        t.cpu = cpu;
    }

    /// A task gets the CPU. Returns what switching to it costs.
    pub(super) fn run(&mut self, task: u32, now: u64) -> u64 {
        let t = &mut self.tasks[task as usize];
        let cpu = &mut self.cpus[t.cpu];
        t.state = TaskState::Running;
        t.since = now;
        cpu.virtual_time = cpu.virtual_time.max(t.virtual_time);
        cpu.current = Some(task);
        self.idle.remove(t.cpu);
        if cpu.last.replace(task) == Some(task) { 0 } else { self.tunables.switch }
    }

    /// The task of a CPU stops running; `again` says whether it queues again.
    pub(super) fn stop(&mut self, cpu: usize, again: bool, now: u64) -> Option<u32> {
        let task = self.cpus[cpu].current.take()?;
        let t = &mut self.tasks[task as usize];
        t.virtual_time += (now - t.since) as i64;
        t.ran += now - t.since;
        t.left = Some(now);
        if again {
            t.preemptions += 1;
            self.queue(task);
        } else {
            t.state = TaskState::Blocked;
        }
        Some(task)
    }

    /// A task in a queue has just yielded: it gives up the rest of its slice, unless it is behind nobody there anyway.
    pub(super) fn forfeit(&mut self, task: u32) {
        let t = &self.tasks[task as usize];
        let queue = &self.cpus[t.cpu].queue;
        let all: i128 =
            queue.iter().map(|&q| i128::from(self.tasks[q as usize].virtual_time)).sum();
        let is_eligible = i128::from(t.virtual_time) * queue.len() as i128 <= all;
        if is_eligible {
            let t = &mut self.tasks[task as usize];
            let ran = t.left.unwrap_or(t.since) - t.since;
            t.virtual_time += self.tunables.yield_forfeit.saturating_sub(ran) as i64;
        }
    }

    /// Nobody wants the CPU: it is idle from now on.
    pub(super) fn rest(&mut self, cpu: usize, now: u64) {
        self.cpus[cpu].idle_since = now;
        if self.cpus[cpu].expected == 0 {
            self.idle.insert(cpu);
        }
    }

    /// When to look whether another task is due on `cpu`: at the first tick after the slice of the
    /// task that runs.
    pub(super) fn next_tick(&self, cpu: usize, now: u64) -> u64 {
        let since = self.cpus[cpu].current.map_or(now, |task| self.tasks[task as usize].since);
        let earliest = (since + self.tunables.slice).max(now + 1);
        // CPUs do not tick at the same time.
        let phase = self.tunables.tick * cpu as u64 / self.cpus.len() as u64;
        (earliest.saturating_sub(phase)).div_ceil(self.tunables.tick) * self.tunables.tick + phase
    }

    /// Whether a task in the queue has had less time than the one that runs.
    pub(super) fn is_due(&self, cpu: usize, now: u64) -> bool {
        self.cpus[cpu].current.is_some_and(|current| {
            let running = self.virtual_time(current, now);
            self.cpus[cpu].queue.iter().any(|&t| self.tasks[t as usize].virtual_time < running)
        })
    }
}

//! The machine at work: a discrete-event simulation.
//!
//! The clock jumps from event to event. A thread's operation is planned when the
//! thread asks for it, and takes effect when it is done; if nothing else happens
//! before that, the clock moves on at once and the thread never suspends.
//! Otherwise the thread's [`Operation`](Event::Operation) event resumes it.

mod level;
mod operations;
mod schedule;
mod steal;
mod waits;

use fairlock::platform::WaitOutcome;
use fairlock::wait::Thread as Record;
use level::{Level, TaskState};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::cpu_set::CpuSet;
use crate::engine::Condition;
use crate::events::{Event, Events, Ticket};
use crate::machine::{Costs, CpuPosition, Machine, Placement, StolenTimes, Tunables, places};
use crate::memory::Memory;
use crate::observe::{Mark, Observer, ThreadState};
use crate::report::{Operations, ThreadReport};
use crate::sim::Sim;
use crate::stuck::{Stuck, StuckKind, StuckThread};

/// The level of threads on CPUs, or on those of their guest.
const THREADS: usize = 0;
/// The level of the guests' CPUs on those of the host, if there are guests.
const HOST: usize = 1;

/// Threads do not begin at the same instant, but within this time.
const START_SPREAD: u64 = 10_000_000;

/// A thread, beside what the level of threads knows of it. What a spinner needs whose line was written, and what others
/// of the core ask for, is in one cache line of the real machine.
#[repr(C, align(64))]
struct Thread {
    spin: Option<Spin>,
    /// The place of the caches that it uses while it has a CPU.
    place: CpuPosition,
    /// When its operation is done, if it is running one.
    operation: Ticket,
    done: u64,
    /// Until then it executes pauses.
    pauses_until: u64,
    /// What its operation still needs once the thread has a CPU.
    rest: u64,
    /// How the last spin ended.
    content: bool,
    /// How the last sleep ended.
    outcome: WaitOutcome,
    sleep: Option<Sleep>,
    ended: bool,
    record: &'static Record<Sim>,
    last_mark: Option<Mark>,
    sleeps: u64,
    name: String,
}

/// A spin in progress.
struct Spin {
    line: u32,
    look: Condition,
    deadline: u64,
    /// Whether it is among the line's spinners: it has seen what is there now.
    watching: bool,
}

/// A sleep in progress.
struct Sleep {
    address: usize,
    /// The line of the word, unless the address is 0.
    line: u32,
}

/// What the caller of the world does next.
pub(crate) enum Step {
    /// Resume this thread.
    Resume(usize),
    /// All threads have ended.
    Finished,
    /// Some threads have not ended, and will not.
    Stuck(Stuck),
}

/// The state of the simulated machine.
pub(crate) struct World<'env> {
    costs: Costs,
    threads_per_core: usize,
    guest_cpus: usize,
    placement: Placement,
    cpus_seen: usize,
    now: u64,
    events: Events,
    memory: Memory,
    levels: Vec<Level>,
    /// How long the host takes CPUs for, and the CPUs that it has taken.
    stolen: Option<StolenTimes>,
    gone: CpuSet,
    threads: Vec<Thread>,
    /// The spinners of a line that was written, by their distance: lists that are empty otherwise.
    by_distance: Vec<Vec<u32>>,
    /// The thread that runs, and where.
    running: u32,
    here: CpuPosition,
    live: usize,
    random: Xoshiro256PlusPlus,
    operations: Operations,
    observer: Option<Box<dyn Observer + 'env>>,
    stopped: bool,
    patience: u64,
    /// Counts what threads get done, for the watchdog.
    progress: u64,
    progress_seen: u64,
}

impl<'env> World<'env> {
    pub(crate) fn new(machine: &Machine, seed: u64) -> Self {
        let d = machine.description();
        let physical = places(&d.topology);
        let mut levels = vec![];
        if let Some(guests) = &d.guests {
            // To guests, a virtual CPU is a core and a guest a socket.
            let place = |cpu: usize| CpuPosition {
                cpu: cpu as u16,
                core: cpu as u16,
                cluster: (cpu / guests.cpus) as u16,
                socket: (cpu / guests.cpus) as u16,
            };
            let virtual_cpus = (0..guests.count * guests.cpus).map(place).collect::<Vec<_>>();
            let mut host = Level::new(physical, Tunables::new(&d.scheduler), false);
            let order = host.filling_order(d.topology.placement);
            for cpu in 0..virtual_cpus.len() {
                host.add_task(order[cpu % order.len()]);
            }
            levels.push(Level::new(virtual_cpus, Tunables::new(&guests.scheduler), true));
            levels.push(host);
        } else {
            levels.push(Level::new(physical, Tunables::new(&d.scheduler), false));
        }
        let costs = Costs::new(d, seed);
        Self {
            by_distance: vec![Vec::new(); costs.distances],
            costs,
            threads_per_core: d.topology.threads_per_core,
            guest_cpus: d.guests.as_ref().map_or(0, |guests| guests.cpus),
            placement: d.topology.placement,
            cpus_seen: machine.cpus(),
            now: 0,
            events: Events::new(0), // until threads begin
            memory: Memory::new(),
            here: levels[THREADS].place(0),
            levels,
            stolen: d.stolen.as_ref().and_then(StolenTimes::new),
            gone: CpuSet::default(),
            threads: Vec::new(),
            running: 0,
            live: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            operations: Operations::default(),
            observer: None,
            stopped: false,
            patience: 0,
            progress: 0,
            progress_seen: 0,
        }
    }

    pub(crate) fn observe_with(&mut self, observer: Box<dyn Observer + 'env>) {
        self.observer = Some(observer);
    }

    /// A thread has its stack at these addresses.
    pub(crate) fn add_stack(&mut self, stack: std::ops::Range<usize>) {
        self.memory.add_stack(stack);
    }

    /// Adds a thread of a guest; without guests there is only guest 0.
    pub(crate) fn add_thread(&mut self, name: String, guest: usize) {
        assert!(self.threads.len() + 1 < Events::MOST, "at most {} threads", Events::MOST - 1);
        self.threads.push(Thread {
            name,
            // Leaked: records are never freed (rules 11 and 12).
            record: Box::leak(Box::new(Record::new())),
            place: self.here,
            operation: 0,
            done: 0,
            rest: 0,
            pauses_until: 0,
            spin: None,
            content: false,
            sleep: None,
            outcome: WaitOutcome::Woken,
            ended: false,
            last_mark: None,
            sleeps: 0,
        });
        // `start` chooses the CPU, by who else begins.
        self.levels[THREADS].add_task(guest * self.guest_cpus);
    }

    /// Sets all threads going. They are asked to end at `stop`, if there is one.
    pub(crate) fn start(&mut self, stop: Option<u64>, patience: u64) {
        self.live = self.threads.len();
        self.events = Events::new(self.live);
        let order = self.levels[THREADS].filling_order(self.placement);
        let cpus = if self.has_host() { self.guest_cpus } else { order.len() };
        let mut begun = vec![0; order.len() / cpus];
        for thread in 0..self.threads.len() {
            let first = self.levels[THREADS].tasks[thread].cpu;
            let nth = &mut begun[first / cpus];
            let cpu = if self.has_host() { first + *nth % cpus } else { order[*nth % cpus] };
            *nth += 1;
            let spread = self.random_below(START_SPREAD);
            let level = &mut self.levels[THREADS];
            level.tasks[thread].cpu = cpu;
            let latency = level.send(thread as u32, None, 0);
            self.events.push(latency + spread, Event::Arrive(THREADS, thread as u32));
        }
        self.begin_stealing();
        if let Some(stop) = stop {
            self.events.push(stop, Event::Stop);
        }
        self.patience = patience;
        self.events.push(patience, Event::Watch);
    }

    /// Lets time pass until a thread's next turn.
    pub(crate) fn step(&mut self) -> Step {
        while self.live > 0 {
            let (time, ticket, event) = self.events.pop().expect("the watchdog always watches");
            self.now = time;
            let turn = match event {
                Event::Operation(thread) => {
                    let t = &mut self.threads[thread as usize];
                    if t.operation != ticket {
                        continue;
                    }
                    t.operation = 0;
                    if t.spin.is_some() { self.look_again(thread) } else { true }.then_some(thread)
                }
                Event::Timer(thread) => self.expire(thread).then_some(thread),
                Event::Arrive(level, task) => {
                    self.arrive(level, task);
                    None
                }
                Event::Tick(level, cpu) => {
                    if self.levels[level].cpus[cpu as usize].tick == ticket {
                        self.tick(level, cpu as usize);
                    }
                    None
                }
                Event::Steal(cpu) => {
                    self.steal(cpu as usize);
                    None
                }
                Event::Return(cpu) => {
                    self.give_back(cpu as usize);
                    None
                }
                Event::Stop => {
                    self.stopped = true;
                    None
                }
                Event::Watch => {
                    if let Some(stuck) = self.watch() {
                        return Step::Stuck(stuck);
                    }
                    None
                }
            };
            if let Some(thread) = turn {
                self.running = thread;
                self.here = self.threads[thread as usize].place;
                return Step::Resume(thread as usize);
            }
        }
        Step::Finished
    }

    /// The thread that runs has ended.
    pub(crate) fn ended(&mut self) {
        let thread = self.running;
        self.threads[thread as usize].ended = true;
        self.live -= 1;
        self.progress += 1;
        self.observe(thread, ThreadState::Ended);
        self.block(THREADS, self.levels[THREADS].tasks[thread as usize].cpu);
    }

    fn cpu_of(&self, thread: u32) -> usize {
        self.levels[THREADS].tasks[thread as usize].cpu
    }

    /// The place of the caches that a thread uses on its CPU.
    fn physical_place(&self, thread: u32) -> CpuPosition {
        let cpu = self.cpu_of(thread);
        match self.levels.get(HOST) {
            Some(host) => host.place(host.tasks[cpu].cpu),
            None => self.levels[THREADS].place(cpu),
        }
    }

    /// A number below `below`, which is not zero.
    fn random_below(&mut self, below: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(below)) >> 64) as u64
    }

    /// How long something at a level takes this time that usually takes `usual`.
    fn vary(&mut self, level: usize, usual: u64) -> u64 {
        let random = self.random.next_u64();
        self.levels[level].tunables.spread.vary(usual, random)
    }

    fn observe(&mut self, thread: u32, state: ThreadState) {
        let (now, cpu) = (self.now / 1000, self.cpu_of(thread));
        if let Some(observer) = &mut self.observer {
            crate::engine::aside(|| observer.thread(now, thread as usize, cpu, state));
        }
    }

    // ---- the watchdog ----

    fn watch(&mut self) -> Option<Stuck> {
        if self.progress != self.progress_seen {
            self.progress_seen = self.progress;
            self.events.push(self.now.saturating_add(self.patience), Event::Watch);
            return None;
        }
        let asleep = |(i, t): (usize, &Thread)| {
            t.ended || (!self.events.has_timer(i as u32) && self.state(i) == ThreadState::Sleeping)
        };
        let deadlock = self.threads.iter().enumerate().all(asleep);
        let threads = self.threads.iter().enumerate().map(|(i, t)| StuckThread {
            name: t.name.clone(),
            state: self.state(i),
            cpu: self.cpu_of(i as u32),
            has_timer: self.events.has_timer(i as u32),
            last_mark: t.last_mark,
        });
        Some(Stuck {
            kind: if deadlock { StuckKind::Deadlock } else { StuckKind::NoProgress },
            at_ns: self.now / 1000,
            patience_ns: self.patience / 1000,
            threads: threads.collect(),
        })
    }

    fn state(&self, thread: usize) -> ThreadState {
        let task = &self.levels[THREADS].tasks[thread];
        match task.state {
            _ if self.threads[thread].ended => ThreadState::Ended,
            TaskState::Blocked => ThreadState::Sleeping,
            TaskState::Waking => ThreadState::Woken,
            TaskState::Queued => ThreadState::Runnable,
            TaskState::Running if !self.has_cpu(THREADS, task.cpu) => ThreadState::Stalled,
            TaskState::Running if self.threads[thread].spin.is_some() => ThreadState::Spinning,
            TaskState::Running => ThreadState::Running,
        }
    }

    // ---- the report ----

    pub(crate) fn now_ns(&self) -> u64 {
        self.now / 1000
    }

    pub(crate) fn operations(&self) -> Operations {
        self.operations
    }

    pub(crate) fn thread_reports(&self) -> Vec<ThreadReport> {
        let tasks = &self.levels[THREADS].tasks;
        self.threads
            .iter()
            .zip(tasks)
            .map(|(thread, task)| ThreadReport {
                name: thread.name.clone(),
                cpu_ns: task.ran / 1000,
                preemptions: task.preemptions,
                sleeps: thread.sleeps,
            })
            .collect()
    }
}

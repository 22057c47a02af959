//! The engine of a test: memory is free and sequentially consistent, and every
//! operation on it is a point where another thread may go on.
//!
//! Time is a number. It passes a little with every step, in a section by as much as that says, and
//! to the next timer if nobody can go on or the schedule wants it so. A spinner waits until its
//! word is what it wants, or its bound has passed: a schedule cannot starve others by letting it
//! spin.

use std::ops::Range;

use fairlock::platform::WaitOutcome;
use fairlock::wait::Thread as Record;

use super::schedule::{Event, Point};
use crate::engine::{Condition, Engine, Next, Work};
use crate::observe::Mark;
use crate::sim::Sim;

/// What an operation does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Load,
    Store,
    /// A read-modify-write.
    Atomic,
}

/// What a thread does in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Begin,
    Access(Access, usize),
    /// A pause or a yield: others should go on.
    GiveWay,
    Busy(u64),
    /// A sleep ends, on this word if it is not zero.
    Slept(usize, WaitOutcome),
    /// A spin on this word ends; whether with what it waited for.
    Spun(usize, bool),
    Wake(usize),
    End,
}

enum State {
    Ready,
    Spinning { look: Condition, address: usize, since: u64, deadline: u64 },
    Asleep { address: usize, deadline: u64, order: u64 },
    Ended,
}

/// A timer that never expires.
const NEVER: u64 = u64::MAX;

struct Thread {
    record: &'static Record<Sim>,
    stack: Range<usize>,
    /// Its stack is not in use below this address.
    depth: usize,
    state: State,
    /// What it does when it goes on.
    pending: Operation,
    stalled_until: u64,
    priority: u8,
    outcome: WaitOutcome,
    content: bool,
    /// Time spent spinning since it last slept or began an action.
    awake_ns: u64,
    action: u32,
    step: u32,
}

/// How long a thread may wait awake: more than any spin of these locks.
const LONGEST_SPIN_NS: u64 = 10_000_000;
/// How much time an operation takes,
const STEP_NS: u64 = 10;
/// a pause,
const PAUSE_NS: u64 = 50;
/// and a yield.
const YIELD_NS: u64 = 2_000;

pub(super) struct Stepper {
    threads: Vec<Thread>,
    running: usize,
    yielded: bool,
    now: u64,
    sleeps: u64,
    cpus: usize,
    /// The addresses that were named, in this order.
    named: Vec<usize>,
    /// What the clock shows until then, while it stands.
    stands: Option<(u64, u64)>,
    /// For how long timers were late, and the clock stood.
    excused: u64,
}

impl Stepper {
    /// For threads with these records and stacks, on `cpus` CPUs.
    pub(super) fn new(
        threads: impl Iterator<Item = (&'static Record<Sim>, Range<usize>)>,
        cpus: usize,
    ) -> Self {
        let thread = |(record, stack): (_, Range<usize>)| Thread {
            record,
            depth: stack.end,
            stack,
            state: State::Ready,
            pending: Operation::Begin,
            stalled_until: 0,
            priority: 0,
            outcome: WaitOutcome::Woken,
            content: false,
            awake_ns: 0,
            action: 0,
            step: 0,
        };
        Self {
            threads: threads.map(thread).collect(),
            running: 0,
            yielded: false,
            now: 1_000_000,
            sleeps: 0,
            cpus,
            named: vec![],
            stands: None,
            excused: 0,
        }
    }

    /// Whether a thread that could go on, or will, has no CPU.
    pub(super) fn lacks_cpu(&self) -> bool {
        let lacks = |thread: &Thread| {
            thread.stalled_until > self.now && !matches!(thread.state, State::Ended)
        };
        self.threads.iter().any(lacks)
    }

    /// For how long timers were late, and the clock stood.
    pub(super) fn excused(&self) -> u64 {
        self.excused
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// The thread that gave way in the last step, if it did.
    pub(super) fn yielded(&self) -> Option<usize> {
        self.yielded.then_some(self.running)
    }

    /// The point that the thread that ran last has reached.
    pub(super) fn point(&self) -> Point {
        let Thread { action, step, .. } = self.threads[self.running];
        Point { thread: self.running, action, step }
    }

    /// The running thread begins this action.
    pub(super) fn begin(&mut self, action: u32) {
        let thread = &mut self.threads[self.running];
        (thread.action, thread.step, thread.awake_ns) = (action, 0, 0);
    }

    pub(super) fn all_ended(&self) -> bool {
        self.threads.iter().all(|thread| matches!(thread.state, State::Ended))
    }

    /// Threads that can go on now.
    pub(super) fn can_run(&self, list: &mut Vec<usize>) {
        list.clear();
        for (number, thread) in self.threads.iter().enumerate() {
            let can = thread.stalled_until <= self.now
                && match &thread.state {
                    State::Ready => true,
                    State::Spinning { look, deadline, .. } => *deadline <= self.now || look.holds(),
                    State::Asleep { deadline, .. } => *deadline <= self.now,
                    State::Ended => false,
                };
            if can {
                list.push(number);
            }
        }
    }

    /// Which thread goes on without a choice: the one that runs, unless it cannot or gave way.
    pub(super) fn default(&self, can_run: &[usize]) -> usize {
        if !self.yielded && can_run.contains(&self.running) {
            return self.running;
        }
        let later = can_run.iter().find(|&&thread| thread > self.running);
        *later.unwrap_or(&can_run[0])
    }

    /// Lets time pass until the next timer; false if there is none.
    pub(super) fn advance(&mut self) -> bool {
        let timers = self.threads.iter().flat_map(|thread| {
            let timer = match thread.state {
                State::Spinning { deadline, .. } | State::Asleep { deadline, .. } => deadline,
                State::Ready | State::Ended => NEVER,
            };
            let stalled = match thread.state {
                State::Ended => NEVER,
                _ => thread.stalled_until,
            };
            [timer, stalled]
        });
        let next = timers.filter(|&time| time > self.now && time != NEVER).min();
        if let Some(time) = next {
            self.now = time;
        }
        next.is_some()
    }

    /// Has something happen that no thread did. False if it has no effect here.
    pub(super) fn disturb(&mut self, event: Event) -> bool {
        match event {
            Event::Run(_) => false,
            Event::Advance => self.advance(),
            Event::Stall(thread, ns) => {
                let thread = &mut self.threads[thread];
                if matches!(thread.state, State::Ended) {
                    return false;
                }
                thread.stalled_until = self.now + ns;
                true
            }
            Event::Steal(cpu, ns) => {
                let cpu = cpu % self.cpus;
                for thread in self.threads.iter_mut().skip(cpu).step_by(self.cpus) {
                    thread.stalled_until = thread.stalled_until.max(self.now + ns);
                }
                true
            }
            Event::Late(thread, ns) => {
                // A section is as long as it is.
                let State::Asleep { deadline, address, .. } = &mut self.threads[thread].state
                else {
                    return false;
                };
                let has_timer = *deadline != NEVER && *address != 0;
                if has_timer {
                    *deadline += ns;
                    self.excused += ns;
                }
                has_timer
            }
            Event::Stand(ns) => {
                self.stands = Some((Engine::now(self), self.now + ns));
                self.excused += ns;
                true
            }
            Event::Wake(thread) => {
                let asleep = matches!(self.threads[thread].state, State::Asleep { address, .. } if address != 0);
                if asleep {
                    self.end_sleep(thread, WaitOutcome::Woken);
                }
                asleep
            }
        }
    }

    /// `thread` is about to go on: returns what it does, or an error if it must not.
    pub(super) fn go_on(&mut self, thread: usize) -> Result<Operation, &'static str> {
        self.running = thread;
        self.yielded = false;
        self.now += STEP_NS;
        let now = self.now;
        let t = &mut self.threads[thread];
        t.step += 1;
        match &t.state {
            State::Spinning { look, address, since, deadline } => {
                t.content = look.holds();
                t.pending = Operation::Spun(*address, t.content);
                // The thread may have been stalled after the bound had passed.
                t.awake_ns += now.min(*deadline) - since;
                t.state = State::Ready;
                if t.awake_ns > LONGEST_SPIN_NS {
                    return Err("it spins for too long (rules 9 and 10)");
                }
            }
            State::Asleep { .. } => self.end_sleep(thread, WaitOutcome::TimedOut),
            State::Ready | State::Ended => {}
        }
        let operation = self.threads[thread].pending;
        if let Operation::Access(_, address) | Operation::Wake(address) = operation {
            self.check_frame(address)?;
        }
        Ok(operation)
    }

    /// Memory on the stack of another thread may be used only while its frame is there.
    fn check_frame(&self, address: usize) -> Result<(), &'static str> {
        let dead = |(number, thread): (usize, &Thread)| {
            number != self.running && thread.stack.contains(&address) && address < thread.depth
        };
        if self.threads.iter().enumerate().any(dead) {
            return Err("it touches the frame of a call that has returned (rules 11 and 12)");
        }
        Ok(())
    }

    /// The running thread has ended.
    pub(super) fn end(&mut self) {
        let thread = &mut self.threads[self.running];
        thread.state = State::Ended;
        thread.pending = Operation::End;
        thread.depth = thread.stack.end;
    }

    fn end_sleep(&mut self, thread: usize, outcome: WaitOutcome) {
        let t = &mut self.threads[thread];
        if let State::Asleep { address, .. } = t.state {
            t.state = State::Ready;
            t.outcome = outcome;
            t.pending = Operation::Slept(address, outcome);
        }
    }

    /// The running thread suspends, and makes this operation when it goes on. Its stack is in use
    /// down to `frame`, which is that of the engine's caller or deeper.
    fn suspend_before(&mut self, operation: Operation) -> Next {
        let frame = 0_u8;
        let thread = &mut self.threads[self.running];
        thread.pending = operation;
        thread.depth = std::ptr::from_ref(&frame) as usize;
        Next::Suspend
    }

    /// What a thread does, or waits for.
    pub(super) fn doing(&self, thread: usize) -> Doing {
        let t = &self.threads[thread];
        match t.state {
            State::Ended => Doing::Ended,
            State::Asleep { address, deadline, .. } => {
                Doing::Sleeps { address, timer: deadline != NEVER }
            }
            State::Spinning { address, .. } => Doing::Spins { address },
            State::Ready => Doing::Runs(t.pending),
        }
    }

    /// The number of the action that a thread is in.
    pub(super) fn action(&self, thread: usize) -> u32 {
        self.threads[thread].action
    }

    /// The thread whose record this is the hint of.
    pub(super) fn with_hint(&self, hint: usize) -> Option<usize> {
        self.threads.iter().position(|thread| std::ptr::from_ref(thread.record).addr() == hint)
    }

    /// The thread whose parker is at an address.
    pub(super) fn parker_at(&self, address: usize) -> Option<usize> {
        let is = |thread: &Thread| thread.record.field_at(address) == Some("parker");
        self.threads.iter().position(is)
    }

    /// Whether an address is in the frames of a thread.
    pub(super) fn is_own(&self, thread: usize, address: usize) -> bool {
        self.threads[thread].stack.contains(&address)
    }

    /// A name for an address that is not in the lock.
    pub(super) fn place(&self, address: usize) -> String {
        for (number, thread) in self.threads.iter().enumerate() {
            if thread.stack.contains(&address) {
                return format!("frame of {number}");
            }
            if let Some(field) = thread.record.field_at(address) {
                return format!("{field} of {number}");
            }
        }
        "elsewhere".into()
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Runs(Operation),
    Spins { address: usize },
    Sleeps { address: usize, timer: bool },
    Ended,
}

impl Engine for Stepper {
    fn load(&mut self, address: usize) -> Next {
        self.suspend_before(Operation::Access(Access::Load, address))
    }

    fn store(&mut self, address: usize) -> Next {
        self.suspend_before(Operation::Access(Access::Store, address))
    }

    fn modify(&mut self, address: usize) -> Next {
        self.suspend_before(Operation::Access(Access::Atomic, address))
    }

    fn wrote(&mut self, _address: usize) {}

    /// Does nothing: plain memory that a lock guards is not watched by others.
    fn fill(&mut self, _address: usize, _bytes: usize) -> Next {
        Next::Go
    }

    fn work(&mut self, work: Work) -> Next {
        match work {
            // No other thread can tell when these happen.
            Work::Clock | Work::Look | Work::WaitCall | Work::WakeCall | Work::Barrier => Next::Go,
            Work::Pause(_) | Work::Yield => {
                let ns = if work == Work::Yield { YIELD_NS } else { PAUSE_NS };
                self.now += ns;
                self.threads[self.running].awake_ns += ns;
                self.yielded = true;
                self.suspend_before(Operation::GiveWay)
            }
            Work::Pauses(n) => {
                self.now += u64::from(n) * STEP_NS;
                self.suspend_before(Operation::Busy(u64::from(n) * STEP_NS))
            }
            Work::Busy(ns) => {
                self.now += ns;
                self.suspend_before(Operation::Busy(ns))
            }
        }
    }

    fn spin(&mut self, address: usize, bound_ns: u64, look: Condition) {
        let _ = self.suspend_before(Operation::Spun(address, false));
        let (since, deadline) = (self.now, self.now.saturating_add(bound_ns));
        self.threads[self.running].state = State::Spinning { look, address, since, deadline };
    }

    fn spun(&mut self) -> bool {
        self.threads[self.running].content
    }

    fn sleep(&mut self, address: usize, deadline: Option<u64>) {
        let _ = self.suspend_before(Operation::Slept(address, WaitOutcome::Woken));
        self.sleeps += 1;
        let thread = &mut self.threads[self.running];
        thread.awake_ns = 0;
        let deadline = deadline.unwrap_or(NEVER);
        thread.state = State::Asleep { address, deadline, order: self.sleeps };
    }

    fn slept(&mut self) -> WaitOutcome {
        self.threads[self.running].outcome
    }

    fn wake(&mut self, address: usize) -> Next {
        let first = self
            .threads
            .iter()
            .enumerate()
            .filter_map(|(number, thread)| match thread.state {
                State::Asleep { address: word, order, .. } if word == address => {
                    Some((order, number))
                }
                _ => None,
            })
            .min();
        if let Some((_, thread)) = first {
            self.end_sleep(thread, WaitOutcome::Woken);
        }
        self.suspend_before(Operation::Wake(address))
    }

    fn now(&self) -> u64 {
        match self.stands {
            Some((shown, until)) if self.now < until => shown,
            _ => self.now,
        }
    }

    fn stopped(&self) -> bool {
        false
    }

    /// As if the locks were beside each other, in the order in which they are first asked for.
    fn name_of(&mut self, address: usize) -> usize {
        let named = self.named.iter().position(|&named| named == address);
        let place = named.unwrap_or_else(|| {
            self.named.push(address);
            self.named.len() - 1
        });
        place * size_of::<usize>()
    }

    fn cpu(&self) -> u32 {
        (self.running % self.cpus) as u32
    }

    fn cpus(&self) -> usize {
        self.cpus
    }

    fn number(&self) -> usize {
        self.running
    }

    fn thread(&self) -> &'static Record<Sim> {
        self.threads[self.running].record
    }

    /// The priority that the script says. It does not decide who runs here: the schedule does.
    fn priority(&self) -> u8 {
        self.threads[self.running].priority
    }

    fn set_priority(&mut self, priority: u8) {
        self.threads[self.running].priority = priority;
    }

    /// Always zero: the script and the schedule have all that is left to chance.
    fn random(&mut self, _below: u64) -> u64 {
        0
    }

    fn mark(&mut self, _mark: Mark) {}
}

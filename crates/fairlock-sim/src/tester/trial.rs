//! One trial: a script on a new lock, by one schedule, checked after every step.

use std::cell::Cell;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use corosensei::stack::Stack;
use fairlock::wait::Thread as Record;

use super::failure::FailureKind;
use super::schedule::{Deviation, Event, Schedule};
use super::script::{MOST_THREADS, Script};
use super::stepper::{Doing, Operation, Stepper};
use super::subjects::{Complaint, Subject, SubjectKind};
use super::trace::Recorder;
use crate::engine::with_engine;
use crate::fiber::{Fiber, FiberStack, Panic};
use crate::sim::Sim;

/// Trials are ended after this many steps; those that end by themselves take some thousands.
const MOST_STEPS: u64 = 200_000;

/// For how long a lock may be free while threads wait, and all have CPUs: more than the longest nap (1.6 ms) of a thread
/// at a queue lock whose holder, of which it knows nothing, had lost its CPU for long.
const MOST_IDLE_NS: u64 = 2_000_000;

/// Stacks and thread records, to be used again and again.
pub(super) struct Resources {
    /// Stacks that no thread has now; altogether as many as a script can have threads.
    stacks: Vec<FiberStack>,
    records: Vec<NonNull<Record<Sim>>>,
}

impl Resources {
    /// Fails if there is no memory for the stacks.
    pub(super) fn new() -> io::Result<Self> {
        let stacks = (0..MOST_THREADS).map(|_| FiberStack::new(0)).collect::<Result<_, _>>()?;
        Ok(Self { stacks, records: vec![] })
    }

    /// New records for `count` threads. They are used until the next call.
    fn records(&mut self, count: usize) -> Vec<&'static Record<Sim>> {
        while self.records.len() < count {
            self.records.push(NonNull::from(Box::leak(Box::new(Record::new()))));
        }
        let renew = |record: &NonNull<Record<Sim>>| {
            // SAFETY: leaked, so it is there for good; the threads and the lock of
            // the trial before, which referred to it, are gone.
            unsafe {
                record.write(Record::new());
                record.as_ref()
            }
        };
        self.records.iter().take(count).map(renew).collect()
    }
}

/// What one step did, for a timeline.
pub(super) struct Entry {
    pub(super) now: u64,
    pub(super) thread: usize,
    pub(super) action: u32,
    pub(super) operation: Operation,
    /// The place, if it had one.
    pub(super) place: String,
    /// The lock after the step.
    pub(super) state: String,
}

/// The result of a trial.
pub(super) struct Outcome {
    pub(super) complaint: Option<Complaint>,
    pub(super) deviations: Vec<Deviation>,
    pub(super) steps: u64,
    /// Every step, if a log was asked for.
    pub(super) log: Vec<Entry>,
    /// What the threads do at the end.
    pub(super) ends: Vec<String>,
    /// What the lock did, if that was asked for.
    pub(super) trace: String,
}

/// What is kept of a trial.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    /// Each step.
    Log,
    /// What the lock did. What a thread does under the queue lock is one step.
    Trace,
}

/// A script and the machine it runs on.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) script: Script,
    pub(super) cpus: usize,
}

/// Runs `case` on a new lock of this kind.
pub(super) fn run(
    resources: &mut Resources,
    kind: &SubjectKind,
    case: &Case,
    schedule: Schedule,
    keep: Keep,
) -> Outcome {
    let subject = (kind.make)(&case.script);
    let began = Cell::new(None);
    let records = resources.records(case.script.len());
    let mut stacks = vec![];
    let mut fibers: Vec<Fiber<'_>> = vec![];
    for actions in &case.script {
        let stack = resources.stacks.pop().expect("one for each thread of a script");
        stacks.push(stack.limit().get()..stack.base().get());
        let (subject, began) = (&*subject, &began);
        let body = move || {
            for (number, action) in actions {
                began.set(Some(*number));
                subject.act(action);
            }
        };
        fibers.push(Fiber::new(stack, Box::new(body)));
    }
    let stepper = Stepper::new(records.into_iter().zip(stacks), case.cpus);
    let mut trial = Trial {
        stepper: Box::new(stepper),
        subject: &*subject,
        schedule,
        began: &began,
        log: (keep == Keep::Log).then(Vec::new),
        recorder: (keep == Keep::Trace).then(|| Recorder::new(&case.script, &*subject)),
        deviations: vec![],
        steps: 0,
        idle: 0,
    };
    // A lock that is wrong may not even stand that it is looked at.
    let result = catch_unwind(AssertUnwindSafe(|| trial.run(&mut fibers)));
    let complaint = result.unwrap_or_else(|panic| Err(panicked(&panic))).err();
    let ends = (0..fibers.len()).map(|thread| trial.describe(thread)).collect();
    let Trial { deviations, steps, log, recorder, .. } = trial;
    for fiber in fibers {
        // SAFETY: only the lock, its tokens and the records refer to the frames. Where threads are still inside, the lock
        // and the tokens are not dropped; the records are written anew.
        resources.stacks.push(unsafe { fiber.into_stack() });
    }
    if complaint.is_some() {
        mem::forget(subject);
    }
    let trace = recorder.map(|recorder| recorder.trace).unwrap_or_default();
    Outcome { complaint, deviations, steps, log: log.unwrap_or_default(), ends, trace }
}

struct Trial<'a> {
    stepper: Box<Stepper>,
    subject: &'a dyn Subject,
    schedule: Schedule,
    /// The action that the running thread has begun.
    began: &'a Cell<Option<u32>>,
    log: Option<Vec<Entry>>,
    recorder: Option<Recorder>,
    deviations: Vec<Deviation>,
    steps: u64,
    /// For how long the lock has been free beside waiters.
    idle: u64,
}

impl Trial<'_> {
    fn run(&mut self, fibers: &mut [Fiber<'_>]) -> Result<(), Complaint> {
        let mut can_run = vec![];
        while !self.stepper.all_ended() {
            if self.steps == MOST_STEPS {
                let what = format!("after {MOST_STEPS} steps threads still run");
                return Err(Complaint { kind: FailureKind::Livelock, what });
            }
            let thread = self.choose(&mut can_run, fibers.len())?;
            self.step(thread, &mut fibers[thread])?;
        }
        self.subject.check_idle()
    }

    /// The thread that goes on.
    fn choose(&mut self, can_run: &mut Vec<usize>, threads: usize) -> Result<usize, Complaint> {
        let at = self.stepper.point();
        if self.recorder.as_ref().is_some_and(Recorder::is_in_queue) {
            self.stepper.can_run(can_run);
            if can_run.contains(&at.thread) {
                return Ok(at.thread);
            }
        }
        for event in self.schedule.events(at, threads) {
            if self.stepper.disturb(event) {
                self.deviations.push(Deviation { at, event });
            }
        }
        self.stepper.can_run(can_run);
        while can_run.is_empty() {
            let (before, lacks_cpu) = (self.stepper.now(), self.stepper.lacks_cpu());
            if !self.stepper.advance() {
                let what = "everybody waits, and nothing will end it".into();
                return Err(Complaint { kind: FailureKind::Deadlock, what });
            }
            if !lacks_cpu {
                self.pass(self.stepper.now() - before)?;
            }
            self.stepper.can_run(can_run);
        }
        let default = self.stepper.default(can_run);
        let yielded = self.stepper.yielded();
        let thread = self.schedule.pick(at, self.steps, can_run, default, yielded);
        if thread != default {
            self.deviations.push(Deviation { at, event: Event::Run(thread) });
        }
        Ok(thread)
    }

    /// So much time has passed in which nobody could go on, and nobody lacked a CPU.
    fn pass(&mut self, ns: u64) -> Result<(), Complaint> {
        if !self.subject.is_free_beside_waiters() {
            return Ok(());
        }
        self.idle += ns;
        if self.idle > MOST_IDLE_NS + self.stepper.excused() {
            let what =
                format!("the lock is free, threads wait, and for {} ns nobody takes it", self.idle);
            return Err(Complaint { kind: FailureKind::Idle, what });
        }
        Ok(())
    }

    fn step(&mut self, thread: usize, fiber: &mut Fiber<'_>) -> Result<(), Complaint> {
        self.steps += 1;
        let action = self.stepper.action(thread);
        let operation = self.stepper.go_on(thread).and_then(|operation| {
            let is_in_lock = |address| self.subject.is_in_lock(address);
            if self.subject.is_gone() && operation.address().is_some_and(is_in_lock) {
                return Err("it touches the lock, which may have been freed");
            }
            Ok(operation)
        });
        let result = match operation {
            Ok(_) => self.resume(fiber),
            Err(what) => {
                let what = format!("thread {thread}: {what}");
                Err(Complaint { kind: FailureKind::Conduct, what })
            }
        };
        if self.log.is_some() {
            let operation = operation.unwrap_or(Operation::End);
            self.note(thread, action, operation);
        }
        if let (Some(recorder), Ok(operation)) = (&mut self.recorder, operation) {
            recorder.note(&self.stepper, self.subject, thread, action, operation);
        }
        result?;
        if self.idle > 0 && !self.subject.is_free_beside_waiters() {
            self.idle = 0;
        }
        if self.recorder.is_some() {
            return Ok(()); // the specification judges
        }
        self.subject.check(thread)
    }

    fn resume(&mut self, fiber: &mut Fiber<'_>) -> Result<(), Complaint> {
        let stepper = NonNull::from(&mut *self.stepper);
        // SAFETY: the stepper is not used here until the fiber has suspended.
        let outcome = unsafe { with_engine(stepper, || fiber.resume()) };
        if let Some(action) = self.began.take() {
            self.stepper.begin(action);
        }
        match outcome {
            None => Ok(()),
            Some(Ok(())) => {
                self.stepper.end();
                Ok(())
            }
            Some(Err(panic)) => Err(panicked(&panic)),
        }
    }

    fn note(&mut self, thread: usize, action: u32, operation: Operation) {
        let entry = Entry {
            now: self.stepper.now(),
            thread,
            action,
            operation,
            place: operation.address().map(|address| self.place(address)).unwrap_or_default(),
            state: self.subject.state(),
        };
        if let Some(log) = &mut self.log {
            log.push(entry);
        }
    }

    fn place(&self, address: usize) -> String {
        match self.subject.field_at(address) {
            Some(field) => field.to_owned(),
            None => self.stepper.place(address),
        }
    }

    /// What a thread does, in words.
    fn describe(&self, thread: usize) -> String {
        match self.stepper.doing(thread) {
            Doing::Ended => "has ended".into(),
            Doing::Runs(operation) => match operation.address() {
                Some(address) => format!("is about to go on: {operation} {}", self.place(address)),
                None => format!("is about to go on: {operation}"),
            },
            Doing::Spins { address } => format!("spins on {}", self.place(address)),
            Doing::Sleeps { address: 0, .. } => "sleeps in its section".into(),
            Doing::Sleeps { address, timer } => {
                let timer = if timer { ", with a timer" } else { "" };
                format!("sleeps on {}{timer}", self.place(address))
            }
        }
    }
}

/// What is to be said of a panic.
fn panicked(panic: &Panic) -> Complaint {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
    Complaint { kind: FailureKind::Panic, what: text.to_owned() }
}

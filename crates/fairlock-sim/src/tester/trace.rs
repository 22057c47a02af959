//! What a lock does in a trial, in the steps of the specification: docs/spec/trace.h says how it is
//! written. It is seen from outside: the word and the queue between two steps, and each use of a parker.

use std::fmt::Write as _;

use super::script::{Action, How, Script};
use super::stepper::{Access, Doing, Operation, Stepper};
use super::subjects::{Observed, Subject};

/// What is known of a thread.
#[derive(Clone, Default)]
struct Seen {
    /// It has looked at the lock since the last event,
    looked: bool,
    /// and that as it could have changed it.
    acted: bool,
    /// The parts of the state that it has looked at since, of a lock whose waiters are not known to be asleep: a bit for each.
    parts: u64,
    /// It is between the first and the last step of a `park`,
    parks: bool,
    /// which the trace tells of.
    sleeps: bool,
    /// It was unparked since it parked last.
    token: bool,
    timed_out: bool,
    /// What it is about: 1 to write, 0 to read, or the subject's word for it; its visit may end without the lock.
    errand: char,
    next_errand: Option<char>,
    may_give_up: bool,
}

pub(super) struct Recorder {
    pub(super) trace: String,
    script: Script,
    threads: Vec<Seen>,
    /// The lock after the last event, and who was queued.
    lock: String,
    parts: Vec<String>,
    queued: Vec<usize>,
    in_queue: bool,
}

impl Recorder {
    pub(super) fn new(script: &Script, subject: &dyn Subject) -> Self {
        let seen = subject.observe(0, &|_| None);
        let (lock, parts) = seen.map(|seen| (seen.state, seen.parts)).unwrap_or_default();
        let lock = lock.unwrap_or_default();
        Self {
            trace: format!("{lock}\n"),
            script: script.clone(),
            threads: vec![Seen::default(); script.len()],
            lock,
            parts,
            queued: vec![],
            in_queue: false,
        }
    }

    /// Whether the thread that ran last is changing the queue.
    pub(super) fn is_in_queue(&self) -> bool {
        self.in_queue
    }

    /// `thread` has made `operation` in this action, and what comes up to its next one.
    pub(super) fn note(
        &mut self,
        stepper: &Stepper,
        subject: &dyn Subject,
        thread: usize,
        action: u32,
        operation: Operation,
    ) {
        let seen = subject.observe(thread, &|hint| stepper.with_hint(hint));
        let Some(Observed { state, parts, queued, wakes }) = seen else { return };
        // What it went on to after the operation, that is not about yet.
        let errand =
            std::mem::replace(&mut self.threads[thread].next_errand, subject.errand(thread));
        let Some((writes, how)) = self.visit(thread, action) else { return };
        self.threads[thread].errand = errand.unwrap_or(if writes { '1' } else { '0' });
        self.threads[thread].may_give_up = how != How::Wait;
        match operation {
            Operation::Slept(_, outcome) => {
                self.threads[thread].timed_out =
                    outcome == fairlock::platform::WaitOutcome::TimedOut;
            }
            Operation::Spun(..) => self.threads[thread].looked = true,
            Operation::Access(access, address) if queued.is_some() => {
                if let Some(other) = stepper.parker_at(address) {
                    self.note_parker(stepper, thread, other, access, how);
                } else if stepper.is_own(thread, address) || subject.part_at(address).is_some() {
                    self.threads[thread].looked = true;
                }
            }
            Operation::Access(access, address) => {
                let other = stepper.parker_at(address).filter(|&other| wakes && other != thread);
                if let Some(other) = other.filter(|_| access == Access::Atomic) {
                    self.wakes(thread, other);
                }
                self.threads[thread].parts |= subject.part_at(address).map_or(0, |part| 1 << part);
            }
            _ => {}
        }
        let was_in_queue = std::mem::replace(&mut self.in_queue, state.is_none());
        let Some(lock) = state else { return };
        if lock != self.lock {
            let changed =
                (0..).zip(&parts).filter(|&(part, now)| self.parts.get(part) != Some(now));
            self.looks(thread, changed.fold(0, |changed, (part, _)| changed | 1 << part));
            self.lock = lock;
            self.parts = parts;
            self.queued = queued.unwrap_or_default();
            self.line(thread, 'C', if was_in_queue { 'q' } else { '-' });
        } else {
            let was_on_word = matches!(operation, Operation::Access(access, address)
                if access == Access::Atomic && queued.is_some() && subject.part_at(address).is_some());
            self.threads[thread].acted |= was_in_queue || was_on_word;
        }
    }

    /// `thread` has used the parker of `owner`.
    fn note_parker(
        &mut self,
        stepper: &Stepper,
        thread: usize,
        owner: usize,
        access: Access,
        how: How,
    ) {
        if owner != thread {
            if access == Access::Atomic {
                self.threads[owner].token = true;
                self.wakes(thread, owner);
            }
            return;
        }
        match access {
            Access::Load if self.threads[owner].parks => {
                let flag = match stepper.doing(thread) {
                    Doing::Sleeps { timer: false, .. } => '-',
                    Doing::Sleeps { .. } if !matches!(how, How::For(_)) => 't',
                    _ => 'x',
                };
                self.sleeps(thread, flag);
            }
            Access::Load => {}
            // It forgets what came before this wait.
            Access::Store => self.threads[owner].token = false,
            Access::Atomic if !self.threads[owner].parks => {
                self.threads[owner].parks = true;
                self.threads[owner].timed_out = false;
            }
            Access::Atomic => {
                // There was a token.
                if !self.threads[owner].sleeps {
                    self.sleeps(thread, 'x');
                }
                let seen = &mut self.threads[owner];
                (seen.parks, seen.sleeps) = (false, false);
                let flag = match (std::mem::take(&mut seen.token), seen.timed_out) {
                    (true, _) => 'w',
                    (false, true) => 't',
                    (false, false) => 's',
                };
                self.event(thread, 'P', flag);
            }
        }
    }

    fn wakes(&mut self, thread: usize, other: usize) {
        let number = char::from_digit(other as u32, 10).unwrap_or('?');
        self.event(thread, 'U', number);
    }

    fn sleeps(&mut self, thread: usize, flag: char) {
        self.threads[thread].sleeps = true;
        self.event(thread, 'S', flag);
    }

    /// Whether the thread writes in this action, and how it asks for the lock; none if it does not.
    fn visit(&self, thread: usize, action: u32) -> Option<(bool, How)> {
        self.script[thread].iter().find(|(number, _)| *number == action).and_then(|(_, action)| {
            match action {
                Action::Visit { writes, how, .. } => Some((*writes, *how)),
                _ => None,
            }
        })
    }

    fn event(&mut self, thread: usize, kind: char, flag: char) {
        self.looks(thread, 0);
        self.line(thread, kind, flag);
    }

    /// The next event is one of `thread`, which changes these parts: those that have looked at the lock did so before it.
    fn looks(&mut self, thread: usize, changes: u64) {
        let own = &mut self.threads[thread];
        (own.looked, own.acted, own.parts) = (false, false, 0);
        for other in 0..self.threads.len() {
            let seen = &mut self.threads[other];
            let looked = std::mem::take(&mut seen.looked) && self.queued.contains(&other);
            if std::mem::take(&mut seen.acted) || looked || seen.parts & changes != 0 {
                seen.parts = 0;
                self.line(other, 'L', '-');
            }
        }
    }

    fn line(&mut self, thread: usize, kind: char, flag: char) {
        let Self { trace, lock, threads, .. } = self;
        let (errand, may_give_up) = (threads[thread].errand, u8::from(threads[thread].may_give_up));
        writeln!(trace, "{thread} {kind} {flag} {errand} {may_give_up} {lock}").ok();
        // What it saw then it may act on later.
        threads[thread].looked = kind != 'L';
    }
}

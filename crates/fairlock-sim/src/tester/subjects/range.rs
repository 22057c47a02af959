//! The range lock.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use fairlock::platform::System;
use fairlock::range::{
    RangeEntry, RangeError, RangePolicy, RangeReadGuard, RangeRwLock, RangeWriteGuard, Span,
};
use fairlock::wait::CancelToken;

use super::{Complaint, Complaints, Observed, Subject, SubjectKind, stay};
use crate::platform::begin_locks;
use crate::sim::Sim;
use crate::tester::failure::FailureKind;
use crate::tester::script::{
    Abilities, Action, How, MOST_THREADS, POSITIONS, Script, Section, TOKENS, Then,
};

const CAN: Abilities = Abilities { shared: true, fair: false, ranges: true, ..Abilities::MUTEX };

macro_rules! kind {
    ($name:literal, $about:literal, $policy:expr, $striped:expr) => {
        SubjectKind {
            name: $name,
            about: $about,
            can: CAN,
            make: |script| Box::new(Ranges::new($policy, $striped, script)),
        }
    };
}

pub(in crate::tester) const KINDS: &[SubjectKind] = &[
    kind!("range:default", "RangeRwLock, RangePolicy::DEFAULT", RangePolicy::DEFAULT, false),
    kind!("range:fifo", "RangeRwLock, RangePolicy::FIFO", RangePolicy::FIFO, false),
    kind!("range:striped", "RangeRwLock, FIFO, now and then striped", RangePolicy::FIFO, true),
    kind!(
        "range:soon",
        "RangeRwLock, overtaken for 10 us",
        RangePolicy { overtaken_for: Duration::from_micros(10) },
        false
    ),
    kind!(
        "range:overtaken",
        "RangeRwLock, overtaken for ever: no timer ends a wait",
        RangePolicy { overtaken_for: Duration::MAX },
        false
    ),
    kind!(
        "range:overtaken-striped",
        "RangeRwLock, overtaken for ever, now and then striped",
        RangePolicy { overtaken_for: Duration::MAX },
        true
    ),
    kind!(
        "range:soon-striped",
        "RangeRwLock, overtaken for 10 us, now and then striped",
        RangePolicy { overtaken_for: Duration::from_micros(10) },
        true
    ),
];

/// A range that is held or asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Claim {
    start: u64,
    last: u64,
    writes: bool,
}

impl Claim {
    fn conflicts(&self, other: &Self) -> bool {
        (self.writes || other.writes) && self.start <= other.last && other.start <= self.last
    }
}

/// A thread that asks for a range.
#[derive(Clone, Copy)]
struct Asking {
    claim: Claim,
    how: How,
    /// When it began, and when it was first seen to wait in the tree.
    since: u64,
    queued: Option<u64>,
}

enum Guard<'a> {
    Read(RangeReadGuard<'a, Sim>),
    Write(RangeWriteGuard<'a, Sim>),
}

impl Guard<'_> {
    /// Splits the range before `mid`, which is in it and not its start.
    fn split_at(self, mid: u64) -> (Self, Self) {
        let split = match self {
            Self::Read(guard) => {
                guard.split_at(mid).map(|(a, b)| (Self::Read(a), Self::Read(b))).ok()
            }
            Self::Write(guard) => {
                guard.split_at(mid).map(|(a, b)| (Self::Write(a), Self::Write(b))).ok()
            }
        };
        split.expect("a range can be split inside")
    }

    /// Gives up all of the range but this part.
    fn shrink(&mut self, range: std::ops::RangeInclusive<u64>) {
        let shrunk = match self {
            Self::Read(guard) => guard.shrink(range),
            Self::Write(guard) => guard.shrink(range),
        };
        shrunk.expect("a range can be shrunk to a part of it");
    }
}

/// Positions as bits, for the specification.
fn bits(start: u64, last: u64) -> u8 {
    (0..POSITIONS as u8).filter(|at| (start..=last).contains(&(*at).into())).map(|at| 1 << at).sum()
}

/// Parts of what is observed: word, slots, hull, what is shown, and the state of each thread's waiter.
const FIELDS: [&str; 4] = ["word", "slots", "hull", "shown"];

/// What only the threads know: for the specification.
#[derive(Default)]
struct Seen {
    /// What each is about, and whether it has it.
    about: RefCell<[Option<(Claim, bool)>; MOST_THREADS as usize]>,
    /// Where it looks when it waits.
    looks_at: RefCell<[usize; MOST_THREADS as usize]>,
    /// Whose the ranges in the tree are that did not wait, by name.
    owners: RefCell<HashMap<usize, usize>>,
}

impl Seen {
    /// A range in the tree, or one that may be overtaken, as docs/spec/range.pml has it; and the state of its waiter.
    /// `ran`: whose it is, if nobody could have it before.
    fn entry(
        &self,
        entry: &RangeEntry,
        ran: usize,
        waiter: Option<usize>,
    ) -> (String, Option<(usize, char)>) {
        let RangeEntry { span, state, .. } = *entry;
        if let Some(thread) = waiter {
            self.looks_at.borrow_mut()[thread] = entry.looks_at;
        }
        let (state, whose) = match (state, waiter) {
            ('s', _) => ('s', entry.place),
            ('h', None) => ('o', *self.owners.borrow_mut().entry(entry.place).or_insert(ran)),
            ('h', Some(thread)) => ('g', thread),
            (state, waiter) => (state, waiter.unwrap_or_default()),
        };
        let kind = if entry.writes { 'w' } else { 'r' };
        let text = format!(
            " {state}{whose:x}{:x}{kind}{}",
            bits(span.start(), span.last()),
            entry.sleeps_for
        );
        (text, waiter.map(|thread| (thread, state)))
    }
}

/// Sizes of regions in a striped lock, as shifts, used in turn: some ranges have one region, others
/// up to five.
const SHIFTS: [u32; 3] = [2, 3, 1];

struct Ranges {
    lock: RangeRwLock<Sim>,
    striped: bool,
    tokens: [CancelToken<Sim>; TOKENS],
    held: RefCell<Vec<Claim>>,
    asking: RefCell<Vec<Option<Asking>>>,
    /// The lock's names for the threads.
    hints: RefCell<Vec<usize>>,
    steps: Cell<u64>,
    /// Whether `asking` says who waits in the tree as of the last step.
    knows_queue: Cell<bool>,
    complaints: Complaints,
    seen: Seen,
}

impl Ranges {
    fn new(policy: RangePolicy, striped: bool, script: &Script) -> Self {
        // SAFETY: a trial is on one thread of the system, and its lock is used in no other.
        unsafe { begin_locks() };
        Self {
            lock: RangeRwLock::on_platform(policy),
            striped,
            tokens: std::array::from_fn(|_| CancelToken::new()),
            held: RefCell::new(vec![]),
            asking: RefCell::new(vec![None; script.len()]),
            hints: RefCell::new(vec![0; script.len()]),
            steps: Cell::new(0),
            knows_queue: Cell::new(false),
            complaints: Complaints::default(),
            seen: Seen::default(),
        }
    }

    fn enter(&self, claim: Claim) {
        if self.held.borrow().iter().any(|held| held.conflicts(&claim)) {
            self.complaints
                .note(FailureKind::Exclusion, "two ranges are held that exclude each other");
        }
        self.held.borrow_mut().push(claim);
    }

    fn leave(&self, claim: Claim) {
        let mut held = self.held.borrow_mut();
        if let Some(place) = held.iter().position(|&other| other == claim) {
            held.swap_remove(place);
        }
    }

    /// The calling thread has what it asked for. A thread that waited in the tree before that, for
    /// a range that overlaps, should have had its range first.
    fn arrive(&self, me: usize) {
        let mut asking = self.asking.borrow_mut();
        let Some(mine) = asking[me].take() else { return };
        let overtaken = |other: &Asking| {
            // A thread that may give up may be doing so.
            other.how == How::Wait
                && other.queued.is_some_and(|queued| queued < mine.since)
                && other.claim.conflicts(&mine.claim)
        };
        // While somebody changes the queue, a thread that waited there may just have left it.
        if self.knows_queue.get() && asking.iter().flatten().any(overtaken) {
            self.complaints.note(
                FailureKind::Order,
                "a range was had before one that waits in the tree for it",
            );
        }
    }

    fn acquire(&self, claim: Claim, how: How) -> Result<Guard<'_>, RangeError> {
        let Claim { start, last, writes } = claim;
        let (lock, range) = (&self.lock, start..=last);
        Ok(match (how, writes) {
            (How::Wait, true) => Guard::Write(lock.write(range)?),
            (How::Wait, false) => Guard::Read(lock.read(range)?),
            (How::Try, true) => Guard::Write(lock.try_write(range)?),
            (How::Try, false) => Guard::Read(lock.try_read(range)?),
            (_, true) => Guard::Write(lock.write_with(range, how.wait(&self.tokens))?),
            (_, false) => Guard::Read(lock.read_with(range, how.wait(&self.tokens))?),
        })
    }

    /// Reads again: in a part of the range, where nobody is in the way; or beyond it, if that wait
    /// can end.
    fn read_again(
        &self,
        Claim { start, last, .. }: Claim,
        how: How,
    ) -> Result<(RangeReadGuard<'_, Sim>, Claim), RangeError> {
        let lock = &self.lock;
        let middle = start + (last - start) / 2;
        let beyond = last.saturating_add(3);
        let (again, last) = match how {
            How::Wait => (lock.read_recursive(start..=middle), middle),
            How::Try => (lock.try_read_recursive(start..=beyond), beyond),
            How::For(_) => {
                (lock.read_recursive_with(start..=beyond, how.wait(&self.tokens)), beyond)
            }
            How::Cancellable(_) => {
                (lock.read_recursive_with(start..=middle, how.wait(&self.tokens)), middle)
            }
        };
        Ok((again?, Claim { start, last, writes: false }))
    }

    fn visit(&self, claim: Claim, how: How, section: Section, then: Then) {
        let me = crate::thread();
        self.hints.borrow_mut()[me] = Sim::thread_hint();
        if self.striped {
            if how == How::Try {
                // Tracing ends striping.
                self.lock.set_traced(true);
                self.lock.set_traced(false);
            } else {
                self.lock.stripe(SHIFTS[claim.start as usize % SHIFTS.len()]);
            }
        }
        let since = self.steps.get();
        self.asking.borrow_mut()[me] = Some(Asking { claim, how, since, queued: None });
        self.seen.about.borrow_mut()[me] = Some((claim, false));
        let Ok(guard) = self.acquire(claim, how) else {
            self.asking.borrow_mut()[me] = None;
            return;
        };
        self.seen.about.borrow_mut()[me] = Some((claim, true));
        self.arrive(me);
        self.enter(claim);
        stay(section);
        self.go_on(claim, guard, how, section, then);
    }

    /// What a thread does after its section.
    fn go_on(
        &self,
        mut claim: Claim,
        mut guard: Guard<'_>,
        how: How,
        section: Section,
        then: Then,
    ) {
        let middle = claim.start + (claim.last - claim.start) / 2;
        match then {
            Then::Downgrade => {
                self.leave(claim);
                if let Guard::Write(writer) = guard {
                    guard = Guard::Read(writer.downgrade());
                }
                claim.writes = false;
                self.enter(claim);
                stay(section);
            }
            Then::ReadAgain => {
                if let Ok((guard, again)) = self.read_again(claim, how) {
                    self.enter(again);
                    stay(section);
                    self.leave(again);
                    drop(guard);
                }
            }
            Then::Shrink => {
                self.leave(claim);
                claim.last = middle;
                self.enter(claim);
                guard.shrink(claim.start..=claim.last);
                stay(section);
            }
            Then::Split if middle < claim.last => {
                let low = Claim { last: middle, ..claim };
                self.leave(claim);
                claim.start = middle + 1;
                self.enter(low);
                self.enter(claim);
                let (first, second) = guard.split_at(middle + 1);
                stay(section);
                self.leave(low);
                drop(first);
                stay(section);
                guard = second;
            }
            _ => {}
        }
        self.leave(claim);
        drop(guard);
    }
}

impl Subject for Ranges {
    fn act(&self, action: &Action) {
        match *action {
            Action::Cancel(token) => self.tokens[token].cancel(),
            Action::Away(section) => stay(section),
            Action::Priority(_) => {}
            Action::Visit { writes, how, section, then, range: (start, last) } => {
                self.visit(Claim { start, last, writes }, how, section, then);
            }
        }
    }

    fn check(&self, _ran: usize) -> Result<(), Complaint> {
        self.complaints.check()?;
        let now = self.steps.get() + 1;
        self.steps.set(now);
        let mut asking = self.asking.borrow_mut();
        let hints = self.hints.borrow();
        let mut waits = vec![false; asking.len()];
        let mut queued = |hint| {
            if let Some(thread) = hints.iter().position(|&other| other == hint) {
                waits[thread] = true;
            }
        };
        // SAFETY: between two steps nobody runs.
        let checked = unsafe { self.lock.check(&mut queued) };
        self.knows_queue.set(checked == Ok(true));
        if self.knows_queue.get() {
            for (asking, waits) in asking.iter_mut().zip(waits) {
                if let Some(asking) = asking {
                    // A thread that leaves the tree before it would sleep may be overtaken again.
                    asking.queued = waits.then(|| asking.queued.unwrap_or(now));
                }
            }
        }
        checked.map(drop).map_err(|what| Complaint::new(FailureKind::Word, what))
    }

    fn check_idle(&self) -> Result<(), Complaint> {
        // SAFETY: nobody runs.
        unsafe { self.lock.check_idle() }.map_err(|what| Complaint::new(FailureKind::Remains, what))
    }

    fn observe(&self, ran: usize, thread: &dyn Fn(usize) -> Option<usize>) -> Option<Observed> {
        // SAFETY: between two steps nobody runs.
        let Some(lock) = (unsafe { self.lock.snapshot() }) else {
            return Some(Observed { state: None, parts: vec![], queued: None, wakes: true });
        };
        let span = |span: Option<Span>| span.map_or(0, |span| bits(span.start(), span.last()));
        let slots = lock.slots.iter().take(MOST_THREADS as usize).copied();
        let mut parts = vec![
            format!("{:02x} {:02x} {}", lock.used, lock.writers, lock.flags),
            slots.map(|slot| format!("{:x}", span(slot))).collect(),
            format!("{:x}", bits(lock.hull.0, lock.hull.1)),
            format!("{:x}{:02x}", lock.shown, lock.watched),
        ];
        let mut state = parts.join(" ");
        let mut waiters = vec![String::new(); MOST_THREADS as usize];
        let in_tree =
            |id: &usize| lock.entries.iter().any(|entry| entry.state == 'h' && entry.place == *id);
        self.seen.owners.borrow_mut().retain(|id, _| in_tree(id));
        for entry in lock.entries.iter().chain(&lock.listed) {
            let (text, waiter) = self.seen.entry(entry, ran, thread(entry.who));
            state.write_str(&text).ok();
            if let Some((thread, state)) = waiter {
                waiters[thread].push(state);
            }
        }
        parts.extend(waiters);
        Some(Observed { state: Some(state), parts, queued: None, wakes: true })
    }

    fn part_at(&self, address: usize) -> Option<usize> {
        let field = self.lock.field_at(address);
        FIELDS.iter().position(|&part| field == Some(part)).or_else(|| {
            let waiter = self.seen.looks_at.borrow().iter().position(|&at| at == address);
            waiter.map(|thread| FIELDS.len() + thread)
        })
    }

    /// The range as bits, above them whether it is to be written, and above that whether the thread has it.
    fn errand(&self, thread: usize) -> Option<char> {
        let (claim, has) = self.seen.about.borrow()[thread]?;
        let bits = bits(claim.start, claim.last) | u8::from(claim.writes) << 4 | u8::from(has) << 5;
        Some(char::from(b'0' + bits))
    }

    fn state(&self) -> String {
        let mut text = String::new();
        for Claim { start, last, writes } in &*self.held.borrow() {
            let kind = if *writes { "write" } else { "read" };
            text.push_str(&format!("{kind} {start}..={last} "));
        }
        if text.is_empty() { "nobody inside".into() } else { text.trim_end().into() }
    }

    fn field_at(&self, address: usize) -> Option<&'static str> {
        self.lock.field_at(address)
    }
}

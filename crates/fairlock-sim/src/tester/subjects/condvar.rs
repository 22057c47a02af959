//! The condition variable: threads with even numbers produce, the others consume.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;

use fairlock::condvar::WordCondvar;
use fairlock::lock::{RawMutex, Slots};
use fairlock::platform::PooledPlatform;
use fairlock::wait::CancelToken;

use super::{Complaint, Observed, Room, Subject, SubjectKind, stay};
use crate::platform::begin_locks;
use crate::sim::Sim;
use crate::tester::failure::FailureKind;
use crate::tester::script::{Abilities, Action, How, MOST_THREADS, Script, TOKENS, Then};

pub(in crate::tester) const KINDS: &[SubjectKind] = &[SubjectKind {
    name: "condvar:mutex",
    about: "Condvar of Mutex",
    can: Abilities::MUTEX,
    make: |script| Box::new(Store::new(script)),
}];

/// A mutex of eight bytes, whose condition variable has one for its queue.
struct Words {
    mutex: RawMutex<Sim>,
    /// Takes the slot that the mutex gives back, and the other way round.
    other: RawMutex<Sim>,
    changed: WordCondvar<Sim>,
}

/// The threads as their numbers.
fn digits(threads: &[usize]) -> String {
    threads.iter().filter_map(|&thread| char::from_digit(thread as u32, 10)).collect()
}

/// Parts of what is observed: the queue, and the list of thread 0. Before it are who has the mutex, and its queue.
const QUEUE: usize = 2;
const LISTS: usize = QUEUE + 1;

impl Words {
    fn new() -> Self {
        // SAFETY: a trial is on one thread of the system, and its lock is dropped before the next.
        unsafe { begin_locks() };
        Self { mutex: RawMutex::new(), other: RawMutex::new(), changed: WordCondvar::new() }
    }

    /// # Safety
    /// The caller has the mutex: here and below.
    unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.mutex.unlock() };
        self.mutex.trim();
        self.other.lock();
        // SAFETY: just taken.
        unsafe { self.other.unlock() };
        self.other.trim();
        Slots::<Sim>::seem_calm();
    }

    /// Lets the mutex go, and takes it again; returns whether the thread was notified.
    unsafe fn wait(&self, how: How, tokens: &[CancelToken<Sim>; TOKENS]) -> bool {
        let (changed, mutex) = (&self.changed, &self.mutex);
        // SAFETY: the caller's promise.
        unsafe {
            match how {
                How::For(_) | How::Cancellable(_) => {
                    changed.wait_with(mutex, how.wait(tokens)).is_ok()
                }
                How::Wait | How::Try => {
                    changed.wait(mutex);
                    true
                }
            }
        }
    }

    /// What is wrong between two steps.
    fn check(&self, is_held: bool) -> Result<(), &'static str> {
        // SAFETY: between two steps nobody runs.
        unsafe { self.mutex.check(is_held).and_then(|()| self.other.check(false)) }
    }

    /// Whether nothing is left behind.
    fn check_idle(&self) -> Result<(), String> {
        let left =
            self.mutex.is_locked() || self.mutex.is_contended() || self.changed.has_waiters();
        if left {
            return Err(format!("{:?}, {:?}", self.mutex, self.changed));
        }
        // The condition variable's own mutex may have one.
        if !self.mutex.trim() || !self.other.trim() || Sim::slots().in_use() > 1 {
            return Err("a slot was not given back".into());
        }
        Ok(())
    }

    /// As docs/spec/condvar.pml has it.
    fn observe(&self, seen: &Seen, thread: &dyn Fn(usize) -> Option<usize>) -> Option<Observed> {
        let (mut at_mutex, mut queue) = (vec![], vec![]);
        // SAFETY: between two steps nobody runs.
        let mut knows = unsafe {
            self.mutex.for_each_queued(|hint| at_mutex.extend(thread(hint)))
                && self.changed.for_each_queued(|hint, waiter| {
                    let Some(thread) = thread(hint) else { return };
                    queue.push(thread);
                    seen.queued(thread, waiter);
                })
        };
        let inside = seen.inside.get().map_or("-".into(), |thread| digits(&[thread]));
        let after = seen.after.get().map_or(".", |notified| if notified { "n" } else { "g" });
        let mut parts = vec![inside + after, digits(&at_mutex), digits(&queue)];
        let mut lists = vec![String::new(); MOST_THREADS as usize];
        let mut state = parts.join(" ");
        for (number, waiter) in seen.waiters.borrow().iter().enumerate() {
            let Some(waiter) = *waiter else { continue };
            // SAFETY: as above; its wait has not returned.
            let waiter = unsafe { self.changed.waiter(waiter) };
            let mut by = '-';
            if let Some((notifier, of)) =
                waiter.notifier.and_then(|of| Some((thread(of.hint)?, of)))
            {
                by = char::from_digit(notifier as u32, 10).unwrap_or('?');
                seen.lists.borrow_mut()[notifier] = Some(of.list_at);
                knows &= of.list.is_some();
                let list: Vec<_> = of.list.into_iter().flatten().filter_map(thread).collect();
                lists[notifier] = digits(&list);
            }
            if waiter.state != 'W' {
                write!(state, " {number}{}{by}", waiter.state).ok();
            }
        }
        for (number, list) in lists.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
            write!(state, " l{number}:{list}").ok();
        }
        parts.extend(lists);
        Some(Observed { state: knows.then_some(state), parts, queued: None, wakes: true })
    }

    fn part_at(&self, seen: &Seen, address: usize) -> Option<usize> {
        if self.changed.has_queue_at(address) {
            return Some(QUEUE);
        }
        seen.lists.borrow().iter().position(|&list| list == Some(address)).map(|list| LISTS + list)
    }

    fn state(&self) -> String {
        let locked = if self.mutex.is_locked() { "locked" } else { "free" };
        let slot = if self.mutex.has_slot() { ", with a slot" } else { "" };
        let waited = if self.mutex.is_contended() { ", waited for" } else { "" };
        format!("{locked}{slot}{waited}")
    }
}

/// What only the threads know: for the specification.
#[derive(Default)]
struct Seen {
    /// Who has the mutex: until it lets it go, or is queued.
    inside: Cell<Option<usize>>,
    /// After what the mutex was taken last: a wait that was notified, or one that gave up.
    after: Cell<Option<bool>>,
    /// Where the waiters are that have been in the queue, until their waits return.
    waiters: RefCell<[Option<usize>; MOST_THREADS as usize]>,
    /// Where the list of each thread begins that has notified others.
    lists: RefCell<[Option<usize>; MOST_THREADS as usize]>,
}

impl Seen {
    /// The calling thread has the mutex.
    fn enter(&self, after: Option<bool>) {
        self.waiters.borrow_mut()[crate::thread()] = None;
        self.inside.set(Some(crate::thread()));
        self.after.set(after);
    }

    fn leave(&self) {
        self.inside.set(None);
    }

    /// The thread is queued at the condition variable.
    fn queued(&self, thread: usize, waiter: usize) {
        self.waiters.borrow_mut()[thread] = Some(waiter);
        if self.inside.get() == Some(thread) {
            self.leave();
        }
    }
}

struct Store {
    monitor: Words,
    seen: Seen,
    tokens: [CancelToken<Sim>; TOKENS],
    room: Room,
    items: Cell<usize>,
    /// Items that have not been put in yet.
    to_produce: Cell<usize>,
    /// Waits that were notified: as the notifications count them, and as the waits report them.
    notified: Cell<usize>,
    came: Cell<usize>,
}

impl Store {
    fn new(script: &Script) -> Self {
        let of_producers = script.iter().step_by(2).flatten();
        let visits = of_producers.filter(|(_, action)| matches!(action, Action::Visit { .. }));
        Self {
            monitor: Words::new(),
            seen: Seen::default(),
            tokens: std::array::from_fn(|_| CancelToken::new()),
            room: Room::default(),
            items: Cell::new(0),
            to_produce: Cell::new(visits.count()),
            notified: Cell::new(0),
            came: Cell::new(0),
        }
    }

    fn lock(&self) {
        self.monitor.mutex.lock();
        self.room.enter(true);
        self.seen.enter(None);
    }

    fn unlock(&self) {
        self.room.leave(true);
        self.seen.leave();
        // SAFETY: taken by the caller.
        unsafe { self.monitor.unlock() };
    }

    fn notify(&self, all: bool) {
        let changed = &self.monitor.changed;
        let notified = if all { changed.notify_all() } else { changed.notify_one().into() };
        self.notified.set(self.notified.get() + notified);
    }

    /// Waits; returns whether it was notified.
    fn wait(&self, how: How) -> bool {
        if how == How::Try {
            return false;
        }
        self.room.leave(true);
        // SAFETY: taken by the caller.
        let notified = unsafe { self.monitor.wait(how, &self.tokens) };
        self.room.enter(true);
        self.seen.enter(Some(notified));
        self.came.set(self.came.get() + usize::from(notified));
        notified
    }
}

impl Subject for Store {
    fn act(&self, action: &Action) {
        let (how, section, then) = match *action {
            Action::Visit { how, section, then, .. } => (how, section, then),
            Action::Away(section) => return stay(section),
            Action::Cancel(token) => return self.tokens[token].cancel(),
            Action::Priority(_) => return,
        };
        self.lock();
        stay(section);
        if crate::thread().is_multiple_of(2) {
            self.items.set(self.items.get() + 1);
            self.to_produce.set(self.to_produce.get() - 1);
            // All are notified that wait for items that will not come.
            let all = self.to_produce.get() == 0 || how == How::Try;
            if then == Then::LeaveFair {
                self.unlock();
                self.notify(all);
            } else {
                self.notify(all);
                self.unlock();
            }
        } else {
            while self.items.get() == 0 && self.to_produce.get() > 0 && self.wait(how) {}
            self.items.set(self.items.get().saturating_sub(1));
            self.unlock();
        }
    }

    fn check(&self, _ran: usize) -> Result<(), Complaint> {
        self.room.complaints.check()?;
        let is_held = self.room.writers.get() > 0;
        self.monitor.check(is_held).map_err(|what| Complaint::new(FailureKind::Word, what))
    }

    fn check_idle(&self) -> Result<(), Complaint> {
        self.monitor.check_idle().map_err(|what| Complaint::new(FailureKind::Remains, what))?;
        let (notified, came) = (self.notified.get(), self.came.get());
        if notified != came {
            let what = format!("{notified} waits were notified, and {came} say so");
            return Err(Complaint::new(FailureKind::Remains, what));
        }
        Ok(())
    }

    fn observe(&self, _: usize, thread: &dyn Fn(usize) -> Option<usize>) -> Option<Observed> {
        self.monitor.observe(&self.seen, thread)
    }

    fn part_at(&self, address: usize) -> Option<usize> {
        self.monitor.part_at(&self.seen, address)
    }

    fn state(&self) -> String {
        format!("{}, {} items", self.monitor.state(), self.items.get())
    }

    fn field_at(&self, _: usize) -> Option<&'static str> {
        None
    }
}

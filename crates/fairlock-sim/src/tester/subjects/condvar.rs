//! The condition variable: threads with even numbers produce, the others consume.

use std::cell::Cell;

use fairlock::condvar::TicketCondvar;
use fairlock::platform::Platform;
use fairlock::ticket::{AdaptiveTicketLock, BatchSize, BatchedTicketLock, TicketLock};
use fairlock::wait::CancelToken;

use super::{Complaint, Room, Subject, SubjectKind, stay};
use crate::platform::Sim;
use crate::tester::failure::Kind;
use crate::tester::script::{Abilities, Action, How, Script, TOKENS, Then};

const CAN: Abilities = Abilities {
    shared: false,
    upgrades: false,
    timed: true,
    fair: true,
    ranges: false,
    priorities: false,
};

macro_rules! kind {
    ($name:literal, $about:literal, $lock:expr) => {
        SubjectKind {
            name: $name,
            about: $about,
            can: CAN,
            make: |script| Box::new(Store::new($lock, script)),
        }
    };
}

pub(in crate::tester) const KINDS: &[SubjectKind] = &[
    kind!("condvar:1", "Condvar of a ticket lock", BatchedTicketLock::<Sim, 1>::new()),
    kind!("condvar:2", "Condvar, batches of two", BatchedTicketLock::<Sim, 2>::new()),
    kind!("condvar", "Condvar of Mutex", AdaptiveTicketLock::<Sim>::new()),
];

struct Store<S: BatchSize> {
    mutex: TicketLock<Sim, S>,
    changed: TicketCondvar<Sim, S>,
    tokens: [CancelToken<Sim>; TOKENS],
    room: Room,
    items: Cell<usize>,
    /// Items that have not been put in yet.
    to_produce: Cell<usize>,
    /// Waits that were notified: as the notifications count them, and as the waits report them.
    notified: Cell<usize>,
    came: Cell<usize>,
}

impl<S: BatchSize> Store<S> {
    fn new(mutex: TicketLock<Sim, S>, script: &Script) -> Self {
        let of_producers = script.iter().step_by(2).flatten();
        let visits = of_producers.filter(|(_, action)| matches!(action, Action::Visit { .. }));
        Self {
            mutex,
            changed: TicketCondvar::new(),
            tokens: std::array::from_fn(|_| CancelToken::new()),
            room: Room::default(),
            items: Cell::new(0),
            to_produce: Cell::new(visits.count()),
            notified: Cell::new(0),
            came: Cell::new(0),
        }
    }

    fn lock(&self) {
        self.mutex.lock();
        self.room.enter(true);
    }

    fn unlock(&self) {
        self.room.leave(true);
        // SAFETY: taken by the caller.
        unsafe { self.mutex.unlock() };
    }

    fn notify(&self, all: bool) {
        let changed = &self.changed;
        let notified = if all { changed.notify_all() } else { changed.notify_one().into() };
        self.notified.set(self.notified.get() + notified);
    }

    /// Waits; returns whether it was notified.
    fn wait(&self, how: How) -> bool {
        if how == How::Try {
            return false;
        }
        self.room.leave(true);
        let (changed, mutex) = (&self.changed, &self.mutex);
        // SAFETY: taken by the caller.
        let notified = unsafe {
            match how {
                How::For(ns) => changed.wait_until(mutex, Sim::now() + ns).is_ok(),
                How::Cancellable(token) => {
                    changed.wait_cancellable(mutex, &self.tokens[token]).is_ok()
                }
                How::Wait | How::Try => {
                    changed.wait(mutex);
                    true
                }
            }
        };
        self.room.enter(true);
        self.came.set(self.came.get() + usize::from(notified));
        notified
    }
}

impl<S: BatchSize> Subject for Store<S> {
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
        self.room.check()?;
        if self.room.writers.get() > 0 && !self.mutex.is_locked() {
            return Err(Complaint::new(Kind::Word, "the lock does not know of its holder"));
        }
        Ok(())
    }

    fn check_idle(&self) -> Result<(), Complaint> {
        self.mutex.check_idle().map_err(|what| Complaint::new(Kind::Remains, what))?;
        let (notified, came) = (self.notified.get(), self.came.get());
        if notified != came {
            let what = format!("{notified} waits were notified, and {came} say so");
            return Err(Complaint::new(Kind::Remains, what));
        }
        Ok(())
    }

    fn state(&self) -> String {
        let (tail, head) = self.mutex.tickets();
        let locked = if self.mutex.is_locked() { "locked" } else { "free" };
        format!("{locked}, {head} of {tail} tickets served, {} items", self.items.get())
    }

    fn field_at(&self, address: usize) -> Option<&'static str> {
        self.mutex.field_at(address)
    }
}

//! The ticket locks.

use std::cell::{Cell, RefCell};

use fairlock::ticket::{AdaptiveTicketLock, BatchSize, BatchedTicketLock, TicketLock};
use fairlock::wait::CancelToken;

use super::{Complaint, Room, Subject, SubjectKind, stay};
use crate::sim::Sim;
use crate::tester::failure::FailureKind;
use crate::tester::script::{Abilities, Action, How, Script, TOKENS, Then};

macro_rules! kind {
    ($name:literal, $about:literal, $lock:expr, $backoff:expr) => {
        SubjectKind {
            name: $name,
            about: $about,
            can: Abilities::MUTEX,
            make: |script| Box::new(Tickets::new($lock, $backoff, script)),
        }
    };
}

pub(in crate::tester) const KINDS: &[SubjectKind] = &[
    kind!("ticket:1", "a ticket lock", BatchedTicketLock::<Sim, 1>::new(), false),
    kind!("ticket:2", "batches of two tickets", BatchedTicketLock::<Sim, 2>::new(), false),
    kind!("ticket:8", "batches of eight tickets", BatchedTicketLock::<Sim, 8>::new(), false),
    kind!("ticket:adaptive", "batches of up to four", AdaptiveTicketLock::<Sim, 4>::new(), false),
    kind!(
        "mutex",
        "Mutex: large batches, and standing back",
        AdaptiveTicketLock::<Sim>::new(),
        true
    ),
];

/// What is known of a thread.
#[derive(Clone, Copy, Default)]
struct Waiter {
    asks: bool,
    /// Its ticket, counted from the first.
    ticket: Option<u64>,
    /// The ticket that it gave up last, and has again if it comes back in time.
    given_up: Option<u64>,
    /// By how many later tickets it was overtaken.
    overtaken: u32,
}

struct Tickets<S: BatchSize> {
    lock: TicketLock<Sim, S>,
    backoff: bool,
    tokens: [CancelToken<Sim>; TOKENS],
    room: Room,
    waiters: RefCell<Vec<Waiter>>,
    /// Tickets taken as the word showed them last, and altogether.
    tail: Cell<u32>,
    taken: Cell<u64>,
    /// How many visits have not left the room yet.
    to_come: Cell<usize>,
    /// The last holder's release has returned: from here on the lock may be freed.
    gone: Cell<bool>,
}

impl<S: BatchSize> Tickets<S> {
    fn new(lock: TicketLock<Sim, S>, backoff: bool, script: &Script) -> Self {
        let visits = script.iter().flatten();
        Self {
            lock,
            backoff,
            tokens: std::array::from_fn(|_| CancelToken::new()),
            room: Room::default(),
            waiters: RefCell::new(vec![Waiter::default(); script.len()]),
            tail: Cell::new(0),
            taken: Cell::new(0),
            to_come: Cell::new(visits.filter(|(_, a)| matches!(a, Action::Visit { .. })).count()),
            gone: Cell::new(false),
        }
    }

    /// The calling thread has the lock: counts it against those with earlier tickets.
    fn count_overtaken(&self, me: usize) {
        let mut waiters = self.waiters.borrow_mut();
        // A thread that takes ticket and lock in one step has the latest ticket. One without a
        // ticket met nobody who had one. One that has not taken a ticket since it gave one up may
        // have that again.
        let mine = waiters[me].ticket.or(waiters[me].given_up).unwrap_or(u64::MAX);
        let (by, batch) = (waiters[me].overtaken, S::MAX);
        // Judged only now: others may be known to have given up before they return.
        if by >= batch {
            let what = format!("thread {me} was overtaken {by} times, in a batch of {batch}");
            self.room.complaints.note(FailureKind::Order, what);
        }
        waiters[me] = Waiter::default();
        for waiter in waiters.iter_mut() {
            waiter.overtaken += u32::from(waiter.ticket.is_some_and(|ticket| ticket < mine));
        }
    }
}

impl<S: BatchSize> Subject for Tickets<S> {
    fn act(&self, action: &Action) {
        let (how, section, then) = match *action {
            Action::Visit { how, section, then, .. } => (how, section, then),
            Action::Away(section) => return stay(section),
            Action::Cancel(token) => return self.tokens[token].cancel(),
            Action::Priority(_) => return,
        };
        let me = crate::thread();
        let over = || self.to_come.set(self.to_come.get() - 1);
        self.waiters.borrow_mut()[me].asks = how != How::Try;
        let taken = match how {
            How::Try => self.lock.try_lock(),
            How::For(_) | How::Cancellable(_) => {
                self.lock.lock_with(how.wait(&self.tokens)).is_ok()
            }
            How::Wait if self.backoff => {
                self.lock.lock_with_backoff();
                true
            }
            How::Wait => {
                self.lock.lock();
                true
            }
        };
        if !taken {
            let waiter = &mut self.waiters.borrow_mut()[me];
            let given_up = waiter.ticket.or(waiter.given_up);
            *waiter = Waiter { given_up, ..Waiter::default() };
            return over();
        }
        self.count_overtaken(me);
        self.room.enter(true);
        let entry = self.room.written.get();
        stay(section);
        self.room.leave(true);
        over();
        // SAFETY: taken above.
        unsafe {
            match then {
                Then::LeaveFair => self.lock.unlock_fair(),
                _ => self.lock.unlock(),
            }
        }
        let last = self.to_come.get() == 0 && self.room.written.get() == entry;
        self.gone.set(self.gone.get() || last);
    }

    fn check(&self, ran: usize) -> Result<(), Complaint> {
        self.room.complaints.check()?;
        if self.room.writers.get() > 0 && !self.lock.is_locked() {
            return Err(Complaint::new(FailureKind::Word, "the lock does not know of its holder"));
        }
        let (tail, head) = self.lock.tickets();
        let mut waiters = self.waiters.borrow_mut();
        if tail != self.tail.replace(tail) && tail != 0 && waiters[ran].asks {
            self.taken.set(self.taken.get() + 1);
            waiters[ran].ticket = Some(self.taken.get());
        }
        // A thread has one ticket to wait with, and one given up.
        if tail.wrapping_sub(head) as usize > 2 * waiters.len() {
            return Err(Complaint::new(
                FailureKind::Word,
                "there are more tickets than threads have",
            ));
        }
        Ok(())
    }

    fn check_idle(&self) -> Result<(), Complaint> {
        self.lock.check_idle().map_err(|what| Complaint::new(FailureKind::Remains, what))
    }

    fn is_gone(&self) -> bool {
        self.gone.get()
    }

    fn state(&self) -> String {
        let (tail, head) = self.lock.tickets();
        let locked = if self.lock.is_locked() { "locked" } else { "free" };
        format!("{locked}, {head} of {tail} tickets served")
    }

    fn field_at(&self, address: usize) -> Option<&'static str> {
        self.lock.field_at(address)
    }
}

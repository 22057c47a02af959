//! The reader/writer lock, under every policy.

use std::cell::Cell;
use std::time::Duration;

use fairlock::rwsem::{
    Discipline, Percent, Policy, PublishedPolicy, ReaderSpin, RwSem, TenurePolicy,
};
use fairlock::wait::CancelToken;

use super::ranks::Ranks;
use super::{Complaint, Room, Subject, SubjectKind, stay};
use crate::inside::set_priority;
use crate::platform::Sim;
use crate::tester::failure::Kind;
use crate::tester::script::{Abilities, Action, How, Script, TOKENS, Then};

macro_rules! kind {
    ($name:literal, $about:literal, $policy:expr) => {
        SubjectKind {
            name: $name,
            about: $about,
            can: Abilities {
                shared: true,
                timed: true,
                fair: true,
                ranges: false,
                upgrades: true,
                priorities: $policy.priorities(),
            },
            make: |script| Box::new(Sem::new($policy, script)),
        }
    };
}

/// Tenures that are as short as possible.
const BRIEF: Policy = Policy::tenure(TenurePolicy {
    aim: Duration::ZERO,
    budget: Percent::new(100).unwrap(),
    ..TenurePolicy::DEFAULT
});

pub(in crate::tester) const KINDS: &[SubjectKind] = &[
    kind!("rwsem:default", "RwSem, Policy::DEFAULT", Policy::DEFAULT),
    kind!("rwsem:brief-tenure", "RwSem, tenures as short as can be", BRIEF),
    kind!("rwsem:unfair", "RwSem, Policy::UNFAIR", Policy::UNFAIR),
    kind!("rwsem:handoff", "RwSem, Policy::HANDOFF", Policy::HANDOFF),
    kind!("rwsem:no-reader-spin", "RwSem, Policy::NO_READER_SPIN", Policy::NO_READER_SPIN),
    kind!("rwsem:writer-phase", "RwSem, Policy::WRITER_PHASE", Policy::WRITER_PHASE),
    kind!(
        "rwsem:soon",
        "RwSem, Policy::WRITER_PHASE with handoff after 2 us, one spinning reader",
        Policy::published(PublishedPolicy {
            handoff_after: Some(Duration::from_micros(2)),
            reader_spin: ReaderSpin::One,
            ..PublishedPolicy::WRITER_PHASE
        })
    ),
    kind!(
        "rwsem:immediate",
        "RwSem, Policy::HANDOFF with handoff at once",
        Policy::published(PublishedPolicy {
            handoff_after: Some(Duration::ZERO),
            ..PublishedPolicy::HANDOFF
        })
    ),
    kind!(
        "rwsem:always-spin",
        "RwSem, Policy::HANDOFF with readers that spin for readers too",
        Policy::published(PublishedPolicy {
            reader_spin: ReaderSpin::Always,
            ..PublishedPolicy::HANDOFF
        })
    ),
    kind!(
        "rwsem:adaptive-spin",
        "RwSem, Policy::HANDOFF with adaptive reader spinning",
        Policy::published(PublishedPolicy {
            reader_spin: ReaderSpin::Adaptive,
            ..PublishedPolicy::HANDOFF
        })
    ),
    kind!(
        "rwsem:adaptive-soon",
        "RwSem, the same with handoff after 2 us",
        Policy::published(PublishedPolicy {
            handoff_after: Some(Duration::from_micros(2)),
            reader_spin: ReaderSpin::Adaptive,
            ..PublishedPolicy::HANDOFF
        })
    ),
    kind!(
        "rwsem:priorities",
        "RwSem, Policy::DEFAULT with real-time priorities",
        Policy::DEFAULT.with_priorities()
    ),
    kind!(
        "rwsem:brief-priorities",
        "RwSem, tenures as short as can be, with real-time priorities",
        BRIEF.with_priorities()
    ),
    kind!(
        "rwsem:published-priorities",
        "RwSem, Policy::WRITER_PHASE with real-time priorities",
        Policy::WRITER_PHASE.with_priorities()
    ),
];

struct Sem {
    lock: RwSem<Sim>,
    tokens: [CancelToken<Sim>; TOKENS],
    room: Room,
    ranks: Ranks,
    /// How many visits are not over. A visit does not count that only has to return from a release
    /// after which the lock may be freed.
    to_return: Cell<usize>,
    /// A call has returned in the current step.
    returned: Cell<bool>,
    gone: Cell<bool>,
}

impl Sem {
    fn new(policy: Policy, script: &Script) -> Self {
        let visits = script.iter().flatten();
        Self {
            lock: RwSem::new(policy),
            tokens: std::array::from_fn(|_| CancelToken::new()),
            room: Room::default(),
            ranks: Ranks::new(script.len()),
            to_return: Cell::new(visits.filter(|(_, a)| matches!(a, Action::Visit { .. })).count()),
            returned: Cell::new(false),
            gone: Cell::new(false),
        }
    }

    /// What `RwSem::unlock_write` promises: the next owner may free the lock.
    fn leaves_for_good(&self, writes: bool) -> bool {
        writes && matches!(self.lock.policy().discipline(), Discipline::Tenure(_))
    }

    /// A visit is over, or need not return any more.
    fn over(&self) {
        self.to_return.set(self.to_return.get() - 1);
    }

    fn acquire(&self, writes: bool, how: How, then: Then) -> bool {
        let upgrades = then == Then::Upgrade;
        // An upgrade is waited for on the writers' side.
        self.ranks.ask(writes || upgrades, how);
        let had =
            if upgrades { self.acquire_upgradable(how) } else { self.try_acquire(writes, how) };
        self.ranks.answer(had);
        had
    }

    fn try_acquire(&self, writes: bool, how: How) -> bool {
        let lock = &self.lock;
        let until = |ns| crate::now() + ns;
        match (how, writes) {
            (How::Wait, true) => lock.write(),
            (How::Wait, false) => lock.read(),
            (How::Try, true) => return lock.try_write(),
            (How::Try, false) => return lock.try_read(),
            (How::For(ns), true) => return lock.write_until(until(ns)).is_ok(),
            (How::For(ns), false) => return lock.read_until(until(ns)).is_ok(),
            (How::Cancellable(token), true) => {
                return lock.write_cancellable(&self.tokens[token]).is_ok();
            }
            (How::Cancellable(token), false) => {
                return lock.read_cancellable(&self.tokens[token]).is_ok();
            }
        }
        true
    }

    fn acquire_upgradable(&self, how: How) -> bool {
        let lock = &self.lock;
        match how {
            How::Wait => {
                lock.upgradable_read();
                true
            }
            How::Try => lock.try_upgradable_read(),
            How::For(ns) => lock.upgradable_read_until(crate::now() + ns).is_ok(),
            How::Cancellable(token) => {
                lock.upgradable_read_cancellable(&self.tokens[token]).is_ok()
            }
        }
    }

    /// The upgradable reader becomes the writer. Returns whether it could.
    fn upgrade(&self, how: How) -> bool {
        let lock = &self.lock;
        // SAFETY: held upgradably.
        self.room.upgrade(|| unsafe {
            match how {
                How::Wait => {
                    lock.upgrade();
                    true
                }
                How::Try => lock.try_upgrade(),
                How::For(ns) => lock.upgrade_until(crate::now() + ns).is_ok(),
                How::Cancellable(token) => lock.upgrade_cancellable(&self.tokens[token]).is_ok(),
            }
        })
    }

    /// Leaves as an upgradable reader that could not upgrade: half of them as a mere reader.
    fn leave_upgradable(&self, how: How) {
        self.room.upgradable(false);
        if how == How::Try {
            // SAFETY: held upgradably.
            unsafe { self.lock.downgrade_upgradable() };
            return self.release(false, false);
        }
        self.room.leave(false);
        // SAFETY: held upgradably.
        unsafe { self.lock.unlock_upgradable() }
    }

    /// Reads again, which needs no waiting, however it is asked for.
    fn read_again(&self, how: How) {
        let had = match how {
            How::Wait => {
                self.lock.read_recursive();
                true
            }
            How::Try => self.lock.try_read_recursive(),
            How::For(ns) => self.lock.read_recursive_until(crate::now() + ns).is_ok(),
            How::Cancellable(token) => {
                self.lock.read_recursive_cancellable(&self.tokens[token]).is_ok()
            }
        };
        if !had {
            self.room.complain(Kind::Order, "a reader could not read again".into());
        }
    }

    /// Releases what was entered.
    fn release(&self, writes: bool, fair: bool) {
        self.room.leave(writes);
        // SAFETY: entered after it was taken.
        unsafe {
            match (writes, fair) {
                (true, true) => self.lock.unlock_write_fair(),
                (true, false) => self.lock.unlock_write(),
                (false, true) => self.lock.unlock_read_fair(),
                (false, false) => self.lock.unlock_read(),
            }
        }
    }
}

impl Subject for Sem {
    fn act(&self, action: &Action) {
        match *action {
            Action::Cancel(token) => self.tokens[token].cancel(),
            Action::Away(section) => stay(section),
            Action::Priority(priority) => set_priority(priority),
            Action::Visit { mut writes, how, section, then, .. } => {
                if !self.acquire(writes, how, then) {
                    self.over();
                    return self.returned.set(true);
                }
                self.room.enter(writes);
                stay(section);
                match then {
                    Then::Downgrade => {
                        // SAFETY: held for writing.
                        self.room.downgrade(|| unsafe { self.lock.downgrade() });
                        writes = false;
                        stay(section);
                    }
                    Then::DownAndUp => {
                        // SAFETY: held for writing.
                        self.room.downgrade(|| unsafe { self.lock.downgrade_to_upgradable() });
                        self.room.upgradable(true);
                        stay(section);
                        self.upgrade(How::Wait);
                        stay(section);
                    }
                    Then::Upgrade => {
                        self.room.upgradable(true);
                        stay(section);
                        if !self.upgrade(how) {
                            self.leave_upgradable(how);
                            self.over();
                            return self.returned.set(true);
                        }
                        writes = true;
                        stay(section);
                    }
                    Then::ReadAgain => {
                        self.read_again(how);
                        self.room.enter(false);
                        stay(section);
                        self.release(false, false);
                    }
                    _ => {}
                }
                if self.leaves_for_good(writes) {
                    self.over();
                    self.release(writes, then == Then::LeaveFair);
                } else {
                    self.release(writes, then == Then::LeaveFair);
                    self.over();
                }
                self.returned.set(true);
            }
        }
    }

    fn check(&self, _ran: usize) -> Result<(), Complaint> {
        self.room.check()?;
        // SAFETY: between two steps nobody runs.
        self.ranks.look(|queued| unsafe { self.lock.for_each_queued(queued) });
        self.ranks.check()?;
        let free = || {
            let now = self.lock.snapshot();
            !now.writer && now.readers == 0 && !now.waiters
        };
        if self.returned.take() && self.to_return.get() == 0 && free() {
            self.gone.set(true);
        }
        let (readers, writers) = (self.room.readers.get(), self.room.writers.get());
        let readers = readers - usize::from(self.room.upgrading.get());
        // SAFETY: between two steps nobody runs. Twice as many readers as threads:
        // each may read again.
        unsafe { self.lock.check(readers, writers > 0, 16) }
            .map_err(|what| Complaint::new(Kind::Word, what))
    }

    fn check_idle(&self) -> Result<(), Complaint> {
        // SAFETY: nobody runs.
        unsafe { self.lock.check_idle() }.map_err(|what| Complaint::new(Kind::Remains, what))
    }

    fn is_gone(&self) -> bool {
        self.gone.get()
    }

    fn state(&self) -> String {
        self.lock.snapshot().to_string()
    }

    fn field_at(&self, address: usize) -> Option<&'static str> {
        self.lock.field_at(address)
    }
}

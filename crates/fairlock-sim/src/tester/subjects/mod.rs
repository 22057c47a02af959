//! Locks under test: how to use them, what must hold of them at any time, and what may be left of
//! them at the end.

mod condvar;
mod range;
mod ranks;
mod rwsem;
mod ticket;

use std::cell::{Cell, RefCell};

use super::failure::FailureKind;
use super::script::{Abilities, Action, Script, Section};
use crate::{busy, sleep};

/// A lock, and what is known of the threads in it.
pub(super) trait Subject {
    /// The calling simulated thread makes this action.
    fn act(&self, action: &Action);

    /// What is wrong after a step of thread `ran`, if something is.
    fn check(&self, ran: usize) -> Result<(), Complaint>;

    /// What is left when all threads have ended.
    fn check_idle(&self) -> Result<(), Complaint>;

    /// Whether a thread waits for the lock, and nobody holds it; of locks at which nobody may sleep then.
    fn is_free_beside_waiters(&self) -> bool {
        false
    }

    /// Whether the lock may be freed, as nobody will ask for it any more, and its last holder has
    /// released it: then nobody may touch it.
    fn is_gone(&self) -> bool {
        false
    }

    /// What the specification (docs/spec) says of the lock, whose threads have these hints, after a step of thread `ran`;
    /// none of a lock that it is not about.
    fn observe(&self, _ran: usize, _thread: &dyn Fn(usize) -> Option<usize>) -> Option<Observed> {
        None
    }

    /// Which part of that depends on what is at this address.
    fn part_at(&self, address: usize) -> Option<usize> {
        (self.field_at(address) == Some("word")).then_some(0)
    }

    /// What the thread is about in the words of the specification, if that is more than to read or to write.
    fn errand(&self, _thread: usize) -> Option<char> {
        None
    }

    /// What the lock looks like, for a timeline.
    fn state(&self) -> String;

    /// What is at an address, if that is in the lock, or in what it has.
    fn field_at(&self, address: usize) -> Option<&'static str>;

    /// Whether that is freed with the lock.
    fn is_in_lock(&self, address: usize) -> bool {
        self.field_at(address).is_some()
    }
}

/// A lock between two steps.
pub(super) struct Observed {
    /// As docs/spec/trace.h says; none while somebody changes a queue.
    pub(super) state: Option<String>,
    /// Parts of that, each of which changes by itself.
    pub(super) parts: Vec<String>,
    /// The threads that are queued, of a lock whose waiters the specification has asleep.
    pub(super) queued: Option<Vec<usize>>,
    /// Where that is none: whether a wake-up is an event.
    pub(super) wakes: bool,
}

/// What is wrong.
#[derive(Clone, Debug)]
pub(super) struct Complaint {
    pub(super) kind: FailureKind,
    pub(super) what: String,
}

impl Complaint {
    fn new(kind: FailureKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

/// What was seen to be wrong since the last step.
#[derive(Default)]
struct Complaints(RefCell<Option<Complaint>>);

impl Complaints {
    fn note(&self, kind: FailureKind, what: impl Into<String>) {
        *self.0.borrow_mut() = Some(Complaint::new(kind, what));
    }

    fn check(&self) -> Result<(), Complaint> {
        self.0.borrow().clone().map_or(Ok(()), Err)
    }
}

/// A kind of lock under test.
pub(super) struct SubjectKind {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) can: Abilities,
    /// A lock for the threads of a script.
    pub(super) make: fn(&Script) -> Box<dyn Subject>,
}

/// All of them.
pub(super) const ALL: &[&[SubjectKind]] =
    &[rwsem::KINDS, ticket::KINDS, condvar::KINDS, range::KINDS];

/// Spends the time inside. Others can be there at the same time, however short it is.
fn stay(section: Section) {
    match section {
        Section::Busy(ns) => busy(ns),
        Section::Sleep(ns) => sleep(ns),
    }
}

/// Who is inside: entered after the lock was taken, left before it is released.
#[derive(Default)]
struct Room {
    readers: Cell<usize>,
    writers: Cell<usize>,
    /// Readers that may become the writer.
    upgradable: Cell<usize>,
    /// One of them is about to: at some time from then on the lock counts it no longer.
    upgrading: Cell<bool>,
    /// How often a writer has come.
    written: Cell<u64>,
    complaints: Complaints,
}

impl Room {
    fn enter(&self, writes: bool) {
        let inside = if writes { &self.writers } else { &self.readers };
        inside.set(inside.get() + 1);
        self.written.set(self.written.get() + u64::from(writes));
        if self.writers.get() > 1 || (self.writers.get() == 1 && self.readers.get() > 0) {
            let (readers, writers) = (self.readers.get(), self.writers.get());
            let what = format!("{readers} readers and {writers} writers are inside together");
            self.complaints.note(FailureKind::Exclusion, what);
        }
    }

    fn leave(&self, writes: bool) {
        let inside = if writes { &self.writers } else { &self.readers };
        inside.set(inside.get() - 1);
    }

    /// The writer inside becomes a reader by `downgrade`, which lets no writer in.
    fn downgrade(&self, downgrade: impl FnOnce()) {
        self.leave(true);
        let before = self.written.get();
        downgrade();
        self.enter(false);
        if self.written.get() != before {
            let what = "a writer was inside in the middle of a downgrade";
            self.complaints.note(FailureKind::Exclusion, what);
        }
    }

    /// One of the readers inside is upgradable from now on, or is not any more.
    fn upgradable(&self, may: bool) {
        self.upgradable.set(if may {
            self.upgradable.get() + 1
        } else {
            self.upgradable.get() - 1
        });
        if self.upgradable.get() > 1 {
            self.complaints
                .note(FailureKind::Exclusion, "two upgradable readers are inside together");
        }
    }

    /// The upgradable reader inside becomes the writer by `upgrade`, which lets no other writer in.
    /// Returns whether it could.
    fn upgrade(&self, upgrade: impl FnOnce() -> bool) -> bool {
        let before = self.written.get();
        self.upgrading.set(true);
        let upgraded = upgrade();
        self.upgrading.set(false);
        if self.written.get() != before {
            let what = "a writer was inside in the middle of an upgrade";
            self.complaints.note(FailureKind::Exclusion, what);
        }
        if upgraded {
            self.upgradable(false);
            self.leave(false);
            self.enter(true);
        }
        upgraded
    }
}

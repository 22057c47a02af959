//! The reader/writer locks: the default's, and that of the proposals.

use std::cell::Cell;
use std::ops::Deref;
use std::time::Duration;

use fairlock::lock::{Percent, Policy, RawRwLock, Slots, Snapshot};
use fairlock::platform::PooledPlatform;
use fairlock::published::{self, ReaderSpin};
use fairlock::wait::CancelToken;

use super::ranks::Ranks;
use super::{Complaint, Observed, Room, Subject, SubjectKind, stay};
use crate::busy;
use crate::inside::set_priority;
use crate::platform::begin_locks;
use crate::sim::Sim;
use crate::tester::failure::FailureKind;
use crate::tester::script::{Abilities, Action, How, MOST_THREADS, Script, TOKENS, Then};

macro_rules! kind {
    ($name:literal, $about:literal, $policy:expr) => {
        kind!($name, $about, $policy, Before::Nothing)
    };
    ($name:literal, $about:literal, $policy:expr, $before:expr) => {
        kind!($name, $about, upgrades: true, priorities: $policy.priorities, TwoLocks::new($policy, $before))
    };
    ($name:literal, $about:literal, upgrades: $upgrades:expr, priorities: $priorities:expr, $lock:expr) => {
        SubjectKind {
            name: $name,
            about: $about,
            can: Abilities {
                shared: true,
                upgrades: $upgrades,
                priorities: $priorities,
                ..Abilities::MUTEX
            },
            make: |script| Box::new(Sem::new($lock, script)),
        }
    };
}

/// A lock of the proposals.
macro_rules! published {
    ($name:literal, $about:literal, $policy:expr) => {
        kind!($name, $about, upgrades: false, priorities: false, {
            use published::Policy;
            published::RwSem::new($policy)
        })
    };
}

/// Tenures that are as short as possible.
const BRIEF: Policy =
    Policy { aim: Duration::ZERO, budget: Percent::new(100).unwrap(), ..Policy::DEFAULT };

pub(in crate::tester) const KINDS: &[SubjectKind] = &[
    kind!("rwsem:default", "RwLock, Policy::DEFAULT", Policy::DEFAULT),
    kind!(
        "rwsem:visible",
        "RwLock: its readers are visible before each visit",
        Policy::DEFAULT,
        Before::Shows
    ),
    kind!(
        "rwsem:two-locks",
        "RwLock, and another one that takes the slot which it gives back",
        Policy::DEFAULT,
        Before::Trims
    ),
    kind!("rwsem:brief-tenure", "RwLock, tenures as short as can be", BRIEF),
    published!("rwsem:unfair", "published::RwSem, Policy::UNFAIR", Policy::UNFAIR),
    published!("rwsem:handoff", "published::RwSem, Policy::HANDOFF", Policy::HANDOFF),
    published!(
        "rwsem:no-reader-spin",
        "published::RwSem, Policy::NO_READER_SPIN",
        Policy::NO_READER_SPIN
    ),
    published!(
        "rwsem:writer-phase",
        "published::RwSem, Policy::WRITER_PHASE",
        Policy::WRITER_PHASE
    ),
    published!(
        "rwsem:soon",
        "published::RwSem, Policy::WRITER_PHASE with handoff after 2 us, one spinning reader",
        Policy {
            handoff_after: Some(Duration::from_micros(2)),
            reader_spin: ReaderSpin::One,
            ..Policy::WRITER_PHASE
        }
    ),
    published!(
        "rwsem:immediate",
        "published::RwSem, Policy::HANDOFF with handoff at once",
        Policy { handoff_after: Some(Duration::ZERO), ..Policy::HANDOFF }
    ),
    published!(
        "rwsem:always-spin",
        "published::RwSem, Policy::HANDOFF with readers that spin for readers too",
        Policy { reader_spin: ReaderSpin::Always, ..Policy::HANDOFF }
    ),
    kind!(
        "rwsem:priorities",
        "RwLock, Policy::DEFAULT with real-time priorities",
        Policy::DEFAULT.with_priorities()
    ),
    kind!(
        "rwsem:brief-priorities",
        "RwLock, tenures as short as can be, with real-time priorities",
        BRIEF.with_priorities()
    ),
];

/// What the scripts do with a lock, and how it is looked at.
trait Lock {
    /// Before a visit.
    fn prepare(&self) {}

    fn acquire(&self, writes: bool, how: How, tokens: &[CancelToken<Sim>]) -> bool;
    /// Reads while the thread reads.
    fn read_again(&self, how: How, tokens: &[CancelToken<Sim>]) -> bool;
    /// # Safety
    /// The lock is held in this mode.
    unsafe fn release(&self, writes: bool, fair: bool);
    /// # Safety
    /// The lock is held for writing.
    unsafe fn downgrade(&self);
    /// The lock as one with upgrades. No script asks these of another one.
    fn upgrades(&self) -> &RawRwLock<Sim> {
        unreachable!()
    }

    /// Whether a writer's release lets the next owner free the lock.
    const MAY_BE_FREED: bool = true;
    fn is_free(&self) -> bool;
    /// Calls `f` with the hint of each queued thread and a letter for its state; false if that cannot be told.
    fn for_each_queued(&self, f: impl FnMut(usize, char)) -> bool;
    /// What is wrong, where so many readers, or a writer, are known to be inside.
    fn check(&self, readers: usize, writer: bool) -> Result<(), &'static str>;
    fn check_idle(&self) -> Result<(), &'static str>;
    /// As of the subject.
    fn observe(&self, _thread: &dyn Fn(usize) -> Option<usize>) -> Option<Observed> {
        None
    }
    fn state(&self) -> String;
    fn field_at(&self, address: usize) -> Option<&'static str>;
    fn is_in_lock(&self, address: usize) -> bool {
        self.field_at(address).is_some()
    }
}

/// Waits, tries, or waits until the end that `how` is of; returns whether there was success.
macro_rules! take {
    ($lock:expr, $how:expr, $tokens:expr, $wait:ident, $attempt:ident, $wait_with:ident) => {
        match $how {
            How::Wait => {
                $lock.$wait();
                true
            }
            How::Try => $lock.$attempt(),
            how => $lock.$wait_with(how.wait($tokens)).is_ok(),
        }
    };
}

/// What scripts do with a lock, and testers see of it, by its own methods.
macro_rules! own {
    ($lock:ty) => {
        fn acquire(&self, writes: bool, how: How, tokens: &[CancelToken<Sim>]) -> bool {
            if writes {
                take!(self, how, tokens, write, try_write, write_with)
            } else {
                take!(self, how, tokens, read, try_read, read_with)
            }
        }

        fn read_again(&self, how: How, tokens: &[CancelToken<Sim>]) -> bool {
            take!(self, how, tokens, read_recursive, try_read_recursive, read_recursive_with)
        }

        unsafe fn release(&self, writes: bool, fair: bool) {
            // SAFETY: the caller's promise, here and below.
            unsafe {
                match (writes, fair) {
                    (true, true) => self.unlock_write_fair(),
                    (true, false) => self.unlock_write(),
                    (false, true) => self.unlock_read_fair(),
                    (false, false) => self.unlock_read(),
                }
            }
        }

        unsafe fn downgrade(&self) {
            // SAFETY: as above.
            unsafe { <$lock>::downgrade(self) }
        }

        fn for_each_queued(&self, f: impl FnMut(usize, char)) -> bool {
            // SAFETY: between two steps nobody runs.
            unsafe { <$lock>::for_each_queued(self, f) }
        }

        fn state(&self) -> String {
            <$lock>::snapshot(self).to_string()
        }

        fn field_at(&self, address: usize) -> Option<&'static str> {
            <$lock>::field_at(self, address)
        }
    };
}

/// Twice as many readers as threads: each may read again.
const READERS: usize = 2 * MOST_THREADS as usize;

impl Lock for published::RwSem<Sim> {
    own!(published::RwSem<Sim>);

    const MAY_BE_FREED: bool = false;

    fn is_free(&self) -> bool {
        let now = self.snapshot();
        !now.writer && now.readers == 0 && !now.waiters
    }

    fn check(&self, readers: usize, writer: bool) -> Result<(), &'static str> {
        // SAFETY: between two steps nobody runs.
        unsafe { Self::check(self, readers, writer, READERS) }
    }

    fn check_idle(&self) -> Result<(), &'static str> {
        // SAFETY: nobody runs.
        unsafe { Self::check_idle(self) }
    }
}

/// What becomes of the default lock before a visit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// It becomes visible if nobody uses it.
    Shows,
    /// It gives its slot back if nobody uses it, and so does the other lock, which is waited for now and then; and the
    /// visit gives it back, if nobody waits.
    Trims,
}

/// The default lock, and another one.
struct TwoLocks {
    lock: RawRwLock<Sim>,
    other: RawRwLock<Sim>,
    before: Before,
}

impl TwoLocks {
    fn new(policy: Policy, before: Before) -> Self {
        // SAFETY: a trial is on one thread of the system, and its lock is used in no other.
        unsafe { begin_locks() };
        let [lock, other] = [(); 2].map(|()| RawRwLock::new(policy));
        Self { lock, other, before }
    }
}

impl Deref for TwoLocks {
    type Target = RawRwLock<Sim>;

    fn deref(&self) -> &RawRwLock<Sim> {
        &self.lock
    }
}

impl Lock for TwoLocks {
    own!(RawRwLock<Sim>);

    fn upgrades(&self) -> &RawRwLock<Sim> {
        &self.lock
    }

    fn prepare(&self) {
        match self.before {
            Before::Nothing => {}
            Before::Shows => _ = self.lock.show_readers(),
            Before::Trims => {
                self.lock.trim();
                self.other.write();
                busy(OTHER_NS);
                // SAFETY: just taken.
                unsafe { self.other.unlock_write() };
                self.other.trim();
                Slots::<Sim>::seem_calm();
            }
        }
    }

    /// Slots are never freed.
    fn is_in_lock(&self, address: usize) -> bool {
        self.lock.field_at(address) == Some("word")
    }

    fn is_free(&self) -> bool {
        !self.lock.is_locked() && !self.lock.has_waiters()
    }

    fn check(&self, readers: usize, writer: bool) -> Result<(), &'static str> {
        // SAFETY: between two steps nobody runs.
        unsafe { self.lock.check(readers, writer, READERS) }?;
        if readers > 0 && !self.lock.is_locked() {
            return Err("nobody knows of the readers inside");
        }
        // SAFETY: as above.
        unsafe { self.other.check(0, false, READERS) }
    }

    fn check_idle(&self) -> Result<(), &'static str> {
        let stays = self.lock.policy() != Policy::DEFAULT;
        for lock in [&self.lock, &self.other] {
            // SAFETY: nobody runs.
            unsafe { lock.check_idle() }?;
            if lock.is_locked() {
                return Err("the lock is not free after everybody has left");
            }
            if !lock.trim() && !stays {
                return Err("the lock keeps its slot");
            }
        }
        let kept = [&self.lock, &self.other].iter().filter(|lock| lock.has_slot()).count();
        if Sim::slots().in_use() as usize != kept {
            return Err("a slot is no lock's, and was not given back");
        }
        Ok(())
    }

    /// As docs/spec/lock.pml has it.
    fn observe(&self, thread: &dyn Fn(usize) -> Option<usize>) -> Option<Observed> {
        let mut queue = String::new();
        let mut queued = vec![];
        let knows = Lock::for_each_queued(self, |hint, state| {
            if let Some(thread) = thread(hint) {
                queue.push_str(&format!("{thread}{state}"));
                queued.push(thread);
            }
        });
        if queue.is_empty() {
            queue.push('-');
        }
        let Snapshot { writer, readers, waiters, closed, readers_turn, wake_next, .. } =
            self.snapshot();
        let [waiters, closed, readers_turn, wake_next] =
            [waiters, closed, readers_turn, wake_next].map(u8::from);
        let word =
            format!("{} {readers} {waiters} {closed} {readers_turn} {wake_next}", u8::from(writer));
        let state = format!("{word} {queue}");
        Some(Observed {
            state: knows.then(|| state.clone()),
            parts: vec![state],
            queued: Some(queued),
            wakes: false,
        })
    }
}

/// For how long the other lock is held, in ns.
const OTHER_NS: u64 = 200;

struct Sem<L> {
    lock: L,
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

impl<L: Lock> Sem<L> {
    fn new(lock: L, script: &Script) -> Self {
        let visits = script.iter().flatten();
        Self {
            lock,
            tokens: std::array::from_fn(|_| CancelToken::new()),
            room: Room::default(),
            ranks: Ranks::new(script.len()),
            to_return: Cell::new(visits.filter(|(_, a)| matches!(a, Action::Visit { .. })).count()),
            returned: Cell::new(false),
            gone: Cell::new(false),
        }
    }

    /// What `unlock_write` promises: the next owner may free the lock.
    fn leaves_for_good(&self, writes: bool) -> bool {
        writes && L::MAY_BE_FREED
    }

    /// A visit is over, or need not return any more.
    fn over(&self) {
        self.to_return.set(self.to_return.get() - 1);
    }

    fn acquire(&self, writes: bool, how: How, then: Then) -> bool {
        let upgrades = then == Then::Upgrade;
        // An upgrade is waited for on the writers' side.
        self.ranks.ask(writes || upgrades, how);
        let had = if upgrades {
            let lock = self.lock.upgrades();
            let tokens = &self.tokens;
            take!(lock, how, tokens, upgradable_read, try_upgradable_read, upgradable_read_with)
        } else {
            self.lock.acquire(writes, how, &self.tokens)
        };
        self.ranks.answer(had);
        had
    }

    /// The upgradable reader becomes the writer. Returns whether it could.
    fn upgrade(&self, how: How) -> bool {
        let lock = self.lock.upgrades();
        // SAFETY: held upgradably.
        let upgrade =
            || unsafe { take!(lock, how, &self.tokens, upgrade, try_upgrade, upgrade_with) };
        self.room.upgrade(upgrade)
    }

    /// Leaves as an upgradable reader that could not upgrade: half of them as a mere reader.
    fn leave_upgradable(&self, how: How) {
        self.room.upgradable(false);
        if how == How::Try {
            // SAFETY: held upgradably.
            unsafe { self.lock.upgrades().downgrade_upgradable() };
            return self.release(false, false);
        }
        self.room.leave(false);
        // SAFETY: held upgradably.
        unsafe { self.lock.upgrades().unlock_upgradable() }
    }

    /// Reads again, which needs no waiting, however it is asked for.
    fn read_again(&self, how: How) {
        if !self.lock.read_again(how, &self.tokens) {
            self.room.complaints.note(FailureKind::Order, "a reader could not read again");
        }
    }

    /// Releases what was entered.
    fn release(&self, writes: bool, fair: bool) {
        self.room.leave(writes);
        // SAFETY: entered after it was taken.
        unsafe { self.lock.release(writes, fair) }
    }
}

impl<L: Lock> Subject for Sem<L> {
    fn act(&self, action: &Action) {
        match *action {
            Action::Cancel(token) => self.tokens[token].cancel(),
            Action::Away(section) => stay(section),
            Action::Priority(priority) => set_priority(priority),
            Action::Visit { mut writes, how, section, then, .. } => {
                self.lock.prepare();
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
                        self.room.downgrade(|| unsafe {
                            self.lock.upgrades().downgrade_to_upgradable()
                        });
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
        self.room.complaints.check()?;
        self.ranks.look(|queued| self.lock.for_each_queued(|hint, _| queued(hint)));
        self.ranks.check()?;
        if self.returned.take() && self.to_return.get() == 0 && self.lock.is_free() {
            self.gone.set(true);
        }
        let (readers, writers) = (self.room.readers.get(), self.room.writers.get());
        let readers = readers - usize::from(self.room.upgrading.get());
        self.lock
            .check(readers, writers > 0)
            .map_err(|what| Complaint::new(FailureKind::Word, what))
    }

    fn check_idle(&self) -> Result<(), Complaint> {
        self.lock.check_idle().map_err(|what| Complaint::new(FailureKind::Remains, what))
    }

    fn is_gone(&self) -> bool {
        self.gone.get()
    }

    fn is_free_beside_waiters(&self) -> bool {
        let inside = self.room.readers.get() + self.room.writers.get();
        inside == 0 && self.ranks.somebody_waits()
    }

    fn observe(&self, _: usize, thread: &dyn Fn(usize) -> Option<usize>) -> Option<Observed> {
        self.lock.observe(thread)
    }

    fn state(&self) -> String {
        self.lock.state()
    }

    fn field_at(&self, address: usize) -> Option<&'static str> {
        self.lock.field_at(address)
    }

    fn is_in_lock(&self, address: usize) -> bool {
        self.lock.is_in_lock(address)
    }
}

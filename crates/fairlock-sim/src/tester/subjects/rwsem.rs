//! The reader/writer locks: the default's full one, the thin one, and that of the proposals.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::time::Duration;

use fairlock::platform::PooledPlatform;
use fairlock::published::{self, ReaderSpin};
use fairlock::rwsem::{Percent, Policy, RwSem, Snapshot};
use fairlock::thin::{SlotSnapshot, ThinRwSem, ThinSnapshot};
use fairlock::wait::{CancelToken, Wait, WaitError};

use super::ranks::Ranks;
use super::{Complaint, Observed, Room, Subject, SubjectKind, stay};
use crate::inside::set_priority;
use crate::platform::begin_thin_locks;
use crate::sim::Sim;
use crate::tester::failure::Kind;
use crate::tester::script::{Abilities, Action, How, MOST_THREADS, Script, TOKENS, Then};

macro_rules! kind {
    ($name:literal, $about:literal, $policy:expr) => {
        kind!($name, $about, $policy, RwSem::new($policy))
    };
    ($name:literal, $about:literal, $policy:expr, $lock:expr) => {
        kind!($name, $about, upgrades: true, priorities: $policy.priorities, $lock)
    };
    ($name:literal, $about:literal, upgrades: $upgrades:expr, priorities: $priorities:expr, $lock:expr) => {
        SubjectKind {
            name: $name,
            about: $about,
            can: Abilities {
                shared: true,
                timed: true,
                fair: true,
                ranges: false,
                upgrades: $upgrades,
                priorities: $priorities,
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
    kind!("rwsem:default", "RwSem, Policy::DEFAULT", Policy::DEFAULT),
    kind!(
        "rwsem:thin",
        "RwLock: thin while nobody waits",
        Policy::DEFAULT,
        Thin::new(Before::Trims)
    ),
    kind!(
        "rwsem:visible",
        "RwLock: its readers are visible when it is thin",
        Policy::DEFAULT,
        Thin::new(Before::Shows)
    ),
    kind!(
        "rwsem:full",
        "RwLock: full before each visit, thin when somebody leaves it alone",
        Policy::DEFAULT,
        Thin::new(Before::Plans)
    ),
    kind!("rwsem:brief-tenure", "RwSem, tenures as short as can be", BRIEF),
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
        "RwSem, Policy::DEFAULT with real-time priorities",
        Policy::DEFAULT.with_priorities()
    ),
    kind!(
        "rwsem:brief-priorities",
        "RwSem, tenures as short as can be, with real-time priorities",
        BRIEF.with_priorities()
    ),
];

/// What the scripts do with a lock, by its own methods of the same names, and how it is looked at.
trait Lock {
    /// Before a visit.
    fn prepare(&self) {}

    fn read(&self);
    fn write(&self);
    fn read_recursive(&self);
    fn try_read(&self) -> bool;
    fn try_write(&self) -> bool;
    fn try_read_recursive(&self) -> bool;
    fn read_with(&self, wait: Wait<'_, Sim>) -> Result<(), WaitError>;
    fn write_with(&self, wait: Wait<'_, Sim>) -> Result<(), WaitError>;
    fn read_recursive_with(&self, wait: Wait<'_, Sim>) -> Result<(), WaitError>;
    unsafe fn unlock_read(&self);
    unsafe fn unlock_read_fair(&self);
    unsafe fn unlock_write(&self);
    unsafe fn unlock_write_fair(&self);
    unsafe fn downgrade(&self);

    // No script asks these of a lock that has none.
    fn upgradable_read(&self) {
        unreachable!()
    }
    fn try_upgradable_read(&self) -> bool {
        unreachable!()
    }
    fn upgradable_read_with(&self, _: Wait<'_, Sim>) -> Result<(), WaitError> {
        unreachable!()
    }
    unsafe fn unlock_upgradable(&self) {
        unreachable!()
    }
    unsafe fn downgrade_upgradable(&self) {
        unreachable!()
    }
    unsafe fn downgrade_to_upgradable(&self) {
        unreachable!()
    }
    unsafe fn upgrade(&self) {
        unreachable!()
    }
    unsafe fn try_upgrade(&self) -> bool {
        unreachable!()
    }
    unsafe fn upgrade_with(&self, _: Wait<'_, Sim>) -> Result<(), WaitError> {
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
    fn observe(&self, thread: &dyn Fn(usize) -> Option<usize>) -> Option<Observed>;
    fn part_at(&self, address: usize) -> Option<usize> {
        (self.field_at(address) == Some("word")).then_some(0)
    }
    fn errand(&self, _thread: usize) -> Option<char> {
        None
    }
    fn state(&self) -> String;
    fn field_at(&self, address: usize) -> Option<&'static str>;
}

/// The methods that are the lock's own.
macro_rules! own {
    ($lock:ty, $($name:ident($($argument:ident: $type:ty)?) $(-> $result:ty)?;)*) => {
        $(fn $name(&self $(, $argument: $type)?) $(-> $result)? {
            <$lock>::$name(self $(, $argument)?)
        })*
    };
    ($lock:ty, unsafe $($name:ident($($argument:ident: $type:ty)?) $(-> $result:ty)?;)*) => {
        $(unsafe fn $name(&self $(, $argument: $type)?) $(-> $result)? {
            // SAFETY: the caller's promise.
            unsafe { <$lock>::$name(self $(, $argument)?) }
        })*
    };
    ($lock:ty) => {
        own! { $lock,
            read();
            write();
            read_recursive();
            try_read() -> bool;
            try_write() -> bool;
            try_read_recursive() -> bool;
            read_with(wait: Wait<'_, Sim>) -> Result<(), WaitError>;
            write_with(wait: Wait<'_, Sim>) -> Result<(), WaitError>;
            read_recursive_with(wait: Wait<'_, Sim>) -> Result<(), WaitError>;
        }
        own! { $lock, unsafe
            unlock_read();
            unlock_read_fair();
            unlock_write();
            unlock_write_fair();
            downgrade();
        }
    };
    ($lock:ty, upgrades) => {
        own! { $lock,
            upgradable_read();
            try_upgradable_read() -> bool;
            upgradable_read_with(wait: Wait<'_, Sim>) -> Result<(), WaitError>;
        }
        own! { $lock, unsafe
            unlock_upgradable();
            downgrade_upgradable();
            downgrade_to_upgradable();
            upgrade();
            try_upgrade() -> bool;
            upgrade_with(wait: Wait<'_, Sim>) -> Result<(), WaitError>;
        }
    };
}

/// What testers see of a full lock.
macro_rules! full {
    ($lock:ty) => {
        fn is_free(&self) -> bool {
            let now = <$lock>::snapshot(self);
            !now.writer && now.readers == 0 && !now.waiters
        }

        fn for_each_queued(&self, f: impl FnMut(usize, char)) -> bool {
            // SAFETY: between two steps nobody runs.
            unsafe { <$lock>::for_each_queued(self, f) }
        }

        fn check(&self, readers: usize, writer: bool) -> Result<(), &'static str> {
            // SAFETY: between two steps nobody runs. Twice as many readers as threads: each may read
            // again.
            unsafe { <$lock>::check(self, readers, writer, 16) }
        }

        fn check_idle(&self) -> Result<(), &'static str> {
            // SAFETY: nobody runs.
            unsafe { <$lock>::check_idle(self) }
        }

        fn state(&self) -> String {
            <$lock>::snapshot(self).to_string()
        }

        fn field_at(&self, address: usize) -> Option<&'static str> {
            <$lock>::field_at(self, address)
        }
    };
}

impl Lock for RwSem<Sim> {
    own!(RwSem<Sim>);
    own!(RwSem<Sim>, upgrades);
    full!(RwSem<Sim>);

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
        let Snapshot { writer, readers, waiters, handoff, readers_turn, wake_next, .. } =
            RwSem::snapshot(self);
        let flags = [waiters, handoff, readers_turn, wake_next]
            .map(|flag| char::from(b'0' + u8::from(flag)));
        let [waiters, handoff, readers_turn, wake_next] = flags;
        let word = format!(
            "{} {readers} {waiters} {handoff} {readers_turn} {wake_next}",
            u8::from(writer)
        );
        let state = format!("{word} {queue}");
        Some(Observed {
            state: knows.then(|| state.clone()),
            parts: vec![state],
            queued: Some(queued),
            wakes: false,
        })
    }
}

impl Lock for published::RwSem<Sim> {
    own!(published::RwSem<Sim>);
    full!(published::RwSem<Sim>);

    const MAY_BE_FREED: bool = false;

    fn observe(&self, _: &dyn Fn(usize) -> Option<usize>) -> Option<Observed> {
        None
    }
}

/// A lock of eight bytes, and another one, which takes the slot that the first gives back, and the
/// other way round.
struct Thin {
    lock: ThinRwSem<Sim>,
    other: ThinRwSem<Sim>,
    before: Before,
    /// What each thread does that is no visit.
    errands: RefCell<[Option<char>; MOST_THREADS as usize]>,
}

/// What becomes of the lock before a visit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// It is thin if nobody uses it.
    Trims,
    /// It is that, and visible.
    Shows,
    /// It is full, as the other is, and becomes thin as soon as a thread leaves that is alone.
    Plans,
}

/// What the word of a thin lock says, as docs/spec/thin.pml has it.
fn word(word: ThinSnapshot) -> String {
    match word {
        ThinSnapshot::Read(readers) => format!("r{readers}"),
        ThinSnapshot::Written => "w0".into(),
        ThinSnapshot::Full(slot) => format!("f{slot}"),
        ThinSnapshot::Visible | ThinSnapshot::Uninit => "?".into(),
    }
}

/// The word of the full lock of a slot.
fn full(slot: &SlotSnapshot) -> String {
    let Snapshot { writer, sealed, readers, .. } = slot.full;
    let taken = match (sealed, writer) {
        (true, _) => "s",
        (false, true) => "w",
        _ => "",
    };
    match slot.waiters {
        0 => format!("{taken}{readers}"),
        waiters => format!("{taken}{readers}q{waiters}"),
    }
}

/// Who keeps a slot with its lock, or is about to take it.
fn pins(slot: &SlotSnapshot) -> String {
    format!("{}{}", slot.pins, slot.closed.map(String::from).unwrap_or_default())
}

impl Thin {
    fn new(before: Before) -> Self {
        // SAFETY: a trial is on one thread of the system, and its lock is dropped before the next.
        unsafe { begin_thin_locks() };
        let [lock, other] = [(); 2].map(|()| ThinRwSem::new(Policy::DEFAULT));
        Self { lock, other, before, errands: RefCell::default() }
    }
}

impl Deref for Thin {
    type Target = ThinRwSem<Sim>;

    fn deref(&self) -> &ThinRwSem<Sim> {
        &self.lock
    }
}

impl Lock for Thin {
    own!(ThinRwSem<Sim>);
    own!(ThinRwSem<Sim>, upgrades);

    fn prepare(&self) {
        let errand = |what| self.errands.borrow_mut()[crate::thread()] = what;
        if self.before == Before::Plans {
            errand(Some('p'));
            self.lock.planned_wait_ns(0);
            self.lock.seem_uncontended();
            errand(Some('q'));
            self.other.planned_wait_ns(0);
            self.other.seem_uncontended();
        } else {
            errand(Some('t'));
            self.lock.trim();
        }
        errand(Some('o'));
        self.other.write();
        // SAFETY: just taken.
        unsafe { self.other.unlock_write() };
        errand(Some('u'));
        self.other.trim();
        errand(None);
        if self.before == Before::Shows {
            self.lock.show_readers();
        }
    }

    fn is_free(&self) -> bool {
        !self.lock.is_locked() && !self.lock.has_waiters()
    }

    fn for_each_queued(&self, _: impl FnMut(usize, char)) -> bool {
        false
    }

    fn check(&self, readers: usize, writer: bool) -> Result<(), &'static str> {
        if writer && !self.lock.is_write_locked() {
            return Err("the lock does not know of the writer inside");
        }
        if readers > 0 && (!self.lock.is_locked() || self.lock.is_write_locked()) {
            return Err("the lock does not know that readers are inside");
        }
        Ok(())
    }

    fn check_idle(&self) -> Result<(), &'static str> {
        let left = |lock: &ThinRwSem<Sim>| lock.is_locked() || lock.has_waiters() || !lock.trim();
        match left(&self.lock) || left(&self.other) {
            true => Err("the lock is not free, or not thin, after everybody has left"),
            false => Ok(()),
        }
    }

    fn observe(&self, _: &dyn Fn(usize) -> Option<usize>) -> Option<Observed> {
        let mut parts: Vec<_> = [&self.lock, &self.other].map(|lock| word(lock.snapshot())).into();
        // SAFETY: between two steps nobody runs.
        let (slots, is_changing) = unsafe { Sim::rwsem_slots().snapshot() };
        let mut state = parts.join(" ");
        parts.push(slots.iter().map(|slot| if slot.is_pooled { 'p' } else { '-' }).collect());
        for (number, slot) in slots.iter().enumerate() {
            let (full, pins) = (full(slot), pins(slot));
            let pooled = if slot.is_pooled { "p" } else { "" };
            let text = format!("{pooled}{full}.{pins}");
            // As a slot that was not made yet.
            if text != "ps0.0" {
                state.push_str(&format!(" {number}{text}"));
            }
            parts.extend([full, pins]);
        }
        Some(Observed { state: (!is_changing).then_some(state), parts, queued: None, wakes: false })
    }

    fn part_at(&self, address: usize) -> Option<usize> {
        let locks = [&self.lock, &self.other].map(|lock| std::ptr::from_ref(lock).addr());
        let own = locks.iter().position(|&lock| lock == address);
        // SAFETY: one simulated thread runs at a time, and this is between two of its steps.
        let of_slots = || unsafe { Sim::rwsem_slots().part_at(address) };
        own.or_else(|| Some(locks.len() + of_slots()?))
    }

    fn errand(&self, thread: usize) -> Option<char> {
        self.errands.borrow().get(thread).copied().flatten()
    }

    fn state(&self) -> String {
        format!("{:?}", self.lock)
    }

    fn field_at(&self, address: usize) -> Option<&'static str> {
        let word = std::ptr::from_ref(&self.lock).addr();
        (word..word + size_of::<ThinRwSem<Sim>>()).contains(&address).then_some("word")
    }
}

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

    /// What `RwSem::unlock_write` promises: the next owner may free the lock.
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
        let had =
            if upgrades { self.acquire_upgradable(how) } else { self.try_acquire(writes, how) };
        self.ranks.answer(had);
        had
    }

    fn try_acquire(&self, writes: bool, how: How) -> bool {
        let lock = &self.lock;
        match (how, writes) {
            (How::Wait, true) => lock.write(),
            (How::Wait, false) => lock.read(),
            (How::Try, true) => return lock.try_write(),
            (How::Try, false) => return lock.try_read(),
            (_, true) => return lock.write_with(how.wait(&self.tokens)).is_ok(),
            (_, false) => return lock.read_with(how.wait(&self.tokens)).is_ok(),
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
            _ => lock.upgradable_read_with(how.wait(&self.tokens)).is_ok(),
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
                _ => lock.upgrade_with(how.wait(&self.tokens)).is_ok(),
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
            _ => self.lock.read_recursive_with(how.wait(&self.tokens)).is_ok(),
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
        self.ranks.look(|queued| self.lock.for_each_queued(|hint, _| queued(hint)));
        self.ranks.check()?;
        if self.returned.take() && self.to_return.get() == 0 && self.lock.is_free() {
            self.gone.set(true);
        }
        let (readers, writers) = (self.room.readers.get(), self.room.writers.get());
        let readers = readers - usize::from(self.room.upgrading.get());
        self.lock.check(readers, writers > 0).map_err(|what| Complaint::new(Kind::Word, what))
    }

    fn check_idle(&self) -> Result<(), Complaint> {
        self.lock.check_idle().map_err(|what| Complaint::new(Kind::Remains, what))
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

    fn part_at(&self, address: usize) -> Option<usize> {
        self.lock.part_at(address)
    }

    fn errand(&self, thread: usize) -> Option<char> {
        self.lock.errand(thread)
    }

    fn state(&self) -> String {
        self.lock.state()
    }

    fn field_at(&self, address: usize) -> Option<&'static str> {
        self.lock.field_at(address)
    }
}

//! What the slow paths do, counted under the names the Linux kernel gives its
//! lock events.
//!
//! Counting is off by default, and then costs one relaxed load and a branch, in slow paths only: an
//! acquisition that succeeds immediately counts nothing. There are two ways to count, which may be used
//! together:
//!
//! * [`set_counting`] counts the events of all locks of the process together,
//!   in [`global`].
//! * [`RawRwLock::set_events`](crate::lock::RawRwLock::set_events) (or
//!   [`RwLockExt::set_events`](crate::RwLockExt::set_events)) gives one lock,
//!   or several, an [`EventCounts`] of its own.
//!
//! Counts are exact once the counting threads have been joined; until then a reader may see one
//! event and not yet an earlier one. They wrap around at `usize::MAX`.
//!
//! ```
//! use fairlock::events::{Event, EventCounts};
//! # #[cfg(feature = "std")] {
//! use fairlock::{RwLock, RwLockExt};
//!
//! static COUNTS: EventCounts = EventCounts::new();
//! let lock = RwLock::new(0);
//! lock.set_events(Some(&COUNTS));
//! *lock.write() += 1; // without a wait: nothing to count
//! assert_eq!(COUNTS.get(Event::SleepWriter), 0);
//! print!("{COUNTS}");
//! # }
//! ```

use core::fmt;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

use crate::wait::Kind;

macro_rules! events {
    ($($(#[doc = $doc:literal])* $event:ident = $name:literal,)*) => {
        /// What can be counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        #[non_exhaustive]
        pub enum Event {
            $(
                #[doc = concat!("`", $name, "`:")]
                $(#[doc = $doc])*
                $event,
            )*
        }

        impl Event {
            /// All events, in the order of a table.
            pub const ALL: [Event; EVENTS] = [$(Event::$event),*];

            /// The kernel's name for it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Event::$event => $name,)*
                }
            }
        }

        const EVENTS: usize = [$($name),*].len();
    };
}

events! {
    /// a waiting reader went to sleep.
    SleepReader = "rwsem_sleep_reader",
    /// a waiting writer went to sleep.
    SleepWriter = "rwsem_sleep_writer",
    /// a waiting reader was woken.
    WakeReader = "rwsem_wake_reader",
    /// a waiting writer was woken.
    WakeWriter = "rwsem_wake_writer",
    /// spinning got a thread the lock.
    OptLock = "rwsem_opt_lock",
    /// a thread spun in vain and queued.
    OptFail = "rwsem_opt_fail",
    /// a thread did not spin, because it would have been in vain.
    OptNospin = "rwsem_opt_nospin",
    /// a reader got the lock from the queue.
    ReadLock = "rwsem_rlock",
    /// a reader got the lock ahead of the queue.
    ReadSteal = "rwsem_rlock_steal",
    /// a reader was about to queue and found the lock had come free.
    ReadFast = "rwsem_rlock_fast",
    /// a reader gave up: deadline, signal or cancellation.
    ReadFail = "rwsem_rlock_fail",
    /// stealing was stopped, for the next grant to go to a reader.
    ReadHandoff = "rwsem_rlock_handoff",
    /// a writer got the lock from the queue.
    WriteLock = "rwsem_wlock",
    /// a writer gave up: deadline, signal or cancellation.
    WriteFail = "rwsem_wlock_fail",
    /// stealing was stopped, for the next grant to go to a writer.
    WriteHandoff = "rwsem_wlock_handoff",
    /// a waiter for a ticket lock gave up spinning.
    TakenSlow = "taken_slow",
    /// a ticket lock came free between a waiter's last look and its sleep.
    TakenSlowPickup = "taken_slow_pickup",
    /// the release of a ticket lock found sleeping waiters.
    ReleasedSlow = "released_slow",
    /// a sleeping waiter for a ticket lock was kicked.
    ReleasedSlowKicked = "released_slow_kicked",
    /// the readers of a lock became visible. Only counted in [`global`].
    ReadersShown = "readers_shown",
    /// the readers of a lock are visible no longer, most often for a writer. Only counted in [`global`].
    ReadersRevoked = "readers_revoked",
}

/// The events that have one name for readers and one for writers.
impl Event {
    pub(crate) const fn sleep(kind: Kind) -> Self {
        match kind {
            Kind::Reader => Event::SleepReader,
            Kind::Writer => Event::SleepWriter,
        }
    }

    pub(crate) const fn wake(kind: Kind) -> Self {
        match kind {
            Kind::Reader => Event::WakeReader,
            Kind::Writer => Event::WakeWriter,
        }
    }

    pub(crate) const fn fail(kind: Kind) -> Self {
        match kind {
            Kind::Reader => Event::ReadFail,
            Kind::Writer => Event::WriteFail,
        }
    }
}

/// One counter per [`Event`].
pub struct EventCounts([AtomicUsize; EVENTS]);

impl EventCounts {
    /// All counters at zero.
    pub const fn new() -> Self {
        Self([const { AtomicUsize::new(0) }; EVENTS])
    }

    /// How often `event` was counted.
    pub fn get(&self, event: Event) -> usize {
        // Relaxed, here and below: statistics.
        self.0[event as usize].load(Ordering::Relaxed)
    }

    /// All counters as they are now, each read on its own.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(Event::ALL.map(|event| self.get(event)))
    }

    /// Sets all counters to zero, each on its own. Events that are counted
    /// meanwhile may be lost.
    pub fn reset(&self) {
        for count in &self.0 {
            count.store(0, Ordering::Relaxed);
        }
    }

    #[inline]
    fn add(&self, event: Event) {
        self.0[event as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Default for EventCounts {
    fn default() -> Self {
        Self::new()
    }
}

/// A table of the events that happened, one a line; see [`Snapshot`].
impl fmt::Display for EventCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

impl fmt::Debug for EventCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

/// The counters at one time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Snapshot([usize; EVENTS]);

impl Snapshot {
    /// How often `event` had been counted.
    pub const fn get(&self, event: Event) -> usize {
        self.0[event as usize]
    }

    /// Each event with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Event, usize)> + '_ {
        Event::ALL.into_iter().map(|event| (event, self.get(event)))
    }

    /// What was counted after `earlier` was taken.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        Snapshot(Event::ALL.map(|event| self.get(event).wrapping_sub(earlier.get(event))))
    }
}

/// A table of the events that happened, one a line: name and count. Events
/// that did not happen are left out; if none did, the table says so.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut empty = true;
        for (event, count) in self.iter().filter(|&(_, count)| count != 0) {
            writeln!(f, "{:<22}{count:>14}", event.name())?;
            empty = false;
        }
        if empty { writeln!(f, "no events") } else { Ok(()) }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(event, count)| (event.name(), count))).finish()
    }
}

static GLOBAL: EventCounts = EventCounts::new();

/// How many count. Without any, every slow path goes on immediately.
static LISTENERS: Listeners = Listeners(AtomicU8::new(0));

struct Listeners(AtomicU8);

impl Listeners {
    /// Counting in `GLOBAL` is on.
    const PROCESS: u8 = 1 << 0;
    /// Some lock was given counts of its own. Never cleared: another lock may
    /// still have some.
    const LOCKS: u8 = 1 << 1;

    // Relaxed, here and below: a count that comes too early or too late by an instant is none the
    // worse.
    fn add(&self, who: u8) {
        self.0.fetch_or(who, Ordering::Relaxed);
    }

    fn remove(&self, who: u8) {
        self.0.fetch_and(!who, Ordering::Relaxed);
    }

    #[inline]
    fn has(&self, who: u8) -> bool {
        self.0.load(Ordering::Relaxed) & who != 0
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// The counts of all locks of the process together, while
/// [counting](set_counting) is on.
pub fn global() -> &'static EventCounts {
    &GLOBAL
}

/// Switches counting in [`global`] on or off. Off at first. Locks that have
/// [counts of their own](crate::lock::RawRwLock::set_events) keep counting there.
pub fn set_counting(on: bool) {
    if on {
        LISTENERS.add(Listeners::PROCESS);
    } else {
        LISTENERS.remove(Listeners::PROCESS);
    }
}

/// Counts an event of a lock that has no counts of its own.
#[inline]
pub(crate) fn count(event: Event) {
    if LISTENERS.has(Listeners::PROCESS) {
        GLOBAL.add(event);
    }
}

/// The counts of one lock's own, beside [`global`].
///
/// The processor's own atomics on every platform: they order nothing that the
/// lock relies on, so a model checker need not explore them.
pub(crate) struct Sink(AtomicPtr<EventCounts>);

impl Sink {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    pub(crate) fn set(&self, counts: Option<&'static EventCounts>) {
        let counts = counts.map_or(ptr::null(), ptr::from_ref);
        // Release: the counters are made before they are counted in.
        self.0.store(counts.cast_mut(), Ordering::Release);
        if !counts.is_null() {
            LISTENERS.add(Listeners::LOCKS);
        }
    }

    /// Counts where the other one does, from here on.
    pub(crate) fn set_as(&self, other: &Self) {
        self.0.store(other.0.load(Ordering::Acquire), Ordering::Release);
    }

    #[inline]
    pub(crate) fn count(&self, event: Event) {
        if !LISTENERS.is_empty() {
            self.count_for_listeners(event);
        }
    }

    #[cold]
    fn count_for_listeners(&self, event: Event) {
        count(event);
        // SAFETY: null, or from the `&'static` given to `set`; Acquire pairs
        // with the Release there.
        if let Some(counts) = unsafe { self.0.load(Ordering::Acquire).as_ref() } {
            counts.add(event);
        }
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    const A: Event = Event::OptNospin;
    const B: Event = Event::ReadFail;

    #[test]
    fn names_are_unique() {
        for (i, event) in Event::ALL.iter().enumerate() {
            assert_eq!(*event as usize, i);
            assert!(Event::ALL[..i].iter().all(|other| other.name() != event.name()));
        }
    }

    #[test]
    fn snapshot_since_and_reset() {
        let counts = EventCounts::new();
        counts.add(A);
        let earlier = counts.snapshot();
        counts.add(A);
        counts.add(B);
        let later = counts.snapshot();
        assert_eq!((later.get(A), later.get(B)), (2, 1));
        assert_eq!((later.since(&earlier).get(A), later.since(&earlier).get(B)), (1, 1));
        counts.reset();
        assert_eq!(counts.snapshot(), EventCounts::new().snapshot());
    }

    #[test]
    fn table_lists_what_happened() {
        let counts = EventCounts::new();
        assert_eq!(counts.to_string(), "no events\n");
        counts.add(A);
        counts.add(B);
        counts.add(B);
        assert_eq!(
            counts.to_string(),
            "rwsem_opt_nospin                   1\nrwsem_rlock_fail                   2\n"
        );
    }

    #[test]
    fn the_process_counts_while_it_is_switched_on() {
        fairlock_testing::alone(|| {
            for (on, counted) in [(false, 0), (true, 1), (false, 1), (true, 2)] {
                set_counting(on);
                count(A);
                assert_eq!(global().get(A), counted);
            }
        });
    }

    #[test]
    fn a_lock_counts_where_it_was_told_to() {
        static MINE: EventCounts = EventCounts::new();
        let (with, without) = (Sink::new(), Sink::new());
        with.count(A);
        with.set(Some(&MINE));
        with.count(A);
        without.count(A);
        assert_eq!(MINE.get(A), 1);
        with.set(None);
        with.count(A);
        assert_eq!(MINE.get(A), 1);
    }
}

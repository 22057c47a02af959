//! The record of a thread, composed of what the waits need of it and of what each lock remembers of it: the
//! lock declares that part, and only the lock reads it.

#[cfg(all(feature = "std", not(fairlock_loom)))]
use core::cell::Cell;
use core::mem::offset_of;
use core::ops::Deref;

use crate::condvar::{Notified, Watch};
use crate::inspect;
use crate::lock::{LockLocal, Shown as Visible};
use crate::published::local::Local as PublishedLocal;
use crate::system::System;
use crate::ticket::Contended;
use crate::ticket::Places;
use crate::wait::{Collisions, Sleeper, WaitContext};

/// A [`System`] whose threads have the records of this crate: what every lock is written against.
pub trait Platform: System<Thread = Thread<Self>> {}

impl<P: System<Thread = Thread<P>>> Platform for P {}

/// A thread as the locks know it. One per live thread, never freed while the
/// process lives, so that a late wake-up or a neighbour in the spinner queue
/// may touch it at any time (rules 11 and 12).
// In this order: the record's address is that of its first part.
#[repr(C, align(128))]
pub struct Thread<P: System> {
    sleeper: Sleeper<P>,
    pub(crate) contended: Contended,
    pub(crate) published: PublishedLocal<P>,
    pub(crate) places: Places<P>,
    pub(crate) lock: LockLocal,
    pub(crate) visible: Visible<P>,
    pub(crate) collisions: Collisions,
    pub(crate) watch: Watch,
    /// The threads that it has notified but not woken.
    pub(crate) notified: Notified<P>,
    #[cfg(all(feature = "std", not(fairlock_loom)))]
    pub(crate) links: Links<P>,
}

/// The place of a record in its pool. Changed under the pool's mutex only.
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub(crate) struct Links<P: System> {
    pub(crate) next_free: Cell<Option<&'static Thread<P>>>,
    pub(crate) next_made: Cell<Option<&'static Thread<P>>>,
    /// Where the thread that took the record last has its variables. Zero: the record is one of the parent of a fork.
    pub(crate) place: Cell<usize>,
}

#[cfg(all(feature = "std", not(fairlock_loom)))]
impl<P: System> Links<P> {
    const fn new() -> Self {
        Self { next_free: Cell::new(None), next_made: Cell::new(None), place: Cell::new(0) }
    }
}

// SAFETY: `sleeper` and the spinner node are atomics, and `notified` is `Sync` but for what only the record's own
// thread uses; `links` are used under the pool's mutex; all else is used by the record's own thread only.
unsafe impl<P: System> Sync for Thread<P> {}

impl<P: System> Thread<P> {
    /// A record for a thread that a [`System`] has not seen before.
    #[allow(clippy::new_without_default)] // a record is only made by a platform, on purpose
    pub fn new() -> Self {
        Self {
            sleeper: Sleeper::new(),
            contended: Contended::new(),
            published: PublishedLocal::new(),
            places: Places::new(),
            lock: LockLocal::new(),
            visible: Visible::new(),
            collisions: Collisions::new(),
            watch: Watch::new(),
            notified: Notified::new(),
            #[cfg(all(feature = "std", not(fairlock_loom)))]
            links: Links::new(),
        }
    }

    /// The calling thread begins, with the record of a thread that has ended: it inherits neither
    /// waits nor habits of that thread.
    #[cfg(all(feature = "std", not(fairlock_loom)))]
    pub(crate) fn begin_anew(&self) {
        self.lock.forget();
        self.watch.forget();
    }

    /// The thread, whose record this is, has forked, and is in the child.
    #[cfg(feature = "std")]
    pub(crate) fn enter_child(&self) {
        self.sleeper.enter_child();
        self.notified.enter_child();
    }

    /// For concurrency testers: the name of what is at an address in the record.
    #[doc(hidden)]
    pub fn field_at(&self, address: usize) -> Option<&'static str> {
        let Sleeper { parker, ticket_parker, cancel, .. } = &self.sleeper;
        let spinner = &self.published.spinner;
        let fields = [
            (offset_of!(Self, sleeper.parker), size_of_val(parker), "parker"),
            (offset_of!(Self, sleeper.ticket_parker), size_of_val(ticket_parker), "ticket parker"),
            (offset_of!(Self, published.spinner), size_of_val(spinner), "spinner node"),
            (offset_of!(Self, sleeper.cancel), size_of_val(cancel), "links under a token"),
        ];
        inspect::field_at(self, address, &fields)
    }
}

impl<P: Platform> Thread<P> {
    /// For locks of other crates on a [`Platform`]: the calling thread sleeps until
    /// [`unpark`](Sleeper::unpark) of its record. An `unpark` before the call ends it immediately. May
    /// return spuriously, so the caller has to check its condition again.
    ///
    /// Not a method: on the record of another thread it would use up what wakes that one.
    pub fn park() {
        P::thread().ticket_parker.park(None, false);
    }

    /// As [`park`](Self::park), but at most until `deadline` (nanoseconds of [`System::now`]).
    pub fn park_until(deadline: u64) {
        P::thread().ticket_parker.park(Some(deadline), false);
    }

    /// Call it before [parking](Self::park): waits, awake, until `word` is `woken`. It spins for
    /// at most 4 µs; then, if `yields`, it yields its CPU for at most 50 µs. Neither phase goes on
    /// past `deadline` (nanoseconds of [`System::now`]), and a phase that lately did not help is
    /// skipped.
    ///
    /// Not a method: only the calling thread may use what its record remembers of this.
    pub fn stay_awake(word: &P::AtomicU32, woken: u32, deadline: Option<u64>, yields: bool) {
        let watch = &P::thread().watch;
        let until: &WaitContext<'_, P> = &WaitContext { deadline, ..WaitContext::FOREVER };
        watch.stay_awake(word, woken, until, || yields && watch.yields.begins());
    }
}

impl<P: System> Deref for Thread<P> {
    type Target = Sleeper<P>;

    #[inline(always)]
    fn deref(&self) -> &Sleeper<P> {
        &self.sleeper
    }
}

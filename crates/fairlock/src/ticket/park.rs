//! Where waiters of one lock are parked.
//!
//! ```text
//! waiters push here (CAS)         only the lock's holder touches this
//!   inbox: newest -> … -> oldest    lot: first <-> … <-> last, by ticket
//! ```
//!
//! The lot is protected by the very lock it belongs to: a releaser looks at it
//! *before* it lets go, takes the threads to kick out of it, and releases.
//! After the release it touches thread records only, which are never freed, so
//! the next owner may free the lock at once.
//!
//! Invariants:
//! 1. A [`Parked`] stays in its waiter's frame, which is not left before the
//!    waiter owns the lock and the entry is out of inbox and lot. (There is no
//!    other way out: a ticket cannot be given back.)
//! 2. Inbox and lot hold waiters with outstanding tickets only.
//! 3. Who raised INBOX after a push saw the lock held, or saw a batch that was
//!    not its own, in that same operation; so there is a release to come that
//!    sees INBOX, or a lot that has the waiter in it.
//! 4. While the lock is free and somebody waits, a waiter of the current batch
//!    is awake, or has been kicked, or sleeps on a timer.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use super::word::{Word, is_before};
use crate::platform::{Atomic, Platform};
use crate::wait::Thread;

/// A waiter's entry in inbox and lot.
pub(super) struct Parked<P: Platform> {
    pub(super) ticket: u32,
    pub(super) thread: &'static Thread<P>,
    /// Sleeps on a timer: need not be kicked while the batch is open.
    naps: Cell<bool>,
    next: Cell<*const Parked<P>>,
    prev: Cell<*const Parked<P>>,
    /// Non-zero while in inbox or lot. Zero is the last thing anybody but the
    /// waiter writes here.
    linked: P::AtomicU32,
}

impl<P: Platform> Parked<P> {
    pub(super) fn new(ticket: u32, thread: &'static Thread<P>) -> Self {
        Self {
            ticket,
            thread,
            naps: Cell::new(false),
            next: Cell::new(core::ptr::null()),
            prev: Cell::new(core::ptr::null()),
            linked: P::AtomicU32::new(0),
        }
    }

    /// Acquire: whoever took the entry out is done with it.
    pub(super) fn is_linked(&self) -> bool {
        self.linked.load(Ordering::Acquire) != 0
    }
}

/// Waiters that have parked since the holder last looked: a stack that anybody
/// pushes to and the holder empties at once (so no ABA).
pub(super) struct Inbox<P: Platform> {
    newest: P::AtomicUsize,
}

impl<P: Platform> Inbox<P> {
    pub(super) fn new() -> Self {
        Self { newest: P::AtomicUsize::new(0) }
    }

    pub(super) const fn new_const() -> Self
    where
        P::AtomicUsize: crate::platform::ConstZero,
    {
        Self { newest: crate::platform::ConstZero::ZERO }
    }

    /// Adds an entry that is in no list.
    ///
    /// # Safety
    /// Invariant 1 holds for the entry from now on.
    pub(super) unsafe fn push(&self, entry: &Parked<P>, naps: bool) {
        entry.naps.set(naps);
        // Relaxed: published by the exchange below.
        entry.linked.store(1, Ordering::Relaxed);
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            entry.next.set(newest as *const Parked<P>);
            // Release: the entry's fields go with its address.
            match self.newest.compare_exchange_weak(
                newest,
                core::ptr::from_ref(entry) as usize,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => newest = now,
            }
        }
    }

    /// Whether nobody has parked since the holder last looked. Relaxed: a look.
    pub(super) fn is_empty(&self) -> bool {
        self.newest.load(Ordering::Relaxed) == 0
    }

    fn take(&self) -> *const Parked<P> {
        // Acquire: pairs with the release of every push (a release sequence of
        // read-modify-writes).
        self.newest.swap(0, Ordering::Acquire) as *const Parked<P>
    }
}

#[cfg(all(test, fairlock_loom))]
impl Inbox<crate::platform::loom::Loom> {
    pub(super) fn access_mut(&mut self) {
        self.newest.with_mut(|_| ());
    }
}

/// The parked waiters in ticket order.
pub(super) struct Lot<P: Platform> {
    first: *const Parked<P>,
    last: *const Parked<P>,
    /// Entries of the current batch: the first ones.
    ready: u32,
    /// Entries that sleep on a timer.
    napping: u32,
}

impl<P: Platform> Lot<P> {
    pub(super) const fn new() -> Self {
        Self { first: core::ptr::null(), last: core::ptr::null(), ready: 0, napping: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Entries of the current batch.
    pub(super) fn ready(&self) -> u32 {
        self.ready
    }

    pub(super) fn has_napping(&self) -> bool {
        self.napping > 0
    }

    /// Moves everything from the inbox here.
    pub(super) fn collect(&mut self, inbox: &Inbox<P>, word: Word, max: u32) {
        // Oldest first: they are nearly in ticket order then.
        let mut entry = inbox.take();
        let mut oldest: *const Parked<P> = core::ptr::null();
        // SAFETY: entries of the inbox are alive (invariant 1), and ours alone
        // since `take`.
        while let Some(this) = unsafe { entry.as_ref() } {
            entry = this.next.replace(oldest);
            oldest = this;
        }
        // SAFETY: as above.
        while let Some(this) = unsafe { oldest.as_ref() } {
            oldest = this.next.get();
            self.insert(this);
            self.ready += u32::from(word.is_eligible(this.ticket, max));
        }
    }

    fn insert(&mut self, entry: &Parked<P>) {
        let mut after = self.last;
        // SAFETY: entries of the lot are alive (invariant 1).
        while let Some(this) = unsafe { after.as_ref() } {
            if is_before(this.ticket, entry.ticket) {
                break;
            }
            after = this.prev.get();
        }
        // SAFETY: as above.
        let next = match unsafe { after.as_ref() } {
            Some(after) => after.next.replace(entry),
            None => core::mem::replace(&mut self.first, entry),
        };
        entry.prev.set(after);
        entry.next.set(next);
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.prev.set(entry),
            None => self.last = entry,
        }
        self.napping += u32::from(entry.naps.get());
    }

    /// A new batch has begun: `word` says which.
    pub(super) fn count_ready(&mut self, word: Word, max: u32) {
        self.ready = 0;
        let mut entry = self.first;
        // SAFETY: entries of the lot are alive (invariant 1).
        while let Some(this) = unsafe { entry.as_ref() } {
            if !word.is_eligible(this.ticket, max) {
                break;
            }
            self.ready += 1;
            entry = this.next.get();
        }
    }

    /// Takes out the waiter of the current batch that has the first ticket.
    pub(super) fn pop_ready(&mut self) -> Option<&'static Thread<P>> {
        if self.ready == 0 {
            return None;
        }
        // SAFETY: `ready` entries are at the front, alive (invariant 1).
        let entry = unsafe { &*self.first };
        let thread = entry.thread;
        self.remove(entry);
        Some(thread)
    }

    /// Takes out an entry of the current batch. The entry may be gone when
    /// this returns, unless the caller is its waiter.
    pub(super) fn remove(&mut self, entry: &Parked<P>) {
        let (prev, next) = (entry.prev.get(), entry.next.get());
        // SAFETY: neighbours are in the lot, so alive (invariant 1).
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.set(next),
            None => self.first = next,
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.prev.set(prev),
            None => self.last = prev,
        }
        self.ready -= 1;
        self.napping -= u32::from(entry.naps.get());
        // Release: pairs with `is_linked`; the waiter may use the entry again.
        entry.linked.store(0, Ordering::Release);
    }
}

//! Where waiters of one lock are parked.
//!
//! ```text
//! waiters push here (CAS)         only the lock's holder touches this
//!   inbox: newest -> … -> oldest    lot: first <-> … <-> last, by ticket
//! ```
//!
//! The lot is protected by the very lock it belongs to: a releasing thread looks at the lot
//! *before* the release, and takes out the threads to kick. After the release it touches only
//! thread records, which are never freed, so the next owner may free the lock at once.
//!
//! Invariants:
//! 1. A [`Parked`] is in its waiter's stack frame, which is not left before the waiter has LOCK and
//!    the entry is out of inbox and lot. If the wait may end without the lock, the entry is instead
//!    in a place that is never freed (see `give_up`).
//! 2. Inbox and lot hold entries of outstanding tickets only.
//! 3. A waiter that set INBOX after a push saw, in the same operation, that the lock was held or
//!    served another batch. So a later release sees INBOX, or has the waiter in its lot.
//! 4. While LOCK is free and somebody waits, a waiter of the current batch is awake, or has been
//!    kicked, or sleeps on the timer of the responsible waiter. If that waiter looks before any
//!    other thread, it takes LOCK instead of giving up.

use core::sync::atomic::Ordering;

use super::word::{Word, is_before};
use crate::system::{Atomic, Cell, ConstZero, System};
use crate::wait::{Linked, Links, List, Parker};

/// A waiter's entry in inbox and lot.
///
/// | state | meaning | who leaves it |
/// |---|---|---|
/// | OUT | in no list | its waiter, which then pushes it |
/// | LISTED | in inbox or lot | the holder, which takes it out; its waiter, when it gives up |
/// | GIVEN_UP | the same, and nobody waits | the holder, which takes it out; its waiter, when it comes back |
/// | BURIED | the same, and nobody will wait with this ticket | the holder, which takes it out |
///
/// OUT is the last thing that anybody but the waiter writes here.
pub(super) struct Parked<P: System> {
    /// Set by the waiter while the entry is OUT.
    pub(super) ticket: Cell<u32>,
    /// Where the waiter sleeps.
    pub(super) parker: &'static Parker<P>,
    /// The waiter sleeps on a timer: it need not be kicked while the batch is open.
    naps: Cell<bool>,
    links: Links<Parked<P>>,
    state: P::AtomicU32,
}

const OUT: u32 = 0;
const LISTED: u32 = 1;
const GIVEN_UP: u32 = 2;
const BURIED: u32 = 3;

impl<P: System> Parked<P> {
    pub(super) fn new(ticket: u32, parker: &'static Parker<P>) -> Self {
        Self {
            ticket: Cell::new(ticket),
            parker,
            naps: Cell::new(false),
            links: Links::new(),
            state: P::AtomicU32::new(OUT),
        }
    }

    /// Acquire: the thread that took the entry out is done with it.
    pub(super) fn is_out(&self) -> bool {
        self.state.load(Ordering::Acquire) == OUT
    }

    /// Whether the entry's waiter was responsible when it pushed the entry.
    pub(super) fn naps(&self) -> bool {
        self.naps.get()
    }

    /// The entry's waiter gives up. False if the holder has just taken the entry out, and kicks the
    /// waiter.
    pub(super) fn give_up(&self) -> bool {
        self.change(LISTED, GIVEN_UP)
    }

    /// The entry's waiter is back. False if the holder has just taken the entry out, and retired
    /// the ticket.
    pub(super) fn take_up(&self) -> bool {
        self.change(GIVEN_UP, LISTED)
    }

    fn change(&self, from: u32, to: u32) -> bool {
        // Relaxed: the state says whether somebody waits, and no other memory is read on the
        // strength of that. A waiter whose entry is out looks at `is_out` before it uses it.
        self.state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The holder is done with the entry, which may be gone now. Returns whether somebody waits.
    fn leave(&self) -> bool {
        // Release: pairs with `is_out`; the waiter may use the entry again.
        self.state.swap(OUT, Ordering::Release) == LISTED
    }

    /// As [`leave`](Self::leave) if somebody waits; otherwise the entry stays as it is.
    fn leave_to_waiter(&self) -> bool {
        // Release: as above. Relaxed: nothing is read on the strength of it.
        self.state.compare_exchange(LISTED, OUT, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// The holder takes the entry out, if nobody waits.
    fn bury(&self) -> bool {
        self.change(GIVEN_UP, BURIED)
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.state.load(Ordering::Relaxed) == GIVEN_UP
    }
}

impl<P: System> Linked for Parked<P> {
    #[inline(always)]
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

/// What came out of the lot.
pub(super) enum Popped<P: System> {
    /// Somebody to kick.
    Waiter(&'static Parker<P>),
    /// A ticket to retire.
    GivenUp,
}

/// Waiters that have parked since the holder last looked: a stack that anybody
/// pushes to and the holder empties at once (so no ABA).
pub(super) struct Inbox<P: System> {
    newest: P::AtomicUsize,
}

impl<P: System> Inbox<P> {
    pub(super) fn new() -> Self {
        Self { newest: P::AtomicUsize::new(0) }
    }

    pub(super) const fn new_const() -> Self
    where
        P::AtomicUsize: ConstZero,
    {
        Self { newest: ConstZero::ZERO }
    }

    /// Adds an entry that is in no list.
    ///
    /// # Safety
    /// Invariant 1 holds for the entry from now on.
    pub(super) unsafe fn push(&self, entry: &Parked<P>, naps: bool) {
        entry.naps.set(naps);
        // Relaxed: published by the exchange below.
        entry.state.store(LISTED, Ordering::Relaxed);
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            entry.links.next.set(newest as *const Parked<P>);
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

    /// Whether nobody has parked since the holder last looked. Relaxed: only a hint.
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
impl<P: System<AtomicUsize = loom::sync::atomic::AtomicUsize>> Inbox<P> {
    pub(super) fn access_mut(&mut self) {
        self.newest.with_mut(|_| ());
    }
}

/// The parked waiters in ticket order.
pub(super) struct Lot<P: System> {
    /// Entries are alive (invariant 1).
    list: List<Parked<P>>,
    /// Entries of the current batch: the first ones.
    ready: u32,
    /// Entries that sleep on a timer.
    napping: u32,
}

impl<P: System> Lot<P> {
    pub(super) const fn new() -> Self {
        Self { list: List::new(), ready: 0, napping: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
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
            entry = this.links.next.replace(oldest);
            oldest = this;
        }
        // SAFETY: as above.
        while let Some(this) = unsafe { oldest.as_ref() } {
            oldest = this.links.next.get();
            self.insert(this);
            self.ready += u32::from(word.is_eligible(this.ticket.get(), max));
        }
    }

    fn insert(&mut self, entry: &Parked<P>) {
        let follows = |other: &Parked<P>| is_before(other.ticket.get(), entry.ticket.get());
        // SAFETY: it is in no list, and invariant 1.
        unsafe { self.list.insert(entry, follows) };
        self.napping += u32::from(entry.naps.get());
    }

    /// A new batch has begun: `word` says which.
    pub(super) fn count_ready(&mut self, word: Word, max: u32) {
        let is_ready = |entry: &&Parked<P>| word.is_eligible(entry.ticket.get(), max);
        self.ready = self.list.iter().take_while(is_ready).count() as u32;
    }

    /// Takes out the waiter of the current batch that has the first ticket. Tickets that were given
    /// up come out too; but those of a batch that is `fresh`, so not in the word yet, are passed
    /// over.
    pub(super) fn pop_ready(&mut self, fresh: bool) -> Option<Popped<P>> {
        let mut next = self.list.head();
        for _ in 0..self.ready {
            // SAFETY: `ready` entries are at the front, alive (invariant 1).
            let entry = unsafe { &*next };
            next = entry.links.next.get();
            if fresh && entry.is_given_up() {
                continue;
            }
            let parker = entry.parker;
            if !fresh {
                let waits = self.remove(entry);
                return Some(if waits { Popped::Waiter(parker) } else { Popped::GivenUp });
            }
            self.unlink(entry);
            if entry.leave_to_waiter() {
                self.ready -= 1;
                return Some(Popped::Waiter(parker));
            }
            // Its waiter has given up since the look.
            self.insert(entry);
        }
        None
    }

    /// When a batch is over: takes out the first entry if its ticket is the head of `word`, and was
    /// given up. To be followed by [`count_ready`](Self::count_ready).
    pub(super) fn pop_given_up(&mut self, word: Word) -> bool {
        // SAFETY: entries of the lot are alive (invariant 1).
        let Some(first) = (unsafe { self.list.head().as_ref() }) else { return false };
        let given_up = first.ticket.get() == word.head() && first.bury();
        if given_up {
            self.unlink(first);
            first.leave();
        }
        given_up
    }

    /// Takes out an entry of the current batch; returns whether somebody waits with it. The entry
    /// may be gone when this returns, unless the caller is its waiter.
    pub(super) fn remove(&mut self, entry: &Parked<P>) -> bool {
        self.ready -= 1;
        self.unlink(entry);
        entry.leave()
    }

    fn unlink(&mut self, entry: &Parked<P>) {
        // SAFETY: it is in the lot.
        unsafe { self.list.remove(entry) };
        self.napping -= u32::from(entry.naps.get());
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::{Native, System};

    /// Its thread uses it again.
    #[test]
    fn an_entry_that_was_given_up_is_out_once_a_batch_begins_behind_it() {
        let entry = Parked::new(1, &Native::thread().ticket_parker);
        let (inbox, mut lot) = (Inbox::<Native>::new(), Lot::new());
        // SAFETY: it is out of the lists below.
        unsafe { inbox.push(&entry, true) };
        lot.collect(&inbox, Word::SOLE, 8);
        assert!(entry.naps() && lot.has_napping());
        assert!(!lot.pop_given_up(Word::after(1)), "somebody waits");
        assert!(entry.give_up() && !lot.pop_given_up(Word::after(2)), "it is not the first");
        assert!(lot.pop_given_up(Word::after(1)));
        assert!(entry.is_out() && lot.is_empty() && !lot.has_napping());
    }
}

//! Giving up a ticket: waits that end at a deadline, by a signal or by a token.
//!
//! A ticket cannot be given back, as later ones have been counted from it. Instead of being served
//! it is *retired*, which counts it in the head and in its batch as a service does. So the other
//! tickets and their batches stay the same, and no waiter is overtaken by more threads than if
//! nobody had given up.
//!
//! The waiter leaves an entry (its own if it was parked, or one that it pushes now) in the list of
//! parked waiters. The entry says that nobody waits. A holder retires the ticket:
//!
//! * *of the current batch* when its release would kick the waiter; then it looks for another
//!   waiter;
//! * *of a later batch* when it begins that batch, if the ticket is at the head: a batch begins
//!   behind retired tickets, so a thread waits with its first one. Other tickets of the batch are
//!   retired later, as above.
//!
//! So short attempts do not use up the batch, as long as there are others to kick.
//!
//! *The first in line* has LOCK while it waits for a solo holder (see `solo`). If it gives up, it
//! withdraws by a release that does not set SERVING, so the next thread that gets LOCK looks at
//! `solo` again.
//!
//! *No wake-up is lost.* A release leaves LOCK free only if a waiter of the current batch is awake,
//! kicked or responsible (invariant 4 of `park`), or if nobody waits. A thread that gives up looks
//! at the word in the step that announces its entry: if LOCK is free and its turn has come, it does
//! not give up. Otherwise a later release finds the entry. If the thread has not given up by then,
//! it is kicked, and looks again; if it has, its ticket is retired. A thread that comes back is
//! like any parked waiter.
//!
//! *Places.* The entry outlives the wait, so it is in a place that belongs to the thread's record
//! and is never freed. A thread that comes again for the same lock finds its place there, with its
//! ticket, unless the ticket was retired. So a thread that waits in a loop of short attempts has
//! its turn as if it waited all the time, except for the instants between two attempts. It does not
//! compete at each attempt, as a newly arrived thread does, but sleeps until it is kicked:
//! otherwise all threads that retry would keep the holders from their work. A thread has one place
//! for each lock, so there are no more given-up tickets than threads. The place identifies the lock
//! by its name, a number that the lock gets when somebody first gives up, and by its address: a
//! lock that was moved, or made where another one was, is not mistaken for it.

use core::sync::atomic::{AtomicU64, Ordering};

use super::batch::BatchSize;
use super::lock::{Taken, TicketLock, can_take};
use super::park::Parked;
use super::places::{LockId, ParkingPlace};
use crate::platform::Platform;
use crate::wait::{Thread, Wait, WaitContext, WaitError};

/// Not one of the platform's atomics: no decision depends on which name a lock has.
static NEXT_NAME: AtomicU64 = AtomicU64::new(1);

impl<P: Platform, S: BatchSize> TicketLock<P, S> {
    /// Takes the lock; gives up as `wait` says.
    pub fn lock_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        if self.take_solo() {
            return Ok(());
        }
        let until = &wait.begin();
        until.listed(P::thread(), || self.wait_for_lock(until))
    }

    /// The waiter of `entry`, which is a place's, does not want its ticket any more.
    pub(super) fn give_up(
        &self,
        entry: &Parked<P>,
        why: WaitError,
        until: &WaitContext<'_, P>,
    ) -> Result<Taken, WaitError> {
        let ticket = entry.ticket.get();
        loop {
            let word = self.load();
            if let Some(taken) = self.take(word, ticket, until) {
                // SAFETY: LOCK was taken.
                unsafe { self.unlist(entry) };
                return Ok(taken);
            }
            if entry.is_out() {
                // SAFETY: the entry is out of all lists, and in a place that is never freed.
                unsafe { self.inbox.push(entry, false) };
            }
            // While the ticket is outstanding, or the lock might be idle.
            let word = self.word.raise_inbox();
            // Otherwise the waiter has to take the lock, or was just kicked, and looks again.
            if !can_take::<S>(word, ticket) && entry.give_up() {
                return Err(why);
            }
        }
    }

    /// The calling thread's place in this lock, if it gave up here and has not had its turn since.
    pub(super) fn place_given_up(
        &self,
        thread: &'static Thread<P>,
    ) -> Option<&'static ParkingPlace<P>> {
        thread.places.find(|place| place.lock.get() == self.id() && place.entry.take_up())
    }

    /// A place for the calling thread, which has `ticket`.
    pub(super) fn new_place(
        &self,
        thread: &'static Thread<P>,
        ticket: u32,
    ) -> &'static ParkingPlace<P> {
        let place = thread.places.find(|place| place.entry.is_out());
        let place = place.unwrap_or_else(|| thread.places.add(&thread.parker));
        place.lock.set(self.id());
        place.entry.ticket.set(ticket);
        place
    }

    fn id(&self) -> LockId {
        LockId { name: self.name(), address: core::ptr::from_ref(self) as usize }
    }

    fn name(&self) -> u64 {
        // Relaxed: no other memory is read on the strength of a name.
        self.hints.name(|| NEXT_NAME.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use fairlock_testing::scope;

    use core::sync::atomic::AtomicU32;

    use super::{NEXT_NAME, Ordering};
    use crate::platform::{Native, System};
    use crate::ticket::{Fixed, TicketLock};
    use crate::wait::{Ends, Wait, WaitError};

    /// The thread would sleep for the turn of a ticket that is another lock's, or is in memory that is something else by now.
    #[test]
    fn however_many_locks_there_were_a_thread_that_gave_up_follows_its_ticket_to_no_other() {
        let mut lock = TicketLock::<Native, Fixed<1>>::after(100);
        lock.lock();
        lock.lock_with(Wait::until_nanos(Native::now() + 1_000_000)).unwrap_err();
        let places = &Native::thread().places;
        assert!(places.find(|place| place.lock.get() == lock.id()).is_some());
        // As many as names of 28 bits, or of 32, would be; other tests give names, too.
        const MARGIN: u64 = 100;
        NEXT_NAME.fetch_add((1 << 32) - MARGIN, Ordering::Relaxed);
        for _ in 0..2 * MARGIN {
            // In the same place.
            lock = TicketLock::new();
            assert!(lock.place_given_up(Native::thread()).is_none());
        }
    }

    /// Its entry stays in the lock's lists when the call has returned.
    #[test]
    fn a_wait_that_seldom_ends_leaves_its_ticket_in_a_place_too() {
        static LOOKS: AtomicU32 = AtomicU32::new(0);
        let lock = TicketLock::<Native, Fixed<1>>::after(100);
        lock.lock();
        // Not before it has a ticket.
        let ends = Ends(|| LOOKS.fetch_add(1, Ordering::Relaxed) > 0);
        let ended = lock.lock_with(Wait::FOREVER.ended_by(&ends));
        assert_eq!(ended, Err(WaitError::Cancelled));
        assert!(lock.place_given_up(Native::thread()).is_some());
    }

    #[test]
    fn short_attempts_do_not_use_up_the_batch() {
        let lock = TicketLock::<Native, Fixed<8>>::after(100);
        lock.lock();
        let before = lock.load();
        scope(|s| {
            s.spawn(|| {
                // Shorter timeouts than a waiter spins, and longer ones.
                for timeout_ns in [5_000; 20].into_iter().chain([1_000_000; 3]) {
                    lock.lock_with(Wait::until_nanos(Native::now() + timeout_ns)).unwrap_err();
                }
            });
        });
        let after = lock.load();
        assert!(after.head() == before.head() && after.left(8) == before.left(8));
        assert!(after.outstanding() <= 2, "{} tickets of one thread", after.outstanding() - 1);
        // SAFETY: locked above.
        unsafe { lock.unlock() };
        lock.check_idle().unwrap();
    }
}

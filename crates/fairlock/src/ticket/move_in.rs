//! Taking in waiters that slept elsewhere: those of a condition variable, which then wait
//! for the lock as if they had come to it by themselves, without being woken for that.
//!
//! They get tickets, in their order, and their entries are listed as parked. What has to
//! hold is that a release is to come that finds them. So either the caller holds the lock;
//! or LOCK is taken, in the same step in which they get their tickets. If it is free when
//! they are listed, the first of them is woken, as its turn may have come.
//!
//! A solo holder that takes waiters in takes a ticket for itself first: solo holders do not
//! look after those that are parked. It need not where there are tickets already: then
//! somebody is first in line, and does (or was, and has passed that on).

use core::sync::atomic::Ordering;

use super::batch::BatchSize;
use super::lock::TicketLock;
use super::park::Parked;
use super::word::Word;
use crate::platform::{Atomic, Platform};
use crate::wait::{Parker, WaitContext};

/// Waiters to move: each is told its ticket, and comes out.
#[doc(hidden)]
pub trait Movers<P: Platform> {
    fn first(&self) -> &'static Parker<P>;
    fn len(&self) -> u32;
    /// The next one, or null. Its frame stays until it has the lock and `unlist`ed it.
    fn next(&mut self, ticket: u32) -> *const Parked<P>;
}

/// Who came in, and the first of them if it has to be woken.
pub(crate) type MovedIn<P> = Option<&'static Parker<P>>;

impl<P: Platform, S: BatchSize> TicketLock<P, S> {
    /// Takes them in if the lock is held with a ticket; else they have to come by themselves.
    ///
    /// # Safety
    /// The lock, and the waiters' frames, stay until this returns.
    pub(crate) unsafe fn move_in(&self, movers: &mut impl Movers<P>) -> Option<MovedIn<P>> {
        let mut word = self.load();
        while word.is_locked() {
            match self.word.compare_exchange_weak(
                word.0,
                word.with_tickets(movers.len()).0,
                // Relaxed: a ticket gives nothing yet.
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                // SAFETY: the caller's promise.
                Ok(_) => return Some(unsafe { self.list(word.tail(), movers) }),
                Err(now) => word = Word(now),
            }
        }
        None
    }

    /// The same for the holder of the lock, which always can.
    ///
    /// # Safety
    /// The caller holds the lock; the waiters' frames stay until it lets that go.
    pub(crate) unsafe fn move_in_held(&self, movers: &mut impl Movers<P>) -> MovedIn<P> {
        let sole = Word::SOLE.serving().0;
        if !self.ticketed.get()
            // Relaxed: the section goes on. (Acquire and Release as it began and will end.)
            && self
                .word
                .compare_exchange(Word::IDLE.0, sole, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.ticketed.set(true);
            // Nobody can have left an address there: there was no ticket.
            self.solo.leave();
        }
        let tickets = Word::IDLE.with_tickets(movers.len()).0;
        // Relaxed: as above.
        let before = Word(self.word.fetch_add(tickets, Ordering::Relaxed));
        // SAFETY: the caller's promise.
        unsafe { self.list(before.tail(), movers) }
    }

    /// Lists waiters whose tickets, from `first` on, have been taken.
    ///
    /// # Safety
    /// As for `move_in`.
    unsafe fn list(&self, first: u32, movers: &mut impl Movers<P>) -> MovedIn<P> {
        let parker = movers.first();
        let mut ticket = first;
        // SAFETY: the caller's promise: the frame is there.
        while let Some(entry) = unsafe { movers.next(ticket).as_ref() } {
            // SAFETY: in no list, and kept as invariant 1 of `park` says.
            unsafe { self.inbox.push(entry, false) };
            ticket = Word::ticket_after(ticket);
        }
        if faulty!(S, MovesQuietly) {
            return None;
        }
        // AcqRel: as in `park`.
        let word = Word(self.word.fetch_or(Word::INBOX, Ordering::AcqRel));
        super::lock::can_take::<S>(word, first).then_some(parker)
    }

    /// For a waiter that was moved in, and woken: takes the lock.
    pub(crate) fn lock_moved(&self, entry: &Parked<P>) {
        let until = &WaitContext::FOREVER;
        let taken = match self.spin(entry.ticket.get(), until) {
            Ok(taken) => {
                // SAFETY: LOCK was taken.
                unsafe { self.unlist(entry) };
                Ok(taken)
            }
            Err(why) => self.lock_parked(entry, why, until),
        };
        debug_assert!(matches!(taken, Ok(Ok(()))), "a wait for ever has ended");
    }
}

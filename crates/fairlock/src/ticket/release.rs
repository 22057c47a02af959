//! Releasing a lock that others wait for: what becomes of the batch, and who is
//! kicked.

use core::sync::atomic::Ordering;

use super::batch::{BatchSize, Step};
use super::lock::TicketLock;
use super::park::Lot;
use super::reopen::MOST_TIMES;
use super::word::Word;
use crate::events::{self, Event};
use crate::platform::{Atomic, Platform};
use crate::wait::Thread;

impl<P: Platform, S: BatchSize> TicketLock<P, S> {
    /// # Safety
    /// The caller holds the lock; `word` is a value it had since.
    #[inline(never)]
    pub(super) unsafe fn unlock_contended(&self, mut word: Word, fair: bool) {
        // SAFETY: the caller holds the lock; not used after the release.
        let own = unsafe { &mut *self.own.get() };
        if !self.ticketed.get() {
            if fair {
                self.close_batch();
            }
            return self.solo.leave_to_waiter();
        }
        let step = S::pace(&mut own.pace, word.0, P::now);
        let mut kicks = Kicks::new();
        loop {
            let released = if word.outstanding() == 1 {
                // Nobody waits, so nobody is in the lists (invariant 2).
                self.ticketed.set(false);
                Word::IDLE
            } else {
                self.ticketed.set(true);
                if word.has_inbox() {
                    // The flag first, then the inbox: who pushes after the
                    // inbox was emptied raises the flag again, and the
                    // exchange below fails. Acquire: pairs with the waiter's
                    // raising of the flag.
                    if faulty!(S, CollectsTooEarly) {
                        own.lot.collect(&self.inbox, word, S::MAX);
                    }
                    let flagged = self.word.fetch_and(!Word::INBOX, Ordering::Acquire);
                    word = Word(flagged).without_inbox();
                    if !faulty!(S, CollectsTooEarly) {
                        own.lot.collect(&self.inbox, word, S::MAX);
                    }
                }
                let mut next = word.released();
                if let Step::Next(size) = step {
                    next = next.with_left(size, S::MAX);
                }
                if fair || step == Step::Close {
                    next = next.closed(S::MAX);
                }
                if S::LONG {
                    self.say_whether_to_reopen(word, next, fair, step, S::served(&own.pace));
                }
                if !own.lot.is_empty() {
                    if matches!(step, Step::Next(_)) {
                        own.lot.count_ready(next, S::MAX);
                    }
                    choose::<P, S>(&mut own.lot, next, &mut kicks);
                }
                next.with_parked(!own.lot.is_empty())
            };
            // Release: the section, and what was done to `own`, happen before
            // the next holder's. From here on the lock may be gone.
            match self.word.compare_exchange(
                word.0,
                released.0,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => word = Word(now),
            }
        }
        if faulty!(S, TouchesReleased) {
            self.load();
        }
        if word.has_parked() {
            events::count(Event::ReleasedSlow);
        }
        kicks.send();
    }

    /// Whether the batch may be reopened once the word, now `word`, is `next`.
    #[inline]
    fn say_whether_to_reopen(&self, word: Word, next: Word, fair: bool, step: Step, served: u32) {
        let left = next.left(S::MAX);
        match step {
            _ if fair => self.say_times_left(0, served, left),
            Step::Close => self.say_times_left(MOST_TIMES, served, left),
            Step::Next(_) => self.say_times_left(MOST_TIMES, 0, left),
            // The first batch after IDLE is as large as can be, until it is closed.
            Step::Continue if word.head() == 0 => self.say_times_left(0, 0, S::MAX),
            Step::Continue => {}
        }
    }

    /// For a holder without a ticket: the batch takes no tickets but those already taken.
    fn close_batch(&self) {
        self.say_times_left(0, 0, 0);
        let mut word = self.load();
        // Relaxed: who may go first is nothing that others read on the strength of.
        while let Err(now) = self.word.compare_exchange_weak(
            word.0,
            word.closed(S::MAX).0,
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            word = Word(now);
        }
    }
}

/// Takes out of the lot whom the release to `next` has to kick.
///
/// While the batch is open running threads may take the lock, and a kick would
/// only slow them down: one waiter of the batch awake, or waking by its timer,
/// is enough for a lock that falls idle to be taken. Once the batch is closed
/// nobody but its stragglers may take the lock: as many as can run.
fn choose<P: Platform, S: BatchSize>(lot: &mut Lot<P>, next: Word, kicks: &mut Kicks<P>) {
    let waiting = next.outstanding_eligible(S::MAX);
    let Some(mut awake) = waiting.checked_sub(lot.ready()) else {
        // Somebody took a ticket and parked since the word was read: the release
        // will fail, and come here again.
        return;
    };
    let wanted = if !next.is_open(S::MAX) {
        waiting.min(P::cpus() as u32 + 1)
    } else {
        u32::from(!lot.has_napping())
    };
    while awake < wanted && !kicks.is_full() {
        let Some(thread) = lot.pop_ready() else { break };
        kicks.push(thread);
        awake += 1;
    }
}

/// Kicks of one release at most. The rest is left to those that were kicked:
/// they run by then, and kick others when they release.
const MOST_KICKS: usize = 8;

/// Threads to kick once the lock is released.
struct Kicks<P: Platform> {
    len: usize,
    threads: [Option<&'static Thread<P>>; MOST_KICKS],
}

impl<P: Platform> Kicks<P> {
    fn new() -> Self {
        Self { len: 0, threads: [None; MOST_KICKS] }
    }

    fn is_full(&self) -> bool {
        self.len == MOST_KICKS
    }

    fn push(&mut self, thread: &'static Thread<P>) {
        self.threads[self.len] = Some(thread);
        self.len += 1;
    }

    /// Thread records are never freed (rules 11 and 12): a kick that comes
    /// late is one spurious wake-up.
    fn send(self) {
        for thread in self.threads.into_iter().take(self.len).flatten() {
            events::count(Event::ReleasedSlowKicked);
            thread.ticket_parker.unpark();
        }
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::Native;
    use crate::ticket::batch::Fixed;
    use crate::ticket::park::{Inbox, Parked};

    #[test]
    fn who_parks_while_a_release_looks_is_left_to_its_next_attempt() {
        let entry = Parked::new(1, Native::thread());
        let (inbox, mut lot) = (Inbox::<Native>::new(), Lot::new());
        // SAFETY: the lists are not used any more when the entry goes.
        unsafe { inbox.push(&entry, false) };
        // Read when only the holder had a ticket.
        lot.collect(&inbox, Word::SOLE, 8);
        let mut kicks = Kicks::new();
        choose::<Native, Fixed<8>>(&mut lot, Word::SOLE.released(), &mut kicks);
        assert_eq!((lot.ready(), kicks.len), (1, 0));
    }
}

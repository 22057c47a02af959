//! Waiting for a ticket's turn: awake for a while, then parked.

use core::sync::atomic::Ordering;

use super::batch::BatchSize;
use super::lock::{TicketLock, can_take};
use super::park::Parked;
use super::reopen::HEIR;
use super::word::Word;
use crate::events::{self, Event};
use crate::platform::{Atomic, Platform};

/// How long a waiter spins before it parks, and after each kick: about what a
/// wake-up costs.
const SPIN_NS: u64 = 40_000;
/// The same for a waiter that cannot run soon: its turn comes after more
/// waiters than there are CPUs.
const SPIN_FAR_NS: u64 = 2_000;
/// The same for a waiter that could have gone first, but saw others do so
/// [`HOT_SECTIONS`] times: the lock is busy without it. In a crowd only
/// [`OVERTAKINGS`] by later ones count.
const SPIN_HOT_NS: u64 = 10_000;
const HOT_SECTIONS: u32 = 4;
const OVERTAKINGS: u32 = 32;
/// While the stragglers of a long batch come in, those that wait for the next one,
/// as many as there are CPUs, stay awake; the others park at once. If nobody was
/// served for this long, they yield their CPU, again and again: to the stragglers,
/// whom they would keep from running, or to their kicks. A CPU that slept instead
/// would take as long to wake as a straggler needs.
const YIELD_AFTER_NS: u64 = 2_000;
/// A waiter of the current batch stays awake if the batch closes within this:
/// its turn comes before a kick could pay.
const SPIN_CLOSING_NS: u64 = 100_000;
/// So many threads that hold or want the lock are a crowd, if there is a CPU for
/// each of them.
const CROWD: u32 = 3;
/// So many of a crowd compete at once when the lock comes free; the others only
/// if none of those does.
const NEAR: u32 = 2;
/// Between two looks at the pace of others that may go first.
const RACE_NS: u64 = 500;
/// Between two looks at the lock once they have gone first time and again: at
/// least and at most.
const BACKOFF_NS: (u64, u64) = (1_000, 5_000);
/// A thread that finds the lock held twice within this gets nothing from running
/// beside the holder: what the lock guards is on the way more than in use.
const HURRIED_NS: u64 = 1_000;
/// How long it leaves the lock to the others then.
const STAND_BACK_NS: u64 = 16_000;
/// How long the heir sleeps: the first time, and the longest. Less if the batch
/// closes sooner: it is awake then, and nobody has to kick it.
const NAP_NS: (u64, u64) = (200_000, 1_600_000);

/// Why a spin ended without the lock: the lock did not come free, or it was not yet our turn
/// ([`WAITING`](Self::WAITING)); or others of the open batch were quicker, time and again, and
/// at their pace it closes after this many nanoseconds. A number, all of it initialised: of an
/// enum the compiler may look at a field that is not there, if that changes nothing, and
/// memcheck tells.
#[derive(Clone, Copy)]
struct InVain(u64);

impl InVain {
    const WAITING: Self = Self(u64::MAX);

    fn is_overtaken(self) -> bool {
        self.0 != Self::WAITING.0
    }

    /// How long to sleep in order to be awake when the batch closes.
    fn until_closing(self) -> u64 {
        if self.is_overtaken() { self.0.saturating_sub(SPIN_CLOSING_NS) } else { u64::MAX }
    }
}

impl<P: Platform, S: BatchSize> TicketLock<P, S> {
    /// Stands back first if the thread has just done this before.
    #[inline(never)]
    pub(super) fn lock_contended_with_backoff(&self) {
        let word = self.load();
        if word != Word::IDLE && self.barge(word) {
            return;
        }
        if word == Word::IDLE || word.is_open(S::MAX) {
            let now = P::now();
            let since = now.wrapping_sub(P::thread().contended.replace(now));
            if since < HURRIED_NS {
                P::spin_until(&P::AtomicU32::new(0), STAND_BACK_NS, |_: u32| false);
                if self.take_solo() {
                    return;
                }
            }
        }
        self.lock_contended();
    }

    #[inline(never)]
    pub(super) fn lock_contended(&self) {
        if self.barge(self.load()) {
            return;
        }
        // Relaxed: a ticket gives nothing yet.
        let before = Word(self.word.fetch_add(Word::TICKET, Ordering::Relaxed));
        let ticket = before.tail();
        if self.take(before.with_ticket(), ticket) {
            return;
        }
        if let Err(why) = self.spin(ticket) {
            events::count(Event::TakenSlow);
            self.lock_parked(ticket, why);
        }
    }

    /// Waits awake for a bounded time.
    fn spin(&self, ticket: u32) -> Result<(), InVain> {
        let still = P::AtomicU32::new(0);
        let mut started = P::now();
        let mut first = self.load();
        let mut raced = false;
        loop {
            let word = self.load();
            if self.take(word, ticket) {
                return Ok(());
            }
            let now = P::now();
            let crowd = (CROWD..=P::cpus() as u32).contains(&word.outstanding());
            if crowd && word.served_since(first) > 0 && word.overtook(ticket) == 0 {
                // The line moves, with a CPU for everybody in it: who went to sleep
                // would hold up those behind it.
                (started, first) = (now, word);
            }
            let mine = word.is_eligible(ticket, S::MAX);
            let racing = mine && word.is_open(S::MAX);
            // Loom takes a yield for a promise that somebody else must run, and
            // would not see the thread park.
            let yields = !mine && S::LONG && !cfg!(fairlock_loom);
            if (raced && !racing) || (yields && word.served_since(first) > 0) {
                // The batch has closed: only its stragglers are ahead now; or one
                // of them was just served.
                (started, first) = (now, word);
            }
            raced = racing;
            let spun = now.wrapping_sub(started);
            let (bound, why) = if racing {
                let sections = word.served_since(first);
                let hot = if crowd {
                    word.overtook(ticket) - first.overtook(ticket) >= OVERTAKINGS
                } else {
                    sections >= HOT_SECTIONS
                };
                patience(hot, sections, word.left(S::MAX), spun)
            } else if yields && word.rank(ticket, S::MAX) >= P::cpus() as u32 {
                (0, InVain::WAITING)
            } else if yields {
                (self.reopens_after().unwrap_or(0).max(SPIN_NS), InVain::WAITING)
            } else if !mine && word.distance(ticket) > P::cpus() as u32 {
                (SPIN_FAR_NS, InVain::WAITING)
            } else {
                (SPIN_NS, InVain::WAITING)
            };
            if spun >= bound {
                return self.give_up(mine, ticket, first, spun, why);
            }
            if why.is_overtaken() {
                // The holder keeps its cache lines while we look only now and
                // then; more often towards the end.
                let pause = (why.0 / 8).clamp(BACKOFF_NS.0, BACKOFF_NS.1);
                P::spin_until(&still, pause, |_| false);
            } else if yields && spun > YIELD_AFTER_NS {
                P::yield_now();
            } else {
                // In a crowd let those go that came first: many at once would take the
                // lock's cache line from the holder and from each other.
                let in_order = racing && crowd;
                let ahead = |word: Word| if in_order { word.ahead(ticket) / NEAR } else { 0 };
                let bound = if racing {
                    // Others may go first: count how often they do.
                    RACE_NS * u64::from(1 + ahead(word))
                } else if yields {
                    YIELD_AFTER_NS
                } else {
                    bound - spun
                };
                let can_take = |word| {
                    let word = Word(word);
                    can_take::<S>(word, ticket) && ahead(word) == 0
                };
                if P::spin_until(&self.word, bound, can_take) {
                    continue;
                }
                if !racing && !yields {
                    return self.give_up(mine, ticket, first, spun, why);
                }
            }
            // A clock that stands still is a model checker's: one look is all.
            if P::now() == started {
                return Err(why);
            }
        }
    }

    /// The end of a spin, unless the lock has been free all along, and may be taken for that.
    fn give_up(
        &self,
        mine: bool,
        ticket: u32,
        first: Word,
        spun: u64,
        why: InVain,
    ) -> Result<(), InVain> {
        if S::LONG && !mine && self.reopen(ticket, first, spun) { Ok(()) } else { Err(why) }
    }

    /// Parks until kicked, spins again, and so on until the lock is taken.
    #[cold]
    fn lock_parked(&self, ticket: u32, mut why: InVain) {
        let thread = P::thread();
        let entry = Parked::new(ticket, thread);
        loop {
            // Relaxed: who is heir is a matter of speed.
            let heir =
                why.is_overtaken() && self.hints.fetch_or(HEIR, Ordering::Relaxed) & HEIR == 0;
            let taken = self.park(&entry, heir.then_some(why));
            if heir {
                // Before the release that lets the lock be freed, if taken.
                self.hints.fetch_and(!HEIR, Ordering::Relaxed);
            }
            if taken {
                // SAFETY: the lock was taken.
                return unsafe { self.unlist(&entry) };
            }
            match self.spin(ticket) {
                Ok(()) => return,
                Err(again) => why = again,
            }
        }
    }

    /// Sleeps until kicked: false. True if the lock was taken meanwhile; the
    /// entry may still be listed then. The heir says how its last spin went.
    fn park(&self, entry: &Parked<P>, mut heir: Option<InVain>) -> bool {
        // SAFETY: the entry is in no list, and `lock_parked` keeps its frame
        // until it is out of them again, with the lock held (invariant 1).
        unsafe { self.inbox.push(entry, heir.is_some()) };
        // AcqRel: the release publishes the push to the holder that sees
        // INBOX; the acquire is `take`'s.
        let word = Word(self.word.fetch_or(Word::INBOX, Ordering::AcqRel)).with_inbox();
        if !faulty!(S, ParksBlindly) && self.take(word, entry.ticket) {
            events::count(Event::TakenSlowPickup);
            return true;
        }
        // The lock was held, or serving another batch, after INBOX was up: a
        // release will look for us (invariant 3).
        let mut nap = NAP_NS.0;
        while entry.is_linked() {
            let until = heir.map(|why| P::now() + nap.min(why.until_closing()));
            entry.thread.ticket_parker.park(until, false);
            if !entry.is_linked() {
                break;
            }
            // The timer, or a kick meant for an earlier wait.
            if heir.is_none() {
                if self.take(self.load(), entry.ticket) {
                    return true;
                }
                continue;
            }
            match self.spin(entry.ticket) {
                Ok(()) => return true,
                Err(why) => heir = Some(why),
            }
            nap = (2 * nap).min(NAP_NS.1);
        }
        false
    }

    /// Takes the calling holder's own entry out of inbox and lot.
    ///
    /// # Safety
    /// The caller holds the lock.
    unsafe fn unlist(&self, entry: &Parked<P>) {
        // SAFETY: the caller holds the lock.
        let own = unsafe { &mut *self.own.get() };
        own.lot.collect(&self.inbox, self.load(), S::MAX);
        if entry.is_linked() {
            own.lot.remove(entry);
        }
    }
}

/// How long to spin for a lock that others may take first, and, if it is `hot`,
/// do: `sections` have passed in `spun`, and the batch has `left` more.
fn patience(hot: bool, sections: u32, left: u32, spun: u64) -> (u64, InVain) {
    if !hot {
        (SPIN_NS, InVain::WAITING)
    } else {
        let closing = spun * u64::from(left) / u64::from(sections);
        let soon = closing < SPIN_CLOSING_NS;
        let bound = if soon { 2 * SPIN_CLOSING_NS } else { SPIN_HOT_NS };
        (bound, InVain(closing))
    }
}

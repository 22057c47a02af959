//! Waiting for a ticket's turn: awake for a while, then parked.

use super::batch::BatchSize;
use super::lock::{Taken, TicketLock, can_take};
use super::park::Parked;
use super::release::Passes;
use super::solo::SPIN_NS;
use super::word::Word;
use crate::events::{self, Event};
use crate::platform::{Atomic, Platform, WaitOutcome};
use crate::wait::{Meeting, WaitContext, WaitError};

/// As [`SPIN_NS`], for a waiter that cannot run soon: its turn comes after those of more waiters than
/// there are CPUs. In ns; compared with the time since the waiter began to spin.
const SPIN_FAR_NS: u64 = 2_000;
/// The same for a waiter that could have gone first, but saw others do so [`HOT_SECTIONS`] times:
/// the lock is busy without it. In a crowd only [`OVERTAKINGS`] by later tickets count. In ns;
/// compared with the time since the waiter began to spin.
const SPIN_HOT_NS: u64 = 10_000;
/// How many sections of others make it so. In sections; compared with those since the spin began.
const HOT_SECTIONS: u32 = 4;
/// The same in a crowd. In sections; compared with those of later tickets since the spin began.
const OVERTAKINGS: u32 = 32;
/// While the stragglers of a long batch come in, as many of those that wait for the next one as
/// there are CPUs stay awake; the others park at once. If nobody was served for this long, those
/// awake yield their CPUs, again and again: to the stragglers, which they would keep from running,
/// or to the threads about to be kicked. A CPU that slept instead would take as long to wake as a
/// straggler needs. In ns; compared with the time since somebody was served.
const YIELD_AFTER_NS: u64 = 2_000;
/// A waiter of the current batch stays awake if the batch closes within this:
/// its turn comes before a kick could pay. In ns; compared with the time left until the batch
/// closes.
const SPIN_CLOSING_NS: u64 = 100_000;
/// This many threads that hold or want the lock are a crowd, if there is a CPU for each of them. In
/// threads; compared with those that hold or want the lock.
const CROWD: u32 = 3;
/// This many of a crowd compete at once when the lock comes free; the others only if none of those
/// does. In threads; compared, as a divisor, with those ahead.
const NEAR: u32 = 2;
/// The time between two looks at the pace of others that may go first. In ns for each thread ahead;
/// compared with the time since the last look.
const RACE_NS: u64 = 500;
/// The time between two looks at the lock once others have gone first time and again: at least and
/// at most. In ns; compared with an eighth of the time until the batch closes.
const BACKOFF_NS: (u64, u64) = (1_000, 5_000);
/// A thread whose wait has a deadline, and that finds the lock in use twice within this while more
/// threads want it than there are CPUs, sleeps at once. Otherwise a thread that tries again and
/// again with short waits would each time compete with the threads that work. In ns; compared with
/// the time since the thread last found the lock in use.
const TRIES_AGAIN_NS: u64 = 50_000;
/// A thread that is back with a ticket given up leaves a free lock to the others for this long:
/// more than a running thread needs to come back. It sleeps if one of them takes the lock. In ns;
/// compared with the time since the thread came back.
#[cfg(feature = "alloc")]
const LEAVE_NS: u64 = 2_000;
/// How long the heir sleeps: the first time, and the longest. Less if the batch closes sooner: the
/// heir is awake then, and nobody has to kick it. In ns; compared with nothing: it is the length of
/// a sleep, which doubles.
const NAP_NS: (u64, u64) = (200_000, 1_600_000);

/// Why a spin ended without the lock. Either the lock did not come free, or it was not yet this
/// thread's turn ([`WAITING`](Self::WAITING)). Or others of the open batch were quicker, time and
/// again, and at their pace the batch closes after this many nanoseconds. It is a number, all of it
/// initialised: of an enum the compiler may read a field that is not there, if that changes
/// nothing, and memcheck reports that.
#[derive(Clone, Copy)]
pub(super) struct InVain(u64);

impl InVain {
    const WAITING: Self = Self(u64::MAX);
    /// Others were quicker, at a pace that was not looked at.
    const OVERTAKEN: Self = Self(u64::MAX - 1);

    fn is_overtaken(self) -> bool {
        self.0 != Self::WAITING.0
    }

    /// How long to sleep in order to be awake when the batch closes.
    fn until_closing(self) -> u64 {
        if self.is_overtaken() { self.0.saturating_sub(SPIN_CLOSING_NS) } else { u64::MAX }
    }
}

/// How a sleep ended.
enum Slept {
    /// LOCK was taken meanwhile; the entry may still be listed.
    Taken(Taken),
    /// The entry is out of all lists.
    Kicked,
    /// The wait is to end. The entry may still be listed.
    Ended(WaitError),
}

impl<P: Platform, S: BatchSize> TicketLock<P, S> {
    #[inline(never)]
    pub(super) fn lock_contended(&self) {
        let taken = self.wait_for_lock(&WaitContext::FOREVER);
        debug_assert!(taken.is_ok(), "a wait for ever has ended");
    }

    #[inline(never)]
    pub(super) fn lock_contended_with_backoff(&self) {
        let taken = self.wait_for_lock_with_backoff(&WaitContext::FOREVER);
        debug_assert!(taken.is_ok(), "a wait for ever has ended");
    }

    /// As `wait_for_lock`, but stands back first if the thread has met others here time and again.
    pub(super) fn wait_for_lock_with_backoff(
        &self,
        until: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        if !self.may_stand_back(until) {
            return self.wait_for_lock(until);
        }
        let mut meeting = Meeting::none();
        meeting.begin(&P::thread().meetings, core::ptr::from_ref(self).addr(), until);
        if !self.take_solo() {
            self.wait_for_lock(until)?;
        }
        meeting.end::<P>();
        Ok(())
    }

    /// Whether the caller may stand back: somebody has the lock, and its batch is open. Not in a
    /// wait with a deadline that is to sleep at once.
    fn may_stand_back(&self, until: &WaitContext<'_, P>) -> bool {
        let word = self.load();
        let competes = until.deadline.is_none() || word.outstanding() <= P::cpus() as u32;
        competes && (word == Word::IDLE || (word.is_locked() && word.is_open(S::MAX)))
    }

    #[inline(never)]
    pub(crate) fn wait_for_lock(&self, until: &WaitContext<'_, P>) -> Result<(), WaitError> {
        #[cfg(feature = "alloc")]
        let taken = self.wait_in_place(until)?;
        #[cfg(not(feature = "alloc"))]
        let taken = None;
        let taken = match taken.or_else(|| self.steal(self.load(), until)) {
            Some(taken) => taken,
            None => self.wait_with_ticket(until)?,
        };
        if taken.is_err() {
            // SAFETY: LOCK was taken.
            unsafe { self.pass_on(self.load(), Passes::Withdrawal) };
        }
        taken
    }

    fn wait_with_ticket(&self, until: &WaitContext<'_, P>) -> Result<Taken, WaitError> {
        if let Some(why) = until.expired(P::now) {
            return Err(why);
        }
        let before = self.word.take_ticket();
        let ticket = before.tail();
        if let Some(taken) = self.take(before.with_ticket(), ticket, until) {
            return Ok(taken);
        }
        let thread = P::thread();
        let why = if until.deadline.is_some()
            && before.is_open(S::MAX)
            && before.outstanding() > P::cpus() as u32
            && thread.contended.again_within(TRIES_AGAIN_NS, P::now())
        {
            InVain::OVERTAKEN
        } else {
            match self.spin(ticket, until) {
                Ok(taken) => return Ok(taken),
                Err(why) => why,
            }
        };
        events::count(Event::TakenSlow);
        #[cfg(feature = "alloc")]
        if until.can_end() {
            return self.lock_parked(&self.new_place(thread, ticket).entry, why, until);
        }
        self.lock_parked(&Parked::new(ticket, &thread.ticket_parker), why, until)
    }

    /// Waits with the ticket that the thread gave up last, if it has not had its turn since.
    #[cfg(feature = "alloc")]
    fn wait_in_place(&self, until: &WaitContext<'_, P>) -> Result<Option<Taken>, WaitError> {
        let thread = P::thread();
        if thread.places.is_empty() || until.expired(P::now).is_some() {
            return Ok(None);
        }
        let Some(place) = self.place_given_up(thread) else { return Ok(None) };
        let entry = &place.entry;
        let before = self.load();
        let in_use = |word: Word| word.is_locked() || word.head() != before.head();
        if !self.word.spin_until(LEAVE_NS.min(until.left(P::now())), in_use)
            && let Some(taken) = self.take(self.load(), entry.ticket.get(), until)
        {
            // SAFETY: LOCK was taken.
            unsafe { self.unlist(entry) };
            return Ok(Some(taken));
        }
        // The thread has spun for this ticket before, and is listed: a release wakes it.
        let why = if entry.naps() { InVain::OVERTAKEN } else { InVain::WAITING };
        self.lock_parked(entry, why, until).map(Some)
    }

    /// Waits awake for a bounded time.
    pub(super) fn spin(&self, ticket: u32, until: &WaitContext<'_, P>) -> Result<Taken, InVain> {
        let still = P::AtomicU32::new(0);
        let mut started = P::now();
        let mut first = self.load();
        let mut raced = false;
        loop {
            let word = self.load();
            if let Some(taken) = self.take(word, ticket, until) {
                return Ok(taken);
            }
            let now = P::now();
            let left = until.left(now);
            if until.expired(|| now).is_some() {
                return Err(InVain::WAITING);
            }
            let crowd = (CROWD..=P::cpus() as u32).contains(&word.outstanding());
            if crowd && word.served_since(first) > 0 && word.overtook(ticket) == 0 {
                // The line moves, with a CPU for everybody in it: a thread that went to sleep would
                // hold up those behind it.
                (started, first) = (now, word);
            }
            let mine = word.is_eligible(ticket, S::MAX);
            let racing = mine && word.is_open(S::MAX);
            // Loom takes a yield for a promise that somebody else must run, and would not see the
            // thread park.
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
                return self.end_spin(mine, ticket, first, spun, why);
            }
            if why.is_overtaken() {
                // The holder keeps its cache lines while others look only now and then; more often
                // towards the end.
                let pause = (why.0 / 8).clamp(BACKOFF_NS.0, BACKOFF_NS.1);
                P::spin_until(&still, pause.min(left), |_| false);
            } else if yields && spun > YIELD_AFTER_NS {
                P::yield_now();
            } else {
                // In a crowd let those go that came first: many at once would take the
                // lock's cache line from the holder and from each other.
                let in_order = racing && crowd;
                let ahead = |word: Word| if in_order { word.ahead(ticket) / NEAR } else { 0 };
                let bound = if racing {
                    // Others may go first: wake often enough to count how often they do.
                    RACE_NS * u64::from(1 + ahead(word))
                } else if yields {
                    YIELD_AFTER_NS
                } else {
                    bound - spun
                };
                let can_take = |word| can_take::<S>(word, ticket) && ahead(word) == 0;
                if self.word.spin_until(bound.min(left), can_take) {
                    continue;
                }
                if !racing && !yields {
                    return self.end_spin(mine, ticket, first, spun, why);
                }
            }
            // A clock that stands still is a model checker's: one look is all.
            if P::now() == started {
                return Err(why);
            }
        }
    }

    /// The end of a spin: takes the lock if it has been free all along and the batch may be
    /// reopened.
    fn end_spin(
        &self,
        mine: bool,
        ticket: u32,
        first: Word,
        spun: u64,
        why: InVain,
    ) -> Result<Taken, InVain> {
        if S::LONG && !mine && self.reopen(ticket, first, spun) { Ok(Ok(())) } else { Err(why) }
    }

    /// Parks until kicked, spins again, and so on until LOCK is taken or the wait ends.
    #[cold]
    pub(super) fn lock_parked(
        &self,
        entry: &Parked<P>,
        mut why: InVain,
        until: &WaitContext<'_, P>,
    ) -> Result<Taken, WaitError> {
        loop {
            let heir =
                why.is_overtaken() && (entry.is_out() || entry.naps()) && self.hints.become_heir();
            let slept = self.park(entry, heir.then_some(why), until);
            if heir {
                // Before the release that lets the lock be freed, if it was taken; and before the
                // holder is told, if the wait has ended.
                self.hints.leave_heir();
            }
            match slept {
                Slept::Taken(taken) => {
                    // SAFETY: LOCK was taken.
                    unsafe { self.unlist(entry) };
                    return Ok(taken);
                }
                Slept::Kicked => {}
                #[cfg(feature = "alloc")]
                Slept::Ended(error) => return self.give_up(entry, error, until),
                #[cfg(not(feature = "alloc"))]
                Slept::Ended(error) => unreachable!("a wait for ever has ended: {error}"),
            }
            match self.spin(entry.ticket.get(), until) {
                Ok(taken) => return Ok(taken),
                Err(again) => why = again,
            }
        }
    }

    /// Sleeps until kicked, or until the wait ends. The heir says how its last spin went.
    fn park(
        &self,
        entry: &Parked<P>,
        mut heir: Option<InVain>,
        until: &WaitContext<'_, P>,
    ) -> Slept {
        let ticket = entry.ticket.get();
        if let Some(why) = until.expired(P::now) {
            return Slept::Ended(why);
        }
        if entry.is_out() {
            // SAFETY: the entry is in no list, and in the frame of `wait_with_ticket`, which
            // keeps it until it is out of them again, with LOCK taken; or in a place
            // (invariant 1).
            unsafe { self.inbox.push(entry, heir.is_some()) };
            let word = self.word.raise_inbox().with_inbox();
            if let Some(taken) = self.take(word, ticket, until) {
                events::count(Event::TakenSlowPickup);
                return Slept::Taken(taken);
            }
        }
        // The lock was held, or serving another batch, after INBOX was up: a
        // release will look for us (invariant 3).
        let mut nap = NAP_NS.0;
        while !entry.is_out() {
            let wake = heir.map(|why| P::now() + nap.min(why.until_closing()));
            let wake = wake.into_iter().chain(until.deadline).min();
            let outcome = entry.parker.park(wake, until.interruptible);
            if entry.is_out() {
                break;
            }
            let ended = match outcome {
                WaitOutcome::Interrupted => Some(WaitError::Interrupted),
                _ => until.expired(P::now),
            };
            if let Some(why) = ended {
                return Slept::Ended(why);
            }
            // The timer, or a kick meant for an earlier wait.
            if heir.is_none() {
                if let Some(taken) = self.take(self.load(), ticket, until) {
                    return Slept::Taken(taken);
                }
                continue;
            }
            match self.spin(ticket, until) {
                Ok(taken) => return Slept::Taken(taken),
                Err(why) => heir = Some(why),
            }
            nap = (2 * nap).min(NAP_NS.1);
        }
        Slept::Kicked
    }

    /// Takes the entry of the caller, who has LOCK, out of inbox and lot.
    ///
    /// # Safety
    /// The caller has LOCK.
    pub(super) unsafe fn unlist(&self, entry: &Parked<P>) {
        if entry.is_out() {
            return;
        }
        // SAFETY: the caller has LOCK.
        let own = unsafe { &mut *self.own.get() };
        own.lot.collect(&self.inbox, self.load(), S::MAX);
        if !entry.is_out() {
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

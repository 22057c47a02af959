//! Waiting for a ticket's turn: awake for a while, then parked.

use super::batch::BatchSize;
use super::lock::{Taken, TicketLock, can_take};
use super::park::Parked;
use super::release::Passes;
use super::word::Word;
use crate::events::{self, Event};
use crate::platform::Platform;
use crate::wait::{Collision, Naps, SOON_NS, WAKE_NS, WaitContext, WaitError, give_way};

/// A waiter that could have gone first, and saw others do so this often, sleeps on a timer: the lock
/// is busy without it. In sections; compared with those since the spin began.
const HOT_SECTIONS: u32 = 4;
/// The same in a crowd. In sections; compared with those of later tickets since the spin began.
const OVERTAKINGS: u32 = 32;
/// This many threads that hold or want the lock are a crowd, if there is a CPU for each of them. In
/// threads; compared with those that hold or want the lock.
const CROWD: u32 = 3;
/// This many of a crowd compete at once when the lock comes free; the others only if none of those
/// does. In threads; compared, as a divisor, with those ahead.
const NEAR: u32 = 2;

/// The time between two looks at the lock once others have gone first time and again: at least and
/// at most. In ns; compared with an eighth of the time until the batch closes.
const BACKOFF_NS: (u64, u64) = (1_000, 5_000);

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
        if self.is_overtaken() { self.0.saturating_sub(WAKE_NS) } else { u64::MAX }
    }
}

/// What a waiter that is awake does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Its batch is open: the thread that runs may go first.
    Races,
    /// Its batch has not begun. While the stragglers of a long batch come in, as many of those that
    /// wait for the next one as there are CPUs stay awake; the others park at once. If nobody was
    /// served for a moment, those awake yield their CPUs, again and again: to the stragglers, which
    /// they would keep from running, or to the threads about to be kicked. A CPU that slept instead
    /// would take as long to wake as a straggler needs.
    Yields,
    /// The others are ahead, and the lock comes free in its turn.
    Waits,
}

impl Part {
    fn of<S: BatchSize>(word: Word, ticket: u32) -> Self {
        // Loom takes a yield for a promise that somebody else must run, and would not see the
        // thread park.
        match word.is_eligible(ticket, S::MAX) {
            true if word.is_open(S::MAX) => Self::Races,
            false if S::LONG && !cfg!(fairlock_loom) => Self::Yields,
            _ => Self::Waits,
        }
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
        let mut collision = Collision::none();
        collision.begin(&P::thread().collisions, core::ptr::from_ref(self).addr(), until);
        if !self.take_solo() {
            self.wait_for_lock(until)?;
        }
        collision.end::<P>();
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
        let taken = self.wait_in_place(until)?;
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
            // Otherwise a thread that tries again and again with short waits would each time compete
            // with the threads that work.
            && thread.contended.again_within(WAKE_NS, P::now())
        {
            InVain::OVERTAKEN
        } else {
            match self.spin(ticket, until) {
                Ok(taken) => return Ok(taken),
                Err(why) => why,
            }
        };
        events::count(Event::TakenSlow);
        if until.can_end() {
            return self.lock_parked(&self.new_place(thread, ticket).entry, why, until);
        }
        self.lock_parked(&Parked::new(ticket, &thread.ticket_parker), why, until)
    }

    /// Waits with the ticket that the thread gave up last, if it has not had its turn since.
    fn wait_in_place(&self, until: &WaitContext<'_, P>) -> Result<Option<Taken>, WaitError> {
        let thread = P::thread();
        if thread.places.is_empty() || until.expired(P::now).is_some() {
            return Ok(None);
        }
        let Some(place) = self.place_given_up(thread) else { return Ok(None) };
        let entry = &place.entry;
        let before = self.load();
        // The thread, which is back, leaves a free lock to the others for longer than a running one
        // needs to come back, and sleeps if one of them takes the lock.
        let in_use = |word: Word| word.is_locked() || word.head() != before.head();
        if !self.word.spin(SOON_NS, until, in_use) {
            if let Some(taken) = self.take(self.load(), entry.ticket.get(), until) {
                // SAFETY: LOCK was taken.
                unsafe { self.unlist(entry) };
                return Ok(Some(taken));
            }
        }
        // The thread has spun for this ticket before, and is listed: a release wakes it.
        let why = if entry.naps() { InVain::OVERTAKEN } else { InVain::WAITING };
        self.lock_parked(entry, why, until).map(Some)
    }

    /// Waits awake for a bounded time.
    pub(super) fn spin(&self, ticket: u32, until: &WaitContext<'_, P>) -> Result<Taken, InVain> {
        let mut started = P::now();
        let mut first = self.load();
        let mut part = Part::Waits;
        loop {
            let word = self.load();
            if let Some(taken) = self.take(word, ticket, until) {
                return Ok(taken);
            }
            let now = P::now();
            if until.expired(|| now).is_some() {
                return Err(InVain::WAITING);
            }
            let before = core::mem::replace(&mut part, Part::of::<S>(word, ticket));
            let crowd = (CROWD..=P::cpus() as u32).contains(&word.outstanding());
            // The batch has closed, so only its stragglers are ahead now; or one of them was just
            // served. Or the line moves, with a CPU for everybody in it: a thread that went to sleep
            // would hold up those behind it.
            let moves = part == Part::Yields || (crowd && word.overtook(ticket) == 0);
            let closed = before == Part::Races && part != Part::Races;
            if closed || (moves && word.served_since(first) > 0) {
                (started, first) = (now, word);
            }
            let spun = now.wrapping_sub(started);
            let (bound, why) = self.patience(part, ticket, word, first, crowd, spun);
            if spun >= bound {
                return self.end_spin(ticket, first, spun, why);
            }
            if why.is_overtaken() {
                // The holder keeps its cache lines while others look only now and then; more often
                // towards the end.
                until.stand_back((why.0 / 8).clamp(BACKOFF_NS.0, BACKOFF_NS.1));
            } else if part == Part::Yields && spun > SOON_NS {
                give_way::<P>();
            } else {
                // In a crowd let those go that came first: many at once would take the lock's cache
                // line from the holder and from each other.
                let in_order = crowd && part == Part::Races;
                let ahead = |word: Word| if in_order { word.ahead(ticket) / NEAR } else { 0 };
                let look_ns = match part {
                    // Others may go first: wake often enough to count how often they do.
                    Part::Races => SOON_NS / 4 * u64::from(1 + ahead(word)),
                    Part::Yields => SOON_NS,
                    Part::Waits => bound - spun,
                };
                let may = |word| can_take::<S>(word, ticket) && ahead(word) == 0;
                if self.word.spin(look_ns, until, may) {
                    continue;
                }
                if part == Part::Waits {
                    return self.end_spin(ticket, first, spun, why);
                }
            }
            // A clock that stands still is a model checker's: one look is all.
            if P::now() == started {
                return Err(why);
            }
        }
    }

    /// How long to stay awake, and why no longer: the thread has spun since the word was `first`.
    fn patience(
        &self,
        part: Part,
        ticket: u32,
        word: Word,
        first: Word,
        crowd: bool,
        spun: u64,
    ) -> (u64, InVain) {
        let sections = word.served_since(first);
        let is_hot = || match crowd {
            true => word.overtook(ticket) - first.overtook(ticket) >= OVERTAKINGS,
            false => sections >= HOT_SECTIONS,
        };
        let bound = match part {
            Part::Races if is_hot() => {
                let closing = spun * u64::from(word.left(S::MAX)) / u64::from(sections);
                let soon = closing < WAKE_NS;
                return (if soon { 2 * WAKE_NS } else { SOON_NS }, InVain(closing));
            }
            Part::Yields if word.rank(ticket, S::MAX) >= P::cpus() as u32 => 0,
            Part::Yields => self.reopens_after().unwrap_or(0).max(WAKE_NS),
            Part::Waits
                if !word.is_eligible(ticket, S::MAX)
                    && word.distance(ticket) > P::cpus() as u32 =>
            {
                SOON_NS
            }
            _ => WAKE_NS,
        };
        (bound, InVain::WAITING)
    }

    /// The end of a spin: takes the lock if it has been free all along and the batch may be
    /// reopened.
    fn end_spin(&self, ticket: u32, first: Word, spun: u64, why: InVain) -> Result<Taken, InVain> {
        if S::LONG && self.reopen(ticket, first, spun) { Ok(Ok(())) } else { Err(why) }
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
            let responsible = why.is_overtaken()
                && (entry.is_out() || entry.naps())
                && self.hints.become_responsible();
            let slept = self.park(entry, responsible.then_some(why), until);
            if responsible {
                // Before the release that lets the lock be freed, if it was taken; and before the
                // holder is told, if the wait has ended.
                self.hints.leave_responsibility();
            }
            match slept {
                Slept::Taken(taken) => {
                    // SAFETY: LOCK was taken.
                    unsafe { self.unlist(entry) };
                    return Ok(taken);
                }
                Slept::Kicked => {}
                Slept::Ended(error) => return self.give_up(entry, error, until),
            }
            match self.spin(entry.ticket.get(), until) {
                Ok(taken) => return Ok(taken),
                Err(again) => why = again,
            }
        }
    }

    /// Sleeps until kicked, or until the wait ends. The responsible waiter says how its last spin went.
    fn park(
        &self,
        entry: &Parked<P>,
        mut responsible: Option<InVain>,
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
            unsafe { self.inbox.push(entry, responsible.is_some()) };
            let word = self.word.raise_inbox().with_inbox();
            if let Some(taken) = self.take(word, ticket, until) {
                events::count(Event::TakenSlowPickup);
                return Slept::Taken(taken);
            }
        }
        // The lock was held, or serving another batch, after INBOX was up: a
        // release will look for us (invariant 3).
        // Sleeps of one wake-up: 0.6 of the throughput in three cells.
        let mut naps = Naps::new(4 * WAKE_NS);
        while !entry.is_out() {
            // Less if the batch closes sooner: the responsible waiter is awake then, and nobody has to kick it.
            let timer = responsible.map(|why| P::now() + naps.next().min(why.until_closing()));
            let ended = until.sleep(entry.parker, timer);
            if entry.is_out() {
                break;
            }
            if let Some(why) = ended {
                return Slept::Ended(why);
            }
            // The timer, or a kick meant for an earlier wait.
            if responsible.is_none() {
                if let Some(taken) = self.take(self.load(), ticket, until) {
                    return Slept::Taken(taken);
                }
                continue;
            }
            match self.spin(ticket, until) {
                Ok(taken) => return Slept::Taken(taken),
                Err(why) => responsible = Some(why),
            }
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

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use std::sync::mpsc;

    use fairlock_testing::{join, scope, until};

    use super::*;
    use crate::platform::{Native, System};
    use crate::ticket::batch::Fixed;
    use crate::ticket::word::AtomicWord;

    #[test]
    fn a_lock_that_came_free_as_its_waiter_lay_down_is_counted() {
        fairlock_testing::alone(|| {
            events::set_counting(true);
            let lock = TicketLock::<Native, Fixed<1>>::new();
            let ticket = lock.word.take_ticket().tail();
            let entry = Parked::new(ticket, &Native::thread().ticket_parker);
            let taken = lock.lock_parked(&entry, InVain::WAITING, &WaitContext::FOREVER);
            assert!(matches!(taken, Ok(Ok(()))));
            assert_eq!(events::global().get(Event::TakenSlowPickup), 1);
            // SAFETY: just taken.
            unsafe { lock.unlock() };
            assert!(!lock.is_locked());
        });
    }

    /// It is held, by a thread that does not leave it.
    #[test]
    fn a_spin_ends_while_the_batch_is_open_and_its_waiter_parks() {
        let mut lock = TicketLock::<Native, Fixed<8>>::after(100);
        lock.word = AtomicWord::new(lock.load().with_ticket().locked());
        lock.ticketed.set(true);
        let ticket = lock.word.take_ticket().tail();
        assert!(lock.load().is_open(8) && lock.load().is_eligible(ticket, 8));
        assert!(lock.spin(ticket, &WaitContext::FOREVER).is_err());
        let (lock, (send, record)) = (&lock, mpsc::channel());
        scope(|s| {
            let waiter = s.spawn(move || {
                send.send(Native::thread()).unwrap();
                let entry = Parked::new(ticket, &Native::thread().ticket_parker);
                let taken = lock.lock_parked(&entry, InVain::WAITING, &WaitContext::FOREVER);
                assert!(matches!(taken, Ok(Ok(()))));
            });
            let record = record.recv().unwrap();
            until(|| record.ticket_parker.is_parked());
            // SAFETY: the lock is held, in the name of the ticket before.
            unsafe { lock.unlock() };
            join(waiter);
        });
        // SAFETY: taken by that thread.
        unsafe { lock.unlock() };
        lock.check_idle().unwrap();
    }
}

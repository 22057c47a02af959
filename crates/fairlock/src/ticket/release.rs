//! Releasing a lock that others wait for: what happens to the batch, and who is kicked.

use core::sync::atomic::Ordering;

use super::batch::{BatchSize, Step};
use super::lock::{Own, TicketLock};
use super::park::{Lot, Popped};
use super::word::Word;
use crate::events::{self, Event};
use crate::platform::Platform;
use crate::wait::{FEW_WAKES, MOST_DOUBLINGS, Parker};

/// How LOCK is given up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Passes {
    /// By a holder of the lock.
    Release { fair: bool },
    /// By a thread that waited in vain for the solo holder.
    Withdrawal,
}

/// LOCK is being given up.
struct Leaving<P: Platform> {
    how: Passes,
    step: Step,
    /// How many of the next batch's first tickets were given up.
    skipped: u32,
    kicks: Kicks<P>,
}

impl<P: Platform, S: BatchSize> TicketLock<P, S> {
    /// # Safety
    /// The caller holds the lock; `word` is a value it had since.
    #[inline(never)]
    pub(super) unsafe fn unlock_contended(&self, word: Word, fair: bool) {
        if self.ticketed.get() {
            // SAFETY: the caller holds the lock, with a ticket.
            return unsafe { self.pass_on(word, Passes::Release { fair }) };
        }
        if fair {
            self.forbid_reopening();
            self.close_batch();
        }
        self.solo.leave_to_waiter();
    }

    /// Gives up LOCK, with the ticket that it was taken with.
    ///
    /// # Safety
    /// The caller has LOCK; `word` is a value that the lock's word had since.
    pub(super) unsafe fn pass_on(&self, mut word: Word, how: Passes) {
        // SAFETY: the caller has LOCK; not used after it is given up.
        let own = unsafe { &mut *self.own.get() };
        let mut step = Step::Continue;
        if let Passes::Release { .. } = how {
            step = S::pace(&mut own.pace, word.0, P::now);
        }
        let mut leaving = Leaving { how, step, skipped: 0, kicks: Kicks::new() };
        loop {
            if word.has_inbox() {
                // The flag first, then the inbox: a waiter that pushes after the inbox was emptied
                // raises the flag again, and the exchange below fails.
                word = self.word.lower_inbox();
                own.lot.collect(&self.inbox, word, S::MAX);
            }
            // Everything below goes by this word: the exchange fails if it has changed.
            if word.left(S::MAX) == 1 && !matches!(leaving.step, Step::Next(_)) {
                leaving.step = S::pace(&mut own.pace, word.0, P::now);
            }
            let released = match self.released(own, word, &mut leaving) {
                Ok(released) => released,
                Err(now) => {
                    word = now;
                    continue;
                }
            };
            if let Passes::Release { .. } = how {
                self.ticketed.set(released != Word::IDLE);
            }
            // Release: the section, and what was done to `own`, happen before the next holder's
            // section. From here on the lock may be gone.
            match self.word.exchange(word, released, Ordering::Release) {
                Ok(()) => break,
                Err(now) => word = now,
            }
        }
        if word.has_parked() {
            events::count(Event::ReleasedSlow);
        }
        leaving.kicks.send();
    }

    /// What `word` becomes when the lock is let go; what it is now if something else had to be done
    /// first. Takes out of the lot the waiters to kick.
    fn released(
        &self,
        own: &mut Own<P, S>,
        word: Word,
        leaving: &mut Leaving<P>,
    ) -> Result<Word, Word> {
        if word.outstanding() <= 1 {
            // Nobody waits, so nobody is in the lists (invariant 2).
            return Ok(Word::IDLE);
        }
        let (how, step) = (leaving.how, leaving.step);
        let mut next = match how {
            Passes::Release { .. } => word.released(),
            Passes::Withdrawal => word.withdrawn(),
        };
        if let Step::Next(size) = step {
            while own.lot.pop_given_up(next.skipped(leaving.skipped)) {
                leaving.skipped += 1;
            }
            next = next.skipped(leaving.skipped).with_left(size, S::MAX);
            own.lot.count_ready(next, S::MAX);
        }
        if next.outstanding() == 0 {
            // All the others have given up.
            return Ok(Word::IDLE);
        }
        let fair = how == Passes::Release { fair: true };
        if fair || step == Step::Close {
            next = next.closed(S::MAX);
        }
        if S::LONG && how != Passes::Withdrawal {
            self.say_whether_to_reopen(word, next, fair, step, &own.pace);
        }
        if !own.lot.is_empty() {
            let fresh = matches!(step, Step::Next(_));
            let has_responsible = self.hints.load().has_responsible();
            match choose::<P, S>(&mut own.lot, next, fresh, has_responsible, &mut leaving.kicks) {
                Chosen::Enough => {}
                Chosen::GivenUp => return Err(self.retire(word)),
                Chosen::Nobody => return Err(word),
            }
        }
        Ok(next.with_parked(!own.lot.is_empty()))
    }

    /// Says whether the batch may be reopened once the word, now `word`, has become `next`.
    #[inline]
    fn say_whether_to_reopen(
        &self,
        word: Word,
        next: Word,
        fair: bool,
        step: Step,
        pace: &S::Pace,
    ) {
        match step {
            _ if fair => self.forbid_reopening(),
            Step::Close | Step::Next(_) => self.allow_reopening(MOST_DOUBLINGS, next, pace),
            // The first batch after IDLE is as large as can be, until it is closed.
            Step::Continue if !word.is_serving() => self.forbid_reopening(),
            Step::Continue => {}
        }
    }

    /// For a holder without a ticket: from here on the batch takes no tickets but those already
    /// taken.
    pub(crate) fn close_batch(&self) {
        let mut word = self.load();
        // The word is IDLE again if those that waited have given up.
        while word != Word::IDLE {
            match self.word.adjust(word, word.closed(S::MAX)) {
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
    }

    /// For the thread that has LOCK: retires a ticket of the current batch, other than its own (see
    /// `give_up`).
    pub(super) fn retire(&self, mut word: Word) -> Word {
        while let Err(now) = self.word.adjust(word, word.retired()) {
            word = now;
        }
        word.retired()
    }
}

/// Takes out of the lot the waiters that the release to `next` has to kick.
///
/// While the batch is open running threads may take the lock, and a kick would
/// only slow them down: one waiter of the batch awake, or waking by its timer,
/// is enough for a lock that falls idle to be taken. Once the batch is closed, only its stragglers
/// may take the lock: as many are kicked as can run.
///
/// A `fresh` batch is not in the word yet.
fn choose<P: Platform, S: BatchSize>(
    lot: &mut Lot<P>,
    next: Word,
    fresh: bool,
    has_responsible: bool,
    kicks: &mut Kicks<P>,
) -> Chosen {
    let waiting = next.outstanding_eligible(S::MAX);
    let Some(mut awake) = waiting.checked_sub(lot.ready()) else {
        // Somebody took a ticket and parked since the word was read: the release
        // will fail, and come here again.
        return Chosen::Enough;
    };
    let wanted = if !next.is_open(S::MAX) {
        waiting.min(P::cpus() as u32 + 1)
    } else {
        u32::from(!(lot.has_napping() && has_responsible))
    };
    // At least one: those kicked in an earlier attempt may have given up.
    while awake < wanted && (awake == 0 || !kicks.is_full()) {
        match lot.pop_ready(fresh) {
            Some(Popped::Waiter(parker)) => kicks.push(parker),
            Some(Popped::GivenUp) => return Chosen::GivenUp,
            None if awake == 0 => return Chosen::Nobody,
            None => break,
        }
        awake += 1;
    }
    Chosen::Enough
}

/// Whether the release can be made now.
#[derive(Debug, PartialEq, Eq)]
enum Chosen {
    /// It can.
    Enough,
    /// A ticket came out that was given up, and has to be retired first.
    GivenUp,
    /// All of the batch have given up: the batch has to begin behind them.
    Nobody,
}

/// Threads to kick once the lock is released: few. The rest is left to the threads kicked, which kick
/// others when they release the lock.
struct Kicks<P: Platform> {
    len: usize,
    parkers: [Option<&'static Parker<P>>; FEW_WAKES],
}

impl<P: Platform> Kicks<P> {
    fn new() -> Self {
        Self { len: 0, parkers: [None; FEW_WAKES] }
    }

    fn is_full(&self) -> bool {
        self.len == FEW_WAKES
    }

    /// A kick for which there is no room is made at once.
    fn push(&mut self, parker: &'static Parker<P>) {
        match self.parkers.get_mut(self.len) {
            Some(place) => {
                *place = Some(parker);
                self.len += 1;
            }
            None => parker.unpark(),
        }
    }

    /// Thread records are never freed (rules 11 and 12): a kick that comes
    /// late is one spurious wake-up.
    fn send(self) {
        for parker in self.parkers.into_iter().take(self.len).flatten() {
            events::count(Event::ReleasedSlowKicked);
            parker.unpark();
        }
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::{Native, System};
    use crate::ticket::batch::Fixed;
    use crate::ticket::park::{Inbox, Parked};
    use crate::ticket::word::AtomicWord;
    use crate::wait::WaitContext;

    #[test]
    fn who_parks_while_a_release_looks_is_left_to_its_next_attempt() {
        let entry = Parked::new(1, &Native::thread().ticket_parker);
        let (inbox, mut lot) = (Inbox::<Native>::new(), Lot::new());
        // SAFETY: the lists are not used any more when the entry goes.
        unsafe { inbox.push(&entry, false) };
        // The word was read when only the holder had a ticket.
        lot.collect(&inbox, Word::SOLE, 8);
        let mut kicks = Kicks::new();
        let next = Word::SOLE.released();
        let chosen = choose::<Native, Fixed<8>>(&mut lot, next, false, false, &mut kicks);
        assert_eq!(chosen, Chosen::Enough);
        assert_eq!((lot.ready(), kicks.len), (1, 0));
    }

    /// Who waits when a holder without a ticket leaves the lock fairly has it before anyone who comes later.
    #[test]
    fn a_holder_without_a_ticket_closes_the_batch_if_it_leaves_fairly() {
        for fair in [true, false] {
            let lock = TicketLock::<Native, Fixed<8>>::new();
            lock.lock();
            // Of a thread that does not run.
            lock.word.take_ticket();
            // SAFETY: taken above.
            unsafe { if fair { lock.unlock_fair() } else { lock.unlock() } }
            assert!(!lock.is_locked());
            assert_eq!(lock.load().is_open(8), !fair);
        }
    }

    /// As above, by a holder with a ticket.
    #[test]
    fn a_holder_with_a_ticket_closes_the_batch_if_it_leaves_fairly() {
        for fair in [true, false] {
            let mut lock = TicketLock::<Native, Fixed<8>>::after(100);
            let word = lock.load().with_ticket().with_ticket();
            lock.word = AtomicWord::new(word.with_left(6, 8));
            assert_eq!(lock.take(lock.load(), 100, &WaitContext::FOREVER), Some(Ok(())));
            // SAFETY: taken above.
            unsafe { if fair { lock.unlock_fair() } else { lock.unlock() } }
            assert_eq!(lock.load().is_open(8), !fair);
        }
    }

    /// A lock with `tickets` from 100 on, of batches of `MAX`, which serves the first one.
    fn serving<const MAX: u32>(tickets: u32) -> TicketLock<Native, Fixed<MAX>> {
        let mut lock = TicketLock::<Native, Fixed<MAX>>::after(96);
        let word = (0..tickets + 4).fold(lock.load(), |word, _| word.with_ticket());
        let word = (0..4).fold(word, |word, _| word.skipped(1)).with_left(MAX, MAX);
        lock.word = AtomicWord::new(word);
        assert_eq!(lock.take(lock.load(), 100, &WaitContext::FOREVER), Some(Ok(())));
        assert!(lock.is_locked());
        lock
    }

    /// Parks `entry`, of a thread that does not run.
    fn park<S: BatchSize>(lock: &TicketLock<Native, S>, entry: &Parked<Native>) {
        // SAFETY: the tests let it out of the lists before it goes.
        unsafe { lock.inbox.push(entry, false) };
        lock.word.raise_inbox();
    }

    fn unlock<S: BatchSize>(lock: &TicketLock<Native, S>) {
        // SAFETY: each caller holds the lock.
        unsafe { lock.unlock() }
    }

    #[test]
    fn any_waiter_of_the_batch_may_go_first_and_no_later_one() {
        let lock = serving::<4>(6);
        let take = |ticket| lock.take(lock.load(), ticket, &WaitContext::FOREVER).is_some();
        assert!(!take(101), "it is held");
        unlock(&lock);
        // The batch is 100 to 103.
        assert!(!take(104) && !take(105));
        for ticket in [103, 101, 102] {
            assert!(take(ticket));
            unlock(&lock);
        }
        assert!(take(105) && !take(104));
        unlock(&lock);
        assert!(take(104));
        unlock(&lock);
        lock.check_idle().unwrap();
    }

    #[test]
    fn a_try_takes_a_ticket_and_the_lock_together_or_nothing() {
        let lock = serving::<4>(3);
        let held = lock.load();
        assert!(!lock.try_lock() && lock.load() == held, "it is held");
        unlock(&lock);
        assert!(lock.try_lock(), "as the last of its batch");
        assert_eq!((lock.load().tail(), lock.load().is_locked()), (104, true));
        unlock(&lock);
        let closed = lock.load();
        assert!(!lock.try_lock() && lock.load() == closed, "it would be of the next batch");
    }

    #[test]
    fn a_lock_says_whether_it_is_held_and_whether_anybody_waits() {
        let lock = serving::<4>(1);
        assert!(lock.is_locked() && !lock.is_contended());
        lock.word.take_ticket();
        assert!(lock.is_locked() && lock.is_contended());
        unlock(&lock);
        assert!(!lock.is_locked() && lock.is_contended(), "nobody has taken it yet");
    }

    #[test]
    fn a_release_kicks_the_waiters_of_the_batch_and_says_whether_others_are_parked() {
        let parker = &Native::thread().ticket_parker;
        let [first, second] = [101, 102].map(|ticket| Parked::new(ticket, parker));
        let lock = serving::<1>(3);
        park(&lock, &second);
        park(&lock, &first);
        unlock(&lock);
        assert!(first.is_out() && !second.is_out() && lock.load().has_parked());
        assert_eq!(lock.take(lock.load(), 101, &WaitContext::FOREVER), Some(Ok(())));
        unlock(&lock);
        assert!(second.is_out() && !lock.load().has_parked());
        assert_eq!(lock.take(lock.load(), 102, &WaitContext::FOREVER), Some(Ok(())));
        unlock(&lock);
        lock.check_idle().unwrap();
    }

    #[test]
    fn as_many_of_a_closed_batch_are_kicked_as_can_run() {
        let parker = &Native::thread().ticket_parker;
        let entries: Vec<_> = (101..108).map(|ticket| Parked::new(ticket, parker)).collect();
        let lock = serving::<8>(8);
        entries.iter().for_each(|entry| park(&lock, entry));
        unlock(&lock);
        let kicked = entries.iter().filter(|entry| entry.is_out()).count();
        assert_eq!(kicked, entries.len().min(Native::cpus() + 1));
        for entry in &entries {
            let ticket = entry.ticket.get();
            assert_eq!(lock.take(lock.load(), ticket, &WaitContext::FOREVER), Some(Ok(())));
            // SAFETY: the lock was just taken.
            unsafe { lock.unlist(entry) };
            unlock(&lock);
        }
        lock.check_idle().unwrap();
    }
}

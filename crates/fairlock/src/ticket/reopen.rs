//! A batch goes on without its stragglers while they have no CPU.
//!
//! Once a batch gives out no more tickets, only its stragglers may take the lock. A straggler that
//! was preempted, or woken behind other programs, could keep everybody else waiting for as long as
//! the system does not run it. So a waiter of the next batch that has a CPU and has seen the lock
//! free for as long as a wake-up takes *reopens* the batch: that waiter takes the lock, as do the
//! waiters ahead of it, and then any thread that comes, for as long as the shortest batch lasts.
//! Then the batch closes again. For each further reopening the lock must have been free for twice
//! as long, and the batch then stays open for twice as long. So a straggler that was away for a
//! while waits about as long again, and little time is lost waiting for it.
//!
//! *The bound.* A batch has no more tickets, served or given up, than the largest batch, however
//! often it is reopened; so fewer threads than that overtake a waiter. Also, a batch is reopened at
//! most [`MOST_DOUBLINGS`] times, for 31 ms altogether; with long sections this time runs out
//! first. After a fair release a batch is not reopened: waiters then go first, whether they have a
//! CPU or not.
//!
//! *How waiters know.* The holder says in the lock's `hints` how often the batch may still be
//! reopened, before the release from which on that applies. A waiter reads the word with Acquire,
//! and then the hints. If the word is unchanged when the waiter takes the lock, no holder can have
//! changed the hints in between.

use core::sync::atomic::Ordering;

use super::batch::{BatchSize, Pace};
use super::lock::TicketLock;
use super::word::Word;
use crate::platform::Platform;
use crate::wait::{MOST_DOUBLINGS, WAKE_NS, WaitContext};

/// How long the lock must have been free before the batch is reopened, if it may still be that
/// often: as long as a wake-up takes, and twice as long each time. Time stands still in model
/// checks.
const fn free_for(times_left: u32) -> u64 {
    if cfg!(fairlock_loom) { 0 } else { WAKE_NS << (MOST_DOUBLINGS - times_left) }
}

impl<P: Platform, S: BatchSize> TicketLock<P, S> {
    /// How many tickets of the next batch one reopening may serve before the holder counts them.
    const RESERVE: u32 = if S::MAX < 4_096 { S::MAX / 4 } else { 1_024 };

    /// The calling holder says how often the batch may still be reopened; not at all if it is too
    /// large for that already. `word` says what is left of the batch.
    pub(super) fn allow_reopening(&self, times: u32, word: Word, pace: &S::Pace) {
        let has_room = S::spent(pace, word.0) + word.left(S::MAX) + Self::RESERVE <= S::MAX;
        self.hints.set_times_left(if has_room { times } else { 0 });
    }

    /// The calling holder says that the batch may not be reopened.
    pub(super) fn forbid_reopening(&self) {
        self.hints.set_times_left(0);
    }

    /// How long the lock must be free until the batch may be reopened, if it may be.
    pub(super) fn reopens_after(&self) -> Option<u64> {
        let times = self.hints.load().times_left();
        (S::LONG && times > 0).then(|| free_for(times))
    }

    /// For a waiter of a later batch, which saw the word as `before` this long ago: takes the lock
    /// if it has been free since, and the stragglers have been waited for long enough.
    pub(super) fn reopen(&self, ticket: u32, before: Word, ns: u64) -> bool {
        // Acquire: for the hints.
        let word = self.word.load(Ordering::Acquire);
        let was_free = !before.is_locked() && !word.is_locked() && before.head() == word.head();
        // Without SERVING the lock may be held solo.
        if !was_free || !word.is_serving() || word.is_eligible(ticket, S::MAX) {
            return false;
        }
        let Some(after) = self.reopens_after() else { return false };
        let served_early = word.rank(ticket, S::MAX) + 1;
        if ns < after || served_early > Self::RESERVE {
            return false;
        }
        let reopened = word.with_left(word.left(S::MAX) + served_early, S::MAX);
        if self.exchange(word, reopened.locked(), ticket, &WaitContext::FOREVER).is_err() {
            return false;
        }
        // SAFETY: the lock was taken.
        unsafe { self.go_on() };
        true
    }

    /// Gives the batch that was just reopened its tickets.
    ///
    /// # Safety
    /// The caller holds the lock.
    #[cold]
    unsafe fn go_on(&self) {
        // SAFETY: the caller holds the lock.
        let own = unsafe { &mut *self.own.get() };
        let times = self.hints.load().times_left();
        let mut word = self.load();
        // Nobody else changes what is left of the batch.
        let left = word.left(S::MAX);
        let goes_on_ns = Pace::SHORTEST << (MOST_DOUBLINGS - times);
        let spent = S::spent(&own.pace, word.0);
        let tickets = S::reopen(&mut own.pace, goes_on_ns, P::now);
        let left = left + tickets.min(S::MAX.saturating_sub(spent + left));
        loop {
            let next = word.with_left(left, S::MAX);
            match self.word.adjust(word, next) {
                Ok(()) => break word = next,
                Err(now) => word = now,
            }
        }
        own.lot.count_ready(word, S::MAX);
        self.allow_reopening(times - 1, word, &own.pace);
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::{Native, System};
    use crate::ticket::batch::Adaptive;
    use crate::ticket::park::Parked;
    use crate::ticket::word::AtomicWord;

    const MAX: u32 = 16;
    type Lock = TicketLock<Native, Adaptive<MAX>>;

    /// A free lock whose batch has served `served` tickets and has `stragglers` left, with two
    /// tickets of the next batch.
    fn closed(section_ns: u64, served: u32, stragglers: u32) -> Lock {
        let mut lock = Lock::after(100);
        let mut word = lock.load();
        for _ in 0..stragglers + 2 {
            word = word.with_ticket();
        }
        lock.word = AtomicWord::new(word.with_left(stragglers, MAX));
        let word = lock.load();
        Adaptive::<MAX>::set_spent(&mut lock.own.get_mut().pace, word.head(), served, section_ns);
        // SAFETY: nobody else is there.
        lock.allow_reopening(MOST_DOUBLINGS, word, unsafe { &(*lock.own.get()).pace });
        lock
    }

    #[test]
    fn a_batch_is_reopened_when_its_lock_has_been_free_for_long_enough() {
        let lock = closed(Pace::SHORTEST, 1, 1);
        let word = lock.load();
        assert!(!lock.reopen(101, word, free_for(MOST_DOUBLINGS) - 1));
        assert!(!lock.reopen(100, word, u64::MAX), "it is of the batch itself");
        assert!(!lock.reopen(101, word.with_ticket().locked(), u64::MAX), "it was not free");
        assert!(lock.reopen(101, word, free_for(MOST_DOUBLINGS)));
        let word = lock.load();
        assert!(word.is_locked() && [100, 101].iter().all(|&ticket| word.is_eligible(ticket, MAX)));
        assert_eq!(lock.hints.load().times_left(), MOST_DOUBLINGS - 1);
        assert_eq!(lock.reopens_after(), Some(2 * free_for(MOST_DOUBLINGS)));
    }

    #[test]
    fn those_that_a_reopened_batch_serves_are_kicked_in_their_turn() {
        let lock = closed(Pace::SHORTEST, 1, 1);
        let entry = Parked::new(101, &Native::thread().ticket_parker);
        // SAFETY: the lists are not used any more when the entry goes.
        unsafe { lock.inbox.push(&entry, false) };
        // SAFETY: nobody else is there.
        let own = unsafe { &mut *lock.own.get() };
        own.lot.collect(&lock.inbox, lock.load(), MAX);
        assert_eq!(own.lot.ready(), 0);
        assert!(lock.reopen(102, lock.load(), u64::MAX));
        assert_eq!(own.lot.ready(), 1);
    }

    #[test]
    fn a_batch_serves_no_more_than_the_largest_one_however_often_it_is_reopened() {
        for served in 0..MAX {
            let lock = closed(0, served, 1);
            if lock.reopen(101, lock.load(), u64::MAX) {
                assert_eq!(served + lock.load().left(MAX), MAX);
            } else {
                assert!(served + 1 + Lock::RESERVE > MAX);
            }
        }
    }

    #[test]
    fn a_ticket_given_up_counts_in_its_batch_when_that_is_reopened() {
        let lock = closed(0, 1, 9);
        assert_eq!(lock.take(lock.load(), 100, &WaitContext::FOREVER), Some(Ok(())));
        for _ in 0..7 {
            lock.retire(lock.load());
        }
        // SAFETY: taken above.
        unsafe { lock.unlock() };
        assert_eq!(lock.load().left(MAX), 1);
        assert!(lock.reopen(109, lock.load(), u64::MAX));
        let word = lock.load();
        assert!(word.head_since(99) + word.left(MAX) <= MAX, "{} are left", word.left(MAX));
    }

    #[test]
    fn nobody_goes_before_those_that_were_let_go_first() {
        let lock = closed(0, 1, 2);
        assert_eq!(lock.take(lock.load(), 100, &WaitContext::FOREVER), Some(Ok(())));
        // SAFETY: taken above.
        unsafe { lock.unlock_fair() };
        assert!(!lock.load().is_locked() && lock.hints.load().times_left() == 0);
        assert!(!lock.reopen(102, lock.load(), u64::MAX));
    }

    /// As above, by a holder without a ticket.
    #[test]
    fn nobody_goes_before_those_that_a_holder_without_a_ticket_lets_go_first() {
        let lock = Lock::new();
        assert!(lock.try_lock());
        lock.hints.set_times_left(MOST_DOUBLINGS);
        lock.word.take_ticket();
        // SAFETY: taken above.
        unsafe { lock.unlock_fair() };
        assert_eq!(lock.hints.load().times_left(), 0);
    }
}

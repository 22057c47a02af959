//! The size of a batch: fixed, or adapted to what the end of a batch costs.

use super::word::{BATCH_LIMIT, Word};
use crate::wait::{MISSED_NS, SOON_NS};

/// The batch size of a [`TicketLock`](super::TicketLock): [`Fixed`] or [`Adaptive`].
///
/// Sealed: the sizes are part of the lock's word.
pub trait BatchSize: sealed::Sealed + Send + Sync + 'static {
    /// The largest batch, however it comes to be that large: no waiter is overtaken by this
    /// many later ones.
    const MAX: u32;
    /// Whether a batch lasts much longer than a wake-up. Then threads that wait for the next one do
    /// well to yield their CPUs to this one's stragglers. With short batches, yielding would again
    /// and again bring in threads that lost their CPU outside the lock, and each batch would have
    /// to wait for all of them.
    #[doc(hidden)]
    const LONG: bool = false;
    /// What the lock's holder knows about the current batch.
    #[doc(hidden)]
    type Pace: Send;
    #[doc(hidden)]
    const START: Self::Pace;
    /// Called by the holder in each release while others wait, with the word that it is about to
    /// release. Called once more if waiters give up meanwhile, so that its service becomes the
    /// batch's last.
    #[doc(hidden)]
    fn pace(pace: &mut Self::Pace, word: u64, now: impl Fn() -> u64) -> Step;
    /// How many tickets of the current batch have been served or given up, at most, when the word
    /// is `word`. Asked where batches are [`LONG`](Self::LONG) only.
    #[doc(hidden)]
    fn spent(_pace: &Self::Pace, _word: u64) -> u32 {
        0
    }
    /// The current batch is to go on for `_ns` nanoseconds: with how many tickets. Asked where
    /// batches are [`LONG`](Self::LONG) only.
    #[doc(hidden)]
    fn reopen(_pace: &mut Self::Pace, _ns: u64, _now: impl Fn() -> u64) -> u32 {
        0
    }
}

/// What a release does to the batch.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The batch goes on.
    Continue,
    /// The batch takes no tickets but those already taken.
    Close,
    /// This service was the batch's last; the next batch has this many tickets.
    Next(u32),
}

pub(super) mod sealed {
    pub trait Sealed {}
}

/// Batches of `BATCH` tickets, a power of two. `Fixed<1>` is a ticket lock.
#[derive(Debug)]
pub struct Fixed<const BATCH: u32>;

impl<const BATCH: u32> sealed::Sealed for Fixed<BATCH> {}

impl<const BATCH: u32> BatchSize for Fixed<BATCH> {
    const MAX: u32 = {
        assert!(BATCH.is_power_of_two(), "the batch size must be a power of two");
        assert!(BATCH <= BATCH_LIMIT, "the batch size must be at most 65536");
        BATCH
    };
    type Pace = ();
    const START: () = ();

    #[inline]
    fn pace(_pace: &mut (), word: u64, _now: impl Fn() -> u64) -> Step {
        if Word(word).left(Self::MAX) == 1 { Step::Next(BATCH) } else { Step::Continue }
    }
}

/// Batches of 1 to `MAX` tickets, whose size follows what the end of a batch costs.
///
/// A batch costs what it takes to bring its stragglers in (the waiters that were not running when
/// its last ticket was taken). The lock measures that cost and the length of a section, and makes
/// the batches so long that the cost is a fortieth of the time, but no shorter than a millisecond
/// and no longer than six: a waiter is served within about two batches. A batch that lasts longer
/// than planned, because the sections have become longer, is closed early. A batch whose stragglers
/// have no CPU goes on without them, for 1 ms, then 2, 4, 8 and 16, but serves no more than `MAX`
/// tickets altogether. So a waiter that the system keeps from running does not keep the others
/// waiting, and is itself served later by about as long as it was kept.
#[derive(Debug)]
pub struct Adaptive<const MAX: u32>;

impl<const MAX: u32> sealed::Sealed for Adaptive<MAX> {}

impl<const MAX: u32> BatchSize for Adaptive<MAX> {
    const MAX: u32 = {
        assert!(MAX.is_power_of_two(), "the largest batch must be a power of two");
        assert!(MAX <= BATCH_LIMIT, "the largest batch must be at most 65536");
        MAX
    };
    const LONG: bool = true;
    type Pace = Pace;
    const START: Pace = Pace {
        opened: 0,
        closed: 0,
        served: 0,
        served_open: 0,
        first: 0,
        lost: 0,
        planned: Pace::SHORTEST as u32,
    };

    #[inline]
    fn pace(pace: &mut Pace, word: u64, now: impl Fn() -> u64) -> Step {
        let word = Word(word);
        if !word.is_serving() {
            // The first release since the lock was idle that leaves others waiting.
            pace.begin(now());
            pace.first = 0;
        }
        pace.served += 1;
        if pace.closed == 0 && !word.is_open(MAX) {
            pace.closed = now();
            pace.served_open = pace.served;
        }
        if word.left(MAX) == 1 {
            // A later ticket, if tickets of the next batch were given up.
            pace.first = word.released().head();
            return Step::Next(pace.end(now()).clamp(1, MAX));
        }
        if pace.closed == 0
            && (pace.served.is_power_of_two() || pace.served % Pace::LOOK_EVERY == 0)
            && now().wrapping_sub(pace.opened) > u64::from(pace.planned)
        {
            return Step::Close;
        }
        Step::Continue
    }

    fn spent(pace: &Pace, word: u64) -> u32 {
        Word(word).head_since(pace.first)
    }

    fn reopen(pace: &mut Pace, ns: u64, now: impl Fn() -> u64) -> u32 {
        pace.reopen(ns, now())
    }
}

/// The current batch of an adaptive lock, and what the last ones cost.
#[derive(Debug)]
pub struct Pace {
    /// When the batch began.
    opened: u64,
    /// When its last ticket was seen taken; zero before.
    closed: u64,
    /// Services so far, and those of them before `closed`.
    served: u32,
    served_open: u32,
    /// No ticket of the batch is before this one.
    first: u32,
    /// How long a batch is to last, in nanoseconds.
    planned: u32,
    /// What bringing the stragglers in typically costs beyond their sections.
    lost: u64,
}

#[cfg(test)]
impl<const MAX: u32> Adaptive<MAX> {
    /// Sets the batch as if `spent` tickets of it had been served, with sections of `section_ns`,
    /// and then it had been closed.
    pub(super) fn set_spent(pace: &mut Pace, head: u32, spent: u32, section_ns: u64) {
        (pace.opened, pace.closed) = (1, 1 + u64::from(spent) * section_ns);
        (pace.served, pace.served_open) = (spent, spent);
        pace.first = head - spent;
    }
}

impl Pace {
    /// One part in this many may be lost to bringing in stragglers. In times what stragglers cost;
    /// compared, as a time, with [`MISSED_NS`] and the limit that follows.
    pub const SHARE: u64 = 40;
    /// A batch is planned to last no longer than this.
    pub const LONGEST: u64 = 6 * MISSED_NS;
    /// A batch is planned to last at least this, so that running threads need
    /// not alternate at every section; and goes on for this when it is reopened.
    pub const SHORTEST: u64 = MISSED_NS;

    /// When to look whether it is time to close the batch: after 1, 2, 4 … services, so before it
    /// has lasted twice as long; and at least after this many, as sections may suddenly become
    /// longer. A look costs as much as an uncontended acquire. In services; compared with those
    /// since the last look.
    const LOOK_EVERY: u32 = 64;

    fn begin(&mut self, now: u64) {
        self.opened = now;
        self.closed = 0;
        self.served = 0;
        self.served_open = 0;
    }

    /// How long a section was, before the batch closed.
    fn section(&self) -> u64 {
        (self.closed.wrapping_sub(self.opened) / u64::from(self.served_open.max(1))).max(1)
    }

    /// The batch is closed, and is to go on for `ns` nanoseconds all the same; returns with how
    /// many tickets.
    #[cold]
    fn reopen(&mut self, ns: u64, now: u64) -> u32 {
        if self.closed == 0 {
            // Its last ticket was taken since the last release.
            (self.closed, self.served_open) = (now, self.served);
        }
        let section = self.section();
        self.closed = 0;
        let planned = now.wrapping_sub(self.opened).saturating_add(ns);
        self.planned = u32::try_from(planned).unwrap_or(u32::MAX);
        u32::try_from(ns / section).unwrap_or(u32::MAX)
    }

    /// The batch is over; returns how many tickets the next one gets.
    #[cold]
    fn end(&mut self, now: u64) -> u32 {
        let section = self.section();
        let stragglers = u64::from(self.served - self.served_open);
        let lost = now.wrapping_sub(self.closed).saturating_sub(stragglers * section);
        // Small steps towards the sample: what is typical counts, not how long one thread was
        // preempted.
        let step = (self.lost + 2 * SOON_NS) / 8;
        self.lost = lost.clamp(self.lost.saturating_sub(step), self.lost + step);
        let planned = (self.lost * Self::SHARE).clamp(Self::SHORTEST, Self::LONGEST);
        self.planned = planned as u32;
        self.begin(now);
        u32::try_from(planned / section).unwrap_or(u32::MAX)
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    const SECTION_NS: u64 = 1_000;

    /// Ends `batches` whose stragglers cost `lost` beyond their sections; returns how long the next
    /// one is to last.
    fn planned_after(pace: &mut Pace, batches: u32, lost: u64) -> u64 {
        for _ in 0..batches {
            pace.begin(0);
            (pace.served_open, pace.served) = (1_000, 1_010);
            pace.closed = 1_000 * SECTION_NS;
            let tickets = pace.end(pace.closed + 10 * SECTION_NS + lost);
            assert_eq!(u64::from(tickets), u64::from(pace.planned) / SECTION_NS);
        }
        u64::from(pace.planned)
    }

    #[test]
    fn a_batch_lasts_as_long_as_its_stragglers_are_worth() {
        let mut pace = Adaptive::<65_536>::START;
        for lost in [100_000, 50_000] {
            let planned = planned_after(&mut pace, 100, lost);
            assert_eq!(planned, lost * Pace::SHARE);
        }
        assert_eq!(planned_after(&mut pace, 100, 0), Pace::SHORTEST);
        assert_eq!(planned_after(&mut pace, 100, 10_000_000), Pace::LONGEST);
    }

    #[test]
    fn a_batch_closes_soon_after_its_sections_have_grown() {
        let mut pace = Adaptive::<65_536>::START;
        // Somebody holds the lock, it was not idle before, and the batch is open.
        let word = Word::after(1).with_ticket().locked().0;
        let mut now = 0;
        let mut release = |section| {
            now += section;
            Adaptive::<65_536>::pace(&mut pace, word, || now)
        };
        // More short sections than a power of two, and then long ones.
        assert!((0..600).all(|_| release(1) == Step::Continue));
        let long = (0..).take_while(|_| release(Pace::LONGEST) == Step::Continue).count();
        assert!(long < Pace::LOOK_EVERY as usize, "closed after {long} long sections");
    }

    /// Whatever the last one measured.
    #[test]
    fn a_batch_begins_with_the_first_release_after_idle() {
        let mut pace = Adaptive::<65_536>::START;
        (pace.opened, pace.closed, pace.served, pace.served_open, pace.first) = (1, 2, 3, 3, 4);
        let word = Word::SOLE.with_ticket().0;
        assert!(Adaptive::<65_536>::pace(&mut pace, word, || 1_000) == Step::Continue);
        let begun = (pace.opened, pace.closed, pace.served, pace.served_open, pace.first);
        assert_eq!(begun, (1_000, 0, 1, 0, 0));
        // Its last ticket is taken.
        let word = Word::after(1).with_ticket().with_ticket().locked().closed(65_536).0;
        for now in [2_000, 3_000] {
            Adaptive::<65_536>::pace(&mut pace, word, || now);
            assert_eq!((pace.closed, pace.served_open), (2_000, 2));
        }
    }

    /// Where a CPU is taken away now and then, waits are not longer than elsewhere.
    #[test]
    fn a_straggler_that_was_preempted_makes_the_next_batch_hardly_longer() {
        let mut pace = Adaptive::<65_536>::START;
        let before = planned_after(&mut pace, 100, 60_000);
        let after = planned_after(&mut pace, 1, 4_000_000);
        assert!(after > before && after < before + before / 6, "{before} became {after}");
        assert_eq!(planned_after(&mut pace, 4, 60_000), before);
    }

    /// The last ticket of a batch is served.
    #[test]
    fn the_next_batch_is_as_long_as_it_is_planned_and_no_longer_than_the_largest() {
        for (section_ns, tickets) in [(100_000, 10), (1, 65_536)] {
            let mut pace = Adaptive::<65_536>::START;
            (pace.served_open, pace.served) = (1_000, 1_000);
            pace.closed = 1_000 * section_ns;
            let word = Word::after(1).with_ticket().locked().with_left(1, 65_536).0;
            let next = Adaptive::<65_536>::pace(&mut pace, word, || 1_000 * section_ns);
            assert!(next == Step::Next(tickets), "{tickets}");
        }
    }
}

//! What the turns of readers and of writers yield while somebody is queued, for
//! [`ReaderSpin::Adaptive`](crate::rwsem::ReaderSpin). Kept under the queue lock.
//!
//! A turn begins when one side gets in after the other, when the lock is kept for
//! one that is still asleep, or when the first waiter queues. It ends when the next
//! one begins, or when the last waiter has left. While somebody is queued every
//! acquisition comes by a path that counts it, and most of them under the queue
//! lock; so counting costs a plain addition, and a look at the clock where turns
//! change. Reads past the queue are counted by their threads, which tell now and then.
//!
//! The time and the acquisitions of a side's turns are summed up, each turn
//! counting an eighth less than the one after it. Long turns weigh more than short
//! ones, as they should: what is wanted is acquisitions for time.

use crate::wait::Kind;

/// One acquisition, in units that can decay by an eighth.
const ONE: u64 = 64;

/// The turns of one side.
#[derive(Clone, Copy)]
struct Sums {
    ns: u64,
    acquisitions: u64,
}

impl Sums {
    fn add(&mut self, ns: u64, acquisitions: u64) {
        let decay = |sum: u64| sum - sum / 8;
        self.ns = decay(self.ns).saturating_add(ns);
        self.acquisitions =
            decay(self.acquisitions).saturating_add(acquisitions.saturating_mul(ONE));
    }
}

/// The current turn, and the sums of those before it.
pub(in crate::rwsem) struct Turns {
    /// Whose turn it is, while somebody is queued.
    side: Option<Kind>,
    began: u64,
    acquisitions: u32,
    sums: [Sums; 2],
    /// How long each side's last turn was.
    last_ns: [u64; 2],
}

impl Turns {
    pub(in crate::rwsem) const fn new() -> Self {
        let none = Sums { ns: 0, acquisitions: 0 };
        Self { side: None, began: 0, acquisitions: 0, sums: [none; 2], last_ns: [0; 2] }
    }

    /// The first waiter has queued; `side` is inside, or was last.
    pub(in crate::rwsem::published) fn begin(&mut self, side: Kind, now: u64) {
        (self.side, self.began, self.acquisitions) = (Some(side), now, 0);
    }

    /// Counts acquisitions of a side. If the turn was the other's, that ended, and this
    /// one began, when `since` says: returned then.
    pub(in crate::rwsem::published) fn count(
        &mut self,
        side: Kind,
        acquisitions: u64,
        since: impl FnOnce() -> u64,
    ) -> Option<u64> {
        let began = (self.side? != side).then(since);
        if let Some(since) = began {
            self.end(since);
            self.begin(side, since);
        }
        self.add(acquisitions);
        began
    }

    /// Counts reads past the queue, if it is the readers' turn still: what is told
    /// too late belongs to none.
    pub(in crate::rwsem::published) fn count_past_queue(&mut self, reads: u64) {
        if self.side == Some(Kind::Reader) {
            self.add(reads);
        }
    }

    fn add(&mut self, acquisitions: u64) {
        let added = acquisitions.saturating_add(self.acquisitions.into());
        self.acquisitions = u32::try_from(added).unwrap_or(u32::MAX);
    }

    /// The turn is over, and no other begins unless `begin` says so.
    pub(in crate::rwsem::published) fn end(&mut self, now: u64) {
        if let Some(side) = self.side.take() {
            // Below zero if the clock was looked at before the turn began.
            let ns = (now.wrapping_sub(self.began) as i64).max(0) as u64;
            self.sums[side as usize].add(ns, self.acquisitions.into());
            self.last_ns[side as usize] = ns;
        }
    }

    /// How long a side's last turn was.
    pub(in crate::rwsem::published) fn last_ns(&self, side: Kind) -> u64 {
        self.last_ns[side as usize]
    }

    /// Whose turns yield more acquisitions for their time; the readers' if that is
    /// not known.
    pub(in crate::rwsem::published) fn better(&self) -> Kind {
        let [readers, writers] = self.sums;
        // The acquisitions of the one in the time of the other.
        let product = |a: Sums, b: Sums| u128::from(a.acquisitions) * u128::from(b.ns);
        if product(readers, writers) >= product(writers, readers) {
            Kind::Reader
        } else {
            Kind::Writer
        }
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    /// Turns by turns: so many acquisitions in so many nanoseconds, readers first.
    fn after(rounds: usize, reads: (u64, u64), writes: (u64, u64)) -> Turns {
        let mut turns = Turns::new();
        play(&mut turns, rounds, reads, writes);
        turns
    }

    fn play(turns: &mut Turns, rounds: usize, reads: (u64, u64), writes: (u64, u64)) {
        let mut now = 1_000;
        turns.begin(Kind::Writer, now);
        for _ in 0..rounds {
            assert_eq!(turns.count(Kind::Reader, reads.0, || now), Some(now));
            now += reads.1;
            assert_eq!(turns.count(Kind::Writer, writes.0, || now), Some(now));
            now += writes.1;
        }
        turns.end(now);
    }

    #[test]
    fn the_side_with_more_acquisitions_for_its_time_is_better() {
        assert_eq!(after(3, (10, 1_000), (9, 1_000)).better(), Kind::Reader);
        assert_eq!(after(3, (10, 1_000), (11, 1_000)).better(), Kind::Writer);
        // One at a time, but in a tenth of the time.
        assert_eq!(after(3, (9, 1_000), (1, 100)).better(), Kind::Writer);
    }

    #[test]
    fn nothing_is_counted_while_nobody_is_queued() {
        let mut turns = Turns::new();
        assert_eq!(turns.count(Kind::Writer, 1, || unreachable!()), None);
        turns.end(1_000);
        assert_eq!(turns.better(), Kind::Reader);
    }

    #[test]
    fn only_a_change_of_turn_looks_at_the_clock() {
        let mut turns = Turns::new();
        turns.begin(Kind::Writer, 1_000);
        assert_eq!(turns.count(Kind::Writer, 1, || unreachable!()), None);
        assert_eq!(turns.count(Kind::Reader, 1, || 2_000), Some(2_000));
    }

    #[test]
    fn what_was_long_ago_does_not_count() {
        let mut turns = after(1_000, (10, 1_000), (1, 1_000));
        play(&mut turns, 40, (1, 1_000), (2, 1_000));
        assert_eq!(turns.better(), Kind::Writer);
    }

    #[test]
    fn a_turn_that_ended_before_it_began_took_no_time() {
        let mut turns = Turns::new();
        turns.begin(Kind::Reader, 1_000);
        assert_eq!(turns.count(Kind::Writer, 1, || 900), Some(900));
        turns.end(1_900);
        let [readers, writers] = turns.sums;
        assert_eq!((readers.ns, writers.ns), (0, 1_000));
    }

    #[test]
    fn reads_past_the_queue_count_in_the_readers_turn_only() {
        let mut turns = Turns::new();
        turns.count_past_queue(64);
        turns.begin(Kind::Reader, 1_000);
        turns.count_past_queue(16);
        assert_eq!(turns.count(Kind::Writer, 1, || 2_000), Some(2_000));
        turns.count_past_queue(64);
        turns.end(3_000);
        assert_eq!(turns.sums.map(|sums| sums.acquisitions / ONE), [16, 1]);
    }
}

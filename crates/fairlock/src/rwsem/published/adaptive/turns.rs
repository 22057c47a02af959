//! What the turns of readers and of writers yield while somebody is queued, for
//! [`ReaderSpin::Adaptive`](crate::rwsem::ReaderSpin). Kept under the queue lock.
//!
//! A turn begins when one side gets in after the other, when the lock is kept for
//! one that is still asleep, or when the first waiter queues. It ends when the next
//! one begins, or when the last waiter has left. While somebody is queued every
//! acquisition comes by a path that counts it, and most of them under the queue
//! lock. So counting costs a plain addition, and a look at the clock where turns change. Reads past
//! the queue are counted by their threads, which tell now and then.
//!
//! What a side's turns yield is summed up, each turn counting an eighth less than the one after it.

use crate::rwsem::sem::Yield;
use crate::wait::Kind;

/// The current turn, and what those before it yielded.
pub(crate) struct Turns {
    /// Whose turn it is, while somebody is queued.
    side: Option<Kind>,
    began: u64,
    acquisitions: u32,
    yields: [Yield; 2],
    /// How long each side's last turn was.
    last_ns: [u64; 2],
}

impl Turns {
    pub(crate) const fn new() -> Self {
        let yields = [Yield::NONE; 2];
        Self { side: None, began: 0, acquisitions: 0, yields, last_ns: [0; 2] }
    }

    /// The first waiter has queued; `side` is inside, or was last.
    pub(crate) fn begin(&mut self, side: Kind, now: u64) {
        (self.side, self.began, self.acquisitions) = (Some(side), now, 0);
    }

    /// Counts acquisitions of a side. If the turn was the other side's, that one ended, and a new
    /// one began, at the time that `since` returns: then that time is returned.
    pub(crate) fn count(
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

    /// Counts reads past the queue, if it is still the readers' turn: reads told too late belong to
    /// no turn.
    pub(crate) fn count_past_queue(&mut self, reads: u64) {
        if self.side == Some(Kind::Reader) {
            self.add(reads);
        }
    }

    fn add(&mut self, acquisitions: u64) {
        let added = acquisitions.saturating_add(self.acquisitions.into());
        self.acquisitions = u32::try_from(added).unwrap_or(u32::MAX);
    }

    /// The turn is over; none begins before the next call of `begin`.
    pub(crate) fn end(&mut self, now: u64) {
        if let Some(side) = self.side.take() {
            // Below zero if the clock was looked at before the turn began.
            let ns = (now.wrapping_sub(self.began) as i64).max(0) as u64;
            self.yields[side as usize].add_later(Yield::new(self.acquisitions.into(), ns));
            self.last_ns[side as usize] = ns;
        }
    }

    /// How long a side's last turn was.
    pub(crate) fn last_ns(&self, side: Kind) -> u64 {
        self.last_ns[side as usize]
    }

    /// The side whose turns yield more acquisitions for their time; the readers if that is not
    /// known.
    pub(crate) fn better(&self) -> Kind {
        let [readers, writers] = self.yields;
        if readers.is_worth(writers, 1.0) { Kind::Reader } else { Kind::Writer }
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    /// The turns of both sides, one after the other: so many acquisitions in so many nanoseconds
    /// each.
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
        assert_eq!(turns.yields.map(Yield::ns), [0.0, 1_000.0]);
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
        assert_eq!(turns.yields.map(Yield::rate), [16e-3, 1e-3]);
    }
}

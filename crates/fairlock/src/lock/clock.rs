//! The time-keeping of tenures: a pure state machine, changed under the queue lock only.
//!
//! The length of a tenure is the aim divided by the number of threads that want the lock. From one
//! tenure to the next this number falls by at most an eighth of a thread. So tenures hardly grow
//! while threads are served that do not come back, and a thread behind `n` of them waits for little
//! more than `n` shares of the aim, as behind threads that come back. If the other side gave up its
//! last tenure early, the tenure is no longer than that one was: so an occasional writer interrupts
//! readers soon, and for a moment. But a tenure is at least the measured cost of a handoff divided
//! by the budget.
//!
//! If both sides use up their tenures, these last equally long, overruns included. Readers' tenures
//! overrun by more: readers occupy all CPUs, and the next writer has to get one first.
//!
//! Times are nanoseconds of [`System::now`](crate::platform::System::now), all 64 bits of them. A
//! tenure begins only when a queued thread takes the lock: not when a waiter arrives after a time
//! without waiters, nor when a wait ends without the lock. So if one thread takes a lock again and
//! again and another comes now and then, the second finds the tenure over, and gets the lock next.

use super::mode::{FADES, SAMPLE_NS};
use super::policy::TenureShape;
use crate::wait::{Kind, WATCH_NS};

/// The most that a part of a measured handoff counts for: what took longer was held up by something
/// else.
const MAX_COST: u64 = 2 * WATCH_NS;

/// Who waits, as far as the length of a tenure depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// How many threads.
    pub(crate) threads: usize,
    /// Whether some of them wait for the side whose tenure it is not: readers, writers.
    pub(crate) sides: [bool; 2],
}

/// Whose tenure it is, and until when.
#[derive(Debug)]
pub(crate) struct TenureClock {
    side: Kind,
    /// When one of the queue last took the lock; zero if none has.
    started: u64,
    /// When the first of the present waiters came, if that was later.
    awaited: u64,
    end: u64,
    /// How many readers have joined the first one in this tenure, or more.
    joined: u16,
    /// How many threads want the lock, in eighths ([`FADES`]); higher if there were more lately.
    crowd: usize,
    /// How long each side's last tenure was, if it was given up early; else `u64::MAX`. A side gets
    /// no longer a tenure than the other one used.
    used: [u64; 2],
    /// What a handoff costs the thread that leaves, in nanoseconds, smoothed.
    leaving: u32,
    /// For how long the lock stands free in a handoff, in nanoseconds, smoothed.
    idle: u32,
    /// For how long tenures of either side went on past their ends, in nanoseconds, smoothed.
    overrun: [u32; 2],
}

impl TenureClock {
    pub(crate) const fn new() -> Self {
        Self {
            side: Kind::Writer,
            started: 0,
            awaited: 0,
            end: 0,
            joined: 0,
            crowd: 0,
            used: [u64::MAX; 2],
            leaving: 0,
            idle: 0,
            overrun: [0; 2],
        }
    }

    // ---- what happens ----

    /// The first waiter queues, at `now`; `inside` has the lock. It is that side's tenure, which ends at once
    /// if one of the queue has not had the lock for long.
    pub(crate) fn first_comes(
        &mut self,
        now: u64,
        inside: Kind,
        waiting: Waiting,
        shape: TenureShape,
    ) {
        if self.started == 0 {
            self.started = now;
        } else if self.side == Kind::Writer && inside == Kind::Reader {
            // A waiting writer had the lock last, then nobody waited, and now readers have it: so writers
            // gave it up.
            self.used[Kind::Writer as usize] = 0;
        }
        self.begin(inside, now);
        self.crowd = 0;
        self.set_end(waiting, shape);
    }

    /// Another waiter queues.
    pub(crate) fn another_comes(&mut self, waiting: Waiting, shape: TenureShape) {
        let before = self.end;
        self.set_end(waiting, shape);
        self.end = self.end.min(before); // others may have given up
    }

    /// The waiter that was next takes the lock; `waiting` are those left.
    pub(crate) fn next_takes(
        &mut self,
        now: u64,
        kind: Kind,
        waiting: Waiting,
        shape: TenureShape,
    ) {
        // A writer that comes in before the end of a writers' tenure shares it: else the
        // writers had more the less each of them wants.
        let shares = kind == Kind::Writer && self.side == Kind::Writer && !self.is_over(now);
        if !shares {
            let lasted = now.saturating_sub(self.started);
            self.used[self.side as usize] = if self.is_over(now) { u64::MAX } else { lasted };
            if self.is_over(now) {
                // Beyond that the cause was not the waiter that is next, nor a long section.
                let overrun = (now - self.end).min(SAMPLE_NS);
                smooth(&mut self.overrun[self.side as usize], overrun);
            }
            self.started = now;
            self.begin(kind, now);
            // Between two writers the readers may have a tenure, too, which are the same ones each time.
            self.crowd = self.crowd.saturating_sub(usize::from(kind == Kind::Writer));
            self.set_end(waiting, shape);
        }
    }

    /// A reader of the queue joins those inside.
    pub(crate) fn reader_joins(&mut self) {
        self.joined = self.joined.saturating_add(1);
    }

    fn begin(&mut self, side: Kind, awaited: u64) {
        self.side = side;
        self.awaited = awaited;
        self.joined = 0;
    }

    fn set_end(&mut self, waiting: Waiting, shape: TenureShape) {
        let other = self.side.other();
        let other = waiting.sides[other as usize].then_some(self.used[other as usize]);
        let sharers = waiting.threads + 1 + self.joined as usize;
        self.crowd = self.crowd.max(sharers * usize::from(FADES));
        let length = self.length(self.crowd, other, shape);
        self.end = self.started.saturating_add(length).max(self.awaited);
    }

    /// The length of a tenure if `crowd` eighths of threads, the holder included, want the lock,
    /// and the other side, if any of it waits, used `other` of its last tenure.
    fn length(&self, crowd: usize, other: Option<u64>, shape: TenureShape) -> u64 {
        let cost = match other {
            // Writers follow each other and only want the lock: the cost for the leaving writer
            // falls on a CPU that has nothing else to do.
            None if self.side == Kind::Writer => u64::from(self.idle),
            _ => self.handoff_ns(),
        };
        let least = (cost * 100 / shape.percent).min(shape.most_ns);
        // The aim is for the whole, with what a tenure lasts past its end: the waiter that is next
        // takes a moment to come.
        let share = (shape.aim_ns / crowd as u64).saturating_mul(FADES.into());
        let overrun = u64::from(self.overrun[self.side as usize]);
        let length = match other {
            // Both sides get the same time, overruns included: so a side's own overrun is taken
            // off.
            Some(u64::MAX) => share.max(least + self.longest_overrun()) - overrun,
            other => share.saturating_sub(overrun).min(other.unwrap_or(u64::MAX)).max(least),
        };
        // A readers' tenure starts with one reader, and ends when the last has left: the cost of a
        // handoff makes up for both.
        if self.side == Kind::Reader { length.saturating_add(cost) } else { length }
    }

    fn longest_overrun(&self) -> u64 {
        self.overrun[0].max(self.overrun[1]).into()
    }

    // ---- what is measured ----

    /// How long it took the leaving thread to wake the waiter that is next.
    pub(crate) fn note_leaving(&mut self, ns: u64) {
        smooth(&mut self.leaving, ns.min(MAX_COST));
    }

    /// How long the closed lock was free until the waiter that is next took it.
    pub(crate) fn note_idle(&mut self, ns: u64) {
        smooth(&mut self.idle, ns.min(MAX_COST));
    }

    // ---- what is asked ----

    /// Whose tenure it is.
    pub(crate) fn side(&self) -> Kind {
        self.side
    }

    /// When it ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn is_over(&self, now: u64) -> bool {
        now >= self.end
    }

    fn handoff_ns(&self) -> u64 {
        u64::from(self.idle) + u64::from(self.leaving)
    }

    /// The bound on the wait of a thread with `grants_ahead` grants before its own, for a lock that
    /// is also read, or only written: see
    /// [`RawRwLock::planned_wait_ns`](super::RawRwLock::planned_wait_ns).
    pub(crate) fn planned_wait_ns(
        &self,
        grants_ahead: usize,
        is_read: bool,
        shape: TenureShape,
    ) -> u64 {
        let grants = grants_ahead as u64;
        let cost = self.handoff_ns();
        // By the budget, plus a handoff for readers' tenures, plus the overrun.
        let least = cost * 100 / shape.percent + cost + self.longest_overrun();
        // The least number of other threads that want the lock: if both sides do, every other grant
        // may be to the same reader.
        let others = if is_read { grants.div_ceil(2) } else { grants };
        // Each of them may leave for good when it is served, which takes an eighth of a thread off
        // the crowd.
        let eighths = u64::from(FADES);
        let crowd = others.saturating_mul(eighths - 1).saturating_add(eighths);
        let share = (shape.aim_ns / crowd).saturating_mul(FADES.into());
        // A handoff may take longer than those measured: each of its two parts up to the most that
        // counts.
        grants.saturating_mul(share.max(least) + 2 * MAX_COST)
    }
}

/// Moves a smoothed value towards a sample.
fn smooth(value: &mut u32, sample: u64) {
    // What is smoothed here is less than a millisecond.
    let sample = sample as u32;
    if sample > *value {
        *value += (sample - *value) / u32::from(FADES);
    } else {
        *value -= (*value - sample) / u32::from(FADES);
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lock::Policy;

    const SHAPE: TenureShape = Policy::DEFAULT.shape();

    fn waiting(readers: usize, writers: usize) -> Waiting {
        Waiting { threads: readers + writers, sides: [readers > 0, writers > 0] }
    }

    /// Each that is served may use up its tenure and go for good; after each, a reader may come back. What is planned
    /// is no less, and less than twice as much.
    #[test]
    fn planned_wait_holds_for_a_queue_that_gets_shorter() {
        for ahead in [1, 2, 8, 32, 100, 1000] {
            for readers in [0, 1] {
                let mut clock = TenureClock::new();
                let mut now = 1_000_000_000;
                clock.first_comes(now, Kind::Writer, waiting(readers, 1), SHAPE);
                clock.another_comes(waiting(readers, ahead), SHAPE);
                let began = now;
                for left in (0..ahead).rev() {
                    for kind in [Kind::Reader, Kind::Writer] {
                        if readers > 0 || kind == Kind::Writer {
                            now = clock.end() + 2 * MAX_COST;
                            let left = if kind == Kind::Reader { left + 1 } else { left };
                            clock.next_takes(now, kind, waiting(readers, left), SHAPE);
                        }
                    }
                }
                let waited = now - began;
                let planned = clock.planned_wait_ns(ahead * (1 + readers), readers > 0, SHAPE);
                let says = format!("{ahead} ahead: planned {planned} ns, waited {waited}");
                assert!(planned >= waited && planned <= 2 * waited, "{says}");
            }
        }
    }

    /// Two sides that use up their tenures; those of readers go on past their ends for so long.
    fn lengths(clock: &mut TenureClock, overrun: u64, sharers: usize) -> [u64; 2] {
        let mut lasted = [0; 2];
        let mut now = 1_000_000_000;
        clock.first_comes(now, Kind::Writer, waiting(sharers / 2, sharers / 2), SHAPE);
        for side in [Kind::Reader, Kind::Writer].repeat(50) {
            let started = now;
            now = clock.end() + if clock.side() == Kind::Reader { overrun } else { 0 };
            lasted[clock.side() as usize] = now - started;
            clock.next_takes(now, side, waiting(sharers / 2, sharers / 2), SHAPE);
        }
        lasted
    }

    /// Writers of 96 threads had a quarter of the time: readers' tenures lasted three times as long
    /// as planned, as no CPU was free for the writer that was next.
    #[test]
    fn tenures_last_equally_long_with_what_they_go_on_past_their_ends() {
        for sharers in [4, 16, 96, 1_000] {
            for overrun in [0, 5_000, 50_000, 200_000] {
                let [readers, writers] = lengths(&mut TenureClock::new(), overrun, sharers);
                let difference = readers.abs_diff(writers);
                assert!(difference < 1_000, "{sharers}, {overrun}: {readers} and {writers}");
                let share = SHAPE.aim_ns / (sharers as u64 + 1);
                assert!(readers <= share.max(overrun) + 1_000, "{sharers}, {overrun}: {readers}");
            }
        }
    }

    /// A side that gave its tenure up does not make the other side's one long.
    #[test]
    fn tenure_is_no_longer_than_what_the_other_side_used() {
        let clock = TenureClock::new();
        let two = 2 * usize::from(FADES);
        assert_eq!(clock.length(two, Some(u64::MAX), SHAPE), 2_000_000);
        assert_eq!(clock.length(two, Some(30_000), SHAPE), 30_000);
        assert_eq!(clock.length(two, None, SHAPE), 2_000_000);
    }

    /// They share the lock with those that wait.
    #[test]
    fn a_tenure_is_shorter_the_more_readers_have_joined() {
        let end = |joins| {
            let mut clock = TenureClock::new();
            clock.first_comes(1_000_000_000, Kind::Writer, waiting(1, 1), SHAPE);
            clock.next_takes(clock.end(), Kind::Reader, waiting(1, 1), SHAPE);
            (0..joins).for_each(|_| clock.reader_joins());
            clock.another_comes(waiting(1, 2), SHAPE);
            clock.end()
        };
        assert!(end(8) < end(0));
    }

    /// Issue: a timed wait that failed began the holder's tenure anew, so a loop of them
    /// hardly ever had the lock.
    #[test]
    fn timed_waits_that_fail_do_not_begin_the_tenure_anew() {
        let mut clock = TenureClock::new();
        let mut now = 1_000_000_000;
        clock.first_comes(now, Kind::Writer, waiting(0, 1), SHAPE);
        let end = clock.end();
        let mut tries = 0;
        while !clock.is_over(now) {
            now += 500_000;
            clock.first_comes(now, Kind::Writer, waiting(0, 1), SHAPE);
            assert_eq!(clock.end(), end.max(now), "try {tries} moved the end");
            tries += 1;
        }
        assert!(tries <= 4, "{tries} tries of half a millisecond");
        clock.next_takes(now, Kind::Writer, waiting(0, 0), SHAPE);
        now += 500_000;
        clock.first_comes(now, Kind::Writer, waiting(0, 1), SHAPE);
        assert!(!clock.is_over(now), "whoever was served begins anew");
    }

    /// Threads that mostly read, and now and then write: one of them would wait as a writer for a
    /// readers' tenure of two milliseconds, and only the other would run meanwhile.
    #[test]
    fn writers_that_left_the_lock_to_readers_before_anybody_waited_interrupt_them_soon() {
        let mut clock = TenureClock::new();
        let mut now = 1_000_000_000;
        for _ in 0..3 {
            clock.first_comes(now, Kind::Reader, waiting(0, 1), SHAPE);
            now += 1_000;
            clock.next_takes(now, Kind::Writer, waiting(0, 0), SHAPE);
            now += 500_000;
        }
        clock.first_comes(now, Kind::Reader, waiting(0, 1), SHAPE);
        assert!(clock.end() - now < 1_000, "{}", clock.end() - now);
        // A thread that has the lock as a writer has its whole turn.
        clock.next_takes(now, Kind::Writer, waiting(0, 0), SHAPE);
        clock.first_comes(now + 1_000, Kind::Writer, waiting(0, 1), SHAPE);
        assert!(clock.end() - now > SHAPE.aim_ns / 2 * 9 / 10);
    }

    /// Beside a thread that was always at the lock, one that came each 8 ms waited 2 ms each time.
    #[test]
    fn one_that_comes_now_and_then_finds_the_tenure_over() {
        let mut clock = TenureClock::new();
        let mut now = 1_000_000_000;
        clock.next_takes(now, Kind::Writer, waiting(0, 0), SHAPE);
        for _ in 0..3 {
            now += 8_000_000;
            clock.first_comes(now, Kind::Writer, waiting(0, 1), SHAPE);
            assert!(clock.is_over(now) && clock.end() == now, "not before it came");
            now += 1_000;
            clock.next_takes(now, Kind::Writer, waiting(0, 0), SHAPE);
            clock.first_comes(now + 1_000, Kind::Writer, waiting(0, 1), SHAPE);
            assert!(!clock.is_over(now + 1_000), "at once");
        }
    }

    /// What may happen to a lock, as its clock sees it.
    #[derive(Clone, Debug)]
    enum Happens {
        Comes,
        GivesUp,
        NextTakes(Kind),
        ReaderJoins,
        Leaving(u64),
        Idle(u64),
    }

    fn happens() -> impl Strategy<Value = (u64, Happens)> {
        let what = prop_oneof![
            4 => Just(Happens::Comes),
            2 => Just(Happens::GivesUp),
            2 => prop_oneof![Just(Kind::Reader), Just(Kind::Writer)].prop_map(Happens::NextTakes),
            1 => Just(Happens::ReaderJoins),
            1 => any::<u64>().prop_map(Happens::Leaving),
            1 => any::<u64>().prop_map(Happens::Idle),
        ];
        // Also after the clock of 32 bits has wrapped.
        (prop_oneof![0..2_000_000u64, 4_000_000_000..9_000_000_000u64], what)
    }

    proptest! {
        /// Whatever comes, leaves or times out, and whatever is measured: a tenure has a
        /// length, which is no more than is planned for one; time does not run backwards in
        /// it; and only who takes the lock begins another one.
        #[test]
        fn a_tenure_is_never_longer_than_planned(
            start in any::<u32>(),
            events in prop::collection::vec(happens(), 1..200),
        ) {
            let mut clock = TenureClock::new();
            let mut now = u64::from(start);
            // Arrivals of those queued; writers and readers by turns.
            let mut queue: Vec<u64> = vec![];
            let waits = |queue: &[u64]| waiting(queue.len() / 2, queue.len().div_ceil(2));
            for (passes, what) in events {
                now += passes;
                match what {
                    Happens::Comes if queue.is_empty() => {
                        queue.push(now);
                        let started = clock.started;
                        clock.first_comes(now, Kind::Writer, waits(&queue), SHAPE);
                        prop_assert_eq!(clock.started, if started == 0 { now } else { started });
                    }
                    Happens::Comes => {
                        queue.push(now);
                        clock.another_comes(waits(&queue), SHAPE);
                    }
                    Happens::GivesUp if queue.len() == 1 => _ = queue.remove(0),
                    Happens::NextTakes(kind) if !queue.is_empty() => {
                        queue.remove(0);
                        clock.next_takes(now, kind, waits(&queue), SHAPE);
                        prop_assert!(clock.started <= now);
                    }
                    Happens::ReaderJoins if !queue.is_empty() => clock.reader_joins(),
                    Happens::Leaving(ns) => clock.note_leaving(ns),
                    Happens::Idle(ns) => clock.note_idle(ns),
                    _ => {}
                }
                prop_assert!(clock.started <= now && clock.end() >= clock.started);
                let planned = clock.planned_wait_ns(1, true, SHAPE);
                let since = clock.started.max(clock.awaited);
                prop_assert!(queue.is_empty() || clock.end() - since <= planned, "{clock:?}: {planned}");
            }
        }
    }

    #[test]
    fn a_wait_behind_any_number_of_grants_is_planned() {
        let clock = TenureClock::new();
        let ahead = [0, 1, 2, 60, usize::MAX / 8, usize::MAX / 7, usize::MAX];
        for is_read in [false, true] {
            let planned = ahead.map(|ahead| clock.planned_wait_ns(ahead, is_read, SHAPE));
            assert!(planned.is_sorted() && planned[0] == 0 && planned[1] > 0, "{planned:?}");
        }
    }

    /// A hand-over that takes longer, and a lock that lies idle longer meanwhile, make the shortest tenure longer.
    #[test]
    fn the_shortest_tenure_follows_what_a_hand_over_is_measured_to_take() {
        let mut clock = TenureClock::new();
        let mut shortest = |note: fn(&mut TenureClock, u64), ns| {
            (0..200).for_each(|_| note(&mut clock, ns));
            clock.length(usize::MAX, Some(u64::MAX), SHAPE)
        };
        let lengths = [
            shortest(TenureClock::note_leaving, 10_000),
            shortest(TenureClock::note_idle, 10_000),
            shortest(TenureClock::note_leaving, 0),
            shortest(TenureClock::note_idle, 0),
        ];
        assert!(
            lengths[0] < lengths[1] && lengths[1] > lengths[2] && lengths[2] > lengths[3],
            "{lengths:?}"
        );
    }

    #[test]
    fn each_that_comes_shortens_the_tenure_and_nobody_who_leaves_makes_it_longer() {
        let mut clock = TenureClock::new();
        clock.first_comes(1_000_000_000, Kind::Writer, waiting(0, 1), SHAPE);
        let mut end_with = |writers| {
            clock.another_comes(waiting(0, writers), SHAPE);
            clock.end()
        };
        let ends = [2, 3, 2, 8].map(&mut end_with);
        assert!(ends[0] > ends[1] && ends[1] == ends[2] && ends[2] > ends[3], "{ends:?}");
    }

    /// Only readers that have the lock show that waiting writers gave it up, and only where a writer had it last.
    #[test]
    fn writers_that_did_not_leave_the_lock_to_readers_have_a_whole_tenure() {
        for side in [Kind::Reader, Kind::Writer] {
            let mut clock = TenureClock::new();
            clock.next_takes(1_000_000_000, side, waiting(0, 0), SHAPE);
            clock.first_comes(1_000_001_000, side, waiting(1, 1), SHAPE);
            assert_eq!(clock.used, [u64::MAX; 2]);
        }
    }
}

//! For how long a lock was free and somebody waited for it: exactly, as a simulated machine
//! knows both.
//!
//! Time counts while *nobody is inside*, and *somebody waits who is not merely short of a CPU*: a
//! thread that sleeps, is being woken, or has a CPU and does not take the lock. The lock must have
//! been free, and have been asked for, for [`GRACE_NS`]. Otherwise what an operation itself takes
//! would count: a lock that goes from hand to hand is free, strictly speaking, for as long as it
//! travels. If a waiter was preempted, or woken behind others that run, the lock cannot change
//! that: such a waiter alone does not make time count. If another waiter sleeps meanwhile, time
//! does count, and its share is reported apart ([`Free::without_cpu`]).
//!
//! A thread is inside until the end of its section: others wait for the wake-ups in the call that
//! gives the lock back, so these count. If the thread loses its CPU in that call, nobody outside of
//! the lock can tell whether it has let go, and it counts as inside meanwhile.
//!
//! For many locks it is the time of all of them, relative to as many locks as threads could wait
//! for at once. A lock on ranges is one lock: time counts while somebody waits for a range and
//! nobody is inside of a part of it.

use fairlock_sim::ThreadState;

use super::{Stage, change};
use crate::cell::Free;
use crate::locks::range::Range;
use crate::workload::testbed::Wanted;

/// What operations may take: more than one with one or two transfers of a cache line, and less than
/// a wake-up.
const GRACE_NS: u64 = 2_000;

/// The locks of one simulation.
#[derive(Default)]
pub struct Locks {
    /// Time is counted from here to there.
    pub window: (u64, u64),
    threads: Vec<Thread>,
    /// The locks, by number.
    locks: Vec<Lock>,
    /// The lock on ranges, if the locks are ranges.
    ranges: Lock,
}

/// What a thread is doing.
#[derive(Clone, Default)]
struct Thread {
    /// The lock or range that it asked for, until it has given that back.
    asked: Option<Guarded>,
    /// Since when it waits; for a range, since when nobody has been inside of a part of it.
    since: u64,
    /// Of a range: how many are inside of a part of it.
    in_the_way: usize,
    stage: Stage,
    /// Whether it counts as one that has the lock.
    is_inside: bool,
    /// Whether it is awake, and without a CPU.
    is_short_of_cpu: bool,
}

#[derive(Clone)]
enum Guarded {
    Lock(usize),
    Range(Range),
}

/// One lock, or all ranges of a lock on ranges.
#[derive(Clone, Default)]
struct Lock {
    /// How many are inside; of a lock on ranges this is asked for each waiter.
    inside: usize,
    free_since: u64,
    /// Until when time has been counted.
    counted_until: u64,
    free_ns: u64,
    without_cpu_ns: u64,
}

impl Locks {
    fn thread(&mut self, thread: usize) -> &mut Thread {
        super::at(&mut self.threads, thread)
    }

    /// A thread asks for a lock.
    pub fn asks(&mut self, now: u64, thread: usize, wanted: Wanted<'_>) {
        let place = match wanted {
            Wanted::Lock(number) => {
                super::at(&mut self.locks, number);
                Guarded::Lock(number)
            }
            Wanted::Range(range) => Guarded::Range(range.clone()),
        };
        let in_the_way = match &place {
            Guarded::Lock(_) => 0,
            Guarded::Range(range) => self.overlapping(range, |thread| thread.is_inside).len(),
        };
        let this = self.thread(thread);
        (this.asked, this.since, this.in_the_way) = (Some(place), now, in_the_way);
        this.stage = Stage::Waits;
    }

    /// The thread has the lock.
    pub fn acquired(&mut self, now: u64, thread: usize) {
        self.moves(now, thread, Stage::Inside, true);
    }

    /// The thread's section is over, and it is about to give the lock back.
    pub fn leaves(&mut self, now: u64, thread: usize) {
        self.moves(now, thread, Stage::Leaves, false);
    }

    /// The thread has given the lock back.
    pub fn released(&mut self, thread: usize) {
        // The stage stays: a thread that has asked once counts.
        self.thread(thread).asked = None;
    }

    /// From now on the thread counts as one that has the lock, or as one that does not.
    fn moves(&mut self, now: u64, thread: usize, stage: Stage, is_inside: bool) {
        let Some(place) = self.thread(thread).asked.clone() else { return };
        self.count(now, &place);
        let this = &mut self.threads[thread];
        (this.stage, this.is_inside) = (stage, is_inside);
        match place {
            Guarded::Lock(number) => {
                let lock = &mut self.locks[number];
                lock.inside = change(lock.inside, is_inside);
                lock.free_since = now;
            }
            Guarded::Range(range) => {
                for waiter in self.waiting_for(&range) {
                    let waiter = &mut self.threads[waiter];
                    waiter.in_the_way = change(waiter.in_the_way, is_inside);
                    waiter.since = now;
                }
            }
        }
    }

    /// The machine does something else with a thread.
    pub fn state(&mut self, now: u64, thread: usize, state: ThreadState) {
        let is_short = state.lacks_cpu();
        let this = self.thread(thread);
        if this.is_short_of_cpu == is_short {
            return;
        }
        if let (Some(place), Stage::Waits) = (&this.asked, this.stage) {
            let place = place.clone();
            self.count(now, &place);
        }
        let this = self.thread(thread);
        this.is_short_of_cpu = is_short;
        if this.asked.is_some() && this.stage == Stage::Leaves {
            self.moves(now, thread, Stage::Leaves, is_short);
        }
    }

    /// The threads for which `are` holds and that asked for a part of a range.
    fn overlapping(&self, range: &Range, are: impl Fn(&Thread) -> bool) -> Vec<usize> {
        let overlaps = |thread: &Thread| match &thread.asked {
            Some(Guarded::Range(other)) => {
                range.start() <= other.end() && other.start() <= range.end()
            }
            _ => false,
        };
        let is_one = |&thread: &usize| {
            let thread = &self.threads[thread];
            are(thread) && overlaps(thread)
        };
        (0..self.threads.len()).filter(is_one).collect()
    }

    fn waiting_for(&self, range: &Range) -> Vec<usize> {
        self.overlapping(range, |thread| thread.stage == Stage::Waits)
    }

    /// Counts the time that has passed, before something changes.
    fn count(&mut self, now: u64, place: &Guarded) {
        let lock = match place {
            Guarded::Lock(number) => &self.locks[*number],
            Guarded::Range(_) => &self.ranges,
        };
        // Nearly always the lock was not free for long.
        let uncounted = lock.counted_until.max(lock.free_since + GRACE_NS);
        if lock.inside > 0 || uncounted >= now {
            return;
        }
        let mut since = now;
        let mut another_is_short_of_cpu = false;
        for thread in self.threads.iter().filter(|thread| thread.stage == Stage::Waits) {
            let waits_here = match (&thread.asked, place) {
                (Some(Guarded::Lock(other)), Guarded::Lock(number)) => other == number,
                (Some(Guarded::Range(_)), Guarded::Range(_)) => thread.in_the_way == 0,
                _ => false,
            };
            if waits_here && thread.is_short_of_cpu {
                another_is_short_of_cpu = true;
            } else if waits_here {
                since = since.min(thread.since + GRACE_NS);
            }
        }
        let (begin, end) = self.window;
        let ns = now.min(end).saturating_sub(since.max(uncounted).max(begin));
        let lock = match place {
            Guarded::Lock(number) => &mut self.locks[*number],
            Guarded::Range(_) => &mut self.ranges,
        };
        lock.counted_until = now;
        lock.free_ns += ns;
        if another_is_short_of_cpu {
            lock.without_cpu_ns += ns;
        }
    }

    /// The result.
    pub fn finish(&mut self) -> Free {
        let (begin, end) = self.window;
        for number in 0..self.locks.len() {
            self.count(end, &Guarded::Lock(number));
        }
        self.count(end, &Guarded::Range(0..=0));
        let locks = self.locks.iter().chain([&self.ranges]);
        let (free, without_cpu) = locks.fold((0, 0), |(free, without_cpu), lock| {
            (free + lock.free_ns, without_cpu + lock.without_cpu_ns)
        });
        let threads = self.threads.iter().filter(|thread| thread.stage != Stage::Elsewhere).count();
        let of = self.locks.len().min(threads).max(1) as u64 * (end - begin).max(1);
        let share = |ns: u64| ns as f64 / of as f64;
        Free { while_waited: share(free), without_cpu: share(without_cpu) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    /// A lock that is watched for 100 us.
    fn watched() -> Locks {
        Locks { window: (0, 100 * US), ..Locks::default() }
    }

    fn enters(free: &mut Locks, now: u64, thread: usize, wanted: Wanted<'_>) {
        free.asks(now, thread, wanted);
        free.acquired(now, thread);
    }

    fn releases(free: &mut Locks, now: u64, thread: usize) {
        free.leaves(now, thread);
        free.released(thread);
    }

    fn share(free: &mut Locks) -> f64 {
        free.finish().while_waited
    }

    const ONE: Wanted<'static> = Wanted::Lock(0);

    #[test]
    fn a_free_lock_that_somebody_sleeps_at_counts_but_for_the_grace() {
        let mut free = watched();
        enters(&mut free, 0, 0, ONE);
        free.asks(10 * US, 1, ONE);
        free.state(11 * US, 1, ThreadState::Sleeping);
        releases(&mut free, 30 * US, 0);
        free.acquired(52 * US, 1);
        releases(&mut free, 60 * US, 1);
        assert_eq!(share(&mut free), 0.20);
    }

    #[test]
    fn a_lock_from_hand_to_hand_is_not_free() {
        let mut free = watched();
        for now in (0..50).map(|turn| turn * 2 * US) {
            enters(&mut free, now, 0, ONE);
            free.asks(now, 1, ONE);
            releases(&mut free, now + 50, 0);
            free.acquired(now + 1_900, 1);
            releases(&mut free, now + 1_950, 1);
        }
        assert_eq!(share(&mut free), 0.0);
    }

    #[test]
    fn a_lock_that_nobody_waits_for_is_not_waited_for() {
        let mut free = watched();
        enters(&mut free, 0, 0, ONE);
        releases(&mut free, 10 * US, 0);
        enters(&mut free, 90 * US, 0, ONE);
        free.asks(91 * US, 1, ONE);
        assert_eq!(share(&mut free), 0.0);
    }

    #[test]
    fn who_has_no_cpu_counts_for_nothing_unless_another_sleeps() {
        let mut free = watched();
        enters(&mut free, 0, 0, ONE);
        free.asks(0, 1, ONE);
        free.state(10 * US, 1, ThreadState::Runnable);
        releases(&mut free, 10 * US, 0);
        assert_eq!(share(&mut free), 0.0);

        let mut free = watched();
        enters(&mut free, 0, 0, ONE);
        free.asks(0, 1, ONE);
        free.asks(0, 2, ONE);
        free.state(US, 1, ThreadState::Sleeping);
        free.state(US, 2, ThreadState::Sleeping);
        releases(&mut free, 10 * US, 0);
        free.state(12 * US, 1, ThreadState::Woken);
        free.state(22 * US, 1, ThreadState::Runnable);
        free.state(62 * US, 1, ThreadState::Running);
        free.acquired(72 * US, 1);
        assert_eq!(free.finish(), Free { while_waited: 0.60, without_cpu: 0.40 });
    }

    /// The wake-ups in the call that releases come after the end of the section.
    #[test]
    fn a_lock_is_free_from_the_end_of_the_section() {
        let mut free = watched();
        enters(&mut free, 0, 0, ONE);
        free.asks(0, 1, ONE);
        free.state(US, 1, ThreadState::Sleeping);
        free.leaves(10 * US, 0);
        free.state(15 * US, 1, ThreadState::Woken);
        free.released(0);
        free.acquired(42 * US, 1);
        assert_eq!(share(&mut free), 0.30);
    }

    #[test]
    fn who_loses_its_cpu_while_it_lets_go_counts_as_inside() {
        let mut free = watched();
        enters(&mut free, 0, 0, ONE);
        free.asks(0, 1, ONE);
        free.leaves(10 * US, 0);
        free.state(10 * US, 0, ThreadState::Runnable);
        free.state(60 * US, 0, ThreadState::Running);
        free.released(0);
        free.acquired(72 * US, 1);
        assert_eq!(share(&mut free), 0.10);
    }

    #[test]
    fn readers_are_inside_together() {
        let mut free = watched();
        enters(&mut free, 0, 0, ONE);
        enters(&mut free, 0, 1, ONE);
        free.asks(0, 2, ONE);
        releases(&mut free, 10 * US, 1);
        releases(&mut free, 48 * US, 0);
        free.acquired(100 * US, 2);
        assert_eq!(share(&mut free), 0.50);
    }

    #[test]
    fn many_locks_are_as_many_as_threads_can_wait_for() {
        let mut free = watched();
        enters(&mut free, 0, 0, Wanted::Lock(999));
        free.asks(0, 1, Wanted::Lock(999));
        releases(&mut free, 10 * US, 0);
        free.acquired(52 * US, 1);
        assert_eq!(share(&mut free), 0.20);
    }

    #[test]
    fn a_range_is_free_when_no_part_of_it_is_held() {
        let mut free = watched();
        enters(&mut free, 0, 0, Wanted::Range(&(0..=9)));
        enters(&mut free, 0, 1, Wanted::Range(&(20..=29)));
        free.asks(0, 2, Wanted::Range(&(5..=25)));
        releases(&mut free, 10 * US, 0);
        // Nobody is there, and the other waiter has not got it: from 32 to 38.
        free.asks(30 * US, 3, Wanted::Range(&(0..=4)));
        free.acquired(38 * US, 3);
        // From 42 to 62.
        releases(&mut free, 40 * US, 1);
        free.acquired(62 * US, 2);
        assert_eq!(share(&mut free), 0.26);
    }

    #[test]
    fn only_what_is_measured_counts() {
        let mut free = Locks { window: (50 * US, 100 * US), ..Locks::default() };
        enters(&mut free, 0, 0, ONE);
        free.asks(0, 1, ONE);
        releases(&mut free, 10 * US, 0);
        // From 50 to 60,
        free.acquired(60 * US, 1);
        releases(&mut free, 70 * US, 1);
        // and from 72 to 100.
        free.asks(70 * US, 0, ONE);
        free.acquired(200 * US, 0);
        assert_eq!(share(&mut free), 0.76);
    }
}

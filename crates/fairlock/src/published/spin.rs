//! Optimistic spinning: waiting awake, outside the wait queue, for a lock that is about to be
//! released.
//!
//! A spinner steals the lock; it is never granted the lock. A thread does not spin if spinning
//! cannot help: with one CPU; if all CPUs but one, which the owner needs, have spinners; if the
//! lock is being handed to the queue; if the owner does not run; or if an earlier spinner waited in
//! vain for the readers inside. Every spin is bounded in time (rule 9).
//!
//! A reader that spins joins readers inside, past the queue: it came before them, or while a writer
//! was inside. While readers are inside no reader begins to spin, so that they leave in the end.
//! With [`ReaderSpin::Always`] readers begin to spin even then.

use core::sync::atomic::Ordering;

use super::osq::SpinnerQueue;
use super::owner::{READER_OWNED, Seen};
use super::word::{Flags, Word};
use super::{ReaderSpin, RwSem};
use crate::events::Event;
use crate::platform::{Atomic, Platform, Thread};
use crate::system::all_zero;
use crate::wait::{Kind, SOON_NS, WAKE_NS, WaitContext};

/// Who spins for a lock. In cache lines of its own.
#[repr(C, align(64))]
pub(crate) struct Spinners<P: Platform> {
    queue: SpinnerQueue<P>,
    /// How many there are.
    count: P::AtomicU32,
    pub(crate) seen: Seen<P>,
    /// Non-zero while the one reader of `ReaderSpin::One` spins.
    reader: P::AtomicU32,
}

all_zero!(Spinners of [AtomicUsize, AtomicU32]: [count, reader], [queue, seen]);

impl<P: Platform> Spinners<P> {
    /// Whether nobody is at the head, nor waits to be there.
    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether nobody spins, nor has left anything behind.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.count.load(Ordering::Relaxed) == 0
    }

    /// Runs `spin` at the head of the spinner queue, with the time; false if the caller does not
    /// get there in time, `None` if there are enough spinners already.
    fn at_head(
        &self,
        me: &'static Thread<P>,
        arrived: u64,
        bound_ns: u64,
        spin: impl FnOnce(u64) -> bool,
    ) -> Option<bool> {
        // Relaxed: a hint.
        let others = self.count.fetch_add(1, Ordering::Relaxed) as usize;
        let mut stolen = None;
        if others + 1 < P::cpus() {
            stolen = Some(false);
            if self.queue.enter(me, bound_ns) {
                stolen = Some(spin(if others == 0 { arrived } else { P::now() }));
                self.queue.leave(me);
            }
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        stolen
    }
}

/// What a spinner found.
enum Found {
    Stolen,
    /// Held; the word as it was.
    Held(Word),
    /// Spinning will not help.
    InVain,
}

impl<P: Platform> RwSem<P> {
    /// Spins for the lock if the policy says so; returns whether it stole the lock.
    pub(crate) fn spin_for_write(
        &self,
        me: &'static Thread<P>,
        context: &WaitContext<'_, P>,
    ) -> bool {
        self.policy.writer_spin && self.spin(Kind::Writer, me, context)
    }

    /// As [`spin_for_write`](Self::spin_for_write).
    pub(crate) fn spin_for_read(
        &self,
        me: &'static Thread<P>,
        context: &WaitContext<'_, P>,
    ) -> bool {
        match self.policy.reader_spin {
            ReaderSpin::Off => false,
            ReaderSpin::One => {
                // Relaxed: counts to one, orders nothing.
                if self.spinners.reader.swap(1, Ordering::Relaxed) != 0 {
                    return false;
                }
                let stolen = self.spin(Kind::Reader, me, context);
                self.spinners.reader.store(0, Ordering::Relaxed);
                stolen
            }
            ReaderSpin::On | ReaderSpin::Always => self.spin(Kind::Reader, me, context),
        }
    }

    fn spin(&self, kind: Kind, me: &'static Thread<P>, context: &WaitContext<'_, P>) -> bool {
        let stolen = self.spin_if_worth_it(kind, me, context);
        self.events.count(match stolen {
            Some(true) => Event::OptLock,
            Some(false) => Event::OptFail,
            None => Event::OptNospin,
        });
        stolen == Some(true)
    }

    /// `None` if it did not spin.
    fn spin_if_worth_it(
        &self,
        kind: Kind,
        me: &'static Thread<P>,
        context: &WaitContext<'_, P>,
    ) -> Option<bool> {
        let word = self.word.load(Ordering::Relaxed);
        let held_back = kind == Kind::Reader && self.readers_hold_back(word);
        if word.is_closed() || held_back || !self.holder_is_worth_it(word) {
            return None;
        }
        let arrived = P::now();
        // So long at most, with the wait to be at the head.
        let bound = (10 * WAKE_NS).min(context.left(arrived));
        self.spinners.at_head(me, arrived, bound, |now| self.spin_at_head(kind, now, bound))
    }

    /// The one spinner that looks at the lock; returns whether it stole the lock.
    fn spin_at_head(&self, kind: Kind, started: u64, bound_ns: u64) -> bool {
        let (mut since, mut last) = (started, 0);
        loop {
            let word = match self.look(kind) {
                Found::Stolen => return true,
                Found::InVain => return false,
                Found::Held(word) => word,
            };
            let now = P::now();
            let holder = self.holder(word);
            if holder != last {
                (since, last) = (now, holder);
            }
            if now.saturating_sub(since) >= patience_ns(word) {
                if holder == READER_OWNED {
                    self.set_nonspinnable();
                }
                return false;
            }
            let left = bound_ns.saturating_sub(now.saturating_sub(started));
            if left == 0 || !self.holder_is_worth_it(word) {
                return false;
            }
            let changed = Flags::WRITER_LOCKED.with(Flags::HANDOFF).with(Flags::WRITER_PHASE);
            let done = |now: Word| now.is_free() || now.differs(word, changed);
            self.word.spin(SOON_NS.min(left), &WaitContext::FOREVER, done);
        }
    }

    /// Steals the lock if it can be stolen.
    fn look(&self, kind: Kind) -> Found {
        let word = self.word.load(Ordering::Relaxed);
        let stolen = match kind {
            _ if word.is_closed() => return Found::InVain,
            Kind::Writer if !word.is_write_stealable() => return Found::Held(word),
            Kind::Writer => word.with(Flags::WRITER_LOCKED),
            Kind::Reader if word.is_written() => return Found::Held(word),
            Kind::Reader if !word.is_open_past_queue() => return Found::InVain,
            Kind::Reader => word.with_reader(),
        };
        // Acquire: owns the lock on success (rule 3).
        match self.word.compare_exchange(word, stolen, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                if kind == Kind::Reader && word.has_waiters() {
                    self.let_readers_join();
                }
                Found::Stolen
            }
            Err(now) => Found::Held(now),
        }
    }

    /// Whether readers that come while the lock is as `word` says do not spin.
    fn readers_hold_back(&self, word: Word) -> bool {
        match self.policy.reader_spin {
            ReaderSpin::Always => self.readers_are_discouraged(),
            _ => !word.is_written() && word.readers() > 0,
        }
    }

    /// Whether a reader may get in ahead of the queue without spinning. Where readers spin, those
    /// that do so come first.
    pub(crate) fn readers_steal(&self) -> bool {
        match self.policy.reader_spin {
            ReaderSpin::Off => true,
            ReaderSpin::Always => false,
            ReaderSpin::One | ReaderSpin::On => self.spinners.is_empty(),
        }
    }
}

/// For how long to spin for whoever `word` says is inside. As in Linux, for readers 10 us and 0.5 for each of them, up to
/// half of what it is for a writer.
fn patience_ns(word: Word) -> u64 {
    match word.is_written() {
        true => WAKE_NS,
        false => (10_000 + 500 * word.readers() as u64).min(WAKE_NS / 2),
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use fairlock_testing::{join, scope};

    use super::*;
    use crate::events::EventCounts;
    use crate::platform::{Native, System};
    use crate::published::Policy;
    use crate::published::tests::visit_asleep;
    use crate::wait::Access;

    type Lock = RwSem<Native>;

    fn lock(reader_spin: ReaderSpin) -> Lock {
        Lock::new(Policy { reader_spin, ..Policy::HANDOFF })
    }

    /// What a reader at the head of the spinners does with a lock that has this word.
    fn joins(word: Word) -> bool {
        let lock = lock(ReaderSpin::On);
        lock.word.store(word);
        let stolen = matches!(lock.look(Kind::Reader), Found::Stolen);
        let expected = if stolen { word.with_reader() } else { word };
        assert_eq!(lock.word.load(Ordering::Relaxed), expected);
        stolen
    }

    #[test]
    fn a_reader_that_spins_joins_readers_past_the_queue_but_no_handoff() {
        let read = Word::AWAITED.with_reader();
        assert!(joins(Word::FREE) && joins(Word::FREE.with_reader()));
        assert!(joins(Word::AWAITED) && joins(read));
        assert!(!joins(read.with(Flags::HANDOFF)) && !joins(Word::AWAITED.with(Flags::HANDOFF)));
        assert!(!joins(read.with(Flags::WRITER_PHASE)) && !joins(Word::WRITTEN));
    }

    #[test]
    fn no_reader_begins_to_spin_for_readers_unless_all_always_do() {
        for reader_spin in [ReaderSpin::One, ReaderSpin::On] {
            let lock = lock(reader_spin);
            assert!(
                lock.readers_hold_back(Word::FREE.with_reader())
                    && lock.readers_hold_back(Word::AWAITED.with_reader())
            );
            assert!(!lock.readers_hold_back(Word::WRITTEN) && !lock.readers_hold_back(Word::FREE));
        }
        let always = lock(ReaderSpin::Always);
        assert!(!always.readers_hold_back(Word::AWAITED.with_reader()));
        // A writer has spun without success.
        always.discourage_readers();
        assert!(always.readers_hold_back(Word::AWAITED.with_reader()));
    }

    #[test]
    fn readers_steal_where_they_do_not_spin_or_nobody_does() {
        let me = Native::thread();
        let steals = |reader_spin| {
            let lock = lock(reader_spin);
            let alone = lock.readers_steal();
            assert!(lock.spinners.queue.enter(me, 0));
            let beside_a_spinner = lock.readers_steal();
            lock.spinners.queue.leave(me);
            (alone, beside_a_spinner)
        };
        assert_eq!(steals(ReaderSpin::Off), (true, true));
        assert_eq!(steals(ReaderSpin::One), (true, false));
        assert_eq!(steals(ReaderSpin::On), (true, false));
        assert_eq!(steals(ReaderSpin::Always), (false, false));
    }

    /// A writer is queued, and the lock free. The reader would pass the one that spins.
    #[test]
    fn a_reader_takes_the_lock_past_the_queue_unless_another_spins() {
        static COUNTS: EventCounts = EventCounts::new();
        let me = Native::thread();
        for spins in [false, true] {
            COUNTS.reset();
            let lock = &lock(ReaderSpin::One);
            lock.set_events(Some(&COUNTS));
            let spinners = &lock.spinners;
            lock.write();
            scope(|s| {
                let writer = visit_asleep(&s, lock, Kind::Writer);
                if spins {
                    assert!(spinners.queue.enter(me, 0));
                    spinners.reader.store(1, Ordering::Relaxed);
                }
                // As if the wake-up of its release were still to come.
                lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release);
                lock.read();
                assert_eq!(COUNTS.get(Event::ReadSteal), usize::from(!spins));
                if spins {
                    spinners.queue.leave(me);
                }
                // SAFETY: just taken.
                unsafe { lock.unlock_read() };
                join(writer);
            });
        }
    }

    #[test]
    fn the_one_reader_that_may_spin_is_each_time_another() {
        let lock = lock(ReaderSpin::One);
        let [first, second] = [(); 2].map(|()| {
            let stolen = lock.spin_for_read(Native::thread(), &WaitContext::FOREVER);
            lock.word.store(Word::FREE);
            stolen
        });
        assert_eq!((first, second), (Native::cpus() > 1, first));
    }

    /// How often a reader that comes now is counted as one that spun, or found that not worth it.
    fn spins(lock: &Lock) -> usize {
        let counts: &EventCounts = Box::leak(Box::default());
        lock.set_events(Some(counts));
        if lock.spin_for_read(Native::thread(), &WaitContext::FOREVER) {
            // SAFETY: just taken.
            unsafe { lock.unlock_read() };
        }
        [Event::OptLock, Event::OptFail, Event::OptNospin]
            .map(|event| counts.get(event))
            .iter()
            .sum()
    }

    #[test]
    fn at_most_one_reader_spins_or_any_or_none_as_the_policy_says() {
        for (reader_spin, alone, beside_another) in [
            (ReaderSpin::Off, 0, 0),
            (ReaderSpin::One, 1, 0),
            (ReaderSpin::On, 1, 1),
            (ReaderSpin::Always, 1, 1),
        ] {
            let lock = &lock(reader_spin);
            let another = &lock.spinners.reader;
            assert_eq!((spins(lock), spins(lock)), (alone, alone), "{reader_spin:?}");
            another.store(1, Ordering::Relaxed);
            assert_eq!((spins(lock), spins(lock)), (beside_another, beside_another));
            another.store(0, Ordering::Relaxed);
            assert_eq!(spins(lock), alone, "{reader_spin:?}: the other has left");
        }
    }

    /// The readers stay for ever, so only the clock ends the spin.
    #[test]
    fn a_writer_that_spins_for_readers_gives_up_and_tells_others_until_a_writer_has_the_lock() {
        let lock = lock(ReaderSpin::Off);
        let kernel = &lock;
        let worth_it = || kernel.holder_is_worth_it(lock.word.load(Ordering::Relaxed));
        lock.read();
        for slow in [false, true] {
            assert!(worth_it());
            let began = Native::now();
            assert!(!kernel.spin_at_head(Kind::Writer, began, u64::MAX));
            assert!(Native::now() - began >= 10_500);
            assert!(!worth_it(), "it has told later spinners");
            // Nobody begins to spin then.
            let context = WaitContext::FOREVER;
            assert_eq!(kernel.spin_if_worth_it(Kind::Writer, Native::thread(), &context), None);
            // SAFETY: taken above.
            unsafe { lock.unlock_read() };
            if slow {
                let me = Native::thread();
                assert_eq!(kernel.wait(Access::Exclusive, me, &WaitContext::FOREVER), Ok(()));
            } else {
                lock.write();
            }
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
            lock.read();
        }
        assert!(worth_it());
    }

    #[test]
    fn a_spinner_does_not_wait_for_a_lock_that_is_handed_over() {
        for kind in [Kind::Reader, Kind::Writer] {
            for inside in [Word::AWAITED, Word::WRITTEN.with(Flags::WAITERS)] {
                let lock = lock(ReaderSpin::On);
                let word = inside.with(Flags::HANDOFF);
                lock.word.store(word);
                let me = Native::thread();
                let spun = lock.spin_if_worth_it(kind, me, &WaitContext::FOREVER);
                assert_eq!(spun, None);
                // It was closed since.
                assert!(matches!(lock.look(kind), Found::InVain));
                assert_eq!(lock.word.load(Ordering::Relaxed), word);
            }
        }
    }

    /// The spinner has lost its CPU: only the release can wake the writer in the queue.
    #[test]
    fn a_release_wakes_the_head_of_the_queue_although_another_thread_spins() {
        for reads in [false, true] {
            let lock = &lock(ReaderSpin::Off);
            let spinners = &lock.spinners;
            if reads {
                lock.read();
            } else {
                lock.write();
            }
            scope(|s| {
                let head = visit_asleep(&s, lock, Kind::Writer);
                assert!(spinners.queue.enter(Native::thread(), 0));
                // SAFETY: taken above.
                unsafe { if reads { lock.unlock_read() } else { lock.unlock_write() } }
                join(head);
                spinners.queue.leave(Native::thread());
            });
        }
    }

    #[test]
    fn readers_in_the_queue_join_one_that_has_spun() {
        let lock = &lock(ReaderSpin::Always);
        lock.write();
        scope(|s| {
            let reader = visit_asleep(&s, lock, Kind::Reader);
            // As if the wake-up of its release were still to come.
            lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release);
            assert!(matches!(lock.look(Kind::Reader), Found::Stolen));
            join(reader);
            // SAFETY: just taken.
            unsafe { lock.unlock_read() };
        });
    }

    #[test]
    fn a_spinner_has_more_patience_with_more_readers() {
        let patience_for = |readers| patience_ns(Word::FREE.with_readers(readers));
        assert_eq!(patience_for(1), 10_500);
        assert_eq!(patience_for(16), 18_000);
        assert_eq!(patience_for(5_000), 25_000);
        assert_eq!(patience_ns(Word::WRITTEN), 50_000);
    }
}

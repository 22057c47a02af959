//! Readers past the queue, under `ReaderSpin::Adaptive`.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::cell::Cell;
use std::thread;

use fairlock_testing::{join, scope, until};

use super::TurnEnd;
use crate::events::{Event, EventCounts};
use crate::platform::{Native, System};
use crate::rwsem::tests::{Lock, assert_free, soon, visit, visit_asleep, waiters, word};
use crate::rwsem::word::{Flags, Word};
use crate::rwsem::{Policy, PublishedPolicy, ReaderSpin};
use crate::wait::{Kind, Wait, WaitContext};

/// A week: what happens within a test's patience does not wait for this.
const LONG: Duration = Duration::from_secs(7 * 24 * 3600);

fn adaptive(handoff_after: Option<Duration>) -> Lock {
    Lock::new(Policy::published(PublishedPolicy {
        reader_spin: ReaderSpin::Adaptive,
        handoff_after,
        ..PublishedPolicy::HANDOFF
    }))
}

/// Runs `then` while the caller holds the lock for reading, with a writer queued. Then the caller
/// lets the lock go, and the writer has it in the end.
fn beside_a_queued_writer(lock: &Lock, then: impl FnOnce()) {
    lock.read();
    scope(|s| {
        let writer = s.spawn(|| visit(lock, Kind::Writer));
        until(|| waiters(lock) == 1);
        then();
        join(writer);
    });
    assert_free(lock);
}

fn leave(lock: &Lock) {
    // SAFETY: each caller holds the lock for reading.
    unsafe { lock.unlock_read() };
}

fn join_for(lock: &Lock, ms: u64) -> bool {
    lock.read_with(Wait::until_nanos(soon(ms))).is_ok()
}

/// The published rule holds for a lock without deadlines, too: the writer would starve.
#[test]
fn readers_join_past_a_writer_that_has_a_deadline() {
    for (handoff_after, joins) in [(Some(LONG), true), (Some(Duration::MAX), true), (None, false)] {
        let lock = &adaptive(handoff_after);
        beside_a_queued_writer(lock, || {
            // A minute is for ever: the writer is due sooner.
            let ms = if joins { 60_000 } else { 10 };
            assert_eq!(join_for(lock, ms), joins, "handoff after {handoff_after:?}");
            assert_eq!(waiters(lock), 1);
            if joins {
                leave(lock);
            }
            leave(lock);
        });
    }
}

/// Nobody lets the lock go, and no reader comes by: the writer sees for itself that
/// its deadline has passed.
#[test]
fn writer_in_the_queue_sees_its_deadline_pass() {
    let lock = &adaptive(Some(Duration::from_millis(5)));
    beside_a_queued_writer(lock, || {
        until(|| word(lock).is_closed());
        leave(lock);
    });
}

/// As above, for a writer that was not the head when it went to sleep.
#[test]
fn writer_behind_readers_sees_its_deadline_pass() {
    let lock = &adaptive(Some(Duration::from_millis(5)));
    lock.write();
    scope(|s| {
        let reader = s.spawn(|| lock.read());
        until(|| waiters(lock) == 1);
        let writer = s.spawn(|| visit(lock, Kind::Writer));
        until(|| waiters(lock) == 2);
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        join(reader);
        until(|| word(lock).is_closed());
        leave(lock);
        join(writer);
    });
    assert_free(lock);
}

/// Readers that come after the first of several writers that are due would pass the
/// others.
#[test]
fn writers_past_their_deadlines_keep_readers_out() {
    let lock = &adaptive(Some(Duration::from_millis(5)));
    beside_a_queued_writer(lock, || {
        until(|| word(lock).is_closed());
        lock.kernel().wake_after_release();
        assert!(word(lock).is_writer_phase());
        leave(lock);
    });
}

/// The writer may not get a CPU: a reader that joins ends the turn in its place. There is always
/// another reader inside.
#[test]
fn readers_end_their_turn() {
    static COUNTS: EventCounts = EventCounts::new();
    let lock = &adaptive(Some(LONG));
    lock.set_events(Some(&COUNTS));
    beside_a_queued_writer(lock, || {
        assert!(join_for(lock, 60_000), "it is the readers' turn");
        assert_eq!(COUNTS.get(Event::ReadSteal), 1);
        for _ in 0..1_000 {
            assert!(join_for(lock, 10), "for long");
            leave(lock);
        }
        assert!(!word(lock).is_closed());
        lock.kernel().lines.preference.set_turn(TurnEnd::at(Kind::Reader, Native::now()));
        thread::sleep(Duration::from_millis(1));
        let joined = (0..10_000).take_while(|_| join_for(lock, 10)).map(|_| leave(lock)).count();
        assert!(joined < 10_000, "the turn does not end");
        assert!(word(lock).is_closed());
        assert_eq!(COUNTS.get(Event::WriteHandoff), 1);
        leave(lock);
        leave(lock);
    });
}

/// It takes nothing from the readers that were queued when their turn began.
#[test]
fn who_spins_in_the_turn_of_the_other_side_does_not_get_in() {
    let lock = &adaptive(Some(LONG));
    let preference = &lock.kernel().lines.preference;
    let spins = |kind: Kind, preferred, free: Word| {
        preference.set_side(preferred);
        preference.set_turn(TurnEnd::open(preferred));
        lock.word.store(free);
        let (me, context) = (Native::thread(), WaitContext::FOREVER);
        match kind {
            Kind::Reader => lock.kernel().spin_for_read(me, &context),
            Kind::Writer => lock.kernel().spin_for_write(me, &context),
        }
    };
    let read = Word::AWAITED.with_reader();
    assert!(!spins(Kind::Writer, Kind::Reader, Word::AWAITED));
    assert!(!spins(Kind::Reader, Kind::Writer, read));
    assert_eq!(word(lock), read);
    assert!(!lock.kernel().is_stream(read));
    preference.set_turn(TurnEnd::open(Kind::Reader));
    assert!(lock.kernel().is_stream(read) && !lock.kernel().is_stream(Word::FREE.with_reader()));
    lock.word.store(Word::FREE);
}

/// The writer is woken in vain, and asks to be left asleep; then the readers are gone.
#[test]
fn lock_that_a_stream_left_idle_is_taken_before_the_deadline() {
    let lock = &adaptive(Some(LONG));
    beside_a_queued_writer(lock, || {
        until(|| {
            lock.with_waiters(|waiters| waiters.head().unwrap().thread.parker.unpark());
            thread::sleep(Duration::from_millis(1));
            lock.kernel().lines.preference.is_quiet()
        });
        // The writer's own timer decides, not the time that it asked for.
        lock.kernel().lines.preference.keep_quiet(soon(LONG.as_millis() as u64));
        leave(lock);
    });
    assert!(!lock.kernel().lines.preference.is_quiet(), "the next writer has not asked for it");
}

/// Of several readers that were queued, the first one in lets the others in, also where
/// writers are in the queue; else they would be passed over by those that join.
#[test]
fn stream_begins_with_all_queued_readers() {
    let lock = &adaptive(Some(LONG));
    lock.write();
    scope(|s| {
        let writer = s.spawn(|| visit(lock, Kind::Writer));
        until(|| waiters(lock) == 1);
        let readers: Vec<_> = (0..3).map(|_| s.spawn(|| lock.read())).collect();
        until(|| waiters(lock) == 4);
        // SAFETY: taken above; for reading after the downgrade.
        unsafe { lock.downgrade() };
        readers.into_iter().for_each(join);
        (0..4).for_each(|_| leave(lock));
        join(writer);
    });
    assert_free(lock);
}

/// Where many writers are woken one by one, all are always past their deadlines.
#[test]
fn readers_have_several_times_as_long_as_the_writers_had() {
    const TURN_NS: u64 = 3_000_000;
    let lock = &adaptive(Some(Duration::from_millis(5)));
    let was_in_time = Cell::new(false);
    // If this thread has no CPU for a while, the writer is due before its turn is over.
    while !was_in_time.get() {
        beside_a_queued_writer(lock, || {
            let now = Native::now();
            let (least, in_time) = lock.kernel().queue.with(|q| {
                q.own.begin(Kind::Writer, now - TURN_NS);
                lock.kernel().count_reads(q, 1);
                let least = lock.kernel().lines.preference.least(now);
                // Longer than the writer's deadline.
                lock.kernel().lines.preference.set_least(soon(LONG.as_millis() as u64));
                (least, !word(lock).is_closed())
            });
            assert!(least.is_some_and(|until| until >= now + 4 * TURN_NS));
            was_in_time.set(in_time);
            if in_time {
                thread::sleep(Duration::from_millis(10));
                lock.kernel().wake_after_release();
                assert!(!word(lock).is_closed() && !word(lock).is_writer_phase());
                lock.kernel().lines.preference.set_least(0);
                lock.kernel().wake_after_release();
                until(|| word(lock).is_closed());
            }
            leave(lock);
        });
    }
}

/// A writer sleeps without a timer behind another, and comes to the head as that one takes the lock. Where that one
/// becomes a reader, others may overlap with it for ever.
#[test]
fn writer_behind_one_that_becomes_a_reader_sees_its_deadline_pass() {
    static COUNTS: EventCounts = EventCounts::new();
    let lock = &adaptive(Some(Duration::from_millis(5)));
    lock.set_events(Some(&COUNTS));
    lock.write();
    scope(|s| {
        let first = s.spawn(|| lock.write());
        until(|| waiters(lock) == 1);
        let second = visit_asleep(&s, lock, Kind::Writer);
        assert_eq!(waiters(lock), 2);
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        join(first);
        // SAFETY: taken by that thread.
        unsafe { lock.downgrade() };
        until(|| word(lock).is_closed());
        assert_eq!(COUNTS.get(Event::WakeWriter), 2, "both were woken");
        leave(lock);
        join(second);
    });
    assert_free(lock);
}

/// All where nobody is queued; one for a writer inside; in the writers' turn, or beside readers, none.
#[test]
fn which_readers_spin_depends_on_who_is_inside_and_whose_turn_it_is() {
    let lock = &adaptive(Some(LONG));
    let preference = &lock.kernel().lines.preference;
    let spins = |preferred, word| {
        preference.set_side(preferred);
        preference.set_turn(TurnEnd::open(preferred));
        lock.word.store(word);
        lock.kernel().reader_spin()
    };
    let written = Word::AWAITED.with(Flags::WRITER_LOCKED);
    assert_eq!(spins(Kind::Writer, Word::WRITTEN), ReaderSpin::On);
    assert_eq!(spins(Kind::Reader, written), ReaderSpin::One);
    assert_eq!(spins(Kind::Writer, written), ReaderSpin::Off);
    assert_eq!(spins(Kind::Reader, Word::AWAITED.with_reader()), ReaderSpin::Off);
    lock.word.store(Word::FREE);
}

/// The first waiter begins a turn of the side inside; the first of the other side has it end.
#[test]
fn turns_begin_with_the_first_waiter_and_end_with_the_last() {
    let lock = &adaptive(Some(LONG));
    let turn = || lock.kernel().lines.preference.turn();
    lock.write();
    scope(|s| {
        let writer = s.spawn(|| visit(lock, Kind::Writer));
        until(|| waiters(lock) == 1);
        assert!(turn().is_open() && turn().side() == Kind::Writer);
        let reader = s.spawn(|| visit(lock, Kind::Reader));
        until(|| waiters(lock) == 2);
        assert!(!turn().is_open() && turn().side() == Kind::Writer);
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        join(writer);
        join(reader);
    });
    assert_eq!(turn().side(), Kind::Reader, "the reader was let in last");
    lock.kernel().queue.with(|q| {
        assert!(q.own.last_ns(Kind::Writer) > 0);
        // Nobody's turn: nothing is counted.
        assert_eq!(q.own.count(Kind::Writer, 1, || unreachable!()), None);
    });
    assert_free(lock);
}

/// So a writer in the queue is told when that ends, and the next writer's turn begins where it ends.
#[test]
fn a_reader_past_the_queue_begins_the_readers_turn() {
    let lock = &adaptive(Some(LONG));
    lock.write();
    scope(|s| {
        let writer = visit_asleep(&s, lock, Kind::Writer);
        // As if the wake-up of its release were still to come.
        lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release);
        assert!(!lock.kernel().near.is_reader_owned());
        assert!(join_for(lock, 60_000));
        let turn = lock.kernel().lines.preference.turn();
        assert!(!turn.is_open() && turn.side() == Kind::Reader);
        assert!(lock.kernel().near.is_reader_owned());
        leave(lock);
        join(writer);
    });
    assert_free(lock);
}

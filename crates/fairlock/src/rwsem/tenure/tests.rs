//! What threads tell each other without the queue lock.

use std::cell::Cell;
use std::sync::mpsc;
use std::time::Duration;

use fairlock_testing::{join, scope, until};

use super::wait::AwakeWriter;
use super::*;
use crate::events::EventCounts;
use crate::platform::{Native, System};
use crate::wait::{INVITED, NEXT, WAITING, Wait, Waiter};

impl<P: Platform> Turns<P> {
    /// As if others waited, or did not any more.
    pub(crate) fn seem_awaited(&self, awaited: bool) {
        match awaited {
            true => self.word.set(Flags::WAITERS, Ordering::Relaxed),
            false => self.word.clear(Flags::WAITERS, Ordering::Relaxed),
        };
    }
}

/// A lock that the calling thread had last, with a queue, in a tenure without end.
fn busy() -> Turns<Native> {
    let lock = Turns::new(Policy::DEFAULT);
    lock.seem_awaited(true);
    lock.seem_last();
    lock.holder().set_end(u64::MAX);
    lock
}

/// Steals of a lock in turns are counted at once; those of a shared one late, and no more than
/// there were.
#[test]
fn a_lock_is_told_of_its_steals_once() {
    let lock = busy();
    let me = Native::thread();
    // Those of the thread that had the record before.
    me.tenure.unreported_steals.set(0);
    let at_once = || lock.steal_at_once(Access::Exclusive);
    let again = || lock.take_again(me, Access::Exclusive).map(|again| again.note(me)).is_some();
    let cases: [(bool, &dyn Fn() -> bool); 4] =
        [(false, &at_once), (true, &at_once), (false, &again), (true, &again)];
    for (in_turns, steal) in cases {
        lock.holder().set_in_turns(in_turns);
        let before = lock.holder().steals();
        let told = || lock.holder().steals() - before;
        let mut steals = 0;
        let least = if in_turns { 100_000 } else { 1_000 };
        while steals < least || told() == 0 {
            assert!(steal());
            assert!(lock.leave_again(me));
            steals += 1;
        }
        // Between two looks at the clock there are 32 at most.
        let late = if in_turns { 0 } else { 32 };
        assert!((1..=steals + late).contains(&told()), "{} of {steals}", told());
        assert!(!in_turns || told() == steals);
    }
}

/// An age ends with any acquisition, also with that of the thread which had the lock last.
#[test]
fn an_age_ends_where_a_thread_takes_the_lock_again() {
    let lock = busy();
    let me = Native::thread();
    let ways: [&dyn Fn() -> bool; 3] =
        [&|| lock.write_again(), &|| lock.steal_at_once(Access::Exclusive), &|| {
            lock.take_write_at_once()
        }];
    for take in ways {
        me.tenure.ages.note(lock.id(), 5_000_000, Native::now());
        assert!(me.tenure.ages.at(lock.id()).is_some());
        assert!(take());
        assert!(me.tenure.ages.at(lock.id()).is_none());
        // SAFETY: just taken.
        unsafe { lock.unlock_write() };
    }
}

#[test]
fn where_threads_take_turns_only_the_last_holder_takes_the_lock_past_the_queue() {
    let lock = busy();
    let takes = || {
        let me = Native::thread();
        me.tenure.gave_way(0); // at a lock of another test
        let reads = lock.may_stay(me, lock.word.load(Ordering::Relaxed));
        let taken = lock.steal_at_once(Access::Exclusive);
        if taken {
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
        }
        assert_eq!(reads, taken);
        taken
    };
    for in_turns in [false, true] {
        lock.holder().set_in_turns(in_turns);
        lock.seem_last();
        assert!(takes());
        let other = std::thread::scope(|s| s.spawn(takes).join().unwrap());
        assert_eq!(other, !in_turns);
    }
}

#[test]
fn a_lock_that_is_held_is_not_idle() {
    let lock = busy();
    assert!(lock.is_idle());
    assert!(lock.steal_at_once(Access::Exclusive));
    assert!(!lock.is_idle());
}

/// Who holds the lock past the end of the tenure yields, and later closes the lock.
#[test]
fn a_holder_that_is_late_gives_way_and_at_last_closes_the_lock() {
    let lock = busy();
    let me = Native::thread();
    let look = |late| {
        Turns::watch_clock(&lock.word, lock.holder(), me, 1_000 + late);
        (lock.gives_way(me), lock.word.load(Ordering::Relaxed).is_closed())
    };
    lock.holder().set_end(1_000);
    assert_eq!(look(LATE_NS - 1), (false, false));
    assert_eq!(look(LATE_NS), (true, false));
    assert_eq!(look(LOST - 1), (true, false));
    assert_eq!(look(LOST), (true, true));
}

/// While a writer waits for the readers inside, others hold off, but go in after a moment if it
/// does not come: it may have lost its CPU.
#[test]
fn readers_hold_off_for_a_writer_that_is_awake_and_not_for_ever() {
    let lock = busy();
    let me = Native::thread();
    let readers = || lock.word.load(Ordering::Relaxed).readers();
    let has_awake_writer = || lock.word.load(Ordering::Relaxed).has_awake_writer();
    lock.word.set(Flags::AWAKE_WRITER, Ordering::Relaxed);
    assert!(lock.take_again(me, Access::Shared).is_none());
    assert!(lock.past_queue(me, Access::Shared).is_none() && readers() == 0);
    assert!(lock.compete(Access::Shared, &WaitContext::FOREVER) && readers() == 1);
    // The next ones need not hold off, too, until that writer runs again.
    assert!(!has_awake_writer());
    // A writer that tries in vain tells nobody to hold off when it has done so.
    assert!(!lock.compete(Access::Exclusive, &WaitContext::FOREVER));
    assert!(!has_awake_writer() && readers() == 1);
    // Who looks in vain for something else leaves the hint of others as it is.
    let upgradable = Turns::<Native>::new(Policy::DEFAULT);
    upgradable.upgradable_read();
    upgradable.word.set(Flags::AWAKE_WRITER, Ordering::Relaxed);
    assert!(!upgradable.compete(Access::Upgradable, &WaitContext::FOREVER));
    assert!(upgradable.word.load(Ordering::Relaxed).has_awake_writer());
    // Nor does one that has come in.
    let free = Turns::<Native>::new(Policy::DEFAULT);
    free.word.set(Flags::AWAKE_WRITER, Ordering::Relaxed);
    assert!(free.compete(Access::Exclusive, &WaitContext::FOREVER));
    assert_eq!(free.word.load(Ordering::Relaxed), Word::WRITTEN);
}

/// Another writer comes first, which clears the hint, and reads next: with the hint gone, the one that waits found no gap,
/// and went to sleep.
#[test]
fn readers_hold_off_for_an_awake_writer_also_after_another_has_written() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    lock.read();
    let written = Cell::new(false);
    let is_set_again = |word: Word| {
        if word.has_awake_writer() && !written.replace(true) {
            lock.word.clear(Flags::AWAKE_WRITER, Ordering::Relaxed);
            return false;
        }
        written.get() && word.has_awake_writer()
    };
    let writer = AwakeWriter::new(&lock.word);
    assert!(writer.spin_until(10_000_000_000, is_set_again));
    drop(writer);
    assert!(!lock.word.load(Ordering::Relaxed).has_awake_writer());
}

/// Also where nobody is queued; a reader that would not wait gets in.
#[test]
fn readers_hold_off_for_an_awake_writer_where_nobody_is_queued() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    let me = Native::thread();
    lock.word.set(Flags::AWAKE_WRITER, Ordering::Relaxed);
    assert!(lock.read_fast().is_err_and(|before| !lock.reads_at_once(Some(before))));
    assert!(lock.past_queue(me, Access::Shared).is_none());
    assert_eq!(lock.word.load(Ordering::Relaxed).readers(), 0);
    assert!(lock.try_read() && lock.try_take(Access::Shared, false).is_ok());
}

/// In a writers' tenure readers would be inside all the time if whoever comes joined them. Threads
/// that write as well may: they are whom the tenure is for.
#[test]
fn a_thread_that_writes_joins_readers_in_a_writers_tenure() {
    let lock = busy();
    let me = Native::thread();
    me.tenure.writes(0);
    let read = || lock.past_queue(me, Access::Shared).map(|taken| taken.note(me)).is_some();
    assert!(read() && !read(), "it comes in if nobody is inside");
    // SAFETY: taken above.
    unsafe { lock.unlock_read() };
    assert!(lock.steal_at_once(Access::Exclusive) && lock.leave_again(me));
    lock.holder().set_in_turns(false);
    assert!((0..Native::cpus()).all(|_| read()), "it writes");
    assert!(!read(), "no more than there are CPUs");
    // SAFETY: taken above.
    unsafe { lock.unlock_read() };
    lock.holder().set_in_turns(true);
    assert!(!read(), "writers take turns");
    lock.holder().set_in_turns(false);
    let joins = core::iter::from_fn(|| {
        // SAFETY: taken here.
        read().then(|| unsafe { lock.unlock_read() })
    });
    assert!((1..1_000).contains(&joins.take(1_000).count()), "it has not written for long");
    std::thread::scope(|s| {
        s.spawn(|| {
            let me = Native::thread();
            assert!(
                lock.past_queue(me, Access::Shared).is_none(),
                "another thread has not written"
            );
        });
    });
}

/// Who takes the lock for writing, or may write in it, has written, whichever way it came in. (The
/// short way of a thread that had the lock last did not say so: after 256 reads that joined others,
/// such a thread was a reader like others, however often it wrote.)
#[test]
fn a_thread_that_writes_has_written_whichever_way_it_came_in() {
    let lock = busy();
    let me = Native::thread();
    let write = |way: &dyn Fn() -> bool| {
        me.tenure.writes(0);
        assert!(way());
        // SAFETY: just taken.
        unsafe { lock.unlock_write() };
        me.tenure.wrote(lock.id())
    };
    assert!(write(&|| lock.steal_at_once(Access::Exclusive)));
    assert!(write(&|| lock.write_again()));
    assert!(write(&|| lock.take_past_queue().is_some()));
    assert!(write(&|| {
        let waiter = Waiter::new(Access::Exclusive, me, 0, 0);
        let mut wakes = FewWakes::new();
        lock.with_queue(|q| {
            // SAFETY: it leaves in this frame, with the lock.
            unsafe { lock.arrive(q, &waiter, &mut wakes) };
            me.tenure.ages.note(lock.id(), 5_000_000, Native::now());
            lock.take(q, &waiter, Native::now(), &mut wakes)
        }) && me.tenure.ages.at(lock.id()).is_none()
    }));
    lock.seem_awaited(true);
    me.tenure.writes(0);
    assert!(lock.past_queue(me, Access::Upgradable).map(|taken| taken.note(me)).is_some());
    assert!(me.tenure.wrote(lock.id()));
    // SAFETY: taken above.
    unsafe { lock.unlock_upgradable() };
}

/// A waiter that was next finds the lock free, and takes back that it wants to be woken. Meanwhile
/// another has become next, found the lock taken again, and gone to sleep: its wish stays.
/// (It was lost, and the lock was free for ever, with all waiters asleep.)
#[test]
fn a_waiter_that_is_not_next_any_more_takes_nothing_back() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    let me = Native::thread();
    lock.write();
    let [writer, reader] =
        [Access::Exclusive, Access::Shared].map(|access| Waiter::new(access, me, 0, 0));
    let asks = || lock.word.set(Flags::WAKE_NEXT, Ordering::Relaxed);
    let asked = || lock.word.load(Ordering::Relaxed).has_next_to_wake();
    let mut wakes = FewWakes::new();
    lock.with_queue(|q| {
        // SAFETY: both waiters leave below, in this frame.
        unsafe { lock.arrive(q, &writer, &mut wakes) };
        asks();
        lock.ask_no_more(q, &writer);
        assert!(!asked(), "it is next");
        // SAFETY: as above.
        unsafe { lock.arrive(q, &reader, &mut wakes) };
        assert!(q.own.is_next(&reader));
        assert_eq!((writer.state(), reader.state()), (WAITING, NEXT));
        asks();
        lock.ask_no_more(q, &writer);
        assert!(asked(), "the reader is next, and sleeps");
    });
    assert!(lock.holder().is_awaited());
    lock.with_queue(|q| {
        lock.leave(q, &writer, &mut wakes);
        lock.leave(q, &reader, &mut wakes);
    });
    assert!(!lock.holder().is_awaited());
    wakes.wake_all();
    // SAFETY: taken above.
    unsafe { lock.unlock_write() };
}

/// A writer that takes the lock as the one that was next leaves it to others to wake the one after it.
/// If it becomes a reader, others may join it without a gap: then neither a release nor anybody who
/// queues would wake that one. (In simulated time 60 such writers waited for 136 ms.)
#[test]
fn a_writer_that_becomes_a_reader_has_the_next_one_woken() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    let me = Native::thread();
    lock.write();
    let [first, second] = [(); 2].map(|()| Waiter::new(Access::Exclusive, me, 0, 0));
    let mut wakes = FewWakes::new();
    lock.with_queue(|q| {
        for waiter in [&first, &second] {
            // SAFETY: both leave below, in this frame.
            unsafe { lock.arrive(q, waiter, &mut wakes) };
        }
        lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release);
        assert!(lock.take(q, &first, Native::now(), &mut wakes));
        assert!(q.own.is_next(&second) && q.own.unwoken);
    });
    // SAFETY: taken above.
    unsafe { lock.downgrade() };
    lock.with_queue(|q| {
        assert!(q.own.is_next(&second) && !q.own.unwoken);
        lock.leave(q, &second, &mut wakes);
    });
    wakes.wake_all();
    // SAFETY: a reader by now.
    unsafe { lock.unlock_read() };
}

/// A closed lock goes to the waiter that was next as it closed: neither one that has waited longer, by
/// attempts before, nor one of the other side is put before it. (A `bump` found that nobody had been let
/// through: the thread's age was older than the wait of the one it let go first.)
#[test]
fn a_closed_lock_is_kept_for_the_waiter_that_is_next_whoever_comes() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    let me = Native::thread();
    lock.write();
    let next = Waiter::new(Access::Exclusive, me, 1_000, 0);
    let mut older = Waiter::new(Access::Exclusive, me, 0, 0);
    older.returns = true;
    let reader = Waiter::new(Access::Shared, me, 1_000, 0);
    let mut wakes = FewWakes::new();
    let mut come = |waiter| {
        // SAFETY: all leave below, in this frame.
        lock.with_queue(|q| unsafe { lock.arrive(q, waiter, &mut wakes) });
    };
    come(&next);
    Policy::close_for_next(&lock);
    come(&older);
    come(&reader);
    lock.with_queue(|q| {
        assert!(q.own.is_next(&next));
        for waiter in [&next, &older, &reader] {
            lock.leave(q, waiter, &mut wakes);
        }
    });
    wakes.wake_all();
    // SAFETY: taken above.
    unsafe { lock.unlock_write() };
}

/// The waiter that is next has no CPU for ever, as a collector of garbage has stopped it. A thread that comes gets the
/// closed lock after a while, and the other stays next.
#[test]
fn a_closed_lock_is_had_by_another_where_the_waiter_that_is_next_does_not_run() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    lock.write();
    let stopped = Waiter::new(Access::Exclusive, Native::thread(), 0, 0);
    // SAFETY: it leaves below, in this frame.
    unsafe { lock.queue_sleeping_writer(&stopped) };
    lock.close();
    for _ in 0..2 {
        // SAFETY: taken above, or by the step before.
        unsafe { lock.unlock_write() };
        lock.write_with(Wait::within(Duration::from_secs(60))).expect("the lock is free");
        assert!(lock.word.load(Ordering::Relaxed).is_closed());
    }
    // A fair release keeps the lock for it.
    // SAFETY: taken above.
    unsafe { lock.unlock_write_fair() };
    assert!(lock.write_with(Wait::within(Duration::from_millis(5))).is_err());
    let mut wakes = FewWakes::new();
    lock.with_queue(|q| {
        assert!(q.own.is_next(&stopped));
        lock.leave(q, &stopped, &mut wakes);
    });
}

/// A lock that is closed for the next upgradable reader lets readers in beside the one inside, which may
/// wait for them.
#[test]
fn a_closed_lock_is_not_kept_for_one_that_waits_for_an_upgradable_reader() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    let me = Native::thread();
    lock.write();
    let next = Waiter::new(Access::Upgradable, me, 0, 0);
    let reader = Waiter::new(Access::Shared, me, 0, 0);
    let mut wakes = FewWakes::new();
    // SAFETY: it leaves below, in this frame.
    lock.with_queue(|q| unsafe { lock.arrive(q, &next, &mut wakes) });
    lock.close();
    // SAFETY: taken above.
    unsafe { lock.downgrade_to_upgradable() };
    lock.with_queue(|q| {
        // SAFETY: as above.
        unsafe { lock.arrive(q, &reader, &mut wakes) };
        assert!(lock.take(q, &reader, Native::now(), &mut wakes));
        lock.leave(q, &next, &mut wakes);
    });
    wakes.wake_all();
    // SAFETY: the reader is inside, and an upgradable one.
    unsafe {
        lock.unlock_read();
        lock.unlock_upgradable();
    }
}

/// An invited reader that gives up passes the invitation on: those behind it could join the reader
/// inside, and nobody else would tell them.
#[test]
fn an_invited_reader_that_gives_up_has_others_invited() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    let me = Native::thread();
    lock.write();
    let waiter = |access| Waiter::new(access, me, 0, 0);
    let (writer, readers) = (waiter(Access::Exclusive), [(); 3].map(|()| waiter(Access::Shared)));
    let mut wakes = FewWakes::new();
    lock.with_queue(|q| {
        for waiter in readers.iter().chain([&writer]) {
            // SAFETY: all leave below, in this frame.
            unsafe { lock.arrive(q, waiter, &mut wakes) };
        }
        lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release);
        let [first, second, third] = &readers;
        assert!(lock.take(q, first, Native::now(), &mut wakes), "it is next");
        second.set_state(INVITED);
        third.set_state(WAITING);
        let mut woken = FewWakes::new();
        lock.leave(q, second, &mut woken);
        assert!(third.state() == INVITED && !woken.is_empty());
        lock.leave(q, third, &mut wakes);
        lock.leave(q, &writer, &mut wakes);
    });
    wakes.wake_all();
    // SAFETY: the first reader is inside.
    unsafe { lock.unlock_read() };
}

/// Or else it would look again and again.
#[test]
fn an_invited_reader_that_comes_too_late_waits_as_before() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    let me = Native::thread();
    lock.write();
    let [first, second] = [(); 2].map(|()| Waiter::new(Access::Shared, me, 0, 0));
    let mut wakes = FewWakes::new();
    lock.with_queue(|q| {
        for waiter in [&first, &second] {
            // SAFETY: both leave below, in this frame.
            unsafe { lock.arrive(q, waiter, &mut wakes) };
        }
        for (waiter, before) in [(&first, NEXT), (&second, WAITING)] {
            waiter.set_state(INVITED);
            assert!(!lock.take(q, waiter, Native::now(), &mut wakes), "a writer is inside");
            lock.decline(q, waiter);
            assert_eq!(waiter.state(), before);
        }
        lock.leave(q, &first, &mut wakes);
        lock.leave(q, &second, &mut wakes);
    });
    wakes.wake_all();
    // SAFETY: taken above.
    unsafe { lock.unlock_write() };
}

/// Behind a writer that is next, beside a reader that stays inside.
#[test]
fn an_invited_reader_joins_those_inside() {
    static COUNTS: EventCounts = EventCounts::new();
    let lock = &Turns::<Native>::new(Policy::DEFAULT);
    lock.events.set(Some(&COUNTS));
    assert!(lock.try_read());
    let writer = Waiter::new(Access::Exclusive, Native::thread(), 0, 0);
    let mut wakes = FewWakes::new();
    // SAFETY: it leaves below, in this frame.
    lock.with_queue(|q| unsafe { lock.arrive(q, &writer, &mut wakes) });
    // As in a tenure of writers: or else readers would not queue.
    assert!(lock.word.clear(Flags::READERS_TURN, Ordering::Relaxed).is_readers_turn());
    scope(|s| {
        let reader = s.spawn(|| {
            lock.wait(Access::Shared, &WaitContext::FOREVER).unwrap();
            // SAFETY: just taken.
            unsafe { lock.unlock_read() };
        });
        until(|| lock.holder().queued() == 2);
        lock.with_queue(|q| lock.invite_readers(q, 1, &mut wakes));
        wakes.wake_all();
        join(reader);
    });
    assert_eq!(COUNTS.get(Event::WakeReader), 1);
    lock.with_queue(|q| lock.leave(q, &writer, &mut wakes));
    // SAFETY: taken above.
    unsafe { lock.unlock_read() };
}

/// Readers inside may be joined by others while somebody waits.
#[test]
fn the_tenure_is_of_those_inside_as_somebody_comes_to_wait() {
    for is_read in [true, false] {
        let lock = Turns::<Native>::new(Policy::DEFAULT);
        assert!(if is_read { lock.try_read() } else { lock.try_write() });
        let waiter = Waiter::new(Access::Exclusive, Native::thread(), 0, 0);
        let mut wakes = FewWakes::new();
        // SAFETY: it leaves below, in this frame.
        lock.with_queue(|q| unsafe { lock.arrive(q, &waiter, &mut wakes) });
        assert_eq!(lock.word.load(Ordering::Relaxed).is_readers_turn(), is_read);
        lock.with_queue(|q| lock.leave(q, &waiter, &mut wakes));
    }
}

/// Readers stay inside, of whom none would wake it.
#[test]
fn an_upgradable_reader_that_leaves_wakes_the_next_one() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    assert!(lock.try_read());
    lock.upgradable_read();
    let next = Waiter::new(Access::Upgradable, Native::thread(), 0, 0);
    let mut wakes = FewWakes::new();
    // SAFETY: it leaves below, in this frame.
    lock.with_queue(|q| unsafe { lock.arrive(q, &next, &mut wakes) });
    lock.word.set(Flags::WAKE_NEXT, Ordering::Relaxed);
    // SAFETY: taken above.
    unsafe { lock.unlock_upgradable() };
    assert!(!lock.word.load(Ordering::Relaxed).has_next_to_wake());
    lock.with_queue(|q| lock.leave(q, &next, &mut wakes));
    // SAFETY: taken above.
    unsafe { lock.unlock_read() };
}

/// A thread that sleeps at a condition variable is queued at a lock that its holder has just left: nobody else would
/// wake it.
#[test]
fn a_sleeper_that_is_queued_at_a_free_lock_is_woken() {
    let lock = &Turns::<Native>::new(Policy::DEFAULT);
    let (send, sleeps) = mpsc::channel();
    scope(|s| {
        let sleeper = s.spawn(move || {
            let waiter = Waiter::new(Access::Exclusive, Native::thread(), Native::now(), 0);
            send.send((&raw const waiter).expose_provenance()).unwrap();
            assert!(lock.wait_queued(&waiter, &WaitContext::FOREVER).is_ok());
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
        });
        let waiter = core::ptr::with_exposed_provenance::<Waiter<Native>>(sleeps.recv().unwrap());
        // SAFETY: it is in the frame of a wait that ends once it is queued below.
        let waiter = unsafe { &*waiter };
        until(|| waiter.thread.is_asleep());
        // SAFETY: as above; it is queued once.
        unsafe { lock.queue_sleeping_writer(waiter) };
        join(sleeper);
    });
    assert_eq!(lock.word.load(Ordering::Relaxed), Word::FREE);
}

/// Whether the release has to wake it is said in the word: at a free lock there may be no release.
#[test]
fn a_sleeper_that_is_queued_is_woken_by_the_release_if_there_is_one() {
    for free in [true, false] {
        let lock = Turns::<Native>::new(Policy::DEFAULT);
        assert!(free || lock.try_write());
        let sleeper = Waiter::new(Access::Exclusive, Native::thread(), 0, 0);
        // SAFETY: it leaves below, in this frame.
        unsafe { lock.queue_sleeping_writer(&sleeper) };
        assert_eq!(lock.word.load(Ordering::Relaxed).has_next_to_wake(), !free);
        lock.with_queue(|q| {
            assert!(q.own.is_next(&sleeper) && q.own.unwoken != free);
            lock.leave(q, &sleeper, &mut FewWakes::new());
        });
    }
}

/// What those wait for that are counted: woken readers, and locks that were closed for one.
#[test]
fn waiters_that_are_woken_and_locks_that_are_handed_over_are_counted() {
    static COUNTS: EventCounts = EventCounts::new();
    let counts = |events: [Event; 3]| events.map(|event| COUNTS.get(event));
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    lock.events.set(Some(&COUNTS));
    let me = Native::thread();
    let mut wakes = FewWakes::new();
    let events = [Event::WakeReader, Event::ReadHandoff, Event::WriteHandoff];
    assert!(lock.try_write());
    let reader = Waiter::new(Access::Shared, me, 0, 0);
    // SAFETY: it takes the lock below, in this frame.
    lock.with_queue(|q| unsafe { lock.arrive(q, &reader, &mut wakes) });
    // SAFETY: taken above.
    unsafe { lock.downgrade() };
    // It is next, and can join the one that wrote.
    assert_eq!(counts(events), [1, 0, 0]);
    assert!(lock.with_queue(|q| lock.take(q, &reader, Native::now(), &mut wakes)));
    assert_eq!(counts(events), [1, 0, 0], "nobody closed the lock");
    // SAFETY: both are readers.
    unsafe {
        lock.unlock_read();
        lock.unlock_read();
    }
    for (access, expected) in [(Access::Shared, [1, 1, 0]), (Access::Exclusive, [1, 1, 1])] {
        assert!(lock.try_write());
        let next = Waiter::new(access, me, 0, 0);
        // SAFETY: as above.
        lock.with_queue(|q| unsafe { lock.arrive(q, &next, &mut wakes) });
        lock.close();
        lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release);
        assert!(lock.with_queue(|q| lock.take(q, &next, Native::now(), &mut wakes)));
        assert_eq!(counts(events), expected);
        // SAFETY: just taken in this way.
        unsafe { if access == Access::Shared { lock.unlock_read() } else { lock.unlock_write() } }
    }
    wakes.wake_all();
}

/// Threads that steal compare the time with it, without the queue lock.
#[test]
fn the_end_of_a_tenure_is_told_when_a_waiter_comes() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    assert!(lock.try_write());
    let waiter = Waiter::new(Access::Exclusive, Native::thread(), 0, 0);
    // SAFETY: it leaves below, in this frame.
    lock.with_queue(|q| unsafe { lock.arrive(q, &waiter, &mut FewWakes::new()) });
    let end = lock.holder().end();
    assert!(end != 0 && end != u64::MAX);
    let another = Waiter::new(Access::Shared, Native::thread(), 0, 0);
    lock.with_queue(|q| {
        assert_eq!(end, q.own.clock.end());
        // SAFETY: as above.
        unsafe { lock.arrive(q, &another, &mut FewWakes::new()) };
        assert!(q.own.clock.end() < end, "the more wait, the sooner");
        lock.leave(q, &waiter, &mut FewWakes::new());
        lock.leave(q, &another, &mut FewWakes::new());
        lock.holder().set_end(1);
        // SAFETY: as above.
        unsafe { lock.arrive(q, &waiter, &mut FewWakes::new()) };
        assert_eq!(lock.holder().end(), u64::MAX, "not that of an earlier queue");
        lock.leave(q, &waiter, &mut FewWakes::new());
    });
    // SAFETY: taken above.
    unsafe { lock.unlock_write() };
}

/// It watches the lock for a moment, and not for ever.
#[test]
fn a_waiter_that_is_next_goes_to_sleep() {
    let lock = &Turns::<Native>::new(Policy::DEFAULT);
    let (send, other) = mpsc::channel();
    assert!(lock.try_write());
    scope(|s| {
        s.spawn(move || {
            send.send(Native::thread()).unwrap();
            lock.write();
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
        });
        let other = other.recv().unwrap();
        until(|| other.is_asleep());
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
    });
}

/// The flags that are the queue's change with the waiter that is next, and stay as they are where a reader joins.
#[test]
fn who_is_next_ends_the_turn_before_and_an_invited_reader_does_not() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    let waiter = |access| Waiter::new(access, Native::thread(), 0, 0);
    let (readers, writer) = ([(); 2].map(|()| waiter(Access::Shared)), waiter(Access::Exclusive));
    let mut wakes = FewWakes::new();
    assert!(lock.try_write());
    lock.with_queue(|q| {
        for waiter in readers.iter().chain([&writer]) {
            // SAFETY: all leave below, in this frame.
            unsafe { lock.arrive(q, waiter, &mut wakes) };
        }
        let [next, invited] = &readers;
        lock.close();
        lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release);
        assert!(lock.take(q, next, Native::now(), &mut wakes));
        let word = || lock.word.load(Ordering::Relaxed);
        assert!(!word().is_closed() && word().is_readers_turn());
        invited.set_state(INVITED);
        lock.word.set(Flags::WAKE_NEXT, Ordering::Relaxed);
        assert!(q.own.is_next(&writer) && lock.take(q, invited, Native::now(), &mut wakes));
        assert!(word().has_next_to_wake() && word().is_readers_turn());
        lock.leave(q, &writer, &mut wakes);
    });
    wakes.wake_all();
    // SAFETY: both readers are inside.
    unsafe {
        lock.unlock_read();
        lock.unlock_read();
    }
    assert_eq!(lock.word.load(Ordering::Relaxed), Word::FREE);
}

/// Nobody need wait for the release of the one that takes the lock.
#[test]
fn a_real_time_waiter_that_becomes_next_is_woken_at_once() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    let [first, second] =
        [9, 5].map(|priority| Waiter::new(Access::Exclusive, Native::thread(), 0, priority));
    let mut wakes = FewWakes::new();
    assert!(lock.try_write());
    lock.with_queue(|q| {
        for waiter in [&first, &second] {
            // SAFETY: both leave below, in this frame.
            unsafe { lock.arrive(q, waiter, &mut wakes) };
        }
        lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release);
        let mut woken = FewWakes::new();
        assert!(lock.take(q, &first, Native::now(), &mut woken));
        assert!(q.own.is_next(&second) && !q.own.unwoken && !woken.is_empty());
        lock.leave(q, &second, &mut wakes);
    });
    wakes.wake_all();
    // SAFETY: taken above.
    unsafe { lock.unlock_write() };
}

/// Where threads take turns, the turn is that of the thread that took the lock last.
#[test]
fn a_thread_that_takes_a_free_lock_in_turns_has_the_turn() {
    let lock = busy();
    lock.holder().set_in_turns(true);
    std::thread::scope(|s| {
        s.spawn(|| lock.holder().set(Native::thread()));
    });
    assert!(!lock.holder().is(Native::thread()));
    assert!(lock.steal(Access::Exclusive) && lock.holder().is(Native::thread()));
    // SAFETY: just taken.
    unsafe { lock.unlock_write() };
}

/// Also if it takes the lock from the queue.
#[test]
fn a_thread_that_was_next_has_the_turn() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    let next = Waiter::new(Access::Exclusive, Native::thread(), 0, 0);
    lock.with_queue(|q| {
        // SAFETY: it leaves in this frame, with the lock.
        unsafe { lock.arrive(q, &next, &mut FewWakes::new()) };
        assert!(!lock.holder().is(Native::thread()));
        assert!(lock.take(q, &next, Native::now(), &mut FewWakes::new()));
    });
    assert!(lock.holder().is(Native::thread()));
    // SAFETY: just taken.
    unsafe { lock.unlock_write() };
}

/// Whoever took the lock as a writer has work to do: it leaves the wake-up of the waiter behind it to the next
/// thread that queues.
#[test]
fn who_queues_behind_a_writer_wakes_the_one_that_is_next() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    let [first, second, third, fourth] =
        [(); 4].map(|()| Waiter::new(Access::Exclusive, Native::thread(), 0, 0));
    assert!(lock.try_write());
    lock.with_queue(|q| {
        // Whether somebody was woken, and whether a release is to wake somebody. All leave below, in this frame.
        let arrive = |q: &mut _, waiter| {
            let mut woken = FewWakes::new();
            // SAFETY: as said.
            unsafe { lock.arrive(q, waiter, &mut woken) };
            (!woken.is_empty(), lock.word.load(Ordering::Relaxed).has_next_to_wake())
        };
        lock.word.set(Flags::WAKE_NEXT, Ordering::Relaxed);
        assert_eq!(arrive(q, &first), (false, true));
        assert_eq!(arrive(q, &second), (false, true));
        lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release);
        assert!(lock.take(q, &first, Native::now(), &mut FewWakes::new()));
        assert!(q.own.is_next(&second) && lock.word.load(Ordering::Relaxed).has_next_to_wake());
        assert_eq!(arrive(q, &third), (true, false));
        assert_eq!(arrive(q, &fourth), (false, false));
        for waiter in [&second, &third, &fourth] {
            lock.leave(q, waiter, &mut FewWakes::new());
        }
    });
    // SAFETY: taken above.
    unsafe { lock.unlock_write() };
}

/// It sleeps, and the writer inside does not leave.
#[test]
fn who_comes_to_wait_wakes_the_one_that_is_next() {
    let lock = &Turns::<Native>::new(Policy::DEFAULT);
    let (send, other) = mpsc::channel();
    scope(|s| {
        let sleeper = s.spawn(move || {
            let me = Native::thread();
            me.parker.forget_notification();
            send.send(me).unwrap();
            me.parker.park(None, false);
        });
        let other = other.recv().unwrap();
        until(|| other.is_asleep());
        let waiter = |thread| Waiter::new(Access::Exclusive, thread, 0, 0);
        let (first, second) = (waiter(Native::thread()), waiter(other));
        lock.with_queue(|q| {
            for waiter in [&first, &second] {
                // SAFETY: both leave below, in this frame.
                unsafe { lock.arrive(q, waiter, &mut FewWakes::new()) };
            }
            assert!(lock.take(q, &first, Native::now(), &mut FewWakes::new()));
            assert!(q.own.is_next(&second) && q.own.unwoken);
        });
        until(|| {
            // It may come too late to queue.
            assert!(lock.write_with(Wait::within(Duration::from_millis(1))).is_err());
            sleeper.is_finished()
        });
        lock.with_queue(|q| lock.leave(q, &second, &mut FewWakes::new()));
    });
    // SAFETY: taken above.
    unsafe { lock.unlock_write() };
}

/// Also by the one whose turn it is.
#[test]
fn readers_that_go_past_the_queue_are_counted() {
    static COUNTS: EventCounts = EventCounts::new();
    let lock = busy();
    lock.events.set(Some(&COUNTS));
    Native::thread().tenure.gave_way(0); // at a lock of another test
    let before = lock.word.enter(Access::Shared, Ordering::Acquire); // as the fast path does
    assert!(lock.reads_at_once(Some(before)));
    assert_eq!(COUNTS.get(Event::ReadSteal), 1);
    // SAFETY: just taken.
    unsafe { lock.unlock_read() };
}

/// A reader that finds the lock open as it comes to the queue; a writer that sleeps, and gives up. The attempt
/// counts as part of the next one's wait.
#[test]
fn what_becomes_of_a_wait_is_counted_and_remembered() {
    static COUNTS: EventCounts = EventCounts::new();
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    lock.events.set(Some(&COUNTS));
    let me = Native::thread();
    me.tenure.ages.note(lock.id(), 5_000_000, Native::now());
    assert!(lock.wait(Access::Shared, &WaitContext::FOREVER).is_ok());
    assert_eq!(COUNTS.get(Event::ReadFast), 1);
    assert!(me.tenure.ages.at(lock.id()).is_none());
    assert!(lock.write_with(Wait::within(Duration::from_millis(5))).is_err());
    assert!(COUNTS.get(Event::SleepWriter) >= 1 && COUNTS.get(Event::WriteFail) == 1);
    assert!(me.tenure.ages.at(lock.id()).is_some_and(|age| age.waited > 0));
    // SAFETY: taken above.
    unsafe { lock.unlock_read() };
}

/// By the budget, tenures are longer the more it costs to wake the waiter that is next.
#[test]
fn what_a_wake_up_costs_is_part_of_what_is_planned() {
    let lock = Turns::<Native>::new(Policy::DEFAULT);
    let me = Native::thread();
    let next = Waiter::new(Access::Exclusive, me, 0, 0);
    let before = lock.planned_wait_ns(100_000, false);
    me.tenure.wake_cost.set(1_000_000);
    lock.with_queue(|q| {
        // SAFETY: it leaves in this frame, with the lock.
        unsafe { lock.arrive(q, &next, &mut FewWakes::new()) };
        assert!(lock.take(q, &next, Native::now(), &mut FewWakes::new()));
    });
    assert!(lock.planned_wait_ns(100_000, false) > before);
    // SAFETY: just taken.
    unsafe { lock.unlock_write() };
}

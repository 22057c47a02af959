//! Steps between two ranges by themselves, each for the sake of an ordering that the models of whole waits do not need:
//! see `scripts/orderings`.

use core::sync::atomic::Ordering;

use loom::sync::Arc;
use loom::thread;

use super::guarded::Visit::*;
use super::guarded::*;
use crate::platform::System;
use crate::platform::loom::Loom;
use crate::range::slots::word::{Flags, SLOTS, STRIPE_SLOTS};
use crate::range::span::Span;
use crate::range::stripes::state::Made;
use crate::range::wait::waiter::RangeWaiter;
use crate::range::{Core, HeldIn, RangeAccess, RangeInfo, RangePolicy, RangeWriteGuard, Request};
use crate::wait::{Kind, WaitContext};

/// Halves of [`FIRST`]; A is in the second.
const FRONT: Range = 0..=3;
const BACK: Range = 4..=7;

/// This thread writes `held` before the others come, and goes on with `then`.
fn before<const N: usize>(
    policy: RangePolicy,
    striped: bool,
    held: Range,
    threads: [&'static [Visit]; N],
    then: fn(&Guarded, RangeWriteGuard<'_, Loom>, &dyn Fn()) -> u32,
) {
    loom::model(move || {
        let guarded = Arc::new(Guarded::new(policy));
        assert!(!striped || guarded.lock.stripe(SHIFT));
        let guard = guarded.lock.write(held.clone()).unwrap();
        let others = core::cell::RefCell::new(spawn_all(&guarded, &threads));
        let joined = core::cell::Cell::new(0);
        let join = || joined.set(joined.get() + join_all(others.take()));
        let written = then(&guarded, guard, &join);
        join();
        guarded.check(written + joined.get());
    });
}

/// Whoever looks at the slot finds the range of its next holder there, who has it until the others have come back.
#[test]
fn a_slot_is_taken_again_before_the_look() {
    before(FIFO, false, LOW, [&[TryRead(LOW)]], |guarded, guard, join| {
        let written = guarded.write(Ok(guard));
        let _next = guarded.lock.try_read(APART);
        join();
        written
    });
    for policy in [FIFO, OVERTAKEN] {
        let visits: &[Visit] = if policy == FIFO { &[TryWrite(LOW)] } else { &[Write(LOW)] };
        before(policy, false, LOW, [visits], |guarded, guard, join| {
            let written = guarded.write(Ok(guard));
            let _next = guarded.lock.try_write(APART);
            join();
            written
        });
    }
}

/// Whoever looks finds the slot left for the tree, and the range gone from there.
#[test]
fn a_range_leaves_its_slot_and_the_tree_before_the_look() {
    before(FIFO, false, LOW, [&[TryWrite(LOW)]], |guarded, mut guard, join| {
        guard.shrink(5..=9).unwrap();
        let _next = guarded.lock.try_write(APART);
        let written = guarded.write(Ok(guard));
        join();
        written
    });
    // By another thread, so that one preemption is enough.
    loom::model(|| {
        let guarded = Arc::new(Guarded::new(FIFO));
        assert!(guarded.lock.stripe(SHIFT));
        let [first, back] = [FIRST, BACK].map(|range| Span::new(range).unwrap());
        let hold = guarded.lock.core.try_slot(first, Kind::Writer).unwrap();
        let holder = guarded.clone();
        let holder = thread::spawn(move || {
            let hold = holder.lock.core.shrink_hold(hold, first, back, Kind::Writer);
            holder.write(Ok(RangeWriteGuard::new(&holder.lock, back, hold)))
        });
        let written = guarded.visit(TryWrite(FIRST));
        guarded.check(written + holder.join().unwrap());
    });
}

/// The slot's next holder writes where its last one did not.
#[test]
fn a_slot_does_not_show_the_range_of_its_last_holder() {
    before(FIFO, false, APART, [&[TryWrite(LOW)]], |guarded, mut guard, _| {
        guard.shrink(APART.start()..APART.end()).unwrap(); // into the tree
        guarded.visit(TryWrite(LOW))
    });
    before(FIFO, false, HIGH, [&[TryWrite(LOW)]], |guarded, guard, _| {
        let in_vain = Span::closed(*HIGH.end(), *APART.start());
        assert!(guarded.lock.core.try_beside_tree(in_vain, Kind::Writer).is_err());
        guarded.visit(TryWrite(LOW)) + guarded.write(Ok(guard))
    });
    loom::model(|| {
        let guarded = Arc::new(Guarded::new(FIFO));
        let other = guarded.clone();
        let other = thread::spawn(move || {
            let is_old = |range: &RangeInfo| {
                range.access == RangeAccess::Read && range.span.start() == *LOW.start()
            };
            assert!(!other.lock.ranges().iter().any(is_old));
        });
        let written = visit_all(&guarded, &[TryWrite(LOW), TryRead(APART)]);
        other.join().unwrap();
        guarded.check(written);
    });
}

#[test]
fn readers_let_in_by_a_downgrade_come_after_what_was_written() {
    loom::model(|| {
        let guarded = Arc::new(Guarded::new(FIFO));
        let guard = guarded.lock.write(LOW).unwrap();
        let others = spawn_all(&guarded, &[&[TryRead(LOW)]]);
        let written = guarded.write_inside(&guard);
        // As if those that waited when it began to look had given up meanwhile.
        guarded.lock.core.downgrade_slot_queued(0, guard.span());
        core::mem::forget(guard);
        guarded.lock.core.release_slot(0, Kind::Reader);
        guarded.check(written + join_all(others));
    });
}

/// The reader may have gone to sleep while the writer became one.
#[test]
fn a_downgrade_wakes_a_reader_that_may_be_overtaken() {
    before(OVERTAKEN, false, BOTH, [&[Read(LOW)]], |guarded, guard, join| {
        let written = guarded.write_inside(&guard);
        let _read = guard.downgrade();
        join();
        written
    });
}

/// Who tells late that a slot was left finds that the next holder has left it, and lets in those that wait for that one.
#[test]
fn a_late_teller_lets_others_in_after_the_next_holder() {
    loom::model(|| {
        let guarded = Arc::new(Guarded::new(FIFO));
        let guard = guarded.lock.write(LOW).unwrap();
        let others = spawn_all(&guarded, &[&[Write(BOTH)]]);
        let late = guarded.clone();
        let late = thread::spawn(move || late.lock.core.tell_that_slot_was_left(0));
        let written = guarded.write(Ok(guard));
        late.join().unwrap();
        guarded.check(written + join_all(others));
    });
}

/// The claim of a slot that is given back, as the stripe is closed, stands for the slot's last holder.
#[test]
fn a_slot_of_a_closed_stripe_is_claimed_before_the_look() {
    fn take(core: &Core<Loom>) -> Option<usize> {
        match core.try_striped(SHIFT, Span::new(FIRST).unwrap(), Kind::Writer, true).ok()?.place() {
            HeldIn::Striped(slot) => Some(slot),
            _ => unreachable!(),
        }
    }
    fn write_and_leave(guarded: &Guarded, slot: usize) {
        // SAFETY: the slot is held for writing.
        guarded.values[0].with_mut(|value| unsafe { *value += 1 });
        guarded.lock.core.leave_seat(slot, Kind::Writer);
    }
    loom::model(|| {
        let guarded = Arc::new(Guarded::new(FIFO));
        assert!(guarded.lock.stripe(SHIFT));
        let core = &guarded.lock.core;
        let slot = take(core).unwrap();
        let others = [(); 2].map(|()| {
            let other = guarded.clone();
            thread::spawn(move || {
                if let Some(slot) = take(&other.lock.core) {
                    write_and_leave(&other, slot);
                }
            })
        });
        write_and_leave(&guarded, slot);
        core.seat(slot).word.set(Flags::CLOSED, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Waits as a thread that may be overtaken, without having been awake.
fn write_patiently(guarded: &Guarded, range: Range) -> u32 {
    let (lock, span) = (&guarded.lock, Span::new(range).unwrap());
    let waiter = RangeWaiter::new(Loom::thread(), span, Kind::Writer, 0);
    let hold = lock.core.wait_listed(&waiter, false, &WaitContext::FOREVER);
    guarded.write(Ok(RangeWriteGuard::new(lock, span, hold.unwrap().unwrap())))
}

/// It sleeps for the holder of a slot in a stripe, or finds that another one has the slot.
#[test]
fn a_writer_that_may_be_overtaken_is_woken_in_a_stripe() {
    for then in [FRONT, APART] {
        loom::model(move || {
            let guarded = Arc::new(Guarded::new(OVERTAKEN));
            assert!(guarded.lock.stripe(SHIFT));
            let guard = guarded.lock.write(BACK).unwrap();
            let waiter = guarded.clone();
            let waiter = thread::spawn(move || write_patiently(&waiter, BACK));
            let written = guarded.write(Ok(guard));
            let next = guarded.lock.try_write(then.clone());
            let written = written + waiter.join().unwrap();
            drop(next);
            guarded.check(written);
        });
    }
}

/// A range that enters the tree finds the slot in its way left, after it has closed the stripe.
#[test]
fn a_holder_in_a_stripe_leaves_before_it_is_entered_into_the_tree() {
    loom::model(|| {
        let guarded = Arc::new(Guarded::new(FIFO));
        assert!(guarded.lock.stripe(SHIFT));
        let guard = guarded.lock.write(FIRST).unwrap();
        let other = guarded.clone();
        let other = thread::spawn(move || {
            let (core, span) = (&other.lock.core, Span::new(MORE).unwrap());
            core.with_queue(|q| {
                _ = core.striped.close_for(q, span, |q, stripe, word| {
                    for slot in word.rivals(Kind::Writer) {
                        core.migrate(q, SLOTS + stripe * STRIPE_SLOTS + slot, word, span);
                    }
                    Ok(())
                });
                let is_free = !q.ranges.conflicts(span, Kind::Writer);
                if is_free {
                    // SAFETY: nobody gets in before the tree lock is free.
                    other.values[0].with_mut(|value| unsafe { *value += 1 });
                }
                u32::from(is_free)
            })
        });
        let written = guarded.write(Ok(guard));
        guarded.check(written + other.join().unwrap());
    });
}

/// Another thread makes the stripes.
fn made_by_another(stripe: fn(&Guarded)) {
    loom::model(move || {
        let guarded = Arc::new(Guarded::new(FIFO));
        guarded.lock.core.with_queue(|q| q.made = Made::For(SHIFT));
        let other = guarded.clone();
        let other = thread::spawn(move || {
            stripe(&other);
            other.visit(TryWrite(FIRST))
        });
        guarded.lock.core.striped.make(SHIFT);
        let written = guarded.visit(TryWrite(FIRST));
        guarded.check(written + other.join().unwrap());
    });
}

#[test]
fn stripes_are_made_before_they_are_used() {
    made_by_another(|guarded| _ = guarded.visit(Stripe));
    made_by_another(|guarded| {
        let core = &guarded.lock.core;
        core.with_queue(|q| {
            for region in 0..16 {
                let start = region << SHIFT;
                core.begin_stripes_if_useful(q, Span::closed(start, start + FIRST.end()));
            }
        });
    });
}

#[test]
fn the_whole_lock_comes_after_ranges_and_ranges_after_it() {
    model(DEFAULT, [&[TryWrite(FULL)], &[TryWrite(LOW)]]);
    model(DEFAULT, [&[TryRead(HIGH)], &[TryWrite(FULL), TryRead(LOW)]]);
    // It is not a whole for long enough for anybody to have it.
    loom::model(|| {
        let guarded = Arc::new(Guarded::new(DEFAULT));
        let other = guarded.clone();
        let other = thread::spawn(move || {
            let lock = &other.lock;
            if !lock.is_by_gate() {
                return 0;
            }
            let span = Span::new(LOW).unwrap();
            match lock.pass_gate(span, Request::Write, None) {
                Ok(Some(hold)) => other.write(Ok(RangeWriteGuard::new(lock, span, hold))),
                _ => 0,
            }
        });
        let written = guarded.visit(TryWrite(LOW));
        guarded.check(written + other.join().unwrap());
    });
}

/// One writer finds that the last reader of the whole lock has left, another one does not look.
#[test]
fn a_writer_that_finds_the_gate_drained_comes_after_its_readers() {
    loom::model(|| {
        let guarded = Arc::new(Guarded::new(DEFAULT));
        let full = guarded.lock.try_read(FULL).unwrap();
        drop(guarded.lock.try_read(LOW).unwrap());
        let drains = guarded.clone();
        let drains = thread::spawn(move || {
            let span = Span::new(LOW).unwrap();
            _ = drains.lock.pass_gate(span, Request::Write, None);
        });
        let others = spawn_all(&guarded, &[&[TryWrite(HIGH)]]);
        guarded.read(Ok(full));
        drains.join().unwrap();
        guarded.check(join_all(others));
    });
}

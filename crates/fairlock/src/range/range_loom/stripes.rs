//! Ranges in stripes, and when the lock is striped or no longer.

use loom::sync::Arc;
use loom::thread;

use super::guarded::Visit::*;
use super::guarded::*;

#[test]
fn ranges_of_one_stripe() {
    for policy in [DEFAULT, FIFO] {
        model_striped(policy, None, [&[Write(FIRST)], &[Write(FIRST)]]);
    }
    model_striped(FIFO, None, [&[Read(FIRST), TryWrite(SECOND)], &[Write(FIRST)]]);
}

#[test]
fn a_range_across_stripes() {
    for policy in [DEFAULT, FIFO] {
        model_striped(policy, None, [&[Write(FIRST)], &[Write(MORE)]]);
    }
    model_striped(FIFO, None, [&[TryWrite(FIRST), TryWrite(SECOND)], &[Write(MORE)]]);
    model_striped(FIFO, None, [&[Write(FIRST), TryRead(FIRST)], &[TryWrite(MORE)]]);
}

#[test]
fn a_range_in_two_stripes() {
    for policy in [DEFAULT, FIFO] {
        model_striped(policy, None, [&[Write(SECOND)], &[Write(BOTH)]]);
    }
    model_striped(FIFO, None, [&[TryWrite(BOTH)], &[Write(BOTH)]]);
    model_striped(FIFO, None, [&[Write(BOTH)], &[Write(MORE)]]);
    model_striped(FIFO, None, [&[Downgrade(BOTH)], &[TryRead(FIRST), TryRead(SECOND)]]);
}

#[test]
fn a_range_in_two_stripes_is_changed() {
    model_striped(FIFO, None, [&[Shrink(BOTH)], &[TryWrite(FIRST), TryWrite(SECOND)]]);
    model_striped(FIFO, None, [&[Split(BOTH)], &[Write(SECOND)]]);
}

#[test]
fn a_range_across_stripes_by_three() {
    model_striped(FIFO, None, [&[TryWrite(FIRST)], &[TryWrite(FIRST)], &[TryWrite(MORE)]]);
}

#[test]
fn ranges_in_stripes_are_changed() {
    model_striped(FIFO, None, [&[Split(SECOND)], &[TryWrite(SECOND), TryRead(SECOND)]]);
    model_striped(FIFO, None, [&[Shrink(SECOND)], &[Write(SECOND)]]);
    model_striped(FIFO, None, [&[Downgrade(SECOND)], &[Read(SECOND)]]);
    model_striped(FIFO, None, [&[Downgrade(SECOND)], &[TryRead(MORE)]]);
}

#[test]
fn waits_in_stripes_are_cancelled() {
    model_striped(FIFO, None, [&[WriteCancellable(FIRST)], &[Write(FIRST), Cancel]]);
}

#[test]
fn stripes_begin_and_end() {
    model(FIFO, [&[Write(FIRST), Write(FIRST)], &[Stripe, Write(FIRST)]]);
    model_striped(FIFO, None, [&[Write(FIRST), Write(FIRST)], &[EndStripes, Write(FIRST)]]);
    model_striped(FIFO, None, [&[TryWrite(FIRST)], &[EndStripes, Stripe, Write(FIRST)]]);
}

/// The holder leaves when stripes have begun again, with regions of the same size and of another.
#[test]
fn what_is_held_from_the_last_time_leaves() {
    for again in [&[EndStripes, Stripe], &[EndStripes, StripeWider]] {
        loom::model(move || {
            let guarded = Arc::new(Guarded::new(FIFO));
            assert!(guarded.lock.stripe(SHIFT));
            let guard = guarded.lock.write(SECOND).unwrap();
            visit_all(&guarded, again);
            assert!(guarded.lock.try_read(HIGH.start()..HIGH.end()).is_err());
            let others = spawn_all(&guarded, &[&[TryWrite(FIRST), Write(SECOND)]]);
            let written = guarded.write(Ok(guard));
            guarded.check(written + join_all(others));
        });
    }
}

/// `SECOND` is in one stripe before the change, and in the other one after it.
#[test]
fn regions_get_another_size() {
    let again = &[EndStripes, StripeWider, Write(SECOND)];
    model_striped(FIFO, None, [&[TryWrite(SECOND)], again]);
}

/// The slot's holder has left it, and not told the tree, which does not count it, when the next
/// comes.
#[test]
fn a_slot_is_left_in_a_stripe_that_is_closed_for_others() {
    loom::model(move || {
        let guarded = Arc::new(Guarded::new(FIFO));
        assert!(guarded.lock.stripe(SHIFT));
        let range = *HIGH.start()..=SECOND.end() - 1;
        let guard = guarded.lock.write(range.clone()).unwrap();
        let beside = guarded.lock.read(*SECOND.end()..=*APART.end()).unwrap();
        let next = guarded.clone();
        let next = thread::spawn(move || next.visit(TryWrite(range)));
        let written = guarded.write(Ok(guard));
        let written = written + next.join().unwrap();
        drop(beside);
        guarded.check(written);
    });
}

/// A thread looks whether a range is held while that moves from its stripe to the tree.
#[test]
fn what_moves_to_the_tree_is_held_all_the_time() {
    for shrinks in [true, false] {
        loom::model(move || {
            let guarded = Arc::new(Guarded::new(FIFO));
            assert!(guarded.lock.stripe(SHIFT));
            let mut guard = guarded.lock.write(SECOND).unwrap();
            let looker = guarded.clone();
            let look = thread::spawn(move || looker.lock.is_locked());
            if shrinks {
                guard.shrink(HIGH.start()..SECOND.end()).unwrap();
            } else {
                guarded.visit(EndStripes);
            }
            assert!(look.join().unwrap());
            drop(guard);
            guarded.check(0);
        });
    }
}

//! The range lock in every interleaving of two or three threads with at most the
//! given number of preemptions, with every value the memory model lets them read:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib range_loom`
//!
//! Loom reports two threads inside at once, a section that does not see the one
//! before, and a lost wake-up, which is a deadlock.

#[cfg(fairlock_faults)]
mod broken;
mod guarded;
mod steps;
mod stripes;

use guarded::Visit::*;
use guarded::*;

#[cfg(fairlock_faults)]
use crate::models::controls;

#[test]
fn overlapping_writers() {
    each_policy([&[Write(LOW)], &[Write(BOTH)]]);
    model_held(HASTY, LOW, [&[Write(BOTH)]]);
}

#[test]
fn three_overlapping_ranges() {
    model_held(FIFO, LOW, [&[Write(BOTH)], &[TryRead(HIGH)]]);
    model_held(FIFO, LOW, [&[TryWrite(HIGH)], &[Read(BOTH)]]);
}

#[test]
fn a_reader_and_a_writer_wait_for_the_same_one() {
    model_held_with_one_less(FIFO, LOW, [&[Write(BOTH)], &[Read(BOTH)]]);
}

#[test]
fn ranges_in_the_tree_and_in_slots() {
    model(DEFAULT, [&[Write(ODD)], &[Write(LOW)]]);
    model(FIFO, [&[Write(ODD)], &[Write(LOW)]]);
    model(FIFO, [&[Read(ODD)], &[Write(BOTH)]]);
}

#[test]
fn the_hull_shrinks_and_grows_under_others() {
    model(DEFAULT, [&[TryWrite(ODD), TryWrite(ODD)], &[TryWrite(LOW), TryRead(HIGH)]]);
    model_held(DEFAULT, ODD, [&[TryWrite(LOW)], &[TryWrite(BOTH)]]);
}

#[test]
fn disjoint_ranges_and_one_across() {
    model_held(FIFO, LOW, [&[TryWrite(HIGH)], &[Write(BOTH)]]);
}

#[test]
fn attempts_beside_waits() {
    model(FIFO, [&[Write(BOTH), TryRead(LOW)], &[Write(LOW), TryWrite(BOTH)]]);
}

#[test]
fn waits_that_are_cancelled() {
    each_policy([&[WriteCancellable(BOTH)], &[Write(LOW), Cancel]]);
    model(FIFO, [&[ReadCancellable(BOTH), TryWrite(LOW)], &[Write(LOW), Cancel]]);
    // Granted after it has seen the token.
    model_with_one_less(FIFO, [&[WriteCancellable(BOTH)], &[Write(LOW)], &[Cancel]]);
}

/// A slot is taken again after its last holder left it, and before that one has told those who wait
/// for it in the tree.
#[test]
fn a_slot_is_taken_again_before_its_last_holder_told_those_that_wait() {
    model_held(FIFO, LOW, [&[Write(BOTH)], &[TryWrite(APART)]]);
}

/// No waiter that may be overtaken sleeps at a range that is free: it would sleep for ever.
#[test]
fn those_that_may_be_overtaken_are_woken() {
    model(OVERTAKEN, [&[Write(LOW)], &[Write(BOTH)]]);
    model(OVERTAKEN, [&[Downgrade(BOTH)], &[Read(LOW)]]);
    model(OVERTAKEN, [&[Write(ODD)], &[Write(LOW)]]);
    model_held(OVERTAKEN, LOW, [&[Write(BOTH)]]);
}

#[test]
fn those_that_may_be_overtaken_are_woken_when_another_gives_up() {
    model_with_one_less(OVERTAKEN, [&[WriteCancellable(BOTH)], &[Write(LOW), Cancel]]);
    model_with_one_less(OVERTAKEN, [&[Write(BOTH)], &[TryWrite(HIGH)], &[Write(LOW)]]);
}

#[test]
fn waits_with_a_deadline() {
    each_policy([&[WriteFor(BOTH)], &[Write(LOW)]]);
}

#[test]
fn downgrade_lets_readers_in() {
    each_policy([&[Downgrade(BOTH)], &[Read(LOW)]]);
    model(FIFO, [&[Downgrade(ODD)], &[Read(LOW)]]);
}

#[test]
fn shrink_and_split_let_others_in() {
    model_with_one_less(FIFO, [&[Shrink(BOTH)], &[Write(LOW)]]);
    model_with_one_less(FIFO, [&[Split(BOTH)], &[Write(LOW)]]);
    model_with_one_less(DEFAULT, [&[Split(BOTH)], &[TryWrite(LOW), TryRead(HIGH)]]);
}

#[test]
fn recursive_reads_past_a_waiting_writer() {
    model(FIFO, [&[ReadRecursive(BOTH), ReadRecursive(LOW)], &[Write(BOTH)]]);
    model(DEFAULT, [&[ReadRecursive(BOTH)], &[Write(LOW)]]);
    model_held_with_one_less(FIFO, LOW, [&[ReadRecursive(BOTH)], &[Write(BOTH)]]);
}

#[test]
fn recursive_reads_that_give_up() {
    model(FIFO, [&[ReadRecursiveFor(BOTH)], &[Write(LOW)]]);
    model(FIFO, [&[ReadRecursiveCancellable(BOTH)], &[Write(LOW), Cancel]]);
}

#[test]
fn the_whole_lock_and_a_part() {
    model(DEFAULT, [&[Write(FULL)], &[Write(LOW)]]);
    model(DEFAULT, [&[Write(FULL)], &[Read(LOW)]]);
    model(DEFAULT, [&[Read(FULL)], &[Read(LOW), TryWrite(HIGH)]]);
}

#[test]
fn the_whole_lock_and_parts_of_it() {
    model_with_one_less(DEFAULT, [&[Split(FULL)], &[TryWrite(LOW), TryRead(HIGH)]]);
    model_with_one_less(DEFAULT, [&[Downgrade(FULL)], &[TryRead(FULL), TryWrite(LOW)]]);
    model_with_one_less(DEFAULT, [&[WriteCancellable(LOW)], &[Write(FULL), Cancel]]);
}

#[test]
fn the_whole_lock_is_not_opened_beside_those_that_wait() {
    model_with_one_less(HASTY, [&[Write(LOW)], &[Write(LOW), TryWrite(FULL)]]);
}

#[test]
fn the_whole_lock_and_parts_by_three() {
    model(DEFAULT, [&[TryRead(FULL)], &[TryRead(LOW)], &[TryWrite(HIGH)]]);
}

#[cfg(fairlock_faults)]
controls! {
    broken_forgets_grant: "panicked";
    broken_touches_granted: "ausality violation";
    broken_looks_too_early: "ausality violation";
    broken_leaves_quietly: "deadlock";
    broken_skips_stripes: "ausality violation";
    broken_ignores_closed: "ausality violation";
    broken_leaves_a_stripe_quietly: "deadlock";
    broken_looks_once_at_a_stripe: "ausality violation";
    broken_looks_unordered: "deadlock";
}

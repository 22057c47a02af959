//! What visible readers rely on, as this machine has it: a store and a load with only a
//! [`light_fence`](System::light_fence) between them, against a store, a
//! [`process_barrier`](System::process_barrier) and a load of another thread.
//!
//! ```text
//! reader               writer
//! slot = turn          word = round
//! light fence          process barrier
//! sees word            sees slot
//! ```
//!
//! If the writer does not see a turn in the slot, the reader sees the round in the word in that turn. The models
//! take both fences for full ones of the CPU, so none of them shows that: neither that the reader needs no
//! instruction, nor that the system's barrier reaches it. And what a test sees is one machine, for a while.

#![cfg(not(miri))] // many turns

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use fairlock::platform::{Native, System};
use fairlock_testing::{rounds, scope};

/// Turns of the reader in a batch.
const TURNS: u32 = 1 << 20;
/// Rounds of the writer, at most: the reader may have no CPU for as long as it likes.
const ROUNDS: usize = 16 * TURNS as usize;

/// On cache lines of their own, as in locks.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU32);

#[derive(Default)]
struct Litmus {
    slot: Line,
    word: Line,
    has_ended: AtomicBool,
}

impl Litmus {
    /// Which round the reader sees in each turn; the first turn is 1.
    fn read(&self) -> Vec<u32> {
        let mut seen = vec![0; TURNS as usize + 1];
        for turn in 1..=TURNS {
            self.slot.0.store(turn, Ordering::Release);
            Native::light_fence();
            seen[turn as usize] = self.word.0.load(Ordering::Acquire);
        }
        self.has_ended.store(true, Ordering::Release);
        seen
    }

    /// Which turn the writer sees in each round; the first round is 1.
    fn write(&self, barrier: fn()) -> Vec<u32> {
        let mut seen = vec![0];
        while !self.has_ended.load(Ordering::Acquire) && seen.len() < ROUNDS {
            self.word.0.store(seen.len() as u32, Ordering::Release);
            barrier();
            seen.push(self.slot.0.load(Ordering::Acquire));
        }
        seen
    }
}

/// Runs a batch: how many rounds there were beside turns, and in how many of them neither thread saw the other.
fn batch(barrier: fn()) -> (usize, usize) {
    let litmus = Litmus::default();
    let (turns, rounds) = scope(|s| {
        let reader = s.spawn(|| litmus.read());
        let rounds = litmus.write(barrier);
        (fairlock_testing::join(reader), rounds)
    });
    // The first turn that the writer did not see.
    let of = |seen: u32| turns.get(seen as usize + 1).copied();
    let beside = || (1..).zip(&rounds[1..]).filter_map(|(round, &seen)| Some((round, of(seen)?)));
    (beside().count(), beside().filter(|&(round, seen): &(u32, u32)| seen < round).count())
}

#[test]
fn a_barrier_of_the_writer_stands_for_a_fence_of_the_reader() {
    if !Native::has_process_barrier() {
        return;
    }
    let all: Vec<_> = (0..rounds(30)).map(|_| batch(Native::process_barrier)).collect();
    let rounds: usize = all.iter().map(|&(rounds, _)| rounds).sum();
    let missed: usize = all.iter().map(|&(_, missed)| missed).sum();
    println!("{missed} of {rounds} rounds, {} turns", all.len() * TURNS as usize);
    assert_eq!(missed, 0, "of {rounds} rounds");
}

/// The negative control: CPUs do keep a store back beyond a load, and the test sees it.
#[test]
fn without_that_barrier_each_may_miss_the_other() {
    let can_run_beside = thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    if !Native::has_process_barrier() || !can_run_beside {
        return;
    }
    // However long the two have no CPU at the same time.
    fairlock_testing::until(|| {
        let (rounds, missed) = batch(|| ());
        println!("{missed} of {rounds} rounds");
        missed > 0
    });
}

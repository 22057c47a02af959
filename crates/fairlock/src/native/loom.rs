//! The model checker. A spin is one look, and a sleeping thread yields to the
//! model.
//!
//! Time passes by [`STEP_NS`] at every look at the clock. A wait with a deadline lets the others
//! run for as long as the model likes, then the clock is at the deadline: so a timer fires early or
//! late, as seen from the others. A wait that a signal may end is ended by one in the same way.
//!
//! The clock is no loom object, or every look would be a point to branch at. What it shows follows
//! from the schedule; no schedule is tried only because of the clock.
//!
//! # What is checked is not quite what ships
//!
//! | where | ships | model checks | why, and what checks the rest |
//! |---|---|---|---|
//! | ticket locks with batches of 8 and more | a holder without a ticket, while nobody waits (`ticket::solo`) | tickets only, unless `FAIRLOCK_LOOM_WHOLE` is set | both words together are too many interleavings for two preemptions; the whole is checked at one, and such a lock by itself, in smaller batches, at two |
//! | `ticket::solo`, its release | a plain store | an exchange | loom orders a store and the exchanges of others in ways the language does not allow, and then a waiter never sees it; `ticket::solo` says what that leaves open. The tester and Miri run the store |
//! | `lock::mutex`, the release of a holder that knows of nobody | a plain store | an exchange | as above. What the store may wipe, and why that is mended, says `lock::mutex` (R7); the tester and stress tests run it |
//! | `ticket::wait`, for the next batch | yields the CPU | does not | to loom a yield is a promise that another thread has to run; the tester runs it |
//! | spins | as long as they may last | one look | longer ones are more of the same |
//! | visible readers: between the store to a place and the load that follows | no fence, as `membarrier` stands for one | a fence on both sides | loom has no barrier that other threads pass. That one side needs none is argued in `lock::visible`; stress tests run it |
//! | visible readers: places of a thread, and when a lock becomes visible | 16; as measured | 2; when a model says so | numbers |
//! | range locks | 64 looks before giving up, 2,048 stripes | 2 and 2 | numbers |
//! | [`Hint`](crate::wait::Hint), event counts | relaxed atomics | the processor's, not loom's | nothing is decided by them alone |

use core::cell::Cell;
use core::sync::atomic::AtomicU64 as Clock;
use core::sync::atomic::Ordering;

use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, fence};
use loom::sync::{Condvar, Mutex};

use crate::lock::{Slots, VisibleReaders};
use crate::platform::{PooledPlatform, Thread};
use crate::system::{Atomic, System, WaitOutcome, forward_atomic};

/// The platform of a model check.
#[derive(Debug, Clone, Copy)]
pub struct Loom;

forward_atomic!(AtomicUsize, usize);
forward_atomic!(AtomicU32, u32);
forward_atomic!(AtomicU64, u64);

/// Threads that sleep, in the order in which they fell asleep: the address of the word, and that of the thread's record.
struct Sleepers {
    asleep: Mutex<Vec<(usize, usize)>>,
    changed: Condvar,
}

/// How much time passes between two looks at the clock. Less than the shortest tenure, so that both
/// sides of its end are seen.
const STEP_NS: u64 = 30_000;

loom::lazy_static! {
    static ref CLOCK: Clock = Clock::new(0);
    static ref SLEEPERS: Sleepers = Sleepers { asleep: Mutex::new(Vec::new()), changed: Condvar::new() };
}

loom::lazy_static! {
    static ref SLOTS: Slots<Loom> = Slots::new();
    static ref VISIBLE: VisibleReaders<Loom> = VisibleReaders::new();
}

// SAFETY: there is one pool in a model, and all of the model's locks are in it.
unsafe impl PooledPlatform for Loom {
    type Memory = crate::pool::Heap;

    fn slots() -> &'static Slots<Self> {
        &SLOTS
    }

    fn visible_readers() -> Option<&'static VisibleReaders<Self>> {
        Some(&VISIBLE)
    }
}

loom::thread_local! {
    static RECORD: &'static Thread<Loom> = records::take();
    static PRIORITY: Cell<u8> = Cell::new(0);
}

/// The records of the models' threads. A record outlives its thread (rules 11 and 12), but not the interleaving: millions of
/// interleavings took all memory of a machine.
mod records {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use super::{Loom, Thread};

    std::thread_local! {
        /// The last ones of the models that the calling thread runs, one after the other.
        static LAST: RefCell<VecDeque<*mut Thread<Loom>>> = const { RefCell::new(VecDeque::new()) };
    }

    pub(super) fn take() -> &'static Thread<Loom> {
        LAST.with(|last| {
            let mut last = last.borrow_mut();
            // An interleaving has no more threads than this, and the new one is one of them.
            let gone = (last.len() == loom::MAX_THREADS).then(|| last.pop_front()).flatten();
            // SAFETY: made below, for a thread of an earlier interleaving, of which nothing is left.
            gone.into_iter().for_each(|gone| drop(unsafe { Box::from_raw(gone) }));
            let made = Box::into_raw(Box::new(Thread::new()));
            last.push_back(made);
            // SAFETY: it is there for as long as anybody of this interleaving.
            unsafe { &*made }
        })
    }
}

/// Gives the calling thread of a model a real-time priority.
#[cfg(test)]
pub(crate) fn set_priority(priority: u8) {
    PRIORITY.with(|own| own.set(priority));
}

/// A negative control: runs the ignored test at `path`, as `module_path!` has it, which has to fail
/// with this complaint. In a process of its own, as loom aborts on a deadlock.
#[cfg(test)]
pub(crate) fn assert_fails(path: &str, complaint: &str) {
    // The harness names a test without its crate.
    let test = path.split_once("::").unwrap().1;
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success() && said.contains(complaint), "{test}: {run:?}");
}

// SAFETY: one record per model thread, there until the interleaving has ended; loom's atomics model the
// language's; the word is compared under the mutex that `wake_one` takes.
unsafe impl System for Loom {
    type AtomicUsize = AtomicUsize;
    type AtomicU32 = AtomicU32;
    type AtomicU64 = AtomicU64;
    type Thread = Thread<Self>;

    fn pause() {
        loom::thread::yield_now();
    }

    fn now() -> u64 {
        CLOCK.fetch_add(STEP_NS, Ordering::Relaxed)
    }

    fn wait(
        word: &AtomicU32,
        expected: u32,
        deadline: Option<u64>,
        interruptible: bool,
    ) -> WaitOutcome {
        if deadline.is_some() || interruptible {
            // The other threads run, then this one.
            loom::thread::yield_now();
            if word.load(Ordering::Acquire) != expected {
                return WaitOutcome::Woken;
            }
            return match deadline {
                Some(deadline) => {
                    CLOCK.fetch_max(deadline, Ordering::Relaxed);
                    WaitOutcome::TimedOut
                }
                None => WaitOutcome::Interrupted,
            };
        }
        let mut asleep = SLEEPERS.asleep.lock().unwrap();
        if word.load(Ordering::Acquire) != expected {
            return WaitOutcome::Woken;
        }
        let own = (core::ptr::from_ref(word).addr(), Self::thread_hint());
        asleep.push(own);
        // No spurious wake-ups, and none for another thread's: they would hide that this thread's was lost.
        while asleep.contains(&own) {
            asleep = SLEEPERS.changed.wait(asleep).unwrap();
        }
        WaitOutcome::Woken
    }

    fn wake_one(word: &AtomicU32) {
        let word = core::ptr::from_ref(word).addr();
        let mut asleep = SLEEPERS.asleep.lock().unwrap();
        if let Some(first) = asleep.iter().position(|&(slept_for, _)| slept_for == word) {
            asleep.remove(first);
            SLEEPERS.changed.notify_all();
        }
    }

    fn thread() -> &'static Thread<Self> {
        RECORD.with(|record| *record)
    }

    fn thread_hint() -> usize {
        core::ptr::from_ref(Self::thread()) as usize
    }

    // Loom has no fence that costs one side only: both sides pass one.
    fn light_fence() {
        fence(Ordering::SeqCst);
    }

    fn process_barrier() {
        fence(Ordering::SeqCst);
    }

    fn has_process_barrier() -> bool {
        true
    }

    fn cpus() -> usize {
        2
    }

    fn priority() -> u8 {
        PRIORITY.with(Cell::get)
    }

    fn spin_until<T, A: Atomic<T>>(word: &A, _bound_ns: u64, done: impl Fn(T) -> bool) -> bool {
        done(word.load(Ordering::Acquire))
    }
}

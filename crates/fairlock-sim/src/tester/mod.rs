//! The concurrency tester: the locks as they are, under many schedules, checked
//! after every step.
//!
//! A *trial* is some threads that visit one lock (`script`: reads, writes, tries,
//! timeouts, cancellations, downgrades, recursive reads, fair unlocks), and a
//! *schedule* that says after each operation on shared memory who goes on
//! (`schedule`). Both follow from a seed, so a trial that fails can be repeated. It is
//! then made smaller (`minimise`) and printed step by step (`timeline`).
//!
//! Memory is sequentially consistent here: orderings are a matter for the model
//! checker, which tries every schedule, of two or three threads. The tester tries
//! few of the schedules of up to eight.
//!
//! Schedules also stop threads for up to 100 ms at any step, and wake them for no reason; one of four has machines that
//! fail: a host takes CPUs, timers are late, the clock stands (`schedule`). Time that passes while the lock is free, threads wait, and
//! nobody lacks a CPU is counted (`trial`), so a lost wake-up is found that the next timer mends.
//!
//! # What it finds
//!
//! The bugs that others shipped, by their numbers in `docs/rules.md`. Each is a mistake that
//! `fairlock::fault` makes on purpose, with the number of schedules up to the first that failed
//! (`.ci/faults` prints them, with those of ticket and range locks):
//!
//! | # | mistake | lock | schedules | seen as |
//! |---|---|---|---|---|
//! | 1 | woken before the grant is published | `rwsem:handoff` | 22 | deadlock |
//! | 2 | readers counted one by one | `rwsem:writer-phase` | 3,884 | exclusion |
//! | 3 | a way in without acquire ordering | | | not expressible: memory is ordered here; the model checker sees it |
//! | 4 | HANDOFF subtracted | `rwsem:default` | 2 | a corrupt word |
//! | 5 | HANDOFF of another keeps the head out | `rwsem:soon` | 34 | deadlock |
//! | 6 | HANDOFF left on an empty queue | `rwsem:soon` | 19 | word against queue |
//! | 7 | an arriving reader looks at nothing | `rwsem:writer-phase` | 45 | deadlock |
//! | 8 | a reader that gives up wakes nobody | `rwsem:default` | 179 | nobody is next |
//! | 9 | a spin without a bound | `rwsem:handoff` | 34 | it spins for too long |
//! | 10 | those behind the head spin, too | `rwsem:handoff` | 9 | it spins for too long |
//! | 11 | a spinner takes its node along | `rwsem:handoff` | 157 | livelock |
//! | 12 | a waiter is touched after its grant | `rwsem:handoff` | 1,404 | use of a frame that has returned |
//! | 13 | a saturating count of waiters | | | not expressible: there is no such count, and no futex word that several wait on |
//! | 14 | a writer that gives up wakes nobody | `rwsem:writer-phase` | 1,106 | deadlock |
//! | 15 | `try_read` counts itself for a moment | `rwsem:handoff` | 1,031 | deadlock |
//! | 16 | who asks whether it is first is told of another | `rwsem:handoff` | 2 | deadlock |

mod failure;
mod minimise;
mod schedule;
mod script;
mod stepper;
mod subjects;
mod timeline;
mod trace;
mod trial;

use std::ops::Range;
use std::{fmt, io};

use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

pub use failure::{Failure, FailureKind};
use minimise::{Failing, minimise};
use schedule::Schedule;
use script::{Action, How, POSITIONS, Then};
use subjects::SubjectKind;
use trial::{Case, Keep, Resources};

/// A lock that can be tested.
#[derive(Clone, Copy)]
pub struct Lock(&'static SubjectKind);

impl Lock {
    /// All locks that can be tested.
    pub fn all() -> impl Iterator<Item = Self> {
        subjects::ALL.iter().copied().flatten().map(Self)
    }

    /// The lock of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|lock| lock.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// What the lock is.
    pub fn about(self) -> &'static str {
        self.0.about
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lock({})", self.name())
    }
}

/// What a search did that found nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Schedules tried.
    pub schedules: u64,
    /// Steps of all of them, each checked.
    pub steps: u64,
}

/// Tries locks. What its trials need is kept from one to the next.
pub struct Tester(Resources);

impl Tester {
    /// A tester.
    ///
    /// # Errors
    /// There is no memory for the threads' stacks.
    pub fn new() -> io::Result<Self> {
        Resources::new().map(Self)
    }

    /// Tries the schedules of these seeds, one after the other.
    ///
    /// # Errors
    /// The first schedule that the lock fails, made small.
    pub fn search(&mut self, lock: Lock, seeds: Range<u64>) -> Result<Summary, Box<Failure>> {
        let mut summary = Summary::default();
        for seed in seeds {
            let (case, schedule) = plan(lock, seed);
            let outcome = trial::run(&mut self.0, lock.0, &case, schedule, Keep::Nothing);
            summary.schedules += 1;
            summary.steps += outcome.steps;
            if let Some(complaint) = outcome.complaint {
                let failing =
                    Failing { case, deviations: outcome.deviations, kind: complaint.kind };
                let Failing { case, deviations, kind } = minimise(&mut self.0, lock.0, failing);
                let schedule = Schedule::replay(&deviations);
                let outcome = trial::run(&mut self.0, lock.0, &case, schedule, Keep::Log);
                let timeline = timeline::timeline(&case, &outcome);
                let (lock, what) = (lock.name(), complaint.what);
                return Err(Box::new(Failure { lock, seed, kind, what, timeline }));
            }
        }
        Ok(summary)
    }

    /// What the lock does by the schedule of this seed, as docs/spec/trace.h reads it: only visits that the
    /// specification has, in which all that a thread does under the queue lock is one step. It ends where the
    /// lock fails.
    pub fn trace(&mut self, lock: Lock, seed: u64) -> String {
        let (mut case, schedule) = plan(lock, seed);
        for (_, action) in case.script.iter_mut().flatten() {
            if let Action::Visit { how, then, range: (start, last), .. } = action {
                *then = Then::Leave;
                // The same length, unless that is too much.
                let length = *last - *start;
                *start %= POSITIONS;
                *last = start.saturating_add(length).min(POSITIONS - 1);
                // A cancelled wait ends as one that is late; but cancelling uses the parkers, too.
                if let How::Cancellable(_) = how {
                    *how = How::For(100_000);
                }
            }
        }
        trial::run(&mut self.0, lock.0, &case, schedule, Keep::Trace).trace
    }
}

impl fmt::Debug for Tester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tester").finish_non_exhaustive()
    }
}

/// The script, the machine and the schedule that follow from a seed.
fn plan(lock: Lock, seed: u64) -> (Case, Schedule) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let script = script::script(&mut random, lock.0.can);
    let cpus = 1 + script::below(&mut random, 4) as usize;
    let actions: usize = script.iter().map(Vec::len).sum();
    let schedule = Schedule::new(random, script.len(), 40 * actions as u64);
    (Case { script, cpus }, schedule)
}

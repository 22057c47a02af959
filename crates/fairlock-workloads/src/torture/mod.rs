//! Torture: locks on real threads, for as long as one likes.
//!
//! It goes in rounds of some seconds. A round is one lock and 0.5 to 50 threads for each CPU, which make random visits
//! (`visit`): every operation that the lock has, waits of every sort, holders that compute, sleep and yield. Threads end and others
//! begin. The calling thread disturbs them: signals, cancellations, affinity, niceness.
//!
//! # What is checked
//!
//! * *Exclusion*, by what the lock guards: `locks::Pair`, counted up at the end of the round.
//! * *A wait ends as it may* (`seat`): by a timeout not before it, by a token that was cancelled, by a signal only where asked for.
//! * *A wait is within its bound.* A watchdog looks at all threads every 5 ms, so a thread that waits for ever is found, too. The bound
//!   is what the lock plans (`planned_wait_ns`, or the like for other locks), plus the longest sections of as many threads as may go first, plus
//!   the longest times for which threads lacked a CPU while they waited, of as many; plus what those inside add at that moment, and
//!   the longest time for which one that waits now has lacked a CPU; plus the time for which the machine stood still; plus 50 ms. Linux says in `schedstat` for how long a thread
//!   that could run did not, but only when it runs again: while one that waits could run, the watchdog waits for 10 s more. What a
//!   host takes from a virtual machine is not in there: the watchdog counts how late it is itself. On other systems, and where a lock promises no bound, a wait
//!   may take 20 s longer.
//! * *Nothing is left* when all have gone.
//!
//! The bound is generous where CPUs are short, since it has the longest of each cost; it is not where there are as many CPUs as threads.
//! Not here: forks (a child may use none of these locks but its own), and priorities of the system's real-time classes.

mod locks;
mod seat;
mod threads;
mod visit;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::error::Error;
pub use locks::{Lock, all, broken, named};
pub use seat::Tally;
use seat::{Doing, Round, Seat, What, in_ms};
pub use threads::is_known as knows_delays;
use threads::{Delays, now};
use visit::Visit;

/// What to do.
pub struct Plan {
    pub locks: Vec<Lock>,
    pub lasting: Duration,
    /// Threads for each CPU: each round has one of these.
    pub overcommit: Vec<f64>,
    pub cpus: usize,
    pub seed: u64,
}

/// What became of a lock.
pub struct Tortured {
    pub lock: Lock,
    pub rounds: u64,
    /// The most threads of a round.
    pub threads: usize,
    pub tally: Tally,
    /// What is wrong with it, in the round of this number.
    pub failure: Option<(u64, String)>,
}

/// The seed of the round of this number: with it, that round is the first.
pub fn seed(seed: u64, round: u64) -> u64 {
    seed.wrapping_add(round << 32)
}

/// The length of a round; less if there is not as much for each lock.
const ROUND: Duration = Duration::from_secs(2);
/// How often the watchdog looks.
const TICK: Duration = Duration::from_millis(5);
/// Shorter waits are within any bound.
const SUSPECT_NS: u64 = 60_000_000;
/// For how long threads that wait may lack a CPU before the system says so.
const UNKNOWN_NS: u64 = 10_000_000_000;
/// What a thread needs at most.
const STACK: usize = 256 << 10;

/// Tortures the locks in turn, until the time is over, one fails, or `stop` says so. `progress` is told what comes next.
///
/// After a failure threads may be left that never end.
///
/// # Errors
/// A thread cannot be started.
pub fn run(
    plan: &Plan,
    stop: impl Fn() -> bool,
    mut progress: impl FnMut(&str),
) -> Result<Vec<Tortured>, Error> {
    threads::begin();
    let began = Instant::now();
    let length = ROUND.min(plan.lasting / plan.locks.len().max(1) as u32);
    let fresh =
        |&lock| Tortured { lock, rounds: 0, threads: 0, tally: Tally::default(), failure: None };
    let mut all: Vec<Tortured> = plan.locks.iter().map(fresh).collect();
    let mut number = 0;
    while !stop() && (number < all.len() as u64 || began.elapsed() < plan.lasting) {
        let count = all.len() as u64;
        let tortured = &mut all[(number % count) as usize];
        let mut random = StdRng::seed_from_u64(seed(plan.seed, number));
        let share = plan.overcommit[random.random_range(0..plan.overcommit.len())];
        let threads = ((share * plan.cpus as f64).round() as usize).max(2);
        progress(&format!("{}, {threads} threads", tortured.lock.name));
        let round = Arc::new(Round::new((tortured.lock.make)(), threads));
        let result = Torment::begin(&round, random, threads)?.run(length, &stop);
        tortured.rounds += 1;
        tortured.threads = tortured.threads.max(threads);
        tortured.tally.add(&round.tally.lock().expect("no thread panics with it"));
        if let Err(what) = result {
            tortured.failure = Some((number, what));
            break;
        }
        number += 1;
    }
    Ok(all)
}

/// The calling thread's part in a round: it lets threads begin, disturbs them, and watches.
struct Torment<'r> {
    round: &'r Arc<Round>,
    random: StdRng,
    sender: Sender<usize>,
    ended: Receiver<usize>,
    living: usize,
    delays: Delays,
    /// When the last tick ended, and for how long this thread had wanted a CPU by then.
    looked: (Instant, u64),
}

impl<'r> Torment<'r> {
    fn begin(round: &'r Arc<Round>, random: StdRng, threads: usize) -> Result<Self, Error> {
        let (sender, ended) = channel();
        let delays = Delays::own();
        let looked = (Instant::now(), delays.wanted());
        let mut torment = Self { round, random, sender, ended, living: 0, delays, looked };
        for number in 0..threads {
            torment.give_birth(number)?;
        }
        Ok(torment)
    }

    fn give_birth(&mut self, number: usize) -> Result<(), Error> {
        let (round, ended) = (Arc::clone(self.round), self.sender.clone());
        let random = StdRng::seed_from_u64(self.random.random());
        let life = move || {
            let lived = catch_unwind(AssertUnwindSafe(|| live(&round, number, random)));
            if let Err(panic) = lived {
                let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
                let said = said.or_else(|| panic.downcast_ref().cloned()).unwrap_or_default();
                round.fail(format!("thread {number} panicked: {said}"));
            }
            // Nobody waits for it after a failure.
            let _ = ended.send(number);
        };
        let thread = Builder::new().name("tortured".to_owned()).stack_size(STACK).spawn(life);
        thread.map_err(|error| {
            Error::failed(format!("cannot start a thread: {error}; use a lower --overcommit"))
        })?;
        self.living += 1;
        Ok(())
    }

    /// Until the round is over and all threads have ended, or something is wrong.
    fn run(mut self, length: Duration, stop: impl Fn() -> bool) -> Result<(), String> {
        let began = Instant::now();
        while self.living > 0 {
            if began.elapsed() >= length || stop() {
                self.round.end();
            }
            if self.round.is_over() {
                self.round.subject.close();
            }
            self.tick().map_err(|error| error.to_string())?;
            self.watch();
            if let Some(what) = self.round.failure() {
                return Err(what);
            }
        }
        self.round.subject.check_idle()
    }

    /// Waits for the next tick, and disturbs somebody. Counts for how long the machine stood still.
    fn tick(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        while let Some(left) = TICK.checked_sub(began.elapsed()) {
            let Ok(number) = self.ended.recv_timeout(left) else { break };
            self.living -= 1;
            if !self.round.is_over() {
                self.give_birth(number)?;
            }
        }
        // Since the last look it slept, or wanted a CPU: the rest is the machine's, or whoever stops processes.
        let (now, wanted) = (Instant::now(), self.delays.wanted());
        let (looked, wanted_then) = std::mem::replace(&mut self.looked, (now, wanted));
        let late = (now - looked).saturating_sub(TICK).as_nanos() as u64;
        let late = late.saturating_sub(wanted - wanted_then);
        self.round.stood.fetch_add(late, Ordering::Relaxed);
        let victim = self.random.random_range(0..self.round.doing().len());
        self.disturb(&self.round.doing_of(victim));
        if self.round.is_over() {
            self.round
                .doing()
                .iter()
                .filter_map(|doing| doing.token.as_ref())
                .for_each(|token| token.cancel());
            self.round.doing().iter().for_each(|doing| threads::interrupt(doing.thread));
        }
        Ok(())
    }

    fn disturb(&mut self, victim: &Doing) {
        match self.random.random_range(0..6) {
            0 => threads::move_to(victim.thread, None, 0),
            1 => {
                let (cpu, nice) =
                    (self.random.random_range(0..1024), self.random.random_range(0..20));
                threads::move_to(victim.thread, Some(cpu), nice);
            }
            2 => victim.token.iter().for_each(|token| token.cancel()),
            _ => threads::interrupt(victim.thread),
        }
    }

    /// Whether somebody has waited for too long.
    fn watch(&self) {
        for number in 0..self.round.doing().len() {
            let doing = self.round.doing_of(number);
            let Some(since) =
                self.owed_since(&doing).filter(|&since| now().saturating_sub(since) > SUSPECT_NS)
            else {
                continue;
            };
            let Some((bound, text)) = self.ask(number, &doing, since) else {
                let waited = in_ms(now().saturating_sub(since));
                let what = format!(
                    "thread {number} has waited for {waited}, and the lock does not say for how long it may"
                );
                return self.round.fail(what);
            };
            // It may have had it meanwhile.
            let still = self.round.doing_of(number);
            let goes_on = still.since == doing.since && self.owed_since(&still) == Some(since);
            let unknown = if self.round.somebody_could_run() { UNKNOWN_NS } else { 0 };
            if goes_on && !text.is_empty() && now().saturating_sub(since) > bound + unknown {
                return self.round.fail(text);
            }
        }
    }

    /// Since when the thread should have been let go on.
    fn owed_since(&self, doing: &Doing) -> Option<u64> {
        let timed = doing.visit.is_some_and(|visit| visit.how.timeout().is_some());
        match doing.what {
            What::Waits | What::Upgrades => Some(doing.since),
            What::Awaits if timed => Some(doing.since),
            What::Awaits => {
                let owed = self.round.subject.overdue_since().or(self.round.over_since());
                owed.map(|owed| owed.max(doing.since))
            }
            What::Away | What::Holds => None,
        }
    }

    /// The bound, and what to say if it does not hold. A lock that is broken may never answer, so another thread asks.
    fn ask(&self, number: usize, doing: &Doing, since: u64) -> Option<(u64, String)> {
        let (sender, answer) = channel();
        let (round, doing) = (Arc::clone(self.round), doing.clone());
        let ask = move || {
            let bound = round.bound(number, &doing);
            let waited = now().saturating_sub(since);
            let text = if waited > bound {
                round.describe(number, &doing, waited, bound)
            } else {
                String::new()
            };
            // Nobody waits for it after a failure.
            let _ = sender.send((bound, text));
        };
        Builder::new().stack_size(STACK).spawn(ask).ok()?;
        answer.recv_timeout(Duration::from_secs(30)).ok()
    }
}

/// A thread's life: some visits, then others take its place.
fn live(round: &Round, number: usize, mut random: StdRng) {
    let seat = Seat::take(round, number);
    let visits = [10, 100, 1_000, 10_000][random.random_range(0..4)];
    for _ in 0..visits {
        if seat.is_over() {
            break;
        }
        let visit = Visit::draw(&mut random, round.subject.ops(), number);
        round.subject.visit(&visit, &seat);
        Visit::away(&mut random).stay();
    }
    seat.leave();
}

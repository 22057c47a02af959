//! A round, and a thread's part in it: what it does at this moment, and whether its waits ended as they should.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use fairlock::CancelToken;
use fairlock::platform::Native;
use fairlock::wait::{Wait, WaitError};

use super::threads::{Delays, delay_of, is_known, is_runnable, now, thread_number};
use super::visit::{How, Op, Visit};

/// What the system may add to a wait that nothing here measures: late timers, interrupts.
const FLOOR_NS: u64 = 50_000_000;
/// Shorter waits are within any bound, so it is not computed.
const SHORT_NS: u64 = 10_000_000;
/// Shorter costs are not kept one by one: each counts as this.
const SMALL_NS: u64 = 20_000;
/// How long to wait where a lock promises no bound, or the system does not say who had a CPU.
const PATIENCE_NS: u64 = 20_000_000_000;

/// A lock with what it guards.
pub(super) trait Subject: Send + Sync {
    /// What threads do with it; what is there more often is done more often. Unless it says more, they
    /// write.
    fn ops(&self) -> &'static [Op] {
        &[Op::Write]
    }

    /// Makes this visit.
    fn visit(&self, visit: &Visit, seat: &Seat<'_>);

    /// How long a wait may take beside `others`, apart from their sections and where all have CPUs; `None`: nothing is promised.
    fn planned_ns(&self, others: usize) -> Option<u64>;

    /// How many others may have the lock before a thread that waits, and one that is inside already.
    fn grants(&self, others: usize) -> usize {
        others + 3
    }

    /// What the lock says of itself.
    fn state(&self) -> String {
        if self.is_idle() { "not locked" } else { "locked" }.into()
    }

    /// Since when a thread that waits for a notification should have had one.
    fn overdue_since(&self) -> Option<u64> {
        None
    }

    /// No thread begins another visit: those that wait for what others do may go.
    fn close(&self) {}

    /// Whether nobody holds the lock or waits, as far as it says.
    fn is_idle(&self) -> bool {
        true
    }

    /// What is wrong with what it guards, when all threads have left.
    fn check_guarded(&self) -> Result<(), String> {
        Ok(())
    }

    /// What is wrong when all threads have left.
    fn check_idle(&self) -> Result<(), String> {
        if !self.is_idle() {
            return Err(format!("everybody has left, but the lock says: {}", self.state()));
        }
        self.check_guarded()
    }
}

/// The watchdog has looked meanwhile.
const NEWS: Duration = Duration::from_millis(100);

/// How to ask for a lock.
pub(super) enum Request<'a> {
    Try,
    With(Wait<'a, Native>),
}

/// Why it was not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A try, and it was not free.
    Busy,
    Ended(WaitError),
}

impl Request<'_> {
    /// One of the two ways.
    pub(super) fn take(
        self,
        attempt: impl FnOnce() -> bool,
        wait: impl FnOnce(Wait<'_, Native>) -> Result<(), WaitError>,
    ) -> Result<(), Refusal> {
        match self {
            Request::Try => attempt().then_some(()).ok_or(Refusal::Busy),
            Request::With(how) => wait(how).map_err(Refusal::Ended),
        }
    }
}

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum What {
    #[default]
    Away,
    /// It waits for the lock.
    Waits,
    /// It holds the lock, and waits for readers to leave, to become the writer.
    Upgrades,
    /// It waits for a notification.
    Awaits,
    Holds,
}

/// The same, as the watchdog sees it.
#[derive(Clone, Default)]
pub(super) struct Doing {
    pub(super) what: What,
    pub(super) since: u64,
    pub(super) visit: Option<Visit>,
    /// At `since`: for how long the thread had lacked a CPU, and the machine had stood still.
    pub(super) delay: u64,
    pub(super) stood: u64,
    pub(super) thread: i32,
    /// Ends its wait.
    pub(super) token: Option<Arc<CancelToken>>,
}

/// The largest of many numbers.
struct Largest {
    numbers: BinaryHeap<Reverse<u64>>,
    most: usize,
}

impl Largest {
    fn add(&mut self, number: u64) {
        self.numbers.push(Reverse(number));
        if self.numbers.len() > self.most {
            self.numbers.pop();
        }
    }

    fn sum(&self) -> u64 {
        self.numbers.iter().map(|number| number.0).sum()
    }
}

/// What a lock's visits came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Visits that had the lock, and that were refused: tries, timeouts, cancellations, signals.
    pub had: u64,
    pub refused: [u64; 4],
    /// The longest wait without a timeout, in nanoseconds, and the bound that it had.
    pub longest: u64,
    pub its_bound: Option<u64>,
    /// The part of its bound that a wait took, at most. Waits of less than 10 ms are not looked at.
    pub part: f64,
}

impl Tally {
    /// Both together.
    pub fn add(&mut self, other: &Self) {
        self.had += other.had;
        for (mine, other) in self.refused.iter_mut().zip(other.refused) {
            *mine += other;
        }
        if other.longest > self.longest {
            (self.longest, self.its_bound) = (other.longest, other.its_bound);
        }
        self.part = self.part.max(other.part);
    }
}

/// A lock and the threads at it, for some seconds.
pub(super) struct Round {
    pub(super) subject: Box<dyn Subject>,
    seats: Vec<Mutex<Doing>>,
    /// The longest sections, and the longest times without a CPU in a wait.
    costs: [Mutex<Largest>; 2],
    failure: Mutex<Option<String>>,
    /// Since when threads begin no more visits; zero: they do.
    over: AtomicU64,
    /// For how long the machine has stood still altogether, as the watchdog noticed.
    pub(super) stood: AtomicU64,
    pub(super) tally: Mutex<Tally>,
}

fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Round {
    pub(super) fn new(subject: Box<dyn Subject>, threads: usize) -> Self {
        let most = subject.grants(threads - 1);
        let costs = [(); 2].map(|()| Mutex::new(Largest { numbers: BinaryHeap::new(), most }));
        Self {
            subject,
            seats: (0..threads).map(|_| Mutex::default()).collect(),
            costs,
            failure: Mutex::new(None),
            over: AtomicU64::new(0),
            stood: AtomicU64::new(0),
            tally: Mutex::default(),
        }
    }

    /// What is wrong; the first that was found is kept. Ends the round.
    pub(super) fn fail(&self, what: String) {
        locked(&self.failure).get_or_insert(what);
        self.end();
    }

    pub(super) fn failure(&self) -> Option<String> {
        locked(&self.failure).clone()
    }

    /// Threads begin no more visits.
    pub(super) fn end(&self) {
        // Relaxed, here and below: orders nothing.
        let _ = self.over.compare_exchange(0, now(), Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over_since().is_some()
    }

    pub(super) fn over_since(&self) -> Option<u64> {
        Some(self.over.load(Ordering::Relaxed)).filter(|&since| since != 0)
    }

    /// What all threads do.
    pub(super) fn doing(&self) -> Vec<Doing> {
        self.seats.iter().map(|seat| locked(seat).clone()).collect()
    }

    /// What thread `number` does.
    pub(super) fn doing_of(&self, number: usize) -> Doing {
        locked(&self.seats[number]).clone()
    }

    /// Whether a thread that waits could run at this moment: it looks at the lock, or has no CPU. For how long it has had
    /// none the system says only when it has one.
    pub(super) fn somebody_could_run(&self) -> bool {
        let waits =
            |doing: &Doing| matches!(doing.what, What::Waits | What::Upgrades | What::Awaits);
        self.doing().iter().any(|doing| waits(doing) && is_runnable(doing.thread))
    }

    /// How long thread `number`, which does `doing`, may do so: what the lock plans, the longest sections of so many others
    /// as may go before it, the time for which those and it lacked a CPU, and for which the machine stood still.
    pub(super) fn bound(&self, number: usize, doing: &Doing) -> u64 {
        let stood = self.stood.load(Ordering::Relaxed) - doing.stood;
        let planned = || self.subject.planned_ns(self.seats.len() - 1).filter(|_| is_known());
        let timeout = doing.visit.and_then(|visit| visit.how.timeout());
        let timeout = timeout.map(|timeout| timeout.as_nanos() as u64);
        let planned = match (timeout, doing.what) {
            // It has to have the mutex again.
            (Some(timeout), What::Awaits) => planned().map(|planned| planned + timeout),
            // An attempt ends by itself.
            (Some(timeout), _) => Some(timeout),
            (None, _) => planned(),
        };
        let mut bound = planned.unwrap_or(PATIENCE_NS) + FLOOR_NS + stood;
        for costs in &self.costs {
            let costs = locked(costs);
            bound += costs.sum() + costs.most as u64 * SMALL_NS;
        }
        let now = now();
        // Those that wait lack a CPU at the same time: what they add has ended with the last of them.
        let mut lacked = 0;
        for (other, seat) in self.seats.iter().enumerate() {
            let seat = locked(seat).clone();
            match seat.what {
                What::Holds | What::Upgrades if other != number => {
                    bound += now.saturating_sub(seat.since);
                }
                What::Away => {}
                _ => lacked = lacked.max(delay_of(seat.thread).saturating_sub(seat.delay)),
            }
        }
        bound + lacked
    }
}

/// A thread's part in a round.
pub(super) struct Seat<'r> {
    round: &'r Round,
    number: usize,
    delays: Delays,
    tally: RefCell<Tally>,
}

impl<'r> Seat<'r> {
    /// For the calling thread.
    pub(super) fn take(round: &'r Round, number: usize) -> Self {
        let seat = Self { round, number, delays: Delays::own(), tally: RefCell::default() };
        seat.does(What::Away, None, None);
        seat
    }

    pub(super) fn fail(&self, what: impl Into<String>) {
        self.round.fail(format!("thread {}: {}", self.number, what.into()));
    }

    pub(super) fn is_over(&self) -> bool {
        self.round.is_over()
    }

    /// From now on; what it did so far goes to the costs of others. Returns what that was.
    fn does(&self, what: What, visit: Option<&Visit>, token: Option<Arc<CancelToken>>) -> Doing {
        let doing = Doing {
            what,
            since: now(),
            visit: visit.copied(),
            delay: self.delays.total(),
            stood: self.round.stood.load(Ordering::Relaxed),
            thread: thread_number(),
            token,
        };
        let (now, total) = (doing.since, doing.delay);
        let before = std::mem::replace(&mut *locked(&self.round.seats[self.number]), doing);
        let cost = match before.what {
            What::Holds | What::Upgrades => Some((0, now - before.since)),
            What::Waits => Some((1, total.saturating_sub(before.delay))),
            What::Away | What::Awaits => None,
        };
        if let Some((kind, cost)) = cost.filter(|cost| cost.1 > SMALL_NS) {
            locked(&self.round.costs[kind]).add(cost);
        }
        before
    }

    /// Asks for the lock in the way of the visit. After success the thread holds it, until [`release`](Self::release).
    pub(super) fn acquire<T>(
        &self,
        visit: &Visit,
        take: impl FnOnce(Request<'_>) -> Result<T, Refusal>,
    ) -> Option<T> {
        self.wait(What::Waits, visit, What::Away, take)
    }

    /// The same for the upgrade of a thread that holds the lock, and still does if it fails.
    pub(super) fn upgrade(
        &self,
        visit: &Visit,
        take: impl FnOnce(Request<'_>) -> Result<(), Refusal>,
    ) -> bool {
        self.wait(What::Upgrades, visit, What::Holds, take).is_some()
    }

    /// The same for a wait for a notification, of a thread that holds the mutex before and after it.
    pub(super) fn await_notification(
        &self,
        visit: &Visit,
        take: impl FnOnce(Request<'_>) -> Result<(), Refusal>,
    ) -> bool {
        self.wait(What::Awaits, visit, What::Holds, take).is_some()
    }

    fn wait<T>(
        &self,
        what: What,
        visit: &Visit,
        or_else: What,
        take: impl FnOnce(Request<'_>) -> Result<T, Refusal>,
    ) -> Option<T> {
        let token = (visit.how == How::Cancellable).then(|| Arc::new(CancelToken::new()));
        self.does(what, Some(visit), token.clone());
        let wait = Wait::FOREVER;
        let request = match visit.how {
            How::Try => Request::Try,
            How::Wait => Request::With(wait),
            How::For(timeout) => Request::With(Wait::within(timeout)),
            How::Interruptible => Request::With(wait.interruptible()),
            How::Cancellable => {
                Request::With(token.as_ref().map_or(wait, |token| wait.cancellable(token)))
            }
        };
        let result = take(request);
        let ended = now();
        let before = self.round.doing_of(self.number);
        // Before this thread goes on: what it does now is part of what others may wait for.
        self.judge(&before, ended - before.since, visit, result.as_ref().err().copied());
        self.does(if result.is_ok() { What::Holds } else { or_else }, Some(visit), None);
        result.ok()
    }

    /// Whether a wait ended as it may.
    fn judge(&self, doing: &Doing, waited: u64, visit: &Visit, refused: Option<Refusal>) {
        let right = match (visit.how, refused) {
            (_, None) | (How::Try, Some(Refusal::Busy)) => true,
            (How::For(timeout), Some(Refusal::Ended(WaitError::TimedOut))) => {
                Duration::from_nanos(waited) >= timeout
            }
            (How::Interruptible, Some(Refusal::Ended(WaitError::Interrupted))) => true,
            (How::Cancellable, Some(Refusal::Ended(WaitError::Cancelled))) => {
                doing.token.as_ref().is_some_and(|token| token.is_cancelled())
            }
            _ => false,
        };
        if !right {
            self.fail(format!("{visit}: {refused:?} after {}", in_ms(waited)));
        }
        let mut tally = self.tally.borrow_mut();
        match refused {
            None => tally.had += 1,
            Some(Refusal::Busy) => tally.refused[0] += 1,
            Some(Refusal::Ended(WaitError::TimedOut)) => tally.refused[1] += 1,
            Some(Refusal::Ended(WaitError::Cancelled)) => tally.refused[2] += 1,
            Some(Refusal::Ended(_)) => tally.refused[3] += 1,
        }
        let timeout = visit.how.timeout().map_or(0, |timeout| timeout.as_nanos() as u64);
        let mut bound = None;
        if waited > timeout + SHORT_NS && doing.what != What::Awaits {
            let mut most = self.round.bound(self.number, doing);
            if waited > most {
                // Whoever is stopped with all others may go on before the watchdog, and has to hear of it.
                thread::sleep(NEWS);
                most = self.round.bound(self.number, doing);
            }
            if waited > most {
                self.fail(self.round.describe(self.number, doing, waited, most));
            }
            if timeout == 0 && visit.how != How::Try {
                tally.part = tally.part.max(waited as f64 / most as f64);
            }
            bound = Some(most);
        }
        if timeout == 0 && doing.what != What::Awaits && waited > tally.longest {
            (tally.longest, tally.its_bound) = (waited, bound);
        }
    }

    /// The thread has the lock no longer, after `release`.
    pub(super) fn release<T>(&self, release: impl FnOnce() -> T) -> T {
        let result = release();
        self.does(What::Away, None, None);
        result
    }

    /// What it had to wait for ends here.
    pub(super) fn leave(self) {
        self.does(What::Away, None, None);
        locked(&self.round.tally).add(&self.tally.take());
    }
}

pub(super) fn in_ms(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

impl Round {
    /// A wait beyond its bound: who waits, who holds, who is queued, and what the lock itself says.
    pub(super) fn describe(&self, number: usize, doing: &Doing, waited: u64, bound: u64) -> String {
        let visit = doing.visit.map_or_else(String::new, |visit| visit.to_string());
        let delay = delay_of(doing.thread).saturating_sub(doing.delay);
        let mut text = format!(
            "thread {number} has waited for {} by {visit}; its bound is {}, and it lacked a CPU for {} of that",
            in_ms(waited),
            in_ms(bound),
            in_ms(delay),
        );
        let now = now();
        let mut holders = vec![];
        let mut waiters = vec![];
        for (other, seat) in self.doing().iter().enumerate().filter(|(other, _)| *other != number) {
            let visit = seat.visit.map_or_else(String::new, |visit| visit.to_string());
            let line =
                format!("thread {other} for {}: {visit}", in_ms(now.saturating_sub(seat.since)));
            match seat.what {
                What::Holds | What::Upgrades => holders.push(line),
                What::Waits | What::Awaits => waiters.push((seat.since, line)),
                What::Away => {}
            }
        }
        waiters.sort();
        let waiters: Vec<String> = waiters.into_iter().take(8).map(|(_, line)| line).collect();
        for (what, lines) in [("held by", holders), ("also waiting, longest first", waiters)] {
            let lines = if lines.is_empty() { "nobody".to_owned() } else { lines.join("\n    ") };
            text.push_str(&format!("\n  {what}: {lines}"));
        }
        text.push_str(&format!("\n  the lock says: {}", self.subject.state()));
        text
    }
}

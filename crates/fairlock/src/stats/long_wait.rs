//! Long waits, reported as they happen.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::string::String;
use std::sync::{Mutex, PoisonError, RwLock};

use super::place::{Access, Place};
use crate::platform::{Native, System};

/// A wait that was as long as [`on_long_wait`] asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LongWait {
    /// The name of the lock.
    pub lock: String,
    /// What it was wanted for.
    pub access: Access,
    /// How long the thread waited, or has waited until now.
    pub waited: Duration,
    /// For how long it then held the lock; `None` if it gave up, or still waits.
    pub held: Option<Duration>,
    /// The name of the thread that waited.
    pub thread: String,
    /// From where it wanted the lock.
    pub at: Option<Place>,
    /// The thread that held the lock when the wait began; if the wait is [`ongoing`](Self::ongoing), that
    /// holds it now. `None` if none was seen.
    pub holder: Option<Holder>,
    /// The wait has not ended; another thread tells of it.
    pub ongoing: bool,
    /// So many waits for locks of this name were left out before this one, because of the limit.
    pub left_out: u64,
}

/// A thread that was in the way of a [`LongWait`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Holder {
    /// Its name.
    pub thread: String,
    /// Where it took the lock.
    pub at: Option<Place>,
    /// Since when, measured from now on backwards; `None` if its hold was not timed.
    pub since: Option<Duration>,
}

impl Holder {
    pub(super) fn new(thread: String, at: Option<Place>, began: Option<u64>, now: u64) -> Self {
        let since = began.map(|began| Duration::from_nanos(now.saturating_sub(began)));
        Self { thread, at, since }
    }
}

/// The thread, and where it took the lock.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.thread)?;
        self.at.map_or(Ok(()), |at| write!(f, " at {at}"))
    }
}

static LONG_NS: AtomicU64 = AtomicU64::new(u64::MAX);
static TELLS: RwLock<Option<fn(&LongWait)>> = RwLock::new(None);
/// What was told of the locks of each name.
static TOLD: Mutex<BTreeMap<String, Told>> = Mutex::new(BTreeMap::new());

/// So many waits are told of the locks of one name in a second.
const TOLD_A_SECOND: u32 = 10;

/// What was told in one second.
#[derive(Default)]
struct Told {
    second: u64,
    count: u32,
    left_out: u64,
}

impl Told {
    /// Whether one more is to be told in this second; and then how many were left out before.
    fn one_more(&mut self, second: u64) -> Option<u64> {
        if self.second != second {
            (self.second, self.count) = (second, 0);
        }
        if self.count == TOLD_A_SECOND {
            self.left_out += 1;
            return None;
        }
        self.count += 1;
        Some(core::mem::take(&mut self.left_out))
    }
}

/// Calls `tell` for each wait for a named lock that lasts for `threshold` or longer; never with
/// [`Duration::MAX`]. Replaces what was set before.
///
/// The thread that waited calls `tell` after it has released the lock, or given up. So `tell`
/// delays only that thread, and what it logs is in the context of the request that waited.
///
/// A wait that has not ended is told, too, once more and before that: by the next thread that has to wait for the same
/// lock, or that takes a [`snapshot()`](super::snapshot()), with
/// [`ongoing`](LongWait::ongoing). This library starts no thread. So if nobody comes, and nobody looks, nothing is
/// told before the wait ends; a thread of yours that takes a snapshot each second is told of every stall.
///
/// Of the locks of one name at most 10 waits are told in a second; [`left_out`](LongWait::left_out) counts the others.
///
/// `tell` may use locks, including named ones, but not those that its thread may hold already when it
/// waits for a named lock. It must not panic if a guard is dropped in a panic.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use std::time::Duration;
///
/// use fairlock::Mutex;
/// use fairlock::stats::{self, NamedExt};
///
/// static LONG: AtomicUsize = AtomicUsize::new(0);
/// stats::on_long_wait(Duration::from_millis(1), |wait| {
///     eprintln!("{} waited {:?} for {}", wait.thread, wait.waited, wait.lock);
///     if let Some(holder) = &wait.holder {
///         eprintln!("it was held by {holder}"); // such as: worker-2 at src/jobs.rs:31:20
///     }
///     LONG.fetch_add(1, Ordering::Relaxed);
/// });
///
/// let jobs = Mutex::named("jobs", vec![1]);
/// let guard = jobs.lock();
/// assert!(jobs.try_lock_for(Duration::from_millis(2)).is_none());
/// drop(guard);
/// assert_eq!(LONG.load(Ordering::Relaxed), 1);
/// ```
pub fn on_long_wait(threshold: Duration, tell: fn(&LongWait)) {
    *TELLS.write().unwrap_or_else(PoisonError::into_inner) = Some(tell);
    let ns = u64::try_from(threshold.as_nanos()).unwrap_or(u64::MAX);
    // Relaxed: the thread that sees it takes the lock to see the function.
    LONG_NS.store(ns, Ordering::Relaxed);
}

/// Whether any wait is to be told.
pub(super) fn is_on() -> bool {
    LONG_NS.load(Ordering::Relaxed) != u64::MAX
}

pub(super) fn is_long(waited: u64) -> bool {
    waited >= LONG_NS.load(Ordering::Relaxed)
}

impl LongWait {
    pub(super) fn tell(mut self) {
        let Some(tell) = *TELLS.read().unwrap_or_else(PoisonError::into_inner) else { return };
        let left_out = {
            let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
            let second = Native::now() / 1_000_000_000;
            told.entry(self.lock.clone()).or_default().one_more(second)
        };
        if let Some(left_out) = left_out {
            self.left_out = left_out;
            tell(&self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_name_few_waits_are_told_in_a_second() {
        let mut told = Told::default();
        let told_in =
            |told: &mut Told, second| (0..25).filter_map(|_| told.one_more(second)).collect();
        let first: std::vec::Vec<u64> = told_in(&mut told, 7);
        assert_eq!(first, [0; 10]);
        let second: std::vec::Vec<u64> = told_in(&mut told, 8);
        assert_eq!((second[0], second.len()), (15, 10));
    }
}

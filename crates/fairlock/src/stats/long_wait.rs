//! Long waits, reported as they happen.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::string::String;
use std::sync::{PoisonError, RwLock};

use super::hold::{Access, Place};

/// A wait that was as long as [`on_long_wait`] asks for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LongWait {
    /// The name of the lock.
    pub lock: String,
    /// What it was wanted for.
    pub access: Access,
    /// How long the calling thread waited.
    pub waited: Duration,
    /// For how long it then held the lock; `None` if it gave up.
    pub held: Option<Duration>,
    /// From where it wanted the lock.
    pub at: Option<Place>,
}

static LONG_NS: AtomicU64 = AtomicU64::new(u64::MAX);
static TELLS: RwLock<Option<fn(&LongWait)>> = RwLock::new(None);

/// Calls `tell` for each wait for a named lock that lasts for `threshold` or longer; never with
/// [`Duration::MAX`]. Replaces what was set before.
///
/// The thread that waited calls `tell` after it has released the lock, or given up. So `tell`
/// delays only that thread, and what it logs is in the context of the request that waited. `tell`
/// may use locks, including named ones. It must not panic if a guard is dropped in a panic.
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
///     eprintln!("waited {:?} for {}", wait.waited, wait.lock);
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

pub(super) fn is_long(waited: u64) -> bool {
    waited >= LONG_NS.load(Ordering::Relaxed)
}

impl LongWait {
    pub(super) fn tell(&self) {
        let tell = *TELLS.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(tell) = tell {
            tell(self);
        }
    }
}

//! Locks that are wrong, or slower, on purpose: the benchmark, and a comparison, must notice them.
//! They run when they are named, and are never listed.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::entry::LockEntry;
use super::range::{BenchRange, Range};
use super::{BenchLock, RwBench};
use crate::cell::Side;
use crate::error::Error;

/// The thread that gets the lock first keeps all others from it for as long as it lives. Excludes
/// correctly, but starves everybody else.
struct Favourite {
    locked: AtomicBool,
    /// The thread that had the lock last: it has the strong end of this.
    favourite: Mutex<Weak<()>>,
}

impl Favourite {
    fn try_acquire(&self, me: &Arc<()>) -> bool {
        let mut favourite = self.favourite.lock().unwrap_or_else(PoisonError::into_inner);
        let is_mine = favourite.upgrade().is_none_or(|thread| Arc::ptr_eq(&thread, me));
        if !is_mine || self.locked.swap(true, Ordering::Acquire) {
            return false;
        }
        *favourite = Arc::downgrade(me);
        true
    }
}

impl RwBench for Favourite {
    fn new() -> Self {
        Self { locked: AtomicBool::new(false), favourite: Mutex::default() }
    }

    fn write_lock(&self) {
        thread_local!(static ME: Arc<()> = Arc::default());
        ME.with(|me| {
            while !self.try_acquire(me) {
                thread::sleep(Duration::from_millis(2));
            }
        });
    }

    unsafe fn write_unlock(&self) {
        self.locked.store(false, Ordering::Release);
    }
}

/// Never released: the second acquisition waits for ever.
struct Stuck(AtomicBool);

impl RwBench for Stuck {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    fn write_lock(&self) {
        while self.0.swap(true, Ordering::Acquire) {
            thread::sleep(Duration::from_millis(10));
        }
    }

    unsafe fn write_unlock(&self) {}
}

/// Panics when it is acquired.
struct Panicking;

impl RwBench for Panicking {
    fn new() -> Self {
        Self
    }

    fn write_lock(&self) {
        panic!("broken on purpose");
    }

    unsafe fn write_unlock(&self) {}
}

/// Lets everybody in.
struct Open;

impl BenchRange for Open {
    fn create(_positions: u64, _threads: usize) -> Result<Self, Error> {
        Ok(Self)
    }

    fn hold<R>(&self, _: Side, _: usize, _: &Range, section: impl FnOnce() -> R) -> R {
        section()
    }

    fn keep(&self, _thread: usize, _range: &Range) {}
}

impl BenchLock for Open {
    fn create() -> Self {
        Self
    }

    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}

/// Our lock, but it stands still for a twentieth of the time: a thread that releases it now and
/// then waits with the lock held, for a nineteenth of what has passed since a thread last did so.
/// As that is relative to the time, not to a section, the lock is 5 % slower wherever threads wait
/// for each other.
struct Slower {
    lock: fairlock::RwLock<()>,
    began: Instant,
    /// When the lock last stood still, in nanoseconds since `began`.
    paid: AtomicU64,
}

impl Slower {
    /// How many releases of a thread in a row do not wait: to look at the clock costs time, too.
    const FREE: u32 = 63;
    /// No release waits for longer: if a CPU was gone for long that is not the lock's fault.
    const MOST: Duration = Duration::from_micros(50);

    fn pay(&self) {
        thread_local!(static RELEASES: Cell<u32> = const { Cell::new(0) });
        let release = RELEASES.get();
        RELEASES.set((release + 1) % (Self::FREE + 1));
        if release != Self::FREE {
            return;
        }
        let now = self.began.elapsed();
        // Relaxed: nothing else depends on this number.
        let since = now.saturating_sub(Duration::from_nanos(self.paid.load(Ordering::Relaxed)));
        let until = now + (since / 19).min(Self::MOST);
        while self.began.elapsed() < until {
            std::hint::spin_loop();
        }
        self.paid.store(until.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl BenchLock for Slower {
    fn create() -> Self {
        Self { lock: fairlock::RwLock::new(()), began: Instant::now(), paid: AtomicU64::new(0) }
    }

    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.lock.read();
        let result = section();
        self.pay();
        result
    }

    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.lock.write();
        let result = section();
        self.pay();
        result
    }
}

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![
        LockEntry::both::<Favourite>("broken:unfair"),
        LockEntry::both::<Stuck>("broken:stuck"),
        LockEntry::both::<Panicking>("broken:panicking"),
        LockEntry::rw::<Slower>("broken:slower"),
        LockEntry::mutex::<Open>("broken:open").with_range::<Open>(),
    ]
}

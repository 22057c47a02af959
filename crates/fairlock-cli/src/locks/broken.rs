//! Locks that are wrong on purpose: what the benchmark must notice. They are run
//! when named, and never listed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::range::{BenchRange, Range};
use super::{BenchMutex, LockEntry, RwBench};
use crate::error::Error;

/// Whoever has had the lock keeps it: others get it only after it was idle for a
/// while. Excludes correctly, starves everybody else.
struct Favourite {
    locked: AtomicBool,
    /// Which thread had it last; 0 for none.
    favourite: AtomicUsize,
    released_us: AtomicU64,
    origin: Instant,
}

impl Favourite {
    const IDLE: Duration = Duration::from_millis(40);

    fn try_acquire(&self, me: usize) -> bool {
        let favourite = self.favourite.load(Ordering::Relaxed);
        let now_us = self.origin.elapsed().as_micros() as u64;
        let idle_us = now_us.saturating_sub(self.released_us.load(Ordering::Relaxed));
        let allowed =
            favourite == 0 || favourite == me || u128::from(idle_us) > Self::IDLE.as_micros();
        if !allowed || self.locked.swap(true, Ordering::Acquire) {
            return false;
        }
        self.favourite.store(me, Ordering::Relaxed);
        true
    }
}

impl RwBench for Favourite {
    fn new() -> Self {
        Self {
            locked: AtomicBool::new(false),
            favourite: AtomicUsize::new(0),
            released_us: AtomicU64::new(0),
            origin: Instant::now(),
        }
    }

    fn read_lock(&self) {
        self.write_lock();
    }

    unsafe fn read_unlock(&self) {
        // SAFETY: a read acquisition is a write acquisition here.
        unsafe { self.write_unlock() };
    }

    fn write_lock(&self) {
        thread_local!(static ME: u8 = const { 0 });
        let me = ME.with(|me| std::ptr::from_ref(me).addr());
        while !self.try_acquire(me) {
            thread::sleep(Duration::from_millis(2));
        }
    }

    unsafe fn write_unlock(&self) {
        self.released_us.store(self.origin.elapsed().as_micros() as u64, Ordering::Relaxed);
        self.locked.store(false, Ordering::Release);
    }
}

/// Never released: the second acquisition waits for ever.
struct Stuck(AtomicBool);

impl RwBench for Stuck {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    fn read_lock(&self) {
        self.write_lock();
    }

    unsafe fn read_unlock(&self) {}

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

    fn read_lock(&self) {
        self.write_lock();
    }

    unsafe fn read_unlock(&self) {}

    fn write_lock(&self) {
        panic!("broken on purpose");
    }

    unsafe fn write_unlock(&self) {}
}

/// Lets everybody in.
struct Open;

impl BenchRange for Open {
    type User = ();

    fn create(_positions: u64) -> Result<Self, Error> {
        Ok(Self)
    }

    fn user(&self) -> Result<(), Error> {
        Ok(())
    }

    fn read<R>(&self, _user: &(), _range: &Range, section: impl FnOnce() -> R) -> R {
        section()
    }

    fn write<R>(&self, _user: &(), _range: &Range, section: impl FnOnce() -> R) -> R {
        section()
    }

    fn keep(&self, _user: &(), _range: &Range) {}
}

impl BenchMutex for Open {
    fn create() -> Self {
        Self
    }

    fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![
        LockEntry::both::<Favourite>("broken:unfair", "starves all but one thread, on purpose"),
        LockEntry::both::<Stuck>("broken:stuck", "is never released, on purpose"),
        LockEntry::both::<Panicking>("broken:panicking", "panics when acquired, on purpose"),
        LockEntry::mutex::<Open>("broken:open", "lets everybody in, on purpose")
            .with_range::<Open>(),
    ]
}

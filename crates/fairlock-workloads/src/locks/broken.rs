//! Locks that are wrong on purpose: what the benchmark must notice. They are run
//! when named, and never listed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use super::entry::LockEntry;
use super::range::{BenchRange, Range};
use super::{BenchMutex, RwBench};
use crate::error::Error;

/// Whoever gets the lock first keeps all others from it for as long as its thread lives.
/// Excludes correctly, starves everybody else.
struct Favourite {
    locked: AtomicBool,
    /// The thread that had it last, which has the other end.
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

    fn read_lock(&self) {
        self.write_lock();
    }

    unsafe fn read_unlock(&self) {
        // SAFETY: a read acquisition is a write acquisition here.
        unsafe { self.write_unlock() };
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

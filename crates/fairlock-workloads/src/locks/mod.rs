//! The locks the command can run, and what it asks of each.
//!
//! A reader/writer lock implements [`RwBench`] (separate acquire and release
//! calls, as C and `lock_api` have them) or [`BenchLock`] directly (guards, as
//! `std` has them). So does a mutex, which has only the write side; one with condition
//! variables implements [`BenchCondvar`](condvar::BenchCondvar). Workloads are generic over
//! [`BenchLock`] or [`BenchRange`](range::BenchRange). On real threads, loops in
//! which a nanosecond counts are compiled once per lock, so that no call in them is indirect. All
//! others, and those on simulated machines, are compiled once for all locks ([`erased`]); the
//! testbed decides which ([`Runs`](entry::Runs), and [`run_cell`](crate::workload::run_cell)). A
//! [`LockEntry`](entry::LockEntry) has the workloads of one lock on one testbed; the [`registry`]
//! finds it by name.

mod broken;
pub mod condvar;
pub mod custom;
pub mod entry;
pub mod erased;
pub mod fairlock;
pub mod many;
pub mod monitor;
pub mod range;
pub mod registry;
pub mod typed;
pub mod with_policy;

use crate::cell::Side;

/// A lock with separate acquire and release calls. One that has no read side, a mutex, is written
/// to be read.
pub trait RwBench: Send + Sync + 'static {
    /// A new, free lock. It may be moved until its first use.
    fn new() -> Self;
    /// Acquires for reading; blocks.
    #[inline(always)]
    fn read_lock(&self) {
        self.write_lock();
    }
    /// Releases a read acquisition.
    ///
    /// # Safety
    /// The calling thread holds the lock for reading.
    #[inline(always)]
    unsafe fn read_unlock(&self) {
        // SAFETY: a read acquisition is a write acquisition here.
        unsafe { self.write_unlock() };
    }
    /// Acquires for writing; blocks.
    fn write_lock(&self);
    /// Releases a write acquisition.
    ///
    /// # Safety
    /// The calling thread holds the lock for writing.
    unsafe fn write_unlock(&self);
}

/// What a workload calls: run a section under the lock. A mutex is written to be read.
pub trait BenchLock: Send + Sync + 'static {
    /// A new, free lock. It may be moved until its first use.
    fn create() -> Self;
    /// Runs `section` while holding the lock for reading.
    #[inline(always)]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        self.write(section)
    }
    /// Runs `section` while holding the lock for writing.
    fn write<R>(&self, section: impl FnOnce() -> R) -> R;
    /// Runs `section` while holding the lock on this side.
    #[inline(always)]
    fn hold<R>(&self, side: Side, section: impl FnOnce() -> R) -> R {
        if side == Side::Read { self.read(section) } else { self.write(section) }
    }
}

impl<L: RwBench> BenchLock for L {
    fn create() -> Self {
        L::new()
    }

    #[inline(always)]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        self.read_lock();
        let result = section();
        // SAFETY: this thread acquired for reading above. A section that
        // unwinds skips this and leaves the lock held, which is safe.
        unsafe { self.read_unlock() };
        result
    }

    #[inline(always)]
    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        self.write_lock();
        let result = section();
        // SAFETY: this thread acquired for writing above; as in `read`.
        unsafe { self.write_unlock() };
        result
    }
}

/// Whether `name` names a lock of somebody else.
pub fn is_peer(name: &str) -> bool {
    !["fairlock:", "ref:", "broken:"].iter().any(|family| name.starts_with(family))
}

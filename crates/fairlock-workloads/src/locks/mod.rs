//! The locks the command can run, and what it asks of each.
//!
//! A reader/writer lock implements [`RwBench`] (separate acquire and release
//! calls, as C and `lock_api` have them) or [`BenchLock`] directly (guards, as
//! `std` has them), a mutex [`BenchMutex`], one with condition variables
//! [`BenchCondvar`](condvar::BenchCondvar). Workloads are generic over
//! [`BenchLock`], [`BenchMutex`] or [`BenchRange`](range::BenchRange). On real threads, loops in
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
pub mod uses;

/// A reader/writer lock with separate acquire and release calls.
pub trait RwBench: Send + Sync + 'static {
    /// A new, free lock. It may be moved until its first use.
    fn new() -> Self;
    /// Acquires for reading; blocks.
    fn read_lock(&self);
    /// Releases a read acquisition.
    ///
    /// # Safety
    /// The calling thread holds the lock for reading.
    unsafe fn read_unlock(&self);
    /// Acquires for writing; blocks.
    fn write_lock(&self);
    /// Releases a write acquisition.
    ///
    /// # Safety
    /// The calling thread holds the lock for writing.
    unsafe fn write_unlock(&self);
}

/// What a workload calls: run a section under the lock.
pub trait BenchLock: Send + Sync + 'static {
    /// A new, free lock.
    fn create() -> Self;
    /// Runs `section` while holding the lock for reading.
    fn read<R>(&self, section: impl FnOnce() -> R) -> R;
    /// Runs `section` while holding the lock for writing.
    fn write<R>(&self, section: impl FnOnce() -> R) -> R;
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

/// What a workload for mutexes calls.
pub trait BenchMutex: Send + Sync + 'static {
    /// A new, free mutex. It may be moved until its first use.
    fn create() -> Self;
    /// Runs `section` while holding the mutex.
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R;
}

/// The write side of a reader/writer lock, as a mutex.
pub struct WriteSide<L>(L);

impl<L: BenchLock> BenchMutex for WriteSide<L> {
    fn create() -> Self {
        Self(L::create())
    }

    #[inline(always)]
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.write(section)
    }
}

/// Whether `name` names a lock of somebody else.
pub fn is_peer(name: &str) -> bool {
    !["fairlock:", "ref:", "broken:"].iter().any(|family| name.starts_with(family))
}

//! The locks the command can run, and what it asks of each.
//!
//! A lock implements [`RwBench`] (separate acquire and release calls, as C and
//! `lock_api` have them) or [`BenchLock`] directly (guards, as `std` has
//! them). Workloads are generic over [`BenchLock`], so the hot loops are
//! compiled once per lock and no call in them is indirect. [`rw_entry`] packs
//! the compiled workloads of one lock into a [`LockEntry`], which the
//! [`registry`] finds by name.

mod broken;
mod fairlock;
pub mod registry;

use crate::cell::{Cell, CellReport};
use crate::error::Error;

/// A reader/writer lock with separate acquire and release calls.
///
/// A lock that knows writers only (a mutex) takes the writer's lock for both
/// sides and says so with [`LockEntry::mutex_only`].
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

/// One lock the command can run.
#[derive(Clone, Copy)]
pub struct LockEntry {
    /// The name given to `--locks`.
    pub name: &'static str,
    /// One line on what it is.
    pub about: &'static str,
    /// Readers take the writer's lock: there is no reader side to compare.
    pub mutex_only: bool,
    /// Runs one cell with this lock, compiled for it.
    pub run: fn(&Cell) -> Result<CellReport, Error>,
}

impl LockEntry {
    /// Marks a lock whose readers take the writer's lock.
    pub const fn mutex(mut self) -> Self {
        self.mutex_only = true;
        self
    }
}

/// Whether `name` names a lock of somebody else.
pub fn is_peer(name: &str) -> bool {
    !name.starts_with("fairlock:") && !name.starts_with("broken:")
}

/// The entry of a lock, with every workload compiled for it.
pub const fn rw_entry<L: BenchLock>(name: &'static str, about: &'static str) -> LockEntry {
    LockEntry { name, about, mutex_only: false, run: crate::workload::run_cell::<L> }
}

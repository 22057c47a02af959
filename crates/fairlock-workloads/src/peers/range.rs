//! Range locks of other projects: the crates range-mutex and range-lock.

use std::{mem, thread};

use range_lock::VecRangeLock;
use range_mutex::RangeMutex;

use crate::cell::Side;
use crate::error::Error;
use crate::locks::entry::LockEntry;
use crate::locks::range::{BenchRange, Range};

/// The range, cut off at the end of the slice.
fn clamp(range: &Range, len: usize) -> std::ops::Range<usize> {
    *range.start() as usize..(*range.end()).min(len as u64 - 1) as usize + 1
}

/// Writers only; a waiter is woken by every release of a range that overlaps.
struct RangeMutexPeer(RangeMutex<u8, Vec<u8>>);

impl BenchRange for RangeMutexPeer {
    const SHARES: bool = false;

    fn create(positions: u64, _threads: usize) -> Result<Self, Error> {
        Ok(Self(RangeMutex::new(vec![0; positions as usize])))
    }

    #[inline(always)]
    fn hold<R>(&self, _: Side, _: usize, range: &Range, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock(clamp(range, self.0.len()));
        section()
    }

    fn keep(&self, _thread: usize, range: &Range) {
        mem::forget(self.0.lock(clamp(range, self.0.len())));
    }
}

/// Writers only, and attempts only: a waiter yields and tries again.
struct RangeLockPeer(VecRangeLock<u8>);

impl BenchRange for RangeLockPeer {
    const SHARES: bool = false;

    fn create(positions: u64, _threads: usize) -> Result<Self, Error> {
        Ok(Self(VecRangeLock::new(vec![0; positions as usize])))
    }

    #[inline(always)]
    fn hold<R>(&self, _: Side, _: usize, range: &Range, section: impl FnOnce() -> R) -> R {
        let range = clamp(range, self.0.data_len());
        loop {
            if let Ok(_guard) = self.0.try_lock(range.clone()) {
                return section();
            }
            thread::yield_now();
        }
    }

    fn keep(&self, _thread: usize, range: &Range) {
        mem::forget(self.0.try_lock(clamp(range, self.0.data_len())).expect("nothing overlaps"));
    }
}

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![
        LockEntry::range::<RangeMutexPeer>("range-mutex"),
        LockEntry::range::<RangeLockPeer>("range-lock"),
    ]
}

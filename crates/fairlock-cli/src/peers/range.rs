//! Range locks of others: the crates range-mutex and range-lock, and the locks of
//! the system on ranges of a file.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::{mem, thread};

use range_lock::VecRangeLock;
use range_mutex::RangeMutex;

use crate::error::Error;
use crate::locks::LockEntry;
use crate::locks::range::{BenchRange, Range};

/// Everything, for those that take positions of a slice.
fn clamp(range: &Range, len: usize) -> std::ops::Range<usize> {
    *range.start() as usize..(*range.end()).min(len as u64 - 1) as usize + 1
}

/// Writers only; who waits is woken by every release that overlaps.
struct RangeMutexPeer(RangeMutex<u8, Vec<u8>>);

impl BenchRange for RangeMutexPeer {
    const SHARES: bool = false;
    type User = ();

    fn create(positions: u64) -> Result<Self, Error> {
        Ok(Self(RangeMutex::new(vec![0; positions as usize])))
    }

    fn user(&self) -> Result<(), Error> {
        Ok(())
    }

    fn read<R>(&self, user: &(), range: &Range, section: impl FnOnce() -> R) -> R {
        self.write(user, range, section)
    }

    #[inline(always)]
    fn write<R>(&self, _user: &(), range: &Range, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock(clamp(range, self.0.len()));
        section()
    }

    fn keep(&self, _user: &(), range: &Range) {
        mem::forget(self.0.lock(clamp(range, self.0.len())));
    }
}

/// Writers only, and attempts only: who waits yields and tries again.
struct RangeLockPeer(VecRangeLock<u8>);

impl BenchRange for RangeLockPeer {
    const SHARES: bool = false;
    type User = ();

    fn create(positions: u64) -> Result<Self, Error> {
        Ok(Self(VecRangeLock::new(vec![0; positions as usize])))
    }

    fn user(&self) -> Result<(), Error> {
        Ok(())
    }

    fn read<R>(&self, user: &(), range: &Range, section: impl FnOnce() -> R) -> R {
        self.write(user, range, section)
    }

    #[inline(always)]
    fn write<R>(&self, _user: &(), range: &Range, section: impl FnOnce() -> R) -> R {
        let range = clamp(range, self.0.data_len());
        loop {
            if let Ok(_guard) = self.0.try_lock(range.clone()) {
                return section();
            }
            thread::yield_now();
        }
    }

    fn keep(&self, _user: &(), range: &Range) {
        mem::forget(self.0.try_lock(clamp(range, self.0.data_len())).expect("nothing overlaps"));
    }
}

/// `fcntl` with locks of an open file description: each thread opens the file for
/// itself, or they would all be one owner.
struct Fcntl(tempfile::NamedTempFile);

impl BenchRange for Fcntl {
    /// The system takes tens of seconds to give out 50,000.
    const MOST_HELD: usize = 4_096;
    type User = File;

    fn create(_positions: u64) -> Result<Self, Error> {
        tempfile::NamedTempFile::new().map(Self).map_err(|error| failed(&error))
    }

    fn user(&self) -> Result<File, Error> {
        let file = OpenOptions::new().read(true).write(true).open(self.0.path());
        file.map_err(|error| failed(&error))
    }

    fn read<R>(&self, user: &File, range: &Range, section: impl FnOnce() -> R) -> R {
        lock(user, libc::F_RDLCK, range);
        let result = section();
        lock(user, libc::F_UNLCK, range);
        result
    }

    fn write<R>(&self, user: &File, range: &Range, section: impl FnOnce() -> R) -> R {
        lock(user, libc::F_WRLCK, range);
        let result = section();
        lock(user, libc::F_UNLCK, range);
        result
    }

    fn keep(&self, user: &File, range: &Range) {
        lock(user, libc::F_WRLCK, range);
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::failed(format!("cannot open a file to lock in: {error}; set TMPDIR to another folder"))
}

fn lock(file: &File, kind: libc::c_int, range: &Range) {
    // What reaches beyond the largest offset reaches to the end: length zero.
    let len = range.end().saturating_add(1).saturating_sub(*range.start());
    let flock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: *range.start() as libc::off_t,
        l_len: if *range.end() > i64::MAX as u64 { 0 } else { len as libc::off_t },
        l_pid: 0,
    };
    // SAFETY: `flock` is valid, and the descriptor is open.
    while unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &flock) } != 0 {
        let error = std::io::Error::last_os_error();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "fcntl: {error}");
    }
}

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![
        LockEntry::range::<RangeMutexPeer>("range-mutex", "crate range-mutex 0.1: writers only"),
        LockEntry::range::<RangeLockPeer>(
            "range-lock",
            "crate range-lock 0.2: writers only, tried again after a yield",
        ),
        LockEntry::range::<Fcntl>("fcntl", "locks of an open file description, by the system"),
    ]
}

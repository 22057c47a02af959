//! The locks of Linux on ranges of a file.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;

use crate::error::Error;
use crate::locks::entry::LockEntry;
use crate::locks::range::{BenchRange, Range};

/// `fcntl` with locks of an open file description. Each thread opens the file for itself: otherwise
/// all threads would be one owner.
struct Fcntl(tempfile::NamedTempFile);

impl BenchRange for Fcntl {
    /// The system takes tens of seconds to grant 50,000.
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
    // Length zero: a range that reaches beyond the largest offset reaches to the end.
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
    vec![LockEntry::range::<Fcntl>("fcntl", "locks of an open file description, by the system")]
}

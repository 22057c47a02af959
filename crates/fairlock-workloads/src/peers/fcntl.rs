//! The locks of Linux on ranges of a file.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;

use crate::cell::Side;
use crate::error::Error;
use crate::locks::entry::LockEntry;
use crate::locks::range::{BenchRange, Range};

/// `fcntl` with locks of an open file description. Each thread has the file open for itself:
/// otherwise all threads would be one owner.
struct Fcntl(Vec<File>);

impl BenchRange for Fcntl {
    /// The system takes tens of seconds to grant 50,000.
    const MOST_HELD: usize = 4_096;

    fn create(_positions: u64, threads: usize) -> Result<Self, Error> {
        let file = tempfile::NamedTempFile::new().map_err(|error| failed(&error))?;
        let open = |_| OpenOptions::new().read(true).write(true).open(file.path());
        (0..threads).map(open).collect::<Result<_, _>>().map(Self).map_err(|error| failed(&error))
    }

    fn hold<R>(&self, side: Side, thread: usize, range: &Range, section: impl FnOnce() -> R) -> R {
        let (file, reads) = (&self.0[thread], side == Side::Read);
        lock(file, if reads { libc::F_RDLCK } else { libc::F_WRLCK }, range);
        let result = section();
        lock(file, libc::F_UNLCK, range);
        result
    }

    fn keep(&self, thread: usize, range: &Range) {
        lock(&self.0[thread], libc::F_WRLCK, range);
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
    vec![LockEntry::range::<Fcntl>("fcntl")]
}

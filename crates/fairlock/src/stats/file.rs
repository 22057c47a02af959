//! What named locks have counted, as a file where the variable `FAIRLOCK_PROFILE` says; Linux only.
//!
//! `fairlock run` sets that variable for its record of pthread locks, and shows what is here beside it. Without the variable
//! nothing is done. With it, the first use of a named lock starts a thread, which writes the table of
//! [`snapshot`](super::snapshot()) each second, and the end of the process writes it once more. So a program that hangs or is
//! killed leaves what was so up to a second before.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::string::String;
use std::sync::{Mutex, OnceLock};
use std::{format, fs, io, process, thread};

/// Signals, as the C library has them.
type Signals = [u64; 16];

const SIG_SETMASK: c_int = 2;

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
    fn secure_getenv(name: *const c_char) -> *const c_char;
    fn sigfillset(set: *mut Signals) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const Signals, old: *mut Signals) -> c_int;
}

static PATH: OnceLock<PathBuf> = OnceLock::new();
/// The process that writes: not its children.
static WRITER: AtomicU32 = AtomicU32::new(0);
static WRITES: Mutex<()> = Mutex::new(());
static NAMES: OnceLock<fn(usize) -> Option<String>> = OnceLock::new();

/// Addresses in the file are replaced by what `name` returns.
#[doc(hidden)] // for libfairlock
pub fn name_addresses(name: fn(usize) -> Option<String>) {
    NAMES.get_or_init(|| name);
}

/// A named lock is used.
pub(super) fn begin() {
    static IS_BEGUN: AtomicBool = AtomicBool::new(false);
    // Relaxed, here and below: what is written once is known to those that come later.
    if IS_BEGUN.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Some(path) = path() {
        PATH.get_or_init(|| path);
        WRITER.store(process::id(), Ordering::Relaxed);
        // SAFETY: a function that may run at any time until the process has ended.
        unsafe { atexit(at_end) };
        start();
    }
}

/// Of a program with more rights than its user has, that user chooses no file.
fn path() -> Option<PathBuf> {
    // SAFETY: a string; the answer is null or one.
    let value = unsafe { secure_getenv(c"FAIRLOCK_PROFILE".as_ptr()).as_ref() }?;
    // SAFETY: as above; it is copied before the program changes its environment.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    let path = PathBuf::from(OsStr::from_bytes(value));
    let pid = process::id();
    if value.ends_with(b"/") || path.is_dir() {
        return Some(path.join(format!("{pid}.named")));
    }
    let path = path.to_str().filter(|path| !path.is_empty())?;
    Some(format!("{}.named", path.replace("%p", &format!("{pid}"))).into())
}

/// Starts the thread, which gets none of the program's signals.
fn start() {
    let (mut all, mut before) = (Signals::default(), Signals::default());
    // SAFETY: sets of signals, which are as large as the C library's at least.
    unsafe {
        sigfillset(&mut all);
        pthread_sigmask(SIG_SETMASK, &all, &mut before);
    }
    let writes = || {
        loop {
            thread::sleep(Duration::from_secs(1));
            _ = write();
        }
    };
    // If there can be no thread, the end of the process writes.
    _ = thread::Builder::new().name("fairlock-stats".into()).spawn(writes);
    // SAFETY: as above.
    unsafe { pthread_sigmask(SIG_SETMASK, &before, ptr::null_mut()) };
}

extern "C" fn at_end() {
    _ = write();
}

/// Replaces the file. In the child of a fork nothing is done, as other threads may have held what that needs.
fn write() -> io::Result<()> {
    let Some(path) = PATH.get().filter(|_| WRITER.load(Ordering::Relaxed) == process::id()) else {
        return Ok(());
    };
    let _writes = WRITES.lock();
    let now = super::snapshot();
    let now = if let Some(name) = NAMES.get() { now.with_names(name) } else { now };
    let new = path.with_extension("named.new");
    _ = fs::remove_file(&new);
    let mut file = fs::File::options().write(true).create_new(true).open(&new)?;
    file.write_all(format!("{now}").as_bytes())?;
    fs::rename(&new, path)
}

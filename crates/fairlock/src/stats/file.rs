//! What named locks have counted, as a file where the variable `FAIRLOCK_PROFILE` says; Linux only.
//!
//! `fairlock run` sets that variable for its record of pthread locks, and reads what is here with it. Without the variable
//! nothing is done. With it, the first use of a named lock starts a thread, which writes a
//! record each second, and the end of the process writes it once more. So a program that hangs or is
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
use std::time::{SystemTime, UNIX_EPOCH};
use std::{format, fs, io, process, thread};

use fairlock_profile::Record;

use crate::platform::{Native, System};

/// Signals, as the C library has them.
type Signals = [u64; 16];

const SIG_SETMASK: c_int = 2;

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> c_int;
    fn secure_getenv(name: *const c_char) -> *const c_char;
    fn sigfillset(set: *mut Signals) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const Signals, old: *mut Signals) -> c_int;
}

/// Where the record is, how it is made, and when it began: by the clock of waits, and since 1970.
struct Target {
    make: fn() -> Record,
    path: PathBuf,
    began_ns: u64,
    began_unix_ns: u64,
}

static TARGET: OnceLock<Target> = OnceLock::new();
/// The process that writes: not its children.
static WRITER: AtomicU32 = AtomicU32::new(0);
static WRITES: Mutex<()> = Mutex::new(());

/// A named lock is used. `make` makes a record of all of them.
pub(super) fn begin(make: fn() -> Record) {
    static IS_BEGUN: AtomicBool = AtomicBool::new(false);
    // Relaxed, here and below: what is written once is known to those that come later.
    if IS_BEGUN.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Some(path) = path() {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began_unix_ns = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
        TARGET.get_or_init(|| Target { make, path, began_ns: Native::now(), began_unix_ns });
        WRITER.store(process::id(), Ordering::Relaxed);
        // SAFETY: a function that may run at any time until the process has ended.
        unsafe { atexit(at_end) };
        start();
    }
}

/// Of a program with more rights than its user has, that user chooses no file. A program that calls `exec` has more
/// files than one.
fn path() -> Option<PathBuf> {
    // SAFETY: a string; the answer is null or one.
    let value = unsafe { secure_getenv(c"FAIRLOCK_PROFILE".as_ptr()).as_ref() }?;
    // SAFETY: as above; it is copied before the program changes its environment.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    let path = PathBuf::from(OsStr::from_bytes(value));
    let pid = process::id();
    if value.ends_with(b"/") || path.is_dir() {
        let named = |number: u32| match number {
            0 => path.join(format!("{pid}.named")),
            _ => path.join(format!("{pid}.{number}.named")),
        };
        return (0..100).map(named).find(|path| fs::symlink_metadata(path).is_err());
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
            _ = write(false);
        }
    };
    // If there can be no thread, the end of the process writes.
    _ = thread::Builder::new().name("fairlock-stats".into()).spawn(writes);
    // SAFETY: as above.
    unsafe { pthread_sigmask(SIG_SETMASK, &before, ptr::null_mut()) };
}

extern "C" fn at_end() {
    _ = write(true);
}

/// Replaces the file. In the child of a fork nothing is done, as other threads may have held what that needs.
fn write(is_end: bool) -> io::Result<()> {
    let Some(target) = TARGET.get().filter(|_| WRITER.load(Ordering::Relaxed) == process::id())
    else {
        return Ok(());
    };
    let _writes = WRITES.lock();
    let mut record = (target.make)();
    record.pid = process::id();
    record.began_ns = target.began_ns;
    record.began_unix_ns = target.began_unix_ns;
    record.ended_ns = record.as_of_ns.filter(|_| is_end);
    record.policy = String::from("default");
    let program = fs::read_link("/proc/self/exe").unwrap_or_default();
    record.program = program.to_string_lossy().into_owned();
    // Places of C are addresses.
    if record.stacks().next().is_some() {
        record.read_maps(&fs::read_to_string("/proc/self/maps").unwrap_or_default());
    }
    let new = target.path.with_extension("named.new");
    _ = fs::remove_file(&new);
    let mut file = fs::File::options().write(true).create_new(true).open(&new)?;
    file.write_all(&record.to_bytes())?;
    fs::rename(&new, &target.path)
}

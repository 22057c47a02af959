//! What named locks have counted, as a file where the variable `FAIRLOCK_PROFILE` says; Linux only.
//!
//! `fairlock run` sets that variable for its record of pthread locks, and reads what is here with it. Without the variable
//! nothing is done. With it, the first use of a named lock starts a thread, which writes a
//! record each second, and the end of the process writes it once more. So a program that hangs or is
//! killed leaves what was so up to a second before. The child of a fork does so from its first wait on.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use core::time::Duration;
use std::boxed::Box;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::string::String;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{format, fs, io, process, thread};

use fairlock_profile::Record;
use fairlock_profile::layout::{NAMED, NEW};

use crate::platform::{Native, System};
use crate::system::fork;

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
    make: fn() -> Option<Record>,
    path: PathBuf,
    /// The process that writes it, and the one that it was forked from.
    pid: u32,
    parent: Option<u32>,
    began_ns: u64,
    began_unix_ns: u64,
}

/// That of this process, or of the one that it was forked from; null if there is none.
static TARGET: AtomicPtr<Target> = AtomicPtr::new(ptr::null_mut());
/// The process is the child of a fork, and has no target of its own yet.
static IS_CHILD: AtomicBool = AtomicBool::new(false);
/// The process of which a thread writes; zero: none does. Not a mutex: the child of a fork would find it locked for ever.
static WRITES: AtomicU32 = AtomicU32::new(0);

fn target() -> Option<&'static Target> {
    // SAFETY: null, or a box that is never freed. Acquire: as it was made.
    unsafe { TARGET.load(Ordering::Acquire).as_ref() }
}

/// A named lock is used. `make` makes a record of all of them, unless others keep it from that.
pub(super) fn begin(make: fn() -> Option<Record>) {
    static IS_BEGUN: AtomicBool = AtomicBool::new(false);
    // Relaxed: what is written once is known to those that come later.
    if IS_BEGUN.swap(true, Ordering::Relaxed) {
        return;
    }
    let Some(path) = path(None) else { return };
    set_target(make, path, None);
    // SAFETY: a function that may run at any time until the process has ended.
    unsafe { atexit(at_end) };
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    fork::tell(&IS_TOLD, in_child);
    start();
}

extern "C" fn in_child() {
    super::threads::enter_child();
    // Relaxed, here and below: the child has one thread, and those that it starts come later.
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// A thread is about to wait for a named lock: in the child of a fork, its record begins. A child that
/// calls `exec`, or has nothing to wait for, has none.
#[inline]
pub(super) fn begin_in_child() {
    if IS_CHILD.load(Ordering::Relaxed) && IS_CHILD.swap(false, Ordering::Relaxed) {
        let Some(Target { make, pid, .. }) = target() else { return };
        if let Some(path) = path(Some(*pid)) {
            set_target(*make, path, Some(*pid));
            start();
        }
    }
}

fn set_target(make: fn() -> Option<Record>, path: PathBuf, parent: Option<u32>) {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let began_unix_ns = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
    let (pid, began_ns) = (process::id(), Native::now());
    let target = Box::new(Target { make, path, pid, parent, began_ns, began_unix_ns });
    // Release: see `target`. The parent's is left where it is.
    TARGET.store(Box::into_raw(target), Ordering::Release);
}

/// Of a program with more rights than its user has, that user chooses no file. A program that calls `exec` has more
/// files than one. A child has one only where its parent's is another.
fn path(parent: Option<u32>) -> Option<PathBuf> {
    // SAFETY: a string; the answer is null or one.
    let value = unsafe { secure_getenv(c"FAIRLOCK_PROFILE".as_ptr()).as_ref() }?;
    // SAFETY: as above; it is copied before the program changes its environment.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    let path = PathBuf::from(OsStr::from_bytes(value));
    let pid = process::id();
    if value.ends_with(b"/") || path.is_dir() {
        let named = |number: u32| match number {
            0 => path.join(format!("{pid}{NAMED}")),
            _ => path.join(format!("{pid}.{number}{NAMED}")),
        };
        return (0..100).map(named).find(|path| fs::symlink_metadata(path).is_err());
    }
    let path = path.to_str().filter(|path| !path.is_empty())?;
    (parent.is_none() || path.contains("%p"))
        .then(|| (path.replace("%p", &format!("{pid}")) + NAMED).into())
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

/// Replaces the file; nothing is done in a child without one.
fn write(is_end: bool) -> io::Result<()> {
    let pid = process::id();
    let Some(target) = target().filter(|target| target.pid == pid) else { return Ok(()) };
    // Acquire, and Release below: one after the other. What the child of a fork finds is its parent's.
    while WRITES.swap(pid, Ordering::Acquire) == pid {
        thread::sleep(Duration::from_millis(1));
    }
    let result = (target.make)().map_or(Ok(()), |record| put(target, record, is_end));
    WRITES.store(0, Ordering::Release);
    result
}

fn put(target: &Target, mut record: Record, is_end: bool) -> io::Result<()> {
    record.pid = target.pid;
    record.parent = target.parent;
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
    let mut new = target.path.clone().into_os_string();
    new.push(NEW);
    _ = fs::remove_file(&new);
    let mut file = fs::File::options().write(true).create_new(true).open(&new)?;
    file.write_all(&record.to_bytes())?;
    fs::rename(&new, &target.path)
}

//! The report on all locks, for `FAIRLOCK_STATS`.
//!
//! One line of JSON for each address that had a lock: what was counted since the process began (or
//! since the fork), and who is inside at the moment. Written when the process exits and, if
//! `FAIRLOCK_STATS_SIGNAL` is set, whenever it gets a SIGUSR2. The signal handler itself writes it:
//! it only reads atomics, formats numbers in memory that is there already, and writes. Only the
//! names of symbols have to wait for the exit.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::process::text::Text;
use crate::process::{self, config, fork};
use crate::registry::{self, Slot};

/// What the writer of a report needs. None of it is on a stack: that of a signal handler may be
/// small.
struct Workshop {
    /// The process (see [`fork::number`]) in which somebody writes a report.
    busy: AtomicU32,
    /// The process that the file's name was given to; other processes write to files of their own.
    owner: AtomicU32,
    tools: UnsafeCell<Tools>,
}

// SAFETY: `tools` is used by whoever set `busy`, and before there is a second thread.
unsafe impl Sync for Workshop {}

struct Tools {
    /// The path that was asked for, from the root.
    path: Text<{ libc::PATH_MAX as usize }>,
    /// The file's name in this process.
    name: Text<{ libc::PATH_MAX as usize }>,
    file: File,
}

static WORKSHOP: Workshop = Workshop {
    busy: AtomicU32::new(0),
    owner: AtomicU32::new(0),
    tools: UnsafeCell::new(Tools {
        path: Text::EMPTY,
        name: Text::EMPTY,
        file: File { fd: -1, failed: false, text: Text::EMPTY },
    }),
};

/// Called when the library is loaded.
pub(crate) fn start() {
    let Some(path) = config::variable(c"FAIRLOCK_STATS") else { return };
    // SAFETY: the process has one thread.
    let tools = unsafe { &mut *WORKSHOP.tools.get() };
    if path.to_bytes().first() != Some(&b'/') && tools.path.set_to_working_folder() {
        tools.path.push(b"/");
    }
    tools.path.push(path.to_bytes());
    WORKSHOP.owner.store(find_owner(tools.path.as_c_str()), Ordering::Relaxed);
    if config::variable(c"FAIRLOCK_STATS_SIGNAL").is_some() {
        listen();
    }
}

const OWNER: &CStr = c"FAIRLOCK_STATS_PID";

/// The process that the file belongs to: the first one that was given its name. Its children
/// inherit the environment, and find its number there, and `path` from the root, whatever their
/// working folder is.
fn find_owner(path: &CStr) -> u32 {
    let named = config::variable(OWNER).and_then(|number| number.to_str().ok()?.parse().ok());
    if let Some(owner) = named {
        return owner;
    }
    let pid = pid();
    let mut number = Text::<16>::EMPTY;
    let _ = write!(number, "{pid}");
    // SAFETY: C strings; the process has one thread. If there is no memory for it, the children
    // write to this process's file.
    unsafe {
        libc::setenv(OWNER.as_ptr(), number.as_c_str().as_ptr(), 1);
        libc::setenv(c"FAIRLOCK_STATS".as_ptr(), path.as_ptr(), 1);
    }
    pid
}

/// Has SIGUSR2 ask for a report, if it does not mean anything else to the program: the program may
/// have been told to ignore it, and may set a handler of its own at any time.
fn listen() {
    // SAFETY: both actions are plain data; the handler may be called at any time.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        if libc::sigaction(libc::SIGUSR2, core::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_DFL
        {
            action.sa_sigaction = on_signal as extern "C" fn(c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGUSR2, &action, core::ptr::null_mut());
        }
    }
}

extern "C" fn on_signal(_signal: c_int) {
    // `errno` is restored, so the program does not notice.
    let errno = process::errno();
    let before = errno.get();
    write_report(false);
    errno.set(before);
}

/// Called when the process exits.
pub(crate) fn at_exit() {
    // If another thread writes a report at this moment, that will not take long.
    for _ in 0..1000 {
        if write_report(true) {
            return;
        }
        // SAFETY: a number.
        unsafe { libc::usleep(1000) };
    }
}

/// Writes the report, with the names of symbols if `symbols`. False, and nothing is written, if
/// another thread is writing one.
fn write_report(symbols: bool) -> bool {
    // Acquire and Release: the tools change hands.
    let here = fork::number();
    if WORKSHOP.busy.swap(here, Ordering::Acquire) == here {
        return false;
    }
    // SAFETY: `busy` was set by this thread.
    let tools = unsafe { &mut *WORKSHOP.tools.get() };
    tools.name_file();
    tools.file.open(tools.name.as_c_str());
    for slot in registry::assigned() {
        let _ = write_slot(&mut tools.file, slot, symbols);
    }
    if !tools.file.close() {
        process::say("fairlock: cannot write the file that FAIRLOCK_STATS names\n");
    }
    WORKSHOP.busy.store(0, Ordering::Release);
    true
}

fn write_slot(file: &mut File, slot: &Slot, symbols: bool) -> fmt::Result {
    let stats = &slot.stats;
    // Otherwise the slot has not been used in this process.
    let counts = slot.is_of_process(fork::number());
    let counted = |count: &AtomicU64| if counts { count.load(Ordering::Relaxed) } else { 0 };
    let address = slot.address();
    write!(file, r#"{{"pid":{},"policy":""#, pid())?;
    file.text(config::POLICY_NAME.as_bytes())?;
    let is_mutex = stats.kind.load(Ordering::Relaxed) == config::Kind::Mutex as u8;
    let kind = if is_mutex { "mutex" } else { "rwlock" };
    write!(file, r#"","kind":"{kind}","address":"{address:#x}""#)?;
    write_names(file, address, symbols)?;
    for (key, count) in [
        ("reads", &stats.reads),
        ("writes", &stats.writes),
        ("waits", &stats.waits),
        ("wait_total_ns", &stats.waited_ns),
        ("wait_max_ns", &stats.longest_ns),
    ] {
        write!(file, r#","{key}":{}"#, counted(count))?;
    }
    let now = slot.sem().snapshot();
    let writer = if now.writer { stats.writer.load(Ordering::Relaxed) } else { 0 };
    let destroyed = stats.destroyed.load(Ordering::Relaxed);
    write!(file, r#","readers":{},"writer":{writer},"waiting":{}"#, now.readers, now.waiters)?;
    write!(file, r#","destroyed":{destroyed},"events":{{"#)?;
    let mut comma = "";
    let events = stats.events.snapshot();
    for (event, count) in events.iter().filter(|&(_, count)| counts && count != 0) {
        write!(file, r#"{comma}"{}":{count}"#, event.name())?;
        comma = ",";
    }
    file.write_str("}}\n")
}

/// The object file and the symbol that the lock is in; locks in allocated memory are in none.
fn write_names(file: &mut File, address: usize, symbols: bool) -> fmt::Result {
    // SAFETY: plain data.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: any address will do. Not in a signal handler: it takes a lock.
    if symbols && unsafe { libc::dladdr(address as *const _, &mut info) } == 0 {
        // SAFETY: plain data.
        info = unsafe { core::mem::zeroed() };
    }
    let null_or = |name: *const c_char| {
        // SAFETY: null, or a C string in a loaded object.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes())
    };
    for (key, name) in [("object", info.dli_fname), ("symbol", info.dli_sname)] {
        write!(file, r#","{key}":"#)?;
        match null_or(name) {
            None => file.write_str("null")?,
            Some(name) => {
                file.write_char('"')?;
                file.text(name)?;
                file.write_char('"')?;
            }
        }
    }
    // The offset is from the symbol, or else from where the object was loaded.
    let base = if info.dli_saddr.is_null() { info.dli_fbase } else { info.dli_saddr };
    let offset = if info.dli_fname.is_null() { 0 } else { address - base as usize };
    write!(file, r#","offset":{offset}"#)
}

fn pid() -> u32 {
    // SAFETY: no arguments, and never fails.
    unsafe { libc::getpid() as u32 }
}

impl Tools {
    /// Puts this process's number in place of each `%p` of the path. If there is none, processes
    /// other than the owner append their number.
    fn name_file(&mut self) {
        self.name.clear();
        let mut numbered = pid() == WORKSHOP.owner.load(Ordering::Relaxed);
        numbered |= self.name.push_numbered(self.path.as_bytes(), pid());
        if !numbered {
            let _ = write!(self.name, ".{}", pid());
        }
    }
}

/// A file that is written in pieces.
struct File {
    fd: c_int,
    failed: bool,
    text: Text<4096>,
}

impl File {
    fn open(&mut self, name: &CStr) {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        // SAFETY: a C string.
        self.fd = unsafe { libc::open(name.as_ptr(), flags, 0o666) };
        self.failed = self.fd < 0;
        self.text.clear();
    }

    /// Whether everything was written.
    fn close(&mut self) -> bool {
        self.flush();
        if self.fd >= 0 {
            // SAFETY: opened above, and not used any more.
            self.failed |= unsafe { libc::close(self.fd) } != 0;
        }
        !self.failed
    }

    fn flush(&mut self) {
        let mut rest = self.text.as_bytes();
        while !rest.is_empty() && !self.failed {
            // SAFETY: bytes to read.
            let written = unsafe { libc::write(self.fd, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) => rest = &rest[written..],
                Err(_) => self.failed = process::errno().get() != libc::EINTR,
            }
        }
        self.text.clear();
    }

    /// Writes what stands between the quotes of a string in JSON.
    fn text(&mut self, bytes: &[u8]) -> fmt::Result {
        for &byte in bytes {
            match byte {
                b'"' | b'\\' => write!(self, "\\{}", char::from(byte))?,
                b' '..=b'~' => self.write_char(char::from(byte))?,
                // Names in other encodings come out as if they were Latin-1.
                _ => write!(self, "\\u{byte:04x}")?,
            }
        }
        Ok(())
    }
}

impl Write for File {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !self.text.has_room_for(text.len()) {
            self.flush();
        }
        self.text.push(text.as_bytes());
        Ok(())
    }
}

//! Where each thread of the process is.

use std::backtrace::Backtrace;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libc::{c_int, pid_t};

/// How long a thread has for its stack. To find its names takes seconds, the first time.
const PATIENCE: Duration = Duration::from_secs(30);

/// The thread that has printed its stack last.
static PRINTED: AtomicI32 = AtomicI32::new(0);

/// Prints them, past the test harness. One after the other: a signal makes each print its
/// own. That is more than a handler of signals may do, so it is waited for with a bound; and
/// the process ends with it.
pub(crate) fn print() {
    static ONCE: Mutex<()> = Mutex::new(());
    // The second one to come would only disturb, and the first ends the process.
    let _once = ONCE.lock();
    let signal = libc::SIGRTMAX() - 1;
    // SAFETY: a zeroed `sigaction` is a valid one; what the handler does is said above.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
    for thread in threads().into_iter().filter(|&thread| thread != this_thread()) {
        let name = name(thread);
        // SAFETY: sends a signal that has a handler, if there still is such a thread.
        let sent =
            unsafe { libc::syscall(libc::SYS_tgkill, std::process::id() as pid_t, thread, signal) };
        let began = Instant::now();
        while sent == 0 && PRINTED.load(Ordering::Acquire) != thread {
            if began.elapsed() > PATIENCE {
                let _ = writeln!(io::stderr(), "thread {thread} `{name}` does not say where it is");
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

extern "C" fn handler(_signal: c_int) {
    let (id, name) = (this_thread(), crate::name());
    // Not on 32-bit x86: to walk past the system calls of the locks ends with a fault there.
    let stack = if cfg!(target_pointer_width = "64") {
        below_the_handler(&Backtrace::force_capture().to_string())
    } else {
        String::from("   a stack that is not shown\n")
    };
    let _ = write!(io::stderr(), "thread {id} `{name}` is in\n{stack}");
    PRINTED.store(id, Ordering::Release);
}

/// The part of a printed stack that is the thread's own.
fn below_the_handler(stack: &str) -> String {
    let mut below = String::new();
    let mut is_own = false;
    for line in stack.lines() {
        if line.contains("__rust_begin_short_backtrace") {
            break;
        }
        let is_place = line.trim_start().starts_with("at ");
        if is_own && !line.contains("at /rustc/") && !line.contains("<unknown>") {
            let _ = writeln!(below, "{line}");
        }
        // The frame that the kernel made for the handler has no name everywhere.
        is_own |= is_place && line.contains(file!()) || line.contains("__restore_rt");
    }
    if below.is_empty() { stack.to_owned() } else { below }
}

/// The threads of this process but for its first, which waits for the tests.
pub(crate) fn threads() -> Vec<pid_t> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let threads = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    threads.filter(|&thread| thread != std::process::id() as pid_t).collect()
}

pub(crate) fn this_thread() -> pid_t {
    // SAFETY: always succeeds.
    unsafe { libc::gettid() }
}

/// The first characters of its name.
pub(crate) fn name(thread: pid_t) -> String {
    let name = fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
    name.map_or_else(|_| String::from("gone"), |name| name.trim_end().to_owned())
}

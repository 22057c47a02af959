//! When the process starts, forks and ends, and when a thread ends: what each part is to be told
//! then, and in which order.

use core::ffi::c_void;

use crate::process::config::{self, Mode};
use crate::process::{self, fork, glibc, real, unwinder};
use crate::profile;
use crate::thread;

/// Its name tells `fairlock run` what this library is, and which version.
#[cfg(not(test))]
#[unsafe(export_name = concat!("fairlock_preload_", env!("CARGO_PKG_VERSION")))]
static NAME: u8 = 0;

/// Runs when the library is loaded. Locks may be used before that: they work without what is done
/// here, but it is best done while there is no other thread.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    // Later it could be a signal handler that looks it up.
    real::look_up_syscall();
    if config::has_thread_sanitizer() {
        process::say(
            "fairlock: ThreadSanitizer knows only glibc's locks: this program keeps them, and nothing is recorded\n",
        );
    }
    if config::mode() == Mode::Off && !profile::is_on() {
        return;
    }
    thread::start(thread_ends);
    thread::jump::start();
    unwinder::start();
    glibc::start();
    // In the child this resets the number where the kernel does not wipe the page; it may run after
    // other handlers that use locks.
    // SAFETY: the functions are there as long as the library is. If it fails there is no
    // memory, and the program will not fork.
    unsafe { libc::pthread_atfork(Some(fork::before), None, Some(in_child)) };
    // Each looks symbols up once. Done later, that could wait for a thread that loads a library
    // and, in its constructor, waits for a lock.
    real::resolve();
    #[cfg(not(test))]
    crate::posix::observed::start();
    thread::ask();
    if profile::is_on() {
        profile::start();
    }
}

extern "C" fn in_child() {
    fork::in_child();
    thread::enter_child();
}

/// Other destructors of the thread may use locks after this one: then it is called again.
extern "C" fn thread_ends(_: *mut c_void) {
    profile::thread_ends();
    thread::tidy_up();
}

/// Runs when the process exits, after what the program does then.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn end() {
    if profile::is_on() {
        profile::end();
    }
}

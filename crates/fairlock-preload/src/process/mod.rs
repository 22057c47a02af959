//! What there is once in the process.

pub(crate) mod alone;
pub(crate) mod config;
pub(crate) mod fork;
pub(crate) mod memory;
pub(crate) mod mutex;
pub(crate) mod pool;
#[cfg_attr(test, allow(dead_code, reason = "called by the exported functions only"))]
pub(crate) mod real;
pub(crate) mod registry;
mod report;
pub(crate) mod signals;
pub(crate) mod table;
pub(crate) mod text;

use fairlock::platform::System;

use crate::profile;
use crate::thread::{self, platform::Preload};

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

#[cfg_attr(test, allow(dead_code, reason = "tests start what they need"))]
extern "C" fn start() {
    // Later it could be a signal handler that looks it up.
    real::look_up_syscall();
    if config::mode() == config::Mode::Off && !profile::is_on() {
        return;
    }
    thread::start();
    alone::start();
    fork::start();
    // Each looks symbols up once. Done later, that could wait for a thread that loads a library
    // and, in its constructor, waits for a lock.
    real::resolve();
    #[cfg(not(test))]
    crate::posix::spin::start();
    Preload::cpu();
    if config::mode() == config::Mode::Stats {
        report::start();
    }
    if profile::is_on() {
        profile::start();
    }
}

/// Runs when the process exits, after what the program does then.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

#[cfg_attr(test, allow(dead_code, reason = "a test's process is not observed"))]
extern "C" fn end() {
    if config::mode() == config::Mode::Stats {
        report::at_exit();
    }
    if profile::is_on() {
        profile::end();
    }
}

/// Says something on the standard error stream.
pub(crate) fn say(text: &str) {
    // Not libc's `write`, which is a cancellation point, as locking is not.
    // SAFETY: bytes to read. If it fails there is nobody to tell.
    unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, text.as_ptr(), text.len()) };
}

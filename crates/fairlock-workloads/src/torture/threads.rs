//! What the system knows of threads, and does to them: Linux only; elsewhere nothing happens, and nothing is known.

use fairlock::platform::{Native, System};
pub use here::is_known;
pub(super) use here::{Delays, begin, delay_of, interrupt, is_runnable, move_to, thread_number};

/// The clock of all this, in nanoseconds.
pub(super) fn now() -> u64 {
    Native::now()
}

#[cfg(target_os = "linux")]
mod here {
    use std::sync::atomic::{AtomicI32, Ordering};

    use crate::schedstat::{Schedstat, Times};

    /// For how long a thread wanted a CPU and had none.
    pub(crate) struct Delays(Option<Schedstat>);

    impl Delays {
        /// Of the calling thread.
        pub(crate) fn own() -> Self {
            Self(Schedstat::of_this_thread())
        }

        /// So far, in nanoseconds; zero where the system does not say.
        pub(crate) fn total(&self) -> u64 {
            self.times().runnable_ns
        }

        /// The same, and the time for which it had one.
        pub(crate) fn wanted(&self) -> u64 {
            let times = self.times();
            times.ran_ns + times.runnable_ns
        }

        fn times(&self) -> Times {
            self.0.as_ref().and_then(Schedstat::times).unwrap_or_default()
        }
    }

    /// The same of another thread of this process.
    pub(crate) fn delay_of(thread: i32) -> u64 {
        Delays(Schedstat::of(thread)).total()
    }

    /// Whether a thread of this process has a CPU, or would take one.
    pub(crate) fn is_runnable(thread: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
        // The name may contain anything, but ends with the last parenthesis.
        stat.is_ok_and(|stat| {
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim().starts_with('R'))
        })
    }

    /// Whether the system says so.
    pub fn is_known() -> bool {
        Schedstat::of_this_thread().is_some()
    }

    pub(crate) fn thread_number() -> i32 {
        // SAFETY: takes and does nothing.
        unsafe { libc::gettid() }
    }

    /// How many signals have come: a handler has to do something, or nobody could tell that it ran.
    static SIGNALS: AtomicI32 = AtomicI32::new(0);

    extern "C" fn handle(_: libc::c_int) {
        // Relaxed: a count.
        SIGNALS.fetch_add(1, Ordering::Relaxed);
    }

    /// Installs the handler of [`interrupt`].
    pub(crate) fn begin() {
        // SAFETY: all zero is a valid action; the handler only adds to a number, which a handler may do.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut());
        }
    }

    /// Sends a signal to a thread of this process; nothing happens if it has ended.
    pub(crate) fn interrupt(thread: i32) {
        // SAFETY: the handler is installed, and the call names this process, so a number that was given
        // anew reaches at worst another thread of it.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) };
    }

    /// Lets a thread run on one CPU only, of those that this process may use; `None`: on all of them. And makes it as nice as that.
    pub(crate) fn move_to(thread: i32, cpu: Option<usize>, nice: i32) {
        // SAFETY: the set is of this frame, and the calls fail where the thread is gone or may not.
        unsafe {
            let mut all: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(libc::getpid(), size_of_val(&all), &mut all);
            let mut allowed =
                (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &all));
            let count = libc::CPU_COUNT(&all).max(1) as usize;
            let set = match cpu.and_then(|cpu| allowed.nth(cpu % count)) {
                Some(cpu) => {
                    let mut one: libc::cpu_set_t = std::mem::zeroed();
                    libc::CPU_SET(cpu, &mut one);
                    one
                }
                None => all,
            };
            libc::sched_setaffinity(thread, size_of_val(&set), &set);
            libc::setpriority(libc::PRIO_PROCESS, thread as libc::id_t, nice);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod here {
    pub(crate) struct Delays;

    impl Delays {
        pub(crate) fn own() -> Self {
            Self
        }

        pub(crate) fn total(&self) -> u64 {
            0
        }

        pub(crate) fn wanted(&self) -> u64 {
            0
        }
    }

    pub(crate) fn delay_of(_thread: i32) -> u64 {
        0
    }

    pub(crate) fn is_runnable(_thread: i32) -> bool {
        false
    }

    pub fn is_known() -> bool {
        false
    }

    pub(crate) fn thread_number() -> i32 {
        0
    }

    pub(crate) fn begin() {}

    pub(crate) fn interrupt(_thread: i32) {}

    pub(crate) fn move_to(_thread: i32, _cpu: Option<usize>, _nice: i32) {}
}

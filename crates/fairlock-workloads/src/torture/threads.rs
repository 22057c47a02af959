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
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicI32, Ordering};

    /// For how long a thread wanted a CPU and had none.
    pub(crate) struct Delays(Option<File>);

    impl Delays {
        /// Of the calling thread.
        pub(crate) fn own() -> Self {
            Self(File::open("/proc/thread-self/schedstat").ok())
        }

        /// So far, in nanoseconds; zero where the system does not say.
        pub(crate) fn total(&self) -> u64 {
            self.numbers()[1]
        }

        /// The same, and the time for which it had one.
        pub(crate) fn wanted(&self) -> u64 {
            self.numbers().iter().sum()
        }

        fn numbers(&self) -> [u64; 2] {
            let mut text = [0; 96];
            let read = self.0.as_ref().map_or(0, |file| file.read_at(&mut text, 0).unwrap_or(0));
            parse(&text[..read])
        }
    }

    /// The first two of three numbers: for how long it had a CPU, and for how long it lacked one.
    fn parse(text: &[u8]) -> [u64; 2] {
        let mut numbers = std::str::from_utf8(text).unwrap_or("").split_whitespace();
        [(); 2].map(|()| numbers.next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
    }

    /// The same of another thread of this process.
    pub(crate) fn delay_of(thread: i32) -> u64 {
        std::fs::read(format!("/proc/self/task/{thread}/schedstat"))
            .map_or(0, |text| parse(&text)[1])
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
        std::fs::read("/proc/thread-self/schedstat").is_ok_and(|text| text.len() > 4)
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

    #[cfg(test)]
    #[test]
    fn run_delay_is_the_second_number() {
        assert_eq!(parse(b"12 345 6\n"), [12, 345]);
        assert_eq!(parse(b""), [0, 0]);
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

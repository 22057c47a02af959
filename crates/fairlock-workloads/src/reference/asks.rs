//! What some of these locks ask beside what all [`Platform`]s say.

use fairlock::platform::Platform;
use fairlock::platform::portable::Portable;
use fairlock_sim::Sim;

pub trait Asks: Platform {
    /// The calling thread's number: threads that live at the same time have different ones.
    fn number() -> usize;
    /// The socket that the calling thread is in; zero where that is not known.
    fn socket() -> usize {
        0
    }
}

/// The calling thread's number, on real machines.
fn counted() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    std::thread_local! {
        // Relaxed: only that they differ matters.
        static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

// Elsewhere the native platform is the portable one.
#[cfg(all(target_os = "linux", not(miri)))]
impl Asks for fairlock::platform::Native {
    fn number() -> usize {
        counted()
    }

    fn socket() -> usize {
        use fairlock::platform::System;
        static SOCKETS: std::sync::OnceLock<Vec<usize>> = std::sync::OnceLock::new();
        let of = |cpu| {
            let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
            std::fs::read_to_string(file).ok()?.trim().parse().ok()
        };
        let sockets = SOCKETS.get_or_init(|| (0..).map_while(of).collect());
        Self::cpu().and_then(|cpu| sockets.get(cpu as usize).copied()).unwrap_or(0)
    }
}

impl Asks for Portable {
    fn number() -> usize {
        counted()
    }
}

impl Asks for Sim {
    fn number() -> usize {
        fairlock_sim::thread()
    }

    fn socket() -> usize {
        fairlock_sim::socket()
    }
}

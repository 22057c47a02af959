//! What some of these locks ask beside what all [`Platform`]s say.

use fairlock::platform::Platform;
use fairlock::platform::portable::Portable;
use fairlock_sim::Sim;

pub trait Asks: Platform {
    /// The calling thread's number: threads that live at the same time have different ones.
    fn number() -> usize;
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
}

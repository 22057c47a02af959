//! Ends a test program in which a test takes too long.
//!
//! The test harness has a thread for each test, so a test's time is that of its thread. What
//! a thread is for is not asked: none but the first lives as long as the program.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::{ENDS, end, limit, stacks};

/// The loader calls it before `main`, in every program that this crate is linked to.
#[used]
// SAFETY: the section is for pointers to such functions.
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    // What `end` says is enough.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !ENDS.load(Ordering::Relaxed) {
            hook(panic);
        }
    }));
    let watchdog = thread::Builder::new().name("watchdog".into()).spawn(watch);
    watchdog.expect("a thread for the watchdog");
}

fn watch() {
    let (limit, own) = (limit(), stacks::this_thread());
    let sleep = Duration::from_millis(10);
    const SLEEPS: u32 = 50;
    let mut lived: HashMap<libc::pid_t, Duration> = HashMap::new();
    loop {
        let threads = stacks::threads();
        lived.retain(|thread, _| threads.contains(thread));
        for thread in threads.into_iter().filter(|&thread| thread != own) {
            let lived = lived.entry(thread).or_default();
            if *lived > limit {
                let name = stacks::name(thread);
                end(&format!("`{name}` (thread {thread}) has not ended in {limit:?}"));
            }
            *lived += SLEEPS * sleep;
        }
        // As `within` counts.
        (0..SLEEPS).for_each(|_| thread::sleep(sleep));
    }
}

//! Jobs in threads of this process until they are done or the user presses
//! Ctrl-C.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::events::{Event, Events};
use crate::error::Error;

/// The name of the threads that do jobs.
const THREAD: &str = "job";

std::thread_local! {
    /// What the last panic of this thread said, and where.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Does `jobs` jobs, numbered from zero, `at_once` at the same time. The result of each job,
/// or the message of its panic, goes to `done`, in the calling thread.
///
/// Returns whether Ctrl-C ended it early. Jobs that have begun then go on, and their results are
/// lost.
pub fn run<T: Send + 'static>(
    jobs: usize,
    at_once: usize,
    work: impl Fn(usize) -> T + Send + Sync + 'static,
    mut done: impl FnMut(usize, Result<T, String>),
) -> Result<bool, Error> {
    let events = Events::install()?;
    keep_panics();
    let shared = Arc::new((work, AtomicUsize::new(0)));
    for _ in 0..at_once.min(jobs) {
        let (shared, sender) = (Arc::clone(&shared), events.sender());
        let thread = std::thread::Builder::new().name(THREAD.to_owned());
        let spawned = thread.spawn(move || {
            let (work, next) = &*shared;
            loop {
                // Relaxed: only the number matters.
                let job = next.fetch_add(1, Ordering::Relaxed);
                if job >= jobs {
                    return;
                }
                let result = catch_unwind(AssertUnwindSafe(|| work(job)));
                let result = result.map_err(|_| PANIC.take());
                // Sending fails only when nobody waits for the results any more.
                let _ = sender.send(Event::Done((job, result)));
            }
        });
        spawned.map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
    }
    for _ in 0..jobs {
        match events.next(Duration::MAX) {
            Some(Event::Done((job, result))) => done(job, result),
            _ => return Ok(true),
        }
    }
    Ok(false)
}

/// Keeps the message of a job's panic, which becomes the job's result, and does not print it.
fn keep_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name() == Some(THREAD) {
            PANIC.set(info.to_string().replace('\n', " "));
        } else {
            report(info);
        }
    }));
}

//! Busy loops beside a measurement: threads that want a CPU all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use crate::clock::busy;
use crate::error::Error;

/// Busy loops that end when this value is dropped, also by a panic. They are threads of the process
/// that measures, so they end with that, too.
pub struct Background {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Begins this number of loops.
    pub fn begin(loops: usize) -> Result<Self, Error> {
        let mut background = Self { ended: Arc::default(), threads: Vec::new() };
        for _ in 0..loops {
            let ended = Arc::clone(&background.ended);
            // Relaxed: the flag orders nothing.
            let run = move || {
                while !ended.load(Ordering::Relaxed) {
                    busy(1_000);
                }
            };
            let thread = Builder::new().name("busy loop".to_owned()).stack_size(64 << 10);
            background.threads.push(thread.spawn(run).map_err(|error| {
                Error::failed(format!(
                    "cannot start a busy loop: {error}; use a lower --background"
                ))
            })?);
        }
        Ok(background)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The loop cannot panic, so this is no error.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_loops_end_with_what_they_run_beside() {
        let background = Background::begin(3).unwrap();
        let ended = Arc::clone(&background.ended);
        assert_eq!(Arc::strong_count(&ended), 5, "one a loop");
        drop(background);
        assert_eq!(Arc::strong_count(&ended), 1);
    }

    #[test]
    fn busy_loops_end_with_a_panic() {
        let mut ended = Arc::default();
        let measured = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let background = Background::begin(2).unwrap();
            ended = Arc::clone(&background.ended);
            panic!("on purpose");
        }));
        assert!(measured.is_err());
        assert_eq!(Arc::strong_count(&ended), 1);
    }
}

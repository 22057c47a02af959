// What all programs may use, and what runs them; included by them, after their `use` line.

#[allow(unused_imports)]
mod prelude {
    pub use super::locks::*;
    pub use std::cell::Cell;
    pub use std::sync::Arc;
    pub use std::time::{Duration, Instant};

    pub const SHORT: Duration = Duration::from_millis(1);

    pub fn soon() -> Instant {
        Instant::now() + SHORT
    }

    /// Panics without a word on stderr.
    pub fn panic(payload: ()) -> ! {
        std::panic::resume_unwind(Box::new(payload))
    }

    /// Whether `f` panicked.
    pub fn poison(f: impl FnOnce()) -> bool {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err()
    }
}

/// Runs each program in a thread of its own, and says of each how that ended.
fn main() {
    for (number, program) in PROGRAMS {
        let (ended, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let result = std::panic::catch_unwind(program).map_err(|panic| {
                let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
                text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
            });
            let _ = ended.send(result);
        });
        match end.recv_timeout(std::time::Duration::from_secs(20)) {
            Ok(Ok(())) => println!("{number} ok"),
            Ok(Err(panic)) => println!("{number} panics: {}", panic.replace('\n', " ")),
            Err(_) => println!("{number} does not end"),
        }
    }
    // Not before those that have not ended.
    std::process::exit(0);
}

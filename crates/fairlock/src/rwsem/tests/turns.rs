//! Whose turn it is, and for how long.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32};

use super::*;
use crate::rwsem::word::HANDOFF;

/// Rule 7, and more readers than one wake takes: nobody leaves before all are in.
#[test]
fn more_readers_than_one_wake_takes_are_all_let_in() {
    const READERS: usize = 300;
    for_each_policy(|lock| {
        let all_inside = Barrier::new(READERS);
        lock.write();
        scope(|s| {
            let readers: Vec<_> = (0..READERS)
                .map(|_| {
                    s.spawn(|| {
                        lock.read();
                        all_inside.wait();
                        // SAFETY: just taken.
                        unsafe { lock.unlock_read() };
                    })
                })
                .collect();
            until(|| waiters(lock) == READERS);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            readers.into_iter().for_each(|reader| join(reader));
        });
    });
}

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

/// readers' turn.
#[test]
fn reader_is_served_among_writers_that_downgrade() {
    for_each_policy(|lock| {
        let served = AtomicBool::new(false);
        let writes = AtomicU32::new(0);
        let begin = Barrier::new(2);
        scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    while !served.load(Ordering::Relaxed) {
                        lock.write();
                        // Longer than a tenure, so that it ends meanwhile.
                        thread::sleep(Duration::from_millis(6));
                        writes.fetch_add(1, Ordering::Relaxed);
                        // SAFETY: taken above; for reading after the downgrade.
                        unsafe {
                            lock.downgrade();
                            lock.unlock_read();
                        }
                    }
                });
            }
            until(|| lock.has_waiters());
            let reader = s.spawn(|| {
                begin.wait();
                visit(lock, Kind::Reader);
                served.store(true, Ordering::Relaxed);
            });
            begin.wait();
            let before = writes.load(Ordering::Relaxed);
            until(|| {
                let during = writes.load(Ordering::Relaxed) - before;
                if during > 50 {
                    end(&format!("{during} writes while one reader waited"));
                }
                served.load(Ordering::Relaxed)
            });
            println!("{} writes", writes.load(Ordering::Relaxed) - before);
            join(reader);
        });
    });
}

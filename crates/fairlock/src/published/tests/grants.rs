//! Many waiters, or few, each of which has the lock in the end.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32};

use super::*;

/// Rule 7, and more readers than one wake takes: nobody leaves before all are in.
#[test]
fn more_readers_than_one_wake_takes_are_all_let_in() {
    let all = rounds(300);
    for_each_policy(|lock| {
        let all_inside = Barrier::new(all);
        lock.write();
        scope(|s| {
            let readers: Vec<_> = (0..all)
                .map(|_| {
                    s.spawn(|| {
                        lock.read();
                        all_inside.wait();
                        // SAFETY: just taken.
                        unsafe { lock.unlock_read() };
                    })
                })
                .collect();
            until(|| waiters(lock) == all);
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            readers.into_iter().for_each(|reader| join(reader));
        });
    });
}

/// Writers that become readers for a moment do not make that count as the readers' turn.
#[test]
fn reader_is_served_among_writers_that_downgrade() {
    for_each_policy(|lock| {
        let served = AtomicBool::new(false);
        let writes = AtomicU32::new(0);
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
                visit(lock, Kind::Reader);
                served.store(true, Ordering::Relaxed);
            });
            let is_queued = || lock.with_waiters(|waiters| waiters.first(Kind::Reader).is_some());
            until(|| is_queued() || served.load(Ordering::Relaxed));
            let before = writes.load(Ordering::Relaxed);
            until(|| {
                let during = writes.load(Ordering::Relaxed) - before;
                // For many times as long as the reader may have no CPU.
                if during > 1_000 {
                    end(&format!("{during} writes while one reader waited"));
                }
                served.load(Ordering::Relaxed)
            });
            println!("{} writes", writes.load(Ordering::Relaxed) - before);
            join(reader);
        });
    });
}

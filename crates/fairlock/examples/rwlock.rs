//! A tour: a table that many threads read and few change, whose waits can be
//! bounded, ended from outside, and counted.
//!
//! ```sh
//! cargo run -p fairlock --example rwlock
//! ```

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use fairlock::events::EventCounts;
use fairlock::{CancelToken, RwLock, RwLockExt, RwLockWriteGuard, WaitError};

type Table = RwLock<BTreeMap<u64, String>>;

static EVENTS: EventCounts = EventCounts::new();

/// Inserts, then reads its own change back with no other writer in between.
fn insert(table: &Table, key: u64) -> usize {
    let mut rows = table.write();
    rows.insert(key, format!("row {key}"));
    let rows = RwLockWriteGuard::downgrade(rows);
    rows.len()
}

/// A request that would rather fail than wait.
fn look_up(table: &Table, key: u64) -> Result<Option<String>, WaitError> {
    Ok(table.read_for(Duration::from_millis(20))?.get(&key).cloned())
}

fn main() {
    let table = Table::new(BTreeMap::new());
    table.set_events(Some(&EVENTS));
    let shutdown = CancelToken::new();

    thread::scope(|s| {
        for first in [0, 1_000] {
            let table = &table;
            s.spawn(move || {
                for key in first..first + 500 {
                    insert(table, key);
                }
            });
        }
        for _ in 0..4 {
            s.spawn(|| {
                let found = (0..500).filter(|&key| matches!(look_up(&table, key), Ok(Some(_))));
                println!("a reader found {} of 500 rows", found.count());
            });
        }
    });

    // A thread that waits for a lock nobody gives up, until it is told to stop.
    let held = table.write();
    thread::scope(|s| {
        let waiter = s.spawn(|| table.read_cancellable(&shutdown).map(|rows| rows.len()));
        shutdown.cancel();
        println!("shutting down: {}", waiter.join().unwrap().unwrap_err());
    });
    println!("{} rows; on the way:\n{EVENTS}", held.len());
}

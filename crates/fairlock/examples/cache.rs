//! A cache that many threads read, few fill, and one keeps up to date.
//!
//! ```sh
//! cargo run --release -p fairlock --example cache [SECONDS] [READERS]
//! ```
//!
//! Readers leave no gap: there are more of them than CPUs, and each comes back at once. What is
//! to be seen is the longest wait of the thread that refreshes entries: with a lock that lets
//! readers in for ever it would be as long as the run.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::{
    CancelToken, MappedRwLockReadGuard, RwLock, RwLockExt, RwLockReadGuard, RwLockWriteGuard,
    WaitError,
};

/// Keys that are asked for.
const KEYS: u64 = 5_000;
/// As many entries as the cache may have.
const ROOM: usize = 2_000;

/// What is kept for a key.
#[derive(Clone, Debug)]
struct Entry {
    value: String,
    /// How often it was loaded.
    version: u64,
}

/// A map that is filled as it is read.
struct Cache {
    entries: RwLock<HashMap<u64, Entry>>,
    /// Ends waits when the program ends.
    shutdown: CancelToken,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Cache {
    fn new() -> Self {
        Self {
            entries: RwLock::new(HashMap::new()),
            shutdown: CancelToken::new(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The entry of `key`, loaded if it is not there. It stays as it is while the guard lives.
    fn get(&self, key: u64) -> Result<MappedRwLockReadGuard<'_, Entry>, WaitError> {
        let entries = self.entries.read_cancellable(&self.shutdown)?;
        if let Ok(entry) = RwLockReadGuard::try_map(entries, |entries| entries.get(&key)) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(entry);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        // Loading takes long: not under the lock. Others may load the same meanwhile.
        let value = load(key);
        let mut entries = self.entries.write_cancellable(&self.shutdown)?;
        let other = entries.keys().next().copied().filter(|_| entries.len() >= ROOM);
        if let Some(other) = other {
            entries.remove(&other);
        }
        entries.entry(key).or_insert(Entry { value, version: 1 });
        // To a reader, with no writer in between: the entry is still there.
        let entries = RwLockWriteGuard::downgrade(entries);
        Ok(RwLockReadGuard::map(entries, |entries| &entries[&key]))
    }

    /// Loads the entries of a few keys anew; how long it waited for the lock.
    fn refresh(&self, keys: impl Iterator<Item = u64>) -> Result<Duration, WaitError> {
        let began = Instant::now();
        let mut entries = self.entries.write_cancellable(&self.shutdown)?;
        let waited = began.elapsed();
        for key in keys {
            if let Some(entry) = entries.get_mut(&key) {
                entry.value = load(key);
                entry.version += 1;
            }
        }
        Ok(waited)
    }
}

/// What a database would be asked for.
fn load(key: u64) -> String {
    format!("value of {key}")
}

/// Numbers as if by chance; some keys are asked for much more often than others.
struct Draw(u64);

impl Draw {
    fn key(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let even = self.0 % KEYS;
        even * even / KEYS
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let seconds: f64 = arguments.first().map_or(Ok(1.0), |text| text.parse())?;
    let readers: u64 = arguments.get(1).map_or(Ok(8), |text| text.parse())?;

    let cache = Cache::new();
    let (lookups, refreshed) = thread::scope(|s| {
        let cache = &cache;
        let readers: Vec<_> = (1..=readers)
            .map(|number| {
                s.spawn(move || {
                    let (mut draw, mut lookups) = (Draw(number), 0_u64);
                    loop {
                        let key = draw.key();
                        match cache.get(key) {
                            Ok(entry) => assert_eq!(entry.value, load(key)),
                            Err(WaitError::Cancelled) => return lookups,
                            Err(error) => panic!("{error}"),
                        }
                        lookups += 1;
                        // A lock that is free is taken without a look at the token.
                        if cache.shutdown.is_cancelled() {
                            return lookups;
                        }
                    }
                })
            })
            .collect();
        let refresher = s.spawn(move || {
            let mut waits = Vec::new();
            while !cache.shutdown.is_cancelled() {
                match cache.refresh((0..KEYS).step_by(500)) {
                    Ok(waited) => waits.push(waited),
                    Err(_) => break,
                }
                thread::sleep(Duration::from_millis(1));
            }
            waits
        });
        thread::sleep(Duration::from_secs_f64(seconds));
        cache.shutdown.cancel();
        let lookups: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        (lookups, refresher.join().unwrap())
    });

    let hits = cache.hits.load(Ordering::Relaxed);
    let misses = cache.misses.load(Ordering::Relaxed);
    println!(
        "{:.0} lookups a second, {} % of them hits",
        lookups as f64 / seconds,
        100 * hits / (hits + misses)
    );
    println!(
        "{} refreshes; the longest waited for {:.1} ms",
        refreshed.len(),
        refreshed.iter().max().copied().unwrap_or_default().as_secs_f64() * 1e3
    );
    let entries = cache.entries.into_inner();
    println!(
        "{} entries; the one loaded most often was loaded {} times",
        entries.len(),
        entries.values().map(|entry| entry.version).max().unwrap_or(0)
    );
    assert!(entries.len() <= ROOM);
    assert!(!refreshed.is_empty(), "the refreshing thread never had the lock");
    Ok(())
}

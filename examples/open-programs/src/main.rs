//! Crates that others wrote, at work on many threads: what they get done in a second, a line of
//! `name value` each. Which locks they run on was decided when this was built, by what stands for
//! `parking_lot`: see `scripts/open-programs`.

use std::any::type_name;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bustle::{Collection, CollectionHandle, Mix, Workload};
use parking_lot::{Mutex, RwLock};

const THREADS: usize = 32;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let locks = arguments.next().expect("which locks these are: parking_lot or fairlock");
    let found = type_name::<parking_lot::RawRwLock>();
    assert!(found.starts_with(&format!("{locks}::")), "built with {found}, not with {locks}");
    let wanted: Vec<String> = arguments.collect();
    for (name, program) in PROGRAMS {
        if wanted.is_empty() || wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            println!("{name} {:.0}", program());
        }
    }
}

/// What each gets done in a second.
const PROGRAMS: &[(&str, fn() -> f64)] = &[
    ("bustle: `RwLock<HashMap>`, read-heavy, 8 threads", || map::<One>(8, Mix::read_heavy())),
    ("bustle: `RwLock<HashMap>`, uniform, 8 threads", || map::<One>(8, Mix::uniform())),
    ("bustle: `RwLock<HashMap>`, read-heavy, 32 threads", || map::<One>(32, Mix::read_heavy())),
    ("bustle: `RwLock<HashMap>`, uniform, 32 threads", || map::<One>(32, Mix::uniform())),
    ("bustle: 64 `RwLock<HashMap>`, read-heavy, 32 threads", || {
        map::<Sharded>(32, Mix::read_heavy())
    }),
    ("bustle: 64 `RwLock<HashMap>`, uniform, 32 threads", || map::<Sharded>(32, Mix::uniform())),
    ("bustle: `Mutex<HashMap>`, uniform, 32 threads", || map::<Exclusive>(32, Mix::uniform())),
    ("quick_cache: 90 % hits, 32 threads", || cache(1_000, 1_100)),
    ("quick_cache: 10 % hits, 32 threads", || cache(100, 1_000)),
    ("r2d2: 32 threads, 4 connections", || pool(4)),
    ("r2d2: 32 threads, 1 connection", || pool(1)),
    ("tokio: tasks that spawn tasks", tasks),
    ("tokio: 64 senders, one receiver", channel),
    ("tokio: 64 tasks, one async mutex", async_mutex),
    ("tokio: calls of blocking threads", blocking),
];

// ---- bustle: a benchmark of concurrent maps ----

fn map<M: Collection>(threads: usize, mix: Mix) -> f64
where
    <M::Handle as CollectionHandle>::Key: Send + std::fmt::Debug,
{
    Workload::new(threads, mix)
        .initial_capacity_log2(18)
        .prefill_fraction(0.5)
        .operations(8.0)
        .seed([7; 32])
        .run_silently::<M>()
        .throughput
}

/// A collection of type `$name`: how `$lock` is locked to look for `$key`, and how to change it.
macro_rules! collection {
    ($name:ident, $inner:ty, $new:expr, |$lock:ident, $key:ident| $read:expr, $write:expr) => {
        #[derive(Clone)]
        struct $name(Arc<$inner>);

        impl Collection for $name {
            type Handle = Self;
            fn with_capacity(capacity: usize) -> Self {
                let new: fn(usize) -> $inner = $new;
                Self(Arc::new(new(capacity)))
            }
            fn pin(&self) -> Self {
                self.clone()
            }
        }

        impl CollectionHandle for $name {
            type Key = u64;
            fn get(&mut self, $key: &u64) -> bool {
                let $lock = &self.0;
                $read.contains_key($key)
            }
            fn insert(&mut self, $key: &u64) -> bool {
                let $lock = &self.0;
                $write.insert(*$key, 0).is_none()
            }
            fn remove(&mut self, $key: &u64) -> bool {
                let $lock = &self.0;
                $write.remove($key).is_some()
            }
            fn update(&mut self, $key: &u64) -> bool {
                let $lock = &self.0;
                $write.get_mut($key).map(|value| *value += 1).is_some()
            }
        }
    };
}

type Map = HashMap<u64, u64>;

collection!(
    One,
    RwLock<Map>,
    |capacity| RwLock::new(Map::with_capacity(capacity)),
    |lock, key| lock.read(),
    lock.write()
);
collection!(
    Exclusive,
    Mutex<Map>,
    |capacity| Mutex::new(Map::with_capacity(capacity)),
    |lock, key| lock.lock(),
    lock.lock()
);
collection!(
    Sharded,
    Vec<RwLock<Map>>,
    |capacity| (0..64).map(|_| RwLock::new(Map::with_capacity(capacity / 64))).collect(),
    |locks, key| locks[shard(*key)].read(),
    locks[shard(*key)].write()
);

fn shard(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

// ---- threads that do something until time is up ----

/// How often `work` was done in a second by all threads together, each with a number of its own.
fn rate(work: impl Fn(&mut u64) + Sync) -> f64 {
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    thread::scope(|scope| {
        for number in 1..=THREADS as u64 {
            let (over, done, work) = (&over, &done, &work);
            scope.spawn(move || {
                let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mut times = 0;
                while !over.load(Relaxed) {
                    work(&mut random);
                    times += 1;
                }
                done.fetch_add(times, Relaxed);
            });
        }
        thread::sleep(Duration::from_millis(700));
        over.store(true, Relaxed);
    });
    done.into_inner() as f64 / began.elapsed().as_secs_f64()
}

/// The next of a sequence of numbers without an order.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// A cache of this many entries that is asked for one of so many keys, each as likely.
fn cache(entries: usize, keys: u64) -> f64 {
    let cache = quick_cache::sync::Cache::<u64, u64>::new(entries);
    rate(|random| {
        let key = next(random) % keys;
        cache.get_or_insert_with(&key, || Ok::<_, ()>(key)).unwrap();
    })
}

// ---- r2d2: a pool of connections ----

struct Manager;

impl r2d2::ManageConnection for Manager {
    type Connection = u64;
    type Error = std::io::Error;
    fn connect(&self) -> Result<u64, Self::Error> {
        Ok(0)
    }
    fn is_valid(&self, _: &mut u64) -> Result<(), Self::Error> {
        Ok(())
    }
    fn has_broken(&self, _: &mut u64) -> bool {
        false
    }
}

fn pool(connections: u32) -> f64 {
    let pool = r2d2::Pool::builder().max_size(connections).build(Manager).unwrap();
    rate(|random| {
        let mut connection = pool.get().unwrap();
        for _ in 0..100 {
            *connection = connection.wrapping_add(next(random));
        }
    })
}

// ---- tokio: a scheduler on threads ----

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(8).build().unwrap()
}

/// `times` done in what `work` takes, a second.
fn per_second(times: u32, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    f64::from(times) / began.elapsed().as_secs_f64()
}

fn tasks() -> f64 {
    const TASKS: u32 = 300_000;
    let runtime = runtime();
    per_second(TASKS, || {
        runtime.block_on(async {
            let parents: Vec<_> = (0..TASKS / 100)
                .map(|_| {
                    tokio::spawn(async {
                        let children: Vec<_> =
                            (0..99).map(|_| tokio::spawn(tokio::task::yield_now())).collect();
                        for child in children {
                            child.await.unwrap();
                        }
                    })
                })
                .collect();
            for parent in parents {
                parent.await.unwrap();
            }
        });
    })
}

fn channel() -> f64 {
    const EACH: u32 = 10_000;
    let runtime = runtime();
    per_second(64 * EACH, || {
        runtime.block_on(async {
            let (sender, mut receiver) = tokio::sync::mpsc::channel(16);
            for _ in 0..64 {
                let sender = sender.clone();
                tokio::spawn(async move {
                    for i in 0..EACH {
                        sender.send(i).await.unwrap();
                    }
                });
            }
            drop(sender);
            let mut count = 0;
            while receiver.recv().await.is_some() {
                count += 1;
            }
            assert_eq!(count, 64 * EACH);
        });
    })
}

fn async_mutex() -> f64 {
    const EACH: u32 = 10_000;
    let runtime = runtime();
    per_second(64 * EACH, || {
        runtime.block_on(async {
            let mutex = Arc::new(tokio::sync::Mutex::new(0));
            let tasks: Vec<_> = (0..64)
                .map(|_| {
                    let mutex = mutex.clone();
                    tokio::spawn(async move {
                        for _ in 0..EACH {
                            *mutex.lock().await += 1;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*mutex.lock().await, 64 * EACH);
        });
    })
}

fn blocking() -> f64 {
    const CALLS: u32 = 60_000;
    let runtime = runtime();
    per_second(CALLS, || {
        let (sender, receiver) = mpsc::channel();
        for i in 0..CALLS {
            let sender = sender.clone();
            runtime.spawn_blocking(move || sender.send(i).unwrap());
        }
        drop(sender);
        assert_eq!(receiver.iter().count(), CALLS as usize);
    })
}

//! What an acquire and release costs while other threads do the same: the time of all of them
//! together, for each operation.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fairlock::{Mutex, RangeRwLock, RwLock};

/// As many as there are CPUs on small machines, and more than there are on most.
const THREADS: [u64; 3] = [2, 8, 32];

/// The time that `threads` take for `operations` in all; thread `t` does `operation(t, n)`.
fn together(threads: u64, operations: u64, operation: impl Fn(u64, u64) + Sync) -> Duration {
    let (start, each) = (Barrier::new(threads as usize + 1), operations.div_ceil(threads));
    thread::scope(|s| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, operation) = (&start, &operation);
                s.spawn(move || {
                    start.wait();
                    (0..each).for_each(|n| operation(thread, n));
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        workers.into_iter().for_each(|worker| worker.join().expect("a thread panicked"));
        began.elapsed()
    })
}

fn benches(c: &mut Criterion) {
    for (name, reads) in [("rwlock, all write", 0), ("rwlock, 90 % read", 90)] {
        let mut group = c.benchmark_group(name);
        let lock = RwLock::new(0_u64);
        for threads in THREADS {
            group.bench_function(BenchmarkId::from_parameter(threads), |b| {
                b.iter_custom(|operations| {
                    together(threads, operations, |thread, n| {
                        if (thread * 31 + n * 7) % 100 < reads {
                            std::hint::black_box(*lock.read());
                        } else {
                            *lock.write() += 1;
                        }
                    })
                });
            });
        }
    }

    let mut group = c.benchmark_group("mutex");
    let mutex = Mutex::new(0_u64);
    for threads in THREADS {
        group.bench_function(BenchmarkId::from_parameter(threads), |b| {
            b.iter_custom(|operations| together(threads, operations, |_, _| *mutex.lock() += 1));
        });
    }
    group.finish();

    let mut group = c.benchmark_group("range, each thread its own");
    let ranges = RangeRwLock::new();
    for threads in THREADS {
        group.bench_function(BenchmarkId::from_parameter(threads), |b| {
            b.iter_custom(|operations| {
                together(threads, operations, |thread, _| {
                    drop(ranges.write(thread * 100..thread * 100 + 50));
                })
            });
        });
    }
}

/// Threads that sleep and wake need a while before a figure settles.
fn config() -> Criterion {
    Criterion::default().sample_size(20).measurement_time(Duration::from_secs(3))
}

criterion_group! { name = contended; config = config(); targets = benches }
criterion_main!(contended);

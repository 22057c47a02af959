//! Tasks at one lock: ours, tokio's, and threads beside them.
//!
//! `cargo run --release --manifest-path examples/tasks/Cargo.toml [ROUNDS]`
//!
//! Each figure is the median over rounds in which the locks take turns: so a busy machine does not favour one of them.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::{Mutex, MutexAsyncExt};
use tokio::runtime::Builder;

/// How long a cell is measured in each round.
const CELL: Duration = Duration::from_millis(60);

/// A lock that tasks take, and, if it can, threads.
trait Lock: Default + Send + Sync + 'static {
    const NAME: &'static str;

    fn section(&self, work: &Work) -> impl Future<Output = Duration> + Send;
}

/// What a task does.
#[derive(Clone, Copy)]
struct Work {
    inside: Duration,
    outside: Duration,
    /// It lets others run while it has the lock.
    awaits: bool,
}

fn busy(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

impl Work {
    async fn inside(&self) {
        busy(self.inside);
        if self.awaits {
            tokio::task::yield_now().await;
        }
    }
}

impl Lock for Mutex<u64> {
    const NAME: &'static str = "fairlock";

    #[allow(clippy::await_holding_lock, reason = "tasks wait for it")]
    async fn section(&self, work: &Work) -> Duration {
        let began = Instant::now();
        let mut guard = self.lock_async().await;
        let waited = began.elapsed();
        *guard += 1;
        work.inside().await;
        waited
    }
}

impl Lock for tokio::sync::Mutex<u64> {
    const NAME: &'static str = "tokio";

    async fn section(&self, work: &Work) -> Duration {
        let began = Instant::now();
        let mut guard = self.lock().await;
        let waited = began.elapsed();
        *guard += 1;
        work.inside().await;
        waited
    }
}

// ---- uncontended ----

/// Nanoseconds that one call takes.
fn each_ns(mut call: impl FnMut()) -> f64 {
    const CALLS: u32 = 200_000;
    let began = Instant::now();
    (0..CALLS).for_each(|_| call());
    began.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Polls a future that does not wait.
fn ready<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the lock is free"),
    }
}

fn uncontended(rounds: usize) {
    let (ours, std) = (Mutex::new(0_u64), std::sync::Mutex::new(0_u64));
    let theirs = tokio::sync::Mutex::new(0_u64);
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        times[0].push(each_ns(|| *black_box(&ours).lock() += 1));
        times[1].push(each_ns(|| *ready(black_box(&ours).lock_async()) += 1));
        times[2].push(each_ns(|| *ready(black_box(&theirs).lock()) += 1));
        times[3].push(each_ns(|| *black_box(&std).lock().unwrap() += 1));
    }
    let names = ["fairlock lock", "fairlock lock_async", "tokio lock", "std lock"];
    println!("uncontended, ns a pair");
    for (name, mut times) in names.into_iter().zip(times) {
        println!("  {name:20} {:6.2}", median(&mut times));
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

// ---- contended ----

/// Sections a second, and the longest wait in ms.
#[derive(Clone, Copy)]
struct Seen {
    rate: f64,
    longest_ms: f64,
}

fn run<L: Lock>(tasks: usize, workers: usize, work: Work) -> Seen {
    let runtime = Builder::new_multi_thread().worker_threads(workers).build().unwrap();
    let (lock, ends) = (Arc::new(L::default()), Arc::new(AtomicBool::new(false)));
    let (sections, longest) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    let handles: Vec<_> = (0..tasks)
        .map(|_| {
            let (lock, ends) = (lock.clone(), ends.clone());
            let (sections, longest) = (sections.clone(), longest.clone());
            runtime.spawn(async move {
                let (mut done, mut most) = (0_u64, Duration::ZERO);
                while !ends.load(Ordering::Relaxed) {
                    most = most.max(lock.section(&work).await);
                    done += 1;
                    busy(work.outside);
                    // A task that never waits would keep its worker.
                    if done % 64 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                sections.fetch_add(done, Ordering::Relaxed);
                longest.fetch_max(most.as_nanos() as u64, Ordering::Relaxed);
            })
        })
        .collect();
    thread::sleep(CELL);
    ends.store(true, Ordering::Relaxed);
    let lasted = began.elapsed();
    runtime.block_on(async {
        for handle in handles {
            handle.await.unwrap();
        }
    });
    Seen {
        rate: sections.load(Ordering::Relaxed) as f64 / lasted.as_secs_f64(),
        longest_ms: longest.load(Ordering::Relaxed) as f64 / 1e6,
    }
}

fn contended(rounds: usize) {
    println!(
        "tasks  workers  inside  awaits  outside  {:>10} {:>10}  ratio",
        "fairlock/s", "tokio/s"
    );
    for (tasks, workers, awaits, outside) in [10, 1_000, 10_000]
        .into_iter()
        .flat_map(|tasks| [(tasks, 1), (tasks, 2)])
        .flat_map(|(tasks, workers)| [(tasks, workers, false), (tasks, workers, true)])
        .flat_map(|(tasks, workers, awaits)| {
            [(tasks, workers, awaits, 0), (tasks, workers, awaits, 10)]
        })
    {
        for inside in [50, 1_000, 100_000].map(Duration::from_nanos) {
            let work = Work { inside, outside: inside * outside, awaits };
            let mut seen = [const { Vec::new() }; 2];
            for _ in 0..rounds {
                seen[0].push(run::<Mutex<u64>>(tasks, workers, work));
                seen[1].push(run::<tokio::sync::Mutex<u64>>(tasks, workers, work));
            }
            let rates = |seen: &Vec<Seen>| seen.iter().map(|seen| seen.rate).collect::<Vec<_>>();
            let waits = |seen: &Vec<Seen>| seen.iter().map(|s| s.longest_ms).collect::<Vec<_>>();
            let [ours, theirs] = seen.each_ref().map(rates);
            let mut ratios: Vec<_> = ours.iter().zip(&theirs).map(|(o, t)| o / t).collect();
            let [mut our_rates, mut their_rates] = [ours, theirs];
            let [mut our_waits, mut their_waits] = seen.each_ref().map(waits);
            println!(
                "{tasks:5}  {workers:7}  {inside:6?}  {awaits:6}  {outside:6}x  {:10.0} {:10.0}  {:5.2}   longest ms {:.2} {:.2}",
                median(&mut our_rates),
                median(&mut their_rates),
                median(&mut ratios),
                median(&mut our_waits),
                median(&mut their_waits),
            );
        }
    }
}

// ---- threads and tasks at one lock ----

fn mixed() {
    println!(
        "threads and tasks at one lock, 1 us inside: sections/s of a thread, of a task; longest waits in ms"
    );
    for (threads, tasks) in [(1, 10), (2, 2), (4, 1), (8, 100)] {
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let (lock, ends) = (Arc::new(Mutex::new(0_u64)), Arc::new(AtomicBool::new(false)));
        let work =
            Work { inside: Duration::from_micros(1), outside: Duration::ZERO, awaits: false };
        let counts: Arc<[AtomicU64; 4]> = Arc::default();
        let note = |counts: &[AtomicU64; 4], side: usize, done: u64, most: Duration| {
            counts[side].fetch_add(done, Ordering::Relaxed);
            counts[side + 2].fetch_max(most.as_nanos() as u64, Ordering::Relaxed);
        };
        let handles: Vec<_> = (0..tasks)
            .map(|_| {
                let (lock, ends, counts) = (lock.clone(), ends.clone(), counts.clone());
                runtime.spawn(async move {
                    let (mut done, mut most) = (0, Duration::ZERO);
                    while !ends.load(Ordering::Relaxed) {
                        most = most.max(lock.section(&work).await);
                        done += 1;
                        if done % 64 == 0 {
                            tokio::task::yield_now().await;
                        }
                    }
                    note(&counts, 0, done, most);
                })
            })
            .collect();
        thread::scope(|s| {
            for _ in 0..threads {
                s.spawn(|| {
                    let (mut done, mut most) = (0, Duration::ZERO);
                    while !ends.load(Ordering::Relaxed) {
                        let began = Instant::now();
                        let mut guard = lock.lock();
                        most = most.max(began.elapsed());
                        *guard += 1;
                        busy(work.inside);
                        drop(guard);
                        done += 1;
                    }
                    note(&counts, 1, done, most);
                });
            }
            thread::sleep(CELL * 5);
            ends.store(true, Ordering::Relaxed);
        });
        runtime.block_on(async {
            for handle in handles {
                handle.await.unwrap();
            }
        });
        let seconds = (CELL * 5).as_secs_f64();
        let [by_tasks, by_threads, task_ns, thread_ns] =
            counts.each_ref().map(|count| count.load(Ordering::Relaxed) as f64);
        println!(
            "  {threads} threads, {tasks:3} tasks: {:9.0} {:9.0}; {:.2} {:.2}",
            by_threads / seconds / f64::from(threads),
            by_tasks / seconds / f64::from(tasks),
            thread_ns / 1e6,
            task_ns / 1e6,
        );
    }
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(3, |rounds| rounds.parse().expect("ROUNDS"));
    println!("{}, {}", <Mutex<u64> as Lock>::NAME, <tokio::sync::Mutex<u64> as Lock>::NAME);
    uncontended(rounds.max(9));
    mixed();
    contended(rounds);
}

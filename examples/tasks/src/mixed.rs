//! Threads and tasks at one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::{Mutex, MutexAsyncExt, MutexExt};
use tokio::runtime::Builder;

use crate::median;
use crate::run::busy;

const LASTS: Duration = Duration::from_millis(300);
const INSIDE: Duration = Duration::from_micros(1);

/// Sections of one side, and its longest wait.
#[derive(Default)]
struct Side {
    sections: AtomicU64,
    longest_ns: AtomicU64,
}

impl Side {
    fn note(&self, sections: u64, longest: Duration) {
        self.sections.fetch_add(sections, Ordering::Relaxed);
        self.longest_ns.fetch_max(longest.as_nanos() as u64, Ordering::Relaxed);
    }

    fn rate(&self, of: u32) -> f64 {
        self.sections.load(Ordering::Relaxed) as f64 / LASTS.as_secs_f64() / f64::from(of) / 1e3
    }

    fn longest_ms(&self) -> f64 {
        self.longest_ns.load(Ordering::Relaxed) as f64 / 1e6
    }
}

pub fn mixed(rounds: usize) {
    println!(
        "| threads | tasks | k/s of a thread | k/s of a task | longest wait of a thread, ms | of a task | bound for the last of them |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    for (threads, tasks) in [(1, 10), (2, 2), (4, 1), (8, 100)] {
        let seen: Vec<[f64; 5]> = (0..rounds).map(|_| run(threads, tasks)).collect();
        let figure = |at: usize| median(seen.iter().map(|seen| seen[at]));
        let [thread, task, thread_ms, task_ms, bound_ms] = [0, 1, 2, 3, 4].map(figure);
        println!(
            "| {threads} | {tasks} | {thread:.1} | {task:.1} | {thread_ms:.2} | {task_ms:.2} | {bound_ms:.1} |"
        );
    }
}

/// Rates of both sides, their longest waits, and the bound.
fn run(threads: u32, tasks: u32) -> [f64; 5] {
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let (lock, ends) = (Arc::new(Mutex::new(0_u64)), Arc::new(AtomicBool::new(false)));
    let sides: Arc<[Side; 2]> = Arc::default();
    let handles: Vec<_> = (0..tasks)
        .map(|_| {
            let (lock, ends, sides) = (lock.clone(), ends.clone(), sides.clone());
            runtime.spawn(async move {
                let (mut done, mut longest) = (0, Duration::ZERO);
                while !ends.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    {
                        let mut guard = lock.lock_async().await;
                        longest = longest.max(began.elapsed());
                        *guard += 1;
                        busy(INSIDE);
                    }
                    done += 1;
                    // A task that never waits would keep its worker.
                    if done % 64 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                sides[1].note(done, longest);
            })
        })
        .collect();
    let bound = thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                let (mut done, mut longest) = (0, Duration::ZERO);
                while !ends.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    let mut guard = lock.lock();
                    longest = longest.max(began.elapsed());
                    *guard += 1;
                    busy(INSIDE);
                    drop(guard);
                    done += 1;
                }
                sides[0].note(done, longest);
            });
        }
        thread::sleep(LASTS);
        let bound = lock.planned_wait_ns((threads + tasks - 1) as usize);
        ends.store(true, Ordering::Relaxed);
        bound
    });
    runtime.block_on(async {
        for handle in handles {
            handle.await.unwrap();
        }
    });
    let [of_threads, of_tasks] = &*sides;
    let (thread, task) = (of_threads.rate(threads), of_tasks.rate(tasks));
    [thread, task, of_threads.longest_ms(), of_tasks.longest_ms(), bound as f64 / 1e6]
}

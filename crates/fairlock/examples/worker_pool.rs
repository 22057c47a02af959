//! A pool of threads that take jobs from one queue, under a mutex.
//!
//! ```sh
//! cargo run --release -p fairlock --example worker_pool [WORKERS] [JOBS]
//! ```
//!
//! More workers than CPUs, short jobs, and every one begins and ends at the same mutex. What
//! is to be seen is how even the workers' shares are.

use std::collections::VecDeque;
use std::env;
use std::error::Error;
use std::sync::Arc;
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use fairlock::{Mutex, MutexGuard};

type Job = Box<dyn FnOnce() + Send>;

/// What the mutex guards.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Workers that found no job, and sleep.
    idle: Vec<Thread>,
    /// No more jobs will come.
    closed: bool,
}

/// Threads that run what they are given.
struct Pool {
    queue: Arc<Mutex<Queue>>,
    workers: Vec<JoinHandle<Share>>,
}

/// What a worker had.
struct Share {
    jobs: usize,
    longest_wait: Duration,
}

impl Pool {
    fn new(workers: usize) -> Self {
        let queue = Arc::new(Mutex::new(Queue::default()));
        let workers = (0..workers)
            .map(|_| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || work(&queue))
            })
            .collect();
        Self { queue, workers }
    }

    fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.queue.lock();
        queue.jobs.push_back(Box::new(job));
        let idle = queue.idle.pop();
        // First let the mutex go: whoever is woken wants it.
        drop(queue);
        if let Some(worker) = idle {
            worker.unpark();
        }
    }

    /// Waits until all jobs are done.
    fn join(self) -> Vec<Share> {
        let mut queue = self.queue.lock();
        queue.closed = true;
        let idle = std::mem::take(&mut queue.idle);
        drop(queue);
        idle.iter().for_each(Thread::unpark);
        self.workers.into_iter().map(|worker| worker.join().expect("a job panicked")).collect()
    }
}

/// One worker: until the queue is closed and empty.
fn work(queue: &Mutex<Queue>) -> Share {
    let mut share = Share { jobs: 0, longest_wait: Duration::ZERO };
    loop {
        let began = Instant::now();
        let mut guard = queue.lock();
        share.longest_wait = share.longest_wait.max(began.elapsed());
        match guard.jobs.pop_front() {
            Some(job) => {
                // The job runs without the mutex.
                drop(guard);
                job();
                share.jobs += 1;
            }
            None if guard.closed => return share,
            None => {
                guard.idle.push(thread::current());
                // A wake-up that comes before this sleep ends it at once.
                MutexGuard::unlocked(&mut guard, thread::park);
                // Woken for no reason? Then this worker is still listed.
                let me = thread::current().id();
                guard.idle.retain(|worker| worker.id() != me);
            }
        }
    }
}

/// How many steps the number takes to 1: work that a compiler cannot leave out.
fn collatz(mut number: u64) -> u64 {
    let mut steps = 0;
    while number != 1 {
        number = if number % 2 == 0 { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let workers: usize = arguments.first().map_or(Ok(16), |text| text.parse())?;
    let jobs: u64 = arguments.get(1).map_or(Ok(5_000), |text| text.parse())?;

    let pool = Pool::new(workers);
    let longest = Arc::new(Mutex::new((0, 0)));
    let began = Instant::now();
    for job in 0..jobs {
        let longest = Arc::clone(&longest);
        pool.run(move || {
            let best = (job * 10 + 1..=job * 10 + 10).map(|n| (collatz(n), n)).max().unwrap();
            let mut longest = longest.lock();
            *longest = best.max(*longest);
        });
    }
    let shares = pool.join();
    let took = began.elapsed();

    let (steps, number) = *longest.lock();
    assert_eq!((steps, number), (1..=jobs * 10).map(|n| (collatz(n), n)).max().unwrap());
    assert_eq!(shares.iter().map(|share| share.jobs as u64).sum::<u64>(), jobs);
    println!("{jobs} jobs by {workers} workers in {took:.2?}: {number} takes {steps} steps");
    println!(
        "jobs of a worker: {} to {}; the longest wait for the queue: {:.1?}",
        shares.iter().map(|share| share.jobs).min().unwrap_or(0),
        shares.iter().map(|share| share.jobs).max().unwrap_or(0),
        shares.iter().map(|share| share.longest_wait).max().unwrap_or_default()
    );
    Ok(())
}

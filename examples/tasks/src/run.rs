//! One run: tasks at one lock for a while.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

use crate::locks::{Access, Lock};

/// What each task does, again and again.
#[derive(Clone, Copy)]
pub struct Work {
    pub inside: Duration,
    pub outside: Duration,
    /// It lets others run while it has the lock.
    pub awaits: bool,
    /// So many of a hundred sections only read.
    pub reads: u32,
}

/// The run is over: sections from here on are empty, so that those that wait end soon.
static ENDS: AtomicBool = AtomicBool::new(false);

pub fn ends() -> bool {
    ENDS.load(Ordering::Relaxed)
}

pub fn busy(time: Duration) {
    if time.is_zero() {
        return;
    }
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

impl Work {
    /// A section, which began to wait then.
    pub async fn inside(self, began: Instant, value: u64) {
        self.blocked(began, value);
        if self.awaits && !ends() {
            tokio::task::yield_now().await;
        }
    }

    /// The same, without an await.
    pub fn blocked(self, began: Instant, value: u64) {
        Waits::note(began.elapsed());
        if !ends() {
            busy(self.inside);
        }
        black_box(value);
    }

    /// How long a run lasts: if each task has its turn within a second, twice as long as that takes.
    fn lasts(self, tasks: u32) -> Duration {
        (self.inside * tasks * 2).clamp(Duration::from_millis(60), Duration::from_millis(1200))
    }
}

/// How long waits of one thread's sections were. Only that thread changes it.
struct Waits {
    /// Counts by length: eight steps from one power of two to the next.
    counts: [AtomicU64; 512],
    longest: AtomicU64,
    /// How many of them began before the end of the run.
    sections: AtomicU64,
}

/// Of all threads of this run.
static ALL: Mutex<Vec<Arc<Waits>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: Arc<Waits> = {
        let counts = [const { AtomicU64::new(0) }; 512];
        let own = Arc::new(Waits { counts, longest: AtomicU64::new(0), sections: AtomicU64::new(0) });
        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(own.clone());
        own
    };
}

impl Waits {
    fn note(wait: Duration) {
        let ns = wait.as_nanos() as u64;
        OWN.with(|own| {
            let order = Ordering::Relaxed;
            let count = &own.counts[step(ns)];
            count.store(count.load(order) + 1, order);
            own.longest.store(own.longest.load(order).max(ns), order);
            own.sections.store(own.sections.load(order) + u64::from(!ends()), order);
        });
    }

    /// Sections, the wait that one in a thousand exceeds, and the longest one; and begins again.
    fn take() -> (u64, u64, u64) {
        let all = std::mem::take(&mut *ALL.lock().unwrap());
        let sum =
            |at: usize| all.iter().map(|own| own.counts[at].load(Ordering::Relaxed)).sum::<u64>();
        let counts: Vec<u64> = (0..512).map(sum).collect();
        let mut above = counts.iter().sum::<u64>() / 1000;
        let at = (0..512).rev().find(|&at| {
            let found = counts[at] > above;
            above = above.saturating_sub(counts[at]);
            found
        });
        let sections = all.iter().map(|own| own.sections.load(Ordering::Relaxed)).sum();
        let longest = all.iter().map(|own| own.longest.load(Ordering::Relaxed)).max().unwrap_or(0);
        (sections, at.map_or(0, |at| end_of(at).min(longest)), longest)
    }
}

/// In which step of [`Waits`] this length is.
fn step(ns: u64) -> usize {
    let ns = ns.max(8);
    let power = ns.ilog2() as usize;
    power * 8 + (ns >> (power - 3)) as usize % 8
}

/// Where a step ends.
fn end_of(step: usize) -> u64 {
    ((step % 8 + 9) as u64) << (step / 8 - 3)
}

/// What a run has shown.
#[derive(Clone, Copy)]
pub struct Seen {
    /// Sections a second.
    pub rate: f64,
    pub p999_ms: f64,
    pub longest_ms: f64,
}

/// So many tasks on so many threads of the runtime, for a while.
pub fn run<L: Lock>(tasks: u32, workers: usize, work: Work) -> Option<Seen> {
    if work.awaits && !L::SUSPENDS {
        return None;
    }
    ENDS.store(false, Ordering::Relaxed);
    let runtime = Builder::new_multi_thread().worker_threads(workers).build().unwrap();
    let lock = Arc::new(L::default());
    let began = Instant::now();
    let handles: Vec<_> = (0..tasks)
        .map(|number| {
            let lock = lock.clone();
            runtime.spawn(async move {
                let mut done = number;
                while !ends() {
                    // Reads and writes of a task, and of all, are mixed: 37 has no common divisor with 100.
                    let access = if done.wrapping_mul(37) % 100 < work.reads {
                        Access::Read
                    } else {
                        Access::Write
                    };
                    lock.section(work, access).await;
                    done = done.wrapping_add(1);
                    if !ends() {
                        busy(work.outside);
                    }
                    // A task that never waits would keep its worker.
                    if done % 64 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            })
        })
        .collect();
    thread::sleep(work.lasts(tasks));
    ENDS.store(true, Ordering::Relaxed);
    let lasted = began.elapsed();
    runtime.block_on(async {
        for handle in handles {
            handle.await.unwrap();
        }
    });
    drop(runtime);
    let (sections, p999, longest) = Waits::take();
    let rate = sections as f64 / lasted.as_secs_f64();
    Some(Seen { rate, p999_ms: p999 as f64 / 1e6, longest_ms: longest as f64 / 1e6 })
}

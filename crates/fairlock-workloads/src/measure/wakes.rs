//! Wake-ups, and turns of threads that share a CPU.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairlock::platform::{Native, System};

use super::transfer::pin;

/// One wake-up, in nanoseconds.
pub struct Wake {
    /// From the call to the woken thread.
    pub arrives: f64,
    /// From the waker's last call before it to the woken thread: from its yield after the wake-up, or,
    /// if the woken thread came before that, from the wake-up.
    pub switches: f64,
    /// The call.
    pub call: f64,
}

/// Wakes a thread on CPU `to` from CPU `from`, which are the same or not, once `to` has been idle for
/// this long or, if `busy`, has been busy with another thread. None if threads cannot be put there.
pub fn wake(from: usize, to: usize, idle: Duration, busy: bool) -> Option<Wake> {
    /// For one measurement at a time. 1: the sleeper is about to sleep; 2: it is woken.
    static WORD: AtomicU32 = AtomicU32::new(0);
    WORD.store(0, Ordering::Relaxed);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let sleeper = scope.spawn(move || {
            let pinned = pin(to);
            // Also if it is not pinned: the waker waits for it.
            WORD.store(1, Ordering::Relaxed);
            while WORD.load(Ordering::Relaxed) == 1 {
                Native::wait(&WORD, 1, None, false);
            }
            pinned.map(|()| Instant::now())
        });
        let waker = scope.spawn(|| {
            let pinned = pin(from);
            while WORD.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            thread::sleep(idle);
            let begun = Instant::now();
            WORD.store(2, Ordering::Relaxed);
            Native::wake_one(&WORD);
            let called = Instant::now();
            thread::yield_now();
            pinned.map(|()| (begun, called))
        });
        if busy {
            scope.spawn(|| {
                let _ = pin(to);
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let (waker, woken) = (waker.join().ok().flatten(), sleeper.join().ok().flatten());
        ended.store(true, Ordering::Relaxed);
        let ((begun, called), woken) = waker.zip(woken)?;
        let ns = |from: Instant, to: Instant| to.saturating_duration_since(from).as_nanos() as f64;
        Some(Wake {
            arrives: ns(begun, woken),
            switches: ns(if woken < called { begun } else { called }, woken),
            call: ns(begun, called),
        })
    })
}

/// For how long a thread has a CPU at once beside another one that wants it: each turn that began and
/// ended within this time, in nanoseconds.
pub fn turns(cpu: usize, watched: Duration) -> Vec<f64> {
    /// The clock does not stand still for so long while a thread runs.
    const GONE: Duration = Duration::from_micros(100);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = pin(cpu);
            while !ended.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let watcher = scope.spawn(|| {
            let begun = pin(cpu).map(|()| Instant::now());
            let (mut began, mut turns) = (None, Vec::new());
            let mut last = Instant::now();
            while begun.is_some_and(|begun| last.duration_since(begun) < watched) {
                let now = Instant::now();
                if now.duration_since(last) > GONE {
                    turns.extend(began.map(|began| last.duration_since(began).as_nanos() as f64));
                    began = Some(now);
                }
                last = now;
            }
            ended.store(true, Ordering::Relaxed);
            turns
        });
        watcher.join().unwrap_or_default()
    })
}

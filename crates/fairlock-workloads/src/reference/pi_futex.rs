//! A mutex with priority inheritance, as Linux has it (`FUTEX_LOCK_PI`), after its manual and the kernel's
//! `rt-mutex-design`. The word names the holder. The system keeps the waiters, and a release
//! hands the lock to the first of them: newcomers never find it free.
//!
//! The system's side costs the cache lines that it writes: the lock of the word's bucket, that of the
//! queue of waiters, and the holder's record, which each call reaches that changes the first waiter.
//! The first waiter spins, if nobody is before it (Linux since 5.15). What it leaves out: priorities,
//! the longer chain of a holder that waits itself, and that the first waiter stops spinning when the
//! holder has no CPU.

use core::sync::atomic::Ordering;
use std::collections::VecDeque;

use fairlock::platform::Atomic;
use fairlock::wait::Thread;

use super::cna::Cna;
use super::guarded::Guarded;
use super::parking::Parked;
use super::{Asks, Line, SPIN_NS, word};
use crate::locks::{BenchLock, RwBench};

/// Threads wait in the system. The other bits of the word are the holder's number, plus one.
const WAITED: u32 = 1 << 31;

/// How many threads have a record of their own, at least.
const RECORDS: usize = 256;

const ASLEEP: u32 = 0;
const HAVE: u32 = 1;

/// `LOOKS`: how often a thread looks at the word before it calls the system.
pub struct PiFutex<P: Asks, const LOOKS: u32> {
    word: &'static P::AtomicU32,
    /// Kernel locks are queued spinlocks.
    bucket: Box<Line<Cna<P, false>>>,
    waiters: Box<Line<Guarded<P, VecDeque<Waiter>>>>,
    /// The locks of threads' records (`pi_lock`).
    records: Box<[Line<Cna<P, false>>]>,
}

struct Waiter {
    number: u32,
    parked: Parked,
}

impl<P: Asks, const LOOKS: u32> PiFutex<P, LOOKS> {
    fn number() -> u32 {
        P::number() as u32 + 1
    }

    fn change(&self, from: u32, to: u32, order: Ordering) -> bool {
        self.word.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }

    /// Changes the record of a thread.
    fn adjust(&self, number: u32) {
        self.records[number as usize % RECORDS].0.write(|| ());
    }

    #[cold]
    fn acquire_contended(&self) {
        for _ in 0..LOOKS {
            // Acquire: what was done under the mutex before.
            if self.word.load(Ordering::Relaxed) == 0
                && self.change(0, Self::number(), Ordering::Acquire)
            {
                return;
            }
            P::pause();
        }
        let told = P::AtomicU32::new(ASLEEP);
        let is_first = self.bucket.0.write(|| {
            loop {
                let word = self.word.load(Ordering::Relaxed);
                let (to, order) = match word {
                    0 => (Self::number(), Ordering::Acquire),
                    _ => (word | WAITED, Ordering::Relaxed),
                };
                if self.change(word, to, order) {
                    return (word != 0)
                        .then(|| self.queue(word & !WAITED, Parked::new::<P>(&told)));
                }
            }
        });
        let Some(is_first) = is_first else { return };
        // Acquire, here and below: as above.
        if is_first && P::spin_until(&told, SPIN_NS, |told| told == HAVE) {
            return;
        }
        while told.load(Ordering::Acquire) == ASLEEP {
            Thread::<P>::park();
        }
    }

    /// Queues behind the others; returns whether there are none.
    fn queue(&self, holder: u32, parked: Parked) -> bool {
        self.waiters.0.with(|waiters| {
            let is_first = waiters.is_empty();
            if is_first {
                self.adjust(holder);
            }
            waiters.push_back(Waiter { number: Self::number(), parked });
            is_first
        })
    }

    #[cold]
    fn release_contended(&self) {
        let woken = self.bucket.0.write(|| {
            self.waiters.0.with(|waiters| {
                let first = waiters.pop_front();
                let next = first.as_ref().map_or(0, |first| first.number | WAITED);
                // Release: the section happens before the next one.
                self.word.store(next, Ordering::Release);
                first.map(|first| {
                    self.adjust(Self::number());
                    self.adjust(first.number);
                    // SAFETY: a thread in the queue has parked with its record, and stays until it is told.
                    unsafe { first.parked.tell::<P>(HAVE) }
                })
            })
        });
        match woken {
            Some(thread) => thread.unpark(),
            // The call, which finds nobody.
            None => P::wake_one(self.word),
        }
    }
}

impl<P: Asks, const LOOKS: u32> RwBench for PiFutex<P, LOOKS> {
    fn new() -> Self {
        Self {
            word: word::<P>(),
            bucket: Box::new(Line(Cna::create())),
            waiters: Box::new(Line(Guarded::new(VecDeque::new()))),
            records: (0..RECORDS).map(|_| Line(Cna::create())).collect(),
        }
    }

    #[inline(always)]
    fn write_lock(&self) {
        if !self.change(0, Self::number(), Ordering::Acquire) {
            self.acquire_contended();
        }
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        // Release: the section happens before the next one.
        if !self.change(Self::number(), 0, Ordering::Release) {
            self.release_contended();
        }
    }
}

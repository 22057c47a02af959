//! The per-CPU reader/writer semaphore of Linux, after its description: readers count themselves on
//! a line of their CPU, so they do not disturb each other; a writer forbids that and adds up
//! all counts. Linux' readers need no barrier as long as no writer has come lately; so a writer that
//! comes after a while waits first until all CPUs know, which takes milliseconds. That wait is
//! here, but readers always have the barrier.

use core::sync::atomic::Ordering;
use std::sync::OnceLock;

use fairlock::platform::{Atomic, Platform, Thread};

use super::futex::FutexMutex;
use super::{Line, word};
use crate::locks::{BenchLock, RwBench};

/// How long it takes until all CPUs know that there is a writer: an assumption, of the order of two
/// or three ticks at 250 Hz. For as long, readers go on with barriers after the last writer.
const GRACE_NS: u64 = 10_000_000;

pub struct PerCpu<P: Platform> {
    /// One for each CPU, made at the first use: outside of a simulation there are none.
    readers: OnceLock<Box<[Line<P::AtomicU32>]>>,
    /// 1 while a writer is inside or waits for readers.
    closed: &'static P::AtomicU32,
    /// How many readers may sleep on `closed`.
    asleep: P::AtomicU32,
    /// Grows when a reader leaves a closed lock. The writer sleeps on it.
    left: &'static P::AtomicU32,
    /// Held by the writer.
    writer: FutexMutex<P, 0>,
    /// Until when readers know that there are writers. Guarded by `writer`.
    known_until: P::AtomicU64,
}

impl<P: Platform> PerCpu<P> {
    fn readers(&self) -> &[Line<P::AtomicU32>] {
        let line = |_| Line(P::AtomicU32::new(0));
        self.readers.get_or_init(|| (0..P::cpus()).map(line).collect())
    }

    /// Counts the calling thread and returns where, once the lock is not closed.
    fn enter(&self) -> &P::AtomicU32 {
        let readers = self.readers();
        loop {
            let count = &readers[P::cpu().unwrap_or(0) as usize % readers.len()].0;
            // Sequentially consistent, as `close`: a reader that does not see the writer is seen by it.
            count.fetch_add(1, Ordering::SeqCst);
            if self.closed.load(Ordering::SeqCst) == 0 {
                return count;
            }
            self.leave(count);
            // Sequentially consistent, as `open`: this sleeper is seen, or the lock seen open.
            self.asleep.fetch_add(1, Ordering::SeqCst);
            P::wait(self.closed, 1, None, false);
            self.asleep.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn leave(&self, count: &P::AtomicU32) {
        // Release: the section happens before the next writer's. Sequentially consistent, as
        // `close`: the writer sees the count, or this sees the writer.
        count.fetch_sub(1, Ordering::SeqCst);
        if self.closed.load(Ordering::SeqCst) == 1 {
            self.left.fetch_add(1, Ordering::SeqCst);
            P::wake_one(self.left);
        }
    }

    /// Forbids readers to enter, and waits for those inside.
    fn close(&self) {
        if P::now() >= self.known_until.load(Ordering::Relaxed) {
            Thread::<P>::park_until(P::now() + GRACE_NS);
        }
        self.closed.store(1, Ordering::SeqCst);
        loop {
            let left = self.left.load(Ordering::SeqCst);
            let count = |line: &Line<P::AtomicU32>| line.0.load(Ordering::SeqCst);
            if self.readers().iter().all(|line| count(line) == 0) {
                return;
            }
            P::wait(self.left, left, None, false);
        }
    }

    fn open(&self) {
        self.known_until.store(P::now() + GRACE_NS, Ordering::Relaxed);
        self.closed.store(0, Ordering::SeqCst);
        (0..self.asleep.load(Ordering::SeqCst)).for_each(|_| P::wake_one(self.closed));
    }
}

impl<P: Platform> BenchLock for PerCpu<P> {
    fn create() -> Self {
        Self {
            readers: OnceLock::new(),
            closed: word::<P>(),
            asleep: P::AtomicU32::new(0),
            left: word::<P>(),
            writer: FutexMutex::create(),
            known_until: P::AtomicU64::new(0),
        }
    }

    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        let count = self.enter();
        let result = section();
        self.leave(count);
        result
    }

    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        self.writer.write_lock();
        self.close();
        let result = section();
        self.open();
        // SAFETY: taken above; a section that unwinds leaves the lock held.
        unsafe { self.writer.write_unlock() };
        result
    }
}

//! A sleeping reader/writer lock as Linux had it when range locks were proposed (2017),
//! which is what they were compared with. Nobody is handed the lock.
//!
//! * A writer that meets a writer spins for the lock, one spinner behind the other, and takes it
//!   past everybody who sleeps. It queues if readers are inside, or if its CPU is wanted.
//! * A reader neither spins nor steals: it queues if a writer is inside or anybody queues.
//! * A thread that leaves the lock free wakes the first in the queue. If that is a writer, it must
//!   take the lock itself when it runs; if readers, all *up to the next writer* are granted the
//!   lock.
//!
//! Written from this description. What it leaves out: a spinner does not ask whether the
//! writer inside has a CPU, and notices that its own is wanted only when it has lost it.

use core::sync::atomic::Ordering;
use std::collections::VecDeque;

use fairlock::platform::{Atomic, Platform};

use super::guarded::Guarded;
use super::mcs::{Mcs, Spins};
use crate::locks::BenchLock;

/// A writer is inside.
const WRITER: u64 = 1;
/// The queue is not empty. Changes under the queue lock.
const QUEUED: u64 = 2;
/// One reader: inside, or about to find out that it is not.
const READER: u64 = 4;

/// The time between two looks whether the spinner has lost its CPU meanwhile.
const LOOK_NS: u64 = 500_000;

fn is_free(word: u64) -> bool {
    word & !QUEUED == 0
}

pub struct Rwsem2017<P: Platform> {
    word: P::AtomicU64,
    /// Writers that spin: the first of them looks at the word.
    spinners: Mcs<P, Spins>,
    /// Its lock guards the frames of waiters in it, too: a thread that was woken takes that lock
    /// once more before its frame is gone.
    queue: Guarded<P, Queue<P>>,
}

type Queue<P> = VecDeque<*const Waiter<P>>;

// SAFETY: what the queue points to is reached under its lock only, as the queue is.
unsafe impl<P: Platform> Send for Rwsem2017<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for Rwsem2017<P> {}

/// A thread in the queue, in its frame.
struct Waiter<P: Platform> {
    writes: bool,
    /// 1 once woken.
    woken: P::AtomicU32,
}

impl<P: Platform> Waiter<P> {
    fn new(writes: bool) -> Self {
        Self { writes, woken: P::AtomicU32::new(0) }
    }

    fn sleep(&self) {
        // Acquire: sees what was done before the lock was granted.
        while self.woken.load(Ordering::Acquire) == 0 {
            let _ = P::wait(&self.woken, 0, None, false);
        }
    }

    fn wake(&self) {
        // Release: see `sleep`.
        self.woken.store(1, Ordering::Release);
        P::wake_one(&self.woken);
    }
}

impl<P: Platform> Rwsem2017<P> {
    /// Wakes the first in the queue if nobody is inside. Under the queue lock.
    fn wake_if_free(&self, queue: &mut Queue<P>) {
        // SAFETY: a waiter in the queue is alive; its frame is not gone before it has had the queue
        // lock again.
        let waiter = |waiter: &*const Waiter<P>| unsafe { &**waiter };
        // Relaxed: a guess. If a thread is inside, or about to find out that it is not, it comes
        // here later.
        let Some(first) = queue.front().filter(|_| is_free(self.word.load(Ordering::Relaxed)))
        else {
            return;
        };
        if waiter(first).writes {
            return waiter(first).wake();
        }
        // Acquire: for those that are granted the lock here.
        if self.word.fetch_add(READER, Ordering::Acquire) & WRITER != 0 {
            self.word.fetch_sub(READER, Ordering::Relaxed); // stolen; that one comes here
            return;
        }
        let readers = queue.iter().take_while(|next| !waiter(next).writes).count();
        self.word.fetch_add((readers as u64 - 1) * READER, Ordering::Relaxed);
        for granted in queue.drain(..readers) {
            waiter(&granted).wake();
        }
        if queue.is_empty() {
            self.word.fetch_and(!QUEUED, Ordering::Relaxed);
        }
    }

    #[cold]
    fn left_free(&self) {
        self.queue.with(|queue| self.wake_if_free(queue));
    }

    #[cold]
    fn read_queued(&self) {
        let me = Waiter::new(false);
        let is_in = self.queue.with(|queue| {
            // The thread is counted already, so no writer can come in. Acquire: it has the lock.
            if queue.is_empty() && self.word.load(Ordering::Acquire) & WRITER == 0 {
                return true;
            }
            queue.push_back(&raw const me);
            self.word.fetch_or(QUEUED, Ordering::Relaxed);
            self.word.fetch_sub(READER, Ordering::Relaxed);
            self.wake_if_free(queue);
            false
        });
        if !is_in {
            me.sleep();
            self.queue.with(|_| ()); // whoever woke it is done with its frame
        }
    }

    #[cold]
    fn write_slowly(&self) {
        if self.spin() {
            return;
        }
        let me = Waiter::new(true);
        self.queue.with(|queue| {
            queue.push_back(&raw const me);
            self.word.fetch_or(QUEUED, Ordering::Relaxed);
            self.wake_if_free(queue);
        });
        loop {
            me.sleep();
            if self.queue.with(|queue| self.write_as_first(queue, &me)) {
                return;
            }
        }
    }

    /// Spins; returns whether the lock was stolen. Otherwise readers are inside, or another thread
    /// wants this CPU.
    fn spin(&self) -> bool {
        let is_read = |word| word & WRITER == 0 && word >= READER;
        if is_read(self.word.load(Ordering::Relaxed)) {
            return false;
        }
        self.spinners.write(|| {
            loop {
                let started = P::now();
                P::spin_until(&self.word, LOOK_NS, |word| word & WRITER == 0);
                let lost_its_cpu = P::now().wrapping_sub(started) > 2 * LOOK_NS;
                let word = self.word.load(Ordering::Relaxed);
                if is_read(word) || lost_its_cpu {
                    return false;
                }
                if is_free(word) && self.try_write(word, word | WRITER) {
                    return true;
                }
            }
        })
    }

    /// Takes the lock if it is free and `me` the first in the queue.
    fn write_as_first(&self, queue: &mut Queue<P>, me: &Waiter<P>) -> bool {
        // Whoever leaves the lock free from here on wakes this thread again.
        me.woken.store(0, Ordering::Relaxed);
        if !queue.front().is_some_and(|&first| core::ptr::eq(first, me)) {
            return false;
        }
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if !is_free(word) {
                return false;
            }
            let rest = if queue.len() > 1 { QUEUED } else { 0 };
            if self.try_write(word, WRITER | rest) {
                queue.pop_front();
                return true;
            }
        }
    }

    fn try_write(&self, free: u64, taken: u64) -> bool {
        // Acquire: this thread has the lock.
        self.word.compare_exchange(free, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

impl<P: Platform> BenchLock for Rwsem2017<P> {
    fn create() -> Self {
        Self {
            word: P::AtomicU64::new(0),
            spinners: Mcs::create(),
            queue: Guarded::new(VecDeque::new()),
        }
    }

    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        // Acquire: this thread has the lock, if nobody is in the way.
        if self.word.fetch_add(READER, Ordering::Acquire) & (WRITER | QUEUED) != 0 {
            self.read_queued();
        }
        let result = section();
        // Release: the section happens before that of the next writer.
        if self.word.fetch_sub(READER, Ordering::Release) == READER | QUEUED {
            self.left_free();
        }
        result
    }

    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        if !self.try_write(0, WRITER) {
            self.write_slowly();
        }
        let result = section();
        // Release: the section happens before the next one.
        if self.word.fetch_and(!WRITER, Ordering::Release) & QUEUED != 0 {
            self.left_free();
        }
        result
    }
}

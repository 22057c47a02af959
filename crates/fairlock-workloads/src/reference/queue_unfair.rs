//! The unfair queue lock: a test-and-set lock. Of its waiters only the head of a queue tries to
//! take it, beside newcomers that may be quicker. The head parks if the others do.

use core::sync::atomic::Ordering;

use fairlock::platform::{Atomic, Platform, Thread};

use super::mcs::{Mcs, Style};
use super::{SPIN_NS, parked_at};
use crate::locks::{BenchLock, RwBench};

pub struct UnfairQueue<P: Platform, S: Style> {
    /// [`FREE`], [`HELD`], or held with the head of the queue parked: the address of
    /// its thread's record.
    state: P::AtomicUsize,
    queue: Mcs<P, S>,
}

const FREE: usize = 0;
const HELD: usize = 1;

impl<P: Platform, S: Style> UnfairQueue<P, S> {
    #[inline(always)]
    fn try_acquire(&self) -> bool {
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock, for the head of the queue.
    fn acquire_contended(&self) {
        let bound = if S::PARKS { SPIN_NS } else { u64::MAX };
        loop {
            if !P::spin_until(&self.state, bound, |state: usize| state == FREE) && S::PARKS {
                self.park();
            }
            if self.try_acquire() {
                return;
            }
        }
    }

    /// Sleeps until the lock is released; may return early for no reason.
    #[cold]
    fn park(&self) {
        let thread = P::thread();
        let address = core::ptr::from_ref(thread).expose_provenance();
        // Release: publishes the record to the holder. If the record is there already, the thread
        // was woken for no reason.
        let before =
            self.state.compare_exchange(HELD, address, Ordering::Release, Ordering::Relaxed);
        if before != Err(FREE) {
            Thread::<P>::park();
        }
    }

    /// Only for the holder: otherwise the next owner would come in beside it.
    #[inline(always)]
    fn release(&self) {
        // Release: the section happens before the next one.
        if !S::PARKS {
            return self.state.store(FREE, Ordering::Release);
        }
        // Acquire: the record is seen.
        let state = self.state.swap(FREE, Ordering::AcqRel);
        if state != HELD {
            // SAFETY: the word holds nothing else then.
            unsafe { parked_at::<P>(state) }.unpark();
        }
    }
}

impl<P: Platform, S: Style> RwBench for UnfairQueue<P, S> {
    fn new() -> Self {
        Self { state: P::AtomicUsize::new(FREE), queue: Mcs::create() }
    }

    #[inline(always)]
    fn write_lock(&self) {
        if !self.try_acquire() {
            self.queue.write(|| self.acquire_contended());
        }
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        self.release();
    }
}

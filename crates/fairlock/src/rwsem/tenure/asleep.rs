//! Queueing a thread that sleeps elsewhere. It waits for nothing but the lock from then on, so it
//! sleeps on, until it is next and the lock is left free.

use core::sync::atomic::Ordering;

use super::{FewWakes, InTenure};
use crate::fault::{Fault, active};
use crate::platform::Platform;
use crate::rwsem::queued::Queued;
use crate::rwsem::word::Flags;
use crate::wait::{WaitContext, Waiter};

impl<P: Platform> InTenure<'_, P> {
    /// Queues a waiter whose thread sleeps.
    ///
    /// # Safety
    /// The waiter is in no queue, and stays where it is until its thread has the lock.
    pub(in crate::rwsem) unsafe fn queue_sleeping(&self, waiter: &Waiter<P>) {
        let mut wakes = FewWakes::new();
        self.with_queue(|q| {
            // SAFETY: the caller's promise.
            unsafe { self.queue_up(q, waiter, &mut wakes) };
            if q.tenure.is_next(waiter) {
                self.ask_for(q, waiter, &mut wakes);
            }
        });
        wakes.wake_all();
    }

    /// The waiter, which is next and was not woken, is to be when the lock is left free.
    fn ask_for(&self, q: &mut Queued<P>, waiter: &Waiter<P>, wakes: &mut FewWakes<P>) {
        // In the same step as seeing the lock taken: whoever leaves it free sees the flag.
        let word = self.word.set(Flags::WAKE_NEXT, Ordering::Relaxed);
        if word.may_take_next(waiter.access) && !active(Fault::SleepsBlindly) {
            self.word.clear(Flags::WAKE_NEXT, Ordering::Relaxed);
            self.wake_appointed(q, wakes);
        } else {
            q.tenure.unwoken = true;
        }
    }

    /// The calling thread, whose waiter this is, was [queued](Self::queue_sleeping) or is just being:
    /// waits until it has the lock. While the waiter is not queued yet, it is one that is not next.
    pub(in crate::rwsem) fn wait_for_ever(&self, waiter: &Waiter<P>) {
        let taken = self.wait_queued(waiter, &WaitContext::FOREVER);
        debug_assert!(taken.is_ok(), "a wait for ever has ended");
    }
}

//! Queueing a thread that sleeps at a condition variable. From then on it waits only for this lock, so
//! it stays asleep until it is next and the lock becomes free.

use core::sync::atomic::Ordering;

use super::{FewWakes, InTenure};
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

    /// Sets `WAKE_NEXT` for the waiter, which is next and asleep; wakes it if the lock is free.
    fn ask_for(&self, q: &mut Queued<P>, waiter: &Waiter<P>, wakes: &mut FewWakes<P>) {
        // In the same step as seeing the lock taken: whoever leaves it free sees the flag.
        let word = self.word.set(Flags::WAKE_NEXT, Ordering::Relaxed);
        if word.may_take_next(waiter.access) {
            self.word.clear(Flags::WAKE_NEXT, Ordering::Relaxed);
            self.wake_appointed(q, wakes);
        } else {
            q.tenure.unwoken = true;
        }
    }

    /// Waits until the calling thread, whose waiter this is, has the lock. Another thread has
    /// [queued](Self::queue_sleeping) the waiter, or is about to: until then it is a waiter that is not
    /// next.
    pub(in crate::rwsem) fn wait_for_ever(&self, waiter: &Waiter<P>) {
        let taken = self.wait_queued(waiter, &WaitContext::FOREVER);
        debug_assert!(taken.is_ok(), "a wait for ever has ended");
    }
}

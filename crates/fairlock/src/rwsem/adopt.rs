//! For locks that begin as a word of somebody else's, and become an [`RwSem`] when
//! they are contended; and for the child of a fork. Not part of the interface.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::spin::Spinners;
use super::tenure::Queued;
use super::word::{QUEUE_FLAGS, READER, WRITER_LOCKED};
use crate::platform::{Atomic, Platform};
use crate::ticket::AdaptiveTicketLock;

/// The orderings are Relaxed: whoever publishes the lock afterwards does so with
/// Release, and no holder is here before.
impl<P: Platform> RwSem<P> {
    /// `count` readers hold this lock, which nobody else knows yet: each will
    /// [`unlock_read`](Self::unlock_read) it.
    #[doc(hidden)]
    pub fn adopt_readers(&self, count: usize) {
        self.word.fetch_add(count.wrapping_mul(READER), Ordering::Relaxed);
    }

    /// A writer holds this lock, which nobody else knows yet: it will
    /// [`unlock_write`](Self::unlock_write) it.
    #[doc(hidden)]
    pub fn adopt_writer(&self) {
        self.word.fetch_or(WRITER_LOCKED, Ordering::Relaxed);
        // Which thread it is, nobody knows; the last owner it is not.
        self.set_owner(0);
    }

    /// Whoever holds this lock will never give it up. Somebody may still be busy in
    /// the queue with the end of an earlier release, so its flags stay.
    #[doc(hidden)]
    pub fn forget_holders(&self) {
        self.word.fetch_and(QUEUE_FLAGS, Ordering::Relaxed);
    }

    /// For the child of a fork, where the threads that wait for this lock, or were
    /// busy in its queue, do not exist. The holders stay; so does a reader that was
    /// counted just then and had not queued yet.
    #[doc(hidden)]
    pub fn forget_waiters(&mut self) {
        if self.is_quiet() {
            return; // and the memory stays shared with the parent
        }
        self.word.fetch_and(!QUEUE_FLAGS, Ordering::Relaxed);
        self.queue_lock = AdaptiveTicketLock::new();
        *self.queue.get_mut() = Queued::new();
        self.spinners = Spinners::new();
    }

    /// Nobody is in the queue, or about to be.
    fn is_quiet(&mut self) -> bool {
        self.word.load(Ordering::Relaxed) & QUEUE_FLAGS == 0
            && !self.queue_lock.is_locked()
            && !self.queue_lock.is_contended()
            && self.queue.get_mut().waiters.is_empty()
            && self.spinners.is_idle()
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::super::policy::Policy;
    use super::*;
    use crate::platform::Native;

    type Lock = RwSem<Native>;

    fn for_each_policy(test: impl Fn(Lock)) {
        for policy in [Policy::DEFAULT, Policy::UNFAIR, Policy::HANDOFF, Policy::WRITER_PHASE] {
            test(Lock::new(policy));
        }
    }

    fn past() -> u64 {
        Native::now()
    }

    #[test]
    fn adopted_readers_keep_writers_out_until_the_last_has_left() {
        for_each_policy(|lock| {
            lock.adopt_readers(3);
            for _ in 0..3 {
                assert!(lock.try_read() && !lock.try_write());
                // SAFETY: just taken; and adopted.
                unsafe { (lock.unlock_read(), lock.unlock_read()) };
            }
            assert!(lock.try_write());
        });
    }

    #[test]
    fn an_adopted_writer_grants_the_lock_to_who_waits() {
        for_each_policy(|lock| {
            let lock = Arc::new(lock);
            lock.adopt_writer();
            assert!(!lock.try_read() && !lock.try_write());
            let waiter = {
                let lock = lock.clone();
                thread::spawn(move || {
                    lock.write();
                    // SAFETY: just taken.
                    unsafe { lock.unlock_write() };
                })
            };
            while !lock.has_waiters() && !waiter.is_finished() {
                thread::yield_now();
            }
            // SAFETY: adopted.
            unsafe { lock.unlock_write() };
            waiter.join().unwrap();
        });
    }

    #[test]
    fn forgotten_holders_leave_a_free_lock() {
        for_each_policy(|lock| {
            lock.adopt_readers(7);
            lock.forget_holders();
            assert!(lock.try_write());
            lock.forget_holders();
            // SAFETY: nobody else uses the lock.
            unsafe { lock.check_idle() }.unwrap();
        });
    }

    /// As fork does it: a copy of the lock's memory, without the threads.
    #[test]
    fn without_its_waiters_a_lock_serves_whoever_is_left() {
        for_each_policy(|lock| {
            let lock = Arc::new(lock);
            lock.write();
            let threads = [true, false].map(|reads| {
                let lock = lock.clone();
                // SAFETY: each gives up what it just took.
                thread::spawn(move || unsafe {
                    if reads {
                        lock.read();
                        lock.unlock_read();
                    } else {
                        lock.write();
                        lock.unlock_write();
                    }
                })
            });
            let queued = || {
                let mut queued = 0;
                lock.for_each_waiter(|_, _, _| queued += 1);
                queued
            };
            while queued() < 2 {
                thread::sleep(Duration::from_millis(1));
            }
            // With the queue lock held: some thread had it when the process forked.
            // SAFETY: so nobody changes the queue meanwhile; the rest is atomics. Never
            // dropped, and its pointers are not followed again.
            let copy = lock.with_queue(|_| unsafe { core::ptr::read(Arc::as_ptr(&lock)) });
            let mut child = core::mem::ManuallyDrop::new(copy);
            assert!(child.queue_lock.is_locked());
            child.forget_waiters();
            assert!(child.is_write_locked() && !child.has_waiters());
            assert!(child.read_until(past()).is_err());
            // SAFETY: the copy is held as the lock is.
            unsafe { child.unlock_write() };
            child.write();
            // SAFETY: just taken.
            unsafe { child.unlock_write() };
            // SAFETY: nobody else uses the copy.
            unsafe { child.check_idle() }.unwrap();
            // SAFETY: taken above.
            unsafe { lock.unlock_write() };
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}

//! For locks that begin as a word of somebody else's, with rules of their own, and become an
//! [`RwSem`] when they are contended; and for the child of a fork. Not part of the interface.

use core::sync::atomic::Ordering;

use crate::platform::Platform;
use crate::rwsem::RwSem;
use crate::rwsem::published::Spinners;
use crate::rwsem::queued::LockedQueue;
use crate::rwsem::tenure::InTenure;
use crate::rwsem::word::{Flags, READERS_LIMIT};
use crate::wait::{Access, Kind, Wait, WaitError};

/// The orderings are Relaxed: whoever publishes the lock afterwards does so with Release, and
/// before that no holder uses it.
impl<P: Platform> RwSem<P> {
    /// `count` readers hold this lock, which nobody else knows yet: each will
    /// [`unlock_read`](Self::unlock_read) it. No more than the word has room for are adopted: a
    /// larger `count` is no count of readers.
    ///
    /// # Safety
    /// No writer holds the lock, and those counted already leave room for these.
    #[doc(hidden)]
    pub unsafe fn adopt_readers(&self, count: usize) {
        self.word.enter_readers(count.min(READERS_LIMIT), Ordering::Relaxed);
    }

    /// A writer holds this lock, which nobody else knows yet: it will
    /// [`unlock_write`](Self::unlock_write) it.
    ///
    /// # Safety
    /// Nobody holds the lock, or uses it.
    #[doc(hidden)]
    pub unsafe fn adopt_writer(&self) {
        self.word.set(Flags::WRITER_LOCKED, Ordering::Relaxed);
        self.owner.forget();
    }

    /// The holders of this lock will never give it up: the lock is free from here on. Somebody may still
    /// be busy in the queue with the end of an earlier release, so the queue's flags stay.
    ///
    /// # Safety
    /// So it is: none of them relies on the lock any more.
    #[doc(hidden)]
    pub unsafe fn forget_holders(&self) {
        self.word.keep(Flags::QUEUE, Ordering::Relaxed);
    }

    /// Takes the lock for reading, or gives up at a deadline; asks for that only if it has to wait.
    #[doc(hidden)]
    #[inline]
    pub fn read_until_of(&self, deadline: impl FnOnce() -> u64) -> Result<(), WaitError> {
        match self.read_fast() {
            Ok(()) => Ok(()),
            Err(before) => self.read_slow(before, &Wait::until_nanos(deadline()).begin()),
        }
    }

    /// Takes the lock for writing if it may be had at once, past those that wait if need be.
    #[doc(hidden)]
    #[inline]
    pub fn take_write_at_once(&self) -> bool {
        let steal = |view: InTenure<'_, P>| view.steal_at_once(Access::Exclusive);
        self.try_write() || self.in_tenure().is_some_and(steal)
    }

    /// Takes the lock for writing past those that wait, if the calling thread had it last. This is how
    /// a busy lock is taken nearly always. Counts no event.
    #[cfg(any(feature = "std", fairlock_loom))]
    #[doc(hidden)]
    #[inline]
    pub fn write_again(&self) -> bool {
        let me = P::thread();
        self.in_tenure().is_some_and(|tenure| {
            let taken = tenure.take_again(me, Access::Exclusive);
            taken.map(|again| tenure.note_write_again(me, again)).is_some()
        })
    }

    /// When the first of the queued writers came.
    #[doc(hidden)]
    pub fn first_writer_since(&self) -> Option<u64> {
        self.queue.with(|q| q.waiters.first(Kind::Writer).map(|writer| writer.arrived))
    }

    /// For the child of a fork, where the threads that wait for this lock, or were
    /// busy in its queue, do not exist. The holders stay; so does a reader that was
    /// counted just then and had not queued yet, unless a writer shows that it is none.
    #[doc(hidden)]
    pub fn forget_waiters(&mut self) {
        let word = self.word.load(Ordering::Relaxed);
        // Readers counted beside a writer that is inside were about to take that count back.
        if word.has_writer_inside() && word.readers() > 0 {
            self.word.leave_readers(word.readers(), Ordering::Relaxed);
        }
        let is_quiet = !word.has_any(Flags::QUEUE)
            && self.queue.is_quiet()
            && self.queue.get_mut().waiters.is_empty()
            && self.spinners.is_idle();
        if is_quiet {
            return; // and the memory stays shared with the parent
        }
        self.word.clear(Flags::QUEUE, Ordering::Relaxed);
        self.queue = LockedQueue::new();
        self.spinners = Spinners::new();
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use fairlock_testing::{join, scope, until};

    use super::*;
    use crate::platform::{Native, System};
    use crate::rwsem::policy::Policy;
    use crate::rwsem::word::Word;

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
            // SAFETY: nobody holds it.
            unsafe { lock.adopt_readers(3) };
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
            // SAFETY: nobody uses it.
            unsafe { lock.adopt_writer() };
            assert!(!lock.try_read() && !lock.try_write());
            scope(|s| {
                let waiter = s.spawn(|| {
                    lock.write();
                    // SAFETY: just taken.
                    unsafe { lock.unlock_write() };
                });
                until(|| lock.has_waiters());
                // SAFETY: adopted.
                unsafe { lock.unlock_write() };
                join(waiter);
            });
        });
    }

    #[test]
    fn forgotten_holders_leave_a_free_lock() {
        for_each_policy(|lock| {
            // SAFETY: nobody else uses the lock, and no holder relies on it.
            unsafe {
                lock.adopt_readers(7);
                lock.forget_holders();
                assert!(lock.try_write());
                lock.forget_holders();
                lock.check_idle().unwrap();
            }
        });
    }

    /// A reader that comes to a written lock is counted for a moment. A fork in that moment leaves
    /// the child with the count, and with no such reader.
    #[test]
    fn a_reader_that_was_passing_by_does_not_stay() {
        for_each_policy(|mut lock| {
            for queued in [Flags::NONE, Flags::WAITERS] {
                lock.word.store(Word::WRITTEN.with_reader().with(queued));
                lock.forget_waiters();
                assert!(lock.is_write_locked());
                // SAFETY: so the word says.
                unsafe { lock.unlock_write() };
                assert!(lock.try_write());
                // SAFETY: just taken.
                unsafe { lock.unlock_write() };
                // SAFETY: nobody holds it.
                unsafe { lock.adopt_readers(2) };
                lock.forget_waiters();
                // SAFETY: adopted.
                unsafe { (lock.unlock_read(), lock.unlock_read()) };
                // SAFETY: nobody else uses it.
                unsafe { lock.check_idle() }.unwrap();
            }
        });
    }

    /// What the child of a fork has of `lock` if another thread held the queue lock just then:
    /// its word and its queue, without the threads in it.
    fn forked(lock: &Lock) -> Lock {
        let mut child = Lock::new(lock.policy);
        child.queue.leave_locked();
        lock.queue.with(|q| {
            child.word.store(lock.word.load(Ordering::Relaxed));
            // SAFETY: plain values, which nobody changes without the queue lock; and nobody
            // follows the copied pointers.
            *child.queue.get_mut() = unsafe { core::ptr::read(q) };
        });
        child
    }

    #[test]
    fn without_its_waiters_a_lock_serves_whoever_is_left() {
        for_each_policy(|lock| {
            let lock = &lock;
            lock.write();
            scope(|s| {
                // SAFETY: each gives up what it just took.
                let reader = s.spawn(|| unsafe {
                    lock.read();
                    lock.unlock_read();
                });
                // SAFETY: as above.
                let writer = s.spawn(|| unsafe {
                    lock.write();
                    lock.unlock_write();
                });
                until(|| lock.queue.with(|q| q.waiters.len()) == 2);
                let mut child = forked(lock);
                assert!(child.has_waiters() && !child.queue.is_quiet());
                child.forget_waiters();
                assert!(child.is_write_locked() && !child.has_waiters());
                assert!(child.read_with(Wait::until_nanos(past())).is_err());
                // SAFETY: held as the lock is that it was made from.
                unsafe { child.unlock_write() };
                child.write();
                // SAFETY: just taken.
                unsafe { child.unlock_write() };
                // SAFETY: nobody else uses it.
                unsafe { child.check_idle() }.unwrap();
                // SAFETY: taken above.
                unsafe { lock.unlock_write() };
                join(reader);
                join(writer);
            });
        });
    }
}

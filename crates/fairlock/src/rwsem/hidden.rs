//! What is no part of the interface: for locks that begin as a word of somebody else's, with rules of their own,
//! and become an [`RwSem`](super::RwSem) when they are contended; for the child of a fork; and for concurrency
//! testers, whether the lock is what its word says, seen between two steps of its threads.

use core::fmt;
use core::mem::offset_of;
use core::sync::atomic::Ordering;

use super::sem::{Head, LockedQueue, Parts, Queued, Rules, Sem};
use super::word::{Flags, READERS_LIMIT, Word};
use crate::inspect;
use crate::platform::Platform;
use crate::ticket::AdaptiveTicketLock;
use crate::wait::{GRANTED, Kind, Queue};

/// The orderings are Relaxed: whoever publishes the lock afterwards does so with Release, and
/// before that no holder uses it.
impl<P: Platform, D: Rules<P>> Sem<P, D> {
    /// # Safety
    /// No writer holds the lock, and those counted already leave room for these.
    pub(crate) unsafe fn adopt_readers(&self, count: usize) {
        self.word.enter_readers(count.min(READERS_LIMIT), Ordering::Relaxed);
    }

    /// # Safety
    /// Nobody holds the lock, or uses it.
    pub(crate) unsafe fn adopt_writer(&self) {
        self.word.set(Flags::WRITER_LOCKED, Ordering::Relaxed);
    }

    /// # Safety
    /// No holder relies on the lock any more.
    pub(crate) unsafe fn forget_holders(&self) {
        self.word.keep(Flags::QUEUE, Ordering::Relaxed);
    }

    /// Runs `f` on the queue. `f` must not panic, and must not use this lock.
    pub(crate) fn with_waiters<R>(&self, f: impl FnOnce(&Queue<P>) -> R) -> R {
        self.queue.with(|q| f(&q.waiters))
    }

    pub(crate) fn first_writer_since(&self) -> Option<u64> {
        self.with_waiters(|waiters| waiters.first(Kind::Writer).map(|writer| writer.arrived))
    }

    pub(crate) fn forget_waiters(&mut self) {
        let word = self.word.load(Ordering::Relaxed);
        // Readers counted beside a writer that is inside were about to take that count back.
        if word.has_writer_inside() && word.readers() > 0 {
            self.word.leave_readers(word.readers(), Ordering::Relaxed);
        }
        let is_quiet = !word.has_any(Flags::QUEUE)
            && self.queue.is_quiet()
            && self.queue.get_mut().waiters.is_empty();

        if is_quiet {
            return; // and the memory stays shared with the parent
        }
        self.word.clear(Flags::QUEUE, Ordering::Relaxed);
        self.queue = LockedQueue::of(AdaptiveTicketLock::new(), D::QUEUED);
    }
}

/// The state word, taken apart.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub writer: bool,
    /// With `writer`: nobody holds the lock for writing, it is kept in a pool.
    pub sealed: bool,
    pub readers: usize,
    pub waiters: bool,
    pub upgradable: bool,
    pub handoff: bool,
    pub readers_turn: bool,
    pub wake_next: bool,
}

impl<P: Platform> Head<P> {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let word = self.now();
        Snapshot {
            writer: word.is_written(),
            sealed: word.is_sealed(),
            readers: word.readers(),
            waiters: word.has_waiters(),
            upgradable: word.is_upgradable(),
            handoff: word.is_closed(),
            readers_turn: word.is_readers_turn(),
            wake_next: word.has_next_to_wake(),
        }
    }
}

impl<P: Platform, D: Rules<P>> Sem<P, D> {
    /// # Safety
    /// No thread runs in a method of this lock meanwhile; any may be stopped in one.
    pub(crate) unsafe fn check(
        &self,
        inside: usize,
        writer: bool,
        threads: usize,
    ) -> Result<(), &'static str> {
        let word = self.word.load(Ordering::Relaxed);
        if word.readers() > threads || word.is_sealed() {
            return Err("the word is corrupt");
        }
        if word.is_upgradable() && !word.is_written() && word.readers() == 0 {
            return Err("an upgradable reader is not counted");
        }
        if word.readers() < inside {
            return Err("the word does not count every reader inside");
        }
        if writer && !word.is_written() {
            return Err("the word does not know of the writer inside");
        }
        if !word.has_waiters() && word.has_any(Flags::QUEUE) {
            return Err("a flag of the queue is set, and nobody is queued (rule 6)");
        }
        // SAFETY: the caller's promise.
        match unsafe { self.queue.peek() } {
            Some(q) => self.check_queue(word, q),
            None => Ok(()), // somebody is changing the queue
        }
    }

    fn check_queue(&self, word: Word, q: &Queued<P, D::Queued>) -> Result<(), &'static str> {
        let mut length = 0;
        for kind in [Kind::Reader, Kind::Writer] {
            let mut waiter = q.waiters.first(kind);
            while let Some(queued) = waiter {
                length += 1;
                if queued.state() == GRANTED || queued.kind != kind {
                    return Err("somebody is queued who owns the lock already");
                }
                waiter = q.waiters.after(queued);
            }
        }
        if length != q.waiters.len() {
            return Err("the queue does not know its length");
        }
        if word.has_waiters() != (length > 0) {
            return Err("WAITERS does not say whether the queue is empty");
        }
        if !D::knows_next(q) {
            return Err("nobody in the queue is next");
        }
        Ok(())
    }

    /// # Safety
    /// As [`check`](Self::check).
    pub(crate) unsafe fn for_each_queued(&self, mut f: impl FnMut(usize, char)) -> bool {
        // SAFETY: the caller's promise.
        let Some(q) = (unsafe { self.queue.peek() }) else { return false };
        let letter = |state| ['W', 'N', 'I', 'G'].get(state as usize).copied().unwrap_or('?');
        q.waiters.iter().for_each(|waiter| f(waiter.thread.hint(), letter(waiter.state())));
        true
    }

    /// # Safety
    /// As [`check`](Self::check).
    pub(crate) unsafe fn check_idle(&self) -> Result<(), &'static str> {
        // SAFETY: the caller's promise.
        unsafe { self.check(0, false, 0) }?;
        if self.word.load(Ordering::Relaxed) != Word::FREE {
            return Err("the lock is not free after everybody has left");
        }
        self.queue.check_idle()
    }

    pub(crate) fn field_at(&self, address: usize) -> Option<&'static str> {
        let fields = [
            (offset_of!(Parts<P, D>, head), size_of_val(&self.word), "word"),
            (offset_of!(Parts<P, D>, near), size_of_val(&self.near), "owner"),
            (offset_of!(Parts<P, D>, queue), size_of_val(&self.queue), "queue"),
        ];
        inspect::field_at(self, address, &fields)
            .or_else(|| inspect::field_at(&self.lines, address, D::FIELDS))
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writer, readers, waiters, upgradable, handoff, .. } = *self;
        let mut separator = "";
        let mut say = |is: bool, what: &dyn fmt::Display| {
            if is {
                write!(f, "{separator}{what}")?;
                separator = " ";
            }
            Ok(())
        };
        say(writer, &"WRITER_LOCKED")?;
        say(readers > 0, &format_args!("readers={readers}"))?;
        say(upgradable, &"UPGRADABLE")?;
        say(waiters, &"WAITERS")?;
        say(handoff, &"HANDOFF")?;
        say(self.readers_turn, &"READERS_TURN")?;
        say(self.wake_next, &"WAKE_NEXT")?;
        say(!writer && readers == 0, &"free")
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use fairlock_testing::{join, scope, until};

    use super::*;
    use crate::platform::{Native, System};
    use crate::rwsem::Policy;
    use crate::rwsem::RwSem;
    use crate::rwsem::word::Word;
    use crate::wait::Wait;

    type Lock = RwSem<Native>;

    fn for_each_policy(test: impl Fn(Lock)) {
        for policy in [Policy::DEFAULT, Policy::DEFAULT.with_priorities()] {
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
        let lock = lock.turns();
        let mut child = Sem::new(lock.policy);
        child.queue.leave_locked();
        lock.queue.with(|q| {
            child.word.store(lock.word.load(Ordering::Relaxed));
            // SAFETY: plain values, which nobody changes without the queue lock; and nobody
            // follows the copied pointers.
            *child.queue.get_mut() = unsafe { core::ptr::read(q) };
        });
        RwSem::of(child)
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
                until(|| lock.with_waiters(|waiters| waiters.len()) == 2);
                let mut child = forked(lock);
                assert!(child.has_waiters() && !child.turns().queue.is_quiet());
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

//! What is no part of the interface: for concurrency testers, whether the lock is what its word says, seen
//! between two steps of its threads.

use core::fmt;
use core::mem::offset_of;
use core::sync::atomic::Ordering;

use super::RwSem;
use super::word::{Flags, Word};
use crate::inspect;
use crate::platform::Platform;
use crate::wait::{GRANTED, Kind, Queue};

/// The state word, taken apart.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub writer: bool,
    pub readers: usize,
    pub waiters: bool,
    pub handoff: bool,
    pub writer_phase: bool,
}

#[doc(hidden)]
impl<P: Platform> RwSem<P> {
    pub fn snapshot(&self) -> Snapshot {
        let word = self.now();
        Snapshot {
            writer: word.is_written(),
            readers: word.readers(),
            waiters: word.has_waiters(),
            handoff: word.is_closed(),
            writer_phase: word.is_writer_phase(),
        }
    }

    /// What is wrong with the lock, where `threads` threads use it, and the given number of
    /// readers, or a writer, are known to be inside.
    ///
    /// # Safety
    /// No thread runs in a method of this lock meanwhile; any may be stopped in one.
    pub unsafe fn check(
        &self,
        inside: usize,
        writer: bool,
        threads: usize,
    ) -> Result<(), &'static str> {
        let word = self.now();
        if word.readers() > threads {
            return Err("the word is corrupt");
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

    fn check_queue(&self, word: Word, q: &Queue<P>) -> Result<(), &'static str> {
        let mut length = 0;
        for kind in [Kind::Reader, Kind::Writer] {
            let mut waiter = q.first(kind);
            while let Some(queued) = waiter {
                length += 1;
                if queued.state() == GRANTED || queued.kind != kind {
                    return Err("somebody is queued who owns the lock already");
                }
                waiter = q.after(queued);
            }
        }
        if length != q.len() {
            return Err("the queue does not know its length");
        }
        if word.has_waiters() != (length > 0) {
            return Err("WAITERS does not say whether the queue is empty");
        }
        let head = q.head().map(|head| head.kind);
        if word.is_writer_phase() && head != Some(Kind::Writer) {
            return Err("WRITER_PHASE is set, and no writer heads the queue");
        }
        let phase = self.policy.writer_phase;
        if phase && !word.is_writer_phase() && head == Some(Kind::Writer) {
            return Err("a writer heads the queue, and WRITER_PHASE is not set");
        }
        Ok(())
    }

    /// Calls `f` with the hint of each queued thread, and the first letter of its state (waiting, granted);
    /// false if somebody is changing the queue.
    ///
    /// # Safety
    /// As [`check`](Self::check).
    pub unsafe fn for_each_queued(&self, mut f: impl FnMut(usize, char)) -> bool {
        // SAFETY: the caller's promise.
        let Some(q) = (unsafe { self.queue.peek() }) else { return false };
        let letter = |state| if state == GRANTED { 'G' } else { 'W' };
        q.iter().for_each(|waiter| f(waiter.thread.hint(), letter(waiter.state())));
        true
    }

    /// Checks that nothing is left in a lock that nobody uses.
    ///
    /// # Safety
    /// As [`check`](Self::check).
    pub unsafe fn check_idle(&self) -> Result<(), &'static str> {
        // SAFETY: the caller's promise.
        unsafe { self.check(0, false, 0) }?;
        if self.word.load(Ordering::Relaxed) != Word::FREE {
            return Err("the lock is not free after everybody has left");
        }
        if !self.spinners.is_idle() {
            return Err("somebody is in the spinner queue after everybody has left");
        }
        self.queue.check_idle()
    }

    /// The name of what is at an address in the lock.
    pub fn field_at(&self, address: usize) -> Option<&'static str> {
        let fields = [
            (offset_of!(RwSem<P>, word), size_of_val(&self.word), "word"),
            (offset_of!(RwSem<P>, owner), size_of_val(&self.owner), "owner"),
            (offset_of!(RwSem<P>, spinners), size_of_val(&self.spinners), "spinners"),
            (offset_of!(RwSem<P>, queue), size_of_val(&self.queue), "queue"),
        ];
        inspect::field_at(self, address, &fields)
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writer, readers, waiters, handoff, writer_phase } = *self;
        inspect::write_those(
            f,
            &[
                (writer, &"WRITER_LOCKED"),
                (readers > 0, &format_args!("readers={readers}")),
                (waiters, &"WAITERS"),
                (handoff, &"HANDOFF"),
                (writer_phase, &"WRITER_PHASE"),
                (!writer && readers == 0, &"free"),
            ],
        )
    }
}

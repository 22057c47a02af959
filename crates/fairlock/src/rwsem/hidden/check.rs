//! For concurrency testers: whether the lock is what its word says, seen between
//! two steps of its threads. Not part of the interface.

use core::fmt;
use core::mem::offset_of;
use core::sync::atomic::Ordering;

use crate::inspect;
use crate::platform::Platform;
use crate::rwsem::queued::Queued;
use crate::rwsem::word::{Flags, Word};
use crate::rwsem::{Parts, RwSem};
use crate::wait::{GRANTED, Kind};

/// The state word, taken apart.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub writer: bool,
    pub readers: usize,
    pub waiters: bool,
    pub upgradable: bool,
    pub handoff: bool,
    pub writer_phase: bool,
}

impl<P: Platform> RwSem<P> {
    #[doc(hidden)]
    pub fn snapshot(&self) -> Snapshot {
        let word = self.word.load(Ordering::Relaxed);
        Snapshot {
            writer: word.is_written(),
            readers: word.readers(),
            waiters: word.has_waiters(),
            upgradable: word.is_upgradable(),
            handoff: word.is_closed(),
            writer_phase: word.is_writer_phase(),
        }
    }

    /// What is wrong with the lock, where `threads` threads use it, and the given number of
    /// readers, or a writer, are known to be inside.
    ///
    /// # Safety
    /// No thread runs in a method of this lock meanwhile; any may be stopped in one.
    #[doc(hidden)]
    pub unsafe fn check(
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

    fn check_queue(&self, word: Word, q: &Queued<P>) -> Result<(), &'static str> {
        let mut length = 0;
        let mut has_next = q.tenure.next().is_none();
        for kind in [Kind::Reader, Kind::Writer] {
            let mut waiter = q.waiters.first(kind);
            while let Some(queued) = waiter {
                length += 1;
                has_next |= q.tenure.is_next(queued);
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
        if !has_next || (self.in_tenure().is_some() && length > 0 && q.tenure.next().is_none()) {
            return Err("nobody in the queue is next");
        }
        let head = q.waiters.head().map(|head| head.kind);
        if word.is_writer_phase() && head != Some(Kind::Writer) {
            return Err("WRITER_PHASE is set, and no writer heads the queue");
        }
        Ok(())
    }

    /// Calls `f` with the hint of each queued thread; false if somebody is changing
    /// the queue.
    ///
    /// # Safety
    /// As [`check`](Self::check).
    #[doc(hidden)]
    pub unsafe fn for_each_queued(&self, mut f: impl FnMut(usize)) -> bool {
        // SAFETY: the caller's promise.
        let Some(q) = (unsafe { self.queue.peek() }) else { return false };
        q.waiters.iter().for_each(|waiter| f(waiter.thread.hint()));
        true
    }

    /// Checks that nothing is left in a lock that nobody uses.
    ///
    /// # Safety
    /// As [`check`](Self::check).
    #[doc(hidden)]
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
    #[doc(hidden)]
    pub fn field_at(&self, address: usize) -> Option<&'static str> {
        let fields = [
            (offset_of!(Parts<P>, word), size_of_val(&self.word), "word"),
            (offset_of!(Parts<P>, owner), size_of_val(&self.owner), "owner"),
            (offset_of!(Parts<P>, favour), size_of_val(&self.favour), "favour"),
            (offset_of!(Parts<P>, holder), size_of_val(&self.holder), "holder"),
            (offset_of!(Parts<P>, queue), size_of_val(&self.queue), "queue"),
            (offset_of!(Parts<P>, spinners), size_of_val(&self.spinners), "spinners"),
        ];
        inspect::field_at(self, address, &fields)
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writer, readers, waiters, upgradable, handoff, writer_phase } = *self;
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
        say(writer_phase, &"WRITER_PHASE")?;
        say(!writer && readers == 0, &"free")
    }
}

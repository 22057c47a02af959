//! Who spins: `ReaderSpin::Adaptive`.
//!
//! A reader that spins gets in instead of a writer, and lets all queued readers in
//! beside it. Readers run side by side, but each has to be woken, one after the
//! other; writers run one by one, but those that spin follow each other at the cost
//! of a cache line. Which of the two is faster depends on the machine and on the
//! sections, so the lock measures it: what the [`turns`](super::turns) of either
//! side yield.
//!
//! While somebody is queued, the side that yields less *holds back*. Its threads do
//! not spin, and its readers do not steal either. Its writers do: who comes by when
//! the lock is free is the only one awake, and before it the head would have to be
//! woken. A side that holds back has its turns by handoff, so both keep being
//! measured. Of the readers one at a time spins, as under `One`, and only for a
//! writer: a spinner cannot join the readers inside past the queue.
//!
//! While nobody is queued all may spin: nobody sleeps, and nobody is passed over.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::policy::ReaderSpin;
use super::spin::READER_OWNED;
use super::tenure::Queued;
use super::word::{WAITERS, WRITER_LOCKED};
use crate::platform::{Atomic, ConstZero, Platform};
use crate::wait::Kind;

/// What is known without the queue lock. Relaxed throughout: hints.
pub(super) struct Favour<P: Platform> {
    /// The side whose turns yield more, as a number.
    pub(super) side: P::AtomicUsize,
    /// When a writer last got in after readers (low bits of the clock).
    written: P::AtomicUsize,
}

impl<P: Platform> Favour<P> {
    pub(super) fn new() -> Self {
        Self { side: P::AtomicUsize::new(0), written: P::AtomicUsize::new(0) }
    }

    pub(super) const fn new_const() -> Self
    where
        P::AtomicUsize: ConstZero,
    {
        Self { side: ConstZero::ZERO, written: ConstZero::ZERO }
    }
}

impl<P: Platform> RwSem<P> {
    fn adapts(&self) -> bool {
        self.policy.reader_spin == ReaderSpin::Adaptive
    }

    /// Which readers spin at this time.
    pub(super) fn reader_spin(&self) -> ReaderSpin {
        if !self.adapts() {
            return self.policy.reader_spin;
        }
        let word = self.word.load(Ordering::Relaxed);
        if word & WAITERS == 0 {
            ReaderSpin::On
        } else if word & WRITER_LOCKED != 0 && !self.holds_back(Kind::Reader, word) {
            ReaderSpin::One
        } else {
            ReaderSpin::Off
        }
    }

    /// Whether a thread of this side that found `word` leaves the lock to others.
    pub(super) fn holds_back(&self, side: Kind, word: usize) -> bool {
        self.adapts()
            && word & WAITERS != 0
            && self.favour.side.load(Ordering::Relaxed) != side as usize
    }

    /// A writer got in by a slow path, and is not the owner yet: who was?
    pub(super) fn note_change_to_writer(&self) {
        if self.adapts() && self.owner.load(Ordering::Relaxed) & READER_OWNED != 0 {
            self.favour.written.store(P::now() as usize, Ordering::Relaxed);
        }
    }

    // ---- under the queue lock ----

    /// The first waiter queued, and found `word`.
    pub(super) fn begin_turns(&self, q: &mut Queued<P>, word: usize, now: u64) {
        if self.adapts() {
            let side = if word & WRITER_LOCKED != 0 { Kind::Writer } else { Kind::Reader };
            if side == Kind::Reader {
                self.note_readers();
            }
            q.turns.begin(side, now as usize);
        }
    }

    /// A writer leaves, and somebody is queued.
    pub(super) fn count_write(&self, q: &mut Queued<P>) {
        self.count_turn(q, Kind::Writer, 1, || self.favour.written.load(Ordering::Relaxed));
    }

    /// Readers got in.
    pub(super) fn count_reads(&self, q: &mut Queued<P>, reads: usize) {
        if self.adapts() {
            self.note_readers();
            self.count_turn(q, Kind::Reader, reads as u64, || P::now() as usize);
        }
    }

    /// A reader queued although the lock is free: if it held back, the wait until the
    /// head has been woken is what the writers' turn costs.
    pub(super) fn count_idle(&self, q: &mut Queued<P>, since: u64) {
        if self.holds_back(Kind::Reader, WAITERS) {
            self.count_turn(q, Kind::Writer, 0, || since as usize);
        }
    }

    /// The last waiter left.
    pub(super) fn end_turns(&self, q: &mut Queued<P>) {
        if self.adapts() {
            q.turns.end(P::now() as usize);
            self.note_favour(q);
        }
    }

    fn count_turn(
        &self,
        q: &mut Queued<P>,
        side: Kind,
        acquisitions: u64,
        since: impl FnOnce() -> usize,
    ) {
        if self.adapts() && q.turns.count(side, acquisitions, since) {
            self.note_favour(q);
        }
    }

    fn note_favour(&self, q: &Queued<P>) {
        let better = q.turns.better() as usize;
        // Everybody reads it: not written without need.
        if self.favour.side.load(Ordering::Relaxed) != better {
            self.favour.side.store(better, Ordering::Relaxed);
        }
    }
}

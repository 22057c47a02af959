//! The whole lock as one: the gate.
//!
//! While all threads take the full range, a range lock acts as a reader/writer lock. So then it is
//! one: [`RawRwLock`], under the flag `WHOLE`. A thread that finds the word empty may set `WHOLE`, as
//! then nobody holds or waits for a range. A thread that comes for a part clears it:
//!
//! * a **writer** takes the gate for writing first, so nobody is inside by it, and
//!   exchanges `WHOLE` for a slot of its own;
//! * a **reader** takes the gate for reading, and exchanges `WHOLE` for a slot and `DRAIN`: other
//!   readers may still be inside by the gate, each with the full range. They block no reader. The
//!   first writer takes the gate for writing, which waits for them, and clears `DRAIN`.
//!
//! A thread that has the gate for the full range looks at the word again. If `WHOLE` is still set,
//! it holds the range; if not, it gives the gate back. The look may be out of date: a reader may
//! just have exchanged `WHOLE` for `DRAIN`. That does no harm to a reader of the full range, as
//! every writer passes the gate before it enters a slot or the tree. It cannot happen to a writer,
//! which has the gate alone.
//!
//! Threads that each read and write by turns gain nothing from turns of the sides: when that is
//! measured, the lock stops being a whole, and running threads may overtake.
//!
//! Where nobody may ever be overtaken, the gate's turns are not allowed: under
//! [`RangePolicy::FIFO`](super::RangePolicy::FIFO) `WHOLE` is never raised. Nor is it while ranges
//! are traced.

use core::sync::atomic::Ordering;

use super::slots::Missed;
use super::slots::word::{Flags, Packed, SlotBits, Word};
use super::span::Span;
use super::{AGAIN, Hold, LONG, RangeRwLock, Request};
use crate::lock::{Policy, RawRwLock};
use crate::platform::{Atomic, ConstZero, PooledPlatform};
use crate::wait::{Kind, Wait, WaitContext, WaitError};

/// How often a thread has to read next after it was the last to write, for threads to count as
/// mixed. In reads; compared with how many there were.
const MIXED: usize = 64;

/// Why the gate was not had.
pub(super) enum Shut {
    /// The gate would have to be waited for.
    Busy,
    /// The wait for the gate ended in this way, or would be in vain.
    Wait(WaitError),
}

/// How a caller is ready to wait for the gate; `None`: not at all.
pub(super) type Patience<'a, 'b, P> = Option<&'a WaitContext<'b, P>>;

pub(super) struct Gate<P: PooledPlatform> {
    /// The lock of the full range, while that is all that is asked for.
    pub(super) lock: RawRwLock<P>,
    /// How many full ranges are left until the lock is taken as a whole again.
    until_open: P::AtomicUsize,
    /// How many there will be the next time.
    reopen: P::AtomicUsize,
    /// When the lock was last taken as a whole.
    opened: P::AtomicU64,
    /// Who last wrote by the gate: a thread hint.
    last_writer: P::AtomicUsize,
    /// How often the last writer read next.
    mixed: P::AtomicUsize,
}

/// Relaxed throughout: guesses about what pays.
impl<P: PooledPlatform> Gate<P> {
    pub(super) fn new() -> Self {
        let zero = || P::AtomicUsize::new(0);
        Self {
            lock: RawRwLock::new(Policy::DEFAULT),
            until_open: zero(),
            reopen: zero(),
            opened: P::AtomicU64::new(0),
            last_writer: zero(),
            mixed: zero(),
        }
    }

    pub(super) const fn new_const() -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
    {
        Self {
            lock: RawRwLock::new_const(),
            until_open: ConstZero::ZERO,
            reopen: ConstZero::ZERO,
            opened: ConstZero::ZERO,
            last_writer: ConstZero::ZERO,
            mixed: ConstZero::ZERO,
        }
    }

    /// Whether threads read and write by turns, as far as this thread, inside the gate as `kind`,
    /// can tell: it was the last to write, and now it reads. The gate has turns for readers and
    /// turns for writers, which such threads would end all the time.
    #[inline]
    fn mixes(&self, kind: Kind) -> bool {
        let me = P::thread_hint();
        // Loads before stores, to leave the line alone.
        let last = self.last_writer.load(Ordering::Relaxed);
        if kind == Kind::Writer {
            if last != me {
                self.last_writer.store(me, Ordering::Relaxed);
            }
            return false;
        }
        if last != me || me == 0 {
            return false;
        }
        let mixed = self.mixed.load(Ordering::Relaxed) + 1;
        self.mixed.store(mixed, Ordering::Relaxed);
        mixed > MIXED
    }

    /// A full range is asked for: whether there have been enough of them for the lock to be
    /// taken as a whole. A load and a store, not one step: a count that is roughly right will
    /// do.
    fn is_due(&self) -> bool {
        let left = self.until_open.load(Ordering::Relaxed);
        if left > 0 {
            self.until_open.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// The lock is not taken as a whole for a long time, as threads mix.
    fn put_off(&self) {
        self.mixed.store(0, Ordering::Relaxed);
        self.reopen.store(AGAIN.1, Ordering::Relaxed);
        self.until_open.store(AGAIN.1, Ordering::Relaxed);
    }

    /// Somebody asks for a part: full ranges in a row count from here, and it takes more of them
    /// each time for the lock to be a whole again.
    fn count_closing(&self) {
        let lasted = P::now().saturating_sub(self.opened.load(Ordering::Relaxed));
        let before = self.reopen.load(Ordering::Relaxed);
        let next = if lasted > LONG { AGAIN.0 } else { (2 * before).clamp(AGAIN.0, AGAIN.1) };
        self.reopen.store(next, Ordering::Relaxed);
        self.until_open.store(next, Ordering::Relaxed);
    }

    /// # Safety
    /// The caller holds the gate as `kind`.
    #[inline]
    pub(super) unsafe fn leave(&self, kind: Kind) {
        // SAFETY: the caller's promise.
        unsafe {
            match kind {
                Kind::Reader => self.lock.unlock_read(),
                Kind::Writer => self.lock.unlock_write(),
            }
        }
    }
}

impl<P: PooledPlatform> RangeRwLock<P> {
    /// Takes the full range by the gate, if the lock is taken as a whole, or can be. `Ok(None)`: it
    /// is not.
    #[inline]
    pub(super) fn acquire_whole(
        &self,
        request: Request,
        patience: Patience<'_, '_, P>,
    ) -> Result<Option<Hold>, Shut> {
        let kind = request.kind();
        while self.is_by_gate() {
            self.enter_gate(request, patience)?;
            // Acquire: what was done under ranges before `WHOLE` was raised is seen.
            if self.core.word.load(Ordering::Acquire).is_whole() {
                if self.gate.mixes(kind) {
                    return Ok(Some(self.stop_whole(kind)));
                }
                return Ok(Some(Hold::GATE));
            }
            // SAFETY: just taken.
            unsafe { self.gate.leave(kind) };
        }
        Ok(None)
    }

    /// As [`acquire_whole`](Self::acquire_whole), where `is_by_gate` says that the range has to be
    /// had by the gate, and nothing ends the wait. False if that is not so any more, or is to be
    /// changed.
    #[inline]
    pub(super) fn enter_whole_forever(&self, kind: Kind) -> Result<bool, WaitError> {
        match kind {
            Kind::Reader => self.gate.lock.read_with(Wait::FOREVER)?,
            Kind::Writer => self.gate.lock.write(),
        }
        // Acquire: as above.
        if self.core.word.load(Ordering::Acquire).is_whole() && !self.gate.mixes(kind) {
            return Ok(true);
        }
        // SAFETY: just taken.
        unsafe { self.gate.leave(kind) };
        Ok(false)
    }

    /// Whether a full range that is asked for now has to be had by the gate: raises `WHOLE` if it
    /// is time.
    #[inline]
    pub(super) fn is_by_gate(&self) -> bool {
        self.is_whole() || self.open()
    }

    /// Whether the lock is taken as a whole.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        // Relaxed: looked at again once the gate is held.
        let word = self.core.word.load(Ordering::Relaxed);
        word.is_whole() && !word.has_any(Flags::TRACED)
    }

    /// The next full range may take the lock as a whole.
    #[cfg(all(test, not(fairlock_loom)))]
    pub(super) fn reopen_at_once(&self) {
        self.gate.until_open.store(0, Ordering::Relaxed);
    }

    /// Ends that the lock is a whole, from inside the gate and for a long time.
    #[cold]
    fn stop_whole(&self, kind: Kind) -> Hold {
        let hold = self.out_of_gate(kind);
        self.gate.put_off();
        hold
    }

    /// Raises `WHOLE` if nobody holds or waits for anything, and only full ranges were asked for
    /// lately.
    #[inline]
    fn open(&self) -> bool {
        if self.core.policy.is_fifo() {
            return false;
        }
        if self.core.word.load(Ordering::Relaxed) != Word::FREE {
            return false;
        }
        self.gate.is_due() && self.raise()
    }

    #[cold]
    fn raise(&self) -> bool {
        // Under the tree lock, so that nobody is listed beside the gate.
        self.core.with_queue(|q| {
            // Relaxed: the thread that sees `WHOLE` acquires this word, and so what was done under ranges
            // before.
            let raised = q.patient.is_empty()
                && self
                    .core
                    .word
                    .compare_exchange(Word::FREE, Word::WHOLE, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if raised {
                self.gate.opened.store(P::now(), Ordering::Relaxed);
            }
            raised
        })
    }

    /// The lock was found to be taken as a whole, or readers may still be inside by the gate: ends
    /// that, as far as it concerns a range of this kind. `Ok(Some)` if the range was had on the
    /// way.
    #[cold]
    pub(super) fn pass_gate(
        &self,
        span: Span,
        request: Request,
        patience: Patience<'_, '_, P>,
    ) -> Result<Option<Hold>, Shut> {
        let kind = request.kind();
        self.enter_gate(request, patience)?;
        let hold = self.close(span, kind);
        // SAFETY: just taken.
        unsafe { self.gate.leave(kind) };
        Ok(hold)
    }

    /// With the gate held as `kind`: exchanges `WHOLE` for a slot with `span`, if that can be
    /// packed, and for `DRAIN` if other readers may be inside; for a writer, clears `DRAIN`. `None`
    /// if it took no slot.
    fn close(&self, span: Span, kind: Kind) -> Option<Hold> {
        let drain = Flags::DRAIN.only_if(kind == Kind::Reader);
        let packed = Packed::pack(span);
        let slot = packed.map_or(SlotBits::NONE, |_| SlotBits::new(0, kind));
        let mut word = self.core.word.load(Ordering::Relaxed);
        while word.is_whole() {
            // AcqRel: Acquire, as every way to hold a range (rule 3), and Release,
            // which hands on what was done under the gate.
            match self.core.word.compare_exchange_weak(
                word,
                word.without(Flags::WHOLE).with(drain).with_slot(slot),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    self.gate.count_closing();
                    // Relaxed: nobody looks who saw the slot's last holder, as the word was empty
                    // when `WHOLE` was raised.
                    return packed.map(|packed| {
                        self.core.slots[0].store(packed.0, Ordering::Relaxed);
                        Hold::slot(0)
                    });
                }
                Err(now) => word = now,
            }
        }
        if kind == Kind::Writer {
            // Nobody is inside by the gate, and nobody will be. Release: as above.
            self.core.word.clear(Flags::DRAIN, Ordering::Release);
        }
        None
    }

    /// The caller holds the full range by the gate: from here on by a slot, or the tree, instead.
    pub(super) fn out_of_gate(&self, kind: Kind) -> Hold {
        let hold = self.close(Span::FULL, kind).unwrap_or_else(|| {
            loop {
                // A reader beside other readers: no writer can be inside or waiting.
                match self.core.attempt(Span::FULL, kind) {
                    Ok(hold) => break hold,
                    Err(missed) => {
                        debug_assert!(missed != Missed::Gate && kind == Kind::Reader);
                        P::yield_now(); // just being taken, or left, by another reader
                    }
                }
            }
        });
        // SAFETY: the caller held the gate so far.
        unsafe { self.gate.leave(kind) };
        hold
    }

    #[inline]
    fn enter_gate(&self, request: Request, patience: Patience<'_, '_, P>) -> Result<(), Shut> {
        let gate = &self.gate.lock;
        if let Some(context) = patience {
            let waited = match request {
                Request::Read => gate.read_with(context.into()),
                Request::ReadRecursive => gate.read_recursive_with(context.into()),
                Request::Write => gate.write_with(context.into()),
            };
            return waited.map_err(Shut::Wait);
        }
        let had = match request {
            Request::Read => gate.try_read(),
            Request::ReadRecursive => gate.try_read_recursive(),
            Request::Write => gate.try_write(),
        };
        if had {
            return Ok(());
        }
        let is_full = request != Request::Write && gate.is_saturated();
        Err(if is_full { Shut::Wait(WaitError::TooManyReaders) } else { Shut::Busy })
    }
}

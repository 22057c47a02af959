//! The ways to get a range, from the public methods to the choice between gate,
//! slots, tree and wait.

use core::ops::RangeBounds;
use core::time::Duration;

use super::gate::{Patience, Shut};
use super::guard::{RangeReadGuard, RangeWriteGuard};
use super::slots::Missed;
use super::span::{RangeError, Span};
use super::{Hold, RangeRwLock};
use crate::fault::{Fault, active};
use crate::platform::Platform;
use crate::wait::{CancelToken, Kind, WaitContext, WaitError};

impl<P: Platform> RangeRwLock<P> {
    /// Locks `range` for reading; blocks until it has it.
    ///
    /// # Errors
    /// [`Empty`](RangeError::Empty), [`Inverted`](RangeError::Inverted),
    /// [`TooManyReaders`](RangeError::TooManyReaders).
    #[inline]
    pub fn read(&self, range: impl RangeBounds<u64>) -> Result<RangeReadGuard<'_, P>, RangeError> {
        let span = Span::new(range)?;
        let hold = self.acquire_forever(span, Kind::Reader)?;
        Ok(RangeReadGuard::new(self, span, hold))
    }

    /// Locks `range` for writing; blocks until it has it.
    ///
    /// # Errors
    /// [`Empty`](RangeError::Empty), [`Inverted`](RangeError::Inverted).
    #[inline]
    pub fn write(
        &self,
        range: impl RangeBounds<u64>,
    ) -> Result<RangeWriteGuard<'_, P>, RangeError> {
        let span = Span::new(range)?;
        let hold = self.acquire_forever(span, Kind::Writer)?;
        Ok(RangeWriteGuard::new(self, span, hold))
    }

    /// Locks `range` for reading if that needs no waiting. Never blocks. It may also fail when another
    /// thread loses its CPU while it takes or leaves a range.
    ///
    /// # Errors
    /// [`Busy`](RangeError::Busy), and those of [`read`](Self::read).
    pub fn try_read(
        &self,
        range: impl RangeBounds<u64>,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        let span = Span::new(range)?;
        let hold = self.try_acquire(span, Kind::Reader, false)?;
        Ok(RangeReadGuard::new(self, span, hold))
    }

    /// Locks `range` for writing if that needs no waiting, as [`try_read`](Self::try_read) does. A
    /// range in a gap between others is free, however many are locked around it.
    ///
    /// # Errors
    /// [`Busy`](RangeError::Busy), and those of [`write`](Self::write).
    pub fn try_write(
        &self,
        range: impl RangeBounds<u64>,
    ) -> Result<RangeWriteGuard<'_, P>, RangeError> {
        let span = Span::new(range)?;
        let hold = self.try_acquire(span, Kind::Writer, false)?;
        Ok(RangeWriteGuard::new(self, span, hold))
    }

    /// Locks `range` for reading, past all that wait for it: for a thread that may already hold a part
    /// of it for reading. It waits only for writers that hold a part of it.
    ///
    /// In this way readers that never all let go at once can starve a writer, so use it only where it
    /// is needed.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn read_recursive(
        &self,
        range: impl RangeBounds<u64>,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        self.read_with(range, true, || WaitContext::FOREVER)
    }

    /// As [`read_recursive`](Self::read_recursive), without waiting.
    ///
    /// # Errors
    /// [`Busy`](RangeError::Busy), and those of [`read`](Self::read).
    pub fn try_read_recursive(
        &self,
        range: impl RangeBounds<u64>,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        let span = Span::new(range)?;
        let hold = self.try_acquire(span, Kind::Reader, true)?;
        Ok(RangeReadGuard::new(self, span, hold))
    }

    /// As [`read_recursive`](Self::read_recursive); gives up after `timeout`, of any
    /// length. Zero does not wait.
    ///
    /// # Errors
    /// [`TimedOut`](RangeError::TimedOut), not before `timeout` has passed, and
    /// those of [`read`](Self::read).
    pub fn read_recursive_for(
        &self,
        range: impl RangeBounds<u64>,
        timeout: Duration,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        self.read_with(range, true, || WaitContext::until(deadline::<P>(timeout)))
    }

    /// As [`read_recursive`](Self::read_recursive); gives up at `deadline`.
    ///
    /// # Errors
    /// [`TimedOut`](RangeError::TimedOut), not before `deadline`, and those of
    /// [`read`](Self::read).
    #[cfg(feature = "std")]
    pub fn read_recursive_until(
        &self,
        range: impl RangeBounds<u64>,
        deadline: std::time::Instant,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        let timeout = deadline.saturating_duration_since(std::time::Instant::now());
        self.read_recursive_for(range, timeout)
    }

    /// As [`read_recursive`](Self::read_recursive); gives up when a signal handler has
    /// run in this thread while it slept, as
    /// [`read_interruptible`](Self::read_interruptible).
    ///
    /// # Errors
    /// [`Interrupted`](RangeError::Interrupted), and those of [`read`](Self::read).
    pub fn read_recursive_interruptible(
        &self,
        range: impl RangeBounds<u64>,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        self.read_with(range, true, WaitContext::interruptible)
    }

    /// As [`read_recursive`](Self::read_recursive); gives up when `token` is cancelled.
    ///
    /// # Errors
    /// [`Cancelled`](RangeError::Cancelled), and those of [`read`](Self::read).
    pub fn read_recursive_cancellable(
        &self,
        range: impl RangeBounds<u64>,
        token: &CancelToken<P>,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        self.read_with(range, true, || WaitContext::cancellable(token))
    }

    /// Locks `range` for reading; gives up after `timeout`, of any length. Zero
    /// does not wait.
    ///
    /// # Errors
    /// [`TimedOut`](RangeError::TimedOut), not before `timeout` has passed, and
    /// those of [`read`](Self::read).
    pub fn read_for(
        &self,
        range: impl RangeBounds<u64>,
        timeout: Duration,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        self.read_with(range, false, || WaitContext::until(deadline::<P>(timeout)))
    }

    /// Locks `range` for writing; gives up after `timeout`, of any length. Zero
    /// does not wait.
    ///
    /// # Errors
    /// [`TimedOut`](RangeError::TimedOut), not before `timeout` has passed, and
    /// those of [`write`](Self::write).
    pub fn write_for(
        &self,
        range: impl RangeBounds<u64>,
        timeout: Duration,
    ) -> Result<RangeWriteGuard<'_, P>, RangeError> {
        self.write_with(range, || WaitContext::until(deadline::<P>(timeout)))
    }

    /// Locks `range` for reading; gives up at `deadline`.
    ///
    /// # Errors
    /// [`TimedOut`](RangeError::TimedOut), not before `deadline`, and those of
    /// [`read`](Self::read).
    #[cfg(feature = "std")]
    pub fn read_until(
        &self,
        range: impl RangeBounds<u64>,
        deadline: std::time::Instant,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        self.read_for(range, deadline.saturating_duration_since(std::time::Instant::now()))
    }

    /// Locks `range` for writing; gives up at `deadline`.
    ///
    /// # Errors
    /// [`TimedOut`](RangeError::TimedOut), not before `deadline`, and those of
    /// [`write`](Self::write).
    #[cfg(feature = "std")]
    pub fn write_until(
        &self,
        range: impl RangeBounds<u64>,
        deadline: std::time::Instant,
    ) -> Result<RangeWriteGuard<'_, P>, RangeError> {
        self.write_for(range, deadline.saturating_duration_since(std::time::Instant::now()))
    }

    /// Locks `range` for reading; gives up when a signal handler runs in this
    /// thread while it sleeps. Only Linux can tell; elsewhere this is `read`.
    ///
    /// # Errors
    /// [`Interrupted`](RangeError::Interrupted), and those of [`read`](Self::read).
    pub fn read_interruptible(
        &self,
        range: impl RangeBounds<u64>,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        self.read_with(range, false, WaitContext::interruptible)
    }

    /// Locks `range` for writing; gives up when a signal handler has run in this
    /// thread while it slept. As [`read_interruptible`](Self::read_interruptible).
    ///
    /// # Errors
    /// [`Interrupted`](RangeError::Interrupted), and those of [`write`](Self::write).
    pub fn write_interruptible(
        &self,
        range: impl RangeBounds<u64>,
    ) -> Result<RangeWriteGuard<'_, P>, RangeError> {
        self.write_with(range, WaitContext::interruptible)
    }

    /// Locks `range` for reading; gives up when `token` is cancelled. A range that
    /// can be had at once is taken without a look at the token.
    ///
    /// # Errors
    /// [`Cancelled`](RangeError::Cancelled), and those of [`read`](Self::read).
    pub fn read_cancellable(
        &self,
        range: impl RangeBounds<u64>,
        token: &CancelToken<P>,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        self.read_with(range, false, || WaitContext::cancellable(token))
    }

    /// Locks `range` for writing; gives up when `token` is cancelled. A range that
    /// can be had at once is taken without a look at the token.
    ///
    /// # Errors
    /// [`Cancelled`](RangeError::Cancelled), and those of [`write`](Self::write).
    pub fn write_cancellable(
        &self,
        range: impl RangeBounds<u64>,
        token: &CancelToken<P>,
    ) -> Result<RangeWriteGuard<'_, P>, RangeError> {
        self.write_with(range, || WaitContext::cancellable(token))
    }

    fn read_with<'a>(
        &self,
        range: impl RangeBounds<u64>,
        recursive: bool,
        context: impl FnOnce() -> WaitContext<'a, P>,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        let span = Span::new(range)?;
        let hold = self.acquire_with(span, Kind::Reader, recursive, context)?;
        Ok(RangeReadGuard::new(self, span, hold))
    }

    fn write_with<'a>(
        &self,
        range: impl RangeBounds<u64>,
        context: impl FnOnce() -> WaitContext<'a, P>,
    ) -> Result<RangeWriteGuard<'_, P>, RangeError> {
        let span = Span::new(range)?;
        let hold = self.acquire_with(span, Kind::Writer, false, context)?;
        Ok(RangeWriteGuard::new(self, span, hold))
    }

    // ---- the choice ----

    #[inline(always)]
    pub(super) fn acquire_forever(&self, span: Span, kind: Kind) -> Result<Hold, WaitError> {
        let missed = if span == Span::FULL && self.is_by_gate() {
            None
        } else {
            match self.try_slot(span, kind) {
                Ok(hold) => return Ok(hold),
                Err(missed) => Some(missed),
            }
        };
        self.acquire_slow_forever(span, kind, missed)
    }

    #[inline(never)]
    fn acquire_slow_forever(
        &self,
        span: Span,
        kind: Kind,
        missed: Option<Missed>,
    ) -> Result<Hold, WaitError> {
        // The full range, by the gate.
        if missed.is_none() && self.enter_whole_forever(kind)? {
            return Ok(Hold::GATE);
        }
        if missed == Some(Missed::Unknown)
            && let Ok(hold) = self.try_beside_tree(span, kind)
        {
            return Ok(hold);
        }
        self.acquire(span, kind, false, &WaitContext::FOREVER)
    }

    /// As `acquire_forever`, for waits that may end. A range that can be had at once is taken
    /// without a look at the clock.
    pub(super) fn acquire_with<'a>(
        &self,
        span: Span,
        kind: Kind,
        recursive: bool,
        context: impl FnOnce() -> WaitContext<'a, P>,
    ) -> Result<Hold, WaitError> {
        match self.try_acquire(span, kind, recursive) {
            Ok(hold) => Ok(hold),
            Err(_) => self.acquire(span, kind, recursive, &context()),
        }
    }

    fn acquire(
        &self,
        span: Span,
        kind: Kind,
        recursive: bool,
        context: &WaitContext<'_, P>,
    ) -> Result<Hold, WaitError> {
        // The writer in the way of a recursive read may only be looking: it has taken a slot, and
        // finds the caller's range there. If it queues, a caller behind it would wait for itself.
        let ahead = recursive && !active(Fault::WaitsBehind);
        loop {
            match self.attempt_or_pass(span, kind, recursive, Some(context)) {
                Ok(hold) => return Ok(hold),
                Err(Shut::Wait(error)) => return Err(error),
                Err(Shut::Busy) => {}
            }
            if let Some(hold) = self.wait_for_range(span, kind, ahead, context)? {
                return Ok(hold);
            }
        }
    }

    pub(super) fn try_acquire(
        &self,
        span: Span,
        kind: Kind,
        recursive: bool,
    ) -> Result<Hold, RangeError> {
        self.attempt_or_pass(span, kind, recursive, None).map_err(|shut| match shut {
            Shut::Busy => RangeError::Busy,
            Shut::Wait(error) => error.into(),
        })
    }

    /// One attempt, after the gate if need be. Nobody is waited for but at the gate, and there only
    /// as `patience` says.
    #[inline]
    fn attempt_or_pass(
        &self,
        span: Span,
        kind: Kind,
        recursive: bool,
        patience: Patience<'_, '_, P>,
    ) -> Result<Hold, Shut> {
        if span == Span::FULL
            && let Some(hold) = self.acquire_whole(kind, recursive, patience)?
        {
            return Ok(hold);
        }
        loop {
            match self.attempt(span, kind) {
                Ok(hold) => return Ok(hold),
                // `WHOLE` was raised since: another thread that asks for everything was quicker.
                Err(Missed::Gate) if span == Span::FULL && self.is_whole() => {
                    if let Some(hold) = self.acquire_whole(kind, recursive, patience)? {
                        return Ok(hold);
                    }
                }
                Err(Missed::Gate) => {
                    if let Some(hold) = self.pass_gate(span, kind, recursive, patience)? {
                        return Ok(hold);
                    }
                }
                Err(Missed::Tree) if recursive => {
                    return self.try_ahead(span).map_err(|_| Shut::Busy);
                }
                Err(_) => return Err(Shut::Busy),
            }
        }
    }
}

/// When `timeout` ends, on the platform's clock. What lies beyond the clock's
/// range (centuries) is its last instant.
fn deadline<P: Platform>(timeout: Duration) -> u64 {
    P::now().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
}

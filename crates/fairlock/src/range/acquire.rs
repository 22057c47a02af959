//! The ways to get a range, from the public methods to the choice between gate,
//! slots, tree and wait.

use core::ops::RangeBounds;

use super::gate::{Patience, Shut};
use super::guard::{RangeReadGuard, RangeWriteGuard};
use super::slots::Missed;
use super::span::{RangeError, Span};
use super::{Hold, RangeRwLock, Request};
use crate::platform::PooledPlatform;
use crate::wait::{Wait, WaitContext, WaitError};

impl<P: PooledPlatform> RangeRwLock<P> {
    /// Locks `range` for reading; blocks until it has it.
    ///
    /// # Errors
    /// [`Empty`](RangeError::Empty), [`Inverted`](RangeError::Inverted),
    /// [`TooManyReaders`](RangeError::TooManyReaders).
    #[inline]
    pub fn read(&self, range: impl RangeBounds<u64>) -> Result<RangeReadGuard<'_, P>, RangeError> {
        let span = Span::new(range)?;
        let hold = self.acquire_forever(span, Request::Read)?;
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
        let hold = self.acquire_forever(span, Request::Write)?;
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
        let hold = self.try_acquire(span, Request::Read)?;
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
        let hold = self.try_acquire(span, Request::Write)?;
        Ok(RangeWriteGuard::new(self, span, hold))
    }

    /// Locks `range` for reading, past all waiters: for a thread that may already hold a part of
    /// the range for reading. Waits only for writers that hold a part of it.
    ///
    /// Readers that overlap without a gap can starve a writer in this way, so use this only where
    /// needed.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn read_recursive(
        &self,
        range: impl RangeBounds<u64>,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        self.read_recursive_with(range, Wait::FOREVER)
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
        let hold = self.try_acquire(span, Request::ReadRecursive)?;
        Ok(RangeReadGuard::new(self, span, hold))
    }

    /// Locks `range` for reading; gives up as `wait` says.
    ///
    /// # Errors
    /// As `wait` says, and those of [`read`](Self::read).
    pub fn read_with(
        &self,
        range: impl RangeBounds<u64>,
        wait: Wait<'_, P>,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        let span = Span::new(range)?;
        let hold = self.acquire_with(span, Request::Read, wait)?;
        Ok(RangeReadGuard::new(self, span, hold))
    }

    /// Locks `range` for writing; gives up as `wait` says.
    ///
    /// # Errors
    /// As `wait` says, and those of [`write`](Self::write).
    pub fn write_with(
        &self,
        range: impl RangeBounds<u64>,
        wait: Wait<'_, P>,
    ) -> Result<RangeWriteGuard<'_, P>, RangeError> {
        let span = Span::new(range)?;
        let hold = self.acquire_with(span, Request::Write, wait)?;
        Ok(RangeWriteGuard::new(self, span, hold))
    }

    /// As [`read_recursive`](Self::read_recursive); gives up as `wait` says.
    ///
    /// # Errors
    /// As `wait` says, and those of [`read`](Self::read).
    pub fn read_recursive_with(
        &self,
        range: impl RangeBounds<u64>,
        wait: Wait<'_, P>,
    ) -> Result<RangeReadGuard<'_, P>, RangeError> {
        let span = Span::new(range)?;
        let hold = self.acquire_with(span, Request::ReadRecursive, wait)?;
        Ok(RangeReadGuard::new(self, span, hold))
    }

    // ---- the choice ----

    #[inline(always)]
    pub(super) fn acquire_forever(&self, span: Span, request: Request) -> Result<Hold, WaitError> {
        let missed = if span == Span::FULL && self.is_by_gate() {
            None
        } else {
            match self.core.try_slot(span, request.kind()) {
                Ok(hold) => return Ok(hold),
                Err(missed) => Some(missed),
            }
        };
        self.acquire_slow_forever(span, request, missed)
    }

    #[inline(never)]
    fn acquire_slow_forever(
        &self,
        span: Span,
        request: Request,
        missed: Option<Missed>,
    ) -> Result<Hold, WaitError> {
        // The full range, by the gate.
        if missed.is_none() && self.enter_whole_forever(request.kind())? {
            return Ok(Hold::GATE);
        }
        if missed == Some(Missed::Unknown) {
            if let Ok(hold) = self.core.try_beside_tree(span, request.kind()) {
                return Ok(hold);
            }
        }
        self.acquire(span, request, &WaitContext::FOREVER)
    }

    /// As `acquire_forever`, for waits that may end. A range that can be had at once is taken
    /// without a look at the clock.
    fn acquire_with(
        &self,
        span: Span,
        request: Request,
        wait: Wait<'_, P>,
    ) -> Result<Hold, WaitError> {
        match self.try_acquire(span, request) {
            Ok(hold) => Ok(hold),
            Err(_) => self.acquire(span, request, &wait.begin()),
        }
    }

    fn acquire(
        &self,
        span: Span,
        request: Request,
        context: &WaitContext<'_, P>,
    ) -> Result<Hold, WaitError> {
        loop {
            match self.attempt_or_pass(span, request, Some(context)) {
                Ok(hold) => return Ok(hold),
                Err(Shut::Wait(error)) => return Err(error),
                Err(Shut::Busy) => {}
            }
            // The writer in the way of a recursive read may only be looking: it has taken a slot, and
            // finds the caller's range there. If it queues, a caller behind it would wait for itself.
            if let Some(hold) = self.core.wait_for_range(span, request, context)? {
                return Ok(hold);
            }
        }
    }

    pub(super) fn try_acquire(&self, span: Span, request: Request) -> Result<Hold, RangeError> {
        self.attempt_or_pass(span, request, None).map_err(|shut| match shut {
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
        request: Request,
        patience: Patience<'_, '_, P>,
    ) -> Result<Hold, Shut> {
        if span == Span::FULL {
            if let Some(hold) = self.acquire_whole(request, patience)? {
                return Ok(hold);
            }
        }
        loop {
            match self.core.attempt(span, request.kind()) {
                Ok(hold) => return Ok(hold),
                // `WHOLE` was raised since: another thread that asks for everything was quicker.
                Err(Missed::Gate) if span == Span::FULL && self.is_whole() => {
                    if let Some(hold) = self.acquire_whole(request, patience)? {
                        return Ok(hold);
                    }
                }
                Err(Missed::Gate) => {
                    if let Some(hold) = self.pass_gate(span, request, patience)? {
                        return Ok(hold);
                    }
                }
                Err(Missed::Tree) if request == Request::ReadRecursive => {
                    return self.core.try_ahead(span).map_err(|_| Shut::Busy);
                }
                Err(_) => return Err(Shut::Busy),
            }
        }
    }
}

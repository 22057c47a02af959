//! How long, and until what, a caller is ready to wait.

use core::fmt;

use super::{CancelToken, Parker, Thread};
use crate::platform::Platform;

/// Why a wait ended without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitError {
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran in this thread while it slept. Only Linux can tell.
    Interrupted,
    /// The token was cancelled.
    Cancelled,
    /// No more readers can be counted: 2^55 hold the lock, or 2^23 where a pointer has 32 bits.
    /// Forgotten guards count.
    TooManyReaders,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitError::TimedOut => "the deadline passed before the lock was granted",
            WaitError::Interrupted => "a signal interrupted the wait for the lock",
            WaitError::Cancelled => "the wait for the lock was cancelled",
            WaitError::TooManyReaders => "the lock is held by more readers than can be counted",
        })
    }
}

impl core::error::Error for WaitError {}

/// One slow path serves every way to wait: this says which one it is.
pub struct WaitContext<'a, P: Platform> {
    /// Give up at this time.
    pub(crate) deadline: Option<u64>,
    /// Give up when a signal handler ran.
    pub(crate) interruptible: bool,
    /// Give up when this token is cancelled.
    pub(crate) cancel: Option<&'a CancelToken<P>>,
}

impl<'a, P: Platform> WaitContext<'a, P> {
    pub(crate) const FOREVER: Self = Self { deadline: None, interruptible: false, cancel: None };

    pub(crate) const fn until(deadline: u64) -> Self {
        Self { deadline: Some(deadline), interruptible: false, cancel: None }
    }

    pub(crate) const fn interruptible() -> Self {
        Self { deadline: None, interruptible: true, cancel: None }
    }

    pub(crate) const fn cancellable(token: &'a CancelToken<P>) -> Self {
        Self { deadline: None, interruptible: false, cancel: Some(token) }
    }

    /// Whether the wait may end without the lock.
    pub(crate) fn can_end(&self) -> bool {
        self.deadline.is_some() || self.interruptible || self.cancel.is_some()
    }

    /// Where `thread`, the calling one, sleeps for a ticket lock. If the wait may end this is not
    /// where its queue locks put it to sleep: a token wakes the other parker.
    pub(crate) fn parker(&self, thread: &'static Thread<P>) -> &'static Parker<P> {
        if self.can_end() { &thread.parker } else { &thread.ticket_parker }
    }

    /// Nanoseconds until the deadline.
    pub(crate) fn left(&self, now: u64) -> u64 {
        self.deadline.map_or(u64::MAX, |deadline| deadline.saturating_sub(now))
    }

    /// Whether the deadline has passed. The clock is read only if there is one.
    pub(crate) fn is_late(&self, now: impl FnOnce() -> u64) -> bool {
        self.deadline.is_some_and(|deadline| now() >= deadline)
    }

    /// The reason to give up now, if there is one.
    pub(crate) fn expired(&self, now: impl FnOnce() -> u64) -> Option<WaitError> {
        if self.cancel.is_some_and(CancelToken::is_cancelled) {
            return Some(WaitError::Cancelled);
        }
        self.is_late(now).then_some(WaitError::TimedOut)
    }
}

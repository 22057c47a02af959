//! How long, and until what, a caller is ready to wait.

use core::fmt;
use core::time::Duration;

use super::{Parker, Sleeper};
use crate::system::{System, deadline_after};

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

/// For how long, and until what, a thread is ready to wait.
///
/// A deadline, a token and signals can be combined; the first of them ends the wait. What can be had at
/// once is had, even if the deadline is over or the token is cancelled. Waits are *cancel safe*: one
/// that ends without what it waited for leaves nothing behind, and threads that were behind it in the
/// queue move up. One that gets it at the very instant at which it would end keeps it.
///
/// ```
/// use std::time::Duration;
///
/// use fairlock::range::RangeError;
/// use fairlock::{CancelToken, RangeRwLock, Wait};
///
/// let (lock, stop) = (RangeRwLock::new(), CancelToken::new());
/// let _head = lock.write(0..512)?;
/// let in_vain = lock.read_with(0..10, Wait::within(Duration::from_millis(1)));
/// assert_eq!(in_vain.err(), Some(RangeError::TimedOut));
/// stop.cancel();
/// let in_vain = lock.read_with(0..10, Wait::within(Duration::from_secs(1)).cancellable(&stop));
/// assert_eq!(in_vain.err(), Some(RangeError::Cancelled));
/// # Ok::<(), RangeError>(())
/// ```
pub struct Wait<'a, P: System> {
    end: End,
    interruptible: bool,
    pub(crate) cancel: Option<&'a dyn Cancels<P>>,
}

/// When a wait ends at the latest.
#[derive(Clone, Copy, Debug)]
enum End {
    Never,
    /// A time of [`System::now`].
    At(u64),
    /// So long after it has begun.
    After(Duration),
}

impl<'a, P: System> Wait<'a, P> {
    /// Until it succeeds.
    pub const FOREVER: Self = Self::ending(End::Never);

    const fn ending(end: End) -> Self {
        Self { end, interruptible: false, cancel: None }
    }

    /// For at most `timeout`, of any length, from when the wait begins; then it ends with
    /// [`TimedOut`](WaitError::TimedOut). Zero does not wait.
    pub const fn within(timeout: Duration) -> Self {
        Self::ending(End::After(timeout))
    }

    /// Until `deadline`; then it ends with [`TimedOut`](WaitError::TimedOut).
    #[cfg(feature = "std")]
    pub fn until(deadline: std::time::Instant) -> Self {
        // The two clocks may show different times, but agree in how long is left.
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        Self::until_nanos(deadline_after::<P>(left))
    }

    /// As [`until`](Self::until); `deadline` is in nanoseconds of [`System::now`].
    pub const fn until_nanos(deadline: u64) -> Self {
        Self::ending(End::At(deadline))
    }

    /// As before, or until a signal handler runs in this thread while it sleeps, with or without
    /// `SA_RESTART`; then it ends with [`Interrupted`](WaitError::Interrupted).
    ///
    /// A handler that ran just before the thread fell asleep is not noticed. If none may be
    /// missed, let the handler [cancel](super::CancelToken::cancel) a token instead, or send the signal
    /// again. Only Linux can tell; elsewhere no signal ends a wait.
    pub const fn interruptible(self) -> Self {
        Self { interruptible: true, ..self }
    }

    /// Whether the wait may end in vain.
    pub(crate) const fn can_end(&self) -> bool {
        !matches!(self.end, End::Never) || self.interruptible || self.cancel.is_some()
    }

    /// The wait begins now. The clock is read only if its end depends on that.
    pub(crate) fn begin(self) -> WaitContext<'a, P> {
        let Self { end, interruptible, cancel } = self;
        let deadline = match end {
            End::Never => None,
            End::At(deadline) => Some(deadline),
            End::After(timeout) => Some(deadline_after::<P>(timeout)),
        };
        WaitContext { deadline, interruptible, cancel }
    }
}

impl<P: System> Clone for Wait<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: System> Copy for Wait<'_, P> {}

impl<P: System> fmt::Debug for Wait<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait")
            .field("end", &self.end)
            .field("interruptible", &self.interruptible)
            .field("cancel", &self.cancel)
            .finish()
    }
}

/// The rest of a wait that has begun at one lock, at another.
impl<'a, P: System> From<&WaitContext<'a, P>> for Wait<'a, P> {
    fn from(context: &WaitContext<'a, P>) -> Self {
        let end = context.deadline.map_or(End::Never, End::At);
        Self { end, interruptible: context.interruptible, cancel: context.cancel }
    }
}

/// What ends waits from outside.
pub(crate) trait Cancels<P: System>: Sync + fmt::Debug {
    fn is_cancelled(&self) -> bool;

    /// From here on a cancellation wakes the thread.
    fn list(&self, thread: &'static Sleeper<P>);

    /// The thread, which is listed, no longer waits.
    fn unlist(&self, thread: &'static Sleeper<P>);
}

/// A [`Wait`] that has begun: one slow path serves every way to wait, and this says which one it is.
pub struct WaitContext<'a, P: System> {
    /// Give up at this time.
    pub(crate) deadline: Option<u64>,
    /// Give up when a signal handler ran.
    pub(crate) interruptible: bool,
    /// Give up when this token is cancelled.
    pub(crate) cancel: Option<&'a dyn Cancels<P>>,
}

impl<P: System> WaitContext<'_, P> {
    pub(crate) const FOREVER: Self = Self { deadline: None, interruptible: false, cancel: None };

    /// Whether the wait may end without the lock.
    pub(crate) fn can_end(&self) -> bool {
        Wait::from(self).can_end()
    }

    /// Where `thread`, the calling one, sleeps for a ticket lock. If the wait may end this is not
    /// where its queue locks put it to sleep: a token wakes the other parker.
    pub(crate) fn parker(&self, thread: &'static Sleeper<P>) -> &'static Parker<P> {
        if self.can_end() { &thread.parker } else { &thread.ticket_parker }
    }

    /// Runs `wait` of `thread`, the calling one, so that a cancellation wakes it. `wait` looks whether
    /// it has [expired](Self::expired) before it sleeps.
    pub(crate) fn listed<R>(&self, thread: &'static Sleeper<P>, wait: impl FnOnce() -> R) -> R {
        let _unlists = self.cancel.map(|token| Listed::new(token, thread));
        wait()
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
        if self.cancel.is_some_and(Cancels::is_cancelled) {
            return Some(WaitError::Cancelled);
        }
        self.is_late(now).then_some(WaitError::TimedOut)
    }
}

/// A thread is listed for as long as this is there.
struct Listed<'a, P: System> {
    token: &'a dyn Cancels<P>,
    thread: &'static Sleeper<P>,
}

impl<'a, P: System> Listed<'a, P> {
    fn new(token: &'a dyn Cancels<P>, thread: &'static Sleeper<P>) -> Self {
        token.list(thread);
        Self { token, thread }
    }
}

impl<P: System> Drop for Listed<'_, P> {
    fn drop(&mut self) {
        self.token.unlist(self.thread);
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use std::time::{Duration, Instant};

    use super::Wait;
    use crate::platform::Native;

    /// A condition is waited for in a loop, each time with the same argument.
    #[test]
    fn a_deadline_is_the_same_for_every_wait_and_a_timeout_begins_anew() {
        let hour = Duration::from_secs(3600);
        let deadlines = |wait: Wait<'_, Native>| {
            let first = wait.begin().deadline;
            std::thread::sleep(Duration::from_micros(1));
            [first, wait.begin().deadline]
        };
        let [first, second] = deadlines(Wait::until(Instant::now() + hour));
        assert_eq!(first, second);
        let [first, second] = deadlines(Wait::within(hour));
        assert!(first < second);
    }
}

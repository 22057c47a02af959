//! How long a caller is ready to wait.

use core::ffi::c_int;

use fairlock::platform::System;
use fairlock::wait::WaitError;
use libc::{
    CLOCK_MONOTONIC, CLOCK_REALTIME, EAGAIN, ECANCELED, EINVAL, ETIMEDOUT, clockid_t, timespec,
};

use crate::process::clock;
use crate::thread::Preload;

const NANOS_PER_SEC: u64 = 1_000_000_000;
/// Centuries away, and far enough from the largest number to be added to.
pub(super) const LATEST: u64 = u64::MAX / 4;

/// Times are nanoseconds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Forever,
    /// The locks' own clock.
    Monotonic(u64),
    /// A clock that may be set.
    Realtime(u64),
}

impl Until {
    /// Checks the time as glibc does, whether the caller would have to wait or not. Without a time
    /// the wait is for ever, on any clock.
    ///
    /// # Safety
    /// `time` is null or points to a time.
    pub(crate) unsafe fn new(id: clockid_t, time: *const timespec) -> Result<Self, c_int> {
        // SAFETY: the caller's promise.
        let Some(time) = (unsafe { time.as_ref() }) else { return Ok(Until::Forever) };
        if !(0..NANOS_PER_SEC as i64).contains(&time.tv_nsec) {
            return Err(EINVAL);
        }
        match id {
            CLOCK_MONOTONIC => Ok(Until::Monotonic(nanos(time))),
            CLOCK_REALTIME => Ok(Until::Realtime(nanos(time))),
            _ => Err(EINVAL),
        }
    }

    /// Whether the time is over.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Until::Forever => false,
            Until::Monotonic(time) => *time <= Preload::now(),
            Until::Realtime(time) => *time <= realtime(),
        }
    }

    /// Calls `wait` with a deadline on the locks' clock until it succeeds, or the time is over.
    #[inline(always)]
    pub(crate) fn wait(&self, wait: impl Fn(u64) -> Result<(), WaitError>) -> Result<(), c_int> {
        self.wait_for(wait).map_err(errno)
    }

    /// As [`wait`](Self::wait); fails with the reason.
    #[inline(always)]
    pub(crate) fn wait_for(
        &self,
        wait: impl Fn(u64) -> Result<(), WaitError>,
    ) -> Result<(), WaitError> {
        loop {
            let deadline = match self {
                Until::Forever => LATEST,
                Until::Monotonic(time) => *time,
                Until::Realtime(time) => {
                    Preload::now() + time.saturating_sub(realtime()).min(LATEST)
                }
            };
            let ended = wait(deadline);
            // The clock may have been set back meanwhile.
            match self {
                Until::Realtime(time)
                    if ended == Err(WaitError::TimedOut) && realtime() < *time => {}
                _ => return ended,
            }
        }
    }
}

/// Whether waits may be timed by this clock.
pub(super) fn is_known(id: clockid_t) -> bool {
    [CLOCK_MONOTONIC, CLOCK_REALTIME].contains(&id)
}

/// The error number for a wait that ended without the lock.
pub(super) fn errno(error: WaitError) -> c_int {
    match error {
        WaitError::TooManyReaders => EAGAIN,
        WaitError::TimedOut | WaitError::Interrupted => ETIMEDOUT,
        WaitError::Cancelled => ECANCELED,
    }
}

/// A time before the clock began counts as its beginning, which is over.
fn nanos(time: &timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = if time.tv_sec < 0 { 0 } else { time.tv_nsec as u64 };
    seconds.saturating_mul(NANOS_PER_SEC).saturating_add(nanos).min(LATEST)
}

fn realtime() -> u64 {
    clock(CLOCK_REALTIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn until(clock: clockid_t, tv_sec: i64, tv_nsec: i64) -> Result<Until, c_int> {
        // SAFETY: a time.
        unsafe { Until::new(clock, &timespec { tv_sec, tv_nsec }) }
    }

    #[test]
    fn times_that_are_none_are_refused() {
        for clock in [CLOCK_MONOTONIC, CLOCK_REALTIME] {
            assert_eq!(until(clock, 1, -1), Err(EINVAL));
            assert_eq!(until(clock, 1, 1_000_000_000), Err(EINVAL));
            assert!(until(clock, 1, 999_999_999).is_ok());
        }
        assert_eq!(until(libc::CLOCK_BOOTTIME, 1, 0), Err(EINVAL));
        // SAFETY: no time.
        let none = unsafe { Until::new(libc::CLOCK_BOOTTIME, core::ptr::null()) };
        assert_eq!(none, Ok(Until::Forever));
    }

    #[test]
    fn times_out_of_range_are_at_its_ends() {
        assert_eq!(until(CLOCK_MONOTONIC, -5, 999), Ok(Until::Monotonic(0)));
        assert_eq!(until(CLOCK_MONOTONIC, i64::MAX, 0), Ok(Until::Monotonic(LATEST)));
        assert_eq!(until(CLOCK_MONOTONIC, 2, 3), Ok(Until::Monotonic(2_000_000_003)));
    }

    /// As if the clock had been set back during two waits.
    #[test]
    fn a_wait_on_the_real_clock_ends_when_that_clock_says_so() {
        let waits = Cell::new(0);
        // It waits once if it has no CPU until then.
        while waits.replace(0) < 2 {
            let end = realtime() + 50_000_000;
            let result = Until::Realtime(end).wait(|deadline| {
                waits.set(waits.get() + 1);
                assert!(deadline > 0);
                if realtime() >= end { Err(WaitError::TimedOut) } else { early() }
            });
            assert_eq!(result, Err(ETIMEDOUT));
            assert!(realtime() >= end);
        }
    }

    fn early() -> Result<(), WaitError> {
        std::thread::sleep(std::time::Duration::from_millis(1));
        Err(WaitError::TimedOut)
    }
}

//! Deadlines of C callers, on either of two clocks.

use std::time::Duration;

use fairlock::Wait;
use libc::{c_int, timespec};

use crate::errno::Errno;

const NANOS_PER_SEC: i128 = 1_000_000_000;

/// A time on one of the system's clocks.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    clock: libc::clockid_t,
    nanos: i128,
}

impl Deadline {
    /// # Safety
    /// `time` is null or points to a time.
    pub(crate) unsafe fn new(clock: c_int, time: *const timespec) -> Result<Self, Errno> {
        // SAFETY: the caller's promise.
        let time = unsafe { time.as_ref() }.ok_or(Errno::INVALID)?;
        let known = matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME);
        if !known || !(0..NANOS_PER_SEC).contains(&time.tv_nsec.into()) {
            return Err(Errno::INVALID);
        }
        Ok(Self { clock, nanos: nanos(time) })
    }

    /// How long it is until then; zero if that time is over.
    pub(crate) fn left(self) -> Duration {
        let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the clock was checked, and there is room for the time. It cannot fail.
        unsafe { libc::clock_gettime(self.clock, &mut now) };
        let left = (self.nanos - nanos(&now)).max(0);
        Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX))
    }

    /// Runs `wait` with the time that is left, until it succeeds or the deadline has passed on its
    /// clock: if that was set back meanwhile, the wait goes on.
    pub(crate) fn wait<T, E: Into<Errno>>(
        self,
        wait: impl Fn(Wait<'static>) -> Result<T, E>,
    ) -> Result<T, Errno> {
        loop {
            match wait(Wait::within(self.left())).map_err(Into::into) {
                Err(Errno::TIMED_OUT) if !self.left().is_zero() => {}
                result => return result,
            }
        }
    }
}

fn nanos(time: &timespec) -> i128 {
    i128::from(time.tv_sec) * NANOS_PER_SEC + i128::from(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use fairlock::WaitError;

    use super::*;

    fn at(clock: c_int, tv_sec: i64, tv_nsec: i64) -> Result<Deadline, Errno> {
        // SAFETY: points to a time.
        unsafe { Deadline::new(clock, &timespec { tv_sec, tv_nsec }) }
    }

    #[test]
    fn bad_times_and_clocks_are_refused() {
        let refused = |deadline: Result<Deadline, Errno>| deadline.err() == Some(Errno::INVALID);
        assert!(refused(at(libc::CLOCK_MONOTONIC, 0, -1)));
        assert!(refused(at(libc::CLOCK_REALTIME, 0, 1_000_000_000)));
        assert!(refused(at(libc::CLOCK_PROCESS_CPUTIME_ID, 0, 0)));
        assert!(refused(at(-1, 0, 0)));
        // SAFETY: null is asked for.
        assert!(refused(unsafe { Deadline::new(libc::CLOCK_REALTIME, std::ptr::null()) }));
    }

    #[test]
    fn the_ends_of_time_are_far_away_or_over() {
        for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME] {
            assert!(at(clock, i64::MIN, 0).unwrap().left().is_zero());
            assert!(at(clock, 0, 0).unwrap().left().is_zero());
            assert_eq!(
                at(clock, i64::MAX, 999_999_999).unwrap().left().as_nanos(),
                u64::MAX.into()
            );
        }
    }

    #[test]
    fn a_wait_that_ended_too_soon_by_this_clock_goes_on() {
        let calls = Cell::new(0);
        let in_vain = |_| -> Result<(), _> {
            calls.set(calls.get() + 1);
            if calls.get() < 3 { Err(WaitError::TimedOut) } else { Err(WaitError::Interrupted) }
        };
        let far = at(libc::CLOCK_REALTIME, i64::MAX, 0).unwrap();
        assert_eq!(far.wait(in_vain), Err(Errno::INTERRUPTED));
        assert_eq!(calls.get(), 3);
        let over = at(libc::CLOCK_REALTIME, 0, 0).unwrap();
        assert_eq!(over.wait(|_| Err::<(), _>(WaitError::TimedOut)), Err(Errno::TIMED_OUT));
    }
}

//! A lock on ranges with a name.

use core::mem::ManuallyDrop;
use core::ops::RangeBounds;

use super::named::Named;
use super::place::Want;
use crate::Wait;
use crate::range::{RangeError, RangePolicy, Span};

type Inner = crate::RangeRwLock;

/// A [`RangeRwLock`](crate::RangeRwLock) with a name, and its methods.
///
/// Ranges for reading and for writing count apart. Several threads may hold ranges at a time, also for writing. Of a thread that
/// holds several ranges only the last hold is timed, and until its end shown as held now.
///
/// ```
/// use fairlock::range::RangePolicy;
/// use fairlock::stats::{self, Builder};
///
/// static FILE: stats::RangeRwLock = Builder::new("file").range_lock(RangePolicy::DEFAULT);
///
/// let head = FILE.write(0..512)?;
/// let now = stats::snapshot();
/// assert_eq!(now.get("file").unwrap().writes.held_now.len(), 1);
/// drop(head);
/// # Ok::<_, fairlock::range::RangeError>(())
/// ```
pub type RangeRwLock = Named<Inner>;

macro_rules! guards {
    ($($(#[$doc:meta])* $guard:ident: $want:ident;)*) => {$(
        $(#[$doc])*
        #[must_use = "the range is unlocked when the guard is dropped"]
        pub struct $guard<'a> {
            lock: &'a RangeRwLock,
            guard: ManuallyDrop<crate::$guard<'a>>,
        }

        impl<'a> $guard<'a> {
            fn new(lock: &'a RangeRwLock, guard: crate::$guard<'a>) -> Self {
                Self { lock, guard: ManuallyDrop::new(guard) }
            }

            /// The locked range.
            pub fn span(&self) -> Span {
                self.guard.span()
            }

            /// The lock.
            pub fn lock(&self) -> &'a RangeRwLock {
                self.lock
            }

            /// Gives up everything but `range`, which must be in the locked range.
            ///
            /// # Errors
            /// As of the lock without a name; nothing has changed then.
            pub fn shrink(&mut self, range: impl RangeBounds<u64>) -> Result<(), RangeError> {
                self.guard.shrink(range)
            }
        }

        impl Drop for $guard<'_> {
            fn drop(&mut self) {
                // SAFETY: the guard is not used after this.
                let guard = unsafe { ManuallyDrop::take(&mut self.guard) };
                self.lock.leave_range(Want::$want, || drop(guard));
            }
        }
    )*};
}

guards! {
    /// A range of a [`RangeRwLock`] that is locked for reading; unlocks it when dropped, on any thread.
    RangeReadGuard: RangeRead;
    /// A range of a [`RangeRwLock`] that is locked for writing; unlocks it when dropped, on any thread.
    RangeWriteGuard: RangeWrite;
}

impl<'a> RangeWriteGuard<'a> {
    /// Turns the range into one that is locked for reading, with no gap.
    pub fn downgrade(self) -> RangeReadGuard<'a> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the guard is not used after this, nor dropped.
        let guard = unsafe { ManuallyDrop::take(&mut this.guard) };
        this.lock.downgrade_range();
        RangeReadGuard::new(this.lock, guard.downgrade())
    }
}

/// An attempt, and what comes after it.
macro_rules! ways {
    ($($(#[$doc:meta])* $want:ident: $guard:ident by $attempt:ident, $wait:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// As of the lock without a name.
        #[track_caller]
        pub fn $wait(&self, range: impl RangeBounds<u64>) -> Result<$guard<'_>, RangeError> {
            let span = Span::new(range)?;
            let inner = self.inner();
            let attempt = || inner.$attempt(span.start()..=span.last());
            let wait = || inner.$wait(span.start()..=span.last());
            self.take_range(Want::$want, false, attempt, wait).map(|guard| $guard::new(self, guard))
        }
    )*};
    (tries: $($(#[$doc:meta])* $want:ident: $guard:ident by $attempt:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// As of the lock without a name.
        #[track_caller]
        pub fn $attempt(&self, range: impl RangeBounds<u64>) -> Result<$guard<'_>, RangeError> {
            let inner = self.inner();
            let attempt = || inner.$attempt(range);
            self.try_range(Want::$want, attempt).map(|guard| $guard::new(self, guard))
        }
    )*};
    (until: $($(#[$doc:meta])* $want:ident: $guard:ident by $attempt:ident, $wait:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// As `wait` says, and of the lock without a name.
        #[track_caller]
        pub fn $wait(
            &self,
            range: impl RangeBounds<u64>,
            wait: Wait<'_>,
        ) -> Result<$guard<'_>, RangeError> {
            let span = Span::new(range)?;
            let inner = self.inner();
            let attempt = || inner.$attempt(span.start()..=span.last());
            let waits = || inner.$wait(span.start()..=span.last(), wait);
            let taken = self.take_range(Want::$want, wait.can_end(), attempt, waits);
            taken.map(|guard| $guard::new(self, guard))
        }
    )*};
}

impl RangeRwLock {
    ways! {
        /// As [`RangeRwLock::read`](crate::range::RangeRwLock::read).
        RangeRead: RangeReadGuard by try_read, read;
        /// As [`RangeRwLock::write`](crate::range::RangeRwLock::write).
        RangeWrite: RangeWriteGuard by try_write, write;
        /// As [`RangeRwLock::read_recursive`](crate::range::RangeRwLock::read_recursive).
        RangeRead: RangeReadGuard by try_read_recursive, read_recursive;
    }
    ways! { tries:
        /// As [`RangeRwLock::try_read`](crate::range::RangeRwLock::try_read).
        RangeRead: RangeReadGuard by try_read;
        /// As [`RangeRwLock::try_write`](crate::range::RangeRwLock::try_write).
        RangeWrite: RangeWriteGuard by try_write;
        /// As [`RangeRwLock::try_read_recursive`](crate::range::RangeRwLock::try_read_recursive).
        RangeRead: RangeReadGuard by try_read_recursive;
    }
    ways! { until:
        /// As [`RangeRwLock::read_with`](crate::range::RangeRwLock::read_with).
        RangeRead: RangeReadGuard by try_read, read_with;
        /// As [`RangeRwLock::write_with`](crate::range::RangeRwLock::write_with).
        RangeWrite: RangeWriteGuard by try_write, write_with;
        /// As [`RangeRwLock::read_recursive_with`](crate::range::RangeRwLock::read_recursive_with).
        RangeRead: RangeReadGuard by try_read_recursive, read_recursive_with;
    }

    /// How the lock orders the ranges that it is asked for.
    pub const fn policy(&self) -> &RangePolicy {
        self.inner().policy()
    }

    #[track_caller]
    fn try_range<G>(
        &self,
        want: Want,
        attempt: impl FnOnce() -> Result<G, RangeError>,
    ) -> Result<G, RangeError> {
        let mut result = Err(RangeError::Busy);
        self.attempt(want, |_| {
            result = attempt();
            result.is_ok()
        });
        result
    }

    #[track_caller]
    fn take_range<G>(
        &self,
        want: Want,
        can_end: bool,
        attempt: impl FnOnce() -> Result<G, RangeError>,
        wait: impl FnOnce() -> Result<G, RangeError>,
    ) -> Result<G, RangeError> {
        match self.try_range(want, attempt) {
            Err(RangeError::Busy) => {}
            // Taken, or never to be had.
            result => return result,
        }
        let mut taken = None;
        self.take_with(want, can_end, |_| false, |_| wait().map(|guard| taken = Some(guard)))?;
        taken.ok_or(RangeError::Busy)
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use core::time::Duration;
    use std::thread;

    use super::*;
    use crate::stats::{NamedExt, snapshot};

    #[test]
    fn ranges_with_a_name_are_counted_by_how_they_are_locked() {
        let file = crate::RangeRwLock::named("ranges", RangePolicy::DEFAULT);
        let of = || snapshot().get("ranges").unwrap().clone();
        let (low, high) = (file.write(..10).unwrap(), file.read(10..).unwrap());
        assert_eq!((of().writes.acquisitions, of().reads.acquisitions), (1, 1));
        thread::scope(|s| {
            s.spawn(|| drop(file.write(3..=5).unwrap()));
            fairlock_testing::until(|| of().writes.waiting.len() == 1);
            // Beside each other.
            s.spawn(|| drop(file.read(10..20).unwrap()));
            fairlock_testing::until(|| of().reads.acquisitions == 2);
            let limit = Wait::within(Duration::from_millis(1));
            assert!(file.write_with(2..4, limit).is_err());
            let mut low = low.downgrade();
            low.shrink(7..8).unwrap();
            assert_eq!((low.span().start(), low.lock().name()), (7, "ranges"));
        });
        drop(high);
        let now = of();
        assert_eq!((now.writes.acquisitions, now.writes.given_up), (2, 1));
        assert_eq!(now.writes.waited.count, 2);
        assert!(now.reads.held_now.is_empty() && now.writes.held_now.is_empty());
        assert!(matches!(file.read(5..5), Err(RangeError::Empty)));
        assert_eq!(of().reads.waited.count, 0);
    }
}

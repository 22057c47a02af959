//! Mutexes with their condition variables.

use std::ops::DerefMut;
use std::sync::PoisonError;
use std::time::Duration;

/// What the mutex guards: by it threads tell each other what to wait for.
#[derive(Debug, Default)]
pub struct Stage {
    /// Whose turn it is, how many items there are, or how many wait.
    pub count: u64,
    /// How often all threads were let go.
    pub round: u64,
    /// Nobody waits any more.
    pub over: bool,
}

/// Which of the two condition variables beside a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    First,
    Second,
}

/// A mutex and two condition variables.
pub trait BenchCondvar: Send + Sync + 'static {
    /// Holds the mutex.
    type Guard<'a>: DerefMut<Target = Stage>;
    /// Whether a wait for the mutex can end.
    const TIMED: bool;

    /// A free mutex, with nobody waiting. It may be moved until its first use.
    fn create() -> Self;
    fn lock(&self) -> Self::Guard<'_>;
    /// Takes the mutex unless that takes too long; only if [`TIMED`](Self::TIMED).
    fn lock_for(&self, timeout: Duration) -> Option<Self::Guard<'_>>;
    /// Waits until notified, or for `timeout` at most.
    fn wait<'a>(
        &'a self,
        which: Which,
        guard: Self::Guard<'a>,
        timeout: Option<Duration>,
    ) -> Self::Guard<'a>;
    fn notify_one(&self, which: Which);
    fn notify_all(&self, which: Which);
}

/// Mutex and condition variables on the same cache lines, as programs have them.
pub struct Set<M, C> {
    pub(crate) mutex: M,
    pub(crate) first: C,
    pub(crate) second: C,
}

impl<M, C> Set<M, C> {
    pub(crate) fn get(&self, which: Which) -> &C {
        match which {
            Which::First => &self.first,
            Which::Second => &self.second,
        }
    }
}

/// The mutexes and condition variables of libraries with parking_lot's interface.
macro_rules! like_parking_lot {
    ($name:ident, $library:ident) => {
        pub struct $name(Set<$library::Mutex<Stage>, $library::Condvar>);

        impl BenchCondvar for $name {
            type Guard<'a> = $library::MutexGuard<'a, Stage>;
            const TIMED: bool = true;

            fn create() -> Self {
                let changed = $library::Condvar::new;
                let mutex = $library::Mutex::new(Stage::default());
                Self(Set { mutex, first: changed(), second: changed() })
            }

            fn lock(&self) -> Self::Guard<'_> {
                self.0.mutex.lock()
            }

            fn lock_for(&self, timeout: Duration) -> Option<Self::Guard<'_>> {
                self.0.mutex.try_lock_for(timeout)
            }

            fn wait<'a>(
                &'a self,
                which: Which,
                mut guard: Self::Guard<'a>,
                timeout: Option<Duration>,
            ) -> Self::Guard<'a> {
                match timeout {
                    Some(timeout) => _ = self.0.get(which).wait_for(&mut guard, timeout),
                    None => self.0.get(which).wait(&mut guard),
                }
                guard
            }

            fn notify_one(&self, which: Which) {
                self.0.get(which).notify_one();
            }

            fn notify_all(&self, which: Which) {
                self.0.get(which).notify_all();
            }
        }
    };
}

like_parking_lot!(Ours, fairlock);
like_parking_lot!(ParkingLot, parking_lot);

pub struct Std(Set<std::sync::Mutex<Stage>, std::sync::Condvar>);

impl BenchCondvar for Std {
    type Guard<'a> = std::sync::MutexGuard<'a, Stage>;
    const TIMED: bool = false;

    fn create() -> Self {
        let changed = std::sync::Condvar::new;
        let mutex = std::sync::Mutex::new(Stage::default());
        Self(Set { mutex, first: changed(), second: changed() })
    }

    fn lock(&self) -> Self::Guard<'_> {
        self.0.mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_for(&self, _timeout: Duration) -> Option<Self::Guard<'_>> {
        unreachable!("std has no timed mutex")
    }

    fn wait<'a>(
        &'a self,
        which: Which,
        guard: Self::Guard<'a>,
        timeout: Option<Duration>,
    ) -> Self::Guard<'a> {
        let changed = self.0.get(which);
        match timeout {
            Some(timeout) => {
                changed.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
            }
            None => changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn notify_one(&self, which: Which) {
        self.0.get(which).notify_one();
    }

    fn notify_all(&self, which: Which) {
        self.0.get(which).notify_all();
    }
}

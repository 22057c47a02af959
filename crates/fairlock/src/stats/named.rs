//! A lock of `lock_api` with a name, and statistics.

use core::convert::Infallible;
use core::panic::Location;
use std::string::String;

use lock_api::{
    RawMutex, RawMutexFair, RawMutexTimed, RawRwLock, RawRwLockDowngrade, RawRwLockFair,
    RawRwLockRecursive, RawRwLockRecursiveTimed, RawRwLockTimed, RawRwLockUpgrade,
    RawRwLockUpgradeDowngrade, RawRwLockUpgradeFair, RawRwLockUpgradeTimed,
};

use super::place::{Access, Place, Want};
use super::record::{Pause, Record};
use super::registry::{Statistics, kept};
use crate::deadlock;
use crate::events::EventCounts;
use crate::inner::by_inner;
use crate::mutex::{RawMutexExt, sealed as mutex};
use crate::rwlock::{RawRwLockExt, sealed as rwlock};
use crate::wait::{Wait, WaitError};
use crate::{GuardMarker, platform::Native};

/// The raw lock `R` with a name, under which its [statistics](super) are kept.
///
/// It implements the traits of `lock_api` 0.4 that `R` implements, for any `R`, with the promises
/// of `R`. It makes a first attempt before each wait, to know which acquisitions wait.
///
/// ```
/// use fairlock::stats::{self, Named};
/// use fairlock::{RawFairMutex, lock_api};
///
/// static TURNS: lock_api::Mutex<Named<RawFairMutex>, u32> =
///     lock_api::Mutex::from_raw(Named::new("turns", <RawFairMutex as lock_api::RawMutex>::INIT), 0);
/// *TURNS.lock() += 1;
/// assert_eq!(stats::snapshot().get("turns").unwrap().writes.acquisitions, 1);
/// ```
pub struct Named<R>(R, &'static str, Statistics);

/// A name of locks: a text of the program, or one made while it runs. What is made stays, once for all locks with that
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(&'static str);

impl From<&'static str> for Name {
    fn from(name: &'static str) -> Self {
        Self(name)
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Self(kept(&name))
    }
}

impl<R> Named<R> {
    /// The lock `raw`, which nobody has used yet, with a name.
    pub const fn new(name: &'static str, raw: R) -> Self {
        Self(raw, name, Statistics::none())
    }

    /// As [`new`](Self::new), with a name that may be made while the program runs.
    pub(super) fn with_name(name: Name, raw: R) -> Self {
        Self::new(name.0, raw)
    }

    /// As [`new`](Self::new), but nothing is ever counted.
    pub(super) const fn uncounted(name: &'static str, raw: R) -> Self {
        Self(raw, name, Statistics::never())
    }

    /// The name.
    pub const fn name(&self) -> &'static str {
        self.1
    }

    #[inline]
    pub(super) fn record(&self) -> Option<&Record> {
        self.2.get_or_make(self.1)
    }

    #[inline]
    #[track_caller]
    fn take(&self, want: Want, attempt: impl FnOnce(&R) -> bool, wait: impl FnOnce(&R)) {
        let wait = |raw: &R| {
            wait(raw);
            Ok::<_, Infallible>(())
        };
        let Ok(()) = self.take_with(want, false, attempt, wait);
    }

    pub(super) const fn inner(&self) -> &R {
        &self.0
    }

    #[inline]
    #[track_caller]
    pub(super) fn take_with<E>(
        &self,
        want: Want,
        can_end: bool,
        attempt: impl FnOnce(&R) -> bool,
        wait: impl FnOnce(&R) -> Result<(), E>,
    ) -> Result<(), E> {
        let (raw, at) = (&self.0, Place::Line(Location::caller()));
        deadlock::named(self.1, || match self.record() {
            None => wait(raw),
            Some(record) => record.take(want, can_end, at, || attempt(raw), || wait(raw)),
        })
    }

    #[inline]
    #[track_caller]
    pub(super) fn attempt(&self, want: Want, attempt: impl FnOnce(&R) -> bool) -> bool {
        let at = Place::Line(Location::caller());
        deadlock::named(self.1, || match self.record() {
            None => attempt(&self.0),
            Some(record) => record.attempt(want, at, || attempt(&self.0)),
        })
    }

    /// The holder becomes the writer.
    #[inline]
    #[track_caller]
    fn upgrade(
        &self,
        can_end: bool,
        attempt: impl FnOnce(&R) -> bool,
        wait: impl FnOnce(&R) -> bool,
    ) -> bool {
        let (raw, at) = (&self.0, Place::Line(Location::caller()));
        deadlock::named(self.1, || match self.record() {
            None => wait(raw),
            Some(record) => record.upgrade(can_end, at, || attempt(raw), || wait(raw)),
        })
    }

    /// What was begun is ended, whether or not statistics are on by now.
    #[inline]
    pub(super) fn leave(&self, access: Access, release: impl FnOnce(&R)) {
        match self.2.get() {
            None => release(&self.0),
            Some(record) => record.leave(access, || release(&self.0)),
        }
    }

    /// As [`leave`](Self::leave), of a range.
    pub(super) fn leave_range(&self, want: Want, release: impl FnOnce()) {
        match self.2.get() {
            None => release(),
            Some(record) => record.leave_range(want, release),
        }
    }

    /// A range that the calling thread writes is read from now on.
    pub(super) fn downgrade_range(&self) {
        self.2.get().into_iter().for_each(Record::downgrade_range);
    }

    #[inline]
    fn change(&self, from: Access, to: Access, change: impl FnOnce(&R)) {
        match self.2.get() {
            None => change(&self.0),
            Some(record) => record.change(from, to, || change(&self.0)),
        }
    }
}

/// Methods of a trait of `lock_api` by those of the lock inside, counted. What may wait is named after the
/// attempt that comes before it.
macro_rules! counted {
    ($($kind:ident $access:ident: $first:ident $(=> $then:ident $(($limit:ty))?)?,)*) => {
        $(counted!(@$kind $access: $first $(=> $then $(($limit))?)?);)*
    };
    (@takes $access:ident: $attempt:ident => $wait:ident) => {
        #[inline]
        #[track_caller]
        fn $wait(&self) {
            self.take(Want::$access, R::$attempt, R::$wait);
        }
    };
    (@takes $access:ident: $attempt:ident => $wait:ident($limit:ty)) => {
        #[track_caller]
        fn $wait(&self, limit: $limit) -> bool {
            let wait = |raw: &R| if raw.$wait(limit) { Ok(()) } else { Err(()) };
            self.take_with(Want::$access, true, R::$attempt, wait).is_ok()
        }
    };
    (@tries $access:ident: $attempt:ident) => {
        #[inline]
        #[track_caller]
        fn $attempt(&self) -> bool {
            self.attempt(Want::$access, R::$attempt)
        }
    };
    (@leaves $access:ident: $release:ident) => {
        #[inline]
        unsafe fn $release(&self) {
            // SAFETY: the caller's promise.
            self.leave(Access::$access, |raw| unsafe { raw.$release() });
        }
    };
    (@becomes $access:ident: $change:ident) => {
        unsafe fn $change(&self) {
            // SAFETY: the caller's promise.
            self.change(Access::Write, Access::$access, |raw| unsafe { raw.$change() });
        }
    };
    (@upgrades $access:ident: $attempt:ident => $wait:ident($limit:ty)) => {
        #[track_caller]
        unsafe fn $wait(&self, limit: $limit) -> bool {
            // SAFETY: the caller's promise; an attempt that fails changes nothing.
            self.upgrade(true, |raw| unsafe { raw.$attempt() }, |raw| unsafe { raw.$wait(limit) })
        }
    };
}

// SAFETY: as for the lock inside: whatever is taken and released here is that, by the same methods.
unsafe impl<R: RawMutex> RawMutex for Named<R> {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
    const INIT: Self = Self::new("unnamed", R::INIT);
    type GuardMarker = R::GuardMarker;

    counted!(takes Write: try_lock => lock, tries Write: try_lock, leaves Write: unlock,);
    by_inner!(RawMutex: tries is_locked,);
}

// SAFETY: as above.
unsafe impl<R: RawMutexFair> RawMutexFair for Named<R> {
    counted!(leaves Write: unlock_fair,);
}

// SAFETY: as above.
unsafe impl<R: RawMutexTimed> RawMutexTimed for Named<R> {
    type Duration = R::Duration;
    type Instant = R::Instant;

    counted! {
        takes Write: try_lock => try_lock_for(R::Duration),
        takes Write: try_lock => try_lock_until(R::Instant),
    }
}

impl<R: RawMutexExt> mutex::Sealed for Named<R> {}

impl<R: RawMutexExt> RawMutexExt for Named<R> {
    #[inline]
    #[track_caller]
    fn lock_with(&self, wait: Wait<'_, Native>) -> Result<(), WaitError> {
        self.take_with(Want::Write, wait.can_end(), R::try_lock, |raw| raw.lock_with(wait))
    }

    fn planned_wait_ns(&self, waiters_ahead: usize) -> u64 {
        self.0.planned_wait_ns(waiters_ahead)
    }

    type Pause<'a>
        = (Option<Pause<'a>>, R::Pause<'a>)
    where
        R: 'a;

    fn pause(&self) -> Self::Pause<'_> {
        (self.2.get().map(Pause::new), self.0.pause())
    }

    fn resume((pause, inner): Self::Pause<'_>) {
        R::resume(inner);
        pause.into_iter().for_each(Pause::end);
    }

    fn unnamed(&self) -> &crate::RawMutex {
        self.0.unnamed()
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLock> RawRwLock for Named<R> {
    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
    const INIT: Self = Self::new("unnamed", R::INIT);
    type GuardMarker = R::GuardMarker;

    counted! {
        takes Read: try_lock_shared => lock_shared,
        tries Read: try_lock_shared,
        leaves Read: unlock_shared,
        takes Write: try_lock_exclusive => lock_exclusive,
        tries Write: try_lock_exclusive,
        leaves Write: unlock_exclusive,
    }
    by_inner!(RawRwLock: tries is_locked, tries is_locked_exclusive,);
}

// SAFETY: as above.
unsafe impl<R: RawRwLockFair> RawRwLockFair for Named<R> {
    counted!(leaves Read: unlock_shared_fair, leaves Write: unlock_exclusive_fair,);
}

// SAFETY: as above.
unsafe impl<R: RawRwLockDowngrade> RawRwLockDowngrade for Named<R> {
    counted!(becomes Read: downgrade,);
}

// SAFETY: as above.
unsafe impl<R: RawRwLockTimed> RawRwLockTimed for Named<R> {
    type Duration = R::Duration;
    type Instant = R::Instant;

    counted! {
        takes Read: try_lock_shared => try_lock_shared_for(R::Duration),
        takes Read: try_lock_shared => try_lock_shared_until(R::Instant),
        takes Write: try_lock_exclusive => try_lock_exclusive_for(R::Duration),
        takes Write: try_lock_exclusive => try_lock_exclusive_until(R::Instant),
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockRecursive> RawRwLockRecursive for Named<R> {
    counted! {
        takes Recursive: try_lock_shared_recursive => lock_shared_recursive,
        tries Recursive: try_lock_shared_recursive,
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockRecursiveTimed> RawRwLockRecursiveTimed for Named<R> {
    counted! {
        takes Recursive: try_lock_shared_recursive => try_lock_shared_recursive_for(R::Duration),
        takes Recursive: try_lock_shared_recursive => try_lock_shared_recursive_until(R::Instant),
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockUpgrade> RawRwLockUpgrade for Named<R> {
    counted! {
        takes Upgradable: try_lock_upgradable => lock_upgradable,
        tries Upgradable: try_lock_upgradable,
        leaves Write: unlock_upgradable,
    }

    #[track_caller]
    unsafe fn upgrade(&self) {
        let wait = |raw: &R| {
            // SAFETY: the caller's promise.
            unsafe { raw.upgrade() };
            true
        };
        // SAFETY: the caller's promise; an attempt that fails changes nothing.
        self.upgrade(false, |raw| unsafe { raw.try_upgrade() }, wait);
    }

    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: the caller's promise.
        let attempt = || unsafe { self.0.try_upgrade() };
        self.2.get().map_or_else(attempt, |record| record.try_upgrade(attempt))
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockUpgradeFair> RawRwLockUpgradeFair for Named<R> {
    counted!(leaves Write: unlock_upgradable_fair,);
}

// SAFETY: as above.
unsafe impl<R: RawRwLockUpgradeDowngrade> RawRwLockUpgradeDowngrade for Named<R> {
    counted!(becomes Read: downgrade_upgradable,);

    unsafe fn downgrade_to_upgradable(&self) {
        // SAFETY: the caller's promise.
        let change = |raw: &R| unsafe { raw.downgrade_to_upgradable() };
        match self.2.get() {
            None => change(&self.0),
            Some(record) => record.downgrade_to_upgradable(|| change(&self.0)),
        }
    }
}

// SAFETY: as above.
unsafe impl<R: RawRwLockUpgradeTimed> RawRwLockUpgradeTimed for Named<R> {
    counted! {
        takes Upgradable: try_lock_upgradable => try_lock_upgradable_for(R::Duration),
        takes Upgradable: try_lock_upgradable => try_lock_upgradable_until(R::Instant),
        upgrades Write: try_upgrade => try_upgrade_for(R::Duration),
        upgrades Write: try_upgrade => try_upgrade_until(R::Instant),
    }
}

impl<R: RawRwLockExt> rwlock::Sealed for Named<R> {}

impl<R: RawRwLockExt> RawRwLockExt for Named<R>
where
    R: RawRwLock<GuardMarker = GuardMarker> + RawRwLockRecursive,
{
    type Platform = R::Platform;
    type Policy = R::Policy;

    fn with_policy(policy: R::Policy) -> Self {
        Self::new("unnamed", R::with_policy(policy))
    }

    fn policy(&self) -> R::Policy {
        self.0.policy()
    }

    fn has_waiters(&self) -> bool {
        self.0.has_waiters()
    }

    fn set_events(&self, counts: Option<&'static EventCounts>) {
        self.0.set_events(counts);
    }

    #[inline]
    #[track_caller]
    fn read_with(&self, wait: Wait<'_, R::Platform>) -> Result<(), WaitError> {
        self.take_with(Want::Read, wait.can_end(), R::try_lock_shared, |raw| raw.read_with(wait))
    }

    #[inline]
    #[track_caller]
    fn write_with(&self, wait: Wait<'_, R::Platform>) -> Result<(), WaitError> {
        self.take_with(Want::Write, wait.can_end(), R::try_lock_exclusive, |raw| {
            raw.write_with(wait)
        })
    }

    #[inline]
    #[track_caller]
    fn read_recursive_with(&self, wait: Wait<'_, R::Platform>) -> Result<(), WaitError> {
        let attempt = R::try_lock_shared_recursive;
        self.take_with(Want::Recursive, wait.can_end(), attempt, |raw| {
            raw.read_recursive_with(wait)
        })
    }
}

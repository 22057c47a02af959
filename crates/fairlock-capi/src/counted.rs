//! A lock that may have a name, and then statistics.

use std::ops::Deref;

use fairlock::stats::{Access, Statistics, Want};

use crate::caller::Caller;
use crate::errno::{Errno, kept};

/// A lock, with statistics if it has a name. What takes it and leaves it is here; all else is the lock's.
/// Without a name each costs one load and a branch.
pub(crate) struct Counted<L> {
    lock: L,
    statistics: Statistics,
}

impl<L> Counted<L> {
    pub(crate) fn new(lock: L) -> Self {
        Self { lock, statistics: Statistics::none() }
    }

    /// Gives the lock a name, for good.
    pub(crate) fn set_name(&self, name: &str) -> Result<(), Errno> {
        if self.statistics.get().is_some() {
            return Err(Errno::BUSY);
        }
        kept(|| _ = self.statistics.make(name));
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn has_name(&self) -> bool {
        self.statistics.get().is_some()
    }

    /// By `attempt`, or else by `wait`, which may end without the lock if `can_end`.
    pub(crate) fn take<E>(
        &self,
        want: Want,
        can_end: bool,
        at: Caller,
        attempt: impl FnOnce(&L) -> bool,
        wait: impl FnOnce(&L) -> Result<(), E>,
    ) -> Result<(), E> {
        let lock = &self.lock;
        match self.statistics.collecting() {
            None => wait(lock),
            Some(record) => {
                kept(|| record.take(want, can_end, at.place(), || attempt(lock), || wait(lock)))
            }
        }
    }

    pub(crate) fn attempt(&self, want: Want, at: Caller, attempt: impl FnOnce(&L) -> bool) -> bool {
        match self.statistics.collecting() {
            None => attempt(&self.lock),
            Some(record) => kept(|| record.attempt(want, at.place(), || attempt(&self.lock))),
        }
    }

    pub(crate) fn leave(&self, access: Access, release: impl FnOnce(&L)) {
        match self.statistics.get() {
            None => release(&self.lock),
            Some(record) => kept(|| record.leave(access, || release(&self.lock))),
        }
    }

    /// The holder has the lock in another way from now on.
    pub(crate) fn change(&self, from: Access, to: Access, change: impl FnOnce(&L)) {
        match self.statistics.get() {
            None => change(&self.lock),
            Some(record) => kept(|| record.change(from, to, || change(&self.lock))),
        }
    }

    /// The holder is without the lock during `pause`.
    pub(crate) fn pause<T>(&self, pause: impl FnOnce(&L) -> T) -> T {
        match self.statistics.get() {
            None => pause(&self.lock),
            Some(record) => kept(|| record.pause(|| pause(&self.lock))),
        }
    }
}

impl<L> Deref for Counted<L> {
    type Target = L;

    #[inline(always)]
    fn deref(&self) -> &L {
        &self.lock
    }
}

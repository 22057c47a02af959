//! A lock that may have a name, and then statistics.

use std::ops::Deref;

use fairlock::platform::Native;
use fairlock::stats::{Access, Statistics};
use fairlock::thin::ThinRwSem;
use fairlock::{Wait, WaitError};

use crate::caller::Caller;
use crate::errno::Errno;

/// A lock, with statistics if it has a name. What takes it and leaves it is here, under the names of
/// the lock's own; all else is the lock's.
///
/// Without a name each costs one load and a branch. What a name adds to those that are called most is
/// in functions of its own, with a second call of the lock: else that would not be inlined.
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
        self.statistics.make(name);
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn has_name(&self) -> bool {
        self.statistics.get().is_some()
    }

    pub(crate) fn take<E>(
        &self,
        access: Access,
        at: Caller,
        attempt: impl FnOnce(&L) -> bool,
        wait: impl FnOnce(&L) -> Result<(), E>,
    ) -> Result<(), E> {
        let lock = &self.lock;
        match self.statistics.collecting() {
            None => wait(lock),
            Some(record) => record.take(access, at.place(), || attempt(lock), || wait(lock)),
        }
    }

    pub(crate) fn attempt(
        &self,
        access: Access,
        at: Caller,
        attempt: impl FnOnce(&L) -> bool,
    ) -> bool {
        match self.statistics.collecting() {
            None => attempt(&self.lock),
            Some(record) => record.attempt(access, at.place(), || attempt(&self.lock)),
        }
    }

    pub(crate) fn leave(&self, access: Access, release: impl FnOnce(&L)) {
        match self.statistics.get() {
            None => release(&self.lock),
            Some(record) => record.leave(access, || release(&self.lock)),
        }
    }

    /// The holder is without the lock during `pause`.
    pub(crate) fn pause<T>(&self, pause: impl FnOnce(&L) -> T) -> T {
        match self.statistics.get() {
            None => pause(&self.lock),
            Some(record) => record.pause(|| pause(&self.lock)),
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

type Sem = ThinRwSem<Native>;

impl Counted<Sem> {
    #[inline(always)]
    pub(crate) fn read_with(&self, wait: Wait<'_>, at: Caller) -> Result<(), WaitError> {
        if self.has_name() { self.read_counted(wait, at) } else { self.lock.read_with(wait) }
    }

    #[cold]
    #[inline(never)]
    fn read_counted(&self, wait: Wait<'_>, at: Caller) -> Result<(), WaitError> {
        self.take(Access::Read, at, Sem::try_read, |sem| sem.read_with(wait))
    }

    pub(crate) fn try_read(&self, at: Caller) -> bool {
        self.attempt(Access::Read, at, Sem::try_read)
    }

    pub(crate) fn read_recursive_with(&self, wait: Wait<'_>, at: Caller) -> Result<(), WaitError> {
        self.take(Access::Read, at, Sem::try_read_recursive, |sem| sem.read_recursive_with(wait))
    }

    pub(crate) fn try_read_recursive(&self, at: Caller) -> bool {
        self.attempt(Access::Read, at, Sem::try_read_recursive)
    }

    #[inline(always)]
    pub(crate) fn write(&self, at: Caller) {
        if self.has_name() {
            // It does not end without the lock.
            let _ = self.write_with(Wait::FOREVER, at);
        } else {
            self.lock.write();
        }
    }

    #[inline(never)]
    pub(crate) fn write_with(&self, wait: Wait<'_>, at: Caller) -> Result<(), WaitError> {
        self.take(Access::Write, at, Sem::try_write, |sem| sem.write_with(wait))
    }

    pub(crate) fn try_write(&self, at: Caller) -> bool {
        self.attempt(Access::Write, at, Sem::try_write)
    }

    /// # Safety
    /// The caller holds the lock for reading.
    #[inline(always)]
    pub(crate) unsafe fn unlock_read(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.has_name() { self.unlock_read_counted() } else { self.lock.unlock_read() }
        }
    }

    /// # Safety
    /// As for [`unlock_read`](Self::unlock_read).
    #[cold]
    #[inline(never)]
    unsafe fn unlock_read_counted(&self) {
        // SAFETY: the caller's promise.
        self.leave(Access::Read, |sem| unsafe { sem.unlock_read() });
    }

    /// # Safety
    /// As for [`unlock_read`](Self::unlock_read).
    pub(crate) unsafe fn unlock_read_fair(&self) {
        // SAFETY: the caller's promise.
        self.leave(Access::Read, |sem| unsafe { sem.unlock_read_fair() });
    }

    /// # Safety
    /// The caller holds the lock for writing.
    #[inline(always)]
    pub(crate) unsafe fn unlock_write(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.has_name() { self.unlock_write_counted() } else { self.lock.unlock_write() }
        }
    }

    /// # Safety
    /// As for [`unlock_write`](Self::unlock_write).
    #[cold]
    #[inline(never)]
    unsafe fn unlock_write_counted(&self) {
        // SAFETY: the caller's promise.
        self.leave(Access::Write, |sem| unsafe { sem.unlock_write() });
    }

    /// # Safety
    /// As for [`unlock_write`](Self::unlock_write).
    pub(crate) unsafe fn unlock_write_fair(&self) {
        // SAFETY: the caller's promise.
        self.leave(Access::Write, |sem| unsafe { sem.unlock_write_fair() });
    }

    /// # Safety
    /// As for [`unlock_write`](Self::unlock_write).
    pub(crate) unsafe fn downgrade(&self) {
        // SAFETY: the caller's promise.
        let downgrade = |sem: &Sem| unsafe { sem.downgrade() };
        match self.statistics.get() {
            None => downgrade(&self.lock),
            Some(record) => {
                record.change(Access::Write, Access::Read, || downgrade(&self.lock));
            }
        }
    }
}

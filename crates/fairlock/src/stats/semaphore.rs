//! A semaphore with a name.

use core::mem::forget;

use super::named::Named;
use super::place::{Access, Want};
use crate::Wait;
use crate::wait::WaitError;

/// A [`Semaphore`](crate::Semaphore) with a name, and its methods.
///
/// A taken permit counts as a [read](super::LockStats::reads): several threads may have some at a time. It is held until the
/// [`Permit`] is dropped. What [`release`](Self::release) adds does not end a hold.
///
/// ```
/// use fairlock::stats::{self, Builder};
///
/// static CONNECTIONS: stats::Semaphore = Builder::new("connections").semaphore(2);
///
/// let one = CONNECTIONS.acquire();
/// let now = stats::snapshot();
/// assert_eq!(now.get("connections").unwrap().reads.held_now.len(), 1);
/// drop(one);
/// ```
pub type Semaphore = Named<crate::Semaphore>;

/// Permits of a [`Semaphore`] with a name: gives them back when dropped, on any thread.
#[must_use = "gives its permits back at once if it is not kept"]
pub struct Permit<'a> {
    pub(super) semaphore: &'a Semaphore,
    pub(super) count: u32,
}

impl Semaphore {
    /// As [`Semaphore::acquire`](crate::Semaphore::acquire).
    #[track_caller]
    pub fn acquire(&self) -> Permit<'_> {
        self.acquire_many(1)
    }

    /// As [`Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    #[track_caller]
    pub fn acquire_many(&self, count: u32) -> Permit<'_> {
        match self.acquire_many_with(count, Wait::FOREVER) {
            Ok(permit) => permit,
            Err(_) => unreachable!("the wait has no end"),
        }
    }

    /// As [`Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    #[track_caller]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.try_acquire_many(1)
    }

    /// As [`Semaphore::try_acquire_many`](crate::Semaphore::try_acquire_many).
    #[track_caller]
    pub fn try_acquire_many(&self, count: u32) -> Option<Permit<'_>> {
        let taken = self.attempt(Want::Permits, |inner| takes(inner, count));
        taken.then_some(()).map(|()| Permit { semaphore: self, count })
    }

    /// As [`Semaphore::acquire_many_with`](crate::Semaphore::acquire_many_with).
    ///
    /// # Errors
    /// As `wait` says.
    #[track_caller]
    pub fn acquire_many_with(&self, count: u32, wait: Wait<'_>) -> Result<Permit<'_>, WaitError> {
        let attempt = |inner: &crate::Semaphore| takes(inner, count);
        let waits = |inner: &crate::Semaphore| inner.acquire_many_with(count, wait).map(forget);
        self.take_with(Want::Permits, wait.can_end(), attempt, waits)?;
        Ok(Permit { semaphore: self, count })
    }

    /// As [`Semaphore::release`](crate::Semaphore::release).
    ///
    /// # Panics
    /// If more than `u32::MAX` permits would be free.
    pub fn release(&self, count: u32) {
        self.inner().release(count);
    }

    /// As [`Semaphore::try_release`](crate::Semaphore::try_release).
    #[must_use]
    pub fn try_release(&self, count: u32) -> bool {
        self.inner().try_release(count)
    }

    /// How many permits are free at this instant.
    pub fn available_permits(&self) -> u32 {
        self.inner().available_permits()
    }

    /// Whether a thread waits at this instant, or has given up a moment ago.
    pub fn has_waiters(&self) -> bool {
        self.inner().has_waiters()
    }
}

fn takes(semaphore: &crate::Semaphore, count: u32) -> bool {
    semaphore.try_acquire_many(count).map(forget).is_some()
}

impl Permit<'_> {
    /// How many permits these are.
    pub fn count(&self) -> u32 {
        self.count
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.leave(Access::Read, |inner| inner.release(self.count));
    }
}

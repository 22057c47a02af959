//! A token that ends waits from outside.

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::sync::atomic::Ordering;

use super::Thread;
use crate::platform::{Atomic, ConstZero, Platform};
use crate::ticket::BatchedTicketLock;

/// Ends waits from outside: every wait that was given this token, now or
/// later, returns [`Cancelled`](super::WaitError::Cancelled) once
/// [`cancel`](CancelToken::cancel) was called.
///
/// A token may be shared by any number of threads, waits and locks. A wait
/// that is granted the lock and cancelled at the same instant keeps the lock.
pub struct CancelToken<P: Platform> {
    cancelled: P::AtomicU32,
    lock: BatchedTicketLock<P>,
    /// Waits under this token. Guarded by `lock`.
    waits: UnsafeCell<*const Registration<P>>,
}

// SAFETY: the list is reached under `lock` only; the registrations in it name
// thread records, which are shared and never freed.
unsafe impl<P: Platform> Send for CancelToken<P> {}
// SAFETY: as above.
unsafe impl<P: Platform> Sync for CancelToken<P> {}

/// A wait under a token, in the waiting frame.
struct Registration<P: Platform> {
    thread: &'static Thread<P>,
    next: Cell<*const Registration<P>>,
    prev: Cell<*const Registration<P>>,
}

impl<P: Platform> CancelToken<P> {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self {
            cancelled: P::AtomicU32::new(0),
            lock: BatchedTicketLock::new(),
            waits: UnsafeCell::new(core::ptr::null()),
        }
    }

    /// The same, for statics.
    pub const fn new_const() -> Self
    where
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
        P::AtomicUsize: ConstZero,
    {
        Self {
            cancelled: ConstZero::ZERO,
            lock: BatchedTicketLock::new_const(),
            waits: UnsafeCell::new(core::ptr::null()),
        }
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        // Acquire: what the canceller did before is seen by the cancelled.
        self.cancelled.load(Ordering::Acquire) != 0
    }

    /// Ends every wait under this token. Final: a token cannot be reset.
    pub fn cancel(&self) {
        self.cancelled.store(1, Ordering::Release);
        self.lock.lock();
        // SAFETY: `lock` is held; a listed registration is alive, because its
        // frame takes it off the list, under `lock`, before it returns.
        unsafe {
            let mut next = *self.waits.get();
            while let Some(wait) = next.as_ref() {
                wait.thread.parker.unpark();
                next = wait.next.get();
            }
            self.lock.unlock();
        }
    }

    /// Runs `wait` with `thread` listed, so that a cancel wakes it. The caller
    /// looks at [`is_cancelled`](Self::is_cancelled) after it is listed and
    /// before it sleeps.
    pub(crate) fn with_registered<R>(
        &self,
        thread: &'static Thread<P>,
        wait: impl FnOnce() -> R,
    ) -> R {
        let registration = Registration {
            thread,
            next: Cell::new(core::ptr::null()),
            prev: Cell::new(core::ptr::null()),
        };
        self.link(&registration);
        let _unlink = Unlink { token: self, registration: &registration };
        wait()
    }

    fn link(&self, registration: &Registration<P>) {
        self.lock.lock();
        // SAFETY: `lock` is held; listed registrations are alive (see `cancel`).
        unsafe {
            let head = *self.waits.get();
            registration.next.set(head);
            if let Some(head) = head.as_ref() {
                head.prev.set(registration);
            }
            *self.waits.get() = registration;
            self.lock.unlock();
        }
    }

    fn unlink(&self, registration: &Registration<P>) {
        self.lock.lock();
        let (prev, next) = (registration.prev.get(), registration.next.get());
        // SAFETY: `lock` is held; listed registrations are alive (see `cancel`).
        unsafe {
            match prev.as_ref() {
                Some(prev) => prev.next.set(next),
                None => *self.waits.get() = next,
            }
            if let Some(next) = next.as_ref() {
                next.prev.set(prev);
            }
            self.lock.unlock();
        }
    }
}

struct Unlink<'a, P: Platform> {
    token: &'a CancelToken<P>,
    registration: &'a Registration<P>,
}

impl<P: Platform> Drop for Unlink<'_, P> {
    fn drop(&mut self) {
        self.token.unlink(self.registration);
    }
}

impl<P: Platform> Default for CancelToken<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform> fmt::Debug for CancelToken<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.is_cancelled()).finish()
    }
}

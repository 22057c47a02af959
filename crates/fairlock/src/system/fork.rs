//! What there is once in a process, in the child of a fork.
//!
//! The child has one thread. What its parent's other threads were about to change stays as it was:
//! a mutex that one of them held is held for ever, and a slot or record that one of them was late
//! at is never as it should be. So the child begins anew: a handler of `pthread_atfork`, which runs
//! before `fork` returns there, makes all of it as it was when the program began. What was in it is
//! leaked, once for each fork.

use core::cell::UnsafeCell;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How many forks there are between the first process and this one.
static NUMBER: AtomicUsize = AtomicUsize::new(0);

/// The number of this process, which its ancestors do not have.
pub(crate) fn number() -> usize {
    // Relaxed: it changes before there is a second thread.
    NUMBER.load(Ordering::Relaxed)
}

/// The child of a fork has a number of its own from here on.
pub(crate) fn enter_child() {
    // Relaxed: as above.
    NUMBER.fetch_add(1, Ordering::Relaxed);
}

/// A value that a child of a fork makes anew.
pub(crate) struct PerProcess<T>(UnsafeCell<T>);

// SAFETY: it is shared as a `T` is, but for `renew`, whose caller is alone.
unsafe impl<T: Sync> Sync for PerProcess<T> {}

impl<T> PerProcess<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Replaces the value, which may be in the middle of a change, without dropping it.
    ///
    /// # Safety
    /// The calling thread is the only one of the process, and does not refer to the value.
    pub(crate) unsafe fn renew(&self, value: T) {
        // SAFETY: the caller's promise.
        unsafe { self.0.get().write(value) }
    }
}

impl<T> Deref for PerProcess<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: nobody writes the value while somebody refers to it (`renew`).
        unsafe { &*self.0.get() }
    }
}

/// Has `in_child` run in every child that is forked from now on, unless `is_told`, which then says
/// that this was done. Called before the first change that a child could find half done.
#[cfg_attr(any(not(unix), miri), expect(unused_variables))]
pub(crate) fn tell(is_told: &AtomicBool, in_child: extern "C" fn()) {
    // Relaxed: to do it twice is no worse than once.
    if is_told.load(Ordering::Relaxed) {
        return;
    }
    #[cfg(all(unix, not(miri)))]
    {
        type Handler = Option<extern "C" fn()>;
        unsafe extern "C" {
            fn pthread_atfork(before: Handler, in_parent: Handler, in_child: Handler) -> i32;
        }
        // SAFETY: the function is there for as long as this library is; the C library forgets the
        // handlers of a library that is unloaded. If the call fails there is no memory, and no fork
        // either.
        unsafe { pthread_atfork(None, None, Some(in_child)) };
    }
    is_told.store(true, Ordering::Relaxed);
}

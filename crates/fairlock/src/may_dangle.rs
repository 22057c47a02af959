//! References to what is freed while they are around.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// What another thread may free before a function returns that was given a reference to it: a lock
/// whose next owner ends it, while the release that let that owner in is on its way out; or a
/// waiter whose frame returns, while its granter is.
///
/// A reference is a promise that its memory stays until the function it was given to returns,
/// except for what lies in an [`UnsafeCell`]; so all of it lies in one, padding too. That does not
/// cover a reference to one of its fields: a function that is given such a reference returns before
/// the memory may go, unless the field is an atomic.
#[repr(transparent)]
pub(crate) struct MayDangle<T>(UnsafeCell<T>);

// SAFETY: as for a `T`: it is reached by `&T`, and otherwise by `&mut` only.
unsafe impl<T: Sync> Sync for MayDangle<T> {}

impl<T> MayDangle<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// As [`Deref`], for constants.
    #[inline(always)]
    pub(crate) const fn get(&self) -> &T {
        // SAFETY: nobody writes through the cell; `&mut self` excludes this.
        unsafe { &*self.0.get() }
    }
}

impl<T> Deref for MayDangle<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.get()
    }
}

impl<T> DerefMut for MayDangle<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

//! References to what is freed while they are around.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// A value that another thread may free while a function with a reference to it is still running: a
/// lock that its next owner frees while the release that let that owner in has not returned; or a
/// waiter whose frame returns while its granter is still at work.
///
/// A reference promises that its memory stays until the function that got it returns, except for
/// memory in an [`UnsafeCell`]; so all of the value is in one, padding too. That does not cover
/// references to its fields: a function with such a reference must return before the memory may go,
/// unless the field is an atomic.
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

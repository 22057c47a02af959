//! The range lock with data: a slice whose ranges can be locked separately.

use alloc::boxed::Box;
use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Bound, Deref, DerefMut, RangeBounds};
use core::ptr;

use super::guard::{RangeReadGuard, RangeWriteGuard};
use super::policy::RangePolicy;
use super::span::{RangeError, Span};
use super::{RangeRwLock, Request};
use crate::platform::PooledPlatform;
use crate::wait::Wait;

/// Owns a slice, and hands out `&[T]` and `&mut [T]` for locked ranges of it. There is no other way
/// to the elements, so a written range never overlaps another one in use.
///
/// It blocks as a [`RangeRwLock`] does, with the same promises; the positions are the indices.
/// Every method refuses a range without elements ([`RangeError::Empty`]), one that ends before it
/// starts ([`RangeError::Inverted`]), and one that reaches beyond the slice
/// ([`RangeError::OutOfBounds`]).
///
/// A panic while a guard is alive releases the range, and leaves the elements as they are: it
/// is never poisoned. A forgotten guard keeps its range locked for good: nobody else gets to its
/// elements.
///
/// ```
/// use fairlock::RangeSlice;
///
/// let table = RangeSlice::new(vec![0_u32; 100]);
/// std::thread::scope(|s| {
///     for part in 0..4 {
///         // Four writers side by side: their ranges do not overlap.
///         let range = 25 * part..25 * (part + 1);
///         s.spawn(|| table.write(range).unwrap().fill(7));
///     }
/// });
/// assert_eq!(table.read(..).unwrap().iter().sum::<u32>(), 700);
///
/// // Keep a part for writing, and share the rest.
/// let (mut low, high) = table.write(..).unwrap().split_at(10).unwrap();
/// let high = high.downgrade();
/// low[0] = high[0] + 1;
/// assert_eq!(table.try_read(50..60).unwrap()[0], 7);
/// assert!(table.try_read(5..6).is_err());
/// ```
///
/// The idea of a lock that owns a slice and locks ranges of it comes from the crates `range-lock`
/// and `range-mutex`, which have writers only.
pub struct RangeSlice<P: PooledPlatform, T> {
    lock: RangeRwLock<P>,
    elements: Box<[UnsafeCell<T>]>,
}

// SAFETY: through a shared `RangeSlice` threads get `&T` (so T: Sync) and `&mut T`
// (so T: Send), and the lock keeps those apart.
unsafe impl<P: PooledPlatform, T: Send + Sync> Sync for RangeSlice<P, T> {}

/// Elements that are locked for reading; unlocks them when dropped.
#[must_use = "the range is unlocked when the guard is dropped"]
pub struct SliceReadGuard<'a, P: PooledPlatform, T> {
    guard: RangeReadGuard<'a, P>,
    /// The elements of `guard`'s range.
    elements: *const [T],
}

/// Elements that are locked for writing; unlocks them when dropped.
#[must_use = "the range is unlocked when the guard is dropped"]
pub struct SliceWriteGuard<'a, P: PooledPlatform, T> {
    guard: RangeWriteGuard<'a, P>,
    /// The elements of `guard`'s range.
    elements: *mut [T],
}

// SAFETY: a guard is a `&[T]`.
unsafe impl<P: PooledPlatform, T: Sync> Send for SliceReadGuard<'_, P, T> {}
// SAFETY: as above.
unsafe impl<P: PooledPlatform, T: Sync> Sync for SliceReadGuard<'_, P, T> {}
// SAFETY: a guard is a `&mut [T]`, and any thread may release its range.
unsafe impl<P: PooledPlatform, T: Send> Send for SliceWriteGuard<'_, P, T> {}
// SAFETY: a shared guard is a `&[T]`.
unsafe impl<P: PooledPlatform, T: Sync> Sync for SliceWriteGuard<'_, P, T> {}

impl<P: PooledPlatform, T> RangeSlice<P, T> {
    /// The elements of a `Vec`, a boxed slice or an array, nothing locked, with
    /// [`RangePolicy::DEFAULT`].
    pub fn new(elements: impl Into<Box<[T]>>) -> Self {
        Self::with_policy(RangePolicy::DEFAULT, elements)
    }

    /// As [`new`](Self::new), with `policy`.
    pub fn with_policy(policy: RangePolicy, elements: impl Into<Box<[T]>>) -> Self {
        let elements = Box::into_raw(elements.into());
        // SAFETY: `UnsafeCell<T>` has the layout of `T`, and the box was given up.
        let elements = unsafe { Box::from_raw(elements as *mut [UnsafeCell<T>]) };
        Self { lock: RangeRwLock::on_platform(policy), elements }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The lock inside. A range that is locked through it is also locked for the elements.
    pub fn lock(&self) -> &RangeRwLock<P> {
        &self.lock
    }

    /// All elements, without a lock: `&mut self` says that nobody else uses them. Forgotten guards
    /// do not matter.
    pub fn get_mut(&mut self) -> &mut [T] {
        let elements = ptr::from_mut::<[UnsafeCell<T>]>(&mut self.elements);
        // SAFETY: the layout is the same, and `&mut self` outlives every guard.
        unsafe { &mut *(elements as *mut [T]) }
    }

    /// The elements, without the lock.
    pub fn into_inner(self) -> Box<[T]> {
        let elements = Box::into_raw(self.elements);
        // SAFETY: the layout is the same, and the box was given up.
        unsafe { Box::from_raw(elements as *mut [T]) }
    }

    /// Locks elements for reading; blocks until it has them.
    ///
    /// # Errors
    /// Those of the [type](Self).
    #[inline]
    pub fn read(
        &self,
        range: impl RangeBounds<usize>,
    ) -> Result<SliceReadGuard<'_, P, T>, RangeError> {
        let span = self.span(range)?;
        let hold = self.lock.acquire_forever(span, Request::Read)?;
        Ok(self.read_guard(RangeReadGuard::new(&self.lock, span, hold)))
    }

    /// Locks elements for writing; blocks until it has them.
    ///
    /// # Errors
    /// Those of the [type](Self).
    #[inline]
    pub fn write(
        &self,
        range: impl RangeBounds<usize>,
    ) -> Result<SliceWriteGuard<'_, P, T>, RangeError> {
        let span = self.span(range)?;
        let hold = self.lock.acquire_forever(span, Request::Write)?;
        Ok(self.write_guard(RangeWriteGuard::new(&self.lock, span, hold)))
    }

    /// Locks elements for reading if that needs no waiting. Never blocks.
    ///
    /// # Errors
    /// [`Busy`](RangeError::Busy), and those of the [type](Self).
    pub fn try_read(
        &self,
        range: impl RangeBounds<usize>,
    ) -> Result<SliceReadGuard<'_, P, T>, RangeError> {
        Ok(self.read_guard(self.lock.try_read(self.span(range)?)?))
    }

    /// Locks elements for writing if that needs no waiting. Never blocks.
    ///
    /// # Errors
    /// [`Busy`](RangeError::Busy), and those of the [type](Self).
    pub fn try_write(
        &self,
        range: impl RangeBounds<usize>,
    ) -> Result<SliceWriteGuard<'_, P, T>, RangeError> {
        Ok(self.write_guard(self.lock.try_write(self.span(range)?)?))
    }

    /// Locks elements for reading; gives up as `wait` says.
    ///
    /// # Errors
    /// As `wait` says, and those of the [type](Self).
    pub fn read_with(
        &self,
        range: impl RangeBounds<usize>,
        wait: Wait<'_, P>,
    ) -> Result<SliceReadGuard<'_, P, T>, RangeError> {
        Ok(self.read_guard(self.lock.read_with(self.span(range)?, wait)?))
    }

    /// Locks elements for writing; gives up as `wait` says.
    ///
    /// # Errors
    /// As `wait` says, and those of the [type](Self).
    pub fn write_with(
        &self,
        range: impl RangeBounds<usize>,
        wait: Wait<'_, P>,
    ) -> Result<SliceWriteGuard<'_, P, T>, RangeError> {
        Ok(self.write_guard(self.lock.write_with(self.span(range)?, wait)?))
    }

    /// The positions of a range of elements.
    #[inline]
    fn span(&self, range: impl RangeBounds<usize>) -> Result<Span, RangeError> {
        let wide = |bound: Bound<&usize>| match bound {
            Bound::Included(&at) => Bound::Included(at as u64),
            Bound::Excluded(&at) => Bound::Excluded(at as u64),
            Bound::Unbounded => Bound::Unbounded,
        };
        let end = match wide(range.end_bound()) {
            Bound::Unbounded => Bound::Excluded(self.len() as u64),
            bound => bound,
        };
        let start = wide(range.start_bound());
        if start == Bound::Unbounded && self.is_empty() && range.end_bound() == Bound::Unbounded {
            return Err(RangeError::Empty);
        }
        let span = Span::new((start, end))?;
        if span.last() < self.len() as u64 { Ok(span) } else { Err(RangeError::OutOfBounds) }
    }

    /// The elements of a range that `span` has checked.
    #[inline]
    fn elements(&self, span: Span) -> *mut [T] {
        let len = (span.last() - span.start() + 1) as usize;
        // SAFETY: `span` checked that the range is within the slice. In cells, so
        // the pointer may be written through.
        let first = unsafe { self.elements.as_ptr().add(span.start() as usize) };
        ptr::slice_from_raw_parts_mut(UnsafeCell::raw_get(first), len)
    }

    #[inline]
    fn read_guard<'a>(&'a self, guard: RangeReadGuard<'a, P>) -> SliceReadGuard<'a, P, T> {
        SliceReadGuard { elements: self.elements(guard.span()), guard }
    }

    #[inline]
    fn write_guard<'a>(&'a self, guard: RangeWriteGuard<'a, P>) -> SliceWriteGuard<'a, P, T> {
        SliceWriteGuard { elements: self.elements(guard.span()), guard }
    }
}

/// The elements before `mid`, and the others.
///
/// # Safety
/// The elements are there, and `mid` of them at least.
unsafe fn split<T>(elements: *mut [T], mid: usize) -> [*mut [T]; 2] {
    let first = elements.cast::<T>();
    // SAFETY: the caller's promise.
    let second = unsafe { first.add(mid) };
    [(first, mid), (second, elements.len() - mid)]
        .map(|(first, len)| ptr::slice_from_raw_parts_mut(first, len))
}

impl<'a, P: PooledPlatform, T> SliceReadGuard<'a, P, T> {
    /// Splits the elements in two, before element `mid` of this guard. Waits for no holder.
    ///
    /// # Errors
    /// The guard itself, unchanged, if a part would have no elements.
    pub fn split_at(self, mid: usize) -> Result<(Self, Self), Self> {
        let Self { guard, elements } = self;
        let at = guard.span().start().saturating_add(mid as u64);
        match guard.split_at(at) {
            Ok((low, high)) => {
                // SAFETY: the split has checked that `mid` is inside.
                let [first, second] = unsafe { split(elements.cast_mut(), mid) };
                Ok((Self { guard: low, elements: first }, Self { guard: high, elements: second }))
            }
            Err(guard) => Err(Self { guard, elements }),
        }
    }
}

impl<'a, P: PooledPlatform, T> SliceWriteGuard<'a, P, T> {
    /// Splits the elements in two, before element `mid` of this guard. Waits for no holder.
    ///
    /// # Errors
    /// The guard itself, unchanged, if a part would have no elements.
    pub fn split_at(self, mid: usize) -> Result<(Self, Self), Self> {
        let Self { guard, elements } = self;
        let at = guard.span().start().saturating_add(mid as u64);
        match guard.split_at(at) {
            Ok((low, high)) => {
                // SAFETY: the split has checked that `mid` is inside.
                let [first, second] = unsafe { split(elements, mid) };
                Ok((Self { guard: low, elements: first }, Self { guard: high, elements: second }))
            }
            Err(guard) => Err(Self { guard, elements }),
        }
    }

    /// Turns the elements into ones that are locked for reading, with no gap in
    /// which another writer could get in. Waits for no holder.
    pub fn downgrade(self) -> SliceReadGuard<'a, P, T> {
        SliceReadGuard { elements: self.elements, guard: self.guard.downgrade() }
    }
}

impl<P: PooledPlatform, T> Deref for SliceReadGuard<'_, P, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the elements are locked for reading as long as the guard lives.
        unsafe { &*self.elements }
    }
}

impl<P: PooledPlatform, T> Deref for SliceWriteGuard<'_, P, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the elements are locked for writing as long as the guard lives,
        // and borrowed with it.
        unsafe { &*self.elements }
    }
}

impl<P: PooledPlatform, T> DerefMut for SliceWriteGuard<'_, P, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and the guard is borrowed alone.
        unsafe { &mut *self.elements }
    }
}

impl<P: PooledPlatform, T: fmt::Debug> fmt::Debug for SliceReadGuard<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<P: PooledPlatform, T: fmt::Debug> fmt::Debug for SliceWriteGuard<'_, P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<P: PooledPlatform, T> fmt::Debug for RangeSlice<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeSlice").field("len", &self.len()).field("lock", &self.lock).finish()
    }
}

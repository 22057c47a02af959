//! A closed range of `u64`, and why a range may be refused.

use core::fmt;
use core::ops::{Bound, RangeBounds};

use crate::wait::WaitError;

/// A closed range: all of `start..=last`, at least one position. The full range
/// is `0..=u64::MAX`.
///
/// ```
/// use fairlock::range::{RangeError, Span};
///
/// let span = Span::new(10..20)?;
/// assert_eq!((span.start(), span.last()), (10, 19));
/// assert_eq!(Span::new(..)?, Span::FULL);
/// assert_eq!(Span::new(10..10), Err(RangeError::Empty));
/// # #[allow(clippy::reversed_empty_ranges)]
/// let inverted = Span::new(20..=10);
/// assert_eq!(inverted, Err(RangeError::Inverted));
/// # Ok::<(), RangeError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    start: u64,
    last: u64,
}

impl Span {
    /// All positions there are.
    pub const FULL: Self = Self { start: 0, last: u64::MAX };

    /// The positions of a Rust range.
    ///
    /// # Errors
    /// [`Empty`](RangeError::Empty) if there are none, as in `5..5`;
    /// [`Inverted`](RangeError::Inverted) if the range ends before it starts.
    #[inline]
    pub fn new(range: impl RangeBounds<u64>) -> Result<Self, RangeError> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.checked_add(1).ok_or(RangeError::Empty)?,
            Bound::Unbounded => 0,
        };
        let last = match range.end_bound() {
            Bound::Included(&last) => last,
            Bound::Excluded(&end) if end <= start => return Err(empty_or_inverted(start, end)),
            Bound::Excluded(&end) => end - 1,
            Bound::Unbounded => u64::MAX,
        };
        if start <= last { Ok(Self { start, last }) } else { Err(RangeError::Inverted) }
    }

    /// `start..=last`, which must not be inverted.
    #[inline]
    pub(super) const fn closed(start: u64, last: u64) -> Self {
        debug_assert!(start <= last);
        Self { start, last }
    }

    /// The first position.
    #[inline]
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// The last position: it belongs to the range.
    #[inline]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// The part before `mid`, which is in the range and not its start, and the rest.
    #[inline]
    pub(super) const fn split_before(&self, mid: u64) -> (Self, Self) {
        (Self::closed(self.start, mid - 1), Self::closed(mid, self.last))
    }

    /// Whether some position is in both.
    #[inline]
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.last && other.start <= self.last
    }

    /// Whether every position of `other` is in this one.
    #[inline]
    pub const fn contains(&self, other: &Self) -> bool {
        self.start <= other.start && other.last <= self.last
    }
}

#[cold]
fn empty_or_inverted(start: u64, end: u64) -> RangeError {
    if end == start { RangeError::Empty } else { RangeError::Inverted }
}

impl RangeBounds<u64> for Span {
    fn start_bound(&self) -> Bound<&u64> {
        Bound::Included(&self.start)
    }

    fn end_bound(&self) -> Bound<&u64> {
        Bound::Included(&self.last)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..={}", self.start, self.last)
    }
}

/// Why a range was not locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RangeError {
    /// The range has no position, as `5..5`: there is nothing to lock.
    Empty,
    /// The range ends before it starts.
    Inverted,
    /// The range reaches beyond the slice, or beyond the range that is held.
    OutOfBounds,
    /// A `try_` method would have had to wait.
    Busy,
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran in this thread while it slept.
    Interrupted,
    /// The token was cancelled.
    Cancelled,
    /// So many readers hold the full range that no more can be counted: 2^55, or 2^23 with 32-bit
    /// pointers. A forgotten guard counts, too.
    TooManyReaders,
}

impl From<WaitError> for RangeError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TimedOut => Self::TimedOut,
            WaitError::Interrupted => Self::Interrupted,
            WaitError::Cancelled => Self::Cancelled,
            WaitError::TooManyReaders => Self::TooManyReaders,
        }
    }
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the range is empty",
            Self::Inverted => "the range ends before it starts",
            Self::OutOfBounds => "the range reaches beyond what there is",
            Self::Busy => "the range cannot be had without waiting",
            Self::TimedOut => "the deadline passed before the range was granted",
            Self::Interrupted => "a signal interrupted the wait for the range",
            Self::Cancelled => "the wait for the range was cancelled",
            Self::TooManyReaders => "the full range is held by more readers than can be counted",
        })
    }
}

impl core::error::Error for RangeError {}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use core::ops::Bound;

    use super::*;

    #[test]
    fn every_kind_of_rust_range_is_taken() {
        let closed = |start, last| Ok(Span { start, last });
        assert_eq!(Span::new(3..7), closed(3, 6));
        assert_eq!(Span::new(3..=7), closed(3, 7));
        assert_eq!(Span::new(3..), closed(3, u64::MAX));
        assert_eq!(Span::new(..7), closed(0, 6));
        assert_eq!(Span::new(..=7), closed(0, 7));
        assert_eq!(Span::new(..), Ok(Span::FULL));
        assert_eq!(Span::new((Bound::Excluded(3), Bound::Included(7))), closed(4, 7));
        assert_eq!(Span::new(Span::closed(4, 5)), closed(4, 5));
        assert_eq!(Span::new(u64::MAX..=u64::MAX), closed(u64::MAX, u64::MAX));
        assert_eq!(Span::new(0..=0), closed(0, 0));
        assert_eq!(Span::new(0..u64::MAX), closed(0, u64::MAX - 1));
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges)]
    fn empty_and_inverted_ranges_are_errors() {
        assert_eq!(Span::new(7..7), Err(RangeError::Empty));
        assert_eq!(Span::new(..0), Err(RangeError::Empty));
        assert_eq!(Span::new(7..3), Err(RangeError::Inverted));
        assert_eq!(Span::new(7..=3), Err(RangeError::Inverted));
        let after_everything = (Bound::Excluded(u64::MAX), Bound::Unbounded);
        assert_eq!(Span::new(after_everything), Err(RangeError::Empty));
    }

    #[test]
    fn touching_ranges_do_not_overlap() {
        let (a, b) = (Span::closed(0, 4), Span::closed(5, 9));
        assert!(!a.overlaps(&b) && !b.overlaps(&a));
        assert!(a.overlaps(&Span::closed(4, 4)) && b.overlaps(&Span::FULL));
    }
}

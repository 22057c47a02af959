//! Guards: a held range, released when dropped.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::RangeBounds;

use super::span::{RangeError, Span};
use super::{HeldIn, Hold, RangeRwLock};
use crate::platform::PooledPlatform;
use crate::wait::Kind;

/// A range that is locked for reading; unlocks it when dropped. Any thread may drop it.
/// If it is forgotten, the range stays locked for good.
#[must_use = "the range is unlocked when the guard is dropped"]
pub struct RangeReadGuard<'a, P: PooledPlatform> {
    lock: &'a RangeRwLock<P>,
    span: Span,
    pub(super) hold: Hold,
}

/// A range that is locked for writing; unlocks it when dropped. Any thread may drop it.
/// If it is forgotten, the range stays locked for good.
#[must_use = "the range is unlocked when the guard is dropped"]
pub struct RangeWriteGuard<'a, P: PooledPlatform> {
    lock: &'a RangeRwLock<P>,
    span: Span,
    pub(super) hold: Hold,
}

macro_rules! guard {
    ($guard:ident, $kind:expr) => {
        impl<'a, P: PooledPlatform> $guard<'a, P> {
            /// `hold` holds `span` as this kind, and this guard is its only owner.
            #[inline(always)]
            pub(super) fn new(lock: &'a RangeRwLock<P>, span: Span, hold: Hold) -> Self {
                Self { lock, span, hold }
            }

            /// The locked range.
            pub fn span(&self) -> Span {
                self.span
            }

            /// The lock.
            pub fn lock(&self) -> &'a RangeRwLock<P> {
                self.lock
            }

            /// Gives up everything but `range`, which must be in the locked range, and lets in the
            /// threads that waited only for what is given up. Waits for no holder.
            ///
            /// # Errors
            /// [`OutOfBounds`](RangeError::OutOfBounds) if a position of `range` is
            /// not locked; [`Empty`](RangeError::Empty),
            /// [`Inverted`](RangeError::Inverted). Nothing has changed then.
            pub fn shrink(&mut self, range: impl RangeBounds<u64>) -> Result<(), RangeError> {
                let span = Span::new(range)?;
                if !self.span.contains(&span) {
                    return Err(RangeError::OutOfBounds);
                }
                if span != self.span {
                    let hold = self.lock.out_of_gate_if_there(self.hold, $kind);
                    // The hold is stored at once: a panic must not release one that is gone.
                    self.hold = hold;
                    self.hold = self.lock.core.shrink_hold(hold, self.span, span, $kind);
                    self.span = span;
                }
                Ok(())
            }

            /// Splits the locked range in two: positions below `mid`, and the rest. Waits for no
            /// holder, and nobody gets in meanwhile.
            ///
            /// # Errors
            /// The guard itself, unchanged, if one of the parts would be empty:
            /// `mid` must be in the locked range, and not its start.
            pub fn split_at(self, mid: u64) -> Result<(Self, Self), Self> {
                let span = self.span;
                if mid <= span.start() || mid > span.last() {
                    return Err(self);
                }
                let this = ManuallyDrop::new(self);
                let hold = this.lock.out_of_gate_if_there(this.hold, $kind);
                let [low, high] = this.lock.core.split_hold(hold, span, $kind, mid);
                Ok((
                    Self::new(this.lock, Span::closed(span.start(), mid - 1), low),
                    Self::new(this.lock, Span::closed(mid, span.last()), high),
                ))
            }
        }

        impl<P: PooledPlatform> Drop for $guard<'_, P> {
            #[inline(always)]
            fn drop(&mut self) {
                // SAFETY: the guard owns its hold, and is gone after this.
                unsafe { self.lock.release(self.hold, $kind) }
            }
        }

        impl<P: PooledPlatform> fmt::Debug for $guard<'_, P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($guard)).field(&self.span).finish()
            }
        }
    };
}

guard!(RangeReadGuard, Kind::Reader);
guard!(RangeWriteGuard, Kind::Writer);

impl<'a, P: PooledPlatform> RangeWriteGuard<'a, P> {
    /// Turns the range into one that is locked for reading, with no gap in which another writer
    /// could get in, and lets in the readers that waited only for this range. Waits for no holder.
    pub fn downgrade(self) -> RangeReadGuard<'a, P> {
        let this = ManuallyDrop::new(self);
        // SAFETY: the guard owned its hold, which goes over to the new one.
        unsafe { this.lock.downgrade(this.hold, this.span) };
        RangeReadGuard::new(this.lock, this.span, this.hold)
    }
}

impl<P: PooledPlatform> RangeRwLock<P> {
    /// Gives a range back.
    ///
    /// # Safety
    /// `hold` holds a range as `kind`, and is not used after this.
    #[inline(always)]
    pub(super) unsafe fn release(&self, hold: Hold, kind: Kind) {
        match hold.place() {
            HeldIn::Slot(slot) => self.core.release_slot(slot, kind),
            HeldIn::Striped(slot) => self.core.release_striped(slot, kind),
            HeldIn::Pair(first, second) => {
                self.core.release_striped(first, kind);
                self.core.release_striped(second, kind);
            }
            HeldIn::Node(id) => self.core.release_node(id),
            // SAFETY: the hold is by the gate.
            HeldIn::Gate => unsafe { self.gate.leave(kind) },
        }
    }

    /// Turns a writer into a reader.
    ///
    /// # Safety
    /// `hold` holds `span` for writing; afterwards, for reading.
    pub(super) unsafe fn downgrade(&self, hold: Hold, span: Span) {
        match hold.place() {
            HeldIn::Slot(slot) | HeldIn::Striped(slot) => self.core.downgrade_slot(slot, span),
            HeldIn::Pair(first, second) => {
                self.core.downgrade_slot(first, span);
                self.core.downgrade_slot(second, span);
            }
            HeldIn::Node(id) => self.core.downgrade_node(id, span),
            // SAFETY: the hold is by the gate.
            HeldIn::Gate => unsafe { self.gate.lock.downgrade() },
        }
    }

    /// Holds the same range, but not by the gate.
    fn out_of_gate_if_there(&self, hold: Hold, kind: Kind) -> Hold {
        if hold == Hold::GATE { self.out_of_gate(kind) } else { hold }
    }
}

//! The word of a mutex that says which full lock it has: zero if none, and the name of the slot
//! otherwise. (Who is inside the thin lock is in another word: see [`mutex`](super).)

use crate::thin::inflate::Codec;

/// A value of the word.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::thin) struct Place(u32);

impl Place {
    /// The lock is thin.
    pub(in crate::thin) const NONE: Self = Self(0);
}

impl Codec for Place {
    type Bits = u32;

    #[inline(always)]
    fn of(bits: u32) -> Self {
        Self(bits)
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn inflated(name: u32) -> Self {
        Self(name)
    }

    #[inline(always)]
    fn is_inflated(self) -> bool {
        self != Self::NONE
    }

    #[inline(always)]
    fn name(self) -> u32 {
        self.0
    }

    #[inline(always)]
    fn is_as(self, other: Self) -> bool {
        self == other
    }
}

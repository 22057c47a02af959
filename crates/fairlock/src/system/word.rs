//! What the state words of several locks have in common.

/// Sets of flags, and words that have them.
macro_rules! flags {
    ($vis:vis $flags:ident of $word:ident) => {
        impl $flags {
            $vis const NONE: Self = Self(0);

            #[inline(always)]
            $vis const fn with(self, others: Self) -> Self {
                Self(self.0 | others.0)
            }

            /// These flags, or none.
            #[inline(always)]
            $vis const fn only_if(self, set: bool) -> Self {
                if set { self } else { Self::NONE }
            }
        }

        impl $word {
            /// Whether one of these flags is set.
            #[inline(always)]
            $vis const fn has_any(self, flags: $flags) -> bool {
                self.0 & flags.0 != 0
            }

            #[inline(always)]
            $vis const fn with(self, flags: $flags) -> Self {
                Self(self.0 | flags.0)
            }

            #[inline(always)]
            $vis const fn without(self, flags: $flags) -> Self {
                Self(self.0 & !flags.0)
            }
        }

        impl core::fmt::Debug for $word {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}
pub(crate) use flags;

/// A word in memory. The orderings have their reasons where they are asked for.
macro_rules! exchanges {
    ($vis:vis $atomic:ident of $word:ident on $platform:ident) => {
        impl<P: $platform> $atomic<P> {
            #[inline(always)]
            $vis fn load(&self, order: Ordering) -> $word {
                $word(self.0.load(order))
            }

            /// See [`Atomic::compare_exchange`].
            #[inline(always)]
            $vis fn compare_exchange(
                &self,
                old: $word,
                new: $word,
                ok: Ordering,
                fail: Ordering,
            ) -> Result<$word, $word> {
                self.0.compare_exchange(old.0, new.0, ok, fail).map($word).map_err($word)
            }

            /// See [`Atomic::compare_exchange_weak`].
            #[inline(always)]
            $vis fn compare_exchange_weak(
                &self,
                old: $word,
                new: $word,
                ok: Ordering,
                fail: Ordering,
            ) -> Result<$word, $word> {
                self.0.compare_exchange_weak(old.0, new.0, ok, fail).map($word).map_err($word)
            }
        }
    };
}
pub(crate) use exchanges;

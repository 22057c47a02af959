//! Where in the code, and how, a lock is taken.

use core::fmt;
use core::panic::Location;
use core::ptr;

/// The place in the code where a lock was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A line of a Rust program.
    Line(&'static Location<'static>),
    /// The return address of a call from C; zero if it is not known.
    Address(usize),
}

impl Place {
    /// As a pointer, which is never null, and odd if it is an address. An address has no need of the highest bit.
    #[inline]
    pub(super) fn encode(self) -> *mut Location<'static> {
        const { assert!(align_of::<Location<'static>>() > 1) };
        match self {
            Self::Line(at) => ptr::from_ref(at).cast_mut(),
            Self::Address(address) => ptr::without_provenance_mut(address << 1 | 1),
        }
    }

    /// None if it is an address that is not known.
    pub(super) fn known(self) -> Option<Self> {
        Self::decode(self.encode())
    }

    pub(super) fn decode(at: *mut Location<'static>) -> Option<Self> {
        match at.addr() {
            0 | 1 => None,
            odd if odd & 1 != 0 => Some(Self::Address(odd >> 1)),
            // SAFETY: by `encode`, from a `&'static`.
            _ => Some(Self::Line(unsafe { &*at })),
        }
    }
}

/// Its file, line and column; or the address.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(at) => at.fmt(f),
            Self::Address(address) => write!(f, "{address:#x}"),
        }
    }
}

/// How a lock is held, or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Together with other readers.
    Read,
    /// Alone: a writer, the holder of a mutex, and an upgradable reader, which waits as a writer does.
    Write,
}

/// What a thread wants of a lock, as far as it matters for whom it waits.
#[doc(hidden)] // for libfairlock
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Want {
    /// To read, perhaps behind writers that wait.
    Read,
    /// To read, past all that wait.
    Recursive,
    /// To write, or to hold a mutex.
    Write,
    /// To read, and perhaps to write later.
    Upgradable,
    /// To write, by the upgradable reader.
    Upgrade,
    /// What nobody holds alone: permits.
    Permits,
    /// To read a range, of which several threads may have some.
    RangeRead,
    /// To write one.
    RangeWrite,
}

impl Want {
    pub(super) const ALL: [Self; 8] = [
        Self::Read,
        Self::Recursive,
        Self::Write,
        Self::Upgradable,
        Self::Upgrade,
        Self::Permits,
        Self::RangeRead,
        Self::RangeWrite,
    ];

    const fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::Recursive)
    }

    /// Whether a thread that holds the lock so may acquire it so once more.
    pub(super) const fn nests(self) -> bool {
        self.is_read() && !self.may_be_given()
    }

    /// Whether another thread may release what one has at its place, which would seem to have it for ever.
    pub(super) const fn may_be_given(self) -> bool {
        self.is_read() && cfg!(feature = "send_guard")
    }

    /// Whether threads hold parts, of which one may end the wait or not.
    pub(super) const fn is_of_parts(self) -> bool {
        matches!(self, Self::Permits | Self::RangeRead | Self::RangeWrite)
    }

    /// On which side it counts.
    #[inline]
    pub fn access(self) -> Access {
        match self {
            Self::Read | Self::Recursive | Self::Permits | Self::RangeRead => Access::Read,
            Self::Write | Self::Upgradable | Self::Upgrade | Self::RangeWrite => Access::Write,
        }
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_not_known_is_no_place() {
        for place in
            [Place::Line(Location::caller()), Place::Address(1), Place::Address(0x5555_0123)]
        {
            assert_eq!(place.known(), Some(place));
        }
        assert_eq!(Place::Address(0).known(), None);
    }
}

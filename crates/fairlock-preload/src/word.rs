//! Words of which parts mean different things.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The first eight bytes of a lock: the thin lock, or where the inflated one is.
///
/// | bits | thin | inflated |
/// |---|---|---|
/// | 0 | 0 | 1: `INFLATED` |
/// | 1 | `WRITER`: a writer is inside | |
/// | 1-31 | | the number of the slot |
/// | 8-30 | how many readers are inside | |
/// | 31 | `FULL`: no more can be counted, nor in a slot | |
/// | 45-63 | | the nonce |
///
/// Zero is a free lock, as in a static initialiser.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

const INFLATED: u64 = 1 << 0;
const WRITER: u64 = 1 << 1;
const READER_SHIFT: u32 = 8;
const READER: u64 = 1 << READER_SHIFT;
const FULL: u64 = 1 << 31;

const SLOT_SHIFT: u32 = 1;
const SLOT_MASK: u64 = (1 << 31) - 1;
const NONCE_SHIFT: u32 = u64::BITS - NONCE_BITS;
const NONCE_BITS: u32 = 19;
const NONCE_MASK: u64 = (1 << NONCE_BITS) - 1;

impl Word {
    pub(crate) const FREE: Self = Self(0);
    pub(crate) const WRITTEN: Self = Self(WRITER);
    /// One reader is inside.
    pub(crate) const READ: Self = Self(READER);

    pub(crate) fn inflated(slot: u32, nonce: u64) -> Self {
        Self(INFLATED | u64::from(slot) << SLOT_SHIFT | nonce << NONCE_SHIFT)
    }

    #[inline(always)]
    pub(crate) fn is_inflated(self) -> bool {
        self.0 & INFLATED != 0
    }

    /// Whether a writer is inside; of a thin lock, as all that follow.
    pub(crate) fn is_written(self) -> bool {
        self.0 & WRITER != 0
    }

    /// Whether no more readers can be counted.
    pub(crate) fn is_full(self) -> bool {
        self.0 & FULL != 0
    }

    /// Whether a reader may enter; not if the lock is inflated.
    #[inline(always)]
    pub(crate) fn lets_readers_in(self) -> bool {
        self.0 & (INFLATED | WRITER | FULL) == 0
    }

    /// Whether readers are inside; not if the lock is inflated.
    #[inline(always)]
    pub(crate) fn is_read(self) -> bool {
        self.0 & (INFLATED | WRITER) == 0 && self.0 >= READER
    }

    #[inline(always)]
    pub(crate) fn with_reader(self) -> Self {
        Self(self.0 + READER)
    }

    #[inline(always)]
    pub(crate) fn without_reader(self) -> Self {
        Self(self.0 - READER)
    }

    /// How many readers are inside a thin lock in which no writer is.
    pub(crate) fn readers(self) -> usize {
        (self.0 >> READER_SHIFT) as usize
    }

    /// The number of the slot, of an inflated lock.
    #[inline(always)]
    pub(crate) fn slot(self) -> u32 {
        (self.0 >> SLOT_SHIFT & SLOT_MASK) as u32
    }

    #[inline(always)]
    pub(crate) fn nonce(self) -> u64 {
        self.0 >> NONCE_SHIFT
    }
}

/// Which lock has a slot; zero: none.
///
/// | bits | meaning |
/// |---|---|
/// | 0 | `DOUBTFUL`: a thread is about to take the slot away from its lock, if that is idle |
/// | 1-19 | the lock's nonce |
/// | 20-63 | its address, less the bits that are zero. Addresses have 47 bits unless the program asks for others |
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity(pub(crate) u64);

const DOUBTFUL: u64 = 1;
const ADDRESS_SHIFT: u32 = 3;

/// To which lock a slot belongs.
pub(crate) enum Owner {
    This,
    /// To this lock, or soon to none.
    Doubtful,
    Other,
}

impl Identity {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const DOUBT: u64 = DOUBTFUL;

    #[inline(always)]
    pub(crate) fn new(address: usize, nonce: u64) -> Self {
        let address = address as u64 >> ADDRESS_SHIFT << (NONCE_BITS + 1);
        Self(address | (nonce & NONCE_MASK) << 1)
    }

    pub(crate) fn address(self) -> usize {
        (self.0 >> (NONCE_BITS + 1) << ADDRESS_SHIFT) as usize
    }

    pub(crate) fn nonce(self) -> u64 {
        self.0 >> 1 & NONCE_MASK
    }

    /// Whether it is `other`, which is not in doubt.
    #[inline(always)]
    pub(crate) fn is(self, other: Self) -> Owner {
        match self.0 ^ other.0 {
            0 => Owner::This,
            DOUBTFUL => Owner::Doubtful,
            _ => Owner::Other,
        }
    }
}

/// What an rwlock is, most likely.
///
/// | bits | thin | inflated | visible | watched |
/// |---|---|---|---|---|
/// | 0-1 | 0 | 1 | 2: and inflated | 3: a thin lock that nobody has written since, but for who is about to |
/// | 2-31 | 0 | 0 | 0 | since when, in units of 1,024 ns |
///
/// A thin lock is taken in fewer steps than any other, and to the head of one that is not nobody should try to write, as all
/// read it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form(pub(crate) u32);

impl Form {
    pub(crate) const THIN: Self = Self(0);
    pub(crate) const INFLATED: Self = Self(1);
    pub(crate) const VISIBLE: Self = Self(2);
    const WATCHED: u32 = 3;
    const UNIT_SHIFT: u32 = 10;

    pub(crate) fn watched(now: u64) -> Self {
        Self(((now >> Self::UNIT_SHIFT) as u32) << 2 | Self::WATCHED)
    }

    #[inline(always)]
    pub(crate) fn is_watched(self) -> bool {
        self.0 & Self::WATCHED == Self::WATCHED
    }

    /// For how long it has been watched. Zero if it is not.
    pub(crate) fn watched_ns(self, now: u64) -> u64 {
        let units = Self::watched(now).0.wrapping_sub(self.0) >> 2;
        if self.is_watched() { u64::from(units) << Self::UNIT_SHIFT } else { 0 }
    }
}

/// What the readers of an inflated lock show of it: its name, if it is visible.
///
/// | bits | meaning |
/// |---|---|
/// | 0-62 | the name, which no lock had before; or the last one; zero: none |
/// | 63 | `REVOKED`: the lock is not visible |
#[derive(Clone, Copy)]
pub(crate) struct Name(pub(crate) u64);

impl Name {
    /// A flag.
    pub(crate) const REVOKED: u64 = 1 << 63;

    #[inline(always)]
    pub(crate) fn if_visible(self) -> Option<u64> {
        (self.0 != 0 && self.0 & Self::REVOKED == 0).then_some(self.0)
    }

    pub(crate) fn revoked(self) -> Self {
        Self(self.0 | Self::REVOKED)
    }

    pub(crate) fn last(self) -> u64 {
        self.0 & !Self::REVOKED
    }
}

/// Counts writers that got in. Only these store, one at a time.
#[repr(transparent)]
pub(crate) struct Turns(AtomicU32);

impl Turns {
    // Relaxed throughout: a thread that is misled waits for longer, or not for as long.

    pub(crate) fn count(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed).into()
    }
}

/// What readers have seen of a lock, at which nothing moves.
///
/// | bits | meaning |
/// |---|---|
/// | 0-39 | since when, in microseconds |
/// | 40-63 | the low bits of how many turns there had been |
#[derive(Default)]
pub(crate) struct Still(AtomicU64);

const TIME_BITS: u32 = 40;
const TIME: u64 = (1 << TIME_BITS) - 1;

impl Still {
    /// A reader has to wait. Returns for how many nanoseconds no turn has begun, as far as readers
    /// know.
    pub(crate) fn note(&self, turns: &Turns, now: u64) -> u64 {
        let (turns, now) = (turns.get() << TIME_BITS, (now / 1000) & TIME);
        let seen = self.0.load(Ordering::Relaxed);
        if seen == 0 || seen & !TIME != turns {
            self.0.store(turns | now.max(1), Ordering::Relaxed);
            return 0;
        }
        (now.wrapping_sub(seen) & TIME) * 1000
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_a_new_beginning() {
        let (still, turns) = (Still::default(), Turns(AtomicU32::new(0)));
        assert_eq!(still.note(&turns, 5_000), 0);
        assert_eq!(still.note(&turns, 9_000), 4_000);
        turns.count();
        assert_eq!(still.note(&turns, 20_000), 0);
        assert_eq!(still.note(&turns, 21_000), 1_000);
        turns.0.store(u32::MAX, Ordering::Relaxed);
        turns.count();
        assert_eq!(still.note(&turns, (1 << 40) * 1000 + 22_000), 0, "both have wrapped");
    }
}

//! The state word of [`RangeRwLock`](crate::range::RangeRwLock), and how a range is
//! packed into a slot.
//!
//! | bits | name | meaning | set by | cleared by |
//! |---|---|---|---|---|
//! | 0-23 | used | slot *i* is taken | the thread that takes it | its holder |
//! | 24-47 | writer | the holder of slot *i* writes | with bit *i* | with bit *i*, or by a downgrade |
//! | 48 | `TREE` | the tree is not empty: look there too | under the tree lock | under the tree lock |
//! | 49 | `QUEUED` | the tree has waiters: the thread that releases a slot tells them | under the tree lock | under the tree lock |
//! | 50 | `WHOLE` | everybody takes everything: by the gate, and no slot or tree is used | the thread that finds the word empty, under the tree lock | under the gate |
//! | 51 | `DRAIN` | readers of everything may still be inside by the gate | with `WHOLE`'s end | under the gate |
//! | 52 | `TRACED` | every range goes to the tree, with who and since when | anyone | anyone |
//! | 53 | `STRIPED` | ranges go to the stripes, or to the tree; no slot here is taken, and the thread that leaves one tells the tree | under the tree lock | under the tree lock |
//!
//! `QUEUED` is never set without `TREE`, nor `WHOLE` or `TRACED` with `STRIPED`.
//!
//! A stripe (see `stripes`) has a word of its own. Its bits 0 to 47 mean the same; beside them it
//! has
//!
//! | bits | name | meaning | set and cleared by |
//! |---|---|---|---|
//! | 48 | `CLOSED` | the tree may have ranges of these regions: go there, and tell it on leaving | under the tree lock |
//! | 49-54 | shift | regions have 2^shift positions | with `CLOSED`, when nobody can come |
//! | 55 | `WATCHED` | a waiter that may be overtaken sleeps for a range here: tell it on leaving | under the tree lock |
//!
//! **One order.** A range comes to be held or waited for in one of two ways: by a read-modify-write
//! of this word that takes a slot, or by one that follows its entry into the tree (under the tree
//! lock). Either way its thread then looks at everything that the word showed before that. So of
//! two conflicting ranges the one that comes second in the word's order sees the first, and no
//! fence is needed between an announcement and a look.
//!
//! Orderings: the word is only ever changed by read-modify-writes, so each Acquire of it
//! synchronizes with every earlier Release. The release of a range is a Release of the word (or of
//! the tree lock, which a thread that sees the entry in the tree takes), and every way to hold a
//! range starts with an Acquire of it (rule 3). A slot's content is written after its bit is set
//! and cleared before its bit is. So a thread that sees the bit sees the content, or zero, never
//! that of an earlier holder.

use core::sync::atomic::Ordering;

use crate::platform::{Atomic, ConstZero, PooledPlatform};
use crate::range::span::Span;
use crate::wait::Kind;

/// Slots in a lock.
pub(in crate::range) const SLOTS: usize = 24;
/// Slots in a stripe: as many as fit into a cache line beside the word and the count.
pub(in crate::range) const STRIPE_SLOTS: usize = 6;
/// How many slots writers use that find the tree empty: each of these has to be looked at by
/// the thread that comes next.
pub(in crate::range) const WRITER_SLOTS: usize = 8;
/// How many slots readers use that find the tree empty; only writers look at these. They are enough
/// for readers that lost their CPU inside. The rest is for short stays beside a tree full of long
/// ones.
const READER_SLOTS: usize = 20;

/// A value of the state word, or of that of a stripe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::range) struct Word(u64);

/// Some of the flags of a [`Word`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::range) struct Flags(u64);

/// What the holder of a slot is in a [`Word`].
#[derive(Clone, Copy)]
pub(in crate::range) struct SlotBits(u64);

const USED: u64 = (1 << SLOTS) - 1;
const WRITERS: u64 = USED << SLOTS;
/// Of a stripe's word: where it has the shift of its regions.
const REGION_SHIFT: u32 = 49;

crate::system::word::flags!(pub(in crate::range) Flags of Word);

impl Flags {
    /// The tree is not empty.
    pub(in crate::range) const TREE: Self = Self(1 << 48);
    /// The tree has waiters.
    pub(in crate::range) const QUEUED: Self = Self(1 << 49);
    /// Everybody takes everything.
    pub(in crate::range) const WHOLE: Self = Self(1 << 50);
    /// Readers of everything may still be inside by the gate.
    pub(in crate::range) const DRAIN: Self = Self(1 << 51);
    /// Every range goes to the tree.
    pub(in crate::range) const TRACED: Self = Self(1 << 52);
    /// Ranges go to the stripes.
    pub(in crate::range) const STRIPED: Self = Self(1 << 53);

    /// With one of these a slot cannot be had by looking at slots alone.
    pub(in crate::range) const NOT_FAST: Self =
        Self::TREE.with(Self::WHOLE).with(Self::DRAIN).with(Self::TRACED).with(Self::STRIPED);
    /// With one of these a slot is taken under the tree lock only: its last holder may not have
    /// told the tree yet that it has left, or slots are not used at all.
    pub(in crate::range) const NOT_ALONE: Self =
        Self::TRACED.with(Self::QUEUED).with(Self::STRIPED);
    /// With one of these somebody may have to be told when a slot is left.
    pub(in crate::range) const TELLS: Self = Self::QUEUED.with(Self::STRIPED);

    /// Of a stripe: its ranges are in the tree.
    pub(in crate::range) const CLOSED: Self = Self(1 << 48);
    /// Of a stripe: somebody sleeps for a range there.
    pub(in crate::range) const WATCHED: Self = Self(1 << 55);

    /// What the word of an open stripe says of its regions, which have 2^`shift` positions.
    #[inline(always)]
    pub(in crate::range) const fn open_for(shift: u32) -> Self {
        Self((shift as u64) << REGION_SHIFT)
    }

    #[inline(always)]
    pub(in crate::range) const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether one of `others` is among these flags.
    #[inline(always)]
    pub(in crate::range) const fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

impl SlotBits {
    /// The bits of a thread that has no slot.
    pub(in crate::range) const NONE: Self = Self(0);

    /// The bits of the holder of slot `slot`.
    #[inline(always)]
    pub(in crate::range) const fn new(slot: usize, kind: Kind) -> Self {
        match kind {
            Kind::Reader => Self(1 << slot),
            Kind::Writer => Self(1 << slot | writer_bit(slot)),
        }
    }
}

/// The bit that says that the holder of slot `slot` writes.
#[inline(always)]
const fn writer_bit(slot: usize) -> u64 {
    1 << (slot + SLOTS)
}

impl Word {
    /// Nobody holds a slot, and no flag is set.
    pub(in crate::range) const FREE: Self = Self(0);
    /// Everybody takes everything, and nobody else is there.
    pub(in crate::range) const WHOLE: Self = Self::FREE.with(Flags::WHOLE);

    // ---- what it says ----

    /// Whether a range of this kind has to go by the gate, or first to end that.
    #[inline(always)]
    pub(in crate::range) const fn is_gated(self, kind: Kind) -> bool {
        match kind {
            Kind::Reader => self.is_whole(),
            Kind::Writer => self.may_be_held_by_gate(),
        }
    }

    /// Whether everybody takes everything, by the gate.
    #[inline(always)]
    pub(in crate::range) const fn is_whole(self) -> bool {
        self.has_any(Flags::WHOLE)
    }

    /// Whether somebody may be inside by the gate.
    #[inline(always)]
    pub(in crate::range) const fn may_be_held_by_gate(self) -> bool {
        self.has_any(Flags::WHOLE.with(Flags::DRAIN))
    }

    /// Of a stripe: whether the tree may have ranges of its regions.
    #[inline(always)]
    pub(in crate::range) const fn is_closed(self) -> bool {
        self.has_any(Flags::CLOSED)
    }

    /// Of a stripe: whether somebody sleeps for a range there.
    #[inline(always)]
    pub(in crate::range) const fn is_watched(self) -> bool {
        self.has_any(Flags::WATCHED)
    }

    /// Of a stripe: the bits that say which ranges can be held there.
    #[inline(always)]
    pub(in crate::range) const fn regions(self) -> Flags {
        Flags(self.0 & !(USED | WRITERS | Flags::WATCHED.0))
    }

    /// The slot for the next range of this kind.
    #[inline(always)]
    pub(in crate::range) const fn free_slot(self, kind: Kind) -> Option<usize> {
        let slot = (!self.0 & USED).trailing_zeros() as usize;
        let most = match kind {
            Kind::Reader => READER_SLOTS,
            Kind::Writer => WRITER_SLOTS,
        };
        if slot < most { Some(slot) } else { None }
    }

    /// The slots that are free.
    #[inline(always)]
    pub(in crate::range) const fn free_slots(self) -> Slots {
        Slots(!self.0 & USED)
    }

    /// Whether this slot is taken.
    #[inline(always)]
    pub(in crate::range) const fn has_slot(self, slot: usize) -> bool {
        self.0 & (1 << slot) != 0
    }

    /// Whether any slot is taken.
    #[inline(always)]
    pub(in crate::range) const fn has_slots(self) -> bool {
        self.0 & USED != 0
    }

    /// Whether a slot is taken whose holder concerns a range of this kind.
    #[inline(always)]
    pub(in crate::range) const fn has_rivals(self, kind: Kind) -> bool {
        self.rivals(kind).0 != 0
    }

    /// The taken slots whose holders concern a range of this kind.
    #[inline(always)]
    pub(in crate::range) const fn rivals(self, kind: Kind) -> Slots {
        Slots(match kind {
            Kind::Reader => (self.0 & WRITERS) >> SLOTS,
            Kind::Writer => self.0 & USED,
        })
    }

    /// The kind of the holder of slot `slot`.
    #[inline(always)]
    pub(in crate::range) const fn kind_of(self, slot: usize) -> Kind {
        if self.0 & writer_bit(slot) == 0 { Kind::Reader } else { Kind::Writer }
    }

    // ---- what it becomes ----

    /// The same with one more holder.
    #[inline(always)]
    pub(in crate::range) const fn with_slot(self, bits: SlotBits) -> Self {
        Self(self.0 | bits.0)
    }

    /// The same with one holder less.
    #[inline(always)]
    pub(in crate::range) const fn without_slot(self, bits: SlotBits) -> Self {
        Self(self.0 & !bits.0)
    }

    /// The word after the writer in slot `slot` has become a reader.
    #[inline(always)]
    pub(in crate::range) const fn downgraded(self, slot: usize) -> Self {
        Self(self.0 & !writer_bit(slot))
    }
}

/// A state word, which threads change. The orderings have their reasons where they are asked
/// for.
pub(in crate::range) struct AtomicWord<P: PooledPlatform>(P::AtomicU64);

crate::system::word::exchanges!(pub(in crate::range) AtomicWord of Word on PooledPlatform);

impl<P: PooledPlatform> AtomicWord<P> {
    pub(in crate::range) fn new(word: Word) -> Self {
        Self(P::AtomicU64::new(word.0))
    }

    pub(in crate::range) const fn new_const() -> Self
    where
        P::AtomicU64: ConstZero,
    {
        Self(ConstZero::ZERO)
    }

    /// The holder of a slot leaves it, by a subtraction; returns the word before.
    #[inline(always)]
    pub(in crate::range) fn leave(&self, bits: SlotBits, order: Ordering) -> Word {
        Word(self.0.fetch_sub(bits.0, order))
    }

    /// The writer in slot `slot` becomes a reader.
    pub(in crate::range) fn downgrade(&self, slot: usize, order: Ordering) {
        self.0.fetch_and(!writer_bit(slot), order);
    }

    /// Sets flags; returns the word before.
    #[inline(always)]
    pub(in crate::range) fn set(&self, flags: Flags, order: Ordering) -> Word {
        Word(self.0.fetch_or(flags.0, order))
    }

    /// Clears flags; returns the word before.
    #[inline(always)]
    pub(in crate::range) fn clear(&self, flags: Flags, order: Ordering) -> Word {
        Word(self.0.fetch_and(!flags.0, order))
    }

    /// Of a stripe that nobody can come to: it is for these regions from here on. By an addition,
    /// as holders may leave meanwhile.
    pub(in crate::range) fn set_regions(&self, regions: Flags, order: Ordering) {
        let before = self.load(order).regions();
        self.0.fetch_add(regions.0.wrapping_sub(before.0), order);
    }

    /// Sets the bits as if a slot had been taken.
    #[cfg(all(test, not(fairlock_loom)))]
    pub(in crate::range) fn take_slot(&self, bits: SlotBits) {
        self.0.fetch_or(bits.0, Ordering::SeqCst);
    }

    /// Orders what was shown to those who leave slots before a look at the slots: see
    /// `wait::patient`. Release: for them. The look, a load of this word, sees no older word.
    pub(in crate::range) fn order_look(&self) {
        self.set(Flags::NONE, Ordering::Release);
    }
}

/// A set of slots.
#[derive(Clone, Copy)]
pub(in crate::range) struct Slots(u64);

impl Iterator for Slots {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let slot = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (slot < SLOTS).then_some(slot)
    }
}

/// A range packed into one word, never zero. Not every range can be: see
/// [`pack`](Packed::pack).
///
/// | bits | |
/// |---|---|
/// | 0 | 1 |
/// | 1-6 | unit: how far the two below are shifted |
/// | 7-28 | length in units, less one; all ones: up to the last position there is |
/// | 29-63 | start in units |
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::range) struct Packed(pub(in crate::range) u64);

const LENGTH_BITS: u32 = 22;
const START_BITS: u32 = 35;
const LENGTH_SHIFT: u32 = 7;
const START_SHIFT: u32 = LENGTH_SHIFT + LENGTH_BITS;
const TO_THE_END: u64 = (1 << LENGTH_BITS) - 1;

impl Packed {
    /// What can be packed: ranges that start within the first 2^35 positions and are shorter than
    /// 2^22 (records of a file of 32 GiB); others if start and length are multiples of a power of
    /// two that makes up for it (pages of an address space of 47 bits); and, likewise, ranges that
    /// reach to the last position.
    #[inline(always)]
    pub(in crate::range) fn pack(span: Span) -> Option<Self> {
        let less_one = span.last() - span.start();
        if span.start() >> START_BITS == 0 && less_one < TO_THE_END {
            return Some(Self(1 | less_one << LENGTH_SHIFT | span.start() << START_SHIFT));
        }
        Self::pack_in_units(span)
    }

    #[inline(never)]
    fn pack_in_units(span: Span) -> Option<Self> {
        let start_bits = u64::BITS - span.start().leading_zeros();
        let start_unit = start_bits.saturating_sub(START_BITS);
        let aligned = |to: u32| span.start() & ((1 << to) - 1) == 0;
        if span.last() == u64::MAX {
            return aligned(start_unit).then(|| Self::new(start_unit, TO_THE_END, span.start()));
        }
        let len = span.last() - span.start() + 1; // not the full range, so no overflow
        // The smallest unit in which the length less one is below TO_THE_END.
        let len_bits = u64::BITS - (len - 1).leading_zeros();
        let mut unit = start_unit.max(len_bits.saturating_sub(LENGTH_BITS));
        if (len >> unit) > TO_THE_END {
            unit += 1;
        }
        let fits = aligned(unit) && len & ((1 << unit) - 1) == 0 && len >> unit <= TO_THE_END;
        fits.then(|| Self::new(unit, (len >> unit) - 1, span.start()))
    }

    fn new(unit: u32, length: u64, start: u64) -> Self {
        Self(1 | u64::from(unit) << 1 | length << LENGTH_SHIFT | (start >> unit) << START_SHIFT)
    }

    /// Whether the range overlaps `other`; without a branch on what is in the slot.
    #[inline(always)]
    pub(in crate::range) fn overlaps(self, other: Span) -> bool {
        let unit = (self.0 >> 1) & 63;
        let start = (self.0 >> START_SHIFT) << unit;
        let less_one = (self.0 >> LENGTH_SHIFT) & TO_THE_END;
        // How far into this range the other one starts, in units; far, if it starts before this
        // one.
        let into = other.start().wrapping_sub(start) >> unit;
        let reaches = (into <= less_one) | (less_one == TO_THE_END);
        let starts_here = (other.start() >= start) & reaches;
        let starts_there = (other.start() < start) & (start <= other.last());
        starts_here | starts_there
    }

    /// The range.
    #[inline(always)]
    pub(in crate::range) fn span(self) -> Span {
        let unit = (self.0 >> 1) & 63;
        let start = (self.0 >> START_SHIFT) << unit;
        let less_one = (self.0 >> LENGTH_SHIFT) & TO_THE_END;
        if less_one == TO_THE_END {
            Span::closed(start, u64::MAX)
        } else {
            Span::closed(start, start + (((less_one + 1) << unit) - 1))
        }
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(start: u64, last: u64) -> bool {
        let span = Span::closed(start, last);
        match Packed::pack(span) {
            Some(packed) => {
                assert!(packed.0 != 0);
                assert_eq!(packed.span(), span);
                true
            }
            None => false,
        }
    }

    #[test]
    fn what_is_common_can_be_packed() {
        assert!(round_trip(0, u64::MAX));
        assert!(round_trip(0, 0));
        assert!(round_trip(5, u64::MAX));
        assert!(round_trip(0, (1 << 22) - 2));
        assert!(round_trip((1 << 35) - 1, 1 << 35));
        assert!(round_trip(1 << 35, (1 << 35) + 2 * (TO_THE_END - 1) + 1), "as long as can be");
        // Pages and blocks of large files and address spaces.
        assert!(round_trip(1 << 44, (1 << 44) + 4095));
        assert!(round_trip(0x7fff_ffff_f000, 0x7fff_ffff_ffff));
        assert!(round_trip(1 << 63, u64::MAX));
        assert!(round_trip(0, (1 << 40) - 1));
        assert!(round_trip(u64::MAX << 29, u64::MAX));
    }

    #[test]
    fn what_cannot_be_packed_is_refused() {
        assert!(!round_trip(1 << 35 | 1, (1 << 35) + 100));
        assert!(!round_trip(u64::MAX, u64::MAX));
        assert!(!round_trip(u64::MAX - 1, u64::MAX - 1));
        assert!(!round_trip(1, 1 << 30));
        assert!(!round_trip(0, u64::MAX - 1));
    }

    proptest! {
        #[test]
        fn packing_is_exact_or_refused(a: u64, b: u64, shift in 0_u32..64, align in 0_u32..64) {
            let (a, b) = (a >> shift, b >> shift);
            let (start, last) = (a.min(b), a.max(b));
            round_trip(start, last);
            let mask = (1_u64 << align) - 1;
            round_trip(start & !mask, last | mask);
        }

        #[test]
        fn overlaps_is_that_of_the_ranges(
            a in (0_u64..40, 0_u64..40),
            b in (0_u64..40, 0_u64..40),
            shift in prop::sample::select(&[0_u32, 12, 40, 57]),
            ends in (any::<bool>(), any::<bool>()),
        ) {
            let span = |(start, len): (u64, u64), to_the_end| {
                let start = start << shift;
                let len = (len + 1) << shift;
                let last = start.saturating_add(len - 1);
                Span::closed(start, if to_the_end { u64::MAX } else { last })
            };
            let (a, b) = (span(a, ends.0), span(b, ends.1));
            if let Some(packed) = Packed::pack(a) {
                prop_assert_eq!(packed.overlaps(b), a.overlaps(&b));
            }
        }
    }

    #[test]
    fn slots_are_found_and_listed() {
        let taken = [(0, Kind::Writer), (1, Kind::Reader), (5, Kind::Writer)];
        let word = taken
            .into_iter()
            .fold(Word::FREE, |word, (slot, kind)| word.with_slot(SlotBits::new(slot, kind)));
        let first = |slots: usize| Word((1 << slots) - 1);
        assert_eq!(word.free_slot(Kind::Writer), Some(2));
        assert_eq!(word.free_slots().take(4).collect::<Vec<_>>(), [2, 3, 4, 6]);
        assert_eq!(Word(USED).free_slots().next(), None);
        assert_eq!(first(WRITER_SLOTS).free_slot(Kind::Writer), None);
        assert_eq!(first(WRITER_SLOTS).free_slot(Kind::Reader), Some(WRITER_SLOTS));
        assert_eq!(first(READER_SLOTS).free_slot(Kind::Reader), None);
        assert!(word.has_rivals(Kind::Reader) && !Word::FREE.has_rivals(Kind::Writer));
        assert_eq!(word.rivals(Kind::Reader).collect::<Vec<_>>(), [0, 5]);
        assert_eq!(word.rivals(Kind::Writer).collect::<Vec<_>>(), [0, 1, 5]);
        assert_eq!((word.kind_of(0), word.kind_of(1)), (Kind::Writer, Kind::Reader));
    }
}

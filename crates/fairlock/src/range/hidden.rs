//! For concurrency testers: what docs/spec/range.pml has of a lock, between two steps of its threads.

use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::Ordering;

use super::RangeRwLock;
use super::slots::word::{Flags, Packed, SLOTS};
use super::span::Span;
use super::tree::Id;
use super::tree::queue::Queue;
use super::tree::ranges::Entry;
use super::wait::shown::AWAKE;
use super::wait::waiter::{InWay, RangeWaiter};
use crate::platform::{Atomic, PooledPlatform};
use crate::wait::Kind;

/// A range lock.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct RangeSnapshot {
    /// Slots that are taken, and by writers.
    pub used: u32,
    pub writers: u32,
    /// 1 for `TREE`, 2 for `QUEUED`.
    pub flags: u8,
    /// The range in each slot.
    pub slots: Vec<Option<Span>>,
    pub hull: (u64, u64),
    /// 0 nobody may be overtaken, 1 all that may be sleep, 2 some are awake.
    pub shown: u32,
    pub watched: u32,
    /// What is in the tree, in the order in which it came; then those that may be overtaken.
    pub entries: Vec<RangeEntry>,
    pub listed: Vec<RangeEntry>,
}

/// A range in the tree, or one that may be overtaken.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct RangeEntry {
    pub span: Span,
    pub writes: bool,
    /// `s` of a slot, `q` waits, `h` held; `Z` may be overtaken, `A` the same, awake.
    pub state: char,
    /// Its slot, or its name in the tree.
    pub place: usize,
    /// What one that may be overtaken sleeps for: a slot, `-`, `?` or `t`.
    pub sleeps_for: char,
    /// The hint of the thread that waits, or did; zero if it did not. And where it looks.
    pub who: usize,
    pub looks_at: usize,
}

impl RangeEntry {
    /// In the tree.
    ///
    /// # Safety
    /// Nobody changes that.
    unsafe fn in_tree<P: PooledPlatform>(
        q: &Queue<P>,
        (id, span, kind, entry): (Id, Span, Kind, &Entry<*const RangeWaiter<P>>),
    ) -> Self {
        let slot = (0..SLOTS).find(|&slot| q.moved(slot) == id);
        Self {
            span,
            writes: kind == Kind::Writer,
            state: slot.map_or(if entry.waiter.is_some() { 'q' } else { 'h' }, |_| 's'),
            place: slot.unwrap_or(id as usize),
            sleeps_for: '-',
            who: entry.who,
            // SAFETY: a waiter in the tree is alive.
            looks_at: entry
                .waiter
                .map_or(0, |it| ptr::from_ref(unsafe { (*it).state_word() }).addr()),
        }
    }

    /// Of those that may be overtaken.
    fn listed<P: PooledPlatform>(waiter: &RangeWaiter<P>) -> Self {
        Self {
            span: waiter.span,
            writes: waiter.kind == Kind::Writer,
            state: if waiter.is_awake() { 'A' } else { 'Z' },
            place: 0,
            sleeps_for: match waiter.sleeps_for() {
                InWay::Nobody => '-',
                InWay::Unknown => '?',
                InWay::Tree => 't',
                InWay::Slot(slot) | InWay::Stripe(slot) => char::from(b'0' + slot as u8),
            },
            who: waiter.thread.hint(),
            looks_at: ptr::from_ref(waiter.state_word()).addr(),
        }
    }
}

impl<P: PooledPlatform> RangeRwLock<P> {
    /// What the specification has of the lock; none while somebody has the tree lock.
    ///
    /// # Safety
    /// As [`check`](Self::check).
    #[doc(hidden)]
    pub unsafe fn snapshot(&self) -> Option<RangeSnapshot> {
        let core = &self.core;
        if core.tree_lock.is_locked() {
            return None;
        }
        // SAFETY: nobody has the tree lock, and nobody runs who could take it.
        let q = unsafe { &*core.queue.get() };
        let word = core.word.load(Ordering::Relaxed);
        let set = |kind| word.rivals(kind).fold(0, |set, slot| set | 1 << slot);
        let span = |slot: &P::AtomicU64| match slot.load(Ordering::Relaxed) {
            0 => None,
            packed => Some(Packed(packed).span()),
        };
        let mut entries: Vec<_> = q.ranges.iter().collect();
        entries.sort_by_key(|(_, _, _, entry)| entry.seq);
        // SAFETY: as above.
        let entries = entries.into_iter().map(|it| unsafe { RangeEntry::in_tree(q, it) });
        Some(RangeSnapshot {
            used: set(Kind::Writer),
            writers: set(Kind::Reader),
            flags: u8::from(word.has_any(Flags::TREE)) + 2 * u8::from(word.has_any(Flags::QUEUED)),
            slots: core.slots.iter().map(span).collect(),
            hull: core.hull.shown(),
            shown: core.shown.patient.load(Ordering::Relaxed).min(AWAKE),
            watched: core.shown.watched(),
            entries: entries.collect(),
            listed: q.patient.iter().map(RangeEntry::listed).collect(),
        })
    }
}

//! Looking at a lock: who holds what, and who waits for what.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::time::Duration;

use super::RangeRwLock;
use super::slots::word::{Flags, Packed, SLOTS, Word};
use super::span::Span;
use super::stripes::{STRIPE_SLOTS, Stripe};
use crate::platform::{Atomic, Platform};
use crate::wait::Kind;

/// What a range is locked for, or waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeAccess {
    /// Shared with other readers.
    Read,
    /// Alone.
    Write,
}

impl From<Kind> for RangeAccess {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Reader => Self::Read,
            Kind::Writer => Self::Write,
        }
    }
}

/// One holder or waiter, as [`RangeRwLock::ranges`] lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeInfo {
    /// The range.
    pub span: Span,
    /// What the range is locked or waited for.
    pub access: RangeAccess,
    /// Whether the range is waited for; held otherwise.
    pub waiting: bool,
    /// Whose it is, as [`RangeRwLock::this_thread`] names threads. For a holder
    /// only if it waited in the tree, or came while ranges were
    /// [traced](RangeRwLock::set_traced).
    pub who: Option<usize>,
    /// How long it has been waited for; for a holder, since it first asked. Known
    /// when `who` is.
    pub how_long: Option<Duration>,
}

impl<P: Platform> RangeRwLock<P> {
    /// Whether any range is held at this instant.
    pub fn is_locked(&self) -> bool {
        // A range that leaves a stripe for the tree has set `TREE` before, and is seen there.
        if self.striped_words().any(|(_, word)| word.has_slots()) {
            return true;
        }
        let word = self.word.load(Ordering::Relaxed);
        word.has_slots()
            || (word.may_be_held_by_gate() && self.gate.lock.is_locked())
            || (word.has_any(Flags::TREE) && self.ranges().iter().any(|range| !range.waiting))
    }

    /// The words of the stripes, each with the name of its first slot. None if the lock is not
    /// striped: then what is still held there is in the tree, too.
    pub(super) fn striped_words(&self) -> impl Iterator<Item = (usize, Word)> {
        // Acquire: the stripes are there.
        let is_striped = self.striped.shift.load(Ordering::Acquire) != 0;
        let stripes = if is_striped { self.stripes() } else { &[] };
        let word = |(at, stripe): (usize, &Stripe<P>)| {
            (SLOTS + at * STRIPE_SLOTS, stripe.word.load(Ordering::Acquire))
        };
        stripes.iter().enumerate().map(word)
    }

    /// Notes who takes a range and since when, for [`ranges`](Self::ranges); with `false`, no
    /// longer. Meanwhile every range goes to the tree, which costs some 50 ns for two looks at the
    /// clock and the tree lock; and the full range does not have the turns of
    /// [`RwLock`](crate::RwLock). Off at first.
    pub fn set_traced(&self, traced: bool) {
        // Relaxed: nothing orders holders that came before it and after it.
        if traced {
            self.with_queue(|q| {
                self.end_stripes(q);
                self.word.set(Flags::TRACED, Ordering::Relaxed);
            });
        } else {
            self.word.clear(Flags::TRACED, Ordering::Relaxed);
        }
    }

    /// The name of the calling thread in [`RangeInfo::who`]: the same as long as
    /// the thread lives, and no other live thread's.
    pub fn this_thread() -> usize {
        P::thread().hint()
    }

    /// Everybody who holds or waits for a range, for diagnostics: those in the tree by start, then
    /// those in slots, then those that may be overtaken, by arrival. Ranges that come and go
    /// meanwhile may be missed, and one that is held may be listed as two halves. While everybody
    /// asks for the full range, its holders are listed as one. Whoever waits for them to leave is
    /// then listed as waiting for the full range, even for a part of it;
    /// [tracing](Self::set_traced) ends that.
    pub fn ranges(&self) -> Vec<RangeInfo> {
        let now = P::now();
        let ago = |since: u64| Duration::from_nanos(now.saturating_sub(since));
        let mut all = Vec::new();
        self.with_queue(|q| {
            let word = self.word.load(Ordering::Acquire);
            for (_, span, kind, entry) in q.ranges.iter() {
                let known = entry.who != 0;
                all.push(RangeInfo {
                    span,
                    access: kind.into(),
                    waiting: entry.waiter.is_some(),
                    who: known.then_some(entry.who),
                    how_long: known.then(|| ago(entry.since)),
                });
            }
            let mut held = |span, kind: Kind| {
                let access = kind.into();
                all.push(RangeInfo { span, access, waiting: false, who: None, how_long: None });
            };
            for (first, word) in core::iter::once((0, word)).chain(self.striped_words()) {
                for slot in word.rivals(Kind::Writer).filter(|slot| !q.is_moved(first + slot)) {
                    let packed = self.seat(first + slot).packed.load(Ordering::Acquire);
                    if packed != 0 {
                        held(Packed(packed).span(), word.kind_of(slot));
                    }
                }
            }
            if word.may_be_held_by_gate() && self.gate.lock.is_locked() {
                let writes = self.gate.lock.is_write_locked();
                held(Span::FULL, if writes { Kind::Writer } else { Kind::Reader });
            }
            for waiter in q.patient.iter() {
                all.push(RangeInfo {
                    span: waiter.span,
                    access: waiter.kind.into(),
                    waiting: true,
                    who: Some(waiter.thread.hint()),
                    how_long: Some(ago(waiter.arrived)),
                });
            }
        });
        self.gate.lock.for_each_waiter(|kind, who, since| {
            all.push(RangeInfo {
                span: Span::FULL,
                access: kind.into(),
                waiting: true,
                who: Some(who),
                how_long: Some(ago(since)),
            });
        });
        all
    }
}

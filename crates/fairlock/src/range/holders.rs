//! A look at a lock: which thread holds or waits for which range.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::time::Duration;

use super::RangeRwLock;
use super::slots::word::{Flags, Packed};
use super::span::Span;
use crate::platform::{Atomic, PooledPlatform};
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

impl<P: PooledPlatform> RangeRwLock<P> {
    /// Whether any range is held at this instant.
    pub fn is_locked(&self) -> bool {
        // A range that leaves a stripe for the tree has set `TREE` before, and is seen there.
        if self.core.striped.words().any(|(_, word)| word.has_slots()) {
            return true;
        }
        let word = self.core.word.load(Ordering::Relaxed);
        word.has_slots()
            || (word.may_be_held_by_gate() && self.gate.lock.is_locked())
            || (word.has_any(Flags::TREE) && self.ranges().iter().any(|range| !range.waiting))
    }

    /// Notes which thread takes a range and since when, for [`ranges`](Self::ranges); with `false`, no
    /// longer. Meanwhile every range goes to the tree, which costs some 50 ns for two looks at the
    /// clock and the tree lock; and the full range does not have the turns of
    /// [`RwLock`](crate::RwLock). Off at first.
    pub fn set_traced(&self, traced: bool) {
        // Relaxed: nothing orders holders that came before it and after it.
        if traced {
            self.core.with_queue(|q| {
                self.core.end_stripes(q);
                self.core.word.set(Flags::TRACED, Ordering::Relaxed);
            });
        } else {
            self.core.word.clear(Flags::TRACED, Ordering::Relaxed);
        }
    }

    /// The name of the calling thread in [`RangeInfo::who`]: the same as long as
    /// the thread lives, and no other live thread's.
    pub fn this_thread() -> usize {
        P::thread().hint()
    }

    /// Every thread that holds or waits for a range, for diagnostics: those in the tree by start, then
    /// those in slots, then those that may be overtaken, by arrival. Ranges that come and go
    /// meanwhile may be missed, and one that is held may be listed as two halves. While everybody
    /// asks for the full range, its holders are listed as one. The thread that waits for them to leave is
    /// then listed as waiting for the full range, even for a part of it;
    /// [tracing](Self::set_traced) ends that.
    pub fn ranges(&self) -> Vec<RangeInfo> {
        let now = P::now();
        let ago = |since: u64| Duration::from_nanos(now.saturating_sub(since));
        let mut all = Vec::new();
        self.core.with_queue(|q| {
            // Acquire: a slot that is taken does not show its last holder's range.
            let word = self.core.word.load(Ordering::Acquire);
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
            for (first, word) in core::iter::once((0, word)).chain(self.core.striped.words()) {
                for slot in word.rivals(Kind::Writer).filter(|slot| !q.is_moved(first + slot)) {
                    // Relaxed: the range is shown, and nothing is done with what it covers.
                    let packed = self.core.seat(first + slot).packed.load(Ordering::Relaxed);
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
        self.gate.lock.with_waiters(|waiters| {
            all.extend(waiters.iter().map(|waiter| RangeInfo {
                span: Span::FULL,
                access: waiter.kind.into(),
                waiting: true,
                who: Some(waiter.thread.hint()),
                how_long: Some(ago(waiter.arrived)),
            }));
        });
        all
    }
}

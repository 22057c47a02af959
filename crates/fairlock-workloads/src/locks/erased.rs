//! Locks behind a pointer, so that a workload is compiled once and not for each lock.
//!
//! They are for simulated machines, where the cost of a call to the host is no part of simulated
//! time; and on real threads for what takes microseconds. Elsewhere the call would be part of what
//! is measured.

use std::cell::Cell;

use super::BenchLock;
use super::range::{BenchRange, EVERYTHING, Range};
use crate::cell::Side;
use crate::error::Error;
use crate::workload::team::Padded;

/// A lock of any kind.
pub struct Erased(Box<dyn AnyLock>);

type Create = fn(u64, usize) -> Result<Erased, Error>;

thread_local! {
    /// What workloads on this thread create: they ask a type for a lock, and this type does not
    /// know which lock it is to be.
    static CREATED: Cell<Option<Create>> = const { Cell::new(None) };
}

/// Runs `body`, in which every [`Erased`] lock created by this thread is an `L`.
pub fn with<L: BenchRange, R>(body: impl FnOnce() -> R) -> R {
    CREATED.set(Some(|positions, threads| {
        Ok(Erased(Box::new(Padded(L::create(positions, threads)?))))
    }));
    let result = body();
    CREATED.set(None);
    result
}

trait AnyLock: Send + Sync {
    fn hold_any(&self, side: Side, thread: usize, range: &Range, section: &mut dyn FnMut());
    fn keep_any(&self, thread: usize, range: &Range);
}

// Padded: which of its parts share a cache line must not depend on where the lock was allocated.
impl<L: BenchRange> AnyLock for Padded<L> {
    fn hold_any(&self, side: Side, thread: usize, range: &Range, section: &mut dyn FnMut()) {
        self.0.hold(side, thread, range, section);
    }

    fn keep_any(&self, thread: usize, range: &Range) {
        self.0.keep(thread, range);
    }
}

impl BenchRange for Erased {
    fn create(positions: u64, threads: usize) -> Result<Self, Error> {
        CREATED.get().expect("a workload runs within `with`")(positions, threads)
    }

    /// Runs the section once, through a call that does not know the section's result type.
    fn hold<R>(&self, side: Side, thread: usize, range: &Range, section: impl FnOnce() -> R) -> R {
        let (mut section, mut result) = (Some(section), None);
        let mut run = || result = section.take().map(|section| section());
        self.0.hold_any(side, thread, range, &mut run);
        result.expect("a lock runs the section")
    }

    fn keep(&self, thread: usize, range: &Range) {
        self.0.keep_any(thread, range);
    }
}

impl BenchLock for Erased {
    fn create() -> Self {
        BenchRange::create(1, 0).expect("only range locks may fail")
    }

    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        BenchRange::hold(self, Side::Read, 0, &EVERYTHING, section)
    }

    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        BenchRange::hold(self, Side::Write, 0, &EVERYTHING, section)
    }
}

//! Locks behind a pointer, so that a workload is compiled once and not for each lock.
//!
//! They are for simulated machines, where the cost of a call to the host is no part of simulated
//! time; and on real threads for what takes microseconds. Elsewhere the call would be part of what
//! is measured.

use std::cell::Cell;

use super::BenchLock;
use super::range::{BenchRange, EVERYTHING, Range};
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

/// Runs a section once, through a call that does not know the section's result type.
fn once<R>(section: impl FnOnce() -> R, call: impl FnOnce(&mut dyn FnMut())) -> R {
    let (mut section, mut result) = (Some(section), None);
    call(&mut || result = section.take().map(|section| section()));
    result.expect("a lock runs the section")
}

trait AnyLock: Send + Sync {
    fn read_any(&self, thread: usize, range: &Range, section: &mut dyn FnMut());
    fn write_any(&self, thread: usize, range: &Range, section: &mut dyn FnMut());
    fn keep_any(&self, thread: usize, range: &Range);
}

// Padded: which of its parts share a cache line must not depend on where the lock was allocated.
impl<L: BenchRange> AnyLock for Padded<L> {
    fn read_any(&self, thread: usize, range: &Range, section: &mut dyn FnMut()) {
        self.0.read(thread, range, section);
    }

    fn write_any(&self, thread: usize, range: &Range, section: &mut dyn FnMut()) {
        self.0.write(thread, range, section);
    }

    fn keep_any(&self, thread: usize, range: &Range) {
        self.0.keep(thread, range);
    }
}

impl BenchRange for Erased {
    fn create(positions: u64, threads: usize) -> Result<Self, Error> {
        CREATED.get().expect("a workload runs within `with`")(positions, threads)
    }

    fn read<R>(&self, thread: usize, range: &Range, section: impl FnOnce() -> R) -> R {
        once(section, |section| self.0.read_any(thread, range, section))
    }

    fn write<R>(&self, thread: usize, range: &Range, section: impl FnOnce() -> R) -> R {
        once(section, |section| self.0.write_any(thread, range, section))
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
        BenchRange::read(self, 0, &EVERYTHING, section)
    }

    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        BenchRange::write(self, 0, &EVERYTHING, section)
    }
}

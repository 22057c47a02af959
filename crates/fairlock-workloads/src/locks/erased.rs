//! Locks behind a pointer, so that a workload is compiled once and not for each lock.
//!
//! They are for simulated machines, where the cost of a call to the host is no part of simulated
//! time; and on real threads for what takes microseconds. Elsewhere the call would be part of what
//! is measured.

use std::any::Any;
use std::cell::Cell;

use super::range::{BenchRange, Range};
use super::{BenchLock, BenchMutex};
use crate::error::Error;
use crate::workload::team::Padded;

/// A reader/writer lock.
pub struct ErasedLock(Box<dyn AnyLock>);

/// A mutex.
pub struct ErasedMutex(Box<dyn AnyMutex>);

/// A range lock.
pub struct ErasedRange(Box<dyn AnyRange>);

thread_local! {
    /// What workloads on this thread create: they ask a type for a lock, and these types do not
    /// know which lock it is to be.
    static CREATED: Cell<Option<Created>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
enum Created {
    Lock(fn() -> ErasedLock),
    Mutex(fn() -> ErasedMutex),
    Range(fn(u64) -> Result<ErasedRange, Error>),
}

/// Runs `body`, in which every [`ErasedLock`] created by this thread is an `L`.
pub fn with_lock<L: BenchLock, R>(body: impl FnOnce() -> R) -> R {
    with(Created::Lock(|| ErasedLock(Box::new(Padded(L::create())))), body)
}

/// As [`with_lock`], for each [`ErasedMutex`].
pub fn with_mutex<M: BenchMutex, R>(body: impl FnOnce() -> R) -> R {
    with(Created::Mutex(|| ErasedMutex(Box::new(Padded(M::create())))), body)
}

/// As [`with_lock`], for each [`ErasedRange`].
pub fn with_range<L: BenchRange, R>(body: impl FnOnce() -> R) -> R {
    with(Created::Range(|positions| Ok(ErasedRange(Box::new(Padded(L::create(positions)?))))), body)
}

fn with<R>(created: Created, body: impl FnOnce() -> R) -> R {
    CREATED.set(Some(created));
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
    fn read_any(&self, section: &mut dyn FnMut());
    fn write_any(&self, section: &mut dyn FnMut());
}

// Padded: which of its parts share a cache line must not depend on where the lock was allocated.
impl<L: BenchLock> AnyLock for Padded<L> {
    fn read_any(&self, section: &mut dyn FnMut()) {
        self.0.read(section);
    }

    fn write_any(&self, section: &mut dyn FnMut()) {
        self.0.write(section);
    }
}

impl BenchLock for ErasedLock {
    fn create() -> Self {
        match CREATED.get() {
            Some(Created::Lock(create)) => create(),
            _ => unreachable!("a workload runs within `with_lock`"),
        }
    }

    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        once(section, |section| self.0.read_any(section))
    }

    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        once(section, |section| self.0.write_any(section))
    }
}

trait AnyMutex: Send + Sync {
    fn hold_any(&self, section: &mut dyn FnMut());
}

impl<M: BenchMutex> AnyMutex for Padded<M> {
    fn hold_any(&self, section: &mut dyn FnMut()) {
        self.0.hold(section);
    }
}

impl BenchMutex for ErasedMutex {
    fn create() -> Self {
        match CREATED.get() {
            Some(Created::Mutex(create)) => create(),
            _ => unreachable!("a workload runs within `with_mutex`"),
        }
    }

    fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
        once(section, |section| self.0.hold_any(section))
    }
}

/// What a thread has for itself, of whatever type.
pub struct User(Box<dyn Any + Send + Sync>);

trait AnyRange: Send + Sync {
    fn user_any(&self) -> Result<User, Error>;
    fn read_any(&self, user: &User, range: &Range, section: &mut dyn FnMut());
    fn write_any(&self, user: &User, range: &Range, section: &mut dyn FnMut());
    fn keep_any(&self, user: &User, range: &Range);
}

impl User {
    fn of<L: BenchRange>(&self) -> &L::User {
        self.0.downcast_ref().expect("a user of this lock")
    }
}

impl<L: BenchRange> AnyRange for Padded<L> {
    fn user_any(&self) -> Result<User, Error> {
        Ok(User(Box::new(self.0.user()?)))
    }

    fn read_any(&self, user: &User, range: &Range, section: &mut dyn FnMut()) {
        self.0.read(user.of::<L>(), range, section);
    }

    fn write_any(&self, user: &User, range: &Range, section: &mut dyn FnMut()) {
        self.0.write(user.of::<L>(), range, section);
    }

    fn keep_any(&self, user: &User, range: &Range) {
        self.0.keep(user.of::<L>(), range);
    }
}

impl BenchRange for ErasedRange {
    type User = User;

    fn create(positions: u64) -> Result<Self, Error> {
        match CREATED.get() {
            Some(Created::Range(create)) => create(positions),
            _ => unreachable!("a workload runs within `with_range`"),
        }
    }

    fn user(&self) -> Result<User, Error> {
        self.0.user_any()
    }

    fn read<R>(&self, user: &User, range: &Range, section: impl FnOnce() -> R) -> R {
        once(section, |section| self.0.read_any(user, range, section))
    }

    fn write<R>(&self, user: &User, range: &Range, section: impl FnOnce() -> R) -> R {
        once(section, |section| self.0.write_any(user, range, section))
    }

    fn keep(&self, user: &User, range: &Range) {
        self.0.keep_any(user, range);
    }
}

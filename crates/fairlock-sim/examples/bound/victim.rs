//! The locks that are attacked, by what all of them can.

use fairlock::lock::{Policy, RawMutex, RawRwLock};
use fairlock::wait::Wait;
use fairlock_sim::Sim;

/// In cache lines of its own: simulations do not depend on what the allocator puts beside it.
#[repr(align(128))]
pub struct Apart<T>(pub T);

/// How a thread wants the lock; a mutex has one way only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    Read,
    /// And once more, inside.
    ReadTwice,
    Upgradable,
    /// First as an upgradable reader, then as a writer.
    Upgrade,
    Write,
    /// First as a writer, then as a reader.
    Downgrade,
}

impl How {
    /// Whether it waits among the readers.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::ReadTwice)
    }
}

pub trait Victim {
    fn take_with(&self, how: How, wait: Wait<'_, Sim>) -> bool;
    /// The second half of a section.
    ///
    /// # Safety
    /// The caller has taken the lock in this way.
    unsafe fn change(&self, how: How);
    /// # Safety
    /// The caller has taken the lock in this way, and [changed](Self::change) it.
    unsafe fn leave(&self, how: How);
    fn planned_wait_ns(&self, grants_ahead: usize) -> u64;
}

macro_rules! victim {
    ($lock:ty) => {
        impl Victim for Apart<$lock> {
            fn take_with(&self, how: How, wait: Wait<'_, Sim>) -> bool {
                match how {
                    How::Read | How::ReadTwice => self.0.read_with(wait),
                    How::Upgradable | How::Upgrade => self.0.upgradable_read_with(wait),
                    How::Write | How::Downgrade => self.0.write_with(wait),
                }
                .is_ok()
            }

            unsafe fn change(&self, how: How) {
                // SAFETY: the caller's promise.
                unsafe {
                    match how {
                        How::ReadTwice => self.0.read_recursive(),
                        How::Upgrade => self.0.upgrade(),
                        How::Downgrade => self.0.downgrade(),
                        How::Read | How::Upgradable | How::Write => {}
                    }
                }
            }

            unsafe fn leave(&self, how: How) {
                // SAFETY: the caller's promise.
                unsafe {
                    match how {
                        How::Read | How::Downgrade => self.0.unlock_read(),
                        How::ReadTwice => {
                            self.0.unlock_read();
                            self.0.unlock_read();
                        }
                        How::Upgradable => self.0.unlock_upgradable(),
                        How::Upgrade | How::Write => self.0.unlock_write(),
                    }
                }
            }

            fn planned_wait_ns(&self, grants_ahead: usize) -> u64 {
                self.0.planned_wait_ns(grants_ahead)
            }
        }
    };
}
victim!(RawRwLock<Sim>);

impl Victim for Apart<RawMutex<Sim>> {
    fn take_with(&self, _: How, wait: Wait<'_, Sim>) -> bool {
        self.0.lock_with(wait).is_ok()
    }

    unsafe fn change(&self, _: How) {}

    unsafe fn leave(&self, _: How) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock() }
    }

    fn planned_wait_ns(&self, grants_ahead: usize) -> u64 {
        self.0.planned_wait_ns(grants_ahead)
    }
}

/// The negative control: a lock with ten times the aim of the default, which says that it is the default.
pub struct Slow(Apart<RawRwLock<Sim>>);

impl Slow {
    pub fn new() -> Self {
        let aim = 10 * Policy::DEFAULT.aim;
        Self(Apart(RawRwLock::new(Policy { aim, ..Policy::DEFAULT })))
    }
}

impl Victim for Slow {
    fn take_with(&self, how: How, wait: Wait<'_, Sim>) -> bool {
        self.0.take_with(how, wait)
    }

    unsafe fn change(&self, how: How) {
        // SAFETY: the caller's promise.
        unsafe { self.0.change(how) };
    }

    unsafe fn leave(&self, how: How) {
        // SAFETY: the caller's promise.
        unsafe { self.0.leave(how) };
    }

    fn planned_wait_ns(&self, grants_ahead: usize) -> u64 {
        RawRwLock::<Sim>::new_const().planned_wait_ns(grants_ahead)
    }
}

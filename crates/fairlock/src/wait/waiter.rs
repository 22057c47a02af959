//! A waiter: a stack frame's place in a lock's queue.

use core::cell::Cell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::Ordering;

use super::{Sleeper, WakeList};
use crate::may_dangle::MayDangle;
use crate::system::{Atomic, System};

/// Which way a waiter wants the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Reader = 0,
    Writer = 1,
}

impl Kind {
    pub(crate) fn other(self) -> Self {
        match self {
            Kind::Reader => Kind::Writer,
            Kind::Writer => Kind::Reader,
        }
    }
}

/// How a thread wants to hold the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Beside other readers.
    Shared,
    /// Beside readers, and the only one that may become the writer.
    Upgradable,
    /// Alone.
    Exclusive,
}

impl Access {
    /// The side on which it waits: an upgradable reader excludes others of its sort, as a writer
    /// does.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Access::Shared => Kind::Reader,
            Access::Upgradable | Access::Exclusive => Kind::Writer,
        }
    }
}

/// Lives in the acquiring thread's frame and is linked into the queue under
/// the queue lock. Its parker, in the thread record, outlives it (rule 12).
///
/// | state | meaning | who leaves it |
/// |---|---|---|
/// | WAITING | queued | a holder of the queue lock |
/// | NEXT | queued, and first in line: watches the lock | a holder of the queue lock |
/// | INVITED | queued reader that may join the readers inside | the waiter, under the queue lock |
/// | GRANTED | out of the queue, owns the lock | nobody: final |
///
/// Only a holder of the queue lock stores the state; the waiter reads it
/// without. Once GRANTED is stored nobody else touches the waiter.
pub(crate) struct Waiter<P: System>(MayDangle<Frame<P>>);

/// What others see of the waiter's frame.
pub(crate) struct Frame<P: System> {
    pub(crate) access: Access,
    /// Its side.
    pub(crate) kind: Kind,
    pub(crate) thread: &'static Sleeper<P>,
    /// When it arrived; if it made several attempts, as if it had waited all the time that they lasted.
    pub(crate) arrived: u64,
    /// Whether its place depends on when it arrived; otherwise it is behind all others.
    pub(crate) returns: bool,
    /// Its real-time priority: goes before all that have a lower one.
    pub(crate) priority: u8,
    /// Its place among all waiters of the lock, readers and writers; set by the queue.
    pub(super) ticket: Cell<u64>,
    pub(super) next: Cell<*const Waiter<P>>,
    pub(super) prev: Cell<*const Waiter<P>>,
    state: P::AtomicU32,
}

pub(crate) const WAITING: u32 = 0;
pub(crate) const NEXT: u32 = 1;
pub(crate) const INVITED: u32 = 2;
pub(crate) const GRANTED: u32 = 3;

impl<P: System> Deref for Waiter<P> {
    type Target = Frame<P>;

    #[inline(always)]
    fn deref(&self) -> &Frame<P> {
        &self.0
    }
}

impl<P: System> DerefMut for Waiter<P> {
    fn deref_mut(&mut self) -> &mut Frame<P> {
        &mut self.0
    }
}

impl<P: System> Waiter<P> {
    pub(crate) fn new(
        access: Access,
        thread: &'static Sleeper<P>,
        arrived: u64,
        priority: u8,
    ) -> Self {
        Self(MayDangle::new(Frame {
            access,
            kind: access.kind(),
            thread,
            arrived,
            returns: false,
            priority,
            ticket: Cell::new(0),
            next: Cell::new(core::ptr::null()),
            prev: Cell::new(core::ptr::null()),
            state: P::AtomicU32::new(WAITING),
        }))
    }

    /// Acquire: with GRANTED comes everything the granter did under the lock.
    #[inline]
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    /// The word of the state, for [`System::spin_until`].
    pub(crate) fn state_word(&self) -> &P::AtomicU32 {
        &self.state
    }

    /// Under the queue lock. Release: pairs with [`state`](Self::state).
    pub(crate) fn set_state(&self, state: u32) {
        self.state.store(state, Ordering::Release);
    }

    /// The waiter, which is out of the queue, owns the lock. Rule 1: the grant is published first,
    /// and the waiter woken after it. The thread's record outlives both (rule 12).
    pub(crate) fn grant<const MOST: usize>(&self, wakes: &mut WakeList<P, MOST>) {
        let thread = self.thread;
        self.set_state(GRANTED);
        wakes.push(thread);
    }
}

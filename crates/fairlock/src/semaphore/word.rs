//! The word of a semaphore.

use core::sync::atomic::Ordering;

use crate::lock::{Flags, Names, Word};
#[cfg(fairlock_loom)]
use crate::platform::Atomic;
use crate::platform::{Native, System};

/// A value of the word.
///
/// | bits | | changed by |
/// |---|---|---|
/// | 0-31 | permits that are free | taken by any thread while nobody waits, else under the queue lock; given by any thread |
/// | 32-63 | as in the word of a [lock](crate::lock): whether somebody waits (bit 32), and the name of the slot that has the queue | as there |
#[derive(Clone, Copy)]
pub(super) struct State(u64);

impl State {
    /// How many permits are free.
    #[inline]
    pub(super) fn permits(self) -> u32 {
        self.0 as u32
    }

    /// The half that is the queue's.
    #[inline]
    pub(super) fn queue(self) -> Word {
        Word::of_halves(0, (self.0 >> u32::BITS) as u32)
    }

    #[inline]
    fn with_queue(self, queue: Word) -> Self {
        Self(u64::from(queue.queue()) << u32::BITS | u64::from(self.permits()))
    }

    /// With so many permits more; none if they cannot be counted.
    #[inline]
    fn with_more(self, count: u32) -> Option<Self> {
        self.permits().checked_add(count).map(|_| Self(self.0 + u64::from(count)))
    }

    /// With so many permits fewer; none if there are not that many.
    #[inline]
    fn with_fewer(self, count: u32) -> Option<Self> {
        self.permits().checked_sub(count).map(|_| Self(self.0 - u64::from(count)))
    }
}

/// The word in memory. All its changes are read-modify-writes: so a thread that takes permits with Acquire sees what all threads
/// did that gave them with Release.
pub(crate) struct Permits(<Native as System>::AtomicU64);

impl Permits {
    #[cfg(not(fairlock_loom))]
    pub(super) const fn new(permits: u32) -> Self {
        Self(core::sync::atomic::AtomicU64::new(permits as u64))
    }

    #[cfg(fairlock_loom)]
    pub(super) fn new(permits: u32) -> Self {
        Self(Atomic::new(permits.into()))
    }

    /// Relaxed: nothing is read on the strength of it.
    #[inline]
    pub(super) fn state(&self) -> State {
        State(self.0.load(Ordering::Relaxed))
    }

    /// Makes the word what `step` says, as long as it says anything. Returns the word before, if it did. Relaxed where it fails:
    /// only compared.
    #[inline]
    fn change(&self, order: Ordering, step: impl Fn(State) -> Option<State>) -> Option<State> {
        let mut state = self.state();
        loop {
            let next = step(state)?;
            match self.0.compare_exchange_weak(state.0, next.0, order, Ordering::Relaxed) {
                Ok(_) => return Some(state),
                Err(now) => state = State(now),
            }
        }
    }

    /// Takes permits, if there are so many and nobody waits.
    #[inline]
    pub(super) fn take(&self, count: u32) -> bool {
        // Acquire: see the type.
        let step = |state: State| {
            (!state.queue().has_waiters())
                .then_some(state)
                .and_then(|state| state.with_fewer(count))
        };
        self.change(Ordering::Acquire, step).is_some()
    }

    /// Under the queue lock: takes permits, if there are so many. If the last waiter takes them, nobody waits from here on.
    pub(super) fn take_queued(&self, count: u32, is_last: bool) -> bool {
        let gone = Flags::WAITERS.only_if(is_last);
        // Acquire: see the type.
        let step = |state: State| {
            state.with_fewer(count).map(|next| next.with_queue(next.queue().without(gone)))
        };
        self.change(Ordering::Acquire, step).is_some()
    }

    /// Gives permits, unless there would be more than can be counted. Returns the queue's half: from here on another thread may
    /// have dropped the semaphore.
    #[inline]
    pub(super) fn give(&self, count: u32) -> Option<Word> {
        // Release: see the type. Acquire: the name that is found may be followed.
        self.change(Ordering::AcqRel, |state| state.with_more(count)).map(State::queue)
    }

    /// Changes the queue's half; returns it as it was.
    fn change_queue(&self, order: Ordering, step: impl Fn(Word) -> Option<Word>) -> Option<Word> {
        let changed = |state: State| step(state.queue()).map(|queue| state.with_queue(queue));
        self.change(order, changed).map(State::queue)
    }
}

impl Names for Permits {
    type P = Native;

    const KIND: usize = 2;

    #[inline]
    fn load(&self) -> Word {
        State(self.0.load(Ordering::Acquire)).queue()
    }

    fn name(&self, name: u32) -> Result<Word, Word> {
        // Release: the slot is as it should be for a thread that follows the name.
        let named = self.change_queue(Ordering::AcqRel, |queue| {
            (queue.name() == 0).then(|| queue.named(name).with(Flags::WAITERS))
        });
        named.ok_or_else(|| self.load())
    }

    fn unname(&self, name: u32) -> bool {
        // Relaxed: a name is followed under the queue lock.
        let unnamed = self.change_queue(Ordering::Relaxed, |queue| {
            (queue.name() == name && !queue.has_waiters()).then(|| queue.without_name())
        });
        unnamed.is_some()
    }

    fn forget_queue(&self, name: u32, next: u32) -> bool {
        // Release: as in `name`.
        let forgotten = self.change_queue(Ordering::AcqRel, |queue| {
            (queue.name() == name).then(|| queue.without_name().without(Flags::QUEUE).named(next))
        });
        forgotten.is_some()
    }

    fn set(&self, flags: Flags) -> Word {
        // Acquire: the name that is found may be followed.
        State(self.0.fetch_or(in_queue(flags), Ordering::Acquire)).queue()
    }

    fn clear(&self, flags: Flags) -> Word {
        // Relaxed: the flags are not ownership.
        State(self.0.fetch_and(!in_queue(flags), Ordering::Relaxed)).queue()
    }
}

/// Those of the flags that are in the queue's half.
fn in_queue(flags: Flags) -> u64 {
    u64::from(flags.queue()) << u32::BITS
}

#[cfg(all(test, fairlock_loom))]
impl Permits {
    /// Has loom check that every access so far happens before this one.
    pub(super) fn access_mut(&mut self) {
        self.0.with_mut(|_| ());
    }
}

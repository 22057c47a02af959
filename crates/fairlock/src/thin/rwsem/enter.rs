//! The ways in and out where one exchange of the word does not do.

use core::sync::atomic::Ordering;

use super::{RwWord, ThinRwSem};
use crate::platform::PooledPlatform;
use crate::rwsem::{RwSem, YIELDS, yield_to_others};
use crate::thin::inflate::{Codec, Inflates};
use crate::thin::marks;
use crate::wait::{Access, LOOK_NS, LOOKS, Wait, WaitContext, WaitError};

/// How often a thread tries before it concludes that others crowd the word: then a full lock's
/// `fetch_add` is better. In attempts; compared with those of this call.
const ATTEMPTS: u32 = 4;

/// What came of an attempt to enter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Entered,
    /// Somebody is in the way, in a thin lock.
    Taken,
    /// Somebody is in the way, in an inflated lock.
    TakenElsewhere,
    /// Others changed the word, time and again.
    Crowded,
    /// One more reader cannot be counted, in a thin lock.
    Full,
    /// The lock has to be inflated.
    Nascent,
}

impl<P: PooledPlatform> ThinRwSem<P> {
    #[cold]
    pub(super) fn enter_for_ever(&self, access: Access, again: bool) {
        if let Err(error) = self.enter(access, again, &WaitContext::FOREVER) {
            panic!("{error}");
        }
    }

    /// Enters; gives up as `wait` says.
    pub(super) fn enter_with(
        &self,
        access: Access,
        again: bool,
        wait: Wait<'_, P>,
    ) -> Result<(), WaitError> {
        if self.at_once(access) { Ok(()) } else { self.enter(access, again, &wait.begin()) }
    }

    /// The way in where one exchange does not do. `again`: beside readers even past waiting writers.
    fn enter(
        &self,
        access: Access,
        again: bool,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        let mut looks = 0;
        loop {
            let awake = |sem: &RwSem<P>| {
                let taken =
                    if again { sem.try_read_recursive() } else { sem.take_awake(access, context) };
                taken.then_some(()).ok_or(false)
            };
            match self.attempt(access, false, awake) {
                Entry::Entered => return Ok(()),
                Entry::Full => return Err(WaitError::TooManyReaders),
                Entry::Taken if looks < LOOKS => {
                    let done = |word: RwWord| !word.is_taken(access);
                    P::spin_until(&self.word.0, LOOK_NS << looks, |bits| done(RwWord::of(bits)));
                    looks += 1;
                }
                Entry::Taken if looks < LOOKS + YIELDS && yield_to_others(context) => looks += 1,
                Entry::Taken | Entry::TakenElsewhere => break,
                // More readers come at once than one exchange at a time can take, or the lock has
                // another policy.
                Entry::Crowded | Entry::Nascent => _ = self.inflated(),
            }
        }
        self.on_full(|sem| match again {
            true => sem.read_recursive_with(context.into()),
            false => sem.take_asleep(access, context),
        })
    }

    /// Enters without waiting; only a nascent lock is inflated for that.
    pub(super) fn try_enter(&self, access: Access, again: bool) -> bool {
        loop {
            match self.attempt(access, true, |sem| sem.try_take(access, again)) {
                Entry::Entered => return true,
                Entry::Taken | Entry::TakenElsewhere | Entry::Full => return false,
                // The other threads got on, so this is lock-free.
                Entry::Crowded => {}
                Entry::Nascent => self.on_full(|_| ()),
            }
        }
    }

    /// Enters if that needs no waiting. `full` is the attempt at a full lock, which fails with whether
    /// a seal was in the way; `is_calm` says whether that lock was free where the attempt succeeds.
    #[inline(always)]
    fn attempt(
        &self,
        access: Access,
        is_calm: bool,
        full: impl Fn(&RwSem<P>) -> Result<(), bool>,
    ) -> Entry {
        let mut word = self.load();
        for _ in 0..ATTEMPTS {
            if word.is_inflated() {
                let slot = self.slot(word);
                let then = || {
                    self.remember(P::thread(), word, slot);
                    true
                };
                match full(&slot.full) {
                    Ok(()) if self.entered(word, slot, access, is_calm, then) => {
                        return Entry::Entered;
                    }
                    Err(true) => self.open(word),
                    Err(false) if self.names(word) => return Entry::TakenElsewhere,
                    _ => {}
                }
                word = self.load();
                continue;
            }
            if word.is_nascent() {
                return Entry::Nascent;
            }
            if word.is_taken(access) {
                return Entry::Taken;
            }
            if word.is_full() {
                return Entry::Full;
            }
            match self.word.exchange(word, word.taken(access), Ordering::Acquire) {
                Ok(()) => {
                    marks::unmark::<P, _>(self);
                    return Entry::Entered;
                }
                Err(now) => word = now,
            }
        }
        Entry::Crowded
    }

    /// Leaves the thin lock, or the full one; `fair`: to the queue, if anyone waits.
    #[cold]
    pub(super) fn leave(&self, access: Access, fair: bool) {
        let mut word = self.load();
        while !word.is_inflated() {
            // Release: as on the fast path.
            match self.word.exchange(word, word.left(access), Ordering::Release) {
                Ok(()) => return,
                Err(now) => word = now,
            }
        }
        self.leave_full(word, access, fair);
    }
}

//! How a lock of one word gets a full lock of a pool, and becomes thin again: what all such locks
//! have in common.
//!
//! A lock says by a [`Codec`] how its word tells that it is inflated, and by [`Inflates`] who is inside
//! while it is thin. Everything else here is written once. Why it is safe is in [`thin`](super).

use core::sync::atomic::Ordering;

use super::pool::{Full, Pin, Slot, Slots};
use super::word::Holder;
pub(super) use super::word::{AtomicOf, Codec};
use crate::platform::{Atomic, PooledPlatform};
use crate::wait::Access;

/// A lock that becomes a full one.
pub(super) trait Inflates: Sized {
    type P: PooledPlatform;
    type Word: Codec;
    type Atomic: Atomic<<Self::Word as Codec>::Bits>;
    type Full: Full<Self::P> + 'static;

    fn slots() -> &'static Slots<Self::P, Self::Full>;

    fn word(&self) -> &AtomicOf<Self::Word, Self::Atomic>;

    /// The full lock, which is sealed, and which no word names yet, gets the holders that the word of
    /// the thin lock tells of.
    fn adopt(full: &Self::Full, word: Self::Word);

    /// Whether this word of a lock that is not inflated says who is inside.
    #[inline(always)]
    fn tells_holders(_word: Self::Word) -> bool {
        true
    }

    /// Takes the adopted holders off the full lock, which no word names.
    fn disown(full: &Self::Full, word: Self::Word);

    /// Leaves the full lock; `fair`: to the queue, if anyone waits.
    ///
    /// # Safety
    /// The caller holds it in this way.
    unsafe fn release(full: &Self::Full, access: Access, fair: bool);

    /// The lock, which has this word, becomes thin, in place of a release by the caller, who holds
    /// it in this way, and has closed the slot. Nothing of the lock is touched after the step that lets
    /// the next owner have it. Not if the lock has become permanent.
    fn make_thin(&self, word: Self::Word, by: Holder) -> bool;

    // ---- the slot ----

    #[inline(always)]
    fn load(&self) -> Self::Word {
        self.word().load()
    }

    /// The slot that the word of an inflated lock names.
    #[inline(always)]
    fn slot(&self, word: Self::Word) -> &'static SlotOf<Self> {
        Self::slots().get(word.name())
    }

    /// Whether the lock's slot is the one that `word` names.
    #[inline(always)]
    fn names(&self, word: Self::Word) -> bool {
        self.load().is_as(word)
    }

    /// Keeps the slot that `word` names with this lock. `None` if it is not this lock's; an error as in
    /// [`Slot::pin`].
    #[inline(always)]
    fn pin(&self, word: Self::Word) -> Result<Option<PinOf<Self>>, (Holder, PinOf<Self>)> {
        let pin = self.slot(word).pin()?;
        Ok(self.names(word).then_some(pin))
    }

    /// What `thin` finds in the word, or `full` in the full lock.
    fn look<R>(
        &self,
        thin: impl Fn(Self::Word) -> R,
        full: impl Fn(&'static Self::Full) -> R,
    ) -> R {
        loop {
            let word = self.load();
            if !word.is_inflated() {
                return thin(word);
            }
            let seen = full(&self.slot(word).full);
            if self.names(word) {
                return seen;
            }
        }
    }

    // ---- in ----

    /// The caller has just taken, in this way, the full lock that `word` named, which it found free or
    /// not. Returns whether that is this lock's; if not, the caller does not have it any more.
    #[inline(always)]
    fn entered(
        &self,
        word: Self::Word,
        slot: &'static SlotOf<Self>,
        access: Access,
        found_free: bool,
    ) -> bool {
        let is_ours = self.names(word);
        match is_ours {
            true => slot.note(found_free),
            false => leave_other::<Self>(slot, access),
        }
        is_ours
    }

    // ---- out ----

    /// Leaves the full lock; `fair`: to the queue, if anyone waits. The caller is inside in this way, so
    /// the slot that `word` names is the lock's, and exists.
    #[inline(never)]
    fn leave_full(&self, word: Self::Word, mut access: Access, fair: bool) {
        debug_assert!(word.is_inflated());
        let slot = self.slot(word);
        if !word.is_permanent() && slot.is_uncontended(word.name()) {
            // SAFETY: the caller holds the lock in this way.
            let seals = || unsafe { slot.full.head().word.seal_alone(access) };
            if access == Access::Exclusive || seals() {
                if access == Access::Upgradable {
                    access = Access::Shared;
                }
                if self.deflate(word, slot, Some(access)) {
                    return;
                }
            }
        }
        // SAFETY: the caller holds the lock in this way.
        unsafe { Self::release(&slot.full, access, fair) }
    }

    // ---- thin to full, and back ----

    /// Gives the lock, which had this word, a full one. Returns its word; as an error if another thread has done
    /// so, or the word no longer says who is inside.
    #[cold]
    fn inflate(&self, mut word: Self::Word) -> Result<Self::Word, Self::Word> {
        let slots = Self::slots();
        let slot = slots.take_sealed();
        let new = Self::Word::inflated(slot.name);
        loop {
            if word.is_inflated() || !Self::tells_holders(word) {
                break;
            }
            Self::adopt(&slot.full, word);
            // Acquire and Release: orders the sections inside the thin lock, whose holders the slot has
            // adopted, before those of whoever finds that the word names the slot.
            match self.word().exchange(word, new, Ordering::AcqRel) {
                Ok(()) => return Ok(new),
                Err(now) => {
                    Self::disown(&slot.full, word);
                    word = now;
                }
            }
        }
        slots.give(slot);
        Err(word)
    }

    /// The caller, who holds the full lock in this way and is alone there, leaves and makes the lock
    /// thin; a reader has sealed it. Or the caller trims the lock, which has no seal, and has pinned the slot. Not
    /// if somebody else has pinned it, or holds the lock: then there is no seal afterwards.
    #[cold]
    fn deflate(&self, word: Self::Word, slot: &'static SlotOf<Self>, by: Holder) -> bool {
        let lock = &slot.full.head().word;
        if !slot.pins.close(by) {
            lock.unseal();
            return false;
        }
        let is_sealed = match by {
            // Only now: nobody can take the seal off any more, nor be about to wait for a lock that it found unsealed.
            // (The seal of a reader, which is counted, is not taken for this one; and the reader wakes who waits.)
            None => lock.seal_free(),
            // A thread that had pinned the slot may have taken it off.
            Some(Access::Shared) => lock.is_sealed(true),
            Some(_) => true,
        };
        if !is_sealed {
            slot.pins.reopen();
            return false;
        }
        if !self.make_thin(word, by) {
            slot.pins.reopen();
            lock.unseal();
            return false;
        }
        match by {
            None => {}
            Some(Access::Exclusive) => lock.seal(),
            Some(_) => lock.disown_readers(1),
        }
        slot.pins.reopen();
        Self::slots().give(slot);
        true
    }

    /// The lock is dropped.
    fn give_up(&self) {
        let word = self.load();
        if word.is_inflated() {
            Self::slots().give_up(self.slot(word));
        }
    }
}

pub(super) type SlotOf<L> = Slot<<L as Inflates>::P, <L as Inflates>::Full>;
pub(super) type PinOf<L> = Pin<'static, <L as Inflates>::P, <L as Inflates>::Full>;

/// The caller has just taken another lock's slot in this way: not any more.
#[cold]
#[inline(never)]
pub(super) fn leave_other<L: Inflates>(slot: &SlotOf<L>, access: Access) {
    // SAFETY: the caller has just taken it.
    unsafe { L::release(&slot.full, access, false) };
}

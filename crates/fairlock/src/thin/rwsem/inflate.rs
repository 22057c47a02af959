//! How a thin lock comes to a full one of the pool, and becomes thin again: what [`Inflates`] leaves
//! to it.

use core::sync::atomic::Ordering;

use super::{RwWord, ThinRwSem, nascent_word};
use crate::platform::PooledPlatform;
use crate::rwsem::RwSem;
use crate::thin::inflate::{AtomicOf, Codec, Inflates, PinOf};
use crate::thin::marks;
use crate::thin::pool::Slots;
use crate::thin::slot_word::Holder;
use crate::wait::Access;

impl<P: PooledPlatform> ThinRwSem<P> {
    /// Runs `f` on the full lock, which stays this lock's meanwhile.
    pub(crate) fn on_full<R>(&self, f: impl FnOnce(&'static RwSem<P>) -> R) -> R {
        loop {
            let word = self.inflated();
            if word.is_sticky() {
                return f(&self.slot(word).full);
            }
            let pin = match self.pin(word) {
                Ok(Some(pin)) => pin,
                Ok(None) => continue,
                Err((by, pin)) => {
                    self.finish(word, by, &pin);
                    P::pause();
                    continue;
                }
            };
            let slot = pin.slot();
            slot.full.word.unseal();
            slot.note(false);
            self.remember(P::thread(), word, slot);
            return f(&slot.full);
        }
    }

    /// Inflates the lock if it is not inflated; returns its word.
    pub(super) fn inflated(&self) -> RwWord {
        let word = self.load();
        if word.is_inflated() {
            return word;
        }
        let made = if word.is_nascent() { self.inflate_nascent(word) } else { self.inflate(word) };
        made.unwrap_or_else(|now| now)
    }

    #[cold]
    fn inflate_nascent(&self, word: RwWord) -> Result<RwWord, RwWord> {
        let slot = P::rwsem_slots().take_for(nascent_word::policy(word));
        let new = RwWord::inflated(slot.name).sticky();
        // Acquire and Release: as in `inflate`.
        let made = self.word.exchange(word, new, Ordering::AcqRel);
        if made.is_err() {
            P::rwsem_slots().set_aside(slot);
        }
        made.map(|()| new)
    }

    /// A seal kept the caller out of the lock, which was inflated, with this word: takes it off.
    #[cold]
    pub(super) fn open(&self, word: RwWord) {
        match self.pin(word) {
            Ok(Some(pin)) => pin.slot().full.word.unseal(),
            Ok(None) => {}
            Err((by, pin)) => self.finish(word, by, &pin),
        }
    }

    /// The slot of the lock, which was inflated, with this word, is closed: if that is for this lock,
    /// makes it thin in place of whoever closed the slot, who is counted in the word then.
    fn finish(&self, word: RwWord, by: Holder, pin: &PinOf<Self>) {
        // Without a seal, others read beside the reader that closed it, which will find them.
        if !word.is_sticky() && (by == Some(Access::Exclusive) || pin.slot().full.word.is_sealed())
        {
            let now = by.map_or(RwWord::FREE, |access| RwWord::FREE.taken(access));
            // Acquire and Release: those who come now find what was done before the slot was closed.
            _ = self.word.exchange(word, now, Ordering::AcqRel);
        }
    }

    /// Gives the full lock back to the pool, unless somebody holds it or waits, or the lock
    /// [keeps](Self::keeps_full) it. Returns whether the lock has none now. Others may use it
    /// meanwhile.
    pub fn trim(&self) -> bool {
        let word = self.load();
        if word.is_inflated()
            && !word.is_sticky()
            && let Ok(Some(pin)) = self.pin(word)
        {
            let slot = pin.slot();
            slot.full.word.unseal();
            _ = slot.full.word.seal_free() && self.deflate(word, slot, None);
        }
        !self.is_inflated()
    }
}

impl<P: PooledPlatform> Inflates for ThinRwSem<P> {
    type P = P;
    type Word = RwWord;
    type Atomic = P::AtomicU64;
    type Full = RwSem<P>;

    #[inline(always)]
    fn slots() -> &'static Slots<P, RwSem<P>> {
        P::rwsem_slots()
    }

    #[inline(always)]
    fn word(&self) -> &AtomicOf<RwWord, P::AtomicU64> {
        &self.word
    }

    fn adopt(full: &RwSem<P>, word: RwWord) {
        if word.is_written() {
            full.word.adopt_sealed_writer();
        } else {
            // SAFETY: nobody holds a sealed lock; a thread that is late counts itself for a moment only.
            unsafe { full.adopt_readers(word.readers()) };
            if word.is_upgradable() {
                full.word.adopt_upgradable();
            }
        }
    }

    fn disown(full: &RwSem<P>, word: RwWord) {
        if word.is_written() {
            full.word.seal();
        } else {
            full.word.disown_readers(word.readers());
            if word.is_upgradable() {
                full.word.disown_upgradable();
            }
        }
    }

    #[inline(always)]
    unsafe fn release(full: &RwSem<P>, access: Access, fair: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            match (access, fair) {
                (Access::Shared, false) => full.unlock_read(),
                (Access::Shared, true) => full.unlock_read_fair(),
                (Access::Upgradable, false) => full.unlock_upgradable(),
                (Access::Upgradable, true) => full.unlock_upgradable_fair(),
                (Access::Exclusive, false) => full.unlock_write(),
                (Access::Exclusive, true) => full.unlock_write_fair(),
            }
        }
    }

    fn make_thin(&self, word: RwWord, by: Holder) -> bool {
        marks::unmark::<P, _>(self);
        match self.word.exchange(word, RwWord::FREE, Ordering::Release) {
            Ok(()) => true,
            // Somebody has made it sticky.
            Err(now) if now.is_as(word) => false,
            // Somebody who came too late has made it thin: see `finish`.
            Err(_) => {
                by.into_iter().for_each(|access| self.leave(access, false));
                true
            }
        }
    }
}

impl<P: PooledPlatform> Drop for ThinRwSem<P> {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::Native;

    /// A thread that comes to wait may be preempted between its two steps for as long as it likes.
    #[test]
    fn a_seal_is_no_holder() {
        let lock = ThinRwSem::<Native>::new_const;
        let free = lock();
        free.inflated();
        assert!(!free.is_locked() && !free.is_write_locked());

        let read = lock();
        read.read();
        read.inflated();
        assert!(read.is_locked() && !read.is_write_locked());

        let written = lock();
        written.write();
        written.inflated();
        assert!(written.is_locked() && written.is_write_locked());
    }
}

//! How a thin lock comes to a full one of the pool, and becomes thin again.

use core::sync::atomic::Ordering;

use super::enter::Access;
use super::{RwWord, ThinRwSem};
use crate::fault::{Fault, active};
use crate::platform::{Platform, PooledPlatform};
use crate::rwsem::RwSem;
use crate::thin::marks;
use crate::thin::pins_word::Holder;
use crate::thin::slot::{Closed, Slot};

impl<P: PooledPlatform> ThinRwSem<P> {
    /// Runs `f` on the full lock, which stays this lock's meanwhile.
    pub(crate) fn on_full<R>(&self, f: impl FnOnce(&'static RwSem<P>) -> R) -> R {
        loop {
            let word = self.inflated();
            let slot = self.slot(word);
            if word.is_sticky() {
                return f(&slot.full);
            }
            let _pin = match slot.pin() {
                Ok(pin) => pin,
                Err(closed) => {
                    self.finish(word, &closed);
                    P::pause();
                    continue;
                }
            };
            if !self.names(word) && !active(Fault::PinsAnySlot) {
                continue;
            }
            slot.full.word.unseal();
            slot.note(false);
            marks::mark(P::thread(), self, slot, slot.seems_calm(word.name()));
            return f(&slot.full);
        }
    }

    /// Inflates the lock if it is not inflated; returns its word.
    pub(super) fn inflated(&self) -> RwWord {
        let word = self.load();
        if word.is_inflated() { word } else { self.inflate(word) }
    }

    #[cold]
    fn inflate(&self, mut word: RwWord) -> RwWord {
        let slots = P::rwsem_slots();
        if word.is_nascent() {
            let slot = slots.take_for(word.policy());
            let new = RwWord::inflated(slot.name).sticky();
            return self.install(word, new).unwrap_or_else(|now| {
                slots.set_aside(slot);
                now
            });
        }
        let slot = slots.take_sealed();
        while !word.is_inflated() {
            adopt(slot, word);
            match self.install(word, RwWord::inflated(slot.name)) {
                Ok(new) => return new,
                Err(now) => {
                    disown(slot, word);
                    word = now;
                }
            }
        }
        slots.give(slot);
        word
    }

    fn install(&self, word: RwWord, new: RwWord) -> Result<RwWord, RwWord> {
        // Acquire and Release: orders the sections inside the thin lock, whose holders the slot has
        // adopted, before those of whoever finds that the word names the slot.
        self.exchange(word, new, Ordering::AcqRel).map(|()| new)
    }

    /// A seal kept the caller out of the lock, which was inflated, with this word: takes it off.
    #[cold]
    pub(super) fn open(&self, word: RwWord) {
        match self.slot(word).pin() {
            Ok(pin) if self.names(word) => pin.slot().full.word.unseal(),
            Ok(_) => {}
            Err(closed) => self.finish(word, &closed),
        }
    }

    /// The slot of the lock, which was inflated, with this word, is closed: if that is for this lock,
    /// makes it thin in place of whoever closed the slot, who is counted in the word then.
    fn finish(&self, word: RwWord, closed: &Closed<'_, P, RwSem<P>>) {
        // Without a seal, others read beside the reader that closed it, which will find them.
        if !word.is_sticky() && (closed.by == Holder::Writer || closed.slot().full.word.is_sealed())
        {
            // Acquire and Release: those who come now find what was done before the slot was closed.
            _ = self.exchange(word, share(closed.by), Ordering::AcqRel);
        }
    }

    /// The caller, who holds the full lock in this way and is alone there, leaves and makes the lock
    /// thin; a reader has sealed it, and so has one who trims the lock, and has pinned the slot. Not
    /// if somebody has pinned it: then there is no seal. Nothing of the lock is touched after the
    /// exchange that lets the next owner have it.
    #[cold]
    pub(super) fn deflate(
        &self,
        word: RwWord,
        slot: &'static Slot<P, RwSem<P>>,
        by: Holder,
    ) -> bool {
        if !slot.close(by) && !active(Fault::DeflatesPinned) {
            slot.full.word.unseal();
            return false;
        }
        // A thread that had pinned the slot may have taken the seal off.
        if by != Holder::Writer && !slot.full.word.is_sealed() {
            slot.reopen();
            return false;
        }
        marks::unmark::<P, _>(self);
        match self.exchange(word, RwWord::FREE, Ordering::Release) {
            Ok(()) => give_back(slot, by),
            // Somebody has made it sticky.
            Err(now) if now.is_as(word) => {
                slot.reopen();
                slot.full.word.unseal();
                return false;
            }
            // Somebody who came too late has made it thin: see `finish`.
            Err(_) => {
                give_back(slot, by);
                match by {
                    Holder::Nobody => {}
                    Holder::Reader => self.leave(Access::Read),
                    Holder::Writer => self.leave(Access::Write),
                }
            }
        }
        true
    }

    /// Gives the full lock back to the pool, unless somebody holds it or waits, or the lock
    /// [keeps](Self::keeps_full) it. Returns whether the lock has none now. Others may use it
    /// meanwhile.
    pub fn trim(&self) -> bool {
        let word = self.load();
        if word.is_inflated()
            && !word.is_sticky()
            && let Ok(pin) = self.slot(word).pin()
            && self.names(word)
        {
            let slot = pin.slot();
            slot.full.word.unseal();
            _ = slot.full.word.seal_free() && self.deflate(word, slot, Holder::Nobody);
        }
        !self.is_inflated()
    }
}

impl<P: PooledPlatform> Drop for ThinRwSem<P> {
    fn drop(&mut self) {
        let word = self.load();
        if word.is_inflated() {
            let slot = self.slot(word);
            slot.full.set_events(None);
            P::rwsem_slots().give_up(slot);
        }
    }
}

/// What a thin lock's word is that is held in this way.
fn share(by: Holder) -> RwWord {
    match by {
        Holder::Nobody => RwWord::FREE,
        Holder::Reader => RwWord::READ,
        Holder::Writer => RwWord::WRITTEN,
    }
}

/// The slot, which whoever holds it in this way has closed, is no lock's any more.
fn give_back<P: PooledPlatform>(slot: &'static Slot<P, RwSem<P>>, by: Holder) {
    match by {
        Holder::Nobody => {}
        Holder::Reader => slot.full.word.disown_readers(1),
        Holder::Writer => slot.full.word.seal(),
    }
    slot.reopen();
    P::rwsem_slots().give(slot);
}

/// The slot, which no word names yet, gets the holders of a thin lock.
fn adopt<P: Platform>(slot: &Slot<P, RwSem<P>>, word: RwWord) {
    if word.is_written() {
        slot.full.word.adopt_sealed_writer();
    } else {
        // SAFETY: nobody holds a sealed lock; a thread that is late counts itself for a moment only.
        unsafe { slot.full.adopt_readers(word.readers()) };
        if word.is_upgradable() {
            slot.full.word.adopt_upgradable();
        }
    }
}

/// Takes the adopted holders off the slot, which no word names.
fn disown<P: Platform>(slot: &Slot<P, RwSem<P>>, word: RwWord) {
    if word.is_written() {
        slot.full.word.seal();
    } else {
        slot.full.word.disown_readers(word.readers());
        if word.is_upgradable() {
            slot.full.word.disown_upgradable();
        }
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

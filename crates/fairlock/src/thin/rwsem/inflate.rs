//! How a thin lock comes to a full one of the pool, and becomes thin again.

use core::sync::atomic::Ordering;

use super::{
    INFLATED, NASCENT, READER_SHIFT, STICKY, ThinRwSem, UPGRADABLE, WRITER, inflated, name,
};
use crate::fault::{Fault, active};
use crate::platform::{Platform, PooledPlatform};
use crate::rwsem::RwSem;
use crate::thin::slot::Slot;
use crate::thin::{marks, nascent};

impl<P: PooledPlatform> ThinRwSem<P> {
    /// Runs `f` on the full lock, which stays this lock's meanwhile.
    pub(crate) fn on_full<R>(&self, f: impl FnOnce(&'static RwSem<P>) -> R) -> R {
        loop {
            let word = self.inflated();
            let slot = self.slot(word);
            if word & STICKY != 0 {
                return f(&slot.full);
            }
            let Some(_pin) = slot.pin() else {
                // The slot is closed: its only holder is about to make the lock thin.
                P::pause();
                continue;
            };
            if !self.names(word) && !active(Fault::PinsAnySlot) {
                continue;
            }
            slot.full.unseal();
            slot.note(false);
            marks::mark(P::thread(), self, slot, slot.seems_calm(name(word)));
            return f(&slot.full);
        }
    }

    /// Inflates the lock if it is not inflated; returns its word.
    pub(super) fn inflated(&self) -> u64 {
        let word = self.load();
        if word & INFLATED != 0 { word } else { self.inflate(word) }
    }

    #[cold]
    fn inflate(&self, mut word: u64) -> u64 {
        let slots = P::rwsem_slots();
        if word & NASCENT != 0 {
            let slot = slots.take_for(nascent::policy(word));
            return self.install(word, slot, STICKY).unwrap_or_else(|now| {
                slots.set_aside(slot);
                now
            });
        }
        let slot = slots.take_sealed();
        while word & INFLATED == 0 {
            adopt(slot, word);
            match self.install(word, slot, 0) {
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

    fn install(&self, word: u64, slot: &'static Slot<P, RwSem<P>>, flags: u64) -> Result<u64, u64> {
        let new = inflated(slot.name) | flags;
        // Acquire and Release: orders the sections inside the thin lock, whose holders the slot has
        // adopted, before those of whoever finds that the word names the slot.
        self.exchange(word, new, Ordering::AcqRel).map(|()| new)
    }

    /// The only holder, in place of a release, makes the lock thin, and free. Not if somebody
    /// waits. Nothing of the lock is touched after the exchange.
    #[cold]
    pub(super) fn deflate(&self, word: u64, slot: &'static Slot<P, RwSem<P>>) -> bool {
        if !slot.close() && !active(Fault::DeflatesPinned) {
            return false;
        }
        marks::unmark::<P, _>(self);
        // Fails if somebody has made it sticky.
        let thin = self.exchange(word, 0, Ordering::Release).is_ok();
        if thin {
            slot.full.seal();
        }
        slot.reopen();
        if thin {
            P::rwsem_slots().give(slot);
        }
        thin
    }

    /// Gives the full lock back to the pool, unless somebody holds it or waits, or the lock
    /// [keeps](Self::keeps_full) it. Returns whether the lock has none now. Others may use it
    /// meanwhile.
    pub fn trim(&self) -> bool {
        let word = self.load();
        if word & INFLATED != 0 && word & STICKY == 0 && self.try_write() {
            let word = self.load();
            // SAFETY: just taken; the slot stays as long as there is a holder.
            unsafe {
                if word & INFLATED == 0 || word & STICKY != 0 {
                    self.unlock_write();
                } else if !self.deflate(word, self.slot(word)) {
                    self.slot(word).full.unlock_write();
                }
            }
        }
        !self.is_inflated()
    }
}

impl<P: PooledPlatform> Drop for ThinRwSem<P> {
    fn drop(&mut self) {
        let word = self.load();
        if word & INFLATED != 0 {
            let slot = self.slot(word);
            slot.full.set_events(None);
            P::rwsem_slots().give_up(slot);
        }
    }
}

/// The slot, which no word names yet, gets the holders of a thin lock.
fn adopt<P: Platform>(slot: &Slot<P, RwSem<P>>, word: u64) {
    if word & WRITER != 0 {
        slot.full.adopt_sealed_writer();
    } else {
        // SAFETY: nobody holds a sealed lock; a thread that is late counts itself for a moment only.
        unsafe { slot.full.adopt_readers((word >> READER_SHIFT) as usize) };
        if word & UPGRADABLE != 0 {
            slot.full.adopt_upgradable();
        }
    }
}

/// Takes the adopted holders off the slot, which no word names.
fn disown<P: Platform>(slot: &Slot<P, RwSem<P>>, word: u64) {
    if word & WRITER != 0 {
        slot.full.seal();
    } else {
        slot.full.disown_readers((word >> READER_SHIFT) as usize);
        if word & UPGRADABLE != 0 {
            slot.full.disown_upgradable();
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

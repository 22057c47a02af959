//! The first eight bytes of a lock: the thin lock, or where the inflated one is.
//!
//! | bits | thin | inflated |
//! |---|---|---|
//! | 0 | 0 | 1: `INFLATED` |
//! | 1 | `WRITER`: a writer is inside | |
//! | 1-31 | | the number of the slot |
//! | 8-62 | how many readers are inside | |
//! | 63 | `FULL`: no more can be counted | |
//! | 45-63 | | the nonce |
//!
//! Zero is a free lock, as in a static initialiser. Every change is one
//! compare-exchange:
//!
//! ```text
//! free <-> n readers          enter, leave
//! free <-> writer             enter, leave
//! thin --> inflated           the slot has adopted exactly what the thin word says
//! inflated --> free           the program's `destroy`, or a stray word
//!                             (also that of a lock whose slot was taken away while it was idle)
//! ```
//!
//! A holder that finds the lock inflated when it leaves was adopted, and leaves by the slot.
//!
//! A slot knows the address of its lock, and that lock's nonce. A word that names a slot that does
//! not exist or is not this lock's is *stray*: the program copied or moved the bytes of a lock, or
//! shares its memory with another process, or uses it for a new lock. A lock with a stray word is
//! free.
//!
//! Orderings: entering is an Acquire and leaving a Release, so one section happens
//! before the next; a section inside the thin lock happens before those in the slot,
//! as the installing exchange acquires what came before it and whoever follows the
//! number acquires that. The same pair publishes what was adopted.

#[cfg(all(test, fairlock_loom))]
mod head_loom;

use core::marker::PhantomData;
use core::sync::atomic::Ordering;

use fairlock::platform::{Atomic, Platform};

use crate::slot::{NONCE_BITS, Owner, Slot, Slots};

const INFLATED: u64 = 1 << 0;
const WRITER: u64 = 1 << 1;
const READER_SHIFT: u32 = 8;
const READER: u64 = 1 << READER_SHIFT;
const FULL: u64 = 1 << 63;

const SLOT_SHIFT: u32 = 1;
const SLOT_MASK: u64 = (1 << 31) - 1;
const NONCE_SHIFT: u32 = u64::BITS - NONCE_BITS;

/// How often a thread tries before it concludes that others crowd the word: then an inflated lock's
/// `fetch_add` is better. In attempts; compared with those of this call.
const ATTEMPTS: u32 = 4;

/// What came of an attempt to enter.
pub(crate) enum Entry<P: Platform> {
    /// The caller is inside.
    Entered,
    /// Somebody is in the way.
    Conflict,
    /// Others changed the word, time and again.
    Crowded,
    /// One more reader cannot be counted.
    Full,
    /// The lock is inflated: to this slot.
    Inflated(&'static Slot<P>),
}

/// How the caller was inside.
pub(crate) enum Exit<P: Platform> {
    Reader,
    Writer,
    /// The caller was not inside.
    Free,
    /// The lock is inflated: to this slot.
    Inflated(&'static Slot<P>),
}

/// Who is inside a thin lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holders {
    Readers(u64),
    Writer,
}

#[repr(transparent)]
pub(crate) struct Head<P: Platform, S: Slots<P>> {
    word: P::AtomicU64,
    slots: PhantomData<S>,
}

impl<P: Platform, S: Slots<P>> Head<P, S> {
    /// Enters as a reader, if the lock is thin and nothing is in the way at once. The lock is
    /// mostly free: a load to see that would only take time.
    #[inline(always)]
    pub(crate) fn read_at_once(&self) -> bool {
        match self.exchange(0, READER) {
            Ok(()) => true,
            Err(word) => {
                word & (INFLATED | WRITER | FULL) == 0 && self.exchange(word, word + READER).is_ok()
            }
        }
    }

    /// As [`read_at_once`](Self::read_at_once), as a writer.
    #[inline(always)]
    pub(crate) fn write_at_once(&self) -> bool {
        self.exchange(0, WRITER).is_ok()
    }

    /// As [`write_at_once`](Self::write_at_once), where the process has one thread, whose signal
    /// handlers leave a lock as they find it: without a locked operation.
    #[inline(always)]
    #[cfg_attr(test, allow(dead_code, reason = "called by mutexes"))]
    pub(crate) fn write_alone(&self) -> bool {
        // Relaxed, here and below: there is no other thread to order it for. A thread that is made
        // later sees it.
        let free = self.word.load(Ordering::Relaxed) == 0;
        if free {
            self.word.store(WRITER, Ordering::Relaxed);
        }
        free
    }

    #[inline(always)]
    #[cfg_attr(test, allow(dead_code, reason = "called by mutexes"))]
    pub(crate) fn leave_write_alone(&self) -> bool {
        let writes = self.word.load(Ordering::Relaxed) == WRITER;
        if writes {
            self.word.store(0, Ordering::Relaxed);
        }
        writes
    }

    /// Leaves a thin lock as a reader, if nobody changes the word meanwhile. Mostly there is no
    /// other reader.
    #[inline(always)]
    pub(crate) fn leave_read_at_once(&self) -> bool {
        match self.give_up(READER, 0) {
            Ok(()) => true,
            Err(word) => {
                let read = word & (INFLATED | WRITER) == 0 && word >= READER;
                read && self.give_up(word, word - READER).is_ok()
            }
        }
    }

    /// As [`leave_read_at_once`](Self::leave_read_at_once), as a writer.
    #[inline(always)]
    pub(crate) fn leave_write_at_once(&self) -> bool {
        self.give_up(WRITER, 0).is_ok()
    }

    /// Enters as a reader, or says what is in the way. `address` is the lock's.
    pub(crate) fn read(&self, address: usize) -> Entry<P> {
        self.enter(address, |word| match word {
            word if word & WRITER != 0 => Err(Entry::Conflict),
            word if word & FULL != 0 => Err(Entry::Full),
            word => Ok(word + READER),
        })
    }

    /// As [`read`](Self::read), as a writer.
    pub(crate) fn write(&self, address: usize) -> Entry<P> {
        self.enter(address, |word| if word == 0 { Ok(WRITER) } else { Err(Entry::Conflict) })
    }

    fn enter(&self, address: usize, step: impl Fn(u64) -> Result<u64, Entry<P>>) -> Entry<P> {
        let mut word = self.load();
        for _ in 0..ATTEMPTS {
            let thin = match Self::follow(word, address) {
                Some(slot) => return Entry::Inflated(slot),
                None => thin(word),
            };
            let next = match step(thin) {
                Ok(next) => next,
                Err(entry) => return entry,
            };
            match self.exchange(word, next) {
                Ok(()) => return Entry::Entered,
                Err(now) => word = now,
            }
        }
        Entry::Crowded
    }

    /// Leaves. `leave_writer` is called before a writer leaves: after that the lock may be gone.
    pub(crate) fn leave(&self, address: usize, leave_writer: impl Fn()) -> Exit<P> {
        let mut word = self.load();
        loop {
            if let Some(slot) = Self::follow(word, address) {
                return Exit::Inflated(slot);
            }
            let (next, exit) = match thin(word) {
                0 => return Exit::Free,
                word if word & WRITER != 0 => {
                    leave_writer();
                    (0, Exit::Writer)
                }
                word => (word - READER, Exit::Reader),
            };
            match self.give_up(word, next) {
                Ok(()) => return exit,
                Err(now) => word = now,
            }
        }
    }

    /// Whether somebody is inside the thin lock.
    #[cfg_attr(test, allow(dead_code, reason = "asked before a mutex is destroyed"))]
    pub(crate) fn is_held(&self) -> bool {
        thin(self.load()) != 0
    }

    /// The slot, if the lock is inflated.
    pub(crate) fn slot(&self, address: usize) -> Option<&'static Slot<P>> {
        Self::follow(self.load(), address)
    }

    /// Moves the lock, with whoever is inside, to `slot`, which is this lock's and known to nobody
    /// else. Fails with the lock's slot if it is inflated already.
    pub(crate) fn inflate(
        &self,
        address: usize,
        slot: &'static Slot<P>,
    ) -> Result<(), &'static Slot<P>> {
        let mut word = self.load();
        loop {
            if let Some(other) = Self::follow(word, address) {
                return Err(other);
            }
            slot.adopt(holders(word));
            match self.install(word, slot) {
                Ok(()) => return Ok(()),
                Err(now) => {
                    // SAFETY: those just adopted are another slot's, or have left.
                    unsafe { slot.sem().forget_holders() };
                    word = now;
                }
            }
        }
    }

    fn install(&self, word: u64, slot: &'static Slot<P>) -> Result<(), u64> {
        let number = u64::from(slot.number) << SLOT_SHIFT;
        let inflated = INFLATED | number | (slot.nonce() << NONCE_SHIFT);
        self.word.compare_exchange(word, inflated, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
    }

    /// Makes the lock free, and thin.
    pub(crate) fn clear(&self) {
        // Release: what was done to the old lock comes before what is done to the next.
        self.word.store(0, Ordering::Release);
    }

    /// Acquire: a thread that finds a number may follow it.
    fn load(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    /// Acquire: success is ownership; if it fails, the word found may be a number.
    #[inline(always)]
    fn exchange(&self, word: u64, next: u64) -> Result<(), u64> {
        self.word.compare_exchange(word, next, Ordering::Acquire, Ordering::Acquire).map(|_| ())
    }

    #[inline(always)]
    fn give_up(&self, word: u64, next: u64) -> Result<(), u64> {
        self.word.compare_exchange(word, next, Ordering::Release, Ordering::Acquire).map(|_| ())
    }

    /// The slot that the word names, unless it is stray.
    #[inline(always)]
    fn follow(word: u64, address: usize) -> Option<&'static Slot<P>> {
        if word & INFLATED == 0 {
            return None;
        }
        let slot = S::get((word >> SLOT_SHIFT & SLOT_MASK) as u32)?;
        loop {
            match slot.owner(address, word >> NONCE_SHIFT) {
                Owner::This => return Some(slot),
                Owner::Other => return None,
                Owner::Doubtful => S::settle(slot),
            }
        }
    }
}

/// The word, or zero if it names a slot that turned out to be stray: then the lock is free.
fn thin(word: u64) -> u64 {
    if word & INFLATED == 0 { word } else { 0 }
}

fn holders(word: u64) -> Holders {
    match thin(word) {
        word if word & WRITER != 0 => Holders::Writer,
        word => Holders::Readers(word >> READER_SHIFT),
    }
}

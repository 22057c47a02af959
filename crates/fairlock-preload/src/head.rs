//! The first eight bytes of a lock: the thin lock, or where the inflated one is.
//!
//! [`Word`] says what the bits mean. Every change is one
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

use fairlock::platform::{Atomic, PooledPlatform};

use crate::slot::{Slot, Slots};
use crate::word::{Owner, Word};

/// How often a thread tries before it concludes that others crowd the word: then an inflated lock's
/// `fetch_add` is better. In attempts; compared with those of this call.
const ATTEMPTS: u32 = 4;

/// What came of an attempt to enter.
pub(crate) enum Entry<P: PooledPlatform> {
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
pub(crate) enum Exit<P: PooledPlatform> {
    Reader,
    Writer,
    /// The caller was not inside.
    Free,
    /// The lock is inflated: to this slot.
    Inflated(&'static Slot<P>),
}

#[repr(transparent)]
pub(crate) struct Head<P: PooledPlatform, S: Slots<P>> {
    word: P::AtomicU64,
    slots: PhantomData<S>,
}

impl<P: PooledPlatform, S: Slots<P>> Head<P, S> {
    /// Enters as a reader, if the lock is thin and nothing is in the way at once. The lock is
    /// mostly free: a load to see that would only take time.
    #[inline(always)]
    pub(crate) fn read_fast(&self) -> bool {
        match self.exchange(Word::FREE, Word::READ) {
            Ok(()) => true,
            Err(word) => word.lets_readers_in() && self.exchange(word, word.with_reader()).is_ok(),
        }
    }

    /// As [`read_fast`](Self::read_fast), as a writer.
    #[inline(always)]
    pub(crate) fn write_fast(&self) -> bool {
        self.exchange(Word::FREE, Word::WRITTEN).is_ok()
    }

    /// Changes the word if it is `from`, where the process has one thread, whose signal handlers leave a lock as
    /// they find it: without a locked operation.
    #[inline(always)]
    pub(crate) fn exchange_alone(&self, from: Word, to: Word) -> bool {
        // Relaxed: there is no other thread to order it for. A thread that is made later sees it.
        let is_so = self.word.load(Ordering::Relaxed) == from.0;
        if is_so {
            self.word.store(to.0, Ordering::Relaxed);
        }
        is_so
    }

    /// Leaves a thin lock as a reader, if nobody changes the word meanwhile. Mostly there is no
    /// other reader; `beside` says whether to leave if there is.
    #[inline(always)]
    pub(crate) fn leave_read_fast(&self, beside: impl FnOnce() -> bool) -> bool {
        let leave = |word: Word| self.give_up(word, word.without_reader()).is_ok();
        match self.give_up(Word::READ, Word::FREE) {
            Ok(()) => true,
            Err(word) => word.is_read() && beside() && leave(word),
        }
    }

    /// As [`leave_read_fast`](Self::leave_read_fast), as a writer.
    #[inline(always)]
    pub(crate) fn leave_write_fast(&self) -> bool {
        self.give_up(Word::WRITTEN, Word::FREE).is_ok()
    }

    /// Enters as a reader, or says what is in the way. `address` is the lock's.
    pub(crate) fn read(&self, address: usize) -> Entry<P> {
        self.enter(address, |word| match word {
            word if word.is_written() => Err(Entry::Conflict),
            word if word.is_full() => Err(Entry::Full),
            word => Ok(word.with_reader()),
        })
    }

    /// As [`read`](Self::read), as a writer.
    pub(crate) fn write(&self, address: usize) -> Entry<P> {
        self.enter(address, |word| match word {
            Word::FREE => Ok(Word::WRITTEN),
            _ => Err(Entry::Conflict),
        })
    }

    fn enter(&self, address: usize, step: impl Fn(Word) -> Result<Word, Entry<P>>) -> Entry<P> {
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
                Word::FREE => return Exit::Free,
                word if word.is_written() => {
                    leave_writer();
                    (Word::FREE, Exit::Writer)
                }
                word => (word.without_reader(), Exit::Reader),
            };
            match self.give_up(word, next) {
                Ok(()) => return exit,
                Err(now) => word = now,
            }
        }
    }

    /// Whether somebody is inside the thin lock.
    pub(crate) fn is_held(&self) -> bool {
        thin(self.load()) != Word::FREE
    }

    /// The slot, if the lock is inflated.
    pub(crate) fn slot(&self, address: usize) -> Option<&'static Slot<P>> {
        Self::follow(self.load(), address)
    }

    /// Whether the lock is inflated to `slot`, which need not be looked for.
    #[inline(always)]
    pub(crate) fn is_inflated_to(&self, slot: &'static Slot<P>, address: usize) -> bool {
        let word = self.load();
        word.is_inflated() && word.slot() == slot.number && Self::is_of(slot, word, address)
    }

    /// The slot, if the lock is inflated, and that is in no doubt.
    #[inline(always)]
    pub(crate) fn certain_slot(&self, address: usize) -> Option<&'static Slot<P>> {
        let word = self.load();
        let slot = word.is_inflated().then(|| S::get(word.slot()))??;
        matches!(slot.owner(address, word.nonce()), Owner::This).then_some(slot)
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
            slot.adopt(thin(word));
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

    fn install(&self, word: Word, slot: &'static Slot<P>) -> Result<(), Word> {
        let inflated = Word::inflated(slot.number, slot.nonce());
        self.replace(word, inflated, Ordering::AcqRel)
    }

    /// Makes the lock free, and thin.
    pub(crate) fn clear(&self) {
        // Release: what was done to the old lock comes before what is done to the next.
        self.word.store(Word::FREE.0, Ordering::Release);
    }

    /// Acquire: a thread that finds a number may follow it.
    fn load(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// Acquire: success is ownership.
    #[inline(always)]
    fn exchange(&self, word: Word, next: Word) -> Result<(), Word> {
        self.replace(word, next, Ordering::Acquire)
    }

    #[inline(always)]
    fn give_up(&self, word: Word, next: Word) -> Result<(), Word> {
        self.replace(word, next, Ordering::Release)
    }

    /// Acquire, if it fails: the word found may be a number.
    #[inline(always)]
    fn replace(&self, word: Word, next: Word, success: Ordering) -> Result<(), Word> {
        let replaced = self.word.compare_exchange(word.0, next.0, success, Ordering::Acquire);
        replaced.map(|_| ()).map_err(Word)
    }

    /// The slot that the word names, unless it is stray.
    #[inline(always)]
    fn follow(word: Word, address: usize) -> Option<&'static Slot<P>> {
        let slot = word.is_inflated().then(|| S::get(word.slot()))??;
        Self::is_of(slot, word, address).then_some(slot)
    }

    /// Whether the slot, whose number the word has, is the lock's.
    #[inline(always)]
    fn is_of(slot: &'static Slot<P>, word: Word, address: usize) -> bool {
        loop {
            match slot.owner(address, word.nonce()) {
                Owner::This => return true,
                Owner::Other => return false,
                Owner::Doubtful => S::settle(slot),
            }
        }
    }
}

/// The word, or a free one if it names a slot that turned out to be stray: then the lock is free.
fn thin(word: Word) -> Word {
    if word.is_inflated() { Word::FREE } else { word }
}

//! Upgradable reads: a reader that may become the writer, with no other writer in between.
//!
//! An upgradable reader is counted as a reader, and sets `UPGRADABLE`, which keeps other upgradable
//! readers out; readers come and go beside it. A thread that waits to read upgradably waits on the
//! writers' side of the queue. So it is served in the writers' order, and as soon as a writer would
//! be; but readers may be inside when it gets in.
//!
//! ```text
//! upgrade    in one step it sets WRITER_LOCKED and is no longer counted: from here on
//!            nobody gets in, closed or not, whoever's turn it is
//! drain      it waits for the readers inside to leave; the last one, which finds
//!            WRITER_LOCKED with the count that it takes to zero, wakes it
//! done       when the count is zero it clears UPGRADABLE, and is a writer like any other
//! give up    in one step it is counted again, and WRITER_LOCKED is gone: a downgrade
//! ```
//!
//! So an upgrade waits for no more than the sections of those that are inside, and nobody who holds
//! the lock ever waits in the queue. Readers that may be inside already and read again
//! (`read_recursive`) get in while the upgrader drains the lock: otherwise they
//! would wait for it, and it for them.
//!
//! Why no wake-up is lost: the upgrader makes itself known under the queue lock, in the
//! section in which it sets `WRITER_LOCKED`. Whoever takes the count to zero after that sees
//! the flag in that same step, and then finds the upgrader under the queue lock. That
//! goes for counts of readers that only pass through, too (rule 15).

use core::sync::atomic::Ordering;

use super::sem::{Rules, Sem};
use super::word::{Flags, Word};
use crate::events::Event;
use crate::platform::Platform;
use crate::wait::{Access, Kind, Thread, WATCH_NS, Wait, WaitContext, WaitError};

impl<P: Platform, D: Rules<P>> Sem<P, D> {
    // ---- in ----

    #[inline]
    pub(crate) fn upgradable_read(&self) {
        if !self.upgradable_fast() {
            // Waiting for ever ends with the lock only.
            let _ = self.upgradable_slow(&WaitContext::FOREVER);
        }
    }

    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub(crate) fn try_upgradable_read(&self) -> bool {
        self.upgradable_fast() || self.upgradable_beside_readers()
    }

    pub(crate) fn upgradable_read_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        if self.upgradable_fast() { Ok(()) } else { self.upgradable_slow(&wait.begin()) }
    }

    /// One compare-exchange from 0.
    #[inline(always)]
    pub(super) fn upgradable_fast(&self) -> bool {
        // Acquire: owns the lock on success (rule 3).
        self.word
            .compare_exchange(Word::FREE, Word::UPGRADABLE, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the lock beside readers, if a reader may come in and no other is upgradable.
    fn upgradable_beside_readers(&self) -> bool {
        let may = |word: Word| word.is_open_to_readers() && !word.is_upgradable();
        self.take_if(Access::Upgradable, may)
    }

    #[cold]
    fn upgradable_slow(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        if self.upgradable_beside_readers() {
            return Ok(());
        }
        D::upgradable(self, context)
    }

    // ---- out ----

    /// # Safety
    /// The caller holds the lock upgradably.
    #[inline]
    pub(crate) unsafe fn unlock_upgradable(&self) {
        // Release: what was read under the lock stays before the next writer.
        let before = self.word.leave(Access::Upgradable, Ordering::Release);
        if before.has_waiters() {
            self.upgradable_left(before);
        }
    }

    /// # Safety
    /// The caller holds the lock upgradably.
    pub(crate) unsafe fn unlock_upgradable_fair(&self) {
        D::close_for_next(self);
        // SAFETY: the caller's promise.
        unsafe { self.unlock_upgradable() }
    }

    /// # Safety
    /// The caller holds the lock upgradably; after the call, for reading.
    pub(crate) unsafe fn downgrade_upgradable(&self) {
        // Release: the next upgradable reader may write what this one has read.
        let before = self.word.clear(Flags::UPGRADABLE, Ordering::Release);
        if before.has_waiters() {
            // It stays inside, as a reader.
            self.upgradable_left(before.with_reader());
        }
    }

    /// Wakes whoever waits for `UPGRADABLE` to be clear, or for a free lock. `before` is the word
    /// that still counted the one that has left.
    #[cold]
    fn upgradable_left(&self, before: Word) {
        D::upgradable_left(self, before);
    }

    // ---- up and down ----

    /// # Safety
    /// The caller holds the lock for writing; after the call, upgradably.
    pub(crate) unsafe fn downgrade_to_upgradable(&self) {
        self.become_reader(Access::Upgradable);
    }

    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing. A thread that holds
    /// it for reading, too, waits for itself.
    #[inline]
    pub(crate) unsafe fn upgrade(&self) {
        // SAFETY: the caller's promise.
        if !unsafe { self.try_upgrade() } {
            // Waiting for ever ends with the lock only.
            let _ = self.upgrade_slow(&WaitContext::FOREVER);
        }
    }

    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing where it is true.
    #[inline]
    #[must_use = "it says in which way the caller holds the lock"]
    pub(crate) unsafe fn try_upgrade(&self) -> bool {
        let mut word = Word::UPGRADABLE;
        // With WRITER_LOCKED this is a slot that nobody in particular holds until it is unsealed
        // (`thin`): that is not this thread's to keep.
        while word.readers() == 1 && !word.is_written() {
            // Acquire: owns what readers have left (rule 3).
            let writer = word.upgraded();
            match self.word.compare_exchange(word, writer, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    D::note_upgrade(self);
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }

    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing if it succeeded.
    pub(crate) unsafe fn upgrade_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        if unsafe { self.try_upgrade() } { Ok(()) } else { self.upgrade_slow(&wait.begin()) }
    }

    /// Others are inside.
    #[cold]
    fn upgrade_slow(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let me = P::thread();
        me.parker.forget_notification();
        self.queue.with(|q| {
            q.upgrader = Some(me);
            // Relaxed: this thread owns nothing more yet. It is in as a reader, and stays in.
            self.word.change(Access::Shared, Access::Exclusive, Ordering::Relaxed);
        });
        let result = context.listed(me, || self.drain(me, context));
        self.queue.with(|q| q.upgrader = None);
        match result {
            Ok(()) => D::note_upgrade(self),
            Err(_) => self.become_reader(Access::Shared),
        }
        result
    }

    /// Waits until the readers inside have left.
    fn drain(&self, me: &'static Thread<P>, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let mut spun = false;
        let mut ended = context.expired(P::now);
        loop {
            // After the end of the wait: its last act is a try.
            if self.take_drained() {
                return Ok(());
            }
            if let Some(error) = ended {
                return Err(error);
            }
            if !spun {
                spun = true;
                if self.word.spin_until(WATCH_NS, Word::is_drained) {
                    continue;
                }
            }
            self.events.count(Event::sleep(Kind::Writer));
            ended = context.sleep(&me.parker, None);
        }
    }

    /// Makes the upgrader a writer, if all readers have left.
    fn take_drained(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word.is_drained() {
            // Acquire: owns the lock on success (rule 3).
            match self.word.compare_exchange_weak(
                word,
                word.without(Flags::UPGRADABLE),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }
}

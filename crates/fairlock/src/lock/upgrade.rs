//! Upgradable reads: a reader that may become the writer, with no other writer in between.
//!
//! An upgradable reader is counted as a reader, and sets `UPGRADABLE`, which keeps other upgradable readers out; readers
//! come and go beside it. A thread that waits to read upgradably waits on the writers' side of the queue. So it is
//! served in the writers' order, and as soon as a writer would be; but readers may be inside when it gets in.
//!
//! ```text
//! upgrade    in one step it sets WRITER and is no longer counted: from here on nobody gets in,
//!            closed or not, whatever side's turn it is
//! drain      it waits for the readers inside to leave; the last one, which finds WRITER with the
//!            count that it takes to zero, wakes it
//! done       when the count is zero it clears UPGRADABLE, and is a writer like any other
//! give up    in one step it is counted again, and WRITER is gone: a downgrade
//! ```
//!
//! So an upgrade waits for no more than the sections of those that are inside, and no thread that holds the lock waits in
//! the queue. Readers that may be inside already and read again (`read_recursive`) get in while the upgrader drains the
//! lock: otherwise they would wait for it, and it for them.
//!
//! Why no wake-up is lost: the upgrader makes itself known in the lock's slot, under the queue lock, in the section in
//! which it sets `WRITER`. A thread that takes the count to zero after that sees the flag and the slot's name in that same
//! step, and then finds the upgrader under the queue lock. That goes for counts of readers that only pass through, too.
//! Nobody takes the name out meanwhile: only a thread on its way in does (R6).

use core::sync::atomic::Ordering;

use super::rwlock::RawRwLock;
use super::slot::PooledPlatform;
use super::turn::Turns;
use super::word::Word;
use super::words::{Names, One, Words};
use crate::events::Event;
use crate::platform::Thread;
use crate::wait::{Access, Kind, WATCH_NS, Wait, WaitContext, WaitError, nap};

impl<P: PooledPlatform> RawRwLock<P> {
    // ---- in ----

    /// Takes the lock for reading, as the only reader that may [upgrade](Self::upgrade); blocks until it has it. Other
    /// readers come and go beside it.
    ///
    /// # Panics
    /// If there are [`TooManyReaders`](WaitError::TooManyReaders).
    #[inline]
    pub fn upgradable_read(&self) {
        self.enter_for_ever(Access::Upgradable);
    }

    /// As [`upgradable_read`](Self::upgradable_read), if that needs no waiting.
    #[inline]
    #[must_use = "where it is true, the caller holds the lock and has to give it up"]
    pub fn try_upgradable_read(&self) -> bool {
        self.try_enter(Access::Upgradable)
    }

    /// As [`upgradable_read`](Self::upgradable_read); gives up as `wait` says.
    pub fn upgradable_read_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        self.enter_with(Access::Upgradable, wait)
    }

    // ---- out ----

    /// Gives up the lock held upgradably.
    ///
    /// # Safety
    /// The caller holds the lock upgradably.
    #[inline]
    pub unsafe fn unlock_upgradable(&self) {
        self.leave(Access::Upgradable);
    }

    /// As [`unlock_read_fair`](Self::unlock_read_fair), of a lock held upgradably.
    ///
    /// # Safety
    /// The caller holds the lock upgradably.
    pub unsafe fn unlock_upgradable_fair(&self) {
        self.raw.close_for_next();
        self.leave(Access::Upgradable);
    }

    /// Turns the lock held upgradably into one held for reading.
    ///
    /// # Safety
    /// The caller holds the lock upgradably; after the call, for reading.
    pub unsafe fn downgrade_upgradable(&self) {
        // Release: the next upgradable reader may write what this one has read. It stays inside, as a reader.
        let before = self.change(Access::Upgradable, Access::Shared);
        if before.has_waiters() && before.has_next_to_wake() {
            self.raw.invite_upgradable();
        }
    }

    // ---- up and down ----

    /// Turns the lock held for writing into one held upgradably, with no gap, and lets queued readers in. Never blocks.
    ///
    /// # Safety
    /// The caller holds the lock for writing; after the call, upgradably.
    pub unsafe fn downgrade_to_upgradable(&self) {
        self.become_reader(Access::Upgradable);
    }

    /// Turns the lock held upgradably into one held for writing; blocks until the other readers have left. No other
    /// writer gets in between.
    ///
    /// Where [no slot](super::RawRwLock#slots) is to be had, it looks at the lock from time to time, and keeps nobody out meanwhile.
    ///
    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing. A thread that holds it for reading, too, waits for
    /// itself.
    #[inline]
    pub unsafe fn upgrade(&self) {
        // SAFETY: the caller's promise.
        if !unsafe { self.try_upgrade() } {
            // A wait for ever ends with the lock only.
            // SAFETY: as above.
            _ = unsafe { self.upgrade_slow(&WaitContext::FOREVER) };
        }
    }

    /// As [`upgrade`](Self::upgrade), if no other reader is inside.
    ///
    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing where it is true.
    #[inline]
    #[must_use = "it says in which way the caller holds the lock"]
    pub unsafe fn try_upgrade(&self) -> bool {
        self.settle();
        // Acquire: owns what readers have left.
        let upgraded = self.words().change(Ordering::Acquire, |word| {
            (word.readers() == 1 && !word.is_odd()).then(|| word.upgraded())
        });
        upgraded.is_ok()
    }

    /// As [`upgrade`](Self::upgrade); gives up as `wait` says, and then holds the lock upgradably still.
    ///
    /// # Safety
    /// The caller holds the lock upgradably; after the call, for writing if it succeeded.
    pub unsafe fn upgrade_with(&self, wait: Wait<'_, P>) -> Result<(), WaitError> {
        // SAFETY: the caller's promise.
        let tries = || unsafe { self.try_upgrade() };
        if tries() {
            return Ok(());
        }
        let context = wait.begin();
        let Some(error) = context.expired(P::now) else {
            // SAFETY: the caller's promise.
            return unsafe { self.upgrade_slow(&context) };
        };
        // It does not turn readers away: that would be for nothing. Its last act is a try.
        tries().then_some(()).ok_or(error)
    }

    /// Others are inside.
    ///
    /// # Safety
    /// As [`upgrade_with`](Self::upgrade_with).
    #[cold]
    unsafe fn upgrade_slow(&self, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let me = P::thread();
        me.parker.forget_notification();
        let slot = loop {
            let began = self.raw.with_slot(|q, slot| {
                // Release: the slot is as it should be for a thread that follows the name. This thread owns nothing more yet:
                // it is in as a reader, and stays in.
                let begins = |word: Word| match word.name() {
                    0 if !word.is_odd() => Some(word.draining().named(slot.name())),
                    name => (name == slot.name()).then(|| word.draining()),
                };
                self.words().change(Ordering::Release, begins).ok()?;
                q.upgrader = Some(me);
                Some(slot)
            });
            match began {
                Ok(slot) => break slot,
                Err(word) if word.is_odd() => self.settle(),
                // No slot is to be had: the thread looks from time to time, and keeps nobody out meanwhile.
                Err(_) => {
                    nap::<P>();
                    // SAFETY: the caller's promise.
                    if unsafe { self.try_upgrade() } {
                        return Ok(());
                    }
                    if let Some(error) = context.expired(P::now) {
                        return Err(error);
                    }
                }
            }
        };
        let result = context.listed(me, || self.drain(me, context));
        slot.with(|q| q.upgrader = None);
        if result.is_err() {
            self.become_reader(Access::Upgradable);
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
                self.words().spin_until(context.at_most(WATCH_NS), Word::is_drained);
                ended = context.expired(P::now);
                continue;
            }
            if let Some(slot) = super::Raw::<One<P>>::slot(self.words().load()) {
                slot.events.count(Event::sleep(Kind::Writer));
            }
            ended = context.sleep(&me.parker, None);
        }
    }

    /// Makes the upgrader a writer, if all readers have left.
    fn take_drained(&self) -> bool {
        let drained = |word: Word| word.is_drained().then(|| word.drained());
        // Acquire: owns the lock on success.
        self.words().change(Ordering::Acquire, drained).is_ok()
    }

    /// The writer becomes a reader that holds the lock in this way.
    pub(super) fn become_reader(&self, to: Access) {
        // One step, so there is no gap. The readers let in see what was written.
        let before = match self.words().load().is_upgradable() {
            // The wait for the readers has ended: it is counted again.
            true => self.words().change(Ordering::AcqRel, |word| Some(word.undrained())),
            false => Ok(self.change(Access::Exclusive, to)),
        };
        let before = before.unwrap_or_else(|word| word);
        if before.has_waiters() {
            self.raw.let_readers_join();
        }
    }
}

/// Of a lock that its caller holds.
impl<P: PooledPlatform> super::Raw<One<P>> {
    /// Its holder has become a reader: readers that wait may join it.
    pub(super) fn let_readers_join(&self) {
        if let Some(slot) = Self::slot(self.load()).filter(|slot| slot.is_here()) {
            Turns { lock: self, slot }.let_readers_join();
        }
    }

    /// Its holder is upgradable no longer: if the waiter that is next waits for that, it is woken.
    #[cold]
    pub(super) fn invite_upgradable(&self) {
        if let Some(slot) = Self::slot(self.load()).filter(|slot| slot.is_here()) {
            Turns { lock: self, slot }.wake_upgradable();
        }
    }
}

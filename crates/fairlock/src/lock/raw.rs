//! A lock's word together with the slot that it names: how a thread finds the slot, brings one, gives it back, and leaves
//! the lock.

use super::holder::Holder;
use super::late::Line;
use super::slot::{FewWakes, Locked, PooledPlatform, Queued, Slot};
use super::turn::Turns;
use super::word::{Flags, Word};
use super::words::{Names, Words};
use crate::platform::{Platform, System, Thread};
use crate::wait::{Access, MISSED_NS, WAKE_NS, Waiter, give_way};

/// A lock, of which the slow path knows only the word.
#[repr(transparent)]
pub(crate) struct Raw<W>(pub(crate) W);

/// A slot of the platform of a lock.
pub(crate) type SlotOf<W> = Slot<<W as Names>::P>;

impl<W: Names> Raw<W> {
    /// The lock that has this word.
    pub(super) fn of(words: &W) -> &Self {
        // SAFETY: it consists of the word only (`repr(transparent)`).
        unsafe { &*core::ptr::from_ref(words).cast() }
    }

    /// The identity of the lock: its address.
    #[inline(always)]
    pub(super) fn id(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// The lock at `lock`, as its slot knows it: its address, and of which kind it is, as all use one pool.
    #[inline(always)]
    fn known(lock: *const Self) -> *const () {
        lock.cast::<()>().wrapping_byte_add(W::KIND)
    }

    /// The lock that a slot of this kind of lock knows by that.
    #[inline(always)]
    fn at(known: *const ()) -> *const Self {
        known.wrapping_byte_sub(W::KIND).cast()
    }

    /// How the lock's slot knows it.
    #[inline(always)]
    pub(super) fn as_known(&self) -> *const () {
        Self::known(self)
    }

    #[inline(always)]
    pub(crate) fn load(&self) -> Word {
        self.0.load()
    }

    // ---- its slot ----

    /// The slot that this word names.
    #[inline(always)]
    pub(super) fn slot(word: Word) -> Option<&'static SlotOf<W>> {
        match word.name() {
            0 => None,
            name if W::P::NAMES_MAY_BE_STRAY => W::P::slots().find(name),
            name => Some(W::P::slots().get(name)),
        }
    }

    /// The same, if it is of this process.
    #[inline(always)]
    fn slot_here(word: Word) -> Option<&'static SlotOf<W>> {
        Self::slot(word).filter(|slot| slot.is_here())
    }

    /// The word of the lock, last seen as `word`, once it names no slot of a parent of this process, or that was not made.
    pub(crate) fn here(&self, mut word: Word) -> Word {
        let is_elsewhere = |word: Word| match word.name() {
            // Bytes that are none of ours.
            0 => W::P::NAMES_MAY_BE_STRAY && !word.is_odd() && word.has_any(Flags::OF_SLOT),
            _ => Self::slot_here(word).is_none(),
        };
        while is_elsewhere(word) {
            W::P::forgetting(|| self.leave_to_parent(word));
            word = self.load();
        }
        word
    }

    /// Takes the queue lock of the lock's slot, if it has one (R3).
    pub(super) fn lock_queue(&self) -> Option<Locked<'static, W::P>> {
        loop {
            let word = self.here(self.load());
            let mut queued = Self::slot(word)?.lock();
            if self.load().name() == word.name() && self.owns(&mut queued) {
                return Some(queued);
            }
        }
    }

    /// Takes the queue lock of the slot that the word names, if that is the lock's, and nobody has its queue lock.
    #[cold]
    pub(crate) fn try_lock_queue(&self, word: Word) -> Option<Locked<'static, W::P>> {
        let mut queued = Self::slot_here(word)?.try_lock()?;
        let is_own = self.load().name() == word.name() && self.owns(&mut queued);
        is_own.then_some(queued)
    }

    /// The child of a fork: the lock, with this word, has that slot of the parent no longer. If it keeps its slot, it has
    /// another one, if there is memory for that.
    #[cold]
    fn leave_to_parent(&self, word: Word) {
        let slot = Self::slot(word);
        if slot.is_some_and(SlotOf::<W>::is_here) {
            return; // made since the caller looked
        }
        let kept = slot.filter(|slot| slot.holder.stays());
        let Some((slot, new)) = kept.and_then(|slot| Some((slot, W::P::slots().take()?))) else {
            self.0.forget_queue(word.name(), 0);
            return;
        };
        let queued = new.begin(self.as_known(), slot.policy_in_parent());
        new.events.set_as(&slot.events);
        if !self.0.forget_queue(word.name(), new.name()) {
            W::P::slots().give(queued);
        }
    }

    /// Whether the slot that the word names, whose queue lock is held, is this lock's. If not, the name is forgotten. Only
    /// under that queue lock: a thread that finds the same may have done so, and the lock may have the slot by then.
    fn owns(&self, queued: &mut Locked<'_, W::P>) -> bool {
        if !W::P::NAMES_MAY_BE_STRAY {
            #[cfg(feature = "async")]
            if queued.lock != self.as_known() && !queued.waiters.is_empty() {
                queued.forget_waiters();
                self.0.clear(Flags::QUEUE);
            }
            debug_assert!(
                queued.lock == self.as_known() || queued.waiters.is_empty(),
                "two locks have one slot"
            );
            // The lock may have been moved since its slot was used last.
            queued.lock = self.as_known();
        } else if queued.lock != self.as_known() {
            self.0.forget_queue(queued.slot().name(), 0);
            return false;
        } else if queued.waiters.is_empty() && self.load().has_waiters() {
            // The bytes are those of an earlier time.
            self.0.clear(Flags::QUEUE);
        }
        queued.is_used = true;
        true
    }

    /// Runs `f` on the queue of the lock, under the queue lock. If the lock has no slot it gets one. The slot goes back if `f` leaves the
    /// lock without its name: it has not [named](Names::name) it, or taken the name back. `f` says nothing if it found the lock changed, and is run again then. An
    /// error if the lock is visible or unused, and so has no slot, or if no slot is to be had.
    pub(crate) fn with_slot<R>(
        &self,
        mut f: impl FnMut(&mut Queued<W::P>, &'static SlotOf<W>) -> Option<R>,
    ) -> Result<R, Word> {
        loop {
            let word = self.load();
            if word.is_odd() {
                return Err(word);
            }
            if let Some(mut queued) = self.lock_queue() {
                let slot = queued.slot();
                let result = f(&mut queued, slot);
                if queued.waiters.is_empty() && self.load().name() != slot.name() {
                    W::P::slots().give(queued);
                }
                match result {
                    Some(result) => return Ok(result),
                    None => continue,
                }
            }
            let Some(slot) = W::P::slots().take() else { return Err(self.load()) };
            let mut queued = slot.lock();
            (queued.lock, queued.is_used) = (self.as_known(), true);
            slot.holder.begin();
            let result = f(&mut queued, slot);
            if self.load().name() != slot.name() {
                W::P::slots().give(queued);
            }
            if let Some(result) = result {
                return Ok(result);
            }
        }
    }

    /// Under the queue lock of `slot`: the lock has waiters from here on, and this slot. Returns the word before;
    /// nothing if the lock has another slot, or none is possible.
    pub(crate) fn announce(&self, slot: &SlotOf<W>) -> Option<Word> {
        if self.load().name() == slot.name() {
            return Some(self.0.set(Flags::WAITERS));
        }
        self.0.name(slot.name()).ok()
    }

    /// The lock gives back the slot of this name, unless somebody waits, or upgrades. The caller holds the lock, or this is one whose
    /// release reads the name in the step in which it leaves ([`One`](super::words::One)).
    #[cold]
    pub(super) fn drop_name(&self, name: u32) {
        if let Some(queued) = self.lock_queue().filter(|_| self.load().name() == name) {
            self.drop_slot(queued);
        }
    }

    /// The lock gives back the slot whose queue lock is held, unless somebody waits, or upgrades.
    pub(crate) fn drop_slot(&self, queued: Locked<'_, W::P>) {
        let slot = queued.slot();
        if !slot.holder.stays() && queued.upgrader.is_none() && self.0.unname(slot.name()) {
            W::P::slots().give(queued);
        }
    }

    /// The lock is dropped: nobody uses it, or waits.
    pub(crate) fn give_slot_back(&self) {
        if let Some(queued) = self.lock_queue() {
            W::P::slots().give(queued);
        }
    }

    // ---- leaving ----

    /// The calling thread has left the lock at `lock`, whose word was `before`: runs `f` on the lock and its queue, if somebody waits
    /// there. The lock may be gone by now (R5).
    pub(crate) fn with_waiters(
        lock: *const Self,
        before: Word,
        f: impl FnOnce(&Self, &'static SlotOf<W>, &mut Queued<W::P>),
    ) {
        let Some(slot) = Self::slot_here(before) else { return };
        slot.with(|q| {
            if q.lock != Self::known(lock) || q.waiters.is_empty() {
                return;
            }
            // SAFETY: somebody is queued, so the lock that has the slot exists (R4): it was used to queue that thread, and is
            // of this kind. (At its address the caller's lock may be gone, and this another.)
            f(unsafe { &*Self::at(q.lock) }, slot, q);
        });
    }
}

impl<W: Words> Raw<W> {
    /// The calling thread, `me`, has taken the lock, and found a slot that nobody waits in: now and then the lock gives
    /// it back (R6). In very many acquisitions nobody may wait, and then slots should not be many.
    #[inline(always)]
    pub(super) fn found_calm(&self, me: &Thread<W::P>, before: Word) {
        let drops = me.lock.is_calm() || before.name() > MANY;
        if drops && !Self::holder(before).is_some_and(Holder::stays) {
            // As an attempt does not block, and a signal handler may have interrupted the thread that has the queue lock.
            if let Some(queued) = self.try_lock_queue(before) {
                self.drop_slot(queued);
            }
        }
    }

    /// The calling thread has left the lock at `lock`, which it held in this way; the word was `before`. The lock may be gone
    /// by now: only its slot and thread records are touched (R5), and the word by R4.
    #[inline(never)]
    pub(super) fn left(lock: *const Self, before: Word, access: Access) {
        let after = before.left(access);
        if after.is_drained() {
            return Self::wake_upgrader(lock, before);
        }
        let wakes = before.has_next_to_wake() && before.name() != 0;
        if wakes && (after.is_free() || access == Access::Upgradable) {
            Self::wake_next(lock, before, after.is_free());
        }
        if access == Access::Exclusive && (wakes || before.has_waiters()) {
            let me = W::P::thread();
            if me.lock.gives_way.get() == lock.addr() {
                give_way_of(me);
            }
        }
    }

    /// Wakes the waiter that is next, which asked for that, if the lock was left free, or if it waits for the upgradable
    /// reader that has left. Of several threads that come for that only the one that clears the flag wakes it. (The flag
    /// stays until then: if this thread loses its CPU, the next one to leave does its duty.)
    #[cold]
    fn wake_next(lock: *const Self, before: Word, is_free: bool) {
        let mut wakes = FewWakes::new();
        Self::with_waiters(lock, before, |lock, slot, q| {
            let for_upgradable = |next: &Waiter<W::P>| next.access == Access::Upgradable;
            if !(is_free || q.next().is_some_and(for_upgradable)) {
                return;
            }
            if lock.0.clear(Flags::WAKE_NEXT).has_next_to_wake() {
                let turns = Turns { lock, slot };
                let now = W::P::now();
                turns.miss(q, now, &mut wakes);
                turns.wake_appointed(q, &mut wakes);
                // The waiter may have set no timer for the end of the tenure.
                let is_over = q.clock.is_over(now) && !q.is_next_late();
                let word = if is_over { lock.close() } else { lock.load() };
                q.freed = if word.is_closed() { now } else { 0 };
                if now.saturating_sub(q.clock.end()) >= MISSED_NS {
                    q.wake_lookout(&mut wakes);
                }
            }
        });
        wake(&mut wakes);
    }

    /// The last reader has left a lock that is being upgraded, or one that was only passing through.
    #[cold]
    fn wake_upgrader(lock: *const Self, before: Word) {
        let Some(slot) = Self::slot_here(before) else { return };
        // The record outlives the wait.
        let upgrader = slot.with(|q| q.upgrader.filter(|_| q.lock == Self::known(lock)));
        if let Some(thread) = upgrader {
            thread.parker.unpark();
        }
    }

    /// The bound on the wait of a thread with so many grants before its own: see
    /// [`RawRwLock::planned_wait_ns`](super::RawRwLock::planned_wait_ns).
    pub(super) fn planned_wait_ns(&self, grants_ahead: usize) -> u64 {
        let planned =
            |q: &Queued<W::P>| q.clock.planned_wait_ns(grants_ahead, W::HAS_READERS, q.shape());
        self.lock_queue().map_or_else(|| planned(&Queued::new()), |queued| planned(&queued))
    }

    /// From here on only the queue gets in, if anybody is queued; returns the word after it.
    pub(super) fn close(&self) -> Word {
        self.0.flag_queue(Flags::CLOSED)
    }

    /// The holder leaves the lock to the queue, if anybody waits: it is closed as it is left. However long the waiter that
    /// is next takes to come, the release wakes it.
    pub(super) fn close_for_next(&self) {
        let queued = self.lock_queue().filter(|queued| queued.awaited().is_some());
        if let Some(mut queued) = queued {
            queued.is_promised = true;
            self.0.flag_queue(Flags::CLOSED.with(Flags::WAKE_NEXT));
        }
    }
}

/// A lock whose slot has a later name keeps none that it can do without.
const MANY: u32 = 1 << 10;

/// Wakes the listed threads, and notes how long that took the calling thread. Not how long it took to wake tasks: the two looks at the clock
/// were a tenth of such a release.
#[cold]
fn wake<P: Platform>(wakes: &mut FewWakes<P>) {
    if !wakes.has_threads() {
        wakes.wake_all();
    } else {
        let began = P::now();
        wakes.wake_all();
        P::thread().lock.wake_cost.set(P::now().saturating_sub(began));
    }
}

/// The calling thread, which is not inside, yields its CPU, as the waiter that is next may lack one. Unlike closing the
/// lock, this keeps the lock in use. The thread may yield again after a pause, as the scheduler may have let it run on
/// although a waiter is queued behind it; but not if the yield took long, as then another program had the CPU.
pub(super) fn give_way_of<P: Platform>(me: &Thread<P>) {
    let pause = if give_way::<P>() <= WAKE_NS { WAKE_NS } else { u64::MAX };
    me.lock.gave_way(P::now().saturating_add(pause));
}

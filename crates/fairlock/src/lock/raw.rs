//! A lock's word together with the slot that it names: how a thread finds the slot, brings one, gives it back, and leaves
//! the lock.

use super::holder::Holder;
use super::slot::{FewWakes, Locked, PooledPlatform, Queued, Slot};
use super::turn::Turns;
use super::word::{Flags, Word};
use super::words::Words;
use crate::platform::{Platform, System, Thread};
use crate::wait::{Access, MISSED_NS, WAKE_NS, Waiter, give_way};

/// A lock, of which the slow path knows only the word.
#[repr(transparent)]
pub(crate) struct Raw<W>(pub(super) W);

/// A slot of the platform of a lock.
pub(super) type SlotOf<W> = Slot<<W as Words>::P>;

impl<W: Words> Raw<W> {
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

    /// The lock at `lock`, as its slot knows it: its address, and which of the two kinds it is, as both use one pool.
    #[inline(always)]
    fn known(lock: *const Self) -> *const () {
        lock.cast::<()>().wrapping_byte_add(usize::from(W::HAS_READERS))
    }

    /// The lock that a slot of this kind of lock knows by that.
    #[inline(always)]
    fn at(known: *const ()) -> *const Self {
        known.wrapping_byte_sub(usize::from(W::HAS_READERS)).cast()
    }

    /// How the lock's slot knows it.
    #[inline(always)]
    pub(super) fn as_known(&self) -> *const () {
        Self::known(self)
    }

    #[inline(always)]
    pub(super) fn load(&self) -> Word {
        self.0.load()
    }

    // ---- its slot ----

    /// The slot that this word names.
    #[inline(always)]
    pub(super) fn slot(word: Word) -> Option<&'static SlotOf<W>> {
        match word.name() {
            0 => None,
            name => Some(W::P::slots().get(name)),
        }
    }

    /// The word of the lock, last seen as `word`, once it names no slot of a parent of this process.
    pub(super) fn here(&self, mut word: Word) -> Word {
        while let Some(slot) = Self::slot(word).filter(|slot| !slot.is_here()) {
            self.leave_to_parent(slot);
            word = self.load();
        }
        word
    }

    /// Takes the queue lock of the lock's slot, if it has one (R3).
    pub(super) fn lock_queue(&self) -> Option<Locked<'static, W::P>> {
        loop {
            let word = self.here(self.load());
            let mut queued = Self::slot(word)?.lock();
            if self.load().name() == word.name() {
                self.adopt(&mut queued);
                return Some(queued);
            }
        }
    }

    /// The child of a fork: the lock has this slot of the parent no longer. If it keeps its slot, it has another one.
    #[cold]
    fn leave_to_parent(&self, slot: &SlotOf<W>) {
        if !slot.holder.stays() {
            self.0.forget_queue(slot.name(), 0);
            return;
        }
        let new = W::P::slots().take();
        let queued = new.begin(self.as_known(), slot.policy_in_parent());
        new.events.set_as(&slot.events);
        if !self.0.forget_queue(slot.name(), new.name()) {
            W::P::slots().give(queued);
        }
    }

    /// The lock may have been moved since its slot was used last.
    fn adopt(&self, queued: &mut Queued<W::P>) {
        #[cfg(feature = "async")]
        if queued.lock != self.as_known() && !queued.waiters.is_empty() {
            queued.forget_waiters();
            self.0.clear(Flags::QUEUE);
        }
        debug_assert!(
            queued.lock == self.as_known() || queued.waiters.is_empty(),
            "two locks have one slot"
        );
        queued.lock = self.as_known();
    }

    /// Runs `f` on the queue of the lock, under the queue lock. If the lock has no slot it gets one, which goes back unless
    /// `f` has the lock [named](Words::name). `f` says nothing if it found the lock changed, and is run again then. An
    /// error if the lock is visible or unused: it has no slot.
    pub(super) fn with_slot<R>(
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
                match f(&mut queued, slot) {
                    Some(result) => return Ok(result),
                    None => continue,
                }
            }
            let slot = W::P::slots().take();
            let mut queued = slot.lock();
            queued.lock = self.as_known();
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
    pub(super) fn announce(&self, slot: &SlotOf<W>) -> Option<Word> {
        if self.load().name() == slot.name() {
            return Some(self.0.set(Flags::WAITERS));
        }
        self.0.name(slot.name()).ok()
    }

    /// The calling thread, `me`, has taken the lock, and found a slot that nobody waits in: now and then the lock gives
    /// it back (R6). In very many acquisitions nobody may wait, and then slots should not be many.
    #[inline(always)]
    pub(super) fn found_calm(&self, me: &Thread<W::P>, before: Word) {
        let drops = me.lock.is_calm() || before.name() > MANY;
        if drops && !Self::holder(before).is_some_and(Holder::stays) {
            self.drop_name_at_once(before.name());
        }
    }

    /// As [`drop_name`](Self::drop_name), if nobody has the queue lock: an attempt does not block, and a signal handler may
    /// have interrupted the thread that has it.
    #[cold]
    fn drop_name_at_once(&self, name: u32) {
        let slot = W::P::slots().get(name);
        let Some(queued) = slot.is_here().then(|| slot.try_lock()).flatten() else { return };
        if self.load().name() == name {
            self.drop_slot(queued);
        }
    }

    /// The lock gives back the slot of this name, unless somebody waits, or upgrades. The caller holds the lock, or this is one whose
    /// release reads the name in the step in which it leaves ([`One`](super::words::One)).
    #[cold]
    pub(super) fn drop_name(&self, name: u32) {
        if let Some(queued) = self.lock_queue().filter(|_| self.load().name() == name) {
            self.drop_slot(queued);
        }
    }

    fn drop_slot(&self, queued: Locked<'_, W::P>) {
        let slot = queued.slot();
        if !slot.holder.stays() && queued.upgrader.is_none() && self.0.unname(slot.name()) {
            W::P::slots().give(queued);
        }
    }

    /// The lock is dropped: nobody uses it, or waits.
    pub(super) fn give_slot_back(&self) {
        if let Some(queued) = self.lock_queue() {
            W::P::slots().give(queued);
        }
    }

    // ---- leaving ----

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
            Self::wake_next(lock, before.name(), after.is_free());
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
    fn wake_next(lock: *const Self, name: u32, is_free: bool) {
        let slot = W::P::slots().get(name);
        if !slot.is_here() {
            return;
        }
        let mut wakes = FewWakes::new();
        slot.with(|q| {
            let for_upgradable = |next: &Waiter<W::P>| next.access == Access::Upgradable;
            if q.lock != Self::known(lock) || !(is_free || q.next().is_some_and(for_upgradable)) {
                return;
            }
            if q.waiters.is_empty() {
                return;
            }
            // SAFETY: somebody is queued, so the lock that has the slot exists (R4): it was used to queue that thread, and is
            // of this kind. (At its address the caller's lock may be gone, and this another.)
            let lock = unsafe { &*Self::at(q.lock) };
            if lock.0.clear(Flags::WAKE_NEXT).has_next_to_wake() {
                let turns = Turns { lock, slot };
                turns.wake_appointed(q, &mut wakes);
                // The waiter may have set no timer for the end of the tenure.
                let now = W::P::now();
                let is_over = q.clock.is_over(now) && !q.is_next_late();
                let word = if is_over { lock.close() } else { lock.load() };
                turns.miss(q, now, &mut wakes);
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
        let Some(slot) = Self::slot(before).filter(|slot| slot.is_here()) else { return };
        // The record outlives the wait.
        let upgrader = slot.with(|q| q.upgrader.filter(|_| q.lock == Self::known(lock)));
        if let Some(thread) = upgrader {
            thread.parker.unpark();
        }
    }

    /// The bound on the wait of a thread with so many grants before its own: see
    /// [`RawRwLock::planned_wait_ns`](super::RawRwLock::planned_wait_ns).
    pub(super) fn planned_wait_ns(&self, grants_ahead: usize, is_read: bool) -> u64 {
        let planned = |q: &Queued<W::P>| q.clock.planned_wait_ns(grants_ahead, is_read, q.shape());
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

/// Wakes the listed threads, and notes how long that took the calling thread.
#[cold]
fn wake<P: Platform>(wakes: &mut FewWakes<P>) {
    if !wakes.is_empty() {
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

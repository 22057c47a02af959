//! When a lock becomes visible, how it is read then, and how that ends. Why it is safe is in
//! [`visible`](crate::thin::visible).
//!
//! If a reader leaves while others are inside, CPUs share the word's line. So now and then such a
//! reader marks the lock as *watched*. A writer takes the mark off. Once the watched lock has been
//! read [`ENOUGH`] times, a reader makes it visible if nobody wrote for [`WORTH`] times as long as
//! revoking takes.
//!
//! A full lock knows since when nobody wrote it; a writer clears that time. A thread checks the
//! time after each [`ENOUGH`] reads. A thread that has read the lock alone for
//! [`LAST_PERIOD`](crate::thin::local::LAST_PERIOD) reads makes it thin.

use core::ptr;
use core::sync::atomic::Ordering;

use super::ThinRwSem;
use super::word::{NUMBERS, RwWord};
use crate::events::{self, Event};
use crate::platform::PooledPlatform;
use crate::pool::name;
use crate::thin::inflate::{Codec, Inflates, SlotOf, leave_other};
use crate::thin::local::{Cleared, ENOUGH, SHOWN};
use crate::thin::local::{Mark, Marks};
use crate::thin::marks;
use crate::thin::visible::{HELD, VisibleReaders, WORTH};
use crate::wait::{Access, Thread};

/// Times of watched locks are in units of 1,024 ns.
const UNIT_SHIFT: u32 = 10;

impl<P: PooledPlatform> ThinRwSem<P> {
    /// The word of the lock if it is visible, and `mark` knows its name.
    ///
    /// It needs no frame on the stack, and neither do [`show`](Self::show) and [`hide`](Self::hide): all calls
    /// are their last step.
    #[inline(always)]
    pub(super) fn visible_at(&self, mark: &Mark<P>) -> Option<RwWord> {
        // A lock that was moved here since has another name.
        Some(self.load()).filter(|word| word.shown() == mark.what.get())
    }

    /// Which slot of its thread a reader has of the lock, which had this word: one for each mark.
    #[inline(always)]
    pub(super) fn place(&self, word: RwWord) -> usize {
        // A model does not depend on addresses.
        let mark = || Marks::<P>::place(address(self));
        if cfg!(fairlock_loom) { word.number() as usize % SHOWN } else { mark() % SHOWN }
    }

    /// Enters the lock, which had this word and is visible, if its slot is free. `mark` is that of the slot, and not
    /// changing.
    #[inline(always)]
    pub(super) fn show(&self, me: &Thread<P>, mark: &Mark<P>, word: RwWord) -> bool {
        let place = self.place(word);
        mark.begin_change();
        let is_free = me.shown.has(place, 0);
        if is_free {
            me.shown.show(place, word.shown());
            // Acquire, in `load`: whoever made the lock visible came after the last writer.
            if self.load().shown() != word.shown() {
                return withdraw(me, mark, place, address(self));
            }
        }
        mark.end_change(address(self));
        is_free
    }

    /// The calling thread, `me`, leaves the lock, which had this word and is visible, if it shows that here. `mark`: as for
    /// [`show`](Self::show).
    #[inline(always)]
    pub(super) fn hide(&self, me: &Thread<P>, mark: &Mark<P>, word: RwWord, place: usize) -> bool {
        let Some(all) = P::visible_readers() else { return false };
        mark.begin_change();
        let is_shown = me.shown.has(place, word.shown());
        if is_shown && !me.shown.hide(place, &all.scans) {
            return self.leave_if_counted(me, mark, place);
        }
        mark.end_change(address(self));
        is_shown
    }

    /// The calling thread, `me`, shows the name no longer. If it is counted it is still inside, so the lock is
    /// there.
    #[cold]
    fn leave_if_counted(&self, me: &Thread<P>, mark: &Mark<P>, place: usize) -> bool {
        let is_counted = me.shown.settle(place) == Cleared::Counted;
        mark.end_change(address(self));
        if is_counted {
            self.leave(Access::Shared, false);
        }
        true
    }

    /// The calling thread is about to read, and may wait for that. If it finds the marks of other visible locks again and
    /// again, this one is visible no longer. Not for an attempt: it may be a signal handler's, and the full lock that
    /// this takes needs memory, and the mutex around locks that were set aside.
    #[cold]
    pub(super) fn revoke_if_others_are_in_the_way(&self) {
        let word = self.load();
        if !word.is_visible() {
            return;
        }
        let me = P::thread();
        if me.marks.of(address(self)).is_other_visible(address(self)) && me.shown.has_too_many() {
            self.revoke(word, 0);
        }
    }

    /// Enters the lock, which had this word and is visible, if that needs no waiting.
    #[cold]
    pub(super) fn enter_visible(&self, word: RwWord, access: Access) -> bool {
        if access != Access::Shared {
            self.revoke(word, 0);
            return false;
        }
        let Some(all) = P::visible_readers() else { return false };
        let me = P::thread();
        let mark = me.marks.of(address(self));
        // A signal handler that interrupts a change is counted (V7).
        if all.list(me) && !mark.is_changing() {
            marks::mark_visible(me, self, word.shown());
            let place = self.place(word);
            mark.begin_change();
            let is_free = me.shown.has(place, 0) || me.shown.reclaim(place);
            mark.end_change(address(self));
            if is_free {
                return self.show(me, mark, word);
            }
        }
        if let Some(slot) = self.kept(word) {
            // Acquire: owns the lock (rule 3). If the lock has this name still, it had it all the time (V1), and no
            // writer is in the full one.
            let before = slot.full.word.enter(Access::Shared, Ordering::Acquire);
            let stays = before.has_room() && self.names(word);
            if !stays {
                leave_other::<Self>(slot, Access::Shared);
            }
            return stays;
        }
        if word.has_no_room() {
            self.revoke(word, 0);
            return false;
        }
        // Acquire: owns the lock on success (rule 3).
        self.word.exchange(word, word.taken(access), Ordering::Acquire).is_ok()
    }

    /// A reader leaves the lock, which had this word and is visible. False if it was revoked meanwhile.
    #[cold]
    pub(super) fn try_leave_visible(&self, word: RwWord) -> bool {
        let shown = marks::known::<P>().and_then(|me| {
            let place = me.shown.find(word.shown())?;
            (!me.marks.at(place).is_changing()).then_some((me, place))
        });
        if let Some((me, place)) = shown {
            return self.hide(me, me.marks.at(place), word, place);
        }
        if let Some(slot) = self.kept(word) {
            // Whether it is counted there, or shown by another thread: it takes one of the units (V2).
            // SAFETY: the caller is a reader inside, and those that nobody counts have units there.
            unsafe { slot.full.unlock_read() };
            return true;
        }
        if word.readers() == 0 {
            // Another thread shows the reader, for which this one has the guard.
            return self.revoke(word, 1);
        }
        // Release: what was read under the lock stays before the next writer.
        self.word.exchange(word, word.left(Access::Shared), Ordering::Release).is_ok()
    }

    /// Whether anybody is inside the lock, if it has this word all the time, and is visible.
    pub(super) fn is_read_visibly(&self, word: RwWord) -> bool {
        // A caller that asks before it leaves, as the C interface does, need not look at all threads.
        let shows = |me: &Thread<P>| me.shown.has(self.place(word), word.shown());
        if marks::known::<P>().is_some_and(shows) {
            return true;
        }
        let counted = match self.kept(word) {
            Some(slot) => slot.full.word.load(Ordering::Acquire).readers().wrapping_sub(HELD),
            None => word.readers(),
        };
        // Readers whom others have given up are counted as minus one, and shown.
        P::visible_readers().map_or(0, |all| all.count(word.shown())).wrapping_add(counted) != 0
    }

    /// The slot of a lock that is visible and full.
    pub(super) fn kept(&self, word: RwWord) -> Option<&'static SlotOf<Self>> {
        word.kept().map(|index| Self::slots().get(name(index)))
    }

    // ---- visible to full ----

    /// The lock, which had this word and is visible, is full from here on, and `own` of its readers leave. False if the
    /// word had changed before.
    #[cold]
    pub(super) fn revoke(&self, word: RwWord, own: usize) -> bool {
        let Some(all) = P::visible_readers() else { return false };
        let kept = self.kept(word);
        let slot = kept.unwrap_or_else(|| Self::slots().take_sealed());
        let adopted = if kept.is_some() { 0 } else { word.readers() + HELD };
        // SAFETY: nobody holds a sealed lock, and none are given to another one.
        unsafe { slot.full.adopt_readers(adopted) };
        // Acquire and Release: comes after the last writer and before the next.
        let full = RwWord::inflated(slot.name);
        let close = || self.word.exchange(word, full, Ordering::AcqRel).is_ok();
        // SAFETY: given the units just now, or as the lock became visible; only this lock has the name (V1), and `close` takes it
        // off. The caller's own readers leave.
        let is_revoked = unsafe { all.revoke(word.shown(), &slot.full, own, close) };
        if !is_revoked && kept.is_none() {
            slot.full.word.disown_readers(adopted);
            Self::slots().give(slot);
        }
        is_revoked
    }

    /// The lock is dropped: what forgotten guards of the calling thread have left in its record is free.
    pub(super) fn forget_readers(&self) {
        let word = self.load();
        if word.is_visible() {
            while let Some(me) = marks::known::<P>() {
                let Some(place) = me.shown.find(word.shown()) else { break };
                self.hide(me, me.marks.at(place), word, place);
            }
        }
    }

    // ---- full to visible, and full ----

    /// A reader is about to leave the full lock, which has this word: it becomes visible, or thin, if that is worth it.
    #[cold]
    pub(super) fn watch_full(&self, word: RwWord) {
        let mark = P::thread().marks.of(address(self));
        if mark.reads.get() < ENOUGH {
            return;
        }
        let slot = self.slot(word);
        if mark.looks_alone() {
            slot.full.uncontended.seems_enough();
        }
        if !P::WATCHES_READERS || !slot.full.word.load(Ordering::Relaxed).is_shared_only() {
            return;
        }
        let since = &slot.full.read_since;
        // Odd, so never zero. In 32 bits: the difference is that of times 73 minutes apart at most.
        let now = time::<P>() as u32 | 1;
        // Relaxed, here and below: a measure.
        let began = since.load(Ordering::Relaxed);
        if began == 0 {
            since.store(now, Ordering::Relaxed);
        } else if u64::from(now.wrapping_sub(began)) >= worth::<P>() {
            self.show_full(word, slot);
        }
    }

    /// The full lock, which had this word, and in which the caller is counted as a reader, becomes visible. Whether it has.
    fn show_full(&self, word: RwWord, slot: &'static SlotOf<Self>) -> bool {
        if word.is_permanent()
            || !slot.may_be_kept()
            || slot.pins.any()
            || !P::has_process_barrier()
        {
            return false;
        }
        let Some(number) = P::visible_readers().and_then(|all| all.name(NUMBERS)) else {
            return false;
        };
        let named = RwWord::visible_and_full(slot.index, number);
        // Acquire and Release: whoever reads visibly comes after the last writer, and whoever gives up one of the
        // units finds them.
        let publish = || self.word.exchange(word, named, Ordering::AcqRel).is_ok();
        // SAFETY: the caller is a reader inside; there is room for the units.
        if !unsafe { VisibleReaders::show(&slot.full, publish) } {
            return false;
        }
        if slot.pins.any_before() {
            self.settled(named);
        }
        true
    }

    // ---- thin to visible ----

    /// The lock, which had this word and is thin, becomes visible if the platform has that. Whether it has.
    fn make_visible(&self, word: RwWord) -> bool {
        let named = P::visible_readers()
            .filter(|_| P::has_process_barrier())
            .and_then(|all| word.visible(all.name(NUMBERS)?));
        // Acquire and Release: whoever reads visibly comes after the last writer.
        let exchange = |named| self.word.exchange(word, named, Ordering::AcqRel).is_ok();
        let is_shown = named.is_some_and(exchange);
        if is_shown {
            events::count(Event::ReadersShown);
        }
        is_shown
    }

    /// The readers of the lock, which is thin, become visible, whatever is known of it.
    #[doc(hidden)]
    pub fn show_readers(&self) -> bool {
        let word = self.load();
        if !word.is_inflated() {
            return word.is_thin() && self.make_visible(word);
        }
        if !self.try_read() {
            return false;
        }
        let word = self.load();
        let is_shown = word.is_inflated() && self.show_full(word, self.slot(word));
        // SAFETY: just taken.
        unsafe { self.unlock_read() };
        is_shown
    }

    /// Whether readers are visible at this instant.
    #[doc(hidden)]
    pub fn shows_readers(&self) -> bool {
        self.load().is_visible()
    }

    /// The lock, which had this word and in which the caller is, is watched from here on, if its readers may
    /// become visible, and only readers are inside. Its word.
    #[cold]
    pub(super) fn begin_watch(&self, word: RwWord) -> RwWord {
        let watched = word.watched(time::<P>()).filter(|_| P::has_process_barrier());
        if let Some(watched) = watched {
            // Relaxed: no ownership depends on it.
            _ = self.word.exchange(word, watched, Ordering::Relaxed);
        }
        self.load()
    }

    /// More readers come than one exchange at a time can take: whether the lock is watched, so that the full one
    /// can wait until it is known whether anybody writes. Where somebody did, less and less often.
    #[cold]
    pub(super) fn watches_crowd(&self) -> bool {
        if !P::WATCHES_READERS {
            return false;
        }
        let mut word = self.load();
        if !word.is_watched() && P::thread().shown.meets_crowd() {
            word = self.begin_watch(word);
        }
        word.is_watched() || word.is_visible()
    }

    /// The calling thread has read the lock, which is watched, and had this word.
    #[cold]
    pub(super) fn watch(&self, word: RwWord) {
        let mark = P::thread().marks.of(address(self));
        // Those inside read it as well, and the more they are, the longer each read takes.
        let begins = mark.watched.replace(word.number()) != word.number();
        let more = word.readers() as u32 + 1;
        let reads = if begins { 0 } else { mark.reads.get().saturating_add(more) };
        mark.reads.set(reads);
        if !begins && reads < ENOUGH {
            return;
        }
        let quiet = RwWord::number_of(time::<P>().wrapping_sub(word.number()));
        let worth = worth::<P>();
        let now = self.load();
        if !now.is_watched() || now.number() != word.number() {
            return;
        }
        if reads >= ENOUGH {
            // If it is too early, for as often again.
            mark.reads.set(0);
            if mark.is_other_visible(address(self)) {
                // The thread would find one of the two without a mark. If that is in use, it has it again soon.
                mark.set_lock(0);
            } else if quiet >= worth {
                self.make_visible(now);
            }
        } else if quiet >= WORTH * worth {
            // Relaxed: as in `begin_watch`. Nobody reads it so often.
            _ = self.word.exchange(now, now.unwatched(), Ordering::Relaxed);
        }
    }
}

fn address<P: PooledPlatform>(lock: &ThinRwSem<P>) -> usize {
    ptr::from_ref(lock).addr()
}

/// The calling thread, `me`, has shown the name of the lock of this address, and that was revoked at the same time. If the scan
/// has seen the reader, that is counted: it is in.
#[cold]
fn withdraw<P: PooledPlatform>(
    me: &Thread<P>,
    mark: &Mark<P>,
    place: usize,
    address: usize,
) -> bool {
    let is_counted = me.shown.withdraw(place) == Cleared::Counted;
    mark.end_change(address);
    is_counted
}

/// For how long nobody has written a lock that becomes visible, in the units of watched locks.
fn worth<P: PooledPlatform>() -> u64 {
    P::visible_readers().map_or(0, |all| all.worth_ns()) >> UNIT_SHIFT
}

/// The time in the units of watched locks.
fn time<P: PooledPlatform>() -> u64 {
    RwWord::number_of(P::now() >> UNIT_SHIFT)
}

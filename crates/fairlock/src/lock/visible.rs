//! Visible readers: the lock does not count them, but each is in the record of its thread.
//!
//! A visible lock has a name that no other lock has, or will have: a number in its word. A reader *shows* that name in
//! a place of its thread's record, looks at the word once more, and if that still has the name it is in. It executes no
//! locked instruction, and writes no line that another CPU reads, except in a scan.
//!
//! What it shows is the word as it found that, whole. So it has to compare, at each look, but not to take the name out of a
//! word: only a scan does that, and a reader that finds the word changed, as others have been counted beside the units.
//!
//! The count of a visible lock is higher by [`HELD`]: *units*, one for each reader that may be shown, so that no writer
//! gets in, and a reader may leave by the count even where it is shown. To revoke the name, a thread
//!
//! 1. changes the word: it has no name any more, and the units stay;
//! 2. has the stores of all CPUs made visible ([`System::process_barrier`](crate::system::System));
//! 3. *moves* the readers that it finds in records into the count: marks each place as moved, which gives the reader one of
//!    the units;
//! 4. gives up the units that are left.
//!
//! From 1 on the lock is like any other, also in what writers do and are promised. Nobody waits for a visible reader, and
//! a visible reader wakes nobody.
//!
//! A reader that finds others inside has the lock *watched* now and then: it sets bits of the word that a writer clears. If
//! the watched lock has been read 256 times and nobody has written it for [`WORTH`] times as long as revoking takes,
//! a reader makes it visible.
//!
//! Rules:
//!
//! * V1. *A name is used once.* So the word of a lock that was moved, dropped or forgotten leads to nobody else's
//!   readers, and neither does a place that a forgotten guard left.
//! * V2. *The readers of a lock are the places with its name that are not marked as moved, and those that it counts.*
//!   They are interchangeable: a thread that leaves removes any of them. So a guard may be released by another thread,
//!   and the record of a thread that ended may be used by the next one, whatever is in it.
//! * V3. *A place is marked only between `scans` being raised and lowered, and only if its name was seen in it after
//!   that.* So the owner, after it has cleared the place, needs to look only at its own record and at `scans`: the lock
//!   may be gone.
//! * V4. *Whether a place was marked is decided in one word of the record*, `moved`: by the exchange of the revoker, which
//!   fails if the owner has changed the word since the place was seen, or by that of the owner.
//! * V5. *A place that is marked shows nothing new*: it is in use until its owner has taken the mark off.
//! * V6. *Nobody waits at a visible lock*: it has no slot, and a thread that has to wait revokes the name first.
//! * V7. *A thread changes its places only in a change, and there is one change of a thread at a time.* It says so in
//!   its record, to its signal handlers.
//!
//! # Signal handlers
//!
//! A handler may read a visible lock between any two steps of its thread, also that thread's own lock, and may keep its
//! guard. If it interrupts a change, it neither shows a name nor takes a reader out of a place: it is counted, and leaves by
//! the count. Otherwise all its steps are between two changes of the thread, each of which begins with a look at the place
//! (is it free; does it show the name), and nothing seen earlier is relied on. So to the rules it is another thread. If the
//! handler revokes the name, by an attempt to write, V3 and V4 ask only for atomic steps of `moved`. (The slot that the
//! writer then may need comes from memory that the interrupted thread may have locked: a handler may read, and must not
//! write.) To put the record on the list is a change, too.
//!
//! All this is about locks that stay visible. Where threads wait, a release that sees `WAKE_NEXT` takes the queue lock. If the
//! handler interrupted its thread under that queue lock, it waits for ever: so a handler must not release a lock that its
//! thread is about to write or waits for.
//!
//! # Orderings
//!
//! The reader's store to the place and its load that follows are ordered by [`light_fence`](crate::system::System), which
//! on Linux is none for the CPU. The barrier of the revoker acts as a fence in each other thread, between some two of its
//! steps. If that is after the reader's store, the scan sees the place; if it is before, the reader's load sees the
//! changed word, and, when it leaves, `scans`. A thread that gets in after the scan has acquired what readers have
//! released: a cleared place, a change of `moved`, or the count. Models use full fences of the CPU for both;
//! `tests/barrier.rs` tries the real ones.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

use super::owners::VisibleOwners;
use super::rwlock::RawRwLock;
use super::shown::Shown;
use super::slot::PooledPlatform;
use super::word::{HELD, NUMBERS, Word};
use super::words::{Names, One};
use crate::events::{self, Event};
use crate::platform::{Atomic, ConstZero, Platform, Thread};
use crate::wait::{Access, WATCH_NS};

/// A lock becomes visible if nobody wrote it for this many times as long as revoking takes. In times what revoking
/// takes; compared with the time since the lock is watched.
pub(super) const WORTH: u64 = 16;

/// The records of a platform's threads that have been readers of visible locks, and what else such locks share.
#[doc(hidden)]
pub struct VisibleReaders<P: Platform> {
    /// The address of the record listed last, or zero.
    first: P::AtomicUsize,
    /// How many threads revoke a name just now.
    scans: P::AtomicU64,
    /// How many names were given out.
    names: AtomicU64,
    /// How long it takes to revoke a name, on average, in nanoseconds; zero if none was.
    cost: AtomicU64,
    platform: PhantomData<P>,
}

impl<P: Platform> VisibleReaders<P> {
    #[allow(clippy::new_without_default)] // made by platforms, on purpose
    pub fn new() -> Self {
        Self::of(P::AtomicUsize::new(0), P::AtomicU64::new(0))
    }

    /// As [`new`](Self::new), for statics.
    pub const fn new_const() -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU64: ConstZero,
    {
        Self::of(ConstZero::ZERO, ConstZero::ZERO)
    }

    const fn of(first: P::AtomicUsize, scans: P::AtomicU64) -> Self {
        let [names, cost] = [const { AtomicU64::new(0) }; 2];
        Self { first, scans, names, cost, platform: PhantomData }
    }

    /// A number that no lock had before (V1), if it is below `limit`.
    pub(super) fn number(&self, limit: u64) -> Option<u64> {
        // Relaxed: only a number.
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        (number < limit).then_some(number)
    }

    /// Scans visit the record of the calling thread from here on. False if this is a signal handler that interrupts just
    /// that.
    #[cold]
    pub(super) fn list(&self, me: &'static Thread<P>) -> bool {
        if me.visible.is_listed() {
            return me.visible.is_ready();
        }
        me.visible.begin_change();
        let own = core::ptr::from_ref(me).addr();
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange.
            me.visible.next.store(first, Ordering::Relaxed);
            // Release: the record is as it should be. A scan that does not see it is ordered before what the reader looks
            // at next as for a place.
            match self.first.compare_exchange(first, own, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                // In the child of a fork, by a signal handler that interrupted just this.
                Err(now) if now == own => break,
                Err(now) => first = now,
            }
        }
        me.visible.end_change();
        me.visible.set_hint();
        true
    }

    /// The thread whose record is at `own`, if any, is alone in the child of a fork: only what it reads is read.
    #[cfg(all(feature = "std", target_os = "linux", not(fairlock_loom)))]
    pub(crate) fn enter_child(&self, own: Option<&'static Thread<P>>) {
        // Relaxed: there is nobody else. A signal handler that comes meanwhile finds the record on the list.
        let first = own.filter(|own| own.visible.is_listed()).map_or(0, |own| {
            own.visible.next.store(0, Ordering::Relaxed);
            core::ptr::from_ref(own).addr()
        });
        self.first.store(first, Ordering::Relaxed);
        self.scans.store(0, Ordering::Relaxed);
    }

    /// The records, from the one listed last on.
    pub(super) fn records(&self) -> impl Iterator<Item = &'static Shown<P>> {
        // SAFETY: zero, or the address of a record, which is there for as long as the locks of its platform.
        let at = |address: usize| unsafe { (address as *const Thread<P>).as_ref() };
        // Acquire: the record as it was listed.
        let mut next = at(self.first.load(Ordering::Acquire));
        core::iter::from_fn(move || {
            let shown = &next?.visible;
            // Acquire: as above; the exchange that listed this one has acquired the one before.
            next = at(shown.next.load(Ordering::Acquire));
            Some(shown)
        })
    }

    /// How many readers threads show by this name at this instant.
    pub(super) fn count(&self, name: u64) -> usize {
        self.records().map(|shown| shown.count(name)).sum()
    }

    /// For how long nobody has written a lock that becomes visible, in nanoseconds.
    fn worth_ns(&self) -> u64 {
        WORTH * self.cost()
    }

    /// Whether a thread shows the name with this number.
    pub(super) fn shows(&self, number: u64) -> bool {
        self.count(Word::FREE.with_number(number).shown()) > 0
    }

    /// Revoking a name takes about so long, in nanoseconds.
    pub(super) fn cost(&self) -> u64 {
        // Relaxed, here and below: a measure.
        match self.cost.load(Ordering::Relaxed) {
            // Not known: most threads have to be interrupted, but not woken.
            0 => WATCH_NS,
            cost => cost,
        }
    }

    /// Revoking a name took so long.
    fn took(&self, ns: u64) {
        let before = self.cost();
        // A thread that lost its CPU meanwhile tells nothing.
        let now = ns.min(4 * before);
        self.cost.store((7 * before + now) / 8 + 1, Ordering::Relaxed);
    }

    // ---- how a reader comes and leaves, and a name goes ----

    /// The calling thread, `me`, which is ready, gives up what it shows in this place, if that is this word. Of the lock it
    /// touches nothing.
    #[inline(always)]
    fn hide(&self, me: &Shown<P>, place: usize, word: Word) -> Hidden {
        me.begin_change();
        let found = me.at(place);
        if found != word {
            me.end_change();
            return if found == Word::FREE { Hidden::Free } else { Hidden::Other };
        }
        me.clear(place);
        P::light_fence();
        // Acquire, and in this order: a scan that is over has marked what it has marked (V3).
        if self.scans.load(Ordering::Acquire) != 0 || me.is_marked(place) {
            return Hidden::Scanned;
        }
        me.end_change();
        Hidden::Left
    }

    /// Revokes a name, which `close` takes off the lock; not if that says that it did not. Returns how many readers each
    /// have one of the units now.
    pub(super) fn revoke(&self, name: u64, close: impl FnOnce() -> bool) -> Option<usize> {
        let began = P::now();
        // Release, here and below: see `hide`.
        self.scans.fetch_add(1, Ordering::AcqRel);
        let moved = close().then(|| {
            P::process_barrier();
            self.records().map(|shown| shown.mark_all(name)).sum()
        });
        self.scans.fetch_sub(1, Ordering::AcqRel);
        if moved.is_some() {
            self.took(P::now().saturating_sub(began));
            events::count(Event::ReadersRevoked);
        }
        moved
    }
}

impl<P: PooledPlatform> VisibleReaders<P> {
    /// Called by each thread before it uses locks, where names may be stray: in the child of a fork that finishes what a thread of
    /// the parent has left half done.
    ///
    /// # Safety
    /// A lock that was visible at the fork, and that another thread was just about to take, still exists.
    pub unsafe fn finish_for_parent(&self) {
        let is_due = |owners: &&VisibleOwners<P>| owners.half_done(P::process()).is_some();
        let Some(owners) = P::visible_owners().filter(is_due) else { return };
        P::forgetting(|| {
            owners.finish(P::process(), |number, address| {
                // SAFETY: that thread was in a method of the lock, which exists, as the caller says.
                let lock = unsafe { &*core::ptr::with_exposed_provenance::<One<P>>(address) };
                lock.finish_revoking(self, number);
                // Release: see `hide`. Nobody revokes a name.
                self.scans.store(0, Ordering::Release);
            });
        });
    }
}

/// What came of an attempt to leave by what a thread shows.
enum Hidden {
    /// The thread has left, and was not counted.
    Left,
    /// It has left, or is counted: a scan may have seen it, and the change goes on.
    Scanned,
    /// The place is free, so it is counted.
    Free,
    /// Something else is shown there.
    Other,
}

/// The change of the calling thread, `me`, which a scan may have seen as it left, is over. Whether the thread has left, and is
/// not counted.
#[cold]
#[inline(never)]
fn settle<P: Platform>(me: &Shown<P>, place: usize) -> bool {
    let has_left = me.settle(place);
    me.end_change();
    has_left
}

/// What the calling thread shows, if it has read a visible lock: then it looks at a word before it changes that, as the
/// change would take the line from other readers.
#[inline(always)]
pub(super) fn looking<P: PooledPlatform>() -> Option<&'static Shown<P>> {
    P::visible_readers()?;
    let shown = if P::HAS_READER_HINT {
        // SAFETY: null, or a part of the calling thread's record (`set_hint`), which is never freed.
        unsafe { P::reader_hint().cast::<Shown<P>>().as_ref() }
    } else {
        // SAFETY: zero, or the address of the calling thread's record (`PooledPlatform`).
        unsafe { (P::thread_hint() as *const Thread<P>).as_ref() }.map(|me| &me.visible)
    };
    shown.filter(|me| me.is_ready())
}

impl<P: PooledPlatform> RawRwLock<P> {
    /// As [`read`](Self::read), of a thread that looks first.
    #[inline]
    pub(super) fn read_looking(&self, me: &Shown<P>) {
        let word = self.raw.load();
        if word.is_visible() {
            if self.words().show(me, word) {
                return;
            }
        } else if word == Word::FREE && self.words().take(word, Access::Shared).is_ok() {
            return;
        }
        self.read_slow(word);
    }

    /// The calling thread reads the lock, as that is visible, and it is not counted. False if that is not possible.
    #[doc(hidden)]
    #[inline(always)]
    pub fn read_shown(&self) -> bool {
        looking::<P>().is_some_and(|me| {
            let word = self.raw.load();
            word.is_visible() && self.words().show(me, word)
        })
    }

    /// The calling thread gives up what it shows of the lock, if anything, and was not counted.
    ///
    /// # Safety
    /// If the thread shows a reader of the lock, it may end that read.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn unlock_shown(&self) -> bool {
        looking::<P>().is_some_and(|me| {
            let word = self.raw.load();
            word.is_visible() && self.words().owns(word) && self.words().hides(me, word)
        })
    }

    /// As [`unlock_read`](Self::unlock_read), of a thread that looks first. (A program would not inline the drop of its guards with
    /// this, and call that for counted readers, too.)
    #[inline(never)]
    pub(super) fn leave_looking(&self, me: &Shown<P>) {
        // Only visible words are shown, and that of a lock that is read is not zero.
        let (word, place) = (self.raw.load(), place(self.words()));
        let hidden = if self.words().owns(word) { hide(me, place, word) } else { Hidden::Other };
        match hidden {
            Hidden::Left => {}
            Hidden::Free => self.leave(Access::Shared),
            Hidden::Scanned | Hidden::Other => self.leave_by_name(me, word),
        }
    }

    /// The calling thread, `me`, does not show the word that the lock has; or a scan may have seen it as it left, and the change
    /// goes on.
    #[cold]
    #[inline(never)]
    fn leave_by_name(&self, me: &Shown<P>, word: Word) {
        let has_left = if !me.is_ready() {
            settle(me, place(self.words()))
        } else if word.is_visible() {
            self.words().owns(word) && self.words().hides_by_name(me, word)
        } else {
            // A reader that was moved is counted; its place is given up here, or when it is needed.
            me.reclaim(place(self.words()), |_| false);
            false
        };
        if !has_left {
            self.leave(Access::Shared);
        }
    }

    /// The readers of the lock become visible, whatever is known of it. Whether they are.
    #[doc(hidden)]
    pub fn show_readers(&self) -> bool {
        let word = self.raw.load();
        if word.is_visible() {
            return true;
        }
        if !self.trim() || !self.try_read() {
            return false;
        }
        let is_shown = self.words().make_visible();
        // SAFETY: just taken.
        unsafe { self.unlock_read() };
        is_shown
    }

    /// Whether readers are visible at this instant.
    #[doc(hidden)]
    pub fn shows_readers(&self) -> bool {
        self.raw.load().is_visible()
    }
}

/// In which place of its thread's record a reader of the lock is.
#[inline(always)]
fn place<P: PooledPlatform>(lock: &One<P>) -> usize {
    Shown::<P>::place(core::ptr::from_ref(lock).addr())
}

/// As [`VisibleReaders::hide`].
#[inline(always)]
fn hide<P: PooledPlatform>(me: &Shown<P>, place: usize, word: Word) -> Hidden {
    P::visible_readers().map_or(Hidden::Other, |all| all.hide(me, place, word))
}

impl<P: PooledPlatform> One<P> {
    /// The calling thread, `me`, which is ready, reads the lock, which had this word and is visible, if its place is free. Whether
    /// it does.
    #[inline(always)]
    fn show(&self, me: &Shown<P>, word: Word) -> bool {
        let place = place(self);
        me.begin_change();
        let is_in = me.at(place) == Word::FREE && {
            me.store(place, word);
            P::light_fence();
            // Acquire, in `load`: a thread that made the lock visible came after the last writer.
            self.load() == word && self.owns(word) || self.stays_shown(me, place, word)
        };
        me.end_change();
        is_in
    }

    /// The calling thread, `me`, has shown this word, and the lock has another one. Whether that has the name, or the scan that
    /// came with its revoking has seen the reader, which then is counted: then it is in. Else it withdraws.
    #[cold]
    #[inline(never)]
    fn stays_shown(&self, me: &Shown<P>, place: usize, word: Word) -> bool {
        if self.load().shown() == word.shown() && self.owns(word) {
            return true;
        }
        me.clear(place);
        !me.settle(place)
    }

    /// The calling thread, `me`, gives up what it shows of the lock, which has this word and is visible. Whether it has left, and
    /// was not counted.
    #[inline(always)]
    fn hides(&self, me: &Shown<P>, word: Word) -> bool {
        match hide(me, place(self), word) {
            Hidden::Left => true,
            Hidden::Scanned => settle(me, place(self)),
            Hidden::Free => false,
            Hidden::Other => self.hides_by_name(me, word),
        }
    }

    /// The same, if it shows another word, as others have been counted in or out since it came.
    #[cold]
    #[inline(never)]
    fn hides_by_name(&self, me: &Shown<P>, word: Word) -> bool {
        let found = me.at(place(self));
        found.shown() == word.shown() && self.hides(me, found)
    }

    /// Enters the lock, which had this word and is visible, if that needs no waiting; if that is not possible it is visible
    /// no longer.
    #[cold]
    pub(super) fn enter_visible(&self, word: Word, access: Access) -> bool {
        if access != Access::Shared || word.counts_many_beside() {
            self.revoke(word);
            return false;
        }
        if !self.owns(word) {
            self.forget_if_stray(word);
            return false;
        }
        if let Some(all) = P::visible_readers() {
            let me = P::thread();
            if all.list(me) && self.show_again(&me.visible, word) {
                return true;
            }
        }
        // Acquire: owns the lock on success. It is counted beside the units.
        let counted = self.change(Ordering::Acquire, |now| {
            (now.shown() == word.shown()).then(|| now.taken(access))
        });
        counted.is_ok()
    }

    fn show_again(&self, me: &Shown<P>, word: Word) -> bool {
        me.reclaim(place(self), |found| self.is_dead(word, found));
        self.show(me, word)
    }

    /// Whether anybody is inside the lock, if it has this word all the time, and is visible.
    pub(super) fn is_read_visibly(&self, word: Word) -> bool {
        if !self.owns(word) {
            return word.counted_beside() > 0;
        }
        // A caller that asks before it leaves, as the C interface does, need not look at all threads.
        if looking::<P>().is_some_and(|me| me.has(place(self), word.shown())) {
            return true;
        }
        let shown = P::visible_readers().map_or(0, |all| all.count(word.shown()));
        shown as isize + word.counted_beside() != 0
    }

    /// The lock, which had this word and is visible, is so no longer.
    #[cold]
    pub(super) fn revoke(&self, word: Word) {
        let Some(all) = P::visible_readers() else { return };
        let name = word.shown();
        let revokes = |now: Word| (now.shown() == name).then(|| now.revoked());
        // Acquire and Release: comes after the last writer and before the next.
        let close = || self.change(Ordering::AcqRel, revokes).is_ok();
        self.without_number(word, || {
            if let Some(moved) = all.revoke(name, close) {
                self.give_up_units(HELD - moved);
            }
        });
    }

    /// So many units of the count are nobody's, one at least.
    pub(super) fn give_up_units(&self, units: usize) {
        let raw = super::Raw::<Self>::of(self);
        // The last one leaves as a reader: it may have hidden a free lock from a waiter.
        let before = self.leave_readers(units);
        super::Raw::left(raw, before, Access::Shared);
    }

    /// The lock is dropped: what forgotten guards of the calling thread have left in its record is free.
    pub(super) fn forget_readers(&self) {
        let word = self.load();
        if word.is_visible() {
            if let Some(me) = looking::<P>() {
                me.forget(word.shown());
            }
            self.changing_owners(|owners| {
                if self.owns(word) {
                    owners.free(word.number());
                }
            });
        }
    }

    // ---- where words may be copied: see `owners` ----

    fn address(&self) -> usize {
        // The child of a fork may find the lock by it.
        core::ptr::from_ref(self).expose_provenance()
    }

    /// Whether the readers of this visible word are the lock's.
    #[inline(always)]
    pub(super) fn owns(&self, word: Word) -> bool {
        match P::visible_owners() {
            None => true,
            Some(owners) => owners.has(word.number(), core::ptr::from_ref(self).addr()),
        }
    }

    /// Runs `change` on the table of owners, if there is one.
    fn changing_owners(&self, change: impl FnOnce(&'static VisibleOwners<P>)) {
        if let Some(owners) = P::visible_owners() {
            P::forgetting(|| change(owners));
        }
    }

    /// Runs `show` with a number that is the lock's from here on, if that returns true. If there is none, does nothing.
    fn with_number(&self, all: &VisibleReaders<P>, show: impl FnOnce(u64) -> bool) {
        let numbers = || all.number(NUMBERS);
        let Some(owners) = P::visible_owners() else {
            numbers().map(show);
            return;
        };
        P::forgetting(|| {
            let claimed = owners.claim(self.address(), P::process(), numbers, |n| all.shows(n));
            if let Some(number) = claimed.filter(|&number| !show(number)) {
                owners.free(number);
            }
        });
    }

    /// Runs `revoke`, which takes the name of this visible word off the lock, unless the word is stray.
    fn without_number(&self, word: Word, revoke: impl FnOnce()) {
        let Some(owners) = P::visible_owners() else { return revoke() };
        P::forgetting(|| {
            if !self.owns(word) {
                return self.forget_number(word);
            }
            owners.begin_revoking(word.number(), self.address(), P::process());
            revoke();
            owners.free(word.number());
            owners.end();
        });
    }

    /// The visible word, if it is stray, is not visible any more.
    #[cold]
    fn forget_if_stray(&self, word: Word) {
        self.changing_owners(|_| {
            // Another thread may just have looked whether the number is in use.
            if !self.owns(word) {
                self.forget_number(word);
            }
        });
    }

    fn forget_number(&self, word: Word) {
        // Acquire and Release: comes after the last writer and before the next.
        _ = self
            .change(Ordering::AcqRel, |now| (now.shown() == word.shown()).then(|| now.strayed()));
    }

    /// The child of a fork: a thread of the parent was revoking the name.
    fn finish_revoking(&self, all: &VisibleReaders<P>, number: u64) {
        let (word, name) = (self.load(), Word::FREE.with_number(number).shown());
        // Readers that other threads gave up are counted as minus one.
        if !word.is_odd() && word.readers() >= HELD / 2 {
            // All that are shown are counted from here on, whether that thread has seen them or not.
            all.records().for_each(|shown| _ = shown.mark_all(name));
            self.leave_readers(HELD - all.count(name));
        }
    }

    /// Whether the calling thread shows that of no lock any more, in the place of this one, which had this visible word.
    fn is_dead(&self, word: Word, found: Word) -> bool {
        let Some(owners) = P::visible_owners() else { return false };
        let may_be = || !owners.has_other(found.number(), self.address());
        let mut is_dead = false;
        if found != Word::FREE && found.shown() != word.shown() && may_be() {
            // A number that has no owner may be that of a lock at which another thread just looks.
            P::forgetting(|| is_dead = may_be() && self.load().shown() != found.shown());
        }
        is_dead
    }

    // ---- when a lock becomes visible ----

    /// The lock, in which the caller is a reader, becomes visible if that is possible. Whether it is.
    fn make_visible(&self) -> bool {
        let name = self.load().name();
        if name != 0 {
            super::Raw::<Self>::of(self).drop_name(name);
        }
        if !P::has_process_barrier() || self.load().name() != 0 {
            return false;
        }
        let Some(all) = P::visible_readers() else { return false };
        let mut is_shown = false;
        self.with_number(all, |number| {
            // Acquire and Release: a thread that reads visibly comes after the last writer.
            is_shown = self.change(Ordering::AcqRel, |word| word.visible(number)).is_ok();
            is_shown
        });
        if is_shown {
            events::count(Event::ReadersShown);
        }
        is_shown
    }

    /// The calling thread reads the lock beside others; the word was `before`.
    #[inline]
    pub(super) fn may_watch(&self, before: Word) {
        if before.watch() != 0 {
            self.watch(before);
        } else if P::begins_watch() {
            self.begin_watch();
        }
    }

    /// The lock, in which the calling thread reads, is watched from here on, if only readers are inside.
    #[cold]
    fn begin_watch(&self) {
        if !P::has_process_barrier() {
            return;
        }
        let salt = P::now() >> 10;
        // Relaxed: no ownership depends on it.
        _ = self.change(Ordering::Relaxed, |word| {
            (word.is_shared_only() && word.watch() == 0).then(|| word.watched(salt))
        });
    }

    /// The calling thread reads the lock, which is watched, and had this word.
    #[cold]
    fn watch(&self, before: Word) {
        let Some(all) = P::visible_readers() else { return };
        let address = core::ptr::from_ref(self).addr();
        let key = address as u64 ^ u64::from(before.watch()) << 56;
        // Those inside read it as well, and the more they are, the longer each read takes.
        let reads = before.readers() as u32 + 1;
        let watched_ns = P::thread().visible.watches(place(self), key, reads, P::now);
        if watched_ns.is_some_and(|ns| ns >= all.worth_ns())
            && self.load().watch() == before.watch()
        {
            self.make_visible();
        }
    }
}

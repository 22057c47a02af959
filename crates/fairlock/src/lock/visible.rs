//! Visible readers: the lock does not count them, but each is in the record of its thread.
//!
//! A visible lock has a name that no other lock has, or will have: a number in its word. A reader *shows* that name in
//! a place of its thread's record, looks at the word once more, and if that still has the name it is in. It executes no
//! locked instruction, and writes no line that another CPU reads, except in a scan.
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

use super::rwlock::RawRwLock;
use super::shown::Shown;
use super::slot::PooledPlatform;
use super::word::{HELD, NUMBERS, Word};
use super::words::{One, Words};
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

    /// The calling thread, `me`, which is ready, reads the lock of this name, if its place is free; `is_named` says whether
    /// the lock has that name still. Whether it does.
    #[inline(always)]
    pub(super) fn show(
        me: &Thread<P>,
        place: usize,
        name: u64,
        is_named: impl FnOnce() -> bool,
    ) -> bool {
        let shown = &me.visible;
        shown.begin_change();
        let mut is_in = shown.has(place, 0);
        if is_in {
            shown.store(place, name);
            P::light_fence();
            if !is_named() {
                is_in = Self::withdraw(me, place);
            }
        }
        shown.end_change();
        is_in
    }

    /// The calling thread, `me`, has shown the name as that was revoked. If the scan has seen the reader, that is counted:
    /// it is in.
    #[cold]
    fn withdraw(me: &Thread<P>, place: usize) -> bool {
        me.visible.clear(place);
        !me.visible.settle(place)
    }

    /// The calling thread, `me`, which is ready, gives up what it shows by this name in this place: none if it does not
    /// show it. Of the lock it touches nothing. Whether it has left, and is not counted.
    #[inline(always)]
    pub(super) fn hide(&self, me: &Thread<P>, place: usize, name: u64) -> Option<bool> {
        let shown = &me.visible;
        shown.begin_change();
        let has_left = shown.has(place, name).then(|| {
            shown.clear(place);
            P::light_fence();
            // Acquire, and in this order: a scan that is over has marked what it has marked (V3).
            let is_scanned = self.scans.load(Ordering::Acquire) != 0;
            !(is_scanned || shown.is_marked(place)) || shown.settle(place)
        });
        shown.end_change();
        has_left
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

/// The record of the calling thread, if it has read a visible lock: then it looks at a word before it changes that, as the
/// change would take the line from other readers.
#[inline(always)]
pub(super) fn looking<P: PooledPlatform>() -> Option<&'static Thread<P>> {
    P::visible_readers()?;
    let record = P::thread_hint() as *const Thread<P>;
    // SAFETY: zero, or the address of the calling thread's record (`PooledPlatform`).
    unsafe { record.as_ref() }.filter(|me| me.visible.is_ready())
}

impl<P: PooledPlatform> RawRwLock<P> {
    /// As [`read`](Self::read), of a thread that looks first.
    #[inline]
    pub(super) fn read_looking(&self, me: &Thread<P>) {
        let word = self.raw.load();
        if word.is_visible() {
            if self.words().show(me, word) {
                return;
            }
        } else if word == Word::FREE
            && self.words().exchange(Word::FREE, Self::READ, Ordering::Acquire).is_ok()
        {
            return;
        }
        self.read_slow(word);
    }

    /// The calling thread reads the lock, as that is visible.
    #[inline(always)]
    pub(super) fn read_shown(&self) -> bool {
        looking::<P>().is_some_and(|me| {
            let word = self.raw.load();
            word.is_visible() && self.words().show(me, word)
        })
    }

    /// As [`unlock_read`](Self::unlock_read), of a thread that looks first.
    #[inline]
    pub(super) fn leave_looking(&self, me: &Thread<P>) {
        let word = self.raw.load();
        if word.is_visible() && hide(me, place(self.words()), word.shown()) {
            return;
        }
        if !word.is_visible() && me.visible.has(place(self.words()), 0) {
            return self.leave(Access::Shared);
        }
        self.leave_by_name(me, word);
    }

    /// The calling thread, `me`, may show its reader although the lock has this word.
    #[inline(never)]
    fn leave_by_name(&self, me: &Thread<P>, word: Word) {
        // A reader that was moved is counted; its place is given up here, or when it is needed.
        if !word.is_visible() {
            me.visible.reclaim(place(self.words()));
        }
        self.leave(Access::Shared);
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

/// Whether the calling thread, `me`, has left what it showed by this name in this place.
#[inline(always)]
fn hide<P: PooledPlatform>(me: &Thread<P>, place: usize, name: u64) -> bool {
    P::visible_readers().and_then(|all| all.hide(me, place, name)) == Some(true)
}

impl<P: PooledPlatform> One<P> {
    /// The calling thread, `me`, reads the lock, which had this word and is visible, if its place is free. Whether it does.
    #[inline(always)]
    fn show(&self, me: &Thread<P>, word: Word) -> bool {
        let name = word.shown();
        // Acquire, in `load`: a thread that made the lock visible came after the last writer.
        VisibleReaders::show(me, place(self), name, || self.load().shown() == name)
    }

    /// Enters the lock, which had this word and is visible, if that needs no waiting; if that is not possible it is visible
    /// no longer.
    #[cold]
    pub(super) fn enter_visible(&self, word: Word, access: Access) -> bool {
        if access != Access::Shared || word.counts_many_beside() {
            self.revoke(word);
            return false;
        }
        if let Some(all) = P::visible_readers() {
            let me = P::thread();
            if all.list(me) && self.show_again(me, word) {
                return true;
            }
        }
        // Acquire: owns the lock on success. It is counted beside the units.
        let counted = self.change(Ordering::Acquire, |now| {
            (now.shown() == word.shown()).then(|| now.taken(access))
        });
        counted.is_ok()
    }

    fn show_again(&self, me: &Thread<P>, word: Word) -> bool {
        me.visible.reclaim(place(self));
        self.show(me, word)
    }

    /// Whether anybody is inside the lock, if it has this word all the time, and is visible.
    pub(super) fn is_read_visibly(&self, word: Word) -> bool {
        // A caller that asks before it leaves, as the C interface does, need not look at all threads.
        if looking::<P>().is_some_and(|me| me.visible.has(place(self), word.shown())) {
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
        if let Some(moved) = all.revoke(name, close) {
            self.give_up_units(HELD - moved);
        }
    }

    /// So many units of the count are nobody's, one at least.
    pub(super) fn give_up_units(&self, units: usize) {
        self.leave_readers(units - 1);
        // The last one, as a reader that leaves: it may have hidden a free lock from a waiter.
        let raw = super::Raw::<Self>::of(self);
        let before = self.leave(Access::Shared);
        super::Raw::left(raw, before, Access::Shared);
    }

    /// The lock is dropped: what forgotten guards of the calling thread have left in its record is free.
    pub(super) fn forget_readers(&self) {
        let word = self.load();
        if let Some(me) = looking::<P>().filter(|_| word.is_visible()) {
            me.visible.forget(word.shown());
        }
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
        let Some(number) = P::visible_readers().and_then(|all| all.number(NUMBERS)) else {
            return false;
        };
        // Acquire and Release: a thread that reads visibly comes after the last writer.
        let is_shown = self.change(Ordering::AcqRel, |word| word.visible(number)).is_ok();
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

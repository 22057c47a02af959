//! Visible readers: no lock counts them, but each is in the record of its thread.
//!
//! A visible lock has a name that no other lock has, or will have: a number in its word. A reader
//! *shows* that name in a slot of its thread's record, looks at the word once more, and if that
//! still has the name it is in. It executes no locked instruction, and writes no line that another
//! CPU reads, except in a scan.
//!
//! To revoke the name, a thread
//!
//! 1. gives a full lock [`HELD`] more readers than the word counted: *units*, one for each possible
//!    reader, so that no writer gets in, and a reader may leave by the count even before it is
//!    counted;
//! 2. changes the word to name that full lock;
//! 3. has the stores of all CPUs made visible ([`System::process_barrier`](crate::platform::System));
//! 4. *moves* the readers that it finds in records into the count: marks each slot as moved, which gives the reader
//!    one of the units;
//! 5. gives up the units that are left.
//!
//! From then on the lock is like any full lock, also in what writers do and are promised. Nobody
//! waits for a visible reader, and a visible reader wakes nobody.
//!
//! A full lock becomes visible without becoming thin, and keeps its slot: with readers that always
//! overlap it would never become thin. A reader inside gives the full lock the units, and then
//! changes the word. So no writer is in the full lock meanwhile, and counted readers leave by the
//! count, as always.
//!
//! Rules:
//!
//! * V1. *A name is used once.* So the word of a lock that was moved, dropped or forgotten leads to nobody else's
//!   readers, and neither does a slot that a forgotten guard left.
//! * V2. *The readers of a lock are the slots with its name that are not marked as moved, and those
//!   that it counts.* They are interchangeable: a thread that leaves removes any of them. So a
//!   guard may be released by another thread, and the record of a thread that ended may be used by
//!   the next one, whatever is in it.
//! * V3. *A slot is marked only between `scans` being raised and lowered, and only if its name was seen in it
//!   after that.* So the owner, after it has cleared the slot, needs to look only at its own record and at
//!   `scans`: the lock may be gone.
//! * V4. *Whether a slot was marked is decided in one word of the record*, `moved`: by the exchange of the
//!   revoker, which fails if the owner has changed the word since the slot was seen, or by that of the owner.
//! * V5. *An owner does not show a name in a slot that is marked* before it has taken the mark off.
//! * V6. *Nobody waits at a full lock that is visible.* A thread that has to wait pins the slot
//!   first, and then reads the word; a thread that makes the lock visible changes the word first,
//!   then looks at the pins, and revokes the name if there are any. Both change the pins, so one of
//!   the two sees the other.
//!
//! * V7. *A thread changes a slot, or takes its mark off, only in a change of that place, and there is one change of a
//!   place at a time.* A change begins where the thread has not begun one, in its remembered mark of that place
//!   ([`begin_change`](super::local::Mark)); for locks elsewhere the caller of [`enter`](VisibleReaders::enter) sees to that.
//!   So it is with the thread's way onto the list of records (`is_listing`).
//!
//! # Signal handlers
//!
//! A handler may read a visible lock between any two steps of its thread, also that thread's own lock, and may keep its
//! guard. If it interrupts no change, all its steps are between two calls of the thread, which then looks at the slot
//! again: each change begins with that look (is the slot free; does it show the name), and nothing seen earlier is relied on.
//! If it interrupts a change, it neither touches that slot nor takes a reader from it: it is counted, and leaves by
//! the count. So to the rules it is another thread, and what they say of threads that come between two steps covers it:
//!
//! * between the look at a free slot and the store: it is counted, so the store overwrites nobody's name (V2), and the slot is
//!   not marked meanwhile (V5), as it shows nothing;
//! * between the store and the look at the word: it cannot take away what is shown, so if the word has changed, the
//!   reader decides by its own slot and mark whether it is in;
//! * as the reader leaves, between the look at the slot and its clearing, or before its mark is taken off: the
//!   same; nobody shows a name under the old mark (V5);
//! * if the handler revokes the name, by an attempt to write: as where another thread does, since V3 and V4 ask
//!   only for atomic steps of `moved`. But the full lock that this takes may need memory, or a mutex that the
//!   interrupted thread holds: a handler may read, and must not write;
//! * in the midst of a revocation, or as a lock becomes visible: only atomics of the lock change there, and each state between two
//!   steps is one that other threads see, too;
//! * as the record is put on the list: scans do not visit it yet, so it is counted, and the links are not changed twice.
//!
//! `thin/rwsem/interrupted_test.rs` tries all of them.
//!
//! # Orderings
//!
//! The reader's store to the slot and its load that follows are ordered by
//! [`light_fence`](crate::platform::System), which on Linux is none for the CPU. The barrier of the
//! revoker acts as a fence in each other thread, between some two of its steps. If that is after
//! the reader's store, the scan sees the slot; if it is before, the reader's load sees the changed
//! word, and, when it leaves, `scans`. A thread that gets in after the scan has acquired what
//! readers have released: a cleared slot, a change of `moved`, or the count. Models use full fences
//! of the CPU for both; `tests/barrier.rs` tries the real ones.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use super::local::{Cleared, ENOUGH, LAST_PERIOD, Marks, SHOWN, Shown};
use crate::events::{self, Event};
use crate::platform::{Atomic, ConstZero, Platform, Thread};
use crate::rwsem::RwSem;
use crate::wait::WATCH_NS;

/// More than there can be readers in records.
pub(super) const HELD: usize = 1 << (usize::BITS / 2);

/// A lock becomes visible if nobody wrote it for this many times as long as revoking takes; it is
/// watched for at most as many times that. In times what revoking takes; compared with the time
/// since the lock is watched.
pub(super) const WORTH: u64 = 16;

/// The records of a platform's threads that have been readers of visible locks, and what else such locks share.
#[doc(hidden)]
pub struct VisibleReaders<P: Platform> {
    /// The address of the record listed last, or zero.
    first: P::AtomicUsize,
    /// How many threads revoke a name just now.
    pub(super) scans: P::AtomicU64,
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
    pub fn name(&self, limit: u64) -> Option<u64> {
        // Relaxed: only a number.
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        (number < limit).then_some(number)
    }

    /// Scans visit the record of the calling thread from here on. False if this is a signal handler that interrupts just that.
    #[inline]
    pub(super) fn list(&self, me: &'static Thread<P>) -> bool {
        me.shown.is_listed.get() || self.list_first(me)
    }

    #[cold]
    fn list_first(&self, me: &'static Thread<P>) -> bool {
        if me.shown.is_listing.replace(true) {
            return false;
        }
        compiler_fence(Ordering::SeqCst);
        let own = core::ptr::from_ref(me).addr();
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange.
            me.shown.next.store(first, Ordering::Relaxed);
            // Release: the record is as it should be. A scan that does not see it is ordered before what the
            // reader looks at next as for a slot.
            match self.first.compare_exchange(first, own, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        compiler_fence(Ordering::SeqCst);
        me.shown.is_listed.set(true);
        me.shown.is_listing.set(false);
        true
    }

    /// The thread whose record is at `own`, if any, is alone in the child of a fork: only what it reads is
    /// read.
    #[cfg(all(feature = "std", target_os = "linux", not(fairlock_loom)))]
    pub(crate) fn enter_child(&self, own: Option<&'static Thread<P>>) {
        // Relaxed: there is nobody else. A signal handler that comes meanwhile finds the record on the list.
        let first = own.filter(|own| own.shown.is_listed.get()).map_or(0, |own| {
            own.shown.next.store(0, Ordering::Relaxed);
            core::ptr::from_ref(own).addr()
        });
        self.first.store(first, Ordering::Relaxed);
        self.scans.store(0, Ordering::Relaxed);
    }

    /// The records, from the one listed last on.
    fn records(&self) -> impl Iterator<Item = &'static Shown<P>> {
        // SAFETY: zero, or the address of a record, which is there for as long as the locks of its platform.
        let at = |address: usize| unsafe { (address as *const Thread<P>).as_ref() };
        // Acquire: the record as it was listed.
        let mut next = at(self.first.load(Ordering::Acquire));
        core::iter::from_fn(move || {
            let shown = &next?.shown;
            // Acquire: as above; the exchange that listed this one has acquired the one before.
            next = at(shown.next.load(Ordering::Acquire));
            Some(shown)
        })
    }

    /// How many readers threads show by this name at this instant.
    pub(super) fn count(&self, name: u64) -> usize {
        // Acquire: as for a word that says that nobody is inside.
        let is_shown = |slot: &&P::AtomicU64| slot.load(Ordering::Acquire) == name;
        self.records().map(|shown| shown.slots.iter().filter(is_shown).count()).sum()
    }

    /// For how long nobody has written a lock that becomes visible, in nanoseconds.
    pub(super) fn worth_ns(&self) -> u64 {
        WORTH * self.cost()
    }

    /// Revoking a name takes about so long, in nanoseconds.
    fn cost(&self) -> u64 {
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

    /// The lock becomes visible: `full` gets the units, and then `publish` changes the word, and returns whether it has.
    ///
    /// # Safety
    /// The caller is a reader inside `full`, which has room for the units.
    pub unsafe fn show(full: &RwSem<P>, publish: impl FnOnce() -> bool) -> bool {
        // SAFETY: no writer is inside, as the caller is.
        unsafe { full.adopt_readers(HELD) };
        let is_shown = publish();
        if is_shown {
            events::count(Event::ReadersShown);
        } else {
            full.word.disown_readers(HELD);
        }
        is_shown
    }

    /// Revokes a name, for whose readers `full` has units: `close` changes the word, and returns whether it has. Then those
    /// that are inside are counted, but for `own`, which leave.
    ///
    /// # Safety
    /// `full` has the units of the readers of this name, as [`show`](Self::show) gives them, for as long as a word has the name.
    /// Where `close` returns true, the word had it until then, and no word has it any more. The caller may end the reads of `own`
    /// readers of the name.
    pub unsafe fn revoke(
        &self,
        name: u64,
        full: &RwSem<P>,
        own: usize,
        close: impl FnOnce() -> bool,
    ) -> bool {
        let began = P::now();
        full.is_read_no_longer();
        // Release, here and below: see `Shown::hide`.
        self.scans.fetch_add(1, Ordering::AcqRel);
        let moved = close().then(|| {
            P::process_barrier();
            self.records().map(|shown| shown.mark_all(name)).sum::<usize>()
        });
        self.scans.fetch_sub(1, Ordering::AcqRel);
        let Some(moved) = moved else { return false };
        self.took(P::now().saturating_sub(began));
        events::count(Event::ReadersRevoked);
        full.word.disown_readers(HELD - moved + own - 1);
        // Release: the readers that were found to have left come before the next writer.
        // SAFETY: one of the units is left.
        unsafe { full.unlock_read() };
        true
    }
}

/// For locks whose words are not of this crate. An address stands for the slot of a thread's record that a lock has.
impl<P: Platform> VisibleReaders<P> {
    /// Whether so many reads of a thread are a reason to look if a lock should be visible: now and then.
    #[inline(always)]
    pub fn is_enough(reads: u32) -> bool {
        reads % ENOUGH == 0
    }

    /// Whether a thread should have a lock watched that has left others so often while more readers were inside: less
    /// and less often.
    pub fn is_due(times: u32) -> bool {
        times.is_power_of_two() || times % LAST_PERIOD == 0
    }

    /// For how long nobody has written such a lock that becomes visible, in nanoseconds. Twice as long as for the locks of this
    /// crate, as their counted readers have cheaper ways; and as long as if other CPUs had to be interrupted, as where none
    /// had to be of late, that is no promise.
    pub fn worth_outside_ns(&self) -> u64 {
        2 * WORTH * self.cost().max(WATCH_NS)
    }

    /// The calling thread, `me`, is about to [`enter`](Self::enter) locks that have the slot of this address.
    ///
    /// # Safety
    /// `me` is the record of the calling thread, which is not a signal handler that interrupts this, `enter` or
    /// [`leave`](Self::leave) (V7).
    pub unsafe fn prepare(&self, me: &'static Thread<P>, address: usize) {
        if self.list(me) {
            me.shown.reclaim(Marks::<P>::place(address) % SHOWN);
        }
    }

    /// The calling thread, `me`, reads the lock of this name, if it is prepared and its slot is free; `is_named` says whether the
    /// lock has that name still.
    ///
    /// # Safety
    /// As [`prepare`](Self::prepare).
    #[inline(always)]
    pub unsafe fn enter(
        me: &Thread<P>,
        address: usize,
        name: u64,
        is_named: impl FnOnce() -> bool,
    ) -> bool {
        let place = Marks::<P>::place(address) % SHOWN;
        if !me.shown.has(place, 0) || !me.shown.is_listed.get() {
            return false;
        }
        me.shown.show(place, name);
        if is_named() {
            return true;
        }
        me.shown.clear(place);
        me.shown.settle_inline(place) == Cleared::Counted
    }

    /// The calling thread, `me`, leaves the lock of this name. False if the full lock counts the reader; `None` if the
    /// thread does not show the name.
    ///
    /// # Safety
    /// As [`prepare`](Self::prepare); and the caller may end the read of a reader of this name.
    #[inline(always)]
    pub unsafe fn leave(&self, me: &Thread<P>, address: usize, name: u64) -> Option<bool> {
        let place = Marks::<P>::place(address) % SHOWN;
        if !me.shown.has(place, name) {
            return None;
        }
        let has_left = me.shown.hide(place, &self.scans);
        Some(has_left || me.shown.settle_inline(place) == Cleared::Left)
    }

    /// Whether `full`, which has units, counts anybody beside them.
    pub fn counts_any(full: &RwSem<P>) -> bool {
        full.snapshot().readers > HELD
    }

    /// Nobody has used `full` in the child of a fork yet. Threads that were about to give it units, or to take
    /// them off, are not there: it has those of a lock that is visible (`is_shown`), and else counts the readers of
    /// the last `name`.
    ///
    /// # Safety
    /// The calling thread is alone in the child of a fork. `full` has units for the readers of `name` only, and of no other name
    /// of its lock.
    pub unsafe fn enter_child_of(&self, full: &RwSem<P>, name: u64, is_shown: bool) {
        // Readers who were given up by another thread are counted as minus one.
        let units = (full.snapshot().readers + HELD / 2) / HELD;
        if units <= usize::from(is_shown) {
            return;
        }
        let mut readers = 0;
        if !is_shown {
            self.records().for_each(|shown| _ = shown.mark_all(name));
            readers = self.count(name);
        }
        full.word.disown_readers((units - usize::from(is_shown)) * HELD - readers);
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::{Native, System};
    use crate::rwsem::Policy;

    const ADDRESS: usize = 64;
    const NAME: u64 = 7;

    fn record() -> &'static Thread<Native> {
        Box::leak(Box::new(Thread::new()))
    }

    /// Until the name is revoked; then the full lock counts it.
    #[test]
    fn a_reader_of_a_lock_elsewhere_comes_and_leaves_by_the_name_that_it_shows() {
        let (readers, me) = (VisibleReaders::<Native>::new(), record());
        // SAFETY: the record is this thread's, and it may end its reads.
        let enter = |is_named| unsafe { VisibleReaders::enter(me, ADDRESS, NAME, || is_named) };
        // SAFETY: as above.
        let prepare = || unsafe { readers.prepare(me, ADDRESS) };
        // SAFETY: as above.
        let leave = |name| unsafe { readers.leave(me, ADDRESS, name) };
        assert!(!enter(true), "not prepared");
        prepare();
        assert!(!enter(false), "the lock has another name");
        assert!(enter(true) && !enter(true), "its slot is in use");
        assert_eq!(leave(NAME + 1), None);
        assert_eq!(leave(NAME), Some(true));
        assert_eq!(leave(NAME), None);
        if !Native::has_process_barrier() {
            return; // no lock becomes visible here
        }
        assert!(enter(true));
        let full = RwSem::new(Policy::DEFAULT);
        full.read();
        // SAFETY: taken above.
        assert!(unsafe { VisibleReaders::show(&full, || true) });
        assert!(VisibleReaders::counts_any(&full));
        // SAFETY: as above.
        unsafe { full.unlock_read() };
        assert!(!VisibleReaders::counts_any(&full));
        // SAFETY: just given the units; nobody looks for the name.
        assert!(unsafe { readers.revoke(NAME, &full, 0, || true) });
        assert_eq!(full.snapshot().readers, 1);
        assert!(!enter(true));
        prepare();
        assert!(enter(true), "who is counted needs its slot no more");
        assert_eq!(leave(NAME), Some(true));
        assert_eq!(leave(NAME), None);
        // SAFETY: the full lock counts the reader, as just said.
        unsafe { full.unlock_read() };
        assert!(!full.is_locked());
    }

    #[test]
    fn a_lock_has_one_thread_s_readers_or_the_units_of_a_visible_one_after_a_fork() {
        for (units, is_shown) in
            [(0, false), (0, true), (1, false), (1, true), (2, false), (2, true)]
        {
            let (readers, me) = (VisibleReaders::<Native>::new(), record());
            // SAFETY: the record is this thread's.
            unsafe {
                readers.prepare(me, ADDRESS);
                assert!(VisibleReaders::enter(me, ADDRESS, NAME, || true));
            }
            let full = RwSem::new(Policy::DEFAULT);
            // SAFETY: nobody is inside.
            unsafe { full.adopt_readers(units * HELD) };
            // SAFETY: these are all its units; nobody else uses the lock.
            unsafe { readers.enter_child_of(&full, NAME, is_shown) };
            let left = if is_shown { units.min(1) * HELD } else { units.min(1) };
            assert_eq!(full.snapshot().readers, left);
            let is_uncounted = is_shown || units == 0;
            // SAFETY: entered above.
            assert_eq!(unsafe { readers.leave(me, ADDRESS, NAME) }, Some(is_uncounted));
        }
    }

    #[test]
    fn a_lock_is_looked_at_now_and_then_and_watched_less_and_less_often() {
        let looks = |reads| VisibleReaders::<Native>::is_enough(reads);
        assert!(looks(ENOUGH) && looks(2 * ENOUGH) && !looks(ENOUGH + 1));
        let is_due = |times| VisibleReaders::<Native>::is_due(times);
        assert!(
            [1, 2, 4, 3 * LAST_PERIOD].into_iter().all(is_due) && ![3, 5].into_iter().any(is_due)
        );
    }

    #[test]
    fn the_cost_of_revoking_is_an_average_that_one_long_time_hardly_moves() {
        let readers = VisibleReaders::<Native>::new();
        assert_eq!(readers.cost(), WATCH_NS);
        (0..100).for_each(|_| readers.took(800));
        assert!((800..=808).contains(&readers.cost()), "{}", readers.cost());
        readers.took(u64::MAX);
        assert!((1_100..=1_200).contains(&readers.cost()), "{}", readers.cost());
    }
}

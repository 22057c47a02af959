//! What a thread remembers of the locks that it took: which are inflated, and their slots; and which are
//! visible.
//!
//! Right after the exchange that released a lock, a load of its word costs a third of an
//! uncontended acquisition on some CPUs (7 of 20 ns on an Intel Xeon). So the fast path begins with
//! an exchange instead. On an inflated lock that exchange fails, and takes the cache line from all
//! CPUs that read it. So a thread remembers, by their addresses, the locks that it found inflated.
//! A wrong mark costs only time: before a slot is used, the lock's word is checked to name it. So a
//! mark may also be torn by a signal handler that interrupts its stores.

use core::ptr;

use super::inflate::{Full, Slot};
use super::local::{ENOUGH, LAST_PERIOD, Mark};
use crate::platform::{PooledPlatform, Thread};

impl<P: PooledPlatform> Mark<P> {
    /// The slot that the lock had then.
    #[inline(always)]
    pub(super) fn slot<F: Full<P> + 'static>(&self) -> Option<&'static Slot<P, F>> {
        let slot = self.slot_address(F::MARK)? as usize;
        // SAFETY: null or a slot of the platform's pool of such locks (`mark`), which is there for as long as its threads.
        unsafe { ptr::with_exposed_provenance::<Slot<P, F>>(slot).as_ref() }
    }

    /// The calling thread reads the full lock beside so many others, and found it free or not. `looks`: it is to look at the
    /// lock as it leaves in any case.
    #[inline(always)]
    pub(super) fn note_read(&self, others: usize, found_free: bool, looks: bool) {
        if !found_free {
            self.alone.set(0);
        }
        let reads = self.reads.get().saturating_add((others as u32).saturating_add(1));
        self.reads.set(reads);
        self.looks.set(reads >= ENOUGH || looks);
    }

    /// The calling thread has read the full lock [`ENOUGH`] times since it looked the last time, and looks. Whether it
    /// has found the lock free for so long that a thin one is better.
    pub(super) fn looks_alone(&self) -> bool {
        self.reads.set(0);
        let looks = self.alone.get() + 1;
        let is_enough = u32::from(looks) * ENOUGH >= LAST_PERIOD;
        self.alone.set(if is_enough { 0 } else { looks });
        is_enough
    }
}

/// If the calling thread found the lock inflated or visible when it last looked: the thread's record, and the
/// mark.
#[inline(always)]
pub(super) fn find<P: PooledPlatform, L>(
    lock: &L,
) -> Option<(&'static Thread<P>, &'static Mark<P>)> {
    let me = known::<P>()?;
    let address = ptr::from_ref(lock).addr();
    let mark = me.marks.of(address);
    mark.is_of(address).then_some((me, mark))
}

/// The calling thread's record, if it has one already. Threads that have waited, or have found a
/// lock inflated, have one.
#[inline(always)]
pub(super) fn known<P: PooledPlatform>() -> Option<&'static Thread<P>> {
    let record = P::thread_hint() as *const Thread<P>;
    // SAFETY: zero, or the address of the calling thread's record (`PooledPlatform`).
    unsafe { record.as_ref() }
}

/// The calling thread, `me`, has found the lock inflated, with this slot. The mark: whether to look as the thread leaves is to
/// be set.
#[inline]
pub(super) fn mark<'a, P: PooledPlatform, L, F: Full<P>>(
    me: &'a Thread<P>,
    lock: &L,
    slot: &'static Slot<P, F>,
) -> &'a Mark<P> {
    let address = ptr::from_ref(lock).addr();
    let mark = me.marks.of(address);
    mark.what.set(ptr::from_ref(slot).expose_provenance() as u64 + F::MARK);
    mark.set_lock(address);
    mark
}

/// The calling thread, `me`, has found the lock visible.
pub(super) fn mark_visible<P: PooledPlatform, L>(me: &Thread<P>, lock: &L, shown: u64) {
    let address = ptr::from_ref(lock).addr();
    let mark = me.marks.of(address);
    mark.what.set(shown);
    mark.set_lock(address);
}

/// The calling thread has found the lock thin.
#[inline]
pub(super) fn unmark<P: PooledPlatform, L>(lock: &L) {
    if let Some((_, mark)) = find::<P, L>(lock) {
        mark.set_lock(0);
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::super::local::Marks;
    use super::*;
    use crate::platform::{Native, System};

    /// A thin lock is worse for readers that meet, so one read beside another begins the count anew.
    #[test]
    fn who_reads_alone_for_long_wants_a_thin_lock() {
        let marks = Marks::<Native>::new();
        let mark = marks.of(0);
        let looks = |reads: u32, others: usize| {
            (0..reads).for_each(|_| mark.note_read(others, others == 0, false));
            assert!(mark.looks.get());
            mark.looks_alone()
        };
        let enough = LAST_PERIOD / ENOUGH;
        assert_eq!((1..).find(|_| looks(ENOUGH, 0)), Some(enough));
        assert!((1..enough).all(|_| !looks(ENOUGH, 0)));
        assert!(!looks(ENOUGH / 2, 1), "the first look of the next count");
        assert_eq!((2..).find(|_| looks(ENOUGH, 0)), Some(enough));
    }

    /// Where very many slots are in use, a lock keeps none longer than it has to.
    #[test]
    fn a_reader_looks_at_one_of_many_each_time() {
        let marks = Marks::<Native>::new();
        let mark = marks.of(0);
        mark.note_read(0, true, false);
        assert!(!mark.looks.get());
        mark.note_read(0, true, true);
        assert!(mark.looks.get());
    }

    #[test]
    fn a_thread_remembers_what_it_shows_of_a_visible_lock() {
        let (me, lock) = (Native::thread(), 0_u64);
        mark_visible(me, &lock, 7);
        assert!(find::<Native, _>(&lock).is_some_and(|(_, mark)| mark.what.get() == 7));
        unmark::<Native, _>(&lock);
        assert!(find::<Native, _>(&lock).is_none());
        me.marks.of(ptr::from_ref(&lock).addr()).what.set(0); // it is no name
    }

    /// A mutex may be where a reader/writer lock was, of which the thread still has a mark.
    #[test]
    fn a_mark_is_of_a_slot_of_one_kind() {
        use super::super::inflate::FullMutex;
        use crate::platform::PooledPlatform;
        use crate::rwsem::RwSem;

        let (me, lock) = (Native::thread(), 0_u64);
        let mark = mark(me, &lock, Native::rwsem_slots().take_sealed());
        assert!(
            mark.slot::<RwSem<Native>>().is_some() && mark.slot::<FullMutex<Native>>().is_none()
        );
        let mark = super::mark(me, &lock, Native::mutex_slots().take_sealed());
        assert!(
            mark.slot::<RwSem<Native>>().is_none() && mark.slot::<FullMutex<Native>>().is_some()
        );
        assert!(!mark.is_other_visible(8), "it was full");
        unmark::<Native, _>(&lock);
    }
}

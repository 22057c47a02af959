//! A thread that comes back to an inflated lock: it had that lock last, and others wait.
//!
//! A lock that many threads want is taken many times in a row by one of them, past the queue. So most
//! acquisitions and releases of a busy lock take this path, and it is short: the thread
//! [remembers](crate::thin::marks) the lock's slot, and few conditions are checked. All calls are tail
//! calls, so it needs no stack frame.

use super::{RwWord, ThinRwSem};
use crate::platform::PooledPlatform;
use crate::rwsem::Again;
use crate::thin::inflate::{Codec, Inflates, SlotOf};
use crate::thin::mark::Mark;
use crate::wait::{Access, Thread};

impl<P: PooledPlatform> ThinRwSem<P> {
    /// The slot that the thread remembers, if the lock still has it, and not for good: a lock with
    /// another policy, or with events, always takes the long way.
    #[inline(always)]
    fn marked_slot(&self, mark: &Mark<P>) -> Option<&'static SlotOf<Self>> {
        mark.slot().filter(|slot| self.load() == RwWord::inflated(slot.name))
    }

    /// The calling thread, `me`, takes the lock for writing past the queue, if it had it last. Or
    /// it takes the thin lock.
    #[inline(never)] // or it would be in every caller's loop
    pub(super) fn write_again(&self, me: &Thread<P>, mark: &Mark<P>) -> bool {
        match self.marked_slot(mark) {
            Some(slot) => {
                self.take_again(me, slot, Access::Exclusive, |again| again.note_write(me))
            }
            None => self.at_once(Access::Exclusive),
        }
    }

    /// As [`write_again`](Self::write_again), for reading.
    #[inline(never)]
    pub(super) fn read_again(&self, me: &Thread<P>, mark: &Mark<P>) -> bool {
        match self.marked_slot(mark) {
            Some(slot) => {
                // Somebody waits, and decides when it leaves.
                mark.calm.set(false);
                self.take_again(me, slot, Access::Shared, |again| again.note(me))
            }
            None => self.at_once(Access::Shared),
        }
    }

    #[inline(always)]
    fn take_again(
        &self,
        me: &Thread<P>,
        slot: &'static SlotOf<Self>,
        access: Access,
        note: impl FnOnce(Again<'static, P>),
    ) -> bool {
        let Some(again) = slot.full.take_again(me, access) else { return false };
        self.entered(RwWord::inflated(slot.name), slot, access, false, || {
            note(again);
            true
        })
    }

    /// The calling thread, `me`, leaves the lock as a writer.
    #[inline(never)]
    pub(super) fn leave_marked(&self, me: &Thread<P>, mark: &Mark<P>) {
        match self.marked_slot(mark) {
            Some(slot) if slot.full.leave_again(me) => {}
            _ => self.leave(Access::Exclusive, false),
        }
    }

    /// The calling thread leaves the lock as a reader.
    #[inline(never)]
    pub(super) fn leave_marked_as_reader(&self, mark: &Mark<P>) {
        match self.marked_slot(mark) {
            // Without looking at the lock first: that would fetch its line twice, to read it and to
            // write it.
            // SAFETY: the caller is a reader inside.
            Some(slot) if !mark.calm.get() => unsafe { slot.full.unlock_read() },
            _ => self.leave(Access::Shared, false),
        }
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use std::thread;

    use super::*;
    use crate::platform::{Native, System};
    use crate::rwsem::Policy;
    use crate::thin::marks;
    use crate::wait::Wait;

    type Lock = ThinRwSem<Native>;

    /// The calling thread takes the lock twice, each time while it is inflated.
    fn use_inflated(lock: &Lock) {
        lock.inflated();
        for _ in 0..2 {
            lock.write();
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
        }
        assert!(marks::find::<Native, _>(lock).is_some(), "the thread remembers it");
    }

    /// A thread remembers a lock by its address. Another lock may be there by now, and the slot
    /// another lock's, which somebody holds.
    #[test]
    fn what_a_thread_remembers_of_a_lock_that_is_no_more_leads_to_no_other() {
        for policy in [Policy::DEFAULT, Policy::UNFAIR] {
            let mut place = Lock::new(policy);
            use_inflated(&place);
            place = Lock::new_const();
            let others = [(); 40].map(|()| Lock::new(policy));
            // On another thread: this one would remember what it finds.
            thread::scope(|s| {
                s.spawn(|| {
                    others.iter().for_each(Lock::write);
                    place.write();
                });
            });
            for other in &others {
                other.slot(other.inflated()).full.seem_busy();
            }
            // SAFETY: taken for this.
            unsafe { place.unlock_write() };
            assert!(!place.is_locked());
            place.write();
            assert!(place.is_write_locked());
            assert!(others.iter().all(|other| other.is_write_locked() && !other.try_write()));
            // Their queues are empty: nobody may wait for them, or trim them.
            core::mem::forget(others);
        }
    }

    /// The waiter that is next is late, as it gets no CPU: a reader that comes again gives its own up,
    /// also one that would not wait for ever.
    #[test]
    fn a_reader_that_comes_again_gives_way() {
        type Way = (fn(&Lock), bool);
        let ways: [Way; 4] = [
            (Lock::read, true),
            (|lock| lock.read_with(Wait::FOREVER).expect("it is free"), true),
            (|lock| lock.read_with(Wait::until_nanos(u64::MAX)).expect("it is free"), true),
            (|lock| lock.read_with(Wait::until_nanos(0)).expect("it is free"), false), // its CPU may come back late
        ];
        let me = Native::thread();
        for (number, (read, gives_way)) in ways.into_iter().enumerate() {
            let lock = Lock::new_const();
            use_inflated(&lock);
            let full = &lock.slot(lock.inflated()).full;
            full.seem_busy();
            me.tenure.gives_way.set(full.word.address());
            me.tenure.gives_way_again.set(0);
            read(&lock);
            // Only this is left: if the thread was away for long, the waiter is late once more.
            assert_eq!(me.tenure.gives_way_again.get() != 0, gives_way, "way {number}");
            // SAFETY: just taken.
            unsafe { lock.unlock_read() };
            // Its queue is empty: nobody may trim it, or come to it once more.
            core::mem::forget(lock);
        }
    }

    /// A thread that takes the lock again for writing counts as one that writes.
    #[test]
    fn a_writer_that_comes_again_has_written() {
        let lock = Lock::new_const();
        use_inflated(&lock);
        lock.slot(lock.inflated()).full.seem_busy();
        let me = Native::thread();
        me.tenure.writes(0);
        lock.write();
        assert!(!me.tenure.wrote(0));
        // SAFETY: just taken.
        unsafe { lock.unlock_write() };
        // Its queue is empty: nobody may trim it.
        core::mem::forget(lock);
    }

    /// A thread that takes the lock again and again leaves it inflated only while somebody waits.
    #[test]
    fn a_lock_that_nobody_waits_for_becomes_thin() {
        let lock = Lock::new_const();
        let write = || {
            lock.write();
            // SAFETY: just taken.
            unsafe { lock.unlock_write() };
        };
        let read = || {
            lock.read();
            // SAFETY: just taken.
            unsafe { lock.unlock_read() };
        };
        let write_fair = || {
            lock.write();
            // SAFETY: just taken.
            unsafe { lock.unlock_write_fair() };
        };
        for visit in [&write as &dyn Fn(), &read, &write_fair] {
            use_inflated(&lock);
            assert!(lock.is_inflated());
            (0..100).for_each(|_| visit());
            assert!(!lock.is_inflated());
        }
    }
}

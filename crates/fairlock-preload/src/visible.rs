//! Readers that no lock counts: those of an inflated lock that is read nearly always. They are in the records of their
//! threads, as `fairlock::lock` has it (its `visible.rs` says why that is safe); here is what the library adds.
//!
//! * A name is in the slot, and only a lock whose word leads there reads it. So a copy of a visible lock is a stray word, as
//!   that of any inflated lock, and where a lock is destroyed, or another one is at its address, the name goes with the slot.
//! * Who is to wait alone is counted in the slot, and looks for a name then; who gives the lock a name looks at the count
//!   then. So nobody waits alone at a lock that is visible. Readers do not wait there, as there is no writer.
//! * A signal handler that interrupts a thread in the midst of a change of its record is counted
//!   (`State::change_shown`). Signals are blocked while units are given or taken off: others may
//!   need what they keep out.
//! * In the child of a fork all records are there, and so are the readers in them. A thread that was about to give units, or to take them
//!   off, is not: [`Slot::enter_child`] makes up for it.

use core::sync::atomic::{Ordering, fence};

use fairlock::lock::VisibleReaders;
use fairlock::platform::System;

use crate::process::mutex::Blocked;
use crate::registry::Slot;
use crate::thread::Preload;
use crate::word::Name;

pub(crate) static VISIBLE: VisibleReaders<Preload> = VisibleReaders::new_const();

impl Slot {
    /// The lock becomes visible, if only readers are inside, and nobody waits.
    #[cold]
    pub(crate) fn show(&self) {
        if !Preload::has_process_barrier() || !self.sem().try_read() {
            return;
        }
        let before = self.shown.load(Ordering::Relaxed);
        if let (None, Some(name)) = (self.name(), VISIBLE.name(Name::REVOKED)) {
            let _blocked = Blocked::begin();
            // SeqCst: before the look at who waits. Acquire and Release: whoever reads visibly comes after the last writer.
            let order = (Ordering::SeqCst, Ordering::Relaxed);
            let publish = || self.shown.compare_exchange(before, name, order.0, order.1).is_ok();
            // SAFETY: just taken.
            unsafe { VisibleReaders::show_readers(self.sem(), publish) };
            if self.waiting.load(Ordering::SeqCst) > 0 || self.sem().has_waiters() {
                self.settle();
            }
        }
        // SAFETY: just taken.
        unsafe { self.sem().unlock_read() };
    }

    /// The lock is visible no longer.
    #[inline]
    pub(crate) fn settle(&self) {
        while let Some(name) = self.name() {
            self.revoke(name);
        }
    }

    #[cold]
    fn revoke(&self, name: u64) {
        let _blocked = Blocked::begin();
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        // Acquire and Release: comes after the last writer and before the next.
        let close =
            || self.shown.compare_exchange(name, Name(name).revoked().0, order.0, order.1).is_ok();
        // SAFETY: the lock has units since it has the name (`show`), and `close` takes that off.
        unsafe { VISIBLE.revoke_name(name, self.sem(), close) };
    }

    /// Nobody has used the slot in the child of a fork yet.
    pub(crate) fn enter_child(&self) {
        self.waiting.store(0, Ordering::Relaxed);
        let last = Name(self.shown.load(Ordering::Relaxed)).last();
        // SAFETY: the caller's promise; names before the last one were revoked, and their units taken off.
        unsafe { VISIBLE.enter_child_of(self.sem(), last, self.name().is_some()) };
    }

    /// Runs `wait`, in which the calling thread waits for the lock alone.
    pub(crate) fn wait_alone<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // With that: the name is looked at later.
        fence(Ordering::SeqCst);
        self.settle();
        let result = wait();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::config::Kind;
    use crate::registry::{self, Head};
    use crate::thread;

    /// A lock that is visible, if that can be had. Alone: others take away the slots of idle locks.
    fn visible() -> Option<&'static Slot> {
        // SAFETY: an atomic word of zero, which stays.
        let head = Box::leak(Box::new(unsafe { core::mem::zeroed::<Head>() }));
        let slot = registry::inflate(head, core::ptr::from_ref(head).addr(), Kind::Rwlock)?;
        slot.show();
        assert_eq!(slot.name().is_some(), Preload::has_process_barrier());
        slot.name().map(|_| slot)
    }

    /// The calling thread reads the lock, and is not counted.
    fn read(slot: &Slot) {
        let (me, name) = (thread::record(), slot.name().unwrap());
        // SAFETY: the record is this thread's, which no signal handler interrupts.
        unsafe {
            VISIBLE.prepare(me, slot.address());
            assert!(VisibleReaders::enter(me, slot.address(), name, || slot.name() == Some(name)));
        }
    }

    fn readers(slot: &Slot) -> usize {
        slot.sem().snapshot().readers
    }

    /// The readers in the records are all that the child has of the lock.
    #[test]
    fn a_child_makes_up_for_a_thread_that_was_revoking() {
        fairlock_testing::alone(|| {
            let Some(slot) = visible() else { return };
            read(slot);
            let name = slot.name().unwrap();
            // Here the other thread was, when this one forked.
            slot.shown.store(Name(name).revoked().0, Ordering::Relaxed);
            slot.enter_child();
            assert!(readers(slot) == 1 && !slot.sem().try_write());
            // SAFETY: the thread reads the lock.
            let left = unsafe { VISIBLE.leave(thread::record(), slot.address(), name) };
            assert_eq!(left, Some(false));
            // SAFETY: counted.
            unsafe { slot.sem().unlock_read() };
            assert!(slot.sem().try_write());
        });
    }

    #[test]
    fn a_child_makes_up_for_a_thread_that_was_making_the_lock_visible() {
        fairlock_testing::alone(|| {
            let Some(slot) = visible() else { return };
            let units = readers(slot);
            slot.enter_child();
            assert!(readers(slot) == units && slot.name().is_some());
            slot.settle();
            assert_eq!(readers(slot), 0);
            // Here the other thread was, when this one forked.
            // SAFETY: no writer is inside.
            unsafe { slot.sem().adopt_readers(units) };
            slot.enter_child();
            assert_eq!(readers(slot), 0);
        });
    }

    #[test]
    fn who_waits_alone_is_seen_by_who_makes_the_lock_visible() {
        fairlock_testing::alone(|| {
            let Some(slot) = visible() else { return };
            slot.wait_alone(|| {
                assert!(slot.name().is_none());
                slot.show();
                assert!(slot.name().is_none() && readers(slot) == 0);
            });
            slot.show();
            assert!(slot.name().is_some());
        });
    }
}

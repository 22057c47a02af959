//! For concurrency testers, between two steps of a lock's threads. Not part of the
//! interface.

use core::mem::offset_of;
use core::sync::atomic::Ordering;

use super::RangeRwLock;
use super::slots::word::Flags;
use super::stripes::state::Made;
use super::wait::shown::ASLEEP;
use crate::inspect;
use crate::platform::{Atomic, PooledPlatform};

impl<P: PooledPlatform> RangeRwLock<P> {
    /// What is wrong with the lock. Calls `queued` with the hint of every thread that waits in the
    /// tree, where nobody may overtake it. `Ok(false)` if that cannot be told, as somebody is
    /// changing the queue.
    ///
    /// # Safety
    /// No thread runs in a method of this lock meanwhile; any may be stopped in one.
    #[doc(hidden)]
    pub unsafe fn check(&self, mut queued: impl FnMut(usize)) -> Result<bool, &'static str> {
        if self.core.tree_lock.is_locked() {
            return Ok(false);
        }
        let word = self.core.word.load(Ordering::Relaxed);
        // SAFETY: nobody has the tree lock, and nobody runs who could take it.
        let q = unsafe { &*self.core.queue.get() };
        if word.has_any(Flags::TREE) == q.ranges.is_empty() {
            return Err("TREE does not say whether the tree is empty");
        }
        if word.has_any(Flags::QUEUED) != (q.ranges.waiting() > 0) {
            return Err("QUEUED does not say whether anybody waits in the tree");
        }
        if word.has_any(Flags::STRIPED) != q.striping.is_some() {
            return Err("STRIPED does not say whether the lock is striped");
        }
        if let Some(regions) = &q.ranges.regions {
            for (stripe, (_, word)) in self.core.striped.words().enumerate() {
                if word.is_closed() != regions.is_touched(stripe) {
                    return Err("CLOSED does not say whether the tree has a range there");
                }
            }
        }
        let shows_asleep = self.core.shown.patient.load(Ordering::Relaxed) == ASLEEP;
        if self.core.shown.has_patient() == q.patient.is_empty()
            || shows_asleep != (!q.patient.is_empty() && q.patient.awake() == 0)
        {
            return Err("what is shown of those that may be overtaken is not so");
        }
        for (_, _, _, entry) in q.ranges.iter() {
            if let Some(waiter) = entry.waiter {
                // SAFETY: a waiter in the tree is alive.
                queued(unsafe { (&*waiter).thread }.hint());
            }
        }
        Ok(true)
    }

    /// Stripes the lock, for regions of 2^`shift` positions, as if there were a crowd. Returns
    /// whether it did.
    #[doc(hidden)]
    pub fn stripe(&self, shift: u32) -> bool {
        assert!(shift < u64::BITS, "a region has at most all positions");
        let makes = self.core.with_queue(|q| {
            let makes = q.made == Made::No;
            if makes {
                q.made = Made::For(shift);
            }
            makes
        });
        if makes {
            self.core.striped.make(shift);
        }
        // Acquire: the stripes are there; unless another thread is still making them.
        self.core.striped.made.load(Ordering::Acquire) != 0
            && self.core.with_queue(|q| self.core.begin_stripes(q, shift))
    }

    /// Checks that nothing is left in a lock that nobody uses.
    ///
    /// # Safety
    /// As [`check`](Self::check).
    #[doc(hidden)]
    pub unsafe fn check_idle(&self) -> Result<(), &'static str> {
        // SAFETY: the caller's promise.
        unsafe {
            self.check(|_| ())?;
            self.gate.lock.check_idle()?;
        }
        self.core.tree_lock.check_idle()?;
        if self.is_locked()
            || self.core.word.load(Ordering::Relaxed).has_any(Flags::TREE.with(Flags::QUEUED))
        {
            return Err("a range is held after everybody has left");
        }
        // SAFETY: nobody runs.
        if !unsafe { &*self.core.queue.get() }.patient.is_empty() || self.core.shown.has_patient() {
            return Err("somebody is listed after everybody has left");
        }
        Ok(())
    }

    /// The name of what is at an address in the lock.
    #[doc(hidden)]
    pub fn field_at(&self, address: usize) -> Option<&'static str> {
        let fields = [
            (offset_of!(Self, core.word), size_of_val(&self.core.word), "word"),
            (offset_of!(Self, core.slots), size_of_val(&self.core.slots), "slots"),
            (offset_of!(Self, core.hull), size_of_val(&self.core.hull), "hull"),
            (offset_of!(Self, core.tree_lock), size_of_val(&self.core.tree_lock), "tree lock"),
            (offset_of!(Self, core.shown), size_of_val(&self.core.shown), "shown"),
            (offset_of!(Self, gate), size_of_val(&self.gate), "gate"),
            (0, size_of::<Self>(), "hints"),
        ];
        inspect::field_at(self, address, &fields)
    }
}

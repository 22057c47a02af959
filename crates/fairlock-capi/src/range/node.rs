//! A node: a range that is held, or nothing, in memory of the C program.

use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use fairlock::{RangeReadGuard, RangeWriteGuard};

use crate::errno::Errno;

/// A range that is held, or nothing: FAIRLOCK_RANGE_INIT, {0}, zero bytes. The program
/// provides one for each range that it locks, for instance on the stack, and keeps it until
/// the range is unlocked. It may be handed to another thread, and be moved: copied, if only
/// one of the copies is used from then on.
#[repr(C)]
pub struct fairlock_range_t {
    state: u32,
    reserved: u32,
    memory: [u64; 11],
}

/// The node holds nothing.
const FREE: u32 = 0;
/// The node has a guard for reading.
const READS: u32 = 0x5245_4144;
/// The node has a guard for writing.
const WRITES: u32 = 0x5752_4954;

/// A guard that a node can hold. Its lifetime is that of the lock, which the program keeps (and a
/// lock with ranges is not destroyed).
pub(super) trait Guard {
    const STATE: u32;
}

pub(super) type ReadGuard = RangeReadGuard<'static>;
pub(super) type WriteGuard = RangeWriteGuard<'static>;

impl Guard for ReadGuard {
    const STATE: u32 = READS;
}

impl Guard for WriteGuard {
    const STATE: u32 = WRITES;
}

/// A node's state and its guard, if there is one.
pub(super) struct Node<'a> {
    /// Relaxed throughout: it belongs to the thread that uses the node. Atomic, in case a second
    /// thread looks by mistake.
    state: &'a AtomicU32,
    memory: *mut u64,
}

/// The guard in a node, by reference. A guard of either kind by value would be copied here and
/// there, by wider loads than it was stored with, which costs more than the lock.
pub(super) enum Held<'a> {
    Read(&'a mut ReadGuard),
    Write(&'a mut WriteGuard),
}

impl Node<'_> {
    /// # Safety
    /// As for [`crate::home::get`].
    #[inline(always)]
    pub(super) unsafe fn new(node: *mut fairlock_range_t) -> Result<Self, Errno> {
        if node.is_null() || !node.is_aligned() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the caller's promise: there is a node, and aligned as was seen. Its state
        // is used only by this.
        let state = unsafe { AtomicU32::from_ptr(&raw mut (*node).state) };
        // SAFETY: as above.
        Ok(Self { state, memory: unsafe { (&raw mut (*node).memory).cast() } })
    }

    #[inline(always)]
    pub(super) fn is_free(&self) -> Result<(), Errno> {
        if self.state.load(Ordering::Relaxed) == FREE { Ok(()) } else { Err(Errno::INVALID) }
    }

    /// Puts into the node, which must be free, the guard that `take` returns.
    #[inline(always)]
    pub(super) fn fill<G: Guard>(
        &self,
        take: impl FnOnce() -> Result<G, Errno>,
    ) -> Result<(), Errno> {
        self.is_free()?;
        let guard = take()?;
        // SAFETY: nothing is in the node as long as it is free.
        unsafe { self.place::<G>().write(guard) };
        self.state.store(G::STATE, Ordering::Relaxed);
        Ok(())
    }

    /// The guard in the node, to look at or to change.
    #[inline(always)]
    pub(super) fn held(&mut self) -> Result<Held<'_>, Errno> {
        // SAFETY: the state says which guard it is; it belongs to the thread that uses the node.
        unsafe {
            match self.state.load(Ordering::Relaxed) {
                READS => Ok(Held::Read(&mut *self.place())),
                WRITES => Ok(Held::Write(&mut *self.place())),
                FREE => Err(Errno::NOT_HELD),
                _ => Err(Errno::INVALID),
            }
        }
    }

    /// Drops the guard in the node, which is free from then on.
    #[inline(always)]
    pub(super) fn release(&mut self) -> Result<(), Errno> {
        let state = self.state;
        // SAFETY: the guard is there, and is not used after this.
        unsafe {
            match self.held()? {
                Held::Read(guard) => ptr::drop_in_place(guard),
                Held::Write(guard) => ptr::drop_in_place(guard),
            }
        }
        state.store(FREE, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the guard out.
    ///
    /// # Safety
    /// The node has a guard of this kind.
    #[inline(always)]
    pub(super) unsafe fn empty<G: Guard>(&self) -> G {
        self.state.store(FREE, Ordering::Relaxed);
        // SAFETY: the caller's promise, and now nobody else takes it.
        unsafe { self.place::<G>().read() }
    }

    #[inline(always)]
    fn place<G: Guard>(&self) -> *mut G {
        const {
            let before = offset_of!(fairlock_range_t, memory);
            assert!(
                before + size_of::<G>() <= size_of::<fairlock_range_t>(),
                "the C struct is too small"
            );
            assert!(align_of::<G>() <= align_of::<u64>());
        }
        self.memory.cast()
    }
}

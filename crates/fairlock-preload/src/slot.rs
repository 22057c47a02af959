//! An inflated lock, in memory that is never given back.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use fairlock::Policy;
use fairlock::platform::Platform;
use fairlock::rwsem::RwSem;

use crate::head::Holders;
use crate::stats::Stats;
use crate::still::Still;

/// A lock's address, less the bits that are zero, above its nonce. Addresses have 47 bits unless
/// the program asks for others.
const ADDRESS_SHIFT: u32 = 3;
pub(crate) const NONCE_BITS: u32 = 19;
const NONCE_MASK: u64 = (1 << NONCE_BITS) - 1;

/// Below both: somebody is about to take the slot away from its lock, if that is idle.
const DOUBTFUL: u64 = 1;

fn identity(address: usize, nonce: u64) -> u64 {
    (address as u64 >> ADDRESS_SHIFT << (NONCE_BITS + 1)) | (nonce & NONCE_MASK) << 1
}

/// Whose slot it is.
pub(crate) enum Owner {
    This,
    /// This lock's, or soon nobody's.
    Doubtful,
    Other,
}

/// Where slots are found by their numbers.
pub(crate) trait Slots<P: Platform> {
    /// None if there is none of that number.
    fn get(number: u32) -> Option<&'static Slot<P>>;

    /// The slot is doubtful: waits a moment.
    fn settle(slot: &'static Slot<P>);
}

/// A lock that was, or is, contended. Recycled as it is: whoever released it last, and
/// let its user go on to destroy it, may still be busy in its queue, which does the next
/// user no harm.
#[repr(C, align(64))] // what is read only is on lines of its own
pub(crate) struct Slot<P: Platform> {
    sem: UnsafeCell<RwSem<P>>,
    pub(crate) stats: Stats,
    pub(crate) still: Still,
    /// Its number in the pool.
    pub(crate) number: u32,
    /// Which lock's slot it is; zero if it is none's.
    identity: AtomicU64,
    /// How many locks have had it.
    owners: AtomicU32,
    used: AtomicBool,
    /// The process in which `sem` was last made sure to have no waiters of another one: see
    /// [`enter_process`](Self::enter_process).
    process: AtomicU32,
    /// The next in its list of the registry, which guards it, or of the pool.
    pub(crate) next: AtomicU32,
}

// SAFETY: `sem` is shared as it is made to be; see `sem` and `enter_process`.
unsafe impl<P: Platform> Sync for Slot<P> {}

impl<P: Platform> Slot<P> {
    pub(crate) fn new(policy: Policy, process: u32, number: u32) -> Self {
        Self {
            sem: UnsafeCell::new(RwSem::new(policy)),
            stats: Stats::new(),
            still: Still::new(),
            number,
            identity: AtomicU64::new(0),
            owners: AtomicU32::new(0),
            used: AtomicBool::new(true),
            process: AtomicU32::new(process),
            next: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn sem(&self) -> &RwSem<P> {
        // SAFETY: shared, but for `forget_waiters`, which nobody can see at work.
        unsafe { &*self.sem.get() }
    }

    // Whoever changes whose slot it is has it for themselves, or the registry's mutex.

    /// From now on it is the slot of the lock at `address`, and of no earlier one there.
    pub(crate) fn assign(&self, address: usize) {
        let owner = self.owners.load(Ordering::Relaxed).wrapping_add(1);
        self.owners.store(owner, Ordering::Relaxed);
        let identity = identity(address, owner.into());
        // Release: whoever finds it to be theirs finds it as it was prepared.
        self.identity.store(identity, Ordering::Release);
    }

    /// It is nobody's slot.
    pub(crate) fn retire(&self) {
        self.identity.store(0, Ordering::Release);
    }

    /// Whether there is a slot, and it is some lock's.
    ///
    /// # Safety
    /// It points to a slot, or to zeros where one is about to be.
    pub(crate) unsafe fn is_assigned(slot: *const Self) -> bool {
        // SAFETY: the caller's promise; zeros are such a word, too. Acquire: see `assign`.
        unsafe { (*slot).identity.load(Ordering::Acquire) != 0 }
    }

    /// The address of its lock; zero if there is none.
    pub(crate) fn address(&self) -> usize {
        (self.identity.load(Ordering::Relaxed) >> (NONCE_BITS + 1) << ADDRESS_SHIFT) as usize
    }

    /// What tells its lock from those that had it before, and may have left its number behind.
    pub(crate) fn nonce(&self) -> u64 {
        (self.identity.load(Ordering::Relaxed) >> 1) & NONCE_MASK
    }

    /// Whether it is the slot of the lock at `address` that has this nonce.
    #[inline(always)]
    pub(crate) fn owner(&self, address: usize, nonce: u64) -> Owner {
        // Acquire: see `assign`.
        match self.identity.load(Ordering::Acquire) ^ identity(address, nonce) {
            0 => Owner::This,
            DOUBTFUL => Owner::Doubtful,
            _ => Owner::Other,
        }
    }

    /// From now on nobody new uses the slot, until [`confirm`](Self::confirm) or
    /// [`retire`](Self::retire). An exchange, so a full barrier on this target: whoever has not
    /// seen this is seen to be about to use it.
    pub(crate) fn doubt(&self) {
        self.identity.fetch_or(DOUBTFUL, Ordering::SeqCst);
    }

    pub(crate) fn confirm(&self) {
        self.identity.fetch_and(!DOUBTFUL, Ordering::Release);
    }

    /// Nobody holds the lock, or waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        !self.sem().is_locked() && !self.sem().has_waiters()
    }

    /// Somebody is about to use the slot.
    #[inline(always)]
    pub(crate) fn note_use(&self) {
        // A load first: the line is shared.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether anybody was since the last call.
    pub(crate) fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Whether the slot has been used in the process of this number.
    #[inline(always)]
    pub(crate) fn is_of_process(&self, process: u32) -> bool {
        // Acquire: and it has no waiters of another one.
        self.process.load(Ordering::Acquire) == process
    }

    /// Before a slot is used in a process, which `number` tells from those it comes from:
    /// whoever waited in another one does not exist, nor who was busy in the queue. What was
    /// counted there does not count. `nap` waits a moment for whoever is at it.
    #[cold]
    pub(crate) fn enter_process(&self, number: u32, nap: impl Fn()) {
        /// Somebody is at it, in the process that the other bits say.
        const BUSY: u32 = 1 << 31;
        loop {
            let seen = self.process.load(Ordering::Acquire);
            if seen == number {
                return;
            }
            if seen == number | BUSY {
                nap();
                continue;
            }
            let ours = (number | BUSY, Ordering::Acquire, Ordering::Relaxed);
            if self.process.compare_exchange(seen, ours.0, ours.1, ours.2).is_ok() {
                // SAFETY: nobody has used it in this process, and all who do come here first.
                unsafe { &mut *self.sem.get() }.forget_waiters();
                self.stats.reset();
                // Who was in doubt is not here.
                self.confirm();
                // Release: whoever finds the number finds it so.
                self.process.store(number, Ordering::Release);
                return;
            }
        }
    }

    /// These hold the lock, which is not known to anybody yet.
    pub(crate) fn adopt(&self, holders: Holders) {
        match holders {
            Holders::Readers(0) => {}
            Holders::Readers(count) => self.sem().adopt_readers(count as usize),
            Holders::Writer => self.sem().adopt_writer(),
        }
    }
}

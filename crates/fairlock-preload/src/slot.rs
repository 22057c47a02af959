//! An inflated lock, in memory that is never given back.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use fairlock::Policy;
use fairlock::events::EventCounts;
use fairlock::lock::RawRwLock;
use fairlock::platform::PooledPlatform;

use crate::word::{Identity, Name, Owner, Still, Word};

/// Where slots are found by their numbers.
pub(crate) trait Slots<P: PooledPlatform> {
    /// `None` if there is no slot of that number.
    fn get(number: u32) -> Option<&'static Slot<P>>;

    /// The slot is doubtful: waits a moment.
    fn settle(slot: &'static Slot<P>);
}

/// A lock that was, or is, contended. Recycled as it is: a thread that released it last, and let
/// its user go on to destroy it, may still be busy in its queue, which does the next user no harm.
#[repr(C, align(64))]
pub(crate) struct Slot<P: PooledPlatform> {
    sem: Line<RawRwLock<P>>,
    // What each use of the lock looks at is on one line, and hardly ever written.
    /// Its number in the pool.
    pub(crate) number: u32,
    /// How many locks have had this slot.
    owners: AtomicU32,
    /// The [`Identity`] of the lock whose slot this is.
    identity: AtomicU64,
    /// A [`Name`]: see `visible`.
    pub(crate) shown: AtomicU64,
    used: AtomicBool,
    /// The last process in which `sem` was freed of the waiters of another process, by
    /// [`enter_process`](Self::enter_process).
    process: AtomicU32,
    /// The next slot in its list, of the registry, which guards it, or of the pool.
    pub(crate) next: AtomicU32,
    // Not on that line: what is written by those that wait.
    pub(crate) stats: Stats,
    pub(crate) still: Still,
    /// How many threads wait for the lock alone, or are about to.
    pub(crate) waiting: AtomicU32,
}

/// In a cache line of its own, as it is written all the time.
#[repr(align(64))]
struct Line<T>(T);

impl<P: PooledPlatform> Slot<P> {
    pub(crate) fn new(policy: Policy, process: u32, number: u32) -> Self {
        Self {
            sem: Line(RawRwLock::new(policy)),
            number,
            owners: AtomicU32::new(0),
            identity: AtomicU64::new(Identity::NONE.0),
            shown: AtomicU64::new(0),
            used: AtomicBool::new(true),
            process: AtomicU32::new(process),
            next: AtomicU32::new(0),
            stats: Stats::default(),
            still: Still::default(),
            waiting: AtomicU32::new(0),
        }
    }

    #[inline(always)]
    pub(crate) fn sem(&self) -> &RawRwLock<P> {
        &self.sem.0
    }

    // A thread that changes whose slot this is has the slot for itself, or the registry's mutex.

    /// From now on this is the slot of the lock at `address`, and of no earlier one there.
    pub(crate) fn assign(&self, address: usize) {
        let owner = self.owners.load(Ordering::Relaxed).wrapping_add(1);
        self.owners.store(owner, Ordering::Relaxed);
        let identity = Identity::new(address, owner.into());
        // Release: a thread that finds the slot to be its lock's finds it as it was prepared.
        self.identity.store(identity.0, Ordering::Release);
    }

    /// From now on this is no lock's slot.
    pub(crate) fn retire(&self) {
        self.identity.store(Identity::NONE.0, Ordering::Release);
    }

    /// Whether it is some lock's.
    pub(crate) fn is_assigned(&self) -> bool {
        // Acquire: see `assign`.
        self.identity.load(Ordering::Acquire) != Identity::NONE.0
    }

    /// The address of its lock; zero if there is none.
    pub(crate) fn address(&self) -> usize {
        Identity(self.identity.load(Ordering::Relaxed)).address()
    }

    /// What tells the slot's lock from those that had it before, whose words may still name it.
    pub(crate) fn nonce(&self) -> u64 {
        Identity(self.identity.load(Ordering::Relaxed)).nonce()
    }

    /// Whether it is the slot of the lock at `address` that has this nonce.
    #[inline(always)]
    pub(crate) fn owner(&self, address: usize, nonce: u64) -> Owner {
        // Acquire: see `assign`.
        Identity(self.identity.load(Ordering::Acquire)).is(Identity::new(address, nonce))
    }

    /// What the readers of the lock show, if it is visible.
    #[inline(always)]
    pub(crate) fn name(&self) -> Option<u64> {
        // Acquire: whoever made the lock visible came after the last writer.
        Name(self.shown.load(Ordering::Acquire)).if_visible()
    }

    /// Readers that are shown are those of a lock that is gone.
    pub(crate) fn forget_shown(&self) {
        self.shown.fetch_or(Name::REVOKED, Ordering::Relaxed);
    }

    /// From now on nobody new uses the slot, until [`confirm`](Self::confirm) or
    /// [`retire`](Self::retire). An exchange, so a full barrier on this target: a thread that has
    /// not seen the doubt is seen to be about to use the slot.
    pub(crate) fn doubt(&self) {
        self.identity.fetch_or(Identity::DOUBT, Ordering::SeqCst);
    }

    pub(crate) fn confirm(&self) {
        self.identity.fetch_and(!Identity::DOUBT, Ordering::Release);
    }

    /// Whether nobody holds the lock, or waits for it.
    pub(crate) fn is_idle(&self) -> bool {
        !self.sem().is_locked() && !self.sem().has_waiters()
    }

    /// A thread is about to use the slot.
    #[inline(always)]
    pub(crate) fn note_use(&self) {
        // A load first: the line is shared.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether any thread was about to use it since the last call.
    pub(crate) fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Whether the slot has been used in the process of this number.
    #[inline(always)]
    pub(crate) fn is_of_process(&self, process: u32) -> bool {
        // Acquire: and it has no waiters of another process.
        self.process.load(Ordering::Acquire) == process
    }

    /// Makes the slot fit for use in the process of this number: threads of a process that it was forked
    /// from, which waited or were busy in the queue, do not exist here. What was counted there does not
    /// count.
    ///
    /// # Safety
    /// Nobody has used it in this process, and one thread does this.
    pub(crate) unsafe fn enter_process(&self, process: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.sem().enter_child() };
        self.stats.reset();
        // A thread that was in doubt is not here.
        self.confirm();
        // Release: a thread that finds the number finds the slot fit for use.
        self.process.store(process, Ordering::Release);
    }

    /// Those inside the thin lock, whose word this is, hold the lock, which nobody else knows yet.
    pub(crate) fn adopt(&self, thin: Word) {
        // SAFETY: nobody knows the lock, so nobody has it.
        unsafe {
            if thin.is_written() {
                self.sem().adopt_writer();
            } else if thin.readers() > 0 {
                self.sem().adopt_readers(thin.readers());
            }
        }
    }
}

/// What is counted of a lock while `FAIRLOCK_STATS` asks for it. Relaxed throughout: statistics.
#[derive(Default)]
pub(crate) struct Stats {
    /// How often the lock was taken each way.
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    /// How often the lock could not be had at once, and for how many nanoseconds in all; waits that
    /// were given up count.
    pub(crate) waits: AtomicU64,
    pub(crate) waited_ns: AtomicU64,
    pub(crate) longest_ns: AtomicU64,
    /// The number of the thread that writes; zero if none does.
    pub(crate) writer: AtomicU32,
    /// The program has destroyed the lock.
    pub(crate) destroyed: AtomicBool,
    /// The kind of lock: a `config::Kind`.
    pub(crate) kind: AtomicU8,
    pub(crate) events: EventCounts,
}

impl Stats {
    pub(crate) fn note_read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_write(&self, tid: u32) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.note_writer(tid);
    }

    pub(crate) fn note_writer(&self, tid: u32) {
        self.writer.store(tid, Ordering::Relaxed);
    }

    pub(crate) fn note_wait(&self, ns: u64) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(ns, Ordering::Relaxed);
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// Counts from zero again; holders stay noted.
    pub(crate) fn reset(&self) {
        for count in [&self.reads, &self.writes, &self.waits, &self.waited_ns, &self.longest_ns] {
            count.store(0, Ordering::Relaxed);
        }
        self.events.reset();
    }
}

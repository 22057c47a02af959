//! This project's locks: the reader/writer lock under its policies, the batched
//! ticket lock with its batches.

use std::cell::Cell;
use std::time::Duration;

use fairlock::lock_api;
use fairlock::platform::{ConstZero, Platform, PooledPlatform};
use fairlock::rwsem::RwSem;
use fairlock::thin::{ThinMutex, ThinRwSem};
use fairlock::ticket::{AdaptiveTicketLock, BatchedTicketLock};
use fairlock::{Mutex, Policy, PublishedPolicy, ReaderSpin, RwLock};

use super::entry::{LockEntry, Runs};
use super::monitor::{Monitor, Thin};
use super::range::Ours;
use super::{BenchLock, BenchMutex, RwBench};

thread_local! {
    /// The policy of locks that this thread makes.
    static POLICY: Cell<Policy> = const { Cell::new(Policy::DEFAULT) };
}

/// Calls `run`, in which locks that are made have this policy.
pub fn with_policy<R>(policy: Policy, run: impl FnOnce() -> R) -> R {
    let before = POLICY.replace(policy);
    let result = run();
    POLICY.set(before);
    result
}

/// The lock on a platform, with the thread's policy: one type for all policies, as workloads are
/// compiled for each type.
pub struct WithPolicy<P: Platform>(lock_api::RwLock<RwSem<P>, ()>);

impl<P: Platform> BenchLock for WithPolicy<P>
where
    RwSem<P>: lock_api::RawRwLock,
{
    fn create() -> Self {
        Self(lock_api::RwLock::from_raw(RwSem::new(POLICY.get()), ()))
    }

    #[inline(always)]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.read();
        section()
    }

    #[inline(always)]
    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.write();
        section()
    }
}

impl BenchLock for RwLock<()> {
    fn create() -> Self {
        RwLock::new(())
    }

    #[inline(always)]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.read();
        section()
    }

    #[inline(always)]
    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.write();
        section()
    }
}

/// The policies that have names.
fn presets() -> [(&'static str, &'static str, Policy); 9] {
    let handoff = PublishedPolicy::HANDOFF;
    let at_once = PublishedPolicy { handoff_after: Some(Duration::ZERO), ..handoff };
    let spin = |reader_spin| Policy::published(PublishedPolicy { reader_spin, ..handoff });
    [
        ("fairlock:full", "the default, full also while nobody waits", Policy::DEFAULT),
        ("fairlock:unfair", "no handoff: writers may steal for ever", Policy::UNFAIR),
        (
            "fairlock:handoff",
            "handoff to a waiter past its deadline, every reader may spin",
            Policy::HANDOFF,
        ),
        (
            "fairlock:handoff_immediate",
            "handoff to every waiter at once",
            Policy::published(at_once),
        ),
        ("fairlock:no_reader_spin", "handoff, and readers never spin", Policy::NO_READER_SPIN),
        (
            "fairlock:writer_phase",
            "no reader steals while a writer heads the queue",
            Policy::WRITER_PHASE,
        ),
        (
            "fairlock:reader_spin_one",
            "handoff, and at most one reader spins",
            spin(ReaderSpin::One),
        ),
        (
            "fairlock:reader_spin_always",
            "handoff, and readers spin for readers too: Linux 5.3 to 5.10",
            spin(ReaderSpin::Always),
        ),
        (
            "fairlock:reader_spin_adaptive",
            "handoff, and the side that yields more goes past the queue",
            spin(ReaderSpin::Adaptive),
        ),
    ]
}

impl<P: Platform, const BATCH: u32> BenchMutex for BatchedTicketLock<P, BATCH> {
    fn create() -> Self {
        Self::new()
    }

    #[inline(always)]
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
        self.lock();
        let result = section();
        // SAFETY: taken above. A section that unwinds skips this and leaves the
        // lock held, which is safe.
        unsafe { self.unlock() };
        result
    }
}

/// The ticket lock without guards, for platforms that have no [`Mutex`].
impl<P: Platform> BenchMutex for AdaptiveTicketLock<P> {
    fn create() -> Self {
        Self::new()
    }

    #[inline(always)]
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
        self.lock_with_backoff();
        let result = section();
        // SAFETY: taken above; as for the others.
        unsafe { self.unlock() };
        result
    }
}

impl BenchMutex for Mutex<()> {
    fn create() -> Self {
        Mutex::new(())
    }

    #[inline(always)]
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.lock();
        section()
    }
}

impl<P: PooledPlatform> RwBench for ThinRwSem<P> {
    fn new() -> Self {
        Self::new(Policy::DEFAULT)
    }

    fn read_lock(&self) {
        self.read();
    }

    unsafe fn read_unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.unlock_read() }
    }

    fn write_lock(&self) {
        self.write();
    }

    unsafe fn write_unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.unlock_write() }
    }
}

impl<P: PooledPlatform> BenchMutex for ThinMutex<P> {
    fn create() -> Self {
        Self::new()
    }

    #[inline(always)]
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
        self.lock();
        let result = section();
        // SAFETY: taken above; as for the others.
        unsafe { self.unlock() };
        result
    }
}

/// What an [`RwLock`], a [`Mutex`] and a [`Condvar`](fairlock::Condvar) are, for platforms that have
/// none of them.
pub fn thin<P: PooledPlatform, T: Runs>() -> LockEntry<T> {
    let about = "the default, thin while nobody waits";
    let mut thin = LockEntry::rw::<ThinRwSem<P>>("fairlock:thin", about)
        .with_mutex::<ThinMutex<P>>()
        .around_everything::<ThinRwSem<P>>();
    thin.add_condvar::<Monitor<P, Thin<P>>>();
    thin
}

/// The locks of this family on a platform; `L` and `M` are what takes the place of an [`RwLock`]
/// and a [`Mutex`] there.
pub fn entries<P: Platform, T: Runs, L: BenchLock, M: BenchMutex>() -> Vec<LockEntry<T>>
where
    RwSem<P>: lock_api::RawRwLock,
{
    let default = LockEntry::rw::<L>("fairlock:default", "RwLock: what you get without asking");
    let mut entries = vec![default.around_everything::<L>()];
    entries.extend(presets().map(|(name, about, policy)| {
        LockEntry::rw::<WithPolicy<P>>(name, about).with_policy(policy)
    }));
    entries.extend([
        LockEntry::mutex::<M>(
            "fairlock:adaptive",
            "Mutex; simulated, tickets in batches as large as pays",
        ),
        LockEntry::mutex::<BatchedTicketLock<P, 1>>("fairlock:batch1", "tickets one by one"),
        LockEntry::mutex::<BatchedTicketLock<P, 4>>("fairlock:batch4", "tickets in batches of 4"),
        LockEntry::mutex::<BatchedTicketLock<P, 8>>("fairlock:batch8", "tickets in batches of 8"),
        LockEntry::mutex::<BatchedTicketLock<P, 64>>(
            "fairlock:batch64",
            "tickets in batches of 64",
        ),
    ]);
    entries
}

/// The range locks on a platform.
pub fn ranges<P: Platform, T: Runs>() -> Vec<LockEntry<T>>
where
    P::AtomicUsize: ConstZero,
    P::AtomicU32: ConstZero,
    P::AtomicU64: ConstZero,
{
    vec![
        LockEntry::range::<Ours<P, false>>(
            "fairlock:range",
            "RangeRwLock: waits overtaken for 4 ms",
        ),
        LockEntry::range::<Ours<P, true>>(
            "fairlock:range_fifo",
            "RangeRwLock: in order of arrival",
        ),
    ]
}

//! This project's locks: the reader/writer lock under its policies, the batched
//! ticket lock with its batches.

use std::marker::PhantomData;
use std::time::Duration;

use fairlock::lock_api;
use fairlock::platform::Platform;
use fairlock::rwsem::RwSem;
use fairlock::ticket::{AdaptiveTicketLock, BatchedTicketLock};
use fairlock::{Mutex, Policy, PublishedPolicy, ReaderSpin, RwLock};

use super::{BenchLock, BenchMutex, LockEntry, Runs};

/// Where the policy of a lock comes from, so that a lock with it is a type.
pub trait Preset: Send + Sync + 'static {
    /// That of a lock that is made now.
    fn policy() -> Policy;
}

/// The lock with a preset, on a platform.
pub struct Fairlock<S, P: Platform>(lock_api::RwLock<RwSem<P>, ()>, PhantomData<S>);

impl<S: Preset, P: Platform> BenchLock for Fairlock<S, P>
where
    RwSem<P>: lock_api::RawRwLock,
{
    fn create() -> Self {
        Self(lock_api::RwLock::from_raw(RwSem::new(S::policy()), ()), PhantomData)
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

/// The lock that is an [`RwLock`] where there is one, for platforms that have none.
pub type FullDefault<P> = Fairlock<Full, P>;

/// One type a preset, and the entries of all of them.
macro_rules! presets {
    ($($type:ident: $name:literal, $about:literal, $policy:expr;)*) => {
        $(
            pub struct $type;
            impl Preset for $type {
                fn policy() -> Policy {
                    $policy
                }
            }
        )*

        /// The lock with each preset.
        fn presets<P: Platform, T: Runs>() -> Vec<LockEntry<T>>
        where
            RwSem<P>: lock_api::RawRwLock,
        {
            vec![$(LockEntry::rw::<Fairlock<$type, P>>(concat!("fairlock:", $name), $about)),*]
        }
    };
}

presets! {
    Full: "full", "the default, full also while nobody waits", Policy::DEFAULT;
    Unfair: "unfair", "no handoff: writers may steal for ever", Policy::UNFAIR;
    Handoff: "handoff", "handoff to a waiter past its deadline, every reader may spin", Policy::HANDOFF;
    HandoffImmediate: "handoff_immediate", "handoff to every waiter at once",
        Policy::published(PublishedPolicy { handoff_after: Some(Duration::ZERO), ..PublishedPolicy::HANDOFF });
    NoReaderSpin: "no_reader_spin", "handoff, and readers never spin", Policy::NO_READER_SPIN;
    WriterPhase: "writer_phase", "no reader steals while a writer heads the queue",
        Policy::WRITER_PHASE;
    ReaderSpinOne: "reader_spin_one", "handoff, and at most one reader spins",
        Policy::published(PublishedPolicy { reader_spin: ReaderSpin::One, ..PublishedPolicy::HANDOFF });
    ReaderSpinAlways: "reader_spin_always", "handoff, and readers spin for readers too: Linux 5.3 to 5.10",
        Policy::published(PublishedPolicy { reader_spin: ReaderSpin::Always, ..PublishedPolicy::HANDOFF });
    ReaderSpinAdaptive: "reader_spin_adaptive", "handoff, and the side that yields more goes past the queue",
        Policy::published(PublishedPolicy { reader_spin: ReaderSpin::Adaptive, ..PublishedPolicy::HANDOFF });
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

/// The mutex without its guards, for platforms that have no [`Mutex`].
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

/// The locks of this family on a platform; `L` and `M` are what it has for an [`RwLock`] and
/// for a [`Mutex`].
pub fn entries<P: Platform, T: Runs, L: BenchLock, M: BenchMutex>() -> Vec<LockEntry<T>>
where
    RwSem<P>: lock_api::RawRwLock,
{
    let default = LockEntry::rw::<L>("fairlock:default", "RwLock: what you get without asking");
    let mut entries = vec![default.around_everything::<L>()];
    entries.extend(presets::<P, T>());
    entries.extend([
        LockEntry::mutex::<M>("fairlock:adaptive", "Mutex: tickets in batches as large as pays"),
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

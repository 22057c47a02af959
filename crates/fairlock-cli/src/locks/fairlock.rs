//! This project's locks: the reader/writer lock under its policies, the batched
//! ticket lock with its batches.

use std::marker::PhantomData;
use std::time::Duration;

use fairlock::platform::Native;
use fairlock::ticket::BatchedTicketLock;
use fairlock::{Mutex, Policy, RawRwLock, ReaderSpin, RwLock};

use super::{BenchLock, BenchMutex, LockEntry, mutex_entry, rw_entry};

/// A policy known at compile time, so that a lock with it is a type.
trait Preset: Send + Sync + 'static {
    const POLICY: Policy;
}

/// The lock with a preset.
struct Fairlock<P>(RwLock<()>, PhantomData<P>);

impl<P: Preset> BenchLock for Fairlock<P> {
    fn create() -> Self {
        Self(RwLock::from_raw(RawRwLock::with_policy(P::POLICY), ()), PhantomData)
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

/// One type a preset, and the entries of all of them.
macro_rules! presets {
    ($($type:ident: $name:literal, $about:literal, $policy:expr;)*) => {
        $(
            struct $type;
            impl Preset for $type {
                const POLICY: Policy = $policy;
            }
        )*

        /// The lock with each preset.
        fn presets() -> Vec<LockEntry> {
            vec![$(rw_entry::<Fairlock<$type>>(concat!("fairlock:", $name), $about)),*]
        }
    };
}

presets! {
    Default: "default", "what you get without asking", Policy::DEFAULT;
    Unfair: "unfair", "no handoff: writers may steal for ever", Policy::UNFAIR;
    Handoff: "handoff", "handoff to a waiter past its deadline, every reader may spin", Policy::HANDOFF;
    HandoffImmediate: "handoff_immediate", "handoff to every waiter at once",
        Policy { handoff_after: Some(Duration::ZERO), ..Policy::HANDOFF };
    NoReaderSpin: "no_reader_spin", "handoff, and readers never spin", Policy::NO_READER_SPIN;
    WriterPhase: "writer_phase", "no reader steals while a writer heads the queue",
        Policy::WRITER_PHASE;
    ReaderSpinOne: "reader_spin_one", "handoff, and at most one reader spins",
        Policy { reader_spin: ReaderSpin::One, ..Policy::HANDOFF };
    ReaderSpinAdaptive: "reader_spin_adaptive", "handoff, and readers spin if it has paid",
        Policy { reader_spin: ReaderSpin::Adaptive, ..Policy::HANDOFF };
}

impl<const BATCH: u32> BenchMutex for BatchedTicketLock<Native, BATCH> {
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

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    let mut entries = presets();
    entries[0] = entries[0].around_everything::<Fairlock<Default>>();
    entries.extend([
        mutex_entry::<Mutex<()>>("fairlock:adaptive", "Mutex: tickets in batches as large as pays"),
        mutex_entry::<BatchedTicketLock<Native, 1>>("fairlock:batch1", "tickets one by one"),
        mutex_entry::<BatchedTicketLock<Native, 4>>("fairlock:batch4", "tickets in batches of 4"),
        mutex_entry::<BatchedTicketLock<Native, 8>>("fairlock:batch8", "tickets in batches of 8"),
        mutex_entry::<BatchedTicketLock<Native, 64>>(
            "fairlock:batch64",
            "tickets in batches of 64",
        ),
    ]);
    entries
}

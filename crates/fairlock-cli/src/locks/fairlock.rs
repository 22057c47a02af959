//! This project's lock under its policies.

use std::marker::PhantomData;
use std::time::Duration;

use fairlock::{Policy, RawRwLock, ReaderSpin, RwLock};

use super::{BenchLock, LockEntry, rw_entry};

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

        /// The locks of this family.
        pub fn entries() -> Vec<LockEntry> {
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

//! Policies of the kernel proposals.

use core::time::Duration;

/// Whether readers spin before they sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReaderSpin {
    /// Readers never spin, but steal. This is what proposal 2 chose.
    Off,
    /// At most one reader spins; when it gets in, it wakes all readers that wait. A reader steals
    /// only if nobody spins.
    One,
    /// Every reader may spin while a writer is inside. No reader begins to spin while readers are
    /// inside, as that could keep writers out for ever. A reader steals only if nobody spins.
    On,
    /// Not part of the interface: it reproduces the first column of a published table, Linux before
    /// proposal 2 (5.3 to 5.10). Every reader may spin, even while readers are inside; readers do
    /// not steal otherwise. Readers that keep coming keep everybody else out, as only a release
    /// that leaves nobody inside hands the lock to a waiter. Only a writer that has spun for
    /// readers in vain, and was then handed the lock, makes readers queue for a while.
    #[doc(hidden)]
    Always,
}

/// How a lock decides which thread goes next. Each lock has its own policy; a policy can be a `const`.
///
/// The presets: [`UNFAIR`](Self::UNFAIR), [`HANDOFF`](Self::HANDOFF), [`NO_READER_SPIN`](Self::NO_READER_SPIN),
/// [`WRITER_PHASE`](Self::WRITER_PHASE).
///
/// ```
/// use std::time::Duration;
///
/// use fairlock::RwLockExt;
/// use fairlock::published::{Policy, RawRwLock, RwLock};
///
/// /// As the first proposal had it.
/// const TEN: Policy = Policy { handoff_after: Some(Duration::from_millis(10)), ..Policy::HANDOFF };
///
/// static NAMES: RwLock<Vec<String>> = RwLock::from_raw(RawRwLock::with_policy(TEN), Vec::new());
/// let ages = RwLock::with_policy(TEN, vec![7]);
/// assert_eq!(NAMES.policy(), ages.policy());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// For how long other threads may pass a waiter before the lock is handed to it. `None`: for
    /// ever (it may starve). Zero: not at all (every acquisition costs a context switch).
    pub handoff_after: Option<Duration>,
    /// Whether writers spin before they sleep.
    pub writer_spin: bool,
    /// Whether readers spin before they sleep.
    pub reader_spin: ReaderSpin,
    /// Readers may not steal while a writer heads the queue.
    pub writer_phase: bool,
}

impl Policy {
    /// No handoff at all: fast, but threads starve. The baseline of proposal 1.
    pub const UNFAIR: Self = Self {
        handoff_after: None,
        writer_spin: true,
        reader_spin: ReaderSpin::On,
        writer_phase: false,
    };
    /// Proposal 1: a waiter past its deadline, 4 ms after its arrival, is handed the lock.
    pub const HANDOFF: Self =
        Self { handoff_after: Some(Duration::from_millis(4)), ..Self::UNFAIR };
    /// Proposal 2: readers steal instead of spinning.
    pub const NO_READER_SPIN: Self = Self { reader_spin: ReaderSpin::Off, ..Self::HANDOFF };
    /// Proposal 5: readers may not steal from a writer at the head of the queue.
    pub const WRITER_PHASE: Self = Self { writer_phase: true, ..Self::NO_READER_SPIN };
}

//! Words of which parts mean different things.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

use super::fork;

/// What a [`Mutex`](super::mutex::Mutex) is, in one process.
///
/// | bits | meaning |
/// |---|---|
/// | 0-1 | 0: free; 1: held; 2: held, and somebody may sleep on the word |
/// | 2-31 | the holder's process (see [`fork::number`]): in any other one the mutex is free |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holding(pub(super) u32);

const STATE_BITS: u32 = 2;
const STATE: u32 = (1 << STATE_BITS) - 1;
const HELD: u32 = 1;
const WANTED: u32 = 2;

impl Holding {
    pub(super) const FREE: Self = Self(0);

    pub(super) fn held(process: u32) -> Self {
        Self(process << STATE_BITS | HELD)
    }

    /// Held, and somebody may sleep on the word.
    pub(super) fn wanted(process: u32) -> Self {
        Self(process << STATE_BITS | WANTED)
    }

    pub(super) fn is_free_in(self, process: u32) -> bool {
        self.0 & STATE == 0 || self.0 >> STATE_BITS != process
    }

    pub(super) fn is_wanted(self) -> bool {
        self.0 & STATE == WANTED
    }
}

/// What `__kind` of a `pthread_mutex_t` says.
///
/// | bits | meaning |
/// |---|---|
/// | 0-1 | 0: normal; 1: recursive; 2: error-checking; 3: adaptive |
/// | 2-7 | robust, inheriting, protecting, shared, or unknown: the mutex is glibc's. All bits are set after `destroy` |
/// | 8-9 | glibc's wish for a transaction, which is none of ours |
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct MutexKind(pub(crate) c_int);

const TYPE: c_int = 0b11;
const NOT_OURS: c_int = 0b1111_1100;

/// How a mutex treats a thread that has it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MutexType {
    Normal,
    Recursive,
    ErrorChecking,
    Adaptive,
}

impl MutexKind {
    pub(crate) const NORMAL: Self = Self(0);
    /// After `destroy`, which glibc refuses.
    pub(crate) const DESTROYED: Self = Self(-1);

    /// Whether mutexes of this kind may be this library's.
    #[inline(always)]
    pub(crate) fn may_be_ours(self) -> bool {
        self.0 & NOT_OURS == 0
    }

    #[inline(always)]
    pub(crate) fn of_type(self) -> MutexType {
        match self.0 & TYPE {
            0 => MutexType::Normal,
            1 => MutexType::Recursive,
            2 => MutexType::ErrorChecking,
            _ => MutexType::Adaptive,
        }
    }

    #[inline(always)]
    pub(crate) fn is_recursive(self) -> bool {
        self.of_type() == MutexType::Recursive
    }

    /// Whether it matters which thread has the mutex.
    #[inline(always)]
    pub(crate) fn knows_its_owner(self) -> bool {
        matches!(self.of_type(), MutexType::Recursive | MutexType::ErrorChecking)
    }
}

/// What `__wrefs` of a `pthread_cond_t` says.
///
/// | bits | meaning |
/// |---|---|
/// | 0 | shared by processes |
/// | 1 | timed waits are by the monotonic clock |
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct CondFlags(u32);

const SHARED: u32 = 1 << 0;
const MONOTONIC: u32 = 1 << 1;

impl CondFlags {
    #[inline(always)]
    pub(crate) fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }

    /// The clock of timed waits.
    pub(crate) fn clock(self) -> libc::clockid_t {
        if self.0 & MONOTONIC != 0 { libc::CLOCK_MONOTONIC } else { libc::CLOCK_REALTIME }
    }
}

/// How many threads do something: the number, and in the upper half the process whose threads they
/// are: those of another process are not here. Relaxed throughout: no other memory is read on the
/// strength of it.
#[repr(transparent)]
pub(crate) struct Count(AtomicU64);

const PROCESS_SHIFT: u32 = 32;

impl Count {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        word != 0 && count(word) > 0
    }

    pub(crate) fn get(&self) -> u32 {
        count(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn add(&self) {
        self.change(|count| count + 1);
    }

    pub(crate) fn remove(&self) {
        self.change(|count| count.saturating_sub(1));
    }

    /// Sets the count to zero.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn change(&self, change: impl Fn(u32) -> u32) {
        let here = u64::from(fork::number()) << PROCESS_SHIFT;
        let next = |word| Some(here | u64::from(change(count(word))));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

fn count(word: u64) -> u32 {
    if word >> PROCESS_SHIFT == u64::from(fork::number()) { word as u32 } else { 0 }
}

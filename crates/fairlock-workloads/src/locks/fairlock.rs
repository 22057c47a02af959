//! This project's locks: those of its library, the published reader/writer lock under its policies, the batched
//! ticket lock with its batches.

use std::time::Duration;

use fairlock::lock::{RawMutex, RawRwLock};
use fairlock::lock_api;
use fairlock::platform::{ConstZero, Platform, PooledPlatform};
use fairlock::published;
use fairlock::published::ReaderSpin;
use fairlock::ticket::{AdaptiveTicketLock, BatchedTicketLock};

use super::condvar::BenchCondvar;
use super::entry::{LockEntry, Runs};
use super::range::Ours;
use super::typed::Typed;
use super::with_policy::{Chosen, WithPolicy};
use super::{BenchLock, RwBench};

/// The policies of the proposals that have names; `fairlock locks` says what each is.
fn presets() -> [(&'static str, published::Policy); 7] {
    use published::Policy;
    let at_once = Policy { handoff_after: Some(Duration::ZERO), ..Policy::HANDOFF };
    let spin = |reader_spin| Policy { reader_spin, ..Policy::HANDOFF };
    [
        ("fairlock:unfair", Policy::UNFAIR),
        ("fairlock:handoff", Policy::HANDOFF),
        ("fairlock:handoff_immediate", at_once),
        ("fairlock:no_reader_spin", Policy::NO_READER_SPIN),
        ("fairlock:writer_phase", Policy::WRITER_PHASE),
        ("fairlock:reader_spin_one", spin(ReaderSpin::One)),
        ("fairlock:reader_spin_always", spin(ReaderSpin::Always)),
    ]
}

/// An [`RwLock`](fairlock::RwLock) on a platform.
type OurRwLock<P> = Typed<lock_api::RwLock<RawRwLock<P>, ()>>;

/// A mutex by its methods: those without guards, for platforms that have no
/// [`Mutex`](fairlock::Mutex).
macro_rules! mutex {
    (<P: $platform:ident $(, const $constant:ident: u32)?> $lock:ty, $acquire:ident) => {
        impl<P: $platform $(, const $constant: u32)?> RwBench for $lock {
            fn new() -> Self {
                Self::new()
            }

            #[inline(always)]
            fn write_lock(&self) {
                self.$acquire();
            }

            #[inline(always)]
            unsafe fn write_unlock(&self) {
                // SAFETY: the caller's promise.
                unsafe { self.unlock() }
            }
        }
    };
}

mutex!(<P: Platform, const BATCH: u32> BatchedTicketLock<P, BATCH>, lock);
mutex!(<P: Platform> AdaptiveTicketLock<P>, lock_with_backoff);
mutex!(<P: PooledPlatform> RawMutex<P>, lock);

/// The locks of this family on a platform. `M` and `C` are its [`Mutex`](fairlock::Mutex) and
/// [`Condvar`](fairlock::Condvar), or what these are made of where there are none. All else is the same type on
/// every platform, so a name means one lock.
pub fn entries<P: PooledPlatform, T: Runs, M: BenchLock, C: BenchCondvar>() -> Vec<LockEntry<T>>
where
    published::RwSem<P>: lock_api::RawRwLockFair,
    RawRwLock<P>: lock_api::RawRwLockFair,
{
    let mut entries = vec![
        LockEntry::rw::<OurRwLock<P>>("fairlock:rwlock").around_everything::<OurRwLock<P>>(),
        LockEntry::mutex::<M>("fairlock:mutex").with_condvar::<C>(),
    ];
    entries
        .extend(presets().map(|(name, policy)| following::<P, T>(name, Chosen::Published(policy))));
    entries.extend([
        LockEntry::mutex::<AdaptiveTicketLock<P>>("fairlock:batch_adaptive"),
        LockEntry::mutex::<BatchedTicketLock<P, 1>>("fairlock:batch1"),
        LockEntry::mutex::<BatchedTicketLock<P, 4>>("fairlock:batch4"),
        LockEntry::mutex::<BatchedTicketLock<P, 8>>("fairlock:batch8"),
        LockEntry::mutex::<BatchedTicketLock<P, 64>>("fairlock:batch64"),
    ]);
    entries
}

/// The lock of this name on a platform.
pub(super) fn following<P: PooledPlatform, T: Runs>(
    name: &'static str,
    policy: Chosen,
) -> LockEntry<T>
where
    RawRwLock<P>: lock_api::RawRwLockFair,
    published::RwSem<P>: lock_api::RawRwLockFair,
{
    let entry = match policy {
        Chosen::Tenure(_) => LockEntry::rw::<WithPolicy<RawRwLock<P>>>(name),
        Chosen::Published(_) => LockEntry::rw::<WithPolicy<published::RwSem<P>>>(name),
    };
    entry.with_policy(policy)
}

/// The range locks on a platform.
pub fn ranges<P: PooledPlatform, T: Runs>() -> Vec<LockEntry<T>>
where
    P::AtomicUsize: ConstZero,
    P::AtomicU32: ConstZero,
    P::AtomicU64: ConstZero,
{
    vec![
        LockEntry::range::<Ours<P, false>>("fairlock:range"),
        LockEntry::range::<Ours<P, true>>("fairlock:range_fifo"),
    ]
}

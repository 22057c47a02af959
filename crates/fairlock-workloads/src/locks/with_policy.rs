//! Our reader/writer lock with a policy that is known when it is made.

use std::cell::Cell;

use fairlock::Policy;
use fairlock::lock_api;
use fairlock::platform::Platform;
use fairlock::rwsem::RwSem;

use super::BenchLock;
use super::typed::Typed;

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
pub struct WithPolicy<P: Platform>(Typed<lock_api::RwLock<RwSem<P>, ()>>);

impl<P: Platform> BenchLock for WithPolicy<P>
where
    RwSem<P>: lock_api::RawRwLockFair,
{
    fn create() -> Self {
        Self(Typed(lock_api::RwLock::from_raw(RwSem::new(POLICY.get()), ())))
    }

    #[inline(always)]
    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.read(section)
    }

    #[inline(always)]
    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.write(section)
    }
}

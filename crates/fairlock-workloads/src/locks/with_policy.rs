//! Our reader/writer locks with a policy that is known when they are made.

use std::cell::Cell;

use fairlock::lock::RawRwLock;
use fairlock::lock_api;
use fairlock::platform::{Platform, PooledPlatform};
use fairlock::{Policy, published};

use super::BenchLock;
use super::typed::Typed;

/// A policy, and with it which lock it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Chosen {
    Tenure(Policy),
    Published(published::Policy),
}

thread_local! {
    /// The policy of locks that this thread makes.
    static POLICY: Cell<Chosen> = const { Cell::new(Chosen::Tenure(Policy::DEFAULT)) };
}

/// Calls `run`, in which locks that are made have this policy.
pub fn with_policy<R>(policy: Chosen, run: impl FnOnce() -> R) -> R {
    let before = POLICY.replace(policy);
    let result = run();
    POLICY.set(before);
    result
}

/// A lock that has a policy of this kind.
pub trait Follows {
    fn following(policy: Chosen) -> Option<Self>
    where
        Self: Sized;
}

impl<P: PooledPlatform> Follows for RawRwLock<P> {
    fn following(policy: Chosen) -> Option<Self> {
        if let Chosen::Tenure(policy) = policy { Some(Self::new(policy)) } else { None }
    }
}

impl<P: Platform> Follows for published::RwSem<P> {
    fn following(policy: Chosen) -> Option<Self> {
        if let Chosen::Published(policy) = policy { Some(Self::new(policy)) } else { None }
    }
}

/// The lock with the thread's policy: one type for all policies of a kind, as workloads are compiled for each
/// type.
pub struct WithPolicy<L>(Typed<lock_api::RwLock<L, ()>>);

impl<L: Follows + lock_api::RawRwLockFair + Send + Sync + 'static> BenchLock for WithPolicy<L> {
    fn create() -> Self {
        let lock = L::following(POLICY.get()).expect("the entry says both");
        Self(Typed(lock_api::RwLock::from_raw(lock, ())))
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

//! A reader/writer lock of the kind that its policy asks for.

use std::sync::{Mutex, PoisonError};

use fairlock::events::EventCounts;
use fairlock::lock::RawRwLock;
use fairlock::platform::Native;
use fairlock::published;
use fairlock::{Wait, WaitError};

use crate::policy::Policy;

/// The default lock, or one of the kernel proposals, which has no room in a C struct.
pub(crate) enum Chosen {
    Default(RawRwLock<Native>),
    Published(Pooled),
}

type Published = published::RwSem<Native>;

/// Locks that were destroyed. A thread that released one just before may still be in its queue, so
/// none is ever freed.
static POOL: Mutex<Vec<&'static Published>> = Mutex::new(Vec::new());

/// A lock that goes to the pool when it is dropped.
pub(crate) struct Pooled(&'static Published);

impl Pooled {
    fn new(policy: published::Policy) -> Self {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |lock: &&Published| lock.policy() == policy && !lock.is_locked();
        Self(match pool.iter().position(fits) {
            Some(index) => pool.swap_remove(index),
            None => Box::leak(Box::new(Published::new(policy))),
        })
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        self.0.set_events(None);
        POOL.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

/// Methods that both kinds have.
macro_rules! both {
    ($(fn $name:ident($($argument:ident: $type:ty)?) $(-> $result:ty)?;)*) => {
        $(#[inline(always)]
        pub(crate) fn $name(&self $(, $argument: $type)?) $(-> $result)? {
            match self {
                Chosen::Default(lock) => lock.$name($($argument)?),
                Chosen::Published(Pooled(lock)) => lock.$name($($argument)?),
            }
        })*
    };
    ($(unsafe fn $name:ident();)*) => {
        $(/// # Safety
        /// As for the lock itself.
        #[inline(always)]
        pub(crate) unsafe fn $name(&self) {
            // SAFETY: the caller's promise.
            unsafe {
                match self {
                    Chosen::Default(lock) => lock.$name(),
                    Chosen::Published(Pooled(lock)) => lock.$name(),
                }
            }
        })*
    };
}

impl Chosen {
    pub(crate) fn new(policy: Policy) -> Self {
        match policy {
            Policy::Default(policy) => Self::Default(RawRwLock::with_policy(policy)),
            Policy::Published(policy) => Self::Published(Pooled::new(policy)),
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        match self {
            Self::Default(lock) => Policy::Default(lock.policy()),
            Self::Published(Pooled(lock)) => Policy::Published(lock.policy()),
        }
    }

    /// The default lock, if it is that.
    pub(crate) fn as_default(&self) -> Option<&RawRwLock<Native>> {
        if let Self::Default(lock) = self { Some(lock) } else { None }
    }

    both! {
        fn read_with(wait: Wait<'_>) -> Result<(), WaitError>;
        fn read_recursive_with(wait: Wait<'_>) -> Result<(), WaitError>;
        fn write();
        fn write_with(wait: Wait<'_>) -> Result<(), WaitError>;
        fn try_read() -> bool;
        fn try_read_recursive() -> bool;
        fn try_write() -> bool;
        fn is_locked() -> bool;
        fn is_write_locked() -> bool;
        fn is_saturated() -> bool;
        fn has_waiters() -> bool;
        fn set_events(counts: Option<&'static EventCounts>);
    }

    both! {
        unsafe fn unlock_read();
        unsafe fn unlock_read_fair();
        unsafe fn unlock_write();
        unsafe fn unlock_write_fair();
        unsafe fn downgrade();
    }
}

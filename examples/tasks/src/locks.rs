//! The locks: ours, and those that tasks use today.

use std::sync::Arc;
use std::time::Instant;

use fairlock::{MutexAsyncExt, RwLockAsyncExt};

use crate::run::Work;

/// A lock that tasks take.
pub trait Lock: Default + Send + Sync + 'static {
    /// Whether a task may await while it holds the lock.
    const SUSPENDS: bool = true;

    /// Takes the lock, does the work, and releases the lock.
    fn section(self: &Arc<Self>, work: Work, access: Access) -> impl Future<Output = ()> + Send;
}

/// How a task takes a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

macro_rules! lock {
    ($name:ident: $of:ty, $lock:ident, $read:expr, $write:expr) => {
        #[derive(Default)]
        pub struct $name($of);

        impl Lock for $name {
            #[allow(clippy::await_holding_lock, reason = "tasks wait for it")]
            async fn section(self: &Arc<Self>, work: Work, access: Access) {
                let $lock = &self.0;
                let began = Instant::now();
                match access {
                    Access::Read => {
                        let guard = $read.await;
                        work.inside(began, *guard).await;
                        drop(guard);
                    }
                    Access::Write => {
                        let mut guard = $write.await;
                        *guard += 1;
                        work.inside(began, *guard).await;
                        drop(guard);
                    }
                }
            }
        }
    };
}

lock!(Fairlock: fairlock::Mutex<u64>, lock, lock.lock_async(), lock.lock_async());
lock!(Tokio: tokio::sync::Mutex<u64>, lock, lock.lock(), lock.lock());
lock!(AsyncLock: async_lock::Mutex<u64>, lock, lock.lock(), lock.lock());
lock!(Futures: futures_util::lock::Mutex<u64>, lock, lock.lock(), lock.lock());
lock!(Saa: saa::lock_api::Mutex<u64>, lock, saa::lock_api::lock_async(lock), saa::lock_api::lock_async(lock));

lock!(FairlockRw: fairlock::RwLock<u64>, lock, lock.read_async(), lock.write_async());
lock!(TokioRw: tokio::sync::RwLock<u64>, lock, lock.read(), lock.write());
lock!(AsyncLockRw: async_lock::RwLock<u64>, lock, lock.read(), lock.write());
lock!(SaaRw: saa::lock_api::RwLock<u64>, lock, saa::lock_api::read_async(lock), saa::lock_api::write_async(lock));

/// The standard library's mutex, by threads for blocking work.
#[derive(Default)]
pub struct Std(std::sync::Mutex<u64>);

impl Lock for Std {
    const SUSPENDS: bool = false;

    async fn section(self: &Arc<Self>, work: Work, _: Access) {
        let (lock, began) = (self.clone(), Instant::now());
        let section = move || {
            let mut guard = lock.0.lock().unwrap();
            *guard += 1;
            work.blocked(began, *guard);
        };
        tokio::task::spawn_blocking(section).await.unwrap();
    }
}

/// The standard library's reader-writer lock, likewise.
#[derive(Default)]
pub struct StdRw(std::sync::RwLock<u64>);

impl Lock for StdRw {
    const SUSPENDS: bool = false;

    async fn section(self: &Arc<Self>, work: Work, access: Access) {
        let (lock, began) = (self.clone(), Instant::now());
        let section = move || match access {
            Access::Read => work.blocked(began, *lock.0.read().unwrap()),
            Access::Write => {
                let mut guard = lock.0.write().unwrap();
                *guard += 1;
                work.blocked(began, *guard);
            }
        };
        tokio::task::spawn_blocking(section).await.unwrap();
    }
}

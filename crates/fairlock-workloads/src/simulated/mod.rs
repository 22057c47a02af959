//! Workloads and locks on simulated machines.

mod free;
pub mod locks;
mod testbed;
pub mod trace;
mod why;

use std::sync::{Arc, Mutex, PoisonError};

pub use testbed::Simulated;

/// What a simulation tells while it runs, and is asked for afterwards.
#[derive(Default)]
pub struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Shared<T> {
    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

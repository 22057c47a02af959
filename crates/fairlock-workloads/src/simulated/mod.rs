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

/// How far a thread has come with what it asked for.
#[derive(Clone, Copy, Default, PartialEq)]
enum Stage {
    #[default]
    Elsewhere,
    Waits,
    Inside,
    /// Its section is over, but the call that gives the lock back is not.
    Leaves,
}

fn change(number: usize, up: bool) -> usize {
    if up { number + 1 } else { number - 1 }
}

/// The one of this number, and new ones before it if there are not as many.
fn at<T: Clone + Default>(all: &mut Vec<T>, number: usize) -> &mut T {
    if all.len() <= number {
        all.resize(number + 1, T::default());
    }
    &mut all[number]
}

//! Tasks that wait for one lock now. Each is noted in its own future, so a wait allocates nothing.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::vec::Vec;

use super::hold::{Seen, Waits};
use super::place::Place;
use super::threads::own_place;
use crate::wait::{Linked, Links, List};

/// In the order in which they came. Its lock is taken as a task begins to wait and as it ends, and for a snapshot.
pub(super) struct WaitingTasks(Mutex<Noted>);

struct Noted(List<TaskNote>);

// SAFETY: what is in the list is shared between threads: atomics, and links, which are used under the lock.
unsafe impl Send for Noted {}

/// What others see of a task that waits.
pub(super) struct TaskNote {
    pub(super) wait: Waits,
    pub(super) at: Place,
    /// The place of the thread that has polled it last.
    polled_by: AtomicUsize,
    is_told: AtomicBool,
    links: Links<TaskNote>,
}

impl Linked for TaskNote {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

// SAFETY: as for the list.
unsafe impl Send for TaskNote {}

impl TaskNote {
    pub(super) fn new(wait: Waits, at: Place) -> Self {
        let polled_by = AtomicUsize::new(own_place());
        Self { wait, at, polled_by, is_told: AtomicBool::new(false), links: Links::new() }
    }

    /// The calling thread polls it.
    pub(super) fn polled(&self) {
        self.polled_by.store(own_place(), Ordering::Relaxed);
    }

    fn seen(&self) -> Seen {
        (self.polled_by.load(Ordering::Relaxed), self.wait, self.at.known())
    }
}

impl WaitingTasks {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(Noted(List::new())))
    }

    fn with<T>(&self, f: impl FnOnce(&mut List<TaskNote>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).0)
    }

    /// # Safety
    /// It is in no list, and stays where it is until it is [removed](Self::remove).
    pub(super) unsafe fn add(&self, note: &TaskNote) {
        // SAFETY: the caller's promise.
        self.with(|list| unsafe { list.insert(note, |_| true) });
    }

    /// # Safety
    /// It is in this list.
    pub(super) unsafe fn remove(&self, note: &TaskNote) {
        // SAFETY: the caller's promise.
        self.with(|list| unsafe { list.remove(note) });
    }

    pub(super) fn all(&self) -> Vec<Seen> {
        self.with(|list| list.iter().map(TaskNote::seen).collect())
    }

    /// Those that are to be told of, by `is_long`; each once.
    pub(super) fn to_tell(&self, is_long: impl Fn(&Waits) -> bool) -> Vec<Seen> {
        let is_new =
            |note: &&TaskNote| is_long(&note.wait) && !note.is_told.swap(true, Ordering::Relaxed);
        self.with(|list| list.iter().filter(is_new).map(TaskNote::seen).collect())
    }
}

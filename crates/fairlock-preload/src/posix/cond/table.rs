//! Where waiters are found by the address of what they wait for.
//!
//! Nothing here has to be made or given back, and a program may have any number of condition
//! variables: those that share a place just meet each other's waiters there. In the child of a fork
//! nobody waits.

use core::cell::UnsafeCell;

use super::super::count::Count;
use crate::process::fork;
use crate::process::mutex::Mutex;
use crate::process::table::spread_over;
use crate::thread::platform::Preload;
use crate::waiters::{Notified, Queue, Waiter};

#[repr(align(64))] // so those of different places do not meet
struct Place {
    mutex: Mutex,
    content: UnsafeCell<Content>,
}

/// Used under the place's mutex.
struct Content {
    /// The process whose threads are in the queue.
    process: u32,
    queue: Queue<Preload>,
}

// SAFETY: the content is used under the mutex.
unsafe impl Sync for Place {}

static PLACES: [Place; 1024] = [const {
    Place {
        mutex: Mutex::new(),
        content: UnsafeCell::new(Content { process: 0, queue: Queue::new() }),
    }
}; 1024];

fn locked<R>(cond: usize, f: impl FnOnce(&mut Queue<Preload>) -> R) -> R {
    let place = &PLACES[spread_over(cond, PLACES.len())];
    // As in the C library, no handler may notify in the midst of this.
    let _guard = place.mutex.lock_quickly();
    // SAFETY: under the mutex.
    let content = unsafe { &mut *place.content.get() };
    if content.process != fork::number() {
        *content = Content { process: fork::number(), queue: Queue::new() };
    }
    f(&mut content.queue)
}

// `waiting` is changed under the mutex, too: a thread that was notified may free it.

/// # Safety
/// As for [`Queue::push`].
pub(super) unsafe fn push(waiter: &Waiter<Preload>, waiting: &Count) {
    locked(waiter.cond(), |queue| {
        waiting.add();
        // SAFETY: the caller's promise.
        unsafe { queue.push(waiter) };
    });
}

/// Takes the waiter out: false if it was notified.
pub(super) fn give_up(waiter: &Waiter<Preload>, waiting: &Count) -> bool {
    locked(waiter.cond(), |queue| {
        let gives_up = queue.give_up(waiter);
        if gives_up {
            waiting.remove();
        }
        gives_up
    })
}

pub(super) fn notify_one(cond: usize, waiting: &Count) {
    let notified = locked(cond, |queue| {
        let notified = queue.notify_one(cond);
        // If nobody was found, the count was copied with its bytes, and counts nobody.
        if notified.is_nobody() {
            waiting.clear()
        } else {
            waiting.remove()
        }
        notified
    });
    notified.wake();
}

pub(super) fn notify_all(cond: usize, waiting: &Count) {
    let notified: Notified<Preload> = locked(cond, |queue| {
        waiting.clear();
        queue.notify_all(cond)
    });
    notified.wake();
}

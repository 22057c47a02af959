//! The list of threads to wake.

use core::mem::MaybeUninit;

use super::Sleeper;
use crate::system::System;

/// Threads to wake once the queue lock is free: up to `MOST` of them.
///
/// The long list takes 2 KiB of the stack. So it belongs in a frame of its own, which is left before
/// the thread waits: signal handlers have small stacks.
pub(crate) struct WakeList<P: System, const MOST: usize = MAX_WAKES> {
    len: usize,
    threads: [MaybeUninit<&'static Sleeper<P>>; MOST],
}

/// How many waiters one release wakes at most. In waiters; compared with those granted in one go.
pub(crate) const MAX_WAKES: usize = 256;

/// As many as are woken together where each of them wakes others. In waiters; compared with those
/// on the list.
pub(crate) const FEW_WAKES: usize = 8;

impl<P: System, const MOST: usize> WakeList<P, MOST> {
    pub(crate) fn new() -> Self {
        Self { len: 0, threads: [const { MaybeUninit::uninit() }; MOST] }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == MOST
    }

    /// Lists a thread; one for which there is no room is woken at once.
    pub(crate) fn push(&mut self, thread: &'static Sleeper<P>) {
        match self.threads.get_mut(self.len) {
            Some(place) => {
                place.write(thread);
                self.len += 1;
            }
            None => thread.parker.unpark(),
        }
    }

    /// Wakes them all, which empties the list. The records are never freed, so it does not matter that
    /// a thread may have returned from its wait, or ended, meanwhile.
    pub(crate) fn wake_all(&mut self) {
        let len = core::mem::take(&mut self.len);
        for thread in &self.threads[..len] {
            // SAFETY: the first `len` entries were written by `push`.
            unsafe { thread.assume_init() }.parker.unpark();
        }
    }
}

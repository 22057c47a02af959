//! The plain ticket lock: in order of arrival, all spinning on one word.

use core::sync::atomic::Ordering;

use fairlock::platform::{Atomic, Platform};

use super::spin_until;
use crate::locks::BenchLock;

pub struct Ticket<P: Platform> {
    /// The next ticket to be taken.
    next: P::AtomicU32,
    /// The ticket whose turn it is.
    serving: P::AtomicU32,
}

impl<P: Platform> BenchLock for Ticket<P> {
    fn create() -> Self {
        Self { next: P::AtomicU32::new(0), serving: P::AtomicU32::new(0) }
    }

    #[inline(always)]
    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        // Relaxed: a ticket gives nothing yet.
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        if self.serving.load(Ordering::Acquire) != ticket {
            spin_until::<P, _, _>(&self.serving, |serving| serving == ticket);
        }
        let result = section();
        // Release: the section happens before the next one.
        self.serving.store(ticket.wrapping_add(1), Ordering::Release);
        result
    }
}

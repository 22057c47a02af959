//! What our locks count of themselves, in the measured window.

use std::sync::OnceLock;

use fairlock::events::{Snapshot, global};

use crate::cell::Events;

/// The counts of this process when the window begins, and when it ends.
#[derive(Default)]
pub struct Counted {
    begin: OnceLock<Snapshot>,
    end: OnceLock<Snapshot>,
}

impl Counted {
    /// The window has begun, if it had not before.
    #[inline]
    pub fn begins(&self) {
        self.begin.get_or_init(|| global().snapshot());
    }

    /// The window is over.
    #[inline]
    pub fn ends(&self) {
        self.end.get_or_init(|| global().snapshot());
    }

    /// What happened in the window; `None` if nothing did, as of locks that count nothing.
    pub fn events(&self) -> Option<Events> {
        let counts = self.end.get()?.since(self.begin.get()?);
        let happened = counts.iter().filter(|&(_, count)| count > 0);
        let counts: Events =
            happened.map(|(event, count)| (event.name().to_owned(), count as u64)).collect();
        (!counts.is_empty()).then_some(counts)
    }
}

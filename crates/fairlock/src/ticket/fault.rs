//! Negative controls: locks with one mistake each, which the checks must catch.

use super::batch::{BatchSize, Fixed, Step, sealed};

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None.
    None,
    /// A waiter parks without looking again after it raised INBOX.
    ParksBlindly,
    /// A releaser empties the inbox first and lowers INBOX then.
    CollectsTooEarly,
    /// A release looks at the word once more when it is done.
    TouchesReleased,
    /// A solo holder does not look for tickets once it is in.
    EntersBlindly,
    /// The first in line does not wait for a solo holder.
    OvertakesSolo,
}

/// `Fixed<BATCH>` with the mistake number `FAULT`.
#[derive(Debug)]
pub(super) struct Broken<const BATCH: u32, const FAULT: usize>;

impl<const BATCH: u32, const FAULT: usize> sealed::Sealed for Broken<BATCH, FAULT> {}

impl<const BATCH: u32, const FAULT: usize> BatchSize for Broken<BATCH, FAULT> {
    const MAX: u32 = Fixed::<BATCH>::MAX;
    type Pace = ();
    const START: () = ();
    const FAULT: Fault = [
        Fault::None,
        Fault::ParksBlindly,
        Fault::CollectsTooEarly,
        Fault::TouchesReleased,
        Fault::EntersBlindly,
        Fault::OvertakesSolo,
    ][FAULT];

    fn pace(pace: &mut (), word: u64, now: impl Fn() -> u64) -> Step {
        Fixed::<BATCH>::pace(pace, word, now)
    }
}

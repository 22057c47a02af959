//! Negative controls: locks with one mistake each, which the checks must catch.

use super::batch::{BatchSize, Fixed, Step, sealed};
use super::word::Word;

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
    /// A waiter that gives up leaves its ticket to nobody.
    GivesUpQuietly,
    /// A waiter gives up without another look at the lock after it made that known.
    GivesUpBlindly,
    /// A first in line that gives up kicks nobody.
    WithdrawsQuietly,
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
        Fault::GivesUpQuietly,
        Fault::GivesUpBlindly,
        Fault::WithdrawsQuietly,
    ][FAULT];

    fn pace(pace: &mut (), word: u64, now: impl Fn() -> u64) -> Step {
        Fixed::<BATCH>::pace(pace, word, now)
    }
}

/// Batches that close at once, and may be reopened. (No mistake.)
#[derive(Debug)]
pub(super) struct Reopened;

/// Whether one was.
pub(super) static WAS_REOPENED: std::sync::atomic::AtomicBool =
    std::sync::atomic::AtomicBool::new(false);

impl sealed::Sealed for Reopened {}

impl BatchSize for Reopened {
    const MAX: u32 = 4;
    const LONG: bool = true;
    /// Where the batch began, once known: a model may begin with tickets served.
    type Pace = Option<u32>;
    const START: Option<u32> = None;

    fn pace(first: &mut Option<u32>, word: u64, _now: impl Fn() -> u64) -> Step {
        let word = Word(word);
        if !word.is_serving() {
            *first = Some(0);
        }
        first.get_or_insert(word.head());
        let tickets = Self::spent(first, word.0) + word.left(Self::MAX);
        assert!(tickets <= Self::MAX, "a batch is too large");
        if word.left(Self::MAX) > 1 {
            return Step::Close;
        }
        *first = Some(word.released().head());
        Step::Next(1)
    }

    fn spent(first: &Option<u32>, word: u64) -> u32 {
        first.map_or(0, |first| Word(word).head_since(first))
    }

    fn reopen(_first: &mut Option<u32>, _ns: u64, _now: impl Fn() -> u64) -> u32 {
        WAS_REOPENED.store(true, core::sync::atomic::Ordering::Relaxed);
        1
    }
}

//! Whether readers spin: `ReaderSpin::Adaptive`.
//!
//! Per lock, from how reader spins ended lately, and apart for spins that began
//! with nobody queued and with somebody. A spin that got the lock in time was
//! worth it; one that took up to twice that was half a loss; any other was a
//! loss, also if it got the lock in the end. In time is [`WORTH_ALONE_NS`],
//! about the price of a sleep and a wake-up, if nobody was queued, but
//! [`WORTH_NS`] if somebody was: such a spin overtakes the queue and keeps the
//! readers apart, which would have slept and then run together. The mean loss
//! (each spin counts an eighth) decides: up to 1/8 is `On`, more is `One`, and
//! `Off` from 3/4 on if somebody was queued. With nobody queued that takes 15/16,
//! next to no gain at all: a spin that fails costs the CPU only, while one that
//! sleeps instead makes whoever is inside wake it. While `Off`, one reader in
//! [`PROBE`] spins, as under `One`, to see whether that has changed. The decision
//! takes no look at the clock beyond those of the spin itself: with sections of
//! 30 ns two more would cost a tenth of the throughput.
//!
//! The published grid (`reader_spin.csv`) says why: spinning readers gain with
//! few threads and with the shortest sections, lose with longer ones, and one
//! spinner is as good as many, but for two threads.

use core::sync::atomic::Ordering;

use super::policy::ReaderSpin;
use crate::platform::{Atomic, ConstZero, Platform};

/// A reader spin that succeeds within this was better than sleeping.
const WORTH_ALONE_NS: u64 = 10_000;
/// The same, if somebody slept already.
const WORTH_NS: u64 = 2_000;
/// One reader in this many spins although spinning looks bad.
const PROBE: usize = 32;
/// What a spin that was not worth it counts in [`SpinHistory::loss`]' scale.
const FULL: usize = 256;

/// How reader spins on a lock ended lately.
pub(super) struct SpinHistory<P: Platform> {
    /// Mean loss of reader spins that began with nobody queued, and with
    /// somebody: 0 (all were worth it) to `FULL`.
    loss: [P::AtomicUsize; 2],
    /// Readers that asked whether to spin while it looked bad.
    asked: P::AtomicUsize,
}

impl<P: Platform> SpinHistory<P> {
    pub(super) fn new() -> Self {
        Self {
            loss: [P::AtomicUsize::new(0), P::AtomicUsize::new(0)],
            asked: P::AtomicUsize::new(0),
        }
    }

    pub(super) const fn new_const() -> Self
    where
        P::AtomicUsize: ConstZero,
    {
        Self { loss: [ConstZero::ZERO, ConstZero::ZERO], asked: ConstZero::ZERO }
    }

    /// Which of the three is best, as far as it is known. Relaxed: statistics.
    pub(super) fn best(&self, queued: bool) -> ReaderSpin {
        let loss = self.loss[usize::from(queued)].load(Ordering::Relaxed);
        let in_vain = if queued { FULL * 3 / 4 } else { FULL * 15 / 16 };
        if loss <= FULL / 8 {
            ReaderSpin::On
        } else if loss <= in_vain
            || self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(PROBE)
        {
            ReaderSpin::One
        } else {
            ReaderSpin::Off
        }
    }

    /// Takes a reader spin into account. A load and a store: a lost one does
    /// no harm.
    pub(super) fn note(&self, queued: bool, stolen: bool, ns: u64) {
        let worth = if queued { WORTH_NS } else { WORTH_ALONE_NS };
        let sample = match stolen {
            true if ns <= worth => 0,
            true if ns <= 2 * worth => FULL / 2,
            _ => FULL,
        };
        let mean = &self.loss[usize::from(queued)];
        let loss = mean.load(Ordering::Relaxed);
        let now = loss - loss.div_ceil(8) + sample / 8;
        if now != loss {
            mean.store(now, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests {
    use super::*;
    use crate::platform::Native;

    type History = SpinHistory<Native>;

    fn after(spins: impl IntoIterator<Item = (bool, bool, u64)>) -> History {
        let history = History::new();
        for (queued, stolen, ns) in spins {
            history.note(queued, stolen, ns);
        }
        history
    }

    #[test]
    fn spins_that_succeed_at_once_let_every_reader_spin() {
        let history = after([(false, true, 0); 100]);
        assert_eq!(history.best(false), ReaderSpin::On);
        assert_eq!(history.best(true), ReaderSpin::On);
    }

    #[test]
    fn beside_a_queue_four_failures_in_five_are_too_many_and_without_one_they_are_not() {
        let mixed = |queued| (0..300).map(move |i| (queued, i % 5 == 0, 0));
        assert_eq!(after(mixed(false)).best(false), ReaderSpin::One);
        let history = after(mixed(true).take(299));
        history.best(true); // the probe
        assert_eq!(history.best(true), ReaderSpin::Off);
    }

    #[test]
    fn off_still_probes_and_comes_back() {
        for queued in [false, true] {
            let history = after([(queued, false, 0); 100]);
            let probes = (0..PROBE * 4).filter(|_| history.best(queued) == ReaderSpin::One).count();
            assert_eq!(probes, 4);
            for _ in 0..40 {
                history.note(queued, true, 0);
            }
            assert_eq!(history.best(queued), ReaderSpin::On);
        }
    }

    #[test]
    fn a_success_that_took_long_is_a_loss() {
        let history = after([(true, true, WORTH_NS * 2 + 1); 100]);
        history.best(true); // the probe
        assert_eq!(history.best(true), ReaderSpin::Off);
        let history = after([(true, true, WORTH_NS * 2); 100]);
        assert_eq!(history.best(true), ReaderSpin::One);
    }
}

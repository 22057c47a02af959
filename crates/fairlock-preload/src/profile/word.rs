//! How long all threads that wait for a lock have waited, in a word.

use core::sync::atomic::{AtomicU64, Ordering};

use fairlock_profile::layout::Now;

// Relaxed throughout: statistics.
const RELAXED: Ordering = Ordering::Relaxed;

/// [`Now::waiting`] and [`Now::charged`].
///
/// | bits | meaning |
/// |---|---|
/// | 0-15 | how many threads wait |
/// | 16-63 | how long all have waited in ns, modulo 2^48, as if those that wait had begun at time zero, and will wait until time zero |
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting(u64);

const TIME_SHIFT: u32 = 16;
const WAITERS: u64 = (1 << TIME_SHIFT) - 1;

impl Waiting {
    #[inline(always)]
    pub(super) fn now(now: &Now) -> Self {
        Self(now.waiting.load(RELAXED))
    }

    /// Until when waits were charged.
    #[inline(always)]
    pub(super) fn charged(now: &Now) -> Self {
        Self(now.charged.load(RELAXED))
    }

    #[inline(always)]
    pub(super) fn is_any(self) -> bool {
        self.0 & WAITERS != 0
    }

    fn is_one(self) -> bool {
        self.0 & WAITERS == 1
    }

    /// As it was when nobody waited any more, had all ended their waits at this time.
    fn ended(self, at: u64) -> Self {
        let waiters = self.0 & WAITERS;
        Self((self.0 & !WAITERS).wrapping_add(waiters.wrapping_mul(at << TIME_SHIFT)))
    }

    /// By how long it is later than `before`, in which nobody waited either; `None` if it is earlier.
    fn since(self, before: Self) -> Option<u64> {
        let time = self.0.wrapping_sub(before.0) >> TIME_SHIFT;
        (time >> (u64::BITS - TIME_SHIFT - 1) == 0).then_some(time)
    }
}

/// A thread begins to wait, at this time.
pub(super) fn begins(now: &Now, at: u64) {
    now.waiting.fetch_add((at << TIME_SHIFT).wrapping_neg().wrapping_add(1), RELAXED);
    if now.waited_since_ns.load(RELAXED) == 0 {
        let _ = now.waited_since_ns.compare_exchange(0, at, RELAXED, RELAXED);
    }
}

/// A thread that has waited since `began` does not any more. `alone`: nobody else has the lock now.
///
/// [`Now::waited_since_ns`] is a time at which the lock was held, by whoever holds it now: if that is
/// another thread by now, or nobody may hold it, it says nothing any more.
pub(super) fn ends(now: &Now, began: u64, at: u64, alone: bool) {
    let before = Waiting(now.waiting.fetch_add((at << TIME_SHIFT).wrapping_sub(1), RELAXED));
    let since: &AtomicU64 = &now.waited_since_ns;
    if before.is_one() {
        since.store(0, RELAXED);
    } else if alone {
        since.store(at, RELAXED);
    } else {
        let _ = since.compare_exchange(began, 0, RELAXED, RELAXED);
    }
}

/// What others have waited for the lock until now and is not charged yet; from now on it is.
pub(super) fn charge_until(at: u64, now: &Now) -> u64 {
    let (waited, charged) = (Waiting::now(now).ended(at), Waiting::charged(now));
    // Another thread may have charged until a later time: that is not taken back. And between two such
    // looks, a wait may have ended at a time slightly before the first one.
    let Some(delay) = waited.since(charged) else { return 0 };
    // Not a store: several readers may be about to leave, of whom one is charged.
    match now.charged.compare_exchange(charged.0, waited.0, RELAXED, RELAXED) {
        Ok(_) => delay,
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was known of an earlier holder is not said of a later one: that seemed to have held the
    /// lock since the wait for the earlier one began.
    #[test]
    fn nobody_holds_a_lock_since_a_wait_that_is_over() {
        // SAFETY: atomic numbers.
        let now: Now = unsafe { core::mem::zeroed() };
        let since = || now.waited_since_ns.load(RELAXED);
        begins(&now, 100);
        begins(&now, 200);
        assert_eq!(since(), 100);
        ends(&now, 200, 300, false);
        assert_eq!(since(), 100, "the other one still waits, for the same holder");
        begins(&now, 400);
        ends(&now, 100, 500, true);
        assert_eq!(since(), 500, "another holder, for whom somebody waits");
        ends(&now, 400, 600, false);
        assert_eq!((since(), Waiting::now(&now).is_any()), (0, false));
        begins(&now, 700);
        ends(&now, 700, 800, true);
        assert_eq!(since(), 0);
        // 100 + 400 + 200 + 100.
        assert_eq!(Waiting::now(&now).ended(9000).since(Waiting(0)), Some(800));
    }

    /// A thread that looked at its release late took back what another had charged until then, and that
    /// was charged again.
    #[test]
    fn what_was_charged_is_not_taken_back() {
        // SAFETY: atomic numbers.
        let now: Now = unsafe { core::mem::zeroed() };
        begins(&now, 100);
        assert_eq!(charge_until(300, &now), 200);
        assert_eq!(charge_until(250, &now), 0, "the other has charged that");
        assert_eq!(charge_until(400, &now), 100);
        ends(&now, 100, 450, true);
        assert_eq!(charge_until(500, &now), 50);
    }
}

//! What a lock yields: how often it was taken in how much time.

/// Acquisitions, and the time that they took. Seven digits are enough, in half the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yield {
    acquisitions: f32,
    ns: f32,
}

/// What is measured loses this part of itself with each later sample: one divided by this. In
/// samples; compared with nothing: it is a divisor.
pub(super) const FADES: u16 = 8;

impl Yield {
    /// Of no time.
    pub(super) const NONE: Self = Self { acquisitions: 0.0, ns: 0.0 };

    pub(super) fn new(acquisitions: u64, ns: u64) -> Self {
        Self { acquisitions: acquisitions as f32, ns: ns as f32 }
    }

    /// So many acquisitions in a nanosecond, for `ns`.
    pub(super) fn at(rate: f32, ns: u64) -> Self {
        Self { acquisitions: rate * ns as f32, ns: ns as f32 }
    }

    /// How long it took.
    pub(super) fn ns(self) -> f32 {
        self.ns
    }

    /// Acquisitions in a nanosecond. There must have been some time.
    pub(super) fn rate(self) -> f32 {
        self.acquisitions / self.ns
    }

    /// Both times together.
    pub(super) fn add(&mut self, other: Self) {
        self.acquisitions += other.acquisitions;
        self.ns += other.ns;
    }

    /// Both times together, the `later` one counting more. Long times weigh more than short ones,
    /// as they should: what is wanted is acquisitions for time.
    pub(super) fn add_later(&mut self, later: Self) {
        let rest = 1.0 - 1.0 / f32::from(FADES);
        self.acquisitions *= rest;
        self.ns *= rest;
        self.add(later);
    }

    /// Whether this yield, counted `worth` times, is at least the `other` one. Also if there was no
    /// time to compare.
    pub(super) fn is_worth(self, other: Self, worth: f32) -> bool {
        self.acquisitions * other.ns * worth >= other.acquisitions * self.ns
    }
}

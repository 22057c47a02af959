//! A cheap random sequence: drawing a number must not be what is measured.

/// The sequence of one thread.
pub struct Random(u64);

impl Random {
    /// A different sequence for each thread of a run, and for each seed.
    pub fn new(seed: u64, index: usize) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index as u64)
    }

    /// A number below `n`, which is at most 2^31.
    #[inline(always)]
    pub fn below(&mut self, n: u64) -> u64 {
        // Multiplier and increment are Knuth's (MMIX); the high bits are the good ones.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) * n) >> 31
    }
}

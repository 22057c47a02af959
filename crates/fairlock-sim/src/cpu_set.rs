//! A set of CPUs, or of cores.

/// A set of small numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuSet([u64; WORDS]);

const WORDS: usize = 8;

impl CpuSet {
    /// Members are smaller than this.
    pub(crate) const CAPACITY: usize = WORDS * 64;

    pub(crate) fn contains(&self, n: usize) -> bool {
        self.0[n / 64] & (1 << (n % 64)) != 0
    }

    /// Adds `n`; returns whether it is new.
    pub(crate) fn insert(&mut self, n: usize) -> bool {
        let new = !self.contains(n);
        self.0[n / 64] |= 1 << (n % 64);
        new
    }

    pub(crate) fn remove(&mut self, n: usize) {
        self.0[n / 64] &= !(1 << (n % 64));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(i, &word)| members(word).map(move |bit| i * 64 + bit))
    }
}

/// The numbers of the bits that are set.
pub(crate) fn members(bits: u64) -> impl Iterator<Item = usize> {
    let mut left = bits;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let bit = left.trailing_zeros() as usize;
            left &= left - 1;
            bit
        })
    })
}

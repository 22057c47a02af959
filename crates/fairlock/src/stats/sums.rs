//! What the locks of each name have counted together.

use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec::Vec;

use super::record::Record;
use super::snapshot::LockStats;

/// What all locks of a name have counted, and how many of them are in use.
pub(super) struct Sums(BTreeMap<Box<str>, (Record, usize)>);

impl Sums {
    pub(super) fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds what one record of this name has counted.
    pub(super) fn add(&mut self, name: &str, record: &Record, locks: usize) {
        let (sum, count) = self.0.entry(name.into()).or_insert_with(|| (Record::new(0, name), 0));
        sum.absorb(record);
        *count += locks;
    }

    /// In the order of the names.
    pub(super) fn stats(self) -> Vec<LockStats> {
        let stats = |(record, locks): (Record, usize)| LockStats { locks, ..record.stats() };
        self.0.into_values().map(stats).collect()
    }
}

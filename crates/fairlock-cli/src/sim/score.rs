//! The score of a simulated table, as it is kept.

use serde::{Deserialize, Serialize};

use crate::cell::Workload;

/// A model that knows nothing about locks.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Null {
    /// Every lock does what the plain lock does in the same configuration. Of the locks in relation
    /// to each other it knows nothing.
    AllEqual,
    /// The same, as rates: what was published of the plain lock stands for every lock. It knows a
    /// column of the table, and so the machine.
    PlainLock,
    /// The same, of latencies.
    PlainLatency,
}

/// How near a table comes to what was published, beside a model that knows nothing.
#[derive(Serialize, Deserialize)]
pub struct Score {
    pub workload: Workload,
    pub machine: String,
    /// The part of the table; all of it if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    pub null: Null,
    pub plain_lock: String,
    pub cells: usize,
    /// The root of the mean square of the logarithm of ours in relation to the published figure; for
    /// each seed.
    pub log_error: Vec<f64>,
    pub log_error_of_null: f64,
    /// Rank correlation with the published figures; for each seed.
    pub rank: Vec<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank_of_null: Option<f64>,
    /// Cells on the published side of the plain lock, where 3 % more or less are as much; for each seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signs: Vec<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signs_of_null: Option<usize>,
    /// Whether the log error is less than the model's with every seed, and the rank no worse; it is positive if the
    /// model has none.
    pub beats: bool,
}

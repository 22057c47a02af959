//! What a workload with many configurations is set up with.

use serde::{Deserialize, Serialize};

use super::idle::Holder;
use super::range::Shape;
use crate::cell::Form;

/// What makes one cell of a workload another than the next; also the keys of its
/// rows. What does not apply is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(default)]
pub struct Setup {
    /// As what the lock is used, where it could be several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<Form>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// Reads in a hundred operations of each thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_percent: Option<u8>,
    /// Length of the section in nanoseconds,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_ns: Option<u32>,
    /// and of a reader's, if that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ns: Option<u32>,
    /// Ranges held meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<usize>,
    /// Work outside, in relation to that inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside: Option<u32>,
    /// Locks, or positions, of which each operation is on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub among: Option<usize>,
    /// Of the groups of a scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_number: Option<u16>,
    /// What a holder does after its section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
}

/// What was asked for instead of the defaults; empty is all of them.
#[derive(Default)]
pub struct Chosen<'a> {
    pub forms: &'a [Form],
    pub threads: &'a [usize],
    pub shapes: &'a [Shape],
    pub reads: &'a [u8],
    pub sections: &'a [u32],
    pub held: &'a [usize],
    pub outside: &'a [u32],
    pub among: &'a [usize],
    pub holders: &'a [Holder],
}

/// One configuration: threads that read, that write, and the rest.
pub struct Configuration {
    pub threads: usize,
    pub readers: usize,
    pub writers: usize,
    pub setup: Setup,
}

/// What was chosen, or the default.
pub fn or<'a, T>(chosen: &'a [T], default: &'a [T]) -> &'a [T] {
    if chosen.is_empty() { default } else { chosen }
}

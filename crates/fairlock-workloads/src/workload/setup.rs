//! The configurations of workloads that have many.

use crate::cell::{Form, Holder, Setup, Shape};

/// What was asked for in place of the defaults; if empty, the defaults are used.
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

/// One configuration: how many threads read, how many write, and the rest.
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

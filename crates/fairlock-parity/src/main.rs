//! The programs of `tests/items/`, as `tests/parity.rs` puts them together: with the locks of
//! parking_lot, or ours. Empty in every other build.

#[cfg(not(fairlock_parity))]
fn main() {}

#[cfg(fairlock_parity)]
include!(env!("FAIRLOCK_PARITY"));

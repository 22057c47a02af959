//! fairlock's locks under parking_lot's name. With
//!
//! ```toml
//! [patch.crates-io]
//! parking_lot = { path = "…/compat/parking_lot-0.12" }
//! ```
//!
//! in its `Cargo.toml` a program, and every crate it depends on, that uses parking_lot 0.12 runs
//! on fairlock's locks, unchanged. All of its items are there: docs/guide/parity.md.
pub use fairlock::*;

//! fairlock's locks under parking_lot's name. With
//!
//! ```toml
//! [patch.crates-io]
//! parking_lot = { path = "…/compat/parking_lot-0.13" }
//! ```
//!
//! in its `Cargo.toml` a program, and every crate it depends on, that uses parking_lot 0.13 runs
//! on fairlock's locks, unchanged. What is there: docs/guide/migrating.md; a program that runs on both:
//! crates/fairlock-parity/tests/parking_lot_013.rs.
pub use fairlock::lock_api_05::*;

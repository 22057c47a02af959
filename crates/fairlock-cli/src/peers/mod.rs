//! The locks people use today, to compare with.

#[cfg(feature = "native-peers")]
pub mod native;
pub mod parking_lot;
pub mod pthread;
pub mod range;
pub mod std;

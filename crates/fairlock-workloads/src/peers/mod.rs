//! The locks people use today, to compare with.

#[cfg(target_os = "linux")]
pub mod fcntl;
#[cfg(feature = "native-peers")]
pub mod native;
pub mod parking_lot;
#[cfg(target_os = "linux")]
pub mod pthread;
pub mod range;
pub mod std;

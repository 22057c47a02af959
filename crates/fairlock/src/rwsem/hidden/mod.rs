//! What is no part of the interface: for locks that begin as somebody else's, and for the child
//! of a fork (`adopt`); for concurrency testers (`check`).

mod adopt;
mod check;

pub use check::Snapshot;

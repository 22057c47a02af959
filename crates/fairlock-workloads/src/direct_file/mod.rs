//! A preallocated temporary file for direct I/O, which has no name: it goes with
//! the process, however that ends.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Block, DirectFile};
#[cfg(target_os = "linux")]
pub use linux::{Block, DirectFile};

use crate::error::Error;

/// Bytes of a block: a page, and a multiple of every disk's sector.
pub const BLOCK: usize = 4096;

/// A file that is read and written a block at a time.
pub trait BlockFile: Sync {
    /// Writes block number `index`.
    fn write(&self, index: u64, block: &Block) -> Result<(), Error>;
    /// Reads block number `index`.
    fn read(&self, index: u64, block: &mut Block) -> Result<(), Error>;
}

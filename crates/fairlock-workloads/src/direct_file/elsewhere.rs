//! The file on systems for which this is not implemented: there is none.

use std::path::Path;

use super::BlockFile;
use crate::error::Error;

/// A block in memory, which only simulated disks use.
#[derive(Default)]
pub struct Block {}

/// No file.
pub enum DirectFile {}

impl DirectFile {
    /// Fails.
    pub fn create(_dir: &Path, _blocks: u64) -> Result<Self, Error> {
        Err(Error::failed("direct-io: direct I/O is there for Linux only; leave the workload out"))
    }

    pub fn file_system(&self) -> String {
        match *self {}
    }
}

impl BlockFile for DirectFile {
    fn write(&self, _index: u64, _block: &Block) -> Result<(), Error> {
        match *self {}
    }

    fn read(&self, _index: u64, _block: &mut Block) -> Result<(), Error> {
        match *self {}
    }
}

//! A file on Linux that is read and written past the page cache.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use super::{BLOCK, BlockFile};
use crate::error::Error;

/// A buffer aligned as direct I/O demands.
#[repr(align(4096))]
struct Page([u8; BLOCK]);

/// A block in memory.
pub struct Block(Box<Page>);

impl Default for Block {
    fn default() -> Self {
        Self(Box::new(Page([0xa5; BLOCK])))
    }
}

/// The file.
pub struct DirectFile(File);

impl DirectFile {
    /// A file of `blocks` preallocated blocks on the file system of `dir`.
    pub fn create(dir: &Path, blocks: u64) -> Result<Self, Error> {
        let explain = |what: &str, error: io::Error| {
            let mend = match Errno::from_io_error(&error) {
                Some(Errno::INVAL) => {
                    "its file system refuses O_DIRECT; choose a folder on a real disk with --dir"
                }
                Some(Errno::NOSPC | Errno::FBIG) => {
                    "make room, use fewer --secs, or choose another folder with --dir"
                }
                _ => "choose a folder you can write to with --dir",
            };
            Error::failed(format!("direct-io: cannot {what} in {}: {error}; {mend}", dir.display()))
        };
        let file = tempfile::tempfile_in(dir).map_err(|error| explain("create a file", error))?;
        let direct = rustix::fs::fcntl_setfl(&file, OFlags::DIRECT);
        direct.map_err(|errno| explain("use O_DIRECT", errno.into()))?;
        let bytes = blocks * BLOCK as u64;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes).map_err(|errno| {
            explain(&format!("preallocate {} MB", bytes / 1_000_000), errno.into())
        })?;
        let file = Self(file);
        // Some file systems accept the flag and refuse the first write.
        rustix::io::pwrite(&file.0, &Block::default().0.0, 0)
            .map_err(|errno| explain("write with O_DIRECT", errno.into()))?;
        Ok(file)
    }

    /// The type of the file system the file is on.
    pub fn file_system(&self) -> String {
        match rustix::fs::fstatfs(&self.0).map(|stat| stat.f_type as u64 & 0xffff_ffff) {
            Ok(0xef53) => "ext2/ext3/ext4".into(),
            Ok(0x5846_5342) => "xfs".into(),
            Ok(0x9123_683e) => "btrfs".into(),
            Ok(0xf2f5_2010) => "f2fs".into(),
            Ok(0x2fc1_2fc1) => "zfs".into(),
            Ok(0x0102_1994) => "tmpfs".into(),
            Ok(0x794c_7630) => "overlayfs".into(),
            Ok(0x6573_5546) => "fuse".into(),
            Ok(0x0102_1997) => "9p".into(),
            Ok(0x6969) => "nfs".into(),
            Ok(other) => format!("type 0x{other:x}"),
            Err(_) => "unknown".into(),
        }
    }
}

impl BlockFile for DirectFile {
    fn write(&self, index: u64, block: &Block) -> Result<(), Error> {
        complete("write", rustix::io::pwrite(&self.0, &block.0.0, index * BLOCK as u64))
    }

    fn read(&self, index: u64, block: &mut Block) -> Result<(), Error> {
        complete("read", rustix::io::pread(&self.0, &mut block.0.0, index * BLOCK as u64))
    }
}

/// A block is transferred whole or not at all.
fn complete(what: &str, result: Result<usize, Errno>) -> Result<(), Error> {
    match result {
        Ok(BLOCK) => Ok(()),
        Ok(bytes) => Err(Error::failed(format!(
            "direct-io: a {what} moved {bytes} of {BLOCK} bytes; is the disk full? choose another with --dir"
        ))),
        Err(errno) => Err(Error::failed(format!(
            "direct-io: {what} failed: {errno}; choose another folder with --dir"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_no_name_behind() {
        let dir = tempfile::tempdir().unwrap();
        let file = DirectFile::create(dir.path(), 4);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        if let Ok(file) = file {
            let mut block = Block::default();
            file.write(1, &block).unwrap();
            block.0.0.fill(0);
            file.read(1, &mut block).unwrap();
            assert!(block.0.0.iter().all(|&byte| byte == 0xa5));
        }
    }

    #[test]
    fn missing_folder_is_one_clear_line() {
        let error = DirectFile::create(Path::new("does/not/exist"), 1).err().unwrap().to_string();
        assert!(error.contains("--dir") && !error.contains('\n'), "{error}");
    }
}

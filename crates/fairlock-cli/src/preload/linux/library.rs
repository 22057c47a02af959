//! Where `libfairlock_preload.so` is.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::Error;

const NAME: &str = "libfairlock_preload.so";
/// What a library begins with.
const ELF: [u8; 4] = *b"\x7fELF";
/// The folders to look in, from that of this program: where the library is built with it, built for
/// its tests, or installed.
const PLACES: [&str; 4] = [".", "deps", "../lib", "../lib/fairlock"];

/// The library that was asked for, or the one that belongs to this program.
pub fn find(asked: Option<&Path>) -> Result<PathBuf, Error> {
    let found = match asked {
        Some(asked) => asked.to_owned(),
        None => beside_this_program()?,
    };
    let path = found.canonicalize().and_then(checked).map_err(|error| {
        Error::failed(format!(
            "cannot use {} as the library: {error}; name libfairlock_preload.so with --library, or \
             leave that out for the one beside this program",
            found.display()
        ))
    })?;
    let text = path.as_os_str().as_encoded_bytes();
    if text.iter().any(|byte| b": ".contains(byte)) {
        return Err(Error::failed(format!(
            "the dynamic linker cannot preload {}, which has a space or a colon in its path; \
             copy it elsewhere and name it with --library",
            path.display()
        )));
    }
    Ok(path)
}

/// The path, if an ELF file is there: without a library the dynamic linker only warns, and the
/// program runs without our locks.
fn checked(path: PathBuf) -> io::Result<PathBuf> {
    // Opening a pipe would wait for its other end.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let mut magic = Vec::new();
    File::open(&path)?.take(ELF.len() as u64).read_to_end(&mut magic)?;
    if magic == ELF { Ok(path) } else { Err(io::Error::other("it is no library")) }
}

fn beside_this_program() -> Result<PathBuf, Error> {
    let program = std::env::current_exe()
        .map_err(|error| Error::failed(format!("cannot find this program: {error}")))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let found = PLACES.iter().map(|place| folder.join(place).join(NAME)).find(|path| path.exists());
    found.ok_or_else(|| {
        let profile = if cfg!(debug_assertions) { "" } else { "--release " };
        Error::failed(format!(
            "{NAME} is not beside this program; build it: cargo build {profile}-p \
             fairlock-preload, or name it with --library"
        ))
    })
}

//! Where `libfairlock_preload.so` is.

use std::path::{Path, PathBuf};
use std::{fs, io};

use object::{Architecture, Object as _, ObjectSymbol as _};

use crate::error::Error;
use crate::json::VERSION;

const NAME: &str = "libfairlock_preload.so";
/// What a library begins with.
const ELF: &[u8] = b"\x7fELF";
/// What the library exports, with its version behind.
const MARK: &str = "fairlock_preload_";
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
        let mend = match asked {
            Some(_) => format!(
                "name {NAME} with --library, or leave that out for the one beside this program"
            ),
            None => how_to_get_one(),
        };
        Error::failed(format!("cannot use {} as the library: {error}; {mend}", found.display()))
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

/// The path, if our library is there: without it the dynamic linker only warns, or loads something
/// else, and the program runs without our locks.
fn checked(path: PathBuf) -> io::Result<PathBuf> {
    // Opening a pipe would wait for its other end.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    check(&fs::read(&path)?).map_err(io::Error::other)?;
    Ok(path)
}

/// Says why these bytes are not our library.
fn check(bytes: &[u8]) -> Result<(), String> {
    if !bytes.starts_with(ELF) {
        return Err("it is no library".to_owned());
    }
    let Ok(file) = object::File::parse(bytes) else { return Err("it is damaged".to_owned()) };
    if file.architecture() != Architecture::X86_64 {
        return Err("it is not for 64-bit x86".to_owned());
    }
    let mut names = file.dynamic_symbols().filter_map(|symbol| symbol.name().ok());
    match names.find_map(|name| name.strip_prefix(MARK)) {
        Some(VERSION) => Ok(()),
        Some(version) => Err(format!("its version is {version}, and this program's {VERSION}")),
        None => Err(format!("it is another library than {NAME} {VERSION}")),
    }
}

fn beside_this_program() -> Result<PathBuf, Error> {
    let program = std::env::current_exe()
        .map_err(|error| Error::failed(format!("cannot find this program: {error}")))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let found = PLACES.iter().map(|place| folder.join(place).join(NAME)).find(|path| path.exists());
    found.ok_or_else(|| {
        Error::failed(format!("{NAME} is not beside this program; {}", how_to_get_one()))
    })
}

fn how_to_get_one() -> String {
    let profile = if cfg!(debug_assertions) { "" } else { "--release " };
    format!("build it: cargo build {profile}-p fairlock-preload, or name it with --library")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_library_of_this_version_and_for_this_machine_is_used() {
        let ours = fs::read(find(None).unwrap()).unwrap();
        assert_eq!(check(&ours), Ok(()));
        // The same with other bytes in the place of some.
        let with = |from: &[u8], to: &[u8]| {
            let mut changed = ours.clone();
            let found = |at: &usize| ours[*at..].starts_with(from);
            for at in (0..ours.len()).filter(found) {
                changed[at..at + to.len()].copy_from_slice(to);
            }
            check(&changed).unwrap_err()
        };
        let mark = format!("{MARK}{VERSION}");
        let older = format!("{MARK}9");
        assert_eq!(with(mark.as_bytes(), older.as_bytes())[..17], *"its version is 9.");
        assert!(with(mark.as_bytes(), b"F").contains("another library than libfairlock_preload"));
        let aarch64 = [&ours[..18], &183_u16.to_le_bytes()].concat();
        assert_eq!(with(&ours[..20], &aarch64), "it is not for 64-bit x86");
        assert_eq!(check(&ours[..30]), Err("it is damaged".to_owned()));
        let cut = &ours[..ours.len() / 2];
        assert!(check(cut).is_err());
    }
}

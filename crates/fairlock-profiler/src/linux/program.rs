//! Finds the program to be run, and says whether a library can be preloaded into it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use object::elf::{DT_NEEDED, EM_X86_64, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{LittleEndian, Object as _, ObjectSymbol as _};
use rustix::process::{getegid, geteuid};

use crate::error::Error;

/// Exit codes as shells have them, for a program that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// The file that a shell would run under this name.
pub fn find(name: &OsStr) -> Result<PathBuf, Error> {
    let path = Path::new(name);
    let found = if name.as_encoded_bytes().contains(&b'/') {
        path.exists().then(|| path.to_owned())
    } else {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders)
            .map(|folder| folder.join(path))
            .find(|path| is_program(path))
    };
    found.ok_or_else(|| {
        let shown = path.display();
        let mend = match name.as_encoded_bytes() {
            [b'-', ..] => "flags of fairlock: `fairlock run --help`",
            _ => "give its path, or a name that is on PATH",
        };
        Error::with_code(NOT_FOUND, format!("there is no program `{shown}` to run; {mend}"))
    })
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The error for a `path` that could not be run.
pub fn cannot_start(path: &Path, error: &io::Error) -> Error {
    let missing = error.kind() == io::ErrorKind::NotFound;
    let code = if missing { NOT_FOUND } else { NOT_EXECUTABLE };
    Error::with_code(code, format!("cannot run {}: {error}", path.display()))
}

/// Why a program that can be run cannot have our locks; none if it can.
pub fn obstacle(path: &Path) -> Option<&'static str> {
    if raises_privileges(path) {
        return Some("runs with raised privileges: the dynamic linker preloads nothing there");
    }
    if has_thread_sanitizer(path) {
        return Some(
            "is built with ThreadSanitizer, which knows only glibc's locks: the program keeps them, and nothing \
             is recorded; build it without",
        );
    }
    match Image::of(&fs::read(path).ok()?) {
        Image::Dynamic | Image::NoElf => None,
        Image::Static => Some(
            "is linked statically: nothing can be preloaded, and only named locks of fairlock and libfairlock are \
             recorded; link it dynamically, or with libfairlock",
        ),
        Image::Musl => Some(
            "is for musl, and the library needs glibc: it will not be loaded; build the program for glibc",
        ),
        Image::Foreign => Some("is not for 64-bit x86, and the library is: it will not be loaded"),
    }
}

/// Whether it was built with ThreadSanitizer.
pub fn has_thread_sanitizer(path: &Path) -> bool {
    let Ok(bytes) = fs::read(path) else { return false };
    let Ok(file) = object::File::parse(&*bytes) else { return false };
    // Those that the linker left in the program are not dynamic.
    let mut symbols = file.dynamic_symbols().chain(file.symbols());
    symbols.any(|symbol| symbol.name_bytes() == Ok(b"__tsan_init"))
}

/// The library that the program wants before all others, if it wants one: the dynamically linked
/// runtime of AddressSanitizer ends it otherwise.
pub fn wants_first(path: &Path) -> Option<OsString> {
    /// Of gcc and of clang.
    const RUNTIMES: [&str; 2] = ["libasan.so", "libclang_rt.asan"];
    let bytes = fs::read(path).ok()?;
    let header = FileHeader64::<LittleEndian>::parse(&*bytes).ok()?;
    let sections = header.sections(LittleEndian, &*bytes).ok()?;
    let table = sections.dynamic_table(LittleEndian, &*bytes).ok()?;
    let needed = table.iter().filter(|entry| entry.tag == DT_NEEDED);
    let mut names = needed.filter_map(|entry| table.string(entry).ok());
    let is_runtime = |name: &&[u8]| RUNTIMES.iter().any(|it| name.starts_with(it.as_bytes()));
    names.find(is_runtime).map(|name| OsStr::from_bytes(name).to_owned())
}

/// Whether the program would run as another user or group.
fn raises_privileges(path: &Path) -> bool {
    let Ok(file) = fs::metadata(path) else { return false };
    let set = |bit| file.mode() & bit != 0;
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    (set(libc::S_ISUID) && file.uid() != user) || (set(libc::S_ISGID) && file.gid() != group)
}

/// What kind of file a program is.
#[derive(Debug, PartialEq)]
enum Image {
    /// Loaded by a dynamic linker.
    Dynamic,
    Static,
    /// Loaded by musl's dynamic linker.
    Musl,
    /// For another machine than x86-64.
    Foreign,
    /// A script or the like: only its interpreter's file would tell.
    NoElf,
}

impl Image {
    fn of(bytes: &[u8]) -> Self {
        if !bytes.starts_with(b"\x7fELF") {
            return Self::NoElf;
        }
        let header = FileHeader64::<LittleEndian>::parse(bytes);
        let Some(header) = header.ok().filter(|it| it.e_machine(LittleEndian) == EM_X86_64) else {
            return Self::Foreign;
        };
        let segments = header.program_headers(LittleEndian, bytes).unwrap_or_default();
        let asks = segments.iter().find(|segment| segment.p_type(LittleEndian) == PT_INTERP);
        let Some(asks) = asks else { return Self::Static };
        let interpreter = asks.data(LittleEndian, bytes).unwrap_or_default();
        let is_musl = interpreter.windows(8).any(|part| part == b"/ld-musl");
        if is_musl { Self::Musl } else { Self::Dynamic }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_apart() {
        let mut elf = vec![0; 64 + 56];
        elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        elf[18] = 62;
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = 1;
        let image = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = elf.clone();
            change(&mut bytes);
            Image::of(&bytes)
        };
        assert_eq!(image(&|elf| elf[64] = 3), Image::Dynamic);
        let musl = |elf: &mut Vec<u8>| {
            elf[64] = 3;
            (elf[72], elf[96]) = (120, 24);
            elf.extend(b"/lib/ld-musl-x86_64.so.1");
        };
        assert_eq!(image(&musl), Image::Musl);
        assert_eq!(image(&|_| ()), Image::Static);
        assert_eq!(image(&|elf| elf[4] = 1), Image::Foreign);
        assert_eq!(image(&|elf| elf[18] = 183), Image::Foreign);
        // These headers lie about the table's place and length.
        assert_eq!(image(&|elf| elf[32..40].fill(255)), Image::Static);
        assert_eq!(image(&|elf| elf[56..58].fill(255)), Image::Static);
        assert_eq!(image(&|elf| elf.truncate(20)), Image::Foreign);
        assert_eq!(image(&|elf| *elf = b"#!/bin/sh\n".to_vec()), Image::NoElf);
        assert_eq!(image(&|elf| elf.clear()), Image::NoElf);
        assert_eq!(Image::of(&fs::read("/proc/self/exe").unwrap()), Image::Dynamic);
    }
}

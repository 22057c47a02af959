//! Results as JSON, schema `fairlock/1`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::Error;
use crate::machine::Machine;
use crate::output::{Page, print};
use crate::row::Row;

/// The whole document.
#[derive(Serialize)]
pub struct Document<'a> {
    pub schema: &'static str,
    /// Of this program.
    pub version: &'static str,
    /// When it was made: the day and the time, UTC.
    pub made: String,
    pub machine: &'a Machine,
    /// The command line that made it.
    pub command: String,
    /// Ctrl-C: some rows are missing or have fewer runs.
    pub interrupted: bool,
    pub rows: &'a [Row],
}

/// The schema's name.
pub const SCHEMA: &str = "fairlock/1";

/// What a document may have in it, as JSON Schema.
pub const SCHEMA_FILE: &[u8] = include_bytes!("../data/schema/fairlock-1.json");

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where the document will go. Made before a run, so that a run whose result could
/// not be kept is not begun.
pub struct Target {
    /// The flag that named it, for messages.
    flag: &'static str,
    /// As the user wrote it, likewise.
    named: PathBuf,
    place: Place,
}

/// What is there.
enum Place {
    /// `-`.
    Stdout,
    /// A file, symbolic links followed, or none yet: it is replaced.
    File(PathBuf),
    /// A pipe or a device: it is written to.
    Device(PathBuf),
}

impl Target {
    /// Checks that `named`, the value of `flag`, can be written; `-` is stdout.
    pub fn new(flag: &'static str, named: &Path) -> Result<Self, Error> {
        let path = fs::canonicalize(named).unwrap_or_else(|_| named.to_owned());
        let place = if named == Path::new("-") {
            Place::Stdout
        } else if fs::metadata(&path).map_or(true, |meta| meta.is_file()) {
            Place::File(path)
        } else {
            Place::Device(path)
        };
        let target = Self { flag, named: named.to_owned(), place };
        target.check().map_err(|error| target.explain(&error))?;
        Ok(target)
    }

    /// Whether tables have to go elsewhere.
    pub fn is_stdout(&self) -> bool {
        matches!(self.place, Place::Stdout)
    }

    /// Where tables go beside these documents: stdout, unless one of them goes there.
    pub fn page_beside(documents: &[&Option<Self>]) -> Page {
        let is_stdout = |document: &&Option<Self>| document.as_ref().is_some_and(Self::is_stdout);
        if documents.iter().any(is_stdout) { Page::Stderr } else { Page::Stdout }
    }

    fn check(&self) -> io::Result<()> {
        match &self.place {
            Place::Stdout => {}
            Place::File(path) => {
                if path.exists() {
                    open(path)?;
                }
                temporary_beside(path)?;
            }
            Place::Device(path) => drop(open(path)?),
        }
        Ok(())
    }

    /// Writes the document.
    pub fn write(&self, document: &impl Serialize) -> Result<(), Error> {
        let mut text =
            serde_json::to_vec_pretty(document).map_err(|error| self.explain(&error.into()))?;
        text.push(b'\n');
        self.write_bytes(&text)
    }

    /// Writes this.
    pub fn write_bytes(&self, text: &[u8]) -> Result<(), Error> {
        match &self.place {
            Place::Stdout => print(text),
            Place::File(path) => replace(path, text).map_err(|error| self.explain(&error)),
            Place::Device(path) => open(path)
                .and_then(|mut device| device.write_all(text))
                .map_err(|error| self.explain(&error)),
        }
    }

    fn explain(&self, error: &io::Error) -> Error {
        let mend = match error.kind() {
            io::ErrorKind::StorageFull => "make room, or choose another place",
            io::ErrorKind::NotFound => "make the folder first",
            io::ErrorKind::PermissionDenied => "choose a place you can write to",
            _ => "choose another place",
        };
        // tempfile puts the path of its file into the message; the user named another.
        let why = match error.kind() {
            io::ErrorKind::StorageFull => "the disk is full".to_owned(),
            io::ErrorKind::NotFound => "no such folder".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            kind => io::Error::from(kind).to_string(),
        };
        Error::failed(format!("cannot write {} {}: {why}; {mend}", self.flag, self.named.display()))
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// Renaming a file beside it is atomic, so a reader sees the old document or the new one,
/// and a full disk leaves the old one.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = temporary_beside(path)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn temporary_beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fairlock-").suffix(".json.tmp");
    // Otherwise nobody else could read it.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_is_found_before_the_run() {
        let error = Target::new("--json", Path::new("no/such/folder/out.json")).err().unwrap();
        assert!(error.to_string().contains("make the folder first"), "{error}");
    }

    #[test]
    fn a_check_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        Target::new("--json", &dir.path().join("out.json")).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

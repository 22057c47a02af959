//! Documents as JSON, and the files they go to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use crate::error::Error;
use crate::machine::Machine;
use crate::output::{Page, print};

/// How a document was made, and what is in it.
#[derive(Serialize)]
pub struct Document<'a, T> {
    schema: &'static str,
    /// The version of this program.
    version: &'static str,
    /// When the document was made: the day and the time, UTC.
    made: String,
    machine: &'a Machine,
    /// The command line that made the document.
    command: String,
    /// Whether Ctrl-C ended the run: then some of it is missing.
    interrupted: bool,
    #[serde(flatten)]
    content: T,
}

impl<'a, T> Document<'a, T> {
    /// A document that is made now.
    pub fn new(
        schema: &'static str,
        machine: &'a Machine,
        command: String,
        interrupted: bool,
        content: T,
    ) -> Self {
        Self { schema, version: VERSION, made: now(), machine, command, interrupted, content }
    }
}

/// The day and the time, UTC.
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where a document will go. It is opened before a run, so that no run is begun whose result cannot
/// be kept.
pub struct Target {
    /// The flag that named the target, for messages.
    flag: &'static str,
    /// The path as the user wrote it, for messages.
    named: PathBuf,
    place: Destination,
}

/// What the path names.
#[derive(PartialEq)]
enum Destination {
    /// `-`.
    Stdout,
    /// A file that is to be replaced, symbolic links followed, or that does not exist yet.
    File(PathBuf),
    /// A pipe or a device, which is written to.
    Device(PathBuf),
}

impl Target {
    /// Checks that `named`, the value of `flag`, can be written; `-` is stdout.
    pub fn new(flag: &'static str, named: &Path) -> Result<Self, Error> {
        let path = real_path(named);
        let place = if named == Path::new("-") {
            Destination::Stdout
        } else if fs::metadata(&path).map_or(true, |meta| meta.is_file()) {
            Destination::File(path)
        } else {
            Destination::Device(path)
        };
        let target = Self { flag, named: named.to_owned(), place };
        target.check().map_err(|error| target.explain(&error))?;
        Ok(target)
    }

    /// An error if two documents go to one place: the second would replace the first.
    pub fn check_apart<'a>(
        targets: impl IntoIterator<Item = &'a Option<Self>>,
    ) -> Result<(), Error> {
        let targets: Vec<&Self> = targets.into_iter().flatten().collect();
        for (at, second) in targets.iter().enumerate() {
            let is_same = |first: &&&Self| first.place == second.place;
            let Some(first) = targets[..at].iter().find(is_same) else { continue };
            let place = match &second.place {
                Destination::Stdout => "stdout".to_owned(),
                Destination::File(_) => second.named.display().to_string(),
                Destination::Device(_) => continue,
            };
            let (first, second) = (first.flag, second.flag);
            return Err(Error::usage(format!(
                "{first} and {second} cannot both go to {place}: name a file for each"
            )));
        }
        Ok(())
    }

    /// An error if the document would replace one of these files, which are read.
    pub fn check_spares<'a>(&self, read: impl IntoIterator<Item = &'a Path>) -> Result<(), Error> {
        let is_it = |file: &Path| self.place == Destination::File(real_path(file));
        if read.into_iter().any(is_it) {
            let (flag, file) = (self.flag, self.named.display());
            return Err(Error::usage(format!(
                "{flag} {file} is a file that is read, and would be lost; name another"
            )));
        }
        Ok(())
    }

    /// Whether the document goes to stdout, so that tables have to go elsewhere.
    pub fn is_stdout(&self) -> bool {
        matches!(self.place, Destination::Stdout)
    }

    /// Where tables go beside these documents: stdout, unless one of them goes there.
    pub fn page_beside(documents: &[&Option<Self>]) -> Page {
        let is_stdout = |document: &&Option<Self>| document.as_ref().is_some_and(Self::is_stdout);
        if documents.iter().any(is_stdout) { Page::Stderr } else { Page::Stdout }
    }

    fn check(&self) -> io::Result<()> {
        match &self.place {
            Destination::Device(path) => open(path).map(drop),
            Destination::File(path) => {
                if path.exists() {
                    open(path)?;
                }
                temporary_beside(path).map(drop)
            }
            Destination::Stdout => Ok(()),
        }
    }

    /// Writes the document.
    pub fn write(&self, document: &impl Serialize) -> Result<(), Error> {
        let mut text =
            serde_json::to_vec_pretty(document).map_err(|error| self.explain(&error.into()))?;
        text.push(b'\n');
        self.write_bytes(&text)
    }

    /// Writes these bytes.
    pub fn write_bytes(&self, text: &[u8]) -> Result<(), Error> {
        match &self.place {
            Destination::Stdout => print(text),
            Destination::File(path) => replace(path, text).map_err(|error| self.explain(&error)),
            Destination::Device(path) => open(path)
                .and_then(|mut device| device.write_all(text))
                .map_err(|error| self.explain(&error)),
        }
    }

    fn explain(&self, error: &io::Error) -> Error {
        // tempfile puts the path of its own file into the message, but the user named another.
        let said = |why: &str, mend| (why.to_owned(), mend);
        let (why, mend) = match error.kind() {
            io::ErrorKind::StorageFull => {
                said("the disk is full", "make room, or choose another place")
            }
            io::ErrorKind::NotFound => said("no such folder", "make the folder first"),
            io::ErrorKind::PermissionDenied => {
                said("permission denied", "choose a place you can write to")
            }
            kind => (io::Error::from(kind).to_string(), "choose another place"),
        };
        Error::failed(format!("cannot write {} {}: {why}; {mend}", self.flag, self.named.display()))
    }
}

/// Symbolic links followed, also where the file is yet to be made.
fn real_path(named: &Path) -> PathBuf {
    let of_folder = || Some(fs::canonicalize(folder_of(named)).ok()?.join(named.file_name()?));
    fs::canonicalize(named).ok().or_else(of_folder).unwrap_or_else(|| named.to_owned())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// A temporary file beside `path` is renamed over it. That is atomic, so a reader sees the old
/// document or the new one, and a full disk leaves the old one.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = temporary_beside(path)?;
    file.write_all(text)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn temporary_beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fairlock-").suffix(".json.tmp");
    // By default a temporary file can be read by nobody else.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder_of(path))
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

//! Reads a file that this program wrote: what is in it, or what is wrong with it if it cannot be
//! used.

use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, in_plain_words};

/// What makes results, for messages about files of another kind.
pub const RESULTS: &str = "`fairlock bench … --json FILE` or `sim … --json FILE`";

/// A file that this program wrote.
pub struct Written<'a> {
    path: &'a Path,
    /// What writes such files, for messages.
    by: &'static str,
    pub text: Vec<u8>,
}

/// The part of a document that says how to read the rest.
#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// What `run --json` would have kept of a record, or of a folder with records.
#[cfg(target_os = "linux")]
fn recorded(path: &Path) -> Option<Vec<u8>> {
    let profile = crate::preload::linux::profile::Profile::recorded(path)?;
    serde_json::to_vec(&profile.recorded_json()).ok()
}

/// Records are of other systems.
#[cfg(not(target_os = "linux"))]
fn recorded(_path: &Path) -> Option<Vec<u8>> {
    None
}

impl<'a> Written<'a> {
    /// Reads the file, which should be one that `by` writes, or a record of a program's locks, or a folder with such
    /// records.
    pub fn read(path: &'a Path, by: &'static str) -> Result<Self, Error> {
        let shown = path.display();
        if let Some(text) = recorded(path) {
            return Ok(Self { path, by, text });
        }
        let text = std::fs::read(path).map_err(|error| {
            Error::usage(match error.kind() {
                ErrorKind::NotFound => {
                    format!("cannot read {shown}: there is no such file; make it with {by}")
                }
                ErrorKind::IsADirectory => {
                    format!("cannot read {shown}: it is a folder without records of locks; name a file in it")
                }
                _ => format!("cannot read {shown}: {error}; give a file of {by}"),
            })
        })?;
        if text.trim_ascii().is_empty() {
            return Err(Error::usage(format!("{shown} is empty: make it again, with {by}")));
        }
        Ok(Self { path, by, text })
    }

    /// The schema that the file names.
    pub fn schema(&self) -> Result<String, Error> {
        self.json::<Head>().map(|head| head.schema)
    }

    /// The document in the file, if it has that schema.
    pub fn document<T: DeserializeOwned>(&self, schema: &str) -> Result<T, Error> {
        // The schema is checked first: a document of another version may have other keys.
        let found = self.schema()?;
        if found == schema {
            return self.json();
        }
        let (shown, by) = (self.path.display(), self.by);
        let kind = |schema: &str| schema.split('/').next().map(str::to_owned);
        Err(Error::usage(if kind(&found) == kind(schema) {
            format!(
                "{shown} has the schema '{found}', and this program reads {schema}: make it again, with {by}"
            )
        } else {
            format!("{shown} has the schema '{found}', not {schema}: give a file of {by}")
        }))
    }

    fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.text).map_err(|error| self.wrong(&error))
    }

    /// The error for a file whose content cannot be used.
    pub fn wrong(&self, error: &serde_json::Error) -> Error {
        let (shown, by) = (self.path.display(), self.by);
        Error::usage(if error.is_eof() {
            format!("{shown} was cut short ({error}): make it again, with {by}")
        } else {
            format!(
                "{shown} is no result: give a file of {by} ({})",
                in_plain_words(&error.to_string())
            )
        })
    }
}

//! Results that an earlier command wrote with `--json`, read back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::machine::peer;
use crate::output::canonical;
use crate::row::Row;
use crate::units::several;
use crate::written::{RESULTS, Written};

/// What results are.
#[derive(Serialize)]
pub struct Rows<'a> {
    pub rows: &'a [Row],
}

/// The schema's name.
pub const SCHEMA: &str = "fairlock/1";

/// What a document may have in it, as JSON Schema.
pub const SCHEMA_FILE: &[u8] = include_bytes!("../data/schema/fairlock-1.json");

/// A file of results: of `bench`, `sim` or the main job.
#[derive(Deserialize)]
pub struct Results {
    /// The version of the program that made the file; older ones did not say.
    #[serde(default)]
    pub version: Option<String>,
    #[serde(default)]
    pub made: Option<String>,
    pub machine: Machine,
    pub command: String,
    #[serde(default)]
    pub interrupted: bool,
    pub rows: Vec<Row>,
    /// The path that it was read from.
    #[serde(skip)]
    pub file: PathBuf,
}

/// What is known of the machine that results were made on.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Whether the results were simulated: then each row has the name of its machine, and there are
    /// no other facts here.
    pub simulated: bool,
    pub cpus: Option<usize>,
    pub cpu_model: Option<String>,
    pub kernel: Option<String>,
    /// Versions of the locks to compare with.
    pub peers: BTreeMap<String, String>,
}

impl Results {
    /// Reads the file.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::of(path, &Written::read(path, RESULTS)?)
    }

    /// What is in the file at `path`.
    pub fn of(path: &Path, written: &Written<'_>) -> Result<Self, Error> {
        let results: Self = written.document(SCHEMA)?;
        // The path that the results were written to is dropped: it is nobody's business.
        let words = results.command.split(' ').skip(1).map(str::to_owned);
        Ok(Self { file: path.to_owned(), command: canonical(words), ..results })
    }

    /// Machine, day and version, as far as they are known.
    pub fn origin(&self) -> String {
        origin(&self.machine, self.made.as_deref(), self.version.as_deref())
    }
}

/// Where something was measured, on which day and with which versions.
pub fn origin(machine: &Machine, made: Option<&str>, version: Option<&str>) -> String {
    let day = made.map(|made| made.split('T').next().unwrap_or(made).to_owned());
    let version = version.map(|version| format!("version {version}"));
    let parts = [Some(machine.name()), day, version].into_iter().flatten();
    let peers = machine.peers.iter().map(|(name, version)| peer(name, version));
    parts.chain(peers).collect::<Vec<_>>().join(", ")
}

impl Machine {
    /// The machine in a few words.
    pub fn name(&self) -> String {
        if self.simulated {
            return "simulated".to_owned();
        }
        let cpus = match self.cpus {
            Some(cpus) => several(cpus, "CPU"),
            None => "unknown CPUs".to_owned(),
        };
        let model = self.cpu_model.as_ref().map_or_else(String::new, |model| format!(" ({model})"));
        let kernel = self.kernel.as_ref().map_or_else(String::new, |kernel| format!(", {kernel}"));
        format!("{cpus}{model}{kernel}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_names_the_versions_of_the_peers() {
        let peers = [("pthread", "2.36"), ("parking_lot_0.12", "0.12.5")]
            .map(|(name, version)| (name.to_owned(), version.to_owned()));
        let machine = Machine { cpus: Some(2), peers: peers.into(), ..Machine::default() };
        assert_eq!(
            origin(&machine, Some("2026-11-25T10:00:00Z"), Some("0.1.0")),
            "2 CPUs, 2026-11-25, version 0.1.0, parking_lot 0.12.5, glibc 2.36"
        );
    }
}

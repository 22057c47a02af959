//! Machines: files that say how many CPUs there are and what everything costs.

mod check;
mod costs;
mod description;
mod error;

use std::path::Path;

pub(crate) use check::MAX_SOCKETS;
pub(crate) use costs::{Costs, CpuPosition, StolenTimes, Tunables, places};
pub use description::{
    Barrier, Calls, Description, Guests, Instructions, Lines, Placement, Scheduler, Stolen,
    Topology,
};
pub use error::MachineError;

/// A machine to simulate: a [`Description`] that makes sense.
#[derive(Clone, Debug)]
pub struct Machine {
    name: String,
    description: Description,
}

/// Names and texts of the machines that come with the crate.
macro_rules! builtins {
    ($($name:literal),* $(,)?) => {
        const BUILTINS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../machines/", $name, ".toml")))),*];
    };
}
builtins!(
    "two_cpu",
    "skylake_80",
    "cascade_lake_96",
    "opteron_4",
    "ivybridge_240",
    "ivybridge_480",
    "guests_32",
    "nvme_8",
);

impl Machine {
    /// The names of the machines that come with the crate.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTINS.iter().map(|&(name, _)| name)
    }

    /// The file of a machine that comes with the crate, to be read and changed.
    pub fn builtin_file(name: &str) -> Option<&'static str> {
        BUILTINS.iter().find(|&&(known, _)| known == name).map(|&(_, text)| text)
    }

    /// A machine that comes with the crate.
    ///
    /// # Errors
    /// There is no machine of that name; the error lists those that there are.
    pub fn builtin(name: &str) -> Result<Self, MachineError> {
        match Self::builtin_file(name) {
            Some(text) => Self::parse(name, text),
            None => Err(MachineError {
                file: name.to_owned(),
                key: String::new(),
                problem: "no built-in machine has this name".to_owned(),
                mend: format!(
                    "use one of {}, or the path of a machine file",
                    Self::builtin_names().collect::<Vec<_>>().join(", ")
                ),
            }),
        }
    }

    /// The machine that a file describes.
    ///
    /// # Errors
    /// The file cannot be read, or says something that no machine can be.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, MachineError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) => Err(MachineError {
                file,
                key: String::new(),
                problem: format!("cannot be read: {error}"),
                mend: "name a readable machine file; `fairlock machines` lists those that are built in"
                    .to_owned(),
            }),
        }
    }

    /// The machine that `text` describes; `file` is what errors call it.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(file: &str, text: &str) -> Result<Self, MachineError> {
        let description =
            toml::from_str(text).map_err(|error| check::syntax(file, text, &error))?;
        Self::new(file, description)
    }

    /// A machine made or changed by a program; `name` is what errors call it.
    ///
    /// # Errors
    /// The description says something that no machine can be.
    pub fn new(name: &str, description: Description) -> Result<Self, MachineError> {
        check::check(name, &description)?;
        let name = Path::new(name).file_stem().map_or(name.into(), |stem| stem.to_string_lossy());
        Ok(Self { name: name.into_owned(), description })
    }

    /// The file's name without its ending.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the file said. Change a copy and pass it to [`Machine::new`].
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The CPUs that a simulated thread sees: those of its guest, if there are guests.
    pub fn cpus(&self) -> usize {
        self.description.guests.as_ref().map_or(self.physical_cpus(), |guests| guests.cpus)
    }

    /// The CPUs of the machine itself.
    pub fn physical_cpus(&self) -> usize {
        let t = &self.description.topology;
        t.sockets * t.clusters_per_socket * t.cores_per_cluster * t.threads_per_core
    }

    /// How many guests there are; one if the machine has none.
    pub fn guests(&self) -> usize {
        self.description.guests.as_ref().map_or(1, |guests| guests.count)
    }
}

#[cfg(test)]
mod tests;

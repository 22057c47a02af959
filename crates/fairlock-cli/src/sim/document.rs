//! The results of a simulated grid as JSON, whole or in part.

use serde::{Deserialize, Serialize};

use super::shard::Shard;
use crate::output::canonical;
use crate::row::Row;

/// The whole document. It depends on the command line alone, not on the machine that simulated it.
#[derive(Serialize, Deserialize)]
pub struct Document {
    pub schema: String,
    /// The version of this program.
    #[serde(default)]
    pub version: String,
    pub machine: Simulated,
    /// The command line that made the document, without the flags that say where results went and
    /// which part of the grid was simulated.
    pub command: String,
    /// Whether Ctrl-C ended it: then some cells are missing.
    pub interrupted: bool,
    pub grid: Part,
    pub rows: Vec<Row>,
}

/// The `machine` object of simulated results; each row has the name of its own machine.
#[derive(Serialize, Deserialize)]
pub struct Simulated {
    pub simulated: bool,
}

/// Which part of a grid the document has.
#[derive(Serialize, Deserialize)]
pub struct Part {
    /// How many cells the whole grid has.
    pub cells: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

/// The command line without the flags that change no result.
pub fn command() -> String {
    canonical(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
}

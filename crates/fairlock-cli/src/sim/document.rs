//! The results of a simulated grid as JSON, whole or in part.

use serde::{Deserialize, Serialize};

use super::shard::Shard;
use crate::row::{Row, with_names_of_today};

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
    #[serde(deserialize_with = "with_names_of_today")]
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

/// The command line of these words behind the program's name, without the flags that change no
/// result.
pub fn canonical(words: impl Iterator<Item = String>) -> String {
    const ELSEWHERE: [&str; 5] = ["--json", "--shard", "--trace", "--pprof", "--folded"];
    let mut kept = vec!["fairlock".to_owned()];
    let mut words = words;
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some((flag, _)) if ELSEWHERE.contains(&flag) => {}
            None if ELSEWHERE.contains(&word.as_str()) => {
                words.next();
            }
            _ => kept.push(word),
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_leaves_out_where_results_go() {
        let of = |line: &str| canonical(line.split(' ').map(str::to_owned));
        let plain = "fairlock sim all --seeds 2";
        assert_eq!(of("sim all --json a.json --seeds 2"), plain);
        assert_eq!(of("sim --shard=1/3 all --seeds 2 --json=b"), plain);
    }
}

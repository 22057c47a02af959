//! The results of a simulated grid as JSON, whole or in part.

use serde::{Deserialize, Serialize};

use super::shard::Shard;
use crate::row::Row;

/// The whole document. It depends on the command line alone, and on nothing of the
/// machine that simulated it.
#[derive(Serialize, Deserialize)]
pub struct Document {
    pub schema: String,
    /// Of this program.
    #[serde(default)]
    pub version: String,
    pub machine: Simulated,
    /// The command line that made it, without where its results went and which part of
    /// the grid it was.
    pub command: String,
    /// Ctrl-C: some cells are missing.
    pub interrupted: bool,
    pub grid: Part,
    pub rows: Vec<Row>,
}

/// The `machine` object; each row has its machine's name.
#[derive(Serialize, Deserialize)]
pub struct Simulated {
    pub simulated: bool,
}

/// What of a grid is there.
#[derive(Serialize, Deserialize)]
pub struct Part {
    /// Cells of the whole grid.
    pub cells: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

/// The command line without the flags that change no result.
pub fn command() -> String {
    canonical(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
}

/// The same of these words behind the program's name.
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

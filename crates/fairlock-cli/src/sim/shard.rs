//! A part of a grid: every nth cell, so that all parts take about as long.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Part `part` of `of`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    pub part: usize,
    pub of: usize,
}

impl Shard {
    /// Whether the cell with this number is in the part.
    pub fn has(self, cell: usize) -> bool {
        cell % self.of == self.part - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').map(|(part, of)| (part.parse(), of.parse()));
        match numbers {
            Some((Ok(part), Ok(of))) if part >= 1 && part <= of => Ok(Self { part, of }),
            _ => Err("give part and number of parts, such as 1/3 to 3/3".to_owned()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_in_one_part() {
        let parts: Vec<Shard> = (1..=3).map(|part| Shard { part, of: 3 }).collect();
        assert!((0..10).all(|cell| parts.iter().filter(|part| part.has(cell)).count() == 1));
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!("2/3".parse(), Ok(Shard { part: 2, of: 3 }));
        for text in ["", "1", "0/3", "4/3", "a/b", "1/0", "-1/3"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}

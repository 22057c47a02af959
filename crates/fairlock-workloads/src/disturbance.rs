//! What else a machine is busy with while a workload runs.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// More busy loops leave too little to measure.
const MOST_BESIDE: usize = 1_000;

/// What takes CPU time from the threads of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disturbance {
    /// How many busy loops run beside them: processes, or threads of the simulated machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<usize>,
    /// Simulated: the share of the time in which a host has taken each CPU, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stolen_percent: Option<f64>,
}

impl Disturbance {
    /// The disturbance by so many busy loops, as on the command line.
    pub fn beside(loops: usize) -> Result<Self, Error> {
        if loops > MOST_BESIDE {
            return Err(Error::usage(format!(
                "--beside {loops} is too many: use {MOST_BESIDE} at most"
            )));
        }
        Ok(Self { beside: (loops > 0).then_some(loops), ..Self::default() })
    }

    /// How many busy loops there are.
    pub fn loops(self) -> usize {
        self.beside.unwrap_or(0)
    }

    /// What to say of the disturbance above a table; empty if there is none.
    pub fn caption(self) -> String {
        let beside = self.beside.map(|loops| {
            let plural = if loops == 1 { "" } else { "s" };
            format!("beside {loops} busy loop{plural}")
        });
        let stolen = self.stolen_percent.map(|percent| format!("{percent} % of each CPU stolen"));
        let parts: Vec<String> = beside.into_iter().chain(stolen).collect();
        if parts.is_empty() { String::new() } else { format!("({})\n", parts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_says_what_there_is() {
        let caption = |beside, stolen_percent| Disturbance { beside, stolen_percent }.caption();
        assert_eq!(caption(None, None), "");
        assert_eq!(caption(Some(1), None), "(beside 1 busy loop)\n");
        assert_eq!(
            caption(Some(2), Some(30.0)),
            "(beside 2 busy loops, 30 % of each CPU stolen)\n"
        );
    }
}

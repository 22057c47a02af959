//! What else a machine is busy with while a workload runs.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// More busy loops for each CPU leave too little to measure.
const MOST_BACKGROUND: usize = 64;

/// What takes CPU time from the threads of a workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disturbance {
    /// How many busy loops run beside them, for each CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<usize>,
    /// Simulated: the share of the time in which a host has taken each CPU, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stolen_percent: Option<f64>,
}

impl Disturbance {
    /// The disturbance by `loops` busy loops for each CPU, as on the command line.
    pub fn background(loops: usize) -> Result<Self, Error> {
        if loops > MOST_BACKGROUND {
            return Err(Error::usage(format!(
                "--background {loops} is too many: use {MOST_BACKGROUND} at most"
            )));
        }
        Ok(Self { background: (loops > 0).then_some(loops), stolen_percent: None })
    }

    /// How many busy loops there are on `cpus` CPUs.
    pub fn loops(self, cpus: usize) -> usize {
        self.background.unwrap_or(0) * cpus
    }

    /// What to say of the disturbance above a table; empty if there is none.
    pub fn caption(self) -> String {
        let loops = self.background.map(|loops| {
            let plural = if loops == 1 { "" } else { "s" };
            format!("beside {loops} busy loop{plural} a CPU")
        });
        let stolen = self.stolen_percent.map(|percent| format!("{percent} % of each CPU stolen"));
        let parts: Vec<String> = loops.into_iter().chain(stolen).collect();
        if parts.is_empty() { String::new() } else { format!("({})\n", parts.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caption_says_what_there_is() {
        let caption =
            |background, stolen_percent| Disturbance { background, stolen_percent }.caption();
        assert_eq!(caption(None, None), "");
        assert_eq!(caption(Some(1), None), "(beside 1 busy loop a CPU)\n");
        assert_eq!(
            caption(Some(2), Some(30.0)),
            "(beside 2 busy loops a CPU, 30 % of each CPU stolen)\n"
        );
    }
}

//! What the watchdog reports of a simulation in which nobody gets anything done.

use std::fmt;

use crate::observe::{Mark, ThreadState};

/// Why nobody gets anything done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StuckKind {
    /// All threads sleep and none has a timer.
    Deadlock,
    /// Threads spin, or sleep and wake up, and nobody gets anything done.
    NoProgress,
}

/// One thread of such a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckThread {
    /// Its name.
    pub name: String,
    /// What it does.
    pub state: ThreadState,
    /// Its CPU, or its last one.
    pub cpu: usize,
    /// Whether its spin or sleep ends by itself.
    pub has_timer: bool,
    /// What it said last about itself.
    pub last_mark: Option<Mark>,
}

/// A simulation in which nobody gets anything done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Why.
    pub kind: StuckKind,
    /// When that was noticed.
    pub at_ns: u64,
    /// For how long nothing had been done.
    pub patience_ns: u64,
    /// All threads.
    pub threads: Vec<StuckThread>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            StuckKind::Deadlock => "deadlock: every thread sleeps, and nothing will wake one",
            StuckKind::NoProgress => "no progress: threads run, and none gets anything done",
        };
        write!(f, "{what}; at {} ns, after {} ns without a section", self.at_ns, self.patience_ns)?;
        for t in &self.threads {
            write!(f, "\n  {}: {:?}, CPU {}", t.name, t.state, t.cpu)?;
            if t.has_timer {
                write!(f, ", with a timer")?;
            }
            if let Some(mark) = t.last_mark {
                write!(f, ", last said {mark:?}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Stuck {}

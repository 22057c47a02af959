//! A failing trial, step by step.

use std::fmt::{self, Write};

use fairlock::platform::WaitOutcome;

use super::stepper::{Access, Operation};
use super::trial::{Case, Outcome};

impl Operation {
    /// The address of the operation, if it has one.
    pub(super) fn address(self) -> Option<usize> {
        match self {
            Self::Access(_, address)
            | Self::Slept(address, _)
            | Self::Spun(address, _)
            | Self::Wake(address) => (address != 0).then_some(address),
            Self::Begin | Self::GiveWay | Self::Busy(_) | Self::End => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begin => "begins",
            Self::Access(Access::Load, _) => "load",
            Self::Access(Access::Store, _) => "store",
            Self::Access(Access::Atomic, _) => "atomic",
            Self::GiveWay => "gives way",
            Self::Busy(ns) => return write!(f, "busy {ns} ns"),
            Self::Slept(_, WaitOutcome::Woken) => "woken on",
            Self::Slept(0, _) => "section of sleep ends",
            Self::Slept(_, _) => "timer ends sleep on",
            Self::Spun(_, true) => "spin succeeds on",
            Self::Spun(_, false) => "spin ends in vain on",
            Self::Wake(_) => "wakes who sleeps on",
            Self::End => "is stopped",
        })
    }
}

/// How many steps are shown at most: the first and the last.
const MOST_STEPS: usize = 400;

pub(super) fn timeline(case: &Case, outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, case, outcome);
    text
}

fn write(f: &mut String, case: &Case, outcome: &Outcome) -> fmt::Result {
    let threads = case.script.iter().filter(|actions| !actions.is_empty()).count();
    writeln!(f, "{threads} threads, {} CPUs, {} steps:", case.cpus, outcome.steps)?;
    for (thread, actions) in case.script.iter().enumerate() {
        for (number, action) in actions {
            writeln!(f, "  thread {thread}, action {number}: {action}")?;
        }
    }
    writeln!(f, "{:>5} {:>10}  thread.action  operation", "step", "ns")?;
    let (mut state, mut action) = ("", None);
    let hidden = outcome.log.len().saturating_sub(MOST_STEPS);
    for (step, entry) in outcome.log.iter().enumerate() {
        if hidden > 0 && step == MOST_STEPS / 2 {
            writeln!(f, "        … {hidden} steps …")?;
        }
        if (MOST_STEPS / 2..MOST_STEPS / 2 + hidden).contains(&step) {
            continue;
        }
        let who = (entry.thread, entry.action);
        let column = if action.replace(who) == Some(who) {
            String::new()
        } else {
            format!("{}.{}", entry.thread, entry.action)
        };
        let what = format!("{} {}", entry.operation, entry.place);
        write!(f, "{:>5} {:>10}  {column:13}  ", step + 1, entry.now)?;
        if entry.state == state {
            writeln!(f, "{}", what.trim_end())?;
        } else {
            writeln!(f, "{what:40} → {}", entry.state)?;
            state = &entry.state;
        }
    }
    for (thread, end) in outcome.ends.iter().enumerate() {
        if !case.script[thread].is_empty() {
            writeln!(f, "  in the end thread {thread} {end}")?;
        }
    }
    if let Some(complaint) = &outcome.complaint {
        writeln!(f, "{:?}: {}", complaint.kind, complaint.what)?;
    }
    Ok(())
}

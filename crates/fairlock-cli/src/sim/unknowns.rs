//! What no source says of a machine and its run: each unknown is set lower and higher than assumed, one
//! at a time.

use fairlock_sim::machine::Description;
use fairlock_sim::{Machine, MachineError};

use crate::row::Row;

/// One unknown, set to another value than assumed.
#[derive(Clone, Copy)]
pub struct Unknown {
    label: &'static str,
    change: fn(&mut Description),
    /// Nanoseconds between two operations of a thread, beyond those of the workload.
    pub gap_ns: u64,
}

/// What stands between a machine's name and the unknown that is set.
const WITH: &str = " with ";

pub const ALL: [Unknown; 6] = [
    Unknown { label: "hold at 20 %", change: |d| d.lines.hold = 0.2, gap_ns: 0 },
    Unknown { label: "hold at 60 %", change: |d| d.lines.hold = 0.6, gap_ns: 0 },
    Unknown { label: "wake-ups halved", change: |d| scale_wake_ups(d, 0.5), gap_ns: 0 },
    Unknown { label: "wake-ups doubled", change: |d| scale_wake_ups(d, 2.0), gap_ns: 0 },
    Unknown { label: "a gap of 50 ns", change: |_| (), gap_ns: 50 },
    Unknown { label: "a gap of 200 ns", change: |_| (), gap_ns: 200 },
];

fn scale_wake_ups(d: &mut Description, factor: f64) {
    d.scheduler.wake_idle_ns *= factor;
    d.scheduler.idle_ns.iter_mut().for_each(|[_, adds]| *adds *= factor);
}

impl Unknown {
    /// The machine with this unknown set.
    pub fn on(&self, machine: &Machine) -> Result<Machine, MachineError> {
        let mut description = machine.description().clone();
        (self.change)(&mut description);
        Machine::new(&format!("{}{WITH}{}", machine.name(), self.label), description)
    }
}

/// The machine's name, without the unknown that is set.
pub fn assumed(machine: &str) -> &str {
    machine.split(WITH).next().unwrap_or(machine)
}

/// Whether a row is of a machine with an unknown set.
pub fn is_varied(row: &Row) -> bool {
    row.machine.as_deref().is_some_and(|machine| machine.contains(WITH))
}

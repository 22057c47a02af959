//! The machine a run was made on, as far as it explains the figures.

use serde::Serialize;

use crate::clock::{Clock, calibrate_busy};

/// The `machine` object of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub cpus: usize,
    pub cpu_model: String,
    pub arch: &'static str,
    pub kernel: String,
    /// How late a sleep may end: a 1 us sleep lasts about this much longer.
    pub timer_slack_ns: u64,
    /// The clock the waits were taken with, and what two reads of it add to an operation.
    pub clock: &'static str,
    pub clock_read_ns: f64,
    /// Turns of the busy section's loop in one microsecond.
    pub busy_turns_per_us: u64,
}

impl Machine {
    /// Looks at this machine; takes some milliseconds.
    pub fn this() -> Self {
        let clock = Clock::start();
        let uname = rustix::system::uname();
        let slack = rustix::thread::current_timer_slack().unwrap_or(0);
        Self {
            cpus: cpus(),
            cpu_model: cpu_model().unwrap_or_else(|| "unknown".into()),
            arch: std::env::consts::ARCH,
            kernel: uname.release().to_string_lossy().into_owned(),
            timer_slack_ns: slack as u64,
            clock: clock.name(),
            clock_read_ns: (clock.read_cost_ns() * 10.0).round() / 10.0,
            busy_turns_per_us: calibrate_busy(),
        }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let plural = if self.cpus == 1 { "" } else { "s" };
        format!(
            "{} CPU{plural} ({}), Linux {}, timer slack {} us, {} {} ns a read",
            self.cpus,
            self.cpu_model,
            self.kernel,
            self.timer_slack_ns as f64 / 1_000.0,
            self.clock,
            self.clock_read_ns,
        )
    }
}

/// CPUs that this program may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn cpu_model() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split(':').nth(1)?.trim().to_owned())
}

//! The machine a run was made on, as far as it explains the figures.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::{Clock, calibrate_busy};
use crate::peers;
use crate::units::several;

/// The `machine` object of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub cpus: usize,
    pub cpu_model: String,
    pub arch: &'static str,
    /// The system's name and release, for [`line`](Self::line).
    #[serde(skip)]
    system: String,
    /// The system's release.
    pub kernel: String,
    /// How much longer than asked a sleep may last, where the system says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer_slack_ns: Option<u64>,
    /// The clock that waits were measured with, and what two reads of it add to an operation.
    pub clock: &'static str,
    pub clock_read_ns: f64,
    /// Turns of the busy section's loop in one microsecond.
    pub busy_turns_per_us: u64,
    /// Versions of the locks to compare with, where these are measured.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub peers: BTreeMap<&'static str, String>,
}

impl Machine {
    /// Looks at this machine; takes some milliseconds.
    pub fn this() -> Self {
        let clock = Clock::start();
        let (system, kernel) = system();
        Self {
            cpus: cpus(),
            cpu_model: cpu_model().unwrap_or_else(|| "unknown".into()),
            arch: std::env::consts::ARCH,
            system: format!("{system} {kernel}").trim_end().to_owned(),
            kernel,
            timer_slack_ns: timer_slack_ns(),
            clock: clock.name(),
            clock_read_ns: (clock.read_cost_ns() * 10.0).round() / 10.0,
            busy_turns_per_us: calibrate_busy(),
            peers: BTreeMap::new(),
        }
    }

    /// With the versions of the locks that are measured on it.
    pub fn with_peers(self) -> Self {
        Self { peers: peers::versions(), ..self }
    }

    /// The machine in few words behind others, in one line of at most so many columns.
    pub fn short_line(&self, before: &str, width: usize) -> String {
        let mut system = self.system.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
        if let Some(version) = self.peers.get("pthread") {
            system += &format!(", glibc {version}");
        }
        let cpus = several(self.cpus, "CPU");
        let room = width.saturating_sub(before.len() + cpus.len() + system.len() + " (), .".len());
        let model: String = self.cpu_model.chars().take(room).collect();
        format!("{before}{cpus} ({}), {system}.", model.trim_end())
    }

    /// The machine in one line, for people.
    pub fn line(&self) -> String {
        let plural = if self.cpus == 1 { "" } else { "s" };
        let slack = self
            .timer_slack_ns
            .map_or_else(String::new, |ns| format!(", timer slack {} us", ns as f64 / 1_000.0));
        let mut line = format!(
            "{} CPU{plural} ({}), {}{slack}, {} {} ns a read",
            self.cpus, self.cpu_model, self.system, self.clock, self.clock_read_ns,
        );
        for (name, version) in &self.peers {
            line += &format!(", {}", peer(name, version));
        }
        line
    }
}

/// A lock to compare with and its version, for people: the second of one crate by its version only.
pub fn peer(name: &str, version: &str) -> String {
    let name = name.split("_0.").next().unwrap_or(name);
    let of = if name == "pthread" { "glibc" } else { name };
    format!("{of} {version}")
}

/// CPUs that this program may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The system's name and release.
#[cfg(unix)]
fn system() -> (String, String) {
    let uname = rustix::system::uname();
    let text = |field: &std::ffi::CStr| field.to_string_lossy().into_owned();
    (text(uname.sysname()), text(uname.release()))
}

#[cfg(not(unix))]
fn system() -> (String, String) {
    (std::env::consts::OS.to_owned(), String::new())
}

fn timer_slack_ns() -> Option<u64> {
    #[cfg(target_os = "linux")]
    return rustix::thread::current_timer_slack().ok();
    #[cfg(not(target_os = "linux"))]
    None
}

/// The model of the CPU, as Linux names it; other systems are not asked.
fn cpu_model() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split(':').nth(1)?.trim().to_owned())
}

//! What took CPUs from a measurement: the host of a virtual machine, and other programs.

use serde::{Deserialize, Serialize};

/// Shares of the time of all CPUs, in percent, as Linux counts it: in steps of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interference {
    /// The share in which the host had taken the CPU away.
    pub stolen_percent: f64,
    /// The share in which other programs had it.
    pub others_percent: f64,
}

/// With more than this, a wait may be due to the machine rather than to the lock.
const MUCH_STOLEN: f64 = 2.0;
const MUCH_OTHERS: f64 = 10.0;

impl Interference {
    /// Whether figures measured meanwhile say less about the lock than about the machine.
    pub fn disturbs(&self) -> bool {
        self.stolen_percent > MUCH_STOLEN || self.others_percent > MUCH_OTHERS
    }

    /// The worse of the two in each respect.
    pub fn or(self, other: Self) -> Self {
        Self {
            stolen_percent: self.stolen_percent.max(other.stolen_percent),
            others_percent: self.others_percent.max(other.others_percent),
        }
    }

    /// In words.
    pub fn words(&self) -> String {
        format!(
            "the host took {:.0} % of the CPUs, other programs {:.0} %",
            self.stolen_percent, self.others_percent
        )
    }
}

/// What the CPUs have done so far, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    total: u64,
    busy: u64,
    stolen: u64,
    /// The part of `busy` that was of this process, and of those that it runs.
    own: u64,
}

impl Times {
    /// Up to now; `None` where the system does not say.
    pub fn now() -> Option<Self> {
        Self::now_with([])
    }

    /// The same, if the processes `beside` are this process's own doing.
    pub fn now_with(beside: impl IntoIterator<Item = u32>) -> Option<Self> {
        let of_cpus = std::fs::read_to_string("/proc/stat").ok()?;
        let read = |process: &str| std::fs::read_to_string(format!("/proc/{process}/stat")).ok();
        let mut times = Self::parse(&of_cpus, &read("self")?)?;
        for process in beside {
            times.own += used(&read(&process.to_string())?)?;
        }
        Some(times)
    }

    fn parse(of_cpus: &str, own: &str) -> Option<Self> {
        let line = of_cpus.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        // User, nice, system, idle, iowait, irq, softirq, steal; guests are in the first two.
        let &[user, nice, system, idle, iowait, irq, softirq, stolen] =
            ticks.get(..8)?.first_chunk()?;
        let busy = user + nice + system + irq + softirq;
        Some(Self { total: busy + idle + iowait + stolen, busy, stolen, own: used(own)? })
    }

    /// What happened after `earlier`.
    pub fn since(&self, earlier: &Self) -> Interference {
        let total = self.total.saturating_sub(earlier.total);
        let percent = |ticks: u64| {
            let share = 100.0 * ticks as f64 / total.max(1) as f64;
            (share * 10.0).round() / 10.0
        };
        let busy = self.busy.saturating_sub(earlier.busy);
        let own = self.own.saturating_sub(earlier.own);
        Interference {
            stolen_percent: percent(self.stolen.saturating_sub(earlier.stolen)),
            // The two are not read at the same instant.
            others_percent: percent(busy.saturating_sub(own)),
        }
    }
}

/// The ticks that a process has used, of the text of its `stat`.
fn used(stat: &str) -> Option<u64> {
    // The name of the program may contain anything, but ends with the last parenthesis.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(field(11)? + field(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  100 0 50 800 10 0 5 20 0 0\ncpu0 1 2 3\n";
    const AFTER: &str = "cpu  180 0 60 900 10 0 5 30 0 0\ncpu0 1 2 3\n";

    fn own(user: u64, system: u64) -> String {
        format!("77 (a) b)) R 1 1 1 0 -1 0 0 0 0 0 {user} {system} 0 0 20 0 9")
    }

    #[test]
    fn shares_are_of_the_time_of_all_cpus() {
        let before = Times::parse(BEFORE, &own(10, 5)).unwrap();
        let after = Times::parse(AFTER, &own(60, 10)).unwrap();
        let between = after.since(&before);
        assert_eq!(between, Interference { stolen_percent: 5.0, others_percent: 17.5 });
        assert!(between.disturbs());
        assert_eq!(after.since(&after), Interference::default());
        assert!(!Interference::default().disturbs());
    }

    #[test]
    fn what_is_no_such_file_is_none() {
        assert_eq!(Times::parse("", &own(1, 1)), None);
        assert_eq!(Times::parse("cpu  1 2 3\n", &own(1, 1)), None);
        assert_eq!(Times::parse(BEFORE, "77 (a"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_says_it() {
        let alone = Times::now().unwrap().own;
        assert!(Times::now_with([std::process::id()]).unwrap().own >= 2 * alone);
        assert_eq!(Times::now_with([u32::MAX]), None);
    }
}

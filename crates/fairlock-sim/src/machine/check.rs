//! Refuses descriptions that no machine can have.

use super::description::{
    Barrier, Calls, Description, Guests, Instructions, Lines, Scheduler, Stolen, Topology,
};
use super::error::MachineError;
use crate::cpu_set::CpuSet;

/// An hour. The simulated clock has room for some thousands, and times are added up.
const LONGEST_NS: f64 = 3.6e12;

/// With more, the slowest of a thousand would take 500 times as long as usual.
const MOST_SPREAD: f64 = 2.0;

/// More hardware threads than this do not share a core.
const MOST_SHARED: f64 = 8.0;

/// With more, hardly anything happens.
const MOST_STOLEN: f64 = 0.95;

/// The most sockets: each line counts its sharers in each.
pub(crate) const MAX_SOCKETS: usize = 16;

/// An error of the TOML reader, in our form.
pub(super) fn syntax(file: &str, text: &str, error: &toml::de::Error) -> MachineError {
    let line =
        error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let message = error.message();
    let mend = if message.starts_with("missing field") {
        "add the key; `fairlock machines show two_cpu` prints a file with every one"
    } else if message.starts_with("unknown field") {
        "remove the key, or correct its name as `fairlock machines show two_cpu` has it"
    } else {
        "correct the value; `fairlock machines show two_cpu` prints a file with every key"
    };
    MachineError {
        file: line.map_or(file.to_owned(), |line| format!("{file}:{line}")),
        // The reader names the key in its message.
        key: message.split('`').nth(1).unwrap_or_default().to_owned(),
        problem: message.trim().replace('\n', "; "),
        mend: mend.to_owned(),
    }
}

pub(super) fn check(file: &str, d: &Description) -> Result<(), MachineError> {
    let checker = Checker { file };
    checker.topology(&d.topology)?;
    checker.instructions(&d.instructions)?;
    checker.lines(&d.lines, furthest(&d.topology))?;
    checker.scheduler("scheduler", &d.scheduler)?;
    checker.calls(&d.calls)?;
    checker.barrier(&d.barrier)?;
    d.guests.as_ref().map_or(Ok(()), |guests| checker.guests(guests))?;
    d.stolen.as_ref().map_or(Ok(()), |stolen| checker.stolen(stolen, d.guests.is_some()))
}

/// The most hops between two sockets.
fn furthest(t: &Topology) -> usize {
    match &t.hops {
        Some(rows) => rows.iter().flatten().copied().max().unwrap_or(0),
        None => usize::from(t.sockets > 1),
    }
}

struct Checker<'a> {
    file: &'a str,
}

impl Checker<'_> {
    fn error(&self, key: &str, problem: impl Into<String>, mend: &str) -> MachineError {
        MachineError {
            file: self.file.to_owned(),
            key: key.to_owned(),
            problem: problem.into(),
            mend: mend.to_owned(),
        }
    }

    fn topology(&self, t: &Topology) -> Result<(), MachineError> {
        let counts = [
            ("topology.sockets", t.sockets),
            ("topology.clusters_per_socket", t.clusters_per_socket),
            ("topology.cores_per_cluster", t.cores_per_cluster),
            ("topology.threads_per_core", t.threads_per_core),
        ];
        for (key, count) in counts {
            self.count(key, count)?;
        }
        let cpus =
            counts.iter().fold(1, |product: usize, &(_, count)| product.saturating_mul(count));
        self.limit("topology", "CPUs", cpus)?;
        if t.sockets > MAX_SOCKETS {
            let problem = format!("is {}", t.sockets);
            let mend = format!("at most {MAX_SOCKETS} sockets can be simulated");
            return Err(self.error("topology.sockets", problem, &mend));
        }
        let Some(rows) = &t.hops else { return Ok(()) };
        let key = "topology.hops";
        if rows.len() != t.sockets || rows.iter().any(|row| row.len() != t.sockets) {
            let mend = format!("give {0} rows of {0} numbers", t.sockets);
            return Err(self.error(key, "is not a square of the number of sockets", &mend));
        }
        for (i, row) in rows.iter().enumerate() {
            for (j, &hops) in row.iter().enumerate() {
                if (hops == 0) != (i == j) || hops != rows[j][i] {
                    let problem = format!("is {hops} from socket {i} to socket {j}");
                    let mend = "0 from a socket to itself, else 1 or more, and the same both ways";
                    return Err(self.error(key, problem, mend));
                }
            }
        }
        Ok(())
    }

    fn instructions(&self, i: &Instructions) -> Result<(), MachineError> {
        for (key, ns) in [
            ("load_ns", i.load_ns),
            ("store_ns", i.store_ns),
            ("atomic_ns", i.atomic_ns),
            ("pause_ns", i.pause_ns),
            ("clock_ns", i.clock_ns),
        ] {
            self.positive(&format!("instructions.{key}"), ns)?;
        }
        if !(1.0..=MOST_SHARED).contains(&i.shared_core) {
            let problem = format!("is {}", i.shared_core);
            let mend = format!("give how many times as long, 1 to {MOST_SHARED}");
            return Err(self.error("instructions.shared_core", problem, &mend));
        }
        Ok(())
    }

    fn lines(&self, l: &Lines, hops: usize) -> Result<(), MachineError> {
        for (key, ns) in [
            ("smt_ns", l.smt_ns),
            ("cluster_ns", l.cluster_ns),
            ("socket_ns", l.socket_ns),
            ("memory_ns", l.memory_ns),
            ("fill_ns", l.fill_ns),
        ] {
            self.positive(&format!("lines.{key}"), ns)?;
        }
        for (i, &ns) in l.hop_ns.iter().enumerate() {
            self.positive(&format!("lines.hop_ns[{i}]"), ns)?;
        }
        if l.hop_ns.len() != hops {
            let problem =
                format!("has {} numbers, but sockets are up to {hops} hops apart", l.hop_ns.len());
            let mend = "give one number for each distance; none if there is one socket";
            return Err(self.error("lines.hop_ns", problem, mend));
        }
        if l.in_flight == 0 {
            return Err(self.error("lines.in_flight", "is 0".to_owned(), "give 1 or more"));
        }
        if !(0.0..=1.0).contains(&l.hold) {
            return Err(self.error("lines.hold", format!("is {}", l.hold), "give a share, 0 to 1"));
        }
        self.not_negative("lines.serve_ns", l.serve_ns)?;
        self.spread("lines", l.spread)
    }

    fn calls(&self, c: &Calls) -> Result<(), MachineError> {
        for (key, ns) in [
            ("wait_ns", c.wait_ns),
            ("wake_ns", c.wake_ns),
            ("wake_sleeper_ns", c.wake_sleeper_ns),
            ("yield_ns", c.yield_ns),
        ] {
            self.positive(&format!("calls.{key}"), ns)?;
        }
        Ok(())
    }

    fn barrier(&self, b: &Barrier) -> Result<(), MachineError> {
        self.positive("barrier.call_ns", b.call_ns)?;
        for (key, ns) in
            [("send_ns", b.send_ns), ("answer_ns", b.answer_ns), ("interrupt_ns", b.interrupt_ns)]
        {
            self.not_negative(&format!("barrier.{key}"), ns)?;
        }
        Ok(())
    }

    fn guests(&self, guests: &Guests) -> Result<(), MachineError> {
        self.count("guests.count", guests.count)?;
        self.count("guests.cpus", guests.cpus)?;
        self.limit("guests.count", "virtual CPUs", guests.count.saturating_mul(guests.cpus))?;
        self.scheduler("guests.scheduler", &guests.scheduler)
    }

    fn stolen(&self, stolen: &Stolen, has_guests: bool) -> Result<(), MachineError> {
        if has_guests {
            let mend = "remove [stolen] or [guests]";
            let problem = "is beside [guests], which have their host's CPUs taken anyway";
            return Err(self.error("stolen", problem, mend));
        }
        if !(0.0..=MOST_STOLEN).contains(&stolen.share) {
            let mend = format!("give a share, 0 to {MOST_STOLEN}");
            return Err(self.error("stolen.share", format!("is {}", stolen.share), &mend));
        }
        self.positive("stolen.slice_ns", stolen.slice_ns)
    }

    fn scheduler(&self, table: &str, s: &Scheduler) -> Result<(), MachineError> {
        self.positive(&format!("{table}.slice_ns"), s.slice_ns)?;
        self.positive(&format!("{table}.tick_ns"), s.tick_ns)?;
        for (key, ns) in [
            ("wake_preempt_ns", s.wake_preempt_ns),
            ("sleeper_credit_ns", s.sleeper_credit_ns),
            ("migration_cost_ns", s.migration_cost_ns),
            ("yield_forfeit_ns", s.yield_forfeit_ns),
            ("switch_ns", s.switch_ns),
            ("wake_idle_ns", s.wake_idle_ns),
            ("wake_busy_ns", s.wake_busy_ns),
            ("timer_slack_ns", s.timer_slack_ns),
        ] {
            self.not_negative(&format!("{table}.{key}"), ns)?;
        }
        for ns in s.idle_ns.as_flattened() {
            self.not_negative(&format!("{table}.idle_ns"), *ns)?;
        }
        self.spread(table, s.spread)
    }

    fn spread(&self, table: &str, spread: f64) -> Result<(), MachineError> {
        if (0.0..=MOST_SPREAD).contains(&spread) {
            return Ok(());
        }
        let mend = format!("give a standard deviation of the logarithm, 0 to {MOST_SPREAD}");
        Err(self.error(&format!("{table}.spread"), format!("is {spread}"), &mend))
    }

    fn count(&self, key: &str, count: usize) -> Result<(), MachineError> {
        if count == 0 { Err(self.error(key, "is 0", "give 1 or more")) } else { Ok(()) }
    }

    fn limit(&self, key: &str, what: &str, count: usize) -> Result<(), MachineError> {
        if count <= CpuSet::CAPACITY {
            return Ok(());
        }
        let mend = format!("at most {} can be simulated", CpuSet::CAPACITY);
        Err(self.error(key, format!("makes {count} {what}"), &mend))
    }

    /// Time must pass, or a loop of operations that take none would never end.
    fn positive(&self, key: &str, ns: f64) -> Result<(), MachineError> {
        self.not_negative(key, ns)?;
        if ns < 0.001 {
            let problem = format!("is {ns}");
            return Err(self.error(key, problem, "give at least 0.001, which is a picosecond"));
        }
        Ok(())
    }

    fn not_negative(&self, key: &str, ns: f64) -> Result<(), MachineError> {
        if (0.0..=LONGEST_NS).contains(&ns) {
            return Ok(());
        }
        let mend = if ns < 0.0 {
            "nothing takes less than no time"
        } else {
            "give nanoseconds, an hour at most"
        };
        Err(self.error(key, format!("is {ns}"), mend))
    }
}

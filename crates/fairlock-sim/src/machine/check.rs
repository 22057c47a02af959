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

/// Checks each of these keys of a table.
macro_rules! each {
    ($checker:ident.$check:ident, $name:expr, $table:ident: $($key:ident),*) => {
        $($checker.$check(&format!("{}.{}", $name, stringify!($key)), $table.$key)?;)*
    };
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
        each!(self.count, "topology", t: sockets, clusters_per_socket, cores_per_cluster, threads_per_core);
        let counts = [t.clusters_per_socket, t.cores_per_cluster, t.threads_per_core];
        let cpus = counts.into_iter().fold(t.sockets, usize::saturating_mul);
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
        each!(self.positive, "instructions", i: load_ns, store_ns, atomic_ns, pause_ns, clock_ns);
        let what = "give how many times as long";
        self.within("instructions.shared_core", i.shared_core, 1.0, MOST_SHARED, what)
    }

    fn lines(&self, l: &Lines, hops: usize) -> Result<(), MachineError> {
        each!(self.positive, "lines", l: smt_ns, cluster_ns, socket_ns, memory_ns, fill_ns);
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
            return Err(self.error("lines.in_flight", "is 0", "give 1 or more"));
        }
        self.within("lines.hold", l.hold, 0.0, 1.0, "give a share")?;
        self.not_negative("lines.serve_ns", l.serve_ns)?;
        self.spread("lines", l.spread)
    }

    fn calls(&self, c: &Calls) -> Result<(), MachineError> {
        each!(self.positive, "calls", c: wait_ns, wake_ns, wake_sleeper_ns, yield_ns);
        Ok(())
    }

    fn barrier(&self, b: &Barrier) -> Result<(), MachineError> {
        self.positive("barrier.call_ns", b.call_ns)?;
        each!(self.not_negative, "barrier", b: send_ns, answer_ns, interrupt_ns);
        Ok(())
    }

    fn guests(&self, guests: &Guests) -> Result<(), MachineError> {
        each!(self.count, "guests", guests: count, cpus);
        self.limit("guests.count", "virtual CPUs", guests.count.saturating_mul(guests.cpus))?;
        self.scheduler("guests.scheduler", &guests.scheduler)
    }

    fn stolen(&self, stolen: &Stolen, has_guests: bool) -> Result<(), MachineError> {
        if has_guests {
            let mend = "remove [stolen] or [guests]";
            let problem = "is beside [guests], which have their host's CPUs taken anyway";
            return Err(self.error("stolen", problem, mend));
        }
        self.within("stolen.share", stolen.share, 0.0, MOST_STOLEN, "give a share")?;
        self.positive("stolen.slice_ns", stolen.slice_ns)
    }

    fn scheduler(&self, table: &str, s: &Scheduler) -> Result<(), MachineError> {
        each!(self.positive, table, s: slice_ns, tick_ns);
        each!(self.not_negative, table, s: wake_preempt_ns, sleeper_credit_ns, migration_cost_ns);
        each!(self.not_negative, table, s: yield_forfeit_ns, switch_ns, wake_idle_ns, wake_busy_ns);
        each!(self.not_negative, table, s: timer_slack_ns);
        for ns in s.idle_ns.as_flattened() {
            self.not_negative(&format!("{table}.idle_ns"), *ns)?;
        }
        self.spread(table, s.spread)
    }

    fn spread(&self, table: &str, spread: f64) -> Result<(), MachineError> {
        let what = "give a standard deviation of the logarithm";
        self.within(&format!("{table}.spread"), spread, 0.0, MOST_SPREAD, what)
    }

    /// `what` says what to give within these bounds.
    fn within(
        &self,
        key: &str,
        number: f64,
        least: f64,
        most: f64,
        what: &str,
    ) -> Result<(), MachineError> {
        if (least..=most).contains(&number) {
            return Ok(());
        }
        let mend = format!("{what}, {least} to {most}");
        Err(self.error(key, format!("is {number}"), &mend))
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

//! The numbers of all named locks at one time.

use core::fmt::{self, Write};
use core::time::Duration;
use std::string::String;
use std::vec::Vec;

use super::histogram::Times;
use super::hold::{Access, Place};

/// What was counted of one named lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockStats {
    /// Its name. Several locks may have the same.
    pub name: String,
    /// The numbers of readers; zero for a mutex.
    pub reads: SideStats,
    /// The numbers of writers, of holders of a mutex, and of upgradable readers.
    pub writes: SideStats,
    /// Waits at condition variables with this mutex: each from the release of the mutex until the
    /// thread holds it again, whether or not it was notified.
    pub conditions: Times,
    /// The longest of these.
    pub longest_condition: Option<Longest>,
}

/// The numbers of one side of a lock: its readers or its writers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SideStats {
    /// How often the lock was taken. Exact.
    pub acquisitions: u64,
    /// Waits: how long it took to acquire the lock, or to give up, after a failed first attempt.
    /// All are timed.
    pub waited: Times,
    /// How many of the waits ended without the lock: deadline, signal or token.
    pub given_up: u64,
    /// How often a waiter was overtaken, in all: a later thread acquired the lock first. Too low if
    /// waiters ahead gave up.
    pub passed_over: u64,
    /// How often the most overtaken waiter was overtaken.
    pub most_passed_over: u64,
    /// The longest wait.
    pub longest_wait: Option<Longest>,
    /// How long the lock was held, from samples: the first acquisition of each thread (for writes:
    /// of all threads), and then one of 64. [`longest`](Times::longest) includes all holds that
    /// somebody waited for.
    pub held: Times,
    /// The longest hold. If a hold was not sampled, and somebody began to wait during it, only the
    /// time from then on counts.
    pub longest_hold: Option<Longest>,
}

/// What took longest.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Longest {
    /// How long.
    pub time: Duration,
    /// The name of the thread: Rust's, or else the system's, or else its number. If the guard was
    /// sent to another thread, the name of the thread that dropped it.
    pub thread: String,
    /// Where in the code it took the lock.
    pub at: Option<Place>,
    /// The name of that place, if it is an address whose name is known: see
    /// [`Snapshot::with_names`].
    pub(super) name: Option<String>,
}

impl LockStats {
    /// Both sides, of which one may be unused.
    pub fn sides(&self) -> [(Access, &SideStats); 2] {
        [(Access::Read, &self.reads), (Access::Write, &self.writes)]
    }
}

impl SideStats {
    /// Whether nobody has wanted the lock in this way.
    pub fn is_unused(&self) -> bool {
        self.acquisitions == 0 && self.waited.count == 0
    }
}

/// Read or write.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// How long, by whom, and from where.
impl fmt::Display for Longest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1?} by {}", self.time, self.thread)?;
        match (&self.name, self.at) {
            (Some(name), _) => write!(f, " at {name}"),
            (None, Some(at)) => write!(f, " at {at}"),
            (None, None) => Ok(()),
        }
    }
}

/// The numbers of all named locks at one time, by name; those of one name in the order in which they
/// were first used.
///
/// Each number is read on its own, so while a lock is in use, an acquisition may be in one number
/// and not yet in another. The numbers are exact once the threads have been joined.
#[derive(Clone, Debug)]
pub struct Snapshot(Vec<LockStats>);

impl Snapshot {
    pub(super) fn new(mut locks: Vec<LockStats>) -> Self {
        locks.sort_by(|a, b| a.name.cmp(&b.name));
        Self(locks)
    }

    /// All of them.
    pub fn locks(&self) -> &[LockStats] {
        &self.0
    }

    /// The first lock of this name.
    pub fn get(&self, name: &str) -> Option<&LockStats> {
        self.0.iter().find(|lock| lock.name == name)
    }

    /// The same, but addresses are printed as the names that `name` returns for them.
    #[doc(hidden)] // for libfairlock
    pub fn with_names(mut self, name: impl Fn(usize) -> Option<String>) -> Self {
        for LockStats { reads, writes, longest_condition, .. } in &mut self.0 {
            let sides = [reads, writes].map(|it| [&mut it.longest_wait, &mut it.longest_hold]);
            for longest in sides.into_iter().flatten().chain([longest_condition]).flatten() {
                if let Some(Place::Address(address)) = longest.at {
                    longest.name = name(address);
                }
            }
        }
        self
    }

    /// One object in JSON: `{"locks": [{"name": …, "reads": {…}, "writes": {…}, "conditions": {…}}, …]}`. The
    /// members of `reads` and `writes` are those of [`SideStats`], of `conditions` its `waited` and
    /// `longest_wait`; times are in nanoseconds, and end with `_ns`.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{\"locks\":[");
        for (i, lock) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(json, "{comma}{{\"name\":{},", Quoted(&lock.name));
            let _ =
                write!(json, "\"reads\":{},\"writes\":{},", Json(&lock.reads), Json(&lock.writes));
            let (waited, longest) = (Json(&lock.conditions), Json(lock.longest_condition.as_ref()));
            let _ =
                write!(json, "\"conditions\":{{\"waited\":{waited},\"longest_wait\":{longest}}}}}");
        }
        json.push_str("]}");
        json
    }
}

/// A table: for each used side of a lock its numbers, and which threads held it and waited longest;
/// and the waits at condition variables, `cond`.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|lock| lock.name.chars().count()).max().unwrap_or(0).max(4);
        write!(
            f,
            "{:width$} {:5} {:>12} {:>9} {:>8} {:>11}",
            "lock", "", "acquisitions", "waits", "gave up", "passed over"
        )?;
        writeln!(
            f,
            " {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "wait p50", "p99", "longest", "held p50", "p99", "longest"
        )?;
        for lock in &self.0 {
            for (access, side) in lock.sides().into_iter().filter(|(_, side)| !side.is_unused()) {
                let SideStats { acquisitions, waited, given_up, passed_over, held, .. } = side;
                write!(f, "{:width$} {access:5} {acquisitions:12}", lock.name)?;
                write!(f, " {:9} {given_up:8} {passed_over:11}", waited.count)?;
                for time in
                    [waited.p50, waited.p99, waited.longest, held.p50, held.p99, held.longest]
                {
                    write!(f, " {time:>9.1?}")?;
                }
                writeln!(f)?;
                for (what, longest) in
                    [("held", &side.longest_hold), ("waited", &side.longest_wait)]
                {
                    if let Some(longest) = longest {
                        writeln!(f, "    longest {what} {longest}")?;
                    }
                }
            }
            if let Some(longest) = &lock.longest_condition {
                let Times { count, p50, p99, longest: time, .. } = lock.conditions;
                write!(
                    f,
                    "{:width$} {:5} {:12} {count:9} {:8} {:11}",
                    lock.name, "cond", "", "", ""
                )?;
                writeln!(f, " {p50:>9.1?} {p99:>9.1?} {time:>9.1?}")?;
                writeln!(f, "    longest waited {longest}")?;
            }
        }
        Ok(())
    }
}

/// In JSON.
struct Json<T>(T);

impl fmt::Display for Json<&SideStats> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SideStats { acquisitions, given_up, passed_over, most_passed_over, .. } = self.0;
        write!(f, "{{\"acquisitions\":{acquisitions},\"given_up\":{given_up},")?;
        write!(f, "\"passed_over\":{passed_over},\"most_passed_over\":{most_passed_over},")?;
        write!(f, "\"waited\":{},\"held\":{},", Json(&self.0.waited), Json(&self.0.held))?;
        let [wait, hold] = [&self.0.longest_wait, &self.0.longest_hold].map(|it| Json(it.as_ref()));
        write!(f, "\"longest_wait\":{wait},\"longest_hold\":{hold}}}")
    }
}

impl fmt::Display for Json<&Times> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Times { count, total, p50, p99, p999, longest } = self.0;
        write!(f, "{{\"count\":{count},\"total_ns\":{},", total.as_nanos())?;
        write!(f, "\"p50_ns\":{},\"p99_ns\":{},", p50.as_nanos(), p99.as_nanos())?;
        write!(f, "\"p999_ns\":{},\"longest_ns\":{}}}", p999.as_nanos(), longest.as_nanos())
    }
}

impl fmt::Display for Json<Option<&Longest>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Longest { time, thread, at, name }) = self.0 else { return f.write_str("null") };
        write!(f, "{{\"time_ns\":{},\"thread\":{},\"at\":", time.as_nanos(), Quoted(thread))?;
        match (name, at) {
            (Some(name), _) => write!(f, "{}}}", Quoted(name)),
            (None, Some(Place::Line(at))) => {
                write!(f, "\"{}:{}\"}}", Escaped(at.file()), at.line())
            }
            (None, Some(at)) => write!(f, "\"{at}\"}}"),
            (None, None) => f.write_str("null}"),
        }
    }
}

/// A string of JSON.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", Escaped(self.0))
    }
}

/// What is inside of one.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '"' | '\\' => write!(f, "\\{c}"),
            c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c)),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    fn longest(address: usize) -> Option<Longest> {
        let (time, at) = (Duration::from_nanos(1), Some(Place::Address(address)));
        Some(Longest { time, thread: "t".to_string(), at, name: None })
    }

    fn side(wait: usize, hold: usize) -> SideStats {
        SideStats {
            acquisitions: 1,
            waited: Times::default(),
            given_up: 0,
            passed_over: 0,
            most_passed_over: 0,
            longest_wait: longest(wait),
            held: Times::default(),
            longest_hold: longest(hold),
        }
    }

    /// Addresses that begin others, and a lock whose name has one in it.
    #[test]
    fn a_name_stands_in_the_place_of_its_address_alone() {
        let lock = LockStats {
            name: "0x12".to_string(),
            reads: side(0x12, 0x123),
            writes: side(0x1234, 0x9),
            conditions: Times::default(),
            longest_condition: longest(0x12),
        };
        let name = |address| match address {
            0x12 => Some("twelve".to_string()),
            0x123 => Some("\"more\"".to_string()),
            _ => None,
        };
        let now = Snapshot::new([lock].into()).with_names(name);
        let (table, json) = (now.to_string(), now.to_json());
        let places = |text: &str, mark: &str| -> Vec<String> {
            let after = text.split(mark).skip(1);
            after.map(|rest| rest.split(['\n', '}']).next().unwrap_or("").to_string()).collect()
        };
        let in_table = ["\"more\"", "twelve", "0x9", "0x1234", "twelve"];
        assert_eq!(places(&table, " at "), in_table);
        let in_json = ["\"twelve\"", "\"\\\"more\\\"\"", "\"0x1234\"", "\"0x9\"", "\"twelve\""];
        assert_eq!(places(&json, "\"at\":"), in_json);
        assert!(table.contains("\n0x12 ") && json.contains("\"name\":\"0x12\""));
    }
}

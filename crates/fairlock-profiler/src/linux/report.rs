//! The report that the library wrote: one line of JSON for each lock, one file for each
//! process.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::Path;

use super::threads::Totals;
use crate::counted::{Counted, policies};
use crate::error::Error;
use crate::layout::{Column, Table};
use crate::sum;
use crate::units::{count, several, time};

/// The file of the first process; the names of the others' files end with a number.
pub const NAME: &str = "locks";

/// How many locks that were waited for are shown.
const SHOWN: usize = 20;
/// How many kinds of events are shown of each lock.
const EVENTS: usize = 3;

/// The line below the table that says what the columns are.
const NOTE: &str = "waits: acquisitions that could not be had at once; inside: when the report was \
     written, at the end; events: those that happened most";

impl Counted {
    /// Which threads were inside the lock at the end, and whether others waited then.
    fn holders(&self) -> String {
        let inside = match (self.writer, self.readers) {
            (0, 0) => "-".into(),
            (0, readers) => several(readers, "reader"),
            (writer, _) => format!("writer {writer}"),
        };
        if self.waiting { format!("{inside}, others wait") } else { inside }
    }

    fn was_waited_for(&self) -> bool {
        self.waits > 0
    }

    /// The kinds of events that happened most.
    fn events(&self) -> String {
        let mut events: Vec<_> = self.events.iter().collect();
        events.sort_by_key(|&(_, n)| Reverse(n));
        let shown = events.iter().take(EVENTS).map(|(name, n)| format!("{name} {}", count(**n)));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// What the locks of a program and its children counted.
pub struct Report {
    /// The lines as they were written.
    pub text: String,
    /// The locks by their longest waits, and of those with the same by how often they were used.
    locks: Vec<Counted>,
    /// How many processes wrote a report.
    processes: usize,
    unreadable: usize,
}

/// Reads the reports in `folder`.
pub fn read(folder: &Path) -> Result<Report, Error> {
    let cannot = |path: &Path, error: io::Error| {
        Error::failed(format!("cannot read the report {}: {error}", path.display()))
    };
    let entries = fs::read_dir(folder).map_err(|error| cannot(folder, error))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut text = String::new();
    for path in &files {
        text += &fs::read_to_string(path).map_err(|error| cannot(path, error))?;
    }
    Ok(Report::new(text, files.len()))
}

impl Report {
    fn new(text: String, processes: usize) -> Self {
        let (mut locks, mut unreadable) = (Vec::<Counted>::new(), 0);
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(lock) => locks.push(lock),
                Err(_) => unreadable += 1,
            }
        }
        locks.sort_by_key(|lock| Reverse((lock.wait_max_ns, lock.used())));
        Self { text, locks, processes, unreadable }
    }

    /// All waits together.
    pub fn totals(&self) -> Totals {
        let lost_ns = sum(self.locks.iter().map(|lock| lock.wait_total_ns));
        Totals { lost_ns, slept_ns: None }
    }

    /// The table. With `explained` it has been said already why there may be none.
    pub fn text(&self, explained: bool, width: Option<usize>) -> String {
        if self.processes == 0 {
            return match explained {
                true => String::new(),
                false => {
                    "fairlock: no report: the program was ended by a signal or by _exit, could \
                          not open the file in its chroot or sandbox, or does not use glibc; a \
                          profile (without --stats) is there in all but the last of these cases\n"
                        .into()
                }
            };
        }
        if self.locks.is_empty() && self.unreadable == 0 {
            return "fairlock: the program took no lock that fairlock replaces\n".into();
        }
        let (shown, others) = self.shown();
        let mut text = format!("\n{}", self.table(&shown, width));
        let (waited, idle): (Vec<&Counted>, Vec<&Counted>) =
            others.iter().partition(|lock| lock.was_waited_for());
        for (others, what) in [(waited, "with shorter waits"), (idle, "that nobody waited for")] {
            if !others.is_empty() {
                text +=
                    &format!("{} more {what}: {}\n", count(others.len() as u64), together(&others));
            }
        }
        if !others.is_empty() {
            text += "--stats FILE keeps them all\n";
        }
        if self.unreadable > 0 {
            text += &format!(
                "{} lines of the report cannot be read: the library is of another version\n",
                self.unreadable
            );
        }
        text
    }

    /// The locks that are shown, and the others. Shown are the first of those that were waited for,
    /// and the one that was used most, even if nobody waited for it.
    fn shown(&self) -> (Vec<&Counted>, Vec<&Counted>) {
        let busiest = self.locks.iter().max_by_key(|lock| lock.used());
        let is_busiest =
            |lock: &Counted| busiest.is_some_and(|busiest| std::ptr::eq(busiest, lock));
        let is_shown = |&(place, lock): &(usize, &Counted)| {
            is_busiest(lock) || lock.was_waited_for() && place < SHOWN
        };
        let (shown, others): (Vec<_>, Vec<_>) = self.locks.iter().enumerate().partition(is_shown);
        let locks = |of: Vec<(usize, _)>| of.into_iter().map(|(_, lock)| lock).collect();
        (locks(shown), locks(others))
    }

    fn table(&self, shown: &[&Counted], width: Option<usize>) -> String {
        let mut table = Table::of(
            shown.iter().copied(),
            [
                (Column::name("process"), &|lock: &Counted| lock.pid.to_string()),
                (Column::place("lock"), &Counted::place),
                (Column::name("kind").rank(2), &|lock| lock.kind.clone()),
                (Column::figure("longest wait"), &|lock| time(lock.wait_max_ns)),
                (Column::figure("waits"), &|lock| count(lock.waits)),
                (Column::figure("total wait").rank(3), &|lock| time(lock.wait_total_ns)),
                (Column::figure("reads"), &|lock| count(lock.reads)),
                (Column::figure("writes"), &|lock| count(lock.writes)),
                (Column::figure("inside").rank(2), &Counted::holders),
                (Column::name("events").rank(1), &Counted::events),
            ],
        );
        if self.processes == 1 {
            table.leave_out("process");
        }
        let title = format!("locks by longest wait, policy {}", policies(&self.locks));
        table.titled(&title, NOTE, width)
    }
}

/// The waits of several locks together, in words.
fn together(locks: &[&Counted]) -> String {
    let total = |what: fn(&Counted) -> u64| sum(locks.iter().map(|lock| what(lock)));
    let (waits, ns) = (total(|lock| lock.waits), total(|lock| lock.wait_total_ns));
    let waited = match waits {
        0 => String::new(),
        _ => format!("{} of {} in all, ", several(waits, "wait"), time(ns)),
    };
    let (reads, writes) = (total(|l| l.reads), total(|l| l.writes));
    format!("{waited}{}, {}", several(reads, "read"), several(writes, "write"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(symbol: &str, waits: u64, wait_max_ns: u64, reads: u64, writes: u64) -> String {
        let lock = serde_json::json!({
            "pid": 1, "policy": "default", "kind": "mutex", "address": "0x10", "object": null, "symbol": symbol,
            "offset": 0, "reads": reads, "writes": writes, "waits": waits,
            "wait_total_ns": waits * wait_max_ns, "wait_max_ns": wait_max_ns, "readers": 0,
            "writer": 0, "events": {},
        });
        format!("{lock}\n")
    }

    fn text_of(lines: &[String]) -> String {
        Report::new(lines.concat(), 1).text(false, None)
    }

    /// The names of the locks in a table, from the top.
    fn names(text: &str) -> Vec<&str> {
        let rows = text.lines().skip_while(|line| !line.starts_with("lock ")).skip(1);
        rows.take_while(|line| !line.is_empty()).filter_map(|row| row.split(' ').next()).collect()
    }

    #[test]
    fn the_busiest_lock_is_shown_and_idle_ones_are_one_line() {
        let mut lines: Vec<String> =
            (0..111).map(|n| line(&format!("idle{n}"), 0, 0, 0, 3)).collect();
        lines.push(line("busiest", 0, 0, 90_000, 8_270));
        lines.push(line("waited", 2, 500, 7, 1));
        let text = text_of(&lines);
        assert_eq!(names(&text), ["waited", "busiest"], "{text}");
        assert!(
            text.contains("\n111 more that nobody waited for: 0 reads, 333 writes\n"),
            "{text}"
        );
        assert!(!text.contains("shorter waits"), "{text}");
    }

    #[test]
    fn locks_come_by_longest_wait_and_then_by_use() {
        let mut lines: Vec<String> =
            (0..25).map(|n| line(&format!("w{n}"), 1, 900 - n, 10, 0)).collect();
        lines.insert(3, line("rare", 9, 950, 0, 1));
        lines.insert(9, line("often", 1, 950, 40, 1));
        let text = text_of(&lines);
        let shown = names(&text);
        assert_eq!((shown.len(), &shown[..3]), (20, &["often", "rare", "w0"][..]), "{text}");
        let others = "7 more with shorter waits: 7 waits of 6.15 us in all, 70 reads, 0 writes";
        assert!(text.contains(others) && text.contains("--stats FILE"), "{text}");
    }

    #[test]
    fn threads_that_waited_at_the_end_are_beside_the_holder() {
        let line =
            line("stuck", 0, 0, 0, 1).replace("\"writer\":0", "\"writer\":7,\"waiting\":true");
        let text = text_of(&[line]);
        assert!(text.contains("writer 7, others wait"), "{text}");
    }

    #[test]
    fn numbers_of_a_damaged_report_are_no_panic() {
        let busiest = line("busiest", 0, 0, u64::MAX, u64::MAX);
        let others = [line("a", 0, 0, u64::MAX, 7), line("b", 0, 0, 1, u64::MAX)];
        let text = text_of(&[&[busiest][..], &others].concat());
        let most = crate::units::count(u64::MAX);
        assert!(
            text.contains(&format!("2 more that nobody waited for: {most} reads, {most} writes")),
            "{text}"
        );
    }

    #[test]
    fn where_all_are_shown_nothing_is_summed() {
        let text = text_of(&[line("a", 1, 5, 1, 0), line("b", 0, 0, 8, 0)]);
        assert_eq!(names(&text), ["a", "b"]);
        assert!(!text.contains("more") && !text.contains("--stats"), "{text}");
    }
}

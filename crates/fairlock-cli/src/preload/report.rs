//! The report that the library wrote: one line of JSON for each lock, one file for each
//! process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::layout::{Column, Table};
use crate::output::print;
use crate::units::{count, time};

/// The file of the first process; those of others have a number behind it.
pub const NAME: &str = "locks";

/// So many locks are shown.
const SHOWN: usize = 20;
/// So many kinds of events of each.
const EVENTS: usize = 3;

/// What the columns say.
const NOTE: &str = "waits: acquisitions that could not be had at once; inside: when the report was \
     written, at the end; events: those that happened most";

/// What the library says of a lock.
#[derive(Deserialize)]
struct Lock {
    pid: u32,
    policy: String,
    address: String,
    object: Option<String>,
    symbol: Option<String>,
    offset: u64,
    reads: u64,
    writes: u64,
    waits: u64,
    wait_total_ns: u64,
    wait_max_ns: u64,
    readers: u64,
    /// The thread inside as a writer, or zero.
    writer: u32,
    events: BTreeMap<String, u64>,
}

impl Lock {
    /// Where it is, in the words of the program if there are any.
    fn place(&self) -> String {
        let file = self.object.as_deref().map(|object| {
            Path::new(object).file_name().unwrap_or_default().to_string_lossy().into_owned()
        });
        match (&self.symbol, file) {
            (Some(symbol), _) if self.offset == 0 => symbol.clone(),
            (Some(symbol), _) => format!("{symbol}+{:#x}", self.offset),
            (None, Some(file)) => format!("{file}+{:#x}", self.offset),
            (None, None) => self.address.clone(),
        }
    }

    /// Who was inside in the end.
    fn holders(&self) -> String {
        match (self.writer, self.readers) {
            (0, 0) => "-".into(),
            (0, readers) => format!("{readers} readers"),
            (writer, _) => format!("writer {writer}"),
        }
    }

    /// What happened most.
    fn events(&self) -> String {
        let mut events: Vec<_> = self.events.iter().collect();
        events.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
        let shown = events.iter().take(EVENTS).map(|(name, n)| format!("{name} {}", count(**n)));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// What became of the locks of a program and its children.
pub struct Report {
    /// As they were written.
    text: String,
    locks: Vec<Lock>,
    /// Processes that wrote one.
    processes: usize,
    unreadable: usize,
}

/// Where a report is to be kept.
pub enum Kept {
    /// `-`.
    Stdout,
    File(File, PathBuf),
}

impl Kept {
    /// Makes the file now, rather than when there is a report.
    pub fn new(path: &Path) -> Result<Self, Error> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        match File::create(path) {
            Ok(file) => Ok(Self::File(file, path.to_owned())),
            Err(error) => Err(cannot("write", path, &error)),
        }
    }
}

/// What was written to `folder`.
pub fn read(folder: &Path) -> Result<Report, Error> {
    let mut report = Report { text: String::new(), locks: vec![], processes: 0, unreadable: 0 };
    let entries = fs::read_dir(folder).map_err(|error| cannot("read", folder, &error))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for path in &files {
        report.text += &fs::read_to_string(path).map_err(|error| cannot("read", path, &error))?;
        report.processes += 1;
    }
    for line in report.text.lines() {
        match serde_json::from_str(line) {
            Ok(lock) => report.locks.push(lock),
            Err(_) => report.unreadable += 1,
        }
    }
    report.locks.sort_by_key(|lock| std::cmp::Reverse((lock.wait_max_ns, lock.waits)));
    Ok(report)
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::failed(format!("cannot {what} the report {}: {error}", path.display()))
}

impl Report {
    /// Writes it where the user wants it.
    pub fn keep(&self, kept: Kept) -> Result<(), Error> {
        let text = self.text.as_bytes();
        match kept {
            Kept::Stdout => print(text),
            Kept::File(mut file, path) => {
                file.write_all(text).map_err(|error| cannot("write", &path, &error))
            }
        }
    }

    /// The table. `obstructed`: it has been said already why there may be none.
    pub fn text(&self, obstructed: bool, width: Option<usize>) -> String {
        if self.processes == 0 {
            return match obstructed {
                true => String::new(),
                false => "fairlock: no report: the program was ended by a signal or by _exit, or \
                          does not use glibc\n"
                    .into(),
            };
        }
        if self.locks.is_empty() && self.unreadable == 0 {
            return "fairlock: the program took no pthread_rwlock_t\n".into();
        }
        let mut text = format!("\n{}", self.table(width));
        let hidden = self.locks.len().saturating_sub(SHOWN);
        if hidden > 0 {
            text += &format!("and {hidden} more locks: --stats FILE keeps them all\n");
        }
        if self.unreadable > 0 {
            text += &format!(
                "{} lines of the report cannot be read: the library is of another version\n",
                self.unreadable
            );
        }
        text
    }

    fn policies(&self) -> String {
        let mut names: Vec<_> = self.locks.iter().map(|lock| &*lock.policy).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }

    fn table(&self, width: Option<usize>) -> String {
        let pids = self.processes > 1;
        let process = pids.then(|| Column::name("process"));
        let mut table = Table::new(process.into_iter().chain([
            Column::place("lock"),
            Column::figure("longest wait"),
            Column::figure("waits"),
            Column::figure("total wait").rank(3),
            Column::figure("reads"),
            Column::figure("writes"),
            Column::figure("inside").rank(2),
            Column::name("events").rank(1),
        ]));
        for lock in self.locks.iter().take(SHOWN) {
            let row = [
                lock.place(),
                time(lock.wait_max_ns),
                count(lock.waits),
                time(lock.wait_total_ns),
                count(lock.reads),
                count(lock.writes),
                lock.holders(),
                lock.events(),
            ];
            table.row(pids.then(|| lock.pid.to_string()).into_iter().chain(row));
        }
        let title = format!("locks by longest wait, policy {}", self.policies());
        table.titled(&title, NOTE, width)
    }
}

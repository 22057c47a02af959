//! What `fairlock run --stats FILE` kept: a line of JSON for each lock.

use std::path::Path;

use super::{Column, Program, bars, table, value};
use crate::error::Error;
use crate::preload::counted::{Counted, policies};
use crate::report::columns::is_asked_for;
use crate::units::{count, several, time};
use crate::written::Written;

/// Whether the text is what `run --stats` writes.
pub fn is_in(text: &[u8]) -> bool {
    let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice::<Counted>(first).is_ok()
}

pub fn program(file: &Path, written: &Written<'_>, only: &[&str]) -> Result<Program, Error> {
    let lines = written.text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let locks: Result<Vec<Counted>, _> = lines.map(serde_json::from_slice).collect();
    let mut locks = locks.map_err(|error| written.wrong(&error))?;
    locks.retain(|lock| is_asked_for(&lock.place(), only));
    locks.sort_by_key(|lock| std::cmp::Reverse((lock.wait_max_ns, lock.used())));
    let waited = locks.iter().filter(|lock| lock.wait_max_ns > 0).map(|lock| {
        let (place, longest) = (lock.place(), time(lock.wait_max_ns));
        let says = format!("{place}: {}, the longest {longest}", several(lock.waits, "wait"));
        (place, lock.wait_max_ns, says)
    });
    let picture = bars("Longest wait for each lock", "longest wait", &waited.collect::<Vec<_>>());
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    Ok(Program {
        title: format!("locks of a program ({name})"),
        command: format!("fairlock run, policy {}", policies(&locks)),
        origin: several(locks.len(), "lock"),
        pictures: picture.into_iter().collect(),
        tables: table("Locks", &locks, &COLUMNS, 2, 0).into_iter().collect(),
        locks: locks.iter().map(value).collect::<Result<_, _>>()?,
        file: file.to_owned(),
        made: None,
        version: None,
    })
}

const COLUMNS: [Column<Counted>; 7] = [
    ("process", |lock| lock.pid.to_string()),
    ("lock", Counted::place),
    ("longest wait", |lock| time(lock.wait_max_ns)),
    ("waits", |lock| count(lock.waits)),
    ("total wait", |lock| time(lock.wait_total_ns)),
    ("reads", |lock| count(lock.reads)),
    ("writes", |lock| count(lock.writes)),
];

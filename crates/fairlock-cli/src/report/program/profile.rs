//! What `fairlock run --json FILE` kept: locks, waits and stacks.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{DRAWN, Program, ROWS, bars, named, shortened, value};
use crate::error::Error;
use crate::preload::document::{
    AtStack, Document, OfLock, OfProcess, OfSleep, OfThreads, OfWait, SCHEMA,
};
use crate::preload::place::{Place, file_name};
use crate::report::columns::{Table, is_asked_for};
use crate::report::pictures::{Picture, WAITS, Waits, wait_plot};
use crate::results::{Machine, origin};
use crate::units::{count, digits, percent, several, time};
use crate::written::Written;

/// A lock of a process.
type Seen<'a> = (&'a OfProcess, &'a OfLock);

pub fn program(file: &Path, written: &Written<'_>, only: &[&str]) -> Result<Program, Error> {
    let mut document: Document<Machine> = written.document(SCHEMA)?;
    for process in &mut document.processes {
        process.locks.retain(|lock| is_asked_for(&lock.name, only));
        process.waits.retain(|wait| is_asked_for(&wait.lock, only));
        process.asleep.retain(|asleep| is_asked_for(&asleep.name, only));
    }
    document.threads = document.threads.filter(|_| only.is_empty());
    let mut locks: Vec<Seen<'_>> = Vec::new();
    for process in &document.processes {
        locks.extend(process.locks.iter().map(|lock| (process, lock)));
    }
    locks.sort_by_key(|(_, lock)| Reverse((lock.wait_total_ns, lock.taken())));
    let machine = document.machine.clone().unwrap_or_default();
    let made = document.made.as_deref();
    Ok(Program {
        title: title(&document),
        command: document.command.clone().unwrap_or_else(|| "fairlock run".to_owned()),
        origin: format!(
            "{} · {}",
            origin(&machine, made, Some(&document.version)),
            document.served()
        ),
        pictures: pictures(&locks),
        tables: tables(&document, &locks),
        locks: locks.iter().map(|seen| row(*seen)).collect::<Result<_, _>>()?,
        file: file.to_owned(),
        version: Some(document.version.clone()),
        made: document.made.clone(),
    })
}

/// A title with the name of the first process's program, and how many processes there are.
fn title(document: &Document<Machine>) -> String {
    let names: Vec<&str> =
        document.processes.iter().map(|process| file_name(&process.program)).collect();
    match names.first() {
        None => "a program without locks".to_owned(),
        Some(first) if names.len() == 1 => format!("locks of {first}"),
        Some(first) => format!("locks of {first}, {} processes", names.len()),
    }
}

fn pictures(locks: &[Seen<'_>]) -> Vec<Picture> {
    let waited = || locks.iter().map(|(_, lock)| *lock).filter(|lock| lock.waits > 0);
    let lost = waited().map(|lock| {
        let (name, longest) = (lock.name.clone(), time(lock.wait_longest_ns));
        let lost = time(lock.wait_total_ns);
        let waits = several(lock.waits, "wait");
        let says = format!("{name}: {lost} lost in {waits}, the longest {longest}");
        (name, lock.wait_total_ns, says)
    });
    let lost: Vec<_> = lost.collect();
    let waits = waited().take(DRAWN).filter_map(|lock| {
        let at = [lock.wait_p50_ns?, lock.wait_p99_ns?, lock.wait_p999_ns?, lock.wait_longest_ns];
        Some(Waits { name: shortened(&lock.name), color: 0, at })
    });
    let waits = wait_plot(&waits.collect::<Vec<_>>(), 260.0).map(|svg| Picture {
        name: "Waits for each lock".to_owned(),
        note: WAITS.to_owned(),
        svg,
    });
    let lost = bars("Time lost at each lock", "all waits together", &lost);
    lost.into_iter().chain(waits).collect()
}

fn tables(document: &Document<Machine>, locks: &[Seen<'_>]) -> Vec<(String, Table)> {
    let many = document.processes.len() > 1;
    let mut tables = Vec::new();
    if !locks.is_empty() {
        tables.push((named("Locks", locks.len()), of_locks(locks, many)));
    }
    for (what, pick) in [
        ("Where was waited", (|lock| &lock.waiters) as fn(&OfLock) -> &Vec<_>),
        ("Where it was released that was held meanwhile", |lock| &lock.holders),
    ] {
        let places =
            locks.iter().flat_map(|(_, lock)| pick(lock).iter().map(move |at| (*lock, at)));
        let mut places: Vec<_> = places.collect();
        places.sort_by_key(|(_, at)| Reverse(at.wait_total_ns));
        let heads = vec!["lock", "to", "lost", "times", "stack"];
        let row = |(lock, at): &(&OfLock, &AtStack)| {
            vec![
                lock.name.clone(),
                side(lock, at.reads),
                time(at.wait_total_ns),
                count(at.count),
                stack(&at.stack),
            ]
        };
        let rows: Vec<_> = places.iter().take(ROWS).map(row).collect();
        if !rows.is_empty() {
            let table = Table::new(heads, 1, rows).with_text(4);
            tables.push((named(what, places.len()), table));
        }
    }
    tables.extend(of_waits(document, many));
    tables.extend(of_sleeps(document, many));
    tables.extend(document.threads.as_ref().map(of_threads));
    tables
}

/// What threads did with their time.
fn of_threads(threads: &OfThreads) -> (String, Table) {
    let calls = threads.elsewhere.iter();
    let calls = calls.map(|of| (format!("asleep in {}", of.call), of.slept_ns));
    let parts = [
        ("running or ready", threads.running_ns),
        ("lost at locks", threads.lost_ns),
        ("waiting for what nobody holds", threads.slept_ns),
        ("in futexes beyond that", threads.unknown_futexes_ns),
        ("asleep in unknown places", threads.hidden_ns),
    ];
    let parts = parts.map(|(what, ns)| (what.to_owned(), ns)).into_iter().chain(calls);
    let share = |ns: u64| percent(ns as f64 / threads.threads_ns.max(1) as f64);
    let row = |(what, ns): (String, u64)| vec![what, share(ns), time(ns)];
    let rows: Vec<_> = parts.filter(|(_, ns)| *ns > 0).take(ROWS).map(row).collect();
    let name = format!("What threads did in {}", time(threads.watched_ns));
    (name, Table::new(["", "share", "time"].to_vec(), 1, rows))
}

/// What threads waited for that nobody holds.
fn of_sleeps(document: &Document<Machine>, many: bool) -> Option<(String, Table)> {
    let mut sleeps: Vec<(&OfProcess, &OfSleep)> = Vec::new();
    for process in &document.processes {
        sleeps.extend(process.asleep.iter().map(|asleep| (process, asleep)));
    }
    sleeps.sort_by_key(|(_, asleep)| Reverse(asleep.slept_ns));
    let heads = ["waited for", "kind", "slept", "waits", "in vain", "going on", "p50", "p99"];
    let process = many.then_some("process");
    let heads: Vec<&str> = process.into_iter().chain(heads).chain(["longest", "at"]).collect();
    let or_nothing = |ns: Option<u64>| ns.map_or_else(String::new, time);
    let row = |(process, asleep): &(&OfProcess, &OfSleep)| {
        let cells = vec![
            asleep.name.clone(),
            asleep.kind.clone(),
            time(asleep.slept_ns),
            count(asleep.waits),
            count(asleep.given_up),
            count(asleep.going_on),
            or_nothing(asleep.sleep_p50_ns),
            or_nothing(asleep.sleep_p99_ns),
            time(asleep.sleep_longest_ns),
            asleep.sleepers.first().map_or_else(String::new, |at| stack(&at.stack)),
        ];
        let pid = many.then(|| process.pid.to_string());
        pid.into_iter().chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = sleeps.iter().take(ROWS).map(row).collect();
    let (names, text) = (1 + usize::from(many), heads.len() - 1);
    let table = Table::new(heads, names, rows).with_text(text);
    (!sleeps.is_empty()).then(|| (named("Waiting for what nobody holds", sleeps.len()), table))
}

fn of_locks(locks: &[Seen<'_>], many: bool) -> Table {
    let mut heads = vec!["lock", "kind", "lost", "taken", "waited", "in vain", "wait p50", "p99"];
    heads.extend(["p99.9", "longest", "passed", "held p50", "held p99", "held p99.9"]);
    heads.extend(["held longest", "first taken at"]);
    let or_nothing = |ns: Option<u64>| ns.map_or_else(String::new, time);
    let row = |(process, lock): &Seen<'_>| {
        let taken = lock.taken();
        let share = lock.waits as f64 / taken.max(lock.waits).max(1) as f64;
        let (waits, holds) = (lock.waits > 0, lock.holds_measured > 0);
        let cells = vec![
            lock.name.clone(),
            lock.kind.clone(),
            time(lock.wait_total_ns),
            count(taken),
            format!("{} %", digits(share * 100.0)),
            count(lock.given_up),
            or_nothing(lock.wait_p50_ns),
            or_nothing(lock.wait_p99_ns),
            or_nothing(lock.wait_p999_ns),
            or_nothing(waits.then_some(lock.wait_longest_ns)),
            count(lock.passed_most),
            or_nothing(lock.hold_p50_ns),
            or_nothing(lock.hold_p99_ns),
            or_nothing(lock.hold_p999_ns),
            or_nothing(holds.then_some(lock.hold_longest_ns)),
            stack(&lock.first_taken),
        ];
        let pid = many.then(|| process.pid.to_string());
        pid.into_iter().chain(cells).collect()
    };
    let rows = locks.iter().take(ROWS).map(row).collect();
    let process = many.then_some("process");
    let heads: Vec<&str> = process.into_iter().chain(heads).collect();
    let (names, text) = (1 + usize::from(many), heads.len() - 1);
    Table::new(heads, names, rows).with_text(text)
}

/// The longest waits, each with who held the lock.
fn of_waits(document: &Document<Machine>, many: bool) -> Option<(String, Table)> {
    let of = |process: &'_ OfProcess| process.waits.len();
    let all: usize = document.processes.iter().map(of).sum();
    let mut waits: Vec<(&OfProcess, &OfWait)> = Vec::new();
    for process in &document.processes {
        waits.extend(process.waits.iter().map(|wait| (process, wait)));
    }
    waits.sort_by_key(|(_, wait)| Reverse(wait.waited_ns));
    let mut heads = vec!["lock", "thread", "waited", "began", "let in meanwhile", "in vain"];
    heads.extend(["waited at", "held by", "released at"]);
    let process = many.then_some("process");
    let heads: Vec<&str> = process.into_iter().chain(heads).collect();
    let row = |(process, wait): &(&OfProcess, &OfWait)| {
        let cells = vec![
            wait.lock.clone(),
            format!("{} ({})", wait.name, wait.thread),
            time(wait.waited_ns),
            time(wait.began_ns),
            count(wait.passed),
            if wait.given_up { "yes".to_owned() } else { String::new() },
            stack(&wait.waiter),
            wait.holder_thread.map_or_else(String::new, |thread| match wait.held_ns {
                Some(held) => format!("{thread} for {}", time(held)),
                None => thread.to_string(),
            }),
            stack(&wait.holder),
        ];
        let pid = many.then(|| process.pid.to_string());
        pid.into_iter().chain(cells).collect()
    };
    let rows: Vec<Vec<String>> = waits.iter().take(ROWS).map(row).collect();
    let (names, text) = (1 + usize::from(many), heads.len() - 3);
    let table = Table::new(heads, names, rows).with_text(text);
    (all > 0).then(|| (named("The longest waits", all), table))
}

/// What a lock was taken for: a mutex has only one way.
fn side(lock: &OfLock, reads: bool) -> String {
    match (lock.kind.as_str(), reads) {
        ("rwlock", true) => "read".to_owned(),
        ("rwlock", false) => "write".to_owned(),
        _ => "lock".to_owned(),
    }
}

/// A stack in one cell, the innermost function first.
fn stack(places: &[Place]) -> String {
    places.iter().map(Place::short).collect::<Vec<_>>().join(" ← ")
}

/// A row with all that is known of a lock, but for stacks.
fn row((process, lock): Seen<'_>) -> Result<Value, Error> {
    let mut row = value(lock)?;
    let of_process: BTreeMap<&str, Value> = [
        ("pid", process.pid.into()),
        ("program", process.program.as_str().into()),
        ("policy", process.policy.as_str().into()),
        ("observed", process.observed.into()),
    ]
    .into();
    if let Some(row) = row.as_object_mut() {
        row.extend(of_process.into_iter().map(|(key, value)| (key.to_owned(), value)));
    }
    Ok(row)
}

//! What `fairlock run --json FILE` kept: locks, waits and stacks.

use std::cmp::Reverse;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::{Column, DRAWN, Program, bars, shortened, table, value};
use crate::error::Error;
use crate::preload::document::{
    AtStack, Document, OfLock, OfProcess, OfSleep, OfThreads, OfWait, SCHEMA,
};
use crate::preload::place::{CodePlace, file_name};
use crate::report::columns::{Table, is_asked_for};
use crate::report::pictures::{Picture, WAITS, Waits, wait_plot};
use crate::results::{Machine, origin};
use crate::units::{count, digits, percent_of_tenths, several, time};
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
    let mut locks: Vec<Seen<'_>> = by(&document, |process| &process.locks, OfLock::taken);
    locks.sort_by_key(|(_, lock)| Reverse(lock.wait_total_ns));
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
    // Which process it is of is said if there are several.
    let (one, names) =
        (usize::from(document.processes.len() == 1), 1 + usize::from(document.processes.len() > 1));
    let waiters = at_stacks(locks, |lock| &lock.waiters);
    let holders = at_stacks(locks, |lock| &lock.holders);
    let sleeps = by(document, |process| &process.asleep, |asleep| asleep.slept_ns);
    let waits = by(document, |process| &process.waits, |wait| wait.waited_ns);
    let tables = [
        table("Locks", locks, &of_locks()[one..], names, 1),
        table("Where was waited", &waiters, &of_stacks(), 1, 1),
        table("Where the lock was released that they waited for", &holders, &of_stacks(), 1, 1),
        table("The longest waits", &waits, &of_waits()[one..], names, 3),
        table("Waiting for what nobody holds", &sleeps, &of_sleeps()[one..], names, 1),
        document.threads.as_ref().map(of_threads),
    ];
    tables.into_iter().flatten().collect()
}

/// What all processes have of something, that which took longest first.
fn by<T>(
    document: &Document<Machine>,
    pick: fn(&OfProcess) -> &Vec<T>,
    ns: fn(&T) -> u64,
) -> Vec<(&OfProcess, &T)> {
    let of = |process| pick(process).iter().map(move |one| (process, one));
    let mut all: Vec<_> = document.processes.iter().flat_map(of).collect();
    all.sort_by_key(|(_, one)| Reverse(ns(one)));
    all
}

fn at_stacks<'a>(
    locks: &[Seen<'a>],
    pick: fn(&OfLock) -> &Vec<AtStack>,
) -> Vec<(&'a OfLock, &'a AtStack)> {
    let of = |&(_, lock): &Seen<'a>| pick(lock).iter().map(move |at| (lock, at));
    let mut all: Vec<_> = locks.iter().flat_map(of).collect();
    all.sort_by_key(|(_, at)| Reverse(at.wait_total_ns));
    all
}

fn of_locks<'a>() -> [Column<Seen<'a>>; 17] {
    [
        ("process", |(process, _)| process.pid.to_string()),
        ("lock", |(_, lock)| lock.name.clone()),
        ("kind", |(_, lock)| lock.kind.clone()),
        ("lost", |(_, lock)| time(lock.wait_total_ns)),
        ("taken", |(_, lock)| count(lock.taken())),
        ("waited", |(_, lock)| {
            let share = lock.waits as f64 / lock.taken().max(lock.waits).max(1) as f64;
            format!("{} %", digits(share * 100.0))
        }),
        ("in vain", |(_, lock)| count(lock.given_up)),
        ("wait p50", |(_, lock)| or_nothing(lock.wait_p50_ns)),
        ("p99", |(_, lock)| or_nothing(lock.wait_p99_ns)),
        ("p99.9", |(_, lock)| or_nothing(lock.wait_p999_ns)),
        ("longest", |(_, lock)| or_nothing((lock.waits > 0).then_some(lock.wait_longest_ns))),
        ("passed", |(_, lock)| count(lock.passed_most)),
        ("held p50", |(_, lock)| or_nothing(lock.hold_p50_ns)),
        ("held p99", |(_, lock)| or_nothing(lock.hold_p99_ns)),
        ("held p99.9", |(_, lock)| or_nothing(lock.hold_p999_ns)),
        ("held longest", |(_, lock)| {
            or_nothing((lock.holds_measured > 0).then_some(lock.hold_longest_ns))
        }),
        ("first taken at", |(_, lock)| stack(&lock.first_taken)),
    ]
}

fn of_stacks<'a>() -> [Column<(&'a OfLock, &'a AtStack)>; 5] {
    [
        ("lock", |(lock, _)| lock.name.clone()),
        ("to", |(lock, at)| side(lock, at.reads)),
        ("lost", |(_, at)| time(at.wait_total_ns)),
        ("times", |(_, at)| count(at.count)),
        ("stack", |(_, at)| stack(&at.stack)),
    ]
}

fn of_sleeps<'a>() -> [Column<(&'a OfProcess, &'a OfSleep)>; 11] {
    [
        ("process", |(process, _)| process.pid.to_string()),
        ("waited for", |(_, asleep)| asleep.name.clone()),
        ("kind", |(_, asleep)| asleep.kind.clone()),
        ("slept", |(_, asleep)| time(asleep.slept_ns)),
        ("waits", |(_, asleep)| count(asleep.waits)),
        ("in vain", |(_, asleep)| count(asleep.given_up)),
        ("going on", |(_, asleep)| count(asleep.going_on)),
        ("p50", |(_, asleep)| or_nothing(asleep.sleep_p50_ns)),
        ("p99", |(_, asleep)| or_nothing(asleep.sleep_p99_ns)),
        ("longest", |(_, asleep)| time(asleep.sleep_longest_ns)),
        ("at", |(_, asleep)| {
            asleep.sleepers.first().map_or_else(String::new, |at| stack(&at.stack))
        }),
    ]
}

fn of_waits<'a>() -> [Column<(&'a OfProcess, &'a OfWait)>; 10] {
    [
        ("process", |(process, _)| process.pid.to_string()),
        ("lock", |(_, wait)| wait.lock.clone()),
        ("thread", |(_, wait)| format!("{} ({})", wait.name, wait.thread)),
        ("waited", |(_, wait)| time(wait.waited_ns)),
        ("began", |(_, wait)| time(wait.began_ns)),
        ("let in meanwhile", |(_, wait)| count(wait.passed)),
        ("in vain", |(_, wait)| if wait.given_up { "yes" } else { "" }.to_owned()),
        ("waited at", |(_, wait)| stack(&wait.waiter)),
        ("held by", |(_, wait)| match (wait.holder_thread, wait.held_ns) {
            (None, _) => String::new(),
            (Some(thread), Some(held)) => format!("{thread} for {}", time(held)),
            (Some(thread), None) => thread.to_string(),
        }),
        ("released at", |(_, wait)| stack(&wait.holder)),
    ]
}

fn or_nothing(ns: Option<u64>) -> String {
    ns.map_or_else(String::new, time)
}

/// What threads did with their time.
fn of_threads(threads: &OfThreads) -> (String, Table) {
    let shares = threads.tenths();
    let calls = threads.elsewhere.iter().zip(shares.elsewhere);
    let calls = calls.map(|(of, share)| (format!("asleep in {}", of.call), share, of.slept_ns));
    let parts = [
        ("running or ready", shares.running, threads.running_ns),
        ("lost at locks", shares.lost, threads.lost_ns),
        ("waiting for what nobody holds", shares.slept, threads.slept_ns),
        ("in futexes beyond that", shares.unknown_futexes, threads.unknown_futexes_ns),
        ("asleep in unknown places", shares.hidden, threads.hidden_ns),
    ];
    let parts =
        parts.map(|(what, share, ns)| (what.to_owned(), share, ns)).into_iter().chain(calls);
    let rows = parts.filter(|&(_, _, ns)| ns > 0);
    let rows =
        rows.map(|(what, share, ns)| vec![what, percent_of_tenths(share), time(ns)]).collect();
    let name = format!("What threads did in {}", time(threads.watched_ns));
    (name, Table::new(vec!["", "share", "time"], 1, rows))
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
fn stack(places: &[CodePlace]) -> String {
    places.iter().map(CodePlace::short).collect::<Vec<_>>().join(" ← ")
}

/// All that is known of a lock, but for stacks.
#[derive(Serialize)]
struct Row<'a> {
    pid: u32,
    program: &'a str,
    policy: &'a str,
    observed: bool,
    #[serde(flatten)]
    lock: &'a OfLock,
}

fn row((process, lock): Seen<'_>) -> Result<Value, Error> {
    let OfProcess { pid, observed, program, policy, .. } = process;
    value(&Row { pid: *pid, program, policy, observed: *observed, lock })
}

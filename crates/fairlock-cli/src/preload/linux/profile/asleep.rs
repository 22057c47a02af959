//! Waits for what nobody holds, as at a condition or a semaphore: time is not lost there by itself, and nobody is to
//! blame for it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use fairlock_profile::AtPlace;
use fairlock_profile::layout::kind;

use super::{Process, Profile, Seen};
use crate::layout::{Column, NOTHING, Table};
use crate::preload::sum;
use crate::units::{count, several, time};

/// How many are shown.
const SHOWN: usize = 10;

const NOTE: &str = "not lost by itself: a thread without work waits so; slept: all threads together; going on: waits that \
     had not ended; at: where most of the time was slept";

/// What threads of a process waited for.
pub(super) struct Asleep<'a> {
    pub(super) seen: Seen<'a>,
    pub(super) waits: u64,
    /// How many of them had not ended.
    pub(super) going_on: u64,
    pub(super) slept_ns: u64,
    pub(super) longest_ns: u64,
    /// Where, those with most of the time first.
    pub(super) places: Vec<AtPlace>,
}

/// All of a process, those with most of the time first.
pub(super) fn of(process: &Process) -> Vec<Asleep<'_>> {
    let record = &process.record;
    let mut all = BTreeMap::<usize, Asleep<'_>>::new();
    for (number, lock) in record.locks.iter().enumerate().filter(|(_, it)| !kind::is_lock(it.kind))
    {
        let seen = Seen { process, number, lock };
        let (waits, slept_ns) = (seen.waits(), seen.lost());
        let longest_ns = seen.contention().map_or(0, |found| found.longest_ns);
        let places = record.waiters.iter().filter(|place| place.lock == number).cloned().collect();
        let found = Asleep { seen, waits, going_on: 0, slept_ns, longest_ns, places };
        all.insert(number, found);
    }
    for asleep in record.threads.iter().filter_map(|thread| thread.asleep.as_ref()) {
        let Some(found) = all.get_mut(&asleep.lock) else { continue };
        let ns = process.until_ns.map_or(0, |until| until.saturating_sub(asleep.since_ns));
        found.going_on += 1;
        found.waits = sum([found.waits, 1]);
        found.slept_ns = sum([found.slept_ns, ns]);
        found.longest_ns = found.longest_ns.max(ns);
        let at = found.places.iter().position(|place| place.stack == asleep.stack);
        let at = at.unwrap_or_else(|| {
            let place = AtPlace { lock: asleep.lock, stack: asleep.stack, ..AtPlace::default() };
            found.places.push(place);
            found.places.len() - 1
        });
        let place = &mut found.places[at];
        place.count = sum([place.count, 1]);
        place.waited_ns = sum([place.waited_ns, ns]);
    }
    let mut all: Vec<_> = all.into_values().filter(|found| found.waits > 0).collect();
    for found in &mut all {
        found.places.sort_by_key(|place| Reverse((place.waited_ns, place.count)));
    }
    all.sort_by_key(|found| Reverse((found.slept_ns, found.waits)));
    all
}

/// The table, for people; empty if no thread waited so.
pub(super) fn text(profile: &Profile, width: Option<usize>) -> String {
    let mut all: Vec<_> = profile.processes.iter().flat_map(of).collect();
    all.sort_by_key(|found| Reverse((found.slept_ns, found.waits)));
    if all.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        Column::place("waited for"),
        Column::name("kind").rank(2),
        Column::figure("slept"),
        Column::figure("waits"),
        Column::figure("going on").rank(3),
        Column::figure("p50").rank(1),
        Column::figure("longest"),
        Column::place("at"),
        Column::figure("process").rank(0),
    ]);
    for Asleep { seen, waits, going_on, slept_ns, longest_ns, places } in all.iter().take(SHOWN) {
        let caller = places.iter().find_map(|place| seen.process.caller(place.stack));
        table.row([
            seen.name(),
            seen.kind().to_owned(),
            time(*slept_ns),
            count(*waits),
            count(*going_on),
            seen.wait(0.5).map_or_else(|| NOTHING.to_owned(), time),
            time(*longest_ns),
            caller.map_or_else(|| NOTHING.to_owned(), |place| place.short()),
            seen.process.record.pid.to_string(),
        ]);
    }
    if profile.processes.len() == 1 {
        table.leave_out("process");
    }
    let mut text = format!("\n{}", table.titled("waiting for what nobody holds", NOTE, width));
    if let Some(more) = all.get(SHOWN..).filter(|more| !more.is_empty()) {
        let slept = time(sum(more.iter().map(|found| found.slept_ns)));
        let waits = several(sum(more.iter().map(|found| found.waits)), "wait");
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} more: {waits}, {slept} slept", count(more.len() as u64));
    }
    text
}

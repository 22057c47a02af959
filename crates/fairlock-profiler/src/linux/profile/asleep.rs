//! Waits for what nobody holds, as at a condition or a semaphore: time is not lost there by itself, and nobody is to
//! blame for it.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use fairlock_profile::layout::kind;
use fairlock_profile::{AtPlace, buckets};

use super::{Process, Profile, Seen};
use crate::layout::{Column, Table, or_dash};
use crate::sum;
use crate::units::{count, several, time};

/// How many are shown.
const SHOWN: usize = 10;

const NOTE: &str = "not lost by itself: a thread without work waits so; slept: all threads together; going on: waits that \
     had not ended; at: where most of the time was slept; ended by: \
     the place that ended most of the waits";

/// What threads of a process waited for.
pub(super) struct Asleep<'a> {
    pub(super) seen: Seen<'a>,
    pub(super) waits: u64,
    /// How many of them had not ended.
    pub(super) going_on: u64,
    pub(super) slept_ns: u64,
    pub(super) longest_ns: u64,
    /// Those that ended, by their bucket.
    by_time: Vec<u64>,
    /// Where, those with most of the time first.
    pub(super) places: Vec<AtPlace>,
    /// Where waits were ended, those that ended most of them first.
    pub(super) wakers: Vec<AtPlace>,
}

impl Asleep<'_> {
    /// The time that so large a share of the waits that ended does not exceed.
    pub(super) fn wait(&self, share: f64) -> Option<u64> {
        let ended = self.waits > self.going_on;
        ended.then(|| buckets::percentile(&self.by_time, share).min(self.longest_ns))
    }

    /// The place that ended most of the waits, and how often.
    pub(super) fn ended_by(&self) -> Option<String> {
        let waker = self.wakers.first()?;
        let place = self.seen.process.caller(waker.stack)?.short();
        Some(format!("{place}, {}", several(waker.count, "time")))
    }

    /// Adds what was waited for elsewhere.
    fn add(&mut self, other: Self) {
        self.waits = sum([self.waits, other.waits]);
        self.going_on += other.going_on;
        self.slept_ns = sum([self.slept_ns, other.slept_ns]);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.by_time.resize(buckets::COUNT, 0);
        for (count, others) in self.by_time.iter_mut().zip(other.by_time) {
            *count = sum([*count, others]);
        }
    }
}

/// All of a process, those with most of the time first.
pub(super) fn of(process: &Process) -> Vec<Asleep<'_>> {
    let record = &process.record;
    #[cfg(test)]
    super::tests::LOOKED_AT.set(super::tests::LOOKED_AT.get() + record.waiters.len());
    let by_lock = |all: &[AtPlace]| {
        let mut places = HashMap::<usize, Vec<AtPlace>>::new();
        for place in all {
            places.entry(place.lock).or_default().push(place.clone());
        }
        places
    };
    let (mut places, mut wakers) = (by_lock(&record.waiters), by_lock(&record.holders));
    let mut all = BTreeMap::<usize, Asleep<'_>>::new();
    for (number, lock) in record.locks.iter().enumerate().filter(|(_, it)| !kind::is_lock(it.kind))
    {
        let seen = Seen { process, number, lock };
        let (waits, slept_ns) = (seen.waits(), seen.lost());
        let found = seen.contention();
        let longest_ns = found.map_or(0, |found| found.longest_ns);
        let by_time = found.map_or_else(Vec::new, |found| found.waits_by_time.clone());
        let places = places.remove(&number).unwrap_or_default();
        let mut wakers = wakers.remove(&number).unwrap_or_default();
        wakers.sort_by_key(|place| Reverse(place.count));
        let found =
            Asleep { seen, waits, going_on: 0, slept_ns, longest_ns, by_time, places, wakers };
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

/// The table, for people; empty if no thread waited so. One row for all that has the same name, and was waited
/// for at the same place: a program may have a semaphore for each thread.
pub(super) fn text(profile: &Profile, width: Option<usize>) -> String {
    let mut rows = BTreeMap::new();
    for found in profile.processes.iter().flat_map(of) {
        let process = found.seen.process;
        let caller = found.places.iter().find_map(|place| process.caller(place.stack));
        let at = or_dash(caller, |place| place.short());
        match rows.entry((process.record.pid, found.seen.name(), found.seen.kind(), at)) {
            Entry::Vacant(row) => _ = row.insert(found),
            Entry::Occupied(mut row) => row.get_mut().add(found),
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, found)| Reverse((found.slept_ns, found.waits)));
    type Row<'a> = ((u32, String, &'static str, String), Asleep<'a>);
    let mut table = Table::of(
        rows.iter().take(SHOWN),
        [
            (Column::place("waited for"), &|((_, name, ..), _): &Row<'_>| name.clone()),
            (Column::name("kind").rank(2), &|((_, _, kind, _), _)| (*kind).to_owned()),
            (Column::figure("slept"), &|(_, found)| time(found.slept_ns)),
            (Column::figure("waits"), &|(_, found)| count(found.waits)),
            (Column::figure("going on").rank(3), &|(_, found)| count(found.going_on)),
            (Column::figure("p50").rank(1), &|(_, found)| {
                or_dash(found.wait(0.5).filter(|_| found.waits > 1), time)
            }),
            (Column::figure("longest"), &|(_, found)| time(found.longest_ns)),
            (Column::place("at"), &|((.., at), _)| at.clone()),
            (Column::place("ended by"), &|(_, found)| or_dash(found.ended_by(), |by| by)),
            (Column::figure("process").rank(0), &|((pid, ..), _)| pid.to_string()),
        ],
    );
    if profile.processes.len() == 1 {
        table.leave_out("process");
    }
    let mut text = format!("\n{}", table.titled("waiting for what nobody holds", NOTE, width));
    if let Some(more) = rows.get(SHOWN..).filter(|more| !more.is_empty()) {
        let slept = time(sum(more.iter().map(|(_, found)| found.slept_ns)));
        let waits = several(sum(more.iter().map(|(_, found)| found.waits)), "wait");
        // Writing to a string does not fail.
        let _ = writeln!(text, "{} more: {waits}, {slept} slept", count(more.len() as u64));
    }
    text
}

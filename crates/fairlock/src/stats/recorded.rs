//! A record of all named locks, in the format of the crate `fairlock-profile`.
//!
//! Locks of one name are one lock there, but for those that threads wait for: each of these is one by itself, so that a
//! reader can follow which thread waits for which.

use core::time::Duration;
use std::borrow::ToOwned;
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
use std::string::ToString;
use std::sync::Arc;
use std::vec::Vec;

use fairlock_profile::layout::kind;
use fairlock_profile::{
    Asleep, AtPlace, Contention, Holding, Line, Lock, Record, Thread, Wait, buckets,
};

use super::histogram::Times;
use super::ongoing::Ongoing;
use super::place::{Access, Place};
use super::record;
use super::snapshot::{LockStats, Longest, SideStats};
use super::sums::Sums;
use super::threads::{name_of, number_of};

/// What the named locks have counted, the threads that wait for them now, and the holders of those. `sums` are of locks
/// that are gone.
pub(super) fn now(mut sums: Sums, live: &[Arc<record::Record>]) -> Record {
    let mut ongoing = Ongoing::look(live);
    ongoing.settle();
    let waited_for: BTreeSet<usize> = ongoing.waits.iter().map(|wait| wait.lock).collect();
    let mut alone = Vec::new();
    for (number, lock) in live.iter().enumerate() {
        lock.tell_long_waits();
        if waited_for.contains(&number) {
            alone.push((number, lock));
        } else {
            sums.add(&lock.name, lock, 1);
        }
    }
    let mut record = Record::default();
    record.as_of_ns = Some(ongoing.now);
    add_names(&mut record, sums);
    let numbers = add_waited_for(&mut record, &alone);
    add_threads(&mut record, &ongoing, &numbers);
    record
}

fn add_names(record: &mut Record, sums: Sums) {
    for (number, stats) in sums.stats().into_iter().enumerate() {
        // A name has no address. This one is nobody else's: the first page of memory is not mapped.
        add_lock(record, &stats, number as u64 + 1, 0);
    }
}

/// Their numbers in the record, by those that they have in the process.
fn add_waited_for(
    record: &mut Record,
    locks: &[(usize, &Arc<record::Record>)],
) -> BTreeMap<usize, usize> {
    let add = |&(number, lock): &(usize, &Arc<record::Record>)| {
        let address = Arc::as_ptr(lock).addr() as u64;
        add_lock(record, &lock.stats(), address, lock.waited_since());
        (number, record.locks.len() - 1)
    };
    locks.iter().map(add).collect()
}

/// Adds a lock. `held_since`: a time at which it was held as it is now, or zero.
fn add_lock(record: &mut Record, stats: &LockStats, address: u64, held_since: u64) {
    let number = record.locks.len();
    let sides = stats.sides();
    let is_waited_for = held_since != 0 || sides.iter().any(|(_, side)| side.waited.count > 0);
    let contention = is_waited_for.then(|| {
        let mut found = Contention {
            held_since_ns: held_since,
            waits_by_time: [0; buckets::COUNT].into(),
            holds_by_time: [0; buckets::COUNT].into(),
            ..Contention::default()
        };
        for (access, side) in sides {
            add_side(record, &mut found, number, access, side);
        }
        Box::new(found)
    });
    record.locks.push(Lock {
        name: Some(stats.name.clone()),
        address,
        kind: kind::NAMED,
        reads: stats.reads.acquisitions,
        writes: stats.writes.acquisitions,
        contention,
        ..Lock::default()
    });
}

/// Of the places where threads waited and held the lock those of the longest wait and hold are known. All
/// other time is of no known place.
fn add_side(
    record: &mut Record,
    found: &mut Contention,
    lock: usize,
    access: Access,
    side: &SideStats,
) {
    let SideStats { waited, held, given_up, .. } = side;
    let reads = access == Access::Read;
    found.longest_ns = found.longest_ns.max(ns(waited.longest));
    found.passed += side.passed_over;
    found.most_passed = found.most_passed.max(side.most_passed_over);
    found.holds += held.count;
    found.held_ns += ns(held.total);
    found.longest_held_ns = found.longest_held_ns.max(ns(held.longest));
    add_times(&mut found.waits_by_time, waited);
    add_times(&mut found.holds_by_time, held);
    // Of the holds some are timed, and the longest one always.
    found.holds = found.holds.max(u64::from(!held.longest.is_zero()));

    let place = |record: &mut Record, longest: &Option<Longest>| {
        stack(record, longest.as_ref().and_then(|longest| longest.at))
    };
    let (waiter, holder) = (place(record, &side.longest_wait), place(record, &side.longest_hold));
    let waits = |stack, count, waited_ns| AtPlace { lock, reads, stack, count, waited_ns };
    let others = waited.count.saturating_sub(1);
    let rest = ns(waited.total).saturating_sub(ns(waited.longest));
    if waited.count > 0 {
        record.waiters.push(waits(waiter, 1, ns(waited.longest)));
    }
    if others > 0 {
        record.waiters.push(waits(0, others, rest));
    }
    found.given_up += given_up;
    let known = side.longest_hold.as_ref().filter(|_| holder != 0);
    if let Some(hold) = known.filter(|_| waited.count > 0) {
        record.holders.push(waits(holder, 1, ns(hold.time).min(ns(waited.total))));
    }
    let Some(wait) = &side.longest_wait else { return };
    let began_ns = wait.until.saturating_sub(ns(wait.time));
    let during = |hold: &&Longest| {
        let since = hold.until.saturating_sub(ns(hold.time));
        since < wait.until && hold.until > began_ns
    };
    let hold = known.filter(during);
    found.worst.push(Wait {
        number: 1 + 2 * lock as u64 + u64::from(reads),
        began_ns,
        waited_ns: ns(wait.time),
        held_since_ns: hold.map(|hold| hold.until.saturating_sub(ns(hold.time))),
        held_until_ns: hold.map(|hold| hold.until),
        lock,
        reads,
        thread: wait.number as u32,
        name: wait.thread.clone(),
        stack: waiter,
        holder: hold.map_or(0, |hold| hold.number as u32),
        holder_stack: hold.map_or(0, |_| holder),
        ..Wait::default()
    });
}

fn add_times(by_time: &mut [u64], times: &Times) {
    for (longest, count) in times.buckets() {
        by_time[buckets::of(ns(longest))] += count;
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The number of a place; zero: it is not known.
fn stack(record: &mut Record, at: Option<Place>) -> u32 {
    match at {
        Some(Place::Line(at)) => {
            record.add_line(Line { file: at.file().to_owned(), line: at.line() })
        }
        Some(Place::Address(address)) => record.add_stack([address as u64].into()),
        None => 0,
    }
}

/// The threads that wait, or hold a lock that others wait for. `numbers` are those of the locks that are waited for.
fn add_threads(record: &mut Record, ongoing: &Ongoing<'_>, numbers: &BTreeMap<usize, usize>) {
    let mut threads = BTreeMap::<usize, Thread>::new();
    let new = |place: usize| Thread {
        tid: number_of(place) as u32,
        name: name_of(place).to_string(),
        ..Thread::default()
    };
    for wait in &ongoing.waits {
        let Some(&lock) = numbers.get(&wait.lock) else { continue };
        let stack = stack(record, wait.at);
        let thread = threads.entry(wait.thread).or_insert_with(|| new(wait.thread));
        thread.asleep = Some(Asleep {
            lock,
            stack,
            since_ns: wait.wait.since,
            reads: wait.wait.want.access() == Access::Read,
            holder: 0,
            // Several threads have parts: a circle with one of them may open without it.
            can_end: wait.wait.can_end || wait.wait.want.is_of_parts(),
        });
    }
    for held in &ongoing.holds {
        let Some(&lock) = numbers.get(&held.lock) else { continue };
        let stack = stack(record, held.hold.at);
        let thread = threads.entry(held.thread).or_insert_with(|| new(held.thread));
        thread.holds.push(Holding { lock, stack, since_ns: held.hold.began });
    }
    record.threads = threads.into_values().filter(|thread| thread.tid != 0).collect();
}

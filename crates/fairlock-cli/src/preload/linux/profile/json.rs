//! The whole profile as JSON.

use fairlock_profile::{AtPlace, Wait};
use serde::Serialize;

use super::names::Place;
use super::{Process, Profile, Seen};
use crate::error::Error;
use crate::json::VERSION;
use crate::preload::Charge;

/// The schema's name.
const SCHEMA: &str = "fairlock-profile/2";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    processes: Vec<OfProcess<'a>>,
}

#[derive(Serialize)]
struct OfProcess<'a> {
    pid: u32,
    parent: Option<u32>,
    program: &'a str,
    observed: bool,
    policy: &'a str,
    threshold_ns: u64,
    /// From the beginning to `exit`, if there was one.
    ran_ns: Option<u64>,
    lost: u64,
    locks: Vec<OfLock>,
    waits: Vec<OfWait<'a>>,
}

#[derive(Serialize)]
struct OfLock {
    address: String,
    kind: &'static str,
    name: String,
    first_taken: Vec<Place>,
    reads: u64,
    writes: u64,
    waits: u64,
    given_up: u64,
    wait_total_ns: u64,
    wait_p50_ns: Option<u64>,
    wait_p99_ns: Option<u64>,
    wait_p999_ns: Option<u64>,
    wait_longest_ns: u64,
    passed: u64,
    passed_most: u64,
    holds_measured: u64,
    hold_p50_ns: Option<u64>,
    hold_p99_ns: Option<u64>,
    hold_p999_ns: Option<u64>,
    hold_longest_ns: u64,
    waiters: Vec<OfPlace>,
    holders: Vec<OfPlace>,
}

#[derive(Serialize)]
struct OfPlace {
    reads: bool,
    /// Waits there, or releases while others waited.
    count: u64,
    wait_total_ns: u64,
    stack: Vec<Place>,
}

#[derive(Serialize)]
struct OfWait<'a> {
    lock: String,
    thread: u32,
    name: &'a str,
    reads: bool,
    given_up: bool,
    /// Since the process began.
    began_ns: u64,
    waited_ns: u64,
    passed: u64,
    waiter: Vec<Place>,
    holder_thread: Option<u32>,
    holder: Vec<Place>,
}

pub fn document(profile: &Profile) -> Result<Vec<u8>, Error> {
    let processes = profile.processes.iter().map(of_process).collect();
    let document = Document { schema: SCHEMA, version: VERSION, processes };
    let text = serde_json::to_vec_pretty(&document);
    text.map_err(|error| Error::failed(format!("cannot make the JSON document: {error}")))
}

fn of_process(process: &Process) -> OfProcess<'_> {
    let record = &process.record;
    let mut locks = process.locks();
    locks.sort_by_key(|seen| std::cmp::Reverse((seen.lost(), seen.taken())));
    OfProcess {
        pid: record.pid,
        parent: record.parent,
        program: &record.program,
        observed: record.observed,
        policy: &record.policy,
        threshold_ns: record.threshold_ns,
        ran_ns: record.ended_ns.map(|ended| ended.saturating_sub(record.began_ns)),
        lost: record.lost,
        locks: locks.iter().map(of_lock).collect(),
        waits: record.waits.iter().map(|wait| of_wait(process, wait)).collect(),
    }
}

fn of_lock(seen: &Seen<'_>) -> OfLock {
    let (process, lock) = (seen.process, seen.lock);
    let found = seen.contention().cloned().unwrap_or_default();
    let at = |charge| {
        let places = process.charged(charge).into_iter().filter(|place| place.lock == seen.number);
        let mut places: Vec<OfPlace> = places.map(|place| of_place(process, &place)).collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.wait_total_ns));
        places
    };
    OfLock {
        address: format!("{:#x}", lock.address),
        kind: seen.kind(),
        name: seen.name(),
        first_taken: process.names.stack(process.record.stack(lock.first_stack)),
        reads: lock.reads,
        writes: lock.writes,
        waits: found.waits(),
        given_up: found.given_up,
        wait_total_ns: found.waited_ns,
        wait_p50_ns: seen.wait(0.5),
        wait_p99_ns: seen.wait(0.99),
        wait_p999_ns: seen.wait(0.999),
        wait_longest_ns: found.longest_ns,
        passed: found.passed,
        passed_most: found.most_passed,
        holds_measured: found.holds,
        hold_p50_ns: seen.hold(0.5),
        hold_p99_ns: seen.hold(0.99),
        hold_p999_ns: seen.hold(0.999),
        hold_longest_ns: found.longest_held_ns,
        waiters: at(Charge::Waiter),
        holders: at(Charge::Holder),
    }
}

fn of_place(process: &Process, place: &AtPlace) -> OfPlace {
    OfPlace {
        reads: place.reads,
        count: place.count,
        wait_total_ns: place.waited_ns,
        stack: process.stack(place.stack),
    }
}

fn of_wait<'a>(process: &Process, wait: &'a Wait) -> OfWait<'a> {
    let record = &process.record;
    let lock = Seen { process, number: wait.lock, lock: &record.locks[wait.lock] };
    OfWait {
        lock: lock.name(),
        thread: wait.thread,
        name: &wait.name,
        reads: wait.reads,
        given_up: wait.given_up,
        began_ns: wait.began_ns.saturating_sub(record.began_ns),
        waited_ns: wait.waited_ns,
        passed: wait.passed,
        waiter: process.names.stack(record.stack(wait.stack)),
        holder_thread: (wait.holder != 0).then_some(wait.holder),
        holder: process.names.stack(record.stack(wait.holder_stack)),
    }
}

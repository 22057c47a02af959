//! The whole profile as JSON.

use std::time::SystemTime;

use fairlock_profile::{AtPlace, Wait};

use super::{Process, Profile, Seen};
use crate::json::VERSION;
use crate::machine::Machine;
use crate::preload::Charge;
use crate::preload::document::{AtStack, Document, OfLock, OfProcess, OfWait, SCHEMA};

/// As of now; `command` is what recorded it.
pub fn document(profile: &Profile, command: String) -> Document<Machine> {
    Document {
        schema: SCHEMA.to_owned(),
        version: VERSION.to_owned(),
        made: Some(humantime::format_rfc3339_seconds(SystemTime::now()).to_string()),
        machine: Some(Machine::this()),
        command: Some(command),
        processes: profile.processes.iter().map(of_process).collect(),
    }
}

fn of_process(process: &Process) -> OfProcess {
    let record = &process.record;
    let mut locks = process.locks();
    locks.sort_by_key(|seen| std::cmp::Reverse((seen.lost(), seen.taken())));
    OfProcess {
        pid: record.pid,
        parent: record.parent,
        program: record.program.clone(),
        observed: record.observed,
        policy: record.policy.clone(),
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
        let mut places: Vec<AtStack> = places.map(|place| of_place(process, &place)).collect();
        places.sort_by_key(|place| std::cmp::Reverse(place.wait_total_ns));
        places
    };
    OfLock {
        address: format!("{:#x}", lock.address),
        kind: seen.kind().to_owned(),
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

fn of_place(process: &Process, place: &AtPlace) -> AtStack {
    AtStack {
        reads: place.reads,
        count: place.count,
        wait_total_ns: place.waited_ns,
        stack: process.stack(place.stack),
    }
}

fn of_wait(process: &Process, wait: &Wait) -> OfWait {
    let record = &process.record;
    let lock = Seen { process, number: wait.lock, lock: &record.locks[wait.lock] };
    OfWait {
        lock: lock.name(),
        thread: wait.thread,
        name: wait.name.clone(),
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

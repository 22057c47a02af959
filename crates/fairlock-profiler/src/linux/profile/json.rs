//! The whole profile as JSON.

use std::cmp::Reverse;
use std::collections::HashMap;

use fairlock_profile::{Asleep, AtPlace, Thread, Wait};

use super::asleep;
use super::stuck::Stuck;
use super::{Process, Profile, Seen};
use crate::Charge;
use crate::document::{
    AtStack, Document, OfDeadlocked, OfHolder, OfLock, OfProcess, OfSleep, OfThreads, OfWait,
    SCHEMA,
};
use crate::json::{VERSION, now};
use crate::machine::Machine;

/// The document of a profile, made now; `command` is the command line that recorded it.
pub fn document(
    profile: &Profile,
    command: Option<String>,
    threads: Option<OfThreads>,
) -> Document<Machine> {
    Document {
        schema: SCHEMA.to_owned(),
        version: VERSION.to_owned(),
        made: Some(now()),
        machine: Some(Machine::this()),
        command,
        threads,
        processes: profile.processes.iter().map(of_process).collect(),
    }
}

fn of_process(process: &Process) -> OfProcess {
    let record = &process.record;
    let mut locks = process.locks();
    locks.sort_by_key(|seen| Reverse((seen.lost(), seen.taken())));
    let mut waiters = by_lock(process, Charge::Waiter);
    let mut holders = by_lock(process, Charge::Holder);
    let stuck = Stuck::all_of(process);
    let mut of_lock = |seen: &Seen<'_>| {
        let places = |of: &mut PlacesByLock| of.remove(&seen.number).unwrap_or_default();
        let stuck = stuck.iter().find(|stuck| stuck.seen.number == seen.number);
        of_lock(seen, places(&mut waiters), places(&mut holders), stuck)
    };
    OfProcess {
        pid: record.pid,
        parent: record.parent,
        program: record.program.clone(),
        observed: record.observed,
        policy: record.policy.clone(),
        threshold_ns: record.threshold_ns,
        ran_ns: record.ended_ns.map(|ended| ended.saturating_sub(record.began_ns)),
        lost: record.lost,
        locks: locks.iter().map(&mut of_lock).collect(),
        waits: record.waits.iter().map(|wait| of_wait(process, wait)).collect(),
        asleep: asleep::of(process).iter().map(|it| of_sleep(process, it)).collect(),
        deadlocks: record.deadlocks().iter().map(|threads| of_deadlock(process, threads)).collect(),
    }
}

fn of_deadlock(process: &Process, threads: &[usize]) -> Vec<OfDeadlocked> {
    let waits = process.deadlocked(threads);
    let of = |(thread, holds, asleep): (&Thread, usize, &Asleep)| OfDeadlocked {
        thread: thread.tid,
        name: thread.name.clone(),
        holds: Seen::of(process, holds).name(),
        waits_for: Seen::of(process, asleep.lock).name(),
        waiter: process.stack(asleep.stack),
    };
    waits.into_iter().map(of).collect()
}

fn of_holder(stuck: &Stuck<'_>) -> Option<OfHolder> {
    let (process, held) = (stuck.seen.process, stuck.held()?);
    let name = process.record.thread(held.thread).map(|thread| thread.name.clone());
    Some(OfHolder {
        thread: held.thread,
        name: name.unwrap_or_default(),
        held_ns: stuck.held_ns(),
        exact: held.is_exact,
        stack: process.stack(process.record.place_of(held)),
    })
}

fn of_sleep(process: &Process, asleep: &asleep::Asleep<'_>) -> OfSleep {
    let seen = asleep.seen;
    OfSleep {
        address: format!("{:#x}", seen.lock.address),
        kind: seen.kind().to_owned(),
        name: seen.name(),
        waits: asleep.waits,
        given_up: seen.contention().map_or(0, |found| found.given_up),
        going_on: asleep.going_on,
        slept_ns: asleep.slept_ns,
        sleep_p50_ns: asleep.wait(0.5),
        sleep_p99_ns: asleep.wait(0.99),
        sleep_longest_ns: asleep.longest_ns,
        wakers: asleep.wakers.iter().map(|place| of_place(process, place)).collect(),
        sleepers: asleep.places.iter().map(|place| of_place(process, place)).collect(),
    }
}

type PlacesByLock = HashMap<usize, Vec<AtPlace>>;

/// What was lost at each lock, most first. A program has many thousands of them.
fn by_lock(process: &Process, charge: Charge) -> PlacesByLock {
    let mut by_lock = PlacesByLock::new();
    let mut places = process.charged(charge);
    places.sort_by_key(|place| Reverse(place.waited_ns));
    for place in places {
        by_lock.entry(place.lock).or_default().push(place);
    }
    by_lock
}

fn of_lock(
    seen: &Seen<'_>,
    waiters: Vec<AtPlace>,
    holders: Vec<AtPlace>,
    stuck: Option<&Stuck<'_>>,
) -> OfLock {
    let (process, lock) = (seen.process, seen.lock);
    let found = seen.contention().cloned().unwrap_or_default();
    let at = |places: Vec<AtPlace>| places.iter().map(|it| of_place(process, it)).collect();
    OfLock {
        address: format!("{:#x}", lock.address),
        kind: seen.kind().to_owned(),
        name: seen.name(),
        first_taken: process.places_of(lock.first_stack),
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
        waiters: at(waiters),
        holders: at(holders),
        waiting_now: stuck.map_or(0, |stuck| stuck.waiting as u64),
        waiting_now_longest_ns: stuck.map(|stuck| stuck.longest_ns),
        held_now: stuck.and_then(of_holder),
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
    OfWait {
        lock: Seen::of(process, wait.lock).name(),
        thread: wait.thread,
        name: wait.name.clone(),
        reads: wait.reads,
        given_up: wait.given_up,
        began_ns: wait.began_ns.saturating_sub(record.began_ns),
        waited_ns: wait.waited_ns,
        passed: wait.passed,
        waiter: process.places_of(wait.stack),
        holder_thread: (wait.holder != 0).then_some(wait.holder),
        held_ns: wait.held_ns(),
        holder: process.places_of(wait.holder_stack),
    }
}

#[cfg(test)]
mod tests {
    use fairlock_profile::{Contention, Lock, Record};

    use super::*;
    use crate::linux::profile::Callers;
    use crate::linux::profile::names::{Files, Names};
    use crate::linux::profile::tests::LOOKED_AT;

    /// A database has many thousands of locks: the work must grow as they do.
    #[test]
    fn a_lock_has_its_own_places_and_no_other_is_looked_at_for_it() {
        const LOCKS: usize = 1_000;
        let mut record = Record::default();
        for lock in 0..LOCKS {
            let contention = Contention { waited_ns: 3, ..Contention::default() };
            let contention = Some(Box::new(contention));
            record.locks.push(Lock { address: 8 + lock as u64, contention, ..Lock::default() });
            for waited_ns in [1, 2] {
                record.waiters.push(AtPlace { lock, waited_ns, ..AtPlace::default() });
            }
            record.holders.push(AtPlace { lock, waited_ns: 1, ..AtPlace::default() });
        }
        let names = Names::of(&record, &mut Files::default());
        let places = record.waiters.len();
        let process =
            of_process(&Process { record, names, callers: Callers::default(), until_ns: None });
        // Once for those that waited, once for holders, and once for what nobody holds.
        assert_eq!((process.locks.len(), LOOKED_AT.get()), (LOCKS, 3 * places));
        let lost = |at: &[AtStack]| at.iter().map(|it| it.wait_total_ns).collect::<Vec<_>>();
        for lock in process.locks {
            assert_eq!((lost(&lock.waiters), lost(&lock.holders)), (vec![2, 1], vec![2, 1]));
        }
    }
}

//! The table, for people: the locks at which most time was lost, and the longest waits.

use std::collections::BTreeSet;
use std::fmt::Write;

use fairlock_profile::layout::kind;

use super::{Idle, Profile, Seen, asleep, stuck};
use crate::layout::{Column, NOTHING, Table, or_dash};
use crate::place::{CodePlace, file_name};
use crate::units::{count, digits, several, time};
use crate::{Charge, sum};

/// How many locks that were waited for are shown.
pub(super) const LOCKS: usize = 20;
/// How many waits are shown.
const WAITS: usize = 10;

const NOTE: &str = "lost: all waits together; waited: acquisitions that had to wait; passed: the \
     most acquisitions by others during one wait;\nheld: how long the lock was held, as far as it was \
     measured; at: where it was released that was held while others waited longest";

pub fn text(profile: &Profile, width: Option<usize>) -> String {
    if profile.processes.is_empty() {
        let why = match profile.idle {
            Idle::Exited => {
                "the program took no pthread lock; locks of other kinds (of Go, Java or Rust's std) are not recorded, nor \
                 are programs that it started with an environment of their own (env -i), or that are linked statically"
            }
            Idle::Left => {
                "the program took no pthread lock before it was killed, called _exit, or called exec; what it became then \
                 has no record if its environment was cleared (env -i), it is linked statically, or has raised privileges"
            }
            Idle::None => {
                "no record: the library was not loaded, or has said why it makes none; a loader other than glibc's (musl, \
                 Android) does not load it, nor does a program that was killed sooner"
            }
        };
        return format!("fairlock: {why}\n");
    }
    let locks = profile.locks();
    let (waited, idle): (Vec<_>, Vec<_>) = locks.into_iter().partition(|seen| seen.waits() > 0);
    let mut text = stuck::text(profile, width);
    if !waited.is_empty() || !idle.is_empty() {
        text.push('\n');
    }
    if !waited.is_empty() {
        text += &table(profile, &waited[..waited.len().min(LOCKS)], width);
        if let Some(more) = waited.get(LOCKS..).filter(|more| !more.is_empty()) {
            let lost = sum(more.iter().map(Seen::lost));
            // Writing to a string does not fail, here and below.
            let _ = writeln!(
                text,
                "{} more with shorter waits: {} lost",
                count(more.len() as u64),
                time(lost)
            );
        }
    }
    if !idle.is_empty() {
        let taken = sum(idle.iter().map(Seen::taken));
        let busiest = idle.iter().max_by_key(|seen| seen.taken());
        let busiest = busiest.map(|seen| format!("{} ({})", seen.name(), count(seen.taken())));
        let _ = writeln!(
            text,
            "{} that nobody waited for: taken {}, most of all {}",
            several(idle.len(), "lock"),
            several(taken, "time"),
            busiest.unwrap_or_default(),
        );
    }
    text += &waits(profile);
    text += &asleep::text(profile, width);
    text += &nameless(&waited[..waited.len().min(LOCKS)]);
    let lost = sum(profile.processes.iter().map(|process| process.record.lost));
    if lost > 0 {
        let _ = writeln!(text, "{} acquisitions and waits are not in the record", count(lost));
    }
    text
}

/// What would name the places that have no names.
fn nameless(locks: &[Seen<'_>]) -> String {
    let places = locks.iter().filter_map(place).filter(CodePlace::is_nameless);
    let files: BTreeSet<String> = places.map(|place| file_name(&place.object).to_owned()).collect();
    let line = |file| {
        format!(
            "{file} has no names for such places: build it with -g, or install its debug symbols\n"
        )
    };
    files.into_iter().map(line).collect()
}

/// Where a lock was released that others waited for, or if that is not known, where they waited.
fn place(seen: &Seen<'_>) -> Option<CodePlace> {
    seen.worst_place(Charge::Holder).or_else(|| seen.worst_place(Charge::Waiter))
}

fn table(profile: &Profile, locks: &[Seen<'_>], width: Option<usize>) -> String {
    let mut table = Table::of(
        locks,
        [
            (Column::place("lock"), &Seen::name),
            (Column::name("kind").rank(2), &|seen| seen.kind().to_owned()),
            (Column::figure("lost"), &|seen| time(seen.lost())),
            (Column::figure("taken"), &|seen| count(seen.taken())),
            (Column::figure("waited"), &|seen| share(seen.waits(), seen.taken())),
            (Column::figure("wait p50").rank(4), &|seen| or_dash(of_many(seen, 0.5), time)),
            (Column::figure("p99"), &|seen| or_dash(of_many(seen, 0.99), time)),
            (Column::figure("p99.9").rank(3), &|seen| or_dash(of_many(seen, 0.999), time)),
            (Column::figure("longest"), &|seen| or_dash(seen.longest(), time)),
            (Column::figure("passed").rank(5), &|seen| {
                or_dash(seen.contention(), |found| count(found.most_passed))
            }),
            (Column::figure("held p50").rank(3), &|seen| or_dash(seen.hold(0.5), time)),
            (Column::figure("held p99").rank(1), &|seen| or_dash(seen.hold(0.99), time)),
            (Column::figure("longest held"), &|seen| {
                let found = seen.contention().filter(|found| found.holds > 0);
                or_dash(found, |found| time(found.longest_held_ns))
            }),
            (Column::place("at"), &|seen| or_dash(place(seen), |place| place.short())),
            (Column::figure("process").rank(0), &|seen| seen.process.record.pid.to_string()),
        ],
    );
    if profile.processes.len() == 1 {
        table.leave_out("process");
    }
    let observed = profile.processes.iter().any(|process| process.record.observed);
    let title = match observed {
        true => "the program's own locks, by time lost".to_owned(),
        false => {
            let policies = profile.processes.first().map(|process| process.record.policy.clone());
            format!("the program's locks, policy {}, by time lost", policies.unwrap_or_default())
        }
    };
    table.titled(&title, NOTE, width)
}

/// Of a single wait there is only the longest.
fn of_many(seen: &Seen<'_>, share: f64) -> Option<u64> {
    seen.wait(share).filter(|_| seen.waits() > 1)
}

pub(super) fn share(waits: u64, taken: u64) -> String {
    match taken.max(waits) {
        0 => NOTHING.to_owned(),
        all => format!("{} %", digits(waits as f64 / all as f64 * 100.0)),
    }
}

/// The table of the longest waits, each with who held the lock.
fn waits(profile: &Profile) -> String {
    let worst = profile.worst(WAITS);
    let mut text = String::new();
    if worst.is_empty() {
        return text;
    }
    text += "\nthe longest waits\n\n";
    for (process, wait) in worst {
        let at = |stack| {
            process
                .caller(stack)
                .map_or_else(|| "a place not known".to_owned(), |place| place.short())
        };
        let lock = Seen::of(process, wait.lock);
        let _ = write!(
            text,
            "{}: {} ({}) at {} for {}",
            time(wait.waited_ns),
            wait.name,
            wait.thread,
            at(wait.stack),
            lock.name(),
        );
        if wait.given_up {
            text += ", in vain";
        }
        if let Some(stranger) = profile.stranger(process, wait) {
            let _ = write!(text, "; {stranger} held it");
        } else if wait.holder != 0 {
            let times = wait.held_since_ns.zip(wait.held_until_ns);
            let did = times.and_then(|(since, until)| {
                profile.meanwhile(wait.holder, since.max(wait.began_ns), until)
            });
            let did = did.map_or_else(String::new, |did| format!(" ({did})"));
            let held = wait.held_ns().map(|held| format!("held for {}{did}, ", time(held)));
            let held = held.unwrap_or_default();
            let by = at(wait.holder_stack);
            // A named lock notes where it was taken.
            let ended = if lock.lock.kind == kind::NAMED { "taken" } else { "released" };
            let holder = match process.record.name(wait.holder) {
                "" => wait.holder.to_string(),
                name => format!("{name} ({})", wait.holder),
            };
            let _ = write!(text, "; {held}{ended} by {holder} at {by}");
            if let Some((other, waited)) = process.through(wait) {
                let (waited, by) = (time(waited), at(other.holder_stack));
                let other = Seen::of(process, other.lock).name();
                let _ = write!(text, ", which waited {waited} of it for {other}, held by {by}");
            }
        }
        if wait.passed > 0 {
            let _ = write!(text, "; {} let in meanwhile", count(wait.passed));
        }
        text.push('\n');
    }
    text
}

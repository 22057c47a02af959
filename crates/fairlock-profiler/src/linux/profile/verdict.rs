//! The first lines: where the time went, in a sentence.

use fairlock_profile::Wait;
use fairlock_profile::layout::kind;

use super::asleep::{self, Asleep};
use super::stuck::Stuck;
use super::{Process, Profile, Seen};
use crate::document::OfThreads;
use crate::layout::or_dash;
use crate::output::between_words;
use crate::place::CodePlace;
use crate::units::{count, several, time};
use crate::{Charge, sum};

/// No line is longer.
const COLUMNS: usize = 80;
/// Time lost is said first if it is this part of the threads' time, or if one thread waited so long.
const PART: u64 = 200;
const LONG_NS: u64 = 100_000_000;

impl Profile {
    /// The verdict, in two lines, or more for a deadlock; empty if no process took a lock. `threads` is what is known of
    /// the threads' time.
    pub fn verdict(&self, threads: Option<&OfThreads>) -> String {
        if self.processes.is_empty() {
            return String::new();
        }
        let all = threads.map_or(0, |threads| threads.threads_ns);
        // The threads are watched from outside, now and then: on a busy machine more may have been lost than that saw.
        let of = |lost: u64| {
            threads.map_or_else(String::new, |threads| {
                let average = threads.threads_ns as f64 / threads.watched_ns.max(1) as f64;
                let threads_in_words = several(average.round().max(1.0) as u64, "thread");
                format!(" of {} ({threads_in_words})", time(threads.threads_ns.max(lost)))
            })
        };
        let matters = |lost: u64, longest: u64| lost > all / PART || longest >= LONG_NS;
        let deadlocks = self.deadlocks();
        if let Some(first) = deadlocks.first() {
            return format!("\n{}\n", wrapped(first).join("\n"));
        }
        let worst = self.locks().into_iter().next();
        let worst = worst.filter(|lock| lock.lost() > 0);
        let hidden = self.processes.iter().flat_map(asleep::of).filter(is_like_a_lock);
        let hidden = hidden.max_by_key(|found| found.slept_ns);
        let lines = match (worst, hidden) {
            (Some(lock), _) if matters(lock.lost(), lock.longest().unwrap_or(0)) => {
                let begin = format!("lost {}{} at the lock", time(lock.lost()), of(lock.lost()));
                in_two_lines(&begin, lock.name(), &culprit(self, &lock))
            }
            (_, Some(found)) if matters(found.slept_ns, 0) => {
                let (slept, of) = (time(found.slept_ns), of(found.slept_ns));
                let begin = format!("waited {slept}{of} at the {}", found.seen.kind());
                in_two_lines(&begin, found.seen.name(), &unseen(&found))
            }
            _ => wrapped(&format!("no time worth mentioning lost at locks{}", of(0))),
        };
        format!("\n{}\n", lines.join("\n"))
    }
}

/// The sentence, in which the name of the lock loses its line, and then its function's caller, where it is too long; and
/// at last the end.
fn in_two_lines(begin: &str, mut name: String, rest: &str) -> Vec<String> {
    loop {
        let mut lines = wrapped(&format!("{begin} \"{name}\": {rest}"));
        if lines.len() <= 2 {
            return lines;
        }
        if let Some(end) = name.rfind(" (").or_else(|| name.rfind(" <- ")) {
            name.truncate(end);
            continue;
        }
        lines.truncate(2);
        let end = lines[1].char_indices().nth(COLUMNS - 4).map_or(lines[1].len(), |(at, _)| at);
        lines[1].truncate(end);
        lines[1] += " ...";
        return lines;
    }
}

fn wrapped(text: &str) -> Vec<String> {
    let options = between_words(COLUMNS).subsequent_indent("  ");
    textwrap::wrap(text, options).into_iter().map(String::from).collect()
}

/// A semaphore may be a mutex, and the locks of other languages are futexes. Nothing of the kind waits at a condition.
fn is_like_a_lock(found: &Asleep<'_>) -> bool {
    found.seen.lock.kind != kind::CONDITION
}

/// What is known of its holder.
fn unseen(found: &Asleep<'_>) -> String {
    // Idle threads of Rust and other languages wait at a futex, too.
    let perhaps = if found.seen.lock.kind == kind::FUTEX { "if it is a lock, " } else { "" };
    let held = format!("{perhaps}held by a thread that this cannot see");
    match found.ended_by() {
        Some(by) => format!("{held}; ended by {by}"),
        None if found.going_on > 0 => format!(
            "{held}; {} not ended",
            match found.going_on {
                1 => "1 wait has".to_owned(),
                waits => format!("{} waits have", count(waits)),
            }
        ),
        None => held,
    }
}

/// Which place held the lock, and for how long.
fn culprit(profile: &Profile, lock: &Seen<'_>) -> String {
    let stuck = Stuck::all_of(lock.process).into_iter().find(|it| it.seen.number == lock.number);
    if let Some(stuck) = stuck {
        let wait = match stuck.waiting {
            1 => "1 thread waits".to_owned(),
            waiting => format!("{} threads wait", count(waiting as u64)),
        };
        let by = stuck.at().map(|place| place.short());
        return match (by, stuck.held_ns()) {
            (Some(by), Some(ns)) => format!("{by} has held it for {}, {wait}", time(ns)),
            (Some(by), None) => format!("{by} holds it, {wait}"),
            (None, _) => match stuck.held() {
                Some(held) => format!("thread {} holds it, {wait}", held.thread),
                None => format!("{wait}, for up to {}", time(stuck.longest_ns)),
            },
        };
    }
    let process = lock.process;
    let worst = lock.contention().map_or(&[][..], |found| &found.worst);
    let charged = lock.places(Charge::Holder).into_iter().max_by_key(|(_, time)| *time);
    // What is charged to no place here may be another process's.
    let others = process.record.holders.iter().filter(|it| it.lock == lock.number && it.stack == 0);
    let others = sum(others.map(|place| place.waited_ns));
    let stranger = worst.iter().find_map(|wait| profile.stranger(process, wait));
    match (charged, stranger) {
        (charged, Some(stranger)) if charged.as_ref().is_none_or(|(_, ns)| *ns < others) => {
            let longest = worst.iter().map(|wait| wait.waited_ns).max().unwrap_or(0);
            format!("{stranger} held it for up to {}", time(longest))
        }
        (Some((place, _)), _) => held_by(process, worst, &place),
        (None, _) => {
            let longest = time(lock.longest().unwrap_or(0));
            match lock.worst_place(Charge::Waiter) {
                Some(place) => format!("{} waited for up to {longest}", place.short()),
                None => format!("waits of up to {longest}"),
            }
        }
    }
}

/// For how long a place held a lock, or one for which the lock's holder waited: these are the lock's longest waits.
fn held_by(process: &Process, worst: &[Wait], place: &CodePlace) -> String {
    let is_at = |stack| process.caller(stack).as_ref() == Some(place);
    let held_ns = |wait: &Wait| Some(wait.held_until_ns?.saturating_sub(wait.held_since_ns?));
    let own = worst.iter().filter(|wait| is_at(wait.holder_stack));
    if let Some(ns) = own.filter_map(held_ns).max() {
        return format!("{} held it for up to {}", place.short(), time(ns));
    }
    let through = worst.iter().filter_map(|wait| Some((wait, process.through(wait)?.0)));
    let through = through.filter(|(_, other)| is_at(other.holder_stack));
    match through.max_by_key(|(wait, _)| held_ns(wait)) {
        Some((wait, other)) => format!(
            "{} held it for up to {}, waiting for \"{}\", held by {}",
            or_dash(process.caller(wait.holder_stack), |place| place.function),
            time(held_ns(wait).unwrap_or(wait.waited_ns)),
            Seen::of(process, other.lock).name(),
            place.short(),
        ),
        None => format!("{} held it", place.short()),
    }
}

//! The first lines: where the time went, in a sentence.

use fairlock_profile::layout::kind;

use super::asleep::{self, Asleep};
use super::stuck::Stuck;
use super::{Profile, Seen};
use crate::output::between_words;
use crate::preload::Charge;
use crate::preload::document::OfThreads;
use crate::preload::place::Place;
use crate::units::{count, several, time};

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
        let of = threads.map_or_else(String::new, |threads| {
            let average = threads.threads_ns as f64 / threads.watched_ns.max(1) as f64;
            let threads_in_words = several(average.round().max(1.0) as u64, "thread");
            format!(" of {} ({threads_in_words})", time(threads.threads_ns))
        });
        let matters = |lost: u64, longest: u64| lost > all / PART || longest >= LONG_NS;
        let deadlocks = self.deadlocks();
        let text = if let Some(first) = deadlocks.first() {
            return format!("\n{}\n", wrapped(first).join("\n"));
        } else if let Some(lock) = self
            .locks()
            .into_iter()
            .next()
            .filter(|lock| lock.lost() > 0 && matters(lock.lost(), lock.longest().unwrap_or(0)))
        {
            let (lost, name) = (time(lock.lost()), lock.name());
            format!("lost {lost}{of} at the lock \"{name}\": {}", culprit(&lock))
        } else {
            let nothing = format!("no time worth mentioning lost at locks{of}");
            let hidden = self.processes.iter().flat_map(asleep::of).filter(is_like_a_lock);
            match hidden.max_by_key(|found| found.slept_ns) {
                Some(found) if matters(found.slept_ns, 0) => {
                    let (slept, kind, name) =
                        (time(found.slept_ns), found.seen.kind(), found.seen.name());
                    format!("waited {slept}{of} at the {kind} \"{name}\": {}", ended_by(&found))
                }
                _ => nothing,
            }
        };
        let mut lines = wrapped(&text);
        if lines.len() > 2 {
            lines.truncate(2);
            let room = COLUMNS - 4;
            let end = lines[1].char_indices().nth(room).map_or(lines[1].len(), |(at, _)| at);
            lines[1].replace_range(end.., "");
            lines[1] += " ...";
        }
        format!("\n{}\n", lines.join("\n"))
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

fn ended_by(found: &Asleep<'_>) -> String {
    let process = found.seen.process;
    let wakers = process.record.holders.iter().filter(|place| place.lock == found.seen.number);
    let waker = wakers.max_by_key(|place| place.count);
    let by = waker.and_then(|waker| Some((process.caller(waker.stack)?.short(), waker.count)));
    match by {
        Some((place, times)) => {
            format!(
                "held by a thread that this cannot see; ended by {place}, {}",
                several(times, "time")
            )
        }
        None if found.going_on > 0 => format!(
            "held by a thread that this cannot see; {} not ended",
            match found.going_on {
                1 => "1 wait has".to_owned(),
                waits => format!("{} waits have", count(waits)),
            }
        ),
        None => "held by a thread that this cannot see".to_owned(),
    }
}

/// Which place held the lock, and for how long.
fn culprit(lock: &Seen<'_>) -> String {
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
    let up_to = |place: &Place| {
        let process = lock.process;
        let worst = lock.contention().into_iter().flat_map(|found| &found.worst);
        let of_place =
            worst.filter(|wait| process.caller(wait.holder_stack).as_ref() == Some(place));
        let held = of_place
            .filter_map(|wait| Some(wait.held_until_ns?.saturating_sub(wait.held_since_ns?)));
        held.max()
    };
    match lock.worst_place(Charge::Holder) {
        Some(place) => match up_to(&place) {
            Some(ns) => format!("{} held it for up to {}", place.short(), time(ns)),
            None => format!("{} held it", place.short()),
        },
        None => match lock.worst_place(Charge::Waiter) {
            Some(place) => {
                let longest = time(lock.longest().unwrap_or(0));
                format!("{} waited for up to {longest}", place.short())
            }
            None => format!("waits of up to {}", time(lock.longest().unwrap_or(0))),
        },
    }
}

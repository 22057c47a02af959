//! What stands still: deadlocks, and the locks that threads wait for when the record is read.

use std::fmt::Write;
use std::fs;

use fairlock_profile::{Asleep, Held, Thread};

use super::{Process, Profile, Seen, field};
use crate::layout::{Column, Table, or_dash};
use crate::place::CodePlace;
use crate::units::{count, time};

/// How many locks are shown.
const SHOWN: usize = 20;

const NOTE: &str = "waiting: threads; longest: so far; held for: so far, with > at least so long; at: where the holder waits, or else \
     took the lock";

/// A lock that threads wait for.
pub(super) struct Stuck<'a> {
    pub(super) seen: Seen<'a>,
    pub(super) waiting: usize,
    pub(super) longest_ns: u64,
    /// The threads that hold it, and what that one waits for, and so on.
    pub(super) chain: Vec<(usize, Held)>,
}

impl<'a> Stuck<'a> {
    /// All locks of a process that threads wait for, those with the longest waits first.
    pub(super) fn all_of(process: &'a Process) -> Vec<Self> {
        let until = process.until_ns.unwrap_or(0);
        let of = |seen: Seen<'a>| {
            let waiting = process.record.waiting(seen.number);
            let (_, first) = waiting.first()?;
            let longest_ns = until.saturating_sub(first.since_ns);
            let chain = process.record.chain(seen.number);
            Some(Self { seen, waiting: waiting.len(), longest_ns, chain })
        };
        let is_waited_for = process.record.threads.iter().any(|thread| thread.asleep.is_some());
        let locks = if is_waited_for { process.locks() } else { Vec::new() };
        let mut all: Vec<_> = locks.into_iter().filter_map(of).collect();
        all.sort_by_key(|stuck| std::cmp::Reverse(stuck.longest_ns));
        all
    }

    pub(super) fn held(&self) -> Option<&Held> {
        Some(&self.chain.first()?.1)
    }

    /// For how long it is held, as far as that is known.
    pub(super) fn held_ns(&self) -> Option<u64> {
        Some(self.seen.process.until_ns?.saturating_sub(self.held()?.since_ns?))
    }

    /// Where its holder is.
    pub(super) fn at(&self) -> Option<CodePlace> {
        let process = self.seen.process;
        process.caller(process.record.place_of(self.held()?))
    }

    fn held_for(&self) -> String {
        let at_least = if self.held().is_some_and(|held| held.is_exact) { "" } else { ">" };
        or_dash(self.held_ns(), |ns| format!("{at_least}{}", time(ns)))
    }

    /// What the holder itself waits for, in words; none if it does not wait.
    fn why(&self) -> Option<String> {
        let process = self.seen.process;
        let mut text =
            format!("{} is held by {}", self.seen.name(), process.thread(self.held()?.thread));
        let mut is_waiting = false;
        for (at, (_, held)) in self.chain.iter().enumerate() {
            let Some(asleep) = process.record.thread(held.thread).and_then(|it| it.asleep.as_ref())
            else {
                break;
            };
            let seen = Seen::of(process, asleep.lock);
            let place = or_dash(process.caller(asleep.stack), |place| place.short());
            // Writing to a string does not fail.
            let _ = write!(text, ", which waits at {place} for {} {}", seen.kind(), seen.name());
            if let Some((_, next)) = self.chain.get(at + 1) {
                let _ = write!(text, ", held by {}", process.thread(next.thread));
            }
            is_waiting = true;
        }
        is_waiting.then_some(text)
    }
}

impl Process {
    /// A thread in words: its number, and what else is known of it.
    fn thread(&self, tid: u32) -> String {
        match self.record.thread(tid) {
            Some(Thread { name, .. }) if name.is_empty() => tid.to_string(),
            Some(Thread { name, .. }) => format!("{tid} ({name})"),
            None => match process_of(tid).filter(|&pid| pid != self.record.pid) {
                Some(pid) => format!("{tid} of another process, PID {pid}"),
                None => format!("{tid}, which has ended or is of another process"),
            },
        }
    }

    /// The threads of a deadlock: which lock each has that the one before it wants, and what it waits for.
    pub(super) fn deadlocked(&self, threads: &[usize]) -> Vec<(&Thread, usize, &Asleep)> {
        let threads = threads.iter().map(|&at| &self.record.threads[at]);
        let waits: Vec<_> =
            threads.filter_map(|thread| Some((thread, thread.asleep.as_ref()?))).collect();
        let before = waits.iter().cycle().skip(waits.len().saturating_sub(1));
        waits.iter().zip(before).map(|(it, (_, before))| (it.0, before.lock, it.1)).collect()
    }

    /// The deadlocks, each in words.
    pub(super) fn deadlocks(&self) -> Vec<String> {
        let of = |threads: Vec<usize>| {
            let parts = self.deadlocked(&threads).into_iter().map(|(thread, holds, asleep)| {
                let at = or_dash(self.caller(asleep.stack), |place| place.short());
                let wants = match asleep.lock {
                    lock if lock == holds => "it again".to_owned(),
                    lock => Seen::of(self, lock).name(),
                };
                let holds = Seen::of(self, holds).name();
                let thread = self.thread(thread.tid);
                format!("{at}, thread {thread}, holds {holds}, waits for {wants}")
            });
            format!("DEADLOCK: {}", parts.collect::<Vec<_>>().join("; "))
        };
        self.record.deadlocks().into_iter().map(of).collect()
    }
}

impl Seen<'_> {
    /// How many threads wait for it now.
    pub(super) fn waiting_now(&self) -> usize {
        self.process.record.waiting(self.number).len()
    }

    /// The thread that holds it now, as far as is known.
    pub(super) fn holder_now(&self) -> Option<String> {
        Some(self.process.thread(self.process.record.held_now(self.number)?.thread))
    }
}

/// The process that a thread is of, if it runs.
fn process_of(tid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    field(&status, "Tgid:")?.parse().ok()
}

impl Profile {
    /// The deadlocks of all processes, each in words.
    pub fn deadlocks(&self) -> Vec<String> {
        self.processes.iter().flat_map(Process::deadlocks).collect()
    }
}

/// The table, for people, and deadlocks but the first; empty if no thread waits for a lock.
pub(super) fn text(profile: &Profile, width: Option<usize>) -> String {
    let stuck: Vec<_> = profile.processes.iter().flat_map(Stuck::all_of).collect();
    if stuck.is_empty() {
        return String::new();
    }
    let mut table = Table::of(
        stuck.iter().take(SHOWN),
        [
            (Column::place("lock"), &|stuck: &Stuck<'_>| stuck.seen.name()),
            (Column::name("kind").rank(1), &|stuck| stuck.seen.kind().to_owned()),
            (Column::figure("waiting"), &|stuck| count(stuck.waiting as u64)),
            (Column::figure("longest"), &|stuck| time(stuck.longest_ns)),
            (Column::name("held now by"), &|stuck| {
                or_dash(stuck.held(), |held| stuck.seen.process.thread(held.thread))
            }),
            (Column::figure("held for"), &Stuck::held_for),
            (Column::place("at"), &|stuck| or_dash(stuck.at(), |place| place.short())),
            (Column::figure("process").rank(0), &|stuck| stuck.seen.process.record.pid.to_string()),
        ],
    );
    if profile.processes.len() == 1 {
        table.leave_out("process");
    }
    let mut text = format!("\n{}", table.titled("waiting now", NOTE, width));
    // The first one is the verdict.
    profile.deadlocks().iter().skip(1).for_each(|line| text += &format!("{line}\n"));
    let is_deadlocked = |stuck: &Stuck<'_>| {
        let record = &stuck.seen.process.record;
        let tids: Vec<u32> = stuck.chain.iter().map(|(_, held)| held.thread).collect();
        record.deadlocks().iter().flatten().any(|&at| tids.contains(&record.threads[at].tid))
    };
    for stuck in stuck.iter().take(SHOWN).filter(|stuck| stuck.chain.len() == 1) {
        let process = stuck.seen.process;
        let times = stuck.held().and_then(|held| Some((held, held.since_ns?, process.until_ns?)));
        let did = times.and_then(|(held, since, until)| {
            let did = profile.meanwhile(held.thread, since, until)?;
            Some(format!("{} has held {}, {did}\n", process.thread(held.thread), stuck.seen.name()))
        });
        did.into_iter().for_each(|did| text += &did);
    }
    let why = stuck.iter().take(SHOWN).filter(|stuck| !is_deadlocked(stuck)).filter_map(Stuck::why);
    why.for_each(|line| text += &format!("{line}\n"));
    text
}

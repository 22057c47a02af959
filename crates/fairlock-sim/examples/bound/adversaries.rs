//! Who attacks the lock, and how.

use super::victim::How;

/// How long a thread stays.
#[derive(Clone, Copy, PartialEq)]
pub enum Life {
    Always,
    /// It comes once in so many nanoseconds, at random, and has one section.
    Once(u64),
    /// All come at the same time, again and again; each stays, once it is served, for as long as it has the lock at
    /// once whenever it wants it, and then leaves.
    Leaves,
}

/// How it waits.
#[derive(Clone, Copy, PartialEq)]
pub enum Attempts {
    /// Once, for as long as it takes.
    Patient,
    /// For so long, again and again.
    Timed(u64),
    /// Until somebody cancels it, with all others at once, again and again.
    Cancelled,
}

/// What a thread does.
#[derive(Clone, Copy)]
pub struct Part {
    /// By turns.
    pub how: [How; 2],
    pub attempts: Attempts,
    pub life: Life,
    /// How many locks it polls by turns.
    pub locks: usize,
    pub section_ns: u64,
}

const PATIENT: Part = Part {
    how: [How::Write; 2],
    attempts: Attempts::Patient,
    life: Life::Always,
    locks: 1,
    section_ns: 1_000,
};

pub struct Adversary {
    pub name: &'static str,
    /// Whether a mutex can be attacked so.
    pub of_mutex: bool,
    /// What thread `n` does, of all.
    pub part: fn(thread: usize, threads: usize) -> Part,
}

const fn both(name: &'static str, part: fn(usize, usize) -> Part) -> Adversary {
    Adversary { name, of_mutex: true, part }
}

const fn of_rwlock(name: &'static str, part: fn(usize, usize) -> Part) -> Adversary {
    Adversary { name, of_mutex: false, part }
}

/// As `attacks` says, but for four that wait patiently, in all ways.
fn beside_patient(thread: usize, attacks: Part) -> Part {
    match [How::Write, How::Read, How::Upgradable, How::Upgrade].get(thread) {
        Some(&how) => Part { how: [how; 2], ..PATIENT },
        None => attacks,
    }
}

fn timed(ns: u64, how: [How; 2]) -> Part {
    Part { how, attempts: Attempts::Timed(ns), ..PATIENT }
}

pub const ALL: [Adversary; 21] = [
    both("patient writers", |_, _| PATIENT),
    both("try loops", |thread, _| beside_patient(thread, timed(0, [How::Write; 2]))),
    both("retries of 3 us", |thread, _| beside_patient(thread, timed(3_000, [How::Write; 2]))),
    both("retries of 5 us", |thread, _| beside_patient(thread, timed(5_000, [How::Write; 2]))),
    both("retries of 1 ms", |thread, _| beside_patient(thread, timed(1_000_000, [How::Write; 2]))),
    both("cancel storm", |thread, _| {
        beside_patient(thread, Part { attempts: Attempts::Cancelled, ..PATIENT })
    }),
    both("late joiners, once each", |thread, threads| {
        let life = if thread < threads / 2 { Life::Always } else { Life::Once(20_000_000) };
        Part { life, ..PATIENT }
    }),
    both("leave one after another", |_, _| Part { life: Life::Leaves, ..PATIENT }),
    both("long sections", |thread, _| Part {
        section_ns: if thread.is_multiple_of(2) { 200_000 } else { 1_000 },
        ..PATIENT
    }),
    both("eight locks a thread", |thread, _| {
        let locks = if thread < 4 { 1 } else { 8 };
        beside_patient(thread, Part { locks, ..timed(300_000, [How::Write; 2]) })
    }),
    of_rwlock("half readers", |thread, _| Part {
        how: [if thread.is_multiple_of(2) { How::Read } else { How::Write }; 2],
        ..PATIENT
    }),
    of_rwlock("one reader", |thread, _| Part {
        how: [if thread == 0 { How::Read } else { How::Write }; 2],
        ..PATIENT
    }),
    of_rwlock("one writer", |thread, _| Part {
        how: [if thread == 0 { How::Write } else { How::Read }; 2],
        ..PATIENT
    }),
    of_rwlock("read and write by turns", |_, _| Part { how: [How::Read, How::Write], ..PATIENT }),
    of_rwlock("retries of 5 us, both sides", |thread, _| {
        beside_patient(thread, timed(5_000, [How::Read, How::Write]))
    }),
    of_rwlock("one writer beside upgradable readers", |thread, _| Part {
        how: [if thread == 0 { How::Write } else { How::Upgradable }; 2],
        ..PATIENT
    }),
    of_rwlock("one writer beside readers of both kinds", |thread, _| {
        let beside = if thread.is_multiple_of(2) { How::Read } else { How::Upgradable };
        Part { how: [if thread == 0 { How::Write } else { beside }; 2], ..PATIENT }
    }),
    of_rwlock("upgrades", |_, _| Part { how: [How::Upgrade, How::Read], ..PATIENT }),
    of_rwlock("downgrades", |_, _| Part { how: [How::Downgrade, How::Read], ..PATIENT }),
    of_rwlock("recursive readers", |thread, _| {
        beside_patient(thread, Part { how: [How::ReadTwice; 2], ..PATIENT })
    }),
    of_rwlock("leave one after another, two readers stay", |thread, _| {
        let (how, life) =
            if thread < 2 { (How::Read, Life::Always) } else { (How::Write, Life::Leaves) };
        Part { how: [how; 2], life, ..PATIENT }
    }),
];

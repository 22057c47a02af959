//! Waits and holds that have not ended, and deadlocks among them.
//!
//! What a thread waits for and what it holds is noted in each lock's own statistics; nobody stops while they are read. A
//! deadlock is one nevertheless: waits are read before and after all holds. A thread whose wait is the same both times has
//! waited all the time between, so it held what it was seen to hold, and could not let it go.

use core::cmp::Reverse;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::string::ToString;
use std::sync::Arc;
use std::vec::Vec;

use super::hold::{Holds, Waits};
use super::place::{Access, Place, Want};
use super::record::Record;
use super::snapshot::{Claim, Deadlock, LockStats, Now, Stuck};
use super::threads::name_of;
use crate::deadlock::circles;
use crate::platform::{Native, System};

/// What has not ended at one time.
pub(super) struct Ongoing<'a> {
    records: &'a [Arc<Record>],
    pub(super) waits: Vec<Wait>,
    pub(super) holds: Vec<Held>,
    pub(super) now: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) lock: usize,
    /// Its place.
    pub(super) thread: usize,
    pub(super) wait: Waits,
    pub(super) at: Option<Place>,
}

pub(super) struct Held {
    pub(super) lock: usize,
    /// Its place.
    pub(super) thread: usize,
    pub(super) access: Access,
    pub(super) hold: Holds,
}

impl<'a> Ongoing<'a> {
    pub(super) fn look(records: &'a [Arc<Record>]) -> Self {
        let waits = waits(records);
        let mut holds = Vec::new();
        for (lock, record) in records.iter().enumerate() {
            let held = |(thread, access, hold)| Held { lock, thread, access, hold };
            holds.extend(record.holds().into_iter().map(held));
        }
        Self { records, waits, holds, now: Native::now() }
    }

    /// Forgets the waits that have ended since. So a thread that still waits held what it was seen to hold.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(super) fn settle(&mut self) {
        // Acquire: as in `deadlocks`.
        fence(Ordering::Acquire);
        let again = waits(self.records);
        self.waits.retain(|wait| again.contains(wait));
    }

    /// Puts them into the statistics of their names, and returns the deadlocks.
    pub(super) fn put(self, stats: &mut [LockStats]) -> Vec<Deadlock> {
        let of_side = |stats: &mut [LockStats], lock: usize, access, is_wait, now: Now| {
            let name = &*self.records[lock].name;
            if let Ok(place) = stats.binary_search_by(|stats| (*stats.name).cmp(name)) {
                let side = stats[place].side_mut(access);
                if is_wait { &mut side.waiting } else { &mut side.held_now }.push(now);
            }
        };
        for Wait { lock, thread, wait, at } in &self.waits {
            let time = Some(self.since(wait.since));
            let now = Now { time, thread: name_of(*thread), is_task: false, at: *at, name: None };
            of_side(stats, *lock, wait.want.access(), true, now);
        }
        #[cfg(feature = "async")]
        for (lock, record) in self.records.iter().enumerate() {
            for (polled_by, wait, at) in record.waits_of_tasks() {
                let time = Some(self.since(wait.since));
                let now = Now { time, thread: name_of(polled_by), is_task: true, at, name: None };
                of_side(stats, lock, wait.want.access(), true, now);
            }
        }
        for Held { lock, thread, access, hold } in &self.holds {
            let time = self.records[*lock].lasts(hold, self.now);
            let thread = name_of(*thread);
            let now = Now { time, thread, is_task: false, at: hold.at, name: None };
            of_side(stats, *lock, *access, false, now);
        }
        for stats in stats {
            for side in [&mut stats.reads, &mut stats.writes] {
                side.waiting.sort_by_key(|now| Reverse(now.time));
                side.held_now.sort_by_key(|now| Reverse(now.time));
            }
        }
        self.deadlocks()
    }

    fn since(&self, since: u64) -> Duration {
        Duration::from_nanos(self.now.saturating_sub(since))
    }

    fn deadlocks(&self) -> Vec<Deadlock> {
        // Acquire: the holds have been read before the waits are read again.
        fence(Ordering::Acquire);
        let again = waits(self.records);
        let settled = |wait: &&Wait| !wait.wait.can_end && again.contains(*wait);
        let waits: Vec<_> = self.waits.iter().filter(settled).collect();
        let in_the_way = |wait: &&Wait| {
            let others = waits.iter().enumerate();
            let others = others.filter(|(_, other)| {
                self.held_against(wait, other.thread).is_some() || self.is_behind(wait, other)
            });
            others.map(|(number, _)| number).collect()
        };
        let next: Vec<_> = waits.iter().map(in_the_way).collect();
        let circles = circles(&next).into_iter();
        circles.map(|circle| self.deadlock(circle.iter().map(|node| waits[*node]))).collect()
    }

    /// What a thread holds without which the wait cannot end.
    fn held_against(&self, wait: &Wait, thread: usize) -> Option<&Held> {
        let is_in_the_way = |held: &Held| {
            let own = held.thread == wait.thread;
            let is_writer = held.access == Access::Write;
            match wait.wait.want {
                Want::Read | Want::Recursive => is_writer && !held.hold.is_other,
                Want::Upgradable => is_writer,
                Want::Write => true,
                Want::Upgrade => !(is_writer && own),
                Want::Permits | Want::RangeRead | Want::RangeWrite => false,
            }
        };
        let of_thread = |held: &&Held| held.thread == thread && held.lock == wait.lock;
        self.holds.iter().filter(of_thread).find(|held| is_in_the_way(held))
    }

    /// Whether a reader waits behind a writer that came before it.
    fn is_behind(&self, wait: &Wait, other: &Wait) -> bool {
        let is_writer = matches!(other.wait.want, Want::Write | Want::Upgrade);
        let is_later = wait.wait.since > other.wait.since;
        // It is not just being let in.
        let is_long = self.since(wait.wait.since) >= Duration::from_secs(1);
        wait.lock == other.lock && wait.wait.want == Want::Read && is_writer && is_later && is_long
    }

    /// Each thread of the circle waits for the next one.
    fn deadlock<'b>(&self, circle: impl Iterator<Item = &'b Wait> + Clone) -> Deadlock {
        let last = circle.clone().last();
        let before = last.into_iter().chain(circle.clone());
        let stuck = |(before, wait): (&Wait, &Wait)| {
            let claim = |lock: usize, access, at| {
                Claim::new(self.records[lock].name.to_string(), access, at)
            };
            let held = self.held_against(before, wait.thread);
            Stuck {
                thread: name_of(wait.thread),
                holds: held.map(|held| claim(held.lock, held.access, held.hold.at)),
                wants: claim(wait.lock, wait.wait.want.access(), wait.at),
                waited: self.since(wait.wait.since),
            }
        };
        Deadlock { threads: before.zip(circle).map(stuck).collect() }
    }
}

fn waits(records: &[Arc<Record>]) -> Vec<Wait> {
    let mut all = Vec::new();
    for (lock, record) in records.iter().enumerate() {
        let wait = |(thread, wait, at)| Wait { lock, thread, wait, at };
        all.extend(record.waits().into_iter().map(wait));
    }
    all
}

//! What each thread waits for and holds, by the record of a process that runs.

use fairlock_profile::layout::kind;

use super::Profile;
use super::stuck::Stuck;

/// A wait for a lock, or for what nobody holds, that has not ended.
pub struct WaitNow {
    /// The thread's number, in the process's own container.
    pub tid: u32,
    pub kind: &'static str,
    pub name: String,
    pub address: u64,
    pub is_lock: bool,
    pub waited_ns: u64,
    /// Only a release ends the wait, though its thread may wake now and then.
    pub is_settled: bool,
    /// The thread that holds the lock, and for how long it has at least.
    pub holder: Option<(u32, Option<u64>)>,
}

/// A lock that a thread holds, of those that it waited for, or took while others waited.
pub struct HoldNow {
    pub tid: u32,
    pub name: String,
    pub held_ns: Option<u64>,
    /// Where it was taken.
    pub at: Option<String>,
}

impl Profile {
    /// The waits that have not ended, and the holds.
    pub fn now(&self) -> (Vec<WaitNow>, Vec<HoldNow>) {
        let (mut waits, mut holds) = (Vec::new(), Vec::new());
        for process in &self.processes {
            let since = |since_ns| process.until_ns.unwrap_or(0).saturating_sub(since_ns);
            let stuck = Stuck::all_of(process);
            for thread in &process.record.threads {
                holds.extend(thread.holds.iter().map(|hold| HoldNow {
                    tid: thread.tid,
                    name: super::Seen::of(process, hold.lock).name(),
                    held_ns: hold.since_ns.map(since),
                    at: process.caller(hold.stack).map(|place| place.short()),
                }));
                let Some(asleep) = &thread.asleep else { continue };
                let seen = super::Seen::of(process, asleep.lock);
                let of_lock = stuck.iter().find(|stuck| stuck.seen.number == asleep.lock);
                let held = |stuck: &Stuck<'_>| Some((stuck.held()?.thread, stuck.held_ns()));
                waits.push(WaitNow {
                    tid: thread.tid,
                    kind: seen.kind(),
                    name: seen.name(),
                    address: seen.lock.address,
                    is_lock: of_lock.is_some(),
                    waited_ns: since(asleep.since_ns),
                    is_settled: kind::is_lock(seen.lock.kind) && !asleep.can_end,
                    holder: of_lock.and_then(held),
                });
            }
        }
        (waits, holds)
    }
}

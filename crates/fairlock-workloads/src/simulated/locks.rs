//! The locks that run on the simulated machine, by name: all that are written
//! against the platform.

use ::fairlock::lock::RawMutex;
use fairlock_sim::Sim;

use super::testbed::Simulated;
use crate::error::{Error, nearest};
use crate::locks::entry::{LockEntry, Runs};
use crate::locks::erased::Erased;
use crate::locks::monitor::{Monitor, OurSet};
use crate::locks::range::BenchRange;
use crate::locks::{BenchLock, custom, fairlock};
use crate::reference;

impl Runs for Simulated {
    type Lock<L: BenchLock> = Erased;
    type Range<L: BenchRange> = Erased;
}

/// Every lock of this build that can be simulated.
pub fn all() -> Vec<LockEntry<Simulated>> {
    let mut locks = fairlock::entries::<Sim, Simulated, RawMutex<Sim>, Monitor<OurSet<Sim>>>();
    locks.extend(fairlock::ranges::<Sim, Simulated>());
    locks.extend(reference::entries::<Sim, Simulated>());
    locks.push(reference::plain_for_ranges::<Sim, Simulated>());
    locks
}

/// The lock called `name`, which may lack its family: `unfair` is `fairlock:unfair`.
pub fn find(name: &str) -> Result<LockEntry<Simulated>, Error> {
    if let Some(custom) = custom::find::<Sim, Simulated>(name)? {
        return Ok(custom);
    }
    let is_meant = |lock: &LockEntry<Simulated>| {
        lock.name == name || lock.name.split(':').next_back() == Some(name)
    };
    if let Some(lock) = all().into_iter().find(is_meant) {
        return Ok(lock);
    }
    if crate::locks::registry::find(name).is_ok() {
        return Err(Error::usage(format!(
            "lock '{name}' cannot be simulated: use one whose name begins with fairlock: or ref:"
        )));
    }
    let locks = all();
    let names: Vec<&str> = locks.iter().map(|lock| lock.name).collect();
    let near = nearest(name, &names).map(|near| format!("did you mean '{near}'? "));
    Err(Error::usage(format!(
        "no lock '{name}': {}simulated are {}",
        near.unwrap_or_default(),
        names.join(", ")
    )))
}

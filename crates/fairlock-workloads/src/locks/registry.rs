//! Locks by name.

use ::fairlock::platform::Native;
use ::fairlock::{Mutex, ReentrantMutex, RwLock};

use super::entry::LockEntry;
use super::typed::Typed;
use super::{broken, condvar, custom, fairlock};
use crate::error::{Error, nearest};
use crate::workload::testbed::Real;
use crate::{peers, reference};

/// Families of locks that a feature of this crate adds.
const FEATURE_FAMILIES: [&str; 6] = ["tbb", "abseil", "nsync", "boost", "ck", "folly"];

/// Families of locks that exist on Linux only.
const LINUX_FAMILIES: [&str; 2] = ["pthread", "fcntl"];

/// Every lock of this build, ours first, then the references and the peers;
/// without the broken ones.
pub fn all() -> Vec<LockEntry> {
    let ours = fairlock::entries::<Native, Real, Typed<Mutex<()>>, condvar::Ours>();
    let mut locks: Vec<_> = ours.into_iter().map(with_uses).collect();
    locks.extend(fairlock::ranges::<Native, Real>());
    locks.extend(reference::entries::<Native, Real>());
    locks.extend(peers::std::entries());
    locks.extend(peers::parking_lot::entries());
    locks.extend(peers::saa::entries());
    #[cfg(target_os = "linux")]
    locks.extend(peers::pthread::entries());
    locks.extend(peers::range::entries());
    #[cfg(target_os = "linux")]
    locks.extend(peers::fcntl::entries());
    #[cfg(feature = "native-peers")]
    locks.extend(peers::native::entries());
    locks
}

/// Adds what ours can be used as here, and not on other platforms.
fn with_uses(lock: LockEntry) -> LockEntry {
    match lock.name {
        "fairlock:rwlock" => lock.with_upgradable::<RwLock<()>>(),
        "fairlock:mutex" => lock.with_reentrant::<ReentrantMutex<()>>(),
        _ => lock,
    }
}

/// The lock called `name`; if there is none, an error that says what is like it.
pub fn find(name: &str) -> Result<LockEntry, Error> {
    if let Some(custom) = custom::find::<Native, Real>(name)? {
        return Ok(custom);
    }
    let known = || all().into_iter().chain(broken::entries());
    if let Some(entry) = known().find(|entry| entry.name == name) {
        return Ok(entry);
    }
    let family = name.split(':').next().unwrap_or(name);
    if cfg!(not(feature = "native-peers")) && FEATURE_FAMILIES.contains(&family) {
        return Err(Error::usage(format!(
            "lock '{name}' is not in this build: build with --features native-peers"
        )));
    }
    if cfg!(not(target_os = "linux")) && LINUX_FAMILIES.contains(&family) {
        return Err(Error::usage(format!("lock '{name}' is there on Linux only: leave it out")));
    }
    let names: Vec<&str> = all().iter().map(|entry| entry.name).collect();
    Err(Error::usage(match nearest(name, &names) {
        Some(near) => {
            format!("no lock '{name}': did you mean '{near}'? `fairlock locks` lists them")
        }
        None => format!("no lock '{name}': `fairlock locks` lists them"),
    }))
}

#[cfg(test)]
mod tests {
    use std::any::type_name;
    use std::collections::BTreeMap;

    use super::*;
    use crate::locks::entry::Runs;
    use crate::locks::monitor::{Monitor, OurSet};

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().iter().map(|entry| entry.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// What the locks of a registry are, by name: each use, with its type on the platform `P`.
    fn meanings<T: Runs>(locks: &[LockEntry<T>]) -> BTreeMap<&'static str, String> {
        let on_p = |of: String| {
            let of = of.replace("fairlock_sim::sim::Sim", "P").replace(type_name::<Native>(), "P");
            // A `Mutex` and a `Condvar` have no parameter for the platform. Theirs are these.
            let mutex = type_name::<Typed<Mutex<()>>>().replace(type_name::<Native>(), "P");
            let raw = "fairlock::lock::mutex::RawMutex<P>";
            of.replace(&mutex, raw).replace(type_name::<condvar::Ours>(), "a Condvar").replace(
                &type_name::<Monitor<OurSet<Native>>>().replace(type_name::<Native>(), "P"),
                "a Condvar",
            )
        };
        locks.iter().map(|lock| (lock.name, on_p(lock.meaning()))).collect()
    }

    #[test]
    fn a_name_means_the_same_lock_on_real_threads_and_simulated() {
        let (real, simulated) = (meanings(&all()), meanings(&crate::simulated::locks::all()));
        let both: Vec<_> = real.iter().filter(|(name, _)| simulated.contains_key(*name)).collect();
        for (name, meaning) in &both {
            assert_eq!(*meaning, &simulated[*name], "{name}");
        }
        let ours = |name: &&str| name.starts_with("fairlock:");
        let of_family = real.keys().chain(simulated.keys()).filter(|name| ours(name)).count();
        assert_eq!(of_family, 2 * both.iter().filter(|(name, _)| ours(name)).count());
        assert!(both.len() > 25, "{}", both.len());
        assert!(real["fairlock:rwlock"].contains("RawRwLock<P>"), "{}", real["fairlock:rwlock"]);
    }

    #[test]
    fn a_misspelt_lock_is_told_its_neighbour() {
        let error = find("parkinglot").err().unwrap();
        assert!(error.to_string().contains("'parking_lot'"), "{error}");
        let error = find("rwlok").err().unwrap();
        assert!(error.to_string().contains("'fairlock:rwlock'"), "{error}");
        let error = find("mutx").err().unwrap();
        assert!(error.to_string().contains("'fairlock:mutex'"), "{error}");
        assert_eq!(find("zzz").err().unwrap().code(), crate::error::USAGE);
    }

    #[cfg(not(feature = "native-peers"))]
    #[test]
    fn a_lock_of_a_feature_names_the_feature() {
        assert!(find("tbb:rw_mutex").err().unwrap().to_string().contains("native-peers"));
    }
}

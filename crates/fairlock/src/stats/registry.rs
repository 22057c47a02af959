//! All named locks of the process.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
#[cfg(all(target_os = "linux", not(miri)))]
use std::sync::TryLockError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use super::collecting::is_collecting;
use super::ongoing::Ongoing;
use super::record::Record;
use super::snapshot::Snapshot;
use super::sums::Sums;

/// By their numbers, in the order in which they were made.
type Numbered<T> = BTreeMap<u64, Arc<T>>;

static RECORDS: Mutex<Records> =
    Mutex::new(Records { live: BTreeMap::new(), gone: BTreeMap::new(), names: BTreeSet::new() });

struct Records {
    live: Numbered<Record>,
    /// What locks that are gone have counted, by their name.
    gone: BTreeMap<Box<str>, Record>,
    /// Names that are not in the program's text. They stay.
    names: BTreeSet<&'static str>,
}

/// So many names are kept of locks that are gone; beyond, they count as those of [`OTHERS`].
const GONE_NAMES: usize = 1000;
const OTHERS: &str = "(others, dropped)";

impl Records {
    /// The lock is gone.
    fn remove(&mut self, record: &Record) {
        self.live.remove(&record.number);
        let is_kept = self.gone.len() < GONE_NAMES || self.gone.contains_key(&record.name);
        let name = if is_kept { &*record.name } else { OTHERS };
        let gone = self.gone.entry(name.into()).or_insert_with(|| Record::new(0, name));
        gone.absorb(record);
    }
}

/// The same text, for ever.
pub(super) fn kept(name: &str) -> &'static str {
    let names = &mut records().names;
    if let Some(kept) = names.get(name) {
        return kept;
    }
    let kept: &'static str = Box::leak(name.into());
    names.insert(kept);
    kept
}

fn records() -> MutexGuard<'static, Records> {
    RECORDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes one more, with the number under which it is to be removed.
fn add<T>(all: &mut Numbered<T>, make: impl FnOnce(u64) -> T) -> Arc<T> {
    let number = all.last_key_value().map_or(0, |(last, _)| last + 1);
    let made = Arc::new(make(number));
    all.insert(number, Arc::clone(&made));
    made
}

/// The statistics of all named locks that were used, by name; those that were dropped count, too.
///
/// Waits that are long for [`on_long_wait`](super::on_long_wait) and have not ended are told.
///
/// It takes a lock that is otherwise taken when a named lock is used first, and when it is dropped;
/// threads that use the locks are not held up. In the child of a fork it may wait for ever if another
/// thread of the parent held that lock.
pub fn snapshot() -> Snapshot {
    let (mut sums, live) = all(records());
    // The other numbers are read without the lock.
    for record in &live {
        record.tell_long_waits();
        sums.add(&record.name, record, 1);
    }
    let mut stats = sums.stats();
    let deadlocks = Ongoing::look(&live).put(&mut stats);
    Snapshot::new(stats, deadlocks)
}

/// A record of all of them for `FAIRLOCK_PROFILE`; none in the child of a fork at which another thread had the mutex.
#[cfg(all(target_os = "linux", not(miri)))]
fn recorded() -> Option<fairlock_profile::Record> {
    let attempts = (0..100).map(|attempt| {
        if attempt > 0 {
            std::thread::sleep(core::time::Duration::from_millis(1));
        }
        match RECORDS.try_lock() {
            Ok(records) => Some(records),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    });
    let (sums, live) = all(attempts.flatten().next()?);
    Some(super::recorded::now(sums, &live))
}

/// What the locks that are gone have counted, and all others.
fn all(records: MutexGuard<'_, Records>) -> (Sums, Vec<Arc<Record>>) {
    let mut sums = Sums::new();
    for (name, gone) in &records.gone {
        sums.add(name, gone, 0);
    }
    (sums, records.live.values().cloned().collect())
}

/// The statistics that belong to one lock, once there are any. Zero bytes are none.
pub struct Statistics(AtomicPtr<Record>);

/// In place of a pointer: there never are any.
const NEVER: *mut Record = ptr::without_provenance_mut(1);

impl Statistics {
    /// None yet.
    pub const fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    pub(super) const fn never() -> Self {
        Self(AtomicPtr::new(NEVER))
    }

    /// Those that there are.
    #[inline]
    pub fn get(&self) -> Option<&Record> {
        // Acquire: as it was made.
        let record = self.0.load(Ordering::Acquire);
        // SAFETY: from `Arc::into_raw`, and `self` has that reference until it is dropped.
        (record.addr() > NEVER.addr()).then(|| unsafe { &*record })
    }

    /// Those that there are, if they are to be counted in.
    #[inline]
    pub fn collecting(&self) -> Option<&Record> {
        self.get().filter(|_| is_collecting())
    }

    /// As [`collecting`](Self::collecting); made under this name if there are none yet.
    #[inline]
    pub(super) fn get_or_make(&self, name: &str) -> Option<&Record> {
        if !is_collecting() {
            return None;
        }
        match self.get() {
            None if self.0.load(Ordering::Relaxed).is_null() => Some(self.make(name)),
            record => record,
        }
    }

    /// Those that there are, or new ones under this name.
    #[cold]
    pub fn make(&self, name: &str) -> &Record {
        let mut records = records();
        if self.get().is_none() {
            let record = add(&mut records.live, |number| Record::new(number, name));
            // Release: pairs with `get`.
            self.0.store(Arc::into_raw(record).cast_mut(), Ordering::Release);
        }
        drop(records);
        #[cfg(all(target_os = "linux", not(miri)))]
        super::file::begin(recorded);
        // SAFETY: as in `get`.
        unsafe { &*self.0.load(Ordering::Acquire) }
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        let record = *self.0.get_mut();
        if record.addr() > NEVER.addr() {
            // SAFETY: the reference that `make` kept.
            let record = unsafe { Arc::from_raw(record) };
            records().remove(&record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_forgotten_without_a_look_at_all_others() {
        let mut all = Numbered::new();
        // With a look at all others at each removal this takes many minutes.
        let count = fairlock_testing::rounds(500_000) as u64;
        for number in 0..count {
            add(&mut all, |made| assert_eq!(made, number));
        }
        // As in a `Vec` of locks.
        (1..count).for_each(|number| _ = all.remove(&number));
        add(&mut all, |made| assert_eq!(made, 1));
        assert_eq!(all.into_keys().collect::<Vec<_>>(), [0, 1]);
    }
}

//! The locks of this process, by address and by number.

use core::sync::atomic::Ordering;

use fairlock_profile::layout::{ChunkKind, ContentionEntry, LockEntry};

use super::Target;
use super::index::{Entries, Index, mix};
use super::records::Records;
use super::thread::Local;

static LOCKS: Records<LockEntry> = Records::new(ChunkKind::Locks, 256);
static CONTENTION: Records<ContentionEntry> = Records::new(ChunkKind::Contention, 16);
static INDEX: Index = Index::new();

pub(super) fn forget() {
    LOCKS.forget();
    CONTENTION.forget();
    INDEX.forget();
}

struct Addresses(usize);

impl Entries for Addresses {
    fn hash(&self, number: u32) -> u64 {
        LOCKS.get(number).map_or(0, |lock| hash(lock.address.load(Ordering::Relaxed) as usize))
    }

    fn is_it(&self, number: u32) -> bool {
        let found = LOCKS.get(number);
        found.is_some_and(|lock| lock.address.load(Ordering::Relaxed) as usize == self.0)
    }
}

fn hash(address: usize) -> u64 {
    mix(0, address as u64 >> 3)
}

/// A lock's entry; a new one if it has none, which the calling thread's stack is the first of. `None`:
/// there is no room.
pub(super) fn find(local: &Local, target: Target) -> Option<(u32, &'static LockEntry)> {
    let (number, _) =
        INDEX.find_or_add(hash(target.address), &Addresses(target.address), || {
            let (number, lock) = LOCKS.add()?;
            // Relaxed, as everything in the file: statistics.
            lock.kind.store((target.kind)(target.address), Ordering::Relaxed);
            lock.first_stack.store(local.stack(), Ordering::Relaxed);
            lock.address.store(target.address as u64, Ordering::Relaxed);
            Some(number)
        })?;
    Some((number, LOCKS.get(number)?))
}

/// One that is there.
pub(super) fn known(address: usize) -> Option<u32> {
    INDEX.find_or_add(hash(address), &Addresses(address), || None).map(|(number, _)| number)
}

pub(super) fn get(number: u32) -> Option<&'static LockEntry> {
    LOCKS.get(number)
}

/// What is known of how a lock was waited for.
pub(super) fn contention(lock: &LockEntry) -> Option<&'static ContentionEntry> {
    CONTENTION.get(lock.contention.load(Ordering::Relaxed).checked_sub(1)?)
}

/// The same, for a lock that is waited for.
pub(super) fn make_contention(number: u32, lock: &LockEntry) -> Option<&'static ContentionEntry> {
    if let Some(found) = contention(lock) {
        return Some(found);
    }
    let (new, entry) = CONTENTION.add()?;
    // Acquire and Release: whoever finds the entry finds it all zeros.
    match lock.contention.compare_exchange(0, new + 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            entry.lock.store(number + 1, Ordering::Relaxed);
            Some(entry)
        }
        // That one stays unused.
        Err(others) => CONTENTION.get(others - 1),
    }
}

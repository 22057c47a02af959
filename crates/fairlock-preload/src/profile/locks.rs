//! The locks of this process, by address and by number; and where threads have waited for one, or held it
//! meanwhile.

use core::sync::atomic::{AtomicU32, Ordering};

use fairlock_profile::layout::{ChunkKind, ContentionEntry, LockEntry, PlaceEntry, ended, kind};

use super::file::Records;
use super::{Target, file};
use crate::process::index::{Index, hash, mix};

static LOCKS: Records<LockEntry> = Records::new(ChunkKind::Locks, 32);
static CONTENTION: Records<ContentionEntry> = Records::new(ChunkKind::Contention, 1);
static INDEX: Index = Index::new(hash_of);
/// Of what nobody holds: a lock may have been at the same address.
static INDEX_OF_OTHERS: Index = Index::new(hash_of);

/// How many threads wait for what nobody holds, of all addresses that share a place.
static ASLEEP: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

pub(super) fn asleep_at(address: usize) -> &'static AtomicU32 {
    &ASLEEP[hash(address) as usize % ASLEEP.len()]
}

/// Whether no lock was taken.
pub(super) fn are_none() -> bool {
    LOCKS.len() == 0
}

pub(super) fn forget() {
    LOCKS.forget();
    CONTENTION.forget();
    INDEX.forget();
    INDEX_OF_OTHERS.forget();
    ASLEEP.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    PLACES.forget();
    INDEX_OF_PLACES.forget();
}

/// The address of an entry.
fn address(number: u32) -> Option<usize> {
    LOCKS.get(number).map(|lock| lock.address.load(Ordering::Relaxed) as usize)
}

fn hash_of(number: u32) -> u64 {
    address(number).map_or(0, hash)
}

/// The entry of a lock, or of what nobody holds. If it has none, a new one, with `stack` as its first.
/// `None` if there is no room.
pub(super) fn find(
    target: Target,
    stack: impl FnOnce() -> u32,
) -> Option<(u32, &'static LockEntry)> {
    let kind = (target.of.kind)(target.address);
    let number = number(index_of(kind), target.address, || {
        let (number, lock) = LOCKS.add()?;
        // Relaxed, as everything in the file: statistics.
        lock.kind.store(kind, Ordering::Relaxed);
        lock.first_stack.store(stack(), Ordering::Relaxed);
        lock.address.store(target.address as u64, Ordering::Relaxed);
        Some(number)
    })?;
    Some((number, LOCKS.get(number)?))
}

fn index_of(kind: u32) -> &'static Index {
    if kind::is_lock(kind) { &INDEX } else { &INDEX_OF_OTHERS }
}

/// The program has unloaded what was at these addresses: what is there from now on has entries of its own.
pub(super) fn end(is_gone: impl Fn(usize) -> bool) {
    for (number, lock) in (0..LOCKS.len()).filter_map(|number| Some((number, LOCKS.get(number)?))) {
        let address = lock.address.load(Ordering::Relaxed);
        if !is_gone(address as usize) {
            continue;
        }
        let (index, hash) = (index_of(lock.kind.load(Ordering::Relaxed)), hash(address as usize));
        let places = index.lock(hash);
        if let Some(at) = places.find(hash, |place| place == number + 1) {
            index.take_out(&places, at);
        }
        lock.address.store(ended(address), Ordering::Relaxed);
    }
}

fn number(index: &Index, wanted: usize, make: impl FnOnce() -> Option<u32>) -> Option<u32> {
    let is_it = |number| address(number) == Some(wanted);
    index.find_or_add(hash(wanted), is_it, make).map(|(number, _)| number)
}

/// The number of a lock that has an entry.
pub(super) fn known(address: usize) -> Option<u32> {
    number(&INDEX, address, || None)
}

/// The same of what nobody holds.
pub(super) fn known_other(address: usize) -> Option<u32> {
    number(&INDEX_OF_OTHERS, address, || None)
}

pub(super) fn get(number: u32) -> Option<&'static LockEntry> {
    LOCKS.get(number)
}

/// What is known of the waits for a lock; `None` if nobody has waited for it.
pub(super) fn contention(lock: &LockEntry) -> Option<&'static ContentionEntry> {
    // Acquire: a thread that finds the entry finds its zeros.
    CONTENTION.get(lock.contention.load(Ordering::Acquire).checked_sub(1)?)
}

/// As [`contention`], for a lock that is waited for: makes the entry if there is none.
pub(super) fn make_contention(number: u32, lock: &LockEntry) -> Option<&'static ContentionEntry> {
    if let Some(found) = contention(lock) {
        return Some(found);
    }
    let (new, entry) = CONTENTION.add()?;
    // Release: see `contention`.
    match lock.contention.compare_exchange(0, new + 1, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            entry.lock.store(number + 1, Ordering::Release);
            Some(entry)
        }
        Err(others) => {
            entry.lock.store(NEVER, Ordering::Release);
            CONTENTION.get(others - 1)
        }
    }
}

/// The place of an entry: see [`Cell::contended`](fairlock_profile::layout::Cell::contended).
pub(super) fn place_of(entry: &'static ContentionEntry) -> u32 {
    (file::offset(entry) / align_of::<ContentionEntry>()) as u32
}

/// The entry at a place.
#[inline(always)]
pub(super) fn contention_at(place: u32) -> &'static ContentionEntry {
    file::at(place as usize * align_of::<ContentionEntry>())
}

/// In [`ContentionEntry::lock`]: the entry is not used, as another thread was faster.
const NEVER: u32 = u32::MAX;

/// How many locks have been waited for.
#[inline(always)]
pub(super) fn contended() -> u32 {
    CONTENTION.len()
}

/// Calls `f` with the address of each of them, from number `seen` on, but for what nobody holds.
/// Returns where to go on the next time.
pub(super) fn contended_since(
    seen: u32,
    mut f: impl FnMut(usize, &'static ContentionEntry),
) -> u32 {
    let end = contended();
    for number in seen..end {
        // The entry is in the making.
        let Some(found) = CONTENTION.get(number) else { return number };
        // Acquire: the lock's entry refers to it.
        match found.lock.load(Ordering::Acquire) {
            0 => return number,
            NEVER => {}
            lock => {
                let is_lock = |it: &&LockEntry| kind::is_lock(it.kind.load(Ordering::Relaxed));
                if let Some(lock) = get(lock - 1).filter(is_lock) {
                    f(lock.address.load(Ordering::Relaxed) as usize, found);
                }
            }
        }
    }
    end
}

static PLACES: Records<PlaceEntry> = Records::new(ChunkKind::Places, 16);
static INDEX_OF_PLACES: Index = Index::new(|number| place(number).map_or(0, hash_of_place));

/// A lock's number plus one, a stack, and in which way the lock was waited for or held there.
type Place = [u32; 3];

fn parts(place: &PlaceEntry) -> [&AtomicU32; 3] {
    [&place.lock, &place.stack, &place.side]
}

fn place(number: u32) -> Option<Place> {
    PLACES.get(number).map(|place| parts(place).map(|part| part.load(Ordering::Relaxed)))
}

pub(super) fn hash_of_place(place: Place) -> u64 {
    place.iter().fold(0, |hash, &part| mix(hash, part.into()))
}

/// The entry that counts at this place.
pub(super) fn find_place(wanted: Place) -> Option<&'static PlaceEntry> {
    let is_it = |number| place(number) == Some(wanted);
    let found = INDEX_OF_PLACES.find_or_add(hash_of_place(wanted), is_it, || {
        let (number, new) = PLACES.add()?;
        parts(new)
            .iter()
            .zip(wanted)
            .for_each(|(part, value)| part.store(value, Ordering::Relaxed));
        Some(number)
    });
    found.and_then(|(number, _)| PLACES.get(number))
}

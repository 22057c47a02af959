//! Which address has which inflated lock.
//!
//! Looked up when a lock is inflated or destroyed, never to use one: its head has the number of its
//! slot.

#[cfg(test)]
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

use fairlock::platform::System;
use fairlock::platform::linux::Linux;

use crate::process::config::{self, Kind, Mode};
use crate::process::fork;
use crate::process::mutex::{Guard, Mutex};
use crate::process::pool::{Pool, Pooled};
use crate::process::table::{Chunks, spread, spread_over};
use crate::slot::Slots;
use crate::thread::{self, Preload, Recorded};

pub(crate) type Slot = crate::slot::Slot<Preload>;
pub(crate) type Head = crate::head::Head<Preload, Registered>;

/// The slots of this process.
pub(crate) struct Registered;

impl Slots<Preload> for Registered {
    #[inline(always)]
    fn get(number: u32) -> Option<&'static Slot> {
        SLOTS.get(number)
    }

    #[cold]
    fn settle(slot: &'static Slot) {
        here(slot); // whoever was in doubt may be in the parent
        nap();
    }
}

impl Pooled for Slot {
    fn next(&self) -> &AtomicU32 {
        &self.next
    }
}

static SLOTS: Pool<Slot> = Pool::new();
/// Each table has a mutex of its own.
static TABLES: [Table; 64] = [const { Table::new() }; 64];

fn table(address: usize) -> &'static Table {
    &TABLES[spread_over(address, TABLES.len())]
}

/// The slot of the lock at `address`, whose head and kind are given. If the lock was thin, the slot
/// has its holders. `None` if there is no memory for a slot.
#[cold]
pub(crate) fn inflate(head: &Head, address: usize, kind: Kind) -> Option<&'static Slot> {
    let _record = Recorded::begin();
    if SLOTS.is_drained() && config::mode() != Mode::Stats {
        sweep();
    }
    let table = table(address);
    let guard = table.lock();
    if let Some(slot) = head.slot(address) {
        return Some(slot);
    }
    let slot = table.find(&guard, address).filter(|slot| recover(slot));
    let slot = slot.inspect(|slot| slot.assign(address)).or_else(|| {
        table.remove(&guard, address);
        let new = |number| Slot::new(config::policy(), fork::number(), number);
        let slot = here(SLOTS.take(new)?);
        if config::mode() == Mode::Stats {
            slot.sem().set_events(Some(&slot.stats.events));
        }
        slot.assign(address);
        table.insert(&guard, slot);
        Some(slot)
    })?;
    slot.stats.destroyed.store(false, Ordering::Relaxed);
    slot.stats.kind.store(kind as u8, Ordering::Relaxed);
    // Nobody else inflates this lock while this thread has the table's mutex.
    Some(head.inflate(address, slot).err().unwrap_or(slot))
}

/// Called before a slot is made: takes away some slots whose locks are idle, and were not used
/// between the last two looks. The next ones in line are looked at when the next slot is made, so
/// there are never many more slots than are in use.
fn sweep() {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    /// How many slots are looked at. In slots; compared with those there are.
    const LOOKS: u32 = 8;
    for _ in 0..LOOKS.min(SLOTS.len()) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS.len();
        if let Some(slot) = SLOTS.get(number)
            && slot.address() != 0
            && !slot.was_used()
        {
            reclaim(slot);
        }
    }
}

/// Takes a slot away from its lock, if the lock is idle: the word that names the slot is stray
/// then.
fn reclaim(slot: &'static Slot) {
    let address = slot.address();
    let table = table(address);
    let guard = table.lock();
    // A slot stays its lock's while the mutex of its table is held.
    if address == 0 || slot.address() != address || !here(slot).is_idle() {
        return;
    }
    slot.doubt();
    // A thread that uses the slot and did not see the doubt is seen here. A holder need not be in a
    // call; a thread that has just released the lock may be busy in its queue, which does no harm.
    if thread::is_used(slot.number) || !slot.is_idle() {
        return slot.confirm();
    }
    table.remove(&guard, address);
    SLOTS.give(slot.number, slot);
}

/// The program destroys the lock at `address`, which is inflated: it becomes thin, and free.
#[cold]
pub(crate) fn retire(head: &Head, address: usize) {
    let _record = Recorded::begin();
    let table = table(address);
    let guard = table.lock();
    if config::mode() == Mode::Stats {
        // The counts are kept for the report; the next lock at the address adds to them.
        if let Some(slot) = table.find(&guard, address) {
            slot.stats.destroyed.store(true, Ordering::Relaxed);
        }
    } else if let Some(slot) = table.remove(&guard, address)
        && recover(slot)
    {
        SLOTS.give(slot.number, slot);
    }
    head.clear();
}

/// The slot, fit for use in this process.
#[inline(always)]
pub(crate) fn here(slot: &'static Slot) -> &'static Slot {
    let process = fork::number();
    if !slot.is_of_process(process) {
        slot.enter_process(process, nap);
    }
    slot
}

/// Lets others go on, whatever their priority. Not by one of libc's ways to sleep: those are
/// cancellation points, and locking is none.
pub(crate) fn nap() {
    /// In ns; compared with nothing: it is the length of a sleep.
    const NAP_NS: u64 = 50_000;
    Linux::wait(&AtomicU32::new(0), 0, Some(Preload::now() + NAP_NS), false);
}

/// Makes a slot fit for the next lock, if its last one is gone. Not if a thread still waits for
/// that, against all rules: it would wait for the next lock.
fn recover(slot: &'static Slot) -> bool {
    let slot = here(slot);
    if slot.sem().has_waiters() {
        return false;
    }
    if slot.sem().is_locked() {
        // SAFETY: their lock is gone, and nobody waits.
        unsafe { slot.sem().forget_holders() };
    }
    true
}

/// All slots that have locks, for the report.
pub(crate) fn assigned() -> impl Iterator<Item = &'static Slot> {
    // SAFETY: a slot that is not made yet is zeros, so no lock's; slots are never freed.
    SLOTS.places().filter(|&slot| unsafe { Slot::is_assigned(slot) }).map(|slot| unsafe { &*slot })
}

/// How many buckets a table has at first.
const BUCKETS: u32 = 64;

/// The slots of locks by address, for a part of the addresses: lists, linked by their `next`. A slot is in a list exactly while it has the address of
/// a lock, or of one that was given up without `destroy`. A fork finds each list whole. If a thread
/// was just splitting a bucket, the child may not find what was in it, and gives those locks other
/// slots.
///
/// Linear hashing: for each slot beyond the number of buckets, one bucket is split in two. So the
/// table grows without being copied, and nobody waits for that.
struct Table {
    mutex: Mutex,
    slots: AtomicU32,
    buckets: AtomicU32,
    /// For each bucket the number of its first slot, plus one; zero at the end.
    first: [AtomicU32; BUCKETS as usize],
    more: Chunks<AtomicU32>,
}

// Relaxed throughout: used under the mutex.
impl Table {
    const fn new() -> Self {
        Self {
            mutex: Mutex::new(),
            slots: AtomicU32::new(0),
            buckets: AtomicU32::new(BUCKETS),
            first: [const { AtomicU32::new(0) }; BUCKETS as usize],
            more: Chunks::new(),
        }
    }

    fn lock(&self) -> Guard<'_> {
        self.mutex.lock()
    }

    fn find(&self, _guard: &Guard<'_>, address: usize) -> Option<&'static Slot> {
        let mut next = self.bucket_of(address);
        while let Some(slot) = follow(next) {
            if slot.address() == address {
                return Some(slot);
            }
            next = &slot.next;
        }
        None
    }

    /// Adds a slot, which has its address already.
    fn insert(&self, _guard: &Guard<'_>, slot: &'static Slot) {
        push(self.bucket_of(slot.address()), slot);
        let slots = self.slots.load(Ordering::Relaxed) + 1;
        self.slots.store(slots, Ordering::Relaxed);
        if slots > self.buckets.load(Ordering::Relaxed) {
            self.split();
        }
    }

    /// Removes the slot of the address, if there is one: it is nobody's then.
    fn remove(&self, _guard: &Guard<'_>, address: usize) -> Option<&'static Slot> {
        let mut link = self.bucket_of(address);
        while let Some(slot) = follow(link) {
            if slot.address() == address {
                link.store(slot.next.load(Ordering::Relaxed), Ordering::Relaxed);
                slot.retire();
                self.slots.fetch_sub(1, Ordering::Relaxed);
                return Some(slot);
            }
            link = &slot.next;
        }
        None
    }

    /// Adds a bucket, for half of what is in another one. Without memory the table stays as it is.
    fn split(&self) {
        let new = self.buckets.load(Ordering::Relaxed);
        let half = 1 << new.ilog2();
        let Some(bucket) = self.more.make(new - BUCKETS) else { return };
        let mut link = self.at(new - half);
        while let Some(slot) = follow(link) {
            if hash(slot.address()) & (2 * half - 1) == new {
                link.store(slot.next.load(Ordering::Relaxed), Ordering::Relaxed);
                // SAFETY: made above.
                push(unsafe { &*bucket }, slot);
            } else {
                link = &slot.next;
            }
        }
        self.buckets.store(new + 1, Ordering::Relaxed);
    }

    fn bucket_of(&self, address: usize) -> &AtomicU32 {
        let buckets = self.buckets.load(Ordering::Relaxed);
        let half = 1 << buckets.ilog2();
        let index = hash(address) & (2 * half - 1);
        self.at(if index < buckets { index } else { index & (half - 1) })
    }

    /// One of the buckets.
    fn at(&self, index: u32) -> &AtomicU32 {
        match index.checked_sub(BUCKETS) {
            None => &self.first[index as usize],
            // SAFETY: `split` has made it, as there are so many buckets.
            Some(more) => unsafe { &*self.more.get(more) },
        }
    }

    #[cfg(test)]
    fn longest(&self) -> usize {
        let of = |index| {
            let first = follow(self.at(index));
            core::iter::successors(first, |slot| follow(&slot.next)).count()
        };
        (0..self.buckets.load(Ordering::Relaxed)).map(of).max().unwrap()
    }
}

fn push(bucket: &AtomicU32, slot: &'static Slot) {
    slot.next.store(bucket.load(Ordering::Relaxed), Ordering::Relaxed);
    bucket.store(slot.number + 1, Ordering::Relaxed);
}

fn follow(link: &AtomicU32) -> Option<&'static Slot> {
    SLOTS.get(link.load(Ordering::Relaxed).checked_sub(1)?)
}

fn hash(address: usize) -> u32 {
    // Without the bits that choose the table.
    (spread(address) >> 16) as u32 & (u32::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock's head, at its address.
    fn heads(count: usize) -> Vec<Head> {
        // SAFETY: an atomic word of zero.
        (0..count).map(|_| unsafe { core::mem::zeroed() }).collect()
    }

    fn address(head: &Head) -> usize {
        ptr::from_ref(head) as usize
    }

    #[test]
    fn a_lock_is_inflated_once_with_whoever_is_inside() {
        let head = &heads(1)[0];
        assert!(head.read_at_once() && head.read_at_once());
        let slot = inflate(head, address(head), Kind::Rwlock).unwrap();
        assert_eq!(slot.sem().snapshot().readers, 2);
        assert!(ptr::eq(slot, inflate(head, address(head), Kind::Rwlock).unwrap()));
        assert_eq!(slot.sem().snapshot().readers, 2);
    }

    #[test]
    fn an_abandoned_lock_leaves_its_slot_to_the_next_at_its_address() {
        let head = &heads(1)[0];
        let slot = inflate(head, address(head), Kind::Rwlock).unwrap();
        slot.sem().write();
        head.clear(); // the program uses its memory for another lock
        assert!(head.write_at_once());
        assert!(ptr::eq(slot, inflate(head, address(head), Kind::Rwlock).unwrap()));
        assert!(slot.sem().is_write_locked());
        head.clear();
        assert!(ptr::eq(slot, inflate(head, address(head), Kind::Rwlock).unwrap()));
        assert!(!slot.sem().is_locked());
    }

    #[test]
    fn a_slot_is_used_again_after_destroy() {
        fairlock_testing::alone(|| {
            let heads = heads(2000);
            let mut slots = std::collections::HashSet::new();
            for head in &heads {
                slots.insert(ptr::from_ref(inflate(head, address(head), Kind::Rwlock).unwrap()));
                retire(head, address(head));
                assert!(head.slot(address(head)).is_none() && head.write_at_once());
            }
            assert_eq!(slots.len(), 1);
        });
    }

    #[test]
    fn a_copy_of_a_lock_is_another_lock() {
        let heads = heads(2);
        let slot = inflate(&heads[0], address(&heads[0]), Kind::Rwlock).unwrap();
        // SAFETY: atomic words; a program that copies the structure does the same.
        unsafe {
            ptr::copy(&raw const heads[0], (&raw const heads[1]).cast_mut(), 1);
        }
        assert!(heads[1].slot(address(&heads[1])).is_none());
        slot.sem().write();
        assert!(matches!(heads[1].write(address(&heads[1])), crate::head::Entry::Entered));
    }

    /// Lists stay short however many locks there are, and at whatever distances.
    #[test]
    fn lists_stay_short() {
        fairlock_testing::alone(|| {
            for distance in [56, 64, 4096] {
                let table = Table::new();
                let addresses = || (1..=10_000).map(|place| place * distance);
                for address in addresses() {
                    let new = |number| Slot::new(config::policy(), fork::number(), number);
                    let slot = SLOTS.take(new).unwrap();
                    slot.assign(address);
                    table.insert(&table.lock(), slot);
                }
                assert!(table.longest() <= 8, "{}", table.longest());
                for address in addresses() {
                    let guard = table.lock();
                    assert_eq!(table.find(&guard, address).unwrap().address(), address);
                    let slot = table.remove(&guard, address).unwrap();
                    assert!(table.find(&guard, address).is_none());
                    SLOTS.give(slot.number, slot);
                }
            }
        });
    }
}

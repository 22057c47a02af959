//! Which address has which inflated lock.
//!
//! Looked up when a lock is inflated or destroyed, never to use one: its head has the number of its
//! slot.

#[cfg(test)]
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fairlock::pool::Pooled;
use fairlock::wait;

use crate::process::config::{self, Kind, Mode};
use crate::process::fork;
use crate::process::index::{Index, Locked, hash};
use crate::process::memory::{Pool, item};
use crate::process::mutex::Mutex;
use crate::slot::Slots;
use crate::thread::{self, Preload, Recorded};

pub(crate) type Slot = crate::slot::Slot<Preload>;
pub(crate) type Head = crate::head::Head<Preload, Registered>;

/// The slots of this process.
pub(crate) struct Registered;

impl Slots<Preload> for Registered {
    #[inline(always)]
    fn get(number: u32) -> Option<&'static Slot> {
        item(&SLOTS, number)
    }

    #[cold]
    fn settle(slot: &'static Slot) {
        here(slot); // whoever was in doubt may be in the parent
        nap();
    }
}

impl Pooled for Slot {
    type Link = AtomicU32;

    fn link(&self) -> (u32, &AtomicU32) {
        (self.number, &self.next)
    }
}

// SAFETY: zero; `link` has what `make` was told, and an atomic that is for the pool.
static SLOTS: Pool<Slot> = unsafe { Pool::new(AtomicU64::new(0)) };
/// The slots of locks by address. A slot is there exactly while it has the address of a lock, or of one that
/// was given up without `destroy`. If a thread is just making a table larger, the child of a fork may not find
/// what is in it, and gives those locks other slots.
static BY_ADDRESS: Index<16> =
    Index::new(|number| hash(item(&SLOTS, number).map_or(0, Slot::address)));

/// The slots of some addresses, this one among them. A slot stays its lock's meanwhile.
fn lock(address: usize) -> Locked<'static> {
    BY_ADDRESS.lock(hash(address))
}

/// The slot of the address.
fn find(slots: &Locked<'_>, address: usize) -> Option<&'static Slot> {
    place(slots, address).and_then(|at| item(&SLOTS, slots.get(at) - 1))
}

fn place(slots: &Locked<'_>, address: usize) -> Option<usize> {
    let is_it = |slot: &Slot| slot.address() == address;
    slots.find(hash(address), |number| item(&SLOTS, number - 1).is_some_and(is_it))
}

/// Takes the slot away from the address, if it has one: it is nobody's then.
fn remove(slots: &Locked<'_>, address: usize) -> Option<&'static Slot> {
    let at = place(slots, address)?;
    let slot = item(&SLOTS, slots.get(at) - 1)?;
    BY_ADDRESS.take_out(slots, at);
    slot.retire();
    Some(slot)
}

/// The slot of the lock at `address`, whose head and kind are given. If the lock was thin, the slot
/// has its holders. `None` if there is no memory for a slot.
#[cold]
pub(crate) fn inflate(head: &Head, address: usize, kind: Kind) -> Option<&'static Slot> {
    let _record = Recorded::begin();
    if SLOTS.is_drained() && config::mode() != Mode::Stats {
        sweep();
    }
    let slots = lock(address);
    if let Some(slot) = head.slot(address) {
        return Some(slot);
    }
    let slot = find(&slots, address).filter(|slot| recover(slot));
    let slot = slot.inspect(|slot| slot.assign(address)).or_else(|| {
        remove(&slots, address);
        if !BY_ADDRESS.make_room(&slots) {
            return None;
        }
        let new = |number| Slot::new(config::POLICY, fork::number(), number);
        let slot = here(SLOTS.take().or_else(|| SLOTS.make(new))?);
        if !slot.sem().begins() {
            // SAFETY: as in `reclaim`.
            unsafe { SLOTS.give(slot) };
            return None;
        }
        if config::mode() == Mode::Stats {
            slot.sem().set_events(Some(&slot.stats.events));
        }
        slot.assign(address);
        slots.add(hash(address), slot.number + 1);
        Some(slot)
    })?;
    slot.stats.destroyed.store(false, Ordering::Relaxed);
    slot.stats.kind.store(kind as u8, Ordering::Relaxed);
    // Nobody else inflates this lock meanwhile.
    Some(head.inflate(address, slot).err().unwrap_or(slot))
}

/// Called before a slot is made: takes away some slots whose locks are idle, and were not used
/// between the last two looks. The next ones in line are looked at when the next slot is made, so
/// there are never many more slots than are in use.
fn sweep() {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    /// How many slots are looked at. In slots; compared with those there are.
    const LOOKS: u32 = 8;
    for _ in 0..LOOKS.min(SLOTS.made()) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS.made();
        if let Some(slot) = item(&SLOTS, number)
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
    let slots = lock(address);
    if address == 0 || slot.address() != address || !(here(slot).name().is_some() || slot.is_idle())
    {
        return;
    }
    // Whoever is inside is counted then.
    slot.settle();
    slot.doubt();
    // A thread that uses the slot and did not see the doubt is seen here. A holder need not be in a
    // call; a thread that has just released the lock may be busy in its queue, which does no harm.
    if thread::is_used(slot.number) || !slot.is_idle() {
        return slot.confirm();
    }
    remove(&slots, address);
    // SAFETY: from the pool; it was removed from the index, and no lock has it any more.
    unsafe { SLOTS.give(slot) };
}

/// The program destroys the lock at `address`, which is inflated: it becomes thin, and free.
#[cold]
pub(crate) fn retire(head: &Head, address: usize) {
    let _record = Recorded::begin();
    let slots = lock(address);
    if config::mode() == Mode::Stats {
        // The counts are kept for the report; the next lock at the address adds to them.
        if let Some(slot) = find(&slots, address) {
            slot.stats.destroyed.store(true, Ordering::Relaxed);
        }
    } else if let Some(slot) = remove(&slots, address)
        && recover(slot)
    {
        // SAFETY: as in `reclaim`.
        unsafe { SLOTS.give(slot) };
    }
    head.clear();
}

/// The slot, fit for use in this process.
#[inline(always)]
pub(crate) fn here(slot: &'static Slot) -> &'static Slot {
    let process = fork::number();
    if !slot.is_of_process(process) {
        bring(slot, process);
    }
    slot
}

#[cold]
fn bring(slot: &'static Slot, process: u32) {
    static BRINGING: Mutex = Mutex::new();
    let _guard = BRINGING.lock();
    if !slot.is_of_process(process) {
        slot.enter_child();
        // SAFETY: so nobody has used it here, and all threads that do come here first.
        unsafe { slot.enter_process(process) };
    }
}

/// Lets others go on, whatever their priority. Not by one of libc's ways to sleep: those are
/// cancellation points, and locking is none.
pub(crate) fn nap() {
    wait::nap::<Preload>();
}

/// Makes a slot fit for the next lock, if its last one is gone. Not if a thread still waits for
/// that, against all rules: it would wait for the next lock.
fn recover(slot: &'static Slot) -> bool {
    let slot = here(slot);
    if slot.sem().has_waiters() {
        return false;
    }
    slot.forget_shown();
    if slot.sem().is_locked() {
        // SAFETY: their lock is gone, and nobody waits.
        unsafe { slot.sem().forget_holders() };
    }
    true
}

/// All slots that have locks, for the report.
pub(crate) fn assigned() -> impl Iterator<Item = &'static Slot> {
    // A slot that is not made yet is zeros, so no lock's.
    (0..SLOTS.made()).filter_map(|number| item(&SLOTS, number)).filter(|slot| slot.is_assigned())
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
        assert!(head.read_fast() && head.read_fast());
        let slot = inflate(head, address(head), Kind::Rwlock).unwrap();
        assert_eq!(slot.sem().snapshot().readers, 2);
        assert!(ptr::eq(slot, inflate(head, address(head), Kind::Rwlock).unwrap()));
        assert_eq!(slot.sem().snapshot().readers, 2);
    }

    #[test]
    fn an_abandoned_lock_leaves_its_slot_to_the_next_at_its_address() {
        // Alone: others take away the slots of idle locks.
        fairlock_testing::alone(|| {
            let head = &heads(1)[0];
            let slot = inflate(head, address(head), Kind::Rwlock).unwrap();
            slot.sem().write();
            head.clear(); // the program uses its memory for another lock
            assert!(head.write_fast());
            assert!(ptr::eq(slot, inflate(head, address(head), Kind::Rwlock).unwrap()));
            assert!(slot.sem().is_write_locked());
            head.clear();
            assert!(ptr::eq(slot, inflate(head, address(head), Kind::Rwlock).unwrap()));
            assert!(!slot.sem().is_locked());
        });
    }

    #[test]
    fn a_slot_is_used_again_after_destroy() {
        fairlock_testing::alone(|| {
            let heads = heads(2000);
            let mut slots = std::collections::HashSet::new();
            for head in &heads {
                slots.insert(ptr::from_ref(inflate(head, address(head), Kind::Rwlock).unwrap()));
                retire(head, address(head));
                assert!(head.slot(address(head)).is_none() && head.write_fast());
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
}

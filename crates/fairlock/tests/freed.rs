//! A lock's next owner may free it although the release that let it in has not returned yet.

use std::cell::UnsafeCell;
use std::thread;

use fairlock::lock_api::{GuardSend, RawMutex as _, RawRwLock as _};
use fairlock::platform::Native;
use fairlock::rwsem::RwSem;
use fairlock::ticket::{Adaptive, BatchSize, Fixed, TicketLock};
use fairlock::{Policy, RawMutex, RawRwLock};
use fairlock_testing::rounds;

const OWNERS: usize = 3;

/// A lock, and how many of its owners are still to come.
struct Owned<L> {
    lock: L,
    left: UnsafeCell<usize>,
}

/// Not an address: of a pointer that was one Miri knows less.
struct Pointer<L>(*mut Owned<L>);

// SAFETY: who uses it says why.
unsafe impl<L> Send for Pointer<L> {}

impl<L> Clone for Pointer<L> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

/// Takes the lock, releases it, and frees it if it was the last one to do so.
fn own<L>(owned: Pointer<L>, acquire: fn(&L), release: fn(&L)) {
    let Pointer(owned) = owned;
    // SAFETY: the last owner frees it, and this one is still to come. `left` is used with the
    // lock held.
    let is_last = unsafe {
        acquire(&(*owned).lock);
        *(*owned).left.get() -= 1;
        let is_last = *(*owned).left.get() == 0;
        release(&(*owned).lock);
        is_last
    };
    if is_last {
        // SAFETY: from a box; all others have had the lock before.
        drop(unsafe { Box::from_raw(owned) });
    }
}

/// Threads that take the lock once each; the last of them frees it, right after its release.
fn last_owner_frees<L: 'static>(make: impl Fn() -> L, acquire: fn(&L), release: fn(&L)) {
    for _ in 0..rounds(2_000) {
        let owned = Owned { lock: make(), left: UnsafeCell::new(OWNERS) };
        let owned = Pointer(Box::into_raw(Box::new(owned)));
        let owners = [(); OWNERS].map(|()| {
            let owned = owned.clone();
            thread::spawn(move || own(owned, acquire, release))
        });
        owners.into_iter().for_each(|owner| owner.join().unwrap());
    }
}

fn ticket_lock<S: BatchSize + 'static>() {
    // SAFETY: its owner's.
    let release = |lock: &TicketLock<Native, S>| unsafe { lock.unlock() };
    last_owner_frees(TicketLock::new, TicketLock::lock, release);
}

#[test]
fn a_ticket_lock_is_freed_by_its_last_owner() {
    ticket_lock::<Fixed<1>>();
    ticket_lock::<Fixed<8>>();
    ticket_lock::<Adaptive<65_536>>();
}

#[test]
fn a_mutex_is_freed_by_its_last_owner() {
    // SAFETY: its owner's.
    let release = |lock: &RawMutex| unsafe { lock.unlock(GuardSend::new()) };
    last_owner_frees(|| RawMutex::INIT, |lock| _ = lock.lock(), release);
}

#[test]
fn a_lock_held_for_writing_is_freed_by_its_last_owner() {
    // SAFETY: its owner's.
    let release = |lock: &RwSem<Native>| unsafe { lock.unlock_write() };
    last_owner_frees(|| RwSem::with_policy(Policy::DEFAULT), RwSem::write, release);
    // SAFETY: its owner's.
    let release = |lock: &RawRwLock| unsafe { lock.unlock_exclusive(GuardSend::new()) };
    last_owner_frees(|| RawRwLock::INIT, |lock| _ = lock.lock_exclusive(), release);
}

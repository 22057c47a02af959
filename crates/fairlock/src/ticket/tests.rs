//! Tests that have to look inside the lock: how often a waiter is overtaken, tickets near the wrap,
//! memory freed at once.

use std::cell::UnsafeCell;
use std::sync::Mutex;
use std::time::Duration;

use fairlock_testing::{rounds, scope, until};

use super::{Adaptive, BatchSize, Fixed, Served, TicketLock};
use crate::platform::Native;
use crate::platform::portable::Portable;

/// Tickets are modulo this.
const TICKETS: u32 = 1 << 22;

/// A small generator, so that a run can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

/// What `lock` guards: every service, in order.
struct Audited<S: BatchSize> {
    lock: TicketLock<Native, S>,
    services: UnsafeCell<Vec<Served>>,
}

// SAFETY: `services` is touched under `lock`.
unsafe impl<S: BatchSize> Sync for Audited<S> {}

/// Runs `threads` threads with sections of random length, which sometimes
/// sleep or yield, and returns the services.
fn services<S: BatchSize>(threads: u64, sections: usize, first: u32) -> Vec<Served> {
    let sections = rounds(sections);
    let audited =
        Audited { lock: TicketLock::<Native, S>::after(first), services: UnsafeCell::new(vec![]) };
    let shared = &audited;
    scope(|s| {
        for thread in 0..threads {
            s.spawn(move || {
                let mut random = Random(thread + 1);
                for _ in 0..sections {
                    shared.lock.lock_with_backoff();
                    // SAFETY: the lock is held.
                    unsafe { (*shared.services.get()).push(shared.lock.served()) };
                    match random.next(200) {
                        0 => std::thread::sleep(Duration::from_micros(random.next(200))),
                        1..10 => std::thread::yield_now(),
                        n => (0..n).for_each(|_| core::hint::spin_loop()),
                    }
                    // SAFETY: the lock is held.
                    unsafe { shared.lock.unlock() };
                    (0..random.next(100)).for_each(|_| core::hint::spin_loop());
                }
            });
        }
    });
    let services = audited.services.into_inner();
    assert_eq!(services.len(), threads as usize * sections);
    services
}

/// The largest number of later tickets that were served before one ticket.
/// Checks that each ticket was served once.
fn most_overtaken(services: &[Served]) -> usize {
    let mut most = 0;
    let mut rest = services;
    while let Some(first) = rest.first() {
        // Nobody takes the lock without a ticket while somebody has one.
        assert!(rest.len() == services.len() || first.head == 0, "overtaken without a ticket");
        // Tickets start again when the lock falls idle.
        let len = rest
            .windows(2)
            .position(|pair| pair[1].head != (pair[0].head + 1) % TICKETS)
            .map_or(rest.len(), |last| last + 1);
        let (run, next) = rest.split_at(len);
        rest = next;
        let mut served = vec![false; len];
        // All below `done` have been served.
        let mut done = 0;
        for (before, service) in run.iter().enumerate() {
            let ticket = (service.ticket.wrapping_sub(first.head) % TICKETS) as usize;
            assert!(!std::mem::replace(&mut served[ticket], true), "served twice");
            let earlier =
                done.min(ticket) + served[done.min(ticket)..ticket].iter().filter(|s| **s).count();
            most = most.max(before - earlier);
            while served.get(done) == Some(&true) {
                done += 1;
            }
        }
        assert_eq!(done, len, "a ticket was left out");
    }
    most
}

fn overtaken_by_less_than_a_batch<S: BatchSize>() {
    overtaken_by_less_than_a_batch_in::<S>(2_000);
}

/// More threads than run at once.
const THREADS: u64 = if cfg!(miri) { 3 } else { 12 };

/// Runs that many threads of this many sections each.
fn overtaken_by_less_than_a_batch_in<S: BatchSize>(sections: usize) {
    for first in [0, TICKETS - 1_000] {
        let most = most_overtaken(&services::<S>(THREADS, sections, first));
        assert!(most < S::MAX as usize, "overtaken by {most} with batches of {}", S::MAX);
    }
}

#[test]
fn nobody_is_overtaken_by_a_batch_of_1() {
    overtaken_by_less_than_a_batch::<Fixed<1>>();
}

#[test]
fn nobody_is_overtaken_by_a_batch_of_2() {
    overtaken_by_less_than_a_batch::<Fixed<2>>();
}

#[test]
fn nobody_is_overtaken_by_a_batch_of_4() {
    overtaken_by_less_than_a_batch::<Fixed<4>>();
}

#[test]
fn nobody_is_overtaken_by_a_batch_of_8() {
    overtaken_by_less_than_a_batch::<Fixed<8>>();
}

#[test]
fn nobody_is_overtaken_by_a_batch_of_64() {
    overtaken_by_less_than_a_batch::<Fixed<64>>();
}

#[test]
fn nobody_is_overtaken_by_the_largest_adaptive_batch() {
    overtaken_by_less_than_a_batch::<Adaptive<16>>();
    overtaken_by_less_than_a_batch::<Adaptive<4096>>();
}

/// The default's batch. There are more sections than the batch has tickets, or no overtaking would
/// be found.
#[test]
fn nobody_is_overtaken_by_the_default_adaptive_batch() {
    overtaken_by_less_than_a_batch_in::<Adaptive<65_536>>(8_000);
}

/// The negative control: the count finds a lock whose batches are larger than
/// the bound that it is held to.
#[test]
fn the_count_finds_a_lock_that_overtakes_too_often() {
    until(|| most_overtaken(&services::<Fixed<64>>(12, 500, 0)) >= Fixed::<8>::MAX as usize);
}

/// Tickets start this close to the wrap, so that it happens within the run.
#[test]
fn tickets_wrap_under_load() {
    for first in [TICKETS - 1, TICKETS - 3, TICKETS - 64] {
        most_overtaken(&services::<Fixed<1>>(4, 500, first));
        most_overtaken(&services::<Fixed<8>>(8, 500, first));
        most_overtaken(&services::<Adaptive<64>>(8, 500, first));
    }
}

/// The last thread overwrites the lock's memory at once. A late write by the releaser before it
/// would show in the pattern.
#[test]
fn nothing_writes_to_the_lock_after_its_last_release() {
    const PATTERN: u8 = 0x5a;
    const SIZE: usize = size_of::<(TicketLock<Native, Fixed<1>>, UnsafeCell<u32>)>();
    const THREADS: u32 = 4;
    fn use_once(lock: usize) {
        let lock = lock as *mut (TicketLock<Native, Fixed<1>>, UnsafeCell<u32>);
        // SAFETY: alive until the last of the threads has been here.
        let shared = unsafe { &*lock };
        shared.0.lock();
        // SAFETY: the lock is held.
        let last = unsafe {
            *shared.1.get() += 1;
            *shared.1.get() == THREADS
        };
        if !last {
            // Long enough for the others to park.
            std::thread::sleep(Duration::from_micros(60));
        }
        // SAFETY: the lock is held.
        unsafe { shared.0.unlock() };
        if last {
            // SAFETY: nobody else may touch it any more.
            unsafe { lock.cast::<u8>().write_bytes(PATTERN, SIZE) };
        }
    }
    for _ in 0..rounds(300) {
        let lock =
            Box::into_raw(Box::new((TicketLock::<Native, Fixed<1>>::new(), UnsafeCell::new(0u32))));
        let address = lock as usize;
        scope(|s| {
            for _ in 0..THREADS {
                s.spawn(move || use_once(address));
            }
        });
        // SAFETY: all threads are done; the memory was allocated with this
        // layout, and what it holds needs no drop.
        unsafe {
            let bytes = std::slice::from_raw_parts(lock.cast::<u8>(), SIZE);
            assert!(bytes.iter().all(|byte| *byte == PATTERN));
            drop(Box::from_raw(lock.cast::<std::mem::MaybeUninit<(TicketLock<Native, Fixed<1>>, UnsafeCell<u32>)>>()));
        }
    }
}

/// The same lock on the platform that has only the standard library.
#[test]
fn excludes_on_the_portable_platform() {
    let lock = TicketLock::<Portable, Fixed<4>>::new();
    let (lock, total) = (&lock, &Mutex::new(0));
    scope(|s| {
        for _ in 0..8 {
            s.spawn(move || {
                for _ in 0..rounds(500) {
                    lock.lock();
                    *total.try_lock().expect("nobody else is inside") += 1;
                    // SAFETY: the lock is held.
                    unsafe { lock.unlock() };
                }
            });
        }
    });
    assert_eq!(*total.lock().unwrap(), 8 * rounds(500));
}

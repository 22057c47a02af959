//! A mutex of two bits whose waiters queue and park elsewhere, in a bucket, as in WebKit's lock and
//! `parking_lot`. After their descriptions. A bucket here is of one lock: there, locks whose
//! addresses collide share one.

use core::sync::atomic::Ordering;
use std::collections::VecDeque;

use fairlock::platform::{Atomic, Platform};
use fairlock::wait::Thread;

use super::guarded::Guarded;
use super::{Line, parked_at};
use crate::locks::RwBench;

const LOCKED: u32 = 1;
/// A thread is in the bucket, or about to be.
const PARKED: u32 = 2;

/// A thread spins for so many rounds before it parks: the first are of 2, 4 and 8 pauses; in all others it yields.
const ROUNDS: u32 = 10;
const PAUSING: u32 = 3;

/// Once a random time below this has passed since the last such release, in nanoseconds, the lock is handed
/// over to the first waiter. Otherwise a release wakes that waiter, and the quickest thread has the lock.
const FAIR_NS: u64 = 1_000_000;

pub struct Parking<P: Platform> {
    state: P::AtomicU32,
    bucket: Box<Line<Guarded<P, Bucket>>>,
}

struct Bucket {
    waiters: VecDeque<Parked>,
    /// When the lock is handed over the next time.
    fair_at: u64,
    /// The state of a generator of random numbers, never zero.
    random: u64,
}

/// A thread that waits until it is told something, other than zero.
pub(super) struct Parked {
    /// The address of its record.
    thread: usize,
    /// The address of its word in its frame, which is there until the word says more than zero.
    told: usize,
}

impl Parked {
    /// The calling thread, which waits for a value of `told`.
    pub(super) fn new<P: Platform>(told: &P::AtomicU32) -> Self {
        Self {
            thread: core::ptr::from_ref(P::thread()).expose_provenance(),
            told: core::ptr::from_ref(told).expose_provenance(),
        }
    }

    /// Tells the thread, which may have to be unparked.
    ///
    /// # Safety
    /// The thread waits, and has not been told.
    pub(super) unsafe fn tell<P: Platform>(&self, what: u32) -> &'static Thread<P> {
        // SAFETY: a thread parks with its record.
        let thread = unsafe { parked_at::<P>(self.thread) };
        // SAFETY: the thread's frame is there until this store.
        let told: &P::AtomicU32 = unsafe { &*core::ptr::with_exposed_provenance(self.told) };
        // Release: if the lock is handed over, what was done under it.
        told.store(what, Ordering::Release);
        thread
    }
}

/// What a parked thread is told.
const ASLEEP: u32 = 0;
const TRY: u32 = 1;
const HAVE: u32 = 2;

impl Bucket {
    /// Whether the lock is to be handed over now.
    fn is_fair<P: Platform>(&mut self) -> bool {
        let now = P::now();
        let is_due = now >= self.fair_at;
        if is_due {
            // xorshift: any will do.
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            self.fair_at = now + self.random % FAIR_NS;
        }
        is_due
    }
}

impl<P: Platform> Parking<P> {
    fn change(&self, from: u32, to: u32, order: Ordering) -> bool {
        self.state.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn acquire_contended(&self) {
        let mut round = 0;
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state & LOCKED == 0 {
                // Acquire: what was done under the lock before.
                if self.change(state, state | LOCKED, Ordering::Acquire) {
                    return;
                }
            } else if state & PARKED == 0 && round < ROUNDS {
                round += 1;
                if round <= PAUSING {
                    (0..1 << round).for_each(|_| P::pause());
                } else {
                    P::yield_now();
                }
            } else if state & PARKED != 0 || self.change(state, state | PARKED, Ordering::Relaxed) {
                if self.park() {
                    return;
                }
                round = 0;
            }
        }
    }

    /// Parks until told; returns whether the lock is this thread's.
    fn park(&self) -> bool {
        let told = P::AtomicU32::new(ASLEEP);
        let waiter = Parked::new::<P>(&told);
        let is_parked = self.bucket.0.with(|bucket| {
            // It may have been released meanwhile, by a thread that found nobody here.
            let must_park = self.state.load(Ordering::Relaxed) == LOCKED | PARKED;
            if must_park {
                bucket.waiters.push_back(waiter);
            }
            must_park
        });
        // Acquire: if handed over, what was done under the lock before.
        while is_parked && told.load(Ordering::Acquire) == ASLEEP {
            Thread::<P>::park();
        }
        told.load(Ordering::Relaxed) == HAVE
    }

    #[cold]
    fn release_contended(&self) {
        let woken: Option<&'static Thread<P>> = self.bucket.0.with(|bucket| {
            let first = bucket.waiters.pop_front();
            let hands_over = first.is_some() && bucket.is_fair::<P>();
            let rest = if bucket.waiters.is_empty() { 0 } else { PARKED };
            let locked = if hands_over { LOCKED } else { 0 };
            // Release: the section happens before the next one.
            self.state.store(locked | rest, Ordering::Release);
            // SAFETY: a thread in the bucket waits, and is told once.
            first.map(|first| unsafe { first.tell::<P>(if hands_over { HAVE } else { TRY }) })
        });
        if let Some(thread) = woken {
            thread.unpark();
        }
    }
}

impl<P: Platform> RwBench for Parking<P> {
    fn new() -> Self {
        let bucket = Bucket { waiters: VecDeque::new(), fair_at: 0, random: 1 };
        Self { state: P::AtomicU32::new(0), bucket: Box::new(Line(Guarded::new(bucket))) }
    }

    #[inline(always)]
    fn write_lock(&self) {
        if !self.change(0, LOCKED, Ordering::Acquire) {
            self.acquire_contended();
        }
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        // Release: the section happens before the next one.
        if !self.change(LOCKED, 0, Ordering::Release) {
            self.release_contended();
        }
    }
}

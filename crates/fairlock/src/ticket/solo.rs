//! Holding the lock without a ticket: this makes an uncontended acquisition one read-modify-write,
//! and its release a plain store.
//!
//! There are two words: `word` has the tickets, `solo` the holder without a ticket.
//!
//! ```text
//! solo holder                        first in line, with ticket and LOCK
//!   solo: FREE -> HELD   (RMW)         word: IDLE -> … LOCK   (RMW)
//!   word is IDLE? else leave           solo is FREE?  (RMW) else wait for it
//! ```
//!
//! *Exclusion.* Each side writes its own word and then looks at the other's. Both accesses of
//! `solo` are read-modify-writes, so one of them comes first. If the solo holder's is first, the
//! first in line finds HELD. Otherwise the solo holder acquires what the first in line released
//! after taking LOCK, and so finds that the word is not IDLE.
//!
//! *Order.* Nobody takes the lock solo past a waiter: a thread that has `solo` keeps it only if it
//! finds no ticket afterwards. The thread that has LOCK is served next. Only the first in line
//! after IDLE (head 0) can meet a solo holder: from then on there are tickets, until the word is
//! IDLE again. (If a plain store stands between the waiter's change of `solo` and that of the next
//! solo holder, the language does not guarantee that this holder sees the ticket. It does see the
//! ticket on processors on which all CPUs agree about the order of stores, as on x86 and 64-bit
//! Arm; elsewhere it may go first, and *Exclusion* holds all the same. Model checks have an
//! exchange in place of the store, which makes the order certain.)
//!
//! *Wake-up.* The first in line spins, then leaves its address in `solo` and sleeps. (If it gives
//! up, it takes the address back.) A solo holder that finds the word not IDLE takes the address out
//! when it releases, and wakes that thread. A solo holder that found IDLE releases with a plain
//! store, which may overwrite an address that came between the look and the store. Hence the first
//! in line always sleeps on a timer. In that rare case, which takes a preemption between two
//! neighbouring instructions, it sleeps beside a free lock for as long as it has slept before, but
//! for at most 1.6 ms ([`Naps`]).
//!
//! *Freeing.* The last access of a release is to `solo`, or to a thread record, which is never
//! freed.

use core::sync::atomic::Ordering;

use crate::events::{self, Event};
use crate::platform::{Atomic, ConstZero, Platform};
use crate::wait::{Naps, Parker, WAKE_NS, WaitContext, WaitError};

/// A value of the holder's word, other than the two below: somebody holds the lock without a
/// ticket, and this says who sleeps until the lock is free. It is an address of a parker, or, for
/// locks of eight bytes, says where that address is.
pub(crate) trait Note<P: Platform>: Copy + Eq {
    type Atomic: Atomic<Self>;
    /// Nobody holds the lock without a ticket.
    const FREE: Self;
    /// Somebody holds the lock without a ticket, or tries to.
    const HELD: Self;
}

impl<P: Platform> Note<P> for usize {
    type Atomic = P::AtomicUsize;
    const FREE: Self = 0;
    const HELD: Self = 1;
}

impl<P: Platform> Note<P> for u32 {
    type Atomic = P::AtomicU32;
    const FREE: Self = 0;
    const HELD: Self = 1;
}

pub(crate) struct Solo<P: Platform, N: Note<P> = usize> {
    holder: N::Atomic,
}

impl<P: Platform> Solo<P> {
    /// Leaves, and wakes the thread that waits for that.
    #[cold]
    pub(super) fn leave_to_waiter(&self) {
        if let Some(parker) = self.leave_noted() {
            // SAFETY: the address of a parker in a thread record, which is never freed.
            unsafe { &*(parker as *const Parker<P>) }.unpark();
        }
    }

    /// For the first in line, with LOCK set: waits until nobody holds the lock
    /// without a ticket.
    pub(super) fn wait_until_free(&self, until: &WaitContext<'_, P>) -> Result<(), WaitError> {
        self.wait_noted(until, |parker| core::ptr::from_ref(parker) as usize)
    }

    #[cfg(all(test, fairlock_loom))]
    pub(super) fn access_mut(&mut self)
    where
        P: Platform<AtomicUsize = loom::sync::atomic::AtomicUsize>,
    {
        self.holder.with_mut(|_| ());
    }
}

impl<P: Platform, N: Note<P>> Solo<P, N> {
    pub(crate) fn new() -> Self {
        Self { holder: N::Atomic::new(N::FREE) }
    }

    pub(crate) const fn new_const() -> Self
    where
        N::Atomic: ConstZero,
    {
        Self { holder: ConstZero::ZERO }
    }

    /// Whether somebody holds the lock without a ticket, or tries to.
    pub(crate) fn is_held(&self) -> bool {
        self.holder.load(Ordering::Relaxed) != N::FREE
    }

    /// Comes in, if nobody is there. The caller then has to look whether there are tickets.
    #[inline(always)]
    pub(crate) fn enter(&self) -> bool {
        // Acquire: every way to own the lock is one (rule 3), and see *Exclusion*.
        self.holder.compare_exchange(N::FREE, N::HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Leaves when nobody was seen to wait.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        // Release: the section happens before the next one.
        #[cfg(not(fairlock_loom))]
        self.holder.store(N::FREE, Ordering::Release);
        // Not in model checks: see *Order*, and `platform::loom`.
        #[cfg(fairlock_loom)]
        self.holder.swap(N::FREE, Ordering::Release);
    }

    /// Leaves; returns where to find the thread that the caller has to wake.
    pub(crate) fn leave_noted(&self) -> Option<N> {
        // Release: as above. Acquire: what is behind the note.
        let note = self.holder.swap(N::FREE, Ordering::AcqRel);
        if note == N::HELD {
            return None;
        }
        events::count(Event::ReleasedSlow);
        events::count(Event::ReleasedSlowKicked);
        Some(note)
    }

    /// Whether nobody holds the lock without a ticket: for the first in line.
    pub(crate) fn is_left(&self) -> bool {
        // AcqRel: see *Exclusion*; the section of the solo holder happened before.
        self.holder.fetch_or(N::FREE, Ordering::AcqRel) == N::FREE
    }

    /// As [`wait_until_free`](Solo::wait_until_free); `note` says how to find the parker.
    pub(crate) fn wait_noted(
        &self,
        until: &WaitContext<'_, P>,
        note: impl Fn(&'static Parker<P>) -> N,
    ) -> Result<(), WaitError> {
        while !self.is_left() {
            if !until.spin(&self.holder, WAKE_NS, |holder: N| holder == N::FREE) {
                self.sleep_until_free(until, &note)?;
            }
        }
        Ok(())
    }

    #[cold]
    fn sleep_until_free(
        &self,
        until: &WaitContext<'_, P>,
        note: impl Fn(&'static Parker<P>) -> N,
    ) -> Result<(), WaitError> {
        if let Some(why) = until.expired(P::now) {
            return Err(why);
        }
        events::count(Event::TakenSlow);
        let parker = until.parker(P::thread());
        let note = note(parker);
        let mut naps = Naps::new(WAKE_NS);
        let mut ended = until.expired(P::now);
        while self.is_held() {
            if let Some(why) = ended {
                // Relaxed: it takes back what the compare-exchange below left.
                match self.holder.compare_exchange(
                    note,
                    N::HELD,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    Err(holder) if holder == N::FREE => break,
                    _ => return Err(why),
                }
            }
            // Nobody else leaves a note: only one thread at a time is first in line. Release: pairs
            // with the Acquire of the thread that takes the note out.
            let before =
                self.holder.compare_exchange(N::HELD, note, Ordering::Release, Ordering::Relaxed);
            if before != Err(N::FREE) {
                ended = until.sleep(parker, Some(P::now() + naps.next()));
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(fairlock_loom)))]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

    use super::*;
    use crate::platform::{System, Thread, WaitOutcome};
    use crate::wait::MOST_DOUBLINGS;

    /// A platform with one thread, where a sleep takes exactly as long as it was asked to.
    struct Alone;

    static SOLO: Solo<Alone> = Solo::new_const();

    std::thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
        /// When the holder leaves, without having seen that somebody came to wait.
        static LEAVES_AT: Cell<u64> = const { Cell::new(0) };
        static RECORD: &'static Thread<Alone> = Box::leak(Box::new(Thread::new()));
    }

    // SAFETY: one record a thread, leaked; the processor's atomics; nobody is ever woken.
    unsafe impl System for Alone {
        type AtomicUsize = AtomicUsize;
        type AtomicU32 = AtomicU32;
        type AtomicU64 = AtomicU64;
        type Thread = Thread<Self>;

        fn pause() {
            NOW.set(NOW.get() + 10);
        }

        fn now() -> u64 {
            NOW.get()
        }

        fn wait(_: &AtomicU32, _: u32, deadline: Option<u64>, _: bool) -> WaitOutcome {
            let deadline = deadline.expect("a sleep on a timer");
            if (NOW.get()..deadline).contains(&LEAVES_AT.get()) {
                SOLO.leave();
            }
            NOW.set(deadline);
            WaitOutcome::TimedOut
        }

        fn wake_one(_: &AtomicU32) {
            unreachable!("the holder has not seen anybody");
        }

        fn thread() -> &'static Thread<Self> {
            RECORD.with(|record| *record)
        }

        fn thread_hint() -> usize {
            Self::thread().hint()
        }

        fn cpus() -> usize {
            1
        }
    }

    #[test]
    fn a_waiter_that_the_holder_missed_notices_soon_that_the_lock_is_free() {
        for held in [100_000, 10_000_000, 60_000_000_000] {
            assert!(SOLO.enter());
            LEAVES_AT.set(NOW.get() + held);
            SOLO.wait_until_free(&WaitContext::FOREVER).unwrap();
            let late = NOW.get() - LEAVES_AT.get();
            assert!(
                late <= WAKE_NS << MOST_DOUBLINGS,
                "asleep beside a free lock for {late} ns after {held}"
            );
            assert!(!SOLO.is_held());
        }
    }
}

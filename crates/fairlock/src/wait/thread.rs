//! The record of a thread: where it sleeps, where it spins, and how often it
//! looks at the clock.

use core::cell::Cell;
use core::mem::offset_of;
use core::sync::atomic::Ordering;

use super::cancel::CancelLinks;
use crate::fault::{Fault, active};
use crate::inspect;
use crate::platform::{Atomic, Platform, WaitOutcome};

/// A thread as the locks know it. One per live thread, never freed while the
/// process lives, so that a late wake-up or a neighbour in the spinner queue
/// may touch it at any time (rules 11 and 12).
#[repr(align(128))]
pub struct Thread<P: Platform> {
    pub(crate) parker: Parker<P>,
    /// Where the thread sleeps for a ticket lock. Not `parker`: the queue lock
    /// of a sleeping lock must not use up a notification meant for the waiter.
    pub(crate) ticket_parker: Parker<P>,
    pub(crate) spinner: SpinnerNode<P>,
    /// While it waits under a token that can end that.
    pub(crate) cancel: CancelLinks<P>,
    pub(crate) steals: StealClock,
    /// When the thread last found a mutex held.
    pub(crate) contended: Cell<u64>,
    /// What it took the thread to transfer a lock to another, in nanoseconds, and the
    /// address of that lock, if it has not been told yet.
    pub(crate) transfer: Cell<(usize, u64)>,
    /// Reads past a queue that no lock was told of.
    pub(crate) past_queue: Cell<usize>,
    /// The CPU it was last seen on, plus one; zero if unknown. A hint.
    cpu: Hint,
}

// SAFETY: `parker`, `spinner`, `cancel` and `cpu` are atomics; `steals`, `contended`,
// `transfer` and `past_queue` are used by the record's own thread only.
unsafe impl<P: Platform> Sync for Thread<P> {}

impl<P: Platform> Thread<P> {
    /// A record for a thread that a [`Platform`] has not seen before.
    #[allow(clippy::new_without_default)] // a record is only made by a platform, on purpose
    pub fn new() -> Self {
        Self {
            parker: Parker::new(),
            ticket_parker: Parker::new(),
            spinner: SpinnerNode::new(),
            cancel: CancelLinks::new(),
            steals: StealClock::new(),
            contended: Cell::new(0),
            transfer: Cell::new((0, 0)),
            past_queue: Cell::new(0),
            cpu: Hint::new(0),
        }
    }

    /// For locks written against [`Platform`] elsewhere: the calling thread, whose record
    /// this is, sleeps until [`unpark`](Self::unpark). An `unpark` before the call ends it
    /// at once. May return early for no reason: whoever calls looks again.
    pub fn park(&self) {
        self.ticket_parker.park(None, false);
    }

    /// Ends the thread's current [`park`](Self::park), or its next one. What happened
    /// before is seen after it.
    pub fn unpark(&self) {
        self.ticket_parker.unpark();
    }

    /// Notes where the calling thread runs.
    pub(crate) fn note_cpu(&self) {
        self.set_cpu(this_cpu::<P>());
    }

    pub(super) fn set_cpu(&self, cpu: usize) {
        self.cpu.store(cpu, Ordering::Relaxed);
    }

    /// The CPU it was last seen on, plus one; zero if unknown.
    pub(crate) fn cpu(&self) -> usize {
        self.cpu.load(Ordering::Relaxed)
    }

    /// For concurrency testers: the name of what is at an address in the record.
    #[doc(hidden)]
    pub fn field_at(&self, address: usize) -> Option<&'static str> {
        let fields = [
            (offset_of!(Self, parker), size_of_val(&self.parker), "parker"),
            (offset_of!(Self, ticket_parker), size_of_val(&self.ticket_parker), "ticket parker"),
            (offset_of!(Self, spinner), size_of_val(&self.spinner), "spinner node"),
            (offset_of!(Self, cancel), size_of_val(&self.cancel), "links under a token"),
        ];
        inspect::field_at(self, address, &fields)
    }

    /// The name of this thread in owner words: its address. The alignment
    /// leaves the low bits free for flags.
    pub(crate) fn hint(&'static self) -> usize {
        core::ptr::from_ref(self) as usize
    }
}

/// A word that says who had better run, and nothing about who may. Not one of the
/// platform's atomics: a model checker would try every order of its accesses.
pub(crate) type Hint = core::sync::atomic::AtomicUsize;

/// The CPU the caller runs on, plus one; zero if unknown.
pub(crate) fn this_cpu<P: Platform>() -> usize {
    P::cpu().map_or(0, |cpu| cpu as usize + 1)
}

/// Where a thread sleeps: a binary semaphore.
pub(crate) struct Parker<P: Platform> {
    word: P::AtomicU32,
}

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;

impl<P: Platform> Parker<P> {
    fn new() -> Self {
        Self { word: P::AtomicU32::new(EMPTY) }
    }

    /// Drops a notification left over from an earlier wait, which would only
    /// cost one turn of the caller's loop.
    pub(crate) fn forget_notification(&self) {
        // Relaxed: nothing is read on the strength of it.
        if self.word.load(Ordering::Relaxed) == NOTIFIED {
            self.word.store(EMPTY, Ordering::Relaxed);
        }
    }

    /// Sleeps until [`unpark`](Self::unpark), the deadline or a signal. A
    /// notification sent before the call ends it at once. May return early.
    pub(crate) fn park(&self, deadline: Option<u64>, interruptible: bool) -> WaitOutcome {
        // Acquire: what the notifier published is read after this returns.
        let before =
            self.word.compare_exchange(EMPTY, PARKED, Ordering::Acquire, Ordering::Acquire);
        if before.is_ok() {
            let outcome = P::wait(&self.word, PARKED, deadline, interruptible);
            let notified = self.word.swap(EMPTY, Ordering::Acquire) == NOTIFIED;
            // A signal counts even if a notification came while its handler ran:
            // it is not told again. (Who leaves looks at what it was granted.)
            if !notified || outcome == WaitOutcome::Interrupted {
                return outcome;
            }
        } else {
            // Acquire again: a second notifier may have stored over the first.
            self.word.swap(EMPTY, Ordering::Acquire);
        }
        WaitOutcome::Woken
    }

    /// Ends the thread's current [`park`](Self::park), or its next one.
    pub(crate) fn unpark(&self) {
        if active(Fault::ForgetsWakeUps) && self.word.load(Ordering::Relaxed) != PARKED {
            return;
        }
        // Release: pairs with the Acquire in `park`.
        if self.word.swap(NOTIFIED, Ordering::Release) == PARKED {
            P::wake_one(&self.word);
        }
    }
}

/// A thread's place in a spinner queue (`rwsem::osq`).
pub(crate) struct SpinnerNode<P: Platform> {
    /// The hint of the next node, or a mark of the queue.
    pub(crate) next: P::AtomicUsize,
    /// Where the node is on its way through the queue; zero is in none.
    pub(crate) state: P::AtomicU32,
}

impl<P: Platform> SpinnerNode<P> {
    fn new() -> Self {
        Self { next: P::AtomicUsize::new(0), state: P::AtomicU32::new(0) }
    }
}

/// Tells a thread that keeps stealing when to look at the clock: about once in
/// [`StealClock::INTERVAL_NS`], however long its sections are, so that the
/// clock costs next to nothing beside sections of a few nanoseconds.
pub(crate) struct StealClock {
    /// Steals until the next look.
    left: Cell<u32>,
    /// Steals between the last two looks.
    stride: Cell<u32>,
    /// When the last look was.
    looked: Cell<u64>,
    /// Contended reads since the last contended write.
    reads: Cell<u32>,
    /// How many there are typically.
    run: Cell<u32>,
    /// Whether it wrote since the last look at which it read.
    wrote: Cell<bool>,
    /// When it was first seen to read, and not to write.
    reading_since: Cell<u64>,
    /// Whether its last operation took long.
    slow: Cell<bool>,
    /// Looks in a row at which the thread was alone inside.
    alone: Cell<i32>,
}

/// What a thread sees when it looks at the clock.
pub(crate) struct Look {
    pub(crate) now: u64,
    /// Nanoseconds since its last look.
    pub(crate) since: u64,
    /// How many of those one operation took.
    pub(crate) each: u64,
}

impl Look {
    /// Whether a multiple of `period` nanoseconds, a power of two, lies between
    /// the last look and this one.
    pub(crate) fn passed_multiple_of(&self, period: u64) -> bool {
        (self.now ^ self.now.wrapping_sub(self.since)) >= period
    }
}

impl StealClock {
    const INTERVAL_NS: u64 = 2_000;
    const SLOW_NS: u64 = 50_000;
    const READS_IN_A_ROW: u32 = 8;
    /// A thread that reads so often between two writes has sides to take turns.
    const LONG_RUN: u32 = 32;
    const LONGEST_RUN: u32 = 256;
    const MAX_STRIDE: u32 = 32;
    /// Looks in a row that tell a thread that nobody else is inside: before
    /// anybody has joined it,
    const LONELY_LOOKS: i32 = 3;
    /// and after, when short sections may have missed each other by chance.
    const LEFT_ALONE_LOOKS: i32 = 25;
    /// Looks until a wake-up should have had its effect.
    const WAKE_LOOKS: i32 = 10;

    const fn new() -> Self {
        Self {
            left: Cell::new(1),
            stride: Cell::new(1),
            looked: Cell::new(0),
            reads: Cell::new(0),
            run: Cell::new(Self::LONGEST_RUN),
            wrote: Cell::new(true),
            reading_since: Cell::new(0),
            slow: Cell::new(false),
            alone: Cell::new(0),
        }
    }

    /// The thread was granted a lock at `now`: what came before says nothing.
    pub(crate) fn restart(&self, now: u64) {
        self.left.set(1);
        self.stride.set(1);
        self.looked.set(now);
        self.wrote.set(true);
    }

    /// The thread begins to wait at `now`: notes whether what it did since its
    /// last grant or look took long.
    pub(crate) fn note_wait(&self, now: u64) {
        self.slow.set(now.wrapping_sub(self.looked.get()) > Self::SLOW_NS);
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.slow.get()
    }

    /// Counts one steal of the calling thread; a look at the clock, if it is due.
    #[inline]
    pub(crate) fn tick<P: Platform>(&self) -> Option<Look> {
        let left = self.left.get() - 1;
        self.left.set(left);
        if left > 0 { None } else { Some(self.look::<P>()) }
    }

    /// Counts a read.
    pub(crate) fn read(&self) {
        self.reads.set(self.reads.get().saturating_add(1));
    }

    /// Whether the thread seems to be reading only, and is one that does so for long.
    pub(crate) fn reads_in_a_row(&self) -> bool {
        self.run.get() >= Self::LONG_RUN && self.reads.get() >= Self::READS_IN_A_ROW
    }

    /// At a look, the thread reading: for how many nanoseconds it has not written.
    pub(crate) fn reads_for(&self, look: &Look) -> u64 {
        if self.wrote.replace(false) {
            self.reading_since.set(look.now);
        }
        look.now.wrapping_sub(self.reading_since.get())
    }

    /// Counts a look, `alone` in the lock or not; whether it has been alone
    /// long enough to do something about it. `joined`: it was not alone before.
    pub(crate) fn is_lonely(&self, alone: bool, joined: bool) -> bool {
        let looks = if alone { self.alone.get() + 1 } else { 0 };
        let lonely = looks >= if joined { Self::LEFT_ALONE_LOOKS } else { Self::LONELY_LOOKS };
        self.alone.set(if lonely { -Self::WAKE_LOOKS } else { looks });
        lonely
    }

    /// The thread writes.
    pub(crate) fn wrote(&self) {
        let reads = self.reads.replace(0).min(Self::LONGEST_RUN);
        self.run.set((3 * self.run.get() + reads) / 4);
        self.wrote.set(true);
    }

    fn look<P: Platform>(&self) -> Look {
        let now = P::now();
        let before = self.stride.get();
        let since = now.wrapping_sub(self.looked.replace(now)).max(1);
        // As many steals as fit in the interval at the rate of the last ones;
        // growing slowly, so that one short section after a long one does not
        // blind the thread.
        let fit = (u64::from(before) * Self::INTERVAL_NS / since).min(u64::from(before) * 2);
        let stride = (fit as u32).clamp(1, Self::MAX_STRIDE);
        self.stride.set(stride);
        self.left.set(stride);
        Look { now, since, each: since / u64::from(before) }
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_reads_by_turns_with_writing_is_not_taken_for_a_reader() {
        let steals = StealClock::new();
        let read = |reads| (0..reads).for_each(|_| steals.read());
        read(7);
        assert!(!steals.reads_in_a_row());
        read(1);
        assert!(steals.reads_in_a_row(), "nothing is known of it yet");
        for _ in 0..20 {
            steals.wrote();
            read(10);
        }
        assert!(!steals.reads_in_a_row(), "it will write again soon");
        for _ in 0..20 {
            steals.wrote();
            read(1_000);
        }
        assert!(steals.reads_in_a_row(), "it will not");
    }

    #[test]
    fn reading_lasts_from_the_first_look_after_a_write() {
        let steals = StealClock::new();
        let look = |now| Look { now, since: 1, each: 1 };
        assert_eq!([steals.reads_for(&look(100)), steals.reads_for(&look(140))], [0, 40]);
        steals.wrote();
        assert_eq!([steals.reads_for(&look(200)), steals.reads_for(&look(210))], [0, 10]);
    }
}

//! The record of a thread: where it sleeps, where it spins, and how often it
//! looks at the clock.

use core::cell::Cell;
use core::mem::offset_of;
use core::sync::atomic::Ordering;

use super::ages::Ages;
use super::meetings::Meetings;
use crate::cancel::CancelLinks;
use crate::fault::{Fault, active};
use crate::inspect;
use crate::platform::{Atomic, Platform, WaitOutcome};
#[cfg(any(feature = "std", fairlock_loom))]
use crate::system::fork;

/// After so many reads in writers' tenures without a write, a thread is treated as a reader again.
/// In reads; compared with those since the thread last wrote.
const MOST_JOINS: u16 = 256;

/// A thread as the locks know it. One per live thread, never freed while the
/// process lives, so that a late wake-up or a neighbour in the spinner queue
/// may touch it at any time (rules 11 and 12).
#[repr(align(128))]
pub struct Thread<P: Platform> {
    pub(crate) parker: Parker<P>,
    /// Where the thread sleeps for a ticket lock. This is not `parker`: the queue lock of a
    /// sleeping lock must not use up a notification meant for the waiter.
    pub(crate) ticket_parker: Parker<P>,
    pub(crate) spinner: SpinnerNode<P>,
    /// Its place in the list of a token, while it waits under one.
    pub(crate) cancel: CancelLinks<P>,
    pub(crate) steals: StealClock,
    /// The lock after whose release the thread yields its CPU: an address, only compared; or zero.
    pub(crate) gives_way: Cell<usize>,
    /// The address of the lock that the thread last took for writing, or upgradably, while others waited;
    /// zero once it has joined readers there [`MOST_JOINS`] times. An upgrade needs no store: the
    /// upgradable acquisition before it made one.
    wrote: Cell<usize>,
    /// How often it has joined readers there.
    joins: Cell<u16>,
    /// The tenure's end for which it last yielded, and when it may yield again for that end.
    gave_way_for: Cell<u64>,
    pub(crate) gives_way_again: Cell<u64>,
    /// When the thread last came to a ticket lock that more threads wanted than there are CPUs.
    contended: Cell<u64>,
    /// Its last meetings with others at a mutex.
    pub(crate) meetings: Meetings,
    /// Whether it stays awake when it waits for notifications.
    pub(crate) watch: crate::condvar::Watch,
    /// For how long it has waited at locks that it did not get.
    pub(crate) ages: Ages,
    /// Where it waits for ticket locks, if that may end.
    #[cfg(feature = "alloc")]
    pub(crate) places: crate::ticket::Places<P>,
    /// Which thin locks it found inflated.
    #[cfg(any(feature = "std", fairlock_loom))]
    pub(crate) marks: crate::thin::Marks<P>,
    /// What it cost the thread to wake others the last time, in nanoseconds.
    pub(crate) wake_cost: Cell<u64>,
    /// Acquisitions not yet added to the lock's counter, where threads share the lock.
    pub(crate) untold_steals: Cell<u32>,
    /// Reads past a queue that are not yet added to the lock's counter.
    pub(crate) past_queue: Cell<usize>,
    /// The CPU it was last seen on, plus one; zero if unknown. A hint.
    cpu: Hint,
    /// The number of its process.
    #[cfg(any(feature = "std", fairlock_loom))]
    process: Hint,
}

// SAFETY: `parker`, `spinner`, `cancel`, `cpu` and `process` are atomics; `steals`, `gives_way`,
// `wrote`, `joins`, `gave_way_for`, `gives_way_again`, `contended`, `meetings`, `watch`, `ages`,
// `places`, `marks`, `wake_cost`, `untold_steals` and `past_queue` are used by the record's own thread
// only.
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
            gives_way: Cell::new(0),
            wrote: Cell::new(0),
            joins: Cell::new(0),
            gave_way_for: Cell::new(0),
            gives_way_again: Cell::new(0),
            contended: Cell::new(0),
            meetings: Meetings::new(),
            watch: crate::condvar::Watch::new(),
            ages: Ages::new(),
            #[cfg(feature = "alloc")]
            places: crate::ticket::Places::new(),
            #[cfg(any(feature = "std", fairlock_loom))]
            marks: crate::thin::Marks::new(),
            wake_cost: Cell::new(0),
            untold_steals: Cell::new(0),
            past_queue: Cell::new(0),
            cpu: Hint::new(0),
            #[cfg(any(feature = "std", fairlock_loom))]
            process: Hint::new(fork::number()),
        }
    }

    /// Whether the thread sleeps at its parker, or is about to. In the child of a fork, those of its
    /// parent have records as they were, and seem to sleep for ever.
    #[cfg(any(feature = "std", fairlock_loom))]
    pub(crate) fn is_asleep(&self) -> bool {
        // Relaxed: nobody else is there when it changes.
        self.parker.is_parked() && self.process.load(Ordering::Relaxed) == fork::number()
    }

    /// The thread, whose record this is, has forked, and is in the child.
    #[cfg(feature = "std")]
    pub(crate) fn enter_child(&self) {
        // Relaxed: as above.
        self.process.store(fork::number(), Ordering::Relaxed);
    }

    /// Notes that the calling thread, whose record this is, found a mutex held. Returns whether it
    /// also did so less than `ns` ago.
    pub(crate) fn meets_again_within(&self, ns: u64, now: u64) -> bool {
        now.wrapping_sub(self.contended.replace(now)) < ns
    }

    /// Has the calling thread, whose record this is, yield its CPU when it leaves the lock: at the `end` of
    /// the tenure the waiter that is next has not come. Not if the thread has yielded for that end a
    /// short time ago.
    pub(crate) fn is_to_give_way(&self, lock: usize, end: u64, now: u64) {
        if self.gave_way_for.replace(end) != end || now >= self.gives_way_again.get() {
            self.gives_way.set(lock);
        }
    }

    /// The calling thread, whose record this is, has [yielded](Self::is_to_give_way). From `again` on it may
    /// yield for the same end once more.
    pub(crate) fn gave_way(&self, again: u64) {
        self.gives_way.set(0);
        self.gives_way_again.set(again);
    }

    /// The calling thread, whose record this is, takes the lock at `address` for writing, or
    /// upgradably, while others wait.
    #[inline(always)]
    pub(crate) fn writes(&self, address: usize) {
        self.wrote.set(address);
        self.joins.set(0);
    }

    /// It joins readers of the lock that it wrote last, in a tenure of writers.
    pub(crate) fn joins_as_writer(&self) {
        let joins = self.joins.get() + 1;
        self.joins.set(joins);
        if joins >= MOST_JOINS {
            self.writes(0);
        }
    }

    /// Whether it has lately written the lock at `address`, as far as that is known.
    #[inline(always)]
    pub(crate) fn wrote(&self, address: usize) -> bool {
        self.wrote.get() == address
    }

    /// To be called before the calling thread [parks](Self::park): waits, awake, until `word` is `woken`.
    /// It spins for at most 4 µs; then, if `yields`, it yields its CPU for at most 30 µs. Neither phase goes
    /// on past `deadline` (nanoseconds of [`Platform::now`]), and a phase that has lately been in vain is
    /// skipped.
    ///
    /// Not a method: only the calling thread may use what its record remembers of this.
    pub fn stay_awake(word: &P::AtomicU32, woken: u32, deadline: Option<u64>, yields: bool) {
        let watch = &P::thread().watch;
        watch.stay_awake::<P>(word, woken, deadline, || yields && watch.yields.begins());
    }

    /// For locks written against [`Platform`] elsewhere: the calling thread, whose record this is,
    /// sleeps until [`unpark`](Self::unpark). An `unpark` before the call ends it at once. May
    /// return early for no reason: the caller looks again.
    pub fn park(&self) {
        self.ticket_parker.park(None, false);
    }

    /// As [`park`](Self::park), until `deadline` (nanoseconds of [`Platform::now`]) at most.
    pub fn park_until(&self, deadline: u64) {
        self.ticket_parker.park(Some(deadline), false);
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

/// A word that influences who runs, and never who may have a lock. Not one of the platform's
/// atomics: a model checker would try every order of its accesses.
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

    /// Drops a notification, most likely left over from an earlier wait. It would do no harm, but cost
    /// one turn of the caller's loop.
    pub(crate) fn forget_notification(&self) {
        // Acquire, as in `park`: the notification may belong to a wait that still goes on (a thread may
        // wait for a condition variable's queue lock meanwhile), and that wait reads what was published
        // with it.
        if self.word.load(Ordering::Acquire) == NOTIFIED {
            self.word.store(EMPTY, Ordering::Relaxed);
        }
    }

    /// Whether the thread sleeps, or is about to.
    #[cfg(any(feature = "std", fairlock_loom))]
    fn is_parked(&self) -> bool {
        // Relaxed: nothing is read on the strength of it.
        self.word.load(Ordering::Relaxed) == PARKED
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
            // A signal counts even if a notification came while its handler ran: it is not reported
            // again. (The waiter looks, as it leaves, whether it was granted the lock.)
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

/// A thread's place in a spinner queue (`rwsem::published`).
pub(crate) struct SpinnerNode<P: Platform> {
    /// The hint of the next node, or a mark of the queue.
    pub(crate) next: P::AtomicUsize,
    /// Where the node is on its way through the queue; zero if it is in none.
    pub(crate) state: P::AtomicU32,
}

impl<P: Platform> SpinnerNode<P> {
    fn new() -> Self {
        Self { next: P::AtomicUsize::new(0), state: P::AtomicU32::new(0) }
    }
}

/// Tells a thread that takes locks past their queues when to look at the clock: about once
/// in [`INTERVAL_NS`](Self::INTERVAL_NS), however long its sections are, so that the clock
/// costs next to nothing beside sections of a few nanoseconds.
pub(crate) struct StealClock {
    /// Steals until the next look.
    left: Cell<u32>,
    /// Steals between the last two looks.
    stride: Cell<u32>,
    /// When the last look was.
    looked: Cell<u64>,
}

/// What a thread sees when it looks at the clock.
pub(crate) struct Look {
    pub(crate) now: u64,
    /// Nanoseconds since its last look.
    since: u64,
    /// Steals since then.
    pub(crate) steals: u32,
}

impl Look {
    /// Whether a multiple of `period` nanoseconds, a power of two, lies between
    /// the last look and this one.
    pub(crate) fn passed_multiple_of(&self, period: u64) -> bool {
        (self.now ^ self.now.wrapping_sub(self.since)) >= period
    }
}

impl StealClock {
    /// The time between two looks at the clock. In ns; compared with the time since the last look,
    /// for a number of steals.
    const INTERVAL_NS: u64 = 2_000;
    /// The most steals between two looks. In steals; compared with those that fit the interval.
    const MAX_STRIDE: u32 = 32;

    const fn new() -> Self {
        Self { left: Cell::new(1), stride: Cell::new(1), looked: Cell::new(0) }
    }

    /// Counts one steal of the calling thread; a look at the clock, if it is due.
    #[inline(always)]
    pub(crate) fn tick<P: Platform>(&self) -> Option<Look> {
        if self.count() { self.look::<P>() } else { None }
    }

    /// Counts one steal of the calling thread: whether a [`look`](Self::look) at the clock is due.
    #[inline(always)]
    pub(crate) fn count(&self) -> bool {
        let left = self.left.get().saturating_sub(1);
        self.left.set(left);
        left == 0
    }

    /// A look at the clock, if one is due.
    #[cold]
    pub(crate) fn look<P: Platform>(&self) -> Option<Look> {
        if self.left.get() > 0 {
            return None;
        }
        let now = P::now();
        let before = self.stride.get();
        let since = now.wrapping_sub(self.looked.replace(now)).max(1);
        // As many steals as fit into the interval at the recent rate. The stride at most doubles: after
        // one short section the clock must still be read soon.
        let fit = (u64::from(before) * Self::INTERVAL_NS / since).min(u64::from(before) * 2);
        let stride = (fit as u32).clamp(1, Self::MAX_STRIDE);
        self.stride.set(stride);
        self.left.set(stride);
        Some(Look { now, since, steals: before })
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::Native;

    #[test]
    fn a_thread_gives_way_for_an_end_again_after_a_pause_unless_its_cpu_was_long_gone() {
        let thread = Thread::<Native>::new();
        let again = 1_000;
        let gives_way = |end, now, again| {
            thread.is_to_give_way(1, end, now);
            let gives_way = thread.gives_way.get() != 0;
            if gives_way {
                thread.gave_way(again);
            }
            gives_way
        };
        assert!(gives_way(10, 0, again));
        assert!(!gives_way(10, again - 1, again), "too early");
        assert!(gives_way(10, again, again));
        assert!(gives_way(20, 0, u64::MAX), "another end");
        assert!(!gives_way(20, u64::MAX - 1, u64::MAX), "others want the CPU");
        assert!(gives_way(30, 0, u64::MAX));
    }
}

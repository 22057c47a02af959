//! How a thread waits, at every lock: until when ([`Wait`]), where it sleeps ([`Sleeper`]), and the
//! ladder that it climbs.
//!
//! | rung | what the thread does | until |
//! |---|---|---|
//! | [`spin`](WaitContext::spin) | looks at a word | the word is as wanted, or its time is over |
//! | [`stand_back`](WaitContext::stand_back) | looks at nothing, and leaves the lock's line to others | its time is over |
//! | [`give_way`] | yields its CPU | it has a CPU again |
//! | [`sleep`](WaitContext::sleep) | sleeps at its parker | it is woken, or its time is over |
//!
//! A lock says what its threads look at, and how long they stay on each rung; the deadline of a
//! wait ends every rung. The numbers here mean the same at every lock.

use core::cell::Cell;
use core::fmt;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;

use crate::system::fork;
use crate::system::{Atomic, System, WaitOutcome, deadline_after};

/// Why a wait ended without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitError {
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran in this thread while it slept. Only Linux can tell.
    Interrupted,
    /// The token was cancelled.
    Cancelled,
    /// No more readers can be counted: 2^23 hold the lock, or of a `published` one 2^54. Forgotten
    /// guards count.
    TooManyReaders,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WaitError::TimedOut => "the deadline passed before the lock was granted",
            WaitError::Interrupted => "a signal interrupted the wait for the lock",
            WaitError::Cancelled => "the wait for the lock was cancelled",
            WaitError::TooManyReaders => "the lock is held by more readers than can be counted",
        })
    }
}

impl core::error::Error for WaitError {}

/// When a wait ends without success: never, or by a deadline, a token or a signal.
///
/// A deadline, a token and signals can be combined; the first of them ends the wait. A lock that is
/// free is taken even if the deadline has passed or the token is cancelled. Waits are *cancel
/// safe*: a wait that ends without the lock leaves nothing behind, and threads behind it in the
/// queue move up. A wait that is granted the lock at the instant at which it would end keeps the
/// lock.
///
/// ```
/// use std::time::Duration;
///
/// use fairlock::range::RangeError;
/// use fairlock::{CancelToken, RangeRwLock, Wait};
///
/// let (lock, stop) = (RangeRwLock::new(), CancelToken::new());
/// let _head = lock.write(0..512)?;
/// let in_vain = lock.read_with(0..10, Wait::within(Duration::from_millis(1)));
/// assert_eq!(in_vain.err(), Some(RangeError::TimedOut));
/// stop.cancel();
/// let in_vain = lock.read_with(0..10, Wait::within(Duration::from_secs(1)).cancellable(&stop));
/// assert_eq!(in_vain.err(), Some(RangeError::Cancelled));
/// # Ok::<(), RangeError>(())
/// ```
pub struct Wait<'a, P: System> {
    end: End,
    interruptible: bool,
    /// `cancel` ends hardly any wait: the thread is as patient as in one that does not end.
    seldom: bool,
    pub(crate) cancel: Option<&'a dyn Cancels<P>>,
}

/// When a wait ends at the latest.
#[derive(Clone, Copy, Debug)]
enum End {
    Never,
    /// A time of [`System::now`].
    At(u64),
    /// So long after it has begun.
    After(Duration),
}

impl<'a, P: System> Wait<'a, P> {
    /// Until it succeeds.
    pub const FOREVER: Self = Self::ending(End::Never);

    const fn ending(end: End) -> Self {
        Self { end, interruptible: false, seldom: false, cancel: None }
    }

    /// For at most `timeout`, of any length, from when the wait begins; then it ends with
    /// [`TimedOut`](WaitError::TimedOut). Zero does not wait.
    pub const fn within(timeout: Duration) -> Self {
        Self::ending(End::After(timeout))
    }

    /// Until `deadline`; then it ends with [`TimedOut`](WaitError::TimedOut).
    #[cfg(feature = "std")]
    pub fn until(deadline: std::time::Instant) -> Self {
        // The two clocks may show different times, but agree in how long is left.
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        Self::until_nanos(deadline_after::<P>(left))
    }

    /// As [`until`](Self::until); `deadline` is in nanoseconds of [`System::now`].
    pub const fn until_nanos(deadline: u64) -> Self {
        Self::ending(End::At(deadline))
    }

    /// The same wait, but it also ends, with [`Interrupted`](WaitError::Interrupted), when a signal
    /// handler runs in this thread while it sleeps (with or without `SA_RESTART`).
    ///
    /// A handler that ran just before the thread fell asleep is not noticed. If none may be
    /// missed, let the handler [cancel](super::CancelToken::cancel) a token instead, or send the signal
    /// again. Only Linux can tell; elsewhere no signal ends a wait.
    pub const fn interruptible(self) -> Self {
        Self { interruptible: true, ..self }
    }

    /// The same wait, but it also ends, with [`Cancelled`](WaitError::Cancelled), when `ends` says so, which is seldom.
    #[doc(hidden)]
    pub const fn ended_by(self, ends: &'a Ends) -> Self {
        Self { seldom: true, cancel: Some(ends), ..self }
    }

    /// Whether the wait may end without success.
    #[doc(hidden)] // for libfairlock
    pub const fn can_end(&self) -> bool {
        self.is_attempt() || self.cancel.is_some()
    }

    /// As [`can_end`](Self::can_end), but for a wait that seldom ends: only how patient the thread is may depend on this.
    pub(crate) const fn is_attempt(&self) -> bool {
        !matches!(self.end, End::Never)
            || self.interruptible
            || self.cancel.is_some() && !self.seldom
    }

    /// Why the wait is over before it begins, if it is. The clock is read only if it ends at a given time.
    #[cfg(feature = "async")]
    pub(crate) fn over(&self, now: impl FnOnce() -> u64) -> Option<WaitError> {
        let is_late = match self.end {
            End::Never => false,
            End::At(deadline) => now() >= deadline,
            End::After(timeout) => timeout.is_zero(),
        };
        match self.cancel {
            Some(token) if token.is_cancelled() => Some(WaitError::Cancelled),
            _ => is_late.then_some(WaitError::TimedOut),
        }
    }

    /// The wait begins now. The clock is read only if its end depends on that.
    pub(crate) fn begin(self) -> WaitContext<'a, P> {
        let Self { end, interruptible, seldom, cancel } = self;
        let deadline = match end {
            End::Never => None,
            End::At(deadline) => Some(deadline),
            End::After(timeout) => Some(deadline_after::<P>(timeout)),
        };
        WaitContext { deadline, interruptible, seldom, cancel }
    }
}

impl<P: System> Clone for Wait<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: System> Copy for Wait<'_, P> {}

impl<P: System> fmt::Debug for Wait<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait")
            .field("end", &self.end)
            .field("interruptible", &self.interruptible)
            .field("cancel", &self.cancel)
            .finish()
    }
}

/// The rest of a wait that has begun at one lock, at another.
impl<'a, P: System> From<&WaitContext<'a, P>> for Wait<'a, P> {
    fn from(context: &WaitContext<'a, P>) -> Self {
        let end = context.deadline.map_or(End::Never, End::At);
        let &WaitContext { interruptible, seldom, cancel, .. } = context;
        Self { end, interruptible, seldom, cancel }
    }
}

/// What ends waits from outside.
pub(crate) trait Cancels<P: System>: Sync + fmt::Debug {
    fn is_cancelled(&self) -> bool;

    /// From here on a cancellation wakes the thread.
    fn list(&self, thread: &'static Sleeper<P>);

    /// The thread, which is listed, no longer waits.
    fn unlist(&self, thread: &'static Sleeper<P>);

    /// From here on a cancellation rings this bell. Returns whether there was one before.
    #[cfg(feature = "async")]
    fn tells(&self, bell: &'static Bell<P>) -> bool;
}

/// For locks of other crates: asked by the thread that waits whether its wait ends. The thread that changes the answer
/// then [wakes](Sleeper::wake) it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Ends(pub fn() -> bool);

impl<P: System> Cancels<P> for Ends {
    fn is_cancelled(&self) -> bool {
        (self.0)()
    }

    fn list(&self, _: &'static Sleeper<P>) {
        // SeqCst: a notification that was dropped before comes before the next look, so that look sees what the
        // notification was about.
        fence(Ordering::SeqCst);
    }

    fn unlist(&self, _: &'static Sleeper<P>) {}

    /// A task is not told: no program has one at such a lock.
    #[cfg(feature = "async")]
    fn tells(&self, _: &'static Bell<P>) -> bool {
        (self.0)()
    }
}

/// A [`Wait`] that has begun. One slow path serves all kinds of waits; this says which kind it is.
pub struct WaitContext<'a, P: System> {
    /// Give up at this time.
    pub(crate) deadline: Option<u64>,
    /// Give up when a signal handler ran.
    pub(crate) interruptible: bool,
    /// See [`Wait`].
    pub(crate) seldom: bool,
    /// Give up when this token is cancelled.
    pub(crate) cancel: Option<&'a dyn Cancels<P>>,
}

impl<P: System> WaitContext<'_, P> {
    pub(crate) const FOREVER: Self =
        Self { deadline: None, interruptible: false, seldom: false, cancel: None };

    /// Whether the wait may end without the lock.
    pub(crate) fn can_end(&self) -> bool {
        Wait::from(self).can_end()
    }

    pub(crate) fn is_attempt(&self) -> bool {
        Wait::from(self).is_attempt()
    }

    /// Where `thread`, the calling one, sleeps for a ticket lock. If the wait may end without the
    /// lock, that is not where queue locks put the thread to sleep, as a token wakes the other
    /// parker.
    pub(crate) fn parker(&self, thread: &'static Sleeper<P>) -> &'static Parker<P> {
        if self.can_end() { &thread.parker } else { &thread.ticket_parker }
    }

    /// Runs `wait` of `thread`, the calling one, so that a cancellation wakes the thread. `wait`
    /// checks whether it has [expired](Self::expired) before the thread sleeps.
    pub(crate) fn listed<R>(&self, thread: &'static Sleeper<P>, wait: impl FnOnce() -> R) -> R {
        let _unlists = self.cancel.map(|token| Listed::new(token, thread));
        wait()
    }

    /// Nanoseconds until the deadline.
    pub(crate) fn left(&self, now: u64) -> u64 {
        self.deadline.map_or(u64::MAX, |deadline| deadline.saturating_sub(now))
    }

    /// Whether the deadline has passed. The clock is read only if there is one.
    pub(crate) fn is_late(&self, now: impl FnOnce() -> u64) -> bool {
        self.deadline.is_some_and(|deadline| now() >= deadline)
    }

    /// The reason to give up now, if there is one.
    pub(crate) fn expired(&self, now: impl FnOnce() -> u64) -> Option<WaitError> {
        if self.cancel.is_some_and(Cancels::is_cancelled) {
            return Some(WaitError::Cancelled);
        }
        self.is_late(now).then_some(WaitError::TimedOut)
    }
}

/// A thread is listed for as long as this is there.
struct Listed<'a, P: System> {
    token: &'a dyn Cancels<P>,
    thread: &'static Sleeper<P>,
}

impl<'a, P: System> Listed<'a, P> {
    fn new(token: &'a dyn Cancels<P>, thread: &'static Sleeper<P>) -> Self {
        token.list(thread);
        Self { token, thread }
    }
}

impl<P: System> Drop for Listed<'_, P> {
    fn drop(&mut self) {
        self.token.unlist(self.thread);
    }
}

/// Where a thread sleeps, and what others see of it: the first part of its [record](crate::platform::Thread).
pub struct Sleeper<P: System> {
    pub(crate) parker: Parker<P>,
    /// Where the thread sleeps for a ticket lock. This is not `parker`: the queue lock of a
    /// sleeping lock must not use up a notification meant for the waiter.
    pub(crate) ticket_parker: Parker<P>,
    /// Its place in the list of a token, while it waits under one.
    pub(crate) cancel: CancelLinks<P>,
    /// The number of its process.
    process: Hint,
}

impl<P: System> Sleeper<P> {
    pub(crate) fn new() -> Self {
        Self {
            parker: Parker::new(),
            ticket_parker: Parker::new(),
            cancel: CancelLinks::new(),
            process: Hint::new(fork::number()),
        }
    }

    /// Whether the thread sleeps at its parker, or is about to. In the child of a fork, the records
    /// of the parent's threads stay as they were, so sleeping ones seem to sleep for ever.
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

    /// Ends the thread's current [`park`](crate::wait::Thread::park), or its next one. What happened before the
    /// `unpark` is visible after the `park`.
    pub fn unpark(&self) {
        self.ticket_parker.unpark();
    }

    /// Ends the thread's current sleep, or its next one, at whichever lock: it looks whether its wait [ends](Ends).
    #[doc(hidden)]
    pub fn wake(&self) {
        self.parker.unpark();
        self.ticket_parker.unpark();
    }

    /// The name of this thread in owner words: its address. The alignment
    /// leaves the low bits free for flags.
    pub(crate) fn hint(&'static self) -> usize {
        core::ptr::from_ref(self) as usize
    }
}

/// By what a token wakes tasks that wait under it. A token may be cancelled by a signal handler, and wakers are the
/// program's code: so the timer of tasks calls them, and the token tells the timer.
///
/// The timer must not look at tokens: of a future that is leaked the token may be gone. So it is told one bit of a token's
/// address, and wakes the tasks that wait under tokens with that bit. A task that wakes for another token waits on.
///
/// The processor's atomics: no model has a timer.
#[cfg(feature = "async")]
pub(crate) struct Bell<P: System> {
    /// Bits of the tokens that were cancelled since the timer has looked.
    rung: Hint,
    /// The timer's record, once it runs.
    timer: core::sync::atomic::AtomicPtr<Sleeper<P>>,
}

/// The bit of the token at this address.
#[cfg(feature = "async")]
pub(crate) fn bit_of(token: usize) -> usize {
    // Fibonacci's hash: the highest bits depend on all.
    let hash = (token as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58;
    1_usize << (hash as u32 % usize::BITS)
}

#[cfg(feature = "async")]
impl<P: System> Bell<P> {
    pub(crate) const fn new() -> Self {
        Self {
            rung: Hint::new(0),
            timer: core::sync::atomic::AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// The token at this address was cancelled. Takes no lock, and never blocks.
    pub(crate) fn ring(&self, token: usize) {
        // SeqCst: the timer that begins sees the bit, or is seen here. And Release, for what the canceller did before.
        self.rung.fetch_or(bit_of(token), Ordering::SeqCst);
        self.wake_timer();
    }

    /// The timer looks at the alarms, which have changed, or if it has not begun yet, when it begins.
    pub(crate) fn wake_timer(&self) {
        // SAFETY: null or a record, which is never freed.
        if let Some(timer) = unsafe { self.timer.load(Ordering::SeqCst).as_ref() } {
            timer.parker.unpark();
        }
    }

    /// The timer has this record.
    pub(crate) fn serve(&self, timer: &'static Sleeper<P>) {
        self.timer.store(core::ptr::from_ref(timer).cast_mut(), Ordering::SeqCst);
    }

    /// The bits that were rung since the last call.
    pub(crate) fn take_rung(&self) -> usize {
        self.rung.swap(0, Ordering::SeqCst)
    }

    /// In the child of a fork, which has no timer. Relaxed: there is one thread.
    pub(crate) fn enter_child(&self) {
        self.rung.store(0, Ordering::Relaxed);
        self.timer.store(core::ptr::null_mut(), Ordering::Relaxed);
    }
}

/// A word that influences who runs, and never who may have a lock. Not one of the platform's
/// atomics: a model checker would try every order of its accesses.
pub(crate) type Hint = core::sync::atomic::AtomicUsize;

/// Where a thread sleeps: a binary semaphore.
pub(crate) struct Parker<P: System> {
    word: P::AtomicU32,
}

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const PARKED: u32 = 2;

impl<P: System> Parker<P> {
    fn new() -> Self {
        Self { word: P::AtomicU32::new(EMPTY) }
    }

    /// Drops a notification, most likely left over from an earlier wait: it would do no harm, but
    /// cost one turn of the caller's loop.
    pub(crate) fn forget_notification(&self) {
        // Acquire, as in `park`: the notification may belong to a wait that still goes on (a thread may
        // wait for a condition variable's queue lock meanwhile), and that wait reads what was published
        // with it.
        if self.word.load(Ordering::Acquire) == NOTIFIED {
            self.word.store(EMPTY, Ordering::Relaxed);
        }
    }

    /// Whether the thread sleeps, or is about to.
    pub(crate) fn is_parked(&self) -> bool {
        // Relaxed: nothing is read on the strength of it.
        self.word.load(Ordering::Relaxed) == PARKED
    }

    /// Sleeps until [`unpark`](Self::unpark), the deadline or a signal. A
    /// notification sent before the call ends it immediately. May return early.
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
        // Release: pairs with the Acquire in `park`.
        if self.word.swap(NOTIFIED, Ordering::Release) == PARKED {
            P::wake_one(&self.word);
        }
    }
}

/// A thread's place in the list of a token. Both are addresses of records, or zero.
pub(crate) struct CancelLinks<P: System> {
    pub(crate) next: P::AtomicUsize,
    /// Used only by a thread that changes the list.
    pub(crate) previous: P::AtomicUsize,
}

impl<P: System> CancelLinks<P> {
    fn new() -> Self {
        Self { next: P::AtomicUsize::new(0), previous: P::AtomicUsize::new(0) }
    }
}

/// How often a thread that finds a lock taken looks again, awake, before it queues, if other threads want the CPU: for 1.4 us
/// altogether. In looks; compared with those of this wait.
pub(crate) const FEW_LOOKS: u32 = 3;
/// The first pause between two such looks; each is twice as long as the one before. In ns, eight transfers of a
/// line; compared with the time since the last look, or since a lock was seen free.
pub(crate) const LOOK_NS: u64 = 200;
/// Longer than a running thread takes to leave a lock, or to come back to it. In ns, a wake-up and
/// a switch on one CPU; compared with the time since the thread came, or since the last look;
/// elsewhere it is the length of a pause.
pub(crate) const SOON_NS: u64 = 2_000;
/// How long a thread that may have the lock soon watches it before it sleeps or queues: a waiter that has just
/// been told that it is next or was woken, an upgrader while readers are inside, and one that has just come to
/// a range. In ns, half of a wake-up on an idle CPU; compared with the time since it was told, woken, came, or began to
/// drain the lock.
pub(crate) const WATCH_NS: u64 = 10_000;
/// About how long a wake-up takes if a CPU is free: a thread that can expect its turn sooner stays
/// awake. In ns, two wake-ups on a CPU that was long idle; compared with the time since the thread
/// came, or since its turn was to begin; elsewhere it is the length of a sleep.
pub(crate) const WAKE_NS: u64 = 50_000;
/// A thread that was woken, and does not run for so long, or a task that is not polled, is late: others do what was left to
/// it. In ns, several wake-ups, and no more than a tenure; compared with the time since it was woken, or since others found that
/// it does not come.
pub(crate) const MISSED_NS: u64 = 1_000_000;
/// How many times the interval doubles before something that was of no use is tried again: sleeps
/// that nobody may end, staying awake for a notification, trials of turns, waits for stragglers,
/// looks at the clock. In doublings; compared with those since it last was of use.
pub(crate) const MOST_DOUBLINGS: u32 = 5;

impl<P: System> WaitContext<'_, P> {
    /// How often a thread that finds a lock taken looks again, beside so many that are queued. If with the holder all
    /// of them can have a CPU, that of one that sleeps would do nothing: it looks twice as often, for 13 us altogether, about
    /// the cost of a sleep and a wake-up; not in models, where more looks would only be more schedules. Otherwise one that is awake takes it from
    /// those, and may lose it, while it waits, for as long as all others run. Short attempts have to queue, or else none is
    /// ever next.
    pub(crate) fn most_looks(&self, queued: usize) -> u32 {
        let is_long = !self.is_attempt() && queued + 2 <= P::cpus() && !cfg!(fairlock_loom);
        if is_long { 2 * FEW_LOOKS } else { FEW_LOOKS }
    }

    /// So long, but not beyond the deadline. The clock is read only if there is one.
    pub(crate) fn at_most(&self, bound_ns: u64) -> u64 {
        if self.deadline.is_some() { bound_ns.min(self.left(P::now())) } else { bound_ns }
    }

    /// Spins until `done` accepts the word's value; tells whether it did.
    #[inline]
    pub(crate) fn spin<T, A: Atomic<T>>(
        &self,
        word: &A,
        bound_ns: u64,
        done: impl Fn(T) -> bool,
    ) -> bool {
        P::spin_until(word, self.at_most(bound_ns), done)
    }

    /// Stays away from the lock.
    pub(crate) fn stand_back(&self, ns: u64) {
        self.spin(&P::AtomicU32::new(0), ns, |_: u32| false);
    }

    /// Sleeps until woken, or until `timer`. Returns why the wait has ended, if it has: to be acted
    /// on after another look, as the lock may have come free meanwhile.
    pub(crate) fn sleep(&self, parker: &Parker<P>, timer: Option<u64>) -> Option<WaitError> {
        let wake = timer.into_iter().chain(self.deadline).min();
        match parker.park(wake, self.interruptible) {
            WaitOutcome::Interrupted => Some(WaitError::Interrupted),
            _ => self.expired(P::now),
        }
    }
}

/// How long a thread sleeps that nobody may wake: each time for twice as long, 1.6 ms at most. A thread that waits
/// for a long section wakes up in vain, for some microseconds, 600 times a second.
pub(crate) struct Naps(u64);

impl Naps {
    pub(crate) fn new(first_ns: u64) -> Self {
        Self(first_ns)
    }

    /// The length of the next one.
    pub(crate) fn next(&mut self) -> u64 {
        let this = self.0;
        self.0 = (2 * this).min(WAKE_NS << MOST_DOUBLINGS);
        this
    }
}

/// A way to stay awake, and whether it has lately been worth it.
pub(crate) struct Habit {
    /// Grows with each wait in which the thread stayed awake in vain; in half as many it then does
    /// not.
    skips: Cell<u32>,
    /// How many are left of those.
    left: Cell<u32>,
}

impl Habit {
    pub(crate) const fn new() -> Self {
        Self { skips: Cell::new(0), left: Cell::new(0) }
    }

    /// A wait begins: whether to stay awake at first.
    pub(crate) fn begins(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left == 0
    }

    /// The thread stayed awake; `came` says whether the notification came.
    pub(crate) fn ended(&self, came: bool) {
        let skips =
            if came { 0 } else { (2 * self.skips.get() + 1).min((2 << MOST_DOUBLINGS) - 1) };
        self.skips.set(skips);
        // The first time in vain may be chance.
        self.left.set(skips / 2);
    }
}

/// Yields the CPU; returns how long others had it.
pub(crate) fn give_way<P: System>() -> u64 {
    let before = P::now();
    P::yield_now();
    P::now().saturating_sub(before)
}

/// Sleeps for a moment, where nobody may wake the thread: not in a queue, and not at its parker.
#[doc(hidden)]
pub fn nap<P: System>() {
    P::wait(&P::AtomicU32::new(0), 0, Some(P::now() + WAKE_NS), false);
}

/// Tells a thread that takes locks past their queues when to look at the clock: about once
/// in [`SOON_NS`], however long its sections are, so that the clock
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
    pub(crate) const fn new() -> Self {
        Self { left: Cell::new(1), stride: Cell::new(1), looked: Cell::new(0) }
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
    pub(crate) fn look<P: System>(&self) -> Option<Look> {
        (self.left.get() == 0).then(|| self.look_at(P::now()))
    }

    fn look_at(&self, now: u64) -> Look {
        let before = self.stride.get();
        let since = now.wrapping_sub(self.looked.replace(now)).max(1);
        // As many steals as fit into the interval at the recent rate. The stride at most doubles: after
        // one short section the clock must still be read soon.
        let fit = (u64::from(before) * SOON_NS / since).min(u64::from(before) * 2);
        let stride = (fit as u32).clamp(1, 1 << MOST_DOUBLINGS);
        self.stride.set(stride);
        self.left.set(stride);
        Look { now, since, steals: before }
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use std::time::{Duration, Instant};

    #[cfg(target_os = "linux")]
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering;

    #[cfg(target_os = "linux")]
    use fairlock_testing::{in_child, scope, until};

    use super::{
        EMPTY, Ends, FEW_LOOKS, Habit, Look, MOST_DOUBLINGS, NOTIFIED, StealClock, Wait,
        WaitContext, WaitError,
    };
    use crate::platform::{Native, System, Thread};

    /// The thread that asks, the holder, and those queued.
    #[test]
    fn a_thread_looks_longer_only_where_all_at_the_lock_can_have_a_cpu() {
        let cpus = Native::cpus();
        for queued in 0..=cpus {
            let looks = if 1 + 1 + queued > cpus { FEW_LOOKS } else { 2 * FEW_LOOKS };
            let context = WaitContext::<Native>::FOREVER;
            assert_eq!(context.most_looks(queued), looks, "{queued} beside {cpus} CPUs");
            let attempt = WaitContext { deadline: Some(Native::now()), ..context };
            assert_eq!(attempt.most_looks(queued), FEW_LOOKS, "an attempt");
        }
    }

    /// Whoever has told a sleeper to wait elsewhere, as the child of a fork that of its parent, would wait for ever.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_seems_to_sleep_where_it_sleeps_and_not_in_the_child_of_a_fork() {
        let me = Native::thread();
        assert!(!me.is_asleep());
        let ends = &AtomicBool::new(false);
        scope(|s| {
            let (send, other) = std::sync::mpsc::channel();
            s.spawn(move || {
                send.send(Native::thread()).unwrap();
                // Its record may have a notification left of a thread before.
                while !ends.load(Ordering::Relaxed) {
                    Native::thread().parker.park(None, false);
                }
            });
            let other = other.recv().unwrap();
            until(|| other.is_asleep());
            in_child(|| {
                assert!(!other.is_asleep());
                me.enter_child();
                me.parker.word.store(super::PARKED, Ordering::Relaxed);
                assert!(me.is_asleep());
            });
            ends.store(true, Ordering::Relaxed);
            other.parker.unpark();
        });
    }

    /// How long a thread looks depends on whether it makes an attempt.
    #[test]
    fn a_thread_is_as_patient_in_a_wait_that_seldom_ends_as_in_one_that_does_not() {
        for (ends, error) in [(Ends(|| false), None), (Ends(|| true), Some(WaitError::Cancelled))] {
            let wait = Wait::<Native>::FOREVER.ended_by(&ends);
            assert!(wait.can_end() && wait.begin().can_end() && !wait.is_attempt());
            assert_eq!(wait.begin().most_looks(0), WaitContext::<Native>::FOREVER.most_looks(0));
            assert_eq!(wait.begin().expired(Native::now), error);
            let late = Wait::<Native>::until_nanos(0).ended_by(&ends);
            assert!(late.is_attempt() && late.begin().expired(Native::now).is_some());
        }
    }

    /// A condition is waited for in a loop, each time with the same argument.
    #[test]
    fn a_deadline_is_the_same_for_every_wait_and_a_timeout_begins_anew() {
        let hour = Duration::from_secs(3600);
        let deadlines = |wait: Wait<'_, Native>| {
            let first = wait.begin().deadline;
            std::thread::sleep(Duration::from_micros(1));
            [first, wait.begin().deadline]
        };
        let [first, second] = deadlines(Wait::until(Instant::now() + hour));
        assert_eq!(first, second);
        let [first, second] = deadlines(Wait::within(hour));
        assert!(first < second);
    }

    #[test]
    fn a_thread_that_was_unparked_does_not_park() {
        let me = Native::thread();
        for park in [Thread::<Native>::park, || Thread::<Native>::park_until(u64::MAX)] {
            me.unpark();
            assert_eq!(me.ticket_parker.word.load(Ordering::Relaxed), NOTIFIED);
            park();
            assert_eq!(me.ticket_parker.word.load(Ordering::Relaxed), EMPTY);
        }
    }

    #[test]
    fn a_look_tells_whether_a_multiple_of_a_period_lies_behind_it() {
        for (before, now, passed) in [(8, 15, false), (7, 8, true), (15, 17, true), (0, 7, false)] {
            let look = Look { now, since: now - before, steals: 0 };
            assert_eq!(look.passed_multiple_of(8), passed);
        }
    }

    /// Sections of no time: the clock is looked at half as often after each look, up to a limit.
    #[test]
    fn the_clock_is_looked_at_less_often_beside_short_sections() {
        let clock = StealClock::new();
        clock.looked.set(1_000);
        let mut looks = vec![];
        for _ in 0..100 {
            if clock.count() {
                looks.push(clock.look_at(1_000).steals);
            }
        }
        assert_eq!(looks, [1, 2, 4, 8, 16, 32, 32]);
    }

    fn watched(habit: &Habit, waits: usize, came: bool) -> usize {
        (0..waits)
            .filter(|_| {
                let watched = habit.begins();
                if watched {
                    habit.ended(came);
                }
                watched
            })
            .count()
    }

    #[test]
    fn waits_are_watched_as_long_as_that_pays() {
        let habit = Habit::new();
        assert_eq!(watched(&habit, 100, true), 100);
        assert!(watched(&habit, 1_000, false) < 50);
        // Staying awake pays again: this is noticed within so many waits.
        watched(&habit, 2 << MOST_DOUBLINGS, true);
        assert_eq!(watched(&habit, 100, true), 100);
    }

    #[test]
    fn one_in_vain_is_no_reason_to_stop() {
        let habit = Habit::new();
        watched(&habit, 1, false);
        assert!(habit.begins());
    }
}

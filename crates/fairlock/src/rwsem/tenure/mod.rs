//! The tenure discipline: nobody sleeps at a free lock, and nobody waits for ever.
//!
//! *Any running thread may take a free lock*, past the queue (barging), until the queue closes the
//! lock (`HANDOFF`). Barging is what makes an unfair lock fast; here it is allowed for a bounded
//! time, the *tenure*. A thread that finds the lock taken spins before it queues (`compete`): for
//! 13 µs if it, the holder and all waiters can have a CPU each, otherwise for 1.4 µs.
//!
//! *One waiter is next* (`NEXT`): the first of the side whose tenure it is not, if that side waits.
//! Only that waiter watches the lock; the others sleep until they are next. The waiter that is next
//!
//! * takes the lock when it has been free for a moment;
//! * otherwise sets `WAKE_NEXT` and sleeps: the thread that leaves the lock free wakes it. A woken
//!   waiter that finds the lock taken again naps once, then sets `WAKE_NEXT` again. So a busy lock
//!   pays for one wake-up in many acquisitions;
//! * is awake at the end of the tenure, closes the lock, and takes it when the last holder leaves. If
//!   a writer is inside and `WAKE_NEXT` is set, the waiter sleeps without a timer, and the writer
//!   closes the lock before its release. (Programming the CPU's next timer doubles the cost of a
//!   sleep and its wake-up.)
//!
//! *No sleeping thread owns the lock.* A waiter takes the lock itself when it runs; the lock is
//! never granted to it. A closed lock is reserved for the waiter that is next until that waiter has
//! taken it or given up. But if the lock stays free for as long as a wake-up takes, another running
//! thread goes first (except after a fair release), and the lock stays closed. A reader that may
//! give up does not add itself to the count before it has the lock (`Sem::read_until`): such counts
//! would hide a free lock from the waiter that is next.
//!
//! *A writer that is awake need not find a gap between reads*: a gap may be too short to be seen.
//! While readers are inside, the writer sets a flag of the word (`AWAKE_WRITER`) for at most 1.5
//! µs. Arriving readers pause meanwhile, and the writer takes the lock when the readers inside have
//! left. If another writer is faster, that writer clears the flag, and the waiting writer sets it
//! again. A reader that has waited the whole pause clears the flag, too, as the writer may have
//! lost its CPU. So if threads share the lock and mostly read, they run in parallel.
//!
//! *Readers take turns with writers.* In a readers' tenure (`READERS_TURN`) readers join those
//! inside past the queue. In a writers' tenure only readers that have lately written may join, and
//! only while threads share the lock; all others enter only if nobody is inside.
//!
//! | what | where |
//! |---|---|
//! | acquisitions and releases past the queue, of thin locks, too | here |
//! | how long a tenure is | [`clock`] |
//! | whether threads share the lock or take turns | [`mode`] |
//! | what is remembered of a lock; coming to the queue (also of a thread that sleeps at a condition variable), being next, taking the lock, leaving | `turn` |
//! | spinning and yielding before queueing; waiting in the queue | `wait` |
//! | what is remembered of a thread: its age at locks | `local` |
//!
//! Why no wake-up is lost: while somebody waits, one waiter is next ([`Tenure::next`]). That waiter
//! is awake, or a timer will wake it, or it is in a list of threads to wake, or `WAKE_NEXT` is set
//! for it. The flag was set in the same atomic step in which the lock was seen taken, so the
//! release that leaves the lock free sees it. It was set by the waiter itself; or by the thread
//! that queued the waiter (`queue_sleeping_writer`); or by the writer inside, when that writer took
//! the lock as the waiter that was next before. In the last case the next thread to queue clears
//! the flag and wakes the waiter: that thread is about to sleep, whereas the writer has work to do.
//! A writer that downgrades also wakes the waiter for which the flag is set: readers may then
//! overlap without a gap.
//!
//! Source: competitive succession is Dice's term (2017); the bound by handoff is proposal 1; a grant
//! for a length of time is ours.

mod clock;
mod local;
mod mode;
#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests;
mod turn;
mod wait;

use core::cell::Cell;
use core::sync::atomic::Ordering;

pub(crate) use local::TenureLocal;
use turn::{Holder, Tenure};

use super::Turns;
use super::policy::{HANDOFF_AFTER, Policy, TenureShape};
use super::sem::{self, Rules};
use super::word::{AtomicWord, Flags, Word};
use crate::events::Event;
use crate::inspect::Field;
use crate::platform::Platform;
use crate::wait::{
    Access, FEW_WAKES, Kind, LOOK_NS, Look, Thread, WAKE_NS, WATCH_NS, WaitContext, WaitError,
    Waiter, WakeList, give_way,
};

/// Enough for two readers that an entering reader wakes, and the waiter that is next.
type FewWakes<P> = WakeList<P, FEW_WAKES>;

/// A thread that releases the lock this long after the end of a tenure yields its CPU to the waiter
/// that is next. With a smaller value, threads that share the lock lose CPU time to other busy
/// programs; with a larger one, a waiter that is queued on the holder's CPU waits for longer. In
/// ns, a seventh of a slice; compared with the time since the end of the tenure.
const LATE_NS: u64 = 200_000;
/// A lock is idle if it is free at every look for this long, with no steal between them.
const IDLE: u64 = LOOK_NS * 3 / 2;
/// The holder closes the lock this long after the end of a tenure, as yielding has not helped. As
/// long as a wait should be.
const LOST: u64 = HANDOFF_AFTER.as_nanos() as u64;
/// What the queue lock guards.
type Queued<P> = sem::Queued<P, Tenure<P>>;

impl<P: Platform> Rules<P> for Policy {
    type Near = ();
    type Lines = Holder<P>;
    type Queued = Tenure<P>;
    const QUEUED: Tenure<P> = Tenure::new();
    const FIELDS: &'static [Field] = &[(0, size_of::<Holder<P>>(), "holder")];

    fn priorities(&self) -> bool {
        self.priorities
    }

    #[inline]
    fn read(
        lock: &Turns<P>,
        counted: Option<Word>,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        if lock.reads_at_once(counted) || lock.compete(Access::Shared, context) {
            return Ok(());
        }
        lock.wait(Access::Shared, context)
    }

    #[cold]
    fn write(lock: &Turns<P>, _word: Word, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        lock.take_or_wait(Access::Exclusive, context)
    }

    #[inline]
    fn upgradable(lock: &Turns<P>, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        lock.take_or_wait(Access::Upgradable, context)
    }

    #[inline(always)]
    fn is_awaited(lock: &Turns<P>) -> bool {
        lock.holder().is_awaited()
    }

    /// Somebody: a waiter that asked for it, or a thread that upgrades, which `WRITER_LOCKED` tells.
    #[inline(always)]
    fn wakes_after(before: Word) -> bool {
        before.has_next_to_wake() || before.is_written()
    }

    /// The waiter that is next asked to be woken then.
    fn read_release(lock: &Turns<P>) {
        lock.wake_next();
    }

    fn write_release(lock: &Turns<P>) {
        if !lock.leave_again(P::thread()) {
            lock.write_release();
        }
    }

    fn upgradable_left(lock: &Turns<P>, before: Word) {
        let is_upgradable = |next: &Waiter<P>| next.access == Access::Upgradable;
        let waits = || lock.with_queue(|q| q.own.next().is_some_and(is_upgradable));
        if before.has_next_to_wake() && (before.readers() == 1 || waits()) {
            lock.wake_next();
        }
    }

    /// However long the next waiter takes to come, the following release wakes it.
    fn close_for_next(lock: &Turns<P>) {
        lock.with_queue(|q| {
            if q.own.next().is_some() {
                q.own.is_promised = true;
                lock.word.flag_queue(Flags::HANDOFF.with(Flags::WAKE_NEXT));
            }
        });
    }

    fn let_readers_join(lock: &Turns<P>) {
        lock.let_readers_join();
    }

    fn knows_next(q: &Queued<P>) -> bool {
        match q.own.next() {
            Some(next) => q.waiters.iter().any(|waiter| core::ptr::eq(waiter, next)),
            None => q.waiters.is_empty(),
        }
    }
}

impl<P: Platform> Turns<P> {
    /// Who took the lock past the queue last.
    #[inline(always)]
    pub(crate) fn holder(&self) -> &Holder<P> {
        &self.lines
    }

    /// Computed under the queue lock only: a steal does not pay for it.
    fn shape(&self) -> TenureShape {
        self.policy.shape()
    }

    #[inline]
    fn take_or_wait(&self, access: Access, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        // Steal before anything else, without the stack frame of a wait: within a tenure most
        // acquisitions end here.
        if self.steal_at_once(access) || self.compete(access, context) {
            return Ok(());
        }
        self.wait(access, context)
    }

    // ---- past the queue ----

    /// Whether a reader gets the lock at once, past the queue. `counted` is the word that it found
    /// when it was counted, if it already is; if it may not stay, it is no longer counted
    /// afterwards.
    #[inline]
    fn reads_at_once(&self, counted: Option<Word>) -> bool {
        let me = P::thread();
        let may_stay = |word| self.may_stay(me, word);
        let taken = match counted {
            Some(before) => may_stay(before).then_some(before),
            None => self.word.take_while(self.now(), Access::Shared, may_stay),
        };
        match taken {
            Some(before) => self.note_steal(me, Kind::Reader, before),
            None if counted.is_some() => self.take_count_back(),
            None => {}
        }
        taken.is_some()
    }

    /// Whether the calling thread, `me`, a reader that found `before`, may stay.
    #[inline(always)]
    pub(crate) fn may_stay(&self, me: &Thread<P>, before: Word) -> bool {
        self.may_read(me, before)
            && !self.holds_off(me, before)
            && !self.takes_turns(me, Kind::Reader, before)
    }

    /// Whether the calling thread, `me`, may read past the queue; the word is `word`. A thread that has
    /// written lately may join readers in a writers' tenure, too, if threads share the lock: it is the
    /// next to write, and gets there sooner.
    #[inline(always)]
    pub(super) fn may_read(&self, me: &Thread<P>, word: Word) -> bool {
        word.is_read_stealable()
            || word.is_open_past_queue()
                && me.tenure.wrote(self.id())
                && word.readers() < P::cpus()
                && !self.holder().is_in_turns()
    }

    /// Whether others wait for the lock, whose word is `word`, and it is not the turn of the calling
    /// thread, `me`.
    #[inline(always)]
    fn takes_turns(&self, me: &Thread<P>, kind: Kind, word: Word) -> bool {
        word.has_waiters() && self.is_others_turn(me, kind, word)
    }

    /// Whether threads take turns at the lock, and the last was not the turn of the calling thread,
    /// `me`.
    #[inline(always)]
    fn is_others_turn(&self, me: &Thread<P>, kind: Kind, word: Word) -> bool {
        !(kind == Kind::Reader && word.is_readers_turn())
            && self.holder().is_in_turns()
            && !self.holder().is(me)
    }

    /// Whether the lock stays free for a moment, and nobody takes it meanwhile.
    fn is_idle(&self) -> bool {
        let steals = self.holder().steals();
        !self.word.spin_until(IDLE, |word| !word.is_free()) && self.holder().steals() == steals
    }

    /// Takes the lock past the queue at once, if it is free and it is this thread's turn.
    #[inline]
    pub(crate) fn steal_at_once(&self, access: Access) -> bool {
        let me = P::thread();
        let taken = self.try_steal(me, access, true);
        taken.map(|before| self.note_steal(me, access.kind(), before)).is_some()
    }

    pub(crate) fn take_write_at_once(&self) -> bool {
        self.try_write() || self.steal_at_once(Access::Exclusive)
    }

    /// Takes the lock past the queue, if nothing is in the way.
    fn steal(&self, access: Access) -> bool {
        let me = P::thread();
        let taken = self.try_steal(me, access, false);
        taken.map(|before| self.note_steal(me, access.kind(), before)).is_some()
    }

    /// The calling thread, `me`, takes the lock past the queue, if nothing is in the way; `in_turn`: and if it is its
    /// turn. Returns the word before.
    #[inline(always)]
    #[must_use]
    fn try_steal(&self, me: &Thread<P>, access: Access, in_turn: bool) -> Option<Word> {
        let word = self.word.load(Ordering::Relaxed);
        if in_turn && self.takes_turns(me, access.kind(), word) {
            return None;
        }
        let is_stealable = |word: Word| match access {
            Access::Shared => self.may_read(me, word),
            Access::Upgradable => word.is_read_stealable() && word.may_take_next(access),
            Access::Exclusive => word.is_write_stealable(),
        };
        self.word.take_while(word, access, is_stealable)
    }

    /// The calling thread, `me`, has taken the lock past the queue; the word was `before`.
    ///
    /// Rare work is a tail call that gets only the parts of the lock that it needs: so the fast path of
    /// a busy lock needs no stack frame.
    #[inline(always)]
    fn note_steal(&self, me: &Thread<P>, kind: Kind, before: Word) {
        me.tenure.ages.forget(self.id());
        if !before.has_waiters() {
            return;
        }
        match kind {
            Kind::Reader => {
                self.events.count(Event::ReadSteal);
                if !before.is_read_stealable() {
                    me.tenure.joins_as_writer();
                }
            }
            Kind::Writer => me.tenure.writes(self.id()),
        }
        // A reader may use a moment of the writers' tenure, but that does not become its own.
        let own = kind == Kind::Writer || before.is_readers_turn();
        let comes = own && before.is_free();
        let alone = self.is_ones_own(before);
        if alone {
            self.holder().count(1);
        }
        if me.steals.count() || alone && comes && !self.holder().is(me) {
            Self::look_around(&self.word, self.holder(), me, comes, alone);
        }
    }

    /// Whether one thread has the tenure of the lock, whose word is `word`. Where threads share the lock,
    /// a store for each acquisition would move a cache line from CPU to CPU.
    #[inline(always)]
    fn is_ones_own(&self, word: Word) -> bool {
        self.holder().is_in_turns() && !word.is_readers_turn()
    }

    /// The calling thread, `me`, holds the lock, and took it after another thread, or should look
    /// at the clock. `comes`: it found the lock free in a tenure of its own side. `alone`: the
    /// tenure belongs to one thread, which has counted already.
    #[cold]
    #[inline(never)]
    fn look_around(
        word: &AtomicWord<P>,
        holder: &Holder<P>,
        me: &Thread<P>,
        comes: bool,
        alone: bool,
    ) {
        let look = me.steals.look::<P>();
        // Steals of a shared lock are added to its counter late, and a few to another lock's counter.
        let unreported =
            me.tenure.unreported_steals.take() + look.as_ref().map_or(0, |look| look.steals);
        // About as often as a waiter watches: each store moves a cache line from CPU to CPU.
        let tells = |look: &Look| look.passed_multiple_of(WATCH_NS.next_power_of_two());
        if !alone && !look.as_ref().is_some_and(tells) {
            me.tenure.unreported_steals.set(unreported);
        } else {
            if !alone {
                holder.count(unreported);
            }
            if comes {
                holder.set(me);
            }
        }
        if let Some(look) = look {
            Self::watch_clock(word, holder, me, look.now);
        }
    }

    /// The threads of a busy lock may occupy all CPUs, and then the waiter that is next cannot end the
    /// tenure. So a holder reads the clock; if the tenure is over, it yields its CPU when it leaves. If
    /// yielding has not helped for long, the holder closes the lock itself.
    fn watch_clock(word: &AtomicWord<P>, holder: &Holder<P>, me: &Thread<P>, now: u64) {
        let end = holder.end();
        let over = now.saturating_sub(end);
        if over >= LOST {
            word.flag_queue(Flags::HANDOFF); // as `close`
        } else if over >= LATE_NS {
            me.tenure.is_to_give_way(word.address(), end, now);
        }
    }

    /// Whether the calling thread has seen that the waiter that is next is late.
    #[inline(always)]
    fn gives_way(&self, me: &Thread<P>) -> bool {
        me.tenure.gives_way.get() == self.id()
    }

    /// Whether the calling thread, `me`, a reader, lets others go first: a writer that waits for the readers inside, as
    /// `word` says, or the waiter that is next, which is late.
    #[inline(always)]
    fn holds_off(&self, me: &Thread<P>, word: Word) -> bool {
        word.has_awake_writer() || word.has_waiters() && self.gives_way(me)
    }

    /// The calling thread, `me`, an arriving reader, yields if it has seen that the waiter that is
    /// next is late; not once its deadline has passed, as it may get its CPU back late.
    fn give_way_before(&self, me: &Thread<P>, context: &WaitContext<'_, P>) {
        if self.gives_way(me)
            && self.word.load(Ordering::Relaxed).has_waiters()
            && !context.is_late(P::now)
        {
            Self::give_way(me);
        }
    }

    /// The calling thread, which is not inside, yields its CPU, as the waiter that is next may lack
    /// one. Unlike closing the lock, this keeps the lock in use. The thread may yield again after a
    /// pause, as the scheduler may have let it run on although a waiter is queued behind it; but
    /// not if the yield took long, as then another program had the CPU.
    fn give_way(me: &Thread<P>) {
        let pause = if give_way::<P>() <= WAKE_NS { WAKE_NS } else { u64::MAX };
        me.tenure.gave_way(P::now().saturating_add(pause));
    }

    // ---- out ----

    /// A reader that may not stay takes its count back. (If it has to yield, `compete` does so.)
    pub(super) fn take_count_back(&self) {
        // Release: the reader owned nothing, but whoever has the lock next may free it.
        let before = self.word.leave(Access::Shared, Ordering::Release);
        // The reader's count may have hidden a free lock from a waiter (rule 15).
        if before.without_reader().is_free() && before.has_next_to_wake() {
            self.wake_next();
        } else if before.without_reader().is_drained() {
            self.queue.wake_upgrader();
        }
    }

    /// The calling thread, `me`, leaves the lock as a writer, if somebody waits, and nobody is to be
    /// woken or given way to. Returns whether it did: this is how a busy lock is left nearly always.
    #[inline(always)]
    pub(crate) fn leave_again(&self, me: &Thread<P>) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        word.is_left_to_sleepers() && !self.gives_way(me) && self.let_go_from(word).is_ok()
    }

    /// A writer releases the lock while somebody waits. The next holder may free the lock's memory:
    /// from then on only thread records are touched.
    #[cold]
    #[inline(never)] // its frame is large
    fn write_release(&self) {
        let me = P::thread();
        let gives_way = self.gives_way(me);
        let mut wakes = FewWakes::new();
        // Once one waiter is listed, another may become next, and ask to be woken.
        while !self.let_go() {
            self.list_next(&mut wakes);
        }
        wake(&mut wakes);
        if gives_way {
            Self::give_way(me);
        }
    }

    /// Releases the lock, unless `WAKE_NEXT` is set. By compare-exchange: a waiter that sets the flag
    /// later finds the lock free.
    #[inline(always)]
    fn let_go(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while !word.has_next_to_wake() {
            match self.let_go_from(word) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    #[inline(always)]
    fn let_go_from(&self, word: Word) -> Result<Word, Word> {
        let free = word.without(Flags::WRITER_LOCKED);
        // Release: as on the fast path.
        self.word.compare_exchange_weak(word, free, Ordering::Release, Ordering::Relaxed)
    }

    /// The last reader has left, and the waiter that is next asked to be woken then.
    #[cold]
    pub(crate) fn wake_next(&self) {
        let mut wakes = FewWakes::new();
        self.list_next(&mut wakes);
        wake(&mut wakes);
    }

    /// Lists the waiter that is next for a wake-up, if `WAKE_NEXT` is set. Of several threads that
    /// find the flag, only the one that clears it lists the waiter.
    fn list_next(&self, wakes: &mut FewWakes<P>) {
        if !self.word.clear(Flags::WAKE_NEXT, Ordering::Relaxed).has_next_to_wake() {
            return;
        }
        let now = P::now();
        self.with_queue(|q| {
            self.wake_appointed(q, wakes);
            // The waiter may have set no timer for it.
            let over = q.own.clock.is_over(now);
            let word = if over { self.close() } else { self.word.load(Ordering::Relaxed) };
            q.own.freed = if word.is_closed() { now } else { 0 };
        });
    }

    /// As [`RwSem::planned_wait_ns`](crate::rwsem::RwSem::planned_wait_ns), for a lock that is also
    /// read, or only written.
    pub(crate) fn planned_wait_ns(&self, grants_ahead: usize, is_read: bool) -> u64 {
        self.with_queue(|q| q.own.clock.planned_wait_ns(grants_ahead, is_read, self.shape()))
    }
}

/// Wakes the listed threads, and notes how long that took the calling thread.
#[cold]
fn wake<P: Platform>(wakes: &mut FewWakes<P>) {
    if !wakes.is_empty() {
        let began = P::now();
        wakes.wake_all();
        P::thread().tenure.wake_cost.set(P::now().saturating_sub(began));
    }
}

// ---- the ways of thin locks ----
//
// Thin locks have a full lock one after the other: a thread may come late, and take (or count itself in) a full lock that
// is another thin lock's by now. So an acquisition is noted only afterwards.
//
// The shortest paths are for the thread that had the lock last, while others wait. If threads take turns, it is this
// thread's turn; and the hints about the last holder need no update.

/// A lock that its last holder has taken again, while others wait: to be noted, or left at once if it is not the
/// right one.
#[must_use]
pub(crate) struct Again<'a, P: Platform> {
    lock: &'a Turns<P>,
    pub(crate) access: Access,
    /// The word before.
    before: Word,
}

impl<P: Platform> Again<'_, P> {
    /// Notes that the calling thread, `me`, has taken the lock.
    #[inline(always)]
    pub(crate) fn note(self, me: &Thread<P>) {
        let Self { lock, access, before } = self;
        if access == Access::Exclusive {
            // Later the thread may join readers as one that has written.
            me.tenure.writes(lock.id());
        }
        let alone = lock.is_ones_own(before);
        if alone {
            lock.holder().count(1);
        }
        // One call for all that is rare: so the path needs few registers.
        if me.steals.count() || me.tenure.ages.any() {
            note_rare(lock, me, alone);
        }
    }
}

/// The rest of a note, of a thread that has an age somewhere, or is to look at the clock.
#[cold]
#[inline(never)]
fn note_rare<P: Platform>(lock: &Turns<P>, me: &Thread<P>, alone: bool) {
    me.tenure.ages.forget(lock.id());
    Turns::look_around(&lock.word, lock.holder(), me, false, alone);
}

/// A lock that a thread has taken past its queue, or found without one: to be noted, or left at once if
/// it is not the right one.
#[must_use]
pub(crate) struct PastQueue<'a, P: Platform> {
    pub(crate) lock: &'a Turns<P>,
    pub(crate) access: Access,
    /// The word before.
    pub(crate) before: Word,
}

impl<P: Platform> PastQueue<'_, P> {
    /// Whether the lock was free, and nobody waited.
    #[inline(always)]
    pub(crate) fn found_free(&self) -> bool {
        self.before == Word::FREE
    }

    /// Notes that the calling thread, `me`, has taken the lock.
    #[inline(always)]
    pub(crate) fn note(self, me: &Thread<P>) {
        self.lock.note_steal(me, self.access.kind(), self.before);
    }
}

impl<P: Platform> Turns<P> {
    /// The calling thread, `me`, takes the lock past the queue, if it had the lock last, somebody waits, and
    /// nothing else is in the way.
    #[inline(always)]
    #[must_use]
    pub(crate) fn take_again(&self, me: &Thread<P>, access: Access) -> Option<Again<'_, P>> {
        // Check the holder first: its cache line is separate, so a failed check leaves the word's line
        // alone. A reader yields before it enters, a writer after it has left.
        let holder = self.holder();
        if !holder.is_awaited() || !holder.is(me) {
            return None;
        }
        let word = self.word.load(Ordering::Relaxed);
        if !word.is_left_free() || access == Access::Shared && self.holds_off(me, word) {
            return None;
        }
        let taken = word.taken(access);
        // Acquire: owns the lock on success (rule 3).
        let before =
            self.word.compare_exchange(word, taken, Ordering::Acquire, Ordering::Relaxed).ok()?;
        Some(Again { lock: self, access, before })
    }

    /// As [`take_again`](Self::take_again), for writing, with the note.
    pub(crate) fn write_again(&self) -> bool {
        let me = P::thread();
        self.take_again(me, Access::Exclusive).map(|again| again.note(me)).is_some()
    }

    /// The calling thread, `me`, leaves the lock as a writer, if nobody waits, or if it need
    /// neither wake nor yield to anybody. Returns whether it left.
    #[inline(always)]
    pub(crate) fn leave_written(&self, me: &Thread<P>) -> bool {
        if self.holder().is_awaited() {
            return self.leave_again(me);
        }
        // Without looking at the word first, as in `past_queue`.
        self.let_go_from(Word::FREE.taken(Access::Exclusive)).is_ok()
    }

    /// The calling thread, `me`, takes the lock in this way if nothing is in the way but those that wait.
    #[inline(always)]
    #[must_use]
    pub(crate) fn past_queue(&self, me: &Thread<P>, access: Access) -> Option<PastQueue<'_, P>> {
        let before = match access {
            Access::Shared => {
                // Acquire: owns the lock if nothing was in the way (rule 3).
                let before = self.word.enter(access, Ordering::Acquire);
                return self.stay_past_queue(me, before);
            }
            // Without looking at the word first: that would fetch the line twice, to read it and to
            // write it. Where somebody waits the exchange would fail, which costs more.
            Access::Exclusive if !self.holder().is_awaited() && self.try_write() => Word::FREE,
            _ => self.try_steal(me, access, true)?,
        };
        Some(PastQueue { lock: self, access, before })
    }

    /// As [`past_queue`](Self::past_queue), of a reader that is counted already, and found `before`.
    #[inline(always)]
    #[must_use]
    pub(crate) fn stay_past_queue(&self, me: &Thread<P>, before: Word) -> Option<PastQueue<'_, P>> {
        if before.is_open_to_new_readers() || before.has_room() && self.may_stay(me, before) {
            return Some(PastQueue { lock: self, access: Access::Shared, before });
        }
        self.leave_at_once(before);
        None
    }

    /// A reader, counted already, that found `before`, may not stay.
    #[cold]
    #[inline(never)]
    fn leave_at_once(&self, before: Word) {
        if before.has_room() {
            self.take_count_back();
        } else {
            // SAFETY: the thread gives up a count as a reader inside does, and it may be the last
            // one.
            unsafe { self.unlock_read() };
        }
    }

    /// As [`past_queue`](Self::past_queue), for writing, with the note. Returns whether the lock was
    /// free, if it did.
    pub(crate) fn take_past_queue(&self) -> Option<bool> {
        let me = P::thread();
        let taken = self.past_queue(me, Access::Exclusive)?;
        let found_free = taken.found_free();
        taken.note(me);
        Some(found_free)
    }

    /// Takes the lock in this way if that needs no waiting; `again`: beside readers even past waiting
    /// writers. If not, whether a seal was in the way.
    pub(crate) fn try_take(&self, access: Access, again: bool) -> Result<(), bool> {
        // Only locks of the default policy are sealed.
        if self.policy != Policy::DEFAULT {
            return self.try_in(access, again).then_some(()).ok_or(false);
        }
        if access == Access::Exclusive {
            return self.write_fast().map_err(Word::is_sealed);
        }
        let sealed = Cell::new(false);
        let may = |word: Word| {
            sealed.set(word.is_sealed());
            word.is_open_to_readers() && !(access == Access::Upgradable && word.is_upgradable())
                || again && word.is_joinable()
        };
        self.take_if(access, may).then_some(()).ok_or(sealed.get())
    }

    /// Takes the lock in this way without going to sleep for it.
    #[cold]
    pub(crate) fn take_awake(&self, access: Access, context: &WaitContext<'_, P>) -> bool {
        match access {
            Access::Shared => self.compete(access, context) && self.keep_if_room().is_ok(),
            Access::Upgradable => self.try_upgradable_read() || self.compete(access, context),
            Access::Exclusive => self.steal_at_once(access) || self.compete(access, context),
        }
    }

    /// The rest of the wait: sleeps.
    pub(crate) fn take_asleep(
        &self,
        access: Access,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        match access {
            Access::Shared if self.word.load(Ordering::Relaxed).has_room() => {
                self.wait(access, context)?;
                self.keep_if_room()
            }
            Access::Exclusive => self.wait(access, context),
            _ => self.take_with(access, context.into()),
        }
    }

    /// As if the calling thread had had the lock last, and another were queued.
    #[cfg(all(test, feature = "std"))]
    pub(crate) fn seem_last(&self) {
        self.holder().set(P::thread());
        self.holder().set_queued(1);
    }
}

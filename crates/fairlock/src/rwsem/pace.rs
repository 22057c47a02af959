//! The current tenure: whose it is, when it ends, and what handoffs cost.
//!
//! Length of a tenure: what lets all who want the lock be served within
//! `handoff_after`, and no more than the other side used of its last tenure if
//! it gave that up (occasional writers interrupt the readers soon, and for a
//! moment); but not less than the measured cost of a handoff divided by
//! `handoff_budget`. A readers' tenure also makes up for its slow start.

use core::sync::atomic::Ordering;

use super::RwSem;
use super::policy::TenureShape;
use super::tenure::Queued;
use crate::platform::{Atomic, ConstZero, Platform};
use crate::wait::{Hint, Kind, Look, Queue, Thread, WakeList, this_cpu};

/// `holder` while the tenure belongs to readers. Not the address of a record.
pub(super) const READERS: usize = 1;

/// `cpu` of a granted writer that has not run yet.
pub(super) const NOT_YET: usize = usize::MAX;

/// How long before the end of their tenure readers call the writer that is
/// next: about what it takes to be woken, so that it runs when they stop.
const CALL_AHEAD_NS: isize = 20_000;

/// A writers' tenure shorter than this is worth waiting for awake.
const BRIEF_NS: u64 = 20_000;

/// A reader inside its tenure marks it at least this often, in nanoseconds.
pub(super) const STEAL_MARK_NS: u64 = 1 << 13;

/// How much longer a writers' tenure lasts, at most, while the one who is next is
/// not awake yet: time to be woken, which by far most threads need no more of.
pub(super) const GRACE_NS: u64 = 200_000;

/// A handoff that took longer than this was held up by something else.
const MAX_COST_NS: usize = 20_000;

/// The current tenure, in words that are read without the queue lock. All of
/// them are hints: a stale one costs time, never exclusion. Hence Relaxed
/// throughout.
#[repr(C, align(64))] // its own cache line: read by all, while `word` changes hands
pub(super) struct Tenure<P: Platform> {
    /// When it ends (low bits of the clock).
    pub(super) end: P::AtomicUsize,
    /// Whose it is: `READERS`, or the hint of the writing thread.
    pub(super) holder: P::AtomicUsize,
    /// Whether the last writers' tenure was given up soon (1).
    brief: Hint,
    /// Whether the one who is next was woken for the end (1).
    called: Hint,
    /// Whether the one who is next waits for the end awake (1).
    awaited: Hint,
    /// How many have joined the first reader in this tenure.
    joined: Hint,
    /// When it began (low bits of the clock).
    pub(super) started: Hint,
    /// When it was last granted: at its start, or when it changed hands.
    pub(super) granted: Hint,
    /// From a grant until its thread runs, in nanoseconds, smoothed.
    pub(super) latency: Hint,
    /// What a handoff costs the thread that leaves, in nanoseconds, smoothed.
    pub(super) leaving: Hint,
    /// How late a timer wakes a waiter, in nanoseconds, smoothed.
    pub(super) lateness: Hint,
    /// The CPU the holder was last seen on, plus one; zero if unknown;
    /// `NOT_YET` while a granted writer has not run.
    pub(super) cpu: Hint,
    /// Counts steals, to tell a lock that is idle from one that is busy with
    /// short sections.
    pub(super) steals: Hint,
}

impl<P: Platform> Tenure<P> {
    pub(super) fn new() -> Self {
        let zero = || P::AtomicUsize::new(0);
        Self {
            end: zero(),
            holder: zero(),
            steals: Hint::new(0),
            started: Hint::new(0),
            granted: Hint::new(0),
            latency: Hint::new(0),
            leaving: Hint::new(0),
            lateness: Hint::new(0),
            cpu: Hint::new(0),
            brief: Hint::new(0),
            called: Hint::new(0),
            awaited: Hint::new(0),
            joined: Hint::new(0),
        }
    }

    pub(super) const fn new_const() -> Self
    where
        P::AtomicUsize: ConstZero,
    {
        Self {
            end: ConstZero::ZERO,
            holder: ConstZero::ZERO,
            steals: Hint::new(0),
            started: Hint::new(0),
            granted: Hint::new(0),
            latency: Hint::new(0),
            leaving: Hint::new(0),
            lateness: Hint::new(0),
            cpu: Hint::new(0),
            brief: Hint::new(0),
            called: Hint::new(0),
            awaited: Hint::new(0),
            joined: Hint::new(0),
        }
    }
}

impl<P: Platform> RwSem<P> {
    pub(super) fn begin_tenure(
        &self,
        q: &mut Queued<P>,
        now: u64,
        holder: usize,
        shape: TenureShape,
    ) {
        self.note_end(q, now);
        self.tenure.started.store(now as usize, Ordering::Relaxed);
        self.pass_tenure(q, now, holder);
        self.set_end(q, shape);
    }

    /// The current tenure ends: notes how much of it was used.
    fn note_end(&self, q: &mut Queued<P>, now: u64) {
        let given_up = self.left(now) > 0;
        let lasted =
            (now as usize).wrapping_sub(self.tenure.started.load(Ordering::Relaxed)) as u64;
        let used = if given_up { lasted } else { u64::MAX };
        let side = self.tenure_side();
        q.used[side as usize] = used;
        if side == Kind::Writer {
            self.tenure.brief.store((used < BRIEF_NS).into(), Ordering::Relaxed);
        }
    }

    /// Whose tenure it is.
    pub(super) fn tenure_side(&self) -> Kind {
        if self.tenure_is_readers() { Kind::Reader } else { Kind::Writer }
    }

    /// Whether the last writer gave its tenure up so soon that readers had better
    /// wait awake for the next one.
    pub(super) fn writers_are_brief(&self) -> bool {
        self.tenure.brief.load(Ordering::Relaxed) != 0
    }

    /// The tenure changes hands, but not its end.
    pub(super) fn pass_tenure(&self, q: &mut Queued<P>, now: u64, holder: usize) {
        self.tenure.granted.store(now as usize, Ordering::Relaxed);
        self.tenure.holder.store(holder, Ordering::Relaxed);
        self.tenure.joined.store(0, Ordering::Relaxed);
        self.set_called(false);
        self.set_awaited(false);
        // Whoever was next may be so again, and wants to hear of it.
        Self::dismiss_next(q);
        q.next = core::ptr::null();
    }

    /// Nanoseconds until the tenure ends.
    pub(super) fn left(&self, now: u64) -> isize {
        self.tenure.end.load(Ordering::Relaxed).wrapping_sub(now as usize) as isize
    }

    /// Whether the tenure ends at this look: its time is over, or does not hold
    /// another operation of the thread that looks; and, if it is the writers', the
    /// one who is next is awake: the lock would stand idle until it is. Then it
    /// ends now.
    pub(super) fn ends_tenure(&self, look: &Look) -> bool {
        let left = self.left(look.now);
        let granted = self.tenure.granted.load(Ordering::Relaxed);
        // What the thread did before the grant says nothing about its sections.
        let recent = look.since <= (look.now as usize).wrapping_sub(granted) as u64;
        let over = left <= 0 || (recent && (left as u64) < look.each);
        let over = over && !self.waits_for_next(left);
        if over && left > 0 {
            self.tenure.end.store(look.now as usize, Ordering::Relaxed);
        }
        over
    }

    /// Whether a tenure with `left` nanoseconds left goes on since the one who is
    /// next is not awake yet. Not the readers': they called it, so it runs soon,
    /// and each tenure of theirs would be longer than the writers'.
    fn waits_for_next(&self, left: isize) -> bool {
        !self.tenure_is_readers() && !self.is_awaited() && left > -(GRACE_NS as isize)
    }

    /// Whether a writers' tenure is not over yet.
    pub(super) fn writers_have_time(&self, now: u64) -> bool {
        !self.tenure_is_readers() && self.left(now) > 0
    }

    pub(super) fn set_end(&self, q: &Queued<P>, shape: TenureShape) {
        let sharers = q.waiters.len() + 1 + self.joined();
        let other = self.tenure_side().other();
        let other = q.waiters.first(other).map(|_| q.used[other as usize]);
        let length = self.tenure_ns(sharers, other, shape) as usize;
        let started = self.tenure.started.load(Ordering::Relaxed);
        self.tenure.end.store(started.wrapping_add(length), Ordering::Relaxed);
    }

    /// How long a tenure is if so many threads, the holder included, want the
    /// lock, and the other side, if any of it waits, used `other` of its last one.
    pub(super) fn tenure_ns(&self, sharers: usize, other: Option<u64>, shape: TenureShape) -> u64 {
        let fair = shape.aim_ns / sharers.max(1) as u64;
        let cost = match other {
            // One writer after the other: only the lock is wanted, and what it costs
            // the one that leaves falls on a CPU that has nothing else to do.
            None if !self.tenure_is_readers() => self.latency_ns(),
            _ => self.handoff_ns(),
        };
        let length = fair.min(other.unwrap_or(u64::MAX)).max(cost * 100 / shape.percent);
        // A readers' tenure starts with one of them and ends when the last has
        // left: both are at its expense, and made up for.
        if self.tenure_is_readers() { length + cost } else { length }
    }

    /// The longest wait, in nanoseconds, that the lock plans for a waiter with
    /// `grants_ahead` grants, to either side, before its own, as measured up to
    /// now: the sum of (tenure + grace + handoff) over them, for the case that nobody
    /// comes back, so that the queue gets shorter and each tenure longer.
    /// Sections longer than a tenure, and threads that the system does not run
    /// although they could, come on top. `None` under the published discipline,
    /// which plans nothing.
    pub fn planned_wait_ns(&self, grants_ahead: usize) -> Option<u64> {
        let shape = self.policy.tenure()?;
        if grants_ahead == 0 {
            return Some(0);
        }
        // Later ones of its kind may go before it.
        let grants = grants_ahead as u64 + u64::from(Queue::<P>::MAX_PASSES);
        // The sum of aim / i over i in 1..=grants is at most aim x (1 + log2 grants).
        let aims = shape.aim_ns.saturating_mul(1 + u64::from(grants.ilog2()));
        let cost = self.handoff_ns();
        let least = cost * 100 / shape.percent + 2 * cost + MAX_COST_NS as u64 + GRACE_NS;
        let tenures = aims.saturating_add(grants.saturating_mul(least));
        // Readers may get half as much again for a late start.
        Some(tenures.saturating_add(tenures / 2))
    }

    /// What a handoff costs, as measured up to now.
    pub(super) fn handoff_ns(&self) -> u64 {
        self.latency_ns() + self.tenure.leaving.load(Ordering::Relaxed) as u64
    }

    /// The part of it for which the lock stands idle.
    fn latency_ns(&self) -> u64 {
        self.tenure.latency.load(Ordering::Relaxed) as u64
    }

    /// A granted thread runs: its tenure begins now, and the time since the
    /// grant is part of what a handoff costs.
    pub(super) fn arrive_at_grant(&self, now: u64) {
        let granted = self.tenure.granted.load(Ordering::Relaxed);
        let latency = (now as usize).wrapping_sub(granted).min(MAX_COST_NS);
        smooth(&self.tenure.latency, latency as u64);
        let end = self.tenure.end.load(Ordering::Relaxed);
        self.tenure.end.store(end.wrapping_add(latency), Ordering::Relaxed);
        self.note_cpu();
    }

    /// Whether the one who is next was woken for the end of the tenure.
    pub(super) fn next_is_called(&self) -> bool {
        self.tenure.called.load(Ordering::Relaxed) != 0
    }

    pub(super) fn set_called(&self, called: bool) {
        self.tenure.called.store(called.into(), Ordering::Relaxed);
    }

    /// Whether the one who is next waits for the end awake.
    fn is_awaited(&self) -> bool {
        self.tenure.awaited.load(Ordering::Relaxed) != 0
    }

    /// Whoever is next waits awake from now on, or does not.
    pub(super) fn set_awaited(&self, awaited: bool) {
        // It waits by turns: most do not change anything, and all read the line.
        if self.is_awaited() != awaited {
            self.tenure.awaited.store(awaited.into(), Ordering::Relaxed);
        }
    }

    /// Whether a reader should call the one who is next now, so that it is
    /// awake at the end of the tenure.
    pub(super) fn call_is_due(&self, now: u64) -> bool {
        self.left(now) < CALL_AHEAD_NS && !self.next_is_called()
    }

    /// How many readers have joined the first one in this tenure.
    pub(super) fn joined(&self) -> usize {
        self.tenure.joined.load(Ordering::Relaxed)
    }

    /// The first reader to join those inside: until now the readers had one CPU.
    /// Half of that time is added to their tenure, so that the shares stay even.
    pub(super) fn make_up_for_start(&self, now: u64) {
        let joined = self.joined();
        self.tenure.joined.store(joined + 1, Ordering::Relaxed);
        if joined == 0 {
            let started = self.tenure.started.load(Ordering::Relaxed);
            let end = self.tenure.end.load(Ordering::Relaxed);
            let length = end.wrapping_sub(started);
            let lost = (now as usize).wrapping_sub(started).min(length) / 2;
            self.tenure.end.store(end.wrapping_add(lost), Ordering::Relaxed);
        }
    }

    /// Wakes those whom a handoff that began at `since` concerns: the part of
    /// its cost that falls on the thread that leaves.
    pub(super) fn wake_and_note(&self, since: u64, wakes: &mut WakeList<P>) {
        if !wakes.is_empty() {
            wakes.wake_all();
            let cost = P::now().wrapping_sub(since).min(MAX_COST_NS as u64);
            smooth(&self.tenure.leaving, cost);
        }
    }

    /// The same for a writer's last transfer of this lock: when that was over, the lock may
    /// have been gone.
    pub(super) fn note_last_transfer(&self, me: &Thread<P>) {
        let (lock, cost) = me.transfer.replace((0, 0));
        if lock == core::ptr::from_ref(self).addr() {
            smooth(&self.tenure.leaving, cost.min(MAX_COST_NS as u64));
        }
    }

    /// Takes a timer's lateness into account.
    pub(super) fn note_lateness(&self, ns: u64) {
        smooth_max(&self.tenure.lateness, ns.min(200_000));
    }

    /// How long before an event a timer must be set.
    pub(super) fn lateness(&self) -> u64 {
        self.tenure.lateness.load(Ordering::Relaxed) as u64
    }

    pub(super) fn steals(&self) -> usize {
        self.tenure.steals.load(Ordering::Relaxed)
    }

    /// Notes where the holder of a writer's tenure runs.
    pub(super) fn note_cpu(&self) {
        self.tenure.cpu.store(this_cpu::<P>(), Ordering::Relaxed);
    }

    /// Whether spinning for the holder could help: it is a writer, and not one
    /// that was last seen on the CPU that the caller is on.
    pub(super) fn holder_may_be_running(&self) -> bool {
        let seen = self.tenure.cpu.load(Ordering::Relaxed);
        !self.tenure_is_readers()
            && seen != NOT_YET
            && P::cpu().is_none_or(|cpu| seen != cpu as usize + 1)
    }
}

/// Moves a smoothed value an eighth of the way.
fn smooth(value: &Hint, sample: u64) {
    let old = value.load(Ordering::Relaxed) as isize;
    let sample = sample.min(isize::MAX as u64) as isize;
    value.store((old + (sample - old) / 8) as usize, Ordering::Relaxed);
}

/// Moves a smoothed value up at once and down slowly: an estimate of the worst.
fn smooth_max(value: &Hint, sample: u64) {
    let old = value.load(Ordering::Relaxed) as isize;
    let sample = sample.min(isize::MAX as u64) as isize;
    let step = if sample > old { (sample - old) / 2 } else { (sample - old) / 32 };
    value.store((old + step) as usize, Ordering::Relaxed);
}

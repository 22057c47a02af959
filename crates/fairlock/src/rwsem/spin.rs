//! Optimistic spinning: waiting awake, outside the wait queue, for a lock that
//! is about to be let go.
//!
//! A spinner steals; it is never granted. It does not spin at all when that
//! cannot help: one CPU, as many spinners as CPUs but one (the owner needs one
//! too), a lock that is handed to the queue, an owner that does not run, or
//! readers inside that an earlier spinner waited for in vain. Every spin is
//! bounded in time (rule 9).

use core::sync::atomic::Ordering;

use super::RwSem;
use super::osq::SpinnerQueue;
use super::policy::ReaderSpin;
use super::word::{
    HANDOFF, READ_STEAL_BLOCKED, READER, WAITERS, WRITER_LOCKED, WRITER_PHASE, is_free, readers,
    write_stealable,
};
use crate::events::Event;
use crate::platform::{Atomic, ConstZero, Platform};
use crate::wait::{Kind, Thread, WaitContext};

/// In the owner word: readers took the lock by a slow path after that writer.
pub(super) const READER_OWNED: usize = 1 << 0;
/// In the owner word: spinning for the readers inside is no use. Stands until a
/// writer has the lock.
pub(super) const NONSPINNABLE: usize = 1 << 1;

/// A spinner waits this long for one writer.
const WRITER_NS: u64 = 50_000;
/// A spinning writer waits this long while readers hold the lock.
const READERS_NS: u64 = 20_000;
/// A spin lasts this long at most, and so does the wait to be at the head.
const SPIN_NS: u64 = 500_000;
/// Between two looks at the owner.
const LOOK_NS: u64 = 2_000;

/// Who spins for a lock.
pub(super) struct Spinners<P: Platform> {
    queue: SpinnerQueue<P>,
    /// How many there are.
    count: P::AtomicUsize,
    /// The hint of a writer that came by a slow path, and in the low bits the
    /// CPU it was on.
    seen: P::AtomicUsize,
    /// Non-zero while the one reader of `ReaderSpin::One` spins.
    reader: P::AtomicU32,
}

impl<P: Platform> Spinners<P> {
    pub(super) fn new() -> Self {
        Self {
            queue: SpinnerQueue::new(),
            count: P::AtomicUsize::new(0),
            seen: P::AtomicUsize::new(0),
            reader: P::AtomicU32::new(0),
        }
    }

    pub(super) const fn new_const() -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
    {
        Self {
            queue: SpinnerQueue::new_const(),
            count: ConstZero::ZERO,
            seen: ConstZero::ZERO,
            reader: ConstZero::ZERO,
        }
    }

    /// Whether nobody spins, nor has left anything behind.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.count.load(Ordering::Relaxed) == 0
    }

    /// Runs `spin` at the head of the spinner queue, with the time; false if the
    /// caller does not get there in time, `None` if there are enough spinners.
    fn at_head(
        &self,
        me: &'static Thread<P>,
        arrived: u64,
        bound_ns: u64,
        spin: impl FnOnce(u64) -> bool,
    ) -> Option<bool> {
        // Relaxed: a hint.
        let others = self.count.fetch_add(1, Ordering::Relaxed);
        let mut stolen = None;
        if others + 1 < P::cpus() {
            stolen = Some(false);
            if self.queue.enter(me, bound_ns) {
                stolen = Some(spin(if others == 0 { arrived } else { P::now() }));
                self.queue.leave(me);
            }
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        stolen
    }

    /// Notes where a writer that came by a slow path runs. Relaxed: a hint.
    pub(super) fn note_owner(&self, me: &'static Thread<P>) {
        if let Some(cpu) = P::cpu() {
            self.seen.store(me.hint() | cpu_tag(cpu), Ordering::Relaxed);
        }
    }

    /// Whether that writer may be running. One that was last seen on the CPU
    /// the caller is on is not; of others nothing is known.
    fn may_be_running(&self, owner: usize) -> bool {
        let seen = self.seen.load(Ordering::Relaxed);
        seen & !CPU_TAG != owner || P::cpu().is_none_or(|cpu| seen & CPU_TAG != cpu_tag(cpu))
    }
}

/// The low bits of a thread hint, which its alignment leaves free.
const CPU_TAG: usize = 127;

/// A CPU's number as far as it fits; never zero.
fn cpu_tag(cpu: u32) -> usize {
    cpu as usize % CPU_TAG + 1
}

/// What a spinner found.
enum Look {
    Stolen,
    /// Held; the word as it was.
    Held(usize),
    /// Spinning will not help.
    InVain,
}

impl<P: Platform> RwSem<P> {
    /// Spins for the lock if the policy says so; whether it was stolen.
    pub(super) fn spin_for_write(
        &self,
        me: &'static Thread<P>,
        context: &WaitContext<'_, P>,
    ) -> bool {
        self.policy.writer_spin
            && !self.holds_back(Kind::Writer, self.word.load(Ordering::Relaxed))
            && self.spin(Kind::Writer, me, context)
    }

    /// As [`spin_for_write`](Self::spin_for_write).
    pub(super) fn spin_for_read(
        &self,
        me: &'static Thread<P>,
        context: &WaitContext<'_, P>,
    ) -> bool {
        match self.reader_spin() {
            ReaderSpin::Off => false,
            ReaderSpin::One => {
                // Relaxed: counts to one, orders nothing.
                if self.spinners.reader.swap(1, Ordering::Relaxed) != 0 {
                    return false;
                }
                let stolen = self.spin(Kind::Reader, me, context);
                self.spinners.reader.store(0, Ordering::Relaxed);
                stolen
            }
            ReaderSpin::On | ReaderSpin::Adaptive => self.spin(Kind::Reader, me, context),
        }
    }

    fn spin(&self, kind: Kind, me: &'static Thread<P>, context: &WaitContext<'_, P>) -> bool {
        let stolen = self.spin_if_worth_it(kind, me, context);
        self.count(match stolen {
            Some(true) => Event::OptLock,
            Some(false) => Event::OptFail,
            None => Event::OptNospin,
        });
        stolen == Some(true)
    }

    /// `None` if it did not spin.
    fn spin_if_worth_it(
        &self,
        kind: Kind,
        me: &'static Thread<P>,
        context: &WaitContext<'_, P>,
    ) -> Option<bool> {
        let word = self.word.load(Ordering::Relaxed);
        if word & HANDOFF != 0 || !self.holder_is_worth_it(word) {
            return None;
        }
        let arrived = P::now();
        let bound = match context.deadline {
            Some(deadline) => deadline.saturating_sub(arrived).min(SPIN_NS),
            None => SPIN_NS,
        };
        self.spinners.at_head(me, arrived, bound, |now| self.spin_at_head(kind, now, bound))
    }

    /// The one spinner that looks at the lock; whether it steals it.
    fn spin_at_head(&self, kind: Kind, started: u64, bound_ns: u64) -> bool {
        let (mut since, mut last) = (started, 0);
        loop {
            let word = match self.look(kind) {
                Look::Stolen => return true,
                Look::InVain => return false,
                Look::Held(word) => word,
            };
            let now = P::now();
            let holder = self.holder(word);
            if holder != last {
                (since, last) = (now, holder);
            }
            let patience = if holder == READER_OWNED { READERS_NS } else { WRITER_NS };
            if now.saturating_sub(since) >= patience {
                if holder == READER_OWNED {
                    self.set_nonspinnable();
                }
                return false;
            }
            if now.saturating_sub(started) >= bound_ns || !self.holder_is_worth_it(word) {
                return false;
            }
            let changed = WRITER_LOCKED | HANDOFF | WRITER_PHASE;
            P::spin_until(&self.word, LOOK_NS, |now: usize| {
                is_free(now) || (now ^ word) & changed != 0
            });
        }
    }

    /// Steals the lock if it can be stolen.
    fn look(&self, kind: Kind) -> Look {
        let word = self.word.load(Ordering::Relaxed);
        let stolen = match kind {
            _ if word & HANDOFF != 0 => return Look::InVain,
            Kind::Writer if !write_stealable(word) => return Look::Held(word),
            Kind::Writer => word | WRITER_LOCKED,
            Kind::Reader if word & WRITER_LOCKED != 0 => return Look::Held(word),
            Kind::Reader if !read_stealable(word) && !self.is_stream(word) => return Look::InVain,
            Kind::Reader => word + READER,
        };
        // Acquire: owns the lock on success (rule 3).
        match self.word.compare_exchange(word, stolen, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                if kind == Kind::Reader && word & WAITERS != 0 {
                    self.wake_readers_beside();
                }
                Look::Stolen
            }
            Err(now) => Look::Held(now),
        }
    }

    /// The hint of the writer inside, or `READER_OWNED`. Rule 9: the writer may
    /// not have stored its hint yet; a wrong one costs a bounded spin.
    fn holder(&self, word: usize) -> usize {
        if word & WRITER_LOCKED == 0 {
            return READER_OWNED;
        }
        self.owner.load(Ordering::Relaxed) & !(READER_OWNED | NONSPINNABLE)
    }

    /// Whether who holds the lock may let it go soon. Relaxed: hints.
    pub(super) fn holder_is_worth_it(&self, word: usize) -> bool {
        match self.holder(word) {
            READER_OWNED => self.owner.load(Ordering::Relaxed) & NONSPINNABLE == 0,
            owner => self.spinners.may_be_running(owner),
        }
    }

    /// Tells later spinners not to wait for the readers inside, unless a
    /// writer has come.
    fn set_nonspinnable(&self) {
        let owner = self.owner.load(Ordering::Relaxed);
        let flags = READER_OWNED | NONSPINNABLE;
        // On failure a writer has stored its hint, or another spinner the flags.
        let _ =
            self.owner.compare_exchange(owner, owner | flags, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Readers took the lock by a slow path.
    pub(super) fn note_readers(&self) {
        let owner = self.owner.load(Ordering::Relaxed);
        if owner & READER_OWNED == 0 {
            self.owner.store(owner | READER_OWNED, Ordering::Relaxed);
        }
    }

    /// As [`set_owner`](Self::set_owner), by a slow path.
    pub(super) fn note_writer(&self, me: &'static Thread<P>) {
        self.note_change_to_writer();
        self.set_owner(me.hint());
        self.spinners.note_owner(me);
    }
}

/// A reader that is not counted may steal: nothing stops it, and it does not
/// keep a lock that readers hold from the queue.
pub(super) fn read_stealable(word: usize) -> bool {
    word & READ_STEAL_BLOCKED == 0 && (word & WAITERS == 0 || readers(word) == 0)
}

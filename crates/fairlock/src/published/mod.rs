//! The published discipline ([`Policy::published`](crate::Policy::published)).
//!
//! ```text
//! arrive   steal if nothing forbids it; spin if the policy says so; queue
//! release  let the lock go, then run the wake check
//! wake     a reader heads the queue: grant all readers, writers keep their place
//! check    a writer does: wake it; it takes the lock itself, or, past its
//!          deadline, sets HANDOFF, after which only the head gets in
//! ```
//!
//! Every release runs the wake check, and so does every thread that takes back a count that made
//! the lock look held, and every waiter that arrives or leaves (rules 2, 7, 8, 14 and 15). A
//! release never leaves the check to a spinner.
//!
//! Why no wake-up is lost: every change of the word is one atomic step, so all changes have one
//! order. The lock becomes free with somebody queued either by a step that finds `WAITERS`, whose
//! thread runs the check; or by a step before the one that set `WAITERS`, and then the check of the
//! waiter that set it comes afterwards.
//!
//! `WAITERS`, `HANDOFF` and `WRITER_PHASE` change under the queue lock only
//! (rule 4), but for the fair unlocks, which set `HANDOFF` in one step with
//! seeing `WAITERS`.
//!
//! | what | where |
//! |---|---|
//! | who is granted, and the ways out | `grant` |
//! | the ways in, and waiting | `wait` |
//! | optimistic spinning, and its queue | `spin`, `osq` |
//! | what spinners know of who is inside | `owner` |

mod grant;
mod local;
mod osq;
mod owner;
#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod phase_tests;
#[cfg(all(test, fairlock_loom))]
mod published_loom;
mod spin;
#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests;
mod wait;

use core::mem::offset_of;
use core::sync::atomic::Ordering;

pub(crate) use local::PublishedLocal;
use owner::Owner;
use spin::Spinners;

use crate::events::Event;
use crate::inspect::Field;
use crate::platform::Platform;
use crate::rwsem::Kernel;
use crate::rwsem::policy::PublishedPolicy;
use crate::rwsem::sem::{self, Rules};
use crate::rwsem::word::{Flags, Word};
use crate::system::all_zero;
use crate::wait::{Access, WaitContext, WaitError};
use crate::{rwsem::PastQueue, wait::Thread};

/// What the queue lock guards.
type Queued<P> = sem::Queued<P, ()>;

/// What has cache lines of its own.
#[repr(C, align(64))]
pub(crate) struct Lines<P: Platform> {
    spinners: Spinners<P>,
}

all_zero!(Lines of [AtomicUsize, AtomicU32, AtomicU64]: [], [spinners]);

impl<P: Platform> Rules<P> for PublishedPolicy {
    /// Written by who has just written the word.
    type Near = Owner<P>;
    type Lines = Lines<P>;
    type Queued = ();
    const QUEUED: () = ();
    const FIELDS: &'static [Field] =
        &[(offset_of!(Lines<P>, spinners), size_of::<Spinners<P>>(), "spinners")];

    fn priorities(&self) -> bool {
        self.priorities
    }

    fn read(
        lock: &Kernel<P>,
        counted: Option<Word>,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        let me = P::thread();
        // As published: each reader counts itself first, also one that may give up.
        if counted.is_none() {
            // Relaxed: the load that follows decides whether it owns the lock.
            lock.word.enter(Access::Shared, Ordering::Relaxed);
        }
        // The reader keeps its count if it could be added now. Acquire: then this thread owns the
        // lock (rule 3).
        let word = lock.word.load(Ordering::Acquire);
        if word.without_reader().is_read_stealable() && lock.readers_steal() {
            if word.has_waiters() {
                lock.events.count(Event::ReadSteal);
                lock.let_readers_join();
            }
            return Ok(());
        }
        lock.take_back_count();
        let priority = lock.priority();
        if priority == 0 && lock.spin_for_read(me, context) {
            return Ok(());
        }
        lock.wait(Access::Shared, me, priority, context)
    }

    #[cold]
    fn write(lock: &Kernel<P>, word: Word, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        let me = P::thread();
        if lock.steal_as_writer(word, Access::Exclusive) {
            lock.note_writer(me);
            return Ok(());
        }
        // A real-time thread queues at once: its priority counts in the queue only.
        let priority = lock.priority();
        if priority == 0 && lock.spin_for_write(me, context) {
            lock.note_writer(me);
            return Ok(());
        }
        lock.wait(Access::Exclusive, me, priority, context)
    }

    /// An upgradable reader steals as a writer does, and queues as one; it does not spin.
    fn upgradable(lock: &Kernel<P>, context: &WaitContext<'_, P>) -> Result<(), WaitError> {
        if lock.steal_as_writer(lock.word.load(Ordering::Relaxed), Access::Upgradable) {
            lock.note_readers();
            return Ok(());
        }
        lock.wait(Access::Upgradable, P::thread(), lock.priority(), context)?;
        if lock.word.load(Ordering::Relaxed).has_waiters() {
            lock.let_readers_join();
        }
        Ok(())
    }

    /// A store between the two locked operations of an uncontended write costs a third of them on some CPUs, so
    /// it is left out where nobody reads it.
    #[inline(always)]
    fn note_fast_write(lock: &Kernel<P>) {
        lock.near.set(P::thread_hint());
    }

    #[inline]
    fn note_upgrade(lock: &Kernel<P>) {
        lock.note_writer(P::thread());
    }

    fn note_readers(lock: &Kernel<P>) {
        lock.note_readers();
    }

    /// It is not the last owner.
    fn note_adopted_writer(lock: &Kernel<P>) {
        lock.near.set(0);
    }

    fn read_release(lock: &Kernel<P>) {
        lock.wake_after_release();
    }

    #[cold]
    #[inline(never)] // its frame is large
    fn write_release(lock: &Kernel<P>) {
        if lock.word.clear(Flags::WRITER_LOCKED, Ordering::Release).has_waiters() {
            lock.wake_after_release();
        }
    }

    /// Runs the wake check.
    fn upgradable_left(lock: &Kernel<P>, _before: Word) {
        lock.wake_after_release();
    }

    /// That is the head of the queue.
    fn close_for_next(lock: &Kernel<P>) {
        lock.close();
    }

    fn let_readers_join(lock: &Kernel<P>) {
        lock.let_readers_join();
    }

    fn has_writer_phase(&self) -> bool {
        self.writer_phase
    }

    fn is_idle(lock: &Kernel<P>) -> bool {
        lock.lines.spinners.is_idle()
    }

    fn forget_threads(lines: &mut Lines<P>) {
        lines.spinners = Spinners::default();
    }
}

impl<P: Platform> Kernel<P> {
    /// Runs `f` on the queue, under the queue lock.
    fn with_queue<R>(&self, f: impl FnOnce(&mut Queued<P>) -> R) -> R {
        self.queue.with(f)
    }

    /// Sets `HANDOFF` if anyone is queued. From here on only the queue gets in.
    fn close(&self) {
        self.word.flag_queue(Flags::HANDOFF);
    }

    pub(crate) fn take_write_at_once(&self) -> bool {
        self.try_write()
    }
}

/// For thin locks with a policy of their own: each way in is a try, and the rest of the wait is a whole one.
impl<P: Platform> Kernel<P> {
    pub(crate) fn past_queue(&self, _me: &Thread<P>, access: Access) -> Option<PastQueue<'_, P>> {
        let before = match access {
            // Acquire: owns the lock if nothing was in the way (rule 3).
            Access::Shared => self.word.enter(access, Ordering::Acquire),
            Access::Exclusive if self.try_write() => Word::FREE,
            _ => return None,
        };
        if before.is_open_to_readers() {
            return Some(PastQueue { lock: None, access, before });
        }
        // SAFETY: the thread gives up a count as a reader inside does, and it may be the last one.
        unsafe { self.unlock_read() };
        None
    }

    pub(crate) fn try_take(&self, access: Access, again: bool) -> Result<(), bool> {
        self.try_in(access, again).then_some(()).ok_or(false)
    }

    #[cold]
    pub(crate) fn take_awake(&self, access: Access, _context: &WaitContext<'_, P>) -> bool {
        self.try_in(access, false)
    }

    pub(crate) fn take_asleep(
        &self,
        access: Access,
        context: &WaitContext<'_, P>,
    ) -> Result<(), WaitError> {
        self.take_with(access, context.into())
    }
}

//! The sleeping reader/writer lock (proposals 1, 2 and 5).
//!
//! [`RwSem`] takes turns (`tenure`); its fast paths, and how its slow paths begin and end, are in `sem`.
//! `hidden` has what other crates of this project need. Comments cite the rules of `docs/rules.md`. The
//! lock of the proposals as published is another one: [`published`](crate::published).

#[cfg(all(test, fairlock_loom))]
mod full_loom;
mod hidden;
#[cfg(all(test, fairlock_loom))]
mod loom_tests;
mod policy;
mod sem;
mod tenure;
#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests;
mod word;

use core::fmt;
use core::ops::Deref;

#[doc(hidden)]
pub use hidden::Snapshot;
pub(crate) use policy::at_most;
pub use policy::{Percent, Policy};
pub(crate) use sem::Head;
use sem::Sem;
#[doc(hidden)]
pub use sem::Uncontended;
pub(crate) use tenure::TenureLocal;
pub(crate) use tenure::{Again, PastQueue};
pub(crate) use word::{READERS_LIMIT, Word};

use crate::deadlock::{Id, Noted};
use crate::events::EventCounts;
use crate::platform::{ConstZero, Platform};
#[cfg(test)]
use crate::wait::Queue;
use crate::wait::{Access, Thread, WaitContext};
use crate::wait::{Wait, WaitError};

/// The lock itself, without what notes who waits for it.
pub(crate) type Turns<P> = Sem<P, Policy>;

/// A sleeping reader/writer lock without data. See [`RwLock`](crate::RwLock), the one with data, for
/// what it promises and when it blocks.
///
/// A method that takes the lock comes in several forms:
///
/// | form | ends without the lock |
/// |---|---|
/// | `write` | never; `read` and `read_recursive` panic if no more readers can be counted |
/// | `try_write` | with `false`, at once |
/// | `write_with` | as its [`Wait`] says; the methods that read, also with [`TooManyReaders`](WaitError::TooManyReaders) |
pub struct RwSem<P: Platform>(Turns<P>, Id);

/// Methods that are the lock's own.
macro_rules! own {
    ($($(#[$about:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $($(#[$about])*
        #[inline]
        $vis fn $name(&self, $($arg: $type),*) $(-> $result)? {
            self.0.$name($($arg),*)
        })*
    };
    ($($(#[$about:meta])* $vis:vis unsafe fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $($(#[$about])*
        #[inline]
        $vis unsafe fn $name(&self, $($arg: $type),*) $(-> $result)? {
            // SAFETY: the caller's promise.
            unsafe { self.0.$name($($arg),*) }
        })*
    };
}

impl<P: Platform> Noted for RwSem<P> {
    #[inline]
    fn id(&self) -> &Id {
        &self.1
    }
}

impl<P: Platform> RwSem<P> {
    /// Whether it is so on this platform.
    #[cfg(all(feature = "std", not(fairlock_loom)))]
    #[allow(dead_code)] // Rust 1.85 sees no use in an assertion
    pub(crate) const IS_IN_LINES: bool = Turns::<P>::IS_IN_LINES;

    /// A free lock that follows `policy`.
    pub fn new(policy: Policy) -> Self {
        Self::of(Sem::new(policy))
    }

    /// As [`new`](Self::new), for statics, where the platform's atomics can be constants.
    pub const fn with_policy(policy: Policy) -> Self
    where
        P::AtomicUsize: ConstZero,
        P::AtomicU32: ConstZero,
        P::AtomicU64: ConstZero,
    {
        Self::of(Sem::new_const(policy))
    }

    /// The policy this lock was made with.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// The same lock, by itself.
    pub(crate) const fn of(lock: Turns<P>) -> Self {
        Self(lock, Id::new())
    }

    /// The lock itself.
    #[inline(always)]
    pub(crate) fn turns(&self) -> &Turns<P> {
        &self.0
    }

    /// Counts this lock's [events](crate::events::Event) in `counts` too; with `None`, no longer. Several
    /// locks may share one `counts`.
    pub fn set_events(&self, counts: Option<&'static EventCounts>) {
        (**self).set_events(counts);
    }

    /// The bound, in nanoseconds, on the wait of a thread with `grants_ahead` grants, to either
    /// side, before its own, from what the lock has measured so far: the sum of (tenure +
    /// handoff) over these grants, if at least half as many threads want the lock. A thread
    /// that retries with timeouts may be away when its turn comes, and waits at most twice as
    /// long. The bound does not include the last sections of holders, nor the time for which
    /// the system does not run threads that could run.
    pub fn planned_wait_ns(&self, grants_ahead: usize) -> u64 {
        self.0.planned_wait_ns(grants_ahead, true)
    }

    /// As [`read_with`](Self::read_with); `wait` is asked for only if the caller has to wait. `gives_up`: the caller
    /// may not try again after that.
    #[doc(hidden)]
    #[inline]
    pub fn read_until_of<'a>(
        &self,
        gives_up: bool,
        wait: impl FnOnce() -> Wait<'a, P>,
    ) -> Result<(), WaitError>
    where
        P: 'a,
    {
        self.0.read_until(gives_up, || wait().begin())
    }

    own! {
        /// Takes the lock for reading; blocks until it has it.
        ///
        /// # Panics
        /// If there are [`TooManyReaders`](WaitError::TooManyReaders).
        pub fn read();

        /// Takes the lock for reading if that needs no waiting, and if it is not
        /// [saturated](Self::is_saturated). Leaves no trace in the word when it fails
        /// (rule 15).
        #[must_use = "where it is true, the caller holds the lock and has to give it up"]
        pub fn try_read() -> bool;

        /// Takes the lock for reading; gives up as `wait` says. A wait that may end leaves no trace in
        /// the word when it fails.
        pub fn read_with(wait: Wait<'_, P>) -> Result<(), WaitError>;

        /// Takes the lock for reading, even past waiting writers if readers already hold it;
        /// otherwise like [`read`](Self::read). For a thread that may already hold the lock.
        ///
        /// # Panics
        /// As [`read`](Self::read).
        pub fn read_recursive();

        /// As [`read_recursive`](Self::read_recursive), without waiting; false if the lock
        /// is [saturated](Self::is_saturated), too.
        #[must_use = "where it is true, the caller holds the lock and has to give it up"]
        pub fn try_read_recursive() -> bool;

        /// As [`read_recursive`](Self::read_recursive); gives up as `wait` says.
        pub fn read_recursive_with(wait: Wait<'_, P>) -> Result<(), WaitError>;

        /// Takes the lock for writing; blocks until it has it.
        pub fn write();

        /// Takes the lock for writing if that needs no waiting.
        #[must_use = "where it is true, the caller holds the lock and has to give it up"]
        pub fn try_write() -> bool;

        /// Takes the lock for writing; gives up as `wait` says.
        pub fn write_with(wait: Wait<'_, P>) -> Result<(), WaitError>;

        /// Takes the lock for reading, upgradably; blocks until it has it. Waits as
        /// [`write`](Self::write) does, for writers and other upgradable readers, and as fairly.
        pub fn upgradable_read();

        /// Takes the lock for reading, upgradably, if that needs no waiting.
        #[must_use = "where it is true, the caller holds the lock and has to give it up"]
        pub fn try_upgradable_read() -> bool;

        /// As [`upgradable_read`](Self::upgradable_read); gives up as `wait` says.
        pub fn upgradable_read_with(wait: Wait<'_, P>) -> Result<(), WaitError>;

        /// Whether anyone holds the lock at this instant.
        pub fn is_locked() -> bool;

        /// Whether a writer holds the lock at this instant. An upgrading reader counts as a writer
        /// once the other readers have left.
        pub fn is_write_locked() -> bool;

        /// Whether a thread is queued at this instant.
        pub fn has_waiters() -> bool;

        /// Whether the count of readers is full at this instant: 2^54 readers (2^22 with 32-bit
        /// pointers) hold the lock, or are on their way in. No more get in.
        pub fn is_saturated() -> bool;

        #[doc(hidden)]
        pub fn snapshot() -> Snapshot;

        /// Takes the lock for writing if it can be had at once, past waiters if need be.
        #[doc(hidden)]
        pub fn take_write_at_once() -> bool;

        /// When the first of the queued writers came.
        #[doc(hidden)]
        pub fn first_writer_since() -> Option<u64>;

        /// The name of what is at an address in the lock.
        #[doc(hidden)]
        pub fn field_at(address: usize) -> Option<&'static str>;
    }

    own! {
        /// Gives up the lock held for reading.
        ///
        /// # Safety
        /// The caller holds the lock for reading.
        pub unsafe fn unlock_read();

        /// Releases the lock held for reading; if anyone waits, nobody gets in before the waiter
        /// whose turn it is. Other readers stay inside.
        ///
        /// # Safety
        /// The caller holds the lock for reading.
        pub unsafe fn unlock_read_fair();

        /// Gives up the lock held for writing.
        ///
        /// The call does not touch the lock after another thread can acquire it, so
        /// the next owner may free its memory even before the call returns. Readers
        /// release the lock first and look for waiters afterwards.
        ///
        /// # Safety
        /// The caller holds the lock for writing.
        pub unsafe fn unlock_write();

        /// Gives up the lock held for writing, to the queue if anyone waits: nobody
        /// gets in before the waiter whose turn it is.
        ///
        /// That is the first waiter of the other side, if that side waits; the lock is
        /// reserved for it until it runs, however long that takes.
        ///
        /// # Safety
        /// The caller holds the lock for writing.
        pub unsafe fn unlock_write_fair();

        /// Gives up the lock held upgradably.
        ///
        /// # Safety
        /// The caller holds the lock upgradably.
        pub unsafe fn unlock_upgradable();

        /// As [`unlock_upgradable`](Self::unlock_upgradable); if anyone waits, nobody gets in before
        /// the waiter whose turn it is. Readers inside stay inside.
        ///
        /// # Safety
        /// The caller holds the lock upgradably.
        pub unsafe fn unlock_upgradable_fair();

        /// Turns the lock held for writing into one held for reading, with no gap in which another
        /// writer could get in, and lets queued readers in beside the caller. Never blocks.
        ///
        /// # Safety
        /// The caller holds the lock for writing; after the call, for reading.
        pub unsafe fn downgrade();

        /// Turns the lock held for writing into one held upgradably, with no gap in which
        /// another writer could get in; as [`downgrade`](Self::downgrade).
        ///
        /// # Safety
        /// The caller holds the lock for writing; after the call, upgradably.
        pub unsafe fn downgrade_to_upgradable();

        /// Turns the lock held upgradably into one held for reading. Never blocks.
        ///
        /// # Safety
        /// The caller holds the lock upgradably; after the call, for reading.
        pub unsafe fn downgrade_upgradable();

        /// Turns the lock held upgradably into one held for writing, with no gap in which
        /// another writer could get in. Waits for the readers inside to leave, and lets no more in.
        ///
        /// # Safety
        /// The caller holds the lock upgradably; after the call, for writing. A thread that also
        /// holds it for reading deadlocks.
        pub unsafe fn upgrade();

        /// As [`upgrade`](Self::upgrade), if no other reader is inside.
        ///
        /// # Safety
        /// The caller holds the lock upgradably; after the call, for writing where it is true.
        #[must_use = "it says in which way the caller holds the lock"]
        pub unsafe fn try_upgrade() -> bool;

        /// As [`upgrade`](Self::upgrade); gives up as `wait` says, and then the lock is held upgradably as
        /// before.
        ///
        /// # Safety
        /// The caller holds the lock upgradably; after the call, for writing if it succeeded.
        pub unsafe fn upgrade_with(wait: Wait<'_, P>) -> Result<(), WaitError>;

        /// As [`unlock_read`](Self::unlock_read), where a program may give up what nobody holds: returns
        /// whether anybody read the lock.
        ///
        /// # Safety
        /// The caller holds the lock for reading, or no holder relies on it, as after the mistake of a
        /// program that has only itself to blame.
        #[doc(hidden)]
        pub unsafe fn try_unlock_read() -> bool;

        /// From here on `count` readers hold this lock, which nobody else knows yet: each will
        /// [`unlock_read`](Self::unlock_read) it. At most as many are adopted as the word has room
        /// for.
        ///
        /// # Safety
        /// No writer holds the lock, and those counted already leave room for these.
        #[doc(hidden)]
        pub unsafe fn adopt_readers(count: usize);

        /// From here on a writer holds this lock, which nobody else knows yet: it will
        /// [`unlock_write`](Self::unlock_write) it.
        ///
        /// # Safety
        /// Nobody holds the lock, or uses it.
        #[doc(hidden)]
        pub unsafe fn adopt_writer();

        /// The holders of this lock will never release it: the lock is free from here on. An
        /// earlier release may still be busy in the queue, so the queue's flags stay.
        ///
        /// # Safety
        /// None of the holders relies on the lock any more.
        #[doc(hidden)]
        pub unsafe fn forget_holders();

        /// What is wrong with the lock, where `threads` threads use it, and the given number of
        /// readers, or a writer, are known to be inside.
        ///
        /// # Safety
        /// No thread runs in a method of this lock meanwhile; any may be stopped in one.
        #[doc(hidden)]
        pub unsafe fn check(inside: usize, writer: bool, threads: usize) -> Result<(), &'static str>;

        /// Calls `f` with the hint of each queued thread, and the first letter of its state (waiting, next,
        /// invited); false if somebody is changing the queue.
        ///
        /// # Safety
        /// As [`check`](Self::check).
        #[doc(hidden)]
        pub unsafe fn for_each_queued(f: impl FnMut(usize, char)) -> bool;

        /// Checks that nothing is left in a lock that nobody uses.
        ///
        /// # Safety
        /// As [`check`](Self::check).
        #[doc(hidden)]
        pub unsafe fn check_idle() -> Result<(), &'static str>;
    }

    /// Takes the lock for writing past those that wait, if the calling thread had it last. This is how
    /// a busy lock is taken nearly always. Counts no event.
    #[doc(hidden)]
    #[inline]
    pub fn write_again(&self) -> bool {
        self.0.write_again()
    }

    /// For the child of a fork, where the threads that wait for this lock, or were busy in its
    /// queue, do not exist. The holders stay; so does a reader that was just counted and had not
    /// queued yet, unless a writer inside shows that it cannot be a holder.
    #[doc(hidden)]
    pub fn forget_waiters(&mut self) {
        self.0.forget_waiters();
    }
}

/// For thin locks, which have a full lock one after the other: a thread may come late, and take (or
/// count itself in) a full lock that is another thin lock's by now.
impl<P: Platform> RwSem<P> {
    own! {
        /// The calling thread, `me`, takes the lock in this way if only waiters are in the way.
        #[must_use]
        pub(crate) fn past_queue(me: &Thread<P>, access: Access) -> Option<PastQueue<'_, P>>;

        /// Takes the lock in this way without going to sleep for it.
        pub(crate) fn take_awake(access: Access, context: &WaitContext<'_, P>) -> bool;

        /// The rest of the wait: sleeps.
        pub(crate) fn take_asleep(access: Access, context: &WaitContext<'_, P>) -> Result<(), WaitError>;

        /// Takes the lock in this way if that needs no waiting; `again`: beside readers even past waiting
        /// writers. If not, whether a seal was in the way.
        pub(crate) fn try_take(access: Access, again: bool) -> Result<(), bool>;
    }
}

#[cfg(test)]
impl<P: Platform> RwSem<P> {
    /// As if somebody slept in the queue, and the calling thread had the lock last.
    #[cfg(feature = "std")]
    pub(crate) fn seem_busy(&self) {
        self.word.set(word::Flags::WAITERS, core::sync::atomic::Ordering::Relaxed);
        self.0.seem_last();
    }

    /// Runs `f` on the queue.
    fn with_waiters<R>(&self, f: impl FnOnce(&Queue<P>) -> R) -> R {
        self.0.with_waiters(f)
    }
}

#[doc(hidden)]
impl<P: Platform> Deref for RwSem<P> {
    type Target = Head<P>;

    #[inline(always)]
    fn deref(&self) -> &Head<P> {
        &self.0
    }
}

impl<P: Platform> fmt::Debug for RwSem<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.snapshot();
        f.debug_struct("RwSem")
            .field("write_locked", &now.writer)
            .field("readers", &now.readers)
            .field("waiters", &now.waiters)
            .field("policy", self.policy())
            .finish()
    }
}

//! The typed reader/writer lock, through `lock_api`.

mod ext;
mod raw;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod recursive;

#[cfg(all(feature = "std", not(fairlock_loom)))]
pub(crate) use ext::sealed;
pub use ext::{RawRwLockExt, RwLockExt};
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use recursive::*;

#[cfg(any(feature = "std", fairlock_loom))]
mod native {
    use crate::deadlock::Id;
    use crate::platform::Native;

    /// The raw reader/writer lock of this platform, without data. 8 bytes.
    ///
    /// It implements `lock_api`'s `RawRwLock`, `RawRwLockFair`,
    /// `RawRwLockDowngrade`, `RawRwLockTimed`, `RawRwLockUpgrade`, and those that combine them.
    pub type RawRwLock = crate::lock::RawRwLock<Native>;

    // Stated above.
    const _: () = assert!(size_of::<RawRwLock>() == 8 + size_of::<Id>() || cfg!(fairlock_loom));

    /// A sleeping reader/writer lock that starves nobody.
    ///
    /// Any number of readers hold it together, or one writer alone. Every wait is bounded: a
    /// stream of readers cannot keep a writer out, a stream of writers cannot keep a reader out,
    /// and a running thread cannot take the lock again and again from those that sleep.
    ///
    /// It is `lock_api`'s `RwLock`, so it works with code that is generic over `lock_api`. To move
    /// code from `parking_lot` see the [crate](crate#in-place-of-another-lock). What `lock_api`
    /// lacks is in [`RwLockExt`](crate::RwLockExt): waits that end by a signal or a token, errors
    /// that say why a wait ended, recursive reads, policies, counters.
    ///
    /// ```
    /// use fairlock::RwLock;
    ///
    /// static LIMITS: RwLock<(u32, u32)> = RwLock::new((0, 10));
    ///
    /// LIMITS.write().1 = 20;
    /// let limits = LIMITS.read();
    /// assert_eq!(*limits, (0, 20));
    /// ```
    ///
    /// # When it blocks
    ///
    /// `read` blocks while a writer holds the lock; `write` blocks while any thread holds it. Both
    /// also block while it is the turn of other threads. The `try_` methods never block; `try_read`
    /// fails while a thread is queued or about to queue, even if readers hold the lock. A blocked
    /// thread spins for a short time at most, and then sleeps. `downgrade` and the release of a
    /// guard wait for no holder.
    ///
    /// # Fairness
    ///
    /// Promised, with [`Policy::DEFAULT`](crate::Policy::DEFAULT):
    ///
    /// * *Nobody sleeps at a free lock.* While threads wait, a release that leaves the lock free
    ///   wakes one of them. If the woken thread finds the lock taken again, it looks once more by
    ///   itself, after 0.05 ms.
    /// * *The lock goes to the queue in time.* For a while (a *tenure*) any running thread may take
    ///   a free lock. Then the lock is closed to them, and goes to the queue. If both sides wait,
    ///   they take turns. Within a side threads are served in order of arrival; but readers join
    ///   the readers inside in the order in which the scheduler runs them.
    /// * *A tenure is bounded.* It begins when the queue takes the lock, and lasts for [`aim`](crate::Policy::aim) (4 ms) divided by
    ///   the number of threads that want the lock, but at least for the measured cost of a
    ///   handoff divided by [`budget`](crate::Policy::budget) (10 %), because fairness may
    ///   not cost more than that share of the time.
    ///
    /// So a thread waits for at most the sum of (*tenure* + *handoff*) over the grants ahead of it,
    /// plus the time that holders spend in their last sections.
    /// [`planned_wait_ns`](crate::lock::RawRwLock::planned_wait_ns) returns the first part. The bound
    /// also holds for all timed attempts of a thread together, whatever it does in between, at up
    /// to eight locks at a time.
    ///
    /// Not promised:
    ///
    /// * order between readers and writers, or among threads that are not queued yet;
    /// * equal shares: the thread whose turn it is may take the lock many times;
    /// * priority inheritance;
    /// * an end of `try_` calls in a loop, which wait for nothing; nor of a write beside
    ///   [recursive reads](lock_api::RwLock::read_recursive) that follow each other without a gap;
    /// * how long the system takes to run the thread whose turn it is. The lock is reserved for
    ///   that thread; but if it stays free for 0.05 ms, an arriving thread goes first.
    ///
    /// The other presets of [`Policy`](crate::Policy) promise less; `UNFAIR` promises nothing:
    /// threads starve.
    ///
    /// # Size
    ///
    /// 8 bytes and the value. While threads wait, the lock has 640 more bytes from a pool. They go
    /// back when the lock has been found free several times, or is dropped; a forgotten guard keeps
    /// them for ever. A lock with a policy other than the default, or with events of its own, has
    /// them from its first use until it is dropped.
    ///
    /// # Fork
    ///
    /// A child made by `fork` has only the thread that called it. Of all locks of this crate it may
    /// use two kinds: those that it makes itself, and those that no *other* thread was using at the
    /// moment of the fork. The latter may be held by the thread that forked. (On Unix the child
    /// gets new instances of what the locks of a process share; but not after `_Fork`, `vfork` or
    /// `clone`, which should be followed by `exec`.)
    ///
    /// All other locks are lost to the child:
    ///
    /// * A lock that another thread held stays held.
    /// * If another thread waited, a release would hand the lock to a thread that does not exist.
    /// * If another thread was just taking or releasing the lock, beginning to wait or giving up,
    ///   the lock around the queue may stay held. Then any thread that has to wait, or has to let
    ///   others in, waits for ever. This cannot be seen from outside, not even by
    ///   [`has_waiters`](crate::RwLockExt::has_waiters).
    ///
    /// So the child must make new locks in their place, or do nothing but `exec`.
    ///
    /// # Deadlocks
    ///
    /// A thread that holds the lock and asks for it again deadlocks: with `write` always, with
    /// `read` once another thread is queued. Where a thread may already hold a read guard, use
    /// [`read_recursive`](lock_api::RwLock::read_recursive), or make the lock a
    /// [`RecursiveRwLock`](crate::RecursiveRwLock).
    ///
    /// # Panics
    ///
    /// Reading panics, as in `std`, when no more readers can be counted: 2^23; forgotten guards count. Methods that return an error or `None` return that
    /// instead. Nothing else panics. (If the system has no memory for the queue, threads look at the lock from time to time.)
    ///
    /// A panic while a guard is alive releases the lock when it drops the guard. There is no
    /// poisoning, as in `parking_lot`: the next holder sees the data as the panic left it. A
    /// forgotten guard keeps the lock held for ever. Guards are not `Send`, unless the feature
    /// `send_guard` is on.
    ///
    /// # Where it comes from
    ///
    /// One atomic word with reader count and flags, stealing, and handoff to
    /// the longest waiter follow the Linux kernel's rw_semaphore and public
    /// proposals for it (see [`published`](crate::published)); turns with a budget are
    /// this crate's.
    pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
    /// Shared access to the value of a [`RwLock`]; releases it when dropped.
    pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
    /// Exclusive access to the value of a [`RwLock`]; releases it when
    /// dropped. [`downgrade`](lock_api::RwLockWriteGuard::downgrade) turns it
    /// into a read guard without a gap.
    pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
    /// Shared access to the value of a [`RwLock`], from
    /// [`upgradable_read`](lock_api::RwLock::upgradable_read), that can become exclusive. Other
    /// readers come and go meanwhile, but there is at most one upgradable reader. It can
    /// [become](lock_api::RwLockUpgradableReadGuard::upgrade) the writer, with no gap in which
    /// another thread could write. Releases the lock when dropped.
    ///
    /// `upgradable_read` waits as a writer does, in the same queue and as fairly. `upgrade` waits
    /// only until the readers of that moment have left: no other thread gets in meanwhile. A timed
    /// upgrade that fails leaves the guard as it was. A thread that upgrades while it also has a
    /// read guard of the same lock deadlocks.
    ///
    /// ```
    /// use fairlock::{RwLock, RwLockUpgradableReadGuard};
    ///
    /// let lock = RwLock::new(vec![1, 2]);
    /// let guard = lock.upgradable_read();
    /// assert!(lock.try_read().is_some() && lock.try_upgradable_read().is_none());
    /// if !guard.contains(&3) {
    ///     // Nobody has written since.
    ///     RwLockUpgradableReadGuard::upgrade(guard).push(3);
    /// }
    /// assert_eq!(*lock.read(), [1, 2, 3]);
    /// ```
    pub type RwLockUpgradableReadGuard<'a, T> =
        lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;
    /// A [`RwLockReadGuard`] for a part of the value.
    ///
    /// ```
    /// use fairlock::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
    ///
    /// let lock = RwLock::new((1, "one"));
    /// let name: MappedRwLockReadGuard<'_, &str> = RwLockReadGuard::map(lock.read(), |pair| &pair.1);
    /// assert_eq!(*name, "one");
    /// ```
    pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
    /// A [`RwLockWriteGuard`] for a part of the value.
    pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;
    /// Ends waits from outside; see [`wait::CancelToken`](crate::wait::CancelToken).
    pub type CancelToken = crate::wait::CancelToken<Native>;
    /// When a wait ends without the lock; see [`wait::Wait`](crate::wait::Wait).
    pub type Wait<'a> = crate::wait::Wait<'a, Native>;
}
#[cfg(any(feature = "std", fairlock_loom))]
pub use native::*;

//! The typed reader/writer lock, through `lock_api`.

mod ext;
mod raw;
#[cfg(all(feature = "std", not(fairlock_loom)))]
mod recursive;

mod upgrade;

pub use ext::{RawRwLockExt, RwLockExt};
#[cfg(all(feature = "std", not(fairlock_loom)))]
pub use recursive::*;

#[cfg(any(feature = "std", fairlock_loom))]
mod native {
    use crate::platform::Native;
    use crate::thin::ThinRwSem;

    /// The raw reader/writer lock of this platform, without data. 8 bytes.
    ///
    /// It implements `lock_api`'s `RawRwLock`, `RawRwLockFair`,
    /// `RawRwLockDowngrade`, `RawRwLockTimed`, `RawRwLockUpgrade`, and those that combine them.
    pub type RawRwLock = ThinRwSem<Native>;

    // Stated above.
    const _: () = assert!(size_of::<RawRwLock>() == 8 || cfg!(fairlock_loom));

    /// A sleeping reader/writer lock that starves nobody.
    ///
    /// Any number of readers hold it together, or one writer alone. Every wait
    /// is bounded, on both sides: no stream of readers keeps a writer out, no
    /// stream of writers a reader, and no running thread keeps taking it from
    /// those that sleep. It is `lock_api`'s `RwLock`, so code that is generic
    /// over `lock_api` takes it; for code that comes from `parking_lot` see the
    /// [crate](crate#in-place-of-another-lock). What `lock_api` lacks is in
    /// [`RwLockExt`](crate::RwLockExt): waits that a signal or a token ends,
    /// errors that say why a wait ended, recursive reads, policies, counters.
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
    /// `read` blocks while a writer holds the lock, or while the turn is
    /// somebody else's; `write` blocks while anybody holds it, likewise. The
    /// `try_` methods never block; `try_read` fails while anybody is queued, or about to be,
    /// even if readers hold the lock. Blocked threads sleep, after at most a
    /// short spin. `downgrade` and the release of a guard wait for no holder.
    ///
    /// # Fairness
    ///
    /// Promised, with [`Policy::DEFAULT`](crate::Policy::DEFAULT):
    ///
    /// * Nobody sleeps at a free lock: while a thread waits, whoever leaves the lock free
    ///   wakes one, unless the lock is taken again all the time; then the waiter that is
    ///   next looks by itself, every 0.1 to 0.4 ms.
    /// * A wait that began a moment ago competes: whoever runs may take a free lock, for a
    ///   while (*tenure*). Then the lock is closed, and goes to the queue. The two sides
    ///   take turns while both wait. Within a side a waiter has the lock in order of
    ///   arrival, but for two exceptions: it may be passed over, at most twice, for one
    ///   that can run sooner; and readers join those inside as they come to run.
    /// * A tenure lasts as long as its [`aim`](crate::TenurePolicy::aim) (4 ms) divided by the number of threads
    ///   that want the lock, but not less than the measured cost of a handoff divided by
    ///   its [`budget`](crate::TenurePolicy::budget) (10 %): fairness may not cost more than that share of the time.
    ///   So a wait is at most the sum of (*tenure* + *handoff*) over the grants ahead, and
    ///   whatever time holders spend in their last sections; see
    ///   [`planned_wait_ns`](crate::rwsem::RwSem::planned_wait_ns). It holds for a thread
    ///   that waits in a loop of timed attempts, too, if it does not stay away for longer
    ///   than it has waited.
    ///
    /// Not promised: order between readers and writers, order among threads
    /// that are not queued yet, equal shares (the thread whose turn it is may
    /// take the lock many times), priority inheritance, and anything about the
    /// time the system takes to run a thread whose turn it is: the lock is kept for it for
    /// 0.1 ms, then the others go on and it keeps its place, twice at most. The
    /// other presets of [`Policy`](crate::Policy) promise less; `UNFAIR`
    /// promises nothing and starves.
    ///
    /// # Size
    ///
    /// 8 bytes and what it guards. While threads wait it has 640 more, from a pool, and gives
    /// them back when it was found free often enough, or is dropped; not those that a
    /// forgotten guard holds. A lock with another policy than the default one, or with events
    /// of its own, has them from its first use on until it is dropped.
    ///
    /// # Fork
    ///
    /// A child made by `fork` has only the thread that called it. Of all locks of this crate it may
    /// use those that it makes itself, and those that no other thread was using at that moment, be
    /// they held by its own thread: what locks share in a process is made anew in the child (on
    /// Unix; not after `_Fork`, `vfork` or `clone`, which should be followed by `exec`).
    ///
    /// Other locks are lost to it. One that another thread held stays held. Where one waited, a
    /// release would grant the lock to a thread that is not there. Where one was just taking or
    /// releasing the lock, beginning to wait or giving up, the lock around its queue may stay
    /// taken, and whoever has to wait, or to let others in, waits for ever; nothing shows from
    /// outside that a lock is such a one, [`has_waiters`](crate::RwLockExt::has_waiters)
    /// neither. So the child makes such locks anew, or does nothing but `exec`.
    ///
    /// # Deadlocks
    ///
    /// A thread that holds the lock and asks for it again waits for itself:
    /// for ever with `write`; with `read` as soon as somebody else is queued.
    /// Use [`read_recursive`](crate::RwLockExt::read_recursive) where a thread
    /// may hold a read guard already, or a
    /// [`RecursiveRwLock`](crate::RecursiveRwLock).
    ///
    /// # Panics
    ///
    /// Reading panics, as in `std`, when as many read guards of a lock are alive or
    /// forgotten as can be counted: 2^55, or 2^23 where a pointer has 32 bits. Ways to
    /// read that may fail do so instead. Nothing else panics. A panic while a guard is
    /// alive releases the lock as the guard is dropped; there is no poisoning, as in
    /// `parking_lot`, so the next holder sees the data as the panic left it.
    /// A guard that is forgotten keeps the lock held for good. Guards stay on
    /// their thread, unless the feature `send_guard` is on.
    ///
    /// # Where it comes from
    ///
    /// One atomic word with reader count and flags, stealing, and handoff to
    /// the longest waiter follow the Linux kernel's rw_semaphore and public
    /// proposals for it (see [`rwsem`](crate::rwsem)); turns with a budget are
    /// this crate's.
    pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
    /// Shared access to the value of a [`RwLock`]; releases it when dropped.
    pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
    /// Exclusive access to the value of a [`RwLock`]; releases it when
    /// dropped. [`downgrade`](lock_api::RwLockWriteGuard::downgrade) turns it
    /// into a read guard without a gap.
    pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
    /// Shared access to the value of a [`RwLock`], from
    /// [`upgradable_read`](lock_api::RwLock::upgradable_read): readers come and go beside it, but no
    /// other upgradable reader, and it may [become](lock_api::RwLockUpgradableReadGuard::upgrade)
    /// the writer without a gap in which another one could write. Releases the lock when dropped.
    ///
    /// To take it waits as a writer does, in the same queue and as fairly. To upgrade it waits for
    /// those that read at that moment to leave, and for nobody else: none gets in meanwhile. A
    /// timed upgrade that fails leaves it as it was. A thread that upgrades while it also has a
    /// read guard of the same lock waits for itself, for ever.
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
    /// let name: MappedRwLockReadGuard<'_, &str> =
    ///     RwLockReadGuard::map(lock.read(), |pair| &pair.1);
    /// assert_eq!(*name, "one");
    /// ```
    pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
    /// A [`RwLockWriteGuard`] for a part of the value.
    pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;
    /// Ends waits from outside; see [`wait::CancelToken`](crate::wait::CancelToken).
    pub type CancelToken = crate::wait::CancelToken<Native>;
}
#[cfg(any(feature = "std", fairlock_loom))]
pub use native::*;

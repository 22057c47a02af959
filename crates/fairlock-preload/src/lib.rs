//! `libfairlock_preload.so`: serves `pthread_rwlock_*`, `pthread_mutex_*` and `pthread_cond_*` (and so
//! `mtx_*` and `cnd_*`) to an unchanged program.
//!
//! ```sh
//! LD_PRELOAD=target/release/libfairlock_preload.so PROGRAM
//! ```
//!
//! Only for 64-bit x86 Linux with glibc, whose types it uses; on other targets the library is
//! empty.
//!
//! # How
//!
//! A mutex is a [`RawMutex`](fairlock::lock::RawMutex) of eight bytes in the program's own: in those that glibc keeps for
//! robust mutexes and those that inherit priorities, which stay glibc's. An rwlock is a [`RawRwLock`](fairlock::lock::RawRwLock)
//! in its first eight bytes. While threads wait, a lock names a slot, which has only the queue. A program may copy, overwrite or
//! free these bytes at any time: so a name counts only while the slot
//! says that it belongs to the address ([`PooledPlatform::NAMES_MAY_BE_STRAY`](fairlock::platform::PooledPlatform::NAMES_MAY_BE_STRAY)),
//! and a slot at which nobody waits is taken away from a lock without a look at that.
//!
//! An rwlock that is read nearly always by threads that meet there is *visible*: its readers are in the records of their
//! threads, and no word counts them. The number in its word counts only at the address for which it was given out
//! ([`PooledPlatform::visible_owners`](fairlock::platform::PooledPlatform::visible_owners)): a copy leads to nobody's readers.
//!
//! What POSIX and glibc say beyond that (kinds, errors, reading again, the number of the writing thread) is in the rest of the program's lock,
//! and in the variables of threads (`posix`, `thread::held`).
//!
//! The memory of slots is never given back, so it does no harm if the program frees its lock while
//! the thread that released it last is still on its way out. A lock that the program never destroys, as C++'s `std::shared_mutex`
//! does not, keeps no slot: one at which nobody waits goes to other locks when they need one. So memory is bounded by how many
//! locks are waited for at a time.
//!
//! A condition variable keeps no
//! more than a count in its bytes: its waiters are found by its address (`posix::cond`).
//!
//! # Promises
//!
//! * Waits are as fair as those of [`RwLock`](fairlock::RwLock). Readers and
//!   writers take turns, so neither side starves, unless the lock's kind is one that prefers
//!   a side (`posix::kind`); and a thread that reads already may read again, whoever waits
//!   (`thread::held` knows).
//! * Results are glibc's (`EBUSY`, `EDEADLK`, `EINVAL`, `ETIMEDOUT`, `EAGAIN`), in the
//!   order in which it looks for them. `pthread_rwlock_destroy` never fails; that of a mutex does if
//!   somebody holds it. A `try` fails
//!   if others wait, even in the moment when nobody holds the lock.
//! * A wait on `CLOCK_REALTIME` is over when that clock says so. If somebody sets the
//!   clock forward meanwhile, the wait does not notice before the time it was meant to last.
//! * Threads under `SCHED_FIFO` and `SCHED_RR` that wait go first, by priority; before them
//!   those under `SCHED_DEADLINE`. They do not give way while they wait, but sleep.
//! * Mutexes that are robust, inherit or protect priorities stay glibc's, and those of all other
//!   kinds behave as POSIX and glibc say. A recursive or error-checking one that a thread holds which
//!   forks is the child's.
//! * Who waits longest for a condition variable is notified first. No notification is lost; a
//!   broadcast wakes all at once. Such waits are cancellation points (`thread::cancel`), and nothing
//!   else is.
//! * A signal handler may leave a wait by `siglongjmp` (`thread::jump`).
//! * Locks with `PTHREAD_PROCESS_SHARED` are left to glibc, and so is everything in a
//!   program with raised privileges.
//! * After `fork` the child's locks are held by whoever held them, and by nobody's wait.
//!   Fork handlers may use locks, in whatever order they run (`process::fork`).
//!   A reader of another thread that came to a held lock, or left a visible one, in the very microsecond of the
//!   fork may stay counted (glibc keeps every waiting reader).
//! * No memory is taken from the program's allocator. If the system has none left, threads that
//!   have none to wait in a queue look for the lock from time to time, and get it in no order; and
//!   such a wait for a condition variable ends for no reason after a moment.
//!
//! # Limits
//!
//! * A thread that reads, and waits for another thread to read the same lock for the first
//!   time, waits for 50 ms or longer once a writer waits: only then is that other one let in
//!   past the writer (`posix::kind`), and never where the lock's kind prefers writers.
//! * Who calls glibc's functions by another way, a library loaded with `RTLD_DEEPBIND` or
//!   `dlvsym`, must not share a lock with others.
//! * Race detectors do not know these locks: helgrind and DRD report false races. A program with
//!   ThreadSanitizer keeps glibc's locks, and nothing is recorded.
//! * 8,388,608 reads of a lock at a time are counted; one more is `EAGAIN`.
//! * A real-time policy that only another process gives to a thread is not noticed
//!   (`thread::note_policy`).
//! * `fork` in a signal handler must be followed by `exec` or `_exit` there.
//! * A thread whose destructors of thread-specific data use locks in the last of their
//!   four rounds leaves a few hundred bytes behind; more if it held many locks for reading.
//!
//! # Environment
//!
//! | variable | meaning |
//! |---|---|
//! | `FAIRLOCK_ONLY` | `rwlock` or `mutex` (with condition variables): the rest is left to glibc. Anything else is a warning and both |
//! | `FAIRLOCK_PROFILE` | a folder, or a file with `%p` in its name: a record of every mutex, rwlock and spin lock, and of waits at conditions, semaphores and futexes, there, one file for each process (`fairlock-profile` reads it), written while the program runs |
//! | `FAIRLOCK_PROFILE_THRESHOLD` | waits this long, in nanoseconds, are kept one by one. 100000 (0.1 ms) if it is not set |
//! | `FAIRLOCK_OBSERVE` | if not empty, all locks stay glibc's, and are only watched |
#![cfg(any(fairlock_loom, all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")))]
#![cfg_attr(
    any(test, fairlock_loom),
    allow(dead_code, reason = "tests and models are about parts of it")
)]

#[cfg(not(fairlock_loom))]
mod posix;
#[cfg(not(fairlock_loom))]
mod process;
#[cfg(not(fairlock_loom))]
mod profile;
#[cfg(not(fairlock_loom))]
mod start;
#[cfg(not(fairlock_loom))]
mod thread;
mod waiters;
mod word;

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
//! A lock has two forms, and both fit into the 56 bytes of the program's lock. At first it is
//! *thin*: a word (`head`) that counts readers or says that a writer is inside, with one
//! compare-exchange to enter and one to leave. When somebody has to wait for more than half a
//! millisecond, the lock is *inflated*: a [`RawRwLock`](fairlock::lock::RawRwLock) from a pool, in a
//! *slot*, adopts the holders, and the slot's number replaces the word, with a nonce. The slot
//! knows the address and the nonce of its lock; so bytes that the program has copied, moved or
//! overwritten are a free lock, and lead nowhere. From then on everything goes to the inflated
//! lock, until the program destroys its own or nobody has used it for a while.
//!
//! An inflated rwlock that is read nearly always is *visible*: its readers are in the records of their threads,
//! and no word counts them (`visible`).
//!
//! That lock keeps the slot of its queue (fairlock's `lock/slot.rs`), which it has before anybody waits: so nobody needs
//! memory in order to wait, nor does the child of a fork.
//!
//! The pool's memory is never given back, so it does no harm if the program frees its lock while
//! the thread that released it last is still on its way out. An inflated lock belongs to an address
//! (`registry`): if the program never destroys its locks, as C++'s `std::shared_mutex`
//! does not, the next lock at the same address gets the same slot. A slot whose lock is idle is
//! taken away from it when others need one: the word that names it is stray then, as that of a
//! copy, and so a free lock. So memory is bounded by how many locks are in use, and by those that
//! were given up while somebody held them.
//!
//! A mutex is the same, and only ever written; its head is in bytes that glibc keeps for robust
//! mutexes and those that inherit priorities, which stay glibc's. A condition variable keeps no
//! more than a count in its bytes: its waiters are found by its address (`posix::cond`).
//!
//! # Promises
//!
//! * Waits are as fair as those of [`RwLock`](fairlock::RwLock), from the moment the lock is inflated. Readers and
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
//! | `FAIRLOCK_STATS` | the file for a report on every lock, written at exit. `%p` in it is the number of the process; without it, the first process writes to the file and each of its descendants to one with `.` and its number appended. All locks are inflated then, and keep their memory |
//! | `FAIRLOCK_STATS_SIGNAL` | if not empty, SIGUSR2 also has the report written, unless the program ignores or handles that signal |
//! | `FAIRLOCK_PROFILE` | a folder, or a file with `%p` in its name: a record of every mutex, rwlock and spin lock, and of waits at conditions, semaphores and futexes, there, one file for each process (`fairlock-profile` reads it), written while the program runs |
//! | `FAIRLOCK_PROFILE_THRESHOLD` | waits this long, in nanoseconds, are kept one by one. 100000 (0.1 ms) if it is not set |
//! | `FAIRLOCK_OBSERVE` | if not empty, all locks stay glibc's, and are only watched |
//! | `FAIRLOCK_STATS_PID` | set by the library: the number of the first process |
//!
//! The report is one JSON object for each lock, on a line of its own:
//!
//! | key | value |
//! |---|---|
//! | `pid`, `policy` | the process, and `default` |
//! | `kind` | `rwlock` or `mutex`; that of the last one, if there were several at the address |
//! | `address` | of the lock, a string in hexadecimal |
//! | `object`, `symbol`, `offset` | the loaded file and the (exported) symbol that it is in, and how far from that symbol, or else from the file's beginning; `null` in allocated memory, and always in a report by signal |
//! | `reads`, `writes` | how often it was taken each way; a mutex is written |
//! | `waits`, `wait_total_ns`, `wait_max_ns` | how often it could not be had at once, and how long that took; waits that were given up included |
//! | `readers`, `writer`, `waiting` | who is inside: how many readers, or the writing thread's number (0: none); and whether anyone waits |
//! | `destroyed` | by the program's `destroy`. The next lock at the address goes on counting |
//! | `events` | the [events](fairlock::events) that happened, by the kernel's names |
//!
//! A process that ends without `exit` (by `_exit`, a signal or `exec`) leaves no report;
//! one that has forked counts from then on.
#![cfg(any(fairlock_loom, all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")))]
#![cfg_attr(
    any(test, fairlock_loom),
    allow(dead_code, reason = "tests and models are about parts of it")
)]

mod head;
#[cfg(not(fairlock_loom))]
mod posix;
#[cfg(not(fairlock_loom))]
mod process;
#[cfg(not(fairlock_loom))]
mod profile;
#[cfg(not(fairlock_loom))]
mod registry;
#[cfg(not(fairlock_loom))]
mod report;
mod slot;
#[cfg(not(fairlock_loom))]
mod start;
#[cfg(not(fairlock_loom))]
mod thread;
#[cfg(not(fairlock_loom))]
mod visible;
mod waiters;
mod word;

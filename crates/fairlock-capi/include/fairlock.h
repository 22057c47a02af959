/*
 * fairlock.h: locks for programs that have more threads than CPUs and cannot afford a
 * starved one. Link with -lfairlock, or by pkg-config or CMake. C89 or C++98, and later
 * (fairlock.hpp: C++17); 64-bit Linux.
 *
 * Generated from crates/fairlock-capi; do not edit.
 *
 * OBJECTS. Locks, tokens and counters are structs of fixed size, which the program puts where
 * it likes: in statics, in its own structs, on the heap. The sizes in bytes are
 * fairlock_rwlock_t 32, fairlock_mutex_t 32, fairlock_cond_t 40, fairlock_sem_t 32,
 * fairlock_range_lock_t 1536, and fairlock_range_t 96, one for each range that is held.
 * Nothing has to be called before they are used: the macros FAIRLOCK_*_INIT, {0} and zero
 * bytes (calloc, memset) are a free lock with the default policy. An object must not be
 * copied or moved once it has been used. What is in it is not part of the interface. Memory
 * that is neither zero nor was initialised is not a lock.
 * While threads wait for a reader/writer lock, a mutex, a condition variable or a semaphore, it
 * also has memory of the library's pool, which does not shrink. The object gives that memory
 * back after some uncontended uses, when it is destroyed, and immediately by fairlock_*_trim; a
 * semaphore does so when nobody waits any more.
 *
 * RESULTS. Functions that return int return 0 or an error number of <errno.h>, and each
 * function says which. errno is not touched. EINVAL, "not a lock" (or not a token, …), means
 * that a pointer is null or misaligned, or that the memory does not hold such an object: it
 * was destroyed, overwritten, moved, never initialised, or initialised with a preset that
 * does not exist. The contents of the memory show this, so it is not noticed with certainty.
 * Any attempt to read also returns EAGAIN if as many readers as can be counted, 2^55, hold
 * the lock (of a range lock: all of it). No argument makes a function abort the program, and
 * no function throws an exception.
 *
 * POINTERS must be null, or point to an object of their type. The object stays where it is
 * until every call with it has returned; DESTROYING has the exceptions.
 *
 * DESTROYING. A fairlock_mutex_t may be destroyed, and its memory used for something else,
 * when no thread holds it, waits for it or will use it: its last owner may do so right after
 * the unlock, even if the unlock calls of earlier owners have not returned yet. The same
 * holds for a fairlock_rwlock_t and the unlock calls of writers, if its policy has a time and
 * a budget, as FAIRLOCK_DEFAULT has. Unlock calls of readers must have returned, since the
 * last reader wakes waiters after it has released the lock; under the other presets so must
 * those of writers, for the same reason. A fairlock_sem_t may be destroyed when no thread
 * waits for it or will use it, even if calls that returned permits, which other threads have
 * taken by now, have not returned. All calls with condition variables, range locks and
 * ranges, tokens and counters must have returned.
 *
 * CLOCKS are CLOCK_MONOTONIC or CLOCK_REALTIME, and deadlines are absolute times on them. A
 * call with a deadline that has passed does not wait. A wait that reaches its deadline on
 * CLOCK_REALTIME reads that clock again, and if the clock was set back meanwhile, goes on
 * waiting, at the end of the queue. A clock that was set forward is not noticed: the wait
 * lasts as long as it would have.
 *
 * GIVING UP. A wait that ends without the lock leaves no trace, and the waiters behind it
 * move up. A waiter whose wait ends at the instant at which it is granted the lock has the
 * lock.
 *
 * SIGNALS, THREADS, FORK. Signal handlers may call fairlock_cancel, but must not use locks. A
 * handler that runs while its thread waits does not end the wait, unless the wait is an
 * interruptible one, or the handler cancels it. Waits are not cancellation points of
 * pthread_cancel. The child of a fork beside other threads may not use a lock that one of
 * them held, waited for, or was just acquiring or releasing, nor a lock that had not been
 * used yet.
 */
#ifndef FAIRLOCK_H
#define FAIRLOCK_H


#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#if !defined(__cplusplus)
#define FAIRLOCK_NOTHROW
#elif __cplusplus >= 201103L
#define FAIRLOCK_NOTHROW noexcept
#else
#define FAIRLOCK_NOTHROW throw()
#endif
#if defined(__GNUC__)
#define FAIRLOCK_MUST_USE __attribute__((warn_unused_result))
#else
#define FAIRLOCK_MUST_USE
#endif
#if defined(__GNUC__) && !defined(__clang__)
/* Called by way of the GOT: a jump less than by the PLT. */
#define FAIRLOCK_API __attribute__((noplt))
#else
#define FAIRLOCK_API
#endif

#ifdef __cplusplus
extern "C" {
#elif defined(__clang__)
/* bool, which C89 does not have. */
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc99-extensions"
#endif

/* Of <time.h>, which in strict C does not have it before C11. */
struct timespec;


/**
 * Preset: bounded waits at nearly the throughput of an unfair lock.
 */
#define FAIRLOCK_DEFAULT 0

/**
 * Preset: fast, and it starves.
 */
#define FAIRLOCK_UNFAIR 1

/**
 * Preset: a waiter past its deadline is handed the lock.
 */
#define FAIRLOCK_HANDOFF 2

/**
 * Preset: as FAIRLOCK_HANDOFF, and readers do not spin.
 */
#define FAIRLOCK_NO_READER_SPIN 3

/**
 * Preset: as FAIRLOCK_NO_READER_SPIN, and readers do not overtake a writer that is
 * first in the queue.
 */
#define FAIRLOCK_WRITER_PHASE 4

/**
 * `handoff_after_ns`: never.
 */
#define FAIRLOCK_NEVER -1

/**
 * `handoff_budget`: none; the lock follows a kernel proposal, as published.
 */
#define FAIRLOCK_NO_BUDGET -1

/**
 * `reader_spin`: readers do not spin.
 */
#define FAIRLOCK_READER_SPIN_OFF 0

/**
 * `reader_spin`: one reader at a time may spin.
 */
#define FAIRLOCK_READER_SPIN_ONE 1

/**
 * `reader_spin`: every reader may spin.
 */
#define FAIRLOCK_READER_SPIN_ON 2

/**
 * `reader_spin`: every reader may spin, for readers too, which may starve all others.
 */
#define FAIRLOCK_READER_SPIN_ALWAYS 3

/**
 * No batches, but turns.
 */
#define FAIRLOCK_BATCH_NONE 0

/**
 * Preset: a range that waits may be overtaken for 4 ms; nearly the speed of an unfair lock.
 */
#define FAIRLOCK_RANGE_DEFAULT 0

/**
 * Preset: first come, first served among ranges that overlap.
 */
#define FAIRLOCK_RANGE_FIFO 1

/**
 * How a lock decides which thread goes next, in full. Start from a preset
 * (fairlock_policy_preset) and change what is to be different.
 */
typedef struct fairlock_policy_t {
  /**
   * How long a waiter is passed over before the lock is handed to it, in nanoseconds:
   * FAIRLOCK_NEVER (it starves), 0 (a context switch for each acquisition), or more, up to
   * nine hours; what is longer is taken for that.
   */
  int64_t handoff_after_ns;
  /**
   * The share of time that handoffs may cost, 1 to 100 percent, or FAIRLOCK_NO_BUDGET.
   * With both a time and a budget the lock is held by turns, and the next three fields
   * do not matter.
   */
  int32_t handoff_budget;
  /**
   * Whether readers spin before they sleep: one of FAIRLOCK_READER_SPIN_*.
   */
  uint32_t reader_spin;
  /**
   * Whether writers spin before they sleep: 0 or 1.
   */
  uint32_t writer_spin;
  /**
   * Whether readers may not overtake a writer that is first in the queue: 0 or 1.
   */
  uint32_t writer_phase;
  /**
   * Whether real-time threads (SCHED_DEADLINE, SCHED_FIFO, SCHED_RR) go before all
   * others that wait, by priority, which may starve those: 0 or 1. Only with a time and a
   * budget; otherwise 0.
   */
  uint32_t priorities;
  /**
   * For later versions: zero.
   */
  uint32_t reserved[9];
} fairlock_policy_t;

/**
 * A reader/writer lock: any number of readers together, or one writer alone.
 *
 * Blocked threads sleep. Waits are bounded on both sides: the sides take turns while both
 * wait, and within a side a waiter is served in order of arrival, but for exceptions that
 * are bounded too; the preset FAIRLOCK_UNFAIR promises nothing. A lock may be released by
 * another thread than took it. A thread that holds the lock and asks for it again waits
 * for itself, for ever with `write`, and with `read` as soon as somebody waits: see
 * fairlock_rwlock_read_recursive.
 */
typedef struct fairlock_rwlock_t {
  uint32_t mark;
  uint32_t preset;
  uint64_t memory[3];
} fairlock_rwlock_t;

/**
 * Ends waits from outside: every wait that was given this token, now or later, returns
 * ECANCELED once fairlock_cancel was called. Any number of threads, waits and locks may
 * share one.
 */
typedef struct fairlock_cancel_t {
  uint32_t mark;
  uint32_t preset;
  uint64_t memory[15];
} fairlock_cancel_t;

/**
 * Counters of what the slow paths of locks do. Zero bytes are counters at zero.
 */
typedef struct fairlock_events_t {
  uint64_t memory[64];
} fairlock_events_t;

/**
 * A mutex: one holder.
 *
 * By default waits are bounded as those for a fairlock_rwlock_t that is only written: any running
 * thread may take the free mutex for a while, then it goes to the queue. Otherwise tickets come
 * in batches of 1 (a ticket lock), 4 or 8: batches are served in order, and within the batch
 * whose turn it is, a running waiter goes first. So a waiter is overtaken by at most as many
 * later ones as a batch has, and a thread that does not run delays no other. A thread that gives
 * up waiting is skipped, and still has its turn if it comes again before that.
 *
 * A mutex may be released by another thread than took it. Locking a mutex that the thread holds
 * blocks for ever.
 */
typedef struct fairlock_mutex_t {
  uint32_t mark;
  uint32_t preset;
  uint64_t memory[3];
} fairlock_mutex_t;

/**
 * A condition variable: threads that hold a mutex wait for others to say that what it
 * guards has changed.
 *
 * First come, first notified. A thread that is notified has the mutex again when its wait
 * returns. It is woken, and takes the mutex like any thread that comes then; or it queues there
 * asleep, if the mutex is held and was waited for lately. Waits
 * do not return for no reason, and one that ends by itself or from outside has not used a
 * notification up. Several mutexes may be waited for with the same condition variable, of
 * FAIRLOCK_BATCH_NONE.
 */
typedef struct fairlock_cond_t {
  uint32_t mark;
  uint32_t preset;
  uint64_t memory[4];
} fairlock_cond_t;

/**
 * A semaphore: a number of permits, which threads take, wait for if they are not there, and
 * give back.
 *
 * First come, first served, whatever each wants: one that waits for many permits is not passed
 * by those that want few. Permits may be given by a thread that has none, so it is also an
 * event that is not lost. A wait for more than there ever are blocks for ever.
 */
typedef struct fairlock_sem_t {
  uint32_t mark;
  uint32_t preset;
  uint64_t memory[3];
} fairlock_sem_t;

/**
 * A lock on closed ranges of uint64_t: any number of readers together at a position, or
 * one writer alone. What the positions number is up to the program: bytes of a file,
 * pages, blocks.
 *
 * Ranges that do not overlap have nothing to do with each other. A range that waits may be
 * overtaken for a few milliseconds, then it is served in order of arrival among those that
 * overlap. A thread that reads a range again that it holds waits for itself as soon as a
 * writer waits: see fairlock_range_read_recursive.
 *
 * The lock allocates memory when many ranges are held or waited for; if there is none,
 * the process ends, as Rust's allocator has no error for that.
 */
typedef struct fairlock_range_lock_t {
  uint32_t mark;
  uint32_t preset;
  uint64_t memory[191];
} fairlock_range_lock_t;

/**
 * What a range lock promises those that wait.
 */
typedef struct fairlock_range_policy_t {
  /**
   * How long a waiting range may be overtaken, in nanoseconds (more if many wait).
   * Zero: not at all.
   */
  uint64_t overtaken_for_ns;
  /**
   * For later versions: zero.
   */
  uint64_t reserved[3];
} fairlock_range_policy_t;

/**
 * One that holds a range, or waits for one.
 */
typedef struct fairlock_range_info_t {
  /**
   * The first position.
   */
  uint64_t start;
  /**
   * The last position: it belongs to the range.
   */
  uint64_t last;
  /**
   * Which thread, as fairlock_this_thread names them, and for how long it has waited,
   * or held or waited before, in nanoseconds. Of holders this is known only if they
   * waited, or came while ranges were traced; else both are zero.
   */
  uint64_t who;
  uint64_t how_long_ns;
  /**
   * For writing.
   */
  bool writes;
  /**
   * Waited for; held otherwise.
   */
  bool waits;
} fairlock_range_info_t;

/**
 * A range that is held, or nothing: FAIRLOCK_RANGE_INIT, {0}, zero bytes. The program
 * provides one for each range that it locks, for instance on the stack, and keeps it until
 * the range is unlocked. It may be handed to another thread, and be moved: copied, if only
 * one of the copies is used from then on.
 */
typedef struct fairlock_range_t {
  uint32_t state;
  uint32_t reserved;
  uint64_t memory[11];
} fairlock_range_t;

/**
 * What was counted: an event and how often it happened.
 */
typedef struct fairlock_event_count_t {
  /**
   * The event's name, as the Linux kernel has it; never freed.
   */
  const char *name;
  /**
   * How often it happened.
   */
  uint64_t count;
} fairlock_event_count_t;

/**
 * How long something took, in nanoseconds. Percentiles are at most a quarter longer than the true
 * ones, and never shorter; the longest is exact.
 */
typedef struct fairlock_times_t {
  /**
   * How many there were.
   */
  uint64_t count;
  /**
   * Their sum.
   */
  uint64_t total_ns;
  uint64_t p50_ns;
  uint64_t p99_ns;
  uint64_t p999_ns;
  uint64_t longest_ns;
} fairlock_times_t;

/**
 * What was counted of those that read a lock, or of those that write it or hold a mutex.
 */
typedef struct fairlock_stats_t {
  /**
   * How often the lock was taken.
   */
  uint64_t acquisitions;
  /**
   * How many waits ended without the lock.
   */
  uint64_t given_up;
  /**
   * How often one that came later had the lock before one that waited; and that of one wait, at
   * most.
   */
  uint64_t passed_over;
  uint64_t most_passed_over;
  /**
   * How long it took to have the lock, or to give up, where it was not free immediately: all waits.
   */
  struct fairlock_times_t waited;
  /**
   * How long it was held: of each thread's acquisitions (of all, to write) one of 64. But the
   * longest is of all that somebody waited for, too.
   */
  struct fairlock_times_t held;
  /**
   * The threads that waited and held it longest: their names, cut off if need be.
   */
  char longest_waiter[32];
  char longest_holder[32];
  /**
   * From where they took it: the addresses to which these calls returned. Null if nobody did, and
   * on other machines than x86-64.
   */
  const void *longest_wait_at;
  const void *longest_hold_at;
  /**
   * How long threads gave the mutex up for condition variables, until they had it again: of the
   * mutex, to write; else zero.
   */
  struct fairlock_times_t conditions;
  /**
   * How many threads wait now, and how long the first of them has waited.
   */
  uint64_t waiting;
  uint64_t waiting_ns;
  /**
   * How many threads hold it now, and how long the first of them has held it; zero if that is not
   * timed, and nobody waits.
   */
  uint64_t holding;
  uint64_t holding_ns;
} fairlock_stats_t;

/**
 * The version of the library in use, as "0.1.0"; FAIRLOCK_VERSION is that of the header.
 */
FAIRLOCK_API const char *fairlock_version(void) FAIRLOCK_NOTHROW;

/**
 * Writes down what a preset (FAIRLOCK_DEFAULT …) stands for.
 *
 * * 0: `*policy` was written.
 * * EINVAL: unknown preset, or `policy` is null.
 */
FAIRLOCK_API
int fairlock_policy_preset(uint32_t preset,
                           struct fairlock_policy_t *policy)
FAIRLOCK_NOTHROW;

/**
 * Makes `*lock` a free lock that follows `policy`; if that is null, the default.
 * Not needed for a lock that was initialised statically, or is zero.
 *
 * * 0: `*lock` is a lock, whatever it was before.
 * * EINVAL: `lock` is null or misaligned, or `policy` has a value that it cannot have.
 */
FAIRLOCK_API
int fairlock_rwlock_init(struct fairlock_rwlock_t *lock,
                         const struct fairlock_policy_t *policy)
FAIRLOCK_NOTHROW;

/**
 * Ends the use of a lock. Every later call with it returns EINVAL, until it is
 * initialised again. One that is just forgotten keeps what it has of the library's: 384 bytes,
 * if threads have waited for it lately, or if it was used and its policy is not the default
 * one or it has events of its own; 320, if it follows a proposal. Otherwise nothing.
 *
 * * 0: it is not a lock any more.
 * * EBUSY: somebody holds it or waits for it; it is as it was.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API int fairlock_rwlock_destroy(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Gives back what the lock has of the library's because threads have waited for it: 384 bytes,
 * which it gives back by itself after some use that nobody waits for. The lock stays what it
 * is; others may use it meanwhile.
 *
 * * 0: it has nothing of the library's.
 * * EBUSY: somebody holds it or waits for it.
 * * ENOTSUP: its policy is not the default one, or it has events of its own. Only destroying
 *   it gives back what it has.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API int fairlock_rwlock_trim(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Takes the lock for reading; blocks until it has it.
 *
 * * 0: the caller holds the lock for reading.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API int fairlock_rwlock_read(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Takes the lock for reading if that needs no waiting.
 *
 * * 0: the caller holds the lock for reading.
 * * EBUSY: a writer holds it, or somebody waits for it.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_rwlock_try_read(struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * Takes the lock for reading; gives up at `deadline`, a time on `clock`.
 *
 * * 0: the caller holds the lock for reading.
 * * ETIMEDOUT: the deadline has passed, and somebody was in the way.
 * * EINVAL: not a lock, an unknown clock, or no valid time.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_rwlock_read_until(struct fairlock_rwlock_t *lock,
                               int clock,
                               const struct timespec *deadline)
FAIRLOCK_NOTHROW;

/**
 * Takes the lock for reading; gives up when a signal handler has run in this thread while
 * it slept, with or without SA_RESTART. A handler that ran just before is not noticed.
 *
 * * 0: the caller holds the lock for reading.
 * * EINTR: a signal handler ran.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_rwlock_read_interruptible(struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * Takes the lock for reading; gives up when `token` is cancelled. A lock that is free is
 * taken without a look at the token.
 *
 * * 0: the caller holds the lock for reading.
 * * ECANCELED: the token was cancelled, and somebody was in the way.
 * * EINVAL: not a lock, or not a token.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_rwlock_read_cancellable(struct fairlock_rwlock_t *lock,
                                     struct fairlock_cancel_t *token)
FAIRLOCK_NOTHROW;

/**
 * Takes the lock for reading, past all waiters if readers hold it already: for a thread
 * that may hold it for reading itself. Readers that never let go at the same time can
 * starve a writer this way. A thread that holds it for writing waits for itself.
 *
 * * 0: the caller holds the lock for reading, once more.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API
int fairlock_rwlock_read_recursive(struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_rwlock_read_recursive, without waiting.
 *
 * * 0: the caller holds the lock for reading, once more.
 * * EBUSY: a writer holds it, or it is free and somebody waits for it.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_rwlock_try_read_recursive(struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_rwlock_read_recursive; gives up at `deadline`, a time on `clock`.
 *
 * * 0: the caller holds the lock for reading, once more.
 * * ETIMEDOUT: the deadline has passed, and somebody was in the way.
 * * EINVAL: not a lock, an unknown clock, or no valid time.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_rwlock_read_recursive_until(struct fairlock_rwlock_t *lock,
                                         int clock,
                                         const struct timespec *deadline)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_rwlock_read_recursive; gives up when a signal handler has run in this thread
 * while it slept.
 *
 * * 0: the caller holds the lock for reading, once more.
 * * EINTR: a signal handler ran.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_rwlock_read_recursive_interruptible(struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_rwlock_read_recursive; gives up when `token` is cancelled.
 *
 * * 0: the caller holds the lock for reading, once more.
 * * ECANCELED: the token was cancelled, and somebody was in the way.
 * * EINVAL: not a lock, or not a token.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_rwlock_read_recursive_cancellable(struct fairlock_rwlock_t *lock,
                                               struct fairlock_cancel_t *token)
FAIRLOCK_NOTHROW;

/**
 * Gives up the lock held for reading.
 *
 * * 0: the caller has given it up.
 * * EPERM: nobody holds it for reading. It is not noticed if another thread does.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API int fairlock_rwlock_unlock_read(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Gives up the lock held for reading; if anyone waits, nobody gets in before the waiter
 * whose turn it is.
 *
 * * 0: the caller has given it up.
 * * EPERM: nobody holds it for reading. It is not noticed if another thread does.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API
int fairlock_rwlock_unlock_read_fair(struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * Takes the lock for writing; blocks until it has it.
 *
 * * 0: the caller holds the lock for writing.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API int fairlock_rwlock_write(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Takes the lock for writing if that needs no waiting.
 *
 * * 0: the caller holds the lock for writing.
 * * EBUSY: somebody holds it, or waits for it.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_rwlock_try_write(struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * Takes the lock for writing; gives up at `deadline`, a time on `clock`.
 *
 * * 0: the caller holds the lock for writing.
 * * ETIMEDOUT: the deadline has passed, and somebody was in the way.
 * * EINVAL: not a lock, an unknown clock, or no valid time.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_rwlock_write_until(struct fairlock_rwlock_t *lock,
                                int clock,
                                const struct timespec *deadline)
FAIRLOCK_NOTHROW;

/**
 * Takes the lock for writing; gives up when a signal handler has run in this thread while
 * it slept, as fairlock_rwlock_read_interruptible.
 *
 * * 0: the caller holds the lock for writing.
 * * EINTR: a signal handler ran.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_rwlock_write_interruptible(struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * Takes the lock for writing; gives up when `token` is cancelled. A lock that is free is
 * taken without a look at the token.
 *
 * * 0: the caller holds the lock for writing.
 * * ECANCELED: the token was cancelled, and somebody was in the way.
 * * EINVAL: not a lock, or not a token.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_rwlock_write_cancellable(struct fairlock_rwlock_t *lock,
                                      struct fairlock_cancel_t *token)
FAIRLOCK_NOTHROW;

/**
 * Gives up the lock held for writing.
 *
 * * 0: the caller has given it up.
 * * EPERM: nobody holds it for writing. It is not noticed if another thread does.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API int fairlock_rwlock_unlock_write(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Gives up the lock held for writing; if anyone waits, nobody gets in before the waiter
 * whose turn it is.
 *
 * * 0: the caller has given it up.
 * * EPERM: nobody holds it for writing. It is not noticed if another thread does.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API
int fairlock_rwlock_unlock_write_fair(struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * Turns the lock held for writing into one held for reading, with no gap in which another
 * writer could get in, and lets in readers that wait. Never blocks.
 *
 * * 0: the caller holds the lock for reading.
 * * EPERM: nobody holds it for writing. It is not noticed if another thread does.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API int fairlock_rwlock_downgrade(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Whether anyone holds the lock at this instant; false if it is not a lock.
 */
FAIRLOCK_API
bool fairlock_rwlock_is_locked(const struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * Whether a writer holds the lock at this instant; false if it is not a lock.
 */
FAIRLOCK_API
bool fairlock_rwlock_is_write_locked(const struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * Whether a thread is queued for the lock at this instant; false if it is not a lock.
 */
FAIRLOCK_API
bool fairlock_rwlock_has_waiters(const struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * Writes down the policy that the lock follows.
 *
 * * 0: `*policy` was written.
 * * EINVAL: not a lock, or `policy` is null.
 */
FAIRLOCK_API
int fairlock_rwlock_policy(const struct fairlock_rwlock_t *lock,
                           struct fairlock_policy_t *policy)
FAIRLOCK_NOTHROW;

/**
 * Writes down how long a waiter with `grants_ahead` grants before its own waits at most, in
 * nanoseconds, as planned now: from what handoffs have cost, if nobody stays inside for
 * longer than its turn. Time for which threads do not run although they could comes on top.
 *
 * * 0: `*wait_ns` was written.
 * * EINVAL: not a lock, or `wait_ns` is null.
 * * ENOTSUP: the lock's policy plans nothing; of the presets only FAIRLOCK_DEFAULT does.
 */
FAIRLOCK_API
int fairlock_rwlock_planned_wait_ns(const struct fairlock_rwlock_t *lock,
                                    size_t grants_ahead,
                                    uint64_t *wait_ns)
FAIRLOCK_NOTHROW;

/**
 * Counts the lock's events in `events` too; if that is null, no longer. Several locks may
 * share them. They stay where they are for as long as the lock is used.
 *
 * * 0: done.
 * * EINVAL: not a lock, or `events` is misaligned.
 */
FAIRLOCK_API
int fairlock_rwlock_set_events(struct fairlock_rwlock_t *lock,
                               struct fairlock_events_t *events)
FAIRLOCK_NOTHROW;

/**
 * Makes `*mutex` a free mutex with batches of this size: FAIRLOCK_BATCH_NONE, 1, 4 or
 * 8. Not needed for one that was initialised statically, or is zero.
 *
 * * 0: `*mutex` is a mutex, whatever it was before.
 * * EINVAL: `mutex` is null or misaligned, or no lock has this batch size.
 */
FAIRLOCK_API
int fairlock_mutex_init(struct fairlock_mutex_t *mutex,
                        uint32_t batch)
FAIRLOCK_NOTHROW;

/**
 * Ends the use of a mutex. Every later call with it returns EINVAL, until it is
 * initialised again. One that is just forgotten keeps what it has of the library's: 384 bytes,
 * if threads have waited for it lately, or if it was used and has batches of a fixed size.
 * Otherwise nothing.
 *
 * * 0: it is not a mutex any more.
 * * EBUSY: somebody holds it or waits for it; it is as it was.
 * * EINVAL: not a mutex.
 */
FAIRLOCK_API int fairlock_mutex_destroy(struct fairlock_mutex_t *mutex) FAIRLOCK_NOTHROW;

/**
 * Gives back what the mutex has of the library's because threads have waited for it: 384 bytes,
 * which it gives back by itself after some use that nobody waits for. The mutex stays what it
 * is; others may use it meanwhile.
 *
 * * 0: it has nothing of the library's.
 * * EBUSY: somebody holds it or waits for it.
 * * ENOTSUP: it has batches of a fixed size. Only destroying it gives back what it has.
 * * EINVAL: not a mutex.
 */
FAIRLOCK_API
int fairlock_mutex_trim(struct fairlock_mutex_t *mutex)
FAIRLOCK_NOTHROW;

/**
 * Takes the mutex; blocks until it has it.
 *
 * * 0: the caller holds the mutex.
 * * EINVAL: not a mutex.
 */
FAIRLOCK_API int fairlock_mutex_lock(struct fairlock_mutex_t *mutex) FAIRLOCK_NOTHROW;

/**
 * Takes the mutex if that needs no waiting, and overtakes nobody whose turn it is. May
 * fail when another thread is just doing the same.
 *
 * * 0: the caller holds the mutex.
 * * EBUSY: somebody holds it, or waits for it.
 * * EINVAL: not a mutex.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_mutex_try_lock(struct fairlock_mutex_t *mutex)
FAIRLOCK_NOTHROW;

/**
 * Takes the mutex; gives up at `deadline`, a time on `clock`.
 *
 * * 0: the caller holds the mutex.
 * * ETIMEDOUT: the deadline has passed, and somebody was in the way.
 * * EINVAL: not a mutex, an unknown clock, or no valid time.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_mutex_lock_until(struct fairlock_mutex_t *mutex,
                              int clock,
                              const struct timespec *deadline)
FAIRLOCK_NOTHROW;

/**
 * Takes the mutex; gives up when a signal handler has run in this thread while it slept,
 * with or without SA_RESTART. A handler that ran just before is not noticed.
 *
 * * 0: the caller holds the mutex.
 * * EINTR: a signal handler ran.
 * * EINVAL: not a mutex.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_mutex_lock_interruptible(struct fairlock_mutex_t *mutex)
FAIRLOCK_NOTHROW;

/**
 * Takes the mutex; gives up when `token` is cancelled. A mutex that is free is taken without
 * a look at the token.
 *
 * * 0: the caller holds the mutex.
 * * ECANCELED: the token was cancelled, and somebody was in the way.
 * * EINVAL: not a mutex, or not a token.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_mutex_lock_cancellable(struct fairlock_mutex_t *mutex,
                                    struct fairlock_cancel_t *token)
FAIRLOCK_NOTHROW;

/**
 * Gives up the mutex.
 *
 * * 0: the caller has given it up.
 * * EPERM: nobody holds it. It is not noticed if another thread does.
 * * EINVAL: not a mutex.
 */
FAIRLOCK_API int fairlock_mutex_unlock(struct fairlock_mutex_t *mutex) FAIRLOCK_NOTHROW;

/**
 * Gives up the mutex; if others wait for it now, the one whose turn it is, or those of their
 * batch, have it before anyone who comes later, the caller included.
 *
 * * 0: the caller has given it up.
 * * EPERM: nobody holds it. It is not noticed if another thread does.
 * * EINVAL: not a mutex.
 */
FAIRLOCK_API int fairlock_mutex_unlock_fair(struct fairlock_mutex_t *mutex) FAIRLOCK_NOTHROW;

/**
 * Whether anyone holds the mutex at this instant; false if it is not a mutex.
 */
FAIRLOCK_API
bool fairlock_mutex_is_locked(const struct fairlock_mutex_t *mutex)
FAIRLOCK_NOTHROW;

/**
 * Whether anyone waits for the mutex at this instant; false if it is not a mutex.
 */
FAIRLOCK_API
bool fairlock_mutex_is_contended(const struct fairlock_mutex_t *mutex)
FAIRLOCK_NOTHROW;

/**
 * Makes `*cond` a condition variable that nobody waits for. Not needed for one that was
 * initialised statically, or is zero.
 *
 * * 0: `*cond` is a condition variable, whatever it was before.
 * * EINVAL: `cond` is null or misaligned.
 */
FAIRLOCK_API int fairlock_cond_init(struct fairlock_cond_t *cond) FAIRLOCK_NOTHROW;

/**
 * Ends the use of a condition variable. Every later call with it returns EINVAL, until it is
 * initialised again. One that is just forgotten keeps what it has of the library's: 384 bytes,
 * if threads have met at it lately. Otherwise nothing.
 *
 * * 0: it is not a condition variable any more.
 * * EBUSY: somebody waits for it; it is as it was.
 * * EINVAL: not a condition variable.
 */
FAIRLOCK_API int fairlock_cond_destroy(struct fairlock_cond_t *cond) FAIRLOCK_NOTHROW;

/**
 * Gives back what the condition variable has of the library's because threads have met at it:
 * 384 bytes. It stays what it is; others may use it meanwhile.
 *
 * * 0: it has nothing of the library's.
 * * EBUSY: somebody is just using it.
 * * EINVAL: not a condition variable.
 */
FAIRLOCK_API int fairlock_cond_trim(struct fairlock_cond_t *cond) FAIRLOCK_NOTHROW;

/**
 * Gives up the mutex, which the caller holds, waits for a notification, and takes the mutex
 * again.
 *
 * * 0: the caller was notified, and holds the mutex.
 * * EPERM: nobody holds the mutex. It is not noticed if another thread does.
 * * ENOTSUP: the mutex has batches of a fixed size.
 * * EINVAL: not a condition variable, or not a mutex.
 */
FAIRLOCK_API
int fairlock_cond_wait(struct fairlock_cond_t *cond,
                       struct fairlock_mutex_t *mutex)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_cond_wait; gives up at `deadline`, a time on `clock`. If CLOCK_REALTIME was set
 * back meanwhile, the wait may return 0 without a notification.
 *
 * * 0: the caller was notified, and holds the mutex.
 * * ETIMEDOUT: it was not, and the deadline has passed; it holds the mutex.
 * * EPERM: nobody holds the mutex. It is not noticed if another thread does.
 * * ENOTSUP: the mutex has batches of a fixed size.
 * * EINVAL: not a condition variable, not a mutex, an unknown clock, or no valid time.
 */
FAIRLOCK_API
int fairlock_cond_wait_until(struct fairlock_cond_t *cond,
                             struct fairlock_mutex_t *mutex,
                             int clock,
                             const struct timespec *deadline)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_cond_wait; gives up when a signal handler has run in this thread while it
 * slept, with or without SA_RESTART.
 *
 * * 0: the caller was notified, and holds the mutex.
 * * EINTR: it was not, and a signal handler ran; it holds the mutex.
 * * EPERM: nobody holds the mutex. It is not noticed if another thread does.
 * * ENOTSUP: the mutex has batches of a fixed size.
 * * EINVAL: not a condition variable, or not a mutex.
 */
FAIRLOCK_API
int fairlock_cond_wait_interruptible(struct fairlock_cond_t *cond,
                                     struct fairlock_mutex_t *mutex)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_cond_wait; gives up when `token` is cancelled.
 *
 * * 0: the caller was notified, and holds the mutex.
 * * ECANCELED: it was not, and the token was cancelled; it holds the mutex.
 * * EPERM: nobody holds the mutex. It is not noticed if another thread does.
 * * ENOTSUP: the mutex has batches of a fixed size.
 * * EINVAL: not a condition variable, not a mutex, or not a token.
 */
FAIRLOCK_API
int fairlock_cond_wait_cancellable(struct fairlock_cond_t *cond,
                                   struct fairlock_mutex_t *mutex,
                                   struct fairlock_cancel_t *token)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_cond_wait_until; gives up when `token` is cancelled, too.
 *
 * * 0: the caller was notified, and holds the mutex.
 * * ECANCELED: it was not, and the token was cancelled; it holds the mutex.
 * * ETIMEDOUT: it was not, and the deadline has passed; it holds the mutex.
 * * EPERM: nobody holds the mutex. It is not noticed if another thread does.
 * * ENOTSUP: the mutex has batches of a fixed size.
 * * EINVAL: not a condition variable, not a mutex, not a token, an unknown clock, or no
 *   valid time.
 */
FAIRLOCK_API
int fairlock_cond_wait_cancellable_until(struct fairlock_cond_t *cond,
                                         struct fairlock_mutex_t *mutex,
                                         struct fairlock_cancel_t *token,
                                         int clock,
                                         const struct timespec *deadline)
FAIRLOCK_NOTHROW;

/**
 * Notifies the thread that waits longest, if there is one. The caller need not hold the
 * mutex.
 *
 * * 0: done.
 * * EINVAL: not a condition variable.
 */
FAIRLOCK_API int fairlock_cond_signal(struct fairlock_cond_t *cond) FAIRLOCK_NOTHROW;

/**
 * Notifies all threads that wait. The caller need not hold the mutex.
 *
 * * 0: done.
 * * EINVAL: not a condition variable.
 */
FAIRLOCK_API int fairlock_cond_broadcast(struct fairlock_cond_t *cond) FAIRLOCK_NOTHROW;

/**
 * Makes `*sem` a semaphore with so many permits. Not needed for one that was initialised
 * statically, or is zero: that has none.
 *
 * * 0: `*sem` is a semaphore, whatever it was before.
 * * EINVAL: `sem` is null or misaligned.
 */
FAIRLOCK_API
int fairlock_sem_init(struct fairlock_sem_t *sem,
                      uint32_t permits)
FAIRLOCK_NOTHROW;

/**
 * Ends the use of a semaphore, however many permits it has. Every later call with it returns
 * EINVAL, until it is initialised again. One that is just forgotten keeps nothing.
 *
 * * 0: it is not a semaphore any more.
 * * EBUSY: somebody waits for it; it is as it was.
 * * EINVAL: not a semaphore.
 */
FAIRLOCK_API int fairlock_sem_destroy(struct fairlock_sem_t *sem) FAIRLOCK_NOTHROW;

/**
 * Takes `count` permits together; blocks until it has them.
 *
 * * 0: the caller has the permits.
 * * EINVAL: not a semaphore.
 */
FAIRLOCK_API
int fairlock_sem_wait(struct fairlock_sem_t *sem,
                      uint32_t count)
FAIRLOCK_NOTHROW;

/**
 * Takes `count` permits if there are so many and nobody waits.
 *
 * * 0: the caller has the permits.
 * * EBUSY: there are fewer, or somebody waits.
 * * EINVAL: not a semaphore.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_sem_try_wait(struct fairlock_sem_t *sem,
                          uint32_t count)
FAIRLOCK_NOTHROW;

/**
 * Takes `count` permits; gives up at `deadline`, a time on `clock`.
 *
 * * 0: the caller has the permits.
 * * ETIMEDOUT: the deadline has passed, and they were not there.
 * * EINVAL: not a semaphore, an unknown clock, or no valid time.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_sem_wait_until(struct fairlock_sem_t *sem,
                            uint32_t count,
                            int clock,
                            const struct timespec *deadline)
FAIRLOCK_NOTHROW;

/**
 * Takes `count` permits; gives up when a signal handler has run in this thread while it slept,
 * with or without SA_RESTART. A handler that ran just before is not noticed.
 *
 * * 0: the caller has the permits.
 * * EINTR: a signal handler ran.
 * * EINVAL: not a semaphore.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_sem_wait_interruptible(struct fairlock_sem_t *sem,
                                    uint32_t count)
FAIRLOCK_NOTHROW;

/**
 * Takes `count` permits; gives up when `token` is cancelled. Permits that are there are taken
 * without a look at the token.
 *
 * * 0: the caller has the permits.
 * * ECANCELED: the token was cancelled, and they were not there.
 * * EINVAL: not a semaphore, or not a token.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_sem_wait_cancellable(struct fairlock_sem_t *sem,
                                  uint32_t count,
                                  struct fairlock_cancel_t *token)
FAIRLOCK_NOTHROW;

/**
 * Gives `count` permits, taken before or new ones. Never blocks.
 *
 * * 0: they are there.
 * * EOVERFLOW: there would be more than 2^32 - 1 free ones; there are as many as before.
 * * EINVAL: not a semaphore.
 */
FAIRLOCK_API
int fairlock_sem_post(struct fairlock_sem_t *sem,
                      uint32_t count)
FAIRLOCK_NOTHROW;

/**
 * How many permits are free at this instant; 0 if it is not a semaphore.
 */
FAIRLOCK_API uint32_t fairlock_sem_value(const struct fairlock_sem_t *sem) FAIRLOCK_NOTHROW;

/**
 * Whether anyone waits for permits at this instant; false if it is not a semaphore.
 */
FAIRLOCK_API bool fairlock_sem_is_contended(const struct fairlock_sem_t *sem) FAIRLOCK_NOTHROW;

/**
 * Makes `*lock` a free lock that follows `policy`; if that is null, the default.
 * Not needed for a lock that was initialised statically, or is zero.
 *
 * * 0: `*lock` is a lock, whatever it was before.
 * * EINVAL: `lock` is null or misaligned, or `policy` has reserved fields that are not zero.
 */
FAIRLOCK_API
int fairlock_range_lock_init(struct fairlock_range_lock_t *lock,
                             const struct fairlock_range_policy_t *policy)
FAIRLOCK_NOTHROW;

/**
 * Ends the use of a lock, and frees the memory it has allocated. Every later call with it
 * returns EINVAL, until it is initialised again.
 *
 * * 0: it is not a lock any more.
 * * EBUSY: a range is held or waited for; the lock is as it was.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API
int fairlock_range_lock_destroy(struct fairlock_range_lock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * Whether any range is held at this instant; false if it is not a lock.
 */
FAIRLOCK_API
bool fairlock_range_lock_is_locked(const struct fairlock_range_lock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * Writes down the policy that the lock follows.
 *
 * * 0: `*policy` was written.
 * * EINVAL: not a lock, or `policy` is null.
 */
FAIRLOCK_API
int fairlock_range_lock_policy(const struct fairlock_range_lock_t *lock,
                               struct fairlock_range_policy_t *policy)
FAIRLOCK_NOTHROW;

/**
 * Writes down which threads hold and wait for which ranges, for diagnostics, to `ranges`,
 * which has room for `room` of them. Returns how many there are, which may be more; 0 if
 * it is not a lock. Ranges that come and go meanwhile may be missed.
 */
FAIRLOCK_API
size_t fairlock_range_lock_ranges(const struct fairlock_range_lock_t *lock,
                                  struct fairlock_range_info_t *ranges,
                                  size_t room)
FAIRLOCK_NOTHROW;

/**
 * Notes which thread takes a range and since when, for fairlock_range_lock_ranges, or no longer.
 * Locking is slower meanwhile. Off at first.
 *
 * * 0: done.
 * * EINVAL: not a lock.
 */
FAIRLOCK_API
int fairlock_range_lock_set_traced(struct fairlock_range_lock_t *lock,
                                   bool traced)
FAIRLOCK_NOTHROW;

/**
 * The name of the calling thread in fairlock_range_info_t: the same as long as the thread
 * lives, and no other live thread's.
 */
FAIRLOCK_API uint64_t fairlock_this_thread(void) FAIRLOCK_NOTHROW;

/**
 * Counts the lock's events in `events` too; if that is null, no longer. Several locks may
 * share them. They stay where they are for as long as the lock is used.
 *
 * * 0: done.
 * * EINVAL: not a lock, or `events` is misaligned.
 */
FAIRLOCK_API
int fairlock_range_lock_set_events(struct fairlock_range_lock_t *lock,
                                   struct fairlock_events_t *events)
FAIRLOCK_NOTHROW;

/**
 * Locks all of `start` to `last` for reading; blocks until it has it.
 *
 * * 0: `range` holds it.
 * * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
 */
FAIRLOCK_API
int fairlock_range_read(struct fairlock_range_lock_t *lock,
                        struct fairlock_range_t *range,
                        uint64_t start,
                        uint64_t last)
FAIRLOCK_NOTHROW;

/**
 * Locks all of `start` to `last` for reading if that needs no waiting. May also fail when
 * another thread is interrupted while it is just taking or leaving a range.
 *
 * * 0: `range` holds it.
 * * EBUSY: it is written, or waited for by one that must not be overtaken.
 * * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_range_try_read(struct fairlock_range_lock_t *lock,
                            struct fairlock_range_t *range,
                            uint64_t start,
                            uint64_t last)
FAIRLOCK_NOTHROW;

/**
 * Locks all of `start` to `last` for reading; gives up at `deadline`, a time on `clock`.
 *
 * * 0: `range` holds it.
 * * ETIMEDOUT: the deadline has passed, and somebody was in the way.
 * * EINVAL: not a lock; an unknown clock, or no valid time; `last` is before `start`;
 *   `range` is not a node, or is in use.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_range_read_until(struct fairlock_range_lock_t *lock,
                              struct fairlock_range_t *range,
                              uint64_t start,
                              uint64_t last,
                              int clock,
                              const struct timespec *deadline)
FAIRLOCK_NOTHROW;

/**
 * Locks all of `start` to `last` for reading; gives up when a signal handler has run in
 * this thread while it slept, with or without SA_RESTART.
 *
 * * 0: `range` holds it.
 * * EINTR: a signal handler ran.
 * * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_range_read_interruptible(struct fairlock_range_lock_t *lock,
                                      struct fairlock_range_t *range,
                                      uint64_t start,
                                      uint64_t last)
FAIRLOCK_NOTHROW;

/**
 * Locks all of `start` to `last` for reading; gives up when `token` is cancelled. A range
 * that is free is taken without a look at the token.
 *
 * * 0: `range` holds it.
 * * ECANCELED: the token was cancelled, and somebody was in the way.
 * * EINVAL: not a lock, or not a token; `last` is before `start`; `range` is not a node, or
 *   is in use.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_range_read_cancellable(struct fairlock_range_lock_t *lock,
                                    struct fairlock_range_t *range,
                                    uint64_t start,
                                    uint64_t last,
                                    struct fairlock_cancel_t *token)
FAIRLOCK_NOTHROW;

/**
 * Locks all of `start` to `last` for reading, past those that wait for it if no writer
 * holds a part of it: for a thread that may hold a part of it for reading itself. Readers
 * that never let go at the same time can starve a writer this way.
 *
 * * 0: `range` holds it.
 * * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
 */
FAIRLOCK_API
int fairlock_range_read_recursive(struct fairlock_range_lock_t *lock,
                                  struct fairlock_range_t *range,
                                  uint64_t start,
                                  uint64_t last)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_range_read_recursive, without waiting.
 *
 * * 0: `range` holds it.
 * * EBUSY: a writer holds a part of it.
 * * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_range_try_read_recursive(struct fairlock_range_lock_t *lock,
                                      struct fairlock_range_t *range,
                                      uint64_t start,
                                      uint64_t last)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_range_read_recursive; gives up at `deadline`, a time on `clock`.
 *
 * * 0: `range` holds it.
 * * ETIMEDOUT: the deadline has passed, and a writer was in the way.
 * * EINVAL: not a lock; an unknown clock, or no valid time; `last` is before `start`;
 *   `range` is not a node, or is in use.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_range_read_recursive_until(struct fairlock_range_lock_t *lock,
                                        struct fairlock_range_t *range,
                                        uint64_t start,
                                        uint64_t last,
                                        int clock,
                                        const struct timespec *deadline)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_range_read_recursive; gives up when a signal handler has run in this thread
 * while it slept, with or without SA_RESTART.
 *
 * * 0: `range` holds it.
 * * EINTR: a signal handler ran.
 * * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_range_read_recursive_interruptible(struct fairlock_range_lock_t *lock,
                                                struct fairlock_range_t *range,
                                                uint64_t start,
                                                uint64_t last)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_range_read_recursive; gives up when `token` is cancelled. A range that is
 * free is taken without a look at the token.
 *
 * * 0: `range` holds it.
 * * ECANCELED: the token was cancelled, and a writer was in the way.
 * * EINVAL: not a lock, or not a token; `last` is before `start`; `range` is not a node, or
 *   is in use.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_range_read_recursive_cancellable(struct fairlock_range_lock_t *lock,
                                              struct fairlock_range_t *range,
                                              uint64_t start,
                                              uint64_t last,
                                              struct fairlock_cancel_t *token)
FAIRLOCK_NOTHROW;

/**
 * Locks all of `start` to `last` for writing; blocks until it has it.
 *
 * * 0: `range` holds it.
 * * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
 */
FAIRLOCK_API
int fairlock_range_write(struct fairlock_range_lock_t *lock,
                         struct fairlock_range_t *range,
                         uint64_t start,
                         uint64_t last)
FAIRLOCK_NOTHROW;

/**
 * Locks all of `start` to `last` for writing if that needs no waiting. May also fail when
 * another thread is interrupted while it is just taking or leaving a range.
 *
 * * 0: `range` holds it.
 * * EBUSY: a part of it is held, or waited for by one that must not be overtaken.
 * * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_range_try_write(struct fairlock_range_lock_t *lock,
                             struct fairlock_range_t *range,
                             uint64_t start,
                             uint64_t last)
FAIRLOCK_NOTHROW;

/**
 * Locks all of `start` to `last` for writing; gives up at `deadline`, a time on `clock`.
 *
 * * 0: `range` holds it.
 * * ETIMEDOUT: the deadline has passed, and somebody was in the way.
 * * EINVAL: not a lock; an unknown clock, or no valid time; `last` is before `start`;
 *   `range` is not a node, or is in use.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_range_write_until(struct fairlock_range_lock_t *lock,
                               struct fairlock_range_t *range,
                               uint64_t start,
                               uint64_t last,
                               int clock,
                               const struct timespec *deadline)
FAIRLOCK_NOTHROW;

/**
 * Locks all of `start` to `last` for writing; gives up when a signal handler has run in
 * this thread while it slept, with or without SA_RESTART.
 *
 * * 0: `range` holds it.
 * * EINTR: a signal handler ran.
 * * EINVAL: not a lock; `last` is before `start`; `range` is not a node, or is in use.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_range_write_interruptible(struct fairlock_range_lock_t *lock,
                                       struct fairlock_range_t *range,
                                       uint64_t start,
                                       uint64_t last)
FAIRLOCK_NOTHROW;

/**
 * Locks all of `start` to `last` for writing; gives up when `token` is cancelled. A range
 * that is free is taken without a look at the token.
 *
 * * 0: `range` holds it.
 * * ECANCELED: the token was cancelled, and somebody was in the way.
 * * EINVAL: not a lock, or not a token; `last` is before `start`; `range` is not a node, or
 *   is in use.
 */
FAIRLOCK_API
FAIRLOCK_MUST_USE
int fairlock_range_write_cancellable(struct fairlock_range_lock_t *lock,
                                     struct fairlock_range_t *range,
                                     uint64_t start,
                                     uint64_t last,
                                     struct fairlock_cancel_t *token)
FAIRLOCK_NOTHROW;

/**
 * Unlocks the range. The node can be used again.
 *
 * * 0: it is unlocked.
 * * EPERM: the node holds nothing.
 * * EINVAL: not a node.
 */
FAIRLOCK_API int fairlock_range_unlock(struct fairlock_range_t *range) FAIRLOCK_NOTHROW;

/**
 * Turns a range that is held for writing into one that is held for reading, with no gap in
 * which another writer could get in, and lets in the readers that waited for it alone.
 * Waits for nobody.
 *
 * * 0: it is held for reading.
 * * EPERM: the node holds nothing, or holds it for reading.
 * * EINVAL: not a node.
 */
FAIRLOCK_API int fairlock_range_downgrade(struct fairlock_range_t *range) FAIRLOCK_NOTHROW;

/**
 * Gives up all of the range but `start` to `last`, and lets in those who waited for no more
 * than that. Waits for nobody.
 *
 * * 0: the node holds `start` to `last`.
 * * EPERM: the node holds nothing.
 * * EINVAL: not a node; `last` is before `start`; or not all of that is held. Nothing has
 *   changed then.
 */
FAIRLOCK_API
int fairlock_range_shrink(struct fairlock_range_t *range,
                          uint64_t start,
                          uint64_t last)
FAIRLOCK_NOTHROW;

/**
 * Splits the range in two, before `mid`: `range` keeps what is below, and `upper`, a free
 * node, gets the rest. Waits for nobody, and nobody gets in between.
 *
 * * 0: both nodes hold their parts.
 * * EPERM: `range` holds nothing.
 * * EINVAL: not a node, or `upper` is in use; or one of the parts would be empty. Nothing
 *   has changed then.
 */
FAIRLOCK_API
int fairlock_range_split(struct fairlock_range_t *range,
                         uint64_t mid,
                         struct fairlock_range_t *upper)
FAIRLOCK_NOTHROW;

/**
 * Writes down which range a node holds, and whether for writing; each pointer may be null.
 *
 * * 0: written.
 * * EPERM: the node holds nothing.
 * * EINVAL: not a node.
 */
FAIRLOCK_API
int fairlock_range_get(const struct fairlock_range_t *range,
                       uint64_t *start,
                       uint64_t *last,
                       bool *writes)
FAIRLOCK_NOTHROW;

/**
 * Makes `*token` a token that is not cancelled. Not needed for one that was initialised
 * statically, or is zero; and the only way to use one again. It owns nothing outside of
 * itself, so there is nothing to destroy.
 *
 * * 0: `*token` is a token, whatever it was before. No wait may be under way with it.
 * * EINVAL: `token` is null or misaligned.
 */
FAIRLOCK_API int fairlock_cancel_init(struct fairlock_cancel_t *token) FAIRLOCK_NOTHROW;

/**
 * Ends every wait with this token, now and later. May be called from a signal handler,
 * whatever its thread was doing, also if that is the first use of the token.
 *
 * * 0: the token is cancelled.
 * * EINVAL: not a token.
 */
FAIRLOCK_API int fairlock_cancel(struct fairlock_cancel_t *token) FAIRLOCK_NOTHROW;

/**
 * Whether the token was cancelled; false if it is not a token. May be called from a signal
 * handler, as fairlock_cancel.
 */
FAIRLOCK_API
bool fairlock_is_cancelled(const struct fairlock_cancel_t *token)
FAIRLOCK_NOTHROW;

/**
 * Switches on or off the counters of the process, which count the events of all locks
 * together. Off at first. Locks that have counters of their own keep counting there.
 */
FAIRLOCK_API void fairlock_events_set_counting(bool on) FAIRLOCK_NOTHROW;

/**
 * Writes events and how often they were counted to `counts`, which has room for `room` of
 * them; those of the process if `events` is null. Returns how many there are, which may be
 * more than there is room for; 0 if `events` is misaligned. The order of events never changes;
 * new ones come last.
 */
FAIRLOCK_API
size_t fairlock_events_read(const struct fairlock_events_t *events,
                            struct fairlock_event_count_t *counts,
                            size_t room)
FAIRLOCK_NOTHROW;

/**
 * How often the event of that name was counted; in the process if `events` is null. 0 for
 * a name that no event has.
 */
FAIRLOCK_API
uint64_t fairlock_events_get(const struct fairlock_events_t *events,
                             const char *name)
FAIRLOCK_NOTHROW;

/**
 * Sets counters to zero; those of the process if `events` is null. Events that are counted
 * meanwhile may be lost.
 *
 * * 0: done.
 * * EINVAL: `events` is misaligned.
 */
FAIRLOCK_API int fairlock_events_reset(struct fairlock_events_t *events) FAIRLOCK_NOTHROW;

/**
 * Gives the lock a name, which is copied. From then on, until it is destroyed, how it is used is
 * counted and timed: see fairlock_stats_get; and deadlocks are found: see fairlock_deadlocks. That
 * takes some nanoseconds of each call, and 6 kB. Several locks may have one name.
 *
 * * 0: it has the name.
 * * EBUSY: it has one.
 * * EINVAL: not a lock, or `name` is null.
 */
FAIRLOCK_API
int fairlock_rwlock_set_name(struct fairlock_rwlock_t *lock,
                             const char *name)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_rwlock_set_name. While a thread waits for a condition variable, the mutex is not
 * held; acquiring it again is part of that wait, and does not count as an acquisition.
 *
 * * 0: it has the name.
 * * EBUSY: it has one.
 * * EINVAL: not a mutex, or `name` is null.
 */
FAIRLOCK_API
int fairlock_mutex_set_name(struct fairlock_mutex_t *mutex,
                            const char *name)
FAIRLOCK_NOTHROW;

/**
 * Writes what was counted of the locks with this name to `*stats`: of those that write, or hold the
 * mutex, if `writes`, else of those that read. The numbers of several locks with one name are added, also of those
 * that have been destroyed.
 *
 * * 0: done.
 * * ENOENT: no lock has this name.
 * * EINVAL: `name` or `stats` is null.
 */
FAIRLOCK_API
int fairlock_stats_get(const char *name,
                       bool writes,
                       struct fairlock_stats_t *stats)
FAIRLOCK_NOTHROW;

/**
 * Writes a table of all locks with a name to `text`, of which `size` bytes are used at most, the
 * last of them a zero. Returns how many bytes the table has without that zero: if not less
 * than `size`, it was cut off. `text` may be null if `size` is zero.
 */
FAIRLOCK_API
size_t fairlock_stats_table(char *text,
                            size_t size)
FAIRLOCK_NOTHROW;

/**
 * As fairlock_stats_table, as one object in JSON:
 * {"locks": [{"name": ..., "locks": ..., "reads": {...}, "writes": {...}, "conditions": {...}}, ...],
 * "deadlocks": [[{"thread": ..., "holds": {...}, "wants": {...}, "waited_ns": ...}, ...], ...]}.
 */
FAIRLOCK_API
size_t fairlock_stats_json(char *text,
                           size_t size)
FAIRLOCK_NOTHROW;

/**
 * Writes to `text`, as fairlock_stats_table, which threads wait for each other for ever, at locks that have
 * a name: a line for each deadlock, with the threads, what each holds and waits for, and from where. Returns 0 if
 * there is none. No thread stops for that, so it may be called every few seconds.
 *
 * What is written is a deadlock: none of its threads can go on, unless somebody else releases a lock for them.
 * One in which a thread reads again behind a writer is found after a second. Not found: waits that can end, by a deadline, a
 * signal or a token; threads at condition variables, semaphores and range locks; and locks that
 * got their name after they were taken.
 */
FAIRLOCK_API
size_t fairlock_deadlocks(char *text,
                          size_t size)
FAIRLOCK_NOTHROW;

/**
 * Switches the statistics of all locks with a name on or off. On at first.
 */
FAIRLOCK_API void fairlock_stats_set_collecting(bool on) FAIRLOCK_NOTHROW;

#ifdef __cplusplus
}
#elif defined(__clang__)
#pragma clang diagnostic pop
#endif

#define FAIRLOCK_VERSION_MAJOR 0
#define FAIRLOCK_VERSION_MINOR 1
#define FAIRLOCK_VERSION_PATCH 0
#define FAIRLOCK_VERSION "0.1.0"

/* Free locks with the default policy, or one of its presets, and what else can be
 * initialised statically. Zero bytes are the same as those without a preset. */
#define FAIRLOCK_RWLOCK_INIT FAIRLOCK_RWLOCK_INIT_POLICY(FAIRLOCK_DEFAULT)
#define FAIRLOCK_RWLOCK_INIT_POLICY(preset) {0, (preset), {0}}
#define FAIRLOCK_MUTEX_INIT FAIRLOCK_MUTEX_INIT_BATCH(FAIRLOCK_BATCH_NONE)
#define FAIRLOCK_MUTEX_INIT_BATCH(size) {0, (size), {0}}
#define FAIRLOCK_COND_INIT {0, 0, {0}}
#define FAIRLOCK_SEM_INIT(permits) {0, (permits), {0}}
#define FAIRLOCK_RANGE_LOCK_INIT FAIRLOCK_RANGE_LOCK_INIT_POLICY(FAIRLOCK_RANGE_DEFAULT)
#define FAIRLOCK_RANGE_LOCK_INIT_POLICY(preset) {0, (preset), {0}}
#define FAIRLOCK_RANGE_INIT {0, 0, {0}}
#define FAIRLOCK_CANCEL_INIT {0, 0, {0}}
#define FAIRLOCK_EVENTS_INIT {{0}}

/* The library was built with the same layout. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define FAIRLOCK_LAYOUT(type, size, align) \
    static_assert(sizeof(type) == size && alignof(type) == align, #type)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define FAIRLOCK_LAYOUT(type, size, align) \
    _Static_assert(sizeof(type) == size && _Alignof(type) == align, #type)
#else
#define FAIRLOCK_LAYOUT(type, size, align) \
    typedef char type##_layout[sizeof(type) == size ? 1 : -1]
#endif
FAIRLOCK_LAYOUT(fairlock_policy_t, 64, 8);
FAIRLOCK_LAYOUT(fairlock_rwlock_t, 32, 8);
FAIRLOCK_LAYOUT(fairlock_mutex_t, 32, 8);
FAIRLOCK_LAYOUT(fairlock_cond_t, 40, 8);
FAIRLOCK_LAYOUT(fairlock_sem_t, 32, 8);
FAIRLOCK_LAYOUT(fairlock_range_policy_t, 32, 8);
FAIRLOCK_LAYOUT(fairlock_range_info_t, 40, 8);
FAIRLOCK_LAYOUT(fairlock_range_lock_t, 1536, 8);
FAIRLOCK_LAYOUT(fairlock_range_t, 96, 8);
FAIRLOCK_LAYOUT(fairlock_cancel_t, 128, 8);
FAIRLOCK_LAYOUT(fairlock_events_t, 512, 8);
FAIRLOCK_LAYOUT(fairlock_event_count_t, 16, 8);
FAIRLOCK_LAYOUT(fairlock_times_t, 48, 8);
FAIRLOCK_LAYOUT(fairlock_stats_t, 288, 8);
#undef FAIRLOCK_LAYOUT

/* ThreadSanitizer does not see into the library. */
#if defined(__SANITIZE_THREAD__)
#include "fairlock_tsan.h"
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#include "fairlock_tsan.h"
#endif
#endif

#endif /* FAIRLOCK_H */

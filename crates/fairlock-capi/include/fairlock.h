/*
 * fairlock.h: locks for programs that have more threads than CPUs and cannot afford a
 * starved one. Link with -lfairlock, or by pkg-config or CMake. C11, C++17; 64-bit Linux.
 *
 * Generated from crates/fairlock-capi; do not edit.
 *
 * OBJECTS. Locks, tokens and counters are structs of fixed size with room to grow, which
 * the program puts where it likes: in statics, in its own structs, on the heap. Nothing
 * has to be called before they are used: the macros FAIRLOCK_*_INIT, {0} and zero bytes
 * (calloc, memset) are a free lock with the default policy. An object must not be copied
 * or moved once it was used. What is in it is no part of the interface. Memory that is
 * neither zero nor was initialised is not a lock.
 *
 * RESULTS. Functions that return int return 0 or an error number of <errno.h>; errno is
 * not touched. Which ones is said at each function. Of them EINVAL, "not a lock" (or not
 * a token, …), is for a pointer that is null or misaligned, or to memory that is no such
 * object: destroyed, overwritten, moved, never initialised, or initialised with a preset
 * that does not exist. This is noticed from what is in the memory, so not with certainty.
 * No function aborts on what the caller passes, and no exception comes out of any.
 *
 * POINTERS must be null, or point to an object of their type that stays where it is as
 * long as it is used: until every call with it has returned.
 *
 * CLOCKS are CLOCK_MONOTONIC or CLOCK_REALTIME, and deadlines are absolute times on them.
 * One that is over waits for nobody. A wait for a time on CLOCK_REALTIME that ends looks at
 * that clock again, and goes on if it was set back meanwhile (at the end of the queue); if
 * it was set forward meanwhile, that is not noticed, and the wait lasts as long as it would
 * have.
 *
 * GIVING UP. A wait that ends without the lock leaves no trace; whoever waited behind it
 * moves up. One that is granted the lock and ended at the same instant has the lock.
 *
 * SIGNALS, THREADS, FORK. Locks are not for signal handlers. A handler that runs while its
 * thread waits does not end the wait, unless it is an interruptible one. Waits are no
 * cancellation points of pthread_cancel. After fork, the child may use no lock that had
 * waiters.
 */
#ifndef FAIRLOCK_H
#define FAIRLOCK_H


#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
#define FAIRLOCK_NOTHROW noexcept
#else
#define FAIRLOCK_NOTHROW
#endif
#if defined(__GNUC__)
#define FAIRLOCK_MUST_USE __attribute__((warn_unused_result))
#else
#define FAIRLOCK_MUST_USE
#endif


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
 * `handoff_budget`: none, the published discipline.
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
 * `reader_spin`: one of the three, by how the last spins ended.
 */
#define FAIRLOCK_READER_SPIN_ADAPTIVE 3

/**
 * How a lock decides who goes next, in full. Start from a preset
 * (fairlock_policy_preset) and change what is to be different.
 */
typedef struct fairlock_policy_t {
  /**
   * How long a waiter is passed over before the lock is handed to it, in nanoseconds:
   * FAIRLOCK_NEVER (it starves), 0 (a context switch for each acquisition), or more.
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
   * For later versions: zero.
   */
  uint64_t reserved[5];
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
  uint64_t memory[95];
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

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library in use, as "0.1.0"; FAIRLOCK_VERSION is that of the header.
 */
const char *fairlock_version(void) FAIRLOCK_NOTHROW;

/**
 * Writes down what a preset (FAIRLOCK_DEFAULT …) stands for.
 *
 * * 0: `*policy` was written.
 * * EINVAL: unknown preset, or `policy` is null.
 */
int fairlock_policy_preset(uint32_t preset, struct fairlock_policy_t *policy) FAIRLOCK_NOTHROW;

/**
 * Makes `*lock` a free lock that follows `policy`; if that is null, the default.
 * Not needed for a lock that was initialised statically, or is zero.
 *
 * * 0: `*lock` is a lock, whatever it was before.
 * * EINVAL: `lock` is null or misaligned, or `policy` has a value that it cannot have.
 */
int fairlock_rwlock_init(struct fairlock_rwlock_t *lock,
                         const struct fairlock_policy_t *policy)
FAIRLOCK_NOTHROW;

/**
 * Ends the use of a lock. Every later call with it returns EINVAL, until it is
 * initialised again. A lock owns nothing outside of itself, so one that is not used any
 * more may also just be forgotten.
 *
 * * 0: it is no lock any more.
 * * EBUSY: somebody holds it or waits for it; it is as it was.
 * * EINVAL: not a lock.
 */
int fairlock_rwlock_destroy(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Takes the lock for reading; blocks until it has it.
 *
 * * 0: the caller holds the lock for reading.
 * * EINVAL: not a lock.
 */
int fairlock_rwlock_read(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Takes the lock for reading if that needs no waiting.
 *
 * * 0: the caller holds the lock for reading.
 * * EBUSY: a writer holds it, or somebody waits for it.
 * * EINVAL: not a lock.
 */
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
int fairlock_rwlock_read_recursive(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * As fairlock_rwlock_read_recursive, without waiting.
 *
 * * 0: the caller holds the lock for reading, once more.
 * * EBUSY: a writer holds it, or it is free and somebody waits for it.
 * * EINVAL: not a lock.
 */
FAIRLOCK_MUST_USE
int fairlock_rwlock_try_read_recursive(struct fairlock_rwlock_t *lock)
FAIRLOCK_NOTHROW;

/**
 * Gives up the lock held for reading.
 *
 * * 0: the caller has given it up.
 * * EPERM: nobody holds it for reading. That it is somebody else who does is not noticed.
 * * EINVAL: not a lock.
 */
int fairlock_rwlock_unlock_read(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Gives up the lock held for reading; if anyone waits, nobody gets in before the waiter
 * whose turn it is.
 *
 * * 0: the caller has given it up.
 * * EPERM: nobody holds it for reading. That it is somebody else who does is not noticed.
 * * EINVAL: not a lock.
 */
int fairlock_rwlock_unlock_read_fair(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Takes the lock for writing; blocks until it has it.
 *
 * * 0: the caller holds the lock for writing.
 * * EINVAL: not a lock.
 */
int fairlock_rwlock_write(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Takes the lock for writing if that needs no waiting.
 *
 * * 0: the caller holds the lock for writing.
 * * EBUSY: somebody holds it, or waits for it.
 * * EINVAL: not a lock.
 */
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
FAIRLOCK_MUST_USE
int fairlock_rwlock_write_cancellable(struct fairlock_rwlock_t *lock,
                                      struct fairlock_cancel_t *token)
FAIRLOCK_NOTHROW;

/**
 * Gives up the lock held for writing.
 *
 * * 0: the caller has given it up.
 * * EPERM: nobody holds it for writing. That it is somebody else who does is not noticed.
 * * EINVAL: not a lock.
 */
int fairlock_rwlock_unlock_write(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Gives up the lock held for writing; if anyone waits, nobody gets in before the waiter
 * whose turn it is.
 *
 * * 0: the caller has given it up.
 * * EPERM: nobody holds it for writing. That it is somebody else who does is not noticed.
 * * EINVAL: not a lock.
 */
int fairlock_rwlock_unlock_write_fair(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Turns the lock held for writing into one held for reading, with no gap in which another
 * writer could get in, and lets in readers that wait. Never blocks.
 *
 * * 0: the caller holds the lock for reading.
 * * EPERM: nobody holds it for writing. That it is somebody else who does is not noticed.
 * * EINVAL: not a lock.
 */
int fairlock_rwlock_downgrade(struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Whether anyone holds the lock at this instant; false if it is not a lock.
 */
bool fairlock_rwlock_is_locked(const struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Whether a writer holds the lock at this instant; false if it is not a lock.
 */
bool fairlock_rwlock_is_write_locked(const struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Whether a thread is queued for the lock at this instant; false if it is not a lock.
 */
bool fairlock_rwlock_has_waiters(const struct fairlock_rwlock_t *lock) FAIRLOCK_NOTHROW;

/**
 * Writes down the policy that the lock follows.
 *
 * * 0: `*policy` was written.
 * * EINVAL: not a lock, or `policy` is null.
 */
int fairlock_rwlock_policy(const struct fairlock_rwlock_t *lock,
                           struct fairlock_policy_t *policy)
FAIRLOCK_NOTHROW;

/**
 * Counts the lock's events in `events` too; if that is null, no longer. Several locks may
 * share them. They stay where they are for as long as the lock is used.
 *
 * * 0: done.
 * * EINVAL: not a lock, or `events` is misaligned.
 */
int fairlock_rwlock_set_events(struct fairlock_rwlock_t *lock,
                               struct fairlock_events_t *events)
FAIRLOCK_NOTHROW;

/**
 * Makes `*token` a token that is not cancelled. Not needed for one that was initialised
 * statically, or is zero; and the only way to use one again. It owns nothing outside of
 * itself, so there is nothing to destroy.
 *
 * * 0: `*token` is a token, whatever it was before. No wait may be under way with it.
 * * EINVAL: `token` is null or misaligned.
 */
int fairlock_cancel_init(struct fairlock_cancel_t *token) FAIRLOCK_NOTHROW;

/**
 * Ends every wait with this token, now and later. Not to be called from a signal handler.
 *
 * * 0: the token is cancelled.
 * * EINVAL: not a token.
 */
int fairlock_cancel(struct fairlock_cancel_t *token) FAIRLOCK_NOTHROW;

/**
 * Whether the token was cancelled; false if it is not a token.
 */
bool fairlock_is_cancelled(const struct fairlock_cancel_t *token) FAIRLOCK_NOTHROW;

/**
 * Switches on or off the counters of the process, which count the events of all locks
 * together. Off at first. Locks that have counters of their own keep counting there.
 */
void fairlock_events_set_counting(bool on) FAIRLOCK_NOTHROW;

/**
 * Writes events and how often they were counted to `counts`, which has room for `room` of
 * them; those of the process if `events` is null. Returns how many there are, which may
 * be more than there is room for; 0 if `events` is misaligned. The order of events never changes; new ones come
 * last.
 */
size_t fairlock_events_read(const struct fairlock_events_t *events,
                            struct fairlock_event_count_t *counts,
                            size_t room)
FAIRLOCK_NOTHROW;

/**
 * How often the event of that name was counted; in the process if `events` is null. 0 for
 * a name that no event has.
 */
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
int fairlock_events_reset(struct fairlock_events_t *events) FAIRLOCK_NOTHROW;

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#define FAIRLOCK_VERSION_MAJOR 0
#define FAIRLOCK_VERSION_MINOR 1
#define FAIRLOCK_VERSION_PATCH 0
#define FAIRLOCK_VERSION "0.1.0"

/* Free locks with the default policy, or one of its presets, and what else can be
 * initialised statically. Zero bytes are the same as those without a preset. */
#define FAIRLOCK_RWLOCK_INIT FAIRLOCK_RWLOCK_INIT_POLICY(FAIRLOCK_DEFAULT)
#define FAIRLOCK_RWLOCK_INIT_POLICY(preset) {0, (preset), {0}}
#define FAIRLOCK_CANCEL_INIT {0, 0, {0}}
#define FAIRLOCK_EVENTS_INIT {{0}}

/* The library was built with the same layout. */
#ifdef __cplusplus
#define FAIRLOCK_ASSERT(what) static_assert(what, #what)
#define FAIRLOCK_ALIGNOF(type) alignof(type)
#else
#define FAIRLOCK_ASSERT(what) _Static_assert(what, #what)
#define FAIRLOCK_ALIGNOF(type) _Alignof(type)
#endif
FAIRLOCK_ASSERT(sizeof(fairlock_policy_t) == 64);
FAIRLOCK_ASSERT(FAIRLOCK_ALIGNOF(fairlock_policy_t) == 8);
FAIRLOCK_ASSERT(sizeof(fairlock_rwlock_t) == 768);
FAIRLOCK_ASSERT(FAIRLOCK_ALIGNOF(fairlock_rwlock_t) == 8);
FAIRLOCK_ASSERT(sizeof(fairlock_cancel_t) == 128);
FAIRLOCK_ASSERT(FAIRLOCK_ALIGNOF(fairlock_cancel_t) == 8);
FAIRLOCK_ASSERT(sizeof(fairlock_events_t) == 512);
FAIRLOCK_ASSERT(FAIRLOCK_ALIGNOF(fairlock_events_t) == 8);
FAIRLOCK_ASSERT(sizeof(fairlock_event_count_t) == 16);
FAIRLOCK_ASSERT(FAIRLOCK_ALIGNOF(fairlock_event_count_t) == 8);
#undef FAIRLOCK_ASSERT
#undef FAIRLOCK_ALIGNOF

#endif /* FAIRLOCK_H */

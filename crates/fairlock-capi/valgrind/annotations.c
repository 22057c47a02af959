/*
 * Tells valgrind's race detectors about libfairlock, whose locks they do not know: they
 * understand pthread's, and see atomic operations as plain ones.
 *
 *   make valgrind        builds fairlock-helgrind.so and fairlock-drd.so in $(OUT)
 *   make install         installs them; docs/guide/c.md says how to use them
 *
 * Valgrind puts these wrappers around the functions of libfairlock.so; the library itself
 * has nothing in it for this, and programs that run without valgrind pay nothing. Known by
 * their locks, data that is used without one is still found.
 *
 * Ranges are coarser: whoever unlocks one is taken to come before whoever locks one later,
 * be they of the same lock or not, so some races between ranges are not found.
 */
#include <errno.h>
#include <time.h>

#ifdef FAIRLOCK_DRD
#include <valgrind/drd.h>
#else
#include <valgrind/helgrind.h>
#endif
#include <valgrind/valgrind.h>

#include "fairlock.h"

/* Not there where this is preloaded into other programs, such as valgrind's launcher. */
#pragma weak fairlock_rwlock_is_locked
#pragma weak fairlock_rwlock_is_write_locked
#pragma weak fairlock_mutex_is_locked

/* What happens before and after at an object that is no lock. Not its own address: a lock may have
 * been there, of whose end drd is not told. */
#define EVENT(object) ((char *)(object) + 1)

/* The function of that name in libfairlock.so*, as valgrind encodes it. */
#define OURS(function) I_WRAP_SONAME_FNNAME_ZU(libfairlockZdsoZa, function)

/* Functions that take an object, which is held afterwards if they return 0. */
#define ACQUIRES(function, type, exclusive)                                                  \
    int OURS(function)(type *lock);                                                          \
    int OURS(function)(type *lock) {                                                         \
        OrigFn original;                                                                     \
        int result;                                                                          \
        VALGRIND_GET_ORIG_FN(original);                                                      \
        CALL_FN_W_W(result, original, lock);                                                 \
        if (result == 0) {                                                                   \
            ANNOTATE_RWLOCK_ACQUIRED(lock, exclusive);                                       \
        }                                                                                    \
        return result;                                                                       \
    }

ACQUIRES(fairlock_rwlock_read, fairlock_rwlock_t, 0)
ACQUIRES(fairlock_rwlock_try_read, fairlock_rwlock_t, 0)
ACQUIRES(fairlock_rwlock_read_interruptible, fairlock_rwlock_t, 0)
ACQUIRES(fairlock_rwlock_read_recursive, fairlock_rwlock_t, 0)
ACQUIRES(fairlock_rwlock_try_read_recursive, fairlock_rwlock_t, 0)
ACQUIRES(fairlock_rwlock_read_recursive_interruptible, fairlock_rwlock_t, 0)
ACQUIRES(fairlock_rwlock_write, fairlock_rwlock_t, 1)
ACQUIRES(fairlock_rwlock_try_write, fairlock_rwlock_t, 1)
ACQUIRES(fairlock_rwlock_write_interruptible, fairlock_rwlock_t, 1)
ACQUIRES(fairlock_mutex_lock, fairlock_mutex_t, 1)
ACQUIRES(fairlock_mutex_try_lock, fairlock_mutex_t, 1)
ACQUIRES(fairlock_mutex_lock_interruptible, fairlock_mutex_t, 1)

#define ACQUIRES_UNLESS(function, type, exclusive)                                           \
    int OURS(function)(type *lock, fairlock_cancel_t *token);                                \
    int OURS(function)(type *lock, fairlock_cancel_t *token) {                               \
        OrigFn original;                                                                     \
        int result;                                                                          \
        VALGRIND_GET_ORIG_FN(original);                                                      \
        CALL_FN_W_WW(result, original, lock, token);                                         \
        if (result == 0) {                                                                   \
            ANNOTATE_RWLOCK_ACQUIRED(lock, exclusive);                                       \
        } else if (result == ECANCELED) {                                                    \
            ANNOTATE_HAPPENS_AFTER(EVENT(token));                                                   \
        }                                                                                    \
        return result;                                                                       \
    }

ACQUIRES_UNLESS(fairlock_rwlock_read_cancellable, fairlock_rwlock_t, 0)
ACQUIRES_UNLESS(fairlock_rwlock_read_recursive_cancellable, fairlock_rwlock_t, 0)
ACQUIRES_UNLESS(fairlock_rwlock_write_cancellable, fairlock_rwlock_t, 1)
ACQUIRES_UNLESS(fairlock_mutex_lock_cancellable, fairlock_mutex_t, 1)

#define ACQUIRES_UNTIL(function, type, exclusive)                                            \
    int OURS(function)(type *lock, int clock, const struct timespec *deadline);              \
    int OURS(function)(type *lock, int clock, const struct timespec *deadline) {             \
        OrigFn original;                                                                     \
        int result;                                                                          \
        VALGRIND_GET_ORIG_FN(original);                                                      \
        CALL_FN_W_WWW(result, original, lock, clock, deadline);                              \
        if (result == 0) {                                                                   \
            ANNOTATE_RWLOCK_ACQUIRED(lock, exclusive);                                       \
        }                                                                                    \
        return result;                                                                       \
    }

ACQUIRES_UNTIL(fairlock_rwlock_read_until, fairlock_rwlock_t, 0)
ACQUIRES_UNTIL(fairlock_rwlock_read_recursive_until, fairlock_rwlock_t, 0)
ACQUIRES_UNTIL(fairlock_rwlock_write_until, fairlock_rwlock_t, 1)
ACQUIRES_UNTIL(fairlock_mutex_lock_until, fairlock_mutex_t, 1)

/* Functions that give up what `held` says is held; afterwards somebody else may have it. */
#define RELEASES(function, type, exclusive, held, then)                                      \
    int OURS(function)(type *lock);                                                          \
    int OURS(function)(type *lock) {                                                         \
        OrigFn original;                                                                     \
        int result;                                                                          \
        VALGRIND_GET_ORIG_FN(original);                                                      \
        if (held) {                                                                          \
            ANNOTATE_RWLOCK_RELEASED(lock, exclusive);                                       \
        }                                                                                    \
        CALL_FN_W_W(result, original, lock);                                                 \
        if (result == 0) {                                                                   \
            then;                                                                            \
        }                                                                                    \
        return result;                                                                       \
    }

#define READ (fairlock_rwlock_is_locked(lock) && !fairlock_rwlock_is_write_locked(lock))
RELEASES(fairlock_rwlock_unlock_read, fairlock_rwlock_t, 0, READ, )
RELEASES(fairlock_rwlock_unlock_read_fair, fairlock_rwlock_t, 0, READ, )
RELEASES(fairlock_rwlock_unlock_write, fairlock_rwlock_t, 1,
         fairlock_rwlock_is_write_locked(lock), )
RELEASES(fairlock_rwlock_unlock_write_fair, fairlock_rwlock_t, 1,
         fairlock_rwlock_is_write_locked(lock), )
RELEASES(fairlock_rwlock_downgrade, fairlock_rwlock_t, 1,
         fairlock_rwlock_is_write_locked(lock), ANNOTATE_RWLOCK_ACQUIRED(lock, 0))
RELEASES(fairlock_mutex_unlock, fairlock_mutex_t, 1, fairlock_mutex_is_locked(lock), )
RELEASES(fairlock_mutex_unlock_fair, fairlock_mutex_t, 1, fairlock_mutex_is_locked(lock), )

/* A wait gives up a mutex that is held, and has it again, or still, when it returns. */
#define WAITS(function, parameters, call)                                                    \
    int OURS(function) parameters;                                                           \
    int OURS(function) parameters {                                                          \
        OrigFn original;                                                                     \
        int result;                                                                          \
        int const held = fairlock_mutex_is_locked(mutex);                                    \
        VALGRIND_GET_ORIG_FN(original);                                                      \
        if (held) {                                                                          \
            ANNOTATE_RWLOCK_RELEASED(mutex, 1);                                              \
        }                                                                                    \
        call;                                                                                \
        if (held) {                                                                          \
            ANNOTATE_RWLOCK_ACQUIRED(mutex, 1);                                              \
        }                                                                                    \
        return result;                                                                       \
    }
#define UNLESS_CANCELLED(call)                                                               \
    call;                                                                                    \
    if (result == ECANCELED) {                                                               \
        ANNOTATE_HAPPENS_AFTER(EVENT(token));                                                       \
    }

WAITS(fairlock_cond_wait, (fairlock_cond_t * cond, fairlock_mutex_t *mutex),
      CALL_FN_W_WW(result, original, cond, mutex))
WAITS(fairlock_cond_wait_interruptible, (fairlock_cond_t * cond, fairlock_mutex_t *mutex),
      CALL_FN_W_WW(result, original, cond, mutex))
WAITS(fairlock_cond_wait_until,
      (fairlock_cond_t * cond, fairlock_mutex_t *mutex, int clock,
       const struct timespec *deadline),
      CALL_FN_W_WWWW(result, original, cond, mutex, clock, deadline))
WAITS(fairlock_cond_wait_cancellable,
      (fairlock_cond_t * cond, fairlock_mutex_t *mutex, fairlock_cancel_t *token),
      UNLESS_CANCELLED(CALL_FN_W_WWW(result, original, cond, mutex, token)))
WAITS(fairlock_cond_wait_cancellable_until,
      (fairlock_cond_t * cond, fairlock_mutex_t *mutex, fairlock_cancel_t *token, int clock,
       const struct timespec *deadline),
      UNLESS_CANCELLED(CALL_FN_W_5W(result, original, cond, mutex, token, clock, deadline)))

/* Whoever gave permits before comes before whoever has some now. */
#define TAKES_PERMITS(function, parameters, call)                                            \
    int OURS(function) parameters;                                                           \
    int OURS(function) parameters {                                                          \
        OrigFn original;                                                                     \
        int result;                                                                          \
        VALGRIND_GET_ORIG_FN(original);                                                      \
        call;                                                                                \
        if (result == 0) {                                                                   \
            ANNOTATE_HAPPENS_AFTER(EVENT(sem));                                                     \
        }                                                                                    \
        return result;                                                                       \
    }

TAKES_PERMITS(fairlock_sem_wait, (fairlock_sem_t * sem, uint32_t count),
              CALL_FN_W_WW(result, original, sem, count))
TAKES_PERMITS(fairlock_sem_try_wait, (fairlock_sem_t * sem, uint32_t count),
              CALL_FN_W_WW(result, original, sem, count))
TAKES_PERMITS(fairlock_sem_wait_interruptible, (fairlock_sem_t * sem, uint32_t count),
              CALL_FN_W_WW(result, original, sem, count))
TAKES_PERMITS(fairlock_sem_wait_until,
              (fairlock_sem_t * sem, uint32_t count, int clock, const struct timespec *deadline),
              CALL_FN_W_WWWW(result, original, sem, count, clock, deadline))
TAKES_PERMITS(fairlock_sem_wait_cancellable,
              (fairlock_sem_t * sem, uint32_t count, fairlock_cancel_t *token),
              UNLESS_CANCELLED(CALL_FN_W_WWW(result, original, sem, count, token)))

int OURS(fairlock_sem_post)(fairlock_sem_t *sem, uint32_t count);
int OURS(fairlock_sem_post)(fairlock_sem_t *sem, uint32_t count) {
    OrigFn original;
    int result;
    VALGRIND_GET_ORIG_FN(original);
    if (sem != NULL) {
        ANNOTATE_HAPPENS_BEFORE(EVENT(sem));
    }
    CALL_FN_W_WW(result, original, sem, count);
    return result;
}

/* What the canceller did comes before what the cancelled do. */
int OURS(fairlock_cancel)(fairlock_cancel_t *token);
int OURS(fairlock_cancel)(fairlock_cancel_t *token) {
    OrigFn original;
    int result;
    VALGRIND_GET_ORIG_FN(original);
    if (token != NULL) {
        ANNOTATE_HAPPENS_BEFORE(EVENT(token));
    }
    CALL_FN_W_W(result, original, token);
    return result;
}

/* All ranges. */
static char ranges;

#define LOCKS_RANGE(function)                                                                \
    int OURS(function)(fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, \
                       uint64_t last);                                                       \
    int OURS(function)(fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, \
                       uint64_t last) {                                                      \
        OrigFn original;                                                                     \
        int result;                                                                          \
        VALGRIND_GET_ORIG_FN(original);                                                      \
        CALL_FN_W_WWWW(result, original, lock, range, start, last);                          \
        ANNOTATE_HAPPENS_AFTER(&ranges);                                                     \
        return result;                                                                       \
    }

LOCKS_RANGE(fairlock_range_read)
LOCKS_RANGE(fairlock_range_try_read)
LOCKS_RANGE(fairlock_range_read_interruptible)
LOCKS_RANGE(fairlock_range_read_recursive)
LOCKS_RANGE(fairlock_range_try_read_recursive)
LOCKS_RANGE(fairlock_range_read_recursive_interruptible)
LOCKS_RANGE(fairlock_range_write)
LOCKS_RANGE(fairlock_range_try_write)
LOCKS_RANGE(fairlock_range_write_interruptible)

#define LOCKS_RANGE_UNLESS(function)                                                         \
    int OURS(function)(fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, \
                       uint64_t last, fairlock_cancel_t *token);                             \
    int OURS(function)(fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, \
                       uint64_t last, fairlock_cancel_t *token) {                            \
        OrigFn original;                                                                     \
        int result;                                                                          \
        VALGRIND_GET_ORIG_FN(original);                                                      \
        CALL_FN_W_5W(result, original, lock, range, start, last, token);                     \
        ANNOTATE_HAPPENS_AFTER(&ranges);                                                     \
        if (result == ECANCELED) {                                                           \
            ANNOTATE_HAPPENS_AFTER(EVENT(token));                                                   \
        }                                                                                    \
        return result;                                                                       \
    }

LOCKS_RANGE_UNLESS(fairlock_range_read_cancellable)
LOCKS_RANGE_UNLESS(fairlock_range_read_recursive_cancellable)
LOCKS_RANGE_UNLESS(fairlock_range_write_cancellable)

#define LOCKS_RANGE_UNTIL(function)                                                          \
    int OURS(function)(fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, \
                       uint64_t last, int clock, const struct timespec *deadline);           \
    int OURS(function)(fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, \
                       uint64_t last, int clock, const struct timespec *deadline) {          \
        OrigFn original;                                                                     \
        int result;                                                                          \
        VALGRIND_GET_ORIG_FN(original);                                                      \
        CALL_FN_W_6W(result, original, lock, range, start, last, clock, deadline);           \
        ANNOTATE_HAPPENS_AFTER(&ranges);                                                     \
        return result;                                                                       \
    }

LOCKS_RANGE_UNTIL(fairlock_range_read_until)
LOCKS_RANGE_UNTIL(fairlock_range_read_recursive_until)
LOCKS_RANGE_UNTIL(fairlock_range_write_until)

#define LETS_OTHERS_IN(function)                                                             \
    int OURS(function)(fairlock_range_t *range);                                             \
    int OURS(function)(fairlock_range_t *range) {                                            \
        OrigFn original;                                                                     \
        int result;                                                                          \
        VALGRIND_GET_ORIG_FN(original);                                                      \
        ANNOTATE_HAPPENS_BEFORE(&ranges);                                                    \
        CALL_FN_W_W(result, original, range);                                                \
        return result;                                                                       \
    }

LETS_OTHERS_IN(fairlock_range_unlock)
/* Readers get in beside a downgraded range. */
LETS_OTHERS_IN(fairlock_range_downgrade)

int OURS(fairlock_range_shrink)(fairlock_range_t *range, uint64_t start, uint64_t last);
int OURS(fairlock_range_shrink)(fairlock_range_t *range, uint64_t start, uint64_t last) {
    OrigFn original;
    int result;
    VALGRIND_GET_ORIG_FN(original);
    ANNOTATE_HAPPENS_BEFORE(&ranges);
    CALL_FN_W_WWW(result, original, range, start, last);
    return result;
}

/*
 * fairlock_tsan.h: tells ThreadSanitizer what the locks order. fairlock.h includes it where a
 * program is compiled with -fsanitize=thread, and nowhere else.
 *
 * The library itself is not instrumented, so its calls are replaced by functions that say what
 * comes before what: a thread that takes a lock comes after those that have released it. Readers
 * do not come after each other, so data that two readers change is found. A lock may be released
 * by another thread than took it, as with the library. Lock-order inversions are not reported.
 *
 * Ranges are coarser: a thread that unlocks a range comes before each thread that locks a range
 * later, of the same lock or of another, so some races between ranges are not found.
 */
#ifndef FAIRLOCK_TSAN_H
#define FAIRLOCK_TSAN_H

#include <errno.h>

#ifdef __cplusplus
#define FAIRLOCK_TSAN inline
extern "C" {
#else
#define FAIRLOCK_TSAN static __inline__ __attribute__((unused))
#endif

/* Of the sanitizer. An object has an order for each address in it. */
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __tsan_ignore_thread_begin(void);
void __tsan_ignore_thread_end(void);

/* What writers, and all who hold something alone, have released is ordered at the object; what
 * readers have released, behind that. */
FAIRLOCK_TSAN void fairlock_tsan_writes_end(void *object) { __tsan_release(object); }
FAIRLOCK_TSAN void fairlock_tsan_reads_end(void *object) { __tsan_release((char *)object + 1); }
FAIRLOCK_TSAN void fairlock_tsan_reads(void *object) { __tsan_acquire(object); }
FAIRLOCK_TSAN void fairlock_tsan_writes(void *object) {
    __tsan_acquire(object);
    __tsan_acquire((char *)object + 1);
}

/* The object that orders all ranges: their nodes move. One in all of a program. */
FAIRLOCK_TSAN void *fairlock_tsan_ranges(void) {
    int (*unlock)(fairlock_range_t *) = fairlock_range_unlock;
    return *(void **)(void *)&unlock;
}

/* Calls the library, whose memory is its own affair: the sanitizer sees no more of that than malloc
 * and free. */
#define FAIRLOCK_TSAN_CALL(name, arguments)                                                  \
    int result;                                                                              \
    __tsan_ignore_thread_begin();                                                            \
    result = fairlock_##name arguments;                                                      \
    __tsan_ignore_thread_end()

/* Functions that take something if they return 0, as those do for sure that wait for it, with
 * parameters and arguments as they are in the header; `mode` is how, of `object`. */
#define FAIRLOCK_TSAN_WAITS(name, mode, object, parameters, arguments)                       \
    FAIRLOCK_TSAN int fairlock_tsan_##name parameters {                                      \
        FAIRLOCK_TSAN_CALL(name, arguments);                                                 \
        if (result == 0) {                                                                   \
            fairlock_tsan_##mode(object);                                                    \
        }                                                                                    \
        return result;                                                                       \
    }
/* Those that may fail. */
#define FAIRLOCK_TSAN_TAKES(name, mode, object, parameters, arguments)                       \
    FAIRLOCK_MUST_USE FAIRLOCK_TSAN_WAITS(name, mode, object, parameters, arguments)
/* Those that a token ends: what came before its cancellation has come before this, too. */
#define FAIRLOCK_TSAN_ENDS(name, mode, object, parameters, arguments)                        \
    FAIRLOCK_TSAN FAIRLOCK_MUST_USE int fairlock_tsan_##name parameters {                    \
        FAIRLOCK_TSAN_CALL(name, arguments);                                                 \
        if (result == 0) {                                                                   \
            fairlock_tsan_##mode(object);                                                    \
        } else if (result == ECANCELED) {                                                    \
            fairlock_tsan_reads(token);                                                      \
        }                                                                                    \
        return result;                                                                       \
    }
/* Those that give it up. */
#define FAIRLOCK_TSAN_GIVES(name, mode, object, parameters, arguments)                       \
    FAIRLOCK_TSAN int fairlock_tsan_##name parameters {                                      \
        fairlock_tsan_##mode(object);                                                        \
        {                                                                                    \
            FAIRLOCK_TSAN_CALL(name, arguments);                                             \
            return result;                                                                   \
        }                                                                                    \
    }
/* Those that order nothing, and may use the library's memory. */
#define FAIRLOCK_TSAN_PASSES(name, parameters, arguments)                                    \
    FAIRLOCK_TSAN int fairlock_tsan_##name parameters {                                      \
        FAIRLOCK_TSAN_CALL(name, arguments);                                                 \
        return result;                                                                       \
    }
/* Those that wait at a condition variable: the mutex is released and taken again, however they
 * end. */
#define FAIRLOCK_TSAN_COND(name, parameters, arguments)                                      \
    FAIRLOCK_TSAN int fairlock_tsan_##name parameters {                                      \
        fairlock_tsan_writes_end(mutex);                                                     \
        {                                                                                    \
            FAIRLOCK_TSAN_CALL(name, arguments);                                             \
            fairlock_tsan_writes(mutex);                                                     \
            return result;                                                                   \
        }                                                                                    \
    }
#define FAIRLOCK_TSAN_COND_ENDS(name, parameters, arguments)                                 \
    FAIRLOCK_TSAN int fairlock_tsan_##name parameters {                                      \
        fairlock_tsan_writes_end(mutex);                                                     \
        {                                                                                    \
            FAIRLOCK_TSAN_CALL(name, arguments);                                             \
            fairlock_tsan_writes(mutex);                                                     \
            if (result == ECANCELED) {                                                       \
                fairlock_tsan_reads(token);                                                  \
            }                                                                                \
            return result;                                                                   \
        }                                                                                    \
    }

FAIRLOCK_TSAN_WAITS(rwlock_read, reads, lock, (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_TAKES(rwlock_try_read, reads, lock, (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_TAKES(rwlock_read_until, reads, lock,
    (fairlock_rwlock_t *lock, int clock, const struct timespec *deadline),
    (lock, clock, deadline))
FAIRLOCK_TSAN_TAKES(rwlock_read_interruptible, reads, lock, (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_ENDS(rwlock_read_cancellable, reads, lock,
    (fairlock_rwlock_t *lock, fairlock_cancel_t *token), (lock, token))
FAIRLOCK_TSAN_WAITS(rwlock_read_recursive, reads, lock, (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_TAKES(rwlock_try_read_recursive, reads, lock, (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_TAKES(rwlock_read_recursive_until, reads, lock,
    (fairlock_rwlock_t *lock, int clock, const struct timespec *deadline),
    (lock, clock, deadline))
FAIRLOCK_TSAN_TAKES(rwlock_read_recursive_interruptible, reads, lock,
    (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_ENDS(rwlock_read_recursive_cancellable, reads, lock,
    (fairlock_rwlock_t *lock, fairlock_cancel_t *token), (lock, token))
FAIRLOCK_TSAN_WAITS(rwlock_write, writes, lock, (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_TAKES(rwlock_try_write, writes, lock, (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_TAKES(rwlock_write_until, writes, lock,
    (fairlock_rwlock_t *lock, int clock, const struct timespec *deadline),
    (lock, clock, deadline))
FAIRLOCK_TSAN_TAKES(rwlock_write_interruptible, writes, lock,
    (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_ENDS(rwlock_write_cancellable, writes, lock,
    (fairlock_rwlock_t *lock, fairlock_cancel_t *token), (lock, token))
FAIRLOCK_TSAN_GIVES(rwlock_unlock_read, reads_end, lock, (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_GIVES(rwlock_unlock_read_fair, reads_end, lock,
    (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_GIVES(rwlock_unlock_write, writes_end, lock, (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_GIVES(rwlock_unlock_write_fair, writes_end, lock,
    (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_GIVES(rwlock_downgrade, writes_end, lock, (fairlock_rwlock_t *lock), (lock))

FAIRLOCK_TSAN_WAITS(mutex_lock, writes, mutex, (fairlock_mutex_t *mutex), (mutex))
FAIRLOCK_TSAN_TAKES(mutex_try_lock, writes, mutex, (fairlock_mutex_t *mutex), (mutex))
FAIRLOCK_TSAN_TAKES(mutex_lock_until, writes, mutex,
    (fairlock_mutex_t *mutex, int clock, const struct timespec *deadline),
    (mutex, clock, deadline))
FAIRLOCK_TSAN_TAKES(mutex_lock_interruptible, writes, mutex,
    (fairlock_mutex_t *mutex), (mutex))
FAIRLOCK_TSAN_ENDS(mutex_lock_cancellable, writes, mutex,
    (fairlock_mutex_t *mutex, fairlock_cancel_t *token), (mutex, token))
FAIRLOCK_TSAN_GIVES(mutex_unlock, writes_end, mutex, (fairlock_mutex_t *mutex), (mutex))
FAIRLOCK_TSAN_GIVES(mutex_unlock_fair, writes_end, mutex, (fairlock_mutex_t *mutex), (mutex))

FAIRLOCK_TSAN_COND(cond_wait, (fairlock_cond_t *cond, fairlock_mutex_t *mutex), (cond, mutex))
FAIRLOCK_TSAN_COND(cond_wait_until,
    (fairlock_cond_t *cond, fairlock_mutex_t *mutex, int clock, const struct timespec *deadline),
    (cond, mutex, clock, deadline))
FAIRLOCK_TSAN_COND(cond_wait_interruptible,
    (fairlock_cond_t *cond, fairlock_mutex_t *mutex), (cond, mutex))
FAIRLOCK_TSAN_COND_ENDS(cond_wait_cancellable,
    (fairlock_cond_t *cond, fairlock_mutex_t *mutex, fairlock_cancel_t *token),
    (cond, mutex, token))
FAIRLOCK_TSAN_COND_ENDS(cond_wait_cancellable_until,
    (fairlock_cond_t *cond, fairlock_mutex_t *mutex, fairlock_cancel_t *token, int clock, const struct timespec *deadline),
    (cond, mutex, token, clock, deadline))

FAIRLOCK_TSAN_WAITS(sem_wait, writes, sem, (fairlock_sem_t *sem, uint32_t count), (sem, count))
FAIRLOCK_TSAN_TAKES(sem_try_wait, writes, sem,
    (fairlock_sem_t *sem, uint32_t count), (sem, count))
FAIRLOCK_TSAN_TAKES(sem_wait_until, writes, sem,
    (fairlock_sem_t *sem, uint32_t count, int clock, const struct timespec *deadline),
    (sem, count, clock, deadline))
FAIRLOCK_TSAN_TAKES(sem_wait_interruptible, writes, sem,
    (fairlock_sem_t *sem, uint32_t count), (sem, count))
FAIRLOCK_TSAN_ENDS(sem_wait_cancellable, writes, sem,
    (fairlock_sem_t *sem, uint32_t count, fairlock_cancel_t *token), (sem, count, token))
FAIRLOCK_TSAN_GIVES(sem_post, writes_end, sem,
    (fairlock_sem_t *sem, uint32_t count), (sem, count))

FAIRLOCK_TSAN_WAITS(range_read, reads, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last),
    (lock, range, start, last))
FAIRLOCK_TSAN_TAKES(range_try_read, reads, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last),
    (lock, range, start, last))
FAIRLOCK_TSAN_TAKES(range_read_until, reads, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last, int clock, const struct timespec *deadline),
    (lock, range, start, last, clock, deadline))
FAIRLOCK_TSAN_TAKES(range_read_interruptible, reads, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last),
    (lock, range, start, last))
FAIRLOCK_TSAN_ENDS(range_read_cancellable, reads, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last, fairlock_cancel_t *token),
    (lock, range, start, last, token))
FAIRLOCK_TSAN_WAITS(range_read_recursive, reads, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last),
    (lock, range, start, last))
FAIRLOCK_TSAN_TAKES(range_try_read_recursive, reads, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last),
    (lock, range, start, last))
FAIRLOCK_TSAN_TAKES(range_read_recursive_until, reads, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last, int clock, const struct timespec *deadline),
    (lock, range, start, last, clock, deadline))
FAIRLOCK_TSAN_TAKES(range_read_recursive_interruptible, reads, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last),
    (lock, range, start, last))
FAIRLOCK_TSAN_ENDS(range_read_recursive_cancellable, reads, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last, fairlock_cancel_t *token),
    (lock, range, start, last, token))
FAIRLOCK_TSAN_WAITS(range_write, writes, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last),
    (lock, range, start, last))
FAIRLOCK_TSAN_TAKES(range_try_write, writes, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last),
    (lock, range, start, last))
FAIRLOCK_TSAN_TAKES(range_write_until, writes, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last, int clock, const struct timespec *deadline),
    (lock, range, start, last, clock, deadline))
FAIRLOCK_TSAN_TAKES(range_write_interruptible, writes, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last),
    (lock, range, start, last))
FAIRLOCK_TSAN_ENDS(range_write_cancellable, writes, fairlock_tsan_ranges(),
    (fairlock_range_lock_t *lock, fairlock_range_t *range, uint64_t start, uint64_t last, fairlock_cancel_t *token),
    (lock, range, start, last, token))

/* Gives up a range, or a part of it. */
FAIRLOCK_TSAN void fairlock_tsan_range_ends(const fairlock_range_t *range) {
    bool writes = false;
    if (fairlock_range_get(range, NULL, NULL, &writes) == 0 && writes) {
        fairlock_tsan_writes_end(fairlock_tsan_ranges());
    } else {
        fairlock_tsan_reads_end(fairlock_tsan_ranges());
    }
}
FAIRLOCK_TSAN_GIVES(range_unlock, range_ends, range, (fairlock_range_t *range), (range))
FAIRLOCK_TSAN_GIVES(range_downgrade, range_ends, range, (fairlock_range_t *range), (range))
FAIRLOCK_TSAN_GIVES(range_shrink, range_ends, range,
    (fairlock_range_t *range, uint64_t start, uint64_t last), (range, start, last))

FAIRLOCK_TSAN_PASSES(cond_signal, (fairlock_cond_t *cond), (cond))
FAIRLOCK_TSAN_PASSES(cond_broadcast, (fairlock_cond_t *cond), (cond))
FAIRLOCK_TSAN_PASSES(range_split,
    (fairlock_range_t *range, uint64_t mid, fairlock_range_t *upper), (range, mid, upper))
FAIRLOCK_TSAN_PASSES(rwlock_destroy, (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_PASSES(rwlock_trim, (fairlock_rwlock_t *lock), (lock))
FAIRLOCK_TSAN_PASSES(mutex_destroy, (fairlock_mutex_t *mutex), (mutex))
FAIRLOCK_TSAN_PASSES(mutex_trim, (fairlock_mutex_t *mutex), (mutex))
FAIRLOCK_TSAN_PASSES(cond_destroy, (fairlock_cond_t *cond), (cond))
FAIRLOCK_TSAN_PASSES(cond_trim, (fairlock_cond_t *cond), (cond))
FAIRLOCK_TSAN_PASSES(sem_destroy, (fairlock_sem_t *sem), (sem))
FAIRLOCK_TSAN_PASSES(range_lock_destroy, (fairlock_range_lock_t *lock), (lock))

FAIRLOCK_TSAN_GIVES(cancel, writes_end, token, (fairlock_cancel_t *token), (token))
FAIRLOCK_TSAN bool fairlock_tsan_is_cancelled(const fairlock_cancel_t *token) {
    bool const result = fairlock_is_cancelled(token);
    if (result) {
        fairlock_tsan_reads((void *)(size_t)token);
    }
    return result;
}

#ifdef __cplusplus
}
#endif

#undef FAIRLOCK_TSAN_CALL
#undef FAIRLOCK_TSAN_PASSES
#undef FAIRLOCK_TSAN_TAKES
#undef FAIRLOCK_TSAN_WAITS
#undef FAIRLOCK_TSAN_ENDS
#undef FAIRLOCK_TSAN_GIVES
#undef FAIRLOCK_TSAN_COND
#undef FAIRLOCK_TSAN_COND_ENDS

#define fairlock_rwlock_read fairlock_tsan_rwlock_read
#define fairlock_rwlock_try_read fairlock_tsan_rwlock_try_read
#define fairlock_rwlock_read_until fairlock_tsan_rwlock_read_until
#define fairlock_rwlock_read_interruptible fairlock_tsan_rwlock_read_interruptible
#define fairlock_rwlock_read_cancellable fairlock_tsan_rwlock_read_cancellable
#define fairlock_rwlock_read_recursive fairlock_tsan_rwlock_read_recursive
#define fairlock_rwlock_try_read_recursive fairlock_tsan_rwlock_try_read_recursive
#define fairlock_rwlock_read_recursive_until fairlock_tsan_rwlock_read_recursive_until
#define fairlock_rwlock_read_recursive_interruptible fairlock_tsan_rwlock_read_recursive_interruptible
#define fairlock_rwlock_read_recursive_cancellable fairlock_tsan_rwlock_read_recursive_cancellable
#define fairlock_rwlock_write fairlock_tsan_rwlock_write
#define fairlock_rwlock_try_write fairlock_tsan_rwlock_try_write
#define fairlock_rwlock_write_until fairlock_tsan_rwlock_write_until
#define fairlock_rwlock_write_interruptible fairlock_tsan_rwlock_write_interruptible
#define fairlock_rwlock_write_cancellable fairlock_tsan_rwlock_write_cancellable
#define fairlock_rwlock_unlock_read fairlock_tsan_rwlock_unlock_read
#define fairlock_rwlock_unlock_read_fair fairlock_tsan_rwlock_unlock_read_fair
#define fairlock_rwlock_unlock_write fairlock_tsan_rwlock_unlock_write
#define fairlock_rwlock_unlock_write_fair fairlock_tsan_rwlock_unlock_write_fair
#define fairlock_rwlock_downgrade fairlock_tsan_rwlock_downgrade
#define fairlock_mutex_lock fairlock_tsan_mutex_lock
#define fairlock_mutex_try_lock fairlock_tsan_mutex_try_lock
#define fairlock_mutex_lock_until fairlock_tsan_mutex_lock_until
#define fairlock_mutex_lock_interruptible fairlock_tsan_mutex_lock_interruptible
#define fairlock_mutex_lock_cancellable fairlock_tsan_mutex_lock_cancellable
#define fairlock_mutex_unlock fairlock_tsan_mutex_unlock
#define fairlock_mutex_unlock_fair fairlock_tsan_mutex_unlock_fair
#define fairlock_cond_wait fairlock_tsan_cond_wait
#define fairlock_cond_wait_until fairlock_tsan_cond_wait_until
#define fairlock_cond_wait_interruptible fairlock_tsan_cond_wait_interruptible
#define fairlock_cond_wait_cancellable fairlock_tsan_cond_wait_cancellable
#define fairlock_cond_wait_cancellable_until fairlock_tsan_cond_wait_cancellable_until
#define fairlock_sem_wait fairlock_tsan_sem_wait
#define fairlock_sem_try_wait fairlock_tsan_sem_try_wait
#define fairlock_sem_wait_until fairlock_tsan_sem_wait_until
#define fairlock_sem_wait_interruptible fairlock_tsan_sem_wait_interruptible
#define fairlock_sem_wait_cancellable fairlock_tsan_sem_wait_cancellable
#define fairlock_sem_post fairlock_tsan_sem_post
#define fairlock_range_read fairlock_tsan_range_read
#define fairlock_range_try_read fairlock_tsan_range_try_read
#define fairlock_range_read_until fairlock_tsan_range_read_until
#define fairlock_range_read_interruptible fairlock_tsan_range_read_interruptible
#define fairlock_range_read_cancellable fairlock_tsan_range_read_cancellable
#define fairlock_range_read_recursive fairlock_tsan_range_read_recursive
#define fairlock_range_try_read_recursive fairlock_tsan_range_try_read_recursive
#define fairlock_range_read_recursive_until fairlock_tsan_range_read_recursive_until
#define fairlock_range_read_recursive_interruptible fairlock_tsan_range_read_recursive_interruptible
#define fairlock_range_read_recursive_cancellable fairlock_tsan_range_read_recursive_cancellable
#define fairlock_range_write fairlock_tsan_range_write
#define fairlock_range_try_write fairlock_tsan_range_try_write
#define fairlock_range_write_until fairlock_tsan_range_write_until
#define fairlock_range_write_interruptible fairlock_tsan_range_write_interruptible
#define fairlock_range_write_cancellable fairlock_tsan_range_write_cancellable
#define fairlock_range_unlock fairlock_tsan_range_unlock
#define fairlock_range_downgrade fairlock_tsan_range_downgrade
#define fairlock_range_shrink fairlock_tsan_range_shrink
#define fairlock_cancel fairlock_tsan_cancel
#define fairlock_is_cancelled fairlock_tsan_is_cancelled
#define fairlock_cond_signal fairlock_tsan_cond_signal
#define fairlock_cond_broadcast fairlock_tsan_cond_broadcast
#define fairlock_range_split fairlock_tsan_range_split
#define fairlock_rwlock_destroy fairlock_tsan_rwlock_destroy
#define fairlock_rwlock_trim fairlock_tsan_rwlock_trim
#define fairlock_mutex_destroy fairlock_tsan_mutex_destroy
#define fairlock_mutex_trim fairlock_tsan_mutex_trim
#define fairlock_cond_destroy fairlock_tsan_cond_destroy
#define fairlock_cond_trim fairlock_tsan_cond_trim
#define fairlock_sem_destroy fairlock_tsan_sem_destroy
#define fairlock_range_lock_destroy fairlock_tsan_range_lock_destroy

#endif /* FAIRLOCK_TSAN_H */

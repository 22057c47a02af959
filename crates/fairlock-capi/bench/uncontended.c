/* What a lock and unlock costs from C when nobody else wants the lock: prints a line for
 * each way, its name and nanoseconds. examples/uncontended.rs does the same in Rust, and
 * runs this beside it. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fairlock.h"

enum { BATCHES = 301, BATCH = 20000 };

static double batches[BATCHES];

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over batches, so that one in which the thread was preempted does not count. */
#define MEASURE(name, operation)                                                             \
    do {                                                                                     \
        for (int batch = 0; batch < BATCHES; batch++) {                                      \
            double begin = now_ns();                                                         \
            for (int i = 0; i < BATCH; i++) {                                                \
                operation;                                                                   \
            }                                                                                \
            batches[batch] = (now_ns() - begin) / BATCH;                                     \
        }                                                                                    \
        qsort(batches, BATCHES, sizeof *batches, ascending);                                 \
        printf("%s %.4f\n", name, batches[BATCHES / 2]);                                     \
    } while (0)

static fairlock_rwlock_t rwlock = FAIRLOCK_RWLOCK_INIT;
static fairlock_mutex_t mutex = FAIRLOCK_MUTEX_INIT;
static fairlock_range_lock_t ranges = FAIRLOCK_RANGE_LOCK_INIT;

int main(void) {
    fairlock_range_t range = FAIRLOCK_RANGE_INIT;
    MEASURE("read", (fairlock_rwlock_read(&rwlock), fairlock_rwlock_unlock_read(&rwlock)));
    MEASURE("write", (fairlock_rwlock_write(&rwlock), fairlock_rwlock_unlock_write(&rwlock)));
    MEASURE("mutex", (fairlock_mutex_lock(&mutex), fairlock_mutex_unlock(&mutex)));
    MEASURE("range-read", (fairlock_range_read(&ranges, &range, 7, 9), fairlock_range_unlock(&range)));
    MEASURE("range-write", (fairlock_range_write(&ranges, &range, 7, 9), fairlock_range_unlock(&range)));
    return 0;
}

/* The mutex, every function and every result. */
#include "check.h"

/* Not on a stack: drd remembers what is annotated there as what it was. */
static fairlock_cancel_t cancelled = FAIRLOCK_CANCEL_INIT;

static void use(fairlock_mutex_t *mutex) {
    CHECK(!fairlock_mutex_is_locked(mutex));
    GIVES(0, fairlock_mutex_lock(mutex));
    CHECK(fairlock_mutex_is_locked(mutex) && !fairlock_mutex_is_contended(mutex));
    GIVES(EBUSY, fairlock_mutex_try_lock(mutex));
    GIVES(EBUSY, fairlock_mutex_destroy(mutex));
    GIVES(0, fairlock_mutex_unlock(mutex));
    GIVES(0, fairlock_mutex_try_lock(mutex));
    GIVES(0, fairlock_mutex_unlock_fair(mutex));
    GIVES(EPERM, fairlock_mutex_unlock(mutex));
    GIVES(EPERM, fairlock_mutex_unlock_fair(mutex));
    GIVES(0, fairlock_cancel(&cancelled));
    /* A free one is taken without a look at time or token. */
    GIVES(0, fairlock_mutex_lock_until(mutex, CLOCK_REALTIME, &over));
    GIVES(ECANCELED, fairlock_mutex_lock_cancellable(mutex, &cancelled));
#define LOCK_UNTIL(clock, time) fairlock_mutex_lock_until(mutex, clock, time)
    GIVES_UP_IN_TIME(LOCK_UNTIL);
    REFUSES_BAD_TIMES(LOCK_UNTIL);
    GIVES(0, fairlock_mutex_unlock(mutex));
    REFUSES_BAD_TIMES(LOCK_UNTIL);
    GIVES(EINVAL, fairlock_mutex_lock_cancellable(mutex, NULL));
    GIVES(0, fairlock_mutex_lock_cancellable(mutex, &cancelled));
    GIVES(0, fairlock_mutex_unlock(mutex));
    GIVES(0, fairlock_mutex_lock_interruptible(mutex));
    GIVES(0, fairlock_mutex_unlock(mutex));
    CHECK(!fairlock_mutex_is_locked(mutex));
}

static void every_way_to_make_one(void) {
    static fairlock_mutex_t zero;
    static fairlock_mutex_t initialised = FAIRLOCK_MUTEX_INIT;
    use(&zero);
    use(&initialised);
    fairlock_mutex_t *heap = calloc(1, sizeof *heap);
    CHECK(heap != NULL);
    use(heap);
    free(heap);
    const uint32_t sizes[] = {FAIRLOCK_BATCH_NONE, 1, 4, 8};
    for (int i = 0; i < 4; i++) {
        fairlock_mutex_t local = FAIRLOCK_MUTEX_INIT_BATCH(sizes[i]);
        GIVES(i == 0 ? 0 : ENOTSUP, fairlock_mutex_trim(&local));
        use(&local);
        /* It waited. */
        GIVES(i == 0 ? 0 : ENOTSUP, fairlock_mutex_trim(&local));
        GIVES(0, fairlock_mutex_destroy(&local));
        memset(&local, 0xff, sizeof local);
        GIVES(0, fairlock_mutex_init(&local, sizes[i]));
        use(&local);
        GIVES(0, fairlock_mutex_destroy(&local));
        GIVES(EINVAL, fairlock_mutex_lock(&local));
    }
}

static void no_mutex(fairlock_mutex_t *none) {
    GIVES(EINVAL, fairlock_mutex_destroy(none));
    GIVES(EINVAL, fairlock_mutex_trim(none));
    GIVES(EINVAL, fairlock_mutex_lock(none));
    GIVES(EINVAL, fairlock_mutex_try_lock(none));
    GIVES(EINVAL, fairlock_mutex_unlock(none));
    GIVES(EINVAL, fairlock_mutex_unlock_fair(none));
    GIVES(EINVAL, fairlock_mutex_lock_until(none, CLOCK_MONOTONIC, &over));
    GIVES(EINVAL, fairlock_mutex_lock_interruptible(none));
    GIVES(EINVAL, fairlock_mutex_lock_cancellable(none, &cancelled));
    CHECK(!fairlock_mutex_is_locked(none) && !fairlock_mutex_is_contended(none));
}

static void what_is_no_mutex(void) {
    static fairlock_mutex_t unknown = FAIRLOCK_MUTEX_INIT_BATCH(3);
    fairlock_mutex_t mutex = FAIRLOCK_MUTEX_INIT;
    no_mutex(NULL);
    no_mutex(&unknown);
    no_mutex((fairlock_mutex_t *)((char *)&mutex + 4));
    GIVES(EINVAL, fairlock_mutex_init(NULL, 8));
    GIVES(EINVAL, fairlock_mutex_init(&mutex, 2));
    memset(&mutex, 0x5a, sizeof mutex);
    no_mutex(&mutex);
}

enum { THREADS = 4, ROUNDS = 4000, SIZES = 4 };
static fairlock_mutex_t mutexes[SIZES] = {
    FAIRLOCK_MUTEX_INIT,
    FAIRLOCK_MUTEX_INIT_BATCH(1),
    FAIRLOCK_MUTEX_INIT_BATCH(4),
    FAIRLOCK_MUTEX_INIT_BATCH(8),
};
static long counted[SIZES];

static void *count(void *unused) {
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SIZES; i++) {
            GIVES(0, fairlock_mutex_lock(&mutexes[i]));
            counted[i]++;
            GIVES(0, fairlock_mutex_unlock(&mutexes[i]));
        }
    }
    return unused;
}

static void threads_exclude_each_other(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        threads[i] = spawn(count, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        join(threads[i]);
    }
    for (int i = 0; i < SIZES; i++) {
        CHECK(counted[i] == THREADS * ROUNDS);
    }
}

static fairlock_mutex_t held = FAIRLOCK_MUTEX_INIT;

static void *lock_and_unlock(void *unused) {
    GIVES(0, fairlock_mutex_lock(&held));
    GIVES(0, fairlock_mutex_unlock(&held));
    return unused;
}

static void one_that_is_waited_for_says_so(void) {
    GIVES(0, fairlock_mutex_lock(&held));
    pthread_t waiter = spawn(lock_and_unlock, NULL);
    while (!fairlock_mutex_is_contended(&held)) {
        nap();
    }
    GIVES(EBUSY, fairlock_mutex_destroy(&held));
    GIVES(EBUSY, fairlock_mutex_trim(&held));
    GIVES(0, fairlock_mutex_unlock(&held));
    join(waiter);
    GIVES(0, fairlock_mutex_trim(&held));
    GIVES(0, fairlock_mutex_destroy(&held));
}

static int lock_interruptible(void *mutex) { return fairlock_mutex_lock_interruptible(mutex); }

static void a_signal_ends_an_interruptible_wait(void) {
    GIVES(0, fairlock_mutex_init(&held, FAIRLOCK_BATCH_NONE));
    GIVES(0, fairlock_mutex_lock(&held));
    GIVES(EINTR, with_signals(lock_interruptible, &held));
    GIVES(0, fairlock_mutex_unlock(&held));
    CHECK(!fairlock_mutex_is_locked(&held) && !fairlock_mutex_is_contended(&held));
}

int main(void) {
    CHECK(sizeof(fairlock_mutex_t) <= sizeof(pthread_mutex_t));
    watchdog();
    every_way_to_make_one();
    what_is_no_mutex();
    threads_exclude_each_other();
    one_that_is_waited_for_says_so();
    a_signal_ends_an_interruptible_wait();
    return 0;
}

/* The condition variable, every function and every result. */
#include "check.h"

static fairlock_cond_t changed = FAIRLOCK_COND_INIT;
static fairlock_mutex_t mutex = FAIRLOCK_MUTEX_INIT;
static fairlock_cancel_t token = FAIRLOCK_CANCEL_INIT;
static int waiting, let_go;

static void nobody_waits(fairlock_cond_t *cond) {
    GIVES(0, fairlock_cond_signal(cond));
    GIVES(0, fairlock_cond_broadcast(cond));
    GIVES(0, fairlock_cond_destroy(cond));
    GIVES(EINVAL, fairlock_cond_signal(cond));
}

static void every_way_to_make_one(void) {
    static fairlock_cond_t zero;
    static fairlock_cond_t initialised = FAIRLOCK_COND_INIT;
    nobody_waits(&zero);
    nobody_waits(&initialised);
    memset(&zero, 0xff, sizeof zero);
    GIVES(0, fairlock_cond_init(&zero));
    nobody_waits(&zero);
    GIVES(EINVAL, fairlock_cond_init(NULL));
}

/* All waits with these two, each of which gives `code`. */
static void all_waits_give(int code, fairlock_cond_t *cond, fairlock_mutex_t *with) {
    GIVES(code, fairlock_cond_wait(cond, with));
    GIVES(code, fairlock_cond_wait_until(cond, with, CLOCK_MONOTONIC, &over));
    GIVES(code, fairlock_cond_wait_interruptible(cond, with));
    GIVES(code, fairlock_cond_wait_cancellable(cond, with, &token));
    GIVES(code, fairlock_cond_wait_cancellable_until(cond, with, &token, CLOCK_REALTIME, &over));
}

static void what_cannot_be_waited_for(void) {
    static fairlock_cond_t odd;
    static fairlock_mutex_t tickets = FAIRLOCK_MUTEX_INIT_BATCH(1);
    memset(&odd, 0x5a, sizeof odd);
    GIVES(0, fairlock_mutex_lock(&mutex));
    all_waits_give(EINVAL, NULL, &mutex);
    all_waits_give(EINVAL, &odd, &mutex);
    all_waits_give(EINVAL, &changed, NULL);
    GIVES(EINVAL, fairlock_cond_wait_cancellable(&changed, &mutex, NULL));
    GIVES(0, fairlock_mutex_unlock(&mutex));
    all_waits_give(EPERM, &changed, &mutex);
    GIVES(0, fairlock_mutex_lock(&tickets));
    all_waits_give(ENOTSUP, &changed, &tickets);
    GIVES(EINVAL, fairlock_cond_signal(&odd));
    GIVES(EINVAL, fairlock_cond_broadcast(&odd));
    GIVES(EINVAL, fairlock_cond_destroy(&odd));
    GIVES(EINVAL, fairlock_cond_trim(&odd));
    GIVES(0, fairlock_mutex_unlock(&tickets));
}

static void waits_that_end_hold_the_mutex(void) {
    GIVES(0, fairlock_mutex_lock(&mutex));
#define WAIT_UNTIL(clock, time) fairlock_cond_wait_until(&changed, &mutex, clock, time)
    GIVES_UP_IN_TIME(WAIT_UNTIL);
    REFUSES_BAD_TIMES(WAIT_UNTIL);
#define WAIT_EITHER(clock, time)                                                             \
    fairlock_cond_wait_cancellable_until(&changed, &mutex, &token, clock, time)
    GIVES_UP_IN_TIME(WAIT_EITHER);
    REFUSES_BAD_TIMES(WAIT_EITHER);
    CHECK(fairlock_mutex_is_locked(&mutex));
    static fairlock_cancel_t cancelled = FAIRLOCK_CANCEL_INIT;
    GIVES(0, fairlock_cancel(&cancelled));
    GIVES(ECANCELED, fairlock_cond_wait_cancellable(&changed, &mutex, &cancelled));
    struct timespec late = after_ms(CLOCK_MONOTONIC, 1000000000);
    GIVES(ECANCELED, fairlock_cond_wait_cancellable_until(&changed, &mutex, &cancelled,
                                                          CLOCK_MONOTONIC, &late));
    GIVES(0, fairlock_mutex_unlock(&mutex));
}

static int wait_interruptible(void *cond) {
    GIVES(0, fairlock_mutex_lock(&mutex));
    int code = fairlock_cond_wait_interruptible(cond, &mutex);
    GIVES(0, fairlock_mutex_unlock(&mutex));
    return code;
}

enum { WAITERS = 8, WAYS = 5 };

static void *wait_for_it(void *way) {
    struct timespec late = after_ms(CLOCK_REALTIME, 1000000000);
    GIVES(0, fairlock_mutex_lock(&mutex));
    waiting++;
    while (!let_go) {
        switch ((size_t)way % WAYS) {
        case 0: GIVES(0, fairlock_cond_wait(&changed, &mutex)); break;
        case 1: GIVES(0, fairlock_cond_wait_until(&changed, &mutex, CLOCK_REALTIME, &late)); break;
        case 2: GIVES(0, fairlock_cond_wait_interruptible(&changed, &mutex)); break;
        case 3: GIVES(0, fairlock_cond_wait_cancellable(&changed, &mutex, &token)); break;
        default:
            GIVES(0, fairlock_cond_wait_cancellable_until(&changed, &mutex, &token,
                                                          CLOCK_REALTIME, &late));
        }
    }
    waiting--;
    GIVES(0, fairlock_mutex_unlock(&mutex));
    return NULL;
}

/* Whether as many wait. */
static int as_many_wait(int many) {
    GIVES(0, fairlock_mutex_lock(&mutex));
    int so = waiting == many;
    GIVES(0, fairlock_mutex_unlock(&mutex));
    return so;
}

static void notifications_end_every_wait(int broadcast) {
    pthread_t threads[WAITERS];
    let_go = 0;
    for (size_t i = 0; i < WAITERS; i++) {
        threads[i] = spawn(wait_for_it, (void *)i);
    }
    while (!as_many_wait(WAITERS)) {
        nap();
    }
    GIVES(EBUSY, fairlock_cond_destroy(&changed));
    GIVES(0, fairlock_mutex_lock(&mutex));
    let_go = 1;
    if (broadcast) {
        GIVES(0, fairlock_cond_broadcast(&changed));
        GIVES(0, fairlock_mutex_unlock(&mutex));
    } else {
        GIVES(0, fairlock_mutex_unlock(&mutex));
        for (int i = 0; i < WAITERS; i++) {
            GIVES(0, fairlock_cond_signal(&changed));
        }
    }
    for (int i = 0; i < WAITERS; i++) {
        join(threads[i]);
    }
    CHECK(as_many_wait(0));
}

int main(void) {
    CHECK(sizeof(fairlock_cond_t) <= sizeof(pthread_cond_t));
    watchdog();
    every_way_to_make_one();
    what_cannot_be_waited_for();
    waits_that_end_hold_the_mutex();
    GIVES(EINTR, with_signals(wait_interruptible, &changed));
    notifications_end_every_wait(0);
    notifications_end_every_wait(1);
    GIVES(0, fairlock_cond_trim(&changed));
    GIVES(0, fairlock_cond_destroy(&changed));
    return 0;
}

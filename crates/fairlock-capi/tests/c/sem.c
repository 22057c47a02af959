/* The semaphore, every function and every result. */
#include "check.h"

#include <semaphore.h>

/* Not on a stack: drd remembers what is annotated there as what it was. */
static fairlock_cancel_t cancelled = FAIRLOCK_CANCEL_INIT;

/* One that has three permits, afterwards too. */
static void use(fairlock_sem_t *sem) {
    CHECK(fairlock_sem_value(sem) == 3 && !fairlock_sem_is_contended(sem));
    GIVES(0, fairlock_sem_wait(sem, 2));
    GIVES(EBUSY, fairlock_sem_try_wait(sem, 2));
    GIVES(0, fairlock_sem_try_wait(sem, 1));
    GIVES(0, fairlock_sem_wait(sem, 0));
    CHECK(fairlock_sem_value(sem) == 0);
    GIVES(ECANCELED, fairlock_sem_wait_cancellable(sem, 1, &cancelled));
#define WAIT_UNTIL(clock, time) fairlock_sem_wait_until(sem, 1, clock, time)
    GIVES_UP_IN_TIME(WAIT_UNTIL);
    REFUSES_BAD_TIMES(WAIT_UNTIL);
    CHECK(!fairlock_sem_is_contended(sem));
    GIVES(0, fairlock_sem_post(sem, 3));
    REFUSES_BAD_TIMES(WAIT_UNTIL);
    GIVES(EINVAL, fairlock_sem_wait_cancellable(sem, 1, NULL));
    /* What is there is taken without a look at time or token. */
    GIVES(0, fairlock_sem_wait_until(sem, 1, CLOCK_REALTIME, &over));
    GIVES(0, fairlock_sem_wait_cancellable(sem, 1, &cancelled));
    GIVES(0, fairlock_sem_wait_interruptible(sem, 1));
    GIVES(0, fairlock_sem_post(sem, UINT32_MAX));
    GIVES(EOVERFLOW, fairlock_sem_post(sem, 1));
    CHECK(fairlock_sem_value(sem) == UINT32_MAX);
    GIVES(0, fairlock_sem_wait(sem, UINT32_MAX - 3));
}

static void every_way_to_make_one(void) {
    static fairlock_sem_t initialised = FAIRLOCK_SEM_INIT(3);
    static fairlock_sem_t zero;
    use(&initialised);
    GIVES(0, fairlock_sem_destroy(&initialised));
    CHECK(fairlock_sem_value(&zero) == 0);
    GIVES(0, fairlock_sem_post(&zero, 3));
    use(&zero);
    GIVES(0, fairlock_sem_destroy(&zero));
    memset(&zero, 0xff, sizeof zero);
    GIVES(0, fairlock_sem_init(&zero, 3));
    use(&zero);
    GIVES(0, fairlock_sem_destroy(&zero));
    GIVES(EINVAL, fairlock_sem_wait(&zero, 1));
}

static void no_semaphore(fairlock_sem_t *none) {
    GIVES(EINVAL, fairlock_sem_destroy(none));
    GIVES(EINVAL, fairlock_sem_wait(none, 1));
    GIVES(EINVAL, fairlock_sem_try_wait(none, 1));
    GIVES(EINVAL, fairlock_sem_wait_until(none, 1, CLOCK_MONOTONIC, &over));
    GIVES(EINVAL, fairlock_sem_wait_interruptible(none, 1));
    GIVES(EINVAL, fairlock_sem_wait_cancellable(none, 1, &cancelled));
    GIVES(EINVAL, fairlock_sem_post(none, 1));
    CHECK(fairlock_sem_value(none) == 0 && !fairlock_sem_is_contended(none));
}

static void what_is_no_semaphore(void) {
    fairlock_sem_t sem = FAIRLOCK_SEM_INIT(1);
    no_semaphore(NULL);
    no_semaphore((fairlock_sem_t *)((char *)&sem + 4));
    GIVES(EINVAL, fairlock_sem_init(NULL, 1));
    memset(&sem, 0x5a, sizeof sem);
    no_semaphore(&sem);
}

static fairlock_sem_t shared = FAIRLOCK_SEM_INIT(2);
static int has_all;

static void *take_all(void *unused) {
    GIVES(0, fairlock_sem_wait(&shared, 2));
    has_all = 1;
    GIVES(0, fairlock_sem_post(&shared, 2));
    return unused;
}

static void who_wants_many_is_not_passed(void) {
    int was_first;
    /* A waiter that does not run for a millisecond is passed: then once more. */
    do {
        has_all = 0;
        GIVES(0, fairlock_sem_wait(&shared, 1));
        pthread_t waiter = spawn(take_all, NULL);
        while (!fairlock_sem_is_contended(&shared)) {
            nap();
        }
        CHECK(fairlock_sem_value(&shared) == 1);
        GIVES(EBUSY, fairlock_sem_try_wait(&shared, 1));
        GIVES(EBUSY, fairlock_sem_destroy(&shared));
        GIVES(0, fairlock_sem_post(&shared, 1));
        GIVES(0, fairlock_sem_wait(&shared, 1));
        was_first = has_all;
        GIVES(0, fairlock_sem_post(&shared, 1));
        join(waiter);
    } while (!was_first);
}

static int wait_interruptible(void *sem) { return fairlock_sem_wait_interruptible(sem, 3); }

enum { EVENTS = 300 };
static struct event {
    fairlock_sem_t happened;
    int what;
} *next;
static fairlock_sem_t ready, done;

/* Tells of an event that whoever was told forgets at once. */
static void *tell(void *unused) {
    for (int i = 0; i < EVENTS; i++) {
        GIVES(0, fairlock_sem_wait(&ready, 1));
        struct event *event = next;
        event->what = i;
        GIVES(0, fairlock_sem_post(&event->happened, 1));
        GIVES(0, fairlock_sem_post(&done, 1));
    }
    return unused;
}

static void who_was_waited_for_may_still_be_in_the_call(void) {
    pthread_t teller = spawn(tell, NULL);
    for (int i = 0; i < EVENTS; i++) {
        struct event *event = calloc(1, sizeof *event);
        CHECK(event != NULL);
        next = event;
        GIVES(0, fairlock_sem_post(&ready, 1));
        GIVES(0, fairlock_sem_wait(&event->happened, 1));
        CHECK(event->what == i);
        GIVES(0, fairlock_sem_destroy(&event->happened));
        free(event);
        GIVES(0, fairlock_sem_wait(&done, 1));
    }
    join(teller);
    GIVES(0, fairlock_sem_destroy(&ready));
    GIVES(0, fairlock_sem_destroy(&done));
}

int main(void) {
    CHECK(sizeof(fairlock_sem_t) <= sizeof(sem_t));
    watchdog();
    GIVES(0, fairlock_cancel(&cancelled));
    every_way_to_make_one();
    what_is_no_semaphore();
    who_wants_many_is_not_passed();
    GIVES(EINTR, with_signals(wait_interruptible, &shared));
    CHECK(!fairlock_sem_is_contended(&shared) && fairlock_sem_value(&shared) == 2);
    who_was_waited_for_may_still_be_in_the_call();
    GIVES(0, fairlock_sem_destroy(&shared));
    return 0;
}

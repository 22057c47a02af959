/* Condition variables: results, order, mixes, cancellation, lifetimes, processes. */
#include "check.h"
#include <threads.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int waiting, tickets; /* guarded by the mutex */

static void lock(void) { EXPECT(pthread_mutex_lock(&mutex), 0); }
static void unlock(void) { EXPECT(pthread_mutex_unlock(&mutex), 0); }

static pthread_t start_thread(void *(*function)(void *), void *argument) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, function, argument), 0);
    return thread;
}

/* Until so many wait. */
static void until_waiting(int count) {
    for (;;) {
        lock();
        bool all = waiting == count;
        unlock();
        if (all)
            return;
        usleep(100);
    }
}

static void *take_ticket(void *unused) {
    lock();
    waiting++;
    while (!tickets)
        EXPECT(pthread_cond_wait(&cond, &mutex), 0);
    tickets--;
    waiting--;
    unlock();
    return unused;
}

static void results(void) {
    EXPECT(pthread_cond_signal(&cond), 0);
    EXPECT(pthread_cond_broadcast(&cond), 0);
    struct timespec past = {0}, none = {.tv_nsec = -1};
    lock();
    EXPECT(pthread_cond_timedwait(&cond, &mutex, &none), EINVAL);
    EXPECT(pthread_cond_timedwait(&cond, &mutex, &past), ETIMEDOUT);
    EXPECT(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &past), ETIMEDOUT);
    EXPECT(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &none), EINVAL);
    EXPECT(pthread_cond_clockwait(&cond, &mutex, CLOCK_THREAD_CPUTIME_ID, &past), EINVAL);
    EXPECT(pthread_mutex_trylock(&mutex), EBUSY);
    unlock();
    pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    EXPECT(pthread_cond_wait(&cond, &checking), EPERM);
    for (int i = 0; i < 2; i++) {
        pthread_t threads[8];
        for (int t = 0; t < 8; t++)
            threads[t] = start_thread(take_ticket, NULL);
        until_waiting(8);
        lock();
        tickets = 8;
        if (i)
            EXPECT(pthread_cond_broadcast(&cond), 0);
        unlock();
        for (int t = 0; !i && t < 8; t++)
            EXPECT(pthread_cond_signal(&cond), 0);
        for (int t = 0; t < 8; t++)
            pthread_join(threads[t], NULL);
        CHECK(tickets == 0 && waiting == 0);
    }
    EXPECT(pthread_cond_destroy(&cond), 0);
}

/* The one that waits longest is woken first. */
static int next_out;

static void *leave_in_order(void *place) {
    lock();
    waiting++;
    EXPECT(pthread_cond_wait(&cond, &mutex), 0);
    CHECK(next_out++ == (int)(size_t)place);
    unlock();
    return NULL;
}

static void order(void) {
    if (!ours)
        return; /* glibc promises less */
    pthread_t threads[8];
    for (size_t t = 0; t < 8; t++) {
        threads[t] = start_thread(leave_in_order, (void *)t);
        until_waiting(t + 1);
    }
    /* A broadcast wakes all at once, and they come to the mutex as they run. */
    for (int t = 0; t < 8; t++) {
        EXPECT(pthread_cond_signal(&cond), 0);
        pthread_join(threads[t], NULL);
    }
}

static void both_clocks(void) {
    const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    for (int c = 0; c < 2; c++) {
        pthread_condattr_t attributes;
        pthread_cond_t timed;
        EXPECT(pthread_condattr_init(&attributes), 0);
        EXPECT(pthread_condattr_setclock(&attributes, clocks[c]), 0);
        EXPECT(pthread_cond_init(&timed, &attributes), 0);
        lock();
        struct timespec soon = in_ms(clocks[c], 20);
        EXPECT(pthread_cond_timedwait(&timed, &mutex, &soon), ETIMEDOUT);
        CHECK(has_passed(clocks[c], soon));
        soon = in_ms(clocks[!c], 20);
        EXPECT(pthread_cond_clockwait(&timed, &mutex, clocks[!c], &soon), ETIMEDOUT);
        CHECK(has_passed(clocks[!c], soon));
        unlock();
        EXPECT(pthread_cond_destroy(&timed), 0);
    }
}

/* A queue with room for four; every item arrives once, whoever times out or wakes whom. */
enum { PRODUCERS = 3, CONSUMERS = 3, ITEMS = 3000 };
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t *queue_mutex = &mutex;
static int room = 4, filled, produced, consumed;

static void wait_a_while(pthread_cond_t *what, unsigned *seed) {
    struct timespec soon = in_ms(CLOCK_REALTIME, rand_r(seed) % 3);
    if (rand_r(seed) % 2)
        EXPECT(pthread_cond_wait(what, queue_mutex), 0);
    else {
        int result = pthread_cond_timedwait(what, queue_mutex, &soon);
        CHECK(result == 0 || result == ETIMEDOUT);
    }
}

static void *produce(void *unused) {
    unsigned seed = gettid();
    for (;;) {
        EXPECT(pthread_mutex_lock(queue_mutex), 0);
        while (filled == room && produced < ITEMS)
            wait_a_while(&not_full, &seed);
        bool last = produced == ITEMS;
        if (!last)
            produced++, filled++;
        CHECK(filled <= room);
        EXPECT(last || produced == ITEMS ? pthread_cond_broadcast(&not_empty)
                                         : pthread_cond_signal(&not_empty), 0);
        if (last)
            EXPECT(pthread_cond_broadcast(&not_full), 0);
        EXPECT(pthread_mutex_unlock(queue_mutex), 0);
        if (last)
            return unused;
    }
}

static void *consume(void *unused) {
    unsigned seed = gettid();
    for (;;) {
        EXPECT(pthread_mutex_lock(queue_mutex), 0);
        while (filled == 0 && consumed < ITEMS)
            wait_a_while(&not_empty, &seed);
        bool last = consumed == ITEMS;
        if (!last)
            consumed++, filled--;
        EXPECT(pthread_mutex_unlock(queue_mutex), 0);
        EXPECT(last || consumed == ITEMS ? pthread_cond_broadcast(&not_empty)
                                         : pthread_cond_signal(&not_full), 0);
        if (last)
            return unused;
    }
}

static void run_queue(void) {
    filled = produced = consumed = 0;
    pthread_t threads[PRODUCERS + CONSUMERS];
    for (int t = 0; t < PRODUCERS + CONSUMERS; t++)
        threads[t] = start_thread(t < PRODUCERS ? produce : consume, NULL);
    for (int t = 0; t < PRODUCERS + CONSUMERS; t++)
        pthread_join(threads[t], NULL);
    CHECK(filled == 0 && consumed == ITEMS);
}

static void producers(void) { run_queue(); }

/* With every kind of mutex, ours and glibc's. */
static void mixed(void) {
    for (int kind = 0; kind < 4; kind++)
        for (int robust = 0; robust < 2; robust++)
            for (int protocol = 0; protocol < 2; protocol++) {
                pthread_mutexattr_t attributes;
                pthread_mutex_t m;
                EXPECT(pthread_mutexattr_init(&attributes), 0);
                EXPECT(pthread_mutexattr_settype(&attributes, kind), 0);
                EXPECT(pthread_mutexattr_setrobust(&attributes, robust), 0);
                EXPECT(pthread_mutexattr_setprotocol(&attributes, protocol), 0);
                EXPECT(pthread_mutex_init(&m, &attributes), 0);
                queue_mutex = &m;
                run_queue();
                EXPECT(pthread_mutex_destroy(&m), 0);
            }
}

/* Shared condition variables are glibc's, the mutex is ours. */
static void share(pthread_cond_t *c) {
    pthread_condattr_t attributes;
    EXPECT(pthread_condattr_init(&attributes), 0);
    EXPECT(pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
    EXPECT(pthread_cond_init(c, &attributes), 0);
}

static void shared_with_ours(void) {
    share(&not_full);
    share(&not_empty);
    run_queue();
    EXPECT(pthread_cond_destroy(&not_full), 0);
}

/* Who is cancelled has the mutex while it cleans up. */
static _Atomic int cleaned;

static void clean_up(void *m) {
    EXPECT(pthread_mutex_trylock(m), EBUSY);
    waiting--;
    cleaned++;
    EXPECT(pthread_mutex_unlock(m), 0);
}

static bool timed, disabled;

static void *wait_until_cancelled(void *unused) {
    int before;
    struct timespec late = far_away(CLOCK_REALTIME);
    if (disabled)
        EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
    lock();
    pthread_cleanup_push(clean_up, &mutex);
    waiting++;
    while (!tickets)
        EXPECT(timed ? pthread_cond_timedwait(&cond, &mutex, &late)
                     : pthread_cond_wait(&cond, &mutex), 0);
    EXPECT(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before), 0);
    CHECK(disabled == (before == PTHREAD_CANCEL_DISABLE));
    pthread_cleanup_pop(1);
    return unused;
}

static void cancelled(void) {
    for (int i = 0; i < 40; i++) {
        timed = i % 2;
        disabled = i % 4 == 3;
        tickets = 0;
        pthread_t thread = start_thread(wait_until_cancelled, NULL);
        if (i % 8 < 4)
            until_waiting(1);
        EXPECT(pthread_cancel(thread), 0);
        if (disabled) {
            until_waiting(1);
            usleep(1000);
            lock();
            CHECK(waiting == 1);
            tickets = 1;
            EXPECT(pthread_cond_signal(&cond), 0);
            unlock();
        }
        void *result;
        pthread_join(thread, &result);
        CHECK(result == (disabled ? NULL : PTHREAD_CANCELED));
        lock();
        CHECK(waiting == 0);
        unlock();
    }
    CHECK(cleaned == 40);
}

static void cancelled_shared(void) {
    share(&cond);
    cancelled();
}

/* Who was cancelled may wait while it cleans up, for as long as others do. */
static bool went_on;

static void wait_and_clean_up(void *unused) {
    (void)unused;
    int returned = 0, result;
    struct timespec soon = in_ms(CLOCK_REALTIME, 50);
    do
        result = pthread_cond_timedwait(&cond, &mutex, &soon);
    while (!result && ++returned < 5);
    EXPECT(result, ETIMEDOUT);
    CHECK(has_passed(CLOCK_REALTIME, soon));
    waiting = 2;
    while (!went_on && ++returned < 5)
        EXPECT(pthread_cond_wait(&cond, &mutex), 0);
    CHECK(went_on);
    waiting--;
    unlock();
}

static bool pauses;

static void *clean_up_at_leisure(void *unused) {
    lock();
    pthread_cleanup_push(wait_and_clean_up, NULL);
    waiting = 1;
    while (pauses)
        pause();
    for (;;)
        EXPECT(pthread_cond_wait(&cond, &mutex), 0);
    pthread_cleanup_pop(0);
    return unused;
}

static void waits_when_cancelled(void) {
    for (int i = 0; i < 8; i++) {
        pauses = i % 2;
        went_on = false;
        pthread_t thread = start_thread(clean_up_at_leisure, NULL);
        if (pauses)
            usleep(2000); /* it holds the mutex */
        else if (i % 4)
            until_waiting(1);
        EXPECT(pthread_cancel(thread), 0);
        until_waiting(2);
        usleep(10000);
        lock();
        went_on = true;
        EXPECT(pthread_cond_signal(&cond), 0);
        unlock();
        void *result;
        pthread_join(thread, &result);
        CHECK(result == PTHREAD_CANCELED && waiting == 1);
        waiting = 0;
    }
}

/* Whenever it is cancelled, a thread ends. */
static _Atomic int started;

static void spin(unsigned steps) {
    for (volatile unsigned i = 0; i < steps; i++)
        ;
}

static void wait_and_unlock(void *seed) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 1);
    if (rand_r(seed) % 8 == 0)
        while (!pthread_cond_timedwait(&cond, &mutex, &soon))
            ;
    unlock();
}

static void *wait_at_any_time(void *argument) {
    unsigned seed = (size_t)argument;
    lock();
    pthread_cleanup_push(wait_and_unlock, &seed);
    struct timespec past = {0};
    if (rand_r(&seed) % 2) /* it is no new thread for the library then */
        pthread_cond_timedwait(&cond, &mutex, &past);
    started++;
    spin(rand_r(&seed) % 4000);
    for (;;)
        EXPECT(pthread_cond_wait(&cond, &mutex), 0);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *cancel_it(void *thread) {
    EXPECT(pthread_cancel(*(pthread_t *)thread), 0);
    return NULL;
}

static void cancelled_at_any_time(void) {
    unsigned seed = 1;
    for (size_t i = 0; i < 2000; i++) {
        started = 0;
        pthread_t thread = start_thread(wait_at_any_time, (void *)i), other;
        while (i % 4 && !started)
            ;
        spin(rand_r(&seed) % 4000);
        bool both = i % 16 == 0;
        if (both)
            other = start_thread(cancel_it, &thread);
        EXPECT(pthread_cancel(thread), 0);
        if (both)
            pthread_join(other, NULL);
        void *result;
        pthread_join(thread, &result);
        CHECK(result == PTHREAD_CANCELED);
    }
}

/* A signal beside a cancellation reaches somebody. */
static void unlock_mutex(void *m) { EXPECT(pthread_mutex_unlock(m), 0); }
static _Atomic int got;

static void *wait_for_one(void *unused) {
    lock();
    pthread_cleanup_push(unlock_mutex, &mutex);
    waiting++;
    while (!tickets)
        EXPECT(pthread_cond_wait(&cond, &mutex), 0);
    tickets--;
    got++;
    pthread_cleanup_pop(1);
    return unused;
}

static void cancelled_or_notified(void) {
    for (int i = 0; i < 300; i++) {
        waiting = tickets = got = 0;
        pthread_t one = start_thread(wait_for_one, NULL), other = start_thread(wait_for_one, NULL);
        until_waiting(2);
        lock();
        tickets = 1;
        if (i % 3)
            EXPECT(pthread_cond_signal(&cond), 0);
        EXPECT(pthread_cancel(one), 0);
        if (i % 3 == 0)
            EXPECT(pthread_cond_signal(&cond), 0);
        unlock();
        void *result;
        pthread_join(one, &result);
        /* Either it was cancelled, and the other has the signal; or it took the ticket. */
        if (result == PTHREAD_CANCELED && !got) {
            while (!got)
                sched_yield();
        }
        CHECK(got == 1);
        if (result != PTHREAD_CANCELED)
            EXPECT(pthread_cancel(other), 0);
        pthread_join(other, NULL);
    }
}

/* The memory may go once all were woken. */
struct box {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int waiting;
    bool go;
};

static void *wait_in_box(void *argument) {
    struct box *b = argument;
    EXPECT(pthread_mutex_lock(&b->mutex), 0);
    b->waiting++;
    while (!b->go)
        EXPECT(pthread_cond_wait(&b->cond, &b->mutex), 0);
    b->waiting--;
    EXPECT(pthread_mutex_unlock(&b->mutex), 0);
    return NULL;
}

static void freed_after_broadcast(void) {
    for (int i = 0; i < 300; i++) {
        struct box *b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(pthread_mutex_init(&b->mutex, NULL), 0);
        EXPECT(pthread_cond_init(&b->cond, NULL), 0);
        pthread_t threads[3];
        for (int t = 0; t < 3; t++)
            threads[t] = start_thread(wait_in_box, b);
        for (bool all = false; !all; usleep(20)) {
            EXPECT(pthread_mutex_lock(&b->mutex), 0);
            all = b->waiting == 3;
            EXPECT(pthread_mutex_unlock(&b->mutex), 0);
        }
        EXPECT(pthread_mutex_lock(&b->mutex), 0);
        b->go = true;
        EXPECT(pthread_cond_broadcast(&b->cond), 0);
        EXPECT(pthread_cond_destroy(&b->cond), 0);
        memset(&b->cond, 0xff, sizeof b->cond);
        EXPECT(pthread_mutex_unlock(&b->mutex), 0);
        for (int t = 0; t < 3; t++)
            pthread_join(threads[t], NULL);
        munmap(b, 4096);
    }
}

/* Bytes that somebody waits in, copied, are another one that nobody waits for. */
static void copied(void) {
    pthread_t thread = start_thread(take_ticket, NULL);
    until_waiting(1);
    lock();
    unlock();
    if (ours) {
        pthread_cond_t copy = cond;
        EXPECT(pthread_cond_signal(&copy), 0);
        EXPECT(pthread_cond_broadcast(&copy), 0);
        struct timespec past = {0};
        lock();
        EXPECT(pthread_cond_timedwait(&copy, &mutex, &past), ETIMEDOUT);
        unlock();
    }
    lock();
    tickets = 1;
    unlock();
    EXPECT(pthread_cond_signal(&cond), 0);
    pthread_join(thread, NULL);
}

/* In the child nobody waits. */
static void forked(void) {
    pthread_t threads[3];
    for (int t = 0; t < 3; t++)
        threads[t] = start_thread(take_ticket, NULL);
    until_waiting(3);
    lock();
    pid_t child = fork();
    if (!child) {
        unlock();
        waiting = 0;
        if (!ours)
            cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* glibc's has the parent's waiters */
        EXPECT(pthread_cond_broadcast(&cond), 0);
        pthread_t one = start_thread(take_ticket, NULL);
        until_waiting(1);
        lock();
        tickets = 1;
        EXPECT(pthread_cond_signal(&cond), 0);
        unlock();
        pthread_join(one, NULL);
        _exit(0);
    }
    tickets = 3;
    EXPECT(pthread_cond_broadcast(&cond), 0);
    unlock();
    for (int t = 0; t < 3; t++)
        pthread_join(threads[t], NULL);
    join_child(child);
}

static void exits_with_waiters(void) {
    start_thread(take_ticket, NULL);
    start_thread(take_ticket, NULL);
    until_waiting(2);
    exit(0);
}

static mtx_t c11_mutex;
static cnd_t c11_cond;

static int c11_wait(void *unused) {
    (void)unused;
    CHECK(mtx_lock(&c11_mutex) == thrd_success);
    waiting++;
    while (!tickets)
        CHECK(cnd_wait(&c11_cond, &c11_mutex) == thrd_success);
    CHECK(mtx_unlock(&c11_mutex) == thrd_success);
    return 7;
}

static void c11(void) {
    CHECK(mtx_init(&c11_mutex, mtx_plain) == thrd_success);
    CHECK(cnd_init(&c11_cond) == thrd_success);
    CHECK(mtx_lock(&c11_mutex) == thrd_success);
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    CHECK(cnd_timedwait(&c11_cond, &c11_mutex, &soon) == thrd_timedout);
    thrd_t threads[2];
    for (int t = 0; t < 2; t++)
        CHECK(thrd_create(&threads[t], c11_wait, NULL) == thrd_success);
    while (waiting < 2) {
        CHECK(mtx_unlock(&c11_mutex) == thrd_success);
        thrd_yield();
        CHECK(mtx_lock(&c11_mutex) == thrd_success);
    }
    tickets = 1;
    CHECK(cnd_signal(&c11_cond) == thrd_success);
    CHECK(cnd_broadcast(&c11_cond) == thrd_success);
    CHECK(mtx_unlock(&c11_mutex) == thrd_success);
    for (int t = 0, result; t < 2; t++)
        CHECK(thrd_join(threads[t], &result) == thrd_success && result == 7);
    cnd_destroy(&c11_cond);
    mtx_destroy(&c11_mutex);
}

static _Atomic int woken;
static _Atomic bool in_handler;

/* Goes on when the other waiter has been woken. */
static void wait_for_the_other(int signal) {
    (void)signal;
    in_handler = true;
    while (!woken)
        sched_yield();
}

static void *wait_and_count(void *first) {
    lock();
    waiting++;
    while (!tickets)
        pthread_cond_wait(&cond, &mutex);
    unlock();
    if (!first)
        woken = 1;
    return NULL;
}

/* No waiter is needed to wake the next one. */
static void broadcast_wakes_all(void) {
    signal(SIGUSR1, wait_for_the_other);
    pthread_t first = start_thread(wait_and_count, &first);
    until_waiting(1);
    pthread_t second = start_thread(wait_and_count, NULL);
    until_waiting(2);
    pthread_kill(first, SIGUSR1);
    while (!in_handler)
        sched_yield();
    lock();
    tickets = 1;
    EXPECT(pthread_cond_broadcast(&cond), 0);
    unlock();
    pthread_join(first, NULL);
    pthread_join(second, NULL);
}

static _Atomic int resumes, stopped;
static _Atomic bool done;

/* As the handler of a collector. */
static void stop_here(int signal) {
    (void)signal;
    int seen = resumes;
    stopped++;
    while (resumes == seen)
        usleep(100);
}

enum { CONDS = 4096 };
static pthread_cond_t conds[CONDS];

static void *wait_and_signal(void *shared) {
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t at = PTHREAD_COND_INITIALIZER;
    if (shared)
        share(&at);
    EXPECT(pthread_mutex_lock(&own), 0);
    while (!done) {
        struct timespec past = {0};
        if (!shared) /* which would mostly be in the kernel */
            EXPECT(pthread_cond_timedwait(&at, &own, &past), ETIMEDOUT);
        EXPECT(pthread_cond_signal(&at), 0);
    }
    EXPECT(pthread_mutex_unlock(&own), 0);
    return NULL;
}

/* While threads are stopped wherever they are, waits at all other conditions begin and end. */
static void stop_elsewhere(int rounds, void *shared) {
    signal(SIGUSR1, stop_here);
    pthread_t threads[3];
    for (int t = 0; t < 3; t++)
        threads[t] = start_thread(wait_and_signal, shared);
    lock();
    for (int round = 0; round < rounds; round++) {
        stopped = 0;
        for (int t = 0; t < 3; t++)
            EXPECT(pthread_kill(threads[t], SIGUSR1), 0);
        while (stopped < 3)
            sched_yield();
        for (int c = 0; c < CONDS; c++) {
            struct timespec past = {0};
            EXPECT(pthread_cond_timedwait(&conds[c], &mutex, &past), ETIMEDOUT);
            EXPECT(pthread_cond_signal(&conds[c]), 0);
        }
        resumes++;
    }
    unlock();
    done = true;
    for (int t = 0; t < 3; t++)
        pthread_join(threads[t], NULL);
}

static void stopped_elsewhere(void) { stop_elsewhere(200, NULL); }

static void stopped_elsewhere_shared(void) {
    for (int c = 0; c < CONDS; c++)
        share(&conds[c]);
    stop_elsewhere(50, conds);
}

static pthread_mutex_t *used;

static void *wait_with(void *unused) {
    (void)unused;
    EXPECT(pthread_mutex_lock(used), 0);
    waiting++;
    while (!tickets)
        EXPECT(pthread_cond_wait(&cond, used), 0);
    EXPECT(pthread_mutex_unlock(used), 0);
    return NULL;
}

/* Not before the wait has ended. */
static void destroys_mutex_of_waiter(void) {
    for (int inherits = 0; inherits < 2; inherits++) {
        pthread_mutexattr_t attributes;
        EXPECT(pthread_mutexattr_init(&attributes), 0);
        EXPECT(pthread_mutexattr_setprotocol(
                   &attributes, inherits ? PTHREAD_PRIO_INHERIT : PTHREAD_PRIO_NONE),
               0);
        pthread_mutex_t m;
        EXPECT(pthread_mutex_init(&m, &attributes), 0);
        used = &m;
        waiting = tickets = 0;
        pthread_t thread = start_thread(wait_with, NULL);
        for (bool waits = false; !waits;) {
            EXPECT(pthread_mutex_lock(&m), 0);
            waits = waiting == 1;
            EXPECT(pthread_mutex_unlock(&m), 0);
        }
        EXPECT(pthread_mutex_destroy(&m), EBUSY);
        EXPECT(pthread_mutex_lock(&m), 0);
        tickets = 1;
        EXPECT(pthread_cond_signal(&cond), 0);
        EXPECT(pthread_mutex_unlock(&m), 0);
        pthread_join(thread, NULL);
        EXPECT(pthread_mutex_destroy(&m), 0);
    }
}

/* An invalid time is found before that the mutex is not held. */
static void invalid_time_comes_first(void) {
    static pthread_mutex_t checks = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    struct timespec invalid = {.tv_nsec = -1}, soon = in_ms(CLOCK_REALTIME, 1);
    for (int shared = 0; shared < 2; shared++) {
        pthread_condattr_t attributes;
        EXPECT(pthread_condattr_init(&attributes), 0);
        EXPECT(pthread_condattr_setpshared(&attributes, shared), 0);
        pthread_cond_t c;
        EXPECT(pthread_cond_init(&c, &attributes), 0);
        EXPECT(pthread_cond_timedwait(&c, &checks, &invalid), EINVAL);
        EXPECT(pthread_cond_clockwait(&c, &checks, CLOCK_MONOTONIC, &invalid), EINVAL);
        EXPECT(pthread_cond_timedwait(&c, &checks, &soon), EPERM);
        EXPECT(pthread_mutex_lock(&checks), 0);
        EXPECT(pthread_mutex_unlock(&checks), 0);
        EXPECT(pthread_cond_destroy(&c), 0);
    }
    EXPECT(pthread_mutex_destroy(&checks), 0);
}

TESTS({"results", results}, {"order", order}, {"both_clocks", both_clocks},
      {"producers", producers}, {"mixed", mixed}, {"shared_with_ours", shared_with_ours},
      {"cancelled", cancelled}, {"cancelled_or_notified", cancelled_or_notified},
      {"waits_when_cancelled", waits_when_cancelled},
      {"cancelled_at_any_time", cancelled_at_any_time},
      {"freed_after_broadcast", freed_after_broadcast}, {"copied", copied}, {"forked", forked},
      {"exits_with_waiters", exits_with_waiters}, {"c11", c11},
      {"broadcast_wakes_all", broadcast_wakes_all}, {"stopped_elsewhere", stopped_elsewhere},
      {"stopped_elsewhere_shared", stopped_elsewhere_shared}, {"cancelled_shared", cancelled_shared},
      {"destroys_mutex_of_waiter", destroys_mutex_of_waiter},
      {"invalid_time_comes_first", invalid_time_comes_first})

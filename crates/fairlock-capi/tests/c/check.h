/* What the tests of the C interface share: checks, a watchdog, times. */
#ifndef CHECK_H
#define CHECK_H

#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fairlock.h"

/* Fails the test unless `what` holds. */
#define CHECK(what)                                                                          \
    do {                                                                                     \
        if (!(what)) {                                                                       \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);               \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

/* What no call sets. */
#define UNTOUCHED 4711

/* Fails the test unless `call` returns `code`, and leaves errno as it was. */
#define GIVES(code, call)                                                                    \
    do {                                                                                     \
        errno = UNTOUCHED;                                                                   \
        int result = (call);                                                                 \
        if (errno != UNTOUCHED && strncmp(#call, "fairlock_", 9) == 0) {                     \
            fprintf(stderr, "%s:%d: %s sets errno to %d\n", __FILE__, __LINE__, #call,       \
                    errno);                                                                  \
            exit(1);                                                                         \
        }                                                                                    \
        if (result != (code)) {                                                              \
            fprintf(stderr, "%s:%d: %s gives %d, not %s\n", __FILE__, __LINE__, #call,       \
                    result, #code);                                                          \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

/* Ends a test that hangs. */
static inline void watchdog(void) { alarm(500); }

/* So many milliseconds from now. */
static inline struct timespec after_ms(int clock, long ms) {
    struct timespec t;
    CHECK(clock_gettime(clock, &t) == 0);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* Whether that time has come. */
static inline int is_over(int clock, struct timespec t) {
    struct timespec now = after_ms(clock, 0);
    return now.tv_sec > t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec >= t.tv_nsec);
}

static inline pthread_t spawn(void *(*run)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, argument) == 0);
    return thread;
}

static inline void join(pthread_t thread) { CHECK(pthread_join(thread, NULL) == 0); }

static inline void nap(void) {
    struct timespec millisecond = {0, 1000000};
    nanosleep(&millisecond, NULL);
}

/* Sends this signal to a thread again and again until it says that it is done. */
struct pester {
    pthread_t victim;
    pthread_mutex_t mutex;
    int done;
};

static inline int is_done(struct pester *p, int now) {
    pthread_mutex_lock(&p->mutex);
    p->done |= now;
    int done = p->done;
    pthread_mutex_unlock(&p->mutex);
    return done;
}

static inline void handle_signal(int signal) { (void)signal; }

static inline void *pester(void *argument) {
    struct pester *p = argument;
    while (!is_done(p, 0)) {
        nap();
        pthread_kill(p->victim, SIGUSR1);
    }
    return NULL;
}

/* What `wait(object)` returns while signals arrive, installed with SA_RESTART. */
static inline int with_signals(int (*wait)(void *), void *object) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle_signal;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    struct pester p = {pthread_self(), PTHREAD_MUTEX_INITIALIZER, 0};
    pthread_t thread = spawn(pester, &p);
    int result = wait(object);
    is_done(&p, 1);
    join(thread);
    return result;
}

/* Times that no call accepts, and one that is over. */
static const struct timespec too_small = {0, -1};
static const struct timespec too_large = {0, 1000000000};
static const struct timespec over = {0, 0};
static const struct timespec long_over = {-1, 999999999};

/* Checks the clock and time arguments of `call(clock, time)`, which waits in vain. */
#define GIVES_UP_IN_TIME(call)                                                               \
    do {                                                                                     \
        const int clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME};                              \
        for (int c = 0; c < 2; c++) {                                                        \
            struct timespec soon = after_ms(clocks[c], 20);                                  \
            GIVES(ETIMEDOUT, call(clocks[c], &soon));                                        \
            CHECK(is_over(clocks[c], soon));                                                 \
            GIVES(ETIMEDOUT, call(clocks[c], &over));                                        \
            GIVES(ETIMEDOUT, call(clocks[c], &long_over));                                   \
        }                                                                                    \
    } while (0)

/* The same for times that are none, whether or not there is something to wait for. */
#define REFUSES_BAD_TIMES(call)                                                              \
    do {                                                                                     \
        GIVES(EINVAL, call(CLOCK_MONOTONIC, &too_small));                                    \
        GIVES(EINVAL, call(CLOCK_REALTIME, &too_large));                                     \
        GIVES(EINVAL, call(CLOCK_REALTIME, NULL));                                           \
        GIVES(EINVAL, call(CLOCK_PROCESS_CPUTIME_ID, &over));                                \
        GIVES(EINVAL, call(-1, &over));                                                      \
    } while (0)

#endif

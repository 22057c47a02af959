/* What the test programs share. Each runs the test that its argument names, and fails
   with a line that says why. The same programs run on glibc's locks and on ours. */
#ifndef CHECK_H
#define CHECK_H

#define _GNU_SOURCE

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* Whether the locks are ours. */
static bool ours;

#define FAIL(...)                                        \
    do {                                                 \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);  \
        fprintf(stderr, __VA_ARGS__);                    \
        fputc('\n', stderr);                             \
        _exit(1);                                        \
    } while (0)

/* What no call sets. */
#define UNTOUCHED 4711

/* Whether this is a call of a lock, which leaves errno as it was. */
#define KEEPS_ERRNO(call)                                                           \
    (strncmp(call, "pthread_rwlock_", 15) == 0 || strncmp(call, "pthread_mutex_", 14) == 0 || \
     strncmp(call, "pthread_cond_", 13) == 0)

/* EXPECT(pthread_rwlock_tryrdlock(&lock), EBUSY) */
#define EXPECT(call, result)                                                        \
    do {                                                                            \
        int expected_ = (result);                                                   \
        errno = UNTOUCHED;                                                          \
        int got_ = (call);                                                          \
        if (errno != UNTOUCHED && KEEPS_ERRNO(#call))                               \
            FAIL("%s sets errno to %d", #call, errno);                              \
        if (got_ != expected_)                                                      \
            FAIL("%s: %d (%s), not %d", #call, got_, strerror(got_), expected_);    \
    } while (0)

#define CHECK(condition)                 \
    do {                                 \
        if (!(condition))                \
            FAIL("not: %s", #condition); \
    } while (0)

struct test {
    const char *name;
    void (*run)(void);
};

/* TESTS({"name", function}, ...) */
#define TESTS(...)                                                      \
    static const struct test tests_[] = {__VA_ARGS__};                  \
    int main(int argc, char **argv) {                                   \
        return run_test(tests_, sizeof tests_ / sizeof *tests_, argc, argv); \
    }

/* Ends a process that waits for ever. A child has to ask for it, too. It is the only limit: what a machine that is busy
   takes may be many times what it takes alone. */
static inline void watchdog(void) { alarm(500); }

static inline int run_test(const struct test *tests, size_t count, int argc, char **argv) {
    const char *preload = getenv("LD_PRELOAD");
    ours = preload && strstr(preload, "fairlock");
    watchdog();
    for (size_t i = 0; argc == 2 && i < count; i++)
        if (!strcmp(tests[i].name, argv[1])) {
            tests[i].run();
            return 0;
        }
    FAIL("usage: %s TEST", argv[0]);
}

/* The time of a clock, and so many milliseconds. */
static inline struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    if (t.tv_nsec < 0) {
        t.tv_nsec += 1000000000;
        t.tv_sec--;
    }
    return t;
}

/* A time that does not come, also where the clock is set meanwhile. */
static inline struct timespec far_away(clockid_t clock) { return in_ms(clock, 1000000000); }

static inline bool has_passed(clockid_t clock, struct timespec t) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec > t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec >= t.tv_nsec);
}

/* A thread that makes one call and keeps what it returned. */
struct caller {
    pthread_t thread;
    int (*call)(pthread_rwlock_t *);
    pthread_rwlock_t *lock;
    _Atomic pid_t tid;
    _Atomic bool done;
    int result;
};

static inline void *call_it(void *argument) {
    struct caller *c = argument;
    c->tid = gettid();
    c->result = c->call(c->lock);
    c->done = true;
    return NULL;
}

static inline void start(struct caller *c, int (*call)(pthread_rwlock_t *), pthread_rwlock_t *l) {
    *c = (struct caller){.call = call, .lock = l};
    EXPECT(pthread_create(&c->thread, NULL, call_it, c), 0);
}

/* Waits until the call has returned. */
static inline int result(struct caller *c) {
    pthread_join(c->thread, NULL);
    return c->result;
}

/* Makes the call in another thread. */
static inline int elsewhere(int (*call)(pthread_rwlock_t *), pthread_rwlock_t *lock) {
    struct caller c;
    start(&c, call, lock);
    return result(&c);
}

/* Waits for a child, which must be well. */
static inline void join_child(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        FAIL("the child ended with status 0x%x", status);
}

/* What /proc says of the thread; zero if it is gone. */
static inline char state_of(pid_t tid) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    FILE *f = fopen(path, "r");
    bool found = f && fgets(line, sizeof line, f);
    if (f)
        fclose(f);
    return found ? strrchr(line, ')')[2] : 0;
}

/* Waits until the thread sleeps. */
static inline void sleeps(pid_t tid) {
    for (char state; (state = state_of(tid)) != 'S'; usleep(200))
        CHECK(state);
}

/* The same, which it does in the call only. */
static inline void wait_until_asleep(struct caller *c) {
    while (!c->tid)
        sched_yield();
    sleeps(c->tid);
    CHECK(!c->done);
}

static inline int write_and_unlock(pthread_rwlock_t *lock) {
    int result = pthread_rwlock_wrlock(lock);
    if (result == 0)
        EXPECT(pthread_rwlock_unlock(lock), 0);
    return result;
}

static inline int read_and_unlock(pthread_rwlock_t *lock) {
    int result = pthread_rwlock_rdlock(lock);
    if (result == 0)
        EXPECT(pthread_rwlock_unlock(lock), 0);
    return result;
}

/* Waits for the lock, which is held, for long enough to queue: a lock of ours has a slot from there on. */
static inline int wait_in_vain(pthread_rwlock_t *lock) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 0);
    soon.tv_nsec += 50000;
    if (soon.tv_nsec >= 1000000000)
        soon = (struct timespec){.tv_sec = soon.tv_sec + 1};
    return pthread_rwlock_timedwrlock(lock, &soon);
}

/* Somebody has waited for the lock, which nobody holds. */
static inline void contend(pthread_rwlock_t *lock) {
    EXPECT(pthread_rwlock_rdlock(lock), 0);
    EXPECT(wait_in_vain(lock), ETIMEDOUT);
    EXPECT(pthread_rwlock_unlock(lock), 0);
}

#endif

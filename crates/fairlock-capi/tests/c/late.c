/* A wait whose time is over, or that is ended otherwise, while the lock was released meanwhile: its
 * last act is a try, so it has the lock. A signal handler keeps the waiter until both are so. */
#define _GNU_SOURCE
#include "check.h"
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static fairlock_rwlock_t rwlock = FAIRLOCK_RWLOCK_INIT;
static fairlock_mutex_t mutex = FAIRLOCK_MUTEX_INIT;
static fairlock_mutex_t batched = FAIRLOCK_MUTEX_INIT_BATCH(4);
static fairlock_sem_t sem = FAIRLOCK_SEM_INIT(0);
static fairlock_range_lock_t ranges = FAIRLOCK_RANGE_LOCK_INIT;
static fairlock_range_t held = FAIRLOCK_RANGE_INIT, wanted = FAIRLOCK_RANGE_INIT;
static fairlock_cancel_t token = FAIRLOCK_CANCEL_INIT;
static struct timespec deadline;
static volatile sig_atomic_t in_handler, may_leave;
static volatile pid_t waiting;

static void stay(int signal) {
    (void)signal;
    in_handler = 1;
    while (!may_leave || !is_over(CLOCK_MONOTONIC, deadline)) {
    }
}

/* Each kind of wait, and what gives it what it waits for. */
#define WAITS(function, ...)                                                           \
    static int function##_until_(void) {                                                     \
        return fairlock_##function##_until(__VA_ARGS__, CLOCK_MONOTONIC, &deadline);         \
    }                                                                                        \
    static int function##_cancellable_(void) {                                               \
        return fairlock_##function##_cancellable(__VA_ARGS__, &token);                       \
    }                                                                                        \
    static int function##_interruptible_(void) {                                             \
        return fairlock_##function##_interruptible(__VA_ARGS__);                             \
    }
WAITS(rwlock_read, &rwlock)
WAITS(rwlock_read_recursive, &rwlock)
WAITS(rwlock_write, &rwlock)
WAITS(mutex_lock, &mutex)
WAITS(sem_wait, &sem, 1)
WAITS(range_read, &ranges, &wanted, 0, 9)
WAITS(range_read_recursive, &ranges, &wanted, 0, 9)
WAITS(range_write, &ranges, &wanted, 0, 9)
static int batched_until_(void) {
    return fairlock_mutex_lock_until(&batched, CLOCK_MONOTONIC, &deadline);
}
static int batched_cancellable_(void) { return fairlock_mutex_lock_cancellable(&batched, &token); }
static int batched_interruptible_(void) { return fairlock_mutex_lock_interruptible(&batched); }

static int hold_rwlock(void) { return fairlock_rwlock_write(&rwlock); }
static int free_rwlock(void) { return fairlock_rwlock_unlock_write(&rwlock); }
static int free_reader(void) { return fairlock_rwlock_unlock_read(&rwlock); }
static int hold_mutex(void) { return fairlock_mutex_lock(&mutex); }
static int free_mutex(void) { return fairlock_mutex_unlock(&mutex); }
static int hold_batched(void) { return fairlock_mutex_lock(&batched); }
static int free_batched(void) { return fairlock_mutex_unlock(&batched); }
static int hold_sem(void) { return 0; }
static int free_sem(void) { return fairlock_sem_post(&sem, 1); }
static int used_sem(void) { return 0; }
static int hold_range(void) { return fairlock_range_write(&ranges, &held, 0, 9); }
static int free_range(void) { return fairlock_range_unlock(&held); }
static int free_wanted(void) { return fairlock_range_unlock(&wanted); }

struct wait {
    const char *name;
    int (*wait)(void);
    int (*hold)(void), (*give)(void), (*end)(void);
};
#define EACH(function, hold, give, end)                                                      \
    {#function "_until", function##_until_, hold, give, end},                                \
        {#function "_cancellable", function##_cancellable_, hold, give, end}, {              \
        #function "_interruptible", function##_interruptible_, hold, give, end               \
    }
static const struct wait waits[] = {
    EACH(rwlock_read, hold_rwlock, free_rwlock, free_reader),
    EACH(rwlock_read_recursive, hold_rwlock, free_rwlock, free_reader),
    EACH(rwlock_write, hold_rwlock, free_rwlock, free_rwlock),
    EACH(mutex_lock, hold_mutex, free_mutex, free_mutex),
    EACH(batched, hold_batched, free_batched, free_batched),
    EACH(sem_wait, hold_sem, free_sem, used_sem),
    EACH(range_read, hold_range, free_range, free_wanted),
    EACH(range_read_recursive, hold_range, free_range, free_wanted),
    EACH(range_write, hold_range, free_range, free_wanted),
};

static int result;

static void *waiter(void *one) {
    waiting = (pid_t)syscall(SYS_gettid);
    result = ((const struct wait *)one)->wait();
    /* The signal finds a thread. */
    while (!may_leave) {
    }
    return NULL;
}

/* Whether the thread sleeps. A handler that came while it has the lock's own lists would keep those from the
 * thread that releases the lock. */
static int sleeps(pid_t thread) {
    char path[64], state = 0;
    FILE *file;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    file = fopen(path, "r");
    CHECK(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
    fclose(file);
    return state == 'S';
}

int main(void) {
    unsigned failed = 0;
    struct sigaction action = {.sa_handler = stay};
    watchdog();
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (size_t i = 0; i < sizeof waits / sizeof *waits;) {
        pthread_t thread;
        int in_time;
        fairlock_cancel_init(&token);
        deadline = after_ms(CLOCK_MONOTONIC, 200);
        in_handler = may_leave = 0;
        waiting = 0;
        CHECK(waits[i].hold() == 0);
        CHECK(pthread_create(&thread, NULL, waiter, (void *)(size_t)&waits[i]) == 0);
        while (!waiting || (!sleeps(waiting) && !is_over(CLOCK_MONOTONIC, deadline))) {
        }
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        while (!in_handler) {
        }
        in_time = !is_over(CLOCK_MONOTONIC, deadline);
        CHECK(waits[i].give() == 0);
        CHECK(fairlock_cancel(&token) == 0);
        may_leave = 1;
        CHECK(pthread_join(thread, NULL) == 0);
        if (result == 0) {
            CHECK(waits[i].end() == 0);
        } else {
            if (waits[i].end == used_sem) {
                GIVES(0, fairlock_sem_try_wait(&sem, 1));
            }
            /* On a busy machine the wait may have been over before the signal. */
            if (in_time) {
                fprintf(stderr, "%s gives %d, with the lock free\n", waits[i].name, result);
                failed++;
            }
        }
        i += in_time != 0;
    }
    return failed != 0;
}

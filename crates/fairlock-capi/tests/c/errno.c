/* errno stays as it is, whatever the calls do: where files cannot be opened, nor CPUs be counted; where the heap
   cannot grow; and when each way to wait is new to the thread. GIVES checks errno. */
#define _GNU_SOURCE
#include "check.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* As if there were no /proc, and in a sandbox. */
static void refuse_calls(void) {
    static const unsigned refused[] = {SYS_openat, SYS_sched_getaffinity, SYS_sched_getscheduler,
                                       SYS_sched_yield, SYS_membarrier};
    enum { REFUSED = sizeof refused / sizeof *refused };
    struct sock_filter steps[REFUSED + 3] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (int i = 0; i < REFUSED; i++)
        steps[i + 1] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i], REFUSED - i, 0);
    steps[REFUSED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    steps[REFUSED + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOENT);
    struct sock_fprog filter = {.len = REFUSED + 3, .filter = steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

static fairlock_rwlock_t rwlock, named;
static fairlock_mutex_t mutex;
static fairlock_sem_t sem;
static fairlock_range_lock_t ranges;
static fairlock_cancel_t cancelled;

static struct timespec soon(void) { return after_ms(CLOCK_MONOTONIC, 5); }

#define GIVES_UP(call)                                                                       \
    do {                                                                                     \
        struct timespec until = soon();                                                      \
        GIVES(ETIMEDOUT, call);                                                              \
    } while (0)

static void *write_rwlock(void *unused) {
    GIVES_UP(fairlock_rwlock_write_until(&rwlock, CLOCK_MONOTONIC, &until));
    GIVES(ECANCELED, fairlock_rwlock_write_cancellable(&rwlock, &cancelled));
    return unused;
}

static void *read_rwlock(void *unused) {
    GIVES_UP(fairlock_rwlock_read_until(&rwlock, CLOCK_MONOTONIC, &until));
    return unused;
}

static void *write_named(void *unused) {
    GIVES_UP(fairlock_rwlock_write_until(&named, CLOCK_MONOTONIC, &until));
    return unused;
}

static void *lock_mutex(void *unused) {
    GIVES_UP(fairlock_mutex_lock_until(&mutex, CLOCK_MONOTONIC, &until));
    return unused;
}

static void *wait_sem(void *unused) {
    GIVES_UP(fairlock_sem_wait_until(&sem, 1, CLOCK_MONOTONIC, &until));
    return unused;
}

static void *lock_range(void *unused) {
    fairlock_range_t range = FAIRLOCK_RANGE_INIT;
    GIVES_UP(fairlock_range_write_until(&ranges, &range, 0, 99, CLOCK_MONOTONIC, &until));
    return unused;
}

static void *wait_cond(void *unused) {
    fairlock_cond_t cond = FAIRLOCK_COND_INIT;
    fairlock_mutex_t own = FAIRLOCK_MUTEX_INIT;
    GIVES(0, fairlock_mutex_lock(&own));
    GIVES_UP(fairlock_cond_wait_until(&cond, &own, CLOCK_MONOTONIC, &until));
    GIVES(0, fairlock_mutex_unlock(&own));
    return unused;
}

static void *lock_for_ever(void *unused) {
    GIVES(0, fairlock_rwlock_write(&rwlock));
    GIVES(0, fairlock_mutex_lock(&mutex));
    GIVES(0, fairlock_mutex_unlock(&mutex));
    GIVES(0, fairlock_rwlock_unlock_write(&rwlock));
    return unused;
}

/* The main thread's heap is that of brk. From here on it has a neighbour. */
static void *end_heap(void *unused) {
    char *end = (char *)(((size_t)sbrk(0) + 4095) & ~(size_t)4095);
    CHECK(mmap(end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == end);
    return unused;
}

int main(void) {
    static void *(*const ways[])(void *) = {write_rwlock, read_rwlock, write_named, lock_mutex,
                                            wait_sem,     lock_range,  wait_cond};
    static fairlock_mutex_t many[20000];
    static fairlock_rwlock_t locks[1000];
    fairlock_range_t range = FAIRLOCK_RANGE_INIT;
    watchdog();
    refuse_calls();
    GIVES(0, fairlock_cancel(&cancelled));
    GIVES(0, fairlock_rwlock_set_name(&named, "named"));
    GIVES(0, fairlock_rwlock_write(&rwlock));
    GIVES(0, fairlock_rwlock_write(&named));
    GIVES(0, fairlock_mutex_lock(&mutex));
    GIVES(0, fairlock_range_write(&ranges, &range, 10, 19));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        join(spawn(ways[i], NULL));
    /* Several at a time, which find each other in the library's own locks. */
    for (int round = 0; round < 20; round++) {
        pthread_t threads[7];
        for (int i = 0; i < 7; i++)
            threads[i] = spawn(ways[i], NULL);
        for (int i = 0; i < 7; i++)
            join(threads[i]);
    }
    pthread_t waiter = spawn(lock_for_ever, NULL);
    nap();
    GIVES(0, fairlock_range_unlock(&range));
    GIVES(0, fairlock_mutex_unlock(&mutex));
    GIVES(0, fairlock_rwlock_unlock_write(&named));
    GIVES(0, fairlock_rwlock_unlock_write(&rwlock));
    join(waiter);

    end_heap(NULL);
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        GIVES(0, fairlock_mutex_init(&many[i], 8));
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
        GIVES(0, fairlock_rwlock_set_name(&locks[i], "one of many"));
        GIVES(0, fairlock_rwlock_read(&locks[i]));
        GIVES(0, fairlock_rwlock_unlock_read(&locks[i]));
    }
    return 0;
}

/* Signals, forks, and locks of several processes. */
#include "check.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <threads.h>

#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t other = PTHREAD_RWLOCK_INITIALIZER;

static _Atomic int handled;

static void handler(int signal) {
    (void)signal;
    handled++;
}

/* Interrupts a wait time and again; the handler runs, and the wait goes on. */
static void wait_with_signals(int (*call)(pthread_rwlock_t *)) {
    struct caller waiter;
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    start(&waiter, call, &lock);
    wait_until_asleep(&waiter);
    for (int i = 0; i < 50; i++) {
        int before = handled;
        EXPECT(pthread_kill(waiter.thread, SIGUSR1), 0);
        while (handled == before)
            usleep(100);
        CHECK(!waiter.done);
    }
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(result(&waiter), 0);
}

static int timed_write(pthread_rwlock_t *l) {
    struct timespec t = far_away(CLOCK_REALTIME);
    int result = pthread_rwlock_timedwrlock(l, &t);
    return result ? result : pthread_rwlock_unlock(l);
}

static int clock_read(pthread_rwlock_t *l) {
    struct timespec t = far_away(CLOCK_MONOTONIC);
    int result = pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &t);
    return result ? result : pthread_rwlock_unlock(l);
}

static void signals(void) {
    for (int flags = 0; flags < 2; flags++) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = flags ? SA_RESTART : 0};
        CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
        wait_with_signals(write_and_unlock);
        wait_with_signals(read_and_unlock);
        wait_with_signals(timed_write);
        wait_with_signals(clock_read);
    }
}

static int read_for_good(pthread_rwlock_t *l) {
    EXPECT(pthread_rwlock_rdlock(l), 0);
    pause();
    return 0;
}

/* This thread writes `lock`, for which others wait; another reads `other`. */
static void fork_with_waiters(void) {
    if (!ours)
        return; /* glibc's child finds its readers waiting for ever */
    struct caller readers[2], writers[2], holder;
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    start(&holder, read_for_good, &other);
    for (int i = 0; i < 2; i++) {
        start(&readers[i], read_and_unlock, &lock);
        start(&writers[i], write_and_unlock, &lock);
    }
    wait_until_asleep(&holder);
    for (int i = 0; i < 2; i++) {
        wait_until_asleep(&readers[i]);
        wait_until_asleep(&writers[i]);
    }
    for (int turn = 0; turn < 20; turn++) {
        pid_t child = fork();
        if (child == 0) {
            watchdog();
            /* Held by this thread, as before; by nobody who waits. */
            EXPECT(elsewhere(pthread_rwlock_trywrlock, &lock), EBUSY);
            EXPECT(pthread_rwlock_unlock(&lock), 0);
            EXPECT(pthread_rwlock_wrlock(&lock), 0);
            EXPECT(pthread_rwlock_wrlock(&lock), EDEADLK);
            struct caller waiter;
            start(&waiter, write_and_unlock, &lock);
            wait_until_asleep(&waiter);
            EXPECT(pthread_rwlock_unlock(&lock), 0);
            EXPECT(result(&waiter), 0);
            EXPECT(pthread_rwlock_rdlock(&lock), 0);
            EXPECT(pthread_rwlock_unlock(&lock), 0);
            /* Held by a thread that is not here: for ever. */
            EXPECT(pthread_rwlock_trywrlock(&other), EBUSY);
            EXPECT(pthread_rwlock_tryrdlock(&other), 0);
            if (turn % 4 == 0) {
                EXPECT(pthread_rwlock_wrlock(&lock), 0);
                pid_t grandchild = fork();
                if (grandchild == 0) {
                    EXPECT(pthread_rwlock_unlock(&lock), 0);
                    EXPECT(elsewhere(write_and_unlock, &lock), 0);
                    _exit(0);
                }
                join_child(grandchild);
            }
            _exit(0);
        }
        join_child(child);
    }
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    for (int i = 0; i < 2; i++) {
        EXPECT(result(&readers[i]), 0);
        EXPECT(result(&writers[i]), 0);
    }
}

/* Forks while others are busy with locks of their own, come new and go. */
static _Atomic bool stop;

static void *keep_busy(void *unused) {
    while (!stop) {
        pthread_rwlock_t mine = PTHREAD_RWLOCK_INITIALIZER;
        contend(&mine);
        EXPECT(pthread_rwlock_destroy(&mine), 0);
        EXPECT(write_and_unlock(&other), 0);
        EXPECT(read_and_unlock(&other), 0);
    }
    return unused;
}

static void fork_while_busy(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(&threads[i], NULL, keep_busy, NULL), 0);
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            watchdog();
            pthread_rwlock_t mine = PTHREAD_RWLOCK_INITIALIZER;
            contend(&mine);
            contend(&lock);
            EXPECT(elsewhere(write_and_unlock, &lock), 0);
            EXPECT(pthread_rwlock_destroy(&mine), 0);
            _exit(0);
        }
        join_child(child);
    }
    stop = true;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

/* Handlers that take `lock` for the time of a fork, as a library does that has one. They are
   registered before any library is initialised, so they run inside of all others. */
static bool handlers_lock;

static void lock_before_fork(void) {
    if (handlers_lock)
        EXPECT(pthread_rwlock_wrlock(&lock), 0);
}

static void unlock_after_fork(void) {
    if (!handlers_lock)
        return;
    watchdog();
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
}

static void register_handlers(void) {
    pthread_atfork(lock_before_fork, unlock_after_fork, unlock_after_fork);
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = register_handlers;

/* Holds `lock` until the thread that forks waits for it; and before it gives it up, it waits for
   another one, which nobody has waited for before. */
static pid_t forking;
static _Atomic bool held;

static void *hold_while_others_fork(void *unused) {
    pthread_rwlock_t mine = PTHREAD_RWLOCK_INITIALIZER;
    struct caller main_thread = {.tid = forking}, waiter;
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    held = true;
    wait_until_asleep(&main_thread);
    start(&waiter, read_and_unlock, &lock);
    wait_until_asleep(&waiter);
    contend(&mine);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(result(&waiter), 0);
    return unused;
}

static void fork_handlers_wait(void) {
    if (!ours)
        return; /* glibc's child finds its readers waiting for ever */
    handlers_lock = true;
    forking = gettid();
    for (int i = 0; i < 20; i++) {
        pthread_t holder;
        held = false;
        EXPECT(pthread_create(&holder, NULL, hold_while_others_fork, NULL), 0);
        while (!held)
            sched_yield();
        pid_t child = fork();
        if (child == 0) {
            watchdog();
            EXPECT(elsewhere(write_and_unlock, &lock), 0);
            _exit(0);
        }
        join_child(child);
        pthread_join(holder, NULL);
    }
}

/* A thread that held the lock for writing forks, while another one is about to find that it may not read. */
static void fork_beside_passing_reader(void) {
    if (!ours)
        return; /* glibc has its own words */
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    *(_Atomic uint64_t *)&lock += 1 << 8; /* that thread */
    pid_t child = fork();
    if (child == 0) {
        watchdog();
        EXPECT(pthread_rwlock_unlock(&lock), 0);
        EXPECT(elsewhere(write_and_unlock, &lock), 0);
        _exit(0);
    }
    join_child(child);
    *(_Atomic uint64_t *)&lock -= 1 << 8;
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(elsewhere(write_and_unlock, &lock), 0);
}

/* A child that no handler knows of. */
static void fork_without_handlers(void) {
    if (!ours)
        return; /* glibc's child finds its readers waiting for ever */
    struct caller waiters[2];
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    start(&waiters[0], write_and_unlock, &lock);
    start(&waiters[1], read_and_unlock, &lock);
    for (int i = 0; i < 2; i++)
        wait_until_asleep(&waiters[i]);
    pid_t child = _Fork();
    if (child == 0) {
        watchdog();
        EXPECT(pthread_rwlock_unlock(&lock), 0);
        EXPECT(pthread_rwlock_trywrlock(&lock), 0);
        EXPECT(pthread_rwlock_unlock(&lock), 0);
        EXPECT(read_and_unlock(&lock), 0);
        _exit(0);
    }
    join_child(child);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    for (int i = 0; i < 2; i++)
        EXPECT(result(&waiters[i]), 0);
}

/* Threads of different priorities, in the order in which they had the lock. */
static _Atomic int entered;
static int order[6];

/* The ways to give the calling thread a policy. What it may be when it waits is known by any of them. */
static int way;
enum { WAYS = 5 };

static int set_priority(int priority) {
    struct sched_param parameters = {.sched_priority = priority};
    int policy = priority ? SCHED_FIFO : SCHED_OTHER;
    struct {
        unsigned size, policy;
        unsigned long long flags;
        int nice;
        unsigned priority;
        unsigned long long times[3];
    } all = {.size = sizeof all, .policy = (unsigned)policy, .priority = (unsigned)priority};
    long failed;
    switch (way) {
    case 0:
        return pthread_setschedparam(pthread_self(), policy, &parameters);
    case 1:
        failed = sched_setscheduler(0, policy, &parameters);
        break;
    case 2:
        failed = syscall(SYS_sched_setscheduler, 0, policy, &parameters);
        break;
    case 3:
        failed = syscall(SYS_sched_setattr, 0, &all, 0);
        break;
    default: {
        /* glibc has it since 2.41. */
        int (*set)(pid_t, void *, unsigned);
        *(void **)&set = dlsym(RTLD_DEFAULT, "sched_setattr");
        failed = set(0, &all, 0);
    }
    }
    return failed == 0 ? 0 : errno;
}

static int enter_as(pthread_rwlock_t *l, int place, int priority, bool writes) {
    EXPECT(set_priority(priority), 0);
    EXPECT(writes ? pthread_rwlock_wrlock(l) : pthread_rwlock_rdlock(l), 0);
    order[entered++] = place;
    EXPECT(pthread_rwlock_unlock(l), 0);
    return 0;
}

static int reader_0(pthread_rwlock_t *l) { return enter_as(l, 5, 0, false); }
static int writer_0(pthread_rwlock_t *l) { return enter_as(l, 4, 0, true); }
static int reader_5(pthread_rwlock_t *l) { return enter_as(l, 3, 5, false); }
static int writer_5(pthread_rwlock_t *l) { return enter_as(l, 2, 5, true); }
static int reader_9(pthread_rwlock_t *l) { return enter_as(l, 1, 9, false); }
static int writer_9(pthread_rwlock_t *l) { return enter_as(l, 0, 9, true); }

static void priorities_by_this_way(void) {
    if (set_priority(9) == EPERM)
        return; /* needs privileges */
    EXPECT(set_priority(0), 0);
    static int (*const calls[])(pthread_rwlock_t *) = {reader_0, writer_0, reader_5,
                                                       writer_5, reader_9, writer_9};
    struct caller callers[6];
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    for (int i = 0; i < 6; i++) {
        start(&callers[i], calls[i], &lock);
        wait_until_asleep(&callers[i]);
    }
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    for (int i = 0; i < 6; i++)
        EXPECT(result(&callers[i]), 0);
    for (int i = 0; i < 3; i++)
        EXPECT(order[i], i);
    /* The other reader may join the fourth, and be the first of the two to say so. */
    int fourth = order[3] == 5 ? 4 : 3;
    EXPECT(order[fourth], 3);
}

static void priorities(void) {
    for (way = 0; ours && way < WAYS; way++) { /* glibc has no order */
        pid_t child = fork();
        if (child == 0) {
            watchdog();
            priorities_by_this_way();
            _exit(0);
        }
        join_child(child);
    }
}

/* A real-time thread that gave way would give way to nobody with a lower priority: it sleeps. It
   is ended if it asks the kernel to let others run. */
static int without_yields(pthread_rwlock_t *l, int (*call)(pthread_rwlock_t *)) {
    struct sched_param parameters = {.sched_priority = 3};
    EXPECT(pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters), 0);
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = sizeof steps / sizeof *steps, .filter = steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    return call(l);
}

static int write_without_yields(pthread_rwlock_t *l) {
    return without_yields(l, write_and_unlock);
}

static int read_without_yields(pthread_rwlock_t *l) { return without_yields(l, read_and_unlock); }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int lock_the_mutex(pthread_rwlock_t *unused) {
    (void)unused;
    EXPECT(pthread_mutex_lock(&mutex), 0);
    return pthread_mutex_unlock(&mutex);
}

static int lock_without_yields(pthread_rwlock_t *l) { return without_yields(l, lock_the_mutex); }

static void real_time_threads_sleep(void) {
    struct sched_param wanted = {.sched_priority = 3}, normal = {0};
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &wanted) == EPERM)
        return; /* needs privileges */
    EXPECT(pthread_setschedparam(pthread_self(), SCHED_OTHER, &normal), 0);
    for (int i = 0; i < 20; i++) {
        struct caller waiter;
        EXPECT(pthread_rwlock_wrlock(&lock), 0);
        start(&waiter, i % 2 ? write_without_yields : read_without_yields, &lock);
        wait_until_asleep(&waiter);
        EXPECT(pthread_rwlock_unlock(&lock), 0);
        EXPECT(result(&waiter), 0);
        if (i % 4 == 0)
            EXPECT(pthread_rwlock_destroy(&lock), 0);
    }
    for (int i = 0; i < 20; i++) {
        struct caller waiter;
        EXPECT(pthread_mutex_lock(&mutex), 0);
        start(&waiter, lock_without_yields, &lock);
        wait_until_asleep(&waiter);
        EXPECT(pthread_mutex_unlock(&mutex), 0);
        EXPECT(result(&waiter), 0);
        if (i % 4 == 0) {
            EXPECT(pthread_mutex_destroy(&mutex), 0);
            EXPECT(pthread_mutex_init(&mutex, NULL), 0);
        }
    }
}

/* A sandbox that leaves a program what glibc's locks need, and refuses the rest. */
static void sandboxed(void) {
    static const int refused[] = {SYS_madvise,         SYS_membarrier,       SYS_sched_yield,
                                  SYS_sched_getparam,  SYS_sched_getaffinity, SYS_getrandom,
                                  SYS_sched_getscheduler, SYS_gettid};
    enum { REFUSED = sizeof refused / sizeof *refused };
    struct sock_filter steps[REFUSED + 3] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (int i = 0; i < REFUSED; i++)
        steps[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                    (unsigned)refused[i], REFUSED - i, 0);
    steps[REFUSED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    steps[REFUSED + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    struct sock_fprog filter = {.len = REFUSED + 3, .filter = steps};
    struct caller waiters[2];
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    start(&waiters[0], write_and_unlock, &lock);
    start(&waiters[1], read_and_unlock, &lock);
    for (int i = 0; i < 2; i++)
        wait_until_asleep(&waiters[i]);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    for (int i = 0; ours && i < 3; i++) { /* glibc's child finds its readers waiting for ever */
        pid_t child = fork();
        if (child == 0) {
            watchdog();
            EXPECT(pthread_rwlock_unlock(&lock), 0);
            EXPECT(write_and_unlock(&lock), 0);
            contend(&other);
            EXPECT(elsewhere(write_and_unlock, &lock), 0);
            _exit(0);
        }
        join_child(child);
    }
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    for (int i = 0; i < 2; i++)
        EXPECT(result(&waiters[i]), 0);
    for (int i = 0; i < 200; i++) {
        EXPECT(pthread_rwlock_rdlock(&other), 0);
        start(&waiters[0], write_and_unlock, &other);
        EXPECT(pthread_rwlock_unlock(&other), 0);
        EXPECT(result(&waiters[0]), 0);
    }
}

/* What runs in a sandbox that ends the process at any call that is not listed: what glibc's locks and threads need, and
   what docs/preload.md adds for ours. */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turns;

static int take_turns(pthread_rwlock_t *l) {
    for (int i = 0; i < 300; i++) {
        EXPECT(i % 4 ? pthread_rwlock_rdlock(l) : pthread_rwlock_wrlock(l), 0);
        EXPECT(pthread_mutex_lock(&mutex), 0);
        turns++;
        EXPECT(pthread_cond_signal(&changed), 0);
        struct timespec soon;
        CHECK(clock_gettime(CLOCK_REALTIME, &soon) == 0);
        soon.tv_nsec = (soon.tv_nsec + 100000) % 1000000000;
        int ended = pthread_cond_timedwait(&changed, &mutex, &soon);
        CHECK(ended == 0 || ended == ETIMEDOUT);
        EXPECT(pthread_mutex_unlock(&mutex), 0);
        EXPECT(pthread_rwlock_unlock(l), 0);
    }
    return 0;
}

static void listed_calls(void) {
    static const unsigned listed[] = {
        SYS_futex,   SYS_clock_gettime, SYS_clone,    SYS_clone3,          SYS_set_robust_list, SYS_rseq, SYS_mmap,
        SYS_munmap,  SYS_mprotect,      SYS_madvise,  SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_exit,            SYS_exit_group,
        SYS_write,   SYS_brk,           SYS_gettid,  SYS_sched_yield,     SYS_getrandom,       SYS_membarrier};
    enum { LISTED = sizeof listed / sizeof *listed };
    struct sock_filter steps[LISTED + 3] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (int i = 0; i < LISTED; i++)
        steps[i + 1] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, listed[i], LISTED - i, 0);
    steps[LISTED + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    steps[LISTED + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {.len = LISTED + 3, .filter = steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    struct caller callers[6];
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    for (int i = 0; i < 6; i++)
        start(&callers[i], take_turns, &lock);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    for (int i = 0; i < 6; i++)
        EXPECT(result(&callers[i]), 0);
}

/* In memory that two processes share. */
static void process_shared(void) {
    struct {
        pthread_rwlock_t lock;
        _Atomic int stage;
        long value;
    } *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    pthread_rwlockattr_t attributes;
    EXPECT(pthread_rwlockattr_init(&attributes), 0);
    EXPECT(pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
    EXPECT(pthread_rwlock_init(&s->lock, &attributes), 0);
    EXPECT(pthread_rwlock_rdlock(&s->lock), 0);
    pid_t child = fork();
    if (child == 0) {
        struct timespec past = {0};
        watchdog();
        EXPECT(pthread_rwlock_trywrlock(&s->lock), EBUSY);
        EXPECT(pthread_rwlock_timedwrlock(&s->lock, &past), ETIMEDOUT);
        EXPECT(pthread_rwlock_clockwrlock(&s->lock, CLOCK_MONOTONIC, &past), ETIMEDOUT);
        EXPECT(pthread_rwlock_tryrdlock(&s->lock), 0);
        EXPECT(pthread_rwlock_timedrdlock(&s->lock, &past), 0);
        EXPECT(pthread_rwlock_clockrdlock(&s->lock, CLOCK_MONOTONIC, &past), 0);
        for (int i = 0; i < 3; i++)
            EXPECT(pthread_rwlock_unlock(&s->lock), 0);
        s->stage = 1;
        for (int i = 0; i < 10000; i++) {
            EXPECT(pthread_rwlock_wrlock(&s->lock), 0);
            s->value++;
            EXPECT(pthread_rwlock_unlock(&s->lock), 0);
        }
        _exit(0);
    }
    while (s->stage != 1)
        usleep(100);
    EXPECT(pthread_rwlock_unlock(&s->lock), 0);
    for (int i = 0; i < 10000; i++) {
        EXPECT(pthread_rwlock_wrlock(&s->lock), 0);
        s->value++;
        EXPECT(pthread_rwlock_unlock(&s->lock), 0);
    }
    join_child(child);
    CHECK(s->value == 20000);
    EXPECT(pthread_rwlock_destroy(&s->lock), 0);
}

/* A signal handler waits for locks on a stack that has as much room as $ROOM says, beside what the
   kernel puts there. */
static _Atomic int handled;
static _Atomic bool held, all_handled;

static void wait_in_handler(int signal) {
    (void)signal;
    EXPECT(pthread_mutex_lock(&mutex), 0);
    EXPECT(pthread_mutex_unlock(&mutex), 0);
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_rdlock(&lock), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    handled++;
}

static void *hold_both(void *unused) {
    while (!all_handled) {
        EXPECT(pthread_mutex_lock(&mutex), 0);
        EXPECT(pthread_rwlock_wrlock(&lock), 0);
        held = true;
        usleep(1500);
        EXPECT(pthread_rwlock_unlock(&lock), 0);
        EXPECT(pthread_mutex_unlock(&mutex), 0);
        usleep(100);
    }
    return unused;
}

static void *handle_signals(void *stack) {
    EXPECT(sigaltstack(stack, NULL), 0);
    while (!held)
        usleep(100);
    for (int i = 0; i < 100; i++)
        EXPECT(pthread_kill(pthread_self(), SIGUSR1), 0);
    return NULL;
}

static void small_stacks(void) {
    const char *room = getenv("ROOM");
    CHECK(room);
    /* With a page below it that must not be touched. */
    size_t size = getauxval(AT_MINSIGSTKSZ) + atol(room), whole = 4096 + size;
    char *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory, 4096, PROT_NONE) == 0);
    stack_t stack = {.ss_sp = memory + 4096, .ss_size = size};
    struct sigaction action = {.sa_handler = wait_in_handler, .sa_flags = SA_ONSTACK};
    EXPECT(sigaction(SIGUSR1, &action, NULL), 0);
    /* The first use of a lock in this process. */
    stack_t none = {.ss_flags = SS_DISABLE};
    EXPECT(sigaltstack(&stack, NULL), 0);
    EXPECT(raise(SIGUSR1), 0);
    EXPECT(sigaltstack(&none, NULL), 0);
    pthread_t holders[2], thread;
    for (int t = 0; t < 2; t++)
        EXPECT(pthread_create(&holders[t], NULL, hold_both, NULL), 0);
    EXPECT(pthread_create(&thread, NULL, handle_signals, &stack), 0);
    pthread_join(thread, NULL);
    all_handled = true;
    for (int t = 0; t < 2; t++)
        pthread_join(holders[t], NULL);
    CHECK(handled == 101);
}

static pthread_key_t all_keys[PTHREAD_KEYS_MAX];
static _Atomic unsigned destroyed;

static void destroy(void *value) {
    CHECK(value == &destroyed);
    destroyed++;
}

static void *use_mutex(void *mutex) {
    EXPECT(pthread_mutex_lock(mutex), 0);
    EXPECT(pthread_mutex_unlock(mutex), 0);
    return NULL;
}

static void *set_all_keys(void *mutex) {
    use_mutex(mutex);
    for (unsigned k = 0; k < PTHREAD_KEYS_MAX; k++)
        EXPECT(pthread_setspecific(all_keys[k], &destroyed), 0);
    return NULL;
}

/* The program has the keys that it has without the library, the last one of those that have their place in the thread
   after all others. A thread that has used the library's key before is not in its way. */
static void keys(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct timespec past = {0};
    EXPECT(pthread_mutex_lock(&mutex), 0);
    EXPECT(pthread_mutex_timedlock(&mutex, &past), ETIMEDOUT); /* now the thread has more than its variables */
    EXPECT(pthread_mutex_unlock(&mutex), 0);
    for (unsigned k = 0; k < PTHREAD_KEYS_MAX; k++) {
        EXPECT(pthread_key_create(&all_keys[k], destroy), 0);
        CHECK(k >= 31 || all_keys[k] == k);
        CHECK(!pthread_getspecific(all_keys[k]));
    }
    pthread_key_t more;
    EXPECT(pthread_key_create(&more, NULL), EAGAIN);
    CHECK(tss_create(&more, NULL) == thrd_error);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, set_all_keys, &mutex), 0);
    EXPECT(pthread_join(thread, NULL), 0);
    CHECK(destroyed == PTHREAD_KEYS_MAX);
    EXPECT(pthread_key_delete(all_keys[7]), 0);
    CHECK(tss_create(&more, NULL) == thrd_success && more == all_keys[7]);
    use_mutex(&mutex);
}

static pthread_mutex_t awaited = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t awaited_rwlock = PTHREAD_RWLOCK_INITIALIZER;

struct cancelled {
    pthread_t thread;
    _Atomic pid_t tid;
    bool rwlock;
};

static void *lock_anywhere(void *argument) {
    struct cancelled *me = argument;
    bool rwlock = me->rwlock;
    me->tid = gettid();
    EXPECT(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
    if (rwlock) {
        pthread_rwlock_wrlock(&awaited_rwlock);
        pthread_rwlock_unlock(&awaited_rwlock);
    } else {
        pthread_mutex_lock(&awaited);
        pthread_mutex_unlock(&awaited);
    }
    for (;;)
        pause();
}

/* A thread that is cancelled anywhere while it waits does no harm to others. (glibc's rwlock does.) */
static void cancelled_anywhere(void) {
    for (int i = 0; i < 20; i++) {
        bool rwlock = ours && i % 2;
        EXPECT(pthread_mutex_lock(&awaited), 0);
        EXPECT(pthread_rwlock_wrlock(&awaited_rwlock), 0);
        struct cancelled threads[3];
        for (int t = 0; t < 3; t++) {
            threads[t] = (struct cancelled){.rwlock = rwlock};
            EXPECT(pthread_create(&threads[t].thread, NULL, lock_anywhere, &threads[t]), 0);
        }
        usleep(i * 1000);
        for (int t = 0; t < 3; t++)
            EXPECT(pthread_cancel(threads[t].thread), 0);
        /* Whoever ends with the lock keeps it: they are gone, or wait for it as cancelled threads. */
        for (int t = 0; t < 3; t++)
            while (!threads[t].tid || state_of(threads[t].tid) == 'R')
                usleep(200);
        EXPECT(pthread_rwlock_unlock(&awaited_rwlock), 0);
        EXPECT(pthread_mutex_unlock(&awaited), 0);
        for (int t = 0; t < 3; t++)
            EXPECT(pthread_join(threads[t].thread, NULL), 0);
    }
    EXPECT(pthread_mutex_lock(&awaited), 0);
    EXPECT(pthread_rwlock_wrlock(&awaited_rwlock), 0);
}

static pthread_rwlock_t writers_first;

static int time_mutex(void) {
    struct timespec far = far_away(CLOCK_REALTIME);
    return pthread_mutex_timedlock(&awaited, &far);
}
static int clock_mutex(void) {
    struct timespec far = far_away(CLOCK_MONOTONIC);
    return pthread_mutex_clocklock(&awaited, CLOCK_MONOTONIC, &far);
}
static int time_read(void) {
    struct timespec far = far_away(CLOCK_REALTIME);
    return pthread_rwlock_timedrdlock(&awaited_rwlock, &far);
}
static int clock_write(void) {
    struct timespec far = far_away(CLOCK_MONOTONIC);
    return pthread_rwlock_clockwrlock(&awaited_rwlock, CLOCK_MONOTONIC, &far);
}
static int take_mutex(void) { return pthread_mutex_lock(&awaited); }
static int take_read(void) { return pthread_rwlock_rdlock(&awaited_rwlock); }
static int take_write(void) { return pthread_rwlock_wrlock(&awaited_rwlock); }
static int take_first(void) { return pthread_rwlock_wrlock(&writers_first); }
static int leave_mutex(void) { return pthread_mutex_unlock(&awaited); }
static int leave_rwlock(void) { return pthread_rwlock_unlock(&awaited_rwlock); }
static int leave_first(void) { return pthread_rwlock_unlock(&writers_first); }

struct way {
    int (*take)(void), (*leave)(void);
};

struct waiter {
    pthread_t thread;
    struct way way;
    _Atomic pid_t tid;
    bool taken;
};

static void *take_anywhere(void *argument) {
    struct waiter *me = argument;
    EXPECT(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
    me->tid = gettid();
    EXPECT(me->way.take(), 0);
    me->taken = true;
    EXPECT(me->way.leave(), 0);
    return NULL;
}

static void end_here(int signal) {
    (void)signal;
    EXPECT(pthread_cancel(pthread_self()), 0);
}

/* While others hold the lock and wait for it, wherever the thread stands in the queue, and from a handler of its own.
   (glibc's rwlock is not fit for use after that.) */
static void cancelled_waiters_end(void) {
    enum { LAST = 3 };
    const struct way ways[] = {
        {take_mutex, leave_mutex},  {time_mutex, leave_mutex},  {clock_mutex, leave_mutex}, {take_write, leave_rwlock},
        {take_read, leave_rwlock},  {time_read, leave_rwlock},  {clock_write, leave_rwlock}, {take_first, leave_first},
    };
    struct sigaction action = {.sa_handler = end_here};
    EXPECT(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_rwlockattr_t attributes;
    EXPECT(pthread_rwlockattr_init(&attributes), 0);
    EXPECT(pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP), 0);
    EXPECT(pthread_rwlock_init(&writers_first, &attributes), 0);
    for (size_t w = 0; w < (ours ? sizeof ways / sizeof *ways : 3); w++)
        for (int i = 0; i < 5; i++) {
            EXPECT(pthread_mutex_lock(&awaited), 0);
            EXPECT(pthread_rwlock_wrlock(&awaited_rwlock), 0);
            EXPECT(pthread_rwlock_wrlock(&writers_first), 0);
            struct waiter threads[LAST + 1];
            for (int t = 0; t <= LAST; t++) {
                threads[t] = (struct waiter){.way = ways[w]};
                EXPECT(pthread_create(&threads[t].thread, NULL, take_anywhere, &threads[t]), 0);
                while (!threads[t].tid)
                    sched_yield();
                sleeps(threads[t].tid);
            }
            for (int t = LAST - 1; t >= 0; t--) {
                EXPECT(t == 2 ? pthread_kill(threads[t].thread, SIGUSR1) : pthread_cancel(threads[t].thread), 0);
                void *result;
                EXPECT(pthread_join(threads[t].thread, &result), 0);
                CHECK(result == PTHREAD_CANCELED && !threads[t].taken);
            }
            EXPECT(pthread_mutex_unlock(&awaited), 0);
            EXPECT(pthread_rwlock_unlock(&awaited_rwlock), 0);
            EXPECT(pthread_rwlock_unlock(&writers_first), 0);
            EXPECT(pthread_join(threads[LAST].thread, NULL), 0);
            CHECK(threads[LAST].taken);
            /* Nobody else waits, or seems to. */
            EXPECT(pthread_rwlock_tryrdlock(&writers_first), 0);
            EXPECT(pthread_rwlock_unlock(&writers_first), 0);
        }
}

static int wait_at_cond(void) {
    static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    static pthread_mutex_t mutexes[1000]; /* zeros, and each for one wait: it may end with the mutex */
    static _Atomic unsigned used;
    pthread_mutex_t *mutex = &mutexes[used++];
    CHECK(mutex < mutexes + 1000);
    EXPECT(pthread_mutex_lock(mutex), 0);
    return pthread_cond_wait(&cond, mutex);
}

struct jumper {
    pthread_t thread;
    int (*take)(void);
    unsigned most;
    _Atomic pid_t tid;
    _Atomic unsigned jumps;
};

/* Not the one that the thread waits for: it may have the lock of that one's queue. */
static pthread_mutex_t awaited_by_handlers = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local sigjmp_buf outside;
/* What a handler does, by turns. */
enum { JUMPS, JUMPS_AND_RESTORES_MASK, JUMPS_WITHIN, WAITS, HANDLERS };
static _Thread_local volatile unsigned turn;

static void jump_out(int signal) {
    (void)signal;
    sigset_t more;
    sigemptyset(&more);
    sigaddset(&more, SIGWINCH);
    EXPECT(pthread_sigmask(SIG_BLOCK, &more, NULL), 0);
    if (turn == JUMPS)
        longjmp(outside, 7);
    siglongjmp(outside, 7);
}

static void jump_or_wait(int signal) {
    sigjmp_buf within;
    if (turn == JUMPS_WITHIN && !sigsetjmp(within, 1))
        siglongjmp(within, 1);
    if (turn == WAITS) {
        pthread_mutex_lock(&awaited_by_handlers); /* until the other signal */
        FAIL("a wait for what is held ended");
    }
    jump_out(signal);
}

static void *jump_out_of_waits(void *argument) {
    struct jumper *me = argument;
    char *stack = malloc(65536);
    CHECK(stack);
    stack_t own = {.ss_sp = stack, .ss_size = 65536};
    EXPECT(sigaltstack(&own, NULL), 0);
    sigset_t both, now;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    EXPECT(pthread_sigmask(SIG_SETMASK, &both, NULL), 0);
    me->tid = gettid();
    for (volatile unsigned i = 0; i < me->most; i++) {
        turn = i % HANDLERS;
        int value = sigsetjmp(outside, turn != JUMPS);
        if (value == 0) {
            EXPECT(pthread_sigmask(SIG_UNBLOCK, &both, NULL), 0);
            EXPECT(me->take(), 0);
            FAIL("a wait for what is held ended");
        }
        EXPECT(pthread_sigmask(SIG_SETMASK, &both, &now), 0);
        CHECK(value == 7 && sigismember(&now, SIGWINCH) == (turn == JUMPS));
        char rest[16384]; /* over the frames of the wait */
        memset(rest, 0xff, sizeof rest);
        __asm__ volatile("" ::"r"(rest) : "memory");
        me->jumps++;
    }
    return NULL;
}

/* Handlers take threads out of waits for locks that are held: while they sleep, or at any instant. Other threads that
   wait have the lock afterwards. (glibc's rwlocks and conditions are not fit for use after that.) */
static void jumps_out_of_waits(void) {
    int (*const takes[])(void) = {take_mutex, time_mutex, take_write, take_read, time_read, take_first, wait_at_cond};
    pthread_rwlockattr_t attributes;
    EXPECT(pthread_rwlockattr_init(&attributes), 0);
    EXPECT(pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP), 0);
    EXPECT(pthread_rwlock_init(&writers_first, &attributes), 0);
    EXPECT(pthread_mutex_lock(&awaited_by_handlers), 0);
    for (int i = 0; i < 2; i++)
        for (size_t w = 0; w < (ours ? sizeof takes / sizeof *takes : 2); w++) {
            struct sigaction action = {.sa_handler = jump_or_wait, .sa_flags = w % 2 ? SA_ONSTACK : SA_RESTART};
            EXPECT(sigaction(SIGUSR1, &action, NULL), 0);
            action = (struct sigaction){.sa_handler = jump_out};
            sigaddset(&action.sa_mask, SIGUSR1); /* else its handler could wait for this one */
            EXPECT(sigaction(SIGUSR2, &action, NULL), 0);
            EXPECT(pthread_mutex_lock(&awaited), 0);
            EXPECT(pthread_rwlock_wrlock(&awaited_rwlock), 0);
            EXPECT(pthread_rwlock_wrlock(&writers_first), 0);
            struct waiter stay[] = {{.way = {take_mutex, leave_mutex}}, {.way = {take_write, leave_rwlock}}};
            struct jumper jumpers[3];
            for (int t = 0; t < 3; t++) {
                jumpers[t] = (struct jumper){.take = takes[w], .most = i ? 100 : 12};
                EXPECT(pthread_create(&jumpers[t].thread, NULL, jump_out_of_waits, &jumpers[t]), 0);
                while (!jumpers[t].tid)
                    sched_yield();
                if (t < 2)
                    EXPECT(pthread_create(&stay[t].thread, NULL, take_anywhere, &stay[t]), 0);
            }
            for (int t = 0; t < 3; t++)
                for (unsigned jumps; (jumps = jumpers[t].jumps) < jumpers[t].most;) {
                    while (i == 0 && jumpers[t].jumps == jumps && state_of(jumpers[t].tid) != 'S')
                        usleep(100);
                    EXPECT(pthread_kill(jumpers[t].thread, SIGUSR1), 0);
                    usleep(rand() % 1000);
                    EXPECT(pthread_kill(jumpers[t].thread, SIGUSR2), 0);
                }
            EXPECT(pthread_mutex_unlock(&awaited), 0);
            EXPECT(pthread_rwlock_unlock(&awaited_rwlock), 0);
            EXPECT(pthread_rwlock_unlock(&writers_first), 0);
            for (int t = 0; t < 3; t++)
                EXPECT(pthread_join(jumpers[t].thread, NULL), 0);
            for (int t = 0; t < 2; t++) {
                EXPECT(pthread_join(stay[t].thread, NULL), 0);
                CHECK(stay[t].taken);
            }
            EXPECT(pthread_rwlock_tryrdlock(&writers_first), 0);
            EXPECT(pthread_rwlock_unlock(&writers_first), 0);
        }
}

static timer_t soon;
static sigjmp_buf before_wait;
static pthread_mutex_t of_handler = PTHREAD_MUTEX_INITIALIZER, taken_again = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t awaited_cond = PTHREAD_COND_INITIALIZER;
static _Atomic bool waits_soon;

static void jump_before_other_signal(int signal) {
    (void)signal;
    struct itimerspec in = {.it_value.tv_nsec = 1 + rand() % 20000};
    EXPECT(timer_settime(soon, 0, &in, NULL), 0);
    siglongjmp(before_wait, 1);
}

static void take_and_leave(int signal) {
    (void)signal;
    struct timespec far = {.tv_sec = 1L << 40};
    EXPECT(pthread_mutex_timedlock(&of_handler, &far), 0);
    EXPECT(pthread_mutex_unlock(&of_handler), 0);
}

static void *jump_out_often(void *unused) {
    for (volatile int i = 0; i < 300; i++)
        if (!sigsetjmp(before_wait, 1)) {
            waits_soon = true;
            take_mutex();
            FAIL("a wait for what is held ended");
        }
    sigset_t all;
    sigfillset(&all);
    EXPECT(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
    return unused;
}

/* Another signal's handler may come while the wait ends: its own locks have nothing to do with the jump. */
static void handlers_during_jumps(void) {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
    EXPECT(timer_create(CLOCK_MONOTONIC, &event, &soon), 0);
    EXPECT(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = jump_before_other_signal}, NULL), 0);
    struct sigaction other = {.sa_handler = take_and_leave};
    sigaddset(&other.sa_mask, SIGUSR1);
    EXPECT(sigaction(SIGUSR2, &other, NULL), 0);
    EXPECT(pthread_mutex_lock(&awaited), 0);
    pthread_t jumper;
    EXPECT(pthread_create(&jumper, NULL, jump_out_often, NULL), 0);
    sigset_t others;
    sigemptyset(&others);
    sigaddset(&others, SIGUSR2);
    EXPECT(pthread_sigmask(SIG_BLOCK, &others, NULL), 0);
    while (pthread_tryjoin_np(jumper, NULL) != 0) {
        if (atomic_exchange(&waits_soon, false))
            EXPECT(pthread_kill(jumper, SIGUSR1), 0);
        usleep(20);
    }
    EXPECT(pthread_mutex_unlock(&awaited), 0);
    EXPECT(pthread_mutex_trylock(&of_handler), 0);
}

static void jump_before_wait(int signal) {
    (void)signal;
    siglongjmp(before_wait, 1);
}

static void *jump_out_of_cond_wait(void *unused) {
    if (!sigsetjmp(before_wait, 1)) {
        EXPECT(pthread_mutex_lock(&taken_again), 0);
        waits_soon = true;
        pthread_cond_wait(&awaited_cond, &taken_again);
        FAIL("a mutex that is held was taken");
    }
    return unused;
}

/* Nobody uses the mutex any more, which the thread was about to take again. (In glibc somebody seems to.) */
static void jumps_while_taking_again(void) {
    EXPECT(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = jump_before_wait}, NULL), 0);
    for (int i = 0; ours && i < 20; i++) {
        pthread_t jumper;
        EXPECT(pthread_create(&jumper, NULL, jump_out_of_cond_wait, NULL), 0);
        while (!atomic_exchange(&waits_soon, false))
            sched_yield();
        EXPECT(pthread_mutex_lock(&taken_again), 0);
        EXPECT(pthread_cond_signal(&awaited_cond), 0);
        usleep(i * 100);
        EXPECT(pthread_kill(jumper, SIGUSR1), 0);
        EXPECT(pthread_join(jumper, NULL), 0);
        EXPECT(pthread_mutex_unlock(&taken_again), 0);
        EXPECT(pthread_mutex_destroy(&taken_again), 0);
        EXPECT(pthread_mutex_init(&taken_again, NULL), 0);
    }
}

static void *jump_out_of_shared_cond_wait(void *unused) {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    pthread_mutexattr_t of_mutex;
    pthread_condattr_t of_cond;
    EXPECT(pthread_mutexattr_init(&of_mutex), 0);
    EXPECT(pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED), 0);
    EXPECT(pthread_mutex_init(&mutex, &of_mutex), 0);
    EXPECT(pthread_condattr_init(&of_cond), 0);
    EXPECT(pthread_condattr_setpshared(&of_cond, PTHREAD_PROCESS_SHARED), 0);
    EXPECT(pthread_cond_init(&cond, &of_cond), 0);
    if (!sigsetjmp(before_wait, 1)) {
        EXPECT(pthread_mutex_lock(&mutex), 0);
        waits_soon = true;
        pthread_cond_wait(&cond, &mutex);
        FAIL("a wait ended that nobody notified");
    }
    return unused;
}

/* A wait of glibc's goes on until it is notified: a jump leaves it as it is. */
static void jumps_out_of_shared_waits(void) {
    EXPECT(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = jump_before_wait}, NULL), 0);
    pthread_t jumper;
    EXPECT(pthread_create(&jumper, NULL, jump_out_of_shared_cond_wait, NULL), 0);
    while (!waits_soon)
        sched_yield();
    usleep(10000);
    EXPECT(pthread_kill(jumper, SIGUSR1), 0);
    EXPECT(pthread_join(jumper, NULL), 0);
}

/* The locks of one thread that is cancelled. What it leaves behind is in nobody's way, whatever that is. */
struct locks {
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
    pthread_cond_t cond;
};

static void set_type(struct locks *unused) {
    (void)unused;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
}

static void lock_mutex(struct locks *l) {
    if (pthread_mutex_lock(&l->mutex) == 0)
        pthread_mutex_unlock(&l->mutex);
}

static void write_rwlock(struct locks *l) {
    if (pthread_rwlock_wrlock(&l->rwlock) == 0)
        pthread_rwlock_unlock(&l->rwlock);
}

static void read_rwlock(struct locks *l) {
    if (pthread_rwlock_rdlock(&l->rwlock) == 0)
        pthread_rwlock_unlock(&l->rwlock);
}

static void try_both(struct locks *l) {
    if (pthread_mutex_trylock(&l->mutex) == 0)
        pthread_mutex_unlock(&l->mutex);
    if (pthread_rwlock_trywrlock(&l->rwlock) == 0)
        pthread_rwlock_unlock(&l->rwlock);
}

static void time_both(struct locks *l) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 1);
    if (pthread_mutex_timedlock(&l->mutex, &soon) == 0)
        pthread_mutex_unlock(&l->mutex);
    if (pthread_rwlock_timedrdlock(&l->rwlock, &soon) == 0)
        pthread_rwlock_unlock(&l->rwlock);
}

static void notify_and_destroy(struct locks *l) {
    pthread_cond_signal(&l->cond);
    pthread_cond_broadcast(&l->cond);
    pthread_cond_destroy(&l->cond);
    pthread_mutex_destroy(&l->mutex);
    pthread_rwlock_destroy(&l->rwlock);
}

static void wait_at_futex(struct locks *unused) {
    (void)unused;
    int word = 1;
    syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0); /* which it is not */
}

struct stepper {
    void (*calls)(struct locks *);
    struct locks *locks;
    unsigned long cancelled_at;
    _Atomic pid_t tid;
    bool ended;
};

static _Thread_local struct stepper *stepper;
static _Thread_local unsigned long instructions;

/* After each instruction. */
static void on_step(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    if (++instructions == stepper->cancelled_at) {
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100; /* no further steps */
        EXPECT(pthread_cancel(pthread_self()), 0);
    }
}

static void *step_by_step(void *argument) {
    stepper = argument;
    /* What a thread does only once. */
    struct locks own = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER, PTHREAD_COND_INITIALIZER};
    stepper->calls(&own);
    stepper->tid = gettid();
    EXPECT(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
    __asm__ volatile("pushf; orq $0x100, (%%rsp); popf" ::: "memory", "cc");
    stepper->calls(stepper->locks);
    __asm__ volatile("pushf; andq $~0x100, (%%rsp); popf" ::: "memory", "cc");
    stepper->ended = true;
    return NULL;
}

enum form { THIN, INFLATED, HELD };

/* Whether the calls ended before the thread was cancelled, at this instruction of theirs. */
static bool ends_before(unsigned long instruction, void (*calls)(struct locks *), enum form form) {
    struct locks *locks = malloc(sizeof *locks);
    CHECK(locks);
    *locks = (struct locks){PTHREAD_MUTEX_INITIALIZER, PTHREAD_RWLOCK_INITIALIZER, PTHREAD_COND_INITIALIZER};
    struct timespec past = {0};
    EXPECT(pthread_mutex_lock(&locks->mutex), 0);
    if (form != THIN) {
        EXPECT(pthread_mutex_timedlock(&locks->mutex, &past), ETIMEDOUT);
        contend(&locks->rwlock);
    }
    EXPECT(pthread_rwlock_wrlock(&locks->rwlock), 0);
    struct stepper one = {calls, locks, instruction, 0, false};
    pthread_t thread;
    if (form == HELD) {
        EXPECT(pthread_create(&thread, NULL, step_by_step, &one), 0);
        while (!one.tid || state_of(one.tid) == 'R')
            usleep(100);
    }
    EXPECT(pthread_rwlock_unlock(&locks->rwlock), 0);
    EXPECT(pthread_mutex_unlock(&locks->mutex), 0);
    if (form != HELD)
        EXPECT(pthread_create(&thread, NULL, step_by_step, &one), 0);
    EXPECT(pthread_join(thread, NULL), 0);
    return one.ended;
}

/* A thread is cancelled at the instructions of a call, by turns: at each of the first and the last few dozen, and at
   some between, but those of a long wait. It ends, and the process goes on. */
static void cancelled_at_instructions(void) {
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    EXPECT(sigaction(SIGTRAP, &action, NULL), 0);
    void (*const calls[])(struct locks *) = {set_type, lock_mutex, write_rwlock,      read_rwlock,
                                             try_both, time_both,  notify_and_destroy, wait_at_futex};
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (enum form form = THIN; form <= (calls[c] == notify_and_destroy ? INFLATED : HELD); form++) {
            unsigned long all = 1;
            bool ends = false;
            while (all < 3000 && !(ends = ends_before(all, calls[c], form)))
                all += all < 60 ? 1 : all / 3;
            for (unsigned long last = 0; ends && last < 20 && last < all; last++)
                ends_before(all - last, calls[c], form);
        }
}

TESTS({"jumps_out_of_waits", jumps_out_of_waits}, {"handlers_during_jumps", handlers_during_jumps},
      {"jumps_while_taking_again", jumps_while_taking_again}, {"jumps_out_of_shared_waits", jumps_out_of_shared_waits}, {"cancelled_anywhere", cancelled_anywhere}, {"cancelled_waiters_end", cancelled_waiters_end}, {"cancelled_at_instructions", cancelled_at_instructions}, {"keys", keys}, {"signals", signals}, {"small_stacks", small_stacks}, {"fork_with_waiters", fork_with_waiters},
      {"fork_while_busy", fork_while_busy}, {"fork_handlers_wait", fork_handlers_wait},
      {"fork_beside_passing_reader", fork_beside_passing_reader}, {"fork_without_handlers", fork_without_handlers}, {"priorities", priorities},
      {"real_time_threads_sleep", real_time_threads_sleep}, {"sandboxed", sandboxed}, {"listed_calls", listed_calls},
      {"process_shared", process_shared})

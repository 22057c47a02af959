/* What each function returns, and when. */
#include "check.h"

#include <dlfcn.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

/* Ours without a slot, and with one. */
static void twice(void (*test)(void)) {
    test();
    contend(&lock);
    test();
}

static void functions(void) {
    static const char *names[] = {
        "pthread_rwlock_init",        "pthread_rwlock_destroy",     "pthread_rwlock_rdlock",
        "pthread_rwlock_tryrdlock",   "pthread_rwlock_timedrdlock", "pthread_rwlock_clockrdlock",
        "pthread_rwlock_wrlock",      "pthread_rwlock_trywrlock",   "pthread_rwlock_timedwrlock",
        "pthread_rwlock_clockwrlock", "pthread_rwlock_unlock",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        Dl_info info;
        void *function = dlsym(RTLD_DEFAULT, names[i]);
        CHECK(function && dladdr(function, &info));
        bool served = strstr(info.dli_fname, "libfairlock_preload") != NULL;
        if (served != ours)
            FAIL("%s is of %s", names[i], info.dli_fname);
    }
}

static void use(pthread_rwlock_t *l) {
    EXPECT(pthread_rwlock_rdlock(l), 0);
    EXPECT(pthread_rwlock_tryrdlock(l), 0);
    EXPECT(elsewhere(pthread_rwlock_trywrlock, l), EBUSY);
    EXPECT(pthread_rwlock_unlock(l), 0);
    EXPECT(pthread_rwlock_unlock(l), 0);
    EXPECT(pthread_rwlock_wrlock(l), 0);
    EXPECT(elsewhere(pthread_rwlock_tryrdlock, l), EBUSY);
    EXPECT(pthread_rwlock_unlock(l), 0);
    contend(l);
    EXPECT(elsewhere(write_and_unlock, l), 0);
    EXPECT(elsewhere(read_and_unlock, l), 0);
}

static void initialisers(void) {
    static pthread_rwlock_t nonrecursive = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    use(&lock);
    use(&nonrecursive);
    static const int kinds[] = {PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_RWLOCK_PREFER_WRITER_NP,
                                PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP};
    static const int shared[] = {PTHREAD_PROCESS_PRIVATE, PTHREAD_PROCESS_SHARED};
    for (int k = 0; k < 3; k++)
        for (int s = 0; s < 2; s++) {
            pthread_rwlockattr_t attributes;
            EXPECT(pthread_rwlockattr_init(&attributes), 0);
            EXPECT(pthread_rwlockattr_setkind_np(&attributes, kinds[k]), 0);
            EXPECT(pthread_rwlockattr_setpshared(&attributes, shared[s]), 0);
            pthread_rwlock_t l;
            memset(&l, 0xff, sizeof l);
            EXPECT(pthread_rwlock_init(&l, &attributes), 0);
            EXPECT(pthread_rwlockattr_destroy(&attributes), 0);
            use(&l);
            EXPECT(pthread_rwlock_destroy(&l), 0);
            EXPECT(pthread_rwlock_init(&l, NULL), 0);
            use(&l);
            EXPECT(pthread_rwlock_destroy(&l), 0);
        }
}

static void busy_now(void) {
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    EXPECT(elsewhere(pthread_rwlock_tryrdlock, &lock), EBUSY);
    EXPECT(elsewhere(pthread_rwlock_trywrlock, &lock), EBUSY);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_rdlock(&lock), 0);
    EXPECT(pthread_rwlock_trywrlock(&lock), EBUSY); /* not EDEADLK */
    EXPECT(elsewhere(pthread_rwlock_trywrlock, &lock), EBUSY);
    EXPECT(elsewhere(read_and_unlock, &lock), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_trywrlock(&lock), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
}

static void busy(void) {
    twice(busy_now);
}

static void deadlock_now(void) {
    struct timespec real = far_away(CLOCK_REALTIME), mono = far_away(CLOCK_MONOTONIC);
    struct timespec past = {0};
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    EXPECT(pthread_rwlock_rdlock(&lock), EDEADLK);
    EXPECT(pthread_rwlock_timedrdlock(&lock, &real), EDEADLK);
    EXPECT(pthread_rwlock_timedrdlock(&lock, &past), EDEADLK);
    EXPECT(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &mono), EDEADLK);
    EXPECT(pthread_rwlock_tryrdlock(&lock), EBUSY);
    EXPECT(pthread_rwlock_wrlock(&lock), EDEADLK);
    EXPECT(pthread_rwlock_timedwrlock(&lock, &real), EDEADLK);
    EXPECT(pthread_rwlock_timedwrlock(&lock, &past), EDEADLK);
    EXPECT(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &mono), EDEADLK);
    EXPECT(pthread_rwlock_trywrlock(&lock), EBUSY);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_rdlock(&lock), 0);
    /* A reader that wants to write is not told: it waits for itself. */
    EXPECT(pthread_rwlock_timedwrlock(&lock, &past), ETIMEDOUT);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
}

static void deadlock(void) {
    twice(deadlock_now);
}

/* Behind the compiler's back, which would warn. */
static struct timespec *volatile no_time;

/* Each clock function with each bad argument, on a lock in whatever state. */
static void refuse(int when_held) {
    static const long bad[] = {-1, 1000000000, 2000000000};
    static const clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
                                       CLOCK_BOOTTIME, CLOCK_MONOTONIC_RAW, -1, 12345};
    for (int i = 0; i < 3; i++) {
        struct timespec t = far_away(CLOCK_MONOTONIC);
        t.tv_nsec = bad[i];
        EXPECT(pthread_rwlock_timedrdlock(&lock, &t), EINVAL);
        EXPECT(pthread_rwlock_timedwrlock(&lock, &t), EINVAL);
        EXPECT(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &t), EINVAL);
        EXPECT(pthread_rwlock_clockrdlock(&lock, CLOCK_REALTIME, &t), EINVAL);
        EXPECT(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &t), EINVAL);
        EXPECT(pthread_rwlock_clockwrlock(&lock, CLOCK_REALTIME, &t), EINVAL);
    }
    struct timespec t = far_away(CLOCK_MONOTONIC);
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        EXPECT(pthread_rwlock_clockrdlock(&lock, clocks[i], &t), EINVAL);
        EXPECT(pthread_rwlock_clockwrlock(&lock, clocks[i], &t), EINVAL);
        /* No time: the clock does not matter. */
        EXPECT(pthread_rwlock_clockrdlock(&lock, clocks[i], no_time), when_held);
        if (!when_held)
            EXPECT(pthread_rwlock_unlock(&lock), 0);
        EXPECT(pthread_rwlock_clockwrlock(&lock, clocks[i], no_time), when_held);
        if (!when_held)
            EXPECT(pthread_rwlock_unlock(&lock), 0);
    }
}

static void invalid_now(void) {
    refuse(0);
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    refuse(EDEADLK);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
}

static void invalid(void) {
    twice(invalid_now);
}

#define TIMES_OUT(clock, call)                     \
    do {                                           \
        struct timespec t = in_ms(clock, 20);      \
        EXPECT(call, ETIMEDOUT);                   \
        CHECK(has_passed(clock, t));               \
    } while (0)

static int read_forms_time_out(pthread_rwlock_t *l) {
    TIMES_OUT(CLOCK_REALTIME, pthread_rwlock_timedrdlock(l, &t));
    TIMES_OUT(CLOCK_REALTIME, pthread_rwlock_clockrdlock(l, CLOCK_REALTIME, &t));
    TIMES_OUT(CLOCK_MONOTONIC, pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &t));
    struct timespec past = {.tv_sec = -1}, zero = {0};
    EXPECT(pthread_rwlock_timedrdlock(l, &past), ETIMEDOUT);
    EXPECT(pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &zero), ETIMEDOUT);
    return 0;
}

static int write_forms_time_out(pthread_rwlock_t *l) {
    TIMES_OUT(CLOCK_REALTIME, pthread_rwlock_timedwrlock(l, &t));
    TIMES_OUT(CLOCK_REALTIME, pthread_rwlock_clockwrlock(l, CLOCK_REALTIME, &t));
    TIMES_OUT(CLOCK_MONOTONIC, pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &t));
    struct timespec past = {.tv_sec = -1}, zero = {0};
    EXPECT(pthread_rwlock_timedwrlock(l, &past), ETIMEDOUT);
    EXPECT(pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &zero), ETIMEDOUT);
    return 0;
}

/* A lock that is free is had, however late it is. */
static void late_but_free(void) {
    struct timespec past = {.tv_sec = -1};
    EXPECT(pthread_rwlock_timedrdlock(&lock, &past), 0);
    EXPECT(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &past), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_timedwrlock(&lock, &past), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &past), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
}

static int read_in_time(pthread_rwlock_t *l) {
    struct timespec t = far_away(CLOCK_REALTIME);
    int result = pthread_rwlock_timedrdlock(l, &t);
    return result ? result : pthread_rwlock_unlock(l);
}

static int write_in_time(pthread_rwlock_t *l) {
    struct timespec t = far_away(CLOCK_MONOTONIC);
    int result = pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, &t);
    return result ? result : pthread_rwlock_unlock(l);
}

static void timeouts_now(void) {
    late_but_free();
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    EXPECT(elsewhere(read_forms_time_out, &lock), 0);
    EXPECT(elsewhere(write_forms_time_out, &lock), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_rdlock(&lock), 0);
    EXPECT(elsewhere(write_forms_time_out, &lock), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    struct caller reader, writer;
    start(&reader, read_in_time, &lock);
    start(&writer, write_in_time, &lock);
    wait_until_asleep(&reader);
    wait_until_asleep(&writer);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(result(&reader), 0);
    EXPECT(result(&writer), 0);
    late_but_free();
}

static void timeouts(void) {
    twice(timeouts_now);
}

static void no_room(void) {
    struct timespec past = {0};
    EXPECT(pthread_rwlock_rdlock(&lock), EAGAIN);
    EXPECT(pthread_rwlock_tryrdlock(&lock), EAGAIN);
    EXPECT(pthread_rwlock_timedrdlock(&lock, &past), EAGAIN);
    EXPECT(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &past), EAGAIN);
    EXPECT(elsewhere(pthread_rwlock_tryrdlock, &lock), EAGAIN);
    EXPECT(pthread_rwlock_trywrlock(&lock), EBUSY);
}

static void contend_while_read(void) {
    EXPECT(wait_in_vain(&lock), ETIMEDOUT);
}

/* A word that counts as many readers as there is room for: bits 8 to 30. */
static void overflow(void) {
    if (!ours)
        return; /* glibc has its own words */
    uint64_t *word = (uint64_t *)&lock;
    *word = (UINT64_C(1) << 31) - (1 << 8);
    EXPECT(pthread_rwlock_rdlock(&lock), 0);
    no_room();
    contend_while_read();
    no_room();
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_rdlock(&lock), 0);
    no_room();
    EXPECT(pthread_rwlock_unlock(&lock), 0);
}

/* What debuggers look at, and those who ask who writes. */
static void writer_is_named_now(void) {
    EXPECT(lock.__data.__cur_writer, 0);
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    EXPECT(lock.__data.__cur_writer, gettid());
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(lock.__data.__cur_writer, 0);
    EXPECT(pthread_rwlock_trywrlock(&lock), 0);
    EXPECT(lock.__data.__cur_writer, gettid());
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_rdlock(&lock), 0);
    EXPECT(lock.__data.__cur_writer, 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
}

static void writer_is_named(void) {
    twice(writer_is_named_now);
}

/* Undefined in POSIX; ours does no harm. */
static void misuse_now(void) {
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_rdlock(&lock), 0);
    EXPECT(elsewhere(pthread_rwlock_unlock, &lock), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    EXPECT(elsewhere(pthread_rwlock_unlock, &lock), 0);
    EXPECT(lock.__data.__cur_writer, 0);
    EXPECT(pthread_rwlock_trywrlock(&lock), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(elsewhere(write_and_unlock, &lock), 0);
}

static void misuse(void) {
    if (ours)
        twice(misuse_now);
}

/* A handler that runs longer than the waiter wants to wait, while the lock comes free: the lock can be had at once
   when the handler returns. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct timespec handled_deadline;
static atomic_bool in_time, released;

static void outlast(int signal) {
    (void)signal;
    in_time = !has_passed(CLOCK_REALTIME, handled_deadline);
    while (!released || !has_passed(CLOCK_REALTIME, handled_deadline))
        ;
}

/* Without the signal, which has come too late then, the wait is in vain. */
static void *waited(int result, int (*unlock)(void *), void *of) {
    EXPECT(result, in_time || result == 0 ? 0 : ETIMEDOUT);
    if (result == 0)
        EXPECT(unlock(of), 0);
    return NULL;
}

static int unlock_mutex(void *m) { return pthread_mutex_unlock(m); }
static int unlock_rwlock(void *l) { return pthread_rwlock_unlock(l); }

static void *wait_for_mutex(void *none) {
    (void)none;
    return waited(pthread_mutex_timedlock(&mutex, &handled_deadline), unlock_mutex, &mutex);
}

static void *wait_to_read(void *none) {
    (void)none;
    return waited(pthread_rwlock_timedrdlock(&lock, &handled_deadline), unlock_rwlock, &lock);
}

static void *wait_to_write(void *none) {
    (void)none;
    return waited(pthread_rwlock_timedwrlock(&lock, &handled_deadline), unlock_rwlock, &lock);
}

static void handler_outlasts_deadline(void) {
    void *(*const waits[])(void *) = {wait_for_mutex, wait_to_read, wait_to_write};
    struct sigaction action = {.sa_handler = outlast};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 3; i += in_time) {
        pthread_t waiter;
        in_time = released = false;
        EXPECT(pthread_mutex_lock(&mutex), 0);
        EXPECT(pthread_rwlock_wrlock(&lock), 0);
        handled_deadline = in_ms(CLOCK_REALTIME, 200);
        EXPECT(pthread_create(&waiter, NULL, waits[i], NULL), 0);
        usleep(50000);
        EXPECT(pthread_kill(waiter, SIGUSR1), 0);
        usleep(10000);
        EXPECT(pthread_rwlock_unlock(&lock), 0);
        EXPECT(pthread_mutex_unlock(&mutex), 0);
        released = true;
        EXPECT(pthread_join(waiter, NULL), 0);
    }
}

TESTS({"functions", functions}, {"handler_outlasts_deadline", handler_outlasts_deadline}, {"initialisers", initialisers}, {"busy", busy},
      {"deadlock", deadlock}, {"invalid", invalid}, {"timeouts", timeouts},
      {"overflow", overflow}, {"writer_is_named", writer_is_named}, {"misuse", misuse})

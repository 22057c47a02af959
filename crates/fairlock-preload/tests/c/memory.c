/* Threads that wait where the system has no memory left. */
#include "check.h"
#include <dlfcn.h>
#include <sys/resource.h>

/* More than there are records or slots in the memory that the library has from the beginning. */
enum { THREADS = 100, ROUNDS = 10 };
static pthread_t threads[THREADS];
static pthread_barrier_t barrier;
static pthread_mutex_t own[THREADS], mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t own_rwlocks[THREADS], rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int value, written, arrived; /* guarded by `mutex`, `rwlock`, `mutex` */
static bool go;                     /* guarded by `mutex` */
static _Atomic int left;

static void no_more_memory(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long pages;
    CHECK(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    rlim_t now = pages * sysconf(_SC_PAGESIZE);
    CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){now, now}) == 0);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
}

static void leave(void *unused) {
    (void)unused;
    left++;
    EXPECT(pthread_mutex_unlock(&mutex), 0);
}

static void *come_and_go(void *argument) {
    int me = (int)(intptr_t)argument;
    pthread_barrier_wait(&barrier);
    struct timespec soon = in_ms(CLOCK_REALTIME, 5), mono = in_ms(CLOCK_MONOTONIC, 5);
    EXPECT(pthread_mutex_timedlock(&own[me], &soon), ETIMEDOUT);
    EXPECT(pthread_rwlock_timedrdlock(&own_rwlocks[me], &soon), ETIMEDOUT);
    EXPECT(pthread_rwlock_clockwrlock(&own_rwlocks[me], CLOCK_MONOTONIC, &mono), ETIMEDOUT);
    EXPECT(pthread_mutex_trylock(&own[me]), EBUSY);
    pthread_barrier_wait(&barrier);
    EXPECT(pthread_mutex_lock(&own[me]), 0);
    EXPECT(pthread_rwlock_rdlock(&own_rwlocks[me]), 0);
    EXPECT(pthread_rwlock_unlock(&own_rwlocks[me]), 0);
    EXPECT(pthread_mutex_unlock(&own[me]), 0);
    for (int i = 0; i < ROUNDS; i++) {
        EXPECT(pthread_mutex_lock(&mutex), 0);
        int seen = value;
        if (i == 0)
            usleep(1000);
        value = seen + 1;
        EXPECT(pthread_mutex_unlock(&mutex), 0);
        EXPECT(pthread_rwlock_wrlock(&rwlock), 0);
        seen = written;
        if (i == 0)
            usleep(1000);
        written = seen + 1;
        EXPECT(pthread_rwlock_unlock(&rwlock), 0);
        EXPECT(pthread_rwlock_rdlock(&rwlock), 0);
        CHECK(written > seen);
        EXPECT(pthread_rwlock_unlock(&rwlock), 0);
    }
    EXPECT(pthread_mutex_lock(&mutex), 0);
    arrived++;
    while (!go)
        EXPECT(pthread_cond_wait(&cond, &mutex), 0);
    soon = in_ms(CLOCK_REALTIME, 5);
    int result;
    while ((result = pthread_cond_timedwait(&cond, &mutex, &soon)) == 0)
        ;
    EXPECT(result, ETIMEDOUT);
    arrived--;
    pthread_cleanup_push(leave, NULL);
    for (;;)
        EXPECT(pthread_cond_wait(&cond, &mutex), 0);
    pthread_cleanup_pop(0);
}

static void wait_for_arrived(int count) {
    for (int now = -1; now != count; usleep(1000)) {
        EXPECT(pthread_mutex_lock(&mutex), 0);
        now = arrived;
        EXPECT(pthread_mutex_unlock(&mutex), 0);
    }
}

static void none_left(void) {
    pthread_attr_t small;
    EXPECT(pthread_attr_init(&small), 0);
    EXPECT(pthread_attr_setstacksize(&small, 128 << 10), 0);
    EXPECT(pthread_barrier_init(&barrier, NULL, THREADS + 1), 0);
    for (int i = 0; i < THREADS; i++) {
        EXPECT(pthread_mutex_init(&own[i], NULL), 0);
        EXPECT(pthread_rwlock_init(&own_rwlocks[i], NULL), 0);
        EXPECT(pthread_create(&threads[i], &small, come_and_go, (void *)(intptr_t)i), 0);
    }
    /* So there is memory for some slots, though not for as many as are waited for. */
    contend(&rwlock);
    CHECK(dlopen("libgcc_s.so.1", RTLD_NOW)); /* glibc loads it for a cancellation */
    no_more_memory();
    for (int i = 0; i < THREADS; i++) {
        EXPECT(pthread_mutex_lock(&own[i]), 0);
        EXPECT(pthread_rwlock_wrlock(&own_rwlocks[i]), 0);
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    usleep(5000);
    for (int i = 0; i < THREADS; i++) {
        EXPECT(pthread_rwlock_unlock(&own_rwlocks[i]), 0);
        EXPECT(pthread_mutex_unlock(&own[i]), 0);
    }
    wait_for_arrived(THREADS);
    CHECK(value == THREADS * ROUNDS && written == THREADS * ROUNDS);
    EXPECT(pthread_mutex_lock(&mutex), 0);
    go = true;
    EXPECT(pthread_cond_broadcast(&cond), 0);
    EXPECT(pthread_mutex_unlock(&mutex), 0);
    wait_for_arrived(0);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_cancel(threads[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        EXPECT(pthread_join(threads[i], &result), 0);
        CHECK(result == PTHREAD_CANCELED);
    }
    CHECK(left == THREADS);
}

TESTS({"none_left", none_left})

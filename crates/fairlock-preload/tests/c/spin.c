/* Spin locks, which are glibc's. */
#include "check.h"
#include <dlfcn.h>

enum { THREADS = 4, ROUNDS = 20000 };
static pthread_spinlock_t *the_lock;
static long value; /* guarded by the lock */

static void *come_and_go(void *glibc_s) {
    int (*lock)(pthread_spinlock_t *) = pthread_spin_lock;
    int (*unlock)(pthread_spinlock_t *) = pthread_spin_unlock;
    if (glibc_s) { /* as a library does that was loaded with RTLD_DEEPBIND */
        *(void **)&lock = dlsym(glibc_s, "pthread_spin_lock");
        *(void **)&unlock = dlsym(glibc_s, "pthread_spin_unlock");
    }
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 2 || pthread_spin_trylock(the_lock) != 0)
            EXPECT(lock(the_lock), 0);
        value++;
        EXPECT(unlock(the_lock), 0);
    }
    return NULL;
}

/* Whoever takes it, and wherever it is. */
static void exclusion(void) {
    static _Alignas(64) char places[64];
    void *glibc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    CHECK(glibc);
    for (int offset = 0; offset < 8; offset += 2) {
        the_lock = (void *)(places + offset);
        EXPECT(pthread_spin_init(the_lock, PTHREAD_PROCESS_PRIVATE), 0);
        value = 0;
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            EXPECT(pthread_create(&threads[i], NULL, come_and_go, i % 2 ? glibc : NULL), 0);
        for (int i = 0; i < THREADS; i++)
            EXPECT(pthread_join(threads[i], NULL), 0);
        CHECK(value == (long)THREADS * ROUNDS);
        EXPECT(pthread_spin_trylock(the_lock), 0);
        EXPECT(pthread_spin_trylock(the_lock), EBUSY);
        EXPECT(pthread_spin_unlock(the_lock), 0);
        EXPECT(pthread_spin_destroy(the_lock), 0);
    }
}

/* With count_spins.c: nobody is in the way, so nothing is passed on to glibc. */
static void not_passed_on(void) {
    int *calls = dlsym(RTLD_DEFAULT, "spin_calls");
    CHECK(calls);
    pthread_spinlock_t lock;
    EXPECT(pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE), 0);
    int before = *calls;
    EXPECT(pthread_spin_lock(&lock), 0);
    EXPECT(pthread_spin_unlock(&lock), 0);
    EXPECT(pthread_spin_trylock(&lock), 0);
    EXPECT(pthread_spin_unlock(&lock), 0);
    EXPECT(*calls, before);
    EXPECT(pthread_spin_lock(&lock), 0);
    EXPECT(pthread_spin_trylock(&lock), EBUSY);
    EXPECT(*calls, before + 1);
}

TESTS({"exclusion", exclusion}, {"not_passed_on", not_passed_on})

/* A library that counts the calls of spin locks that reach it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>

int spin_calls;

static int passed_on(const char *name, pthread_spinlock_t *lock) {
    int (*real)(pthread_spinlock_t *);
    *(void **)&real = dlsym(RTLD_NEXT, name);
    spin_calls++;
    return real(lock);
}

int pthread_spin_lock(pthread_spinlock_t *lock) { return passed_on("pthread_spin_lock", lock); }
int pthread_spin_trylock(pthread_spinlock_t *lock) { return passed_on("pthread_spin_trylock", lock); }
int pthread_spin_unlock(pthread_spinlock_t *lock) { return passed_on("pthread_spin_unlock", lock); }

/* A library that a program loads and unloads. */
#include <pthread.h>

int locks_and_unlocks(pthread_mutex_t *mutex) {
    int result = pthread_mutex_lock(mutex);
    return result ? result : pthread_mutex_unlock(mutex);
}

static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

int locks_its_own(void) { return locks_and_unlocks(&own); }

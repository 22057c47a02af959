/* A library that a program loads and unloads. */
#include <pthread.h>

int locks_and_unlocks(pthread_mutex_t *mutex) {
    int result = pthread_mutex_lock(mutex);
    return result ? result : pthread_mutex_unlock(mutex);
}

/* Two threads that take turns, correctly: ThreadSanitizer has nothing to report. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static int turn, shared;

static void *take_turns(void *me) {
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&mutex);
        while (turn % 2 != (intptr_t)me)
            pthread_cond_wait(&condition, &mutex);
        turn++;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
        pthread_rwlock_wrlock(&rwlock);
        shared++;
        pthread_rwlock_unlock(&rwlock);
        pthread_rwlock_rdlock(&rwlock);
        if (shared < 1)
            return me;
        pthread_rwlock_unlock(&rwlock);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (intptr_t i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, take_turns, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return turn == 1000 && shared == 1000 ? 0 : 1;
}

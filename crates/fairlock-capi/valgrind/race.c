/* What a race detector must and must not report: with `--racy` a counter is changed by two
 * threads without the lock, else with it. */
#include <pthread.h>
#include <string.h>

#include "fairlock.h"

static fairlock_rwlock_t lock = FAIRLOCK_RWLOCK_INIT;
static fairlock_rwlock_t other = FAIRLOCK_RWLOCK_INIT;
static volatile long counter;

static void *count(void *mine) {
    for (int i = 0; i < 100; i++) {
        fairlock_rwlock_write(mine);
        counter++;
        fairlock_rwlock_unlock_write(mine);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int racy = argc > 1 && strcmp(argv[1], "--racy") == 0;
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, count, &lock);
    pthread_create(&threads[1], NULL, count, racy ? &other : &lock);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}

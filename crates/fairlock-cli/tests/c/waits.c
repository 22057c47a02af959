/* One lock, for which somebody has to wait. The argument is its exit code. */
#define _GNU_SOURCE
#include "asleep.h"
#include <pthread.h>

pthread_rwlock_t the_lock = PTHREAD_RWLOCK_INITIALIZER;

static void *reader(void *unused) {
    tid = gettid();
    pthread_rwlock_rdlock(&the_lock);
    pthread_rwlock_unlock(&the_lock);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    pthread_rwlock_wrlock(&the_lock);
    pthread_create(&thread, NULL, reader, NULL);
    until_it_sleeps();
    usleep(30000);
    pthread_rwlock_unlock(&the_lock);
    pthread_join(thread, NULL);
#ifdef STAYS
    char byte;
    if (write(1, "\n", 1) < 0 || read(0, &byte, 1) < 0)
        return 1;
#endif
    return argc > 1 ? atoi(argv[1]) : 0;
}

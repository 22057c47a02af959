/* One lock, for which somebody has to wait. The argument is its exit code. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

pthread_rwlock_t the_lock = PTHREAD_RWLOCK_INITIALIZER;

static void *reader(void *waits) {
    *(volatile int *)waits = 1;
    pthread_rwlock_rdlock(&the_lock);
    pthread_rwlock_unlock(&the_lock);
    return NULL;
}

int main(int argc, char **argv) {
    static volatile int waits;
    pthread_t thread;
    pthread_rwlock_wrlock(&the_lock);
    pthread_create(&thread, NULL, reader, (void *)&waits);
    while (!waits)
        usleep(100);
    usleep(30000);
    pthread_rwlock_unlock(&the_lock);
    pthread_join(thread, NULL);
#ifdef STAYS
    if (write(1, "\n", 1) < 0 || read(0, (void *)&waits, 1) < 0)
        return 1;
#endif
    return argc > 1 ? atoi(argv[1]) : 0;
}

/* The lock is released by the last call of a function, which is a jump. */
#include <pthread.h>
#include <unistd.h>

pthread_mutex_t the_mutex = PTHREAD_MUTEX_INITIALIZER;

static void *waiter(void *waits) {
    *(volatile int *)waits = 1;
    pthread_mutex_lock(&the_mutex);
    pthread_mutex_unlock(&the_mutex);
    return NULL;
}

__attribute__((noinline)) static int releases(void) {
    usleep(30000);
    return pthread_mutex_unlock(&the_mutex);
}

int main(void) {
    static volatile int waits;
    pthread_t thread;
    pthread_mutex_lock(&the_mutex);
    pthread_create(&thread, NULL, waiter, (void *)&waits);
    while (!waits)
        usleep(100);
    int result = releases();
    pthread_join(thread, NULL);
    return result;
}

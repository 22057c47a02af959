/* The lock is released by the last call of a function, which is a jump. */
#define _GNU_SOURCE
#include "asleep.h"
#include <pthread.h>

pthread_mutex_t the_mutex = PTHREAD_MUTEX_INITIALIZER;

static void *waiter(void *unused) {
    tid = gettid();
    pthread_mutex_lock(&the_mutex);
    pthread_mutex_unlock(&the_mutex);
    return unused;
}

__attribute__((noinline)) static int releases(void) {
    usleep(30000);
    return pthread_mutex_unlock(&the_mutex);
}

int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&the_mutex);
    pthread_create(&thread, NULL, waiter, NULL);
    until_it_sleeps();
    int result = releases();
    pthread_join(thread, NULL);
    return result;
}

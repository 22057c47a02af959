/* Six threads read, 20 us at a time; how often does one that wants to write get in?

   cc -O2 -pthread starved_writer.c && ./a.out && LD_PRELOAD=libfairlock_preload.so ./a.out */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

enum { READERS = 6, SECTION_NS = 20000, SECONDS = 4 };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_bool stop;
static atomic_long reads;

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *keep_reading(void *unused) {
    while (!stop) {
        pthread_rwlock_rdlock(&lock);
        for (long end = now() + SECTION_NS; now() < end;)
            ;
        pthread_rwlock_unlock(&lock);
        reads++;
    }
    return unused;
}

int main(void) {
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++)
        if (pthread_create(&readers[i], NULL, keep_reading, NULL))
            return 1;
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += SECONDS;
    long writes = 0, longest = 0;
    for (;;) {
        long began = now();
        int result = pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &deadline);
        long waited = now() - began;
        if (waited > longest)
            longest = waited;
        if (result == ETIMEDOUT)
            break;
        writes++;
        pthread_rwlock_unlock(&lock);
        struct timespec pause = {.tv_nsec = 1000000}; /* a write now and then */
        nanosleep(&pause, NULL);
    }
    stop = true;
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    printf("%7.1f writes/s %9.0f reads/s %9.2f ms longest wait to write\n",
           (double)writes / SECONDS, (double)reads / SECONDS, longest / 1e6);
}

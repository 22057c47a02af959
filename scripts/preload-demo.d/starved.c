/* Six readers that leave the lock for no time at all, and a writer: who gets in? With
   glibc's default locks a reader is always inside. Prints writes and reads a second, and
   the writer's longest wait in milliseconds (the last one included). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { READERS = 6, SECONDS = 4, SECTION_NS = 20000 };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int stop;
static atomic_ulong reads, writes;
static double longest, since;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void *reader(void *unused) {
    (void)unused;
    while (!stop) {
        pthread_rwlock_rdlock(&lock);
        for (double end = now() + SECTION_NS / 1e9; now() < end;) {
        }
        reads++;
        pthread_rwlock_unlock(&lock);
    }
    return NULL;
}

static void *writer(void *unused) {
    (void)unused;
    while (!stop) {
        since = now();
        pthread_rwlock_wrlock(&lock);
        double waited = now() - since;
        longest = waited > longest ? waited : longest;
        writes++;
        pthread_rwlock_unlock(&lock);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[READERS + 1];
    for (int i = 0; i < READERS; i++)
        pthread_create(&threads[i], NULL, reader, NULL);
    usleep(10000);
    pthread_create(&threads[READERS], NULL, writer, NULL);
    sleep(SECONDS);
    unsigned long written = writes, read = reads;
    stop = 1;
    for (int i = 0; i <= READERS; i++)
        pthread_join(threads[i], NULL);
    printf("%.1f %.0f %.1f\n", (double)written / SECONDS, (double)read / SECONDS, longest * 1e3);
    return 0;
}

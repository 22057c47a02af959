/* For LD_PRELOAD, in front of whatever serves pthread_rwlock_*: the longest time that a
   call took which had to take the lock, in milliseconds, into the file DEMO_WAITS. Our
   locks and glibc's are measured alike. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int take(pthread_rwlock_t *);

static take *read_next, *write_next;
static atomic_ullong longest_read, longest_write;

static unsigned long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int timed(take *take, pthread_rwlock_t *lock, atomic_ullong *longest) {
    unsigned long long start = now();
    int result = take(lock);
    unsigned long long took = now() - start;
    unsigned long long before = atomic_load(longest);
    while (took > before && !atomic_compare_exchange_weak(longest, &before, took)) {
    }
    return result;
}

__attribute__((constructor)) static void find(void) {
    read_next = (take *)dlsym(RTLD_NEXT, "pthread_rwlock_rdlock");
    write_next = (take *)dlsym(RTLD_NEXT, "pthread_rwlock_wrlock");
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    if (!read_next)
        find();
    return timed(read_next, lock, &longest_read);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    if (!write_next)
        find();
    return timed(write_next, lock, &longest_write);
}

__attribute__((destructor)) static void report(void) {
    const char *name = getenv("DEMO_WAITS");
    FILE *file = name ? fopen(name, "w") : NULL;
    if (file) {
        fprintf(file, "%.1f %.1f\n", longest_read / 1e6, longest_write / 1e6);
        fclose(file);
    }
}

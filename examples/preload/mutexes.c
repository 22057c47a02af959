/* What mutexes and condition variables cost: alone, hot, spread over many, and between producers
   and consumers.

   cc -O2 -pthread mutexes.c && ./a.out && LD_PRELOAD=libfairlock_preload.so ./a.out */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, ROOM = 16 };

static struct {
    pthread_mutex_t mutex;
    long value;
} __attribute__((aligned(128))) places[MOST];
static int mutexes;
static atomic_bool go, stop;
static long counts[MOST * 16];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *lock_at_random(void *argument) {
    size_t me = (size_t)argument;
    unsigned seed = me + 1;
    long count = 0;
    while (!go)
        usleep(100);
    for (; !stop; count++) {
        int i = mutexes > 1 ? rand_r(&seed) % mutexes : 0;
        pthread_mutex_lock(&places[i].mutex);
        for (int n = 0; n < 20; n++)
            ((volatile long *)&places[i].value)[0]++;
        pthread_mutex_unlock(&places[i].mutex);
    }
    counts[me * 16] = count;
    return NULL;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static int filled;

static void *produce_or_consume(void *argument) {
    size_t me = (size_t)argument;
    long count = 0;
    while (!go)
        usleep(100);
    for (; !stop; count++) {
        pthread_mutex_lock(&mutex);
        while (filled == (me % 2 ? 0 : ROOM) && !stop)
            pthread_cond_wait(me % 2 ? &not_empty : &not_full, &mutex);
        filled += me % 2 ? -1 : 1;
        pthread_cond_signal(me % 2 ? &not_full : &not_empty);
        pthread_mutex_unlock(&mutex);
    }
    pthread_cond_broadcast(&not_full);
    pthread_cond_broadcast(&not_empty);
    counts[me * 16] = count;
    return NULL;
}

/* Thousands a second, and the fewest of a thread in percent of the mean. */
static void run(const char *what, void *(*function)(void *), int threads) {
    pthread_t ids[MOST];
    go = stop = false;
    for (size_t t = 0; t < (size_t)threads; t++)
        pthread_create(&ids[t], NULL, function, (void *)t);
    usleep(20000);
    double began = now();
    go = true;
    usleep(500000);
    stop = true;
    for (int i = 0; i < 50; i++, usleep(100)) {
        pthread_cond_broadcast(&not_full);
        pthread_cond_broadcast(&not_empty);
    }
    double took = now() - began;
    long sum = 0, least = -1;
    for (int t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        sum += counts[t * 16];
        if (least < 0 || counts[t * 16] < least)
            least = counts[t * 16];
    }
    printf("%-10s %9.0f k/s %5.1f%%\n", what, sum / took * 1e6, 100.0 * least * threads / sum);
}

static void alone(const char *what) {
    double best = 1e9;
    for (int round = 0; round < 9; round++) {
        double began = now();
        for (int i = 0; i < 1000000; i++) {
            pthread_mutex_lock(&mutex);
            pthread_mutex_unlock(&mutex);
        }
        double each = (now() - began) / 1000000;
        best = each < best ? each : best;
    }
    printf("%-10s %9.2f ns\n", what, best);
}

static void *sleep_on(void *unused) {
    pause();
    return unused;
}

int main(void) {
    alone("one thread");
    pthread_t other;
    pthread_create(&other, NULL, sleep_on, NULL);
    alone("alone");
    mutexes = 1;
    run("hot 8", lock_at_random, 8);
    run("hot 60", lock_at_random, 60);
    mutexes = 64;
    run("64 of 32", lock_at_random, 32);
    run("queue 4", produce_or_consume, 4);
    run("queue 32", produce_or_consume, 32);
    exit(0);
}

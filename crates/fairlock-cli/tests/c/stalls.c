/* Programs that stall, each of a kind that people look for. The argument says which. */
#define _GNU_SOURCE
#include "asleep.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define APART __attribute__((noinline)) static

/* Longer than what is too short to be said. */
enum { LONG_US = 150000 };

static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER, journal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t orders = PTHREAD_MUTEX_INITIALIZER, table = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static sem_t pool;
static _Atomic int have_first, may_go;

static pthread_t begin(void *(*what)(void *)) {
    pthread_t thread;
    tid = 0;
    if (pthread_create(&thread, NULL, what, NULL) != 0)
        abort();
    return thread;
}

static void begin_and_sleep(void *(*what)(void *)) {
    begin(what);
    until_it_sleeps();
}

/* Waits until both have their first lock, and then for its turn to wait. */
static void meet(int turn) {
    have_first++;
    while (may_go < turn)
        usleep(100);
    tid = gettid();
}

APART void *transfer(void *unused) {
    pthread_mutex_lock(&accounts);
    meet(1);
    pthread_mutex_lock(&journal);
    return unused;
}

APART void *audit(void *unused) {
    pthread_mutex_lock(&journal);
    meet(2);
    pthread_mutex_lock(&accounts);
    return unused;
}

static void two_orders(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, transfer, NULL);
    pthread_create(&thread, NULL, audit, NULL);
    while (have_first < 2)
        usleep(100);
    for (may_go = 1; may_go <= 2; may_go++) {
        tid = 0;
        until_it_sleeps();
    }
    raise(SIGTERM);
}

APART void *nightly_backup(void *unused) {
    pthread_mutex_lock(&orders);
    tid = gettid();
    pause();
    return unused;
}

APART void *place_order(void *unused) {
    tid = gettid();
    pthread_mutex_lock(&orders);
    return unused;
}

static void three_threads(void) {
    begin_and_sleep(nightly_backup);
    begin_and_sleep(place_order);
    begin_and_sleep(place_order);
    usleep(LONG_US);
}

static void held_for_ever(void) {
    three_threads();
    raise(SIGTERM);
}

static void exit_while_waiting(void) {
    three_threads();
    exit(0);
}

APART void *checkpoint(void *unused) {
    for (int i = 0; i < 10; i++) {
        pthread_mutex_lock(&table);
        usleep(20000);
        pthread_mutex_unlock(&table);
    }
    return unused;
}

static void convoy(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = begin(checkpoint);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

APART void *consume(void *unused) {
    pthread_mutex_lock(&accounts);
    tid = gettid();
    for (;;)
        pthread_cond_wait(&work, &accounts);
    return unused;
}

static void missed_wake_up(void) {
    begin_and_sleep(consume);
    usleep(LONG_US);
    raise(SIGTERM);
}

APART void *borrow(void *unused) {
    tid = gettid();
    sem_wait(&pool);
    return unused;
}

static void pool_exhausted(void) {
    sem_init(&pool, 0, 0);
    begin_and_sleep(borrow);
    begin_and_sleep(borrow);
    usleep(LONG_US);
    raise(SIGTERM);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*stall)(void);
    } stalls[] = {
        {"two_orders", two_orders},       {"held_for_ever", held_for_ever}, {"exit_while_waiting", exit_while_waiting},
        {"convoy", convoy},               {"missed_wake_up", missed_wake_up}, {"pool_exhausted", pool_exhausted},
    };
    for (size_t i = 0; argc > 1 && i < sizeof stalls / sizeof *stalls; i++)
        if (strcmp(argv[1], stalls[i].name) == 0) {
            stalls[i].stall();
            return 0;
        }
    return 1;
}

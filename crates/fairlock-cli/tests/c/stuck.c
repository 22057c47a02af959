// A program that stands still, in the way that its argument names.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER, journal = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both, gate;
static sem_t slots;
static pthread_mutex_t inherits;

static void named(const char *name) { pthread_setname_np(pthread_self(), name); }

static void *transfer(void *x) {
    named("transfer");
    pthread_mutex_lock(&accounts);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&journal);
    return x;
}

static void *audit(void *x) {
    named("audit");
    pthread_mutex_lock(&journal);
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&accounts);
    return x;
}

static void *holds(void *kind) {
    named("holder");
    if (!strcmp(kind, "rwlock")) pthread_rwlock_wrlock(&table);
    else if (!strcmp(kind, "reader")) pthread_rwlock_rdlock(&table);
    else if (!strcmp(kind, "stream")) flockfile(stdout);
    else if (!strcmp(kind, "inherits")) pthread_mutex_lock(&inherits);
    else pthread_mutex_lock(&accounts);
    pthread_barrier_wait(&both);
    if (!strcmp(kind, "ended")) return 0;
    for (;;) pause();
}

static void *waits(void *kind) {
    named("waiter");
    if (!strcmp(kind, "rwlock")) pthread_rwlock_rdlock(&table);
    else if (!strcmp(kind, "reader")) pthread_rwlock_wrlock(&table);
    else if (!strcmp(kind, "stream")) puts("never printed");
    else if (!strcmp(kind, "inherits")) pthread_mutex_lock(&inherits);
    else if (!strcmp(kind, "condition")) pthread_mutex_lock(&journal), pthread_cond_wait(&never, &journal);
    else if (!strcmp(kind, "semaphore")) sem_wait(&slots);
    else if (!strcmp(kind, "barrier")) pthread_barrier_wait(&gate);
    else pthread_mutex_lock(&accounts);
    return 0;
}

static atomic_ulong rounds;

// Sleeps within malloc if it came while the arena was locked: then the other thread makes no rounds.
static void came(int signal) {
    (void)signal;
    for (unsigned long before = rounds; rounds < before + 2;) usleep(100);
}

static void *allocates(void *name) {
    named(name);
    for (;;) {
        void *volatile memory = malloc(3000);
        free(memory);
        if (!strcmp(name, "waiter")) rounds++;
    }
    return 0;
}

static void start(pthread_t *thread, void *(*run)(void *), void *argument) {
    pthread_create(thread, 0, run, argument);
}

int main(int count, char **arguments) {
    char *kind = count > 1 ? arguments[1] : "";
    pthread_t one, other;
    pthread_barrier_init(&both, 0, 2);
    pthread_barrier_init(&gate, 0, 3);
    pthread_mutexattr_t inherit;
    pthread_mutexattr_init(&inherit);
    pthread_mutexattr_setprotocol(&inherit, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&inherits, &inherit);
    if (!strcmp(kind, "orders")) {
        start(&one, transfer, 0);
        start(&other, audit, 0);
    } else if (!strcmp(kind, "malloc")) {
        mallopt(M_ARENA_MAX, 1);
        signal(SIGUSR1, came);
        start(&one, allocates, "holder");
        start(&other, allocates, "waiter");
        for (;;) pthread_kill(one, SIGUSR1), usleep(1000);
    } else if (!strcmp(kind, "shared")) {
        pthread_mutex_t *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_mutex_init(shared, &attributes);
        int ready[2], stays[2], byte = 0;
        if (pipe(ready) || pipe(stays)) return 1;
        if (!fork()) {
            // Ends with the program, which has the other end.
            close(stays[1]);
            pthread_mutex_lock(shared);
            if (write(ready[1], &byte, 1) != 1) return 1;
            return read(stays[0], &byte, 1) != 0;
        }
        if (read(ready[0], &byte, 1) != 1) return 1;
        pthread_mutex_lock(shared);
    } else if (!strcmp(kind, "file")) {
        FILE *file = tmpfile();
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
        FILE *again = fopen(path, "r");
        flock(fileno(file), LOCK_EX);
        flock(fileno(again), LOCK_EX);
    } else {
        if (strcmp(kind, "condition") && strcmp(kind, "semaphore") && strcmp(kind, "barrier")) {
            start(&one, holds, kind);
            pthread_barrier_wait(&both);
            if (!strcmp(kind, "ended")) pthread_join(one, 0);
        }
        start(&one, waits, kind);
    }
    pthread_join(one, 0);
}

/* A deadlock of two threads at locks with a name. They stay in it: the program ends beside them. */
#define _GNU_SOURCE
#include "check.h"

static fairlock_mutex_t accounts = FAIRLOCK_MUTEX_INIT;
static fairlock_rwlock_t journal = FAIRLOCK_RWLOCK_INIT;
static pthread_barrier_t both;

static void *checkout(void *unused) {
    CHECK(pthread_setname_np(pthread_self(), "checkout") == 0);
    GIVES(0, fairlock_mutex_lock(&accounts));
    pthread_barrier_wait(&both);
    GIVES(0, fairlock_rwlock_read(&journal));
    return unused;
}

static void *audit(void *unused) {
    CHECK(pthread_setname_np(pthread_self(), "audit") == 0);
    GIVES(0, fairlock_rwlock_write(&journal));
    pthread_barrier_wait(&both);
    GIVES(0, fairlock_mutex_lock(&accounts));
    return unused;
}

static void a_deadlock_is_found(void) {
    char text[8192];
    pthread_t threads[2];
    CHECK(fairlock_deadlocks(text, sizeof text) == 0 && text[0] == 0);
    GIVES(0, fairlock_mutex_set_name(&accounts, "accounts"));
    GIVES(0, fairlock_rwlock_set_name(&journal, "journal"));
    CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
    CHECK(pthread_create(&threads[0], NULL, checkout, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, audit, NULL) == 0);
    while (fairlock_deadlocks(NULL, 0) == 0) {
        sched_yield();
    }
    size_t length = fairlock_deadlocks(text, sizeof text);
    CHECK(length == strlen(text) && strncmp(text, "DEADLOCK: ", 10) == 0);
    CHECK(strchr(text, '\n') == text + length - 1);
    CHECK(strstr(text, "checkout holds accounts") && strstr(text, "waits for journal"));
    CHECK(strstr(text, "audit holds journal") && strstr(text, "waits for accounts"));
    fairlock_stats_t mutexes, reads;
    GIVES(0, fairlock_stats_get("accounts", true, &mutexes));
    GIVES(0, fairlock_stats_get("journal", false, &reads));
    CHECK(mutexes.waiting == 1 && mutexes.waiting_ns > 0 && mutexes.waited.count == 0);
    CHECK(mutexes.holding == 1 && mutexes.holding_ns > mutexes.waiting_ns && reads.waiting == 1);
    CHECK(fairlock_stats_table(text, sizeof text) > 0 && strstr(text, "held now") && strstr(text, "DEADLOCK: "));
}

int main(void) {
    watchdog();
    a_deadlock_is_found();
    exit(0);
}

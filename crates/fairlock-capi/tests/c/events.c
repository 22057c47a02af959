/* Counters. */
#define _GNU_SOURCE
#include <sys/syscall.h>

#include "check.h"

static fairlock_rwlock_t lock;
static fairlock_events_t events = FAIRLOCK_EVENTS_INIT;

static void wait_in_vain(void) {
    GIVES(0, fairlock_rwlock_write(&lock));
    struct timespec soon = after_ms(CLOCK_MONOTONIC, 5);
    GIVES(ETIMEDOUT, fairlock_rwlock_read_until(&lock, CLOCK_MONOTONIC, &soon));
    GIVES(0, fairlock_rwlock_unlock_write(&lock));
}

static void a_lock_counts_where_it_is_told_to(void) {
    wait_in_vain();
    CHECK(fairlock_events_get(&events, "rwsem_rlock_fail") == 0);
    GIVES(0, fairlock_rwlock_set_events(&lock, &events));
    wait_in_vain();
    CHECK(fairlock_events_get(&events, "rwsem_rlock_fail") == 1);
    CHECK(fairlock_events_get(NULL, "rwsem_rlock_fail") == 0);
    GIVES(0, fairlock_rwlock_set_events(&lock, NULL));
    wait_in_vain();
    CHECK(fairlock_events_get(&events, "rwsem_rlock_fail") == 1);
}

static void the_process_counts_while_it_is_told_to(void) {
    fairlock_events_set_counting(true);
    wait_in_vain();
    fairlock_events_set_counting(false);
    wait_in_vain();
    CHECK(fairlock_events_get(NULL, "rwsem_rlock_fail") == 1);
    GIVES(0, fairlock_events_reset(NULL));
    CHECK(fairlock_events_get(NULL, "rwsem_rlock_fail") == 0);
}

static void all_are_read_with_their_names(void) {
    fairlock_event_count_t counts[64];
    size_t all = fairlock_events_read(&events, counts, 64);
    CHECK(all > 10 && all < 64);
    CHECK(fairlock_events_read(&events, NULL, 64) == all);
    for (size_t i = 0; i < all; i++) {
        CHECK(strlen(counts[i].name) > 4);
        CHECK(fairlock_events_get(&events, counts[i].name) == counts[i].count);
        for (size_t j = 0; j < i; j++) {
            CHECK(strcmp(counts[i].name, counts[j].name) != 0);
        }
    }
    /* No more than there is room for. */
    counts[2].name = NULL;
    CHECK(fairlock_events_read(NULL, counts, 2) == all);
    CHECK(counts[2].name == NULL && counts[1].name != NULL && counts[1].count == 0);
    GIVES(0, fairlock_events_reset(&events));
    CHECK(fairlock_events_get(&events, "rwsem_rlock_fail") == 0);
    CHECK(fairlock_events_get(&events, "no such event") == 0);
    CHECK(fairlock_events_get(&events, NULL) == 0);
}

static void what_are_no_counters(void) {
    fairlock_events_t *odd = (fairlock_events_t *)((char *)&events + 1);
    fairlock_event_count_t count;
    GIVES(EINVAL, fairlock_events_reset(odd));
    GIVES(EINVAL, fairlock_rwlock_set_events(&lock, odd));
    CHECK(fairlock_events_read(odd, &count, 1) == 0);
    CHECK(fairlock_events_get(odd, "rwsem_rlock_fail") == 0);
}

/* Readers of a lock that is hardly written: none is counted, and yet a writer is alone. */
static fairlock_rwlock_t table;
/* Guarded by `table`. */
static bool stop;
static long value, copy_of_it;

static void *read_on(void *unused) {
    bool ends = false;
    while (!ends) {
        GIVES(0, fairlock_rwlock_read(&table));
        GIVES(EBUSY, fairlock_rwlock_try_write(&table));
        CHECK(value == copy_of_it);
        ends = stop;
        GIVES(0, fairlock_rwlock_unlock_read(&table));
        for (int i = 0; i < 2000; i++) {
            GIVES(0, fairlock_rwlock_read(&table));
            CHECK(value == copy_of_it);
            GIVES(0, fairlock_rwlock_unlock_read(&table));
        }
    }
    return unused;
}

static void readers_are_visible_and_writers_alone(void) {
    if (syscall(SYS_membarrier, 0, 0, 0) < 0) {
        return; /* refused, or not there */
    }
    pthread_t readers[3];
    fairlock_events_set_counting(true);
    for (int i = 0; i < 3; i++) {
        readers[i] = spawn(read_on, NULL);
    }
    for (int i = 0; i < 3; i++) {
        uint64_t revoked = fairlock_events_get(NULL, "readers_revoked");
        while (fairlock_events_get(NULL, "readers_shown") <= revoked) {
            nap();
        }
        GIVES(0, fairlock_rwlock_write(&table));
        value++;
        nap();
        copy_of_it++;
        GIVES(0, fairlock_rwlock_unlock_write(&table));
        CHECK(fairlock_events_get(NULL, "readers_revoked") > revoked);
    }
    GIVES(0, fairlock_rwlock_write(&table));
    stop = true;
    GIVES(0, fairlock_rwlock_unlock_write(&table));
    for (int i = 0; i < 3; i++) {
        join(readers[i]);
    }
    GIVES(EPERM, fairlock_rwlock_unlock_read(&table));
    fairlock_events_set_counting(false);
}

int main(void) {
    watchdog();
    a_lock_counts_where_it_is_told_to();
    the_process_counts_while_it_is_told_to();
    all_are_read_with_their_names();
    what_are_no_counters();
    readers_are_visible_and_writers_alone();
    return 0;
}

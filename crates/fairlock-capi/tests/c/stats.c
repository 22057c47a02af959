/* Statistics of locks with a name. */
#define _GNU_SOURCE
#include "check.h"

static fairlock_rwlock_t lock = FAIRLOCK_RWLOCK_INIT;
static fairlock_mutex_t mutex = FAIRLOCK_MUTEX_INIT;
static fairlock_mutex_t batched = FAIRLOCK_MUTEX_INIT_BATCH(4);
static fairlock_cond_t changed = FAIRLOCK_COND_INIT;

static fairlock_stats_t stats_of(const char *name, bool writes) {
    fairlock_stats_t stats;
    GIVES(0, fairlock_stats_get(name, writes, &stats));
    return stats;
}

static void what_has_no_name_is_not_counted(void) {
    fairlock_stats_t stats;
    GIVES(0, fairlock_rwlock_write(&lock));
    GIVES(0, fairlock_rwlock_unlock_write(&lock));
    GIVES(ENOENT, fairlock_stats_get("lock", true, &stats));
    GIVES(EINVAL, fairlock_stats_get(NULL, true, &stats));
    GIVES(EINVAL, fairlock_rwlock_set_name(&lock, NULL));
    GIVES(EINVAL, fairlock_rwlock_set_name(NULL, "lock"));
}

/* Each way to take the lock is counted once, whatever it is. */
static void all_ways_to_take_a_lock_are_counted(void) {
    struct timespec later = after_ms(CLOCK_MONOTONIC, 1000000000);
    GIVES(0, fairlock_rwlock_set_name(&lock, "lock"));
    GIVES(EBUSY, fairlock_rwlock_set_name(&lock, "again"));
    GIVES(0, fairlock_rwlock_read(&lock));
    GIVES(0, fairlock_rwlock_try_read(&lock));
    GIVES(0, fairlock_rwlock_read_recursive(&lock));
    GIVES(0, fairlock_rwlock_try_read_recursive(&lock));
    GIVES(0, fairlock_rwlock_read_until(&lock, CLOCK_MONOTONIC, &later));
    GIVES(0, fairlock_rwlock_read_interruptible(&lock));
    GIVES(EBUSY, fairlock_rwlock_try_write(&lock));
    for (int i = 0; i < 5; i++) {
        GIVES(0, fairlock_rwlock_unlock_read(&lock));
    }
    GIVES(0, fairlock_rwlock_unlock_read_fair(&lock));
    GIVES(0, fairlock_rwlock_write(&lock));
    GIVES(0, fairlock_rwlock_unlock_write(&lock));
    GIVES(0, fairlock_rwlock_try_write(&lock));
    GIVES(0, fairlock_rwlock_unlock_write_fair(&lock));
    GIVES(0, fairlock_rwlock_write_until(&lock, CLOCK_MONOTONIC, &later));
    GIVES(0, fairlock_rwlock_downgrade(&lock));
    GIVES(0, fairlock_rwlock_unlock_read(&lock));
    GIVES(EPERM, fairlock_rwlock_unlock_read(&lock));
    fairlock_stats_t reads = stats_of("lock", false), writes = stats_of("lock", true);
    CHECK(reads.acquisitions == 6 && writes.acquisitions == 3);
    CHECK(writes.held.count == 1 && writes.waited.count == 0 && writes.given_up == 0);
}

static void *wait_in_vain(void *unused) {
    CHECK(pthread_setname_np(pthread_self(), "in vain") == 0);
    struct timespec soon = after_ms(CLOCK_MONOTONIC, 5);
    GIVES(ETIMEDOUT, fairlock_rwlock_read_until(&lock, CLOCK_MONOTONIC, &soon));
    return unused;
}

static void who_waited_longest_is_named(void) {
    pthread_t waiter;
    GIVES(0, fairlock_rwlock_write(&lock));
    CHECK(pthread_create(&waiter, NULL, wait_in_vain, NULL) == 0);
    CHECK(pthread_join(waiter, NULL) == 0);
    GIVES(0, fairlock_rwlock_unlock_write(&lock));
    fairlock_stats_t reads = stats_of("lock", false);
    CHECK(reads.given_up == 1 && reads.waited.count == 1);
    CHECK(reads.waited.longest_ns > 0 && reads.waited.p50_ns <= reads.waited.longest_ns);
    CHECK(strcmp(reads.longest_waiter, "in vain") == 0);
#ifdef __x86_64__
    /* The call is in this function, and a function of C takes few bytes. Not where valgrind/annotations.c, which is
       preloaded, calls in its place. */
    uintptr_t at = (uintptr_t)reads.longest_wait_at;
    const char *preloaded = getenv("LD_PRELOAD");
    bool here = at > (uintptr_t)wait_in_vain && at < (uintptr_t)wait_in_vain + 1000;
    CHECK(here == !(preloaded && strstr(preloaded, "/fairlock-")));
    fairlock_stats_t writes = stats_of("lock", true);
    CHECK(writes.longest_hold_at != NULL && writes.longest_hold_at != reads.longest_wait_at);
    /* By the function, or else by the file that the call is in. */
    char text[8192];
    fairlock_stats_table(text, sizeof text);
    const char *waited = strstr(text, " by in vain at ");
    CHECK(waited && strchr(waited, '+') && strchr(waited, '+') < strchr(waited, '\n'));
#endif
}

static void mutexes_are_counted(void) {
    GIVES(0, fairlock_mutex_set_name(&mutex, "mutex"));
    GIVES(0, fairlock_mutex_set_name(&batched, "batched"));
    fairlock_mutex_t *both[] = {&mutex, &batched};
    const char *names[] = {"mutex", "batched"};
    struct timespec soon = after_ms(CLOCK_MONOTONIC, 1);
    for (int i = 0; i < 2; i++) {
        GIVES(0, fairlock_mutex_lock(both[i]));
        GIVES(EBUSY, fairlock_mutex_try_lock(both[i]));
        GIVES(0, fairlock_mutex_unlock(both[i]));
        GIVES(0, fairlock_mutex_try_lock(both[i]));
        GIVES(ETIMEDOUT, fairlock_mutex_lock_until(both[i], CLOCK_MONOTONIC, &soon));
        GIVES(0, fairlock_mutex_unlock_fair(both[i]));
        fairlock_stats_t stats = stats_of(names[i], true);
        CHECK(stats.acquisitions == 2 && stats.given_up == 1);
        CHECK(stats_of(names[i], false).acquisitions == 0);
    }
    GIVES(0, fairlock_mutex_lock(&mutex));
    soon = after_ms(CLOCK_MONOTONIC, 1);
    GIVES(ETIMEDOUT, fairlock_cond_wait_until(&changed, &mutex, CLOCK_MONOTONIC, &soon));
    GIVES(0, fairlock_mutex_unlock(&mutex));
    fairlock_stats_t stats = stats_of("mutex", true);
    CHECK(stats.acquisitions == 3 && stats.conditions.count == 1);
    CHECK(stats.conditions.longest_ns > 0 && stats_of("mutex", false).conditions.count == 0);
}

static void nothing_is_counted_while_it_is_switched_off(void) {
    fairlock_stats_set_collecting(false);
    GIVES(0, fairlock_mutex_lock(&mutex));
    GIVES(0, fairlock_mutex_unlock(&mutex));
    fairlock_stats_set_collecting(true);
    CHECK(stats_of("mutex", true).acquisitions == 3);
}

static void all_are_printed(void) {
    char text[8192], start[20];
    size_t length = fairlock_stats_table(text, sizeof text);
    CHECK(length == strlen(text) && strstr(text, "batched") && strstr(text, "in vain"));
    CHECK(fairlock_stats_table(start, sizeof start) == length);
    CHECK(strlen(start) == sizeof start - 1 && strncmp(start, text, sizeof start - 1) == 0);
    length = fairlock_stats_json(text, sizeof text);
    CHECK(length == strlen(text) && strncmp(text, "{\"locks\":[{\"name\":\"batched\"", 27) == 0);
    CHECK(fairlock_stats_json(NULL, 0) == length);
}

static void what_a_destroyed_lock_counted_stays(void) {
    fairlock_stats_t stats;
    GIVES(0, fairlock_mutex_destroy(&mutex));
    GIVES(0, fairlock_stats_get("mutex", true, &stats));
    CHECK(stats.acquisitions == 3);
    GIVES(0, fairlock_mutex_init(&mutex, FAIRLOCK_BATCH_NONE));
    GIVES(0, fairlock_mutex_set_name(&mutex, "mutex"));
    GIVES(0, fairlock_mutex_lock(&mutex));
    GIVES(0, fairlock_mutex_unlock(&mutex));
    GIVES(0, fairlock_mutex_destroy(&mutex));
    GIVES(0, fairlock_stats_get("mutex", true, &stats));
    CHECK(stats.acquisitions == 4);
    GIVES(ENOENT, fairlock_stats_get("no lock", true, &stats));
    GIVES(0, fairlock_mutex_destroy(&batched));
    GIVES(0, fairlock_rwlock_destroy(&lock));
}

int main(void) {
    watchdog();
    what_has_no_name_is_not_counted();
    all_ways_to_take_a_lock_are_counted();
    who_waited_longest_is_named();
    mutexes_are_counted();
    nothing_is_counted_while_it_is_switched_off();
    all_are_printed();
    what_a_destroyed_lock_counted_stays();
    return 0;
}

/* The lock on ranges and its nodes, every function and every result. */
#include "check.h"

static fairlock_range_lock_t lock = FAIRLOCK_RANGE_LOCK_INIT;
static fairlock_cancel_t token = FAIRLOCK_CANCEL_INIT;

static void use(fairlock_range_lock_t *l) {
    fairlock_range_t low = FAIRLOCK_RANGE_INIT, high = {0}, other = {0};
    CHECK(!fairlock_range_lock_is_locked(l));
    GIVES(0, fairlock_range_write(l, &low, 0, 99));
    GIVES(0, fairlock_range_read(l, &high, 100, UINT64_MAX));
    CHECK(fairlock_range_lock_is_locked(l));
    GIVES(0, fairlock_range_try_read(l, &other, 100, 100));
    GIVES(0, fairlock_range_unlock(&other));
    GIVES(EBUSY, fairlock_range_try_read(l, &other, 99, 100));
    GIVES(EBUSY, fairlock_range_try_write(l, &other, 100, 100));
    GIVES(EBUSY, fairlock_range_lock_destroy(l));
    GIVES(0, fairlock_range_unlock(&low));
    GIVES(0, fairlock_range_try_write(l, &other, 0, 0));
    GIVES(0, fairlock_range_unlock(&other));
    GIVES(0, fairlock_range_unlock(&high));
    GIVES(0, fairlock_range_write(l, &other, 0, UINT64_MAX));
    GIVES(0, fairlock_range_unlock(&other));
    CHECK(!fairlock_range_lock_is_locked(l));
}

static void every_way_to_make_a_lock(void) {
    static fairlock_range_lock_t zero;
    static fairlock_range_lock_t fifo = FAIRLOCK_RANGE_LOCK_INIT_POLICY(FAIRLOCK_RANGE_FIFO);
    fairlock_range_policy_t policy;
    use(&zero);
    use(&lock);
    use(&fifo);
    GIVES(0, fairlock_range_lock_policy(&fifo, &policy));
    CHECK(policy.overtaken_for_ns == 0);
    GIVES(0, fairlock_range_lock_policy(&zero, &policy));
    CHECK(policy.overtaken_for_ns == 4000000);
    GIVES(EINVAL, fairlock_range_lock_policy(&zero, NULL));
    fairlock_range_lock_t local;
    memset(&local, 0xff, sizeof local);
    policy.overtaken_for_ns = 5;
    GIVES(0, fairlock_range_lock_init(&local, &policy));
    GIVES(0, fairlock_range_lock_policy(&local, &policy));
    CHECK(policy.overtaken_for_ns == 5);
    use(&local);
    policy.reserved[2] = 1;
    GIVES(EINVAL, fairlock_range_lock_init(&local, &policy));
    GIVES(EINVAL, fairlock_range_lock_init(NULL, NULL));
    GIVES(0, fairlock_range_lock_destroy(&local));
    GIVES(EINVAL, fairlock_range_lock_destroy(&local));
    fairlock_range_lock_t *heap = calloc(1, sizeof *heap);
    CHECK(heap != NULL);
    use(heap);
    GIVES(0, fairlock_range_lock_destroy(heap));
    free(heap);
}

static fairlock_range_t node;

static int read_until(int clock, const struct timespec *deadline) {
    return fairlock_range_read_until(&lock, &node, 10, 20, clock, deadline);
}

static int write_until(int clock, const struct timespec *deadline) {
    return fairlock_range_write_until(&lock, &node, 10, 20, clock, deadline);
}

static int recursive_until(int clock, const struct timespec *deadline) {
    return fairlock_range_read_recursive_until(&lock, &node, 10, 20, clock, deadline);
}

static int read_interruptible(void *n) {
    return fairlock_range_read_interruptible(&lock, n, 10, 20);
}

static int write_interruptible(void *n) {
    return fairlock_range_write_interruptible(&lock, n, 10, 20);
}

static int recursive_interruptible(void *n) {
    return fairlock_range_read_recursive_interruptible(&lock, n, 10, 20);
}

static void waits_end(void) {
    fairlock_range_t other = FAIRLOCK_RANGE_INIT;
    REFUSES_BAD_TIMES(read_until);
    REFUSES_BAD_TIMES(write_until);
    GIVES(0, read_until(CLOCK_REALTIME, &over));
    GIVES(0, fairlock_range_unlock(&node));
    GIVES(0, write_until(CLOCK_MONOTONIC, &over));
    GIVES(0, fairlock_range_unlock(&node));
    GIVES(0, read_interruptible(&node));
    GIVES(0, fairlock_range_unlock(&node));
    GIVES(0, write_interruptible(&node));
    GIVES(0, fairlock_range_unlock(&node));
    GIVES(0, fairlock_range_read_cancellable(&lock, &node, 10, 20, &token));
    GIVES(0, fairlock_range_unlock(&node));

    GIVES(0, fairlock_range_write_cancellable(&lock, &other, 15, 16, &token));
    REFUSES_BAD_TIMES(read_until);
    REFUSES_BAD_TIMES(write_until);
    REFUSES_BAD_TIMES(recursive_until);
    GIVES_UP_IN_TIME(read_until);
    GIVES_UP_IN_TIME(write_until);
    GIVES_UP_IN_TIME(recursive_until);
    GIVES(EINTR, with_signals(read_interruptible, &node));
    GIVES(EINTR, with_signals(recursive_interruptible, &node));
    GIVES(EINTR, with_signals(write_interruptible, &node));
    GIVES(0, fairlock_cancel(&token));
    GIVES(ECANCELED, fairlock_range_read_cancellable(&lock, &node, 10, 20, &token));
    GIVES(ECANCELED, fairlock_range_read_recursive_cancellable(&lock, &node, 10, 20, &token));
    GIVES(EINVAL, fairlock_range_read_recursive_cancellable(&lock, &node, 10, 20, NULL));
    GIVES(ECANCELED, fairlock_range_write_cancellable(&lock, &node, 10, 20, &token));
    GIVES(EINVAL, fairlock_range_read_cancellable(&lock, &node, 10, 20, NULL));
    GIVES(EINVAL, fairlock_range_write_cancellable(&lock, &node, 10, 20, NULL));
    GIVES(EPERM, fairlock_range_unlock(&node));
    GIVES(0, fairlock_range_unlock(&other));
}

static void *write_and_unlock(void *unused) {
    fairlock_range_t mine = FAIRLOCK_RANGE_INIT;
    GIVES(0, fairlock_range_write(&lock, &mine, 0, 5));
    GIVES(0, fairlock_range_unlock(&mine));
    return unused;
}

static size_t waiting(void) {
    fairlock_range_info_t ranges[8];
    size_t n = fairlock_range_lock_ranges(&lock, ranges, 8), waits = 0;
    for (size_t i = 0; i < n && i < 8; i++) {
        waits += ranges[i].waits;
    }
    return waits;
}

static void a_reader_reads_again_past_a_waiting_writer(void) {
    fairlock_range_t again = FAIRLOCK_RANGE_INIT, third = FAIRLOCK_RANGE_INIT;
    GIVES(0, fairlock_range_read(&lock, &node, 3, 9));
    pthread_t writer = spawn(write_and_unlock, NULL);
    while (waiting() == 0) {
        nap();
    }
    GIVES(0, fairlock_range_read_recursive(&lock, &again, 4, 4));
    GIVES(0, fairlock_range_try_read_recursive(&lock, &third, 5, 6));
    GIVES(0, fairlock_range_unlock(&third));
    GIVES(0, fairlock_range_read_recursive_until(&lock, &third, 5, 6, CLOCK_MONOTONIC, &over));
    GIVES(0, fairlock_range_unlock(&third));
    GIVES(0, fairlock_range_read_recursive_interruptible(&lock, &third, 5, 6));
    GIVES(0, fairlock_range_unlock(&third));
    GIVES(0, fairlock_range_read_recursive_cancellable(&lock, &third, 5, 6, &token));
    GIVES(0, fairlock_range_unlock(&third));
    GIVES(0, fairlock_range_unlock(&again));
    GIVES(0, fairlock_range_unlock(&node));
    join(writer);
    GIVES(0, fairlock_range_write(&lock, &node, 3, 9));
    GIVES(EBUSY, fairlock_range_try_read_recursive(&lock, &third, 5, 6));
    GIVES(0, fairlock_range_unlock(&node));
}

static void holds(fairlock_range_t *range, uint64_t start, uint64_t last, bool writes) {
    uint64_t s = 0, l = 0;
    bool w = !writes;
    GIVES(0, fairlock_range_get(range, &s, &l, &w));
    CHECK(s == start && l == last && w == writes);
}

static void what_is_held_is_changed(void) {
    fairlock_range_t upper = FAIRLOCK_RANGE_INIT, other = FAIRLOCK_RANGE_INIT;
    GIVES(0, fairlock_range_write(&lock, &node, 10, 29));
    holds(&node, 10, 29, true);
    GIVES(0, fairlock_range_get(&node, NULL, NULL, NULL));

    GIVES(EINVAL, fairlock_range_shrink(&node, 12, 11));
    GIVES(EINVAL, fairlock_range_shrink(&node, 9, 11));
    GIVES(EINVAL, fairlock_range_shrink(&node, 12, 30));
    holds(&node, 10, 29, true);
    GIVES(0, fairlock_range_shrink(&node, 12, 25));
    holds(&node, 12, 25, true);
    GIVES(0, fairlock_range_try_write(&lock, &other, 26, 29));

    GIVES(EINVAL, fairlock_range_split(&node, 12, &upper));
    GIVES(EINVAL, fairlock_range_split(&node, 26, &upper));
    GIVES(EINVAL, fairlock_range_split(&node, 20, &other));
    GIVES(EINVAL, fairlock_range_split(&node, 20, &node));
    GIVES(EINVAL, fairlock_range_split(&node, 20, NULL));
    GIVES(EINVAL, fairlock_range_split(NULL, 20, &upper));
    GIVES(EPERM, fairlock_range_split(&upper, 20, &upper));
    holds(&node, 12, 25, true);
    GIVES(0, fairlock_range_split(&node, 20, &upper));
    holds(&node, 12, 19, true);
    holds(&upper, 20, 25, true);
    GIVES(0, fairlock_range_unlock(&other));

    GIVES(0, fairlock_range_downgrade(&node));
    holds(&node, 12, 19, false);
    GIVES(EPERM, fairlock_range_downgrade(&node));
    GIVES(0, fairlock_range_try_read(&lock, &other, 12, 19));
    GIVES(0, fairlock_range_unlock(&other));
    GIVES(EBUSY, fairlock_range_try_read(&lock, &other, 12, 20));
    GIVES(0, fairlock_range_unlock(&upper));
    GIVES(0, fairlock_range_split(&node, 13, &upper));
    holds(&upper, 13, 19, false);
    GIVES(0, fairlock_range_shrink(&upper, 13, 13));
    GIVES(0, fairlock_range_unlock(&upper));
    GIVES(0, fairlock_range_unlock(&node));
}

static void misused_nodes(void) {
    fairlock_range_t other = FAIRLOCK_RANGE_INIT;
    GIVES(EPERM, fairlock_range_unlock(&node));
    GIVES(EPERM, fairlock_range_downgrade(&node));
    GIVES(EPERM, fairlock_range_shrink(&node, 0, 0));
    GIVES(EPERM, fairlock_range_split(&node, 1, &other));
    GIVES(EPERM, fairlock_range_get(&node, NULL, NULL, NULL));
    GIVES(EINVAL, fairlock_range_unlock(NULL));
    GIVES(EINVAL, fairlock_range_downgrade(NULL));
    GIVES(EINVAL, fairlock_range_shrink(NULL, 0, 0));
    GIVES(EINVAL, fairlock_range_get(NULL, NULL, NULL, NULL));
    GIVES(EINVAL, fairlock_range_unlock((fairlock_range_t *)((char *)&other + 4)));
    memset(&other, 0x5a, sizeof other);
    GIVES(EINVAL, fairlock_range_unlock(&other));
    GIVES(EINVAL, fairlock_range_read(&lock, &other, 0, 0));
    /* In use. */
    GIVES(0, fairlock_range_read(&lock, &node, 0, 9));
    GIVES(EINVAL, fairlock_range_read(&lock, &node, 20, 29));
    GIVES(EINVAL, fairlock_range_try_write(&lock, &node, 20, 29));
    holds(&node, 0, 9, false);
    GIVES(0, fairlock_range_unlock(&node));
    GIVES(EPERM, fairlock_range_unlock(&node));
}

/* Every function that locks a range, of a lock and with a node that cannot. */
static void no_range(fairlock_range_lock_t *l, fairlock_range_t *n, uint64_t start, uint64_t last) {
    struct timespec *t = (struct timespec *)&over;
    GIVES(EINVAL, fairlock_range_read(l, n, start, last));
    GIVES(EINVAL, fairlock_range_try_read(l, n, start, last));
    GIVES(EINVAL, fairlock_range_read_until(l, n, start, last, CLOCK_REALTIME, t));
    GIVES(EINVAL, fairlock_range_read_interruptible(l, n, start, last));
    GIVES(EINVAL, fairlock_range_read_cancellable(l, n, start, last, &token));
    GIVES(EINVAL, fairlock_range_read_recursive(l, n, start, last));
    GIVES(EINVAL, fairlock_range_try_read_recursive(l, n, start, last));
    GIVES(EINVAL, fairlock_range_read_recursive_until(l, n, start, last, CLOCK_REALTIME, t));
    GIVES(EINVAL, fairlock_range_read_recursive_interruptible(l, n, start, last));
    GIVES(EINVAL, fairlock_range_read_recursive_cancellable(l, n, start, last, &token));
    GIVES(EINVAL, fairlock_range_write(l, n, start, last));
    GIVES(EINVAL, fairlock_range_try_write(l, n, start, last));
    GIVES(EINVAL, fairlock_range_write_until(l, n, start, last, CLOCK_REALTIME, t));
    GIVES(EINVAL, fairlock_range_write_interruptible(l, n, start, last));
    GIVES(EINVAL, fairlock_range_write_cancellable(l, n, start, last, &token));
}

static void what_cannot_be_locked(void) {
    static fairlock_range_lock_t unknown = FAIRLOCK_RANGE_LOCK_INIT_POLICY(9);
    fairlock_range_info_t info;
    no_range(&lock, &node, 1, 0);
    no_range(&lock, &node, UINT64_MAX, 0);
    no_range(&lock, NULL, 0, 0);
    fairlock_range_lock_t *const none[] = {NULL, &unknown};
    for (int i = 0; i < 2; i++) {
        no_range(none[i], &node, 0, 0);
        GIVES(EINVAL, fairlock_range_lock_destroy(none[i]));
        GIVES(EINVAL, fairlock_range_lock_set_traced(none[i], true));
        GIVES(EINVAL, fairlock_range_lock_set_events(none[i], NULL));
        GIVES(EINVAL, fairlock_range_lock_policy(none[i], NULL));
        CHECK(!fairlock_range_lock_is_locked(none[i]));
        CHECK(fairlock_range_lock_ranges(none[i], &info, 1) == 0);
    }
    GIVES(EPERM, fairlock_range_unlock(&node));
}

static void who_holds_what(void) {
    fairlock_range_t other = FAIRLOCK_RANGE_INIT;
    fairlock_range_info_t ranges[2];
    CHECK(fairlock_range_lock_ranges(&lock, ranges, 2) == 0);
    GIVES(0, fairlock_range_lock_set_traced(&lock, true));
    GIVES(0, fairlock_range_write(&lock, &node, 7, 8));
    GIVES(0, fairlock_range_read(&lock, &other, 10, 11));
    CHECK(fairlock_range_lock_ranges(&lock, NULL, 2) == 2);
    ranges[1].last = 0;
    CHECK(fairlock_range_lock_ranges(&lock, ranges, 1) == 2 && ranges[1].last == 0);
    CHECK(fairlock_range_lock_ranges(&lock, ranges, 2) == 2);
    CHECK(ranges[0].start == 7 && ranges[0].last == 8 && ranges[0].writes);
    CHECK(ranges[1].start == 10 && ranges[1].last == 11 && !ranges[1].writes);
    CHECK(!ranges[0].waits && ranges[0].who == fairlock_this_thread());
    nap();
    uint64_t before = ranges[0].how_long_ns;
    CHECK(fairlock_range_lock_ranges(&lock, ranges, 2) == 2 && ranges[0].how_long_ns > before);
    GIVES(0, fairlock_range_lock_set_traced(&lock, false));
    GIVES(0, fairlock_range_unlock(&other));
    GIVES(0, fairlock_range_unlock(&node));
}

static void a_lock_counts_where_it_is_told_to(void) {
    static fairlock_events_t events = FAIRLOCK_EVENTS_INIT;
    fairlock_range_t other = FAIRLOCK_RANGE_INIT;
    fairlock_event_count_t counts[64];
    uint64_t all = 0;
    GIVES(0, fairlock_range_lock_set_events(&lock, &events));
    GIVES(0, fairlock_range_write(&lock, &other, 15, 16));
    /* Where this thread has no CPU for so long, the time is over before the wait begins. */
    while (all == 0) {
        struct timespec soon = after_ms(CLOCK_MONOTONIC, 20);
        GIVES(ETIMEDOUT, read_until(CLOCK_MONOTONIC, &soon));
        for (size_t i = 0; i < fairlock_events_read(&events, counts, 64); i++) {
            all += counts[i].count;
        }
    }
    GIVES(0, fairlock_range_unlock(&other));
    GIVES(0, fairlock_range_lock_set_events(&lock, NULL));
    GIVES(EINVAL, fairlock_range_lock_set_events(&lock, (fairlock_events_t *)1));
}

/* More ranges at once than the lock has room for in itself. */
static void many_ranges(void) {
    enum { MANY = 300 };
    static fairlock_range_t many[MANY];
    static fairlock_range_lock_t local;
    for (uint64_t i = 0; i < MANY; i++) {
        GIVES(0, fairlock_range_write(&local, &many[i], 2 * i, 2 * i));
    }
    CHECK(fairlock_range_lock_ranges(&local, NULL, 0) == MANY);
    GIVES(EBUSY, fairlock_range_lock_destroy(&local));
    for (int i = 0; i < MANY; i++) {
        GIVES(0, fairlock_range_unlock(&many[i]));
    }
    GIVES(0, fairlock_range_lock_destroy(&local));
}

enum { THREADS = 4, ROUNDS = 4000, SLOTS = 8 };
static long counted[SLOTS], increments[THREADS];
static fairlock_range_lock_t slots = FAIRLOCK_RANGE_LOCK_INIT;

static void *count(void *thread) {
    fairlock_range_t mine = FAIRLOCK_RANGE_INIT;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t start = (round * 7 + (uintptr_t)thread) % SLOTS;
        uint64_t last = start + (round % 3) < SLOTS ? start + (round % 3) : start;
        if (round % 64 == 0) {
            start = 0;
            last = UINT64_MAX;
        }
        GIVES(0, fairlock_range_write(&slots, &mine, start, last));
        for (uint64_t i = start; i <= last && i < SLOTS; i++) {
            counted[i]++;
            increments[(uintptr_t)thread]++;
        }
        GIVES(0, fairlock_range_downgrade(&mine));
        GIVES(0, fairlock_range_unlock(&mine));
    }
    return NULL;
}

static void threads_exclude_each_other(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        threads[i] = spawn(count, (void *)i);
    }
    for (int i = 0; i < THREADS; i++) {
        join(threads[i]);
    }
    long sum = 0;
    for (int i = 0; i < SLOTS; i++) {
        sum += counted[i];
    }
    for (int i = 0; i < THREADS; i++) {
        sum -= increments[i];
    }
    CHECK(sum == 0 && counted[0] >= THREADS * ROUNDS / 64);
    GIVES(0, fairlock_range_lock_destroy(&slots));
}

int main(void) {
    watchdog();
    every_way_to_make_a_lock();
    waits_end();
    a_reader_reads_again_past_a_waiting_writer();
    what_is_held_is_changed();
    misused_nodes();
    what_cannot_be_locked();
    who_holds_what();
    a_lock_counts_where_it_is_told_to();
    many_ranges();
    threads_exclude_each_other();
    GIVES(0, fairlock_range_lock_destroy(&lock));
    return 0;
}

/* The reader/writer lock, every function and every result. */
#include "check.h"

static fairlock_rwlock_t zero;
static fairlock_rwlock_t initialised = FAIRLOCK_RWLOCK_INIT;
static fairlock_rwlock_t phased = FAIRLOCK_RWLOCK_INIT_POLICY(FAIRLOCK_WRITER_PHASE);
static fairlock_rwlock_t unknown = FAIRLOCK_RWLOCK_INIT_POLICY(77);

static void use(fairlock_rwlock_t *lock) {
    CHECK(!fairlock_rwlock_is_locked(lock));
    GIVES(0, fairlock_rwlock_read(lock));
    GIVES(0, fairlock_rwlock_try_read(lock));
    CHECK(fairlock_rwlock_is_locked(lock) && !fairlock_rwlock_is_write_locked(lock));
    GIVES(EBUSY, fairlock_rwlock_try_write(lock));
    GIVES(0, fairlock_rwlock_unlock_read(lock));
    GIVES(0, fairlock_rwlock_unlock_read(lock));
    GIVES(0, fairlock_rwlock_write(lock));
    CHECK(fairlock_rwlock_is_write_locked(lock));
    GIVES(EBUSY, fairlock_rwlock_try_read(lock));
    GIVES(EBUSY, fairlock_rwlock_try_write(lock));
    GIVES(0, fairlock_rwlock_unlock_write(lock));
    GIVES(0, fairlock_rwlock_try_write(lock));
    GIVES(0, fairlock_rwlock_downgrade(lock));
    GIVES(0, fairlock_rwlock_try_read(lock));
    GIVES(0, fairlock_rwlock_unlock_read_fair(lock));
    GIVES(0, fairlock_rwlock_unlock_read(lock));
    GIVES(0, fairlock_rwlock_write(lock));
    GIVES(0, fairlock_rwlock_unlock_write_fair(lock));
    CHECK(!fairlock_rwlock_is_locked(lock));
}

static void every_way_to_make_a_lock(void) {
    use(&zero);
    use(&initialised);
    use(&phased);
    fairlock_rwlock_t local = {0};
    use(&local);
    fairlock_rwlock_t *heap = calloc(1, sizeof *heap);
    CHECK(heap != NULL);
    use(heap);
    free(heap);
    /* Whatever is in the memory. */
    memset(&local, 0xff, sizeof local);
    GIVES(EINVAL, fairlock_rwlock_read(&local));
    GIVES(0, fairlock_rwlock_init(&local, NULL));
    use(&local);
    /* Wherever it is. */
    static uint64_t memory[sizeof(fairlock_rwlock_t) / 8 + 8];
    for (int skip = 0; skip < 8; skip++) {
        fairlock_rwlock_t *at = (fairlock_rwlock_t *)(memory + skip);
        memset(memory, 0, sizeof memory);
        use(at);
        GIVES(0, fairlock_rwlock_destroy(at));
    }
}

static void every_policy(void) {
    fairlock_policy_t policy, same;
    for (uint32_t preset = FAIRLOCK_DEFAULT; preset <= FAIRLOCK_WRITER_PHASE; preset++) {
        GIVES(0, fairlock_policy_preset(preset, &policy));
        fairlock_rwlock_t lock = FAIRLOCK_RWLOCK_INIT_POLICY(preset);
        GIVES(0, fairlock_rwlock_policy(&lock, &same));
        GIVES(preset == FAIRLOCK_DEFAULT ? 0 : ENOTSUP, fairlock_rwlock_trim(&lock));
        CHECK(memcmp(&policy, &same, sizeof policy) == 0);
        GIVES(0, fairlock_rwlock_destroy(&lock));
        GIVES(0, fairlock_rwlock_init(&lock, &policy));
        GIVES(0, fairlock_rwlock_policy(&lock, &same));
        CHECK(memcmp(&policy, &same, sizeof policy) == 0);
        uint64_t one = 0, ten = 0;
        const int planned = preset == FAIRLOCK_DEFAULT ? 0 : ENOTSUP;
        GIVES(planned, fairlock_rwlock_planned_wait_ns(&lock, 1, &one));
        GIVES(planned, fairlock_rwlock_planned_wait_ns(&lock, 10, &ten));
        // Behind one grant a waiter has half of the aim, or more.
        CHECK(planned != 0 || ((uint64_t)policy.handoff_after_ns / 2 <= one && one < ten));
        use(&lock);
        GIVES(0, fairlock_rwlock_destroy(&lock));
    }
    GIVES(EINVAL, fairlock_policy_preset(5, &policy));
    GIVES(EINVAL, fairlock_policy_preset(FAIRLOCK_DEFAULT, NULL));
    GIVES(EINVAL, fairlock_rwlock_policy(&zero, NULL));
    GIVES(EINVAL, fairlock_rwlock_planned_wait_ns(&zero, 1, NULL));

    GIVES(0, fairlock_policy_preset(FAIRLOCK_DEFAULT, &policy));
    CHECK(policy.handoff_after_ns == 4000000 && policy.handoff_budget == 10);
    policy.handoff_after_ns = 0;
    policy.handoff_budget = FAIRLOCK_NO_BUDGET;
    policy.reader_spin = FAIRLOCK_READER_SPIN_ONE;
    fairlock_rwlock_t own;
    GIVES(0, fairlock_rwlock_init(&own, &policy));
    use(&own);
#define REFUSED(field, value)                                                                \
    do {                                                                                     \
        fairlock_policy_t bad = policy;                                                      \
        bad.field = (value);                                                                 \
        GIVES(EINVAL, fairlock_rwlock_init(&own, &bad));                                     \
    } while (0)
    REFUSED(handoff_after_ns, -2);
    REFUSED(handoff_budget, 0);
    REFUSED(handoff_budget, 101);
    REFUSED(handoff_budget, -2);
    REFUSED(writer_spin, 2);
    REFUSED(writer_phase, 2);
    REFUSED(reader_spin, FAIRLOCK_READER_SPIN_ALWAYS + 1);
    REFUSED(priorities, 1); /* not without a budget */
    REFUSED(priorities, 2);
    REFUSED(reserved[8], 1);
    /* And the lock is as it was. */
    use(&own);
    GIVES(0, fairlock_rwlock_destroy(&own));
}

static fairlock_rwlock_t lock;

static int read_until(int clock, const struct timespec *deadline) {
    return fairlock_rwlock_read_until(&lock, clock, deadline);
}

static int recursive_until(int clock, const struct timespec *deadline) {
    return fairlock_rwlock_read_recursive_until(&lock, clock, deadline);
}

static int write_until(int clock, const struct timespec *deadline) {
    return fairlock_rwlock_write_until(&lock, clock, deadline);
}

static void waits_end_in_time(void) {
    struct timespec soon = after_ms(CLOCK_REALTIME, 1000000000);
    REFUSES_BAD_TIMES(read_until);
    REFUSES_BAD_TIMES(write_until);
    GIVES(0, read_until(CLOCK_REALTIME, &soon));
    GIVES(0, read_until(CLOCK_MONOTONIC, &over));
    GIVES_UP_IN_TIME(write_until);
    GIVES(0, fairlock_rwlock_unlock_read(&lock));
    GIVES(0, fairlock_rwlock_unlock_read(&lock));
    GIVES(0, write_until(CLOCK_REALTIME, &over));
    GIVES_UP_IN_TIME(read_until);
    GIVES_UP_IN_TIME(recursive_until);
    GIVES_UP_IN_TIME(write_until);
    REFUSES_BAD_TIMES(read_until);
    REFUSES_BAD_TIMES(recursive_until);
    REFUSES_BAD_TIMES(write_until);
    GIVES(0, fairlock_rwlock_unlock_write(&lock));
}

static int read_interruptible(void *l) { return fairlock_rwlock_read_interruptible(l); }
static int recursive_interruptible(void *l) {
    return fairlock_rwlock_read_recursive_interruptible(l);
}
static int write_interruptible(void *l) { return fairlock_rwlock_write_interruptible(l); }

static void waits_end_with_a_signal(void) {
    GIVES(0, write_interruptible(&lock));
    GIVES(EINTR, with_signals(read_interruptible, &lock));
    GIVES(EINTR, with_signals(recursive_interruptible, &lock));
    GIVES(EINTR, with_signals(write_interruptible, &lock));
    GIVES(0, fairlock_rwlock_unlock_write(&lock));
    GIVES(0, read_interruptible(&lock));
    GIVES(0, fairlock_rwlock_unlock_read(&lock));
}

static int read_for_a_while(void *l) {
    struct timespec soon = after_ms(CLOCK_MONOTONIC, 50);
    return fairlock_rwlock_read_until(l, CLOCK_MONOTONIC, &soon);
}

static void other_waits_go_on_after_a_signal(void) {
    GIVES(0, fairlock_rwlock_write(&lock));
    GIVES(ETIMEDOUT, with_signals(read_for_a_while, &lock));
    GIVES(0, fairlock_rwlock_unlock_write(&lock));
}

static fairlock_cancel_t token = FAIRLOCK_CANCEL_INIT;

static void *read_cancellable(void *result) {
    *(int *)result = fairlock_rwlock_read_cancellable(&lock, &token);
    return NULL;
}

static void *write_cancellable(void *result) {
    *(int *)result = fairlock_rwlock_write_cancellable(&lock, &token);
    return NULL;
}

static void waits_end_when_cancelled(void) {
    /* Not on a stack: drd remembers what is annotated there as what it was. */
    static fairlock_cancel_t broken;
    memset(&broken, 0xff, sizeof broken);
    GIVES(EINVAL, fairlock_rwlock_read_cancellable(&lock, &broken));
    GIVES(EINVAL, fairlock_rwlock_write_cancellable(&lock, NULL));
    GIVES(EINVAL, fairlock_cancel(&broken));
    GIVES(EINVAL, fairlock_cancel(NULL));
    GIVES(EINVAL, fairlock_cancel_init(NULL));
    CHECK(!fairlock_is_cancelled(&broken) && !fairlock_is_cancelled(NULL));

    int read = -1, write = -1;
    GIVES(0, fairlock_rwlock_write_cancellable(&lock, &token));
    pthread_t reader = spawn(read_cancellable, &read);
    pthread_t writer = spawn(write_cancellable, &write);
    while (!fairlock_rwlock_has_waiters(&lock)) {
        nap();
    }
    CHECK(!fairlock_is_cancelled(&token));
    GIVES(0, fairlock_cancel(&token));
    CHECK(fairlock_is_cancelled(&token));
    join(reader);
    join(writer);
    CHECK(read == ECANCELED && write == ECANCELED);
    GIVES(ECANCELED, fairlock_rwlock_read_recursive_cancellable(&lock, &token));
    GIVES(EINVAL, fairlock_rwlock_read_recursive_cancellable(&lock, NULL));
    CHECK(!fairlock_rwlock_has_waiters(&lock));
    GIVES(0, fairlock_rwlock_unlock_write(&lock));
    /* What is free is taken without a look at the token. */
    GIVES(0, fairlock_rwlock_read_cancellable(&lock, &token));
    GIVES(ECANCELED, fairlock_rwlock_write_cancellable(&lock, &token));
    GIVES(0, fairlock_rwlock_unlock_read(&lock));
    GIVES(0, fairlock_cancel_init(&token));
    CHECK(!fairlock_is_cancelled(&token));
}

/* Nobody has used it before the handler does, or the wait that it ends. */
static fairlock_cancel_t stop = FAIRLOCK_CANCEL_INIT;

static void cancel_in_handler(int signal) {
    (void)signal;
    GIVES(0, fairlock_cancel(&stop));
    CHECK(fairlock_is_cancelled(&stop));
}

static inline void a_handler_cancels(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = cancel_in_handler;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    alarm(1);
    GIVES(0, fairlock_rwlock_write(&lock));
    GIVES(ECANCELED, fairlock_rwlock_read_cancellable(&lock, &stop));
    GIVES(ECANCELED, fairlock_rwlock_write_cancellable(&lock, &stop));
    GIVES(0, fairlock_rwlock_unlock_write(&lock));
    CHECK(signal(SIGALRM, SIG_DFL) != SIG_ERR);
    watchdog();
}

static void *write_and_unlock(void *unused) {
    GIVES(0, fairlock_rwlock_write(&lock));
    GIVES(0, fairlock_rwlock_unlock_write(&lock));
    return unused;
}

static void a_reader_reads_again_past_a_waiting_writer(void) {
    GIVES(0, fairlock_rwlock_try_read_recursive(&lock));
    pthread_t writer = spawn(write_and_unlock, NULL);
    while (!fairlock_rwlock_has_waiters(&lock)) {
        nap();
    }
    GIVES(EBUSY, fairlock_rwlock_try_read(&lock));
    GIVES(0, fairlock_rwlock_read_recursive(&lock));
    GIVES(0, fairlock_rwlock_try_read_recursive(&lock));
    GIVES(0, recursive_until(CLOCK_MONOTONIC, &over));
    GIVES(0, recursive_interruptible(&lock));
    GIVES(0, fairlock_rwlock_read_recursive_cancellable(&lock, &token));
    for (int i = 0; i < 6; i++) {
        GIVES(0, fairlock_rwlock_unlock_read(&lock));
    }
    join(writer);
    GIVES(0, fairlock_rwlock_write(&lock));
    GIVES(EBUSY, fairlock_rwlock_try_read_recursive(&lock));
    GIVES(0, fairlock_rwlock_unlock_write(&lock));
}

static void a_lock_in_use_is_not_destroyed(void) {
    fairlock_rwlock_t local = FAIRLOCK_RWLOCK_INIT;
    GIVES(0, fairlock_rwlock_read(&local));
    GIVES(EBUSY, fairlock_rwlock_destroy(&local));
    GIVES(0, fairlock_rwlock_trim(&local)); /* nobody has waited */
    GIVES(0, fairlock_rwlock_unlock_read(&local));
    GIVES(0, fairlock_rwlock_write(&local));
    GIVES(EBUSY, fairlock_rwlock_destroy(&local));
    GIVES(0, fairlock_rwlock_unlock_write(&local));
    GIVES(0, fairlock_rwlock_destroy(&local));
    GIVES(EINVAL, fairlock_rwlock_destroy(&local));
    GIVES(EINVAL, fairlock_rwlock_write(&local));
    GIVES(0, fairlock_rwlock_init(&local, NULL));
    use(&local);
}

static void giving_up_what_is_not_held(void) {
    GIVES(EPERM, fairlock_rwlock_unlock_read(&lock));
    GIVES(EPERM, fairlock_rwlock_unlock_read_fair(&lock));
    GIVES(EPERM, fairlock_rwlock_unlock_write(&lock));
    GIVES(EPERM, fairlock_rwlock_unlock_write_fair(&lock));
    GIVES(EPERM, fairlock_rwlock_downgrade(&lock));
    GIVES(0, fairlock_rwlock_read(&lock));
    GIVES(EPERM, fairlock_rwlock_unlock_write(&lock));
    GIVES(EPERM, fairlock_rwlock_unlock_write_fair(&lock));
    GIVES(EPERM, fairlock_rwlock_downgrade(&lock));
    GIVES(0, fairlock_rwlock_unlock_read(&lock));
    GIVES(0, fairlock_rwlock_write(&lock));
    GIVES(EPERM, fairlock_rwlock_unlock_read(&lock));
    GIVES(EPERM, fairlock_rwlock_unlock_read_fair(&lock));
    GIVES(0, fairlock_rwlock_unlock_write(&lock));
    use(&lock);
}

/* Every function that takes a lock, with what is none. */
static void no_lock(fairlock_rwlock_t *none) {
    GIVES(EINVAL, fairlock_rwlock_destroy(none));
    GIVES(EINVAL, fairlock_rwlock_trim(none));
    GIVES(EINVAL, fairlock_rwlock_read(none));
    GIVES(EINVAL, fairlock_rwlock_try_read(none));
    GIVES(EINVAL, fairlock_rwlock_read_until(none, CLOCK_REALTIME, &over));
    GIVES(EINVAL, fairlock_rwlock_read_interruptible(none));
    GIVES(EINVAL, fairlock_rwlock_read_cancellable(none, &token));
    GIVES(EINVAL, fairlock_rwlock_read_recursive(none));
    GIVES(EINVAL, fairlock_rwlock_try_read_recursive(none));
    GIVES(EINVAL, fairlock_rwlock_read_recursive_until(none, CLOCK_REALTIME, &over));
    GIVES(EINVAL, fairlock_rwlock_read_recursive_interruptible(none));
    GIVES(EINVAL, fairlock_rwlock_read_recursive_cancellable(none, &token));
    GIVES(EINVAL, fairlock_rwlock_unlock_read(none));
    GIVES(EINVAL, fairlock_rwlock_unlock_read_fair(none));
    GIVES(EINVAL, fairlock_rwlock_write(none));
    GIVES(EINVAL, fairlock_rwlock_try_write(none));
    GIVES(EINVAL, fairlock_rwlock_write_until(none, CLOCK_REALTIME, &over));
    GIVES(EINVAL, fairlock_rwlock_write_interruptible(none));
    GIVES(EINVAL, fairlock_rwlock_write_cancellable(none, &token));
    GIVES(EINVAL, fairlock_rwlock_unlock_write(none));
    GIVES(EINVAL, fairlock_rwlock_unlock_write_fair(none));
    GIVES(EINVAL, fairlock_rwlock_downgrade(none));
    GIVES(EINVAL, fairlock_rwlock_set_events(none, NULL));
    fairlock_policy_t policy;
    GIVES(EINVAL, fairlock_rwlock_policy(none, &policy));
    uint64_t wait_ns;
    GIVES(EINVAL, fairlock_rwlock_planned_wait_ns(none, 1, &wait_ns));
    CHECK(!fairlock_rwlock_is_locked(none));
    CHECK(!fairlock_rwlock_is_write_locked(none));
    CHECK(!fairlock_rwlock_has_waiters(none));
}

static void what_is_no_lock(void) {
    no_lock(NULL);
    no_lock(&unknown);
    no_lock((fairlock_rwlock_t *)((char *)&lock + 4));
    fairlock_rwlock_t garbage;
    memset(&garbage, 0x5a, sizeof garbage);
    no_lock(&garbage);
    /* A copy, to where it cannot work. */
    static uint64_t memory[2 * sizeof(fairlock_rwlock_t) / 8 + 8];
    fairlock_rwlock_t *original = (fairlock_rwlock_t *)memory;
    fairlock_rwlock_t *copy = (fairlock_rwlock_t *)(memory + sizeof *original / 8 + 1);
    use(original);
    memcpy(copy, original, sizeof *copy);
    no_lock(copy);
    GIVES(EINVAL, fairlock_rwlock_init(NULL, NULL));
    GIVES(EINVAL, fairlock_rwlock_init((fairlock_rwlock_t *)((char *)copy + 1), NULL));
}

/* Threads that meet at a lock nobody has used yet. */
enum { THREADS = 4, ROUNDS = 2000 };
static fairlock_rwlock_t met[8] = {
    FAIRLOCK_RWLOCK_INIT,
    FAIRLOCK_RWLOCK_INIT_POLICY(FAIRLOCK_UNFAIR),
    FAIRLOCK_RWLOCK_INIT_POLICY(FAIRLOCK_HANDOFF),
    FAIRLOCK_RWLOCK_INIT_POLICY(FAIRLOCK_NO_READER_SPIN),
    FAIRLOCK_RWLOCK_INIT_POLICY(FAIRLOCK_WRITER_PHASE),
};
static long counted[8], twice[8];

static void *count(void *unused) {
    for (int i = 0; i < 8; i++) {
        for (int round = 0; round < ROUNDS; round++) {
            GIVES(0, fairlock_rwlock_write(&met[i]));
            counted[i]++;
            twice[i] += 2;
            if (round % 2 == 0) {
                GIVES(0, fairlock_rwlock_unlock_write(&met[i]));
                GIVES(0, fairlock_rwlock_read(&met[i]));
            } else {
                GIVES(0, fairlock_rwlock_downgrade(&met[i]));
            }
            CHECK(twice[i] == 2 * counted[i]);
            GIVES(0, fairlock_rwlock_unlock_read(&met[i]));
        }
    }
    return unused;
}

static void threads_exclude_each_other(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        threads[i] = spawn(count, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        join(threads[i]);
    }
    for (int i = 0; i < 8; i++) {
        CHECK(counted[i] == THREADS * ROUNDS);
    }
}

int main(void) {
    CHECK(sizeof(fairlock_rwlock_t) <= sizeof(pthread_rwlock_t));
    watchdog();
    CHECK(strcmp(fairlock_version(), FAIRLOCK_VERSION) == 0);
    every_way_to_make_a_lock();
    every_policy();
    waits_end_in_time();
    waits_end_with_a_signal();
    other_waits_go_on_after_a_signal();
    waits_end_when_cancelled();
#ifndef __SANITIZE_THREAD__ /* which lets handlers run once the wait is over */
    a_handler_cancels();
#endif
    a_reader_reads_again_past_a_waiting_writer();
    a_lock_in_use_is_not_destroyed();
    giving_up_what_is_not_held();
    what_is_no_lock();
    threads_exclude_each_other();
    return 0;
}

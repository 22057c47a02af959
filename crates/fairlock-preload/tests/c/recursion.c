/* A thread may read a lock several times, whoever waits. */
#include "check.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

/* Reads once more in every way there is, while a writer waits. */
static void read_again_in_every_way(pthread_rwlock_t *l) {
    struct timespec real = far_away(CLOCK_REALTIME), mono = far_away(CLOCK_MONOTONIC);
    EXPECT(pthread_rwlock_rdlock(l), 0);
    EXPECT(pthread_rwlock_tryrdlock(l), 0);
    EXPECT(pthread_rwlock_timedrdlock(l, &real), 0);
    EXPECT(pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &mono), 0);
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_rwlock_unlock(l), 0);
}

static void while_a_writer_waits(pthread_rwlock_t *l) {
    struct caller writer;
    EXPECT(pthread_rwlock_rdlock(l), 0);
    start(&writer, write_and_unlock, l);
    wait_until_asleep(&writer);
    for (int i = 0; i < 100; i++)
        read_again_in_every_way(l);
    CHECK(!writer.done);
    EXPECT(pthread_rwlock_unlock(l), 0);
    EXPECT(result(&writer), 0);
}

static void writer_waits(void) {
    while_a_writer_waits(&lock);
    while_a_writer_waits(&lock);
}

/* glibc lets the thread wait for itself if the kind says so; ours does not. */
static void every_kind(void) {
    static const int kinds[] = {PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_RWLOCK_PREFER_WRITER_NP,
                                PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP};
    for (int k = 0; k < (ours ? 3 : 2); k++) {
        pthread_rwlockattr_t attributes;
        pthread_rwlock_t l;
        EXPECT(pthread_rwlockattr_init(&attributes), 0);
        EXPECT(pthread_rwlockattr_setkind_np(&attributes, kinds[k]), 0);
        EXPECT(pthread_rwlock_init(&l, &attributes), 0);
        while_a_writer_waits(&l);
        EXPECT(pthread_rwlock_destroy(&l), 0);
    }
}

static pthread_rwlock_t of_kind(int kind) {
    pthread_rwlockattr_t attributes;
    pthread_rwlock_t l;
    int now = -1;
    EXPECT(pthread_rwlockattr_init(&attributes), 0);
    EXPECT(pthread_rwlockattr_setkind_np(&attributes, kind), 0);
    EXPECT(pthread_rwlockattr_getkind_np(&attributes, &now), 0);
    CHECK(now == kind);
    EXPECT(pthread_rwlock_init(&l, &attributes), 0);
    EXPECT(pthread_rwlockattr_destroy(&attributes), 0);
    return l;
}

static int timed_read(pthread_rwlock_t *l) {
    struct timespec t = far_away(CLOCK_REALTIME);
    return pthread_rwlock_timedrdlock(l, &t);
}

static _Atomic int came;
static int first_to_come;

static int come(int (*take)(pthread_rwlock_t *), pthread_rwlock_t *l, int who) {
    int result = take(l);
    if (result)
        return result;
    if (came++ == 0)
        first_to_come = who;
    return pthread_rwlock_unlock(l);
}

static int come_to_read(pthread_rwlock_t *l) { return come(pthread_rwlock_rdlock, l, 'r'); }
static int come_to_write(pthread_rwlock_t *l) { return come(pthread_rwlock_wrlock, l, 'w'); }

/* A kind that prefers readers, if somebody asks for it: they do not wait for who waits. */
static void readers_pass(void) {
    static pthread_rwlock_t l;
    l = of_kind(PTHREAD_RWLOCK_PREFER_READER_NP);
    struct caller reader, writer;
    for (int turn = 0; turn < 10; turn++) {
        EXPECT(pthread_rwlock_rdlock(&l), 0);
        start(&writer, write_and_unlock, &l);
        wait_until_asleep(&writer);
        EXPECT(elsewhere(pthread_rwlock_rdlock, &l), 0);
        EXPECT(elsewhere(pthread_rwlock_tryrdlock, &l), 0);
        EXPECT(elsewhere(timed_read, &l), 0);
        CHECK(!writer.done);
        for (int i = 0; i < 4; i++)
            EXPECT(pthread_rwlock_unlock(&l), 0);
        EXPECT(result(&writer), 0);
        /* Behind a writer inside they wait, but before others. */
        came = 0;
        EXPECT(pthread_rwlock_wrlock(&l), 0);
        start(&writer, come_to_write, &l);
        wait_until_asleep(&writer);
        start(&reader, come_to_read, &l);
        wait_until_asleep(&reader);
        EXPECT(pthread_rwlock_unlock(&l), 0);
        EXPECT(result(&reader), 0);
        EXPECT(result(&writer), 0);
        CHECK(first_to_come == 'r');
    }
    EXPECT(pthread_rwlock_destroy(&l), 0);
    /* Left to glibc, which knows no other kind of that name. */
    pthread_rwlockattr_t attributes;
    EXPECT(pthread_rwlockattr_init(&attributes), 0);
    EXPECT(pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_READER_NP), 0);
    EXPECT(pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
    EXPECT(pthread_rwlock_init(&l, &attributes), 0);
    CHECK(l.__data.__flags == PTHREAD_RWLOCK_PREFER_READER_NP);
}

/* The kind that prefers writers: where one waits, no reader gets in. */
static int fails_to_read(pthread_rwlock_t *l) {
    for (int i = 0; i < 200; i++)
        EXPECT(pthread_rwlock_tryrdlock(l), EBUSY);
    struct timespec past = {0}, soon = in_ms(CLOCK_REALTIME, 2);
    EXPECT(pthread_rwlock_timedrdlock(l, &past), ETIMEDOUT);
    return pthread_rwlock_timedrdlock(l, &soon);
}

static void writers_go_first(pthread_rwlock_t *l) {
    struct caller reader, writer;
    for (int turn = 0; turn < 25; turn++) {
        EXPECT(pthread_rwlock_rdlock(l), 0);
        came = 0;
        start(&writer, come_to_write, l);
        wait_until_asleep(&writer);
        EXPECT(elsewhere(fails_to_read, l), ETIMEDOUT);
        start(&reader, come_to_read, l);
        wait_until_asleep(&reader);
        CHECK(!came);
        EXPECT(pthread_rwlock_unlock(l), 0);
        EXPECT(result(&writer), 0);
        EXPECT(result(&reader), 0);
        CHECK(first_to_come == 'w');
    }
}

static void writers_first(void) {
    static pthread_rwlock_t l = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    writers_go_first(&l);
    EXPECT(pthread_rwlock_destroy(&l), 0);
    l = of_kind(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    writers_go_first(&l);
}

/* A thread that reads waits for others that read for the first time, while a writer waits. */
static int read_in_turn(pthread_rwlock_t *l) {
    struct timespec t = far_away(CLOCK_MONOTONIC);
    for (int i = 0; i < 3; i++) {
        EXPECT(pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &t), 0);
        EXPECT(pthread_rwlock_unlock(l), 0);
    }
    return read_and_unlock(l);
}

static int try_until_read(pthread_rwlock_t *l) {
    int result;
    while ((result = pthread_rwlock_tryrdlock(l)) == EBUSY)
        usleep(1000);
    return result ? result : pthread_rwlock_unlock(l);
}

static void fork_join(void) {
    static int (*const tasks[])(pthread_rwlock_t *) = {read_and_unlock, try_until_read,
                                                       read_in_turn};
    struct caller workers[3], writers[2];
    for (int turn = 0; turn < 2; turn++) {
        pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
        if (turn)
            l = of_kind(PTHREAD_RWLOCK_PREFER_WRITER_NP);
        EXPECT(pthread_rwlock_rdlock(&l), 0);
        for (int i = 0; i < 2; i++) {
            start(&writers[i], write_and_unlock, &l);
            wait_until_asleep(&writers[i]);
        }
        for (int i = 0; i < 3; i++)
            start(&workers[i], tasks[i], &l);
        for (int i = 0; i < 3; i++)
            EXPECT(result(&workers[i]), 0);
        EXPECT(pthread_rwlock_unlock(&l), 0);
        for (int i = 0; i < 2; i++)
            EXPECT(result(&writers[i]), 0);
    }
}

/* Many locks at a time, each several times, released in another order. */
static void many_locks(void) {
    enum { LOCKS = 300 };
    static pthread_rwlock_t locks[LOCKS];
    struct caller writers[3];
    for (int i = 0; i < LOCKS; i++)
        EXPECT(pthread_rwlock_init(&locks[i], NULL), 0);
    for (int i = 0; i < LOCKS; i++)
        EXPECT(pthread_rwlock_rdlock(&locks[i]), 0);
    static const int waited_for[] = {0, LOCKS / 2, LOCKS - 1};
    for (int i = 0; i < 3; i++) {
        start(&writers[i], write_and_unlock, &locks[waited_for[i]]);
        wait_until_asleep(&writers[i]);
    }
    for (int i = 0; i < LOCKS; i++)
        read_again_in_every_way(&locks[i]);
    for (int i = 0; i < LOCKS; i++)
        EXPECT(pthread_rwlock_rdlock(&locks[i * 7 % LOCKS]), 0);
    for (int i = 0; i < LOCKS; i++)
        EXPECT(pthread_rwlock_unlock(&locks[i * 11 % LOCKS]), 0);
    for (int i = 0; i < 3; i++)
        CHECK(!writers[i].done);
    for (int i = 0; i < LOCKS; i++)
        EXPECT(pthread_rwlock_unlock(&locks[i]), 0);
    for (int i = 0; i < 3; i++)
        EXPECT(result(&writers[i]), 0);
    for (int i = 0; i < LOCKS; i++)
        EXPECT(pthread_rwlock_trywrlock(&locks[i]), 0);
}

/* A thread that does not read has to wait behind the writer; one that has read no longer
   is such a thread. */
static int try_read(pthread_rwlock_t *l) {
    for (int i = 0; i < 100; i++)
        EXPECT(pthread_rwlock_tryrdlock(l), EBUSY);
    return 0;
}

static void others_wait(void) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    pthread_rwlock_t other = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    if (!ours)
        return; /* glibc does not let a reader in again either */
    struct caller reader, writer;
    EXPECT(pthread_rwlock_rdlock(&lock), 0);
    EXPECT(pthread_rwlock_rdlock(&other), 0);
    EXPECT(pthread_rwlock_unlock(&other), 0);
    start(&reader, pthread_rwlock_rdlock, &other);
    EXPECT(result(&reader), 0);
    start(&writer, write_and_unlock, &lock);
    wait_until_asleep(&writer);
    EXPECT(elsewhere(try_read, &lock), 0);
    start(&writer, write_and_unlock, &other);
    wait_until_asleep(&writer);
    EXPECT(pthread_rwlock_tryrdlock(&other), EBUSY);
    EXPECT(pthread_rwlock_tryrdlock(&lock), 0);
    _exit(0);
}

TESTS({"writer_waits", writer_waits}, {"every_kind", every_kind}, {"many_locks", many_locks},
      {"others_wait", others_wait}, {"readers_pass", readers_pass},
      {"writers_first", writers_first}, {"fork_join", fork_join})

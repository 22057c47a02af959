/* Locks that are read nearly always. Ours become visible: see `visible` in the library. */
#include "check.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static long value, copy_of_it; /* guarded by the lock */

/* Of the word of a lock of ours the first bit says that a writer is inside, and the fifth that the lock is visible. */
static bool is_visible(pthread_rwlock_t *l) {
    return (*(_Atomic uint64_t *)l & 0x11) == 0x10;
}

/* Reads the lock beside a reader until it is visible. */
static void make_visible(pthread_rwlock_t *l) {
    contend(l);
    EXPECT(pthread_rwlock_rdlock(l), 0);
    for (long n = 0; ours && !is_visible(l); n++) {
        if (n == 100000000)
            FAIL("it does not become visible");
        EXPECT(read_and_unlock(l), 0);
    }
    EXPECT(pthread_rwlock_unlock(l), 0);
    /* From the next read on this thread is not counted. */
    EXPECT(read_and_unlock(l), 0);
}

static int try_write_and_unlock(pthread_rwlock_t *l) {
    int result = pthread_rwlock_trywrlock(l);
    if (result == 0)
        EXPECT(pthread_rwlock_unlock(l), 0);
    return result;
}

/* Whichever way readers have come, and in whatever order they leave. */
static void readers_keep_writers_out(void) {
    for (int readers = 1; readers <= 3; readers++)
        for (int by_others = 0; by_others <= readers; by_others++) {
            make_visible(&lock);
            for (int i = 0; i < readers; i++)
                EXPECT(pthread_rwlock_rdlock(&lock), 0);
            for (int i = 0; i < readers; i++) {
                EXPECT(elsewhere(try_write_and_unlock, &lock), EBUSY);
                if (i < by_others && ours)
                    EXPECT(elsewhere(pthread_rwlock_unlock, &lock), 0);
                else
                    EXPECT(pthread_rwlock_unlock(&lock), 0);
            }
            EXPECT(elsewhere(try_write_and_unlock, &lock), 0);
        }
}

/* A writer that waits is woken by the last of them. */
static void writer_sleeps(void) {
    make_visible(&lock);
    EXPECT(pthread_rwlock_rdlock(&lock), 0);
    struct caller writer;
    start(&writer, write_and_unlock, &lock);
    wait_until_asleep(&writer);
    EXPECT(pthread_rwlock_rdlock(&lock), 0); /* once more, past the writer */
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    CHECK(!writer.done);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(result(&writer), 0);
}

static void *read_and_write(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    for (int i = 0; i < 200000; i++) {
        if (rand_r(&seed) % 2000 == 0) {
            int (*way)(pthread_rwlock_t *) = i % 2 ? pthread_rwlock_wrlock : pthread_rwlock_trywrlock;
            if (way(&lock))
                continue;
            value++;
            for (volatile int n = 0; n < 2000; n++)
                ;
            copy_of_it++;
        } else {
            EXPECT(pthread_rwlock_rdlock(&lock), 0);
            CHECK(value == copy_of_it);
        }
        EXPECT(pthread_rwlock_unlock(&lock), 0);
    }
    return NULL;
}

/* Few come to write, and each revokes the readers. */
static void exclusion(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, read_and_write, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Thin, beside others: watched for a time, and then visible by itself. */
static _Atomic bool stop;

static void *read_on(void *unused) {
    while (!stop) {
        EXPECT(pthread_rwlock_rdlock(&lock), 0);
        sched_yield();
        EXPECT(pthread_rwlock_unlock(&lock), 0);
    }
    return unused;
}

static void becomes_visible(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        EXPECT(pthread_create(&threads[i], NULL, read_on, NULL), 0);
    while (ours && !is_visible(&lock))
        sched_yield();
    if (ours) /* glibc's readers keep the writer out */
        EXPECT(write_and_unlock(&lock), 0);
    stop = true;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    EXPECT(try_write_and_unlock(&lock), 0);
}

/* What is at the address of a lock that is gone is another lock, whoever read the first one. */
static void gone(void) {
    pthread_rwlock_t copy;
    for (int i = 0; i < 100; i++) {
        make_visible(&lock);
        EXPECT(pthread_rwlock_rdlock(&lock), 0);
        if (ours) {
            copy = lock; /* of ours that is free */
            EXPECT(elsewhere(try_write_and_unlock, &copy), 0);
            EXPECT(elsewhere(try_write_and_unlock, &lock), EBUSY);
        }
        if (i % 2) /* although it is held */
            EXPECT(pthread_rwlock_destroy(&lock), 0);
        lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
        EXPECT(write_and_unlock(&lock), 0);
        contend(&lock);
        EXPECT(elsewhere(try_write_and_unlock, &lock), 0);
        EXPECT(pthread_rwlock_destroy(&lock), 0);
        lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
    }
}

static int read_to_the_end(pthread_rwlock_t *l) {
    return pthread_rwlock_rdlock(l);
}

/* A thread that ends as a reader is one still, and so is the thread that has forked, and what it left behind. */
static void ends_and_forks(void) {
    make_visible(&lock);
    EXPECT(elsewhere(read_to_the_end, &lock), 0);
    EXPECT(try_write_and_unlock(&lock), EBUSY);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(try_write_and_unlock(&lock), 0);

    make_visible(&lock);
    EXPECT(pthread_rwlock_rdlock(&lock), 0);
    pid_t child = fork();
    if (child == 0) {
        watchdog();
        EXPECT(elsewhere(try_write_and_unlock, &lock), EBUSY);
        EXPECT(pthread_rwlock_unlock(&lock), 0);
        EXPECT(try_write_and_unlock(&lock), 0);
        make_visible(&lock);
        EXPECT(write_and_unlock(&lock), 0);
        _exit(0);
    }
    join_child(child);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
}

/* Forks while others read and revoke: the child goes on with the lock, unless somebody else read it. */
static void *write_now_and_then(void *unused) {
    while (!stop) {
        EXPECT(write_and_unlock(&lock), 0);
        usleep(500);
    }
    return unused;
}

static void fork_while_revoked(void) {
    pthread_t threads[2];
    EXPECT(pthread_create(&threads[0], NULL, write_now_and_then, NULL), 0);
    EXPECT(pthread_create(&threads[1], NULL, write_now_and_then, NULL), 0);
    for (int i = 0; i < 200; i++) {
        /* So nobody writes it at the fork. */
        for (int n = 0; n < 2000; n++) {
            EXPECT(pthread_rwlock_rdlock(&lock), 0);
            EXPECT(pthread_rwlock_unlock(&lock), 0);
        }
        EXPECT(pthread_rwlock_rdlock(&lock), 0);
        pid_t child = ours ? fork() : 1;
        EXPECT(pthread_rwlock_unlock(&lock), 0);
        if (child == 0) {
            watchdog();
            EXPECT(write_and_unlock(&lock), 0);
            _exit(0);
        }
        if (ours)
            join_child(child);
    }
    stop = true;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

/* Handlers that interrupt a reader at any instruction use the same lock, and others. */
static pthread_rwlock_t others[32];
static _Atomic long handled;

static void handler(int unused) {
    (void)unused;
    static _Atomic unsigned next;
    pthread_rwlock_t *other = &others[next++ % 32];
    EXPECT(pthread_rwlock_rdlock(&lock), 0);
    EXPECT(pthread_rwlock_rdlock(other), 0);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(pthread_rwlock_unlock(other), 0);
    handled++;
}

static void *read_interrupted(void *unused) {
    while (!stop) {
        EXPECT(pthread_rwlock_rdlock(&lock), 0);
        EXPECT(pthread_rwlock_unlock(&lock), 0);
    }
    return unused;
}

static void interrupted(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < 32; i++)
        make_visible(&others[i]);
    make_visible(&lock);
    pthread_t reader;
    EXPECT(pthread_create(&reader, NULL, read_interrupted, NULL), 0);
    for (int i = 0; i < 400; i++) {
        long before = handled;
        CHECK(pthread_kill(reader, SIGUSR1) == 0);
        if (i % 100 == 0) { /* a writer that does not wait for ever, as the handler may read again */
            struct timespec soon = in_ms(CLOCK_REALTIME, 1);
            pthread_rwlock_t *l = i % 200 ? &lock : &others[i / 200 % 32];
            if (pthread_rwlock_timedwrlock(l, &soon) == 0)
                EXPECT(pthread_rwlock_unlock(l), 0);
        }
        while (handled == before)
            sched_yield();
    }
    stop = true;
    pthread_join(reader, NULL);
    /* Nobody is left inside. */
    EXPECT(try_write_and_unlock(&lock), 0);
    for (int i = 0; i < 32; i++)
        EXPECT(try_write_and_unlock(&others[i]), 0);
}

/* Where writers come first no reader gets in before one, from the first instant. */
static void not_where_writers_come_first(void) {
    pthread_rwlockattr_t attributes;
    EXPECT(pthread_rwlockattr_init(&attributes), 0);
    EXPECT(pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP), 0);
    EXPECT(pthread_rwlock_init(&lock, &attributes), 0);
    contend(&lock);
    for (int i = 0; i < 100000; i++) {
        EXPECT(read_and_unlock(&lock), 0);
        CHECK(!ours || !is_visible(&lock));
    }
}

TESTS({"readers_keep_writers_out", readers_keep_writers_out}, {"writer_sleeps", writer_sleeps},
      {"exclusion", exclusion}, {"becomes_visible", becomes_visible}, {"gone", gone},
      {"ends_and_forks", ends_and_forks}, {"fork_while_revoked", fork_while_revoked},
      {"interrupted", interrupted}, {"not_where_writers_come_first", not_where_writers_come_first})

/* Locks that come and go, with and without destroy. */
#include "check.h"

/* How many pages the process has mapped. */
static long mapped(void) {
    long pages;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f && fscanf(f, "%ld", &pages) == 1);
    fclose(f);
    return pages;
}

/* Locks whose memory is unmapped by the last who leaves: whoever touches it after it
   has let the lock go dies. */
struct object {
    pthread_rwlock_t lock;
    int users;
};

enum { OBJECTS = 3000, USERS = 3 };
static struct object *objects[OBJECTS];
static pthread_barrier_t barrier;

static void *use_and_leave(void *unused) {
    for (int i = 0; i < OBJECTS; i++) {
        struct object *o = objects[i];
        if (i % 64 == 0)
            pthread_barrier_wait(&barrier);
        if (i % 3 == 0) {
            EXPECT(pthread_rwlock_rdlock(&o->lock), 0);
            EXPECT(pthread_rwlock_unlock(&o->lock), 0);
        }
        EXPECT(pthread_rwlock_wrlock(&o->lock), 0);
        bool last = --o->users == 0;
        EXPECT(pthread_rwlock_unlock(&o->lock), 0);
        if (last) {
            if (i % 2)
                EXPECT(pthread_rwlock_destroy(&o->lock), 0);
            munmap(o, 4096);
        }
    }
    return unused;
}

static void destroyed_after_unlock(void) {
    pthread_t threads[USERS];
    EXPECT(pthread_barrier_init(&barrier, NULL, USERS), 0);
    for (int i = 0; i < OBJECTS; i++) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS;
        objects[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
        CHECK(objects[i] != MAP_FAILED);
        objects[i]->users = USERS;
    }
    for (int i = 0; i < USERS; i++)
        EXPECT(pthread_create(&threads[i], NULL, use_and_leave, NULL), 0);
    for (int i = 0; i < USERS; i++)
        pthread_join(threads[i], NULL);
}

/* As std::shared_mutex does it: statically initialised, contended, never destroyed. */
static void abandoned(void) {
    enum { LOCKS = 64, TURNS = 300 };
    static pthread_rwlock_t locks[LOCKS];
    long before = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < LOCKS; i++) {
            memset(&locks[i], 0, sizeof locks[i]);
            inflate(&locks[i]);
            if (turn % 2) /* some are even held when their memory is used again */
                EXPECT(pthread_rwlock_rdlock(&locks[i]), 0);
        }
        if (turn == 10)
            before = mapped();
    }
    CHECK(mapped() - before < 32);
}

/* Destroyed each time, wherever it is: one inflated lock is enough for all. */
static void destroyed(void) {
    enum { PLACES = 20000 };
    static pthread_rwlock_t locks[PLACES];
    inflate(&locks[0]);
    long before = mapped();
    for (int i = 0; i < PLACES; i++) {
        inflate(&locks[i]);
        EXPECT(pthread_rwlock_destroy(&locks[i]), 0);
    }
    CHECK(mapped() - before < 32);
}

/* Threads come and go, too. */
static void threads_end(void) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    inflate(&lock);
    long before = 0;
    for (int i = 0; i < 1000; i++) {
        struct caller reader, writer;
        EXPECT(pthread_rwlock_wrlock(&lock), 0);
        start(&reader, read_and_unlock, &lock);
        start(&writer, write_and_unlock, &lock);
        sched_yield();
        EXPECT(pthread_rwlock_unlock(&lock), 0);
        EXPECT(result(&reader), 0);
        EXPECT(result(&writer), 0);
        if (i == 200)
            before = mapped();
    }
    CHECK(mapped() - before < 64);
}

/* A thread reads more locks than it has room for at first, and ends. */
static int read_many(pthread_rwlock_t *locks) {
    for (int i = 0; i < 1000; i++)
        EXPECT(pthread_rwlock_rdlock(&locks[i]), 0);
    for (int i = 0; i < 1000; i++)
        EXPECT(pthread_rwlock_unlock(&locks[i]), 0);
    return 0;
}

static void readers_of_many_end(void) {
    static pthread_rwlock_t locks[1000];
    long before = 0;
    for (int i = 0; i < 100; i++) {
        EXPECT(elsewhere(read_many, locks), 0);
        if (i == 20)
            before = mapped();
    }
    CHECK(mapped() - before < 64);
}

/* Undefined in POSIX, and done: a lock that nobody holds, moved with what it is in. */
static void copied(void) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER, copy;
    inflate(&lock);
    copy = lock;
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    EXPECT(pthread_rwlock_trywrlock(&copy), 0);
    EXPECT(elsewhere(pthread_rwlock_tryrdlock, &copy), EBUSY);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(elsewhere(pthread_rwlock_tryrdlock, &copy), EBUSY);
    EXPECT(pthread_rwlock_unlock(&copy), 0);
    inflate(&copy);
    EXPECT(elsewhere(write_and_unlock, &copy), 0);
}

TESTS({"destroyed_after_unlock", destroyed_after_unlock}, {"abandoned", abandoned},
      {"destroyed", destroyed}, {"threads_end", threads_end},
      {"readers_of_many_end", readers_of_many_end}, {"copied", copied})

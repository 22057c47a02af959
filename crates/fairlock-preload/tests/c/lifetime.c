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

/* Somebody has waited for the lock, unless it is held. */
static void contend_if_free(pthread_rwlock_t *l) {
    if (pthread_rwlock_tryrdlock(l))
        return;
    EXPECT(wait_in_vain(l), ETIMEDOUT);
    EXPECT(pthread_rwlock_unlock(l), 0);
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
            contend(&locks[i]);
            if (turn % 2) /* some are even held when their memory is used again */
                EXPECT(pthread_rwlock_rdlock(&locks[i]), 0);
        }
        if (turn == 10)
            before = mapped();
    }
    CHECK(mapped() - before < 32);
}

/* Destroyed each time, wherever it is: one slot is enough for all. */
static void destroyed(void) {
    enum { PLACES = 20000 };
    static pthread_rwlock_t locks[PLACES];
    contend(&locks[0]);
    long before = mapped();
    for (int i = 0; i < PLACES; i++) {
        contend(&locks[i]);
        EXPECT(pthread_rwlock_destroy(&locks[i]), 0);
    }
    CHECK(mapped() - before < 32);
}

/* Never destroyed, and each at a place of its own: what is idle gives back what it had. Some are
   held all the time, by which nobody must come to harm. */
static void idle(void) {
    enum { PLACES = 20000 };
    static pthread_rwlock_t locks[PLACES];
    long before = 0;
    for (int i = 0; i < PLACES; i++) {
        contend(&locks[i]);
        if (i % 100 == 0)
            EXPECT(pthread_rwlock_wrlock(&locks[i]), 0);
        if (i == 2000)
            before = mapped();
    }
    if (ours)
        CHECK(mapped() - before < 256);
    for (int i = 0; i < PLACES; i += 50) {
        EXPECT(elsewhere(pthread_rwlock_tryrdlock, &locks[i]), i % 100 == 0 ? EBUSY : 0);
        EXPECT(pthread_rwlock_unlock(&locks[i]), 0);
        EXPECT(write_and_unlock(&locks[i]), 0);
    }
}

/* The same while others use them. */
enum { SHARED = 400 };
static struct { pthread_rwlock_t lock; long a, b; } shared[SHARED];

static void *use_shared(void *seed) {
    unsigned random = (unsigned)(uintptr_t)seed;
    for (int i = 0; i < 4000; i++) {
        random = random * 1103515245 + 12345;
        int n = random / 65536 % SHARED;
        if (random / 7 % 4 == 0)
            contend_if_free(&shared[n].lock);
        if (random / 31 % 2) {
            EXPECT(pthread_rwlock_wrlock(&shared[n].lock), 0);
            shared[n].a++;
            if (random / 63 % 8 == 0)
                sched_yield();
            shared[n].b++;
        } else {
            EXPECT(pthread_rwlock_rdlock(&shared[n].lock), 0);
            CHECK(shared[n].a == shared[n].b);
        }
        EXPECT(pthread_rwlock_unlock(&shared[n].lock), 0);
    }
    return NULL;
}

static void idle_and_used(void) {
    pthread_t threads[4];
    for (uintptr_t i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, use_shared, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SHARED; i++)
        EXPECT(pthread_rwlock_trywrlock(&shared[i].lock), 0);
}

/* Threads come and go, too. */
static void threads_end(void) {
    static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    contend(&lock);
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
    contend(&lock);
    copy = lock;
    EXPECT(pthread_rwlock_wrlock(&lock), 0);
    EXPECT(pthread_rwlock_trywrlock(&copy), 0);
    EXPECT(elsewhere(pthread_rwlock_tryrdlock, &copy), EBUSY);
    EXPECT(pthread_rwlock_unlock(&lock), 0);
    EXPECT(elsewhere(pthread_rwlock_tryrdlock, &copy), EBUSY);
    EXPECT(pthread_rwlock_unlock(&copy), 0);
    contend(&copy);
    EXPECT(elsewhere(write_and_unlock, &copy), 0);
}

/* Undefined as well: the bytes of a lock, wherever they are, are a lock of their own. */
static void copied_far(void) {
    size_t size = 1ul << 30;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    pthread_rwlock_t *l = (pthread_rwlock_t *)memory;
    contend(l);
    for (size_t distance = 4096; distance < size; distance *= 2) {
        pthread_rwlock_t *copy = (pthread_rwlock_t *)(memory + distance);
        memcpy(copy, l, sizeof *l);
        EXPECT(pthread_rwlock_wrlock(l), 0);
        EXPECT(elsewhere(write_and_unlock, copy), 0);
        EXPECT(elsewhere(pthread_rwlock_trywrlock, l), EBUSY);
        EXPECT(pthread_rwlock_unlock(l), 0);
    }
}

/* Memory that two processes share, with a lock that does not know it: one of them has waited for it, and the other releases it. */
static void shared_by_mistake(void) {
    if (!ours)
        return; /* glibc's is held for ever */
    enum { LOCKS = 2000 };
    int flags = MAP_SHARED | MAP_ANONYMOUS;
    pthread_rwlock_t *locks = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(locks != MAP_FAILED && LOCKS * sizeof *locks < 1 << 20);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < LOCKS; i++) {
            EXPECT(pthread_rwlock_rdlock(&locks[i]), 0);
            EXPECT(elsewhere(wait_in_vain, &locks[i]), ETIMEDOUT);
        }
        _exit(0);
    }
    join_child(child);
    for (int i = 0; i < LOCKS; i++) {
        EXPECT(pthread_rwlock_unlock(&locks[i]), 0);
        EXPECT(write_and_unlock(&locks[i]), 0);
        contend(&locks[i]);
        EXPECT(read_and_unlock(&locks[i]), 0);
    }
}

/* Its memory holds anything whatever, but that somebody is inside: names and flags of a queue, or the number of a visible lock,
   of whose count that of its readers is a part. */
static void overwritten(void) {
    if (!ours)
        return; /* glibc reads its own state in it */
    enum { VISIBLE = 1 << 4, HINTS = 0xec, UNITS = 1 << 30 };
    uint64_t word = 88172645463325252;
    pthread_rwlock_t other = PTHREAD_RWLOCK_INITIALIZER;
    struct caller c;
    EXPECT(pthread_rwlock_wrlock(&other), 0);
    start(&c, write_and_unlock, &other);
    wait_until_asleep(&c); /* so there is what a stray word may lead to */
    for (int i = 0; i < 100000; i++) {
        word ^= word << 13, word ^= word >> 7, word ^= word << 17;
        pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
        uint64_t upper = i / 2 % 2 ? word >> 32 : word >> 32 & 0x7f;
        uint64_t stray = upper << 32 | (word & HINTS) | (i % 2 ? VISIBLE | UNITS : 0);
        memcpy(&l, &stray, sizeof stray);
        EXPECT(pthread_rwlock_unlock(&l), 0);
        if (i % 3)
            EXPECT(pthread_rwlock_trywrlock(&l), 0);
        else if (i % 5)
            EXPECT(pthread_rwlock_wrlock(&l), 0);
        else
            EXPECT(pthread_rwlock_rdlock(&l), 0);
        EXPECT(pthread_rwlock_trywrlock(&l), EBUSY);
        EXPECT(pthread_rwlock_unlock(&l), 0);
        EXPECT(write_and_unlock(&l), 0);
    }
    EXPECT(pthread_rwlock_unlock(&other), 0);
    EXPECT(result(&c), 0);
}

TESTS({"destroyed_after_unlock", destroyed_after_unlock}, {"abandoned", abandoned},
      {"destroyed", destroyed}, {"threads_end", threads_end},
      {"readers_of_many_end", readers_of_many_end}, {"copied", copied},
      {"idle", idle}, {"idle_and_used", idle_and_used}, {"copied_far", copied_far}, {"shared_by_mistake", shared_by_mistake},
      {"overwritten", overwritten})

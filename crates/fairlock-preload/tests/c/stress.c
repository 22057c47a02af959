/* Nobody is inside beside a writer, whichever way they came. */
#include "check.h"

enum { THREADS = 6, ROUNDS = 4000 };
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic int readers, writers;
static long value; /* guarded by the lock */
static _Atomic long written;

static void look_around(bool writes) {
    if (writes) {
        CHECK(writers++ == 0 && readers == 0);
        value++;
        written++;
        CHECK(writers-- == 1);
    } else {
        readers++;
        CHECK(writers == 0);
        readers--;
    }
}

static int enter(int way, unsigned *seed) {
    struct timespec real = in_ms(CLOCK_REALTIME, rand_r(seed) % 3);
    struct timespec mono = in_ms(CLOCK_MONOTONIC, rand_r(seed) % 3);
    switch (way) {
    case 0: return pthread_rwlock_rdlock(&lock);
    case 1: return pthread_rwlock_wrlock(&lock);
    case 2: return pthread_rwlock_tryrdlock(&lock);
    case 3: return pthread_rwlock_trywrlock(&lock);
    case 4: return pthread_rwlock_timedrdlock(&lock, &real);
    case 5: return pthread_rwlock_timedwrlock(&lock, &real);
    case 6: return pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &mono);
    default: return pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &mono);
    }
}

static void *come_and_go(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        int way = rand_r(&seed) % 8;
        bool writes = way % 2;
        int result = enter(way, &seed);
        if (result) {
            CHECK((way == 2 || way == 3) ? result == EBUSY : way > 3 && result == ETIMEDOUT);
            continue;
        }
        look_around(writes);
        if (!writes && rand_r(&seed) % 4 == 0) {
            EXPECT(pthread_rwlock_rdlock(&lock), 0);
            look_around(false);
            EXPECT(pthread_rwlock_unlock(&lock), 0);
        }
        if (rand_r(&seed) % 8 == 0)
            sched_yield();
        EXPECT(pthread_rwlock_unlock(&lock), 0);
    }
    return NULL;
}

static void exclusion(void) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, come_and_go, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(value == written && value > 0);
    EXPECT(pthread_rwlock_trywrlock(&lock), 0);
}

/* Locks that nobody has waited for at first, with a crowd at each. */
static void *read_or_write_in_turn(void *argument) {
    size_t me = (size_t)argument;
    static pthread_rwlock_t locks[20000];
    static long values[20000];
    for (int i = 0; i < 20000; i++) {
        if ((i + me) % 3) {
            EXPECT(pthread_rwlock_rdlock(&locks[i]), 0);
            CHECK(values[i] % 2 == 0);
        } else {
            EXPECT(pthread_rwlock_wrlock(&locks[i]), 0);
            values[i]++;
            CHECK(values[i]++ % 2 == 1);
        }
        EXPECT(pthread_rwlock_unlock(&locks[i]), 0);
    }
    return NULL;
}

static void new_locks(void) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, read_or_write_in_turn, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Readers that leave no gap; the writer must get in all the same. */
static _Atomic bool stop;

static void *keep_reading(void *unused) {
    while (!stop) {
        EXPECT(pthread_rwlock_rdlock(&lock), 0);
        struct timespec end = in_ms(CLOCK_MONOTONIC, 1);
        while (!has_passed(CLOCK_MONOTONIC, end) && !stop)
            ;
        EXPECT(pthread_rwlock_unlock(&lock), 0);
    }
    return unused;
}

static void writer_is_not_starved(void) {
    if (!ours)
        return; /* glibc's is */
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, keep_reading, NULL), 0);
    for (int i = 0; i < 50; i++)
        EXPECT(write_and_unlock(&lock), 0);
    stop = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

TESTS({"exclusion", exclusion}, {"new_locks", new_locks},
      {"writer_is_not_starved", writer_is_not_starved})

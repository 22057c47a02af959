/* Mutexes: results, kinds, lifetimes, processes. */
#include "check.h"
#include <threads.h>

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t *const all[] = {&normal, &recursive, &checking, &adaptive};
enum { KINDS = sizeof all / sizeof *all };

/* Calls in another thread. */
struct call {
    pthread_t thread;
    int (*function)(pthread_mutex_t *);
    pthread_mutex_t *mutex;
    _Atomic pid_t tid;
    int result;
};

static void *make_call(void *argument) {
    struct call *c = argument;
    c->tid = gettid();
    c->result = c->function(c->mutex);
    return NULL;
}

static void begin(struct call *c, int (*function)(pthread_mutex_t *), pthread_mutex_t *mutex) {
    *c = (struct call){.function = function, .mutex = mutex};
    EXPECT(pthread_create(&c->thread, NULL, make_call, c), 0);
}

static int end(struct call *c) {
    pthread_join(c->thread, NULL);
    return c->result;
}

static int beside(int (*function)(pthread_mutex_t *), pthread_mutex_t *mutex) {
    struct call c;
    begin(&c, function, mutex);
    return end(&c);
}

static void until_asleep(struct call *c) {
    while (!c->tid)
        sched_yield();
    sleeps(c->tid);
}

static int lock_and_unlock(pthread_mutex_t *mutex) {
    int result = pthread_mutex_lock(mutex);
    if (!result)
        EXPECT(pthread_mutex_unlock(mutex), 0);
    return result;
}

static int try_and_unlock(pthread_mutex_t *mutex) {
    int result = pthread_mutex_trylock(mutex);
    if (!result)
        EXPECT(pthread_mutex_unlock(mutex), 0);
    return result;
}

static int past_real(pthread_mutex_t *mutex) {
    struct timespec past = {0};
    return pthread_mutex_timedlock(mutex, &past);
}

static int soon_real(pthread_mutex_t *mutex) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    int result = pthread_mutex_timedlock(mutex, &soon);
    CHECK(result != ETIMEDOUT || has_passed(CLOCK_REALTIME, soon));
    return result;
}

static int soon_mono(pthread_mutex_t *mutex) {
    struct timespec soon = in_ms(CLOCK_MONOTONIC, 20);
    int result = pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &soon);
    CHECK(result != ETIMEDOUT || has_passed(CLOCK_MONOTONIC, soon));
    return result;
}

static int no_time(pthread_mutex_t *mutex) {
    struct timespec none = {.tv_nsec = 1000000000};
    return pthread_mutex_timedlock(mutex, &none);
}

static int no_clock(pthread_mutex_t *mutex) {
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    return pthread_mutex_clocklock(mutex, CLOCK_PROCESS_CPUTIME_ID, &soon);
}

static int unlock(pthread_mutex_t *mutex) { return pthread_mutex_unlock(mutex); }
static int destroy(pthread_mutex_t *mutex) { return pthread_mutex_destroy(mutex); }

/* Has it inflated, if it is ours. */
static void inflate_mutex(pthread_mutex_t *mutex) {
    EXPECT(pthread_mutex_lock(mutex), 0);
    EXPECT(beside(past_real, mutex), ETIMEDOUT);
    EXPECT(pthread_mutex_unlock(mutex), 0);
}

static void results(void) {
    for (int form = 0; form < 2; form++)
        for (int k = 0; k < KINDS; k++) {
            pthread_mutex_t *m = all[k];
            if (form)
                inflate_mutex(m);
            EXPECT(pthread_mutex_lock(m), 0);
            EXPECT(beside(try_and_unlock, m), EBUSY);
            EXPECT(beside(past_real, m), ETIMEDOUT);
            EXPECT(beside(soon_real, m), ETIMEDOUT);
            EXPECT(beside(soon_mono, m), ETIMEDOUT);
            EXPECT(beside(no_time, m), EINVAL);
            EXPECT(beside(no_clock, m), EINVAL);
            EXPECT(destroy(m), EBUSY);
            EXPECT(pthread_mutex_unlock(m), 0);
            EXPECT(no_clock(m), EINVAL);
            /* A time is not looked at if nobody is in the way. */
            EXPECT(no_time(m), 0);
            EXPECT(pthread_mutex_unlock(m), 0);
            EXPECT(soon_real(m), 0);
            EXPECT(pthread_mutex_unlock(m), 0);
            EXPECT(try_and_unlock(m), 0);
            struct call c;
            EXPECT(pthread_mutex_lock(m), 0);
            begin(&c, lock_and_unlock, m);
            until_asleep(&c);
            EXPECT(pthread_mutex_unlock(m), 0);
            EXPECT(end(&c), 0);
        }
}

static void kinds(void) {
    for (int form = 0; form < 2; form++) {
        if (form)
            for (int k = 0; k < KINDS; k++)
                inflate_mutex(all[k]);
        EXPECT(pthread_mutex_lock(&checking), 0);
        EXPECT(pthread_mutex_lock(&checking), EDEADLK);
        EXPECT(soon_real(&checking), EDEADLK);
        EXPECT(no_time(&checking), EDEADLK);
        EXPECT(pthread_mutex_trylock(&checking), EBUSY);
        EXPECT(beside(unlock, &checking), EPERM);
        EXPECT(pthread_mutex_unlock(&checking), 0);
        EXPECT(pthread_mutex_unlock(&checking), EPERM);

        EXPECT(pthread_mutex_lock(&recursive), 0);
        CHECK(recursive.__data.__count == 1);
        EXPECT(pthread_mutex_lock(&recursive), 0);
        EXPECT(pthread_mutex_trylock(&recursive), 0);
        EXPECT(soon_mono(&recursive), 0);
        CHECK(recursive.__data.__owner == gettid() && recursive.__data.__count == 4);
        EXPECT(beside(unlock, &recursive), EPERM);
        for (int i = 0; i < 4; i++) {
            EXPECT(beside(try_and_unlock, &recursive), EBUSY);
            EXPECT(pthread_mutex_unlock(&recursive), 0);
        }
        EXPECT(beside(try_and_unlock, &recursive), 0);
        EXPECT(pthread_mutex_unlock(&recursive), EPERM);
        EXPECT(pthread_mutex_lock(&recursive), 0);
        recursive.__data.__count = UINT32_MAX;
        EXPECT(pthread_mutex_lock(&recursive), EAGAIN);
        EXPECT(pthread_mutex_trylock(&recursive), EAGAIN);
        recursive.__data.__count = 1;
        EXPECT(pthread_mutex_unlock(&recursive), 0);

        for (int k = 0; k < KINDS; k += 3) {
            EXPECT(pthread_mutex_lock(all[k]), 0);
            CHECK(all[k]->__data.__owner == gettid());
            EXPECT(soon_mono(all[k]), ETIMEDOUT);
            EXPECT(pthread_mutex_trylock(all[k]), EBUSY);
            EXPECT(beside(unlock, all[k]), 0); /* by whomever */
            CHECK(all[k]->__data.__owner == 0);
            EXPECT(try_and_unlock(all[k]), 0);
        }
    }
    for (int k = 0; k < KINDS; k++) {
        pthread_mutexattr_t attributes;
        pthread_mutex_t m;
        EXPECT(pthread_mutexattr_init(&attributes), 0);
        EXPECT(pthread_mutexattr_settype(&attributes, k), 0);
        EXPECT(pthread_mutex_init(&m, &attributes), 0);
        EXPECT(lock_and_unlock(&m), 0);
        EXPECT(pthread_mutex_destroy(&m), 0);
        EXPECT(pthread_mutex_lock(&m), EINVAL);
    }
}

/* What stays glibc's. */
static void *lock_and_end(void *mutex) {
    EXPECT(pthread_mutex_lock(mutex), 0);
    return NULL;
}

static void left_to_glibc(void) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t m;
    EXPECT(pthread_mutexattr_init(&attributes), 0);
    EXPECT(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST), 0);
    EXPECT(pthread_mutex_init(&m, &attributes), 0);
    pthread_t t;
    EXPECT(pthread_create(&t, NULL, lock_and_end, &m), 0);
    pthread_join(t, NULL);
    EXPECT(pthread_mutex_lock(&m), EOWNERDEAD);
    EXPECT(pthread_mutex_consistent(&m), 0);
    EXPECT(pthread_mutex_unlock(&m), 0);

    EXPECT(pthread_mutexattr_init(&attributes), 0);
    EXPECT(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT), 0);
    EXPECT(pthread_mutex_init(&m, &attributes), 0);
    EXPECT(pthread_mutex_lock(&m), 0);
    EXPECT(beside(try_and_unlock, &m), EBUSY);
    CHECK((m.__data.__lock & 0x3fffffff) == gettid());
    EXPECT(pthread_mutex_unlock(&m), 0);

    pthread_mutex_t *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(pthread_mutexattr_init(&attributes), 0);
    EXPECT(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
    EXPECT(pthread_mutex_init(shared, &attributes), 0);
    EXPECT(pthread_mutex_lock(shared), 0);
    pid_t child = fork();
    if (!child)
        _exit(lock_and_unlock(shared));
    usleep(20000);
    EXPECT(pthread_mutex_unlock(shared), 0);
    join_child(child);
}

enum { THREADS = 6, ROUNDS = 4000 };
static long value; /* guarded by the mutex that is used */
static _Atomic int inside;
static _Atomic long written;

static int come_in(pthread_mutex_t *m, unsigned *seed) {
    struct timespec real = in_ms(CLOCK_REALTIME, rand_r(seed) % 3);
    struct timespec mono = in_ms(CLOCK_MONOTONIC, rand_r(seed) % 3);
    switch (rand_r(seed) % 5) {
    case 0: return pthread_mutex_trylock(m);
    case 1: return pthread_mutex_timedlock(m, &real);
    case 2: return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &mono);
    default: return pthread_mutex_lock(m);
    }
}

static void *come_and_go(void *mutex) {
    unsigned seed = gettid();
    for (int i = 0; i < ROUNDS; i++) {
        int result = come_in(mutex, &seed);
        if (result) {
            CHECK(result == EBUSY || result == ETIMEDOUT);
            continue;
        }
        CHECK(inside++ == 0);
        value++;
        written++;
        if (rand_r(&seed) % 8 == 0)
            sched_yield();
        if (rand_r(&seed) % 1000 == 0)
            usleep(1500);
        CHECK(--inside == 0);
        EXPECT(pthread_mutex_unlock(mutex), 0);
    }
    return NULL;
}

static void exclusion(void) {
    for (int k = 0; k < KINDS; k++) {
        pthread_t threads[THREADS];
        for (size_t i = 0; i < THREADS; i++)
            EXPECT(pthread_create(&threads[i], NULL, come_and_go, all[k]), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        CHECK(value == written && value > 0);
        EXPECT(destroy(all[k]), 0);
    }
}

static void *in_turn(void *unused) {
    static pthread_mutex_t mutexes[20000];
    static long values[20000];
    for (int i = 0; i < 20000; i++) {
        EXPECT(pthread_mutex_lock(&mutexes[i]), 0);
        CHECK(values[i]++ % 2 == 0);
        CHECK(values[i]++ % 2 == 1);
        EXPECT(pthread_mutex_unlock(&mutexes[i]), 0);
    }
    return unused;
}

static void new_mutexes(void) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, in_turn, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static long resident_kb(void) {
    FILE *f = fopen("/proc/self/statm", "r");
    long pages, resident;
    CHECK(f && fscanf(f, "%ld %ld", &pages, &resident) == 2);
    fclose(f);
    return resident * 4;
}

/* 100,000 that were waited for, one after the other: idle ones do not keep their memory. */
static void many(void) {
    enum { MANY = 100000 };
    pthread_mutex_t *m = calloc(MANY, sizeof *m);
    for (int i = 0; i < MANY; i++)
        EXPECT(lock_and_unlock(&m[i]), 0);
    long before = resident_kb();
    struct timespec past = {0};
    for (int i = 0; i < MANY; i++) {
        EXPECT(pthread_mutex_lock(&m[i]), 0);
        EXPECT(pthread_mutex_timedlock(&m[i], &past), ETIMEDOUT);
        EXPECT(pthread_mutex_unlock(&m[i]), 0);
    }
    CHECK(resident_kb() - before < 10000);
    for (int i = 0; i < MANY; i++)
        EXPECT(try_and_unlock(&m[i]), 0);
}

/* The memory may go as soon as somebody else has had the mutex. */
struct box {
    pthread_mutex_t mutex;
    bool done;
};

static void *unlock_last(void *argument) {
    struct box *b = argument;
    EXPECT(pthread_mutex_lock(&b->mutex), 0);
    b->done = true;
    EXPECT(pthread_mutex_unlock(&b->mutex), 0);
    return NULL;
}

static void freed_after_unlock(void) {
    for (int i = 0; i < 200; i++) {
        struct box *b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(pthread_mutex_init(&b->mutex, NULL), 0);
        if (i % 2)
            inflate_mutex(&b->mutex);
        pthread_t t;
        EXPECT(pthread_create(&t, NULL, unlock_last, b), 0);
        for (bool done = false; !done;) {
            EXPECT(pthread_mutex_lock(&b->mutex), 0);
            done = b->done;
            EXPECT(pthread_mutex_unlock(&b->mutex), 0);
            if (!done)
                sched_yield();
        }
        EXPECT(pthread_mutex_destroy(&b->mutex), 0);
        munmap(b, 4096);
        pthread_join(t, NULL);
    }
}

static void reused(void) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, copy;
    inflate_mutex(&m);
    EXPECT(pthread_mutex_lock(&m), 0);
    m = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* without destroy, and while it is held */
    EXPECT(beside(try_and_unlock, &m), 0);
    inflate_mutex(&m);
    EXPECT(lock_and_unlock(&m), 0);
    copy = m; /* a free one */
    EXPECT(pthread_mutex_lock(&m), 0);
    EXPECT(beside(try_and_unlock, &copy), 0);
    EXPECT(pthread_mutex_unlock(&m), 0);
    memset(&m, 0, sizeof m);
    EXPECT(lock_and_unlock(&m), 0);
}

/* Those of std::mutex are never destroyed; some are even held, or waited for until a time, when their memory is used again. */
static void abandoned(void) {
    enum { LOCKS = 64, TURNS = 100 };
    static pthread_mutex_t locks[LOCKS];
    long before = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < LOCKS; i++) {
            memset(&locks[i], 0, sizeof locks[i]);
            struct call c;
            EXPECT(pthread_mutex_lock(&locks[i]), 0);
            if (i % 8 == 0) {
                begin(&c, lock_and_unlock, &locks[i]);
                until_asleep(&c);
                EXPECT(pthread_mutex_unlock(&locks[i]), 0);
                EXPECT(end(&c), 0);
            }
        }
        if (turn == 10)
            before = resident_kb();
    }
    CHECK(resident_kb() - before < 256);
}

/* Undefined in POSIX: the memory holds anything whatever beside a mutex that nobody holds. */
static void overwritten(void) {
    if (!ours)
        return; /* glibc looks elsewhere */
    uint64_t word = 88172645463325252;
    pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
    struct call c;
    EXPECT(pthread_mutex_lock(&other), 0);
    begin(&c, lock_and_unlock, &other);
    until_asleep(&c); /* so there is what a stray word may lead to */
    for (int i = 0; i < 100000; i++) {
        word ^= word << 13, word ^= word >> 7, word ^= word << 17;
        pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
        uint32_t stray = i % 2 ? word : word & 0x7f;
        memcpy((char *)&m + 28, &stray, sizeof stray);
        EXPECT(pthread_mutex_unlock(&m), 0);
        if (i % 3)
            EXPECT(pthread_mutex_trylock(&m), 0);
        else
            EXPECT(pthread_mutex_lock(&m), 0);
        EXPECT(pthread_mutex_trylock(&m), EBUSY);
        EXPECT(pthread_mutex_unlock(&m), 0);
    }
    EXPECT(pthread_mutex_unlock(&other), 0);
    EXPECT(end(&c), 0);
}

/* Undefined as well: the bytes of a mutex that is held and waited for, elsewhere, are a held mutex, as they are with glibc's. Nobody
   who uses one of the two touches the other. */
static void copied_while_waited_for(void) {
    for (int i = 0; i < 200; i++) {
        pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, copy;
        struct call of_m, of_copy;
        EXPECT(pthread_mutex_lock(&m), 0);
        begin(&of_m, lock_and_unlock, &m);
        until_asleep(&of_m);
        copy = m;
        EXPECT(beside(try_and_unlock, &copy), EBUSY);
        begin(&of_copy, lock_and_unlock, &copy);
        until_asleep(&of_copy);
        EXPECT(pthread_mutex_unlock(i % 2 ? &m : &copy), 0);
        EXPECT(end(i % 2 ? &of_m : &of_copy), 0);
        EXPECT(beside(try_and_unlock, i % 2 ? &copy : &m), EBUSY);
        EXPECT(pthread_mutex_unlock(i % 2 ? &copy : &m), 0);
        EXPECT(end(i % 2 ? &of_copy : &of_m), 0);
        EXPECT(lock_and_unlock(&m), 0);
        EXPECT(lock_and_unlock(&copy), 0);
    }
}

/* Undefined, too: a mutex that nobody holds is released, waited for lately or not, and stays a mutex. */
static void unlocked_twice(void) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < 3; i++) {
        struct call c;
        EXPECT(pthread_mutex_unlock(&m), 0);
        EXPECT(pthread_mutex_lock(&m), 0);
        begin(&c, lock_and_unlock, &m);
        until_asleep(&c);
        EXPECT(pthread_mutex_unlock(&m), 0);
        EXPECT(end(&c), 0);
        EXPECT(pthread_mutex_unlock(&m), 0);
        EXPECT(pthread_mutex_unlock(&m), 0);
        EXPECT(pthread_mutex_lock(&m), 0);
        EXPECT(beside(try_and_unlock, &m), EBUSY);
        EXPECT(pthread_mutex_unlock(&m), 0);
    }
}

/* In the child whoever held a mutex holds it; who waited does not exist. */
static void forked(void) {
    for (int k = 0; k < KINDS; k++)
        for (int form = 0; form < 2; form++) {
            pthread_mutex_t *m = all[k], free_one = PTHREAD_MUTEX_INITIALIZER;
            struct call c;
            if (form) {
                inflate_mutex(m);
                inflate_mutex(&free_one);
            }
            EXPECT(pthread_mutex_lock(m), 0);
            begin(&c, lock_and_unlock, m);
            until_asleep(&c);
            pid_t child = fork();
            if (!child) {
                EXPECT(beside(try_and_unlock, m), EBUSY);
                EXPECT(lock_and_unlock(&free_one), 0);
                /* glibc does not know the thread again, if it looks. */
                int result = pthread_mutex_unlock(m);
                CHECK(result == 0 || (!ours && result == EPERM && (k == 1 || k == 2)));
                if (!result)
                    EXPECT(beside(lock_and_unlock, m), 0);
                _exit(0);
            }
            EXPECT(pthread_mutex_unlock(m), 0);
            EXPECT(end(&c), 0);
            join_child(child);
        }
}

static void before_fork(void) {
    for (int k = 0; k < KINDS; k++)
        EXPECT(pthread_mutex_lock(all[k]), 0);
}

static void in_parent(void) {
    for (int k = KINDS; k-- > 0;)
        EXPECT(pthread_mutex_unlock(all[k]), 0);
}

static void in_child(void) {
    for (int k = KINDS; k-- > 0;)
        if (ours || k == 0 || k == 3)
            EXPECT(pthread_mutex_unlock(all[k]), 0);
        else
            *all[k] = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static _Atomic bool stop;

static void *keep_busy(void *mutex) {
    while (!stop) {
        EXPECT(lock_and_unlock(mutex), 0);
        usleep(1);
    }
    return NULL;
}

static void fork_handlers(void) {
    EXPECT(pthread_atfork(before_fork, in_parent, in_child), 0);
    pthread_t threads[2 * KINDS];
    for (int i = 0; i < 2 * KINDS; i++)
        EXPECT(pthread_create(&threads[i], NULL, keep_busy, all[i % KINDS]), 0);
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        if (!child) {
            for (int k = 0; k < KINDS; k++)
                EXPECT(beside(lock_and_unlock, all[k]), 0);
            _exit(0);
        }
        join_child(child);
    }
    stop = true;
    for (int i = 0; i < 2 * KINDS; i++)
        pthread_join(threads[i], NULL);
}

/* Nobody is passed over for long, however busy the others are. */
static void *hog(void *mutex) {
    while (!stop) {
        EXPECT(pthread_mutex_lock(mutex), 0);
        struct timespec end = in_ms(CLOCK_MONOTONIC, 1);
        while (!has_passed(CLOCK_MONOTONIC, end))
            ;
        EXPECT(pthread_mutex_unlock(mutex), 0);
    }
    return NULL;
}

static void nobody_starves(void) {
    if (!ours)
        return; /* beside glibc's, somebody does */
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        EXPECT(pthread_create(&threads[i], NULL, hog, &normal), 0);
    for (int i = 0; i < 30; i++)
        EXPECT(lock_and_unlock(&normal), 0);
    stop = true;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void c11(void) {
    for (int type = 0; type < 4; type++) {
        mtx_t m;
        CHECK(mtx_init(&m, type) == thrd_success);
        CHECK(mtx_lock(&m) == thrd_success);
        CHECK(mtx_trylock(&m) == (type & mtx_recursive ? thrd_success : thrd_busy));
        CHECK(beside(try_and_unlock, (pthread_mutex_t *)&m) == EBUSY);
        struct timespec soon = in_ms(CLOCK_REALTIME, 20);
        CHECK(mtx_timedlock(&m, &soon) == (type & mtx_recursive ? thrd_success : thrd_timedout));
        for (int i = 0; i < (type & mtx_recursive ? 3 : 1); i++)
            CHECK(mtx_unlock(&m) == thrd_success);
        CHECK(beside(try_and_unlock, (pthread_mutex_t *)&m) == 0);
        mtx_destroy(&m);
    }
}

/* Two threads that take turns at everything that is in them. */
struct turns {
    pthread_mutex_t *mutex;
    pthread_cond_t *cond;
    pthread_rwlock_t *rwlock;
    int turn, written;
};

static void take_turns(struct turns *t, int mine) {
    for (int i = 0; i < 500; i++) {
        EXPECT(pthread_mutex_lock(t->mutex), 0);
        while (t->turn != mine) {
            struct timespec far = far_away(CLOCK_REALTIME);
            EXPECT(i % 2 ? pthread_cond_wait(t->cond, t->mutex)
                         : pthread_cond_timedwait(t->cond, t->mutex, &far), 0);
        }
        t->turn = !mine;
        EXPECT(pthread_cond_broadcast(t->cond), 0);
        EXPECT(pthread_mutex_unlock(t->mutex), 0);
        EXPECT(pthread_rwlock_wrlock(t->rwlock), 0);
        t->written++;
        EXPECT(pthread_rwlock_unlock(t->rwlock), 0);
        EXPECT(pthread_rwlock_rdlock(t->rwlock), 0);
        EXPECT(pthread_rwlock_unlock(t->rwlock), 0);
    }
}

static void *take_second_turns(void *turns) {
    take_turns(turns, 1);
    return NULL;
}

/* Locks where packed structs have them, some across the end of a cache line. */
static void misaligned(void) {
    static _Alignas(64) char mutexes[192], conds[192], rwlocks[192];
    static const int offsets[] = {0, 4, 36, 60};
    for (int at = 0; at < 16; at++)
        for (int k = 0; k < KINDS; k++) {
            struct turns t = {.mutex = (void *)(mutexes + offsets[at / 4]),
                              .cond = (void *)(conds + offsets[at % 4]),
                              .rwlock = (void *)(rwlocks + offsets[at % 4])};
            memcpy(t.mutex, all[k], sizeof *t.mutex);
            pthread_rwlockattr_t attributes;
            EXPECT(pthread_rwlockattr_init(&attributes), 0);
            EXPECT(pthread_rwlockattr_setkind_np(&attributes, k % 3), 0);
            EXPECT(pthread_rwlock_init(t.rwlock, &attributes), 0);
            EXPECT(pthread_cond_init(t.cond, NULL), 0);
            pthread_t second;
            EXPECT(pthread_create(&second, NULL, take_second_turns, &t), 0);
            take_turns(&t, 0);
            EXPECT(pthread_join(second, NULL), 0);
            CHECK(t.written == 1000);
            EXPECT(pthread_mutex_trylock(t.mutex), 0);
            EXPECT(beside(try_and_unlock, t.mutex), EBUSY);
            EXPECT(beside(soon_real, t.mutex), ETIMEDOUT);
            EXPECT(destroy(t.mutex), EBUSY);
            EXPECT(pthread_mutex_unlock(t.mutex), 0);
            EXPECT(destroy(t.mutex), 0);
            EXPECT(pthread_cond_destroy(t.cond), 0);
            EXPECT(pthread_rwlock_destroy(t.rwlock), 0);
        }
    /* glibc takes these too, as long as nobody has to wait. */
    pthread_mutex_t *odd = (void *)(mutexes + 1);
    for (int k = 0; k < KINDS; k++) {
        memcpy(odd, all[k], sizeof *odd);
        EXPECT(lock_and_unlock(odd), 0);
        struct timespec past = {0};
        pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
        EXPECT(pthread_mutex_lock(odd), 0);
        EXPECT(pthread_cond_timedwait(&cond, odd, &past), ETIMEDOUT);
        EXPECT(pthread_mutex_unlock(odd), 0);
    }
}

static atomic_int stopped, resumes;
static _Atomic bool ends;

/* As a collector of garbage stops a thread. */
static void stop_here(int signal) {
    (void)signal;
    int before = resumes;
    stopped++;
    while (resumes == before)
        sched_yield();
}

static void *tries_again(void *argument) {
    (void)argument;
    while (!ends) {
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_nsec = soon.tv_nsec < 999990000 ? soon.tv_nsec + 5000 : 999999999;
        if (!pthread_mutex_timedlock(&normal, &soon))
            EXPECT(pthread_mutex_unlock(&normal), 0);
    }
    return NULL;
}

/* Threads that wait for a mutex are stopped wherever they are. The one that holds it gives it up, and takes it again. */
static void stopped_anywhere(void) {
    signal(SIGUSR1, stop_here);
    pthread_t threads[4];
    for (int t = 0; t < 4; t++)
        EXPECT(pthread_create(&threads[t], NULL, tries_again, NULL), 0);
    for (int round = 0; round < 2000; round++) {
        EXPECT(pthread_mutex_lock(&normal), 0);
        usleep(200);
        stopped = 0;
        for (int t = 0; t < 4; t++)
            EXPECT(pthread_kill(threads[t], SIGUSR1), 0);
        while (stopped < 4)
            sched_yield();
        EXPECT(pthread_mutex_unlock(&normal), 0);
        EXPECT(lock_and_unlock(&normal), 0);
        resumes++;
    }
    ends = true;
    for (int t = 0; t < 4; t++)
        EXPECT(pthread_join(threads[t], NULL), 0);
}

/* FAIRLOCK_ONLY: the rest is glibc's, whose marks are others. */
static void only(void) {
    const char *asked = getenv("FAIRLOCK_ONLY");
    bool mutexes = ours && (!asked || !strcmp(asked, "mutex"));
    bool rwlocks = ours && (!asked || !strcmp(asked, "rwlock"));
    pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
    EXPECT(pthread_rwlock_wrlock(&rwlock), 0);
    CHECK((rwlock.__data.__readers == 1) == rwlocks);
    EXPECT(pthread_rwlock_unlock(&rwlock), 0);
    EXPECT(pthread_mutex_lock(&normal), 0);
    CHECK((normal.__data.__lock == 0) == mutexes);
    EXPECT(pthread_mutex_unlock(&normal), 0);
}

TESTS({"only", only}, {"results", results}, {"kinds", kinds}, {"left_to_glibc", left_to_glibc},
      {"exclusion", exclusion}, {"new_mutexes", new_mutexes}, {"many", many},
      {"freed_after_unlock", freed_after_unlock}, {"reused", reused}, {"abandoned", abandoned}, {"overwritten", overwritten},
      {"copied_while_waited_for", copied_while_waited_for}, {"unlocked_twice", unlocked_twice}, {"forked", forked},
      {"fork_handlers", fork_handlers}, {"nobody_starves", nobody_starves}, {"c11", c11},
      {"misaligned", misaligned}, {"stopped_anywhere", stopped_anywhere})

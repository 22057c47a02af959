// Uses locks for long and in great number. Whatever is guarded is counted twice, once under the lock and once by
// whoever did it: where the two differ, or memory grows, or a thread stands still, it ends with a message.
//
//   soak locks N | threads N | forks N | random SECONDS SEED
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FLAT_KIB = 4096, STANDS_STILL = 120 };

static void fail(const char *what, ...) {
    va_list more;
    va_start(more, what);
    fputs("soak: ", stderr);
    vfprintf(stderr, what, more);
    fputc('\n', stderr);
    va_end(more);
    _exit(1);
}
#define expect(holds, ...) ((holds) ? (void)0 : fail(__VA_ARGS__))
#define ok(call) expect((call) == 0, "%s failed, line %d", #call, __LINE__)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static struct timespec after(long ns) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += ns;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static long resident_kib(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    expect(file && fscanf(file, "%*d %ld", &pages) == 1, "no /proc/self/statm");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void flat(const char *what, long before, long since) {
    printf("%s: %ld KiB resident, %+ld KiB\n", what, since, since - before);
    expect(since - before <= FLAT_KIB, "memory grows");
}

static uint32_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

// Every second lock is a mutex, the others rwlocks.
struct lock {
    union {
        pthread_mutex_t mutex;
        pthread_rwlock_t rwlock;
    };
    uint64_t counted;
};

static struct lock *locks;
static long lock_count;
enum { WALKERS = 4 };

static void *walk(void *unused) {
    (void)unused;
    for (long i = 0; i < lock_count; i++) {
        if (i % 2) {
            ok(pthread_mutex_lock(&locks[i].mutex));
            locks[i].counted++;
            ok(pthread_mutex_unlock(&locks[i].mutex));
        } else {
            ok(pthread_rwlock_wrlock(&locks[i].rwlock));
            locks[i].counted++;
            ok(pthread_rwlock_unlock(&locks[i].rwlock));
            ok(pthread_rwlock_rdlock(&locks[i].rwlock));
            ok(pthread_rwlock_unlock(&locks[i].rwlock));
        }
    }
    return NULL;
}

// All of them at once, and several threads go over them together, so that many are waited for.
static void many_locks(long count) {
    lock_count = count;
    locks = mmap(NULL, count * sizeof *locks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(locks != MAP_FAILED, "no memory");
    for (long i = 0; i < count; i++) {
        if (i % 2) pthread_mutex_init(&locks[i].mutex, NULL);
        else pthread_rwlock_init(&locks[i].rwlock, NULL);
        locks[i].counted = 0;
    }
    long before = resident_kib();
    for (int round = 0; round < 2; round++) {
        pthread_t threads[WALKERS];
        for (int i = 0; i < WALKERS; i++) ok(pthread_create(&threads[i], NULL, walk, NULL));
        for (int i = 0; i < WALKERS; i++) ok(pthread_join(threads[i], NULL));
        // A profile has an entry for each lock from its first use on.
        if (round == 0 && getenv("FAIRLOCK_PROFILE")) before = resident_kib();
        flat("many locks", before, resident_kib());
    }
    for (long i = 0; i < count; i++) expect(locks[i].counted == 2 * WALKERS, "lock %ld counted %ju", i, (uintmax_t)locks[i].counted);
    printf("many locks: %ld\n", count);
}

// What many threads use together: a queue, a mutex and a rwlock.
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t filled, emptied;
    long held, in, out;
    pthread_rwlock_t rwlock;
    long written[2];
} shared = {
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .filled = PTHREAD_COND_INITIALIZER,
    .emptied = PTHREAD_COND_INITIALIZER,
    .rwlock = PTHREAD_RWLOCK_INITIALIZER,
};

enum { TURNS = 20, ROOM = 16 };

// Each puts before it takes, so they cannot all wait.
static void *one_of_many(void *unused) {
    (void)unused;
    for (int turn = 0; turn < TURNS; turn++) {
        ok(pthread_mutex_lock(&shared.mutex));
        if (turn % 2 == 0) {
            while (shared.held == ROOM) ok(pthread_cond_wait(&shared.emptied, &shared.mutex));
            shared.in++, shared.held++;
            ok(pthread_cond_signal(&shared.filled));
        } else {
            while (shared.held == 0) ok(pthread_cond_wait(&shared.filled, &shared.mutex));
            shared.out++, shared.held--;
            ok(pthread_cond_signal(&shared.emptied));
        }
        ok(pthread_mutex_unlock(&shared.mutex));
        if (turn % 4 == 0) {
            ok(pthread_rwlock_wrlock(&shared.rwlock));
            shared.written[0]++;
            sched_yield();
            shared.written[1]++;
        } else {
            ok(pthread_rwlock_rdlock(&shared.rwlock));
            expect(shared.written[0] == shared.written[1], "a reader beside a writer");
        }
        ok(pthread_rwlock_unlock(&shared.rwlock));
    }
    return NULL;
}

static void many_threads(long count) {
    long before = 0;
    pthread_t *threads = calloc(count, sizeof *threads);
    pthread_attr_t small;
    ok(pthread_attr_init(&small));
    ok(pthread_attr_setstacksize(&small, 64 * 1024));
    for (int round = 1; round <= 4; round++) {
        for (long i = 0; i < count; i++) ok(pthread_create(&threads[i], &small, one_of_many, NULL));
        for (long i = 0; i < count; i++) ok(pthread_join(threads[i], NULL));
        expect(shared.in == round * count * TURNS / 2 && shared.in == shared.out, "put %ld, taken %ld", shared.in, shared.out);
        expect(shared.written[0] == round * count * TURNS / 4, "written %ld", shared.written[0]);
        // What a thread needs of its own, the next may have.
        if (round == 1) before = resident_kib();
        else flat("many threads", before, resident_kib());
    }
    printf("many threads: %ld\n", count);
}

static atomic_bool ends;
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
// glibc's default would keep who forks out for ever.
static pthread_rwlock_t busy_rwlock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static long busy_counted;

static void *keep_busy(void *own) {
    while (!ends) {
        ok(pthread_rwlock_rdlock(&busy_rwlock));
        ok(pthread_mutex_lock(&busy));
        busy_counted++;
        ok(pthread_mutex_unlock(&busy));
        ok(pthread_rwlock_unlock(&busy_rwlock));
        ++*(long *)own;
        // On few CPUs the process that forks wants one too.
        if (*(long *)own % 64 == 0) usleep(100);
    }
    return NULL;
}

static void lock_busy(void) { ok(pthread_rwlock_wrlock(&busy_rwlock)), ok(pthread_mutex_lock(&busy)); }
static void unlock_busy(void) { ok(pthread_mutex_unlock(&busy)), ok(pthread_rwlock_unlock(&busy_rwlock)); }

// A child has the locks of its handlers, and may make its own and its own threads.
static void child(long number) {
    alarm(STANDS_STILL);
    lock_busy();
    busy_counted++;
    unlock_busy();
    if (number % 8 == 0) {
        ends = false;
        long own = 0, counted = busy_counted;
        pthread_t thread;
        ok(pthread_create(&thread, NULL, keep_busy, &own));
        while (__atomic_load_n(&busy_counted, __ATOMIC_RELAXED) == counted) sched_yield();
        ends = true;
        ok(pthread_join(thread, NULL));
        expect(busy_counted == counted + own, "the child counted %ld, its thread %ld", busy_counted - counted, own);
    }
    _exit(42);
}

static void many_forks(long count) {
    ok(pthread_atfork(lock_busy, unlock_busy, unlock_busy));
    enum { BUSY = 3 };
    pthread_t threads[BUSY];
    long own[BUSY] = { 0 }, before = 0, sum = 0;
    for (int i = 0; i < BUSY; i++) ok(pthread_create(&threads[i], NULL, keep_busy, &own[i]));
    for (long i = 0; i < count; i++) {
        pid_t pid = fork();
        expect(pid >= 0, "no fork: %s", strerror(errno));
        if (pid == 0) child(i);
        int status;
        expect(waitpid(pid, &status, 0) == pid, "no child");
        expect(WIFEXITED(status) && WEXITSTATUS(status) == 42, "fork %ld: status %#x", i, status);
        if (i == count / 10) before = resident_kib();
    }
    flat("many forks", before, resident_kib());
    ends = true;
    for (int i = 0; i < BUSY; i++) ok(pthread_join(threads[i], NULL)), sum += own[i];
    expect(sum == busy_counted, "counted %ld, by threads %ld", busy_counted, sum);
    printf("many forks: %ld\n", count);
}

// Random use: slots that anybody takes somehow, and makes anew now and then.
enum { SLOTS = 48, USERS = 12, QUEUES = 4 };

static struct slot {
    pthread_rwlock_t alive;
    pthread_mutex_t mutex;
    int kind;
    int inside;
    pthread_rwlock_t rwlock;
    _Atomic int readers, writers;
    uint64_t by_mutex, by_rwlock;
} slots[SLOTS];

static struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    uint64_t held, in, out;
} queues[QUEUES];

static struct user {
    pthread_t thread;
    uint64_t state, by_mutex, by_rwlock, in, out;
    _Atomic uint64_t done;
    atomic_bool ended;
} users[USERS];

static void make_mutex(struct slot *slot, int kind) {
    static const int types[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP };
    pthread_mutexattr_t attributes;
    ok(pthread_mutexattr_init(&attributes));
    ok(pthread_mutexattr_settype(&attributes, types[kind]));
    ok(pthread_mutex_init(&slot->mutex, &attributes));
    slot->kind = types[kind];
}

static void make_rwlock(pthread_rwlock_t *lock, int kind) {
    pthread_rwlockattr_t attributes;
    ok(pthread_rwlockattr_init(&attributes));
    ok(pthread_rwlockattr_setkind_np(&attributes, kind));
    ok(pthread_rwlock_init(lock, &attributes));
}

static void dwell(uint64_t *state) {
    uint32_t how = draw(state) % 256;
    if (how == 0) usleep(200);
    else if (how < 16) sched_yield();
}

static int take_mutex(struct slot *slot, uint64_t *state) {
    uint32_t how = draw(state) % 8;
    struct timespec until = after(draw(state) % 300000);
    if (how == 0) return pthread_mutex_trylock(&slot->mutex);
    if (how == 1) return pthread_mutex_timedlock(&slot->mutex, &until);
    return pthread_mutex_lock(&slot->mutex);
}

static void use_mutex(struct slot *slot, struct user *me) {
    int error = take_mutex(slot, &me->state);
    if (error) {
        expect(error == EBUSY || error == ETIMEDOUT, "mutex: %s", strerror(error));
        return;
    }
    expect(slot->inside++ == 0, "two in a mutex");
    if (slot->kind == PTHREAD_MUTEX_RECURSIVE) {
        ok(pthread_mutex_lock(&slot->mutex));
        ok(pthread_mutex_unlock(&slot->mutex));
    }
    if (slot->kind == PTHREAD_MUTEX_ERRORCHECK) expect(pthread_mutex_lock(&slot->mutex) == EDEADLK, "no EDEADLK");
    slot->by_mutex++;
    me->by_mutex++;
    dwell(&me->state);
    slot->inside--;
    ok(pthread_mutex_unlock(&slot->mutex));
}

static void use_rwlock(struct slot *slot, struct user *me) {
    uint32_t how = draw(&me->state) % 8;
    bool writes = draw(&me->state) % 4 == 0;
    struct timespec until = after(draw(&me->state) % 300000);
    pthread_rwlock_t *lock = &slot->rwlock;
    int error = how == 0   ? (writes ? pthread_rwlock_trywrlock : pthread_rwlock_tryrdlock)(lock)
                : how == 1 ? (writes ? pthread_rwlock_timedwrlock : pthread_rwlock_timedrdlock)(lock, &until)
                           : (writes ? pthread_rwlock_wrlock : pthread_rwlock_rdlock)(lock);
    if (error) {
        expect(error == EBUSY || error == ETIMEDOUT, "rwlock: %s", strerror(error));
        return;
    }
    if (writes) {
        expect(slot->writers++ == 0 && slot->readers == 0, "a writer not alone");
        slot->by_rwlock++;
        me->by_rwlock++;
    } else {
        slot->readers++;
        expect(slot->writers == 0, "a reader beside a writer");
    }
    dwell(&me->state);
    if (writes) slot->writers--;
    else slot->readers--;
    ok(pthread_rwlock_unlock(lock));
}

static void make_anew(struct slot *slot, struct user *me) {
    ok(pthread_rwlock_wrlock(&slot->alive));
    ok(pthread_rwlock_destroy(&slot->rwlock));
    ok(pthread_mutex_destroy(&slot->mutex));
    memset(&slot->mutex, 0xa5, sizeof slot->mutex);
    memset(&slot->rwlock, 0x5a, sizeof slot->rwlock);
    make_mutex(slot, draw(&me->state) % 4);
    make_rwlock(&slot->rwlock, draw(&me->state) % 3);
    ok(pthread_rwlock_unlock(&slot->alive));
}

static void use_queue(struct queue *queue, struct user *me) {
    ok(pthread_mutex_lock(&queue->mutex));
    if (draw(&me->state) % 2) {
        queue->held++, queue->in++, me->in++;
        ok((draw(&me->state) % 4 ? pthread_cond_signal : pthread_cond_broadcast)(&queue->more));
    } else {
        struct timespec until = after(draw(&me->state) % 2000000);
        int error = 0;
        while (queue->held == 0 && !error) error = pthread_cond_timedwait(&queue->more, &queue->mutex, &until);
        expect(!error || error == ETIMEDOUT, "condition: %s", strerror(error));
        if (queue->held) queue->held--, queue->out++, me->out++;
    }
    ok(pthread_mutex_unlock(&queue->mutex));
}

static void unlock(void *mutex) { ok(pthread_mutex_unlock(mutex)); }

static void *wait_for_ever(void *argument) {
    struct queue *queue = argument;
    ok(pthread_mutex_lock(&queue->mutex));
    pthread_cleanup_push(unlock, &queue->mutex);
    for (;;) ok(pthread_cond_wait(&queue->more, &queue->mutex));
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancel_a_wait(struct queue *queue) {
    pthread_t thread;
    void *result;
    ok(pthread_create(&thread, NULL, wait_for_ever, queue));
    ok(pthread_cancel(thread));
    ok(pthread_join(thread, &result));
    expect(result == PTHREAD_CANCELED, "not cancelled");
    // It may have been notified first, of what is there for others.
    ok(pthread_cond_broadcast(&queue->more));
}

static void fork_once(void) {
    pid_t pid = fork();
    expect(pid >= 0, "no fork: %s", strerror(errno));
    if (pid == 0) {
        pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
        _exit(pthread_mutex_lock(&own) || pthread_mutex_unlock(&own));
    }
    int status;
    expect(waitpid(pid, &status, 0) == pid && status == 0, "a child's status: %#x", status);
}

// A thread does not live for long; another takes its place.
static void *use(void *argument) {
    struct user *me = argument;
    for (int turn = 0; turn < 20000 && !ends; turn++) {
        struct slot *slot = &slots[draw(&me->state) % SLOTS];
        // Few of them are used much.
        if (draw(&me->state) % 2) slot = &slots[draw(&me->state) % 3];
        uint32_t what = draw(&me->state) % 1024;
        if (what == 0) make_anew(slot, me);
        else if (what == 1 && draw(&me->state) % 4 == 0) fork_once();
        else if (what == 2) cancel_a_wait(&queues[draw(&me->state) % QUEUES]);
        else if (what < 64) use_queue(&queues[draw(&me->state) % QUEUES], me);
        else {
            ok(pthread_rwlock_rdlock(&slot->alive));
            if (what < 512) use_mutex(slot, me);
            else use_rwlock(slot, me);
            ok(pthread_rwlock_unlock(&slot->alive));
        }
        me->done++;
    }
    me->ended = true;
    return NULL;
}

static void random_use(double seconds, uint64_t seed) {
    for (int i = 0; i < SLOTS; i++) {
        make_rwlock(&slots[i].alive, PTHREAD_RWLOCK_PREFER_READER_NP);
        make_mutex(&slots[i], i % 4);
        make_rwlock(&slots[i].rwlock, i % 3);
    }
    for (int i = 0; i < QUEUES; i++) {
        ok(pthread_mutex_init(&queues[i].mutex, NULL));
        ok(pthread_cond_init(&queues[i].more, NULL));
    }
    for (int i = 0; i < USERS; i++) {
        users[i].state = seed * 1000003 + i;
        ok(pthread_create(&users[i].thread, NULL, use, &users[i]));
    }
    double began = now(), said = began, moved[USERS];
    uint64_t last[USERS] = { 0 };
    long before = 0, threads = USERS;
    for (int i = 0; i < USERS; i++) moved[i] = began;
    while (now() < began + seconds) {
        usleep(20000);
        double t = now();
        for (int i = 0; i < USERS; i++) {
            if (users[i].done != last[i]) last[i] = users[i].done, moved[i] = t;
            expect(t - moved[i] < STANDS_STILL, "user %d stands still", i);
            if (users[i].ended) {
                ok(pthread_join(users[i].thread, NULL));
                users[i].ended = false;
                ok(pthread_create(&users[i].thread, NULL, use, &users[i]));
                threads++;
            }
        }
        if (!before && t > began + seconds / 5) before = resident_kib();
        if (t > said + 60) flat("random use", before ? before : resident_kib(), resident_kib()), fflush(stdout), said = t;
    }
    long since = resident_kib();
    ends = true;
    uint64_t done = 0, by_mutex = 0, by_rwlock = 0, in = 0, out = 0;
    for (int i = 0; i < USERS; i++) {
        ok(pthread_join(users[i].thread, NULL));
        done += users[i].done, by_mutex += users[i].by_mutex, by_rwlock += users[i].by_rwlock;
        in += users[i].in, out += users[i].out;
    }
    for (int i = 0; i < SLOTS; i++) by_mutex -= slots[i].by_mutex, by_rwlock -= slots[i].by_rwlock;
    uint64_t held = 0;
    for (int i = 0; i < QUEUES; i++) held += queues[i].held, in -= queues[i].in, out -= queues[i].out;
    expect(by_mutex == 0 && by_rwlock == 0 && in == 0 && out == 0, "counts differ");
    flat("random use", before, since);
    printf("random use: %ju operations by %ld threads, %.0f s, seed %ju\n", (uintmax_t)done, threads, seconds, (uintmax_t)seed);
}

int main(int count, char **arguments) {
    const char *what = count > 2 ? arguments[1] : "";
    if (!strcmp(what, "locks")) many_locks(atol(arguments[2]));
    else if (!strcmp(what, "threads")) many_threads(atol(arguments[2]));
    else if (!strcmp(what, "forks")) many_forks(atol(arguments[2]));
    else if (!strcmp(what, "random") && count > 3) random_use(atof(arguments[2]), strtoull(arguments[3], NULL, 0));
    else fail("locks N | threads N | forks N | random SECONDS SEED");
    return 0;
}

/* Programs that stall, each of a kind that people look for. The first argument says which; with a second one, the program
   stays as it is then, or goes on for ever. */
#define _GNU_SOURCE
#include "asleep.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define APART __attribute__((noinline)) static

/* Longer than what is too short to be said. */
enum { LONG_US = 150000 };

static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER, journal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t orders = PTHREAD_MUTEX_INITIALIZER, table = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static sem_t pool;
static pthread_rwlock_t catalog = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic int have_first, may_go;
static int stays;

static void stay(void) {
    while (stays)
        pause();
}

static pthread_t begin(void *(*what)(void *)) {
    pthread_t thread;
    tid = 0;
    if (pthread_create(&thread, NULL, what, NULL) != 0)
        abort();
    return thread;
}

static void begin_and_sleep(void *(*what)(void *)) {
    begin(what);
    until_it_sleeps();
}

/* Waits until both have their first lock, and then for its turn to wait. */
static void meet(int turn) {
    have_first++;
    while (may_go < turn)
        usleep(100);
    tid = gettid();
}

APART void *transfer(void *unused) {
    pthread_mutex_lock(&accounts);
    meet(1);
    pthread_mutex_lock(&journal);
    return unused;
}

APART void *audit(void *unused) {
    pthread_mutex_lock(&journal);
    meet(2);
    pthread_mutex_lock(&accounts);
    return unused;
}

static void two_orders(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, transfer, NULL);
    pthread_create(&thread, NULL, audit, NULL);
    while (have_first < 2)
        usleep(100);
    for (may_go = 1; may_go <= 2; may_go++) {
        tid = 0;
        until_it_sleeps();
    }
    stay();
    raise(SIGTERM);
}

APART void *nightly_backup(void *unused) {
    pthread_mutex_lock(&orders);
    tid = gettid();
    pause();
    return unused;
}

APART void *place_order(void *unused) {
    tid = gettid();
    pthread_mutex_lock(&orders);
    return unused;
}

APART void *place_and_go(void *unused) {
    place_order(unused);
    pthread_mutex_unlock(&orders);
    return unused;
}

static void three_threads(void) {
    begin_and_sleep(nightly_backup);
    begin_and_sleep(place_order);
    begin_and_sleep(place_order);
    stay();
    usleep(LONG_US);
}

static void held_for_ever(void) {
    three_threads();
    raise(SIGTERM);
}

static void exit_while_waiting(void) {
    three_threads();
    exit(0);
}

APART void *checkpoint(void *unused) {
    for (int i = 0; i < 10 || stays; i++) {
        pthread_mutex_lock(&table);
        usleep(20000);
        pthread_mutex_unlock(&table);
    }
    return unused;
}

static void convoy(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        threads[i] = begin(checkpoint);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

APART void *consume(void *unused) {
    pthread_mutex_lock(&accounts);
    tid = gettid();
    for (;;)
        pthread_cond_wait(&work, &accounts);
    return unused;
}

static void missed_wake_up(void) {
    begin_and_sleep(consume);
    stay();
    usleep(LONG_US);
    raise(SIGTERM);
}

APART void *borrow(void *unused) {
    tid = gettid();
    sem_wait(&pool);
    return unused;
}

static void pool_exhausted(void) {
    sem_init(&pool, 0, 0);
    begin_and_sleep(borrow);
    begin_and_sleep(borrow);
    stay();
    usleep(LONG_US);
    raise(SIGTERM);
}

/* A disk that answers late: the other end of a pipe. */
static int disk[2];

APART void *flush(void *unused) {
    char answer;
    pthread_mutex_lock(&table);
    tid = gettid();
    if (read(disk[0], &answer, 1) != 1)
        abort();
    pthread_mutex_unlock(&table);
    return unused;
}

APART void *insert(void *unused) {
    tid = gettid();
    pthread_mutex_lock(&table);
    pthread_mutex_unlock(&table);
    return unused;
}

static void slow_disk(void) {
    if (pipe(disk) != 0)
        abort();
    pthread_t holder = begin(flush);
    until_it_sleeps();
    pthread_t waiter = begin(insert);
    until_it_sleeps();
    stay();
    until_looked_at(10);
    if (write(disk[1], "", 1) != 1)
        abort();
    pthread_join(holder, NULL);
    pthread_join(waiter, NULL);
}

/* A semaphore in place of a mutex. */
APART void *export_all(void *unused) {
    for (int i = 0; i < 10 || stays; i++) {
        sem_wait(&pool);
        usleep(20000);
        sem_post(&pool);
    }
    return unused;
}

static void semaphore_as_mutex(void) {
    pthread_t threads[3];
    sem_init(&pool, 0, 1);
    for (int i = 0; i < 3; i++)
        threads[i] = begin(export_all);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

/* The holder of `orders` waits for `journal`, which another has for long. */
APART void *slow_worker(void *unused) {
    stay();
    usleep(LONG_US);
    pthread_mutex_unlock(&journal);
    return unused;
}

APART void *granter(void *unused) {
    pthread_mutex_lock(&orders);
    tid = gettid();
    pthread_mutex_lock(&journal);
    pthread_mutex_unlock(&journal);
    pthread_mutex_unlock(&orders);
    return unused;
}

static void chain(void) {
    pthread_t thread[3];
    pthread_mutex_lock(&journal);
    thread[0] = begin(granter);
    until_it_sleeps();
    for (int i = 1; i < 3; i++) {
        thread[i] = begin(place_and_go);
        until_it_sleeps();
    }
    slow_worker(NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
}

/* Two locks that are taken and released by functions of the program. */
struct lock {
    pthread_mutex_t mutex;
    int depth;
};
static struct lock *sessions, *invoices;

APART void lock_take(struct lock *lock) {
    pthread_mutex_lock(&lock->mutex);
    lock->depth++;
}

APART void lock_give(struct lock *lock) {
    lock->depth--;
    pthread_mutex_unlock(&lock->mutex);
}

APART void bill(void) {
    lock_take(invoices);
    lock_give(invoices);
}

APART void *login(void *unused) {
    bill();
    tid = gettid();
    lock_take(sessions);
    lock_give(sessions);
    return unused;
}

APART void expire_sessions(void) {
    stay();
    usleep(LONG_US);
    lock_give(sessions);
}

static void wrapper(void) {
    sessions = calloc(1, sizeof *sessions);
    invoices = calloc(1, sizeof *invoices);
    if (!sessions || !invoices)
        abort();
    bill();
    lock_take(sessions);
    pthread_t thread = begin(login);
    until_it_sleeps();
    expire_sessions();
    pthread_join(thread, NULL);
}

/* A mutex of several processes, which a child holds. */
struct shared {
    pthread_mutex_t queue;
    _Atomic int is_held;
};

APART void compact(struct shared *shared) {
    pthread_mutex_lock(&shared->queue);
    shared->is_held = 1;
    stay();
    usleep(2 * LONG_US);
    pthread_mutex_unlock(&shared->queue);
}

APART void serve(struct shared *shared) {
    pthread_mutex_lock(&shared->queue);
    pthread_mutex_unlock(&shared->queue);
}

static void process_shared(void) {
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->queue, &attributes);
    if (fork() == 0) {
        compact(shared);
        _exit(0);
    }
    while (!shared->is_held)
        usleep(100);
    serve(shared);
    wait(NULL);
}

/* Readers that overlap: a writer waits as long as they come. */
APART void *browse(void *unused) {
    for (int i = 0; i < 10 || stays; i++) {
        pthread_rwlock_rdlock(&catalog);
        have_first++;
        usleep(20000);
        pthread_rwlock_unlock(&catalog);
    }
    return unused;
}

APART void *restock(void *unused) {
    pthread_rwlock_wrlock(&catalog);
    pthread_rwlock_unlock(&catalog);
    return unused;
}

static void starved_writer(void) {
    pthread_t threads[4];
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, browse, NULL);
        usleep(7000);
    }
    pthread_create(&threads[3], NULL, restock, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* A lock of the C library itself, which no function of pthread takes. */
APART void *print_report(void *unused) {
    flockfile(stderr);
    tid = gettid();
    stay();
    usleep(2 * LONG_US);
    funlockfile(stderr);
    return unused;
}

APART void *log_line(void *unused) {
    tid = gettid();
    fflush(stderr);
    return unused;
}

static void within_stdio(void) {
    pthread_t holder = begin(print_report);
    until_it_sleeps();
    pthread_t waiter = begin(log_line);
    until_it_sleeps();
    pthread_join(holder, NULL);
    pthread_join(waiter, NULL);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*stall)(void);
    } stalls[] = {
        {"two_orders", two_orders},       {"held_for_ever", held_for_ever}, {"exit_while_waiting", exit_while_waiting},
        {"convoy", convoy},               {"missed_wake_up", missed_wake_up}, {"pool_exhausted", pool_exhausted},
        {"semaphore_as_mutex", semaphore_as_mutex}, {"chain", chain}, {"wrapper", wrapper}, {"process_shared", process_shared}, {"slow_disk", slow_disk}, {"starved_writer", starved_writer}, {"within_stdio", within_stdio},
    };
    stays = argc > 2;
    for (size_t i = 0; argc > 1 && i < sizeof stalls / sizeof *stalls; i++)
        if (strcmp(argv[1], stalls[i].name) == 0) {
            stalls[i].stall();
            return 0;
        }
    return 1;
}

/* Locks of which a known number of things happen. */
#include "check.h"

pthread_rwlock_t named = PTHREAD_RWLOCK_INITIALIZER;

static int read_three_times(pthread_rwlock_t *l) {
    for (int i = 0; i < 3; i++)
        EXPECT(read_and_unlock(l), 0);
    return 0;
}

static void one_wait(void) {
    struct caller reader;
    EXPECT(pthread_rwlock_wrlock(&named), 0);
    start(&reader, read_three_times, &named);
    wait_until_asleep(&reader);
    usleep(20000);
    EXPECT(pthread_rwlock_unlock(&named), 0);
    EXPECT(result(&reader), 0);
}

static void counts(void) {
    one_wait();
    pthread_rwlock_t *other = calloc(1, sizeof *other);
    EXPECT(pthread_rwlock_wrlock(other), 0);
    EXPECT(pthread_rwlock_unlock(other), 0);
    EXPECT(pthread_rwlock_destroy(other), 0);
    EXPECT(pthread_rwlock_rdlock(&named), 0);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *lock_it(void *tid) {
    *(_Atomic pid_t *)tid = gettid();
    EXPECT(pthread_mutex_lock(&mutex), 0);
    EXPECT(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

static void mutexes(void) {
    pthread_t thread;
    _Atomic pid_t tid = 0;
    EXPECT(pthread_mutex_lock(&mutex), 0);
    EXPECT(pthread_create(&thread, NULL, lock_it, (void *)&tid), 0);
    while (!tid)
        sched_yield();
    sleeps(tid);
    usleep(20000);
    EXPECT(pthread_mutex_unlock(&mutex), 0);
    pthread_join(thread, NULL);
    EXPECT(pthread_mutex_trylock(&mutex), 0);
}

static void forks(void) {
    one_wait();
    pid_t child = fork();
    if (child == 0) {
        EXPECT(write_and_unlock(&named), 0);
        exit(0);
    }
    join_child(child);
    printf("%d\n", child);
}

/* Two reports: one now, while this thread writes, and another one at the end. */
static void on_signal(void) {
    one_wait();
    EXPECT(pthread_rwlock_wrlock(&named), 0);
    raise(SIGUSR2);
    errno = 77;
    raise(SIGUSR2);
    CHECK(errno == 77);
    char command[256];
    snprintf(command, sizeof command, "cp '%s' '%s.now'", getenv("FAIRLOCK_STATS"),
             getenv("FAIRLOCK_STATS"));
    unsetenv("LD_PRELOAD");
    CHECK(system(command) == 0);
    EXPECT(pthread_rwlock_unlock(&named), 0);
}

static _Atomic bool handled;

static void own_handler(int signal) {
    handled = signal == SIGUSR2;
}

static void own_signal(void) {
    signal(SIGUSR2, own_handler);
    EXPECT(write_and_unlock(&named), 0);
    raise(SIGUSR2);
    CHECK(handled);
}

static _Atomic bool stop;

static void *report_on_and_on(void *unused) {
    while (!stop)
        raise(SIGUSR2);
    return unused;
}

/* The child has none of the threads that write a report. */
static void forks_while_reporting(void) {
    pthread_t reporter;
    EXPECT(write_and_unlock(&named), 0);
    EXPECT(pthread_create(&reporter, NULL, report_on_and_on, NULL), 0);
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0)
            exit(0);
        join_child(child);
        char name[4096];
        snprintf(name, sizeof name, "%s.%d", getenv("FAIRLOCK_STATS"), child);
        CHECK(access(name, R_OK) == 0);
    }
    stop = true;
    pthread_join(reporter, NULL);
}

TESTS({"counts", counts}, {"mutexes", mutexes}, {"forks", forks}, {"on_signal", on_signal}, {"own_signal", own_signal},
      {"forks_while_reporting", forks_while_reporting})

/* What a profile is to say of: each test is a number of waits that is known. */
#include "check.h"
#include <dlfcn.h>

#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <semaphore.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static pthread_mutex_t the_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t the_rwlock = PTHREAD_RWLOCK_INITIALIZER;

static _Atomic int tid;

/* Until that thread sleeps: in the kernel's words, and nothing else here sleeps. */
static void until_it_sleeps(void) {
    char path[64], state;
    for (;;) {
        while (tid == 0)
            usleep(100);
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%*d %*s %c", &state) == 1 && state == 'S') {
            fclose(file);
            return;
        }
        if (file)
            fclose(file);
        usleep(100);
    }
}

static void *waits_for_the_mutex(void *unused) {
    pthread_setname_np(pthread_self(), "waiter");
    tid = gettid();
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    return unused;
}

static void *reads(void *unused) {
    tid = gettid();
    CHECK(pthread_rwlock_rdlock(&the_rwlock) == 0);
    CHECK(pthread_rwlock_unlock(&the_rwlock) == 0);
    return unused;
}

static void one_wait(void *(*what)(void *), void (*release)(void)) {
    pthread_t thread;
    tid = 0;
    CHECK(pthread_create(&thread, NULL, what, NULL) == 0);
    until_it_sleeps();
    release();
    CHECK(pthread_join(thread, NULL) == 0);
}

__attribute__((noinline)) static void release_the_mutex(void) {
    usleep(2000);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
}

__attribute__((noinline)) static void release_the_rwlock(void) {
    CHECK(pthread_rwlock_unlock(&the_rwlock) == 0);
}

static void one_of_each(void) {
    for (int i = 0; i < 10; i++) {
        CHECK(pthread_mutex_lock(&the_mutex) == 0);
        CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    }
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    CHECK(pthread_mutex_trylock(&the_mutex) == EBUSY);
    one_wait(waits_for_the_mutex, release_the_mutex);
    CHECK(pthread_rwlock_rdlock(&the_rwlock) == 0);
    CHECK(pthread_rwlock_unlock(&the_rwlock) == 0);
    CHECK(pthread_rwlock_wrlock(&the_rwlock) == 0);
    one_wait(reads, release_the_rwlock);
}

static void *writes(void *unused) {
    tid = gettid();
    CHECK(pthread_rwlock_wrlock(&the_rwlock) == 0);
    CHECK(pthread_rwlock_unlock(&the_rwlock) == 0);
    return unused;
}

__attribute__((noinline)) static void culprit_releases(void) {
    CHECK(pthread_rwlock_unlock(&the_rwlock) == 0);
    usleep(1000);
}

static long now_ms(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* glibc prefers readers: each comes before the last one leaves, so the writer waits for all of them. Where those after
   the first had no CPU for as long as that one held the lock, they are to blame: then it is to be tried again. */
static void chain_of_readers(void) {
    usleep(50000);
    CHECK(pthread_rwlock_rdlock(&the_rwlock) == 0);
    long began = now_ms();
    culprit_releases();
    for (int i = 0; i < 5; i++) {
        CHECK(pthread_rwlock_rdlock(&the_rwlock) == 0);
        usleep(1000);
        CHECK(pthread_rwlock_unlock(&the_rwlock) == 0);
    }
    release_the_rwlock();
    /* Their holds overlap, so that all have twice that. */
    if (now_ms() - began > 20)
        exit(75);
}

static void chain(void) {
    CHECK(pthread_rwlock_rdlock(&the_rwlock) == 0);
    one_wait(writes, chain_of_readers);
}

static void waits(void) {
    one_of_each();
}

static void killed(void) {
    one_of_each();
    kill(getpid(), SIGKILL);
}

static void leaves(void) {
    one_of_each();
    _exit(0);
}

/* The parent has waited; the child has taken a lock, and its thread has waited. */
static void forks(void) {
    one_of_each();
    pid_t child = fork();
    if (child == 0) {
        CHECK(pthread_mutex_lock(&the_mutex) == 0);
        one_wait(waits_for_the_mutex, release_the_mutex);
        _exit(0);
    }
    join_child(child);
}

/* The parent is killed after its child, which took no lock, has come to its end. */
static void killed_later(void) {
    one_of_each();
    pid_t child = fork();
    if (child == 0)
        exit(0);
    join_child(child);
    kill(getpid(), SIGKILL);
}

static void execs(void) {
    one_of_each();
    execl("/proc/self/exe", "profile", "waits", (char *)NULL);
    CHECK(!"exec failed");
}

static void *takes_it_once(void *unused) {
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    return unused;
}

/* One after the other. */
static void threads(void) {
    for (int i = 0; i < 1000; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, takes_it_once, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
}

static void take_twice(int count) {
    pthread_mutex_t *locks = calloc(count, sizeof *locks);
    CHECK(locks != NULL);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < count; i++) {
            CHECK(pthread_mutex_lock(&locks[i]) == 0);
            CHECK(pthread_mutex_unlock(&locks[i]) == 0);
        }
}

static void million(void) {
    take_twice(1000000);
}

/* Everything that a daemon closes. */
static void closes(void) {
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    CHECK(chdir("/") == 0);
    take_twice(20000);
}

static pthread_cond_t the_cond = PTHREAD_COND_INITIALIZER;
static int ready;

static void *signals(void *unused) {
    until_it_sleeps();
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    ready = 1;
    CHECK(pthread_cond_signal(&the_cond) == 0);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    return unused;
}

static void cond(void) {
    pthread_t thread;
    tid = gettid();
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    CHECK(pthread_create(&thread, NULL, signals, NULL) == 0);
    while (!ready)
        CHECK(pthread_cond_wait(&the_cond, &the_mutex) == 0);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void unlock(void *mutex) {
    CHECK(pthread_mutex_unlock(mutex) == 0);
}

static void *waits_for_ever(void *unused) {
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    tid = gettid();
    pthread_cleanup_push(unlock, &the_mutex);
    for (;;)
        CHECK(pthread_cond_wait(&the_cond, &the_mutex) == 0);
    pthread_cleanup_pop(0);
    return unused;
}

static pthread_t one_that_waits(void) {
    pthread_t thread;
    tid = 0;
    CHECK(pthread_create(&thread, NULL, waits_for_ever, NULL) == 0);
    until_it_sleeps();
    usleep(2000);
    return thread;
}

/* One wait that ends, one in vain, one that is cancelled, and two that go on. */
static void conditions(void) {
    struct timespec over = {0, 0};
    cond();
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    CHECK(pthread_cond_timedwait(&the_cond, &the_mutex, &over) == ETIMEDOUT);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    pthread_t thread = one_that_waits();
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    one_that_waits();
    one_that_waits();
}

static sem_t the_semaphore;

static void *waits_at_the_semaphore(void *unused) {
    tid = gettid();
    CHECK(sem_wait(&the_semaphore) == 0);
    return unused;
}

static void post(void) {
    usleep(2000);
    CHECK(sem_post(&the_semaphore) == 0);
}

static void *is_cancelled_at_the_semaphore(void *unused) {
    CHECK(pthread_cancel(pthread_self()) == 0);
    sem_wait(&the_semaphore);
    CHECK(0);
    return unused;
}

/* One wait that ends, two in vain, and calls that do not wait. */
static void semaphores(void) {
    struct timespec over = {0, 0}, none = {0, -1};
    pthread_t thread;
    int value;
    CHECK(sem_init(&the_semaphore, 0, 1) == 0);
    CHECK(pthread_create(&thread, NULL, is_cancelled_at_the_semaphore, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(sem_getvalue(&the_semaphore, &value) == 0 && value == 1);
    CHECK(sem_wait(&the_semaphore) == 0);
    one_wait(waits_at_the_semaphore, post);
    CHECK(sem_timedwait(&the_semaphore, &none) == -1 && errno == EINVAL);
    CHECK(sem_timedwait(&the_semaphore, &over) == -1 && errno == ETIMEDOUT);
    CHECK(sem_clockwait(&the_semaphore, CLOCK_MONOTONIC, &over) == -1 && errno == ETIMEDOUT);
}

static _Atomic int the_futex;

static long futex(int operation, int value, const struct timespec *until) {
    return syscall(SYS_futex, &the_futex, operation, value, until, NULL, -1);
}

static void *waits_at_the_futex(void *unused) {
    tid = gettid();
    CHECK(futex(FUTEX_WAIT_PRIVATE, 0, NULL) == 0);
    return unused;
}

/* Who is stopped meanwhile, as by a debugger, is out of the queue until it goes on. */
static void wake(void) {
    usleep(2000);
    while (futex(FUTEX_WAKE_PRIVATE, 1, NULL) != 1)
        usleep(100);
}

/* One wait that ends, one in vain, and calls that do not wait. */
static void futexes(void) {
    struct timespec over = {0, 0};
    one_wait(waits_at_the_futex, wake);
    CHECK(futex(FUTEX_WAIT, 1, NULL) == -1 && errno == EAGAIN);
    int operation = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
    CHECK(futex(operation, 0, &over) == -1 && errno == ETIMEDOUT);
    CHECK(syscall(SYS_getpid) == getpid());
    CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF);
    /* The sixth argument, too. */
    FILE *file = tmpfile();
    CHECK(file && ftruncate(fileno(file), 8192) == 0 && pwrite(fileno(file), "x", 1, 4096) == 1);
    char *page = (char *)syscall(SYS_mmap, NULL, 4096L, PROT_READ, MAP_PRIVATE, fileno(file), 4096L);
    CHECK(page != MAP_FAILED && page[0] == 'x');
}

/* Where a condition variable was, a mutex is afterwards. */
static void condition_then_mutex(void) {
    static union {
        pthread_cond_t cond;
        pthread_mutex_t mutex;
    } place;
    struct timespec over = {0, 0};
    CHECK(pthread_cond_init(&place.cond, NULL) == 0);
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    CHECK(pthread_cond_timedwait(&place.cond, &the_mutex, &over) == ETIMEDOUT);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    CHECK(pthread_cond_destroy(&place.cond) == 0);
    CHECK(pthread_mutex_init(&place.mutex, NULL) == 0);
    for (int i = 0; i < 7; i++) {
        CHECK(pthread_mutex_lock(&place.mutex) == 0);
        CHECK(pthread_mutex_unlock(&place.mutex) == 0);
    }
}

static void *gives_up(void *unused) {
    struct timespec soon = {0, 0};
    tid = gettid();
    CHECK(pthread_mutex_timedlock(&the_mutex, &soon) == ETIMEDOUT);
    return unused;
}

static void in_vain(void) {
    pthread_t thread;
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    CHECK(pthread_create(&thread, NULL, gives_up, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    errno = 77;
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    CHECK(errno == 77);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
}

/* Two wait while the mutex is held, and then one while the other has it. */
static void *waits_and_holds(void *unused) {
    tid = gettid();
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    usleep(20000);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    return unused;
}

static void shares(void) {
    pthread_t threads[2];
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    for (int i = 0; i < 2; i++) {
        tid = 0;
        CHECK(pthread_create(&threads[i], NULL, waits_and_holds, NULL) == 0);
        until_it_sleeps();
    }
    usleep(20000);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static pthread_spinlock_t the_spin;

static void *spins_for_it(void *unused) {
    tid = gettid();
    CHECK(pthread_spin_lock(&the_spin) == 0);
    CHECK(pthread_spin_unlock(&the_spin) == 0);
    return unused;
}

static long cpu_ns(pthread_t thread) {
    clockid_t clock;
    struct timespec spent;
    CHECK(pthread_getcpuclockid(thread, &clock) == 0 && clock_gettime(clock, &spent) == 0);
    return spent.tv_sec * 1000000000 + spent.tv_nsec;
}

static void spins(void) {
    pthread_t thread;
    CHECK(pthread_spin_init(&the_spin, PTHREAD_PROCESS_PRIVATE) == 0);
    for (int i = 0; i < 10; i++) {
        CHECK(pthread_spin_lock(&the_spin) == 0);
        CHECK(pthread_spin_unlock(&the_spin) == 0);
    }
    CHECK(pthread_spin_trylock(&the_spin) == 0);
    CHECK(pthread_spin_trylock(&the_spin) == EBUSY);
    CHECK(pthread_create(&thread, NULL, spins_for_it, NULL) == 0);
    while (tid == 0)
        usleep(100);
    /* Nothing else that it does takes so long. */
    for (long began = cpu_ns(thread); cpu_ns(thread) < began + 5000000;)
        usleep(100);
    CHECK(pthread_spin_unlock(&the_spin) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_spin_destroy(&the_spin) == 0);
}

/* Short waits for short sections. */
static void *hurries(void *unused) {
    for (int i = 0; i < 300000; i++) {
        CHECK(pthread_mutex_lock(&the_mutex) == 0);
        for (volatile int step = 0; step < 20; step++) {
        }
        CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    }
    return unused;
}

static void crowd_and_kill(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, hurries, NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    kill(getpid(), SIGKILL);
}

/* Signal handlers take a lock while the first locks of a process are taken. */
static pthread_mutex_t in_handler = PTHREAD_MUTEX_INITIALIZER;
static pthread_t interrupted;

static void take_in_handler(int signal) {
    (void)signal;
    CHECK(pthread_mutex_lock(&in_handler) == 0);
    CHECK(pthread_mutex_unlock(&in_handler) == 0);
}

static void *takes_it_outside(void *unused) {
    for (int i = 0; i < 2000; i++)
        take_in_handler(0);
    return unused;
}

static void *interrupts(void *unused) {
    for (int i = 0; i < 50; i++) {
        CHECK(pthread_kill(interrupted, SIGUSR1) == 0);
        usleep(20);
    }
    return unused;
}

static void takes_its_first_locks(void) {
    watchdog();
    interrupted = pthread_self();
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &usr1, NULL) == 0);
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, takes_it_outside, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, interrupts, NULL) == 0);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL) == 0);
    for (int i = 0; i < 5000; i++) {
        CHECK(pthread_mutex_lock(&the_mutex) == 0);
        CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void handlers(void) {
    CHECK(signal(SIGUSR1, take_in_handler) != SIG_ERR);
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        if (child == 0) {
            takes_its_first_locks();
            _exit(0);
        }
        join_child(child);
    }
}

static void small_threads(void) {
    pthread_attr_t small;
    CHECK(pthread_attr_init(&small) == 0);
    CHECK(pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN) == 0);
    pthread_t threads[12];
    for (int i = 0; i < 12; i++)
        CHECK(pthread_create(&threads[i], &small, waits_for_the_mutex, NULL) == 0);
    for (int i = 0; i < 12; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* What mlockall makes take memory, and must be allowed to lock. */
static void locks_its_memory(void) {
    take_twice(20000);
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld", &pages) == 1 && fclose(file) == 0);
    CHECK(pages < (256 << 20) / 4096);
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0 || errno == ENOMEM || errno == EPERM);
    take_twice(20000);
}

static void takes_once(void) {
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
}

/* Its first lock, where no file can be opened any more. A user other than root cannot change its root. */
static void confined(void) {
    static struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {.len = sizeof steps / sizeof *steps, .filter = steps};
    CHECK(chroot("/proc/self/fdinfo") == 0 || errno == EPERM);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    takes_once();
}

static void takes_no_lock(void) {}

static void takes_another(void) {
    pthread_mutex_t *mutex = calloc(1, sizeof *mutex);
    CHECK(mutex && pthread_mutex_lock(mutex) == 0);
    CHECK(pthread_mutex_unlock(mutex) == 0);
}

/* Code in more mappings than anybody remembers, all of which take locks. */
static void many_mappings(void) {
    enum { PAGES = 4000, PAGE = 4096 };
    /* sub rsp, 8; call rdi; add rsp, 8; ret */
    static const char code[] = "\x48\x83\xec\x08\xff\xd7\x48\x83\xc4\x08\xc3";
    int rights = PROT_READ | PROT_WRITE | PROT_EXEC;
    char *pages = mmap(NULL, PAGES * PAGE, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    for (int i = 0; i < PAGES; i++)
        memcpy(pages + i * PAGE, code, sizeof code);
    for (int i = 0; i < PAGES; i += 2)
        CHECK(mprotect(pages + i * PAGE, PAGE, PROT_READ | PROT_EXEC) == 0);
    for (int i = PAGES - 250; i < PAGES; i++)
        ((void (*)(void (*)(void)))(uintptr_t)(pages + i * PAGE))(takes_another);
}

static int (*of_plugin)(pthread_mutex_t *);

static void *waits_in_plugin(void *unused) {
    tid = gettid();
    CHECK(of_plugin(&the_mutex) == 0);
    return unused;
}

/* Each of the two, where the other one was. */
static void plugins(void) {
    const char *const paths[] = {getenv("PLUGIN"), getenv("OTHER_PLUGIN")};
    void *first = NULL;
    for (int i = 0; i < 4; i++) {
        void *plugin = dlopen(paths[i % 2], RTLD_NOW);
        CHECK(plugin);
        *(void **)&of_plugin = dlsym(plugin, "locks_and_unlocks");
        if (i == 0)
            first = *(void **)&of_plugin;
        CHECK(*(void **)&of_plugin == first);
        CHECK(pthread_mutex_lock(&the_mutex) == 0);
        one_wait(waits_in_plugin, release_the_mutex);
        CHECK(dlclose(plugin) == 0);
    }
}

static int (*of_its_own)(void);
static pthread_barrier_t turn;

static void *uses_each_plugin(void *unused) {
    for (int i = 0; i < 2; i++) {
        pthread_barrier_wait(&turn);
        for (int j = 0; j < 100; j++)
            CHECK(of_its_own() == 0);
        pthread_barrier_wait(&turn);
    }
    return unused;
}

/* The lock of one, where that of the other was, is taken by a thread that stays, and by this one. */
static void locks_of_plugins(void) {
    const char *const paths[] = {getenv("PLUGIN"), getenv("OTHER_PLUGIN")};
    pthread_t other;
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    CHECK(pthread_create(&other, NULL, uses_each_plugin, NULL) == 0);
    void *first = NULL;
    for (int i = 0; i < 2; i++) {
        void *plugin = dlopen(paths[i], RTLD_NOW);
        CHECK(plugin);
        *(void **)&of_its_own = dlsym(plugin, "locks_its_own");
        if (i == 0)
            first = *(void **)&of_its_own;
        CHECK(*(void **)&of_its_own == first);
        pthread_barrier_wait(&turn);
        pthread_barrier_wait(&turn);
        for (int j = 0; j < 500 - 300 * i; j++)
            CHECK(of_its_own() == 0);
        CHECK(dlclose(plugin) == 0);
    }
    CHECK(pthread_join(other, NULL) == 0);
}

/* Two take two mutexes in opposite orders; neither has the second one yet when the other has its first. */
static pthread_mutex_t the_other_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int have_first, goes;

static void takes_both(pthread_mutex_t *first, pthread_mutex_t *second, int turn) {
    CHECK(pthread_mutex_lock(first) == 0);
    have_first++;
    while (goes < turn)
        sched_yield();
    tid = gettid();
    CHECK(pthread_mutex_lock(second) == 0);
}

static void *takes_the_other_second(void *unused) {
    pthread_setname_np(pthread_self(), "first");
    takes_both(&the_mutex, &the_other_mutex, 1);
    return unused;
}

static void *takes_the_other_first(void *unused) {
    pthread_setname_np(pthread_self(), "second");
    takes_both(&the_other_mutex, &the_mutex, 2);
    return unused;
}

static void deadlock(void) {
    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, takes_the_other_second, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, takes_the_other_first, NULL) == 0);
    while (have_first < 2)
        sched_yield();
    for (goes = 1; goes <= 2; goes++) {
        tid = 0;
        until_it_sleeps();
    }
    kill(getpid(), SIGKILL);
}

static void *keeps_it(void *unused) {
    tid = gettid();
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    kill(getpid(), SIGKILL);
    return unused;
}

/* Two wait for the mutex: one has it, and the other still waits. */
static void kept(void) {
    pthread_t thread;
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    for (int i = 0; i < 2; i++) {
        tid = 0;
        CHECK(pthread_create(&thread, NULL, keeps_it, NULL) == 0);
        until_it_sleeps();
    }
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static _Atomic int had_it;

static void *has_had_it(void *unused) {
    tid = gettid();
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    had_it = 1;
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    return unused;
}

/* It is released and taken again before the one that waits has it; if that was sooner, it is to be tried again. */
static void taken_again(void) {
    pthread_t thread;
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    CHECK(pthread_create(&thread, NULL, has_had_it, NULL) == 0);
    until_it_sleeps();
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    if (pthread_mutex_trylock(&the_mutex) != 0 || had_it)
        exit(75);
    kill(getpid(), SIGKILL);
}

/* One writes, and others wait to read and to write. */
static void written(void) {
    pthread_t thread;
    CHECK(pthread_rwlock_wrlock(&the_rwlock) == 0);
    for (int i = 0; i < 2; i++) {
        tid = 0;
        CHECK(pthread_create(&thread, NULL, i ? writes : reads, NULL) == 0);
        until_it_sleeps();
    }
    kill(getpid(), SIGKILL);
}

/* It has the mutex, and waits for the other one, which the main thread has. */
static void *has_it_and_waits(void *unused) {
    CHECK(pthread_mutex_lock(&the_mutex) == 0);
    tid = gettid();
    CHECK(pthread_mutex_lock(&the_other_mutex) == 0);
    CHECK(pthread_mutex_unlock(&the_other_mutex) == 0);
    CHECK(pthread_mutex_unlock(&the_mutex) == 0);
    return unused;
}

__attribute__((noinline)) static void release_the_other(void) {
    usleep(20000);
    CHECK(pthread_mutex_unlock(&the_other_mutex) == 0);
}

static void through(void) {
    pthread_t thread;
    CHECK(pthread_mutex_lock(&the_other_mutex) == 0);
    CHECK(pthread_create(&thread, NULL, has_it_and_waits, NULL) == 0);
    until_it_sleeps();
    one_wait(waits_for_the_mutex, release_the_other);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* A child has a mutex that its parent waits for. */
static void shared(void) {
    struct {
        pthread_mutex_t mutex;
        _Atomic int waits;
    } *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attributes;
    CHECK(both != MAP_FAILED && pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutex_init(&both->mutex, &attributes) == 0);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        char path[64], state = 0;
        CHECK(pthread_mutex_lock(&both->mutex) == 0);
        both->waits = 1;
        snprintf(path, sizeof path, "/proc/%d/stat", parent);
        while (both->waits != 2 || state != 'S') {
            usleep(1000);
            FILE *file = fopen(path, "r");
            CHECK(file && fscanf(file, "%*d %*s %c", &state) == 1 && fclose(file) == 0);
        }
        usleep(2000);
        CHECK(pthread_mutex_unlock(&both->mutex) == 0);
        _exit(0);
    }
    while (both->waits == 0)
        sched_yield();
    both->waits = 2;
    CHECK(pthread_mutex_lock(&both->mutex) == 0);
    CHECK(pthread_mutex_unlock(&both->mutex) == 0);
    join_child(child);
}

TESTS({"through", through}, {"shared", shared}, {"deadlock", deadlock}, {"kept", kept}, {"taken_again", taken_again}, {"written", written}, {"waits", waits}, {"chain", chain}, {"crowd_and_kill", crowd_and_kill},
      {"spins", spins}, {"shares", shares}, {"killed", killed}, {"killed_later", killed_later}, {"leaves", leaves}, {"forks", forks}, {"execs", execs},
      {"threads", threads}, {"million", million}, {"closes", closes}, {"cond", cond},
      {"conditions", conditions}, {"semaphores", semaphores}, {"futexes", futexes},
      {"condition_then_mutex", condition_then_mutex},
      {"in_vain", in_vain}, {"handlers", handlers},
      {"small_threads", small_threads}, {"locks_its_memory", locks_its_memory}, {"takes_once", takes_once}, {"confined", confined},
      {"takes_no_lock", takes_no_lock},
      {"many_mappings", many_mappings}, {"plugins", plugins}, {"locks_of_plugins", locks_of_plugins})

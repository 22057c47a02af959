/* A server that starts helpers. Its fork handlers keep the log's mutex, so that the child
   has a whole one; forking takes long, as in a process with much memory. */
#include <pthread.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int done;

static void before_fork(void) {
    pthread_mutex_lock(&log_mutex);
    usleep(20000); /* the memory is copied */
}

static void after_fork(void) {
    pthread_mutex_unlock(&log_mutex); /* FAULT */
}

static void *serve(void *unused) {
    while (!done) {
        pthread_mutex_lock(&log_mutex);
        pthread_mutex_unlock(&log_mutex);
        usleep(1000);
    }
    return unused;
}

int main(void) {
    pthread_t worker;
    pthread_atfork(before_fork, after_fork, after_fork);
    pthread_create(&worker, NULL, serve, NULL);
    for (int i = 0; i < 20; i++) {
        pid_t helper = fork();
        if (helper == 0)
            _exit(0);
        waitpid(helper, NULL, 0);
    }
    done = 1;
    pthread_join(worker, NULL);
    return 0;
}

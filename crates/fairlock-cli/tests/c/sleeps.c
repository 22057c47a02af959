/* A wait for what nobody holds. The argument says for what. */
#define _GNU_SOURCE
#include "asleep.h"
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

static pthread_mutex_t the_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t the_condition = PTHREAD_COND_INITIALIZER;

/* A worker of a pool, for whom there is no work. */
static void *condition(void *unused) {
    pthread_mutex_lock(&the_mutex);
    tid = gettid();
    for (;;)
        pthread_cond_wait(&the_condition, &the_mutex);
    return unused;
}

/* The same, where each has a semaphore of its own. */
static void *semaphore(void *unused) {
    sem_t *mine = malloc(sizeof *mine);
    if (!mine || sem_init(mine, 0, 0) != 0)
        abort();
    tid = gettid();
    sem_wait(mine);
    return unused;
}

/* While another thread waits for its end, until the parent has looked at both time and again. */
static void *is_looked_at(void *unused) {
    tid = getpid();
    until_it_sleeps();
    until_looked_at(50);
    return unused;
}

/* A process that goes on when its parent has ended. Its number is printed. */
static void becomes_daemon(void) {
    int ready[2];
    char byte;
    pthread_t thread;
    if (pipe(ready) != 0 || fork() != 0) {
        close(ready[1]);
        exit(read(ready[0], &byte, 1) != 1);
    }
    for (int fd = 0; fd < 3; fd++)
        if (fd != STDOUT_FILENO)
            close(fd);
    pthread_create(&thread, NULL, condition, NULL);
    until_it_sleeps();
    printf("%d\n", getpid());
    fclose(stdout);
    if (write(ready[1], "", 1) != 1)
        exit(1);
    pause();
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc < 2)
        return 1;
    if (strcmp(argv[1], "condition") == 0)
        pthread_create(&thread, NULL, condition, NULL);
    for (int i = 0; i < 3 && strcmp(argv[1], "semaphores") == 0; i++) {
        tid = 0;
        pthread_create(&thread, NULL, semaphore, NULL);
        until_it_sleeps();
    }
    if (strcmp(argv[1], "join") == 0) {
        pthread_create(&thread, NULL, is_looked_at, NULL);
        return pthread_join(thread, NULL);
    }
    if (strcmp(argv[1], "daemon") == 0)
        becomes_daemon();
    until_it_sleeps();
    return 0;
}

/* A wait for what nobody holds. The argument says for what. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t the_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t the_condition = PTHREAD_COND_INITIALIZER;

static _Atomic int tid;

static void until_it_sleeps(void) {
    char path[64], state = 0;
    while (state != 'S') {
        usleep(100);
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%*d %*s %c", &state) != 1)
            abort();
        if (file)
            fclose(file);
    }
}

/* A worker of a pool, for whom there is no work. */
static void *condition(void *unused) {
    pthread_mutex_lock(&the_mutex);
    tid = gettid();
    for (;;)
        pthread_cond_wait(&the_condition, &the_mutex);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    if (argc < 2)
        return 1;
    if (strcmp(argv[1], "condition") == 0)
        pthread_create(&thread, NULL, condition, NULL);
    until_it_sleeps();
    return 0;
}

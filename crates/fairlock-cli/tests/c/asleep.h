/* When a thread sleeps, as the kernel says. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The thread that is to sleep, once it does nothing else that might. */
static _Atomic int tid;

static void until_it_sleeps(void) {
    char path[64], state = 0;
    while (tid == 0 || state != 'S') {
        usleep(100);
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%*d %*s %c", &state) != 1)
            abort();
        if (file)
            fclose(file);
    }
}

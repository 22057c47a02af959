/* When a thread sleeps, as the kernel says. */
#include <dirent.h>
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

/* How often the thread of the parent has gone to sleep that looks at this process: all but the first. */
__attribute__((unused)) static long sleeps_of_parent(void) {
    char path[300], line[200];
    long all = 0, count;
    snprintf(path, sizeof path, "/proc/%d/task", getppid());
    DIR *threads = opendir(path);
    for (struct dirent *thread; threads && (thread = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/status", getppid(), thread->d_name);
        FILE *file = fopen(path, "r");
        while (file && atoi(thread->d_name) != getppid() && fgets(line, sizeof line, file))
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1)
                all += count;
        if (file)
            fclose(file);
    }
    if (threads)
        closedir(threads);
    return all;
}

/* Until the parent has looked at this process so often. */
__attribute__((unused)) static void until_looked_at(int looks) {
    for (long began = sleeps_of_parent(); sleeps_of_parent() < began + looks;)
        usleep(1000);
}

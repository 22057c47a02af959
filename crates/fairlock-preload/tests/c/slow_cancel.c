/* A library that has pthread_cancel take its time, before the thread is cancelled and after. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

int pthread_cancel(pthread_t thread) {
    int (*real)(pthread_t);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_cancel");
    struct timespec moment = {.tv_nsec = 500000};
    nanosleep(&moment, NULL);
    int result = real(thread);
    nanosleep(&moment, NULL);
    return result;
}

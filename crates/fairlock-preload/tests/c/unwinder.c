// A program with an unwinder of its own, as libunwind is one, which takes a mutex.
#define _GNU_SOURCE
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int _Unwind_Backtrace(void *trace, void *argument)
{
    (void)trace;
    (void)argument;
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return 5;
}

int main(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return 0;
}

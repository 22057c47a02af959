// What fairlock-gdb.py shows: gdb stops in `stop_here`.
#include "fairlock.hpp"

#include <thread>
#include <unistd.h>

// Not static: the compiler would leave them out, or their values.
fairlock_rwlock_t untouched = FAIRLOCK_RWLOCK_INIT, copied = FAIRLOCK_RWLOCK_INIT;
static fairlock_rwlock_t destroyed = FAIRLOCK_RWLOCK_INIT, freed = FAIRLOCK_RWLOCK_INIT;
static fairlock_rwlock_t read_by = FAIRLOCK_RWLOCK_INIT, written = FAIRLOCK_RWLOCK_INIT;
static fairlock_mutex_t awaited = FAIRLOCK_MUTEX_INIT;
static fairlock_sem_t permits = FAIRLOCK_SEM_INIT(8);
static fairlock_range_lock_t ranges = FAIRLOCK_RANGE_LOCK_INIT;
static fairlock_cancel_t token = FAIRLOCK_CANCEL_INIT;
static fairlock::shared_mutex shared;

extern "C" __attribute__((noinline)) void stop_here();
void stop_here() { asm volatile(""); }

int main() {
    alarm(500);
    fairlock_rwlock_write(&destroyed);
    fairlock_rwlock_unlock_write(&destroyed);
    fairlock_rwlock_destroy(&destroyed);
    fairlock_rwlock_write(&freed);
    fairlock_rwlock_unlock_write(&freed);
    copied = freed;
    fairlock_rwlock_read(&read_by);
    fairlock_rwlock_write(&written);
    fairlock_mutex_lock(&awaited);
    fairlock_sem_wait(&permits, 3);
    fairlock_range_t range = FAIRLOCK_RANGE_INIT;
    fairlock_range_write(&ranges, &range, 0, 1);
    fairlock_cancel(&token);
    shared.lock();
    std::thread writer([] {
        fairlock_rwlock_write(&written);
        fairlock_rwlock_unlock_write(&written);
    });
    std::thread owner([] {
        fairlock_mutex_lock(&awaited);
        fairlock_mutex_unlock(&awaited);
    });
    while (!fairlock_rwlock_has_waiters(&written) || !fairlock_mutex_is_contended(&awaited)) {
        std::this_thread::yield();
    }
    stop_here();
    shared.unlock();
    fairlock_range_unlock(&range);
    fairlock_mutex_unlock(&awaited);
    fairlock_rwlock_unlock_write(&written);
    fairlock_rwlock_unlock_read(&read_by);
    writer.join();
    owner.join();
    return 0;
}

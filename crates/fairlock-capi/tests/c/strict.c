/* The header in the strictest C and the oldest C++: no comment of later standards, no type
 * and no keyword that they do not have. */
#include "fairlock.h"

static fairlock_rwlock_t lock = FAIRLOCK_RWLOCK_INIT_POLICY(FAIRLOCK_HANDOFF);
static fairlock_mutex_t mutex = FAIRLOCK_MUTEX_INIT_BATCH(8);
static fairlock_cond_t cond = FAIRLOCK_COND_INIT;
static fairlock_sem_t sem = FAIRLOCK_SEM_INIT(1);
static fairlock_range_lock_t ranges = FAIRLOCK_RANGE_LOCK_INIT;
static fairlock_range_t range = FAIRLOCK_RANGE_INIT;
static fairlock_cancel_t token = FAIRLOCK_CANCEL_INIT;
static fairlock_events_t events = FAIRLOCK_EVENTS_INIT;

int main(void) {
    fairlock_rwlock_set_events(&lock, &events);
    fairlock_rwlock_write(&lock);
    fairlock_mutex_lock(&mutex);
    fairlock_range_write(&ranges, &range, 0, 9);
    fairlock_cond_signal(&cond);
    fairlock_sem_wait(&sem, 1);
    fairlock_sem_destroy(&sem);
    fairlock_cancel(&token);
    fairlock_range_unlock(&range);
    fairlock_mutex_unlock(&mutex);
    fairlock_rwlock_unlock_write(&lock);
    return fairlock_rwlock_is_locked(&lock) || !fairlock_is_cancelled(&token);
}

// Concurrency Kit. C, not C++: its locks are inline functions of C headers. They
// spin and never sleep or yield.

#include <ck_pflock.h>
#include <ck_rwlock.h>
#include <ck_spinlock.h>
#include <ck_tflock.h>

#include "peer.h"

FL_PEER(ck_rwlock, ck_rwlock_t, ck_rwlock_init(lock), FL_NOTHING, ck_rwlock_read_lock(lock),
        ck_rwlock_read_unlock(lock), ck_rwlock_write_lock(lock), ck_rwlock_write_unlock(lock))

FL_PEER(ck_pflock, ck_pflock_t, ck_pflock_init(lock), FL_NOTHING, ck_pflock_read_lock(lock),
        ck_pflock_read_unlock(lock), ck_pflock_write_lock(lock), ck_pflock_write_unlock(lock))

FL_PEER(ck_tflock, ck_tflock_ticket_t, ck_tflock_ticket_init(lock), FL_NOTHING,
        ck_tflock_ticket_read_lock(lock), ck_tflock_ticket_read_unlock(lock),
        ck_tflock_ticket_write_lock(lock), ck_tflock_ticket_write_unlock(lock))

FL_MUTEX(ck_ticket, ck_spinlock_ticket_t, ck_spinlock_ticket_init(lock), FL_NOTHING,
         ck_spinlock_ticket_lock(lock), ck_spinlock_ticket_unlock(lock))

FL_MUTEX(ck_fas, ck_spinlock_fas_t, ck_spinlock_fas_init(lock), FL_NOTHING,
         ck_spinlock_fas_lock(lock), ck_spinlock_fas_unlock(lock))

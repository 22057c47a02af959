/* Locks that count their owners, and go with the last of them: as soon as that one has
 * unlocked it, whether or not the unlock calls of the others have returned. The memory is
 * unmapped, so that a call which still looks at the lock ends the test. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "check.h"

#include <sys/mman.h>

enum { OWNERS = 4, ROUNDS = 300, KINDS = 6 };

struct counted {
    fairlock_mutex_t mutex;
    fairlock_rwlock_t rwlock;
    int owners;
};

static struct counted *counted;
static pthread_barrier_t begin, end;

static void lock(struct counted *object, int kind) {
    if (kind < 4) {
        GIVES(0, fairlock_mutex_lock(&object->mutex));
    } else {
        GIVES(0, fairlock_rwlock_write(&object->rwlock));
    }
}

static void unlock(struct counted *object, int kind) {
    if (kind < 4) {
        GIVES(0, fairlock_mutex_unlock(&object->mutex));
    } else if (kind == 4) {
        GIVES(0, fairlock_rwlock_unlock_write(&object->rwlock));
    } else {
        GIVES(0, fairlock_rwlock_unlock_write_fair(&object->rwlock));
    }
}

static void make(int kind) {
    static const uint32_t batches[] = {FAIRLOCK_BATCH_NONE, 1, 4, 8};
    counted = mmap(NULL, sizeof *counted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    CHECK(counted != MAP_FAILED);
    if (kind < 4) {
        GIVES(0, fairlock_mutex_init(&counted->mutex, batches[kind]));
    }
    counted->owners = OWNERS;
}

static void *own(void *maker) {
    for (int round = 0; round < ROUNDS * KINDS; round++) {
        int kind = round % KINDS;
        if (maker != NULL) {
            make(kind);
        }
        pthread_barrier_wait(&begin);
        struct counted *object = counted;
        lock(object, kind);
        int left = --object->owners;
        if (left == OWNERS - 1 && round / KINDS % 2 == 0) {
            nap(); /* the others queue */
        }
        unlock(object, kind);
        if (left == 0) {
            GIVES(0, fairlock_mutex_destroy(&object->mutex));
            GIVES(0, fairlock_rwlock_destroy(&object->rwlock));
            CHECK(munmap(object, sizeof *object) == 0);
        }
        pthread_barrier_wait(&end);
    }
    return NULL;
}

int main(void) {
    watchdog();
    CHECK(pthread_barrier_init(&begin, NULL, OWNERS) == 0);
    CHECK(pthread_barrier_init(&end, NULL, OWNERS) == 0);
    pthread_t others[OWNERS - 1];
    for (int i = 0; i < OWNERS - 1; i++) {
        others[i] = spawn(own, NULL);
    }
    own(&begin);
    for (int i = 0; i < OWNERS - 1; i++) {
        join(others[i]);
    }
    return 0;
}

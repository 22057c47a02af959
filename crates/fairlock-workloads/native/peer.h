// One lock of a C or C++ library, behind a C ABI that native.rs calls.
//
// FL_PEER(NAME, TYPE, INIT, DROP, READ_LOCK, READ_UNLOCK, WRITE_LOCK,
// WRITE_UNLOCK) defines fl_peer_NAME_new, _free, _read_lock, _read_unlock,
// _write_lock and _write_unlock. The last six arguments are statements that
// see the lock as `TYPE *lock`.
//
// A lock has its cache lines to itself, so that a peer is not slowed down by
// what the allocator happens to put beside it.

#ifndef FAIRLOCK_PEER_H
#define FAIRLOCK_PEER_H

#include <stdlib.h>

#ifdef __cplusplus
// An exception that reaches the boundary ends the process: Rust cannot catch it.
#define FL_FN extern "C"
#define FL_NOEXCEPT noexcept
#define FL_ALIGNOF(TYPE) alignof(TYPE)
#else
#define FL_FN
#define FL_NOEXCEPT
#define FL_ALIGNOF(TYPE) _Alignof(TYPE)
#endif

// Two lines of 64 bytes: the hardware fetches them in pairs.
#define FL_LINES 128

#define FL_OPERATION(NAME, OPERATION, TYPE, STATEMENT)                        \
    FL_FN void fl_peer_##NAME##_##OPERATION(TYPE *lock) FL_NOEXCEPT;          \
    void fl_peer_##NAME##_##OPERATION(TYPE *lock) FL_NOEXCEPT { STATEMENT; }

#define FL_PEER(NAME, TYPE, INIT, DROP, READ_LOCK, READ_UNLOCK, WRITE_LOCK,   \
                WRITE_UNLOCK)                                                 \
    FL_FN TYPE *fl_peer_##NAME##_new(void) FL_NOEXCEPT;                       \
    TYPE *fl_peer_##NAME##_new(void) FL_NOEXCEPT {                            \
        enum { SIZE = (sizeof(TYPE) + FL_LINES - 1) / FL_LINES * FL_LINES };  \
        static_assert(FL_ALIGNOF(TYPE) <= FL_LINES, "over-aligned lock");     \
        TYPE *lock = (TYPE *)aligned_alloc(FL_LINES, SIZE);                   \
        if (lock == NULL)                                                     \
            abort();                                                          \
        INIT;                                                                 \
        return lock;                                                          \
    }                                                                         \
    FL_OPERATION(NAME, free, TYPE, DROP; free(lock))                          \
    FL_OPERATION(NAME, read_lock, TYPE, READ_LOCK)                            \
    FL_OPERATION(NAME, read_unlock, TYPE, READ_UNLOCK)                        \
    FL_OPERATION(NAME, write_lock, TYPE, WRITE_LOCK)                          \
    FL_OPERATION(NAME, write_unlock, TYPE, WRITE_UNLOCK)

// A lock without a reader side: readers take it as writers do.
#define FL_MUTEX(NAME, TYPE, INIT, DROP, LOCK, UNLOCK)                        \
    FL_PEER(NAME, TYPE, INIT, DROP, LOCK, UNLOCK, LOCK, UNLOCK)

#ifdef __cplusplus
#include <memory>
#include <new>
#define FL_CONSTRUCT(TYPE) ::new (static_cast<void *>(lock)) TYPE
#define FL_DESTROY std::destroy_at(lock)
#else
#include <assert.h> // static_assert
#define FL_NOTHING ((void)0)
#endif

#endif

// oneTBB.

#include <oneapi/tbb/queuing_mutex.h>
#include <oneapi/tbb/queuing_rw_mutex.h>
#include <oneapi/tbb/rw_mutex.h>
#include <oneapi/tbb/spin_mutex.h>
#include <oneapi/tbb/spin_rw_mutex.h>

#include "peer.h"

namespace {

// The queuing locks link their waiters through the scoped_lock of each
// acquisition. C++ code has it on its stack; a lock()/unlock() interface has no
// place for it, so it lives in a thread-local, built at each acquisition and
// destroyed at each release as a scope would. Hence a thread holds at most one
// lock of each queuing type at a time. Raw bytes, because a thread-local with a
// constructor checks at each use whether that has run.
template <class Mutex> class Scoped {
    using Node = typename Mutex::scoped_lock;
    alignas(Node) static thread_local unsigned char bytes[sizeof(Node)];

  public:
    template <class... Mode> static void acquire(Mutex *mutex, Mode... mode) {
        ::new (static_cast<void *>(bytes)) Node(*mutex, mode...);
    }
    static void release() { std::destroy_at(std::launder(reinterpret_cast<Node *>(bytes))); }
};

template <class Mutex>
alignas(typename Mutex::scoped_lock) thread_local unsigned char
    Scoped<Mutex>::bytes[sizeof(typename Mutex::scoped_lock)];

} // namespace

FL_PEER(tbb_rw_mutex, tbb::rw_mutex, FL_CONSTRUCT(tbb::rw_mutex), FL_DESTROY,
        lock->lock_shared(), lock->unlock_shared(), lock->lock(), lock->unlock())

FL_PEER(tbb_spin_rw_mutex, tbb::spin_rw_mutex, FL_CONSTRUCT(tbb::spin_rw_mutex), FL_DESTROY,
        lock->lock_shared(), lock->unlock_shared(), lock->lock(), lock->unlock())

FL_PEER(tbb_queuing_rw_mutex, tbb::queuing_rw_mutex, FL_CONSTRUCT(tbb::queuing_rw_mutex),
        FL_DESTROY,
        Scoped<tbb::queuing_rw_mutex>::acquire(lock, /*write=*/false),
        (void)lock; Scoped<tbb::queuing_rw_mutex>::release(),
        Scoped<tbb::queuing_rw_mutex>::acquire(lock, /*write=*/true),
        (void)lock; Scoped<tbb::queuing_rw_mutex>::release())

FL_MUTEX(tbb_spin_mutex, tbb::spin_mutex, FL_CONSTRUCT(tbb::spin_mutex), FL_DESTROY,
         lock->lock(), lock->unlock())

FL_MUTEX(tbb_queuing_mutex, tbb::queuing_mutex, FL_CONSTRUCT(tbb::queuing_mutex), FL_DESTROY,
         Scoped<tbb::queuing_mutex>::acquire(lock),
         (void)lock; Scoped<tbb::queuing_mutex>::release())

// Boost.Thread's shared_mutex.

#include <boost/thread/shared_mutex.hpp>

#include "peer.h"

FL_PEER(boost, boost::shared_mutex, FL_CONSTRUCT(boost::shared_mutex), FL_DESTROY,
        lock->lock_shared(), lock->unlock_shared(), lock->lock(), lock->unlock())

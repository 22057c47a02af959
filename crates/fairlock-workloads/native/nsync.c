// nsync's mutex, which has a reader side.

#include <nsync.h>

#include "peer.h"

FL_PEER(nsync, nsync_mu, nsync_mu_init(lock), FL_NOTHING, nsync_mu_rlock(lock),
        nsync_mu_runlock(lock), nsync_mu_lock(lock), nsync_mu_unlock(lock))

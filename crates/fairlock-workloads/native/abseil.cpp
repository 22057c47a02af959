// abseil's Mutex.

#include <absl/synchronization/mutex.h>

#include "peer.h"

namespace {

// A library built without NDEBUG looks for deadlock cycles at each acquisition.
// That is a debugging aid, off in a release build: measure without it however
// the distribution built the library.
void construct(absl::Mutex *lock) {
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    FL_CONSTRUCT(absl::Mutex);
}

} // namespace

FL_PEER(abseil, absl::Mutex, construct(lock), FL_DESTROY, lock->ReaderLock(),
        lock->ReaderUnlock(), lock->Lock(), lock->Unlock())

// One mutex, used by a program and two shared libraries, whose symbols are hidden: each has its own
// copy of whatever the header makes. The libraries are this file, compiled with their names as PART.
#include "fairlock.hpp"

#include <unistd.h>

#ifdef PART

__attribute__((visibility("default"))) bool PART(fairlock::recursive_mutex &mutex);
bool PART(fairlock::recursive_mutex &mutex) {
    std::unique_lock lock(mutex, std::try_to_lock);
    return lock.owns_lock();
}

#else

bool first(fairlock::recursive_mutex &mutex);
bool second(fairlock::recursive_mutex &mutex);

int main() {
    alarm(500);
    fairlock::recursive_mutex mutex;
    std::unique_lock lock(mutex);
    return first(mutex) && second(mutex) ? 0 : 1;
}

#endif

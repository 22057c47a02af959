// What clang's -Wthread-safety knows of the locks. With WRONG, a number, also one use that it must report.
#include "fairlock.hpp"

static fairlock::shared_mutex shared;
static int read_often FAIRLOCK_THREAD_SAFETY(guarded_by(shared));
static fairlock::mutex exclusive;
static int counter FAIRLOCK_THREAD_SAFETY(guarded_by(exclusive));
static fairlock::recursive_mutex recursive;
static int nested FAIRLOCK_THREAD_SAFETY(guarded_by(recursive));

static void count() FAIRLOCK_THREAD_SAFETY(requires_capability(exclusive)) { counter++; }

int main() {
    using namespace std::chrono;
    {
        fairlock::lock_guard guard(exclusive);
        count();
    }
    exclusive.lock();
    count();
    exclusive.unlock_fair();
    if (exclusive.try_lock_for(milliseconds(1))) {
        count();
        exclusive.unlock();
    }
    {
        fairlock::lock_guard guard(shared);
        read_often++;
    }
    int seen = 0;
    {
        fairlock::shared_lock_guard guard(shared);
        seen += read_often;
    }
    shared.lock();
    read_often++;
    shared.unlock_and_lock_shared();
    seen += read_often;
    shared.unlock_shared();
    if (shared.try_lock_shared_until(steady_clock::now())) {
        seen += read_often;
        shared.unlock_shared();
    }
    recursive.lock();
#if defined(__clang__)
#if __has_attribute(reentrant_capability)
    recursive.lock();
    recursive.unlock();
#endif
#endif
    nested++;
    recursive.unlock();

#ifndef WRONG
#elif WRONG == 1 // without the lock
    counter++;
#elif WRONG == 2 // written while it is only read
    fairlock::shared_lock_guard guard(shared);
    read_often++;
#elif WRONG == 3 // not given up
    exclusive.lock();
#elif WRONG == 4 // given up twice
    shared.lock();
    shared.unlock();
    shared.unlock();
#elif WRONG == 5 // whether it was taken is not asked
    static_cast<void>(exclusive.try_lock_until(steady_clock::now()));
    count();
#elif WRONG == 6 // given up as a writer
    shared.lock_shared();
    shared.unlock();
#elif WRONG == 7 // still written after it was downgraded
    shared.lock();
    shared.unlock_and_lock_shared();
    read_often++;
    shared.unlock_shared();
#elif WRONG == 8
    nested++;
#endif
    return seen == 5 ? 0 : 1;
}

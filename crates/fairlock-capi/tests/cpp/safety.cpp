// What clang's -Wthread-safety knows of the locks. With WRONG also uses that it must report, each of them.
#include "fairlock.hpp"

static fairlock::shared_mutex shared;
static int read_often FAIRLOCK_THREAD_SAFETY(guarded_by(shared));
static fairlock::mutex exclusive;
static int counter FAIRLOCK_THREAD_SAFETY(guarded_by(exclusive));
static fairlock::recursive_mutex recursive;
static int nested FAIRLOCK_THREAD_SAFETY(guarded_by(recursive));

static void count() FAIRLOCK_THREAD_SAFETY(requires_capability(exclusive)) { counter++; }

#ifdef WRONG
void without_the_lock() { counter++; } // wrong
void written_as_a_reader() {           // wrong
    fairlock::shared_lock_guard guard(shared);
    read_often++;
}
void not_given_up() { // wrong
    exclusive.lock();
}
void given_up_twice() { // wrong
    shared.lock();
    shared.unlock();
    shared.unlock();
}
void whether_it_was_taken_is_not_asked() { // wrong
    static_cast<void>(exclusive.try_lock_until(std::chrono::steady_clock::now()));
    count();
}
void given_up_as_a_writer() { // wrong
    shared.lock_shared();
    shared.unlock();
}
void written_after_it_was_downgraded() { // wrong
    shared.lock();
    shared.unlock_and_lock_shared();
    read_often++;
    shared.unlock_shared();
}
void nested_without_the_lock() { nested++; } // wrong
#endif

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

    return seen == 5 ? 0 : 1;
}

// What ThreadSanitizer must and must not report, with each lock: two threads change a counter while
// they hold it; with the argument "racy" they change it without. The compiler must instrument this.
#include "fairlock.hpp"

#include <cstring>
#include <thread>
#include <unistd.h>

static bool racy;

// Has two threads call `section`, which calls what it is given while it holds a lock.
template <class Section> static void both(Section section) {
    long counter = 0;
    auto const work = [&] {
        for (int i = 0; i < 50; i++) {
            section([&] {
                if (!racy) {
                    counter++;
                }
            });
            if (racy) {
                counter++;
            }
        }
    };
    std::thread other(work);
    work();
    other.join();
}

template <class Lock> static auto exclusive(Lock &lock) {
    return [&lock](auto change) {
        std::unique_lock guard(lock);
        change();
    };
}

static void shared() {
    fairlock::shared_mutex lock;
    long seen = 0;
    both(exclusive(lock));
    // Readers come after writers, and writers after readers.
    both([&](auto change) {
        std::unique_lock writer(lock);
        change();
        seen++;
        std::shared_lock reader = fairlock::downgrade(std::move(writer));
        std::shared_lock const again = [&] {
            lock.lock_shared_recursive();
            return std::shared_lock(lock, std::adopt_lock);
        }();
        static_cast<void>(*const_cast<long volatile *>(&seen));
    });
}

// One thread locks, and the other unlocks.
static void handed_over() {
    fairlock::mutex lock;
    long value = 0;
    lock.lock();
    std::thread other([&] { lock.unlock(); });
    lock.lock();
    value++;
    lock.unlock();
    other.join();
}

static void condition() {
    fairlock::mutex mutex;
    fairlock::condition_variable changed;
    bool mine = true;
    both([&](auto change) {
        std::unique_lock guard(mutex);
        changed.wait_for(guard, std::chrono::hours(1), [&] { return mine; });
        mine = false;
        guard.unlock();
        change(); // alone, by what the mutex guards
        guard.lock();
        mine = true;
        changed.notify_one();
    });
}

int main(int argc, char **argv) {
    alarm(500);
    char const *const which = argc > 1 ? argv[1] : "";
    racy = argc > 2 && std::strcmp(argv[2], "racy") == 0;
    auto const is = [which](char const *name) { return std::strcmp(which, name) == 0; };
    if (is("shared_mutex")) {
        shared();
    } else if (is("mutex")) {
        fairlock::mutex lock;
        both(exclusive(lock));
        handed_over();
    } else if (is("recursive_mutex")) {
        fairlock::recursive_mutex lock;
        both([&](auto change) {
            std::scoped_lock guard(lock);
            std::scoped_lock again(lock);
            change();
        });
    } else if (is("condition_variable")) {
        condition();
    } else if (is("semaphore")) {
        fairlock::binary_semaphore permit(1);
        both([&](auto change) {
            permit.acquire();
            change();
            permit.release();
        });
    } else if (is("range_lock")) {
        fairlock::range_lock lock;
        both([&](auto change) {
            auto const guard = lock.write(3, 9);
            change();
        });
    } else if (is("readers")) {
        // Who holds it only as a reader must not write: always a race.
        fairlock::shared_mutex lock;
        both([&](auto change) {
            std::shared_lock guard(lock);
            change();
        });
    } else {
        return 2;
    }
}

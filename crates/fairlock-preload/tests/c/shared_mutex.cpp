// C++17's shared mutexes, which stand on pthread_rwlock_t and never destroy it.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

static void check(bool condition, const char *what) {
    if (!condition) {
        std::fprintf(stderr, "not: %s\n", what);
        std::_Exit(1);
    }
}
#define CHECK(condition) check(condition, #condition)

template <class Mutex> static void use() {
    constexpr int threads = 4, rounds = 20000;
    auto mutex = std::make_unique<Mutex>();
    long value = 0;
    std::atomic<int> inside{0};
    std::vector<std::thread> team;
    for (int t = 0; t < threads; t++)
        team.emplace_back([&, t] {
            for (int i = 0; i < rounds; i++)
                if ((i + t) % 4 == 0) {
                    std::unique_lock lock(*mutex);
                    CHECK(inside++ == 0);
                    value++;
                    inside--;
                } else if (i % 16 == 1) {
                    std::shared_lock lock(*mutex, std::try_to_lock);
                    CHECK(!lock || value >= 0);
                } else {
                    std::shared_lock lock(*mutex);
                    std::shared_lock again(*mutex);
                    CHECK(inside == 0);
                }
        });
    for (auto &thread : team)
        thread.join();
    CHECK(value == threads * rounds / 4);
}

static void time_out() {
    using namespace std::chrono_literals;
    std::shared_timed_mutex mutex;
    std::unique_lock lock(mutex);
    std::thread([&] {
        CHECK(!mutex.try_lock_for(2ms) && !mutex.try_lock_shared_for(2ms));
        CHECK(!mutex.try_lock_until(std::chrono::system_clock::now() + 2ms));
        CHECK(!mutex.try_lock_shared_until(std::chrono::steady_clock::now() + 2ms));
    }).join();
    lock.unlock();
    CHECK(mutex.try_lock_shared_for(1ms));
    mutex.unlock_shared();
    lock.lock();
    bool deadlock = false;
    try {
        mutex.lock();
    } catch (const std::system_error &error) {
        deadlock = error.code() == std::errc::resource_deadlock_would_occur;
    }
    CHECK(deadlock);
}

int main() {
    use<std::shared_mutex>();
    use<std::shared_timed_mutex>();
    // One after the other in the same memory, each contended.
    for (int i = 0; i < 2000; i++) {
        auto mutex = std::make_unique<std::shared_timed_mutex>();
        mutex->lock_shared();
        CHECK(!mutex->try_lock_until(std::chrono::system_clock::now()));
        mutex->unlock_shared();
        CHECK(mutex->try_lock());
        mutex->unlock();
    }
    time_out();
}

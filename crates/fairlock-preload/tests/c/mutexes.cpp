// C++'s mutexes and condition variables are pthread's.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            std::_Exit(1);                                                     \
        }                                                                      \
    } while (0)

template <class F> bool elsewhere(F f) { return std::async(std::launch::async, f).get(); }

int main() {
    std::mutex plain;
    std::recursive_mutex recursive;
    std::timed_mutex timed;
    {
        std::lock_guard one(plain);
        std::lock_guard two(recursive);
        std::lock_guard three(recursive);
        std::lock_guard four(timed);
        CHECK(!elsewhere([&] { return plain.try_lock(); }));
        CHECK(!elsewhere([&] { return recursive.try_lock(); }));
        CHECK(!elsewhere([&] { return timed.try_lock_for(5ms); }));
        auto soon = std::chrono::system_clock::now() + 5ms;
        CHECK(!elsewhere([&] { return timed.try_lock_until(soon); }));
    }
    CHECK(elsewhere([&] { std::scoped_lock all(plain, recursive, timed); return true; }));

    std::condition_variable cond;
    std::condition_variable_any any;
    int turn = 0;
    auto ping = [&](int me) {
        for (int i = 0; i < 500; i++) {
            std::unique_lock lock(plain);
            CHECK(cond.wait_for(lock, 60s, [&] { return turn % 3 == me; }));
            turn++;
            cond.notify_all();
            any.notify_one();
        }
        return true;
    };
    std::vector<std::future<bool>> threads;
    for (int me = 0; me < 3; me++)
        threads.push_back(std::async(std::launch::async, ping, me));
    {
        std::unique_lock lock(plain);
        any.wait(lock, [&] { return turn == 1500; });
    }
    for (auto &thread : threads)
        CHECK(thread.get());
    std::unique_lock lock(plain);
    CHECK(cond.wait_for(lock, 5ms) == std::cv_status::timeout);
    std::once_flag once;
    std::call_once(once, [&] { turn = 0; });
    CHECK(turn == 0);
}

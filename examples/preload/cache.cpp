// A cache as C++17 programs have it: a map under a std::shared_mutex. Threads look keys
// up and now and then put one in.
//
//   c++ -std=c++17 -O2 -pthread cache.cpp && ./a.out && LD_PRELOAD=libfairlock_preload.so ./a.out
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

using Clock = std::chrono::steady_clock;

int main(int argc, char **argv) {
    const int threads = argc > 1 ? std::atoi(argv[1]) : 8;
    const int writes_percent = argc > 2 ? std::atoi(argv[2]) : 5;
    constexpr int keys = 10000;
    constexpr auto duration = std::chrono::seconds(2);

    std::unordered_map<int, std::string> cache;
    std::shared_mutex mutex;
    for (int key = 0; key < keys; key++)
        cache[key] = std::to_string(key);

    struct alignas(128) Tally {
        long operations = 0;
        Clock::duration longest_read{}, longest_write{};
    };
    std::vector<Tally> tallies(threads);
    std::vector<std::thread> team;
    std::atomic<bool> stop{false};
    for (int t = 0; t < threads; t++)
        team.emplace_back([&, t] {
            std::minstd_rand random(t + 1);
            Tally &tally = tallies[t];
            long length = 0;
            while (!stop) {
                const int key = random() % keys;
                const bool writes = int(random() % 100) < writes_percent;
                const auto began = Clock::now();
                if (writes) {
                    std::unique_lock lock(mutex);
                    tally.longest_write = std::max(tally.longest_write, Clock::now() - began);
                    cache[key] = std::to_string(random());
                } else {
                    std::shared_lock lock(mutex);
                    tally.longest_read = std::max(tally.longest_read, Clock::now() - began);
                    length += cache.find(key)->second.size();
                }
                tally.operations++;
            }
            if (length < 0)
                std::abort();
        });
    std::this_thread::sleep_for(duration);
    stop = true;
    for (auto &thread : team)
        thread.join();
    Tally all;
    for (auto &tally : tallies) {
        all.operations += tally.operations;
        all.longest_read = std::max(all.longest_read, tally.longest_read);
        all.longest_write = std::max(all.longest_write, tally.longest_write);
    }
    auto ms = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
    std::printf("%8.0f operations/ms %8.2f ms longest wait to read %8.2f ms to write\n",
                all.operations / ms(duration), ms(all.longest_read), ms(all.longest_write));
}

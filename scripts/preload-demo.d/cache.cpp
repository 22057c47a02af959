// A cache of pages under std::shared_mutex: threads look pages up by their names, and put
// in those that they miss, for which others have to go. Prints operations a second, in
// thousands.
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

int main(int argc, char **argv) {
    constexpr std::size_t kept = 20'000;
    constexpr unsigned pages = 21'000;
    const unsigned threads = argc > 1 ? std::atoi(argv[1]) : 8;
    const double seconds = argc > 2 ? std::atof(argv[2]) : 2;

    std::shared_mutex mutex;
    std::unordered_map<std::string, std::string> cache;
    std::atomic<bool> stop{false};
    std::atomic<unsigned long> operations{0};

    auto work = [&](unsigned seed) {
        std::minstd_rand random(seed + 1);
        unsigned long done = 0;
        std::string page;
        for (; !stop.load(std::memory_order_relaxed); done++) {
            const std::string name = "/pages/" + std::to_string(random() % pages) + ".html";
            {
                std::shared_lock lock(mutex);
                if (auto found = cache.find(name); found != cache.end()) {
                    page = found->second;
                    continue;
                }
            }
            page.assign(500, name[7]);
            std::unique_lock lock(mutex);
            cache.emplace(name, page);
            if (cache.size() > kept)
                cache.erase(cache.find(cache.begin()->first));
        }
        operations += done;
    };

    std::vector<std::thread> workers;
    for (unsigned i = 0; i < threads; i++)
        workers.emplace_back(work, i);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    for (auto &worker : workers)
        worker.join();
    std::printf("%.0f\n", static_cast<double>(operations) / seconds / 1e3);
}

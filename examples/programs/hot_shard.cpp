// A cache with a mutex for each of its shards, and keys that nearly all belong to one of them.
#include <chrono>
#include <mutex>
#include <thread>

using namespace std::chrono_literals;

struct Shard {
    std::mutex mutex;
    long hits = 0;
};

Shard shards[16];

void get(unsigned key) {
    Shard &shard = shards[key % 16];
    shard.mutex.lock();
    std::this_thread::sleep_for(200us);
    shard.hits++;
    shard.mutex.unlock(); // FAULT
}

int main() {
    std::thread threads[4];
    for (unsigned index = 0; index < 4; index++)
        threads[index] = std::thread([index] {
            for (unsigned i = 0; i < 300; i++)
                get(i % 10 == 0 ? i / 10 + index * 5 : 3);
        });
    for (auto &thread : threads)
        thread.join();
}

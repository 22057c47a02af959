// Requests that are short, behind a mutex that a background job keeps for long.
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

using namespace std::chrono_literals;

struct Store {
    void put(int key) {
        std::lock_guard<std::mutex> guard(mutex);
        entries[key]++;
    }

    void compact() {
        mutex.lock();
        std::this_thread::sleep_for(60ms); // as if it wrote a file
        mutex.unlock(); // FAULT
    }

    std::mutex mutex;
    std::map<int, int> entries;
};

Store store;

int main() {
    std::thread background([] {
        for (int i = 0; i < 8; i++) {
            store.compact();
            std::this_thread::sleep_for(20ms);
        }
    });
    std::thread requests[2];
    for (auto &request : requests)
        request = std::thread([] {
            for (int i = 0; i < 100; i++) {
                store.put(i);
                std::this_thread::sleep_for(5ms);
            }
        });
    for (auto &request : requests)
        request.join();
    background.join();
}

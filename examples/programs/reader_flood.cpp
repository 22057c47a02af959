// Readers whose sections overlap: the lock is never free, and a writer waits until they end.
#include <atomic>
#include <chrono>
#include <shared_mutex>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

std::shared_mutex table;
std::atomic<bool> done;

void look_up() {
    while (!done) {
        table.lock_shared();
        std::this_thread::sleep_for(1ms);
        table.unlock_shared(); // FAULT
    }
}

void update() {
    for (int i = 0; i < 3; i++) {
        table.lock();
        table.unlock();
    }
    done = true;
}

int main() {
    std::vector<std::thread> readers;
    for (int i = 0; i < 8; i++)
        readers.emplace_back(look_up);
    // So that it ends where the writer never gets in.
    std::thread patience([] {
        for (int i = 0; i < 100 && !done; i++)
            std::this_thread::sleep_for(10ms);
        done = true;
    });
    update();
    patience.join();
    for (auto &reader : readers)
        reader.join();
}

// A loop that unlocks a mutex and takes it again at once.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

using namespace std::chrono_literals;

std::mutex queue;
std::atomic<bool> begun, done;

void drain() {
    for (int i = 0; i < 500 && !done; i++) {
        queue.lock();
        begun = true;
        std::this_thread::sleep_for(2ms);
        queue.unlock(); // FAULT
    }
}

void submit() {
    for (int i = 0; i < 3; i++) {
        queue.lock();
        queue.unlock();
    }
    done = true;
}

int main() {
    std::thread worker(drain);
    while (!begun)
        std::this_thread::sleep_for(1ms);
    submit();
    worker.join();
}

// fairlock.hpp without exceptions and without run-time types.
#include "fairlock.hpp"

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <sys/wait.h>
#include <unistd.h>

static fairlock::shared_mutex shared;
static fairlock::mutex exclusive;

static void require(bool what) {
    if (!what) {
        std::exit(1);
    }
}

// Whether a program that does this is ended by it.
template <class Call> static bool aborts(Call call) {
    pid_t const child = fork();
    if (child == 0) {
        call();
        _exit(0);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

int main() {
    alarm(500);
    {
        std::unique_lock writer(shared);
        std::shared_lock reader = fairlock::downgrade(std::move(writer));
        require(!shared.try_lock_for(std::chrono::milliseconds(1)));
    }
    {
        std::scoped_lock both(shared, exclusive);
        require(!exclusive.try_lock());
    }
    fairlock::range_lock ranges;
    auto low = ranges.write(0, 9);
    auto high = low.split(5);
    require(!ranges.try_read(3, 3));
    auto reader = fairlock::downgrade(std::move(low));
    require(ranges.try_read(3, 3) && !ranges.try_read(5, 5));

    require(aborts([] { fairlock::mutex bad(3); }));
    require(aborts([&] { (void)ranges.read(2, 1); }));
    require(!aborts([] { fairlock::mutex good(4); }));
}

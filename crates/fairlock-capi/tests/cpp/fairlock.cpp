// fairlock.hpp: what the standard library makes of the locks, and what it has no name for.
#include "fairlock.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;

#define CHECK(what)                                                                          \
    do {                                                                                     \
        if (!(what)) {                                                                       \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);          \
            std::exit(1);                                                                    \
        }                                                                                    \
    } while (0)

template <class Call> bool throws(std::errc code, Call call) {
    try {
        call();
    } catch (std::system_error const &error) {
        return error.code() == code;
    }
    return false;
}

// Statics are initialised before anything runs, and never destroyed.
constexpr bool is_constant() {
    fairlock::shared_mutex a;
    fairlock::shared_mutex b(fairlock::preset::writer_phase);
    fairlock::mutex c;
    fairlock::cancel_token d;
    (void)a, (void)b, (void)c, (void)d;
    return true;
}
static_assert(is_constant());
static_assert(std::is_trivially_destructible_v<fairlock::shared_mutex>);
static_assert(std::is_trivially_destructible_v<fairlock::mutex>);
static_assert(!std::is_copy_constructible_v<fairlock::shared_mutex>);
static_assert(!std::is_move_constructible_v<fairlock::mutex>);
static_assert(!std::is_copy_constructible_v<fairlock::read_range>);
static_assert(std::is_nothrow_move_constructible_v<fairlock::write_range>);
static_assert(std::is_nothrow_default_constructible_v<fairlock::range_lock>);

// A clock that the system does not know: ten times as fast.
struct hasty_clock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<hasty_clock>;
    static constexpr bool is_steady = true;
    static time_point now() {
        return time_point(10 * std::chrono::steady_clock::now().time_since_epoch());
    }
};

template <class Mutex> void shared_timed_mutex(Mutex &m) {
    {
        std::unique_lock writer(m);
        CHECK(!m.try_lock() && !m.try_lock_shared());
        auto const begin = std::chrono::steady_clock::now();
        CHECK(!m.try_lock_for(5ms) && !m.try_lock_shared_for(5ms));
        CHECK(std::chrono::steady_clock::now() - begin >= 10ms);
        CHECK(!m.try_lock_until(std::chrono::system_clock::now() + 5ms));
        CHECK(!m.try_lock_shared_until(std::chrono::steady_clock::now() + 5ms));
        auto const soon = hasty_clock::now() + 50ms;
        CHECK(!m.try_lock_until(soon));
        CHECK(hasty_clock::now() >= soon);
        CHECK(!m.try_lock_shared_until(hasty_clock::now() - 1ms));
        // Times of every size.
        CHECK(!m.try_lock_until(hasty_clock::time_point::min()));
        CHECK(!m.try_lock_for(-std::chrono::hours::max()));
        CHECK(!m.try_lock_for(std::chrono::duration<double, std::micro>(0.5)));
        CHECK(!m.try_lock_until(std::chrono::system_clock::time_point::min()));
    }
    {
        std::shared_lock reader(m);
        std::shared_lock second(m, std::try_to_lock);
        std::shared_lock third(m, 1h);
        CHECK(second && third && !m.try_lock());
        std::unique_lock writer(m, 1ms);
        CHECK(!writer);
    }
    CHECK(m.try_lock_for(std::chrono::hours::max()));
    m.unlock();
    CHECK(m.try_lock_until(std::chrono::system_clock::time_point::max()));
    m.unlock();
    CHECK(m.try_lock_shared_until(hasty_clock::time_point::max()));
    m.unlock_shared();
}

fairlock::shared_mutex shared;
fairlock::mutex exclusive;

void the_policies() {
    shared_timed_mutex(shared);
    for (auto preset : {fairlock::preset::default_policy, fairlock::preset::unfair,
                        fairlock::preset::handoff, fairlock::preset::no_reader_spin,
                        fairlock::preset::writer_phase}) {
        fairlock::shared_mutex m(preset);
        shared_timed_mutex(m);
    }
    fairlock_policy_t policy;
    CHECK(fairlock_policy_preset(FAIRLOCK_HANDOFF, &policy) == 0);
    policy.handoff_after_ns = 1000;
    fairlock::shared_mutex own(policy);
    shared_timed_mutex(own);
    policy.reserved[0] = 1;
    CHECK(throws(std::errc::invalid_argument, [&] { fairlock::shared_mutex bad(policy); }));
}

void several_at_once() {
    std::scoped_lock both(shared, exclusive);
    CHECK(!shared.try_lock_shared() && !exclusive.try_lock());
}

void condition_variables() {
    std::condition_variable_any changed;
    int turn = 0;
    std::thread other([&] {
        std::unique_lock lock(exclusive);
        changed.wait(lock, [&] { return turn == 1; });
        turn = 2;
        changed.notify_all();
    });
    std::unique_lock lock(exclusive);
    turn = 1;
    changed.notify_all();
    changed.wait(lock, [&] { return turn == 2; });
    lock.unlock();
    other.join();

    bool ready = false;
    std::thread writer([&] {
        std::lock_guard guard(shared);
        ready = true;
        changed.notify_all();
    });
    std::shared_lock reader(shared);
    CHECK(changed.wait_for(reader, 60s, [&] { return ready; }));
    reader.unlock();
    writer.join();
}

void downgrade() {
    std::unique_lock writer(shared);
    auto reader = fairlock::downgrade(std::move(writer));
    CHECK(reader.owns_lock() && !writer.owns_lock());
    CHECK(shared.try_lock_shared());
    shared.unlock_shared();
    CHECK(!shared.try_lock());
    reader.unlock();
    CHECK(throws(std::errc::operation_not_permitted,
                 [&] { (void)fairlock::downgrade(std::move(writer)); }));
}

void waits_that_are_ended() {
    fairlock::cancel_token token;
    std::unique_lock writer(shared);
    std::thread canceller([&] { token.cancel(); });
    CHECK(!shared.lock_unless(token) && !shared.lock_shared_unless(token));
    canceller.join();
    CHECK(token.is_cancelled());
    writer.unlock();
    CHECK(shared.lock_shared_unless(token));
    shared.lock_shared_recursive();
    shared.unlock_shared();
    shared.unlock_shared();
    CHECK(shared.lock_interruptible());
    shared.unlock();
    CHECK(shared.lock_shared_interruptible());
    shared.unlock_shared();
}

void mutexes() {
    for (std::uint32_t batch : {0u, 1u, 4u, 8u}) {
        fairlock::mutex m(batch);
        long counted = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < 3; i++) {
            threads.emplace_back([&] {
                for (int round = 0; round < 2000; round++) {
                    std::lock_guard guard(m);
                    counted++;
                }
            });
        }
        for (auto &thread : threads) {
            thread.join();
        }
        CHECK(counted == 6000);
    }
    CHECK(throws(std::errc::invalid_argument, [] { fairlock::mutex bad(3); }));
}

void ranges() {
    fairlock::range_lock lock;
    auto low = lock.write(0, 99);
    CHECK(low && low.start() == 0 && low.last() == 99);
    auto high = lock.read(100, UINT64_MAX);
    CHECK(!lock.try_write(99, 100) && !lock.try_read(50, 60) && lock.try_read(100, 200));
    CHECK(!lock.try_read_for(0, 0, 1ms) && !lock.try_write_for(0, 0, 1ms));
    CHECK(!lock.try_read_until(0, 0, std::chrono::system_clock::now() + 1ms));
    CHECK(!lock.try_write_until(0, 0, hasty_clock::now() + 1ms));
    low.shrink(0, 49);
    CHECK(lock.try_write(50, 99));
    auto middle = low.split(20);
    CHECK(middle.start() == 20 && middle.last() == 49 && low.last() == 19);
    auto reader = fairlock::downgrade(std::move(low));
    CHECK(!low && reader && lock.try_read(0, 19) && !lock.try_write(0, 19));
    auto rest = reader.split(10);
    rest.unlock();
    CHECK(!rest && lock.try_write(10, 19));

    fairlock::cancel_token token;
    token.cancel();
    CHECK(!lock.write_unless(token, 0, 5) && !lock.read_unless(token, 20, 25));
    CHECK(lock.read_unless(token, 0, 5) && lock.write_unless(token, 50, 55));

    // Guards move.
    fairlock::write_range moved = std::move(middle);
    CHECK(moved && !middle);
    moved = lock.write(60, 61);
    CHECK(lock.try_write(20, 49) && !lock.try_read(60, 60));
    auto &same = moved;
    moved = std::move(same);
    CHECK(moved);

    CHECK(throws(std::errc::invalid_argument, [&] { (void)lock.read(2, 1); }));
    CHECK(throws(std::errc::invalid_argument, [&] { (void)lock.try_write(2, 1); }));
    CHECK(throws(std::errc::invalid_argument, [&] { moved.shrink(0, 1); }));
    CHECK(throws(std::errc::invalid_argument, [&] { (void)moved.split(0); }));
    CHECK(throws(std::errc::operation_not_permitted, [&] { (void)rest.start(); }));
    CHECK(throws(std::errc::operation_not_permitted, [&] { rest.unlock(); }));
    CHECK(throws(std::errc::operation_not_permitted,
                 [&] { (void)fairlock::downgrade(fairlock::write_range()); }));

    fairlock_range_policy_t fifo{};
    fairlock::range_lock strict(fifo);
    CHECK(strict.write(0, UINT64_MAX));
    fifo.reserved[0] = 1;
    CHECK(throws(std::errc::invalid_argument, [&] { fairlock::range_lock bad(fifo); }));
}

int main() {
    alarm(120);
    the_policies();
    several_at_once();
    condition_variables();
    downgrade();
    waits_that_are_ended();
    mutexes();
    ranges();
}

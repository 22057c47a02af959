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

// Destroyed last, as it is made first: uses the statics below once more.
struct last {
    ~last();
};
static last last;

// Statics are initialised before anything runs.
#ifdef __clang__
#define INITIALISED_BY_THE_COMPILER [[clang::require_constant_initialization]]
#else
#define INITIALISED_BY_THE_COMPILER __constinit
#endif
INITIALISED_BY_THE_COMPILER static fairlock::shared_mutex a;
INITIALISED_BY_THE_COMPILER static fairlock::shared_mutex b(fairlock::preset::writer_phase);
INITIALISED_BY_THE_COMPILER static fairlock::mutex c;
INITIALISED_BY_THE_COMPILER static fairlock::cancel_token d;
INITIALISED_BY_THE_COMPILER static fairlock::recursive_mutex e;
INITIALISED_BY_THE_COMPILER static fairlock::condition_variable f;
INITIALISED_BY_THE_COMPILER static fairlock::counting_semaphore<> permits(2);

last::~last() {
    std::scoped_lock all(a, c, e);
    f.notify_all();
    (void)b, (void)d;
}
static_assert(std::is_same_v<fairlock::timed_mutex, fairlock::mutex>);
static_assert(std::is_same_v<fairlock::binary_semaphore, fairlock::counting_semaphore<1>>);
static_assert(fairlock::counting_semaphore<>::max() >= 1000000);
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

// `m` is held, and `other` wants the same.
template <class Mutex> void timed_lock_in_vain(Mutex &other) {
    CHECK(!other.try_lock());
    auto const begin = std::chrono::steady_clock::now();
    CHECK(!other.try_lock_for(5ms));
    CHECK(std::chrono::steady_clock::now() - begin >= 5ms);
    CHECK(!other.try_lock_until(std::chrono::system_clock::now() + 5ms));
    auto const soon = hasty_clock::now() + 50ms;
    CHECK(!other.try_lock_until(soon));
    CHECK(hasty_clock::now() >= soon);
    // Times of every size.
    CHECK(!other.try_lock_until(hasty_clock::time_point::min()));
    CHECK(!other.try_lock_for(-std::chrono::hours::max()));
    CHECK(!other.try_lock_for(std::chrono::duration<double, std::micro>(0.5)));
    CHECK(!other.try_lock_until(std::chrono::system_clock::time_point::min()));
}

template <class Mutex> void timed_mutex(Mutex &m) {
    {
        std::unique_lock lock(m);
        std::thread([&] { timed_lock_in_vain(m); }).join();
    }
    CHECK(m.try_lock_for(std::chrono::hours::max()));
    m.unlock();
    CHECK(m.try_lock_until(hasty_clock::time_point::max()));
    m.unlock();
}

template <class Mutex> void shared_timed_mutex(Mutex &m) {
    {
        std::unique_lock writer(m);
        timed_lock_in_vain(m);
        CHECK(!m.try_lock_shared());
        auto const begin = std::chrono::steady_clock::now();
        CHECK(!m.try_lock_shared_for(5ms));
        CHECK(std::chrono::steady_clock::now() - begin >= 5ms);
        CHECK(!m.try_lock_shared_until(std::chrono::steady_clock::now() + 5ms));
        CHECK(!m.try_lock_shared_until(hasty_clock::now() - 1ms));
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

fairlock::mutex guard_of_turn;
fairlock::condition_variable turned;

// As it would be with std::condition_variable.
void own_condition_variable() {
    int turn = 0;
    std::thread other([&] {
        std::unique_lock lock(guard_of_turn);
        turned.wait(lock, [&] { return turn == 1; });
        turn = 2;
        turned.notify_one();
        turned.wait(lock);
        turn = 4;
        turned.notify_all();
    });
    {
        std::unique_lock lock(guard_of_turn);
        turn = 1;
        turned.notify_all();
        turned.wait(lock, [&] { return turn == 2; });
        turn = 3;
        turned.notify_one();
        CHECK(turned.wait_for(lock, 60s, [&] { return turn == 4; }));
    }
    other.join();

    std::unique_lock lock(guard_of_turn);
    auto const never = [] { return false; };
    auto const always = [] { return true; };
    auto const soon = std::chrono::steady_clock::now() + 5ms;
    CHECK(turned.wait_until(lock, soon) == std::cv_status::timeout);
    CHECK(std::chrono::steady_clock::now() >= soon);
    CHECK(turned.wait_for(lock, 1ms) == std::cv_status::timeout);
    CHECK(!turned.wait_for(lock, 1ms, never) && turned.wait_for(lock, 1h, always));
    CHECK(!turned.wait_until(lock, std::chrono::system_clock::now() + 1ms, never));
    CHECK(!turned.wait_until(lock, hasty_clock::now() + 10ms, never));
    CHECK(turned.wait_until(lock, hasty_clock::now(), always));
    fairlock::cancel_token token;
    token.cancel();
    CHECK(!turned.wait_unless(lock, token, never) && turned.wait_unless(lock, token, always));
    CHECK(lock.owns_lock());

    fairlock::mutex tickets(1);
    std::unique_lock other_lock(tickets);
    CHECK(throws(std::errc::not_supported, [&] { turned.wait(other_lock); }));
}

// As they would be with std::counting_semaphore.
void semaphores() {
    permits.acquire();
    CHECK(permits.try_acquire() && !permits.try_acquire());
    auto const begin = std::chrono::steady_clock::now();
    CHECK(!permits.try_acquire_for(5ms));
    CHECK(std::chrono::steady_clock::now() - begin >= 5ms);
    CHECK(!permits.try_acquire_until(std::chrono::system_clock::now() + 1ms));
    CHECK(!permits.try_acquire_until(hasty_clock::now() + 10ms));
    fairlock::cancel_token token;
    token.cancel();
    CHECK(!permits.acquire_unless(token));
    std::thread giver([] { permits.release(2); });
    permits.acquire(2);
    giver.join();
    permits.release();
    permits.release();
    CHECK(permits.try_acquire(2) && !permits.try_acquire_for(1ms, 2));
    permits.release(3);
    CHECK(permits.try_acquire_for(1h) && permits.try_acquire_until(hasty_clock::now()));
    CHECK(permits.acquire_unless(token));
    permits.release();
    CHECK(permits.acquire_interruptible());
    fairlock::binary_semaphore full(full.max());
    auto const too_many = std::errc::value_too_large;
    CHECK(throws(too_many, [&] { full.release(); }));
    CHECK(throws(too_many, [&] { full.release(full.max() + 1); }));
}

void recursive_mutexes() {
    static fairlock::recursive_mutex recursive;
    timed_mutex(recursive);
    std::lock_guard first(recursive);
    {
        std::unique_lock second(recursive, std::try_to_lock);
        std::unique_lock third(recursive, 1ms);
        std::scoped_lock fourth(recursive, exclusive);
        CHECK(second && third);
    }
    std::thread([] { timed_lock_in_vain(recursive); }).join();
    std::condition_variable_any changed;
    CHECK(changed.wait_for(recursive, 1ms) == std::cv_status::timeout);
    CHECK(recursive.try_lock());
    recursive.unlock();
}

#ifdef __cpp_lib_jthread
void stop_tokens() {
    std::stop_source source;
    auto const never = [] { return false; };
    std::unique_lock lock(guard_of_turn);
    std::jthread stopper([&] {
        // Not before the wait below has begun.
        std::lock_guard guard(guard_of_turn);
        source.request_stop();
    });
    CHECK(!turned.wait(lock, source.get_token(), never));
    CHECK(lock.owns_lock());
    std::stop_source other;
    CHECK(!turned.wait_for(lock, other.get_token(), 1ms, never));
    CHECK(!turned.wait_until(lock, other.get_token(), hasty_clock::now() + 1ms, never));
    auto const late = std::chrono::steady_clock::now() + 1h;
    CHECK(!turned.wait_until(lock, source.get_token(), late, never));
    CHECK(!turned.wait_for(lock, source.get_token(), 1h, never));
    CHECK(turned.wait_for(lock, source.get_token(), 1h, [] { return true; }));
    CHECK(!guard_of_turn.lock_unless(source.get_token()));
    std::unique_lock writer(shared);
    CHECK(!shared.lock_unless(source.get_token()));
    CHECK(!shared.lock_shared_unless(source.get_token()));
    writer.unlock();
    // What is free is taken without a look at the token.
    CHECK(shared.lock_unless(source.get_token()));
    shared.unlock();
    CHECK(shared.lock_shared_unless(other.get_token()));
    shared.unlock_shared();
    CHECK(exclusive.lock_unless(other.get_token()));
    exclusive.unlock();

    fairlock::binary_semaphore none(0);
    CHECK(!none.acquire_unless(source.get_token()));

    std::condition_variable_any any;
    CHECK(!any.wait(lock, source.get_token(), never));
}
#endif

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
    timed_mutex(exclusive);
    fairlock::cancel_token token;
    token.cancel();
    std::unique_lock lock(exclusive);
    CHECK(!exclusive.lock_unless(token));
    exclusive.unlock_fair();
    CHECK(exclusive.lock_unless(token));
    exclusive.unlock();
    CHECK(exclusive.lock_interruptible());
}

void ranges_as_mutexes() {
    fairlock::range_lock lock;
    fairlock::range_mutex low(lock, 0, 99), high(lock, 100, 199), same(lock, 50, 60);
    {
        std::scoped_lock both(low, high);
        timed_lock_in_vain(same);
        CHECK(!same.try_lock_shared() && !same.try_lock_shared_for(1ms));
    }
    {
        std::shared_lock reader(low);
        std::shared_lock second(same, std::try_to_lock);
        CHECK(second && !fairlock::range_mutex(lock, 99, 99).try_lock());
        std::unique_lock other(high, 1h);
        CHECK(other);
    }
    std::condition_variable_any changed;
    std::unique_lock held(low);
    CHECK(changed.wait_for(held, 1ms) == std::cv_status::timeout);
    held.unlock();
    CHECK(same.try_lock_shared_until(hasty_clock::now() + 1h));
    same.unlock_shared();
    fairlock::range_mutex inverted(lock, 2, 1);
    CHECK(throws(std::errc::invalid_argument, [&] { inverted.lock(); }));
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
    alarm(500);
    the_policies();
    several_at_once();
    condition_variables();
    downgrade();
    waits_that_are_ended();
    mutexes();
    recursive_mutexes();
    own_condition_variable();
    semaphores();
#ifdef __cpp_lib_jthread
    stop_tokens();
#endif
    ranges();
    ranges_as_mutexes();
}

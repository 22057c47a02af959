/*
 * fairlock.hpp: the locks of fairlock.h for C++17, header only. Link with -lfairlock.
 *
 *   fairlock::shared_mutex         as std::shared_timed_mutex: for std::shared_lock,
 *                                  std::unique_lock, std::scoped_lock, and
 *                                  std::condition_variable_any, as all of them
 *   fairlock::mutex                as std::timed_mutex
 *   fairlock::recursive_mutex      as std::recursive_timed_mutex
 *   fairlock::condition_variable   as std::condition_variable, for fairlock::mutex
 *   fairlock::counting_semaphore   as std::counting_semaphore, which is C++20; binary_semaphore
 *   fairlock::range_lock           ranges of std::uint64_t, held by guards
 *   fairlock::range_mutex          one range of a range_lock, for the guards of the standard
 *   fairlock::cancel_token         ends waits from outside; in C++20 std::stop_token does, too
 *   fairlock::downgrade            from std::unique_lock to std::shared_lock, without a gap
 *   fairlock::lock_guard           as std::lock_guard; shared_lock_guard, for reading. clang's
 *                                  -Wthread-safety knows them, and not those of the standard
 *
 * timed_mutex, recursive_timed_mutex and shared_timed_mutex are other names of the first
 * three.
 *
 * Locks are initialised statically (their constructors are constexpr). Their destructors give
 * back what the library keeps for a lock that was waited for. But for the range lock, the
 * semaphore, and those with a policy or a batch size of their own, they leave a lock: one that
 * is a static may be used until the very end.
 * A mutex may be destroyed as std::mutex, by its last owner right after the unlock, even if
 * an earlier owner's unlock() has not returned. So may a shared_mutex with the default policy
 * as to unlock(), and a semaphore as to release(); unlock_shared() must have returned, as must
 * all calls with others.
 * Errors that the standard has as exceptions are std::system_error; with -fno-exceptions
 * they end the program, which says why. Giving up what is not held is a mistake of the
 * program, checked by assert.
 *
 * clang's -Wthread-safety knows shared_mutex, mutex and recursive_mutex, and what is marked as
 * guarded: int value FAIRLOCK_THREAD_SAFETY(guarded_by(mutex)); with any attribute of clang's.
 */
#ifndef FAIRLOCK_HPP
#define FAIRLOCK_HPP

#if __cplusplus < 201703L
#error "fairlock.hpp needs C++17: compile with -std=c++17 or later, or use fairlock.h"
#else

#include <atomic>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <system_error>
#include <type_traits>
#include <utility>
#if __cplusplus >= 202002L
#include <version>
#endif
#ifdef __cpp_lib_jthread
#include <stop_token>
#endif

#include "fairlock.h"

#ifdef __clang__
#define FAIRLOCK_THREAD_SAFETY(attribute) __attribute__((attribute))
#if __has_attribute(reentrant_capability)
#define FAIRLOCK_REENTRANT FAIRLOCK_THREAD_SAFETY(reentrant_capability)
#else
#define FAIRLOCK_REENTRANT
#endif
#else
#define FAIRLOCK_THREAD_SAFETY(attribute)
#define FAIRLOCK_REENTRANT
#endif
#define FAIRLOCK_ACQUIRES FAIRLOCK_THREAD_SAFETY(acquire_capability())
#define FAIRLOCK_ACQUIRES_SHARED FAIRLOCK_THREAD_SAFETY(acquire_shared_capability())
#define FAIRLOCK_TRIES FAIRLOCK_THREAD_SAFETY(try_acquire_capability(true))
#define FAIRLOCK_TRIES_SHARED FAIRLOCK_THREAD_SAFETY(try_acquire_shared_capability(true))
#define FAIRLOCK_RELEASES FAIRLOCK_THREAD_SAFETY(release_capability())
#define FAIRLOCK_RELEASES_SHARED FAIRLOCK_THREAD_SAFETY(release_shared_capability())

namespace fairlock {

namespace detail {

[[noreturn]] inline void fail(int code) {
#ifdef __cpp_exceptions
    throw std::system_error(code, std::generic_category());
#else
    std::fprintf(stderr, "fairlock: %s\n", std::strerror(code));
    std::abort();
#endif
}

inline void check(int code) {
    if (code != 0) {
        fail(code);
    }
}

/* Whether it was taken; `given_up` says that it was not, and is not an error. */
inline bool taken(int code, int given_up) {
    if (code == given_up) {
        return false;
    }
    check(code);
    return true;
}

inline void succeeds(int code) noexcept {
    assert(code == 0 && "what is given up must be held");
    static_cast<void>(code);
}

/* A time since a clock's epoch, or as good as never if it is too far away for it. */
template <class Rep, class Period>
std::timespec to_timespec(std::chrono::duration<Rep, Period> time) {
    using namespace std::chrono;
    constexpr double limit = 1e10; /* three centuries */
    double const roughly = duration<double>(time).count();
    if (!(roughly < limit)) {
        return {static_cast<std::time_t>(limit), 0};
    }
    if (roughly < -limit) {
        return {-1, 0};
    }
    auto const whole = floor<seconds>(time);
    auto const rest = ceil<nanoseconds>(time - whole);
    if (rest >= seconds(1)) {
        return {static_cast<std::time_t>(whole.count() + 1), 0};
    }
    return {static_cast<std::time_t>(whole.count()), static_cast<long>(rest.count())};
}

/* Calls `wait(clock, deadline)`, which returns an error number, until `time` on any clock. */
template <class Clock, class Span, class Wait>
int wait_until(std::chrono::time_point<Clock, Span> const &time, Wait wait) {
    using namespace std::chrono;
    if constexpr (std::is_same_v<Clock, steady_clock> || std::is_same_v<Clock, system_clock>) {
        auto const deadline = to_timespec(time.time_since_epoch());
        auto const clock = std::is_same_v<Clock, steady_clock> ? CLOCK_MONOTONIC : CLOCK_REALTIME;
        return wait(clock, &deadline);
    } else {
        /* A clock that the system does not know: as long as it says, again and again. */
        for (;;) {
            auto const now = Clock::now();
            auto const left = time > now ? duration<double>(time - now) : duration<double>(0);
            auto const deadline = to_timespec(steady_clock::now().time_since_epoch() + left);
            int const code = wait(CLOCK_MONOTONIC, &deadline);
            if (code != ETIMEDOUT || Clock::now() >= time) {
                return code;
            }
        }
    }
}

/* The same, once: of an unknown clock a wait that ended too soon was one for no reason. */
template <class Clock, class Span, class Wait>
int wait_once_until(std::chrono::time_point<Clock, Span> const &time, Wait wait) {
    bool waited = false;
    return wait_until(time, [&](int clock, std::timespec const *deadline) {
        return std::exchange(waited, true) ? 0 : wait(clock, deadline);
    });
}

template <class Rep, class Period, class Wait>
int wait_for(std::chrono::duration<Rep, Period> const &time, Wait wait) {
    using namespace std::chrono;
    auto const now = to_timespec(steady_clock::now().time_since_epoch());
    auto deadline = to_timespec(time);
    if (deadline.tv_sec < 0) {
        deadline = {0, 0};
    }
    deadline.tv_sec += now.tv_sec;
    deadline.tv_nsec += now.tv_nsec;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec += 1;
        deadline.tv_nsec -= 1000000000;
    }
    return wait(CLOCK_MONOTONIC, &deadline);
}

} // namespace detail

/* Ends waits from outside: every wait that was given it, now or later. Final. */
class cancel_token {
  public:
    constexpr cancel_token() noexcept = default;
    cancel_token(cancel_token const &) = delete;
    cancel_token &operator=(cancel_token const &) = delete;

    void cancel() { detail::check(fairlock_cancel(&native_)); }
    bool is_cancelled() const noexcept { return fairlock_is_cancelled(&native_); }

    using native_handle_type = fairlock_cancel_t *;
    native_handle_type native_handle() noexcept { return &native_; }

  private:
    fairlock_cancel_t native_ = FAIRLOCK_CANCEL_INIT;
};

#ifdef __cpp_lib_jthread
namespace detail {

/* A token that is cancelled when a stop is requested. */
class stop_as_cancel {
  public:
    explicit stop_as_cancel(std::stop_token stop) : callback_(std::move(stop), cancel{&token_}) {}
    cancel_token &token() noexcept { return token_; }

  private:
    struct cancel {
        cancel_token *token;
        void operator()() const noexcept { static_cast<void>(fairlock_cancel(token->native_handle())); }
    };
    /* The callback has returned when it is destroyed, and so before the token. */
    cancel_token token_;
    std::stop_callback<cancel> callback_;
};

} // namespace detail
#endif

/* How a shared_mutex decides which thread goes next: see fairlock.h. */
enum class preset : std::uint32_t {
    default_policy = FAIRLOCK_DEFAULT,
    unfair = FAIRLOCK_UNFAIR,
    handoff = FAIRLOCK_HANDOFF,
    no_reader_spin = FAIRLOCK_NO_READER_SPIN,
    writer_phase = FAIRLOCK_WRITER_PHASE,
};

/* A reader/writer lock: SharedTimedMutex, and more. */
class FAIRLOCK_THREAD_SAFETY(capability("shared_mutex")) shared_mutex {
    /* First, as their types follow from what they return. */
    auto write_until() noexcept {
        return [this](int clock, std::timespec const *deadline) {
            return fairlock_rwlock_write_until(&native_, clock, deadline);
        };
    }
    auto read_until() noexcept {
        return [this](int clock, std::timespec const *deadline) {
            return fairlock_rwlock_read_until(&native_, clock, deadline);
        };
    }

  public:
    constexpr shared_mutex() noexcept = default;
    explicit constexpr shared_mutex(preset policy) noexcept
        : native_ FAIRLOCK_RWLOCK_INIT_POLICY(static_cast<std::uint32_t>(policy)) {}
    explicit shared_mutex(fairlock_policy_t const &policy) {
        detail::check(fairlock_rwlock_init(&native_, &policy));
    }
    ~shared_mutex() {
        if (fairlock_rwlock_trim(&native_) == ENOTSUP) {
            fairlock_rwlock_destroy(&native_);
        }
    }
    shared_mutex(shared_mutex const &) = delete;
    shared_mutex &operator=(shared_mutex const &) = delete;

    void lock() FAIRLOCK_ACQUIRES { detail::check(fairlock_rwlock_write(&native_)); }
    bool try_lock() FAIRLOCK_TRIES {
        return detail::taken(fairlock_rwlock_try_write(&native_), EBUSY);
    }
    template <class Rep, class Period>
    bool try_lock_for(std::chrono::duration<Rep, Period> const &time) FAIRLOCK_TRIES {
        return detail::taken(detail::wait_for(time, write_until()), ETIMEDOUT);
    }
    template <class Clock, class Duration>
    bool try_lock_until(std::chrono::time_point<Clock, Duration> const &time) FAIRLOCK_TRIES {
        return detail::taken(detail::wait_until(time, write_until()), ETIMEDOUT);
    }
    void unlock() noexcept FAIRLOCK_RELEASES {
        detail::succeeds(fairlock_rwlock_unlock_write(&native_));
    }

    void lock_shared() FAIRLOCK_ACQUIRES_SHARED { detail::check(fairlock_rwlock_read(&native_)); }
    bool try_lock_shared() FAIRLOCK_TRIES_SHARED {
        return detail::taken(fairlock_rwlock_try_read(&native_), EBUSY);
    }
    template <class Rep, class Period>
    bool try_lock_shared_for(std::chrono::duration<Rep, Period> const &time) FAIRLOCK_TRIES_SHARED {
        return detail::taken(detail::wait_for(time, read_until()), ETIMEDOUT);
    }
    template <class Clock, class Duration>
    bool try_lock_shared_until(std::chrono::time_point<Clock, Duration> const &time)
        FAIRLOCK_TRIES_SHARED {
        return detail::taken(detail::wait_until(time, read_until()), ETIMEDOUT);
    }
    void unlock_shared() noexcept FAIRLOCK_RELEASES_SHARED {
        detail::succeeds(fairlock_rwlock_unlock_read(&native_));
    }

    /* Beyond the standard. Those that can be ended: false if the wait was ended. */
    bool lock_unless(cancel_token &token) FAIRLOCK_TRIES {
        auto const code = fairlock_rwlock_write_cancellable(&native_, token.native_handle());
        return detail::taken(code, ECANCELED);
    }
    bool lock_shared_unless(cancel_token &token) FAIRLOCK_TRIES_SHARED {
        auto const code = fairlock_rwlock_read_cancellable(&native_, token.native_handle());
        return detail::taken(code, ECANCELED);
    }
#ifdef __cpp_lib_jthread
    bool lock_unless(std::stop_token stop) FAIRLOCK_TRIES {
        return try_lock() || lock_unless(detail::stop_as_cancel(std::move(stop)).token());
    }
    bool lock_shared_unless(std::stop_token stop) FAIRLOCK_TRIES_SHARED {
        return try_lock_shared() ||
               lock_shared_unless(detail::stop_as_cancel(std::move(stop)).token());
    }
#endif
    bool lock_interruptible() FAIRLOCK_TRIES {
        return detail::taken(fairlock_rwlock_write_interruptible(&native_), EINTR);
    }
    bool lock_shared_interruptible() FAIRLOCK_TRIES_SHARED {
        return detail::taken(fairlock_rwlock_read_interruptible(&native_), EINTR);
    }
    /* For a thread that may hold it as a reader already. */
    void lock_shared_recursive() FAIRLOCK_ACQUIRES_SHARED {
        detail::check(fairlock_rwlock_read_recursive(&native_));
    }
    /* From writer to reader, with no other writer in between. */
    void unlock_and_lock_shared() noexcept FAIRLOCK_RELEASES FAIRLOCK_ACQUIRES_SHARED {
        detail::succeeds(fairlock_rwlock_downgrade(&native_));
    }

    using native_handle_type = fairlock_rwlock_t *;
    native_handle_type native_handle() noexcept { return &native_; }

  private:
    fairlock_rwlock_t native_ = FAIRLOCK_RWLOCK_INIT;
};

using shared_timed_mutex = shared_mutex;

/* Turns a writer's guard into a reader's, with no other writer in between. Throws
 * std::system_error (operation_not_permitted) if it owns nothing. */
inline std::shared_lock<shared_mutex> downgrade(std::unique_lock<shared_mutex> &&guard)
    FAIRLOCK_THREAD_SAFETY(no_thread_safety_analysis) {
    if (!guard.owns_lock()) {
        detail::check(EPERM);
    }
    shared_mutex *const mutex = guard.release();
    mutex->unlock_and_lock_shared();
    return std::shared_lock<shared_mutex>(*mutex, std::adopt_lock);
}

/* A mutex: TimedLockable. Bounded as the reader/writer lock, or by batches of 1, 4 or 8. */
class FAIRLOCK_THREAD_SAFETY(capability("mutex")) mutex {
    auto until() noexcept {
        return [this](int clock, std::timespec const *deadline) {
            return fairlock_mutex_lock_until(&native_, clock, deadline);
        };
    }

  public:
    constexpr mutex() noexcept = default;
    explicit mutex(std::uint32_t batch) { detail::check(fairlock_mutex_init(&native_, batch)); }
    ~mutex() {
        if (fairlock_mutex_trim(&native_) == ENOTSUP) {
            fairlock_mutex_destroy(&native_);
        }
    }
    mutex(mutex const &) = delete;
    mutex &operator=(mutex const &) = delete;

    void lock() FAIRLOCK_ACQUIRES { detail::check(fairlock_mutex_lock(&native_)); }
    bool try_lock() FAIRLOCK_TRIES {
        return detail::taken(fairlock_mutex_try_lock(&native_), EBUSY);
    }
    template <class Rep, class Period>
    bool try_lock_for(std::chrono::duration<Rep, Period> const &time) FAIRLOCK_TRIES {
        return detail::taken(detail::wait_for(time, until()), ETIMEDOUT);
    }
    template <class Clock, class Duration>
    bool try_lock_until(std::chrono::time_point<Clock, Duration> const &time) FAIRLOCK_TRIES {
        return detail::taken(detail::wait_until(time, until()), ETIMEDOUT);
    }
    void unlock() noexcept FAIRLOCK_RELEASES { detail::succeeds(fairlock_mutex_unlock(&native_)); }

    /* Beyond the standard. Those that can be ended: false if the wait was ended. */
    bool lock_unless(cancel_token &token) FAIRLOCK_TRIES {
        auto const code = fairlock_mutex_lock_cancellable(&native_, token.native_handle());
        return detail::taken(code, ECANCELED);
    }
#ifdef __cpp_lib_jthread
    bool lock_unless(std::stop_token stop) FAIRLOCK_TRIES {
        return try_lock() || lock_unless(detail::stop_as_cancel(std::move(stop)).token());
    }
#endif
    bool lock_interruptible() FAIRLOCK_TRIES {
        return detail::taken(fairlock_mutex_lock_interruptible(&native_), EINTR);
    }
    /* Those that wait now have it before anyone who comes later. */
    void unlock_fair() noexcept FAIRLOCK_RELEASES {
        detail::succeeds(fairlock_mutex_unlock_fair(&native_));
    }

    using native_handle_type = fairlock_mutex_t *;
    native_handle_type native_handle() noexcept { return &native_; }

  private:
    fairlock_mutex_t native_ = FAIRLOCK_MUTEX_INIT;
};

using timed_mutex = mutex;

/* A mutex that a thread may lock again while it holds it: TimedLockable. It is free when its
 * owner has unlocked it as often as it locked it. */
class FAIRLOCK_THREAD_SAFETY(capability("recursive_mutex")) FAIRLOCK_REENTRANT recursive_mutex {
  public:
    constexpr recursive_mutex() noexcept = default;
    recursive_mutex(recursive_mutex const &) = delete;
    recursive_mutex &operator=(recursive_mutex const &) = delete;

    /* Throws std::system_error (resource_unavailable_try_again) if it is held too often. */
    void lock() FAIRLOCK_ACQUIRES {
        if (!is_mine()) {
            mutex_.lock();
            first(true);
        } else if (!again()) {
            detail::fail(EAGAIN);
        }
    }
    bool try_lock() FAIRLOCK_TRIES { return is_mine() ? again() : first(mutex_.try_lock()); }
    template <class Rep, class Period>
    bool try_lock_for(std::chrono::duration<Rep, Period> const &time) FAIRLOCK_TRIES {
        return is_mine() ? again() : first(mutex_.try_lock_for(time));
    }
    template <class Clock, class Duration>
    bool try_lock_until(std::chrono::time_point<Clock, Duration> const &time) FAIRLOCK_TRIES {
        return is_mine() ? again() : first(mutex_.try_lock_until(time));
    }
    void unlock() noexcept FAIRLOCK_RELEASES {
        assert(is_mine() && "what is given up must be held");
        if (more_ > 0) {
            more_--;
        } else {
            owner_.store(nullptr, std::memory_order_relaxed);
            mutex_.unlock();
        }
    }

  private:
    /* An address of the thread's own. It is not one that this header makes: each shared library
     * whose symbols are hidden would have another. */
    static void const *me() noexcept { return &errno; }
    /* Relaxed: a thread sees what it wrote itself, and nobody else writes its address. */
    bool is_mine() const noexcept { return owner_.load(std::memory_order_relaxed) == me(); }
    bool first(bool taken) noexcept {
        if (taken) {
            owner_.store(me(), std::memory_order_relaxed);
        }
        return taken;
    }
    bool again() noexcept {
        if (more_ == UINT32_MAX) {
            return false;
        }
        more_++;
        return true;
    }

    mutex mutex_;
    std::atomic<void const *> owner_{nullptr};
    std::uint32_t more_ = 0;
};

using recursive_timed_mutex = recursive_mutex;

/* As std::lock_guard. */
template <class Mutex> class FAIRLOCK_THREAD_SAFETY(scoped_lockable) lock_guard {
  public:
    explicit lock_guard(Mutex &mutex) FAIRLOCK_THREAD_SAFETY(acquire_capability(mutex))
        : mutex_(mutex) {
        mutex.lock();
    }
    ~lock_guard() FAIRLOCK_RELEASES { mutex_.unlock(); }
    lock_guard(lock_guard const &) = delete;
    lock_guard &operator=(lock_guard const &) = delete;

  private:
    Mutex &mutex_;
};

/* The same, for reading. */
template <class Mutex> class FAIRLOCK_THREAD_SAFETY(scoped_lockable) shared_lock_guard {
  public:
    explicit shared_lock_guard(Mutex &mutex)
        FAIRLOCK_THREAD_SAFETY(acquire_shared_capability(mutex))
        : mutex_(mutex) {
        mutex.lock_shared();
    }
    ~shared_lock_guard() FAIRLOCK_RELEASES { mutex_.unlock_shared(); }
    shared_lock_guard(shared_lock_guard const &) = delete;
    shared_lock_guard &operator=(shared_lock_guard const &) = delete;

  private:
    Mutex &mutex_;
};

/* As std::condition_variable, for std::unique_lock<fairlock::mutex>: first come, first
 * notified. A wait does not return for no reason, and one that ends otherwise has not used a
 * notification up. The mutex has no batches. All calls must have returned before
 * it is destroyed. */
class condition_variable {
    auto until(mutex &mutex) noexcept {
        return [this, &mutex](int clock, std::timespec const *deadline) {
            return fairlock_cond_wait_until(&native_, mutex.native_handle(), clock, deadline);
        };
    }
    auto until(mutex &mutex, cancel_token &token) noexcept {
        return [this, &mutex, &token](int clock, std::timespec const *deadline) {
            return fairlock_cond_wait_cancellable_until(&native_, mutex.native_handle(),
                                                        token.native_handle(), clock, deadline);
        };
    }
    static std::cv_status status(int code) {
        return detail::taken(code, ETIMEDOUT) ? std::cv_status::no_timeout
                                              : std::cv_status::timeout;
    }

  public:
    constexpr condition_variable() noexcept = default;
    ~condition_variable() { fairlock_cond_trim(&native_); }
    condition_variable(condition_variable const &) = delete;
    condition_variable &operator=(condition_variable const &) = delete;

    void notify_one() noexcept { static_cast<void>(fairlock_cond_signal(&native_)); }
    void notify_all() noexcept { static_cast<void>(fairlock_cond_broadcast(&native_)); }

    void wait(std::unique_lock<mutex> &lock) {
        detail::check(fairlock_cond_wait(&native_, lock.mutex()->native_handle()));
    }
    template <class Predicate> void wait(std::unique_lock<mutex> &lock, Predicate predicate) {
        while (!predicate()) {
            wait(lock);
        }
    }
    template <class Clock, class Duration>
    std::cv_status wait_until(std::unique_lock<mutex> &lock,
                              std::chrono::time_point<Clock, Duration> const &time) {
        return status(detail::wait_once_until(time, until(*lock.mutex())));
    }
    template <class Clock, class Duration, class Predicate>
    bool wait_until(std::unique_lock<mutex> &lock,
                    std::chrono::time_point<Clock, Duration> const &time, Predicate predicate) {
        while (!predicate()) {
            if (wait_until(lock, time) == std::cv_status::timeout) {
                return predicate();
            }
        }
        return true;
    }
    template <class Rep, class Period>
    std::cv_status wait_for(std::unique_lock<mutex> &lock,
                            std::chrono::duration<Rep, Period> const &time) {
        return status(detail::wait_for(time, until(*lock.mutex())));
    }
    template <class Rep, class Period, class Predicate>
    bool wait_for(std::unique_lock<mutex> &lock, std::chrono::duration<Rep, Period> const &time,
                  Predicate predicate) {
        int const code = detail::wait_for(time, [&](int clock, std::timespec const *deadline) {
            int result = 0;
            while (result == 0 && !predicate()) {
                result = until(*lock.mutex())(clock, deadline);
            }
            return result;
        });
        return detail::taken(code, ETIMEDOUT) || predicate();
    }

    /* Beyond the standard: also until the token is cancelled. Whether the predicate holds. */
    template <class Predicate>
    bool wait_unless(std::unique_lock<mutex> &lock, cancel_token &token, Predicate predicate) {
        int code = 0;
        while (code == 0 && !predicate()) {
            code = fairlock_cond_wait_cancellable(&native_, lock.mutex()->native_handle(),
                                                  token.native_handle());
        }
        return detail::taken(code, ECANCELED) || predicate();
    }

#ifdef __cpp_lib_jthread
    /* As those of std::condition_variable_any: also until a stop is requested. */
    template <class Predicate>
    bool wait(std::unique_lock<mutex> &lock, std::stop_token stop, Predicate predicate) {
        detail::stop_as_cancel cancel(std::move(stop));
        return wait_unless(lock, cancel.token(), std::move(predicate));
    }
    template <class Clock, class Duration, class Predicate>
    bool wait_until(std::unique_lock<mutex> &lock, std::stop_token stop,
                    std::chrono::time_point<Clock, Duration> const &time, Predicate predicate) {
        detail::stop_as_cancel cancel(std::move(stop));
        while (!predicate()) {
            int const code = detail::wait_once_until(time, until(*lock.mutex(), cancel.token()));
            if (code == ECANCELED || !detail::taken(code, ETIMEDOUT)) {
                return predicate();
            }
        }
        return true;
    }
    template <class Rep, class Period, class Predicate>
    bool wait_for(std::unique_lock<mutex> &lock, std::stop_token stop,
                  std::chrono::duration<Rep, Period> const &time, Predicate predicate) {
        detail::stop_as_cancel cancel(std::move(stop));
        int const code = detail::wait_for(time, [&](int clock, std::timespec const *deadline) {
            int result = 0;
            while (result == 0 && !predicate()) {
                result = until(*lock.mutex(), cancel.token())(clock, deadline);
            }
            return result == ECANCELED ? ETIMEDOUT : result;
        });
        return detail::taken(code, ETIMEDOUT) || predicate();
    }
#endif

    using native_handle_type = fairlock_cond_t *;
    native_handle_type native_handle() noexcept { return &native_; }

  private:
    fairlock_cond_t native_ = FAIRLOCK_COND_INIT;
};

/* As std::counting_semaphore, in C++17, too: first come, first served, whatever each wants. With
 * any LeastMaxValue it counts up to 2^32 - 1. */
template <std::ptrdiff_t LeastMaxValue = UINT32_MAX> class counting_semaphore {
    static_assert(LeastMaxValue >= 0 && LeastMaxValue <= UINT32_MAX, "more than is counted");

    auto until(std::uint32_t count) noexcept {
        return [this, count](int clock, std::timespec const *deadline) {
            return fairlock_sem_wait_until(&native_, count, clock, deadline);
        };
    }

  public:
    static constexpr std::ptrdiff_t(max)() noexcept { return UINT32_MAX; }

    /* `desired` is at least 0 and at most max(). */
    explicit constexpr counting_semaphore(std::ptrdiff_t desired) noexcept
        : native_ FAIRLOCK_SEM_INIT(static_cast<std::uint32_t>(desired)) {
        assert(desired >= 0 && desired <= UINT32_MAX);
    }
    ~counting_semaphore() { fairlock_sem_destroy(&native_); }
    counting_semaphore(counting_semaphore const &) = delete;
    counting_semaphore &operator=(counting_semaphore const &) = delete;

    /* Throws std::system_error (value_too_large) if there would be more than max(). */
    void release(std::ptrdiff_t update = 1) {
        assert(update >= 0);
        bool const countable = update <= UINT32_MAX;
        auto const count = static_cast<std::uint32_t>(update);
        detail::check(countable ? fairlock_sem_post(&native_, count) : EOVERFLOW);
    }
    /* With `count`, here and below, beyond the standard: so many together. */
    void acquire(std::uint32_t count = 1) { detail::check(fairlock_sem_wait(&native_, count)); }
    bool try_acquire(std::uint32_t count = 1) noexcept {
        return fairlock_sem_try_wait(&native_, count) == 0;
    }
    template <class Rep, class Period>
    bool try_acquire_for(std::chrono::duration<Rep, Period> const &time, std::uint32_t count = 1) {
        return detail::taken(detail::wait_for(time, until(count)), ETIMEDOUT);
    }
    template <class Clock, class Duration>
    bool try_acquire_until(std::chrono::time_point<Clock, Duration> const &time,
                           std::uint32_t count = 1) {
        return detail::taken(detail::wait_until(time, until(count)), ETIMEDOUT);
    }

    /* Beyond the standard: false if the wait was ended. */
    bool acquire_unless(cancel_token &token, std::uint32_t count = 1) {
        auto const code = fairlock_sem_wait_cancellable(&native_, count, token.native_handle());
        return detail::taken(code, ECANCELED);
    }
#ifdef __cpp_lib_jthread
    bool acquire_unless(std::stop_token stop, std::uint32_t count = 1) {
        return try_acquire(count) ||
               acquire_unless(detail::stop_as_cancel(std::move(stop)).token(), count);
    }
#endif
    bool acquire_interruptible(std::uint32_t count = 1) {
        return detail::taken(fairlock_sem_wait_interruptible(&native_, count), EINTR);
    }

    using native_handle_type = fairlock_sem_t *;
    native_handle_type native_handle() noexcept { return &native_; }

  private:
    fairlock_sem_t native_;
};

using binary_semaphore = counting_semaphore<1>;

/* A range held for writing, or else for reading; or nothing. The two are types that have
 * nothing to do with each other, so that neither ends up in the other's place. */
template <bool Writes> class basic_range {
  public:
    basic_range() noexcept = default;
    basic_range(basic_range &&other) noexcept : native_(other.take()) {}
    basic_range &operator=(basic_range &&other) noexcept {
        if (this != &other) {
            release();
            native_ = other.take();
        }
        return *this;
    }
    ~basic_range() { release(); }

    bool owns_lock() const noexcept {
        return fairlock_range_get(&native_, nullptr, nullptr, nullptr) == 0;
    }
    explicit operator bool() const noexcept { return owns_lock(); }
    /* The first and the last position of the range: both belong to it. */
    std::uint64_t start() const {
        std::uint64_t start = 0;
        detail::check(fairlock_range_get(&native_, &start, nullptr, nullptr));
        return start;
    }
    std::uint64_t last() const {
        std::uint64_t last = 0;
        detail::check(fairlock_range_get(&native_, nullptr, &last, nullptr));
        return last;
    }
    /* Gives up the range before the guard's end. */
    void unlock() { detail::check(fairlock_range_unlock(&native_)); }
    /* Gives up all but this part. */
    void shrink(std::uint64_t start, std::uint64_t last) {
        detail::check(fairlock_range_shrink(&native_, start, last));
    }
    /* Keeps what is below `mid`, and returns the rest. */
    basic_range split(std::uint64_t mid) {
        basic_range upper;
        detail::check(fairlock_range_split(&native_, mid, &upper.native_));
        return upper;
    }

    using native_handle_type = fairlock_range_t *;
    native_handle_type native_handle() noexcept { return &native_; }

  private:
    friend basic_range<false> downgrade(basic_range<true> &&guard);

    fairlock_range_t take() noexcept {
        return std::exchange(native_, fairlock_range_t FAIRLOCK_RANGE_INIT);
    }
    void release() noexcept { static_cast<void>(fairlock_range_unlock(&native_)); }

    fairlock_range_t native_ = FAIRLOCK_RANGE_INIT;
};

/* A range held for reading, or nothing. */
using read_range = basic_range<false>;
/* A range held for writing, or nothing. */
using write_range = basic_range<true>;

/* Turns a writer's range into a reader's, with no other writer in between. */
inline read_range downgrade(write_range &&guard) {
    detail::check(fairlock_range_downgrade(&guard.native_));
    read_range reader;
    reader.native_ = guard.take();
    return reader;
}

/* A lock on closed ranges of std::uint64_t. Locking throws std::system_error
 * (invalid_argument) if `last` is before `start`; those that may give up return a guard
 * that owns nothing then. */
class range_lock {
    /* First, as their types follow from what they return. */
    auto read_until(read_range &guard, std::uint64_t start, std::uint64_t last) noexcept {
        return [this, &guard, start, last](int clock, std::timespec const *deadline) {
            return fairlock_range_read_until(&native_, guard.native_handle(), start, last, clock,
                                             deadline);
        };
    }
    auto write_until(write_range &guard, std::uint64_t start, std::uint64_t last) noexcept {
        return [this, &guard, start, last](int clock, std::timespec const *deadline) {
            return fairlock_range_write_until(&native_, guard.native_handle(), start, last, clock,
                                              deadline);
        };
    }

  public:
    constexpr range_lock() noexcept = default;
    explicit range_lock(fairlock_range_policy_t const &policy) {
        detail::check(fairlock_range_lock_init(&native_, &policy));
    }
    range_lock(range_lock const &) = delete;
    range_lock &operator=(range_lock const &) = delete;
    /* No range may be held any more. */
    ~range_lock() { detail::succeeds(fairlock_range_lock_destroy(&native_)); }

    read_range read(std::uint64_t start, std::uint64_t last) {
        read_range guard;
        detail::check(fairlock_range_read(&native_, guard.native_handle(), start, last));
        return guard;
    }
    write_range write(std::uint64_t start, std::uint64_t last) {
        write_range guard;
        detail::check(fairlock_range_write(&native_, guard.native_handle(), start, last));
        return guard;
    }
    read_range try_read(std::uint64_t start, std::uint64_t last) {
        read_range guard;
        detail::taken(fairlock_range_try_read(&native_, guard.native_handle(), start, last), EBUSY);
        return guard;
    }
    write_range try_write(std::uint64_t start, std::uint64_t last) {
        write_range guard;
        detail::taken(fairlock_range_try_write(&native_, guard.native_handle(), start, last), EBUSY);
        return guard;
    }
    template <class Rep, class Period>
    read_range try_read_for(std::uint64_t start, std::uint64_t last,
                            std::chrono::duration<Rep, Period> const &time) {
        read_range guard;
        detail::taken(detail::wait_for(time, read_until(guard, start, last)), ETIMEDOUT);
        return guard;
    }
    template <class Rep, class Period>
    write_range try_write_for(std::uint64_t start, std::uint64_t last,
                              std::chrono::duration<Rep, Period> const &time) {
        write_range guard;
        detail::taken(detail::wait_for(time, write_until(guard, start, last)), ETIMEDOUT);
        return guard;
    }
    template <class Clock, class Duration>
    read_range try_read_until(std::uint64_t start, std::uint64_t last,
                              std::chrono::time_point<Clock, Duration> const &time) {
        read_range guard;
        detail::taken(detail::wait_until(time, read_until(guard, start, last)), ETIMEDOUT);
        return guard;
    }
    template <class Clock, class Duration>
    write_range try_write_until(std::uint64_t start, std::uint64_t last,
                                std::chrono::time_point<Clock, Duration> const &time) {
        write_range guard;
        detail::taken(detail::wait_until(time, write_until(guard, start, last)), ETIMEDOUT);
        return guard;
    }
    read_range read_unless(cancel_token &token, std::uint64_t start, std::uint64_t last) {
        read_range guard;
        detail::taken(fairlock_range_read_cancellable(&native_, guard.native_handle(), start, last,
                                                      token.native_handle()),
                      ECANCELED);
        return guard;
    }
    write_range write_unless(cancel_token &token, std::uint64_t start, std::uint64_t last) {
        write_range guard;
        detail::taken(fairlock_range_write_cancellable(&native_, guard.native_handle(), start,
                                                       last, token.native_handle()),
                      ECANCELED);
        return guard;
    }

    using native_handle_type = fairlock_range_lock_t *;
    native_handle_type native_handle() noexcept { return &native_; }

  private:
    fairlock_range_lock_t native_ = FAIRLOCK_RANGE_LOCK_INIT;
};

/* One range of a range_lock: SharedTimedLockable, so for std::unique_lock, std::shared_lock and
 * std::scoped_lock. It holds the range itself, so it is for one user at a time: others, of the
 * same range too, have one of their own. */
class range_mutex {
  public:
    /* Throws std::system_error (invalid_argument) where it is locked, if `last` is before
     * `start`. The lock must outlive it. */
    range_mutex(range_lock &lock, std::uint64_t start, std::uint64_t last) noexcept
        : lock_(&lock), start_(start), last_(last) {}
    range_mutex(range_mutex const &) = delete;
    range_mutex &operator=(range_mutex const &) = delete;

    void lock() { writes_ = lock_->write(start_, last_); }
    bool try_lock() { return keep(writes_, lock_->try_write(start_, last_)); }
    template <class Rep, class Period>
    bool try_lock_for(std::chrono::duration<Rep, Period> const &time) {
        return keep(writes_, lock_->try_write_for(start_, last_, time));
    }
    template <class Clock, class Duration>
    bool try_lock_until(std::chrono::time_point<Clock, Duration> const &time) {
        return keep(writes_, lock_->try_write_until(start_, last_, time));
    }
    void unlock() { writes_.unlock(); }

    void lock_shared() { reads_ = lock_->read(start_, last_); }
    bool try_lock_shared() { return keep(reads_, lock_->try_read(start_, last_)); }
    template <class Rep, class Period>
    bool try_lock_shared_for(std::chrono::duration<Rep, Period> const &time) {
        return keep(reads_, lock_->try_read_for(start_, last_, time));
    }
    template <class Clock, class Duration>
    bool try_lock_shared_until(std::chrono::time_point<Clock, Duration> const &time) {
        return keep(reads_, lock_->try_read_until(start_, last_, time));
    }
    void unlock_shared() { reads_.unlock(); }

  private:
    template <class Range> static bool keep(Range &kept, Range taken) {
        if (!taken) {
            return false;
        }
        kept = std::move(taken);
        return true;
    }

    range_lock *lock_;
    std::uint64_t start_, last_;
    write_range writes_;
    read_range reads_;
};

} // namespace fairlock

#undef FAIRLOCK_REENTRANT
#undef FAIRLOCK_ACQUIRES
#undef FAIRLOCK_ACQUIRES_SHARED
#undef FAIRLOCK_TRIES
#undef FAIRLOCK_TRIES_SHARED
#undef FAIRLOCK_RELEASES
#undef FAIRLOCK_RELEASES_SHARED

#endif /* C++17 */
#endif /* FAIRLOCK_HPP */

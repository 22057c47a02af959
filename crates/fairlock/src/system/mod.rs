//! What the locks need from the system beneath them. This module names nothing else of this crate.

use core::sync::atomic::{Ordering, fence};

#[cfg(any(feature = "std", fairlock_loom))]
pub(crate) mod errno;
#[cfg(feature = "std")]
pub(crate) mod fork;
pub(crate) mod word;
/// Without a system there are no forks.
#[cfg(not(feature = "std"))]
pub(crate) mod fork {
    pub(crate) const fn number() -> usize {
        0
    }
}

/// Plain memory that threads hand to each other by atomics: models check that each access happens
/// after the previous one.
#[cfg(not(fairlock_loom))]
pub(crate) use core::cell::Cell;
#[cfg(fairlock_loom)]
pub(crate) use loom::cell::Cell;

/// An atomic integer as the locks use it.
pub trait Atomic<T>: Send + Sync + 'static {
    /// A new atomic holding `value`.
    fn new(value: T) -> Self;
    /// Atomic load.
    fn load(&self, order: Ordering) -> T;
    /// Atomic store.
    fn store(&self, value: T, order: Ordering);
    /// Stores `value` and returns the previous one.
    fn swap(&self, value: T, order: Ordering) -> T;
    /// Adds, wrapping, and returns the previous value.
    fn fetch_add(&self, value: T, order: Ordering) -> T;
    /// Subtracts, wrapping, and returns the previous value.
    fn fetch_sub(&self, value: T, order: Ordering) -> T;
    /// Bitwise or; returns the previous value.
    fn fetch_or(&self, value: T, order: Ordering) -> T;
    /// Bitwise and; returns the previous value.
    fn fetch_and(&self, value: T, order: Ordering) -> T;
    /// Compare-and-exchange; never fails spuriously.
    fn compare_exchange(&self, old: T, new: T, ok: Ordering, fail: Ordering) -> Result<T, T>;
    /// Compare-and-exchange that may fail spuriously, for loops.
    fn compare_exchange_weak(&self, old: T, new: T, ok: Ordering, fail: Ordering) -> Result<T, T>;
}

/// An atomic, or a lock, that can be built in a `const`, so that a type that contains it can be a
/// `static`.
pub trait ConstZero {
    /// Zero, or free, usable in constants.
    #[allow(clippy::declare_interior_mutable_const)] // it is a constructor, never borrowed
    const ZERO: Self;
}

impl ConstZero for () {
    const ZERO: Self = ();
}

/// Makes a part of a lock that consists of atomics and of such parts: all zero, also in constants
/// if its atomics can be.
macro_rules! all_zero {
    ($name:ident of [$($needed:ident),*]: [$($atomic:tt),*], [$($part:ident),*]) => {
        impl<P: Platform> Default for $name<P> {
            fn default() -> Self {
                Self { $($atomic: $crate::system::Atomic::new(0),)* $($part: Default::default(),)* }
            }
        }

        impl<P: Platform> $crate::system::ConstZero for $name<P>
        where
            $(P::$needed: $crate::system::ConstZero,)*
        {
            const ZERO: Self = {
                use $crate::system::ConstZero;
                Self { $($atomic: ConstZero::ZERO,)* $($part: ConstZero::ZERO,)* }
            };
        }
    };
}
pub(crate) use all_zero;

/// How a [`System::wait`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// Woken, or the word did not hold the expected value, or spuriously.
    Woken,
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran in this thread while it slept.
    Interrupted,
}

/// What a lock needs from the machine beneath it.
///
/// Times are nanoseconds of one monotonic clock.
///
/// # Safety
///
/// * [`thread`](System::thread) must return the same record for the life of
///   a thread while that thread is inside a lock operation, and never the same
///   record to two live threads.
/// * The atomics must be atomic.
/// * [`wait`](System::wait) and [`wake_one`](System::wake_one) must not
///   lose a wake-up: a `wake_one` that follows a store to the word either
///   wakes a sleeping `wait`, or that `wait` sees the store.
pub unsafe trait System: Sized + Send + Sync + 'static {
    /// Pointer-sized atomic: the state words.
    type AtomicUsize: Atomic<usize>;
    /// 32-bit atomic: the words threads sleep on.
    type AtomicU32: Atomic<u32>;
    /// 64-bit atomic: the ticket word.
    type AtomicU64: Atomic<u64>;
    /// The locks' record of a thread: [`Thread<Self>`](crate::platform::Thread).
    type Thread: 'static;

    /// Tells the CPU that this is a spin loop.
    fn pause();

    /// Lets another thread have this CPU, if there is one that wants it.
    fn yield_now() {
        Self::pause();
    }

    /// Nanoseconds of a monotonic clock.
    fn now() -> u64;

    /// Sleeps while `word` holds `expected`, until woken, until `deadline`, or, where the platform
    /// can tell, until a signal handler ran (reported only when `interruptible`). May return
    /// spuriously.
    fn wait(
        word: &Self::AtomicU32,
        expected: u32,
        deadline: Option<u64>,
        interruptible: bool,
    ) -> WaitOutcome;

    /// From here on signals to the calling thread wait, until what this returns is [given back](Self::let_signals): a handler
    /// could stop the thread while it has what others need.
    #[doc(hidden)]
    #[inline(always)]
    fn hold_signals() -> Option<u64> {
        None
    }

    /// Signals come as they did before.
    #[doc(hidden)]
    #[inline(always)]
    fn let_signals(_before: Option<u64>) {}

    /// Wakes one thread that sleeps on `word`, if any does. The word must be part of a thread's
    /// record, or otherwise never be freed. If a signal handler may call this, it may
    /// [cancel](crate::wait::CancelToken::cancel) waits.
    fn wake_one(word: &Self::AtomicU32);

    /// The calling thread's record. Records are never freed while the process
    /// lives (rules 11 and 12 of `docs/rules.md`).
    fn thread() -> &'static Self::Thread;

    /// A cheap name of the calling thread for hints: zero, or the address of
    /// its record.
    fn thread_hint() -> usize;

    /// Whether [`reader_hint`](System::reader_hint) is what was set last.
    #[doc(hidden)]
    const HAS_READER_HINT: bool = false;

    /// What the calling thread [has set](System::set_reader_hint), or null. It is set once the thread reads a visible lock, so
    /// other threads need not look into their records.
    #[doc(hidden)]
    #[inline(always)]
    fn reader_hint() -> *const () {
        core::ptr::null()
    }

    /// Sets the hint of the calling thread.
    #[doc(hidden)]
    fn set_reader_hint(_hint: *const ()) {}

    /// The address that hash tables use for this one. A simulated machine numbers memory in the
    /// order in which it is asked about, so that its results do not depend on addresses.
    #[inline(always)]
    fn name_of(address: usize) -> usize {
        address
    }

    /// The CPU the calling thread is on, if finding out takes only a few nanoseconds.
    fn cpu() -> Option<u32> {
        None
    }

    /// Orders the stores of the calling thread before its loads that follow, against a thread that
    /// passes [`process_barrier`](System::process_barrier) between its own.
    #[inline(always)]
    fn light_fence() {
        fence(Ordering::SeqCst);
    }

    /// Every thread passes a full fence between the call and its return. Called only where
    /// [`has_process_barrier`](System::has_process_barrier).
    fn process_barrier() {
        fence(Ordering::SeqCst);
    }

    /// Whether there is a `process_barrier`, which makes [`light_fence`](System::light_fence)
    /// cheaper than an atomic operation.
    fn has_process_barrier() -> bool {
        false
    }

    /// How many threads can run at the same time.
    fn cpus() -> usize;

    /// The calling thread's real-time priority; zero if it has none. Asked of
    /// threads that wait for a lock whose policy wants it
    /// ([`Policy::priorities`](crate::lock::Policy::priorities)).
    fn priority() -> u8 {
        0
    }

    /// Spins until `done` accepts the word's value or `bound_ns` have passed; returns whether
    /// `done` accepted. Here the simulated machine puts the spinner to sleep until the line
    /// changes.
    fn spin_until<T, A: Atomic<T>>(word: &A, bound_ns: u64, done: impl Fn(T) -> bool) -> bool {
        let mut started = None;
        loop {
            for _ in 0..SPINS_PER_CLOCK {
                if done(word.load(Ordering::Acquire)) {
                    return true;
                }
                Self::pause();
            }
            let now = Self::now();
            if now.wrapping_sub(*started.get_or_insert(now)) >= bound_ns {
                return false;
            }
        }
    }
}

/// Pauses between two looks at the clock while spinning: a pause is 10 to 140
/// cycles, so this is at most about half a microsecond. In pauses; compared with those since the
/// last look at the clock.
const SPINS_PER_CLOCK: u32 = 8;

/// When `timeout` ends, on the platform's clock; the clock's last instant if that is beyond its
/// range (centuries).
pub(crate) fn deadline_after<P: System>(timeout: core::time::Duration) -> u64 {
    P::now().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
}

/// Implements [`Atomic`] by forwarding to the inherent methods of the type.
macro_rules! forward_atomic {
    ($atomic:ty, $int:ty) => {
        impl $crate::system::Atomic<$int> for $atomic {
            #[inline(always)]
            fn new(value: $int) -> Self {
                <$atomic>::new(value)
            }
            forward_atomic! { each:
                load(order: Ordering) -> $int;
                store(value: $int, order: Ordering) -> ();
                swap(value: $int, order: Ordering) -> $int;
                fetch_add(value: $int, order: Ordering) -> $int;
                fetch_sub(value: $int, order: Ordering) -> $int;
                fetch_or(value: $int, order: Ordering) -> $int;
                fetch_and(value: $int, order: Ordering) -> $int;
                compare_exchange(old: $int, new: $int, ok: Ordering, fail: Ordering) -> Result<$int, $int>;
                compare_exchange_weak(old: $int, new: $int, ok: Ordering, fail: Ordering) -> Result<$int, $int>;
            }
        }
    };
    (each: $($method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[inline(always)]
        fn $method(&self, $($argument: $type),*) -> $result {
            self.$method($($argument),*)
        }
    )*};
}
#[cfg(fairlock_loom)]
pub(crate) use forward_atomic;

mod core_atomics {
    use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

    forward_atomic!(AtomicUsize, usize);
    forward_atomic!(AtomicU32, u32);
    forward_atomic!(AtomicU64, u64);

    impl super::ConstZero for AtomicUsize {
        const ZERO: Self = Self::new(0);
    }
    impl super::ConstZero for AtomicU32 {
        const ZERO: Self = Self::new(0);
    }
    impl super::ConstZero for AtomicU64 {
        const ZERO: Self = Self::new(0);
    }
}

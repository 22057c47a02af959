//! The platform: the locks' operations become questions to the engine.
//!
//! Outside of a simulation the atomics are plain atomics, so that locks can be made before it and
//! looked at afterwards; but nothing can wait there.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use fairlock::lock::{Slots, VisibleReaders};
use fairlock::platform::{Atomic, ConstZero, PooledPlatform, System, WaitOutcome};
use fairlock::pool::Heap;
use fairlock::wait::Thread;

use crate::engine::{Condition, Engine, Next, Work, ask};
use crate::fiber::suspend;
use crate::sim::Sim;

/// Has the engine place a load in time, and makes it.
#[inline(always)]
fn load<A, R>(word: &A, effect: impl FnOnce() -> R) -> R {
    let address = std::ptr::from_ref(word) as usize;
    if ask(|engine| engine.load(address)) == Some(Next::Suspend) {
        suspend();
    }
    effect()
}

/// Has the engine `place` a write in time, makes it, and reports it.
#[inline(always)]
fn write<A, R>(
    word: &A,
    place: impl FnOnce(&mut dyn Engine, usize) -> Next,
    effect: impl FnOnce() -> R,
) -> R {
    let address = std::ptr::from_ref(word) as usize;
    let next = ask(|engine| place(engine, address)).unwrap_or(Next::Go);
    if next == Next::Suspend {
        suspend();
    }
    let result = effect();
    if next != Next::Go {
        ask(|engine| engine.wrote(address));
    }
    result
}

/// Has the engine place a read-modify-write in time, makes it, and reports it.
#[inline(always)]
fn modify<A, R>(word: &A, effect: impl FnOnce() -> R) -> R {
    write(word, |engine, address| engine.modify(address), effect)
}

/// Spends time.
pub(crate) fn work(work: Work) {
    if ask(|engine| engine.work(work)) == Some(Next::Suspend) {
        suspend();
    }
}

/// Enters a wait or a wake-up on a word; returns its address.
fn call(work: Work, word: &SimU32) -> usize {
    let address = std::ptr::from_ref(word) as usize;
    if ask(|engine| engine.call(work, address)) == Some(Next::Suspend) {
        suspend();
    }
    address
}

/// A simulated atomic, with a real one inside: a lock may be used by several simulations, or by
/// none.
macro_rules! sim_atomic {
    ($(#[$doc:meta])* $name:ident, $atomic:ident, $int:ty) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name($atomic);

        impl ConstZero for $name {
            const ZERO: Self = Self($atomic::new(0));
        }

        impl Atomic<$int> for $name {
            fn new(value: $int) -> Self {
                Self($atomic::new(value))
            }
            #[inline]
            fn load(&self, order: Ordering) -> $int {
                load(self, || self.0.load(order))
            }
            #[inline]
            fn store(&self, value: $int, order: Ordering) {
                write(self, |engine, at| engine.store(at), || self.0.store(value, order));
            }
            sim_atomic! { each:
                swap(value: $int, order: Ordering) -> $int;
                fetch_add(value: $int, order: Ordering) -> $int;
                fetch_sub(value: $int, order: Ordering) -> $int;
                fetch_or(value: $int, order: Ordering) -> $int;
                fetch_and(value: $int, order: Ordering) -> $int;
                compare_exchange(old: $int, new: $int, ok: Ordering, fail: Ordering) -> Result<$int, $int>;
            }
            /// Never fails spuriously, so that runs repeat.
            #[inline]
            fn compare_exchange_weak(
                &self,
                old: $int,
                new: $int,
                ok: Ordering,
                fail: Ordering,
            ) -> Result<$int, $int> {
                self.compare_exchange(old, new, ok, fail)
            }
        }
    };
    (each: $($method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[inline]
        fn $method(&self, $($argument: $type),*) -> $result {
            modify(self, || self.0.$method($($argument),*))
        }
    )*};
}
sim_atomic!(
    /// A 32-bit atomic of the simulated machine.
    SimU32, AtomicU32, u32
);
sim_atomic!(
    /// A 64-bit atomic of the simulated machine.
    SimU64, AtomicU64, u64
);
sim_atomic!(
    /// A pointer-sized atomic of the simulated machine.
    SimUsize, AtomicUsize, usize
);

std::thread_local! {
    /// For use outside of a simulation. Leaked: records are never freed.
    static OUTSIDE: &'static Thread<Sim> = Box::leak(Box::new(Thread::new()));
}

/// Where a wait outside of a simulation ends.
fn outside() -> ! {
    panic!("a lock of the simulated machine is waited for outside of a simulation")
}

// SAFETY: a record belongs to one simulated thread, or to one OS thread outside,
// and is never freed. The atomics are real ones. The comparison of a wait and its
// going to sleep are one step of the simulation, and so is a wake-up.
unsafe impl System for Sim {
    type AtomicUsize = SimUsize;
    type AtomicU32 = SimU32;
    type AtomicU64 = SimU64;
    type Thread = Thread<Self>;

    #[inline]
    fn pause() {
        work(Work::Pause(1));
    }

    fn yield_now() {
        work(Work::Yield);
    }

    /// The time stands still outside of a simulation.
    #[inline]
    fn now() -> u64 {
        work(Work::Clock);
        ask(|engine| engine.now()).unwrap_or(0)
    }

    fn wait(
        word: &SimU32,
        expected: u32,
        deadline: Option<u64>,
        _interruptible: bool,
    ) -> WaitOutcome {
        let address = call(Work::WaitCall, word);
        if word.load(Ordering::Acquire) != expected {
            return WaitOutcome::Woken;
        }
        ask(|engine| engine.sleep(address, deadline)).unwrap_or_else(|| outside());
        suspend();
        ask(|engine| engine.slept()).unwrap_or(WaitOutcome::Woken)
    }

    fn wake_one(word: &SimU32) {
        let address = call(Work::WakeCall, word);
        if ask(|engine| engine.wake(address)) == Some(Next::Suspend) {
            suspend();
        }
    }

    #[inline]
    fn thread() -> &'static Thread<Self> {
        ask(|engine| engine.thread()).unwrap_or_else(|| OUTSIDE.with(|thread| *thread))
    }

    // Zero outside of a simulation: a record must not be used with one pool after the other.
    fn thread_hint() -> usize {
        ask(|engine| std::ptr::from_ref(engine.thread()) as usize).unwrap_or(0)
    }

    fn name_of(address: usize) -> usize {
        ask(|engine| engine.name_of(address)).unwrap_or(address)
    }

    fn cpu() -> Option<u32> {
        ask(|engine| engine.cpu())
    }

    /// Nothing: simulated operations take effect in order.
    fn light_fence() {}

    fn process_barrier() {
        work(Work::Barrier);
    }

    fn has_process_barrier() -> bool {
        true
    }

    fn cpus() -> usize {
        ask(|engine| engine.cpus()).unwrap_or(1)
    }

    fn priority() -> u8 {
        ask(|engine| engine.priority()).unwrap_or(0)
    }

    /// Simulates the thread's own loads up to the first look and from the last one on; in between
    /// it is asleep until the line changes.
    fn spin_until<T, A: Atomic<T>>(word: &A, bound_ns: u64, done: impl Fn(T) -> bool) -> bool {
        if done(word.load(Ordering::Acquire)) {
            return true;
        }
        let look = || done(word.load(Ordering::Acquire));
        let address = std::ptr::from_ref(word) as usize;
        // SAFETY: this frame stays until the spin has ended.
        ask(|engine| engine.spin(address, bound_ns, unsafe { Condition::new(&look) }))
            .unwrap_or_else(|| outside());
        suspend();
        ask(|engine| engine.spun()).unwrap_or(false)
    }
}

/// What locks share. It belongs to an OS thread, as a simulation does: what other OS threads simulate at the same time
/// makes no difference to it. In cache lines of its own: what shares one does not depend on the address.
#[repr(align(64))]
struct Pools {
    slots: Slots<Sim>,
    visible: VisibleReaders<Sim>,
}

std::thread_local! {
    /// From a box, or null.
    static POOLS: Cell<*const Pools> = const { Cell::new(ptr::null()) };
}

/// From here on there are locks (`RawRwLock<Sim>`, `RawMutex<Sim>`) in simulations of the calling OS thread, and none of
/// them has been waited for: so the result of a simulation does not depend on those before it. What earlier locks had is
/// freed.
///
/// # Safety
/// A lock that is used on this OS thread before the next call is used and dropped on no other one, and not after that
/// call.
pub unsafe fn begin_locks() {
    let pools = Box::new(Pools { slots: Slots::new(), visible: VisibleReaders::new() });
    let before = POOLS.replace(Box::into_raw(pools));
    if !before.is_null() {
        // SAFETY: from a box, here; no lock of that time is used any more.
        drop(unsafe { Box::from_raw(before.cast_mut()) });
    }
}

fn pools() -> &'static Pools {
    // SAFETY: there for as long as locks are used that have slots of them (`begin_locks`).
    unsafe { POOLS.get().as_ref() }.expect("locks are simulated after `begin_locks`")
}

// SAFETY: a lock finds the pools of the time when it was first used (`begin_locks`); the hint is the address of the
// thread's record.
unsafe impl PooledPlatform for Sim {
    type Memory = Heap;

    const OFFERS_RANGES: bool = false;

    fn slots() -> &'static Slots<Self> {
        &pools().slots
    }

    fn visible_readers() -> Option<&'static VisibleReaders<Self>> {
        Some(&pools().visible)
    }

    const WATCHES_READERS: bool = true;
}

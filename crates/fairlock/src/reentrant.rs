//! A mutex that its holder may lock again.

use core::num::NonZeroUsize;

use lock_api::GetThreadId;

use crate::RawMutex;

/// Tells threads apart, for [`ReentrantMutex`]: `lock_api`'s `GetThreadId`.
#[derive(Debug, Clone, Copy)]
pub struct RawThreadId;

// SAFETY: a thread's variables have an address that no other live thread's have, and never
// zero. (A thread's record would not do: it goes back to the pool while destructors of other
// variables of the thread may still run, and lock.)
unsafe impl GetThreadId for RawThreadId {
    const INIT: Self = Self;

    #[inline]
    fn nonzero_thread_id(&self) -> NonZeroUsize {
        std::thread_local! {
            static PLACE: u8 = const { 0 };
        }
        PLACE.with(|place| NonZeroUsize::from(core::ptr::NonNull::from(place).addr()))
    }
}

/// A [`Mutex`](crate::Mutex) that its holder may lock again.
///
/// It is released when the thread drops its last guard. A thread may have several guards, so they
/// give shared access only: put a `Cell` or a `RefCell` inside to change the value.
///
/// The first `lock` of a thread blocks as for a [`Mutex`](crate::Mutex), with the same promises.
/// Every further one is a comparison and an addition, and does not block. Guards are not `Send`. If
/// a thread forgets a guard and ends, the mutex stays held, and a later thread whose thread-local
/// variables have the same addresses counts as its holder.
///
/// # Panics
///
/// `lock` panics if the thread already holds the mutex `usize::MAX` times.
///
/// ```
/// use std::cell::Cell;
///
/// use fairlock::ReentrantMutex;
///
/// static TOTAL: ReentrantMutex<Cell<u32>> = ReentrantMutex::new(Cell::new(0));
///
/// fn add(value: u32) {
///     let total = TOTAL.lock();
///     total.set(total.get() + value);
/// }
///
/// let total = TOTAL.lock();
/// add(1); // holds the mutex already
/// assert_eq!(total.get(), 1);
/// ```
pub type ReentrantMutex<T> = lock_api::ReentrantMutex<RawMutex, RawThreadId, T>;
/// Holds a [`ReentrantMutex`]; the last one of its thread releases it when dropped.
pub type ReentrantMutexGuard<'a, T> = lock_api::ReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;
/// A [`ReentrantMutexGuard`] for a part of the value.
pub type MappedReentrantMutexGuard<'a, T> =
    lock_api::MappedReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// [`ReentrantMutex::new`](lock_api::ReentrantMutex::new), under the name that it had before it was
/// `const`.
///
/// ```
/// static ONE: fairlock::ReentrantMutex<u32> = fairlock::const_reentrant_mutex(1);
/// assert_eq!(*ONE.lock(), 1);
/// ```
pub const fn const_reentrant_mutex<T>(value: T) -> ReentrantMutex<T> {
    ReentrantMutex::new(value)
}

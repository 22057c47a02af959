//! Something that is done once.

use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};

use lock_api::RawMutex as _;

use crate::RawMutex;
use crate::condvar::RawCondvar;

/// What was done with a [`Once`] up to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnceState {
    /// No function has been called.
    New,
    /// The last function that was called panicked.
    Poisoned,
    /// A thread is calling a function.
    InProgress,
    /// A function was called, and returned.
    Done,
}

impl OnceState {
    /// Whether the last function that was called panicked.
    #[inline]
    pub const fn is_poisoned(self) -> bool {
        matches!(self, Self::Poisoned)
    }

    /// As [`is_poisoned`](Self::is_poisoned).
    #[inline]
    pub const fn poisoned(self) -> bool {
        self.is_poisoned()
    }

    /// Whether a function was called, and returned.
    #[inline]
    pub const fn is_completed(self) -> bool {
        matches!(self, Self::Done)
    }

    /// As [`is_completed`](Self::is_completed).
    #[inline]
    pub const fn done(self) -> bool {
        self.is_completed()
    }
}

const PANICKED: &str = "a function called by this Once has panicked before";

/// Calls a function once, however many threads ask for it.
///
/// A thread that asks while another one runs its function blocks until that function has returned;
/// such threads wait as fairly as at a [`Mutex`](crate::Mutex). After that a call costs one load.
/// Every thread whose call has returned sees what the function did.
///
/// A function that panics *poisons* the `Once`: from then on [`call_once`](Self::call_once) panics,
/// and [`call_once_force`](Self::call_once_force) calls its function.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// static START: fairlock::Once = fairlock::Once::new();
/// static CALLS: AtomicU32 = AtomicU32::new(0);
///
/// std::thread::scope(|s| {
///     for _ in 0..3 {
///         s.spawn(|| START.call_once(|| _ = CALLS.fetch_add(1, Ordering::Relaxed)));
///     }
/// });
/// assert_eq!(CALLS.load(Ordering::Relaxed), 1);
/// ```
pub struct Once {
    /// An [`OnceState`]; changed under `lock` only.
    state: AtomicU8,
    lock: RawMutex,
    /// For threads that [`wait`](Self::wait) before a function is called.
    ended: RawCondvar,
}

impl Once {
    /// A `Once` whose function is still to be called.
    #[inline]
    pub const fn new() -> Self {
        Self::in_state(OnceState::New)
    }

    /// A `Once` whose function counts as called.
    ///
    /// ```
    /// let once = fairlock::Once::new_completed();
    /// once.call_once(|| unreachable!());
    /// once.wait();
    /// ```
    #[inline]
    pub const fn new_completed() -> Self {
        Self::in_state(OnceState::Done)
    }

    #[allow(clippy::declare_interior_mutable_const)] // lock_api's way to initialise
    const fn in_state(state: OnceState) -> Self {
        Self { state: AtomicU8::new(state as u8), lock: RawMutex::INIT, ended: RawCondvar::new() }
    }

    /// What was done with it up to now. Never blocks.
    #[inline]
    pub fn state(&self) -> OnceState {
        const NEW: u8 = OnceState::New as u8;
        const POISONED: u8 = OnceState::Poisoned as u8;
        const IN_PROGRESS: u8 = OnceState::InProgress as u8;
        // Acquire: with Done comes what the function did.
        match self.state.load(Ordering::Acquire) {
            NEW => OnceState::New,
            POISONED => OnceState::Poisoned,
            IN_PROGRESS => OnceState::InProgress,
            _ => OnceState::Done,
        }
    }

    /// Whether a function was called here, and returned. Never blocks.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.state().is_completed()
    }

    /// Blocks until a function that was called here has returned, even if none has been called yet.
    /// The caller then sees what the function did. Blocks for ever if called in such a function.
    ///
    /// # Panics
    /// If a function that was called here has panicked, and none has returned since.
    ///
    /// ```
    /// let once = fairlock::Once::new();
    /// std::thread::scope(|s| {
    ///     s.spawn(|| once.wait());
    ///     once.call_once(|| ());
    /// });
    /// ```
    #[inline]
    pub fn wait(&self) {
        if !self.is_completed() {
            self.wait_slow(false);
        }
    }

    /// As [`wait`](Self::wait), but a function that panicked does not count.
    #[inline]
    pub fn wait_force(&self) {
        if !self.is_completed() {
            self.wait_slow(true);
        }
    }

    #[cold]
    fn wait_slow(&self, ignores_poison: bool) {
        self.lock.lock();
        let mut state = self.state();
        while !state.is_completed() && (ignores_poison || !state.is_poisoned()) {
            // SAFETY: the lock was taken above.
            unsafe { self.ended.wait(&self.lock) };
            state = self.state();
        }
        // SAFETY: as above.
        unsafe { self.lock.unlock() };
        assert!(ignores_poison || state.is_completed(), "{PANICKED}");
    }

    /// Calls `f`, unless a function was called here before. Blocks while another thread is calling
    /// one. Blocks for ever if called again by `f` itself.
    ///
    /// # Panics
    /// If `f` panics, or if the function that was called here before did.
    ///
    /// ```
    /// let once = fairlock::Once::new();
    /// let mut calls = 0;
    /// once.call_once(|| calls += 1);
    /// once.call_once(|| calls += 1);
    /// assert_eq!(calls, 1);
    /// ```
    #[inline]
    pub fn call_once(&self, f: impl FnOnce()) {
        if !self.state().done() {
            self.call(|state| {
                assert!(!state.poisoned(), "{PANICKED}");
                f();
            });
        }
    }

    /// As [`call_once`](Self::call_once), but a function that panicked does not count. `f` is given
    /// [`Poisoned`](OnceState::Poisoned) if one did, and otherwise [`New`](OnceState::New).
    ///
    /// # Panics
    /// If `f` panics.
    ///
    /// ```
    /// use std::panic::{AssertUnwindSafe, catch_unwind};
    ///
    /// let once = fairlock::Once::new();
    /// # std::panic::set_hook(Box::new(|_| ()));
    /// catch_unwind(AssertUnwindSafe(|| once.call_once(|| panic!()))).unwrap_err();
    /// once.call_once_force(|state| assert!(state.poisoned()));
    /// assert!(once.state().done());
    /// ```
    #[inline]
    pub fn call_once_force(&self, f: impl FnOnce(OnceState)) {
        if !self.state().done() {
            self.call(f);
        }
    }

    #[cold]
    fn call(&self, f: impl FnOnce(OnceState)) {
        /// Leaves the state and the lock as they should be, however the function ends.
        struct Ending<'a> {
            once: &'a Once,
            state: OnceState,
        }
        impl Drop for Ending<'_> {
            fn drop(&mut self) {
                // Release: pairs with `state`.
                self.once.state.store(self.state as u8, Ordering::Release);
                self.once.ended.notify_all();
                // SAFETY: it was taken before this was made.
                unsafe { self.once.lock.unlock() }
            }
        }

        self.lock.lock();
        let state = self.state();
        let mut ending = Ending { once: self, state };
        if state.done() {
            return;
        }
        ending.state = OnceState::Poisoned;
        // Relaxed: publishes nothing that anybody did.
        self.state.store(OnceState::InProgress as u8, Ordering::Relaxed);
        f(state);
        ending.state = OnceState::Done;
    }
}

impl Default for Once {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("state", &self.state()).finish()
    }
}

// The state tells of a panic in a function.
impl core::panic::UnwindSafe for Once {}
impl core::panic::RefUnwindSafe for Once {}

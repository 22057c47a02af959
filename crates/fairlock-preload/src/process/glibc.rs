//! A normal mutex of glibc's, taken and released in the steps in which glibc does it where nobody
//! is in the way. This is for the profile, which would have to call glibc's `trylock` otherwise.
//!
//! These steps are as old as such mutexes; [`is_known`] looks whether they are still the same.
//! Other kinds, and whatever takes longer, are left to glibc.

use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, Ordering};

use super::real;
use super::word::MutexKind;

/// What a `pthread_mutex_t` begins with, glibc's or ours. The holder, and how often that has it, are
/// where debuggers look for them.
#[repr(C)]
pub(crate) struct Words {
    /// `__lock`: glibc's.
    lock: AtomicU32,
    /// `__count`: how often the holder of a recursive mutex has it. Belongs to the holder.
    pub(crate) count: AtomicU32,
    /// `__owner`: the number of the holding thread, which alone stores or clears it.
    pub(crate) owner: AtomicU32,
    /// `__nusers`: how many wait at a condition variable with it; in glibc's, also how many hold it.
    /// Belongs to the holder.
    pub(crate) users: AtomicU32,
    /// `__kind`.
    pub(crate) kind: AtomicI32,
}

/// `__lock`: glibc has a third value for a mutex that others wait for.
const FREE: u32 = 0;
const HELD: u32 = 1;

/// Whether glibc does it in this way: two if it does, one if not; zero before somebody has looked.
static KNOWN: AtomicU8 = AtomicU8::new(0);

/// Whether glibc does it in this way. `tid` is the calling thread's number.
pub(crate) fn is_known(tid: u32) -> bool {
    // Relaxed: no other memory is read on the strength of it, and any thread finds the same.
    if KNOWN.load(Ordering::Relaxed) == 0 {
        KNOWN.store(1 + u8::from(look(tid)), Ordering::Relaxed);
    }
    KNOWN.load(Ordering::Relaxed) == 2
}

/// Looks at what glibc's own functions leave in a mutex.
fn look(tid: u32) -> bool {
    let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    let mutex = &raw mut mutex;
    // SAFETY: a mutex that nobody else knows, and that begins with these.
    unsafe {
        let words = &*mutex.cast::<Words>();
        let taken = real::pthread_mutex_lock(mutex) == 0;
        let held = words.state();
        let left = real::pthread_mutex_unlock(mutex) == 0;
        taken && left && held == [HELD, tid, 1] && words.state() == [FREE, 0, 0]
    }
}

/// Changes a word that was just seen to be `from`: without a locked operation if there is no other thread.
#[inline(always)]
fn exchange(word: &AtomicU32, from: u32, to: u32, order: Ordering) -> bool {
    if is_alone() {
        word.store(to, Ordering::Relaxed);
        return true;
    }
    word.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
}

// Relaxed, all but `lock` itself: these fields are the holder's.
impl Words {
    fn state(&self) -> [u32; 3] {
        [&self.lock, &self.owner, &self.users].map(|word| word.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn kind(&self) -> MutexKind {
        MutexKind(self.kind.load(Ordering::Relaxed))
    }

    /// Takes the mutex; false if somebody holds it, or it is of another kind.
    #[inline(always)]
    pub(crate) fn lock_as_glibc(&self, tid: u32) -> bool {
        if self.kind() != MutexKind::NORMAL || self.lock.load(Ordering::Relaxed) != FREE {
            return false;
        }
        // Acquire: what the last holder did is seen.
        let taken = exchange(&self.lock, FREE, HELD, Ordering::Acquire);
        if taken {
            self.own(tid, 1);
        }
        taken
    }

    /// Releases the mutex; false if somebody waits for it, or it is of another kind. Only for the
    /// holder.
    #[inline(always)]
    pub(crate) fn unlock_as_glibc(&self, tid: u32) -> bool {
        if self.kind() != MutexKind::NORMAL || self.lock.load(Ordering::Relaxed) != HELD {
            return false;
        }
        self.own(0, u32::MAX);
        // Release: see above. From here on the mutex may be gone.
        let left = exchange(&self.lock, HELD, FREE, Ordering::Release);
        if !left {
            // Somebody has come to wait: the mutex is left to glibc as it was.
            self.own(tid, 1);
        }
        left
    }

    /// Whether the release of a mutex that is held has to wake somebody. Of a mutex of another kind
    /// it may say so for no reason.
    #[inline(always)]
    pub(crate) fn is_wanted_as_glibc(&self) -> bool {
        self.lock.load(Ordering::Relaxed) != HELD
    }

    #[inline(always)]
    fn own(&self, tid: u32, more_users: u32) {
        self.owner.store(tid, Ordering::Relaxed);
        let users = self.users.load(Ordering::Relaxed).wrapping_add(more_users);
        self.users.store(users, Ordering::Relaxed);
    }
}

/// glibc's answer whether the process has one thread, from version 2.32 on; before that version, and
/// before the library has started: no.
static ANSWER: AtomicPtr<u8> = AtomicPtr::new((&raw const NO).cast_mut());
static NO: u8 = 0;

/// Whether the process has one thread, as glibc says until it makes a second one.
#[inline(always)]
pub(crate) fn is_alone() -> bool {
    // Relaxed: the address of a byte that was there before.
    let answer = ANSWER.load(Ordering::Relaxed);
    // SAFETY: a byte that is always there, which glibc may change in any call. (Not `read_volatile`: where that is checked, the
    // thread must not be cancelled in it.)
    unsafe { &*answer.cast::<AtomicU8>() }.load(Ordering::Relaxed) != 0
}

/// Called when the library is loaded.
pub(crate) fn start() {
    // SAFETY: a C string.
    let answer = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    if !answer.is_null() {
        ANSWER.store(answer.cast(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tid() -> u32 {
        // SAFETY: no arguments.
        unsafe { libc::gettid() as u32 }
    }

    #[test]
    fn glibc_does_it_in_the_same_steps() {
        let me = tid();
        assert!(is_known(me));
        let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        let mutex = &raw mut mutex;
        // SAFETY: a mutex of this function.
        unsafe {
            let words = &*mutex.cast::<Words>();
            // Whichever of the two takes the mutex, the other finds it held, and can release it.
            assert!(words.lock_as_glibc(me) && !words.lock_as_glibc(me));
            assert_eq!(libc::pthread_mutex_trylock(mutex), libc::EBUSY);
            assert_eq!(libc::pthread_mutex_unlock(mutex), 0);
            assert_eq!(libc::pthread_mutex_lock(mutex), 0);
            assert!(!words.lock_as_glibc(me) && words.unlock_as_glibc(me));
            assert_eq!(words.state(), [FREE, 0, 0]);
            assert_eq!(libc::pthread_mutex_destroy(mutex), 0);
        }
    }

    #[test]
    fn what_is_waited_for_is_left_to_glibc() {
        let mut mutex = libc::PTHREAD_MUTEX_INITIALIZER;
        // SAFETY: a mutex of this function.
        let words = unsafe { &*(&raw mut mutex).cast::<Words>() };
        let me = tid();
        assert!(words.lock_as_glibc(me));
        let before = words.state();
        words.lock.store(HELD + 1, Ordering::Relaxed);
        assert!(!words.unlock_as_glibc(me) && !words.lock_as_glibc(me));
        assert_eq!(words.state()[1..], before[1..]);
    }
}

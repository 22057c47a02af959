//! A `pthread_cond_t`, and what POSIX and glibc say about it.
//!
//! The program's bytes hold the queue, and its lock: a thread that a signal stops in the midst of
//! one condition variable is in nobody's way at another. Bytes that were copied elsewhere, or are
//! those of a process that this one was forked from, hold no queue. Shared condition variables are
//! glibc's.

use core::cell::{Cell, UnsafeCell};
use core::ffi::c_int;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

use fairlock::platform::System;
use fairlock::wait::WaitError;
use fairlock_profile::layout::kind;
use libc::{EINVAL, ETIMEDOUT, clockid_t, pthread_cond_t, pthread_mutex_t};

use super::if_aligned;
use super::kind::GRACE_NS;
use super::mutex;
use super::until::{Until, is_known};
use crate::process::config::{self, Kind};
use crate::process::memory::spread_over;
use crate::process::mutex::Mutex;
use crate::process::real::Time;
use crate::process::word::{CondFlags, Count};
use crate::profile::{self, Of};
use crate::thread::cancel::{Deferred, whole};
use crate::thread::{Preload, jump, nap};
use crate::waiters::{Queue, Waiter};

/// The program's condition variable.
#[repr(C)]
pub(super) struct Cond {
    /// Not zero if the queue is not empty. Changed under the mutex. (`__wseq`)
    waiting: Count,
    /// Used under the mutex, and empty if `waiting` is zero. (`__g1_start`, `__g_refs`)
    queue: UnsafeCell<Queue<Preload>>,
    /// Where the queue was made. Used under the mutex. (`__g_size`)
    home: Cell<usize>,
    /// (`__g1_orig_size`)
    mutex: Mutex,
    /// Which clock, and whether it is shared. (`__wrefs`)
    flags: CondFlags,
    _signals: [u32; 2],
}

const _: () = {
    assert!(size_of::<Cond>() == size_of::<pthread_cond_t>());
    assert!(align_of::<Cond>() <= align_of::<pthread_cond_t>());
    assert!(offset_of!(Cond, flags) == 36);
};

/// Waits by `wait`, which is glibc's.
fn asleep(cond: *mut pthread_cond_t, wait: impl FnOnce() -> c_int) -> c_int {
    profile::asleep(cond.addr(), CONDITION, || jump::without(wait), |&errno| errno)
}

const CONDITION: &Of = &Of::nobody(|_| kind::CONDITION);

impl Cond {
    /// The condition variable, unless it is left to glibc: if it is shared or misaligned.
    ///
    /// # Safety
    /// A condition variable that is initialised, and stays so until the caller is done with it.
    #[inline(always)]
    pub(super) unsafe fn at<'a>(cond: *mut pthread_cond_t) -> Option<&'a Self> {
        // SAFETY: the caller's promise; the layout is checked above.
        let cond: &Self = unsafe { if_aligned(cond.cast()) }?;
        (!cond.flags.is_shared() && config::serves(Kind::Mutex)).then_some(cond)
    }

    /// The clock of timed waits, of ours and glibc's.
    ///
    /// # Safety
    /// As above.
    pub(super) unsafe fn clock(cond: *mut pthread_cond_t) -> clockid_t {
        let flags = cond.wrapping_byte_add(offset_of!(Self, flags)).cast::<CondFlags>();
        // SAFETY: within the condition variable, which may be at any address.
        unsafe { flags.read_unaligned() }.clock()
    }

    fn pointer(&self) -> *mut pthread_cond_t {
        ptr::from_ref(self).cast_mut().cast()
    }

    fn address(&self) -> usize {
        self.pointer().addr()
    }

    /// Lets the mutex go, whether it is ours or glibc's, and takes it again once notified, or when
    /// the time is over. A thread that is cancelled takes it again, and then leaves by unwinding.
    ///
    /// # Safety
    /// The caller holds the mutex.
    unsafe fn wait(&self, mutex: *mut pthread_mutex_t, until: &Until) -> c_int {
        let cancels = Deferred::begin();
        // SAFETY: the caller's promise.
        let (result, gave_up) = unsafe {
            if cancels.can_wait() {
                self.wait_here(mutex, until, &cancels)
            } else {
                // There is no memory to wait in the queue.
                (away_from(self.pointer(), mutex, until, nap), true)
            }
        };
        if gave_up {
            cancels.end_cancelled()
        } else {
            cancels.end()
        }
        result
    }

    /// Returns the result, and whether the wait ended because the thread is cancelled.
    ///
    /// # Safety
    /// The caller holds the mutex.
    unsafe fn wait_here(
        &self,
        mutex: *mut pthread_mutex_t,
        until: &Until,
        cancels: &Deferred,
    ) -> (c_int, bool) {
        let waiter = Waiter::new(Preload::priority());
        // SAFETY: this frame is not left before the waiter was woken or has taken itself out.
        self.locked(|queue| unsafe { queue.push(&waiter) });
        let cancelled = || jump::is_due() || cancels.is_cancelled();
        let sleep = || match until {
            Until::Forever => waiter.sleep(None, cancelled),
            _ => until.wait_for(|deadline| waiter.sleep(Some(deadline), cancelled)),
        };
        let errno = |slept: &Result<_, _>| if slept.is_ok() { 0 } else { ETIMEDOUT };
        let mut slept = None;
        let wait = || {
            let ended = profile::asleep(self.address(), CONDITION, sleep, errno).err();
            slept = Some(ended.filter(|_| self.gives_up(&waiter)));
        };
        // SAFETY: the caller's promise.
        let waited = unsafe { mutex::released(mutex, wait) };
        match (waited, slept) {
            (Err(errno), None) => {
                if !self.gives_up(&waiter) {
                    self.signal(); // somebody else's, then
                }
                (errno, false)
            }
            (Err(errno), _) => (errno, false),
            (Ok(()), Some(Some(WaitError::Cancelled))) => (0, true),
            (Ok(()), Some(Some(_))) => (ETIMEDOUT, false),
            (Ok(()), _) => (0, false),
        }
    }

    /// The wait has ended: false if the waiter was notified all the same, and woken.
    fn gives_up(&self, waiter: &Waiter<Preload>) -> bool {
        if waiter.leaves() {
            self.locked(|queue| queue.take_out(waiter));
            return true;
        }
        let woken = waiter.sleep(None, || false);
        debug_assert!(woken.is_ok(), "a wait for ever has ended");
        false
    }

    /// Wakes the waiter that has waited longest.
    pub(super) fn signal(&self) {
        self.locked(|queue| queue.notify(1)).wake();
    }

    pub(super) fn broadcast(&self) {
        self.locked(|queue| queue.notify(usize::MAX)).wake();
    }

    /// Waits for those that have given up, and not yet taken themselves out.
    pub(super) fn destroy(&self) -> c_int {
        while self.locked(|queue| queue.somebody_leaves()) {
            nap();
        }
        0
    }

    fn locked<R>(&self, f: impl FnOnce(&mut Queue<Preload>) -> R) -> R {
        // As in the C library, no handler may notify in the midst of this.
        let _guard = self.mutex.lock_quickly();
        // SAFETY: under the mutex.
        let queue = unsafe { &mut *self.queue.get() };
        if !self.waiting.any() || self.home.get() != self.address() {
            *queue = Queue::new();
            self.home.set(self.address());
            self.waiting.clear();
        }
        let result = f(queue);
        match (queue.is_empty(), self.waiting.any()) {
            (true, _) => self.waiting.clear(),
            (false, true) => {}
            (false, false) => self.waiting.add(),
        }
        result
    }
}

/// A wait in no queue: the caller sleeps without the mutex. If the time is not over then, the
/// wait has ended for no reason, as POSIX allows.
///
/// # Safety
/// The caller holds the mutex.
#[cold]
unsafe fn away_from(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: &Until,
    sleep: impl FnOnce(),
) -> c_int {
    let slept = || {
        sleep();
        if until.is_over() { ETIMEDOUT } else { 0 }
    };
    // SAFETY: the caller's promise.
    unsafe { mutex::released(mutex, || asleep(cond, slept)) }.unwrap_or_else(|errno| errno)
}

/// Waits until a time, if there is one, which is looked at if this library makes the wait: in the condition
/// variable's queue, or, if that is glibc's and the mutex is not, in none. Both are glibc's otherwise.
///
/// # Safety
/// The caller holds the mutex.
pub(super) unsafe fn wait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    time: Time,
    or_glibc_s: impl FnOnce() -> c_int + Copy,
) -> c_int {
    whole(move || {
        if !is_known(clock) {
            return EINVAL;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let ours = Cond::at(cond);
            if ours.is_none() && !mutex::is_ours(mutex) {
                return mutex::without(mutex, || asleep(cond, or_glibc_s));
            }
            match (Until::new(clock, time), ours) {
                (Err(errno), _) => errno,
                (Ok(until), Some(ours)) => ours.wait(mutex, &until),
                (Ok(until), None) => wait_in_place(cond, mutex, &until),
            }
        }
    })
}

/// # Safety
/// A condition variable.
#[inline(always)]
pub(super) unsafe fn notify(
    cond: *mut pthread_cond_t,
    ours: fn(&Cond),
    or_glibc_s: impl FnOnce() -> c_int + Copy,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Cond::at(cond) } {
        // Mostly.
        Some(cond) if !cond.waiting.any() => 0,
        Some(ours_of) => whole(move || {
            profile::wakes(cond.addr());
            ours(ours_of);
            0
        }),
        None => whole(move || {
            profile::wakes(cond.addr());
            notify_place(cond);
            or_glibc_s()
        }),
    }
}

// ---- those of glibc, with a mutex that is not ----

/// Where threads wait with a mutex of ours for a condition variable of glibc's, as it is shared or misaligned.
///
/// glibc would unlock the mutex as one of its own, so such a wait is not in glibc's queue. It ends with
/// the next notification, by this process, of any condition variable that shares its place in `PLACES`.
/// After a while it ends for no reason, as POSIX allows: the notification of another process, which
/// has no part in the mutex, is found in that way, and so is a cancellation. No lock is taken: a
/// thread that a signal stops anywhere is in nobody's way.
struct Place {
    waiting: Count,
    /// Counts the notifications while threads wait, which sleep on it.
    notified: AtomicU32,
}

static PLACES: [Place; 16] =
    [const { Place { waiting: Count::new(), notified: AtomicU32::new(0) } }; 16];

fn place(cond: *mut pthread_cond_t) -> &'static Place {
    &PLACES[spread_over(cond as usize, PLACES.len())]
}

/// # Safety
/// The caller holds the mutex.
unsafe fn wait_in_place(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: &Until,
) -> c_int {
    let place = place(cond);
    let cancels = Deferred::begin();
    // Relaxed throughout: who notifies after a change that was made under the mutex has taken it since.
    place.waiting.add();
    let seen = place.notified.load(Ordering::Relaxed);
    let sleep = || {
        let longest = Preload::now() + GRACE_NS;
        let _ = until.wait_for(|deadline| {
            Preload::wait(&place.notified, seen, Some(deadline.min(longest)), false);
            Ok(())
        });
    };
    // SAFETY: the caller's promise.
    let result = unsafe { away_from(cond, mutex, until, sleep) };
    place.waiting.remove();
    cancels.end_cancelled();
    result
}

/// A condition variable of glibc's is notified: wakes those that do not wait in glibc's queue.
#[cold]
fn notify_place(cond: *mut pthread_cond_t) {
    let place = place(cond);
    if place.waiting.any() {
        place.notified.fetch_add(1, Ordering::Relaxed);
        for _ in 0..place.waiting.get() {
            Preload::wake_one(&place.notified);
        }
    }
}

#[cfg(test)]
mod shared_tests {
    use super::*;

    /// Each notification in the child would make a system call for each of them, for ever.
    #[test]
    fn nobody_waits_in_a_child_who_waits_in_its_parent() {
        let mut cond = libc::PTHREAD_COND_INITIALIZER;
        let place = place(&mut cond);
        place.waiting.add();
        let before = place.notified.load(Ordering::Relaxed);
        // SAFETY: the child makes system calls only.
        unsafe {
            match libc::syscall(libc::SYS_fork) {
                0 => {
                    notify_place(&mut cond);
                    libc::_exit((place.notified.load(Ordering::Relaxed) != before).into());
                }
                child => {
                    let mut status = -1;
                    assert_eq!(libc::waitpid(child as _, &mut status, 0) as i64, child);
                    assert_eq!(status, 0);
                }
            }
        }
        notify_place(&mut cond);
        assert_ne!(place.notified.load(Ordering::Relaxed), before, "here somebody waits");
        place.waiting.remove();
    }
}

//! The C library's locks: `pthread_rwlock_t` in glibc's two kinds that differ, `pthread_mutex_t` in
//! two kinds, also with `pthread_cond_t`, and `pthread_spinlock_t`.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use crate::locks::condvar::{BenchCondvar, Stage, Which};
use crate::locks::entry::LockEntry;
use crate::locks::{BenchMutex, RwBench};
use crate::workload::team::Padded;

// From glibc's <pthread.h>; the libc crate does not have them.
const PREFER_WRITER_NONRECURSIVE: libc::c_int = 2;
unsafe extern "C" {
    fn pthread_rwlockattr_setkind_np(
        attr: *mut libc::pthread_rwlockattr_t,
        kind: libc::c_int,
    ) -> libc::c_int;
}

/// Boxed: a pthread lock must not move once initialised.
struct Pthread<const PREFER_WRITER: bool>(Box<UnsafeCell<libc::pthread_rwlock_t>>);

// SAFETY: a pthread_rwlock_t is made to be used from many threads at once.
unsafe impl<const W: bool> Send for Pthread<W> {}
// SAFETY: as above.
unsafe impl<const W: bool> Sync for Pthread<W> {}

/// Panics on an error code: none of these calls can fail on a valid lock
/// (deadlock and counter overflow aside, and then the numbers mean nothing).
#[inline(always)]
fn check(code: libc::c_int) {
    assert_eq!(code, 0, "pthread error {code}");
}

impl<const PREFER_WRITER: bool> RwBench for Pthread<PREFER_WRITER> {
    fn new() -> Self {
        let lock = Box::new(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER));
        if PREFER_WRITER {
            let mut attr = MaybeUninit::uninit();
            // SAFETY: `attr` is initialised by the first call before the others
            // use it, and the lock, not in use yet, lives in its final place.
            unsafe {
                check(libc::pthread_rwlockattr_init(attr.as_mut_ptr()));
                check(pthread_rwlockattr_setkind_np(attr.as_mut_ptr(), PREFER_WRITER_NONRECURSIVE));
                check(libc::pthread_rwlock_init(lock.get(), attr.as_ptr()));
                check(libc::pthread_rwlockattr_destroy(attr.as_mut_ptr()));
            }
        }
        Self(lock)
    }

    #[inline(always)]
    fn read_lock(&self) {
        // SAFETY: the lock is initialised and lives as long as `self`.
        check(unsafe { libc::pthread_rwlock_rdlock(self.0.get()) });
    }

    #[inline(always)]
    unsafe fn read_unlock(&self) {
        // SAFETY: as above, and the caller holds it.
        check(unsafe { libc::pthread_rwlock_unlock(self.0.get()) });
    }

    #[inline(always)]
    fn write_lock(&self) {
        // SAFETY: as in `read_lock`.
        check(unsafe { libc::pthread_rwlock_wrlock(self.0.get()) });
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        // SAFETY: as in `read_unlock`.
        check(unsafe { libc::pthread_rwlock_unlock(self.0.get()) });
    }
}

impl<const W: bool> Drop for Pthread<W> {
    fn drop(&mut self) {
        // SAFETY: initialised, and nobody else can hold it: we own it.
        unsafe { libc::pthread_rwlock_destroy(self.0.get()) };
    }
}

/// `pthread_mutex_t`; `ADAPTIVE` spins for a while before it sleeps. Boxed as above.
struct Mutex<const ADAPTIVE: bool>(Box<Padded<UnsafeCell<libc::pthread_mutex_t>>>);

// SAFETY: a pthread_mutex_t is made to be used from many threads at once.
unsafe impl<const A: bool> Send for Mutex<A> {}
// SAFETY: as above.
unsafe impl<const A: bool> Sync for Mutex<A> {}

impl<const ADAPTIVE: bool> BenchMutex for Mutex<ADAPTIVE> {
    fn create() -> Self {
        let lock = Box::new(Padded(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
        if ADAPTIVE {
            let mut attr = MaybeUninit::uninit();
            // SAFETY: as in `Pthread::new`.
            unsafe {
                check(libc::pthread_mutexattr_init(attr.as_mut_ptr()));
                check(libc::pthread_mutexattr_settype(
                    attr.as_mut_ptr(),
                    libc::PTHREAD_MUTEX_ADAPTIVE_NP,
                ));
                check(libc::pthread_mutex_init(lock.0.get(), attr.as_ptr()));
                check(libc::pthread_mutexattr_destroy(attr.as_mut_ptr()));
            }
        }
        Self(lock)
    }

    #[inline(always)]
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: the mutex is initialised and lives as long as `self`.
        check(unsafe { libc::pthread_mutex_lock(self.0.0.get()) });
        let result = section();
        // SAFETY: as above, and this thread holds it. A section that unwinds
        // leaves the mutex held, which is safe.
        check(unsafe { libc::pthread_mutex_unlock(self.0.0.get()) });
        result
    }
}

impl<const A: bool> Drop for Mutex<A> {
    fn drop(&mut self) {
        // SAFETY: initialised, and nobody else can hold it: we own it.
        unsafe { libc::pthread_mutex_destroy(self.0.0.get()) };
    }
}

/// `pthread_spinlock_t`, boxed as above.
struct Spin(Box<Padded<UnsafeCell<libc::pthread_spinlock_t>>>);

// SAFETY: a pthread_spinlock_t is made to be used from many threads at once.
unsafe impl Send for Spin {}
// SAFETY: as above.
unsafe impl Sync for Spin {}

impl BenchMutex for Spin {
    fn create() -> Self {
        let lock = Box::new(Padded(UnsafeCell::new(0)));
        // SAFETY: not in use yet, and in its final place. On Linux it needs no
        // destruction.
        check(unsafe { libc::pthread_spin_init(lock.0.get(), libc::PTHREAD_PROCESS_PRIVATE) });
        Self(lock)
    }

    #[inline(always)]
    fn hold<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: the lock is initialised and lives as long as `self`.
        check(unsafe { libc::pthread_spin_lock(self.0.0.get()) });
        let result = section();
        // SAFETY: as in `Mutex::hold`.
        check(unsafe { libc::pthread_spin_unlock(self.0.0.get()) });
        result
    }
}

/// A mutex of the default kind with two `pthread_cond_t`. Boxed as above.
pub struct Monitor(Box<Parts>);

struct Parts {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    changed: [UnsafeCell<libc::pthread_cond_t>; 2],
    stage: UnsafeCell<Stage>,
}

// SAFETY: the parts are made to be used from many threads at once; `stage` is used by the mutex's
// owner only.
unsafe impl Send for Monitor {}
// SAFETY: as above.
unsafe impl Sync for Monitor {}

/// Holds the mutex.
pub struct MonitorGuard<'a>(&'a Parts);

impl Deref for MonitorGuard<'_> {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        // SAFETY: this thread holds the mutex.
        unsafe { &*self.0.stage.get() }
    }
}

impl DerefMut for MonitorGuard<'_> {
    fn deref_mut(&mut self) -> &mut Stage {
        // SAFETY: this thread holds the mutex.
        unsafe { &mut *self.0.stage.get() }
    }
}

impl Drop for MonitorGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread holds the mutex.
        check(unsafe { libc::pthread_mutex_unlock(self.0.mutex.get()) });
    }
}

impl Parts {
    fn changed(&self, which: Which) -> *mut libc::pthread_cond_t {
        self.changed[usize::from(which == Which::Second)].get()
    }
}

impl BenchCondvar for Monitor {
    type Guard<'a> = MonitorGuard<'a>;
    const TIMED: bool = true;

    fn create() -> Self {
        let changed = || UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER);
        Self(Box::new(Parts {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            changed: [changed(), changed()],
            stage: UnsafeCell::default(),
        }))
    }

    fn lock(&self) -> MonitorGuard<'_> {
        // SAFETY: the mutex is initialised and lives as long as `self`.
        check(unsafe { libc::pthread_mutex_lock(self.0.mutex.get()) });
        MonitorGuard(&self.0)
    }

    fn lock_for(&self, timeout: Duration) -> Option<MonitorGuard<'_>> {
        // SAFETY: as above, and the time is one.
        let code = unsafe { libc::pthread_mutex_timedlock(self.0.mutex.get(), &after(timeout)) };
        if code == libc::ETIMEDOUT {
            return None;
        }
        check(code);
        Some(MonitorGuard(&self.0))
    }

    fn wait<'a>(&'a self, which: Which, guard: MonitorGuard<'a>) -> MonitorGuard<'a> {
        let (changed, mutex) = (guard.0.changed(which), guard.0.mutex.get());
        // SAFETY: as above, and this thread holds the mutex.
        check(unsafe { libc::pthread_cond_wait(changed, mutex) });
        guard
    }

    fn wait_for<'a>(
        &'a self,
        which: Which,
        guard: MonitorGuard<'a>,
        timeout: Duration,
    ) -> MonitorGuard<'a> {
        let (changed, mutex, time) = (guard.0.changed(which), guard.0.mutex.get(), after(timeout));
        // SAFETY: as above.
        let code = unsafe { libc::pthread_cond_timedwait(changed, mutex, &time) };
        if code != libc::ETIMEDOUT {
            check(code);
        }
        guard
    }

    fn notify_one(&self, which: Which) {
        // SAFETY: the condition variable is initialised and lives as long as `self`.
        check(unsafe { libc::pthread_cond_signal(self.0.changed(which)) });
    }

    fn notify_all(&self, which: Which) {
        // SAFETY: as above.
        check(unsafe { libc::pthread_cond_broadcast(self.0.changed(which)) });
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // SAFETY: initialised, and nobody else can use them: we own them.
        unsafe {
            libc::pthread_mutex_destroy(self.0.mutex.get());
            libc::pthread_cond_destroy(self.0.changed(Which::First));
            libc::pthread_cond_destroy(self.0.changed(Which::Second));
        }
    }
}

/// The time at which `timeout` is over, on the clock that these calls use.
fn after(timeout: Duration) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    check(unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) });
    let nanos = time.tv_nsec + libc::c_long::from(timeout.subsec_nanos() as i32);
    time.tv_sec += timeout.as_secs() as libc::time_t + nanos / 1_000_000_000;
    time.tv_nsec = nanos % 1_000_000_000;
    time
}

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![
        LockEntry::rw::<Pthread<false>>(
            "pthread",
            "pthread_rwlock_t and pthread_mutex_t of the C library, default kinds",
        )
        .with_mutex::<Mutex<false>>(),
        LockEntry::rw::<Pthread<true>>(
            "pthread:writer",
            "pthread_rwlock_t, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP",
        ),
        LockEntry::mutex::<Mutex<true>>(
            "pthread:adaptive",
            "pthread_mutex_t, PTHREAD_MUTEX_ADAPTIVE_NP: spins, then sleeps",
        ),
        LockEntry::mutex::<Spin>("pthread:spin", "pthread_spinlock_t: spins, never sleeps"),
    ]
}

//! The C library's locks: `pthread_rwlock_t` in glibc's two kinds that differ, `pthread_mutex_t` in
//! three kinds, also with `pthread_cond_t`, and `pthread_spinlock_t`.

use std::cell::UnsafeCell;
#[cfg(target_env = "gnu")]
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::locks::RwBench;
use crate::locks::condvar::{Set, Which};
use crate::locks::entry::LockEntry;
use crate::locks::monitor::{Monitor, RawMonitor};
use crate::workload::team::Padded;

// From glibc's <pthread.h>; the libc crate does not have them.
const PREFER_WRITER_NONRECURSIVE: libc::c_int = 2;
unsafe extern "C" {
    fn pthread_rwlockattr_setkind_np(
        attr: *mut libc::pthread_rwlockattr_t,
        kind: libc::c_int,
    ) -> libc::c_int;
}

/// A lock of the C library, which may be used from many threads at once. On Linux none of them
/// needs to be destroyed.
struct Shared<T>(UnsafeCell<T>);

// SAFETY: these locks are made to be used from many threads at once.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    const fn new(lock: T) -> Self {
        Self(UnsafeCell::new(lock))
    }

    #[inline(always)]
    fn get(&self) -> *mut T {
        self.0.get()
    }
}

/// Boxed: a lock must not move once it was initialised by a call.
fn boxed<T>(lock: T) -> Box<Padded<Shared<T>>> {
    Box::new(Padded(Shared::new(lock)))
}

/// Panics on an error code: none of these calls can fail on a valid lock
/// (deadlock and counter overflow aside, and then the numbers mean nothing).
#[inline(always)]
fn check(code: libc::c_int) {
    assert_eq!(code, 0, "pthread error {code}");
}

struct RwLock<const PREFER_WRITER: bool>(Box<Shared<libc::pthread_rwlock_t>>);

impl<const PREFER_WRITER: bool> RwBench for RwLock<PREFER_WRITER> {
    fn new() -> Self {
        let lock = Box::new(Shared::new(libc::PTHREAD_RWLOCK_INITIALIZER));
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
    fn write_lock(&self) {
        // SAFETY: as in `read_lock`.
        check(unsafe { libc::pthread_rwlock_wrlock(self.0.get()) });
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        // SAFETY: as above, and the caller holds it, on whichever side.
        check(unsafe { libc::pthread_rwlock_unlock(self.0.get()) });
    }
}

/// One of the C library's mutexes: of this type and this protocol.
struct Mutex<const TYPE: libc::c_int, const PROTOCOL: libc::c_int>(
    Box<Padded<Shared<libc::pthread_mutex_t>>>,
);

type Plain = Mutex<{ libc::PTHREAD_MUTEX_DEFAULT }, { libc::PTHREAD_PRIO_NONE }>;
/// Spins for a while before it sleeps.
type Adaptive = Mutex<{ libc::PTHREAD_MUTEX_ADAPTIVE_NP }, { libc::PTHREAD_PRIO_NONE }>;
/// The system hands it over, to the waiter of the highest priority, and lends that priority to the holder.
type Inherits = Mutex<{ libc::PTHREAD_MUTEX_DEFAULT }, { libc::PTHREAD_PRIO_INHERIT }>;

impl<const TYPE: libc::c_int, const PROTOCOL: libc::c_int> RwBench for Mutex<TYPE, PROTOCOL> {
    fn new() -> Self {
        let lock = boxed(libc::PTHREAD_MUTEX_INITIALIZER);
        let mut attr = MaybeUninit::uninit();
        let attr = attr.as_mut_ptr();
        // SAFETY: as in `RwLock::new`.
        unsafe {
            check(libc::pthread_mutexattr_init(attr));
            check(libc::pthread_mutexattr_settype(attr, TYPE));
            check(libc::pthread_mutexattr_setprotocol(attr, PROTOCOL));
            check(libc::pthread_mutex_init(lock.0.get(), attr));
            check(libc::pthread_mutexattr_destroy(attr));
        }
        Self(lock)
    }

    #[inline(always)]
    fn write_lock(&self) {
        // SAFETY: the mutex is initialised and lives as long as `self`.
        check(unsafe { libc::pthread_mutex_lock(self.0.0.get()) });
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        // SAFETY: as above, and the caller holds it.
        check(unsafe { libc::pthread_mutex_unlock(self.0.0.get()) });
    }
}

struct Spin(Box<Padded<Shared<libc::pthread_spinlock_t>>>);

impl RwBench for Spin {
    fn new() -> Self {
        let lock = boxed(0);
        // SAFETY: not in use yet, and in its final place.
        check(unsafe { libc::pthread_spin_init(lock.0.get(), libc::PTHREAD_PROCESS_PRIVATE) });
        Self(lock)
    }

    #[inline(always)]
    fn write_lock(&self) {
        // SAFETY: the lock is initialised and lives as long as `self`.
        check(unsafe { libc::pthread_spin_lock(self.0.0.get()) });
    }

    #[inline(always)]
    unsafe fn write_unlock(&self) {
        // SAFETY: as above, and the caller holds it.
        check(unsafe { libc::pthread_spin_unlock(self.0.0.get()) });
    }
}

/// A mutex of the default kind with two `pthread_cond_t`. Until their first use they are but the
/// numbers of their initialisers, and may be moved.
type Mutexed = Set<Shared<libc::pthread_mutex_t>, Shared<libc::pthread_cond_t>>;

/// Whether a call ended before its time was over.
fn in_time(code: libc::c_int) -> bool {
    if code != libc::ETIMEDOUT {
        check(code);
    }
    code == 0
}

// SAFETY: it is a mutex. In all of it: initialised, and as long there as `self`.
unsafe impl RawMonitor for Mutexed {
    fn new() -> Self {
        let changed = || Shared::new(libc::PTHREAD_COND_INITIALIZER);
        let mutex = Shared::new(libc::PTHREAD_MUTEX_INITIALIZER);
        Self { mutex, first: changed(), second: changed() }
    }

    fn lock_for(&self, timeout: Option<Duration>) -> bool {
        let mutex = self.mutex.get();
        // SAFETY: as above.
        let code = unsafe {
            match timeout {
                Some(timeout) => libc::pthread_mutex_timedlock(mutex, &after(timeout)),
                None => libc::pthread_mutex_lock(mutex),
            }
        };
        in_time(code)
    }

    unsafe fn unlock(&self) {
        // SAFETY: as above, and the caller holds it.
        check(unsafe { libc::pthread_mutex_unlock(self.mutex.get()) });
    }

    unsafe fn wait_for(&self, which: Which, timeout: Option<Duration>) {
        let (changed, mutex) = (self.get(which).get(), self.mutex.get());
        // SAFETY: as above. Whether the time was over does not matter: the caller looks again.
        let code = unsafe {
            match timeout {
                Some(timeout) => libc::pthread_cond_timedwait(changed, mutex, &after(timeout)),
                None => libc::pthread_cond_wait(changed, mutex),
            }
        };
        in_time(code);
    }

    fn notify_one(&self, which: Which) {
        // SAFETY: as above.
        check(unsafe { libc::pthread_cond_signal(self.get(which).get()) });
    }

    fn notify_all(&self, which: Which) {
        // SAFETY: as above.
        check(unsafe { libc::pthread_cond_broadcast(self.get(which).get()) });
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

/// The C library's version.
#[cfg(target_env = "gnu")]
pub fn version() -> String {
    // SAFETY: a string of the C library's that stays.
    unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy().into_owned()
}

/// The locks of this family.
pub fn entries() -> Vec<LockEntry> {
    vec![
        LockEntry::rw::<RwLock<false>>("pthread")
            .with_mutex::<Plain>()
            .with_condvar::<Monitor<Mutexed>>(),
        LockEntry::rw::<RwLock<true>>("pthread:writer"),
        LockEntry::mutex::<Adaptive>("pthread:adaptive"),
        LockEntry::mutex::<Inherits>("pthread:inherit"),
        LockEntry::mutex::<Spin>("pthread:spin"),
    ]
}

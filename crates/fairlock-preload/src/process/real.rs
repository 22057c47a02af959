//! glibc's own functions, for what this library leaves to them.

use core::ffi::{CStr, c_int, c_long, c_void};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    clockid_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t, pthread_mutexattr_t,
    pthread_rwlock_t, pthread_rwlockattr_t, pthread_spinlock_t, pthread_t, sem_t, timespec,
};

/// A function of the next library that has one of this name.
#[repr(C)]
pub(crate) struct Real {
    /// First: see `syscall`.
    address: AtomicPtr<c_void>,
    name: &'static CStr,
    /// The version, for functions of which there is an older one of the same name that differs.
    version: Option<&'static CStr>,
}

impl Real {
    const fn new(name: &'static CStr, version: Option<&'static CStr>) -> Self {
        Self { name, version, address: AtomicPtr::new(ptr::null_mut()) }
    }

    fn get(&self) -> *mut c_void {
        // Relaxed: the address of code that was there before; any thread finds the same.
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() { self.look_up() } else { address }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let name = self.name.as_ptr();
        // SAFETY: C strings.
        let address = unsafe {
            match self.version {
                Some(version) => libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr()),
                None => libc::dlsym(libc::RTLD_NEXT, name),
            }
        };
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

macro_rules! version {
    () => {
        None
    };
    ($version:literal) => {
        Some($version)
    };
}
use version;

macro_rules! real_functions {
    ($($name:ident: fn($($argument:ident: $type:ty),*)
        = $symbol:literal $(of $version:literal)?;)*) => {
        #[allow(non_upper_case_globals, reason = "each is named after its function")]
        mod addresses {
            $(pub(super) static $name: super::Real =
                super::Real::new($symbol, super::version!($($version)?));)*
        }

        /// Looks up all of them.
        pub(crate) fn resolve() {
            $(addresses::$name.get();)*
        }

        $(
            /// glibc's function of this name.
            ///
            /// # Safety
            /// As for the function.
            pub(crate) unsafe fn $name($($argument: $type),*) -> c_int {
                let address = addresses::$name.get();
                if address.is_null() {
                    return libc::ENOSYS;
                }
                type Function = unsafe extern "C-unwind" fn($($type),*) -> c_int;
                // SAFETY: what glibc has under that name is such a function; the rest is the
                // caller's promise. A thread that is cancelled in it leaves by unwinding.
                unsafe { transmute::<*mut c_void, Function>(address)($($argument),*) }
            }
        )*
    };
}

/// Where glibc's `syscall` is, once it was looked up.
pub(crate) static SYSCALL: Real = Real::new(c"syscall", None);

pub(crate) extern "C" fn look_up_syscall() {
    SYSCALL.get();
}

pub(crate) fn syscall() -> unsafe extern "C" fn(number: c_long, ...) -> c_long {
    // SAFETY: what glibc has under that name is such a function, and it is always there.
    unsafe { transmute(SYSCALL.get()) }
}

type Lock = *mut pthread_rwlock_t;
type Mutex = *mut pthread_mutex_t;
type Cond = *mut pthread_cond_t;
type Spin = *mut pthread_spinlock_t;
type Semaphore = *mut sem_t;

real_functions! {
    init: fn(lock: Lock, attributes: *const pthread_rwlockattr_t) = c"pthread_rwlock_init";
    setkind: fn(attributes: *mut pthread_rwlockattr_t, kind: c_int)
        = c"pthread_rwlockattr_setkind_np";
    getkind: fn(attributes: *const pthread_rwlockattr_t, kind: *mut c_int)
        = c"pthread_rwlockattr_getkind_np";
    destroy: fn(lock: Lock) = c"pthread_rwlock_destroy";
    rdlock: fn(lock: Lock) = c"pthread_rwlock_rdlock";
    tryrdlock: fn(lock: Lock) = c"pthread_rwlock_tryrdlock";
    timedrdlock: fn(lock: Lock, until: *const timespec) = c"pthread_rwlock_timedrdlock";
    clockrdlock: fn(lock: Lock, clock: clockid_t, until: *const timespec)
        = c"pthread_rwlock_clockrdlock";
    wrlock: fn(lock: Lock) = c"pthread_rwlock_wrlock";
    trywrlock: fn(lock: Lock) = c"pthread_rwlock_trywrlock";
    timedwrlock: fn(lock: Lock, until: *const timespec) = c"pthread_rwlock_timedwrlock";
    clockwrlock: fn(lock: Lock, clock: clockid_t, until: *const timespec)
        = c"pthread_rwlock_clockwrlock";
    unlock: fn(lock: Lock) = c"pthread_rwlock_unlock";

    mutex_init: fn(mutex: Mutex, attributes: *const pthread_mutexattr_t) = c"pthread_mutex_init";
    mutex_destroy: fn(mutex: Mutex) = c"pthread_mutex_destroy";
    mutex_lock: fn(mutex: Mutex) = c"pthread_mutex_lock";
    mutex_trylock: fn(mutex: Mutex) = c"pthread_mutex_trylock";
    mutex_timedlock: fn(mutex: Mutex, until: *const timespec) = c"pthread_mutex_timedlock";
    mutex_clocklock: fn(mutex: Mutex, clock: clockid_t, until: *const timespec)
        = c"pthread_mutex_clocklock";
    mutex_unlock: fn(mutex: Mutex) = c"pthread_mutex_unlock";

    cond_init: fn(cond: Cond, attributes: *const pthread_condattr_t)
        = c"pthread_cond_init" of c"GLIBC_2.3.2";
    cond_destroy: fn(cond: Cond) = c"pthread_cond_destroy" of c"GLIBC_2.3.2";
    cond_wait: fn(cond: Cond, mutex: Mutex) = c"pthread_cond_wait" of c"GLIBC_2.3.2";
    cond_timedwait: fn(cond: Cond, mutex: Mutex, until: *const timespec)
        = c"pthread_cond_timedwait" of c"GLIBC_2.3.2";
    cond_clockwait: fn(cond: Cond, mutex: Mutex, clock: clockid_t, until: *const timespec)
        = c"pthread_cond_clockwait";
    cond_signal: fn(cond: Cond) = c"pthread_cond_signal" of c"GLIBC_2.3.2";
    cond_broadcast: fn(cond: Cond) = c"pthread_cond_broadcast" of c"GLIBC_2.3.2";

    sem_wait: fn(semaphore: Semaphore) = c"sem_wait";
    sem_timedwait: fn(semaphore: Semaphore, until: *const timespec) = c"sem_timedwait";
    sem_clockwait: fn(semaphore: Semaphore, clock: clockid_t, until: *const timespec)
        = c"sem_clockwait";

    spin_init: fn(lock: Spin, shared: c_int) = c"pthread_spin_init";
    spin_lock: fn(lock: Spin) = c"pthread_spin_lock";
    spin_trylock: fn(lock: Spin) = c"pthread_spin_trylock";
    spin_unlock: fn(lock: Spin) = c"pthread_spin_unlock";
    dlclose: fn(library: *mut c_void) = c"dlclose";
    cancel: fn(thread: pthread_t) = c"pthread_cancel";
    setcanceltype: fn(new: c_int, before: *mut c_int) = c"pthread_setcanceltype";
}

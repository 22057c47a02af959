//! glibc's own functions, for what this library leaves to them.

use core::ffi::{CStr, c_int, c_long, c_void};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{
    clockid_t, pid_t, pthread_attr_t, pthread_cond_t, pthread_condattr_t, pthread_key_t,
    pthread_mutex_t, pthread_mutexattr_t, pthread_rwlock_t, pthread_rwlockattr_t,
    pthread_spinlock_t, pthread_t, sched_param, sem_t, timespec,
};

use super::config;

/// A function of the next library that has one of this name.
#[repr(C)]
pub(crate) struct Real {
    /// First: see `syscall`.
    address: AtomicPtr<c_void>,
    name: &'static str,
    /// The version, for functions of which there is an older one of the same name that differs.
    version: &'static [&'static CStr],
}

impl Real {
    /// `name` ends with a zero; there is a version, or none.
    const fn new(name: &'static str, version: &'static [&'static CStr]) -> Self {
        Self { name, version, address: AtomicPtr::new(ptr::null_mut()) }
    }

    fn get(&self) -> *mut c_void {
        // Relaxed: the address of code that was there before; any thread finds the same.
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() { self.look_up() } else { address }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let name = self.name.as_ptr().cast();
        // SAFETY: C strings.
        let address = unsafe {
            match self.version {
                // ThreadSanitizer's functions, which glibc's are behind, have no version.
                [version, ..] if !config::has_thread_sanitizer() => {
                    libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr())
                }
                _ => libc::dlsym(libc::RTLD_NEXT, name),
            }
        };
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

macro_rules! real_functions {
    ($($arguments:tt of $version:tt: $($name:ident)*;)*) => {
        #[allow(non_upper_case_globals, reason = "each is named after its function")]
        mod addresses {
            use super::Real;
            $($(
                pub(super) static $name: Real = Real::new(concat!(stringify!($name), "\0"), &$version);
            )*)*
        }

        /// Looks up all of them.
        pub(crate) fn resolve() {
            $($(addresses::$name.get();)*)*
        }

        $($(real_functions!(@one $name $arguments);)*)*
    };
    (@one $name:ident ($($argument:ident: $type:ty),*)) => {
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
    };
}

/// Where glibc's `syscall` is, once it was looked up.
pub(crate) static SYSCALL: Real = Real::new("syscall\0", &[]);

pub(crate) extern "C" fn look_up_syscall() {
    SYSCALL.get();
}

pub(crate) fn syscall() -> unsafe extern "C-unwind" fn(number: c_long, ...) -> c_long {
    // SAFETY: what glibc has under that name is such a function, and it is always there.
    unsafe { transmute(SYSCALL.get()) }
}

pub(crate) type Rwlock = *mut pthread_rwlock_t;
pub(crate) type Mutex = *mut pthread_mutex_t;
pub(crate) type Cond = *mut pthread_cond_t;
pub(crate) type Spin = *mut pthread_spinlock_t;
pub(crate) type Semaphore = *mut sem_t;
pub(crate) type Time = *const timespec;
pub(crate) type JumpBuffer = *mut c_void;
pub(crate) type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;

// The version, where there is an older function of the same name that differs.
real_functions! {
    (lock: Rwlock, attributes: *const pthread_rwlockattr_t) of []: pthread_rwlock_init;
    (attributes: *mut pthread_rwlockattr_t, kind: c_int) of []: pthread_rwlockattr_setkind_np;
    (attributes: *const pthread_rwlockattr_t, kind: *mut c_int) of []:
        pthread_rwlockattr_getkind_np;
    (lock: Rwlock) of []:
        pthread_rwlock_destroy pthread_rwlock_rdlock pthread_rwlock_tryrdlock pthread_rwlock_wrlock
        pthread_rwlock_trywrlock pthread_rwlock_unlock;
    (lock: Rwlock, until: Time) of []: pthread_rwlock_timedrdlock pthread_rwlock_timedwrlock;
    (lock: Rwlock, clock: clockid_t, until: Time) of []:
        pthread_rwlock_clockrdlock pthread_rwlock_clockwrlock;
    (mutex: Mutex, attributes: *const pthread_mutexattr_t) of []: pthread_mutex_init;
    (mutex: Mutex) of []:
        pthread_mutex_destroy pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock;
    (mutex: Mutex, until: Time) of []: pthread_mutex_timedlock;
    (mutex: Mutex, clock: clockid_t, until: Time) of []: pthread_mutex_clocklock;
    (cond: Cond, attributes: *const pthread_condattr_t) of [c"GLIBC_2.3.2"]: pthread_cond_init;
    (cond: Cond) of [c"GLIBC_2.3.2"]:
        pthread_cond_destroy pthread_cond_signal pthread_cond_broadcast;
    (cond: Cond, mutex: Mutex) of [c"GLIBC_2.3.2"]: pthread_cond_wait;
    (cond: Cond, mutex: Mutex, until: Time) of [c"GLIBC_2.3.2"]: pthread_cond_timedwait;
    (cond: Cond, mutex: Mutex, clock: clockid_t, until: Time) of []: pthread_cond_clockwait;
    (semaphore: Semaphore) of []: sem_wait sem_post;
    (semaphore: Semaphore, until: Time) of []: sem_timedwait;
    (semaphore: Semaphore, clock: clockid_t, until: Time) of []: sem_clockwait;
    (lock: Spin, shared: c_int) of []: pthread_spin_init;
    (lock: Spin) of []: pthread_spin_lock pthread_spin_trylock pthread_spin_unlock;
    (thread: pthread_t, policy: c_int, wanted: *const sched_param) of []: pthread_setschedparam;
    (attributes: *mut pthread_attr_t, policy: c_int) of []: pthread_attr_setschedpolicy;
    (process: pid_t, policy: c_int, wanted: *const sched_param) of []: sched_setscheduler;
    (library: *mut c_void) of []: dlclose;
    (key: *mut pthread_key_t, ends: Destructor) of []: pthread_key_create;
    (to: JumpBuffer, value: c_int) of []: siglongjmp __longjmp_chk;
    (thread: pthread_t) of []: pthread_cancel;
    (new: c_int, before: *mut c_int) of []: pthread_setcanceltype;
}

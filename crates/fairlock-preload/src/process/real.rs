//! glibc's own functions, for what this library leaves to them.

use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};

/// A function of the next library that has it.
struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    fn get(&self) -> *mut c_void {
        // Relaxed: it names code that was there before, and anyone finds the same.
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() { self.look_up() } else { address }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        // SAFETY: a C string.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

macro_rules! real_functions {
    ($($name:ident: fn($($argument:ident: $type:ty),*) = $symbol:literal;)*) => {
        #[allow(non_upper_case_globals, reason = "each is named after its function")]
        mod addresses {
            $(pub(super) static $name: super::Real = super::Real::new($symbol);)*
        }

        /// Looks all of them up.
        pub(super) fn resolve() {
            $(addresses::$name.get();)*
        }

        $(
            /// The function of that name.
            ///
            /// # Safety
            /// As for the function.
            pub(crate) unsafe fn $name($($argument: $type),*) -> c_int {
                let address = addresses::$name.get();
                if address.is_null() {
                    return libc::ENOSYS;
                }
                // SAFETY: what glibc has under that name is such a function; the rest is
                // the caller's promise.
                unsafe {
                    transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>(address)(
                        $($argument),*
                    )
                }
            }
        )*
    };
}

type Lock = *mut pthread_rwlock_t;

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
}

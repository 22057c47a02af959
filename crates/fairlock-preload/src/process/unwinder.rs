//! libgcc's functions that look at the frames of a stack.

use core::ffi::{c_int, c_void};
use core::mem::transmute;
use std::sync::OnceLock;

pub(crate) type Context = c_void;

/// They are looked up in libgcc, as another library of the program may have some of these names too, and take locks in
/// them (libunwind does): the lock that a thread has just taken, for example.
pub(crate) struct Unwinder {
    pub(crate) backtrace: Backtrace,
    pub(crate) ip_info: IpInfo,
    pub(crate) cfa: Cfa,
}

type Backtrace = unsafe extern "C" fn(
    trace: extern "C" fn(*mut Context, *mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_int;
type IpInfo = unsafe extern "C" fn(context: *mut Context, before: *mut c_int) -> usize;
type Cfa = unsafe extern "C" fn(context: *mut Context) -> usize;

/// What a function that is called with each frame returns.
pub(crate) const GO_ON: c_int = 0;
pub(crate) const END: c_int = 5;

static UNWINDER: OnceLock<Unwinder> = OnceLock::new();

/// `None` if unwinding would take a lock, for example of the loader.
pub(crate) fn get() -> Option<&'static Unwinder> {
    UNWINDER.get()
}

/// Called when the library is loaded.
pub(crate) fn start() {
    // SAFETY: C strings; what libgcc has under these names are such functions, and libgcc stays
    // loaded.
    unsafe {
        let libgcc = libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_LAZY);
        if libgcc.is_null()
            || libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()).is_null()
        {
            return;
        }
        let functions = [c"_Unwind_Backtrace", c"_Unwind_GetIPInfo", c"_Unwind_GetCFA"]
            .map(|name| libc::dlsym(libgcc, name.as_ptr()));
        if functions.iter().all(|function| !function.is_null()) {
            let [backtrace, ip_info, cfa] = functions;
            UNWINDER.get_or_init(|| Unwinder {
                backtrace: transmute::<*mut c_void, Backtrace>(backtrace),
                ip_info: transmute::<*mut c_void, IpInfo>(ip_info),
                cfa: transmute::<*mut c_void, Cfa>(cfa),
            });
        }
    }
}

//! `dlclose`, for the profile: what is loaded later may have the same addresses.

use core::ffi::{c_int, c_void};

use crate::process::real;
use crate::profile;

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn dlclose(library: *mut c_void) -> c_int {
    // SAFETY: what the program gives to glibc's function, it gives to this one.
    profile::unloading(|| unsafe { real::dlclose(library) })
}

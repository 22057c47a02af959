//! A `pthread_cond_t`.

#[cfg(not(test))] // a test's own are libc's
pub(super) mod symbols;

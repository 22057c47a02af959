//! A `pthread_mutex_t`.

#[cfg(not(test))] // a test's own locks are libc's
pub(super) mod symbols;

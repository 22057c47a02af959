//! What Linux offers to locks that sleep.

use super::Finding;

/// Futexes and restartable sequences.
pub fn findings() -> Vec<Finding> {
    vec![futexes(), rseq()]
}

/// Whether this Linux has a system call. The call is made with arguments that make no sense, so
/// that it does nothing.
fn has(number: libc::c_long) -> bool {
    // SAFETY: no argument is an address that the kernel would use: an unknown flag, or a null
    // pointer, makes the call fail.
    let result = unsafe { libc::syscall(number, 0, u64::MAX, u64::MAX, u64::MAX, 0, 0) };
    result >= 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

fn futexes() -> Finding {
    // These numbers are the same on all architectures.
    const NEWER: [(&str, libc::c_long); 4] =
        [("futex_waitv", 449), ("futex_wake", 454), ("futex_wait", 455), ("futex_requeue", 456)];
    let (there, missing): (Vec<_>, Vec<_>) =
        NEWER.into_iter().partition(|(_, number)| has(*number));
    let names = |calls: &[(&str, libc::c_long)]| {
        calls.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let found = match (there.as_slice(), missing.as_slice()) {
        (there, []) => format!("futex, and {}", names(there)),
        ([], missing) => format!("futex; not {}", names(missing)),
        (there, missing) => format!("futex, and {}; not {}", names(there), names(missing)),
    };
    Finding::new("futexes", found, "The locks need the first only")
}

fn rseq() -> Finding {
    // SAFETY: the name is a string that ends with zero. Where the symbol is, it is an `unsigned
    // int` that does not change after the program's start.
    let is_registered = unsafe {
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        !size.is_null() && *size > 0
    };
    let (found, means) = if is_registered {
        ("registered by the C library", "")
    } else {
        (
            "not registered by this C library",
            "Which CPU a thread is on costs a call instead of a load: striped range locks pay that for \
             each lock",
        )
    };
    Finding::new("rseq", found, means)
}

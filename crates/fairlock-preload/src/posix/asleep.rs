//! Waits for what nobody holds, for the profile: at semaphores, which stay glibc's, and by system calls
//! that the program makes through glibc, as locks of other languages do. A call that would not wait is not
//! recorded.

use core::arch::naked_asm;
use core::ffi::{c_int, c_long};

use fairlock_profile::layout::kind;
use libc::EINTR;

use crate::process::real::{self, Semaphore};
use crate::profile;

/// The error number of a call that has just returned this; zero if it has waited.
fn errno(result: c_long) -> c_int {
    if result != -1 {
        return 0;
    }
    // SAFETY: this thread's own.
    match unsafe { *libc::__errno_location() } {
        EINTR => 0,
        errno => errno,
    }
}

/// Waits by `wait`, which is glibc's.
///
/// # Safety
/// A semaphore.
#[inline(always)]
pub(super) unsafe fn at_semaphore(semaphore: Semaphore, wait: impl FnOnce() -> c_int) -> c_int {
    let is_free = || {
        let mut value = 0;
        // SAFETY: the caller's promise.
        unsafe { libc::sem_getvalue(semaphore, &mut value) == 0 && value > 0 }
    };
    // Not an attempt first: a thread that is cancelled must not take it.
    if !profile::is_on() || is_free() {
        return wait();
    }
    profile::asleep(semaphore.addr(), |_| kind::SEMAPHORE, wait, |&result| errno(result.into()))
}

/// Any system call. All but those of futexes go on to glibc with registers and stack as they are: one may
/// return on another stack, or twice. glibc takes six arguments, too, however many there are.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn syscall(number: c_long) -> c_long {
    naked_asm!(
        "cmp rdi, {FUTEX}",
        "je {futex}",
        "cmp qword ptr [rip + {next}], 0",
        "je 2f",
        "jmp qword ptr [rip + {next}]",
        "2:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        // Where calls have it, the stack is a multiple of 16.
        "push rax",
        "call {look_up}",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp qword ptr [rip + {next}]",
        FUTEX = const libc::SYS_futex,
        futex = sym futex,
        next = sym real::SYSCALL,
        look_up = sym real::look_up_syscall,
    )
}

/// `syscall` for futexes.
///
/// # Safety
/// See above.
unsafe extern "C" fn futex(
    number: c_long,
    address: usize,
    operation: c_long,
    value: c_long,
    until: c_long,
    second: c_long,
    third: c_long,
) -> c_long {
    const WAITS: [c_int; 5] = [
        libc::FUTEX_WAIT,
        libc::FUTEX_WAIT_BITSET,
        libc::FUTEX_WAIT_REQUEUE_PI,
        libc::FUTEX_LOCK_PI,
        libc::FUTEX_LOCK_PI2,
    ];
    // SAFETY: see above.
    let call =
        || unsafe { real::syscall()(number, address, operation, value, until, second, third) };
    if WAITS.contains(&(operation as c_int & libc::FUTEX_CMD_MASK)) {
        profile::asleep(address, |_| kind::FUTEX, call, |&result| errno(result))
    } else {
        call()
    }
}

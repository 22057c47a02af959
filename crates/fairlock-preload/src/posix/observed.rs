//! Waits for what nobody holds, for the profile: at semaphores, which stay glibc's, and by system calls
//! that the program makes through glibc, as locks of other languages do. A call that would not wait is not
//! recorded. And `pthread_spin_lock` and its like.

use core::arch::naked_asm;
use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use fairlock_profile::layout::{kind, side};
use libc::EINTR;

use super::if_aligned;
use crate::process;
use crate::process::real::{self, Semaphore, Spin};
use crate::profile::{self, Of, Target};
use crate::thread::{
    self,
    cancel::{self, whole},
};

/// The error number of a call that has just returned this; zero if it has waited.
fn errno(result: c_long) -> c_int {
    let failed = (result == -1).then(|| process::errno().get());
    failed.filter(|&errno| errno != EINTR).unwrap_or(0)
}

const SEMAPHORE: &Of = &Of::nobody(|_| kind::SEMAPHORE);
const FUTEX: &Of = &Of::nobody(|_| kind::FUTEX);

/// Waits by `wait`, which is glibc's.
///
/// # Safety
/// A semaphore.
#[inline(always)]
pub(super) unsafe fn at_semaphore(
    semaphore: Semaphore,
    wait: impl FnOnce() -> c_int + Copy,
) -> c_int {
    let is_free = || {
        let mut value = 0;
        // SAFETY: the caller's promise.
        unsafe { libc::sem_getvalue(semaphore, &mut value) == 0 && value > 0 }
    };
    // Not an attempt first: a thread that is cancelled must not take it.
    if !profile::is_on() || is_free() {
        return wait();
    }
    let wait = move || cancel::as_outside(wait);
    whole(move || {
        profile::asleep(semaphore.addr(), SEMAPHORE, wait, |&result| errno(result.into()))
    })
}

/// Ends a wait at a semaphore.
///
/// # Safety
/// A semaphore.
#[inline(always)]
pub(super) unsafe fn post(semaphore: Semaphore) -> c_int {
    // SAFETY: the caller's promise.
    let post = move || unsafe { real::sem_post(semaphore) };
    if !profile::is_on() {
        return post();
    }
    whole(move || {
        profile::wakes(semaphore.addr());
        cancel::as_outside(post)
    })
}

/// Any system call. Those that may give a real-time policy are noted. All but those of futexes go on to glibc with
/// registers and stack as they are: one may return on another stack, or twice. glibc takes six arguments, too, however
/// many there are.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn syscall(number: c_long) -> c_long {
    naked_asm!(
        "cmp rdi, {FUTEX}",
        "je {futex}",
        "cmp rdi, {SETATTR}",
        "je 3f",
        "cmp rdi, {SETSCHEDULER}",
        "jne 4f",
        "3:",
        "mov byte ptr [rip + {may_be_real_time}], 1",
        "4:",
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
        SETATTR = const libc::SYS_sched_setattr,
        SETSCHEDULER = const libc::SYS_sched_setscheduler,
        may_be_real_time = sym thread::MAY_BE_REAL_TIME,
        futex = sym futex,
        next = sym real::SYSCALL,
        look_up = sym real::look_up_syscall,
    )
}

/// `syscall` for futexes.
///
/// # Safety
/// See above.
unsafe extern "C-unwind" fn futex(
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
    const WAKES: [c_int; 6] = [
        libc::FUTEX_WAKE,
        libc::FUTEX_WAKE_BITSET,
        libc::FUTEX_WAKE_OP,
        libc::FUTEX_REQUEUE,
        libc::FUTEX_CMP_REQUEUE,
        libc::FUTEX_UNLOCK_PI,
    ];
    // SAFETY: see above.
    let call =
        move || unsafe { real::syscall()(number, address, operation, value, until, second, third) };
    if !profile::is_on() {
        return call();
    }
    whole(move || {
        let wait = || cancel::as_outside(call);
        if WAITS.contains(&(operation as c_int & libc::FUTEX_CMD_MASK)) {
            profile::asleep(address, FUTEX, wait, |&result| errno(result))
        } else {
            if WAKES.contains(&(operation as c_int & libc::FUTEX_CMD_MASK)) {
                profile::wakes(address);
            }
            wait()
        }
    })
}

// ---- spin locks ----
//
// They stay glibc's: a thread that waits for a spin lock never sleeps, and may be a signal handler's or another
// process's; and four bytes have no room for more.
//
// Where no record is made, what is one step in glibc is that step here: a call that was passed on would take
// half as long again. `start` looks whether glibc still does it in this way.

const FREE: c_int = 1;
const HELD: c_int = 0;

/// Whether free locks are taken, and released, as glibc does it.
static AS_GLIBC: AtomicBool = AtomicBool::new(false);

/// Called when the library is loaded.
pub(crate) fn start() {
    let mut lock = FREE + 1;
    let lock = &raw mut lock;
    // SAFETY: a lock that nobody else knows.
    let known = unsafe {
        let made =
            real::pthread_spin_init(lock, libc::PTHREAD_PROCESS_PRIVATE) == 0 && *lock == FREE;
        let taken = real::pthread_spin_lock(lock) == 0 && *lock == HELD;
        made && taken && real::pthread_spin_unlock(lock) == 0 && *lock == FREE
    };
    // Relaxed, here and below: no other memory is read on the strength of it.
    AS_GLIBC.store(known && !profile::is_on(), Ordering::Relaxed);
}

/// The lock, if it is used here; misaligned ones are not.
///
/// # Safety
/// A lock that is initialised, and stays so until the caller is done with it: here and below.
#[inline(always)]
unsafe fn as_glibc<'a>(lock: Spin) -> Option<&'a AtomicI32> {
    // SAFETY: the caller's promise.
    AS_GLIBC.load(Ordering::Relaxed).then(|| unsafe { if_aligned(lock.cast()) })?
}

#[inline(always)]
pub(super) unsafe fn take_as_glibc(lock: Spin) -> bool {
    // Acquire: what the last holder did is seen.
    let order = (Ordering::Acquire, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe { as_glibc(lock) }
        .is_some_and(|lock| lock.compare_exchange(FREE, HELD, order.0, order.1).is_ok())
}

#[inline(always)]
pub(super) unsafe fn release_as_glibc(lock: Spin) -> bool {
    // SAFETY: the caller's promise.
    let ours = unsafe { as_glibc(lock) };
    // Release: see `take_as_glibc`.
    ours.inspect(|lock| lock.store(FREE, Ordering::Release)).is_some()
}

fn target(lock: Spin) -> Target {
    Target { address: lock.addr(), side: side::WRITE, of: const { &Of::nobody(|_| kind::SPIN) } }
}

pub(super) unsafe fn spin_lock(lock: Spin) -> c_int {
    // SAFETY: the caller's promise.
    let attempt = || unsafe { real::pthread_spin_trylock(lock) };
    // SAFETY: as above.
    let wait = move || unsafe { real::pthread_spin_lock(lock) };
    profile::acquire(target(lock), attempt, attempt, || cancel::as_outside(wait))
}

pub(super) unsafe fn spin_try_lock(lock: Spin) -> c_int {
    // SAFETY: the caller's promise.
    profile::attempt(target(lock), || unsafe { real::pthread_spin_trylock(lock) })
}

pub(super) unsafe fn spin_unlock(lock: Spin) -> c_int {
    // SAFETY: the caller's promise.
    profile::releasing(lock.addr(), || unsafe { real::pthread_spin_unlock(lock) })
}

//! Threads that a signal handler takes out of a wait, by `siglongjmp`. POSIX leaves that undefined, but glibc's waits
//! survive it, as they leave nothing in the frames that are given up.
//!
//! A wait of ours does: the thread stands in a queue, and has noted which lock it uses. So this library's `longjmp`, if
//! it would leave [a call](within) of this library, lets that call end first. It notes the jump, and returns from the
//! signal handler, all of whose frames it gives up, as the kernel does. The call goes on; its waits end; it returns; and
//! then the thread [jumps](Jump::go). It does not matter in the midst of what the call was.
//!
//! Where a handler of a second signal does that, the call that the handler of the first one made ends in this way, and
//! then jumps; and so ends the call below.
//!
//! A wait of glibc's has to be left at once, as before: it would not end.

use core::arch::asm;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use super::{State, state};
use crate::process::real::{self, JumpBuffer};
use crate::process::unwinder::{self, Context, END, GO_ON, Unwinder};

/// Where a thread is about to jump; null: nowhere.
#[derive(Clone, Copy)]
pub(crate) struct Jump {
    to: JumpBuffer,
    value: c_int,
}

const NONE: Jump = Jump { to: ptr::null_mut(), value: 0 };

/// Whether the call is to end, as the thread is about to jump.
#[inline]
pub(crate) fn is_due() -> bool {
    !state().jump.get().to.is_null()
}

/// Runs `call`, a call of this library.
#[inline(always)]
pub(super) fn within<R>(call: impl FnOnce() -> R) -> R {
    let outside = state().call.replace(stack_pointer());
    // Only signal handlers look at it.
    compiler_fence(Ordering::SeqCst);
    let result = call();
    compiler_fence(Ordering::SeqCst);
    state().call.set(outside);
    result
}

/// Runs `wait`, which is glibc's, within such a call: a jump leaves it as it is.
#[inline(always)]
pub(super) fn without<R>(wait: impl FnOnce() -> R) -> R {
    let call = state().call.replace(0);
    compiler_fence(Ordering::SeqCst);
    let result = wait();
    compiler_fence(Ordering::SeqCst);
    state().call.set(call);
    result
}

/// The call has ended: jumps if that is due. Nothing is in the caller's frames that must not be left.
#[inline(always)]
pub(super) fn go_if_due() {
    if is_due() {
        go(state().jump.replace(NONE));
    }
}

#[cold]
#[inline(never)]
fn go(jump: Jump) -> ! {
    // SAFETY: the program's promise; the frames that are left have nothing that must not be left.
    unsafe { self::jump(jump.to, jump.value, real::siglongjmp) }
}

/// The program jumps, by `leave`.
///
/// # Safety
/// As for `longjmp`.
pub(crate) unsafe fn jump(
    to: JumpBuffer,
    value: c_int,
    leave: unsafe fn(JumpBuffer, c_int) -> c_int,
) -> ! {
    let me = state();
    // Relaxed: no other memory is read on the strength of it.
    let may_leave = me.call.get() != 0 && IS_KNOWN.load(Ordering::Relaxed);
    // SAFETY: the caller's promise.
    if may_leave && leaves(me.call.get(), unsafe { stack_pointer_at(to) }) {
        // SAFETY: as above.
        unsafe { end_call(me, Jump { to, value }) };
    }
    // SAFETY: as above.
    unsafe { leave(to, value) };
    unreachable!("glibc has no such function")
}

/// Whether `setjmp` saves the stack pointer [as expected](stack_pointer_at).
static IS_KNOWN: AtomicBool = AtomicBool::new(false);

/// Called when the library is loaded.
pub(crate) fn start() {
    unsafe extern "C" {
        fn _setjmp(saves: *mut usize) -> c_int;
    }
    /// glibc's has 25. In words.
    const ROOM: usize = 64;
    let mut saved = [0; ROOM];
    // SAFETY: there is room for what is saved, and nobody jumps there.
    let pointer = unsafe {
        _setjmp(saved.as_mut_ptr());
        stack_pointer_at(saved.as_mut_ptr().cast())
    };
    IS_KNOWN.store(pointer.abs_diff(stack_pointer()) <= size_of_val(&saved), Ordering::Relaxed);
}

/// Whether a jump to where the stack pointer is `to` leaves a call. Each may be on the stack of signal handlers.
fn leaves(call: usize, to: usize) -> bool {
    // SAFETY: plain data; then it is written.
    let stack = unsafe {
        let mut stack: libc::stack_t = core::mem::zeroed();
        libc::sigaltstack(ptr::null(), &mut stack);
        stack
    };
    let handlers_run_there = stack.ss_flags & libc::SS_ONSTACK != 0;
    let is_there = |pointer: usize| {
        handlers_run_there && pointer.wrapping_sub(stack.ss_sp.addr()) <= stack.ss_size
    };
    match (is_there(call), is_there(to)) {
        (true, false) => true,
        (false, true) => false,
        _ => to > call,
    }
}

/// The calling thread is in a signal handler, which has interrupted a call of this library. Has it jump when that has
/// ended, and returns from the handler. If the handler is not found, returns, and the call is given up.
///
/// # Safety
/// The handler's frames may be given up.
#[cold]
#[inline(never)]
unsafe fn end_call(me: &State, jump: Jump) {
    let Some(unwinder) = unwinder::get() else { return me.call.set(0) };
    let mut walk = Walk { unwinder, call: me.call.get(), before: 0, context: ptr::null_mut() };
    // SAFETY: `note_frame` takes that.
    unsafe { (unwinder.backtrace)(note_frame, (&raw mut walk).cast()) };
    // SAFETY: null, or what the kernel has saved.
    let Some(context) = (unsafe { walk.context.as_mut() }) else { return me.call.set(0) };
    me.jump.set(jump);
    // The signals that are blocked now are blocked after the jump, unless that restores others.
    // SAFETY: the set is written, as far as the kernel has one.
    unsafe {
        let mask = &raw mut context.uc_sigmask;
        let none = ptr::null::<c_void>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, none, mask, size_of::<u64>());
    }
    // SAFETY: null, or from the pool. Relaxed: the thread's own.
    if let Some(record) = unsafe { me.record.load(Ordering::Relaxed).as_ref() } {
        record.thread.wake();
    }
    // SAFETY: where the stack pointer is when a handler has returned; what was interrupted goes on.
    unsafe {
        asm!(
            "mov rsp, {context}",
            "mov eax, {SIGRETURN}",
            "syscall",
            "ud2",
            context = in(reg) walk.context,
            SIGRETURN = const libc::SYS_rt_sigreturn,
            options(noreturn)
        );
    }
}

/// A walk along the frames, from the innermost.
struct Walk {
    unwinder: &'static Unwinder,
    /// Where the call is.
    call: usize,
    /// The stack pointer in the last frame.
    before: usize,
    /// What the kernel has saved for the handler that interrupted the call, as far as is known.
    context: *mut libc::ucontext_t,
}

extern "C" fn note_frame(frame: *mut Context, walk: *mut c_void) -> c_int {
    /// No call takes as much of the stack: further away is another stack. In bytes.
    const NEAR: usize = 1 << 20;
    // SAFETY: what `end_call` has passed.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    let mut is_interrupted = 0;
    // SAFETY: a frame of the walk.
    let pointer = unsafe {
        (walk.unwinder.ip_info)(frame, &mut is_interrupted);
        (walk.unwinder.cfa)(frame)
    };
    if is_interrupted != 0 && walk.call.wrapping_sub(pointer) < NEAR {
        // The frame before is the one to which the handler returns: what the kernel has saved is there.
        let context = ptr::with_exposed_provenance_mut::<libc::ucontext_t>(walk.before);
        // SAFETY: as said.
        let saved = unsafe { (*context).uc_mcontext.gregs[libc::REG_RSP as usize] };
        if saved as usize == pointer {
            walk.context = context;
        }
    }
    walk.before = pointer;
    let is_past = pointer > walk.call && pointer - walk.call < NEAR;
    if is_past && !walk.context.is_null() { END } else { GO_ON }
}

/// The caller's.
#[inline(always)]
fn stack_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// The stack pointer that `setjmp` has saved, as glibc keeps it: mangled.
///
/// # Safety
/// Saved by `setjmp`.
unsafe fn stack_pointer_at(saved: JumpBuffer) -> usize {
    const POINTER: usize = 6;
    // SAFETY: the caller's promise.
    let mut pointer = unsafe { saved.cast::<usize>().add(POINTER).read() };
    // SAFETY: reads what glibc mangles with, in the thread's control block.
    unsafe {
        asm!("ror {0}, 17", "xor {0}, qword ptr fs:[0x30]", inout(reg) pointer, options(nostack));
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_setjmp_saves_the_stack_pointer_is_known() {
        start();
        assert!(IS_KNOWN.load(Ordering::Relaxed));
    }

    #[test]
    fn a_jump_leaves_a_call_that_is_deeper_in_the_stack() {
        assert!(leaves(1000, 2000) && !leaves(2000, 1000));
    }
}

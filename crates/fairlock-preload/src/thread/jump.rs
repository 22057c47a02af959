//! Threads that a signal handler takes out of a wait, by `siglongjmp`. POSIX leaves that undefined, but glibc's waits
//! survive it, as they leave nothing in the frames that are given up.
//!
//! A wait of ours does: the thread stands in a queue, and has noted which lock it uses. So this library's `longjmp`, if
//! it would leave [a call](within) of this library, lets that call end first. It notes the jump, and returns from the
//! signal handler, all of whose frames it gives up, as the kernel does. The call goes on; its waits end; it returns; and
//! then the thread [jumps](go). It does not matter in the midst of what the call was. A handler that interrupts the call
//! meanwhile is not concerned: its calls are others.
//!
//! Where a handler of a second signal does that, the call that the handler of the first one made ends in this way, and
//! then jumps; and so ends the call below. So does a call that called itself this library's function.
//!
//! A wait of glibc's is left immediately, as without this library: it would not end.

use core::arch::asm;
use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use super::{State, state};
use crate::process::real::{self, JumpBuffer};
use crate::process::unwinder::{self, Context, END, GO_ON, Unwinder};

/// A call that a thread is in: where it is about to jump, if anywhere.
pub(crate) struct Call(Cell<Option<Jump>>);

#[derive(Clone, Copy)]
pub(super) struct Jump {
    to: NonNull<c_void>,
    value: c_int,
}

/// Whether the call is to end, as the thread is about to jump.
#[inline]
pub(crate) fn is_due() -> bool {
    // SAFETY: null, or the call that this thread is in.
    unsafe { state().call.get().as_ref() }.is_some_and(|call| call.0.get().is_some())
}

/// Runs `call`, a call of this library: what came of it, and where it has to jump.
#[inline(always)]
pub(super) fn within<R>(call: impl FnOnce() -> R) -> (R, Option<Jump>) {
    let this = Call(Cell::new(None));
    let outside = state().call.replace(&this);
    // Only signal handlers look at it.
    compiler_fence(Ordering::SeqCst);
    let result = call();
    compiler_fence(Ordering::SeqCst);
    state().call.set(outside);
    // A handler may have come until now.
    compiler_fence(Ordering::SeqCst);
    (result, this.0.get())
}

/// Runs `wait`, which is glibc's, within such a call: a jump leaves it as it is. The thread may end in it.
#[inline(always)]
pub(crate) fn without<R>(wait: impl FnOnce() -> R) -> R {
    let call = state().call.replace(ptr::null());
    compiler_fence(Ordering::SeqCst);
    // A handler came before the wait, which would not end.
    // SAFETY: null, or the call that this thread is in.
    unsafe { call.as_ref() }.and_then(|call| call.0.get()).into_iter().for_each(go);
    let result = wait();
    compiler_fence(Ordering::SeqCst);
    state().call.set(call);
    result
}

/// A call has ended, and is to jump. Nothing is in the caller's frames that must not be left. Returns if the call was one
/// of another call of this library, which jumps when it has ended.
#[cold]
#[inline(never)]
pub(super) fn go(jump: Jump) {
    let me = state();
    // SAFETY: the program's promise; the frames that are left have nothing that must not be left.
    unsafe {
        if let Some(call) = call_left(me, jump) {
            end_call(me, call, jump);
            return call.0.set(Some(jump));
        }
        real::siglongjmp(jump.to.as_ptr(), jump.value);
    }
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
    if let Some(to) = NonNull::new(to) {
        let (me, jump) = (state(), Jump { to, value });
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(call) = call_left(me, jump) {
                end_call(me, call, jump);
                // The handler is not found: the call is given up.
                me.call.set(ptr::null());
            }
        }
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
    let here = NonNull::from(&mut saved).cast::<c_void>();
    // SAFETY: there is room for what is saved, and nobody jumps there.
    let pointer = unsafe {
        _setjmp(here.as_ptr().cast());
        stack_pointer_at(here)
    };
    // What is saved is in the frame, too.
    let is_known = pointer.abs_diff(here.addr().get()) <= 2 * size_of_val(&saved);
    IS_KNOWN.store(is_known, Ordering::Relaxed);
}

/// The call that the thread is in, if the jump leaves it.
///
/// # Safety
/// As for `longjmp`.
unsafe fn call_left(me: &State, jump: Jump) -> Option<&Call> {
    let call = me.call.get();
    // SAFETY: the caller's promise.
    let is_left = || leaves(call.addr(), unsafe { stack_pointer_at(jump.to) });
    // SAFETY: null, or the call that this thread is in. Relaxed: no other memory is read on the strength of it.
    unsafe { call.as_ref() }.filter(|_| IS_KNOWN.load(Ordering::Relaxed) && is_left())
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

/// The calling thread is in a signal handler, which has interrupted `call`. Has it jump when that has ended, and returns
/// from the handler. Returns to the caller if no handler is found.
///
/// # Safety
/// The handler's frames may be given up.
#[cold]
#[inline(never)]
unsafe fn end_call(me: &State, call: &Call, jump: Jump) {
    let Some(unwinder) = unwinder::get() else { return };
    let call_at = ptr::from_ref(call).addr();
    let mut walk = Walk { unwinder, call: call_at, before: 0, context: ptr::null_mut() };
    // SAFETY: `note_frame` takes that.
    unsafe { (unwinder.backtrace)(note_frame, (&raw mut walk).cast()) };
    // SAFETY: null, or what the kernel has saved.
    let Some(context) = (unsafe { walk.context.as_mut() }) else { return };
    call.0.set(Some(jump));
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

/// The stack pointer that `setjmp` has saved, as glibc keeps it: mangled.
///
/// # Safety
/// Saved by `setjmp`.
unsafe fn stack_pointer_at(saved: NonNull<c_void>) -> usize {
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

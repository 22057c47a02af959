//! Linux: futexes, the monotonic clock, and the CPU hint from the thread's
//! restartable-sequence area.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::{pools, threads};
use crate::lock::{Periods, VisibleReaders};
use crate::platform::{PooledPlatform, Thread};
use crate::system::{System, WaitOutcome, errno};

/// The Linux platform.
#[derive(Debug, Clone, Copy)]
pub struct Linux;

threads::thread_records!(Linux, in_child);
pools!(Linux {
    fn visible_readers() -> Option<&'static VisibleReaders<Self>> {
        Some(&VISIBLE)
    }

    const WATCHES_READERS: bool = true;

    // Not in the thread's record: it may have none.
    #[inline(always)]
    fn begins_watch() -> bool {
        PERIODS.with(Periods::ends)
    }
});

static VISIBLE: VisibleReaders<Linux> = VisibleReaders::new_const();

std::thread_local! {
    static PERIODS: Periods = const { Periods::new() };
    // No destructor, as for the address of the record.
    static READER: Cell<*const ()> = const { Cell::new(core::ptr::null()) };
}

extern "C" fn in_child() {
    // SAFETY: the thread that forked is alone in the child, and did not fork in here.
    unsafe {
        POOL.enter_child(record_hint());
        Linux::slots().enter_child();
        VISIBLE.enter_child((record_hint() as *const Thread<Linux>).as_ref());
        barrier::enter_child();
    }
}

const NANOS_PER_SEC: u64 = 1_000_000_000;

// SAFETY: thread records come from `threads` (one per live thread, never
// freed); the atomics are the processor's; the kernel compares the futex word
// under its own lock, so a wake after a store is never lost.
unsafe impl System for Linux {
    type AtomicUsize = AtomicUsize;
    type AtomicU32 = AtomicU32;
    type AtomicU64 = AtomicU64;
    type Thread = Thread<Self>;

    #[inline(always)]
    fn pause() {
        core::hint::spin_loop();
    }

    fn yield_now() {
        // A sandbox may refuse the call. Rustix would panic then.
        errno::kept(std::thread::yield_now);
    }

    #[inline]
    fn now() -> u64 {
        static IS_FOUND: AtomicBool = AtomicBool::new(false);
        let read = || clock_gettime(ClockId::Monotonic);
        // Relaxed, here and below: at worst the clock is looked for once more.
        let is_found = IS_FOUND.load(Ordering::Relaxed);
        // Where the kernel maps no clock, as under valgrind, the search for it sets errno.
        let t = if is_found { read() } else { errno::kept(read) };
        if !is_found {
            IS_FOUND.store(true, Ordering::Relaxed);
        }
        t.tv_sec as u64 * NANOS_PER_SEC + t.tv_nsec as u64
    }

    fn wait(
        word: &AtomicU32,
        expected: u32,
        deadline: Option<u64>,
        interruptible: bool,
    ) -> WaitOutcome {
        // Without a timeout the kernel restarts the wait after a handler that was installed with
        // SA_RESTART; with one it always returns EINTR. So an interruptible wait always has a
        // deadline, even if that is centuries away.
        let deadline = deadline.or(interruptible.then_some(u64::MAX / 2));
        let until = deadline.map(|d| Timespec {
            tv_sec: (d / NANOS_PER_SEC) as i64,
            tv_nsec: (d % NANOS_PER_SEC) as _,
        });
        let any = core::num::NonZeroU32::MAX;
        match futex::wait_bitset(word, futex::Flags::PRIVATE, expected, until.as_ref(), any) {
            Err(Errno::TIMEDOUT) => WaitOutcome::TimedOut,
            Err(Errno::INTR) if interruptible => WaitOutcome::Interrupted,
            _ => WaitOutcome::Woken,
        }
    }

    fn wake_one(word: &AtomicU32) {
        // A failure means that nobody can be waiting on this word.
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    }

    #[inline]
    fn thread() -> &'static Thread<Self> {
        record()
    }

    #[inline(always)]
    fn thread_hint() -> usize {
        record_hint()
    }

    const HAS_READER_HINT: bool = true;

    #[inline(always)]
    fn reader_hint() -> *const () {
        READER.get()
    }

    fn set_reader_hint(hint: *const ()) {
        READER.set(hint);
    }

    #[inline]
    fn cpu() -> Option<u32> {
        rseq::cpu()
    }

    #[inline(always)]
    fn light_fence() {
        compiler_fence(Ordering::SeqCst);
    }

    fn process_barrier() {
        barrier::pass();
    }

    fn has_process_barrier() -> bool {
        barrier::is_ready()
    }

    fn cpus() -> usize {
        threads::cpus()
    }

    fn priority() -> u8 {
        sched::priority()
    }
}

/// The barrier that all threads of the process pass: `membarrier`, by interrupts to the CPUs that run them.
mod barrier {
    use core::sync::atomic::{AtomicU8, Ordering};

    use rustix::thread::{MembarrierCommand, membarrier};

    const UNKNOWN: u8 = 0;
    const READY: u8 = 1;
    const ABSENT: u8 = 2;

    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// Whether the process may have barriers; asks for them the first time. Never again once they are refused.
    pub(super) fn is_ready() -> bool {
        // Relaxed: any thread finds the same.
        match STATE.load(Ordering::Relaxed) {
            UNKNOWN => register(),
            // By a filter that was installed since.
            READY if membarrier(MembarrierCommand::PrivateExpedited).is_err() => {
                STATE.store(ABSENT, Ordering::Relaxed);
                false
            }
            state => state == READY,
        }
    }

    #[cold]
    fn register() -> bool {
        // Not where a compare-exchange of 64 bits is many instructions, or a count of readers is small.
        let is_ready = cfg!(target_pointer_width = "64")
            && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
            && membarrier(MembarrierCommand::PrivateExpedited).is_ok();
        STATE.store(if is_ready { READY } else { ABSENT }, Ordering::Relaxed);
        is_ready
    }

    pub(super) fn pass() {
        let pass = || membarrier(MembarrierCommand::PrivateExpedited).is_ok();
        // The child of a fork may have to ask once more.
        let passed = pass() || (register() && pass());
        if !passed {
            refused();
        }
    }

    /// There may be readers that are visible only with the barrier: nothing after this would be
    /// sound.
    #[cold]
    fn refused() -> ! {
        std::eprintln!(
            "fairlock: membarrier was allowed, and is refused now (by a seccomp filter?)"
        );
        std::process::abort();
    }

    pub(super) fn enter_child() {
        STATE.store(UNKNOWN, Ordering::Relaxed);
    }
}

/// The scheduling policy of the calling thread.
mod sched {
    use core::ffi::c_int;

    use crate::system::errno;

    unsafe extern "C" {
        fn sched_getscheduler(pid: c_int) -> c_int;
        fn sched_getparam(pid: c_int, param: *mut c_int) -> c_int;
    }

    const SCHED_FIFO: c_int = 1;
    const SCHED_RR: c_int = 2;
    const SCHED_DEADLINE: c_int = 6;
    /// A flag that may be added to any of these policies.
    const SCHED_RESET_ON_FORK: c_int = 0x4000_0000;

    /// Above all of `SCHED_FIFO` and `SCHED_RR`, as for the kernel.
    const DEADLINE: u8 = 100;

    /// 1 to 99 under `SCHED_FIFO` and `SCHED_RR`, [`DEADLINE`] under `SCHED_DEADLINE`, otherwise 0.
    /// For a thread under none of them it takes one system call.
    pub(super) fn priority() -> u8 {
        // SAFETY: takes and returns numbers; 0 is the calling thread.
        let policy = errno::kept(|| unsafe { sched_getscheduler(0) });
        let is = |wanted| policy == wanted || policy == wanted + SCHED_RESET_ON_FORK;
        if is(SCHED_DEADLINE) {
            return DEADLINE;
        }
        if !is(SCHED_FIFO) && !is(SCHED_RR) {
            return 0;
        }
        // The priority comes first, whatever else a C library has in its `sched_param`.
        let mut param: [c_int; 16] = [0; 16];
        // SAFETY: the buffer is larger than any C library's `sched_param`.
        let failed = errno::kept(|| unsafe { sched_getparam(0, param.as_mut_ptr()) }) != 0;
        if failed { 0 } else { u8::try_from(param[0]).unwrap_or(u8::MAX) }
    }
}

/// The CPU number the kernel keeps in the restartable-sequence area that glibc
/// (2.35 and later) registers for every thread.
mod rseq {
    #[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
    mod imp {
        use core::ffi::{c_char, c_void};
        use core::sync::atomic::{AtomicIsize, AtomicU32, Ordering};

        use crate::system::errno;

        unsafe extern "C" {
            fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
        }

        /// Not looked up yet.
        const UNKNOWN: isize = isize::MIN;
        /// This process has no registered area.
        const ABSENT: isize = isize::MAX;
        /// Offset of `cpu_id` in `struct rseq`.
        const CPU_ID: isize = 4;

        static OFFSET: AtomicIsize = AtomicIsize::new(UNKNOWN);

        #[cold]
        fn look_up() -> isize {
            // SAFETY: a null handle searches the global scope; the names are
            // C strings; the symbols, where present, are an `unsigned int` and
            // a `ptrdiff_t` that are constant after start-up.
            let offset = unsafe {
                let size = dlsym(core::ptr::null_mut(), c"__rseq_size".as_ptr()).cast::<u32>();
                let offset =
                    dlsym(core::ptr::null_mut(), c"__rseq_offset".as_ptr()).cast::<isize>();
                if size.is_null() || offset.is_null() || *size == 0 { ABSENT } else { *offset }
            };
            // Relaxed: any thread computes the same value.
            OFFSET.store(offset, Ordering::Relaxed);
            offset
        }

        #[inline(always)]
        fn thread_pointer() -> *const u8 {
            let p: *const u8;
            // SAFETY: reads the thread pointer register; touches no memory but
            // the self pointer that the x86-64 ABI keeps at fs:0.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                core::arch::asm!("mov {}, fs:0", out(reg) p, options(nostack, preserves_flags, readonly));
                #[cfg(target_arch = "aarch64")]
                core::arch::asm!("mrs {}, tpidr_el0", out(reg) p, options(nostack, preserves_flags, nomem));
            }
            p
        }

        #[inline]
        pub(crate) fn cpu() -> Option<u32> {
            let offset = match OFFSET.load(Ordering::Relaxed) {
                UNKNOWN => errno::kept(look_up),
                offset => offset,
            };
            if offset == ABSENT {
                return None;
            }
            // SAFETY: glibc says that this thread's area starts `offset` bytes
            // from its thread pointer and lives as long as the thread; the
            // kernel writes `cpu_id`, hence the atomic read.
            let cpu = unsafe {
                (*thread_pointer().offset(offset + CPU_ID).cast::<AtomicU32>())
                    .load(Ordering::Relaxed)
            };
            // Negative values say "not registered".
            (cpu as i32 >= 0).then_some(cpu)
        }
    }

    #[cfg(not(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    mod imp {
        pub(crate) fn cpu() -> Option<u32> {
            None
        }
    }

    pub(super) use imp::cpu;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_hint_names_a_cpu_of_this_machine() {
        if let Some(cpu) = Linux::cpu() {
            assert!(cpu < 65_536);
        }
    }

    #[test]
    fn wait_returns_at_once_when_the_word_differs() {
        assert_eq!(Linux::wait(&AtomicU32::new(1), 0, None, false), WaitOutcome::Woken);
    }

    #[test]
    fn wait_times_out() {
        let deadline = Linux::now() + 1_000_000;
        let word = AtomicU32::new(0);
        while Linux::wait(&word, 0, Some(deadline), false) != WaitOutcome::TimedOut {}
        assert!(Linux::now() >= deadline);
    }
}

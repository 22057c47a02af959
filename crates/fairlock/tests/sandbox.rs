//! A sandbox that ends the process at each system call that docs/guide/platforms.md does not name.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]

use std::time::Duration;

use fairlock::platform::{Native, System};
use fairlock::{Condvar, Mutex, RwLock};
use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};

/// What threads and memory need, and locks.
const LISTED: [libc::c_long; 26] = [
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_membarrier,
    // What the standard library and the C library call for threads.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_prctl,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_write,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_getrandom,
];

fn enter() {
    let step =
        |code: u32, k: u32, jt: usize| sock_filter { code: code as u16, jt: jt as u8, jf: 0, k };
    // The number of the call comes first of what a filter may look at.
    let mut steps = vec![step(BPF_LD | BPF_W | BPF_ABS, 0, 0)];
    for (i, call) in LISTED.into_iter().enumerate() {
        steps.push(step(BPF_JMP | BPF_JEQ | BPF_K, call as u32, LISTED.len() - i));
    }
    steps.push(step(BPF_RET | BPF_K, libc::SECCOMP_RET_KILL_PROCESS, 0));
    steps.push(step(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW, 0));
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the filter is there, and as long as it says.
    let entered = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
    };
    assert!(entered);
}

#[test]
fn locks_work_where_only_the_listed_calls_are_allowed() {
    fairlock_testing::alone(|| {
        fairlock_testing::in_child(|| {
            Native::cpus();
            Native::has_process_barrier();
            enter();
            let (turns, state, changed) = (Mutex::new(0), RwLock::new(0), Condvar::new());
            std::thread::scope(|s| {
                for thread in 0..6 {
                    let (turns, state, changed) = (&turns, &state, &changed);
                    s.spawn(move || {
                        for round in 0..500 {
                            if (round + thread) % 4 == 0 {
                                *state.write() += 1;
                            }
                            let _read = state.read();
                            let mut turn = turns.lock();
                            *turn += 1;
                            changed.notify_one();
                            changed.wait_for(&mut turn, Duration::from_micros(50));
                        }
                    });
                }
            });
            assert_eq!(*turns.lock(), 3_000);
        });
    });
}

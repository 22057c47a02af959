//! Runs the programs in `tests/c` on glibc's locks and on ours: what they expect holds on
//! both, unless they say so. One test each, by name.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

mod common;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{compile, compile_as, compile_library, library, succeeds, with_ours};

/// Runs a test of a program, both ways.
fn both(program: &Path, test: &str) {
    succeeds(Command::new(program).arg(test));
    succeeds(with_ours(program).arg(test));
}

macro_rules! programs {
    ($($program:ident: $($test:ident)+;)*) => {
        $(mod $program {
            use super::*;

            pub(super) fn program() -> &'static Path {
                static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
                PROGRAM.get_or_init(|| compile(concat!(stringify!($program), ".c")))
            }

            $(#[test]
            fn $test() {
                both(program(), stringify!($test));
            })+
        })*
    };
}

programs! {
    errors: functions initialisers busy deadlock invalid timeouts overflow writer_is_named misuse handler_outlasts_deadline;
    recursion: writer_waits every_kind many_locks others_wait readers_pass writers_first fork_join;
    lifetime: destroyed_after_unlock abandoned destroyed threads_end readers_of_many_end copied copied_far idle idle_and_used
        shared_by_mistake overwritten;
    stress: exclusion new_locks writer_is_not_starved;
    mutex: only results kinds left_to_glibc exclusion new_mutexes many freed_after_unlock reused abandoned overwritten
        copied_while_waited_for unlocked_twice forked
        fork_handlers nobody_starves c11 misaligned stopped_anywhere;
    cond: results order both_clocks producers mixed shared_with_ours cancelled cancelled_or_notified
        waits_when_cancelled cancelled_at_any_time freed_after_broadcast copied forked exits_with_waiters c11
        broadcast_wakes_all stopped_elsewhere stopped_elsewhere_shared cancelled_shared destroys_mutex_of_waiter invalid_time_comes_first;
    process: signals fork_with_waiters fork_while_busy fork_handlers_wait fork_beside_passing_reader fork_without_handlers
        priorities real_time_threads_sleep sandboxed listed_calls process_shared keys cancelled_anywhere
        cancelled_waiters_end cancelled_at_instructions jumps_out_of_waits handlers_during_jumps
        jumps_while_taking_again jumps_out_of_shared_waits;
    spin: exclusion;
    visible: readers_keep_writers_out writer_sleeps exclusion becomes_visible gone ends_and_forks fork_while_revoked
        interrupted not_where_writers_come_first;
    memory: none_left;
}

/// Whether there is a C++ compiler. What needs one is left out without, and that is said past
/// the test's captured output.
fn has_cpp() -> bool {
    let found = Command::new("c++").arg("--version").output().is_ok();
    if !found {
        let _ = writeln!(io::stderr(), "\nNOT TESTED: C++ programs, as there is no c++\n");
    }
    found
}

#[test]
fn cpp_locks() {
    if !has_cpp() {
        return;
    }
    for source in ["shared_mutex.cpp", "mutexes.cpp"] {
        let program = compile(source);
        succeeds(&mut Command::new(&program));
        succeeds(&mut with_ours(&program));
    }
}

#[test]
fn examples_compile() {
    for example in ["starved_writer.c", "uncontended.c", "mutexes.c", "cache.cpp"] {
        if example.ends_with(".cpp") && !has_cpp() {
            continue;
        }
        compile(&format!("../../../../examples/preload/{example}"));
    }
}

#[test]
fn programs_run_without_a_word() {
    for (program, test) in [
        (stress::program(), "exclusion"),
        (stress::program(), "new_locks"),
        (recursion::program(), "writer_waits"),
        (recursion::program(), "readers_pass"),
        (recursion::program(), "fork_join"),
        (recursion::program(), "writers_first"),
        (process::program(), "fork_with_waiters"),
        (process::program(), "cancelled_waiters_end"),
        (process::program(), "jumps_out_of_waits"),
        (visible::program(), "exclusion"),
        (mutex::program(), "exclusion"),
        (cond::program(), "mixed"),
    ] {
        let output = succeeds(with_ours(program).arg(test));
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

/// With as much room as there is on a stack of 8 KiB where the kernel needs 3376 bytes, as with
/// AVX-512. Code that is not optimised needs more.
#[test]
fn a_handler_may_wait_on_a_small_stack() {
    const ROOM: &str = if cfg!(debug_assertions) { "13000" } else { "4816" };
    succeeds(with_ours(process::program()).env("ROOM", ROOM).arg("small_stacks"));
}

#[test]
fn only_what_is_asked_for_is_ours() {
    for only in ["rwlock", "mutex"] {
        for (program, test) in [
            (mutex::program(), "only"),
            (mutex::program(), "results"),
            (cond::program(), "mixed"),
            (cond::program(), "cancelled"),
            (stress::program(), "exclusion"),
        ] {
            let output = succeeds(with_ours(program).env("FAIRLOCK_ONLY", only).arg(test));
            assert!(output.stderr.is_empty(), "{only}: {output:?}");
        }
    }
    let output = succeeds(with_ours(mutex::program()).env("FAIRLOCK_ONLY", "spin").arg("results"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.lines().count() == 1 && said.contains("FAIRLOCK_ONLY"), "{said}");
}

/// Whatever the cancelled thread does before glibc knows, or before its canceller has told it.
#[test]
fn a_slow_cancellation_is_not_lost() {
    let slow = compile_library("slow_cancel.c");
    for test in ["cancelled", "waits_when_cancelled", "cancelled_at_any_time"] {
        let both = format!("{}:{}", library().display(), slow.display());
        succeeds(Command::new(cond::program()).env("LD_PRELOAD", both).arg(test));
    }
}

/// A call that is passed on takes half as long again.
#[test]
fn spin_locks_that_are_free_are_not_passed_on() {
    let counts = compile_library("count_spins.c");
    let both = format!("{}:{}", library().display(), counts.display());
    succeeds(Command::new(spin::program()).env("LD_PRELOAD", both).arg("not_passed_on"));
}

/// Whichever of the two libraries is first, and however its runtime is linked: as clang does, too.
#[test]
fn a_program_with_thread_sanitizer_keeps_glibc_s_locks() {
    let file = Command::new("cc").arg("-print-file-name=libtsan.so").output().unwrap();
    let file = String::from_utf8(file.stdout).unwrap();
    let Ok(runtime) = Path::new(file.trim()).canonicalize() else {
        return eprintln!("no libtsan: not checked");
    };
    let ours = library().display().to_string();
    let orders = [format!("{}:{ours}", runtime.display()), ours.clone()];
    let as_clang = ["-static-libtsan", "-Wl,--export-dynamic-symbol=__tsan_init"];
    for (flags, orders) in [(&[][..], &orders[..]), (&as_clang, &orders[1..])] {
        let program = compile_as("sanitized.c", &[&["-fsanitize=thread"], flags].concat());
        for order in orders {
            let mut command = Command::new(&program);
            let output =
                succeeds(command.env("LD_PRELOAD", order).env("FAIRLOCK_PROFILE", "/no/such"));
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.lines().count() == 1 && said.contains("keeps them"), "{said}");
        }
    }
}

/// Where there is valgrind.
#[test]
fn memcheck_has_nothing_to_say() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return eprintln!("no valgrind: not checked");
    }
    for (program, test) in [
        (errors::program(), "initialisers"),
        (recursion::program(), "many_locks"),
        (lifetime::program(), "copied"),
    ] {
        succeeds(
            Command::new("valgrind")
                .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
                .arg(program)
                .arg(test)
                .env("LD_PRELOAD", library()),
        );
    }
}

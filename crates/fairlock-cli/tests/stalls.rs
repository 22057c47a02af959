//! What `fairlock run`, `top` and `snapshot` say of programs that stall or stand still, each of another kind. That of a
//! static Rust program is in `snapshot.rs`, those of locks with a name are in `named.rs`.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

mod looks;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use fairlock_testing as _; // the watchdog
use looks::until_said;
use serde_json::Value;

/// The exit code if there was a deadlock.
const DEADLOCK: i32 = 35;
/// And if SIGTERM ended the program.
const TERMINATED: i32 = 128 + 15;

fn program() -> &'static str {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let compiled = || {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/stalls.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stalls");
        let flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", "-o"];
        let output = Command::new("cc").args(flags).arg(&program).arg(source).output();
        let output =
            output.unwrap_or_else(|error| panic!("cc cannot be run ({error}); install it"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    };
    PROGRAM.get_or_init(compiled).to_str().unwrap()
}

const WAYS: [&[&str]; 2] = [&["--observe"], &[]];

/// A stall, run in a way.
struct Run {
    code: Option<i32>,
    text: String,
    /// The process, as `--json` has it.
    json: Value,
}

impl Run {
    fn of(stall: &str, way: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let json = folder.path().join("json");
        let tests = std::env::current_exe().expect("this test has a path");
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock"));
        command.env("FAIRLOCK_LIBRARY", tests.with_file_name("libfairlock_preload.so"));
        command.arg("run").args(way).arg("--json").arg(&json).args(["--", program(), stall]);
        let Output { status, stderr, .. } = command.output().expect("fairlock starts");
        let text = String::from_utf8(stderr).expect("text");
        let json: Value = serde_json::from_slice(&std::fs::read(json).expect(&text)).unwrap();
        Self { code: status.code(), text, json: json["processes"][0].clone() }
    }

    /// The first lines, until an empty one, in one.
    fn verdict(&self) -> String {
        let said = self.text.lines().skip_while(|line| !line.is_empty()).skip(1);
        let lines: Vec<&str> = said.take_while(|line| !line.is_empty()).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{}", self.text);
        lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn says(&self, words: &[&str]) {
        let verdict = self.verdict();
        for word in words {
            assert!(verdict.contains(word), "{word}: {}", self.text);
        }
    }

    fn lock(&self, name: &str) -> &Value {
        let locks = self.json["locks"].as_array().unwrap();
        let is_it = |lock: &&Value| lock["name"].as_str().is_some_and(|it| it.starts_with(name));
        locks.iter().find(is_it).expect(&self.text)
    }
}

/// The innermost function of the program in a stack.
fn functions(stack: &Value) -> Vec<&str> {
    stack.as_array().unwrap().iter().map(|place| place["function"].as_str().unwrap()).collect()
}

#[test]
fn two_orders_are_a_deadlock_by_name() {
    for way in WAYS {
        let run = Run::of("two_orders", way);
        assert_eq!(run.code, Some(DEADLOCK), "{}", run.text);
        run.says(&[
            "DEADLOCK: ",
            "transfer (stalls.c:",
            "holds accounts, waits for journal",
            "audit (stalls.c:",
            "holds journal, waits for accounts",
        ]);
        let deadlock = run.json["deadlocks"][0].as_array().unwrap();
        assert_eq!(deadlock.len(), 2);
        let transfer = deadlock.iter().find(|it| it["holds"] == "accounts").unwrap();
        assert_eq!(transfer["waits_for"], "journal");
        assert!(functions(&transfer["waiter"]).contains(&"transfer"), "{transfer}");
    }
}

#[test]
fn a_lock_that_is_held_for_ever_has_its_holder_and_its_waiters_named() {
    for (stall, code) in [("held_for_ever", TERMINATED), ("exit_while_waiting", 0)] {
        for way in WAYS {
            let run = Run::of(stall, way);
            assert_eq!(run.code, Some(code), "{}", run.text);
            let said =
                ["lost ", "at the lock \"orders\": nightly_backup (stalls.c:", "2 threads wait"];
            run.says(&said);
            let row = run.text.lines().find(|line| line.starts_with("orders")).expect(&run.text);
            let cells: Vec<_> =
                row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
            assert_eq!(cells[..3], ["orders", "mutex", "2"], "{}", run.text);
            let lock = run.lock("orders");
            assert_eq!((&lock["waiting_now"], &lock["waits"]), (&2.into(), &2.into()));
            assert!(lock["waiting_now_longest_ns"].as_u64() >= Some(150_000_000), "{lock}");
            assert!(lock["wait_longest_ns"].as_u64() >= Some(150_000_000), "{lock}");
            assert!(functions(&lock["held_now"]["stack"]).contains(&"nightly_backup"), "{lock}");
            assert!(functions(&lock["holders"][0]["stack"]).contains(&"nightly_backup"), "{lock}");
        }
    }
}

#[test]
fn a_convoy_is_charged_to_the_place_that_holds_the_lock() {
    for way in WAYS {
        let run = Run::of("convoy", way);
        assert_eq!(run.code, Some(0), "{}", run.text);
        run.says(&["lost ", "at the lock \"table\": checkpoint (stalls.c:", "held it for up to "]);
        assert!(!run.text.contains("waiting now"), "{}", run.text);
    }
}

#[test]
fn a_missed_wake_up_is_a_wait_at_a_condition_that_goes_on() {
    for way in WAYS {
        let run = Run::of("missed_wake_up", way);
        assert_eq!(run.code, Some(TERMINATED), "{}", run.text);
        let row = run.text.lines().find(|line| line.starts_with("work ")).expect(&run.text);
        assert!(row.contains("condition") && row.contains("consume (stalls.c:"), "{row}");
        assert_eq!(run.json["asleep"][0]["going_on"], 1);
    }
}

#[test]
fn an_exhausted_pool_is_held_by_threads_that_are_not_seen() {
    for way in WAYS {
        let run = Run::of("pool_exhausted", way);
        run.says(&[
            "waited ",
            "at the semaphore \"pool\": held by a thread that this cannot see",
            "2 waits have not ended",
        ]);
    }
}

#[test]
fn a_semaphore_in_place_of_a_mutex_is_said_with_what_ends_the_waits() {
    for way in WAYS {
        let run = Run::of("semaphore_as_mutex", way);
        run.says(&[
            "waited ",
            "at the semaphore \"pool\": held by a thread that this cannot see; ended by export_all (stalls.c:",
            " times",
        ]);
        let wakers = run.json["asleep"][0]["wakers"].as_array().unwrap();
        assert!(functions(&wakers[0]["stack"]).contains(&"export_all"), "{wakers:?}");
    }
}

#[test]
fn the_end_of_a_chain_is_charged() {
    for way in WAYS {
        let run = Run::of("chain", way);
        run.says(&[
            "at the lock \"orders\": granter held it for up to ",
            "waiting for \"journal\", held by slow_worker (stalls.c:",
        ]);
        let holder = &run.lock("orders")["holders"][0];
        assert!(functions(&holder["stack"]).contains(&"slow_worker"), "{holder}");
        let wait = run.text.lines().find(|line| line.contains(" for orders; ")).expect(&run.text);
        assert!(wait.contains("of it for journal, held by slow_worker (stalls.c:"), "{wait}");
    }
}

#[test]
fn a_function_that_takes_several_locks_is_named_with_its_caller() {
    for way in WAYS {
        let run = Run::of("wrapper", way);
        run.says(&["expire_sessions <- lock_give (stalls.c:", "held it for up to "]);
        assert!(run.text.contains("login <- lock_take (stalls.c:"), "{}", run.text);
        assert!(run.lock("wrapper <- lock_take (stalls.c:").is_object());
    }
}

#[test]
fn a_holder_in_another_process_is_named() {
    for way in WAYS {
        let run = Run::of("process_shared", way);
        run.says(&["compact (stalls.c:", "of another process, PID ", "held it for up to "]);
    }
}

#[test]
fn what_a_holder_does_meanwhile_is_said() {
    for way in WAYS {
        let run = Run::of("slow_disk", way);
        run.says(&["at the lock \"table\": flush (stalls.c:"]);
        let wait = run.text.lines().find(|line| line.contains(" for table; ")).expect(&run.text);
        assert!(wait.contains(" % of it in read"), "{}", run.text);
    }
    let run = Run::of("held_for_ever", &["--observe"]);
    let did = run.text.lines().find(|line| line.contains(" has held orders, ")).expect(&run.text);
    assert!(did.ends_with(" % of it in pause"), "{did}");
}

/// Only on glibc's locks: ours let it in.
#[test]
fn readers_that_starve_a_writer_are_named_with_it() {
    let run = Run::of("starved_writer", &["--observe"]);
    run.says(&["lost ", "at the lock \"catalog\": "]);
    let waits = run.text.lines().find(|line| line.contains(" for catalog")).expect(&run.text);
    assert!(waits.contains(" at restock (stalls.c:"), "{waits}");
}

/// The record has nothing of it, and says where to look.
#[test]
fn time_at_a_lock_of_the_c_library_is_said_not_to_be_in_the_record() {
    let run = Run::of("within_stdio", &["--observe"]);
    let line = run.text.lines().find(|line| line.starts_with("in futexes beyond that,"));
    assert!(line.expect(&run.text).contains("`fairlock snapshot PID`"), "{}", run.text);
}

/// A program that is killed where its test ends, with its children.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// By a process that finds it so, and started nothing.
#[test]
fn each_stall_is_named_from_outside_while_it_lasts() {
    let stalls: [(&str, &[&str]); 12] = [
        (
            "two_orders",
            &[
                "DEADLOCK: ",
                "at transfer (stalls.c:",
                "holds accounts, waits for journal",
                "holds journal, waits for accounts",
            ],
        ),
        ("held_for_ever", &["orders mutex 2 ", ", in pause ", "place_order (stalls.c:"]),
        ("convoy", &["table mutex 2 ", "checkpoint (stalls.c:"]),
        ("missed_wake_up", &["condition work", "consume (stalls.c:"]),
        (
            "pool_exhausted",
            &["semaphore pool semaphore 2 ", "borrow (stalls.c:", "stores no holder"],
        ),
        ("semaphore_as_mutex", &["semaphore pool", "export_all (stalls.c:"]),
        ("chain", &["orders mutex 2 ", ", which waits for journal ", "granter (stalls.c:"]),
        ("wrapper", &["(heap) mutex 1 ", ", in pause "]),
        ("process_shared", &["mutex 1 ", "another process: stalls (", "serve (stalls.c:"]),
        ("slow_disk", &["table mutex 1 ", ", in read pipe:", "insert (stalls.c:"]),
        ("starved_writer", &["catalog rwlock 1 ", "reader", "restock (stalls.c:"]),
        ("within_stdio", &["stdio", ", in pause ", "log_line (stalls.c:"]),
    ];
    for (stall, words) in stalls {
        let mut command = Command::new(program());
        command.args([stall, "stay"]).stdout(Stdio::null()).process_group(0);
        let running = Running(command.spawn().expect("it starts"));
        let pid = running.0.id().to_string();
        for look in [&["snapshot", &pid][..], &["top", &pid, "--looks", "1"]] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock"));
            until_said(command.env("COLUMNS", "250").args(look), words);
        }
    }
}

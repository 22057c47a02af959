//! What is said of programs that stand still at locks with a name, which they write into a record of their own.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

mod looks;

use std::cell::UnsafeCell;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Barrier;
use std::time::Duration;
use std::{env, process, thread};

use fairlock::stats::{LockStats, NamedExt, snapshot};
use fairlock::{Mutex, RwLock};
use fairlock_testing as _; // the watchdog
use looks::{until_said, unwrapped};
use serde_json::Value;

/// The exit code if there was a deadlock.
const DEADLOCK: i32 = 35;

fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name(name.to_owned()).spawn(work).unwrap();
}

/// Returns once so many threads wait for locks of a name.
fn until_waiting(lock: &str, threads: usize) {
    let waiting = |lock: &LockStats| lock.reads.waiting.len() + lock.writes.waiting.len();
    while snapshot().get(lock).map_or(0, waiting) < threads {
        pause(10);
    }
}

fn pause(ms: u64) {
    thread::sleep(Duration::from_millis(ms));
}

/// A mutex of pthread.
struct Pthread(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex.
unsafe impl Sync for Pthread {}

static OUTBOX: Pthread = Pthread(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));

impl Pthread {
    fn lock(&self) {
        // SAFETY: a mutex that stays where it is.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
    }
}

/// The programs, which end after some seconds or are killed.
fn hang(how: &str) {
    let accounts = leaked(Mutex::named("accounts", 0));
    let journal = leaked(RwLock::named("journal", 0));
    // Each of two threads has its lock, however late they get a CPU.
    let both = leaked(Barrier::new(2));
    match how {
        "two orders" => {
            start("checkout", || {
                let _accounts = accounts.lock();
                both.wait();
                drop(journal.write());
            });
            start("audit", || {
                let _journal = journal.read();
                both.wait();
                drop(accounts.lock());
            });
            until_waiting("accounts", 1);
            until_waiting("journal", 1);
        }
        "held" => {
            start("nightly", || {
                let _accounts = accounts.lock();
                both.wait();
                pause(60_000);
            });
            both.wait();
            (0..2).for_each(|_| start("web", || drop(accounts.lock())));
            until_waiting("accounts", 2);
        }
        "with pthread" => {
            start("checkout", || {
                let _accounts = accounts.lock();
                both.wait();
                OUTBOX.lock();
            });
            start("mailer", || {
                OUTBOX.lock();
                both.wait();
                drop(accounts.lock());
            });
            until_waiting("accounts", 1);
        }
        // The child uses the locks of its parent, and takes one of pthread before its first wait, after it, or never.
        "forked" | "forked, pthread first" | "forked, pthread then" => {
            drop(accounts.lock());
            // SAFETY: no thread of this process has a lock.
            let child = unsafe { libc::fork() };
            if child != 0 {
                // SAFETY: the child; its status is not asked for.
                assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
                process::exit(0);
            }
            if how == "forked, pthread first" {
                OUTBOX.lock();
            }
            let _accounts = accounts.lock();
            (0..2).for_each(|_| start("web", || drop(accounts.lock())));
            until_waiting("accounts", 2);
            if how == "forked, pthread then" {
                OUTBOX.lock();
            }
            pause(2_500);
            process::exit(0);
        }
        _ => unreachable!("{how}"),
    }
    pause(if env::var_os(STAYS).is_some() { 60_000 } else { 2_500 });
    process::exit(0);
}

/// Which program this test is.
const HOW: &str = "FAIRLOCK_TEST_HANG";
/// It does not end by itself.
const STAYS: &str = "FAIRLOCK_TEST_STAYS";

#[test]
fn hangs() {
    if let Ok(how) = env::var(HOW) {
        hang(&how);
    }
}

fn fairlock(arguments: &[&str]) -> Command {
    let tests = env::current_exe().expect("this test has a path");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock"));
    command.env("FAIRLOCK_LIBRARY", tests.with_file_name("libfairlock_preload.so"));
    command.env_remove("COLUMNS").args(arguments);
    command
}

/// A run: its exit code, what it said, and the processes as `--json` has them.
fn run(how: &str, way: &[&str]) -> (Option<i32>, String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("json");
    let program = env::current_exe().unwrap();
    let mut command = fairlock(&["run"]);
    command.args(way).arg("--json").arg(&json).arg("--").arg(program).args(["--exact", "hangs"]);
    let Output { status, stderr, .. } = command.env(HOW, how).output().expect("fairlock starts");
    let text = String::from_utf8(stderr).expect("text");
    let json: Value = serde_json::from_slice(&std::fs::read(json).expect(&text)).unwrap();
    (status.code(), text, json["processes"].clone())
}

/// The text in one line.
#[track_caller]
fn says(text: &str, words: &[&str]) {
    let line = unwrapped(text);
    words.iter().for_each(|word| assert!(line.contains(word), "{word}: {text}"));
}

const WAYS: [&[&str]; 2] = [&["--observe"], &[]];

#[test]
fn threads_that_wait_for_each_other_are_a_deadlock() {
    for way in WAYS {
        let (code, text, json) = run("two orders", way);
        assert_eq!(code, Some(DEADLOCK), "{text}");
        says(
            &text,
            &[
                "DEADLOCK: named.rs:",
                "(checkout), holds accounts, waits for journal",
                "(audit), holds journal, waits for accounts",
            ],
        );
        let deadlock = json[0]["deadlocks"][0].as_array().unwrap();
        let of = |name: &str| deadlock.iter().find(|it| it["name"] == name).expect(&text);
        assert_eq!(of("audit")["waits_for"], "accounts");
        let file = of("checkout")["waiter"][0]["file"].as_str().unwrap();
        assert!(file.ends_with("tests/named.rs"), "{file}");
    }
}

#[test]
fn a_circle_through_a_lock_of_pthread_is_one() {
    for way in WAYS {
        let (code, text, _) = run("with pthread", way);
        assert_eq!(code, Some(DEADLOCK), "{text}");
        says(&text, &["(checkout), holds accounts, waits for", "holds", ", waits for accounts"]);
    }
}

#[test]
fn a_lock_that_is_held_has_its_holder_and_its_waiters_named() {
    let (_, text, json) = run("held", &["--observe"]);
    says(&text, &["lost ", "at the lock \"accounts\": named.rs:", "2 threads wait", "(nightly)"]);
    assert_eq!(json.as_array().unwrap().len(), 1, "{text}");
    let locks = json[0]["locks"].as_array().unwrap();
    let lock = locks.iter().find(|lock| lock["name"] == "accounts").expect(&text);
    assert_eq!((&lock["kind"], &lock["waiting_now"]), (&"named".into(), &2.into()));
    assert_eq!(lock["held_now"]["name"], "nightly");
    assert!(lock["waiting_now_longest_ns"].as_u64() >= Some(1_000_000_000), "{lock}");
}

#[test]
fn the_child_of_a_fork_has_a_record_from_its_first_wait_on() {
    for how in ["forked", "forked, pthread first", "forked, pthread then"] {
        let (_, text, json) = run(how, &["--observe"]);
        says(&text, &["lost ", "at the lock \"accounts\": named.rs:", "2 threads wait"]);
        let [parent, child] = &json.as_array().unwrap()[..] else { panic!("{how}: {json}") };
        assert_eq!((&parent["parent"], &child["parent"]), (&Value::Null, &parent["pid"]));
        let locks = child["locks"].as_array().unwrap();
        let accounts = locks.iter().find(|lock| lock["name"] == "accounts").expect(&text);
        assert_eq!(accounts["held_now"]["thread"], child["pid"], "{how}: {text}");
        assert_eq!(locks.iter().any(|lock| lock["kind"] == "mutex"), how != "forked", "{text}");
    }
}

/// A program that is killed where its test ends.
struct Running(Child);

impl Running {
    fn of(how: &str, profile: &Path) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "hangs"]).env(HOW, how).env(STAYS, "");
        command.env("FAIRLOCK_PROFILE", profile).stdout(Stdio::null());
        Self(command.spawn().expect("the program starts"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Though the threads wake now and then.
#[test]
fn a_snapshot_says_that_it_is_a_deadlock() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::of("two orders", folder.path());
    let (code, text) = until_said(
        &mut fairlock(&["snapshot", &running.0.id().to_string()]),
        &["DEADLOCK: ", "holds accounts, waits for journal", "holds journal, waits for accounts"],
    );
    assert_eq!(code, Some(DEADLOCK), "{text}");
}

/// By `top` and `snapshot` while it runs, and by `report` after it was killed.
#[test]
fn a_program_that_only_writes_a_record_is_read_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    for profile in [folder.path().to_owned(), folder.path().join("record")] {
        let running = Running::of("held", &profile);
        let pid = running.0.id().to_string();
        let until_said =
            |arguments: &[&str], words: &[&str]| until_said(&mut fairlock(arguments), words);
        until_said(&["snapshot", &pid], &["accounts named 2 ", "nightly (", "(named.rs:"]);
        until_said(&["top", &pid, "--looks", "1"], &["accounts", "(nightly)"]);
        drop(running);
        let profile = profile.to_str().unwrap();
        until_said(&["report", profile, "--format", "text"], &["accounts", "2 threads wait"]);
    }
}

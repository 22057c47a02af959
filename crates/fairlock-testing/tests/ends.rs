//! Tests that fail, and how they end: each in a process of its own.
#![cfg(target_os = "linux")]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::Barrier;

use fairlock_testing::{join, scope, until};

/// More than anything but the watchdog waits.
const LONG: u32 = 10;

/// Runs an ignored test of this file, which has so many seconds to end.
fn run(test: &str, limit: u32) -> (Output, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", test])
        .env("FAIRLOCK_TEST_LIMIT", limit.to_string())
        .output()
        .unwrap();
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    (output, said)
}

fn is_ended(test: &str, limit: u32, complaints: &[&str]) {
    let (output, said) = run(test, limit);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    for complaint in complaints.iter().chain(&[test]) {
        assert!(said.contains(complaint), "no {complaint} in {said}");
    }
}

#[inline(never)]
fn waits_for_ever(barrier: &Barrier) {
    println!("before it waits");
    barrier.wait();
}

#[test]
#[ignore = "waits for ever"]
fn a_test_that_waits() {
    waits_for_ever(&Barrier::new(2));
}

#[test]
fn a_test_that_waits_for_ever_is_ended_by_the_watchdog() {
    is_ended("a_test_that_waits", 1, &["has not ended in 1s", "waits_for_ever"]);
}

#[test]
#[ignore = "fails"]
fn a_test_that_fails_first() {
    let barrier = Barrier::new(2);
    scope(|s| {
        s.spawn(|| waits_for_ever(&barrier));
        panic!("this is why");
    });
}

#[test]
#[ignore = "fails"]
fn a_thread_that_fails() {
    let barrier = Barrier::new(2);
    scope(|s| {
        s.spawn(|| panic!("this is why"));
        waits_for_ever(&barrier);
    });
}

#[test]
fn a_failure_that_others_wait_for_is_told_and_ends() {
    for test in ["a_test_that_fails_first", "a_thread_that_fails"] {
        is_ended(test, LONG, &["this is why", "waits_for_ever", "before it waits"]);
    }
}

#[test]
#[ignore = "fails"]
fn a_test_that_waits_in_vain() {
    println!("before it waits");
    until(|| false);
}

#[test]
fn what_does_not_happen_is_not_waited_for_for_ever() {
    is_ended("a_test_that_waits_in_vain", LONG, &["what must happen did not", "before it waits"]);
}

/// Time in which the process did not run.
#[test]
#[ignore = "is slow"]
fn a_test_that_is_stopped() {
    let script = "kill -STOP $PPID; sleep 4; kill -CONT $PPID; sleep 0.2";
    let mut stops = Command::new("sh").args(["-c", script]).spawn().unwrap();
    until(|| stops.try_wait().unwrap().is_some());
}

#[test]
fn patience_is_not_used_up_while_the_process_is_stopped() {
    let (output, said) = run("a_test_that_is_stopped", LONG);
    assert!(output.status.success(), "{said}");
}

#[test]
#[ignore = "fails"]
fn a_failure_that_nobody_waits_for() {
    scope(|s| {
        join(s.spawn(|| panic!("this is why")));
    });
}

#[test]
fn a_failure_that_nobody_waits_for_is_an_ordinary_one() {
    let (output, said) = run("a_failure_that_nobody_waits_for", LONG);
    assert_eq!(output.status.code(), Some(101), "{said}");
    assert!(said.contains("this is why") && said.contains("test result: FAILED"), "{said}");
}

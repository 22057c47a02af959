//! Runs that are ended from outside leave nothing behind, and keep what was finished.

use std::fs;
use std::process::{Child, Output, Stdio};

use fairlock_testing::until;
use rustix::process::{Pid, Signal, kill_process};

use super::{command, stderr, stdout};

/// The first child of a process, once it is there.
fn first_child(of: u32) -> Pid {
    let children = format!("/proc/{of}/task/{of}/children");
    let mut child = None;
    until(|| {
        let listed = fs::read_to_string(&children).unwrap_or_default();
        child = listed.split_whitespace().next().and_then(|pid| pid.parse().ok());
        child.is_some()
    });
    child.and_then(Pid::from_raw).unwrap()
}

/// The busy process that runs beside a child.
fn beside(child: Pid) -> Pid {
    let busy = first_child(child.as_raw_nonzero().get() as u32);
    let arguments = format!("/proc/{}/cmdline", busy.as_raw_nonzero());
    until(|| fs::read_to_string(&arguments).is_ok_and(|it| it.ends_with("\0busy\0")));
    busy
}

/// A run whose child never ends by itself, once that child is there.
#[allow(clippy::zombie_processes)] // the caller waits for it
fn endless() -> (Child, Pid) {
    let args = ["bench", "handoff", "--locks", "broken:stuck", "--patience", "600"];
    let parent = command(&[&args[..], &["--beside", "1"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let child = first_child(parent.id());
    (parent, child)
}

/// Waits until the process is gone (or a zombie that only init has yet to reap).
fn until_gone(pid: Pid) {
    let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
    until(|| match fs::read_to_string(&stat) {
        Err(_) => true,
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|s| s.starts_with('Z')),
    });
}

#[test]
fn ctrl_c_ends_the_children_and_exits_130() {
    let (parent, child) = endless();
    let busy = beside(child);
    kill_process(Pid::from_child(&parent), Signal::INT).unwrap();
    let output = parent.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(stderr(&output).contains("interrupted"));
    until_gone(child);
    until_gone(busy);
}

/// Runs until it has taken over Ctrl-C, for which it has a thread, and then presses that.
fn interrupted(args: &[&str]) -> Output {
    let child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let tasks = format!("/proc/{}/task", child.id());
    let has_thread = || {
        let comms = fs::read_dir(&tasks).into_iter().flatten().flatten();
        let mut comms = comms.map(|task| fs::read_to_string(task.path().join("comm")));
        comms.any(|comm| comm.is_ok_and(|comm| comm.trim() == "ctrl-c"))
    };
    until(has_thread);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn ctrl_c_shows_what_was_finished() {
    let torture = interrupted(&["torture", "--schedules", "1000000000000"]);
    let tried: Vec<_> = stdout(&torture).lines().map(str::to_owned).collect();
    assert!(tried.len() > 5, "{tried:?}");
    assert!(tried.iter().all(|line| line.contains(" of 1000000000000 schedules, ")), "{tried:?}");
    let sim = interrupted(&["sim", "all", "--seeds", "1000"]);
    let said = "fairlock: interrupted; what was finished is shown\n";
    for output in [torture, sim] {
        assert_eq!(output.status.code(), Some(130));
        assert!(stderr(&output).ends_with(said), "{}", stderr(&output));
    }
}

#[test]
fn children_die_with_a_killed_parent() {
    let (mut parent, child) = endless();
    // Not before the child has tied itself to its parent: it does so first of all,
    // then it starts the threads of its workload.
    let busy = beside(child);
    let tasks = format!("/proc/{}/task", child.as_raw_nonzero());
    until(|| fs::read_dir(&tasks).map_or(0, Iterator::count) >= 3);
    parent.kill().unwrap();
    parent.wait().unwrap();
    until_gone(child);
    until_gone(busy);
}

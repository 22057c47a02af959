//! The report that `FAIRLOCK_STATS` asks for.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{compile, succeeds, with_ours};
use serde_json::Value;

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("stats.c"))
}

/// A new folder for the reports of a test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    folder
}

/// Runs a test of the program, which writes its report to `file`.
fn observed(test: &str, file: &Path) -> Command {
    let mut command = with_ours(program());
    command.arg(test).env("FAIRLOCK_STATS", file).env_remove("FAIRLOCK_STATS_PID");
    command
}

fn locks(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lock that is a variable of the program.
fn named(locks: &[Value]) -> &Value {
    let mut named = locks.iter().filter(|lock| !lock["object"].is_null());
    let lock = named.next().expect("a lock in an object");
    assert!(named.next().is_none());
    lock
}

#[test]
fn every_lock_is_counted_until_the_process_exits() {
    let file = folder("every_lock").join("report");
    succeeds(&mut observed("counts", &file));
    let locks = locks(&file);
    assert_eq!(locks.len(), 2);
    let lock = named(&locks);
    assert!(lock["object"].as_str().unwrap().ends_with("stats"));
    assert_eq!((&lock["reads"], &lock["writes"]), (&4.into(), &1.into()));
    assert_eq!(lock["kind"], "rwlock");
    assert_eq!((&lock["waits"], &lock["readers"]), (&1.into(), &1.into()));
    let longest = lock["wait_max_ns"].as_u64().unwrap();
    assert!(longest >= 20_000_000, "it waited for {longest} ns");
    assert_eq!(lock["wait_total_ns"], longest);
    // How it gets the lock depends on whether it looks at it again just as that comes free.
    let slept = lock["events"]["rwsem_sleep_reader"].as_u64();
    assert!(slept.is_some_and(|times| times >= 1), "{slept:?}");
    assert_eq!((&lock["policy"], &lock["destroyed"]), (&"default".into(), &false.into()));
    let other = locks.iter().find(|lock| lock["object"].is_null()).unwrap();
    assert_eq!((&other["writes"], &other["waits"]), (&1.into(), &0.into()));
    assert_eq!(other["destroyed"], true);
}

#[test]
fn a_mutex_is_counted_as_one() {
    let file = folder("of_a_mutex").join("report");
    succeeds(&mut observed("mutexes", &file));
    let locks = locks(&file);
    let lock = named(&locks);
    assert_eq!((&lock["kind"], &lock["writes"]), (&"mutex".into(), &3.into()));
    assert_eq!((&lock["reads"], &lock["waits"]), (&0.into(), &1.into()));
    assert!(lock["wait_max_ns"].as_u64().unwrap() >= 20_000_000 && lock["writer"] != 0);
}

#[test]
fn a_child_counts_for_itself_in_a_file_of_its_own() {
    let file = folder("child").join("report");
    let output = succeeds(&mut observed("forks", &file));
    let child = String::from_utf8(output.stdout).unwrap();
    let of_child = locks(&file.with_file_name(format!("report.{}", child.trim())));
    let (parent, child) = (locks(&file), named(&of_child));
    assert_eq!(
        (&child["writes"], &child["waits"], &child["reads"]),
        (&1.into(), &0.into(), &0.into())
    );
    assert_eq!((&named(&parent)["writes"], &named(&parent)["waits"]), (&1.into(), &1.into()));
}

#[test]
fn a_program_that_is_started_by_another_has_a_file_of_its_own() {
    let folder = folder("started");
    let script = format!("'{0}' counts; '{0}' counts; true", program().display());
    let mut shell = with_ours(Path::new("/bin/sh"));
    shell.args(["-c", &script]).env("FAIRLOCK_STATS", folder.join("report"));
    succeeds(shell.env_remove("FAIRLOCK_STATS_PID"));
    // The shell itself may end without a report: `_exit` runs nothing.
    let _ = fs::remove_file(folder.join("report"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

#[test]
fn a_child_that_works_elsewhere_writes_beside_its_parent() {
    let folder = folder("elsewhere");
    let script = format!("cd / && '{}' counts; true", program().display());
    let mut shell = with_ours(Path::new("/bin/sh"));
    shell.args(["-c", &script]).env("FAIRLOCK_STATS", "report").current_dir(&folder);
    let output = succeeds(shell.env_remove("FAIRLOCK_STATS_PID"));
    assert!(output.stderr.is_empty(), "{output:?}");
    let numbered = |name: &str| name.starts_with("report.");
    let names = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name());
    assert_eq!(names.filter(|name| numbered(name.to_str().unwrap())).count(), 1);
}

#[test]
fn the_name_may_say_where_the_number_of_the_process_goes() {
    let folder = folder("number");
    succeeds(&mut observed("counts", &folder.join("a-%p.json")));
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    let [name] = &names[..] else { panic!("{names:?}") };
    let pid = locks(&folder.join(name))[0]["pid"].as_u64().unwrap();
    assert_eq!(name.to_str().unwrap(), format!("a-{pid}.json"));
}

#[test]
fn a_signal_asks_for_a_report_at_once() {
    let file = folder("signal").join("report");
    succeeds(observed("on_signal", &file).env("FAIRLOCK_STATS_SIGNAL", "1"));
    let now = locks(&file.with_file_name("report.now"));
    let [lock] = &now[..] else { panic!("{now:?}") };
    assert_eq!((&lock["writes"], &lock["writer"]), (&2.into(), &lock["pid"]));
    let end = locks(&file);
    assert_eq!((&named(&end)["writes"], &named(&end)["writer"]), (&2.into(), &0.into()));
}

#[test]
fn a_child_reports_whoever_was_reporting_when_it_was_forked() {
    let file = folder("reporting").join("report");
    succeeds(observed("forks_while_reporting", &file).env("FAIRLOCK_STATS_SIGNAL", "1"));
}

#[test]
fn a_handler_of_the_program_stays_in_place() {
    let file = folder("handler").join("report");
    succeeds(observed("own_signal", &file).env("FAIRLOCK_STATS_SIGNAL", "1"));
}

#[test]
fn a_file_that_cannot_be_written_is_one_line() {
    let file = folder("unwritable").join("no").join("report");
    let output = succeeds(&mut observed("counts", &file));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.lines().count() == 1 && said.contains("FAIRLOCK_STATS"), "{said}");
}

/// Counting changes nothing of what the locks do.
#[test]
fn what_is_observed_works_as_before() {
    let folder = folder("observed");
    for (source, tests) in [
        ("errors.c", &["initialisers", "deadlock", "timeouts", "misuse"][..]),
        ("recursion.c", &["many_locks", "every_kind"]),
        ("stress.c", &["exclusion", "new_locks"]),
        ("process.c", &["fork_while_busy", "process_shared"]),
    ] {
        let program = compile(source);
        for test in tests {
            let mut command = with_ours(&program);
            command.arg(test).env("FAIRLOCK_STATS", folder.join(format!("{test}-%p")));
            succeeds(&mut command);
        }
    }
}

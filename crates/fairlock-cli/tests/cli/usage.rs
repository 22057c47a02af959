//! What is typed wrong; help, completions and the manual page.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{run, stderr, stdout};

#[test]
fn bad_usage_is_one_line_and_exit_2() {
    for (args, hint) in [
        (&["bench"][..], "name a workload"),
        (&["bench", "hand-off"], "'handoff'"),
        (&["bench", "handoff", "--locks", "parkinglot"], "'parking_lot'"),
        (&["bench", "handoff", "--locks", "defualt"], "'fairlock:default'"),
        (&["bench", "batch", "--locks", "adptive"], "'fairlock:adaptive'"),
        (&["bench", "handoff", "--locks", "ref:mcs"], "is a mutex"),
        (&["bench", "batch", "--overcommit", "0"], "--overcommit"),
        (&["bench", "range", "--shape", "randm"], "'random'"),
        (&["bench", "range", "--reads", "200"], "--reads"),
        (&["bench", "think", "--form", "rwlok"], "'rwlock'"),
        (&["bench", "think", "--outside", "4000000"], "--section"),
        (&["bench", "think", "--form", "rwlock,mutex", "--reads", "90"], "--reads 0"),
        (&["sim", "think", "--form", "mutex", "--reads", "90,99"], "--reads 0"),
        (&["bench", "spread", "--among", "0"], "use 1 to 1000000"),
        (&["bench", "idle", "--holder", "awya"], "'away'"),
        (&["bench", "range", "--locks", "ref:mcs"], "is a mutex"),
        (&["bench", "batch", "--overcommit", "twice"], "--overcommit"),
        (&["bench", "handoff", "--threads", "0"], "use 1 to 10000"),
        (&["bench", "handoff", "--threads", "10001"], "10000"),
        (&["bench", "handoff", "--threads", "many"], "--threads"),
        (&["bench", "handoff", "--threads", "-1"], "--help"),
        (&["bench", "handoff", "--background", "65"], "64 at most"),
        (&["bench", "handoff", "--background", "some"], "--background"),
        (&["bench", "reader-spin", "--threads", "1"], "2 or more"),
        (&["bench", "handoff", "--secs", "0"], "--secs"),
        (&["bench", "handoff", "--secs", "inf"], "--secs"),
        (&["bench", "handoff", "--runs", "0"], "--runs"),
        (&["bench", "handoff", "--case", "mixed"], "--case"),
        (&["bench", "handoff", "--case", "sleeep"], "'sleep'"),
        (&["bench", "handoff", "--quik"], "--quick"),
        (&["torture", "--schedules", "0"], "--schedules"),
        (&["torture", "--seed", "1", "--schedules", "18446744073709551615"], "2^64"),
        (&["torture", "--locks", "rwsem"], "rwsem:default"),
        (&["bnech"], "'bench'"),
        (&["--bogus"], "--help"),
    ] {
        let output = run(args);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
        assert!(error.contains(hint), "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[cfg(not(feature = "native-peers"))]
#[test]
fn a_lock_of_an_absent_feature_names_the_feature() {
    let output = run(&["bench", "handoff", "--locks", "abseil"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--features native-peers"));
}

#[test]
fn help_version_man_and_completions_go_to_stdout() {
    for args in
        [&["--help"][..], &["--version"], &["man"], &["completions", "bash"], &["bench", "--help"]]
    {
        let output = run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
}

/// What Bash would offer for a line that ends at the cursor.
fn completed(line: &str) -> Vec<String> {
    const ASK: &str = r#"
        source /dev/stdin
        COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
        COMP_LINE=$1 COMP_POINT=${#1}
        words=${1//:/ : }
        COMP_WORDS=(${words//=/ = })
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _fairlock_lists fairlock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut bash = Command::new("bash")
        .args(["--norc", "-c", ASK, "bash", line])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let script = run(&["completions", "bash"]).stdout;
    bash.stdin.take().unwrap().write_all(&script).unwrap();
    stdout(&bash.wait_with_output().unwrap()).lines().map(str::to_owned).collect()
}

#[test]
fn completions_know_workloads_and_locks() {
    assert_eq!(completed("fairlock sim h"), ["handoff"]);
    assert_eq!(completed("fairlock bench handoff read"), ["reader-spin", "read-mostly"]);
    assert!(completed("fairlock bench --locks fa").contains(&"fairlock:default".to_owned()));
    assert!(!completed("fairlock sim --locks p").contains(&"parking_lot".to_owned()));
    assert_eq!(completed("fairlock torture --locks rwsem:so"), ["soon"]);
    assert_eq!(completed("fairlock sim handoff --machine sky"), ["skylake_80"]);
    assert_eq!(completed("fairlock machines show gu"), ["guests_32"]);
    // Bash replaces what is behind the colon.
    assert_eq!(completed("fairlock bench --locks fairlock:de"), ["default"]);
    assert_eq!(completed("fairlock bench --locks std,fairlock:de"), ["default"]);
    assert_eq!(completed("fairlock bench --locks=std,range-m"), ["std,range-mutex"]);
    for shell in ["zsh", "fish"] {
        let script = stdout(&run(&["completions", shell]));
        assert!(script.contains("direct-io") && script.contains("batch64"), "{shell}");
    }
}

#[test]
fn the_manual_page_is_whole_by_itself() {
    let page = stdout(&run(&["man"]));
    assert!(!page.contains("(1)"), "refers to a page that nobody has: {page}");
    for said in ["\n.SH \"fairlock sim\"\n", "\n.SH \"fairlock machines show\"\n", "schedules"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains("fairlock cell"), "for internal use: {page}");
}

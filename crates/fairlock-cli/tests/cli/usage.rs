//! What is typed wrong; help, completions and the manual page.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{run, stderr, stdout};

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
    assert_eq!(completed("fairlock bench handoff read"), ["reader-spin"]);
    assert!(completed("fairlock bench --locks fa").contains(&"fairlock:rwlock".to_owned()));
    assert!(!completed("fairlock sim --locks p").contains(&"parking_lot".to_owned()));
    assert_eq!(completed("fairlock torture --locks rwsem:so"), ["soon"]);
    assert_eq!(completed("fairlock sim handoff --machine sky"), ["skylake_80"]);
    assert_eq!(completed("fairlock machines show gu"), ["guests_32"]);
    // Bash replaces what is behind the colon.
    assert_eq!(completed("fairlock bench --locks fairlock:rw"), ["rwlock"]);
    assert_eq!(completed("fairlock bench --locks std,fairlock:rw"), ["rwlock"]);
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

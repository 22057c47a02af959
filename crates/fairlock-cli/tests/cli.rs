//! The command as its user meets it: exit codes, one-line errors, the JSON
//! schema, and that nothing is left behind. Nothing here depends on speed.
#![cfg(target_os = "linux")] // signals, terminals, /proc

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use fairlock_testing::until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A measurement as short as it can be.
const TINY: [&str; 6] = ["--secs", "0.02", "--runs", "1", "--threads", "4"];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> Output {
    command(args).output().expect("fairlock starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// Runs with `--json` and returns the document.
fn run_json(args: &[&str], code: i32) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    let output = run(&[args, &["--json", file.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    assert_eq!(entries(dir.path()), ["out.json"]);
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn entries(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn rows<'a>(document: &'a Value, key: &str, value: &str) -> Vec<&'a Value> {
    let rows = document["rows"].as_array().expect("rows");
    rows.iter().filter(|row| row[key] == value).collect()
}

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
        (&["bench", "spread", "--among", "0"], "1 or more"),
        (&["bench", "idle", "--holder", "awya"], "'away'"),
        (&["bench", "range", "--locks", "ref:mcs"], "is a mutex"),
        (&["bench", "batch", "--overcommit", "twice"], "--overcommit"),
        (&["bench", "handoff", "--threads", "0"], "1 or more"),
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

#[test]
fn every_listed_lock_runs() {
    let listed = stdout(&run(&["locks"]));
    let locks: Vec<(&str, &str)> = listed
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(' '))
        .collect();
    let names = || locks.iter().map(|(name, _)| *name);
    assert!(names().any(|name| name == "fairlock:default") && names().any(|name| name == "std"));
    let all =
        ["bench", "uncontended", "--case", "read,write,mutex", "--secs", "0.05", "--runs", "1"];
    let document = run_json(&all, 0);
    for (name, about) in &locks {
        let rows = rows(&document, "lock", name);
        let kinds = about.trim_start();
        let wanted = 2 * usize::from(kinds.starts_with("rw"))
            + usize::from(kinds.starts_with("mutex") || kinds.starts_with("rw, mutex"));
        assert_eq!(rows.len(), wanted, "{name}");
        assert!(rows.iter().all(|row| row["ns_per_op"].as_f64() > Some(0.0)), "{name}");
    }
}

#[test]
fn what_few_locks_have_is_measured_of_those() {
    let cases = "upgradable,upgrade,reentrant,nested,each_write,each_mutex";
    let locks = "fairlock:default,fairlock:adaptive,parking_lot,parking_lot_0.12,std";
    let args = ["bench", "uncontended", "--case", cases, "--locks", locks];
    let document = run_json(&[&args[..], &["--secs", "0.02", "--runs", "1"]].concat(), 0);
    for (name, wanted) in [
        ("fairlock:default", 3),
        ("fairlock:adaptive", 3),
        ("parking_lot", 6),
        ("parking_lot_0.12", 6),
        ("std", 2),
    ] {
        let rows = rows(&document, "lock", name);
        assert_eq!(rows.len(), wanted, "{name}");
        assert!(rows.iter().all(|row| row["ns_per_op"].as_f64() > Some(0.0)), "{name}");
    }
}

#[test]
fn what_a_run_was_beside_is_in_table_and_json() {
    let args = ["bench", "handoff", "think", "--locks", "std", "--quick", "--form", "rwlock"];
    let few = ["--case", "busy", "--outside", "1", "--section", "10", "--reads", "90"];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    let json = ["--json", file.to_str().unwrap()];
    for (background, caption) in [("0", None), ("2", Some("(beside 2 busy loops a CPU)"))] {
        let beside = ["--background", background];
        let output = run(&[&args[..], &few, &TINY, &beside, &json].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let captions = stdout(&output).lines().filter(|line| Some(*line) == caption).count();
        let document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let rows = document["rows"].as_array().unwrap();
        assert_eq!(captions, if caption.is_some() { 2 } else { 0 }, "{}", stdout(&output));
        for row in rows {
            let loops = row["background"].as_u64();
            assert_eq!(loops.unwrap_or(0).to_string(), background, "{row}");
        }
    }
}

#[test]
fn json_has_the_documented_schema() {
    let args = ["bench", "handoff", "reader-spin", "read-mostly", "--locks", "std,parking_lot"];
    let document = run_json(&[&args[..], &TINY, &["--cs-load", "1,20"]].concat(), 0);
    assert_eq!(document["schema"], "fairlock/1");
    assert!(document["command"].as_str().unwrap().starts_with("fairlock bench handoff"));
    assert_eq!(document["interrupted"], false);
    for key in ["cpus", "timer_slack_ns", "busy_turns_per_us"] {
        assert!(document["machine"][key].as_u64().is_some(), "{key}");
    }

    let handoff = rows(&document, "workload", "handoff");
    assert_eq!(handoff.len(), 4, "two locks, busy and sleep");
    for row in handoff {
        assert_eq!(
            (&row["side"], &row["threads"], &row["runs"]),
            (&"write".into(), &4.into(), &1.into())
        );
        for key in [
            "ops_per_s",
            "ops_per_s_min",
            "ops_per_s_max",
            "min_ops",
            "max_ops",
            "starved_threads",
            "jain",
            "wait_p50_ns",
            "wait_p99_ns",
            "wait_p999_ns",
            "wait_max_ns",
        ] {
            assert!(row[key].is_number(), "{key}: {row}");
        }
        assert!(row.get("cs_load").is_none() && row.get("error").is_none(), "{row}");
    }

    let spin = rows(&document, "workload", "reader-spin");
    // A mix has a row a side and one for both; alone there is one side.
    assert_eq!(spin.len(), 2 * 2 * (3 + 1 + 1));
    for row in spin.iter().filter(|row| row["side"] == "all") {
        assert_eq!(row["case"], "mixed");
        let alone = spin.iter().filter(|other| {
            other["case"] != "mixed"
                && ["lock", "cs_load"].iter().all(|&key| other[key] == row[key])
        });
        // In so short a time a thread may have had no CPU; then there is nothing to compare.
        let is_comparable = alone.clone().all(|other| other["ops_per_s"].as_f64() > Some(0.0));
        assert_eq!((alone.count(), row["balance_score"].is_number()), (2, is_comparable), "{row}");
    }
    assert_eq!(rows(&document, "workload", "read-mostly").len(), 2 * 2 * 3);
}

#[test]
fn batch_has_the_documented_rows_for_every_mutex() {
    // As many threads as can run at once: a lock that spins in order of arrival
    // hardly moves with more.
    let args = ["bench", "batch", "--overcommit", "1", "--secs", "0.02", "--runs", "1"];
    let document = run_json(&args, 0);
    for lock in ["fairlock:adaptive", "fairlock:batch8", "ref:mcs", "std", "pthread:spin"] {
        let rows = rows(&document, "lock", lock);
        let cases: Vec<&str> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
        assert_eq!(cases, ["tiny", "chunks"], "{lock}");
        for row in &rows {
            assert_eq!((&row["overcommit"], &row["side"]), (&1.0.into(), &"write".into()));
            for key in [
                "ops_per_s",
                "min_ops",
                "max_ops",
                "starved_threads",
                "jain",
                "wait_p50_ns",
                "wait_p99_ns",
                "wait_p999_ns",
                "wait_max_ns",
            ] {
                assert!(row[key].is_number(), "{key}: {row}");
            }
        }
        assert_eq!(rows[0]["cs_load"], 50);
        assert_eq!(rows[1]["records_per_s"], rows[1]["ops_per_s"]);
    }
    assert!(rows(&document, "lock", "fairlock:default").is_empty());
}

#[test]
fn range_has_the_documented_rows_for_every_range_lock() {
    let args = ["bench", "range", "--secs", "0.02", "--runs", "1", "--threads", "2"];
    let narrow = ["--section", "100", "--held", "0,16", "--shape", "disjoint,random"];
    let document = run_json(&[&args[..], &narrow].concat(), 0);
    for lock in ["fairlock:range", "fairlock:range_fifo", "fcntl"] {
        let rows = rows(&document, "lock", lock);
        for case in ["full_write", "full_read", "full_mixed", "array", "wide", "file"] {
            let of_case: Vec<_> = rows.iter().filter(|row| row["case"] == case).collect();
            assert!(!of_case.is_empty(), "{lock} {case}");
            for row in of_case {
                for key in ["ops_per_s", "starved_threads", "wait_max_ns"] {
                    assert!(row[key].is_number(), "{key}: {row}");
                }
                let is_array = case == "array";
                assert_eq!(row["shape"].is_string() && row["reads_percent"].is_number(), is_array);
            }
        }
        for side in ["read", "write"] {
            let cost = rows.iter().filter(|row| row["case"] == side);
            let held: Vec<_> = cost.map(|row| row["held"].as_u64().unwrap()).collect();
            assert_eq!(held, [0, 16], "{lock}");
        }
    }
    // Writers only, and one lock around everything.
    let of = |lock| rows(&document, "lock", lock);
    assert!(of("range-mutex").iter().all(|row| row["side"] == "write"));
    assert!(of("parking_lot").iter().all(|row| row["held"].as_u64().unwrap_or(0) == 0));
    assert!(of("ref:mcs").is_empty());
}

/// The rows of each form of a lock that stand for whole cells, of a workload that draws its
/// operations: checks the keys that they have, and that no cell is missing.
fn drawn_rows<'a>(document: &'a Value, form: &str, lock: &str, cells: usize) -> Vec<&'a Value> {
    let is_whole = |row: &&Value| row["reads_percent"] == 0 || row["side"] == "all";
    let of_lock = rows(document, "lock", lock).into_iter().filter(|row| row["form"] == form);
    let whole: Vec<_> = of_lock.filter(is_whole).collect();
    assert_eq!(whole.len(), cells, "{form} {lock}");
    for row in &whole {
        assert_eq!(row["case"], "busy");
        for key in [
            "ops_per_s",
            "starved_threads",
            "jain",
            "section_ns",
            "wait_p50_ns",
            "wait_p99_ns",
            "wait_p999_ns",
            "wait_max_ns",
            "ratio_to_fastest_peer",
        ] {
            assert!(row[key].is_number(), "{key}: {row}");
        }
    }
    whole
}

/// A lock of ours for each form.
const OURS: [(&str, &str); 3] =
    [("rwlock", "fairlock:default"), ("mutex", "fairlock:adaptive"), ("range", "fairlock:range")];

#[test]
fn think_has_the_documented_rows_in_every_form() {
    let args = ["bench", "think", "--secs", "0.02", "--runs", "1", "--threads", "2"];
    let cells = ["--section", "10", "--outside", "0,10", "--reads", "0,50"];
    let document = run_json(&[&args[..], &cells].concat(), 0);
    for (form, ours) in OURS {
        for lock in [ours, "std", "parking_lot", "parking_lot_0.12"] {
            let count = if form == "mutex" { 2 } else { 4 };
            let rows = drawn_rows(&document, form, lock, count);
            let number = |row: &Value, key| row[key].as_u64().unwrap();
            let cells: Vec<_> =
                rows.iter().map(|r| (number(r, "reads_percent"), number(r, "outside"))).collect();
            assert_eq!(cells, [(0, 0), (0, 10), (50, 0), (50, 10)][..count], "{lock}");
            assert!(rows.iter().all(|row| row["shape"].is_string() == (form == "range")));
        }
    }
}

#[test]
fn spread_has_the_documented_rows_in_every_form() {
    let args = ["bench", "spread", "--secs", "0.02", "--runs", "1", "--threads", "4"];
    let document = run_json(&[&args[..], &["--among", "1,64", "--reads", "0,90"]].concat(), 0);
    for (form, ours) in OURS {
        for lock in [ours, "std", "parking_lot"] {
            let count = if form == "mutex" { 2 } else { 4 };
            let rows = drawn_rows(&document, form, lock, count);
            assert!(rows.iter().any(|row| row["among"] == 64), "{lock}");
        }
    }
}

#[test]
fn idle_has_the_documented_rows_in_every_form() {
    let args = ["bench", "idle", "--secs", "0.05", "--runs", "1", "--section", "30000"];
    let document = run_json(&args, 0);
    for (form, ours) in OURS {
        for lock in [ours, "std", "parking_lot"] {
            let rows = rows(&document, "lock", lock);
            let rows: Vec<_> = rows.into_iter().filter(|row| row["form"] == form).collect();
            // Busy or asleep inside, away or back; and who waits.
            let sides = if form == "mutex" { 1 } else { 2 };
            assert_eq!(rows.len(), 2 * 2 * sides, "{form} {lock}");
            for row in rows {
                assert!(["away", "back"].iter().any(|holder| row["holder"] == *holder), "{row}");
                assert_eq!(row["side"] == "read", row["reads_percent"] == 100, "{row}");
            }
        }
    }
}

#[test]
fn condvar_has_the_documented_rows_for_every_mutex_that_has_one() {
    let document = run_json(&["bench", "condvar", "--secs", "0.02", "--runs", "1"], 0);
    for lock in ["fairlock:adaptive", "std", "parking_lot", "pthread"] {
        let rows = rows(&document, "lock", lock);
        let of = |case: &str| {
            let rows = rows.iter().filter(|row| row["case"] == case);
            rows.map(|row| row["threads"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(of("ping_pong"), [2], "{lock}");
        assert_eq!(of("one_to_many"), [5, 17], "{lock}");
        assert_eq!((of("queue"), of("timed_queue")), (vec![8, 32], vec![8, 32]), "{lock}");
        assert_eq!(of("notify_all"), [65, 1001], "{lock}");
        assert_eq!(of("untimed"), [32], "{lock}");
        let timed: &[u64] = if lock == "std" { &[] } else { &[32] };
        assert_eq!(of("half_time_out"), timed, "{lock}");
        assert!(rows.iter().all(|row| row["ops_per_s"].is_number()), "{lock}");
    }
    assert!(rows(&document, "lock", "fairlock:default").is_empty());
}

#[test]
fn a_free_lock_that_is_not_given_away_is_found() {
    let args = ["bench", "idle", "--locks", "broken:unfair", "--form", "mutex", "--runs", "1"];
    let cell = ["--case", "sleep", "--holder", "away", "--section", "30000", "--secs", "0.5"];
    let document = run_json(&[&args[..], &cell].concat(), 0);
    // It goes to another thread only when it has been idle for 40 ms, of which those are missing for
    // which whoever released it had no CPU before it looked at the clock. The longest of many.
    let row = &document["rows"][0];
    assert!(row["free_max_ns"].as_u64() >= Some(20_000_000), "{row}");
}

/// Runs in which two threads meet at least once, even if CPUs are few: the first that fails
/// is the last.
const MANY: &str = "50";

#[test]
fn a_range_lock_that_lets_everybody_in_is_caught() {
    let args = ["bench", "range", "--case", "file", "--locks", "broken:open", "--secs", "0.2"];
    let document = run_json(&[&args[..], &["--threads", "4", "--runs", MANY]].concat(), 1);
    let error = document["rows"][0]["error"].as_str().unwrap();
    assert!(error.contains("does not exclude"), "{error}");
}

#[test]
fn a_mutex_that_lets_everybody_in_is_caught() {
    for case in ["tiny", "chunks"] {
        let args = ["bench", "batch", "--locks", "broken:open", "--case", case, "--runs", MANY];
        let document = run_json(&[&args[..], &["--threads", "4", "--secs", "0.2"]].concat(), 1);
        let error = document["rows"][0]["error"].as_str().unwrap();
        assert!(error.contains("does not exclude"), "{case}: {error}");
    }
}

#[test]
fn a_table_is_printed_without_a_progress_bar_in_a_pipe() {
    let output = run(&[&["bench", "handoff", "--locks", "std"][..], &TINY].concat());
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("timer slack") && text.contains("starved") && text.contains("std"),
        "{text}"
    );
}

#[test]
fn json_named_dash_is_stdout_and_the_table_is_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let run_there = |args: &[&str]| {
        let output = command(args).current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        let table = stderr(&output);
        assert!(table.contains("longest") && table.contains("fairlock:"), "{args:?}: {table}");
        output.stdout
    };
    let locks = ["--locks", "fairlock:default", "--json", "-"];
    let sim = ["sim", "handoff", "--case", "sleep", "--duration", "1ms"];
    let part = run_there(&[&sim[..], &locks].concat());
    fs::write(dir.path().join("part.json"), &part).unwrap();
    for args in [
        &[&TINY[..], &["--case", "busy"], &locks].concat()[..],
        &[&["bench", "handoff", "--case", "busy"][..], &TINY, &locks].concat(),
        &["merge", "part.json", "--json=-"],
    ] {
        let document: Value = serde_json::from_slice(&run_there(args)).expect("nothing but JSON");
        assert_eq!(document["schema"], "fairlock/1", "{args:?}");
    }
    let one =
        [&sim[..], &["--locks", "fairlock:default", "--threads", "2", "--trace", "-"]].concat();
    let trace: Value = serde_json::from_slice(&run_there(&one)).expect("nothing but JSON");
    assert!(trace["traceEvents"].is_array());
    assert_eq!(entries(dir.path()), ["part.json"]);

    let both = run(&[&one[..], &["--json", "-"]].concat());
    assert_eq!(both.status.code(), Some(2));
    assert!(stderr(&both).contains("cannot both"), "{}", stderr(&both));
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn nothing_is_wider_than_the_terminal_and_a_pipe_has_all() {
    // The longest names there are.
    let locks = "fairlock:reader_spin_adaptive,fairlock:range_fifo,parking_lot_0.12:fair";
    let tiny = ["--secs", "0.01", "--runs", "1", "--locks", locks, "--shape", "disjoint"];
    let few = ["--threads", "2,4", "--cs-load", "1,20", "--overcommit", "1", "--section", "100"];
    let bench = ["handoff", "reader-spin", "uncontended", "read-mostly", "batch", "range"];
    let bench =
        [&["bench"][..], &bench, &tiny, &few, &["--held", "0,4096", "--reads", "60"]].concat();
    let sim = ["sim", "all", "--quick", "--duration", "1ms"];
    let of = |args: &[&str], columns: &str| {
        let output = command(args).env("COLUMNS", columns).output().unwrap();
        // Some measurements may be too short to come to anything.
        let ended = output.status.code();
        assert!(matches!(ended, Some(0 | 1)), "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    for args in [&bench[..], &sim, &["sim", "handoff", "--duration", "1ms"], &["locks"]] {
        let narrow = of(args, "80");
        assert!(narrow.lines().count() > 20 && widest(&narrow) <= 80, "{args:?}: {narrow}");
    }
    for args in [&["sim", "handoff", "--duration", "1ms"][..], &["locks"]] {
        let wide = of(args, "");
        assert!(widest(&wide) > 80 && !wide.contains("too narrow"), "{args:?}: {wide}");
    }
}

#[test]
fn a_terminal_is_asked_how_wide_it_is() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcsetwinsize};

    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let size = Winsize { ws_row: 25, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    let its_end = fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut child = command(&["locks"]).env_remove("COLUMNS").stdout(its_end).spawn().unwrap();
    let (mut printed, mut bytes) = (Vec::new(), [0; 4096]);
    // With the last of its writers gone, a terminal has an error for its reader.
    while let Ok(length @ 1..) = rustix::io::read(&terminal, &mut bytes) {
        printed.extend_from_slice(&bytes[..length]);
    }
    assert!(child.wait().unwrap().success());
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.contains("fairlock:default") && widest(&printed) <= 60, "{printed}");
}

#[test]
fn json_replaces_an_older_file_and_keeps_its_name_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("real.json");
    let link = dir.path().join("link.json");
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let args =
        ["bench", "uncontended", "--locks", "std", "--secs", "0.02", "--runs", "1", "--json"];
    assert!(run(&[&args[..], &[link.to_str().unwrap()]].concat()).status.success());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&file).unwrap().contains("fairlock/1"));
    assert_eq!(entries(dir.path()).len(), 2);
}

#[test]
fn json_that_cannot_be_written_is_exit_1() {
    let full = ["bench", "uncontended", "--locks", "std", "--secs", "0.02", "--json", "/dev/full"];
    let nowhere = ["bench", "handoff", "--locks", "std", "--json", "no/such/folder/x.json"];
    for (args, hint) in [(&full[..], "the disk is full"), (&nowhere, "no such folder")] {
        let output = run(args);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains("--json") && error.contains(hint), "{error}");
    }
    assert!(!fs::metadata("/dev/full").unwrap().is_file());
}

#[test]
fn results_are_kept_where_they_cannot_be_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let refused = |json: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_fairlock"))
            .args(["bench", "uncontended", "--locks", "std", "--secs", "0.02", "--runs", "1"])
            .args(["--case", "read", "--json"])
            .arg(json)
            .stdout(fs::File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot write to stdout"), "{}", stderr(&output));
        stderr(&output)
    };
    assert_eq!(refused(&file).lines().count(), 1);
    assert!(fs::read_to_string(file).unwrap().contains("fairlock/1"));
    let both = refused(Path::new("/dev/full"));
    assert!(both.contains("cannot write --json /dev/full") && both.lines().count() == 2, "{both}");
}

#[test]
fn a_lock_that_starves_is_counted() {
    let args = ["bench", "handoff", "--case", "busy", "--locks", "broken:unfair"];
    let args = [&args[..], &["--threads", "16", "--secs", "0.1", "--runs", "1"]].concat();
    until(|| {
        let document = run_json(&args, 0);
        let row = &document["rows"][0];
        assert!(row["starved_threads"].as_u64() >= Some(15), "{row}");
        // The starved threads waited through the whole window, but for those that had no CPU
        // for most of it: then it is tried again.
        row["wait_max_ns"].as_u64() >= Some(50_000_000)
    });
}

#[test]
fn a_lock_that_loses_somebody_is_killed_and_marked() {
    let args = ["bench", "handoff", "--case", "busy", "--locks", "broken:stuck,std"];
    let args = [&args[..], &TINY, &["--patience", "10"]].concat();
    let document = run_json(&args, 1);
    let stuck = rows(&document, "lock", "broken:stuck");
    assert!(stuck[0]["error"].as_str().unwrap().contains("killed"), "{}", stuck[0]);
    assert!(rows(&document, "lock", "std")[0]["ops_per_s"].is_number());
}

#[test]
fn a_lock_that_panics_is_marked_with_its_message() {
    let args = ["bench", "handoff", "--case", "busy", "--locks", "broken:panicking"];
    let document = run_json(&[&args[..], &TINY].concat(), 1);
    let error = document["rows"][0]["error"].as_str().unwrap();
    assert!(error.contains("broken on purpose") && !error.contains('\n'), "{error}");
}

#[test]
fn direct_io_runs_or_says_why_not_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let args = ["bench", "direct-io", "--locks", "std", "--secs", "0.02", "--runs", "1"];
    let output = run(&[&args[..], &["--dir", path]].concat());
    match output.status.code() {
        Some(0) => assert!(stdout(&output).contains("file system")),
        Some(1) => assert!(stderr(&output).contains("--dir"), "{}", stderr(&output)),
        other => panic!("{other:?}: {}", stderr(&output)),
    }
    assert!(entries(dir.path()).is_empty());

    let missing = run(&["bench", "direct-io", "--dir", "no/such/folder"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(stderr(&missing).lines().count(), 1);
}

#[test]
fn a_closed_stdout_is_no_panic() {
    let mut child = command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(said, "");
}

/// A run whose child never ends by itself, once that child is there.
#[allow(clippy::zombie_processes)] // the caller waits for it
fn endless() -> (Child, Pid) {
    let args = ["bench", "handoff", "--locks", "broken:stuck", "--patience", "600"];
    let parent = command(&[&args[..], &["--background", "1"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = parent.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    let mut child = None;
    until(|| {
        let listed = fs::read_to_string(&children).unwrap_or_default();
        child = listed.split_whitespace().next().and_then(|pid| pid.parse().ok());
        child.is_some()
    });
    (parent, child.and_then(Pid::from_raw).unwrap())
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
    kill_process(Pid::from_child(&parent), Signal::INT).unwrap();
    let output = parent.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(stderr(&output).contains("interrupted"));
    until_gone(child);
}

#[test]
fn a_table_is_shown_before_the_cells_of_the_next_are_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (scenario, json) = (path("sleeper.toml"), path("out.json"));
    // The second table takes a minute.
    let sleeper = "[locks]\nheld = 1\n[[threads]]\nname = \"sleeper\"\ncount = 1\n\
                   round = [{ write = \"held\", sleep = \"60s\" }]\n";
    fs::write(&scenario, sleeper).unwrap();
    let args = ["bench", "uncontended", &scenario, "--case", "read", "--locks", "std"];
    let short = ["--secs", "0.02", "--patience", "600", "--json", &json];
    let mut child = command(&[&args[..], &short].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let table: Vec<String> =
        lines.by_ref().take_while(|line| !line.starts_with("x best")).collect();
    let count = |what: &str| table.iter().filter(|line| line.contains(what)).count();
    assert_eq!((count("uncontended:"), count("(measurements of 20.0 ms)")), (1, 1), "{table:?}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    let is_title = |line: &String| line.contains("uncontended:") || line.contains("scenario");
    assert!(!rest.iter().any(is_title), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let document: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(document["rows"].as_array().unwrap().len(), 1);
    assert_eq!(document["interrupted"], true);
}

#[test]
fn the_main_job_shows_first_who_starves_whom_and_documents_workloads_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    let tiny = ["--locks", "std", "--secs", "0.02", "--json", file.to_str().unwrap()];
    let shown = stdout(&run(&tiny));
    let titles = shown.lines().filter_map(|line| Some(line.split_once(':')?.0));
    let titles = titles.filter(|title| ["reader-spin", "handoff"].contains(title));
    assert_eq!(titles.collect::<Vec<_>>(), ["reader-spin", "reader-spin", "handoff"], "{shown}");
    assert!(shown.find("In short") > shown.find("handoff:"), "{shown}");

    let document: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let rows = document["rows"].as_array().unwrap().iter();
    let mut run: Vec<_> = rows
        .map(|row| (row["workload"].as_str().unwrap(), row["threads"].as_u64().unwrap()))
        .collect();
    run.dedup();
    assert_eq!(run, [("handoff", 60), ("reader-spin", 8), ("reader-spin", 96)]);
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
        assert_eq!((output.status.code(), &*stderr(&output)), (Some(130), said));
    }
}

#[test]
fn children_die_with_a_killed_parent() {
    let (mut parent, child) = endless();
    // Not before the child has tied itself to its parent: it does so first of all,
    // then it starts the threads of its workload.
    let tasks = format!("/proc/{}/task", child.as_raw_nonzero());
    until(|| fs::read_dir(&tasks).map_or(0, Iterator::count) >= 3);
    parent.kill().unwrap();
    parent.wait().unwrap();
    until_gone(child);
}

//! Each workload measures what it says, of each lock that has it, and has the documented rows.

use std::fs;

use serde_json::Value;

use super::{TINY, entries, rows, run, run_json, run_json_until_measured, stderr, stdout};

/// What is known of each side of a cell.
const FIGURES: [&str; 9] = [
    "ops_per_s",
    "min_ops",
    "max_ops",
    "starved_threads",
    "jain",
    "wait_p50_ns",
    "wait_p99_ns",
    "wait_p999_ns",
    "wait_max_ns",
];

/// The row has a number for each of these.
fn assert_numbers(row: &Value, keys: &[&str]) {
    for key in keys {
        assert!(row[key].is_number(), "{key}: {row}");
    }
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
    assert!(names().any(|name| name == "fairlock:rwlock") && names().any(|name| name == "std"));
    let all =
        ["bench", "uncontended", "--case", "read,write,mutex", "--secs", "0.05", "--runs", "1"];
    let of_one = locks.iter().filter(|(_, about)| !about.trim_start().starts_with("range"));
    let names = of_one.map(|(name, _)| *name).collect::<Vec<_>>().join(",");
    let document = run_json(&[&all[..], &["--locks", &names]].concat(), 0);
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
    let locks = "fairlock:rwlock,fairlock:mutex,parking_lot,parking_lot_0.12,std";
    let args = ["bench", "uncontended", "--case", cases, "--locks", locks];
    let document = run_json(&[&args[..], &["--secs", "0.02", "--runs", "1"]].concat(), 0);
    for (name, wanted) in [
        ("fairlock:rwlock", 3),
        ("fairlock:mutex", 3),
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
    for (loops, caption) in [("0", None), ("2", Some("(beside 2 busy loops)"))] {
        let beside = ["--beside", loops];
        let output = run(&[&args[..], &few, &TINY, &beside, &json].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let captions = stdout(&output).lines().filter(|line| Some(*line) == caption).count();
        let document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let rows = document["rows"].as_array().unwrap();
        assert_eq!(captions, if caption.is_some() { 2 } else { 0 }, "{}", stdout(&output));
        for row in rows {
            assert_eq!(row["beside"].as_u64().unwrap_or(0).to_string(), loops, "{row}");
        }
    }
}

/// No wait in it is longer than the longest that was measured, and each has all of its parts. A section of 3 ms makes
/// every wait a long one; if none ends in the time that is measured, nothing is said of any.
#[test]
#[cfg(target_os = "linux")]
fn why_waits_were_long_is_said_of_waits_that_were_measured() {
    let cell = ["--section", "3000000", "--outside", "0", "--reads", "0", "--form", "rwlock"];
    let args = ["bench", "think", "--locks", "std,pthread", "--threads", "4", "--secs", "0.2"];
    let document = run_json(&[&args[..], &cell, &["--runs", "1"]].concat(), 0);
    for row in document["rows"].as_array().unwrap() {
        let found = &row["long_waits"];
        assert_numbers(found, &["count"]);
        let sum = |split: &str| -> u64 {
            let parts = found[split].as_object().unwrap().values();
            parts.map(|ns| ns.as_u64().unwrap()).sum()
        };
        if found["count"].as_u64() > Some(0) {
            assert_numbers(found, &["uncertain_ns", "sleeps", "preemptions"]);
            let parts =
                ["running_ns", "asleep_ns", "on_the_way_ns", "without_cpu_ns", "runnable_ns"];
            assert_numbers(&found["all"], &parts);
            let measured = row["wait_max_ns"].as_u64().unwrap();
            let longest = sum("longest");
            assert!(longest > 1_000_000 && longest <= measured + measured / 50, "{row}");
            assert!(sum("all") >= longest, "{row}");
        } else {
            assert_eq!((sum("all"), &found["uncertain_ns"]), (0, &Value::Null), "{row}");
        }
    }
}

#[test]
fn json_has_the_documented_schema() {
    let args = ["bench", "handoff", "reader-spin", "--locks", "std,parking_lot"];
    let args = [&args[..], &TINY, &["--cs-load", "1,20"]].concat();
    let document = run_json_until_measured(&args, |row| row["workload"] == "handoff");
    assert_eq!(document["schema"], "fairlock/1");
    assert!(document["command"].as_str().unwrap().starts_with("fairlock bench handoff"));
    assert_eq!(document["interrupted"], false);
    for key in ["cpus", "timer_slack_ns", "busy_turns_per_us"] {
        assert!(document["machine"][key].as_u64().is_some(), "{key}");
    }
    for peer in ["std", "parking_lot"] {
        assert!(document["machine"]["peers"][peer].is_string(), "{peer}");
    }

    let handoff = rows(&document, "workload", "handoff");
    assert_eq!(handoff.len(), 4, "two locks, busy and sleep");
    for row in handoff {
        assert_eq!(
            (&row["side"], &row["threads"], &row["runs"]),
            (&"write".into(), &4.into(), &1.into())
        );
        assert_numbers(row, &FIGURES);
        assert_numbers(row, &["ops_per_s_min", "ops_per_s_max"]);
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
}

#[test]
fn batch_has_the_documented_rows_for_every_mutex() {
    // As many threads as can run at once: a lock that spins in order of arrival
    // hardly moves with more.
    let args = ["bench", "batch", "--overcommit", "1", "--secs", "0.02", "--runs", "1"];
    let locks = ["fairlock:mutex", "fairlock:batch8", "ref:mcs", "std", "pthread:spin"];
    let document =
        run_json_until_measured(&args, |row| locks.iter().any(|lock| row["lock"] == *lock));
    for lock in locks {
        let rows = rows(&document, "lock", lock);
        let cases: Vec<&str> = rows.iter().map(|row| row["case"].as_str().unwrap()).collect();
        assert_eq!(cases, ["tiny", "chunks"], "{lock}");
        for row in &rows {
            assert_eq!((&row["overcommit"], &row["side"]), (&1.0.into(), &"write".into()));
            assert_numbers(row, &FIGURES);
        }
        assert_eq!(rows[0]["cs_load"], 50);
        assert_eq!(rows[1]["records_per_s"], rows[1]["ops_per_s"]);
    }
    assert!(rows(&document, "lock", "fairlock:rwlock").is_empty());
}

#[test]
fn range_has_the_documented_rows_for_every_range_lock() {
    let args = ["bench", "range", "--secs", "0.02", "--runs", "1", "--threads", "2"];
    let narrow = ["--section", "100", "--held", "0,16", "--shape", "disjoint,random"];
    let (locks, costs) = (["fairlock:range", "fairlock:range_fifo", "fcntl"], ["read", "write"]);
    let document = run_json_until_measured(&[&args[..], &narrow].concat(), |row| {
        locks.iter().any(|lock| row["lock"] == *lock)
            && costs.iter().all(|case| row["case"] != *case)
    });
    for lock in locks {
        let rows = rows(&document, "lock", lock);
        for case in ["full_write", "full_read", "full_mixed", "array", "wide", "file"] {
            let of_case: Vec<_> = rows.iter().filter(|row| row["case"] == case).collect();
            assert!(!of_case.is_empty(), "{lock} {case}");
            for row in of_case {
                assert_numbers(row, &["ops_per_s", "starved_threads", "wait_max_ns"]);
                let is_array = case == "array";
                assert_eq!(row["shape"].is_string() && row["reads_percent"].is_number(), is_array);
            }
        }
        for side in costs {
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

/// Whether the row stands for a whole cell, of a workload that draws its operations.
fn is_whole(row: &Value) -> bool {
    row["reads_percent"] == 0 || row["side"] == "all"
}

/// The rows of each form of a lock that stand for whole cells, of such a workload: checks the keys that they
/// have, and that no cell is missing.
fn drawn_rows<'a>(document: &'a Value, form: &str, lock: &str, cells: usize) -> Vec<&'a Value> {
    let of_lock = rows(document, "lock", lock).into_iter().filter(|row| row["form"] == form);
    let whole: Vec<_> = of_lock.filter(|row| is_whole(row)).collect();
    assert_eq!(whole.len(), cells, "{form} {lock}");
    for row in &whole {
        assert_eq!(row["case"], "busy");
        assert_numbers(
            row,
            &[
                "ops_per_s",
                "starved_threads",
                "jain",
                "section_ns",
                "wait_p50_ns",
                "wait_p99_ns",
                "wait_p999_ns",
                "wait_max_ns",
                "ratio_to_fastest_peer",
            ],
        );
    }
    whole
}

/// A lock of ours for each form.
const OURS: [(&str, &str); 3] =
    [("rwlock", "fairlock:rwlock"), ("mutex", "fairlock:mutex"), ("range", "fairlock:range")];

#[test]
fn think_has_the_documented_rows_in_every_form() {
    let args = ["bench", "think", "--secs", "0.02", "--runs", "1", "--threads", "2"];
    let cells = ["--section", "10", "--outside", "0,10", "--reads", "0,50"];
    let document = run_json_until_measured(&[&args[..], &cells].concat(), is_whole);
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
    let few = ["--among", "1,64", "--reads", "0,90"];
    let document = run_json_until_measured(&[&args[..], &few].concat(), is_whole);
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
    for lock in ["fairlock:mutex", "std", "parking_lot", "pthread"] {
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
    assert!(rows(&document, "lock", "fairlock:rwlock").is_empty());
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

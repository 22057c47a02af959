//! `fairlock compare`: what changed between two results, on noise that is made up. Nothing here
//! is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fairlock_testing::until;
use serde_json::{Value, json};
use tempfile::TempDir;

const LOCKS: [&str; 3] = ["fairlock:rwlock", "std", "parking_lot"];
const THREADS: [usize; 4] = [2, 8, 32, 96];
const PAUSES: [u32; 3] = [1, 20, 100];
const RUNS: usize = 8;

/// A sequence that is the same everywhere (SplitMix64).
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A result like those of a shared virtual machine with 2 CPUs: a run differs from the next by
/// 5 %, of which a part is that one in thirty loses up to a quarter to the host, and the whole
/// sitting is 2 % faster or slower than another. Our lock is so many times as fast as it was.
fn result(seed: u64, ours: f64) -> Value {
    result_of_cells(seed, ours, |_| 0.045)
}

/// As [`result`]; runs with so many threads differ by so much.
fn result_of_cells(seed: u64, ours: f64, noise: fn(usize) -> f64) -> Value {
    let mut random = Random(seed);
    let sitting = (0.02 * random.normal()).exp();
    let mut rows = Vec::new();
    for lock in LOCKS {
        for threads in THREADS {
            for pauses in PAUSES {
                let planted = if lock == LOCKS[0] { ours } else { 1.0 };
                let speed = 1e6 * planted * sitting / f64::from(pauses);
                let runs: Vec<f64> = (0..RUNS)
                    .map(|_| {
                        let noise = (noise(threads) * random.normal()).exp();
                        let stolen = random.uniform() < 1.0 / 30.0;
                        let left = if stolen { 1.0 - random.uniform() / 4.0 } else { 1.0 };
                        speed * noise * left
                    })
                    .collect();
                let waits: Vec<u64> =
                    (0..RUNS).map(|_| (4e6 * (0.5 * random.normal()).exp()) as u64).collect();
                rows.push(json!({
                    "workload": "reader-spin", "case": "mixed", "side": "all", "lock": lock,
                    "threads": threads, "cs_load": pauses, "runs": RUNS, "starved_threads": 0,
                    "ops_per_s": runs[0],
                    "by_run": { "ops_per_s": runs, "wait_p999_ns": waits },
                }));
            }
        }
    }
    document(rows)
}

fn document(rows: Vec<Value>) -> Value {
    json!({
        "schema": "fairlock/1", "version": "0.1.0", "made": "2026-11-22T10:00:00Z",
        "machine": { "cpus": 2, "cpu_model": "made up", "kernel": "6.18" },
        "command": "fairlock bench reader-spin --case mixed", "interrupted": false, "rows": rows,
    })
}

/// A folder for results.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, document: &Value) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, document.to_string()).unwrap();
        path
    }
}

fn compare(before: &Path, after: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock"));
    command.arg("compare").args([before, after]).args(flags);
    command.output().expect("fairlock starts")
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The line of a lock.
fn line(output: &Output, lock: &str) -> String {
    let text = text(output);
    let of_lock = |line: &&str| line.starts_with(lock);
    text.lines().find(of_lock).unwrap_or_else(|| panic!("{lock}: {text}")).to_owned()
}

const CHECK: [&str; 2] = ["--fail-on-regression", "2"];

#[test]
fn a_regression_of_five_percent_is_found_in_the_noise_of_a_shared_machine() {
    assert_regressions_are_found(result);
}

/// Two threads that pass a lock to and fro do twice as much in one run as in the next.
#[test]
fn cells_that_vary_hide_nothing_that_the_others_show() {
    assert_regressions_are_found(|seed, ours| {
        result_of_cells(seed, ours, |threads| if threads == 2 { 0.3 } else { 0.045 })
    });
}

/// Nine of ten regressions are, and none in twenty pairs of the same build.
fn assert_regressions_are_found(result: fn(u64, f64) -> Value) {
    let folder = Folder::new();
    let found = (0..10)
        .filter(|seed| {
            let before = folder.file("a.json", &result(1_000 + seed, 1.0));
            let after = folder.file("b.json", &result(2_000 + seed, 0.95));
            let output = compare(&before, &after, &CHECK);
            let slower = line(&output, LOCKS[0]).contains("slower");
            assert_eq!(output.status.code(), Some(i32::from(slower)), "{}", text(&output));
            slower
        })
        .count();
    assert!(found >= 9, "found in {found} of 10 pairs");
    for seed in 0..20 {
        let before = folder.file("a.json", &result(3_000 + seed, 1.0));
        let after = folder.file("b.json", &result(4_000 + seed, 1.0));
        let output = compare(&before, &after, &CHECK);
        assert_eq!(output.status.code(), Some(0), "pair {seed}: {}", text(&output));
        assert!(!line(&output, LOCKS[0]).contains("slower"), "pair {seed}: {}", text(&output));
    }
}

#[test]
fn one_cell_that_collapsed_is_found_among_others_that_did_not() {
    let folder = Folder::new();
    let before = folder.file("a.json", &result(1, 1.0));
    let mut worse = result(2, 1.0);
    let rows = worse["rows"].as_array_mut().unwrap();
    for value in rows[4]["by_run"]["ops_per_s"].as_array_mut().unwrap() {
        *value = (value.as_f64().unwrap() / 10.0).into();
    }
    let after = folder.file("b.json", &worse);
    let output = compare(&before, &after, &["--fail-on-regression", "20"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let complaint = "fairlock:rwlock in reader-spin mixed, 8 threads, 20 pauses";
    assert!(text(&output).contains(complaint), "{}", text(&output));
}

#[test]
fn what_the_machine_did_is_told_from_what_the_lock_did() {
    let folder = Folder::new();
    let before = folder.file("a.json", &result(5, 1.0));
    let mut slow = result(6, 1.0);
    for row in slow["rows"].as_array_mut().unwrap() {
        for value in row["by_run"]["ops_per_s"].as_array_mut().unwrap() {
            *value = (value.as_f64().unwrap() * 0.7).into();
        }
    }
    let after = folder.file("b.json", &slow);
    let output = compare(&before, &after, &CHECK);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let peers = line(&output, "peers:");
    let percent: f64 = peers.split(' ').nth(1).unwrap().parse().unwrap();
    assert!((-36.0..-24.0).contains(&percent), "{peers}");
}

#[test]
fn with_too_few_runs_it_says_so() {
    let folder = Folder::new();
    let few = |seed, runs: usize| {
        let mut result = result(seed, 1.0);
        let rows = result["rows"].as_array_mut().unwrap();
        rows.truncate(1);
        rows[0]["by_run"]["ops_per_s"].as_array_mut().unwrap().truncate(runs);
        result
    };
    let before = folder.file("a.json", &few(7, 2));
    let after = folder.file("b.json", &few(8, 2));
    let output = compare(&before, &after, &[]);
    let verdict = line(&output, LOCKS[0]);
    assert!(verdict.contains("cannot tell: try --runs "), "{verdict}");
    assert!(text(&output).contains("no peers in both"), "{}", text(&output));
    // Simulated ones have seeds.
    let simulated = |seed| {
        let mut result = few(seed, 2);
        result["rows"][0]["machine"] = "skylake_80".into();
        folder.file(&format!("{seed}.json"), &result)
    };
    let verdict = line(&compare(&simulated(7), &simulated(8), &[]), LOCKS[0]);
    assert!(verdict.contains("cannot tell: try --seeds "), "{verdict}");
    // One run each, as `--quick` makes them.
    let once = folder.file("c.json", &few(9, 1));
    let verdict = line(&compare(&once, &once, &[]), LOCKS[0]);
    assert!(verdict.contains("any") && verdict.contains("cannot tell"), "{verdict}");
}

#[test]
fn it_advises_no_more_runs_than_there_can_be() {
    let folder = Folder::new();
    let before = folder.file("a.json", &result(7, 1.0));
    let after = folder.file("b.json", &result(8, 1.0));
    // What is looked for is far below what the runs differ by.
    let output = compare(&before, &after, &["--fail-on-regression", "0.001"]);
    let verdict = line(&output, LOCKS[0]);
    assert!(verdict.contains("too small to see with 1000 runs"), "{verdict}");
}

#[test]
fn threads_are_said_to_starve_where_both_windows_tell() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, starved: u64, is_short: bool| {
        let mut result = result(1, 1.0);
        result["rows"].as_array_mut().unwrap().truncate(1);
        result["rows"][0]["starved_threads"] = starved.into();
        result["rows"][0]["window_is_short"] = is_short.into();
        let path = folder.path().join(name);
        fs::write(&path, result.to_string()).unwrap();
        path
    };
    let (none, two) = (file("none", 0, true), file("two", 2, false));
    let starved = |after: &Path| line(&compare(&none, after, &[]), LOCKS[0]);
    assert!(starved(&two).ends_with("  0 to 2"), "{}", starved(&two));
    let short = file("short", 2, true);
    assert!(starved(&short).ends_with("  0 to -"), "{}", starved(&short));
}

#[test]
fn the_same_file_twice_has_no_change() {
    let folder = Folder::new();
    let file = folder.file("a.json", &result(11, 1.0));
    let output = compare(&file, &file, &["--fail-on-regression", "0"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(line(&output, LOCKS[0]).contains("+0.0 %"), "{}", text(&output));
}

/// Of a program with two locks of one name, and one that is held at two places.
fn profile(lost_at_place_ms: [u64; 2]) -> Value {
    let place = |function: &str| json!({ "function": function, "object": "/usr/bin/a" });
    let ns = |ms: u64| ms * 1_000_000;
    let lock = |name: &str, at: &[(&str, u64)]| {
        let holder = |(function, ms): &(&str, u64)| {
            let stack = [place("std::mutex::unlock()"), place(function), place("main")];
            json!({ "reads": false, "count": 1, "wait_total_ns": ns(*ms), "stack": stack })
        };
        let lost = at.iter().map(|(_, ms)| ns(*ms)).sum::<u64>();
        json!({
            "address": "0x1", "kind": "mutex", "name": name, "first_taken": [], "reads": 0,
            "writes": 9, "waits": 3, "given_up": 0, "wait_total_ns": lost, "wait_p50_ns": 1,
            "wait_p99_ns": 1, "wait_p999_ns": lost / 2, "wait_longest_ns": lost, "passed": 0,
            "passed_most": 0, "holds_measured": 0, "hold_longest_ns": 0, "waiters": [],
            "holders": at.iter().map(holder).collect::<Vec<_>>(),
        })
    };
    let [fill, evict] = lost_at_place_ms;
    let shared = lock("cache", &[("Cache::fill(int)", fill), ("Cache::evict()", evict)]);
    let pool = || lock("pool", &[("take", 10)]);
    json!({
        "schema": "fairlock-profile/2", "version": "0.1.0", "command": "fairlock run -- a",
        "processes": [{
            "pid": 7, "program": "/usr/bin/a", "observed": true, "policy": "default",
            "threshold_ns": 1, "ran_ns": ns(500), "lost": 0, "waits": [],
            "locks": [pool(), shared, pool()],
        }],
    })
}

#[test]
fn what_changed_between_two_profiles_is_said_by_lock_and_place() {
    let folder = Folder::new();
    let before = folder.file("a.json", &profile([4, 6]));
    let after = folder.file("b.json", &profile([3, 207]));
    let output = compare(&before, &after, &[]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // The largest change first, and locks of one name together.
    let rows = |begins: &str| {
        let table = said.split("\n\n").find(|part| part.starts_with(begins)).expect(&said);
        let cells = |line: &str| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .map(str::to_owned)
                .collect()
        };
        table.lines().skip(1).map(cells).collect::<Vec<Vec<String>>>()
    };
    assert_eq!(
        rows("lock "),
        [
            ["cache", "3", "3", "10.0 ms", "210 ms", "5.00 ms", "105 ms", "10.0 ms", "210 ms"],
            ["pool", "6", "6", "20.0 ms", "20.0 ms", "5.00 ms", "5.00 ms", "10.0 ms", "10.0 ms"],
        ]
    );
    assert_eq!(
        rows("lost: before "),
        [
            ["6.00 ms", "207 ms", "cache", "Cache::evict"],
            ["4.00 ms", "3.00 ms", "cache", "Cache::fill"],
            ["20.0 ms", "20.0 ms", "pool", "take"],
        ]
    );
    assert!(said.contains("the program's own locks, ran for 500 ms"), "{said}");
    assert!(said.contains("lost in all: 30.0 ms before, 230 ms after"), "{said}");

    let results = folder.file("c.json", &result(1, 1.0));
    for (after, flags, why) in [
        (&results, &[][..], "compare two of the same command"),
        (&after, &["--fail-on-regression", "5"], "does not tell what is chance"),
    ] {
        let output = compare(&before, after, flags);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    }
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_mend() {
    let folder = Folder::new();
    let fine = folder.file("a.json", &result(12, 1.0));
    let broken = folder.0.path().join("broken.json");
    fs::write(&broken, "{").unwrap();
    let mut newer = result(13, 1.0);
    newer["schema"] = "fairlock/2".into();
    let newer = folder.file("newer.json", &newer);
    let mut other = result(14, 1.0);
    for row in other["rows"].as_array_mut().unwrap() {
        row["threads"] = 3.into();
    }
    let other = folder.file("other.json", &other);
    for (after, code, mend) in [
        (&folder.0.path().join("none.json"), 2, "cannot read"),
        (&broken, 2, "--json FILE"),
        (&newer, 2, "make it again"),
        (&other, 1, "same command"),
    ] {
        let output = compare(&fine, after, &[]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(mend) && error.lines().count() == 1, "{error}");
    }
    let output = compare(&fine, &fine, &["--fail-on-regression", "much"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}

#[test]
fn a_run_has_the_values_that_a_comparison_needs() {
    let folder = Folder::new();
    let (json, again) = (folder.0.path().join("a.json"), folder.0.path().join("b.json"));
    let bench = |file: &Path, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock"));
        command.args(["bench", "handoff", "--case", "busy", "--locks", "fairlock:rwlock,std"]);
        command.args(["--threads", "2", "--secs", "0.1", "--runs", "2", "--json"]);
        command.arg(file).args(more).output().unwrap()
    };
    let mut document = Value::Null;
    // In so short a run the threads of a lock may have had no CPU.
    until(|| {
        assert_eq!(bench(&json, &[]).status.code(), Some(0));
        document = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let has = |row: &Value, key: &str| {
            let values = row["by_run"][key].as_array();
            values.is_some_and(|v| v.len() == 2 && v.iter().all(|value| value.as_f64() > Some(0.0)))
        };
        let keys = ["ops_per_s", "wait_p999_ns", "wait_max_ns"];
        let mut rows = document["rows"].as_array().unwrap().iter();
        rows.all(|row| keys.iter().all(|key| has(row, key)))
    });
    assert!(document["version"].is_string() && document["made"].is_string(), "{document}");
    until(|| {
        let output = bench(&again, &["--baseline", json.to_str().unwrap()]);
        text(&output).contains("what changed, by lock")
    });
    #[cfg(target_os = "linux")]
    {
        // What cannot be kept is compared all the same.
        until(|| {
            let output = bench(Path::new("/dev/full"), &["--baseline", json.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(1), "{}", text(&output));
            text(&output).contains("what changed, by lock")
        });
    }
    let output = bench(&again, &["--fail-on-regression", "5"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("--baseline"), "{}", text(&output));
}

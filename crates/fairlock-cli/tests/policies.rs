//! Locks that are given by their parameters, and the published schema.

use std::fs;
use std::process::{Command, Output};

use fairlock_testing as _; // the watchdog
use serde_json::Value;

fn fairlock(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairlock")).args(args).output().expect("fairlock starts")
}

fn document(args: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    let output = fairlock(&[args, &["--json", file.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// The rows' locks, each once.
fn locks(document: &Value) -> Vec<String> {
    let rows = document["rows"].as_array().unwrap();
    let mut locks: Vec<String> =
        rows.iter().map(|row| row["lock"].as_str().unwrap().to_owned()).collect();
    locks.dedup();
    locks
}

const SHORT: [&str; 6] = ["sim", "handoff", "--case", "sleep", "--duration", "2ms"];

#[test]
fn a_policy_is_simulated_by_its_parameters() {
    let presets = ["--policy", "tenure,unfair"];
    let parameters = [
        "--policy",
        "tenure:handoff_after=4ms,budget=10,published:handoff_after=never,reader_spin=on",
    ];
    let of_presets = document(&[&SHORT[..], &presets].concat());
    let of_parameters = document(&[&SHORT[..], &parameters].concat());
    assert_eq!(
        locks(&of_parameters),
        ["tenure:handoff_after=4ms,budget=10", "published:handoff_after=never,reader_spin=on"]
    );
    // The same policy does the same, to the nanosecond.
    for (preset, parameters) in
        of_presets["rows"].as_array().unwrap().iter().zip(of_parameters["rows"].as_array().unwrap())
    {
        for key in ["ops_per_s", "min_ops", "max_ops", "wait_p999_ns", "wait_max_ns"] {
            assert_eq!(preset[key], parameters[key], "{key}");
        }
    }
}

#[test]
fn another_policy_does_something_else() {
    let with = |time: &str| format!("tenure:budget=20,handoff_after={time}");
    let policies = ["2ms", "4ms", "8ms"].map(with);
    let long = ["sim", "handoff", "--case", "sleep", "--duration", "50ms"];
    // With many threads, or a short aim, a tenure is as short as the budget allows.
    let document =
        document(&[&long[..], &["--threads", "4", "--policy", &policies.join(",")]].concat());
    assert_eq!(locks(&document), policies);
    let waits: Vec<u64> = document["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["wait_max_ns"].as_u64().unwrap())
        .collect();
    assert!(waits.is_sorted_by(|one, next| one < next), "{waits:?}");
}

#[test]
fn it_runs_on_real_threads_too() {
    let args =
        ["bench", "handoff", "--case", "busy", "--threads", "2", "--quick", "--secs", "0.02"];
    let document =
        document(&[&args[..], &["--locks", "std,tenure:handoff_after=1ms,budget=5"]].concat());
    assert_eq!(locks(&document), ["std", "tenure:handoff_after=1ms,budget=5"]);
}

#[test]
fn a_wrong_parameter_is_refused_with_the_mend() {
    for (args, mend) in [
        (&["--policy", "tenure:handof_after=1ms"][..], "'handoff_after'"),
        (&["--policy", "tenure:handoff_after=soon"], "such as 1ms"),
        (&["--policy", "published:budget=5"], "there are handoff_after"),
    ] {
        let output = fairlock(&[&SHORT[..], args].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(mend) && error.lines().count() == 1, "{args:?}: {error}");
    }
}

/// Keys of an object that the schema does not have.
fn unknown<'a>(object: &'a Value, schema: &Value) -> Vec<&'a String> {
    let known = &schema["properties"];
    object.as_object().unwrap().keys().filter(|key| known.get(key.as_str()).is_none()).collect()
}

#[test]
fn the_schema_has_every_key_of_every_result() {
    let output = fairlock(&["schema"]);
    assert!(output.status.success());
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    let bench = ["bench", "handoff", "reader-spin", "batch", "uncontended", "think", "idle"];
    let few = ["--locks", "std", "--threads", "2", "--overcommit", "1", "--cs-load", "1"];
    let fewer = ["--section", "100", "--outside", "1", "--reads", "50", "--form", "rwlock"];
    let quick = ["--quick", "--secs", "0.02"];
    let bench = document(&[&bench[..], &few, &fewer, &quick].concat());
    let sim = document(&["sim", "handoff", "batch", "--quick", "--duration", "1ms"]);
    for document in [&bench, &sim] {
        assert_eq!(document["schema"], schema["properties"]["schema"]["const"]);
        assert_eq!(unknown(document, &schema), [] as [&String; 0]);
        for key in schema["required"].as_array().unwrap() {
            assert!(document.get(key.as_str().unwrap()).is_some(), "{key}");
        }
        let machine = &schema["properties"]["machine"];
        assert_eq!(unknown(&document["machine"], machine), [] as [&String; 0]);
        let of_rows = &schema["properties"]["rows"]["items"];
        for row in document["rows"].as_array().unwrap() {
            assert_eq!(unknown(row, of_rows), [] as [&String; 0], "{row}");
            for key in of_rows["required"].as_array().unwrap() {
                assert!(row.get(key.as_str().unwrap()).is_some(), "{key}: {row}");
            }
        }
    }
}

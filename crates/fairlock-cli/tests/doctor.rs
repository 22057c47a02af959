//! `fairlock doctor`, and what benchmarks say of interference. Nothing here depends on how busy the
//! machine is.
#![cfg(target_os = "linux")] // /proc

use std::fs;
use std::process::{Command, Output};

use fairlock_testing as _; // the watchdog
use serde_json::Value;

fn fairlock(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairlock")).args(args).output().expect("fairlock starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_doctor_says_what_there_is_and_what_it_means() {
    let dir = tempfile::tempdir().unwrap();
    let output = fairlock(&["doctor", "--dir", dir.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    for what in ["CPUs", "clock", "sleeps", "futexes", "rseq", "interference", "direct I/O"] {
        let line = said.lines().find(|line| line.starts_with(what));
        assert!(line.is_some_and(|line| line.len() > what.len() + 10), "{what}: {said}");
    }
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none(), "it leaves nothing behind");
    // Where direct I/O cannot work it says so, and goes on.
    let output = fairlock(&["doctor", "--dir", "no/such/folder"]);
    assert!(output.status.success() && text(&output.stdout).contains("does not work"));
}

#[test]
fn a_calibrated_machine_can_be_simulated_and_says_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let output = fairlock(&["calibrate", "--for", "1ms"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    fs::write(&file, &output.stdout).unwrap();
    let file_text = text(&output.stdout);
    for key in ["pause_ns", "wait_ns", "wake_ns", "switch_ns", "timer_slack_ns"] {
        let line = file_text.lines().find(|line| line.starts_with(key));
        assert!(line.is_some_and(|line| !line.contains("not measured")), "{key}: {file_text}");
    }
    assert!(file_text.contains("# A sleep of 1 us ends so late: "), "{file_text}");
    let sim = ["sim", "think", "--quick", "--form", "mutex", "--section", "10", "--outside", "1"];
    let machine = ["--threads", "2", "--locks", "ref:futex", "--machine", file.to_str().unwrap()];
    let output = fairlock(&[&sim[..], &machine].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("mine"), "{}", text(&output.stdout));
}

#[test]
fn a_cell_says_what_took_cpus_from_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    let args = ["bench", "handoff", "--case", "busy", "--locks", "std", "--quick", "--json"];
    let output = fairlock(&[&args[..], &[file.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let row = &document["rows"][0];
    let percent = |key: &str| row["interference"][key].as_f64().unwrap();
    let (stolen, others) = (percent("stolen_percent"), percent("others_percent"));
    assert!((0.0..=100.0).contains(&stolen) && (0.0..=100.0).contains(&others), "{row}");
    // The mark, and what it says, are there together or not at all.
    let table = text(&output.stdout);
    assert_eq!(table.contains("std*"), table.contains("* disturbed"), "{table}");
    assert_eq!(table.contains("std*"), stolen > 2.0 || others > 10.0, "{table}");
}

//! The command as its user meets it: exit codes, one-line errors, the JSON
//! schema, and that nothing is left behind. Nothing here depends on speed.
#![cfg(target_os = "linux")] // signals, terminals, /proc

mod broken;
mod ended;
mod measured;
mod shown;
mod torture;
mod usage;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use fairlock_testing::until;
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

/// As [`run_json`], once a wait was measured in each of these rows: in so short a time there may have been no CPU.
fn run_json_until_measured(args: &[&str], rows: impl Fn(&Value) -> bool) -> Value {
    let mut document = Value::Null;
    until(|| {
        document = run_json(args, 0);
        let all = document["rows"].as_array().expect("rows");
        all.iter().filter(|row| rows(row)).all(|row| row["wait_max_ns"].is_number())
    });
    document
}

fn entries(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn rows<'a>(document: &'a Value, key: &str, value: &str) -> Vec<&'a Value> {
    let rows = document["rows"].as_array().expect("rows");
    rows.iter().filter(|row| row[key] == value).collect()
}

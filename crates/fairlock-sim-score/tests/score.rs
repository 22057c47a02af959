//! `sim-score` as those who change the simulator meet it. Everything is in virtual time.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use fairlock_testing as _; // the watchdog

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim-score")).args(args).output().expect("sim-score starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// Runs with `--json` and returns what was printed.
fn run_json(args: &[&str], file: &Path) -> String {
    let output = run(&[args, &["--json", file.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

/// The grid of the tests of `merge`: several workloads, and more cells than parts.
const GRID: [&str; 9] =
    ["sim", "handoff", "direct-io", "--duration", "2ms", "--seeds", "2", "--seed", "3"];

/// The files of `--shard 1/3` to `3/3`.
fn parts(dir: &Path) -> Vec<String> {
    (1..=3)
        .map(|part| {
            let file = dir.join(format!("part{part}.json"));
            let shard = format!("{part}/3");
            run_json(&[&GRID[..], &["--shard", &shard]].concat(), &file);
            file.to_str().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn each_table_is_judged_beside_models_that_know_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    for (args, scores) in [
        // A table and two loads, each in relation to the plain lock and as throughput.
        (&["reader-spin", "--threads", "2,4", "--cs-load", "1,20"][..], 6),
        (&["batch", "--overcommit", "1,2", "--locks", "batch1,batch4,batch8"], 3),
        (&["handoff", "--case", "sleep"], 1),
        // Latencies, too.
        (&["direct-io"], 3),
        (&["range", "--machine", "opteron_4", "--case", "full_mixed", "--threads", "2"], 2),
        (&["reader-spin", "--machine", "two_cpu", "--threads", "2"], 0),
    ] {
        let args = [&["sim"], args, &["--duration", "2ms", "--seeds", "2"]].concat();
        let printed = run_json(&args, &file);
        let verdict = |line: &&str| {
            let line = line.trim_end_matches(", in-sample");
            line.ends_with(": beats it") || line.ends_with(" not beat it")
        };
        assert_eq!(printed.lines().filter(verdict).count(), scores, "{args:?}: {printed}");
        // The same of the file, and as a table.
        let judged = text(&run(&["judge", file.to_str().unwrap()]).stdout).to_owned();
        assert!(printed.ends_with(&judged), "{args:?}: {printed}, not {judged}");
        let table = run(&["judge", "--markdown", file.to_str().unwrap()]);
        let lines = text(&table.stdout).lines().filter(|line| line.starts_with("| `"));
        assert_eq!(lines.count(), scores, "{args:?}");
    }
}

#[test]
fn merged_parts_are_the_whole_to_the_byte() {
    let dir = tempfile::tempdir().unwrap();
    let parts = parts(dir.path());
    let (whole, merged) = (dir.path().join("whole.json"), dir.path().join("merged.json"));
    run_json(&GRID, &whole);
    // In any order.
    run_json(&["merge", &parts[2], &parts[0], &parts[1]], &merged);
    assert_eq!(fs::read(whole).unwrap(), fs::read(merged).unwrap());
}

#[test]
fn parts_that_are_no_whole_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let parts = parts(dir.path());
    let other = dir.path().join("other.json");
    run_json(&["sim", "handoff", "--duration", "2ms"], &other);
    let bench = dir.path().join("bench.json");
    fs::write(&bench, r#"{"schema": "fairlock/1", "rows": []}"#).unwrap();
    let (other, bench) = (other.to_str().unwrap(), bench.to_str().unwrap());
    for (args, code, hint) in [
        (&["merge", &parts[0], &parts[2]][..], 1, "--shard 2/3"),
        (&["merge", &parts[0], &parts[0]], 1, "leave one of them out"),
        (&["merge", &parts[0], other], 1, "another command"),
        (&["merge", bench], 2, "fairlock sim"),
        (&["merge", "no/such.json"], 2, "cannot read"),
        (&["merge", &parts[0], "--json", &parts[0]], 2, "would be lost"),
    ] {
        let output = run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
        assert!(error.contains(hint), "{args:?}: {error}");
    }
}

#[test]
fn a_judgement_needs_both_that_it_compares() {
    // No section of 10 ms ends in this time.
    let nothing = run(&["sim", "range", "--quick", "--duration", "1ms", "--case", "full_write"]);
    assert_eq!(nothing.status.code(), Some(0), "{}", text(&nothing.stderr));
    let nothing = text(&nothing.stdout);
    assert!(nothing.contains("ref:rwsem_2017, published 0.99"), "{nothing}");
    assert!(!nothing.contains("NaN") && !nothing.contains("inf "), "{nothing}");
    assert!(!nothing.contains("sign agrees"), "{nothing}");

    let mixed = &["sim", "handoff", "--case", "mixed", "--threads", "4", "--duration", "1ms"];
    let alone = run(&[mixed, &["--locks", "handoff"][..]].concat());
    assert!(!text(&alone.stdout).contains("immediate handoff:"), "{}", text(&alone.stdout));
    let both = run(&[mixed, &["--locks", "handoff,handoff_immediate"][..]].concat());
    assert!(text(&both.stdout).contains("immediate handoff:"), "{}", text(&both.stdout));
}

/// What the proposals say beside their tables is printed beside ours, whatever comes out.
#[test]
fn published_claims_are_beside_ours() {
    let said = |args: &[&str]| {
        let output = run(&[&["sim"], args, &["--quick", "--duration", "1ms"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    let handoff = said(&["handoff", "--case", "sleep"]);
    for (lock, figures) in [
        ("fairlock:unfair", "fewest 1, most 646,000"),
        ("published:handoff_after=10ms", "fewest 14,450, most 22,648"),
    ] {
        let begins = format!("{lock}, operations of a thread: fewest ");
        let line = handoff.lines().find(|line| line.starts_with(&begins)).expect(&begins);
        assert!(line.ends_with(&format!(" in 1.00 ms; published, in 5 s: {figures}")), "{line}");
    }
    let batch = said(&["batch", "--locks", "batch1,batch4,batch8"]);
    for lock in ["fairlock:batch4", "fairlock:batch8"] {
        let begins = format!("threads <= CPUs, {lock} in relation to fairlock:batch1: ");
        let line = batch.lines().find(|line| line.starts_with(&begins)).expect(&begins);
        assert!(line.ends_with("published, on bare metal: no significant difference"), "{line}");
    }
    let range = said(&["range", "--case", "full_write", "--machine", "opteron_4"]);
    assert!(
        range.contains("\nbytes: RangeRwLock ") && range.contains(" (published 40)\n"),
        "{range}"
    );
}

#[test]
fn unknowns_are_judged_together() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["sim", "reader-spin", "--threads", "2,4", "--cs-load", "20", "--duration", "2ms"];
    let few = ["--locks", "unfair,no_reader_spin", "--seeds", "2", "--unknowns"];
    let printed = run_json(&[&args[..], &few].concat(), &dir.path().join("out.json"));
    assert!(printed.contains("cascade_lake_96 with hold at 20 %: rank correlation"), "{printed}");
    assert!(printed.contains("over the unknowns: within 1.5x"), "{printed}");
}

#[test]
fn what_was_measured_takes_the_place_of_what_was_published() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real.json");
    let row = |lock: &str, rate: f64| {
        format!(
            r#"{{ "workload": "handoff", "case": "busy", "lock": "{lock}", "threads": 3,
                  "side": "write", "runs": 1, "ops_per_s": {rate} }}"#
        )
    };
    let rows = [row("fairlock:rwlock", 9e5), row("fairlock:unfair", 8e5)].join(", ");
    fs::write(&real, format!(r#"{{ "schema": "fairlock/1", "rows": [{rows}] }}"#)).unwrap();
    let sim = ["sim", "handoff", "--duration", "2ms", "--real", real.to_str().unwrap()];
    let printed = run_json(&sim, &dir.path().join("out.json"));
    assert!(printed.contains("order agrees") || printed.contains("order disagrees"), "{printed}");
    assert!(printed.contains("within 1.5x of the measured"), "{printed}");
}

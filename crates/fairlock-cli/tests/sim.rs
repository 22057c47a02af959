//! `fairlock sim` as its user meets it. Everything is in virtual time: nothing here
//! depends on the machine it runs on.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use fairlock_testing as _; // the watchdog
use serde_json::Value;

/// A scenario.
const CACHE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scenarios/cache.toml");

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairlock")).args(args).output().expect("fairlock starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// Runs with `--json` and returns what was printed and the document.
fn run_json(args: &[&str], file: &Path) -> (String, Value) {
    let output = run(&[args, &["--json", file.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    (text(&output.stdout).to_owned(), document)
}

#[test]
fn a_scenario_has_a_quick_form() {
    let args = ["sim", CACHE, "--quick", "--duration", "1ms", "--locks", "fairlock:rwlock"];
    let output = run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn bad_usage_is_one_line_and_exit_2() {
    for (args, hint) in [
        (&["sim"][..], "handoff"),
        (&["sim", "hand-off"], "'handoff'"),
        (&["sim", "uncontended"], "reader-spin"),
        (&["sim", "no/such.toml"], "scenario no/such.toml: No such file"),
        (&["sim", "a.toml", "b.toml"], "one by one"),
        (&["sim", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], "unknown field `bin`"),
        (&["sim", CACHE, "--threads", "8"], "its file says how many"),
        (&["sim", "handoff", "--machine", "skylake80"], "'skylake_80'"),
        (&["sim", "handoff", "--machine", "no/such.toml"], "name a readable machine file"),
        (&["sim", "handoff", "--policy", "hand_off"], "'fairlock:handoff'"),
        (&["sim", "handoff", "--locks", "parking_lot"], "cannot be simulated"),
        (&["sim", "handoff", "--locks", "mcs"], "'ref:mcs'"),
        (&["sim", "handoff", "--threads", "0"], "use 1 to 4000"),
        (&["sim", "handoff", "--threads", "100000"], "4000"),
        (&["sim", "reader-spin", "--threads", "1"], "2 or more"),
        (&["sim", "handoff", "--case", "mixed", "--threads", "1"], "2 or more"),
        (&["sim", "handoff", "--machine", "no/such.toml"], "`fairlock machines`"),
        (&["machines", "show", "skylake80"], "'skylake_80'"),
        (&["machines", "show"], "NAME"),
        (&["sim", "handoff", "--duration", "0ms"], "use more than zero"),
        (&["sim", "handoff", "--duration", "2h"], "--duration 2h makes no sense"),
        (&["sim", "handoff", "--duration", "300"], "--duration"),
        (&["sim", "handoff", "--duration=-3s"], "--duration"),
        (&["sim", "handoff", "--seeds", "0"], "--seeds"),
        (&["sim", "handoff", "--beside", "1001"], "1000 at most"),
        (&["sim", "handoff", "--threads", "3500", "--beside", "900"], "for 4000 at most"),
        (&["sim", "handoff", "--stolen", "96"], "use 0 to 95"),
        (&["sim", "handoff", "--stolen", "nan"], "use 0 to 95"),
        (&["sim", "batch", "--stolen", "30"], "another --machine"),
        (&["sim", "handoff", "--unknowns", "--real", "x"], "cannot be used with"),
    ] {
        let output = run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
        assert!(error.contains(hint), "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_bad_machine_file_is_told_with_file_key_and_mend() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    let good = include_str!("../../fairlock-sim/machines/two_cpu.toml");
    for (from, to, hint) in [
        ("sockets = 1", "sockets = 0", "topology.sockets: is 0; give 1 or more"),
        ("load_ns = 1.5", "load_ns = -1.5", "instructions.load_ns: is -1.5"),
        ("load_ns = 1.5", "lode_ns = 1.5", "lode_ns"),
        ("load_ns = 1.5", "", "`fairlock machines show two_cpu`"),
        ("hop_ns = []", "hop_ns = [130.0]", "lines.hop_ns: has 1 numbers"),
    ] {
        fs::write(&file, good.replace(from, to)).unwrap();
        let output = run(&["sim", "handoff", "--machine", file.to_str().unwrap()]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{to}: {error}");
        assert_eq!(error.lines().count(), 1, "{to}: {error}");
        assert!(error.contains("mine.toml") && error.contains(hint), "{to}: {error}");
    }
}

#[test]
fn machines_are_listed_and_printed_as_files_that_can_be_simulated() {
    let listed = run(&["machines"]);
    let listed = text(&listed.stdout);
    assert!(listed.contains("two_cpu"), "{listed}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    for name in listed.lines().take_while(|line| !line.is_empty()) {
        let (name, title) = name.split_once("  ").unwrap();
        let shown = run(&["machines", "show", name]);
        assert!(text(&shown.stdout).contains(title.trim()), "{name}: {title}");
        fs::write(&file, &shown.stdout).unwrap();
        let sim = ["sim", "handoff", "--threads", "2", "--duration", "100us", "--machine"];
        let output = run(&[&sim[..], &[file.to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
    }
}

#[test]
fn the_same_seed_gives_the_same_output_to_the_byte() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["sim", "all", "--quick", "--duration", "1ms", "--threads", "6", "--seeds", "2"];
    let file = dir.path().join("out.json");
    let first = run_json(&args, &file);
    let second = run_json(&args, &file);
    assert_eq!(first, second);
    let other = run_json(&[&args[..], &["--seed", "7"]].concat(), &file);
    assert_ne!(first.0, other.0);
}

#[test]
fn a_row_has_the_published_figure_and_the_ratio() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["sim", "reader-spin", "--threads", "2", "--cs-load", "20", "--duration", "5ms"];
    let (printed, document) = run_json(&args, &dir.path().join("out.json"));
    assert!(printed.contains("publ.: as published"), "{printed}");
    let rows = document["rows"].as_array().unwrap();
    let row = rows.iter().find(|r| r["published_as"] == "no_rspin").unwrap();
    assert_eq!(
        (&row["published"], &row["machine"]),
        (&1_665_000.0.into(), &"cascade_lake_96".into())
    );
    let (ours, ratio) = (row["ops_per_s"].as_f64().unwrap(), row["ratio_to_published"].as_f64());
    assert_eq!(ratio, Some(ours / 1_665_000.0));
    assert_eq!(row["by_seed"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_no_comparison_does_not_look_like_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    // Published in another unit: ratios only.
    let handoff = ["sim", "handoff", "--case", "sleep", "--duration", "2ms"];
    let (printed, document) = run_json(&handoff, &file);
    let head: Vec<_> = printed.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(head[..8], ["lock", "as", "threads", "kop/s", "min-max", "x", "base", "publ."]);
    assert!(!printed.contains("15,519") && !printed.contains("12,590"), "{printed}");
    let row = &document["rows"][1];
    assert_eq!(row["lock"], "published:handoff_after=10ms", "not the preset with 4 ms");
    assert_eq!(
        (&row["published_as"], &row["published"]),
        (&"handoff_10ms".into(), &(12_590.0 / 15_519.0).into())
    );
    let ratio = row["ratio_to_baseline"].as_f64().unwrap() / row["published"].as_f64().unwrap();
    assert_eq!(row["ratio_to_published"].as_f64(), Some(ratio));

    // The range in the unit of what it is the range of.
    let alone = ["sim", "direct-io", "--case", "writer_alone", "--locks", "rwlock"];
    let (printed, _) = run_json(&[&alone[..], &["--duration", "5ms"]].concat(), &file);
    let line: Vec<_> = printed.lines().nth(3).unwrap().split_whitespace().collect();
    let rate = line.iter().position(|&word| word == "MB/s").unwrap();
    assert_eq!(line[rate + 1], format!("{0}-{0}", line[rate - 1]), "{printed}");

    // Published for other threads, another machine, or another load.
    let batch = ["batch", "--case", "chunks", "--locks", "batch1,batch8"];
    for other in [
        &["handoff", "--threads", "8"][..],
        &["handoff", "--machine", "cascade_lake_96"],
        &["reader-spin", "--machine", "skylake_80", "--threads", "2", "--cs-load", "20"],
        &["reader-spin", "--threads", "3", "--cs-load", "20"],
        &["direct-io", "--machine", "opteron_4"],
        &[&batch[..], &["--threads", "33"]].concat(),
        &["range", "--machine", "two_cpu"],
    ] {
        let (printed, document) =
            run_json(&[&["sim"], other, &["--duration", "1ms"]].concat(), &file);
        // But for the name of a lock.
        let said = printed.replace("published:handoff_after", "");
        assert!(!said.contains("publ"), "{other:?}: {printed}");
        assert!(!printed.contains(": -\n") && !printed.contains("- of as"), "{other:?}: {printed}");
        for row in document["rows"].as_array().unwrap() {
            assert!(row.get("published").is_none() && row.get("ratio_to_published").is_none());
        }
    }
}

#[test]
fn think_is_simulated_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["sim", "think", "--machine", "opteron_4", "--duration", "1ms", "--threads", "8"];
    let cells = ["--section", "10", "--outside", "10", "--reads", "0,90"];
    let (printed, document) = run_json(&[&args[..], &cells].concat(), &dir.path().join("out.json"));
    let rows = document["rows"].as_array().unwrap();
    for form in ["rwlock", "mutex", "range"] {
        let mut of_form = rows.iter().filter(|row| row["form"] == form);
        assert!(of_form.clone().all(|row| row["machine"] == "opteron_4"), "{form}");
        assert!(of_form.any(|row| row["ratio_to_baseline"].is_number()), "{form}");
    }
    assert!(printed.starts_with("think: ") && printed.contains("fairlock:mutex"), "{printed}");
}

/// Nobody waits for ever: a run ends once the last thread is notified that all is over.
#[test]
fn condition_variables_are_simulated_on_small_and_large_machines() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["sim", "condvar", "--duration", "2ms"];
    let (printed, document) = run_json(&args, &dir.path().join("out.json"));
    let rows = document["rows"].as_array().unwrap();
    // A thousand threads may need longer than that.
    let mut few = rows.iter().filter(|row| row["threads"].as_u64() < Some(1000));
    assert!(few.all(|row| row["ops_per_s"].as_f64().unwrap() > 0.0), "{printed}");
    for machine in ["two_cpu", "nvme_8", "cascade_lake_96"] {
        assert!(printed.contains(machine), "{printed}");
        for case in ["ping_pong", "one_to_many", "queue", "timed_queue", "notify_all", "untimed"] {
            let mut cell = rows.iter().filter(|row| row["machine"] == machine);
            let ours = |row: &&Value| row["case"] == case && row["lock"] == "fairlock:mutex";
            assert!(cell.any(|row| ours(&row)), "{machine} {case}");
        }
    }
    let again = run_json(&args, &dir.path().join("again.json")).1;
    assert_eq!(rows, again["rows"].as_array().unwrap());
}

#[test]
fn many_locks_let_many_threads_work() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["sim", "spread", "--machine", "opteron_4", "--duration", "1ms", "--threads", "4"];
    let cells = ["--form", "mutex", "--locks", "batch1", "--among", "1,1000"];
    let (_, document) = run_json(&[&args[..], &cells].concat(), &dir.path().join("out.json"));
    let rate = |among: usize| {
        let mut rows = document["rows"].as_array().unwrap().iter();
        rows.find(|row| row["among"] == among).unwrap()["ops_per_s"].as_f64().unwrap()
    };
    assert!(rate(1_000) > 2.0 * rate(1), "{} and {}", rate(1_000), rate(1));
}

#[test]
fn a_wait_is_a_section_and_what_the_free_lock_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["sim", "idle", "--machine", "opteron_4", "--duration", "50ms"];
    let cells = ["--form", "mutex", "--locks", "mcs_park", "--section", "300000"];
    let (_, document) = run_json(&[&args[..], &cells].concat(), &dir.path().join("out.json"));
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let ns = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"));
        // A parked waiter is kicked at once: a wake-up, deep at the most.
        assert!((1_000..60_000).contains(&ns("free_p50_ns")), "{row}");
        let section = ns("wait_p50_ns") - ns("free_p50_ns");
        // A timer is late by its slack of 50 us, and then there is a wake-up.
        assert!((300_000..420_000).contains(&section), "{row}");
    }
}

#[test]
fn every_cell_says_how_long_its_lock_was_free_and_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["sim", "all", "--quick", "--duration", "1ms", "--threads", "4", "--locks"];
    let locks = "rwlock,mutex,range,ref:rwsem_2017";
    let (printed, document) = run_json(&[&args[..], &[locks]].concat(), &dir.path().join("o.json"));
    let rows = document["rows"].as_array().unwrap();
    let cells = document["grid"]["cells"].as_u64().unwrap();
    let free = |row: &&Value| row["free_while_waited"].as_f64();
    let of_cells: std::collections::BTreeSet<_> =
        rows.iter().filter(|row| free(row).is_some()).map(|row| row["cell"].as_u64()).collect();
    assert_eq!(of_cells.len() as u64, cells);
    for row in rows.iter().filter(|row| free(row).is_some()) {
        let without_cpu = row["free_without_cpu"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&free(&row).unwrap()), "{row}");
        assert!((0.0..=free(&row).unwrap()).contains(&without_cpu), "{row}");
    }
    assert!(printed.contains("free while waited for, fairlock:rwlock: more than 1 %"), "{printed}");
}

/// The same, seen from the machine and from the two threads.
#[test]
fn the_time_that_a_lock_was_free_and_waited_for_is_the_sum_of_its_waits() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["sim", "idle", "--machine", "opteron_4", "--duration", "400ms", "--section"];
    let cells = ["300000", "--form", "mutex", "--locks", "mcs_park", "--holder", "away"];
    let (_, document) = run_json(&[&args[..], &cells].concat(), &dir.path().join("out.json"));
    for row in document["rows"].as_array().unwrap() {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
        // Two microseconds of each wait do not count.
        let sum = number("min_ops") * (number("free_p50_ns") - 2e3) / 400e6;
        let ratio = number("free_while_waited") / sum;
        assert!((0.8..1.25).contains(&ratio), "{ratio}: {row}");
    }
}

/// The parts of the longest wait make up what the thread itself measured, to the nanosecond.
#[test]
fn a_long_wait_says_what_its_time_went_into() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["sim", "think", "--machine", "opteron_4", "--threads", "12", "--section", "300000"];
    let cells = ["--form", "mutex", "--locks", "ref:mcs", "--outside", "1"];
    let loaded = ["--duration", "60ms", "--beside", "4"];
    let args = [&args[..], &cells, &loaded].concat();
    let (printed, document) = run_json(&args, &dir.path().join("o.json"));
    assert!(printed.contains("waits of more than 1 ms"), "{printed}");
    for row in document["rows"].as_array().unwrap() {
        let parts = |split: &str| row["long_waits"][split].as_object().unwrap().clone();
        let sum = |split: &str| parts(split).values().map(|ns| ns.as_u64().unwrap()).sum::<u64>();
        assert_eq!(Some(sum("longest")), row["wait_max_ns"].as_u64(), "{row}");
        assert!(sum("all") > sum("longest"), "{row}");
        // Threads of a queue lock wait awake, there are more of them than CPUs, and the lock is
        // free while the one that it was granted to has none.
        assert!(parts("all")["without_cpu_ns"].as_u64() > Some(0), "{row}");
        assert!(parts("all")["lock_free_ns"].as_u64() > Some(0), "{row}");
        assert_eq!(parts("all")["on_the_way_ns"], 0, "{row}");
    }
}

/// The counts of a process are told apart by cell, and those of one lock are the same whatever is
/// simulated beside it.
#[test]
fn events_are_counted_of_each_lock_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    let args = ["sim", "handoff", "--machine", "opteron_4", "--case", "sleep", "--threads", "8"];
    let events_of = |locks: &str, flags: &[&str]| -> Vec<Value> {
        let cells = ["--duration", "20ms", "--locks", locks];
        let (printed, document) = run_json(&[&args[..], &cells, flags].concat(), &file);
        assert_eq!(printed.contains("events of our locks"), !flags.is_empty(), "{printed}");
        let rows = document["rows"].as_array().unwrap();
        rows.iter().map(|row| row["events"].clone()).collect()
    };
    let alone = events_of("handoff", &["--events"]);
    assert!(alone[0]["counts"]["rwsem_sleep_writer"].as_u64() > Some(0), "{alone:?}");
    assert!(alone[0]["operations"].as_u64() > Some(0), "{alone:?}");
    let beside = events_of("handoff,unfair,ref:rwsem_2017", &["--events"]);
    assert_eq!(beside[0], alone[0]);
    assert_ne!(beside[1], alone[0]);
    assert!(beside[2].is_null());
    assert!(events_of("handoff", &[])[0].is_null());
}

#[test]
fn busy_loops_and_the_host_take_their_share_of_the_cpus() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    let args = ["sim", "think", "--machine", "opteron_4", "--form", "mutex", "--threads", "4"];
    let cell = ["--section", "1000", "--outside", "100", "--reads", "0", "--duration", "300ms"];
    let rate = |flags: &[&str], caption: &str| {
        let locks = ["--locks", "mutex"];
        let (printed, document) = run_json(&[&args[..], &cell, &locks, flags].concat(), &file);
        assert!(printed.starts_with(caption), "{printed}");
        document["rows"][0].clone()
    };
    let speed = |row: &Value| row["ops_per_s"].as_f64().unwrap();
    let alone = rate(&[], "think");
    assert!(alone["beside"].is_null() && alone["stolen_percent"].is_null(), "{alone}");
    let beside = rate(&["--beside", "4"], "(beside 4 busy loops)\n");
    assert_eq!(beside["beside"], 4);
    let stolen = rate(&["--stolen", "40"], "(40 % of each CPU stolen)\n");
    assert_eq!(stolen["stolen_percent"], 40.0);
    for (row, left) in [(beside, 0.5), (stolen, 0.6)] {
        let ratio = speed(&row) / speed(&alone);
        assert!((ratio / left - 1.0).abs() < 0.15, "{ratio}, not {left}: {row}");
    }
}

#[test]
fn unknowns_are_varied_one_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["sim", "reader-spin", "--threads", "2,4", "--cs-load", "20", "--duration", "2ms"];
    let few = ["--locks", "unfair,no_reader_spin", "--seeds", "2", "--unknowns"];
    let (printed, document) = run_json(&[&args[..], &few].concat(), &dir.path().join("out.json"));
    let machines: std::collections::BTreeSet<_> =
        document["rows"].as_array().unwrap().iter().map(|row| row["machine"].as_str()).collect();
    assert_eq!(machines.len(), 7, "{machines:?}");
    // One table, of the machine as it is.
    assert!(printed.starts_with("reader-spin on cascade_lake_96\n"), "{printed}");
}

#[test]
fn a_real_run_takes_the_place_of_the_published_figures() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().join("real.json");
    let row = |lock: &str, rate: f64| {
        serde_json::json!({
            "workload": "handoff", "case": "busy", "lock": lock, "threads": 3, "side": "write",
            "runs": 1, "ops_per_s": rate,
        })
    };
    let rows = [row("fairlock:rwlock", 9e5), row("fairlock:unfair", 8e5), row("std", 5e5)];
    let bench = serde_json::json!({ "schema": "fairlock/1", "rows": rows });
    fs::write(&real, bench.to_string()).unwrap();
    let sim = ["sim", "handoff", "--duration", "2ms", "--real", real.to_str().unwrap()];
    let (printed, document) = run_json(&sim, &dir.path().join("out.json"));
    assert!(printed.contains(" real "), "{printed}");
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "those that can be simulated");
    for row in rows {
        assert_eq!((&row["machine"], &row["published_as"]), (&"two_cpu".into(), &"real".into()));
        assert_eq!((&row["case"], &row["threads"]), (&"busy".into(), &3.into()));
        assert!(row["ratio_to_published"].as_f64() > Some(0.0));
    }
}

#[test]
fn a_timeline_is_written_of_one_simulation() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trace.json");
    let trace = ["--duration", "1ms", "--trace", file.to_str().unwrap()];
    let one = ["sim", "reader-spin", "--locks", "unfair", "--threads", "4", "--cs-load", "20"];
    let output = run(&[&one[..], &trace].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    for wanted in ["waiting (read)", "holding (write)", "acquired (write)", "running", "spinning"] {
        assert!(events.iter().any(|event| event["name"] == wanted), "{wanted}");
    }
    // One thread at a time on each CPU.
    let mut slices: Vec<(u64, f64, f64)> = events
        .iter()
        .filter(|event| event["ph"] == "X" && event["pid"] == 2)
        .map(|e| {
            (e["tid"].as_u64().unwrap(), e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap())
        })
        .collect();
    slices.sort_by(|a, b| a.partial_cmp(b).unwrap());
    assert!(slices.len() >= 4);
    assert!(slices.windows(2).all(|w| w[0].0 != w[1].0 || w[0].1 + w[0].2 <= w[1].1 + 0.001));

    // One holder at a time, also where the releasing call lasts until others have the lock.
    let short = ["sim", "think", "--machine", "opteron_4", "--threads", "12", "--section", "1000"];
    let futex = ["--form", "mutex", "--locks", "ref:futex", "--outside", "1", "--reads", "0"];
    assert_eq!(run(&[&short[..], &futex, &trace].concat()).status.code(), Some(0));
    let document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let span = |e: &Value| (e["ts"].as_f64().unwrap(), e["dur"].as_f64().unwrap());
    let holds = events.iter().filter(|event| event["name"] == "holding (write)");
    let mut holds: Vec<(f64, f64)> = holds.map(span).collect();
    holds.sort_by(|a, b| a.partial_cmp(b).unwrap());
    assert!(holds.len() > 99 && holds.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0 + 0.001));

    // As many waits are marked as long as are in the table.
    let json = dir.path().join("out.json");
    let long = ["sim", "think", "--machine", "opteron_4", "--threads", "12", "--section", "300000"];
    let cells = ["--form", "mutex", "--locks", "ref:mcs", "--outside", "1", "--reads", "0"];
    let trace_of_long = ["--duration", "20ms", "--trace", file.to_str().unwrap()];
    let (_, of_long) = run_json(&[&long[..], &cells, &trace_of_long].concat(), &json);
    let document: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let marked = |ph: &str| {
        let marked = events.iter().filter(|e| e["cat"] == "long wait" && e["ph"] == ph);
        marked.count() as u64
    };
    assert_eq!(Some(marked("X")), of_long["rows"][0]["long_waits"]["count"].as_u64());
    assert!(marked("s") > 0 && marked("s") == marked("f"));

    let many = run(&[&["sim", "handoff"], &trace[..]].concat());
    assert_eq!(many.status.code(), Some(2));
    assert!(text(&many.stderr).contains("this is 20"), "{}", text(&many.stderr));
}

#[test]
fn a_file_that_cannot_be_written_is_found_before_the_run() {
    let output = run(&["sim", "all", "--json", "no/such/folder/out.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("make the folder first"));
}

#[cfg(target_os = "linux")]
#[test]
fn too_little_memory_for_the_threads_is_told_in_words() {
    // Address space for the program, and not for 4,000 stacks of 64 KiB.
    let fairlock = env!("CARGO_BIN_EXE_fairlock");
    let sim = "sim handoff --case sleep --locks unfair --threads 4000 --duration 1ms";
    let limited = format!("ulimit -v 200000 && exec '{fairlock}' {sim}");
    let output = Command::new("sh").args(["-c", &limited]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let wanted =
        "no memory for the stacks of 4000 threads: Cannot allocate memory (os error 12); use fewer";
    assert!(printed.contains(wanted) && !printed.contains("panicked"), "{printed}");
}

#[test]
fn a_scenario_is_simulated_and_run_group_by_group() {
    let dir = tempfile::tempdir().unwrap();
    let simulated =
        ["sim", CACHE, "--locks", "rwlock", "--machine", "opteron_4", "--duration", "20ms"];
    let run = ["bench", CACHE, "--locks", "fairlock:rwlock,std", "--secs", "0.05", "--runs", "1"];
    for args in [simulated, run] {
        let (table, document) = run_json(&args, &dir.path().join("scenario.json"));
        assert!(table.contains("scenario cache"), "{table}");
        let rows = document["rows"].as_array().unwrap();
        for (group, threads) in [("lookups", 24), ("updates", 4), ("audit", 1)] {
            let of_group = || rows.iter().filter(|row| row["group"] == group);
            assert!(of_group().all(|row| row["threads"] == threads && row["scenario"] == "cache"));
            assert!(of_group().count() > 0, "{table}");
            // In any window of a simulation whoever does not come at fixed times does something.
            // Real threads may get no CPU.
            let is_busy = |row: &Value| row["ops_per_s"].as_f64() > Some(0.0);
            assert!(args == run || group == "audit" || of_group().all(is_busy), "{table}");
        }
        let all: Vec<_> = rows.iter().filter(|row| row.get("group").is_none()).collect();
        let sides: Vec<_> = all.iter().map(|row| row["side"].as_str().unwrap()).collect();
        assert!(sides.starts_with(&["read", "write", "all"]), "{sides:?}");
        assert!(all.iter().all(|row| row["threads"] == 29));
    }
}

/// The window is shorter than the wait that the lock plans for so many threads.
#[test]
fn data_that_a_lock_guards_has_to_come_from_the_cpu_that_changed_it_last() {
    let dir = tempfile::tempdir().unwrap();
    let rate = |step: &str| {
        let file = dir.path().join("data.toml");
        let threads = format!("[[threads]]\nname = \"all\"\ncount = 4\nround = [{step}]");
        fs::write(&file, format!("[locks]\nlock = 2\n{threads}")).unwrap();
        let sim = ["sim", file.to_str().unwrap(), "--locks", "rwlock", "--duration", "2ms"];
        let (_, document) = run_json(&sim, &dir.path().join("out.json"));
        document["rows"][0]["ops_per_s"].as_f64().unwrap()
    };
    let without = rate(r#"{ write = "lock", work = "10ns" }"#);
    let lines = rate(r#"{ write = "lock", work = "10ns", data_lines = 8 }"#);
    assert!(lines < 0.8 * without, "{lines} of {without} a second");
    let read = rate(r#"{ read = "lock", work = "10ns", data_lines = 8 }"#);
    assert!(read > 1.5 * lines, "readers share the lines: {read} and {lines} a second");
}

#[test]
fn a_short_window_calls_nobody_starved() {
    let args = ["sim", "handoff", "--case", "sleep", "--locks", "unfair", "--threads", "60"];
    let table = |window| {
        let output = run(&[&args[..], &["--duration", window]].concat());
        text(&output.stdout).to_owned()
    };
    let short = table("5ms");
    assert!(short.contains("(measurements of 5.00 ms)"), "{short}");
    assert!(short.contains(" hardly served in 5.00 ms"), "{short}");
    let long = table("300ms");
    assert!(long.contains("(measurements of 300 ms)"), "{long}");
    assert!(!long.contains("hardly"), "{long}");
}

#[test]
fn threads_that_come_seldom_are_not_starved() {
    let dir = tempfile::tempdir().unwrap();
    // At most once in the window, and nobody is in the way.
    let audit = "[locks]\nlog = 1\n[[threads]]\nname = \"audit\"\ncount = 3\nevery = \"1s\"\n\
                 round = [{ read = \"log\", work = \"1us\" }, { write = \"log\", work = \"1us\" }]\n";
    let file = dir.path().join("audit.toml");
    std::fs::write(&file, audit).unwrap();
    let args = ["sim", file.to_str().unwrap(), "--locks", "rwlock", "--duration", "5ms"];
    let (table, document) = run_json(&args, &dir.path().join("out.json"));
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{table}");
    assert!(rows.iter().all(|row| row["starved_threads"] == 0), "{table}");
}

/// A full disk keeps from nobody what goes elsewhere.
#[cfg(target_os = "linux")]
#[test]
fn results_are_kept_where_other_output_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.json");
    let sim = || {
        let mut sim = Command::new(env!("CARGO_BIN_EXE_fairlock"));
        sim.args(["sim", "handoff", "--case", "sleep", "--locks", "fairlock:rwlock"]);
        sim.args(["--threads", "2", "--duration", "1ms", "--json"]).arg(&file);
        sim
    };
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let (mut traced, mut shown) = (sim(), sim());
    traced.args(["--trace", "/dev/full"]);
    shown.stdout(full.try_clone().unwrap());
    for (command, told) in [(&mut traced, "cannot write --trace"), (&mut shown, "to stdout")] {
        let output = command.output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains(told) && error.lines().count() == 1, "{error}");
        let kept = fs::read(&file).unwrap();
        assert!(serde_json::from_slice::<Value>(&kept).is_ok());
        fs::remove_file(&file).unwrap();
    }
    let nothing = traced.stdout(full).output().unwrap();
    let error = text(&nothing.stderr);
    assert!(error.contains("cannot write --trace") && error.contains("to stdout"), "{error}");
}

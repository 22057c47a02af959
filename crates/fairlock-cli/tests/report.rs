//! `fairlock report`: pages, pictures and tables from results that are made up, or simulated.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fairlock_testing as _; // the watchdog
use serde_json::{Value, json};
use tempfile::TempDir;

fn fairlock(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairlock")).args(args).output().expect("fairlock starts")
}

fn row(lock: &str, threads: usize, kops: f64, longest_ms: f64, starved: usize) -> Value {
    let ns = |share: f64| (longest_ms * 1e6 * share) as u64;
    let mut ops = vec![1_000; threads];
    ops[..starved].fill(0);
    json!({
        "workload": "handoff", "case": "busy", "side": "write", "lock": lock, "threads": threads,
        "runs": 3, "ops_per_s": kops * 1e3, "ops_per_s_min": kops * 9e2, "ops_per_s_max": kops * 1.1e3,
        "min_ops": ops.iter().min(), "max_ops": 1_000, "starved_threads": starved, "jain": 0.9,
        "wait_p50_ns": ns(0.1), "wait_p99_ns": ns(0.4), "wait_p999_ns": ns(0.7), "wait_max_ns": ns(1.0),
        "ops_by_thread": ops,
    })
}

fn document(rows: Vec<Value>) -> Value {
    json!({
        "schema": "fairlock/1", "version": "9.8.7", "made": "2026-11-22T10:00:00Z",
        "machine": { "cpus": 2, "cpu_model": "a model <of> CPU", "kernel": "6.18" },
        "command": "fairlock bench handoff --json /a/place/x.json --case busy", "interrupted": false,
        "rows": rows,
    })
}

fn sixty_writers() -> Value {
    document(vec![
        row("fairlock:rwlock", 60, 914.0, 8.03, 0),
        row("parking_lot", 60, 912.0, 29.4, 0),
        row("std", 60, 611.0, 90.1, 0),
        row("fairlock:unfair", 60, 950.0, 209.0, 7),
    ])
}

/// A folder for files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// What a report on these files is, written to a file of that name.
    fn report(&self, files: &[&Path], name: &str, flags: &[&str]) -> Vec<u8> {
        let out = self.path(name);
        let mut args = vec!["report"];
        args.extend(files.iter().map(|file| file.to_str().unwrap()));
        args.extend(["-o", out.to_str().unwrap()]);
        args.extend(flags);
        let output = fairlock(&args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(out).unwrap()
    }

    fn text(&self, files: &[&Path], name: &str, flags: &[&str]) -> String {
        String::from_utf8(self.report(files, name, flags)).unwrap()
    }
}

#[test]
fn a_page_has_everything_in_it_and_loads_nothing() {
    let folder = Folder::new();
    let results = folder.file("a.json", &sixty_writers().to_string());
    let page = folder.text(&[&results], "page.html", &[]);
    for said in [
        "<!DOCTYPE html>",
        "<html lang=\"en\">",
        "name=\"viewport\"",
        "prefers-color-scheme",
        "@media print",
        // Where every number is from.
        "fairlock bench handoff --case busy",
        "a model &lt;of&gt; CPU",
        "2026-11-22",
        "version 9.8.7",
        // The pictures, for who cannot see them, too.
        "Speed against longest wait, handoff: busy",
        "role=\"img\"",
        "<title>fairlock:rwlock: 914 kop/s, longest wait 8.03 ms, starved 0</title>",
        "Operations of each thread",
        "Waits, handoff: busy",
        "✕ 7 starved",
        // The table.
        "<th scope=\"col\"",
        "Save as CSV",
        "<td>8.03 ms",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains("/a/place"), "where it was written to is nobody's business");
    for loads in ["http://", "https://", "<img", "src=", "@import", "url("] {
        assert!(!page.contains(loads), "{loads}");
    }
}

#[test]
fn a_picture_is_an_svg_of_its_own() {
    let folder = Folder::new();
    let results = folder.file("a.json", &sixty_writers().to_string());
    let svg = folder.text(&[&results], "picture.svg", &[]);
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{svg}");
    assert!(svg.trim_end().ends_with("</svg>") && svg.contains("2026-11-22"), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 4);
    assert_eq!(svg.matches("class=\"k0\"").count(), 1, "ours as it comes");
    // The one that starves is hollow, and on no front.
    assert_eq!(svg.matches("hollow\" cx").count(), 1);
    let few = folder.text(&[&results], "few.svg", &["--locks", "rwlock,std"]);
    assert_eq!(few.matches("<circle").count(), 2);
}

#[test]
fn where_all_locks_starve_somebody_there_is_no_front() {
    let folder = Folder::new();
    let rows = vec![row("std", 60, 611.0, 90.1, 2), row("parking_lot", 60, 912.0, 29.4, 1)];
    let results = folder.file("a.json", &document(rows).to_string());
    let svg = folder.text(&[&results], "picture.svg", &[]);
    assert!(svg.matches("hollow\" cx").count() == 2 && !svg.contains("d=\"M\""), "{svg}");
}

#[test]
fn nobody_is_said_to_starve_in_a_short_window() {
    let folder = Folder::new();
    let mut rows = vec![row("std", 60, 611.0, 90.1, 2), row("parking_lot", 60, 912.0, 29.4, 0)];
    rows[0]["window_ns"] = 5_000_000.into();
    rows[0]["window_is_short"] = true.into();
    let results = folder.file("a.json", &document(rows).to_string());
    let svg = folder.text(&[&results], "picture.svg", &[]);
    assert!(!svg.contains("hollow\" cx") && !svg.contains("2 starved"), "{svg}");
    assert!(svg.contains(", 2 hardly served in 5.00 ms<"), "{svg}");
    let markdown = folder.text(&[&results], "tables.md", &["--columns", "starved"]);
    assert!(markdown.contains("\n| std | 2 hardly served in 5.00 ms |\n"), "{markdown}");
}

#[test]
fn tables_are_markdown_or_csv() {
    let folder = Folder::new();
    let results = folder.file("a.json", &sixty_writers().to_string());
    let columns = ["--columns", "kop/s,longest"];
    let markdown = folder.text(&[&results], "tables.md", &columns);
    assert!(markdown.contains("| lock | kop/s | longest |\n|---|---|---|\n"), "{markdown}");
    assert!(markdown.contains("\n| fairlock:rwlock | 914 | 8.03 ms |\n"), "{markdown}");
    assert!(markdown.contains("threads 60") && markdown.contains("version 9.8.7"), "{markdown}");
    let csv = folder.text(&[&results], "all.csv", &[]);
    let mut lines = csv.lines();
    let heads: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(heads[..5], ["workload", "case", "lock", "threads", "side"]);
    assert!(heads.contains(&"wait_max_ns") && !heads.contains(&"ops_by_thread"), "{heads:?}");
    assert_eq!(lines.count(), 4);
    assert!(csv.contains("\nhandoff,busy,fairlock:rwlock,60,write,"), "{csv}");
}

#[test]
fn speed_is_drawn_against_threads_where_they_differ() {
    let folder = Folder::new();
    let mut rows = Vec::new();
    for threads in [4, 16, 64] {
        rows.push(row("fairlock:rwlock", threads, 900.0, 8.0, 0));
        rows.push(row("std", threads, 2_000.0 / threads as f64, 90.0, 0));
    }
    let results = folder.file("a.json", &document(rows).to_string());
    let page = folder.text(&[&results], "page.html", &[]);
    for said in [
        "Speed against threads, handoff: busy",
        "p99.9 waits against threads",
        "<title>std, threads 16: 125</title>",
        "Over 3 configurations",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

#[test]
fn a_lock_has_one_colour_in_all_pictures_of_a_page() {
    const LOCKS: [&str; 4] = ["fairlock:rwlock", "parking_lot", "std", "fairlock:unfair"];
    let folder = Folder::new();
    let rows = |locks: &[&str]| {
        let of = |threads| locks.iter().map(move |lock| row(lock, threads, 900.0, 8.0, 0));
        document([4, 60].into_iter().flat_map(of).collect()).to_string()
    };
    // The second file has fewer locks: places in it are others than in the first.
    let files = [folder.file("a.json", &rows(&LOCKS)), folder.file("b.json", &rows(&LOCKS[2..]))];
    let page = folder.text(&[&files[0], &files[1]], "page.html", &[]);
    let colours = |lock: &str| {
        // A mark's title begins with its lock, and its class with its colour.
        let marks = page.match_indices("<title>").filter(|&(at, title)| {
            let rest = page[at + title.len()..].strip_prefix(lock);
            rest.is_some_and(|rest| rest.starts_with([':', ',']))
        });
        let before = marks.map(|(at, _)| page[..at].rsplit("class=\"k").next().unwrap());
        let colours: Vec<&str> = before.map(|mark| &mark[..1]).collect();
        // Speed against waits, two pictures of lines, operations, waits.
        assert!(colours.len() >= 7, "{lock}: {colours:?}");
        colours.into_iter().collect::<BTreeSet<_>>()
    };
    let all: Vec<_> = LOCKS.iter().map(|lock| colours(lock)).collect();
    assert!(all.iter().all(|of_lock| of_lock.len() == 1), "{all:?}");
    assert_eq!(all.iter().flatten().collect::<BTreeSet<_>>().len(), 4, "{all:?}");
}

#[test]
fn a_page_is_named_after_all_machines_and_programs_in_it() {
    let folder = Folder::new();
    let mut simulated = sixty_writers();
    simulated["machine"] = json!({ "simulated": true });
    let simulated = folder.file("simulated.json", &simulated.to_string());
    let real = folder.file("real.json", &sixty_writers().to_string());
    let program = folder.file("profile.json", &profile(1, 1));
    let page = folder.text(&[&simulated, &real, &real, &program], "page.html", &[]);
    let title =
        "Locks: simulated · 2 CPUs (a model &lt;of&gt; CPU), 6.18 · locks of a, 2 processes";
    assert!(page.contains(&format!("<title>{title}</title>")), "{page}");
    assert!(page.contains(&format!("<h1>{title}</h1>")), "{page}");
}

#[test]
fn a_simulated_run_has_what_was_published() {
    let folder = Folder::new();
    let json = folder.path("sim.json");
    let args = ["sim", "handoff", "--case", "sleep", "--duration", "2ms", "--json"];
    let output = fairlock(&[&args[..], &[json.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = folder.text(&[&json], "page.html", &[]);
    for said in ["handoff: sleep, on ", "x base, publ."] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

/// A profile with so many locks and waits, of two processes.
fn profile(locks: usize, waits: usize) -> String {
    let place = |function: &str| json!({ "function": function, "file": "src/a.c", "line": 7, "object": "/usr/bin/a" });
    let stack = vec![place("Cache::get(int)"), place("work"), place("main")];
    let at = json!({ "reads": false, "count": 3, "wait_total_ns": 5_000_000, "stack": stack });
    let lock = |number: usize| {
        json!({
            "address": "0x10", "kind": "mutex", "name": format!("lock<{number}>"),
            "first_taken": stack, "reads": 0, "writes": 90, "waits": 3, "given_up": 1,
            "wait_total_ns": 9_000_000, "wait_p50_ns": 1_000_000, "wait_p99_ns": 4_000_000,
            "wait_p999_ns": 4_000_000, "wait_longest_ns": 4_000_000, "passed": 8, "passed_most": 6,
            "holds_measured": 0, "hold_p50_ns": null, "hold_p99_ns": null, "hold_p999_ns": null,
            "hold_longest_ns": 0, "waiters": [at], "holders": [at],
        })
    };
    let wait = json!({
        "lock": "lock<0>", "thread": 8, "name": "worker", "reads": false, "given_up": true,
        "began_ns": 77_000, "waited_ns": 4_000_000, "passed": 6, "waiter": stack,
        "holder_thread": 9, "holder": stack,
    });
    let process = |pid: u32| {
        json!({
            "pid": pid, "parent": null, "program": "/usr/bin/a", "observed": true,
            "policy": "default", "threshold_ns": 100_000, "ran_ns": 2_000_000_000, "lost": 4,
            "locks": (0..locks).map(lock).collect::<Vec<_>>(), "waits": vec![&wait; waits],
        })
    };
    // As older versions have it: not when, where and by which command it was made.
    json!({
        "schema": "fairlock-profile/2", "version": "0.0.9", "processes": [process(7), process(8)],
    })
    .to_string()
}

#[test]
fn a_profile_of_several_processes_has_them_in_its_tables() {
    let folder = Folder::new();
    let file = folder.file("profile.json", &profile(2, 1));
    let page = folder.text(&[&file], "page.html", &[]);
    for said in [
        "locks of a, 2 processes",
        "version 0.0.9",
        "8 acquisitions not in the record",
        "<th scope=\"col\">process</th>",
        "lock&lt;1&gt;: 9.00 ms lost in 3 waits, the longest 4.00 ms",
        "Cache::get (a.c:7) ← work (a.c:7) ← main (a.c:7)",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let markdown = folder.text(&[&file], "tables.md", &["--locks", "lock<1>"]);
    assert!(markdown.contains("| 8 | lock<1> | mutex | 9.00 ms | 90 | 3.33 % | 1 |"), "{markdown}");
    assert!(!markdown.contains("lock<0>"), "{markdown}");
}

#[test]
fn the_rest_of_a_long_stack_is_folded_so_that_rows_are_low() {
    let folder = Folder::new();
    let long = "long_".repeat(30);
    let text = profile(1, 1).replace("\"work\"", &format!("\"{long}\""));
    let page = folder.text(&[&folder.file("profile.json", &text)], "page.html", &[]);
    let rest = format!(" ← {long} (a.c:7) ← main (a.c:7)");
    let cell = format!("<details><summary>Cache::get (a.c:7)</summary>{rest}</details>");
    assert!(page.contains(&cell), "{page}");
    assert_eq!(page.matches(&rest).count(), page.matches(&cell).count(), "in all columns");
}

#[test]
fn numbers_of_a_damaged_profile_are_no_panic() {
    let folder = Folder::new();
    let most = |text: String, key: &str, value: u64| {
        text.replace(&format!("\"{key}\":{value}"), &format!("\"{key}\":{}", u64::MAX))
    };
    let numbers = [("reads", 0), ("writes", 90), ("wait_total_ns", 9_000_000), ("lost", 4)];
    let text = numbers.into_iter().fold(profile(2, 1), |text, (key, value)| most(text, key, value));
    let page = folder.text(&[&folder.file("profile.json", &text)], "page.html", &[]);
    let said = "18,446,744,073,709,551,615 acquisitions not in the record";
    assert!(page.contains(said), "{page}");
}

#[test]
fn a_profile_of_a_large_program_is_a_page_of_less_than_a_megabyte() {
    let folder = Folder::new();
    let file = folder.file("profile.json", &profile(400, 200));
    let page = folder.text(&[&file], "page.html", &[]);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(page.contains("The longest waits (the first 300 of 400): 300 rows"));
    let csv = folder.text(&[&file], "all.csv", &[]);
    assert_eq!(csv.lines().count(), 1 + 2 * 400, "all of them");
}

#[test]
fn a_full_bench_is_a_page_of_less_than_a_megabyte() {
    // As many rows as `bench all` has, of as many locks.
    let mut rows = Vec::new();
    for lock in 0..18 {
        for threads in [2, 4, 8, 16, 32, 64, 96] {
            for pauses in [1, 20, 100] {
                for (case, sides) in [
                    ("mixed", &["read", "write", "all"][..]),
                    ("reader_alone", &["read"]),
                    ("writer_alone", &["write"]),
                ] {
                    for side in sides {
                        let mut row = row(&format!("lock:number_{lock}"), threads, 900.0, 8.0, 0);
                        row["workload"] = "reader-spin".into();
                        row["case"] = case.into();
                        row["side"] = (*side).into();
                        row["cs_load"] = pauses.into();
                        rows.push(row);
                    }
                }
            }
        }
    }
    for lock in 0..10 {
        for threads in [2, 8, 32, 96] {
            for outside in [0, 1, 10, 100, 1_000] {
                for reads in [0, 50, 90, 99] {
                    for form in ["rwlock", "mutex", "range"] {
                        let mut row = row(&format!("lock:number_{lock}"), threads, 900.0, 8.0, 0);
                        row["workload"] = "think".into();
                        row["form"] = form.into();
                        row["reads_percent"] = reads.into();
                        row["outside"] = outside.into();
                        rows.push(row);
                    }
                }
            }
        }
    }
    let folder = Folder::new();
    let results = folder.file("a.json", &document(rows).to_string());
    let page = folder.report(&[&results], "page.html", &[]);
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn what_cannot_be_reported_on_is_refused_with_the_mend() {
    let folder = Folder::new();
    let results = folder.file("a.json", &sixty_writers().to_string());
    let results = results.to_str().unwrap();
    let one = document(vec![row("std", 60, 600.0, 90.0, 0)]).to_string();
    let one = folder.file("one.json", &one);
    let nothing = folder.file("nothing.json", &document(vec![]).to_string());
    let newer = folder.file("newer.json", r#"{ "schema": "fairlock/9", "cells": [] }"#);
    let profile = folder.file("profile.json", r#"{ "schema": "fairlock-profile/1" }"#);
    let cut = folder.file("cut.json", &sixty_writers().to_string()[..500]);
    let [nothing, newer, profile, cut] =
        [&nothing, &newer, &profile, &cut].map(|file| file.to_str().unwrap());
    let mut cases = vec![
        (vec!["report", nothing], 2, "nothing was measured"),
        (vec!["report", newer], 2, "has the schema 'fairlock/9'"),
        (vec!["compare", results, newer], 2, "has the schema 'fairlock/9'"),
        (vec!["report", profile], 2, "reads fairlock-profile/2: make it again"),
        (vec!["compare", results, profile], 2, "compare two of the same command"),
        (vec!["report", cut], 2, "was cut short"),
        (vec!["report", results, "--format", "md", "--columns", "kops"], 2, "'kop/s'"),
        (vec!["report", results, "--format", "csv", "--columns", "kop/s"], 2, "--format md"),
        (vec!["report", "no-such.json"], 2, "cannot read"),
        (vec!["report", results, "--locks", "nsync"], 2, "there are fairlock:rwlock, "),
        (vec!["report", results, "-o", "no/such/folder/x.html"], 1, "make the folder first"),
        (vec!["report", one.to_str().unwrap(), "--format", "svg"], 1, "two locks or more"),
        (vec!["report", results, "--format", "pdf"], 2, "svg"),
    ];
    if cfg!(not(feature = "png")) {
        cases.push((vec!["report", results, "--format", "png"], 2, "--features png"));
    }
    for (args, code, mend) in cases {
        let output = fairlock(&args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(mend) && error.lines().count() == 1, "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

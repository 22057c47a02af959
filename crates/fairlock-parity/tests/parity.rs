//! How much of what is written for parking_lot 0.12 moves to fairlock by its `use` lines.
//!
//! `tests/items/` has one program for each public item of parking_lot 0.12's documentation, below a
//! line `//# item`; a line `//~` after it is what else has to be changed where that does not
//! move. All are compiled together, once with each crate's locks; those that the compiler
//! rejects are left out and the rest is tried again; what compiles is run. What came of it is
//! a table in the guide, which the test compares; `FAIRLOCK_PARITY_WRITE=1` writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fairlock_testing as _; // the watchdog
use serde_json::Value;

struct Item {
    name: String,
    program: String,
    mend: String,
}

/// What comes of an item: none if it works.
type Failures = BTreeMap<usize, String>;

/// So many of a hundred items move, at least.
const WANTED: usize = 100;
const GUIDE: &str = "../../docs/guide/parity.md";

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn items() -> Vec<Item> {
    let mut files: Vec<PathBuf> = fs::read_dir(here().join("tests/items"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut items: Vec<Item> = Vec::new();
    for file in files {
        for line in fs::read_to_string(file).unwrap().lines() {
            if let Some(name) = line.strip_prefix("//# ") {
                items.push(Item { name: name.into(), program: String::new(), mend: String::new() });
                continue;
            }
            let item = items.last_mut().expect("a file begins with an item");
            match line.strip_prefix("//~ ") {
                Some(mend) => item.mend = mend.into(),
                None => writeln!(item.program, "{line}").unwrap(),
            }
        }
    }
    items
}

/// The programs that have not failed, as one; and which of them each line is of.
fn source(locks: &str, items: &[Item], failed: &Failures) -> (String, Vec<Option<usize>>) {
    let mut source = format!(
        "use {locks} as locks;\n{}",
        fs::read_to_string(here().join("src/prelude.rs")).unwrap()
    );
    let mut lines = vec![None; source.lines().count()];
    let mut programs = String::from("const PROGRAMS: &[(usize, fn())] = &[");
    for (number, item) in items.iter().enumerate() {
        if failed.contains_key(&number) {
            continue;
        }
        let module = format!(
            "#[allow(unused, clippy::all)]\nmod item_{number} {{\nuse super::prelude::*;\n\
             pub fn program() {{\n{}}}\n}}\n",
            item.program
        );
        lines.resize(lines.len() + module.lines().count(), Some(number));
        source += &module;
        write!(programs, "({number}, item_{number}::program), ").unwrap();
    }
    (source + &programs + "];\n", lines)
}

fn cargo(program: &Path) -> Output {
    Command::new(env!("CARGO"))
        .current_dir(here())
        .args(["rustc", "--quiet", "--locked", "--bin=fairlock-parity", "--features=programs"])
        .args(["--message-format=json", "--", "--cfg=fairlock_parity", "--cap-lints=allow"])
        .env("FAIRLOCK_PARITY", program)
        .output()
        .unwrap()
}

/// The lines of `program` that a message of the compiler is about.
fn lines_of(message: &Value, program: &Path, lines: &mut Vec<usize>) {
    for mut span in message["spans"].as_array().into_iter().flatten() {
        if span["is_primary"] != true {
            continue;
        }
        // From inside macros of others to where they are used.
        while !span["file_name"].as_str().is_some_and(|name| program.ends_with(name)) {
            span = &span["expansion"]["span"];
            if span.is_null() {
                return;
            }
        }
        lines.push(usize::try_from(span["line_start"].as_u64().unwrap()).unwrap());
    }
}

/// Compiles what can be compiled, runs it, and says of the rest what became of it.
fn failures(locks: &str, items: &[Item]) -> Failures {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("parity-{}.rs", locks.replace("::", "-")));
    let mut failed = Failures::new();
    loop {
        let (source, owners) = source(locks, items, &failed);
        fs::write(&program, source).unwrap();
        let output = cargo(&program);
        let mut executable = None;
        let before = failed.len();
        let mut errors = String::new();
        for message in String::from_utf8(output.stdout).unwrap().lines() {
            let message: Value = serde_json::from_str(message).unwrap();
            if let Some(path) = message["executable"].as_str() {
                executable = Some(PathBuf::from(path));
            }
            let message = &message["message"];
            if message["level"] != "error" {
                continue;
            }
            errors += message["rendered"].as_str().unwrap();
            let mut lines = Vec::new();
            lines_of(message, &program, &mut lines);
            for owner in lines.into_iter().filter_map(|line| owners[line - 1]) {
                let text = message["message"].as_str().unwrap();
                failed.entry(owner).or_insert_with(|| format!("does not compile: {text}"));
            }
        }
        if output.status.success() {
            run(&executable.unwrap(), items, &mut failed);
            return failed;
        }
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(failed.len() > before, "not because of an item:\n{errors}\n{told}");
    }
}

fn run(executable: &Path, items: &[Item], failed: &mut Failures) {
    let output = Command::new(executable).output().unwrap();
    let mut ended = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        // Programs may print, too.
        if let Some((number, end)) = line.split_once(' ')
            && let Ok(number) = number.parse::<usize>()
        {
            ended.insert(number, end.to_owned());
        }
    }
    for number in 0..items.len() {
        if failed.contains_key(&number) {
            continue;
        }
        match ended.remove(&number) {
            Some(end) if end == "ok" => {}
            end => _ = failed.insert(number, end.unwrap_or_else(|| "ends the process".into())),
        }
    }
}

fn table(items: &[Item], ways: &[(&str, Failures)]) -> String {
    let mut text = format!(
        "# parking_lot, item by item\n\n\
         Generated by `FAIRLOCK_PARITY_WRITE=1 .ci/parity`, which fails when this \
         page is not what comes of it.\n\n\
         The documentation of parking_lot 0.12 has {} items: types, functions, methods, traits and \
         what the types implement. For each there is a program that uses it. Compiled and run with \
         another `use` line, and nothing else changed:\n\n\
         | `use` | programs that work | of all |\n|---|---|---|\n",
        items.len()
    );
    for (locks, failed) in ways {
        let works = items.len() - failed.len();
        let share = 1000 * works / items.len();
        writeln!(text, "| `{locks}` | {works} | {}.{} % |", share / 10, share % 10).unwrap();
    }
    for (locks, failed) in ways.iter().filter(|(_, failed)| !failed.is_empty()) {
        write!(text, "\nThose that do not work with `{locks}`:\n\n| items | mend |\n|---|---|\n")
            .unwrap();
        let mut by_mend: Vec<(&str, Vec<String>)> = Vec::new();
        for item in failed.keys().map(|&number| &items[number]) {
            let name = format!("`{}`", item.name);
            match by_mend.iter_mut().find(|(mend, _)| *mend == item.mend) {
                Some((_, names)) => names.push(name),
                None => by_mend.push((&item.mend, vec![name])),
            }
        }
        for (mend, names) in by_mend {
            writeln!(text, "| {} | {mend} |", names.join(", ")).unwrap();
        }
    }
    text
}

/// What cargo asks for where a program has `parking_lot = { package = "fairlock", features = […] }`.
#[test]
fn each_feature_of_parking_lot_is_one_of_ours() {
    let output = Command::new(env!("CARGO"))
        .current_dir(here())
        .args(["metadata", "--format-version=1", "--locked", "--all-features"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let features_of = |name: &str| -> Vec<Vec<&String>> {
        let named = packages.iter().filter(|package| package["name"] == name);
        named.map(|package| package["features"].as_object().unwrap().keys().collect()).collect()
    };
    let ours = features_of("fairlock").remove(0);
    let theirs = features_of("parking_lot");
    assert_eq!(theirs.len(), 2, "0.12 and 0.13");
    for feature in theirs.into_iter().flatten() {
        assert!(ours.contains(&feature), "fairlock has no feature {feature}");
    }
}

#[test]
fn what_is_written_for_parking_lot_moves_by_its_use_lines() {
    let items = items();
    let original = failures("parking_lot", &items);
    assert!(original.is_empty(), "programs that are wrong themselves: {original:#?}");
    let ways = ["fairlock", "fairlock::lock_api_05"].map(|locks| (locks, failures(locks, &items)));
    for (locks, failed) in &ways {
        for (&number, failure) in failed {
            println!("{locks}: {}: {failure}", items[number].name);
        }
    }
    let table = table(&items, &ways);
    let guide = here().join(GUIDE);
    if std::env::var_os("FAIRLOCK_PARITY_WRITE").is_some() {
        fs::write(guide, table).unwrap();
    } else {
        assert_eq!(fs::read_to_string(guide).unwrap_or_default(), table);
    }
    let best = ways.iter().map(|(_, failed)| items.len() - failed.len()).max().unwrap();
    assert!(100 * best >= WANTED * items.len(), "{best} of {}", items.len());
}

//! `torture --real`: locks that are wrong on purpose are found, others are not, and what is said of both.

use std::collections::BTreeSet;
use std::fs;

use fairlock_testing::until;
use fairlock_workloads::torture;
use serde_json::Value;

use super::{run, run_json, stdout};

/// What is seen of each mistake.
const SEEN: [(&str, &str); 10] = [
    ("broken:lost-wake-up", "has waited for"),
    ("broken:starving", "has waited for"),
    ("broken:shared", "exclusion"),
    ("broken:writers", "exclusion"),
    ("broken:upgrade", "exclusion"),
    ("broken:late", "its bound is"),
    ("broken:early", "TimedOut"),
    ("broken:semaphore", "permits of 4 are taken"),
    ("broken:condvar", "has waited for"),
    ("broken:range", "exclusion"),
];

/// Each is found long before: the time is for a machine that has other things to do.
#[test]
fn every_broken_lock_is_found() {
    let known: BTreeSet<_> = torture::broken().iter().map(|lock| lock.name).collect();
    assert_eq!(known, SEEN.iter().map(|(name, _)| *name).collect());
    for (name, seen) in SEEN {
        let document = run_json(&["torture", "--real", "--for", "10m", "--locks", name], 1);
        let row = &document["rows"][0];
        assert_eq!(row["lock"], name);
        let what = row["failure"]["what"].as_str().unwrap_or_default();
        assert!(what.contains(seen), "{name}: {what}");
    }
}

#[test]
fn a_wait_beyond_its_bound_names_the_waiter_the_holder_and_the_seed() {
    let output = run(&["torture", "--real", "--for", "10m", "--locks", "broken:lost-wake-up"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    for said in [
        "failed: broken:lost-wake-up, seed ",
        "by Write (Wait), section ",
        "its bound is ",
        "held by: ",
        "also waiting, longest first: ",
        "the lock says: locked: ",
        "again: fairlock torture --real --locks broken:lost-wake-up --seed ",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

/// The keys of an object of the schema.
fn keys(schema: &Value) -> BTreeSet<String> {
    schema["properties"].as_object().expect("properties").keys().cloned().collect()
}

/// What is found of locks that are sound. That a host has taken the CPU of one thread which waits, and not that of the
/// watchdog, the system does not say: then a wait seems too long, and it is tried again.
fn found_sound(args: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    let mut document = Value::Null;
    until(|| {
        let output = run(&[args, &["--json", file.to_str().unwrap()]].concat());
        document = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let failures =
            document["rows"].as_array().unwrap().iter().filter_map(|row| row.get("failure"));
        for failure in failures {
            assert!(failure["what"].as_str().unwrap().contains("its bound is"), "{failure}");
        }
        output.status.success()
    });
    document
}

#[test]
fn sound_locks_are_found_sound_and_the_schema_knows_every_key() {
    let schema: Value = serde_json::from_slice(&run(&["schema", "torture"]).stdout).unwrap();
    let row = &schema["properties"]["rows"]["items"];
    let short = ["torture", "--real", "--for", "1300ms", "--overcommit", "1,4"];
    let few = ["torture", "--schedules", "20", "--locks", "ticket:8,rwsem:visible"];
    for (args, locks) in [(&short[..], torture::all().len()), (&few, 2)] {
        let document = found_sound(args);
        let rows = document["rows"].as_array().unwrap();
        assert_eq!(rows.len(), locks);
        for of in rows {
            let has: BTreeSet<_> = of.as_object().unwrap().keys().cloned().collect();
            assert!(has.is_subset(&keys(row)), "{of}");
            assert!(of.get("failure").is_none(), "{of}");
        }
        let has: BTreeSet<_> = document.as_object().unwrap().keys().cloned().collect();
        assert!(has.is_subset(&keys(&schema)), "{has:?}");
    }
}

#[test]
fn the_table_says_what_the_bound_is() {
    // As in `found_sound`.
    until(|| {
        let output = run(&["torture", "--real", "--for", "100ms", "--locks", "mutex"]);
        let is_sound = output.status.success();
        assert!(!is_sound || stdout(&output).contains("of bound"), "{}", stdout(&output));
        is_sound
    });
}

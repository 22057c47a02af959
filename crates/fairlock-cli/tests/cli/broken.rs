//! Locks that are broken on purpose: what is wrong with them is seen.

use fairlock_testing::until;

use super::{TINY, rows, run_json};

#[test]
fn a_free_lock_that_is_not_given_away_is_found() {
    let args = ["bench", "idle", "--locks", "broken:unfair", "--form", "mutex", "--runs", "1"];
    let cell = ["--case", "sleep", "--holder", "away", "--section", "30000", "--secs", "0.5"];
    let args = [&args[..], &cell].concat();
    // It goes to another thread only when it has been idle for 40 ms, of which those are missing for
    // which whoever released it had no CPU before it looked at the clock. The longest of many, if there was a CPU.
    until(|| run_json(&args, 0)["rows"][0]["free_max_ns"].as_u64() >= Some(20_000_000));
}

/// Runs in which two threads meet at least once, even if CPUs are few: the first that fails
/// is the last.
const MANY: &str = "50";

#[test]
fn a_range_lock_that_lets_everybody_in_is_caught() {
    let args = ["bench", "range", "--case", "file", "--locks", "broken:open", "--secs", "0.2"];
    let document = run_json(&[&args[..], &["--threads", "4", "--runs", MANY]].concat(), 1);
    let error = document["rows"][0]["error"].as_str().unwrap();
    assert!(error.contains("does not exclude"), "{error}");
}

#[test]
fn a_mutex_that_lets_everybody_in_is_caught() {
    for case in ["tiny", "chunks"] {
        let args = ["bench", "batch", "--locks", "broken:open", "--case", case, "--runs", MANY];
        let document = run_json(&[&args[..], &["--threads", "4", "--secs", "0.2"]].concat(), 1);
        let error = document["rows"][0]["error"].as_str().unwrap();
        assert!(error.contains("does not exclude"), "{case}: {error}");
    }
}

#[test]
fn a_lock_that_starves_is_counted() {
    let args = ["bench", "handoff", "--case", "busy", "--locks", "broken:unfair"];
    let args = [&args[..], &["--threads", "16", "--secs", "0.1", "--runs", "1"]].concat();
    until(|| {
        let document = run_json(&args, 0);
        let row = &document["rows"][0];
        // All but one starve, and wait through the whole window; but for those that had no CPU for most of it, or if
        // that one had none for so long that the lock went to another: then it is tried again.
        row["starved_threads"].as_u64() >= Some(15)
            && row["wait_max_ns"].as_u64() >= Some(50_000_000)
    });
}

#[test]
fn a_lock_that_loses_somebody_is_killed_and_marked() {
    let args = ["bench", "handoff", "--case", "busy", "--locks", "broken:stuck,std"];
    let args = [&args[..], &TINY, &["--patience", "10"]].concat();
    let document = run_json(&args, 1);
    let stuck = rows(&document, "lock", "broken:stuck");
    assert!(stuck[0]["error"].as_str().unwrap().contains("killed"), "{}", stuck[0]);
    assert!(rows(&document, "lock", "std")[0]["ops_per_s"].is_number());
}

#[test]
fn a_lock_that_panics_is_marked_with_its_message() {
    let args = ["bench", "handoff", "--case", "busy", "--locks", "broken:panicking"];
    let document = run_json(&[&args[..], &TINY].concat(), 1);
    let error = document["rows"][0]["error"].as_str().unwrap();
    assert!(error.contains("broken on purpose") && !error.contains('\n'), "{error}");
}

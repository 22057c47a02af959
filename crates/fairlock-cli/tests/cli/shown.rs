//! Tables and JSON: where they go, how wide they are, and when they come.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{TINY, command, entries, run, stderr, stdout};

#[test]
fn a_table_is_printed_without_a_progress_bar_in_a_pipe() {
    let output = run(&[&["bench", "handoff", "--locks", "std"][..], &TINY].concat());
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("timer slack") && text.contains("starved") && text.contains("std"),
        "{text}"
    );
}

#[test]
fn json_named_dash_is_stdout_and_the_table_is_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let run_there = |args: &[&str]| {
        let output = command(args).current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        let table = stderr(&output);
        assert!(table.contains("longest") && table.contains("fairlock:"), "{args:?}: {table}");
        output.stdout
    };
    let locks = ["--locks", "fairlock:rwlock", "--json", "-"];
    let sim = ["sim", "handoff", "--case", "sleep", "--duration", "1ms"];
    for args in [
        &[&["--all", "--case", "busy"][..], &TINY, &locks].concat()[..],
        &[&["bench", "handoff", "--case", "busy"][..], &TINY, &locks].concat(),
        &[&sim[..], &locks].concat(),
    ] {
        let document: Value = serde_json::from_slice(&run_there(args)).expect("nothing but JSON");
        assert_eq!(document["schema"], "fairlock/1", "{args:?}");
    }
    let one =
        [&sim[..], &["--locks", "fairlock:rwlock", "--threads", "2", "--trace", "-"]].concat();
    let trace: Value = serde_json::from_slice(&run_there(&one)).expect("nothing but JSON");
    assert!(trace["traceEvents"].is_array());
    assert!(entries(dir.path()).is_empty());

    let both = run(&[&one[..], &["--json", "-"]].concat());
    assert_eq!(both.status.code(), Some(2));
    assert!(stderr(&both).contains("cannot both"), "{}", stderr(&both));
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn nothing_is_wider_than_the_terminal_and_a_pipe_has_all() {
    // The longest names there are.
    let locks = "fairlock:reader_spin_always,fairlock:range_fifo,parking_lot_0.12:fair";
    let tiny = ["--secs", "0.01", "--runs", "1", "--locks", locks, "--shape", "disjoint"];
    let few = ["--threads", "2,4", "--cs-load", "1,20", "--overcommit", "1", "--section", "100"];
    let bench = ["handoff", "reader-spin", "uncontended", "batch", "range"];
    let bench =
        [&["bench"][..], &bench, &tiny, &few, &["--held", "0,4096", "--reads", "60"]].concat();
    let sim = ["sim", "all", "--quick", "--duration", "1ms"];
    let of = |args: &[&str], columns: &str| {
        let output = command(args).env("COLUMNS", columns).output().unwrap();
        // Some measurements may be too short to come to anything.
        let ended = output.status.code();
        assert!(matches!(ended, Some(0 | 1)), "{args:?}: {}", stderr(&output));
        stdout(&output)
    };
    for args in [&bench[..], &sim, &["sim", "handoff", "--duration", "1ms"], &["locks"]] {
        let narrow = of(args, "80");
        assert!(narrow.lines().count() > 20 && widest(&narrow) <= 80, "{args:?}: {narrow}");
    }
    for args in [&["sim", "handoff", "--duration", "1ms"][..], &["locks"]] {
        let wide = of(args, "");
        assert!(widest(&wide) > 80 && !wide.contains("too narrow"), "{args:?}: {wide}");
    }
}

#[test]
fn a_terminal_is_asked_how_wide_it_is() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{Winsize, tcsetwinsize};

    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let size = Winsize { ws_row: 25, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    let its_end = fs::OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut child = command(&["locks"]).env_remove("COLUMNS").stdout(its_end).spawn().unwrap();
    let (mut printed, mut bytes) = (Vec::new(), [0; 4096]);
    // With the last of its writers gone, a terminal has an error for its reader.
    while let Ok(length @ 1..) = rustix::io::read(&terminal, &mut bytes) {
        printed.extend_from_slice(&bytes[..length]);
    }
    assert!(child.wait().unwrap().success());
    let printed = String::from_utf8(printed).unwrap();
    assert!(printed.contains("fairlock:rwlock") && widest(&printed) <= 60, "{printed}");
}

#[test]
fn json_replaces_an_older_file_and_keeps_its_name_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("real.json");
    let link = dir.path().join("link.json");
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let args =
        ["bench", "uncontended", "--locks", "std", "--secs", "0.02", "--runs", "1", "--json"];
    assert!(run(&[&args[..], &[link.to_str().unwrap()]].concat()).status.success());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&file).unwrap().contains("fairlock/1"));
    assert_eq!(entries(dir.path()).len(), 2);
}

#[test]
fn json_that_cannot_be_written_is_exit_1() {
    let full = ["bench", "uncontended", "--locks", "std", "--secs", "0.02", "--json", "/dev/full"];
    let nowhere = ["bench", "handoff", "--locks", "std", "--json", "no/such/folder/x.json"];
    for (args, hint) in [(&full[..], "the disk is full"), (&nowhere, "no such folder")] {
        let output = run(args);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains("--json") && error.contains(hint), "{error}");
    }
    assert!(!fs::metadata("/dev/full").unwrap().is_file());
}

#[test]
fn results_are_kept_where_they_cannot_be_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let refused = |json: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_fairlock"))
            .args(["bench", "uncontended", "--locks", "std", "--secs", "0.02", "--runs", "1"])
            .args(["--case", "read", "--json"])
            .arg(json)
            .stdout(fs::File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot write to stdout"), "{}", stderr(&output));
        stderr(&output)
    };
    assert_eq!(refused(&file).lines().count(), 1);
    assert!(fs::read_to_string(file).unwrap().contains("fairlock/1"));
    let both = refused(Path::new("/dev/full"));
    assert!(both.contains("cannot write --json /dev/full") && both.lines().count() == 2, "{both}");
}

/// Rust's runtime opens `/dev/null` in its place, to which all can be written.
#[cfg(target_os = "linux")]
#[test]
fn what_nobody_can_see_is_exit_1() {
    let to = |stdout: &str| {
        let script = format!("exec \"$0\" locks {stdout}");
        let program = env!("CARGO_BIN_EXE_fairlock");
        Command::new("sh").args(["-c", &script, program]).output().unwrap()
    };
    let closed = to(">&-");
    assert_eq!(closed.status.code(), Some(1));
    assert_eq!(stderr(&closed), "fairlock: cannot write to stdout: it is closed\n");
    // Whoever wants nothing has nothing to complain about.
    assert_eq!(to(">/dev/null").status.code(), Some(0));
    assert_eq!(to("1<>/dev/null").status.code(), Some(0));
}

#[test]
fn a_closed_stdout_is_no_panic() {
    let mut child = command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(said, "");
}

#[test]
fn a_table_is_shown_before_the_cells_of_the_next_are_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (scenario, json) = (path("sleeper.toml"), path("out.json"));
    // The second table takes a minute.
    let sleeper = "[locks]\nheld = 1\n[[threads]]\nname = \"sleeper\"\ncount = 1\n\
                   round = [{ write = \"held\", sleep = \"60s\" }]\n";
    fs::write(&scenario, sleeper).unwrap();
    let args = ["bench", "uncontended", &scenario, "--case", "read", "--locks", "std"];
    let short = ["--secs", "0.02", "--patience", "600", "--json", &json];
    let mut child = command(&[&args[..], &short].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let table: Vec<String> =
        lines.by_ref().take_while(|line| !line.starts_with("x best")).collect();
    let count = |what: &str| table.iter().filter(|line| line.contains(what)).count();
    assert_eq!((count("uncontended:"), count("(measurements of 20.0 ms)")), (1, 1), "{table:?}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    let is_title = |line: &String| line.contains("uncontended:") || line.contains("scenario");
    assert!(!rest.iter().any(is_title), "{rest:?}");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let document: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(document["rows"].as_array().unwrap().len(), 1);
    assert_eq!(document["interrupted"], true);
}

#[test]
fn the_first_screen_is_one_table_and_its_document_has_workloads_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    let tiny = ["--locks", "std", "--secs", "0.02", "--runs", "1"];
    let shown = stdout(&run(&[&tiny[..], &["--json", file.to_str().unwrap()]].concat()));
    let starts = |with: &str| shown.lines().filter(|line| line.starts_with(with)).count();
    assert_eq!((starts("Who waits longest?"), starts("std 1."), starts("More")), (1, 1, 1));
    assert!(!shown.contains("waits of more than") && widest(&shown) <= 79, "{shown}");
    let document: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let rows = document["rows"].as_array().unwrap().iter();
    let mut run: Vec<_> = rows
        .map(|row| (row["workload"].as_str().unwrap(), row["threads"].as_u64().unwrap()))
        .collect();
    run.dedup();
    assert_eq!(run, [("handoff", 60), ("reader-spin", 8), ("reader-spin", 96), ("batch", 32)]);
}

#[test]
fn all_shows_the_tables_before_the_screen() {
    let shown = stdout(&run(&["--all", "--locks", "std", "--secs", "0.02"]));
    let titles = shown.lines().filter_map(|line| Some(line.split_once(':')?.0));
    let titles = titles.filter(|title| ["reader-spin", "handoff", "batch"].contains(title));
    let wanted = ["reader-spin", "reader-spin", "handoff", "batch"];
    assert_eq!(titles.collect::<Vec<_>>(), wanted, "{shown}");
    assert!(shown.find("Who waits longest?") > shown.find("batch:"), "{shown}");
}

/// The first line on stderr, where that is no terminal; the command is ended then.
fn first_line(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock"));
    let mut child =
        command.args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    line
}

#[test]
fn how_much_there_is_to_do_is_said_before_it_is_done() {
    let bench = ["bench", "uncontended", "--case", "read", "--locks", "std", "--secs", "100"];
    let said = "fairlock: 3 runs take some 5 min (Ctrl-C keeps what is done); fewer --locks or \
                --quick take less\n";
    assert_eq!(first_line(&bench), said);
    let sim = ["sim", "reader-spin", "--seeds", "2", "--locks", "unfair,handoff"];
    assert_eq!(first_line(&sim), "fairlock: 84 simulations to do\n");
}

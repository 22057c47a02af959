//! `fairlock run`, as its user meets it.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

mod schema;

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use fairlock_testing as _; // the watchdog
use rustix::process::{Pid, Signal, kill_process};
use schema::differences;
use serde_json::Value;

/// The library, which Cargo built because this package asks for it in its tests.
fn library() -> PathBuf {
    let tests = std::env::current_exe().expect("this test has a path");
    tests.with_file_name("libfairlock_preload.so")
}

fn fairlock() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock"));
    for variable in ["LD_PRELOAD", "FAIRLOCK_PROFILE"] {
        command.env_remove(variable);
    }
    command.env("FAIRLOCK_LIBRARY", library());
    let default = || {
        for signal in [libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: numbers.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // A shell has what it starts in the background ignore these, and so its children.
    // SAFETY: only system calls.
    unsafe { command.pre_exec(default) };
    command
}

fn run(args: &[&str]) -> Output {
    fairlock().arg("run").args(args).output().expect("fairlock starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

fn compile(name: &str, flags: &[&str]) -> PathBuf {
    compile_source("waits.c", name, flags)
}

fn compile_source(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
    let output = compiler.arg(&program).arg(source).args(flags).output();
    let output = output.unwrap_or_else(|error| panic!("cc cannot be run ({error}); install it"));
    assert!(output.status.success(), "{}", stderr(&output));
    program
}

/// A program in which one thread waits for one lock.
fn waits() -> &'static str {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("waits", &[])).to_str().unwrap()
}

#[test]
fn the_lock_that_was_waited_for_is_in_the_table() {
    let output = run(&["--", waits()]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), String::new()));
    let table = stderr(&output);
    assert!(table.contains("policy default"), "{table}");
    let lock = table.lines().find(|line| line.starts_with("the_lock")).expect(&table);
    let columns: Vec<_> = lock.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
    assert_eq!((columns[1], columns[3], columns[4]), ("rwlock", "2", "50.0 %"), "{table}");
    assert!(columns[2].ends_with("s"), "{table}");
    // One wait has no percentiles.
    assert_eq!(columns[5..8], ["-"; 3], "{table}");
    assert!(columns[8].ends_with("s"), "{table}");
}

#[test]
fn the_library_is_told_which_locks_were_asked_for() {
    for only in ["rwlock", "mutex"] {
        let output = run(&["--only", only, "--", "sh", "-c", "echo $FAIRLOCK_ONLY"]);
        assert_eq!(stdout(&output).trim(), only);
    }
}

/// A program that waits for what nobody holds.
fn sleeps() -> &'static str {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile_source("sleeps.c", "sleeps", &["-g"])).to_str().unwrap()
}

/// The record does not know of it, and is not the last word.
#[test]
fn time_in_futexes_that_no_record_knows_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("profile.json");
    let share = |text: &str| {
        let share = text.split("in futexes beyond that ").nth(1).expect(text);
        share.split(['%', ' ']).next().unwrap().parse::<f64>().unwrap()
    };
    // One of two threads is there nearly all the time.
    let args = [&["--observe", "--json", json.to_str().unwrap(), "--"], &[sleeps(), "join"][..]];
    let text = stderr(&run(&args.concat()));
    assert!(share(&text) > 10.0 && text.contains("has nothing: joins"), "{text}");
    let is_in = |document: &Value, threads: &Value, schema: &str| {
        let [all, unknown] = ["threads_ns", "unknown_futexes_ns"].map(|key| threads[key].as_f64());
        assert!(unknown.unwrap() / all.unwrap() > 0.1, "{threads}");
        let schema = fairlock().args(["schema", schema]).output().unwrap();
        let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
        assert_eq!(differences(document, &schema, &schema), [] as [String; 0]);
    };
    let profile: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    is_in(&profile, &profile["threads"], "profile");
    let page = fairlock().args(["report", json.to_str().unwrap(), "-o", "-"]).output().unwrap();
    assert!(stdout(&page).contains("in futexes beyond that"), "{}", stdout(&page));

    // Whatever else is asked for.
    let flags = ["--compare", "--runs", "1", "--json", json.to_str().unwrap(), "--"];
    let text = stderr(&run(&[&flags[..], &[sleeps(), "join"]].concat()));
    for way in ["as it is: ", "with our locks: "] {
        let line = text.lines().rfind(|line| line.starts_with(way)).expect(&text);
        assert!(share(line) > 10.0, "{text}");
    }
    let compared: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let runs = compared["runs"].as_array().unwrap();
    runs.iter().for_each(|run| is_in(&compared, &run["threads"], "compared"));
    let top = fairlock().args(["top", "--", sleeps(), "join"]).output().unwrap();
    let text = stdout(&top);
    assert!(share(text.rsplit("threads on average").next().unwrap()) > 10.0, "{text}");
}

/// What goes on is named, instead of "no lock".
#[test]
fn a_process_that_outlives_the_program_is_named() {
    let output = run(&["--observe", "--", sleeps(), "daemon"]);
    let (pid, text) = (stdout(&output), stderr(&output));
    let pid = pid.trim();
    assert!(output.status.success(), "{text}");
    assert!(text.contains(&format!("still running: {pid} (sleeps); ")), "{text}");
    assert!(!text.contains("no record"), "{text}");
    // What it has done until then is there.
    assert!(text.lines().any(|line| line.starts_with("the_condition")), "{text}");
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// An idle worker waits, and no time is lost.
#[test]
fn a_wait_for_what_nobody_holds_is_shown_apart_from_locks() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("profile.json");
    for way in [&["--observe"][..], &[]] {
        let flags = ["--charge", "waiter", "--folded", "-", "--json", json.to_str().unwrap(), "--"];
        let output = run(&[way, &flags, &[sleeps(), "condition"]].concat());
        let text = stderr(&output);
        assert!(output.status.success(), "{text}");
        let (locks, others) = text.split_once("waiting for what nobody holds").expect(&text);
        assert!(!locks.contains("the_condition") && !locks.contains("the longest waits"), "{text}");
        let row = others.lines().find(|line| line.starts_with("the_condition")).expect(&text);
        let columns: Vec<_> =
            row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!((columns[1], columns[3], columns[4]), ("condition", "1", "1"), "{text}");
        assert!(row.contains("condition (sleeps.c:"), "{text}");
        assert_eq!(stdout(&output), "", "no stacks are charged");
        let profile: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let process = &profile["processes"][0];
        let asleep = &process["asleep"][0];
        assert_eq!((&asleep["name"], &asleep["going_on"]), (&"the_condition".into(), &1.into()));
        assert_eq!(asleep["slept_ns"], asleep["sleepers"][0]["wait_total_ns"]);
        assert!(process["locks"].as_array().unwrap().iter().all(|it| it["kind"] == "mutex"));
        let schema = fairlock().args(["schema", "profile"]).output().unwrap();
        let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
        assert_eq!(differences(&profile, &schema, &schema), [] as [String; 0]);
        let args = ["report", json.to_str().unwrap(), "--format", "html", "-o", "-"];
        let page = stdout(&fairlock().args(args).output().unwrap());
        assert!(page.contains("Waiting for what nobody holds: 1 row"), "{page}");
    }
}

#[test]
fn semaphores_of_one_place_share_a_row() {
    let text = stderr(&run(&["--", sleeps(), "semaphores"]));
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("  semaphore  ")).collect();
    let [row] = rows[..] else { panic!("{text}") };
    let cells: Vec<_> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells[3..5], ["3", "3"], "{text}");
}

#[test]
fn locks_that_are_only_watched_have_lines_and_their_waits_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let [json, pprof, folded] = ["json", "pprof", "folded"].map(file);
    let paths = [&json, &pprof, &folded].map(|path| path.to_str().unwrap());
    let flags = ["--observe", "--json", paths[0], "--pprof", paths[1], "--folded", paths[2], "--"];
    let program = compile("waits-lines", &["-g"]);
    let output = run(&[&flags[..], &[program.to_str().unwrap()]].concat());
    let table = stderr(&output);
    assert!(output.status.success() && table.contains("the program's own locks"), "{table}");
    let released = "main (waits.c:21)";
    let row = table.lines().find(|line| line.starts_with("the_lock")).expect(&table);
    assert!(row.ends_with(released), "{table}");
    let wait = table.lines().find(|line| line.contains(" at reader (waits.c:")).expect(&table);
    assert!(wait.contains("for the_lock; held for ") && wait.ends_with(released), "{wait}");

    let profile: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(profile["schema"], "fairlock-profile/2");
    let lock = &profile["processes"][0]["locks"][0];
    let counts = ["reads", "writes", "waits", "given_up"].map(|key| lock[key].as_u64().unwrap());
    assert_eq!((&lock["name"], counts), (&"the_lock".into(), [1, 1, 1, 0]));
    let functions = |side: &str| {
        let places = lock[side][0]["stack"].as_array().unwrap().iter();
        places.map(|place| place["function"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(functions("waiters").contains(&"reader".into()), "{lock}");
    assert!(functions("holders").contains(&"main".into()), "{lock}");
    let total = |side: &str| lock[side][0]["wait_total_ns"].as_u64().unwrap();
    assert_eq!(total("waiters"), total("holders"));
    let wait = &profile["processes"][0]["waits"][0];
    assert!(wait["lock"] == "the_lock" && wait["passed"] == 0 && wait["reads"] == true, "{wait}");

    // Charged to the holder, the outermost function first.
    let folded = fs::read_to_string(folded).unwrap();
    let (stack, micros) = folded.trim().rsplit_once(' ').unwrap();
    assert!(stack.ends_with(";main") && micros.parse::<u64>().unwrap() >= 20_000, "{folded}");
    let mut proto = Vec::new();
    let mut pprof = flate2::read::GzDecoder::new(fs::File::open(pprof).unwrap());
    std::io::Read::read_to_end(&mut pprof, &mut proto).unwrap();
    let has = |text: &str| proto.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(["contentions", "delay", "nanoseconds", "main", "the_lock"].into_iter().all(has));
    assert!(!has("reader"), "that is the waiter");

    let waiters =
        run(&["--observe", "--charge", "waiter", "--folded", "-", "--", program.to_str().unwrap()]);
    assert!(stdout(&waiters).contains(";reader "), "{}", stdout(&waiters));
}

/// The row of a lock in the table.
fn row(program: &Path, lock: &str) -> String {
    let table = stderr(&run(&["--observe", "--", program.to_str().unwrap()]));
    table.lines().find(|line| line.starts_with(lock)).expect(&table).to_owned()
}

#[test]
fn a_function_that_ends_in_an_unlock_is_where_it_was() {
    let program = compile_source("tail.c", "tail", &["-O2", "-g"]);
    let row = row(&program, "the_mutex");
    assert!(row.contains("releases (tail.c:"), "{row}");
}

#[test]
fn lines_are_found_in_files_for_debuggers() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("stripped");
    for (flags, place) in [("-Wl,--build-id", "."), ("-Wl,--build-id=none", ".debug")] {
        // By another process, as in `a_program_with_raised_privileges_is_warned_of`.
        let compiled = compile("waits-stripped", &["-g", flags]);
        assert!(Command::new("cp").arg(compiled).arg(&program).status().unwrap().success());
        let script = "cd \"$0\" && mkdir -p \"$1\" && objcopy --only-keep-debug stripped \"$1/it.debug\" && \
                      strip stripped && objcopy --add-gnu-debuglink=\"$1/it.debug\" stripped";
        let script = Command::new("sh").args(["-c", script]).arg(folder.path()).arg(place).output();
        let done = script.unwrap();
        assert!(done.status.success(), "{}", stderr(&done));
        assert!(row(&program, "the_lock").ends_with("main (waits.c:21)"));
        // Another program's file is not believed.
        fs::copy(env!("CARGO_BIN_EXE_fairlock"), folder.path().join(place).join("it.debug"))
            .unwrap();
        let table = stderr(&run(&["--observe", "--", program.to_str().unwrap()]));
        assert!(table.contains("stripped+0x") && !table.contains("waits.c"), "{table}");
        assert!(
            table.contains("stripped has no names for such places: build it with -g"),
            "{table}"
        );
        fs::remove_file(folder.path().join(place).join("it.debug")).unwrap();
    }
}

#[test]
fn a_profile_has_a_schema_and_is_reported_on() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("profile.json");
    let program = compile("waits-reported", &["-g"]);
    let words = ["--json", json.to_str().unwrap(), "--", program.to_str().unwrap(), "0", "--json"];
    assert!(run(&words).status.success());

    let profile: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let schema = fairlock().args(["schema", "profile"]).output().unwrap();
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    assert_eq!(profile["schema"], schema["properties"]["schema"]["const"]);
    assert_eq!(differences(&profile, &schema, &schema), [] as [String; 0]);
    // Where the result went is nobody's business, but what the program was told is.
    let command = format!("fairlock run -- {} 0 --json", program.display());
    assert_eq!(profile["command"], command);

    let report = |format: &str| {
        let args = ["report", json.to_str().unwrap(), "--format", format, "-o", "-"];
        let output = fairlock().args(args).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let page = report("html");
    for said in [
        "<h1>Locks: locks of waits-reported</h1>",
        // Where every figure is from.
        &command,
        "policy default",
        "version 0.",
        "Time lost at each lock",
        "Waits for each lock",
        "<title>the_lock: p50 ",
        "<summary>Locks: 1 row</summary>",
        "<td>rwlock",
        "<th scope=\"col\">p99.9</th>",
        "<summary>Where was waited: 1 row</summary>",
        "reader (waits.c:10) ←",
        "<summary>Where the lock was released that they waited for: 1 row</summary>",
        "main (waits.c:21) ←",
        "<summary>The longest waits: 1 row</summary>",
    ] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let markdown = report("md");
    assert!(markdown.contains("**locks of waits-reported**") && markdown.contains(&command));
    let row = markdown.lines().find(|line| line.starts_with("| the_lock | rwlock |")).unwrap();
    assert!(row.contains(" | 2 | 50.0 % |"), "{markdown}");
    let csv = report("csv");
    assert!(csv.starts_with("program,pid,name,kind,") && csv.contains("wait_p999_ns"), "{csv}");
    assert!(csv.contains(",the_lock,rwlock,") && csv.lines().count() == 2, "{csv}");
    let svg = report("svg");
    assert!(svg.starts_with("<svg ") && svg.contains("the_lock: "), "{svg}");
}

#[test]
fn the_report_is_kept_where_it_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("locks.json");
    let output = run(&["--json", file.to_str().unwrap(), waits()]);
    assert!(output.status.success());
    let profile: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!(profile["processes"][0]["locks"][0]["waits"], 1);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_report_named_dash_follows_what_the_program_printed() {
    let script = format!("echo printed; {}", waits());
    let output = run(&["--json", "-", "--", "sh", "-c", &script]);
    let printed = stdout(&output);
    let (first, profile) = printed.split_once('\n').unwrap();
    let profile: Value = serde_json::from_str(profile).unwrap();
    assert_eq!((first, &profile["processes"][0]["locks"][0]["waits"]), ("printed", &1.into()));
}

#[test]
fn the_report_is_no_wider_than_the_terminal() {
    let output = fairlock().args(["run", "--", waits()]).env("COLUMNS", "80").output().unwrap();
    let table = stderr(&output);
    assert!(
        table.contains("the_lock") && table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
    // Not even room for the columns that are always there.
    let output = fairlock().args(["run", "--", waits()]).env("COLUMNS", "8").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_exit_code_is_the_program_s() {
    assert_eq!(run(&[waits(), "7"]).status.code(), Some(7));
    let killed = run(&["sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(128 + 9));
    assert!(
        stderr(&killed).contains("signal 9") && stderr(&killed).contains("took no pthread lock")
    );
}

#[test]
fn every_process_has_its_locks_in_the_table() {
    let script = format!("{0}; {0} 3", waits());
    let output = run(&["--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(3));
    let table = stderr(&output);
    assert!(table.lines().filter(|line| line.starts_with("the_lock")).count() == 2, "{table}");
    assert!(table.contains("process"), "{table}");
}

#[test]
fn what_is_preloaded_already_stays() {
    let output = fairlock()
        .args(["run", "--", "sh", "-c", "echo $LD_PRELOAD"])
        .env("LD_PRELOAD", "libpthread.so.0")
        .output()
        .unwrap();
    let preloaded = stdout(&output);
    let (ours, others) = preloaded.trim().split_once(':').unwrap();
    assert!(ours.ends_with("libfairlock_preload.so"));
    assert_eq!(others, "libpthread.so.0");
}

/// Where there is gcc's library for it.
/// However its runtime is linked.
#[test]
fn a_program_with_thread_sanitizer_runs_on_its_own_locks_and_is_told_of() {
    let file = Command::new("cc").arg("-print-file-name=libtsan.so").output();
    if !file.is_ok_and(|file| stdout(&file).contains('/')) {
        let _ = writeln!(io::stderr(), "\nNOT TESTED: ThreadSanitizer, as there is no libtsan\n");
        return;
    }
    for flags in [&["-fsanitize=thread"][..], &["-fsanitize=thread", "-static-libtsan"]] {
        let program =
            compile_source("../../../fairlock-preload/tests/c/sanitized.c", "sanitized", flags);
        for way in [&[][..], &["--observe"], &["--compare", "--runs", "1"]] {
            let output = run(&[way, &["--", program.to_str().unwrap()]].concat());
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(0), "{said}");
            let told = said.lines().filter(|line| line.contains("ThreadSanitizer")).count();
            assert!(told == 1 && !said.contains("no record"), "{said}");
        }
        // A script says nothing of what it will start: the library does.
        if flags.len() == 1 {
            let said = stderr(&run(&["--", "sh", "-c", &format!("{}; true", program.display())]));
            assert!(said.contains("ThreadSanitizer") && !said.contains("WARNING"), "{said}");
        }
    }
}

#[test]
fn a_program_with_address_sanitizer_runs_and_is_recorded() {
    let file = Command::new("cc").arg("-print-file-name=libasan.so").output();
    let file = file.unwrap_or_else(|error| panic!("cc cannot be run ({error}); install it"));
    if !Path::new(stdout(&file).trim()).is_absolute() {
        let _ = writeln!(io::stderr(), "\nNOT TESTED: AddressSanitizer, as there is no libasan\n");
        return;
    }
    let program = compile("waits-asan", &["-fsanitize=address"]);
    for flags in [&["run"][..], &["run", "--observe"]] {
        let output = fairlock().args(flags).arg("--").arg(&program).output().unwrap();
        let table = stderr(&output);
        assert!(output.status.success(), "{table}");
        assert!(table.lines().any(|line| line.starts_with("the_lock")), "{table}");
    }
}

#[test]
fn a_program_without_locks_is_said_to_have_none() {
    let output = run(&["true"]);
    assert!(output.status.success() && stderr(&output).contains("took no pthread lock"));
}

#[test]
fn what_is_missing_is_said_with_how_to_mend_it() {
    let missing = run(&["no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    assert_eq!(
        stderr(&missing),
        "fairlock: there is no program `no-such-program` to run; give its path, or a name that is on PATH\n"
    );

    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "not a program").unwrap();
    assert_eq!(run(&[text.to_str().unwrap()]).status.code(), Some(126));

    // One that has no library beside it. Not a copy: a process that another test starts
    // could still have it open for writing, and then it cannot be run.
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let link = elsewhere.path().join("fairlock");
    fs::hard_link(env!("CARGO_BIN_EXE_fairlock"), &link).unwrap();
    let output = Command::new(link).args(["run", "true"]).env_remove("FAIRLOCK_LIBRARY").output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("-p fairlock-preload"), "{}", stderr(&output));

    let file = folder.path().join("no/locks.json");
    let output = run(&["--json", file.to_str().unwrap(), "sh", "-c", "echo ran"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    assert!(stderr(&output).contains("cannot write --json "));
}

#[test]
fn bad_usage_is_one_line_and_exit_2() {
    for (args, hint) in [(&["--only", "best", "true"][..], "rwlock"), (&[], "PROGRAM")] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = stderr(&output);
        assert!(said.lines().count() == 1 && said.contains(hint), "{said}");
    }
}

#[test]
fn a_static_program_runs_and_is_said_to_have_no_report() {
    let program = compile("waits-static", &["-static"]);
    let output = run(&[program.to_str().unwrap(), "5"]);
    assert_eq!(output.status.code(), Some(5));
    let said = stderr(&output);
    let no_locks = !said.contains("no record") && !said.contains("the_lock");
    assert!(said.contains("linked statically") && no_locks, "{said}");
}

#[test]
fn a_program_with_raised_privileges_is_warned_of() {
    // SAFETY: no arguments, and never fails.
    if unsafe { libc::geteuid() } != 0 {
        let _ = writeln!(
            io::stderr(),
            "\nNOT TESTED: only root can make a program that runs as somebody else\n"
        );
        return;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("raised");
    // By another process: one that a test beside this one starts could still have the file
    // open for writing if this one had, and then it cannot be run.
    assert!(Command::new("cp").arg("/bin/true").arg(&program).status().unwrap().success());
    std::os::unix::fs::chown(&program, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let output = run(&[program.to_str().unwrap()]);
    assert!(stderr(&output).contains("raised privileges"), "{}", stderr(&output));
}

#[test]
fn a_signal_is_passed_on_and_the_report_still_printed() {
    // The shell alone, which ends by `_exit`: a program that it started would report.
    let script = "trap 'exit 9' TERM; echo waiting; while :; do :; done";
    let mut child = fairlock()
        .args(["run", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "waiting\n");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    assert!(stderr(&output).contains("took no pthread lock"), "{}", stderr(&output));
}

/// Each reaches the program, and neither it nor its record is left behind.
#[test]
fn a_signal_to_this_process_alone_ends_the_program_too() {
    for signal in [Signal::INT, Signal::QUIT, Signal::USR1, Signal::ALARM] {
        let mut child =
            fairlock().args(["run", "--", "sleep", "60"]).stderr(Stdio::null()).spawn().unwrap();
        let process = PathBuf::from(format!("/proc/{}", sleep_of(&child)));
        let folder = recorded_in(&process);
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + signal.as_raw()));
        assert!(!process.exists() && !folder.exists());
    }
}

/// What somebody puts there is neither waited for nor followed, and others than the user's own programs put
/// nothing there.
#[test]
fn what_strangers_put_into_the_folder_keeps_nobody_waiting() {
    let script = "cd \"$FAIRLOCK_PROFILE\" && mkfifo a && ln -s /dev/zero b && cd .. && ls -ld . \"$OLDPWD\"";
    let output = run(&["--", "sh", "-c", script]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("/a: ") && said.contains("/b: "), "{said}");
    let listed = stdout(&output);
    let modes: Vec<&str> = listed.lines().map(|line| &line[..10]).collect();
    match rustix::process::geteuid().is_root() {
        // The name of the folder is a secret.
        true => assert_eq!(modes, ["drwx--x--x", "drwx-wx-wt"]),
        false => assert_eq!(modes[1], "drwx------"),
    }
}

/// As under nohup, and as what a script starts in the background.
#[test]
fn what_is_ignored_stays_ignored() {
    let script =
        "trap '' HUP INT; exec \"$0\" run -- sh -c 'kill -HUP $$; kill -INT $$; echo here'";
    let output = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_fairlock")])
        .env("FAIRLOCK_LIBRARY", library())
        .output()
        .unwrap();
    assert_eq!((output.status.code(), &*stdout(&output)), (Some(0), "here\n"), "{output:?}");
}

/// A shell's script has it so for what it starts in the background.
#[test]
fn an_ignored_signal_reaches_a_program_that_handles_it() {
    let program = compile_source("handles.c", "handles", &[]);
    for (signal, code) in [(Signal::INT, 9), (Signal::QUIT, 10)] {
        let mut child = Command::new("sh")
            .args([
                "-c",
                "trap '' INT QUIT; exec \"$0\" run -- \"$1\"",
                env!("CARGO_BIN_EXE_fairlock"),
            ])
            .arg(&program)
            .env("FAIRLOCK_LIBRARY", library())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{line}{}", stderr(&output));
    }
}

/// A terminal of the command's own: the side of the keyboard, and the command's.
fn terminal_for(command: &mut Command) -> [libc::c_int; 2] {
    let (mut terminal, mut other) = (0, 0);
    let no_name = std::ptr::null_mut();
    // SAFETY: both numbers are written.
    let opened = unsafe {
        libc::openpty(&mut terminal, &mut other, no_name, std::ptr::null(), std::ptr::null())
    };
    assert_eq!(opened, 0);
    let has_terminal = move || {
        // SAFETY: numbers; only system calls.
        match unsafe { (libc::setsid(), libc::ioctl(other, libc::TIOCSCTTY, 0)) } {
            (-1, _) | (_, -1) => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: see above.
    unsafe { command.pre_exec(has_terminal) };
    [terminal, other]
}

#[test]
fn the_key_q_ends_top_and_the_terminal_is_as_before() {
    let mut command = fairlock();
    let [terminal, other] = terminal_for(&mut command);
    // SAFETY: the number is of this process, and each `Stdio` has one of its own.
    let [stdin, stdout, mut keyboard] =
        [other, other, terminal].map(|number| unsafe { fs::File::from_raw_fd(libc::dup(number)) });
    let mode = || rustix::termios::tcgetattr(&keyboard).unwrap().local_modes;
    let before = mode();
    let own = std::process::id().to_string();
    command.args(["top", "--every", "60s", &own]).stdin(stdin).stdout(stdout);
    let mut top = command.spawn().unwrap();
    while mode() == before {
        std::thread::yield_now();
    }
    keyboard.write_all(b"q").unwrap();
    assert_eq!(top.wait().unwrap().code(), Some(0));
    assert_eq!(rustix::termios::tcgetattr(&keyboard).unwrap().local_modes, before);
}

/// It sends it to the processes of its group in the foreground, which a program may have left.
#[test]
fn the_terminal_s_signal_ends_the_program_and_the_report_is_printed() {
    for program in [&["sleep", "60"][..], &["setsid", "sleep", "60"]] {
        let mut command = fairlock();
        command.args(["run", "--"]).args(program).stderr(Stdio::piped());
        let [terminal, _] = terminal_for(&mut command);
        let child = command.spawn().unwrap();
        let pid = sleep_of(&child);
        let folder = recorded_in(&PathBuf::from(format!("/proc/{pid}")));
        // Made when the library is loaded.
        while !folder.join(format!("{pid}.fairlock")).exists() {
            std::thread::yield_now();
        }
        // SAFETY: one byte to read.
        assert_eq!(unsafe { libc::write(terminal, b"\x03".as_ptr().cast(), 1) }, 1);
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(128 + 2), "{said}");
        assert!(said.contains("was ended by signal 2") && said.contains("took no"), "{said}");
    }
}

#[test]
fn the_table_is_printed_even_if_the_report_cannot_be_kept() {
    let output = run(&["--json", "/dev/full", "--", waits()]);
    let said = stderr(&output);
    assert!(said.contains("the_lock") && said.contains("/dev/full"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_full_disk_keeps_from_nobody_what_goes_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stacks");
    let folded = file.to_str().unwrap();
    let output = run(&["--json", "/dev/full", "--folded", folded, "--", waits()]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("cannot write --json /dev/full"), "{}", stderr(&output));
    assert!(!fs::read(file).unwrap().is_empty());
    let full = ["--json", "/dev/full", "--folded", "/dev/full", "--trace", "/dev/full"];
    let said = stderr(&run(&[&full[..], &["--", waits()]].concat()));
    for flag in full.iter().step_by(2) {
        assert!(said.contains(&format!("cannot write {flag} /dev/full")), "{said}");
    }
}

#[test]
fn both_ways_are_compared() {
    let output = run(&["--compare", "--runs", "2", "--", waits()]);
    let said = stderr(&output);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), String::new()), "{said}");
    let row = said.lines().find(|line| line.starts_with("the_lock")).expect(&said);
    let columns: Vec<_> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    // One reader, which waits each time, either way.
    assert_eq!((columns.len(), columns[1], columns[2]), (9, "1", "1"), "{said}");
    assert!(said.contains("as it is, ") && said.contains("more --runs"), "{said}");

    // The program's exit code is its own affair, as long as it is the same both ways.
    let output = run(&["--compare", "--runs", "1", "--", waits(), "3"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("the_lock") && said.contains("exit status: 3 in all of"), "{said}");
}

#[test]
fn what_each_run_was_like_is_kept_with_a_schema() {
    let parsed = |output: &Output| -> Value {
        let kept = serde_json::from_slice(&output.stdout);
        kept.unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
    };
    let kept = parsed(&run(&["--compare", "--runs", "4", "--json", "-", "--", waits()]));
    let schema = fairlock().args(["schema", "compared"]).output().unwrap();
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    assert_eq!(kept["schema"], schema["properties"]["schema"]["const"]);
    assert_eq!(differences(&kept, &schema, &schema), [] as [String; 0]);
    let runs = kept["runs"].as_array().unwrap();
    let observed: Vec<_> = runs.iter().map(|run| run["observed"].as_bool().unwrap()).collect();
    assert_eq!(observed, [[true; 4], [false; 4]].concat(), "{kept}");
    for run in runs {
        let lock = &run["locks"][0];
        assert_eq!((&lock["name"], &lock["waits"]), (&"the_lock".into(), &1.into()), "{kept}");
        assert!(run["secs"].as_f64() > Some(0.03) && lock["wait_total_ns"].as_u64() > Some(0));
    }
    let times = &kept["times_as_long"];
    let [low, value, high] = ["low", "value", "high"].map(|key| times[key].as_f64().unwrap());
    assert!(low <= value && value <= high, "{times}");

    // Of an early end, what there is.
    let output = run(&["--compare", "--json", "-", "--", "sh", "-c", "kill -TERM $PPID; sleep 60"]);
    assert_eq!(output.status.code(), Some(128 + 15), "{}", stderr(&output));
    let kept = parsed(&output);
    assert!(kept["interrupted"] == true && kept["runs"] == Value::Array(Vec::new()), "{kept}");
}

#[test]
fn rounds_that_were_finished_are_shown_where_a_later_one_is_not() {
    for (last, code, why) in [
        ("exit 4", 4, "exit status: 4, run with our locks, the first with exit status: 0"),
        ("kill -KILL $$", 128 + 9, "signal: 9"),
        ("kill -TERM $PPID; sleep 60", 128 + 15, "interrupted"),
        ("trap '' TERM; kill -TERM $PPID", 128 + 15, "interrupted"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        // The order is: as it is, ours; ours.
        let script = format!("echo >>$0; test $(wc -l <$0) -lt 3 || {{ {last}; }}");
        let runs = runs.to_str().unwrap();
        let output = run(&["--compare", "--runs", "9", "--", "sh", "-c", &script, runs]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(why) && said.contains("it took "), "{said}");
    }
}

/// Neither the program nor its record is left behind.
#[test]
fn a_signal_ends_top_and_its_program() {
    let mut top = fairlock()
        .args(["top", "--every", "60s", "--", "sleep", "60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let process = PathBuf::from(format!("/proc/{}", sleep_of(&top)));
    let folder = recorded_in(&process);
    assert!(folder.is_dir(), "{folder:?}");
    kill_process(Pid::from_child(&top), Signal::TERM).unwrap();
    assert_eq!(top.wait().unwrap().code(), Some(128 + 15));
    assert!(!process.exists() && !folder.exists());
}

/// The number of the process `sleep` that was started, once it is that program.
fn sleep_of(parent: &Child) -> String {
    let children = format!("/proc/{0}/task/{0}/children", parent.id());
    let started = || fs::read_to_string(&children).unwrap().trim().to_owned();
    let sleep = std::iter::repeat_with(started).find(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == "sleep")
    });
    sleep.unwrap()
}

/// Where the process is to leave its record.
fn recorded_in(process: &Path) -> PathBuf {
    // It is empty for a moment while the program starts.
    let environment = || fs::read_to_string(process.join("environ")).unwrap();
    let mut all = std::iter::repeat_with(environment);
    let environment = all.find(|environment| !environment.is_empty()).unwrap();
    let mut told = environment.split('\0').filter_map(|it| it.strip_prefix("FAIRLOCK_PROFILE="));
    told.next().unwrap().into()
}

/// The folder for its record is gone.
#[test]
fn a_process_that_outlives_the_program_leaves_no_file() {
    let later = format!("echo $FAIRLOCK_PROFILE; (sleep 0.5; {}) &", waits());
    let output = fairlock().args(["run", "--", "sh", "-c", &later]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // All who had the pipe have ended by now.
    let folder = stdout(&output).trim().trim_end_matches('/').to_owned();
    assert!(folder.starts_with('/') && !Path::new(&folder).exists(), "{folder}");
}

#[test]
fn a_program_is_looked_at_while_it_runs() {
    let top = |args: &[&str]| fairlock().arg("top").args(args).output().expect("fairlock starts");
    // The last look is after its end, however soon that was.
    let output = top(&["--every", "20ms", "--", waits(), "3"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let shown = stdout(&output);
    assert!(shown.lines().last().is_some_and(|line| line.contains("for the_lock")), "{shown}");

    let mut child = fairlock().args(["run", "--observe", "--", "sleep", "60"]).spawn().unwrap();
    let sleep = sleep_of(&child);
    let output = top(&["--every", "1ms", "--looks", "2", &sleep]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // It ends with the program, whose record is gone then.
    let mut watching = fairlock();
    let watching = watching.args(["top", "--every", "1ms", &sleep]).stderr(Stdio::piped());
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    let mut looks = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert!(looks.any(|line| line.unwrap().contains("no program that runs has taken a")));
    kill_process(Pid::from_raw(sleep.parse().unwrap()).unwrap(), Signal::TERM).unwrap();
    child.wait().unwrap();
    looks.for_each(drop);
    let output = watching.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*stderr(&output)), (Some(0), ""));

    // Threads of other tests wait there, too, and not all are shown.
    let own = std::process::id();
    let output = top(&["--looks", "1", &own.to_string()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains(&format!("({own}): ")), "{}", stdout(&output));

    let output = top(&[]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("`fairlock top PID`") && said.contains("`fairlock top -- PRO"), "{said}");
}

/// However the program was told where to record, and whatever others left there.
#[test]
fn a_program_that_was_told_to_record_is_looked_at() {
    let program = compile("waits-stays", &["-DSTAYS"]);
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("records")).unwrap();
    for told in [&*folder.path().join("records").to_string_lossy(), "records", "of-%p"] {
        let mut child = Command::new(&program)
            .env("LD_PRELOAD", library())
            .env("FAIRLOCK_PROFILE", told)
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = child.id().to_string();
        let output = fairlock().args(["top", "--every", "1ms", "--looks", "1", &pid]).output();
        let output = output.unwrap();
        let shown = stdout(&output);
        assert!(shown.contains(&format!("({pid}): 1 lock, taken 2 times")), "{told}: {shown}");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

/// That of a service, which `fairlock run` has not started.
#[test]
fn a_record_is_reported_on_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mut program = Command::new(compile("waits-recorded", &["-g"]));
    program.env("LD_PRELOAD", library()).env("FAIRLOCK_OBSERVE", "1");
    assert!(program.env("FAIRLOCK_PROFILE", folder.path()).status().unwrap().success());
    let file = fs::read_dir(path).unwrap().next().unwrap().unwrap().path();
    let said = |args: &[&str]| {
        let output = fairlock().args(args).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    for record in [path, file.to_str().unwrap()] {
        let text = said(&["report", record, "--format", "text"]);
        let row = text.lines().find(|line| line.starts_with("the_lock")).expect(&text);
        assert!(row.ends_with("main (waits.c:21)"), "{text}");
        let page = said(&["report", record, "--format", "html", "-o", "-"]);
        assert!(page.contains("locks of waits-recorded") && page.contains("reader (waits.c:10)"));
        let same = said(&["compare", path, record]);
        assert!(same.contains("the_lock") && same.contains("lost in all: "), "{same}");
    }
    let none = tempfile::tempdir().unwrap();
    let none = none.path().to_str().unwrap();
    for args in [&["report", none][..], &["report", none, "--format", "text"]] {
        let output = fairlock().args(args).output().unwrap();
        let said = stderr(&output);
        assert!(output.status.code() == Some(2) && said.contains("record"), "{said}");
    }
}

//! What is typed wrong, and files that are not what they should be: each is refused in one line that
//! says how to mend it, by every subcommand. Nothing here is measured.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use fairlock_testing as _; // the watchdog

fn fairlock(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairlock")).args(args).output().expect("fairlock starts")
}

/// Is refused with this exit code, and told this.
fn refused(args: &[&str], code: i32, mend: &str) {
    let output = fairlock(args);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    assert!(error.contains(mend) && error.lines().count() == 1, "{args:?}: {mend}: {error}");
    assert!(error.starts_with("fairlock: ") && !error.contains("panicked"), "{args:?}: {error}");
    assert!(output.stdout.is_empty(), "{args:?}");
}

const SUBCOMMANDS: [&str; 12] = [
    "bench",
    "sim",
    "compare",
    "report",
    "doctor",
    "calibrate",
    "torture",
    "top",
    "locks",
    "machines",
    "completions",
    "schema",
];

#[test]
fn every_subcommand_refuses_a_flag_that_it_has_not() {
    for subcommand in SUBCOMMANDS {
        refused(&[subcommand, "--no-such-flag"], 2, "'--no-such-flag'");
        refused(&[subcommand, "--no-such-flag"], 2, &format!("see `fairlock {subcommand} --help`"));
    }
    refused(&["--no-such-flag"], 2, "see `fairlock --help`");
    refused(&["nosuch"], 2, "'nosuch'");
}

#[test]
fn what_is_left_out_is_named() {
    for (args, mend) in [
        (&["bench"][..], "name a workload: handoff,"),
        (&["sim"], "name a workload to simulate: handoff,"),
        (&["compare"], "fairlock compare needs BEFORE.json and AFTER.json; see `fairlock compare"),
        (&["compare", "a.json"], "fairlock compare needs AFTER.json;"),
        (&["report"], "fairlock report needs RESULT.json...;"),
        (&["run"], "fairlock run needs PROGRAM...;"),
        (&["run", "--threshold", "some", "true"], "use a time with its unit, such as 10ms"),
        (&["run", "--threshold", "99999999999999999999s", "true"], "use 1000days at most"),
        (&["machines", "show"], "fairlock machines show needs NAME; see `fairlock machines show"),
        (&["completions"], "fairlock completions needs SHELL;"),
        (&["bench", "handoff", "--json"], "'--json <FILE>'"),
    ] {
        if args[0] != "run" || cfg!(target_os = "linux") {
            refused(args, 2, mend);
        }
    }
}

#[test]
fn a_value_that_makes_no_sense_is_refused_with_one_that_does() {
    for (args, mend) in [
        (&["bench", "handof"][..], "did you mean 'handoff'?"),
        (&["bench", "handoff", "--threads", "x"], "use a whole number"),
        (&["bench", "handoff", "--threads", ""], "use a whole number"),
        (&["bench", "handoff", "--threads", "99999999999999999999"], "use a smaller number"),
        (&["bench", "handoff", "--threads", "0"], "use 1 to 10000"),
        (&["bench", "handoff", "--secs", "x"], "use a number"),
        (&["bench", "handoff", "--secs", "0"], "use 0.01 to 3600"),
        (&["bench", "handoff", "--secs", "-1"], "use 0.01 to 3600"),
        (&["bench", "handoff", "--secs", "inf"], "use 0.01 to 3600"),
        (&["bench", "handoff", "--secs", "NaN"], "use 0.01 to 3600"),
        (&["bench", "handoff", "--runs", "0"], "use 1 to 1000"),
        (&["bench", "handoff", "--threads", "10001"], "use 1 to 10000"),
        (&["bench", "handoff", "--threads", "-1"], "--threads -1 makes no sense: use a value that"),
        (&["bench", "handoff", "--threads", "1,-1"], "use a number that is not negative"),
        (
            &["bench", "handoff", "--runs", "-1"],
            "--runs -1 makes no sense: use a value that is not",
        ),
        (&["bench", "batch", "--overcommit", "-1"], "use a value that is not negative"),
        (&["bench", "handoff", "--cs-load", "99999999999"], ": use 0 to 4294967295"),
        (&["bench", "uncontended", "--locks", "ref:bravo,nosuch"], "no lock 'nosuch'"),
        (&["bench", "handoff", "--beside", "1001"], "1000 at most"),
        (&["bench", "handoff", "--beside", "some"], "use a whole number"),
        (&["bench", "reader-spin", "--threads", "1"], "2 or more"),
        (&["bench", "batch", "--overcommit", "0"], "use more than 0"),
        (&["bench", "batch", "--overcommit", "NaN"], "use more than 0"),
        (&["bench", "batch", "--overcommit", "1e9"], "use more than 0"),
        (&["bench", "batch", "--overcommit", "twice"], "use a number"),
        (&["bench", "range", "--reads", "200"], "use 0 to 100"),
        (&["bench", "range", "--held", "2000000"], "use 0 to 1000000"),
        (&["bench", "range", "--shape", "randm"], "did you mean 'random'?"),
        (&["bench", "think", "--form", "rwlok"], "did you mean 'rwlock'?"),
        (&["bench", "think", "--outside", "4000000"], "a shorter --section"),
        (&["bench", "think", "--form", "rwlock,mutex", "--reads", "90"], "--reads 0"),
        (&["sim", "think", "--form", "mutex", "--reads", "90,99"], "--reads 0"),
        (&["bench", "spread", "--among", "0"], "use 1 to 1000000"),
        (&["bench", "idle", "--holder", "awya"], "did you mean 'away'?"),
        (&["bench", "handoff", "--locks", "parkinglot"], "'parking_lot'"),
        (&["bench", "handoff", "--locks", "rwlok"], "'fairlock:rwlock'"),
        (&["bench", "batch", "--locks", "mutx"], "'fairlock:mutex'"),
        (&["bench", "handoff", "--locks", "ref:mcs"], "is a mutex"),
        (&["bench", "range", "--locks", "ref:mcs"], "is a mutex"),
        (&["bench", "handoff", "--case", "mixed"], "leave out --case"),
        (&["bench", "handoff", "--locks", "nosuch"], "`fairlock locks` lists them"),
        (&["bench", "handoff", "--case", "bussy"], "did you mean 'busy'?"),
        (&["sim", "handoff", "--duration", "x"], "such as 10ms"),
        (&["sim", "handoff", "--duration", "5"], "use a time with its unit, such as 10ms"),
        (&["sim", "handoff", "--duration", "-5ms"], "--duration -5ms makes no sense: use a value"),
        (&["sim", "handoff", "--duration", "0"], "use more than zero"),
        (&["sim", "handoff", "--seeds", "0"], ": use 1 to 1000;"),
        (&["sim", "--locks", "tenure:budget=1"], "name a workload to simulate: handoff,"),
        (&["calibrate", "--for", "0s"], "use more than zero"),
        (&["calibrate", "--for", "-1s"], "--for -1s makes no sense: use a value that is not"),
        (&["calibrate", "--for", "100000000000y"], "use 1000days at most"),
        (&["sim", "handoff", "--machine", "nosuch"], "there are two_cpu"),
        (&["sim", "handoff", "--policy", "tenure:x=1"], "handoff_after"),
        (&["machines", "show", "nosuch"], "there are two_cpu"),
        (&["torture", "--locks", "nosuch"], "there are rwsem:default"),
        (&["torture", "--schedules", "x"], "use a whole number"),
        (&["torture", "--for", "1m"], "add --real"),
        (&["torture", "--overcommit", "2"], "add --real"),
        (&["torture", "--real", "--schedules", "5"], "leave out --schedules"),
        (&["torture", "--real", "--for", "x"], "such as 10ms"),
        (&["torture", "--real", "--for", "0"], "use more than zero"),
        (&["torture", "--real", "--for", "100000000000y"], "use 1000days at most"),
        (&["torture", "--real", "--overcommit", "0"], "use more than 0"),
        (&["torture", "--real", "--locks", "mutx"], "did you mean 'mutex'?"),
        (&["torture", "--schedules", "0"], ": use 1 or more;"),
        (&["top", "--every", "0s", "1"], "use more than zero"),
        (&["top", "--looks", "0", "1"], ": use 1 to 4294967295;"),
        (&["torture", "--seed", "1", "--schedules", "18446744073709551615"], "2^64"),
        (&["completions", "nosh"], "bash"),
        (&["schema", "nosuch"], "results, profile"),
        (&["compare", "a", "b", "--fail-on-regression", "x"], "use a number, such as 5"),
        (&["top", "x"], "use a whole number"),
    ] {
        refused(args, 2, mend);
    }
}

#[test]
fn a_flag_that_no_chosen_workload_has_is_refused_with_those_that_do() {
    for (args, mend) in [
        (&["--among", "16"][..], "--among is only for spread: leave it out"),
        (&["bench", "handoff", "--among", "16"], "--among is only for spread: leave it out"),
        (&["bench", "handoff", "condvar", "--reads", "5"], "range, think, spread, idle: leave"),
        (&["bench", "handoff", "--cs-load", "1"], "reader-spin, batch: leave"),
        (&["bench", "idle", "--threads", "2"], "only for handoff, reader-spin, batch,"),
        (&["bench", "handoff", "--dir", "."], "--dir is only for direct-io, range: leave"),
        (&["bench", CACHE, "--form", "mutex"], "--form is only for think, spread, idle: leave"),
        (&["bench", CACHE, "--threads", "2"], "its file says how many"),
        (&["sim", "think", "--among", "16"], "--among is only for spread: leave it out"),
        (&["sim", "direct-io", "--threads", "2"], "only for handoff, reader-spin, batch, range"),
        (&["sim", CACHE, "--overcommit", "2"], "--overcommit is only for batch: leave it out"),
        (&["sim", "handoff", "--real", "x", "--threads", "2"], "cannot be used with '--threads"),
    ] {
        refused(args, 2, mend);
    }
    // One of several workloads is enough.
    let both = ["sim", "handoff", "spread", "--among", "16", "--quick", "--duration", "1ms"];
    assert!(fairlock(&both).status.success());
}

/// States of a file that should have a result in it.
const STATES: [(&str, Option<&str>, &str); 6] = [
    ("missing", None, "there is no such file; make it with `fairlock"),
    ("empty", Some("\n"), "is empty: make it again, with `fairlock"),
    ("text", Some("lock  kop/s\nstd  200\n"), "is no result: give a file of `fairlock"),
    ("cut", Some(r#"{ "schema": "fairlock/1", "rows": [ {"#), "was cut short"),
    (
        "older",
        Some(r#"{ "schema": "fairlock/0" }"#),
        "this program reads fairlock/1: make it again",
    ),
    ("other", Some(r#"{ "schema": "else/1" }"#), "has the schema 'else/1', not fairlock/1: give"),
];

#[test]
fn a_file_that_is_no_result_is_refused_by_all_that_read_results() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let refused_by_all = |file: &str, mend: &str| {
        for args in [
            &["report", file][..],
            &["compare", file, file],
            &["bench", "handoff", "--baseline", file],
            &["sim", "handoff", "--real", file],
        ] {
            refused(args, 2, mend);
        }
    };
    for (name, text, mend) in STATES {
        let file = path(name);
        if let Some(text) = text {
            fs::write(Path::new(&file), text).unwrap();
        }
        refused_by_all(&file, mend);
    }
    refused_by_all(folder.path().to_str().unwrap(), "name a file in it");
}

#[test]
fn a_scenario_or_machine_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (empty, text) = (file("empty.toml", ""), file("text.toml", "[[not"));
    let missing = folder.path().join("missing.toml").to_str().unwrap().to_owned();
    for (file, scenario, machine) in [
        (&empty, "docs/guide/scenario.md", "add the key"),
        (&text, "line 1: ", "correct the value"),
        (&missing, "docs/guide/scenario.md", "name a readable machine file"),
    ] {
        refused(&["bench", file], 2, scenario);
        refused(&["sim", file], 2, scenario);
        refused(&["sim", "handoff", "--machine", file], 2, machine);
    }
}

const CACHE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scenarios/cache.toml");

/// What `bench` writes, as short as it can be.
const MEASURED: &str = r#"{ "schema": "fairlock/1", "machine": {}, "command": "fairlock bench handoff", "rows": [
    { "workload": "handoff", "case": "busy", "lock": "fairlock:rwlock", "threads": 2, "side": "write",
      "runs": 1, "ops_per_s": 5.0, "starved_threads": 18446744073709551615 },
    { "workload": "handoff", "case": "busy", "lock": "fairlock:rwlock", "threads": 4, "side": "write",
      "runs": 1, "ops_per_s": 5.0, "starved_threads": 18446744073709551615 } ] }"#;

#[test]
fn what_is_read_is_not_overwritten_nor_one_output_by_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (measured, same) = (path("measured.json"), path("./measured.json"));
    fs::write(&measured, MEASURED).unwrap();
    let another = "is a file that is read, and would be lost; name another";
    refused(&["report", &measured, "-o", &measured], 2, "there is no format 'json'");
    refused(&["report", &measured, "-o", &same, "--format", "csv"], 2, another);
    refused(&["sim", "handoff", "--real", &measured, "--json", &same], 2, another);
    refused(&["bench", "handoff", "--baseline", &measured, "--json", &same], 2, another);
    assert_eq!(fs::read_to_string(&measured).unwrap(), MEASURED);
    let (machine, scenario) = (path("machine.toml"), path("scenario.toml"));
    fs::write(&machine, fairlock(&["machines", "show", "two_cpu"]).stdout).unwrap();
    fs::copy(CACHE, &scenario).unwrap();
    refused(&["sim", "handoff", "--machine", &machine, "--json", &machine], 2, another);
    refused(&["sim", &scenario, "--json", &scenario], 2, another);
    refused(&["bench", &scenario, "--json", &scenario], 2, another);

    let (new, same) = (path("new.json"), path("./new.json"));
    let one = ["sim", "handoff", "--quick", "--case", "sleep", "--locks", "fairlock:rwlock"];
    let both = |first: &str, second: &str| {
        let flags = ["--threads", "2", "--json", first, "--trace", second];
        refused(&[&one[..], &flags].concat(), 2, "--json and --trace cannot both go to ");
    };
    both(&new, &same);
    both("-", "-");
    #[cfg(target_os = "linux")]
    {
        let told = "--json and --pprof cannot both go to ";
        refused(&["run", "--json", &new, "--pprof", &same, "true"], 2, told);
    }
    refused(&["report", &measured, "-o", &path("page.pdf")], 2, "name one with --format");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn a_result_for_another_command_and_a_lock_not_in_it_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("measured.json");
    fs::write(&file, MEASURED).unwrap();
    let file = file.to_str().unwrap();
    let (locks, mend) = ("rwlock,nosuch", "no lock 'nosuch': there are fairlock:rwlock");
    refused(&["report", file, "--locks", locks, "-o", "-"], 2, mend);
    let compared = fairlock(&["compare", file, file]);
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stderr));
}

#[cfg(unix)]
#[test]
fn words_that_are_no_text_are_refused() {
    use std::os::unix::ffi::OsStrExt;
    let no_text = std::ffi::OsStr::from_bytes(b"\xff");
    for subcommand in [&[][..], &["bench"], &["sim", "handoff", "--policy"], &["top"]] {
        let fairlock = Command::new(env!("CARGO_BIN_EXE_fairlock"))
            .args(subcommand)
            .arg(no_text)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&fairlock.stderr);
        assert_eq!(fairlock.status.code(), Some(2), "{subcommand:?}: {error}");
        assert!(error.starts_with("fairlock: ") && error.lines().count() == 1, "{error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_no_library_is_not_preloaded() {
    let another = "it is another library than libfairlock_preload.so";
    for (file, why) in [
        ("Cargo.toml", "it is no library"),
        ("src", "it is no file"),
        (env!("CARGO_BIN_EXE_fairlock"), another),
    ] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let library = file.to_str().unwrap();
        refused(&["run", "--library", library, "true"], 1, why);
        refused(&["run", "--library", library, "true"], 1, "leave that out for the one beside");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_there_is_not_is_said_to_be_none() {
    refused(&["top", "99999999"], 1, "there is no process 99999999: `ps` lists them");
    refused(&["run", "--library", "no/such.so", "true"], 1, "leave that out for the one beside");
}

#[test]
fn a_parameter_given_twice_is_refused() {
    let twice = ["--policy", "tenure:budget=10,budget=20"];
    let mend = "budget is given twice in 'tenure:budget=10,budget=20': leave one out";
    refused(&[&["sim", "handoff"][..], &twice].concat(), 2, mend);
}

#[test]
fn a_number_out_of_all_range_is_repeated_in_few_digits() {
    for args in [
        &["bench", "handoff", "--secs", "1e300"][..],
        &["bench", "batch", "--overcommit", "1e300"],
        &["sim", "batch", "--overcommit", "1e300"],
        &["sim", "handoff", "--stolen", "1e300"],
    ] {
        refused(args, 2, " 1e300 makes no sense: use ");
    }
    let folder = tempfile::tempdir().unwrap();
    let scenario = scenario(folder.path(), "calls", "chance = 1e300, work = \"1us\"");
    refused(&["sim", &scenario], 2, "chance = 1e300 makes no sense: use 0 to 1");
}

/// The path of a scenario with one thread of that name, which does this.
fn scenario(folder: &Path, threads: &str, does: &str) -> String {
    let path = folder.join("scenario.toml");
    let group = format!("name = \"{threads}\", count = 1, round = [{{ {does} }}]");
    fs::write(&path, format!("locks = {{}}\nthreads = [{{ {group} }}]\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn no_control_character_of_a_file_or_argument_reaches_the_terminal() {
    let shown = r"\u{1b}[31mred\nsecond";
    let folder = tempfile::tempdir().unwrap();
    let red = scenario(folder.path(), r"\u001b[31mred\nsecond", "work = \"1us\"");
    let simulated = fairlock(&["sim", &red, "--duration", "1ms", "--locks", "fairlock:rwlock"]);
    let table = String::from_utf8(simulated.stdout).unwrap();
    assert!(table.contains(shown) && !table.contains('\x1b'), "{table}");
    let wrong = scenario(folder.path(), r"\u001b[31mred\nsecond", "chance = 2");
    refused(&["sim", &wrong], 2, shown);
    refused(&["bench", "\x1b[31mred\nsecond"], 2, shown);

    let result = folder.path().join("result.json");
    let name = r"\u001b[31mred\nsecond";
    fs::write(&result, MEASURED.replace("fairlock:rwlock", name)).unwrap();
    let result = result.to_str().unwrap();
    let report = fairlock(&["report", result, "--format", "md", "-o", "-"]);
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains(shown) && !report.contains('\x1b'), "{report}");
}

#[test]
fn what_a_file_should_have_is_said_in_no_words_of_a_program() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let whole = "expected a whole number, 0 or more";
    let scenario = scenario(folder.path(), "calls", "work = \"1us\", times = -1");
    refused(&["sim", &scenario], 2, whole);
    let threads = "locks = {}\nthreads = [{ name = \"a\", count = 1, round = [3] }]\n";
    refused(&["bench", &write("s.toml", threads)], 2, "expected a table");
    let machine = String::from_utf8(fairlock(&["machines", "show", "two_cpu"]).stdout).unwrap();
    let wrong = machine.replace("\nsockets = ", "\nsockets = \"x\" # ");
    refused(&["sim", "handoff", "--machine", &write("m.toml", &wrong)], 2, whole);
    let wrong = MEASURED.replace("\"threads\": 2", "\"threads\": -2");
    refused(&["report", &write("r.json", &wrong)], 2, whole);
}

#[test]
fn a_list_of_nothing_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = scenario(folder.path(), "calls", "write = \"table\"");
    refused(&["sim", &scenario], 2, "no lock 'table': there are none");
}

#[test]
fn only_what_is_alike_is_offered() {
    for (word, offered) in [
        ("nosuchcommand", None),
        ("nosuch", None),
        ("benhc", Some("did you mean 'bench'?")),
        ("tortur", Some("did you mean 'torture'?")),
        ("--qiuck", Some("did you mean '--quick'?")),
    ] {
        refused(&[word], 2, offered.unwrap_or(word));
        let error = String::from_utf8(fairlock(&[word]).stderr).unwrap();
        assert!(!error.contains("similar"), "{error}");
        assert_eq!(error.contains("did you mean"), offered.is_some(), "{error}");
    }
}

#[test]
fn a_machine_file_needs_neither_ending_nor_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = fairlock(&["machines", "show", "two_cpu"]).stdout;
    fs::write(folder.path().join("mine"), file).unwrap();
    let simulated = Command::new(env!("CARGO_BIN_EXE_fairlock"))
        .args(["sim", "handoff", "--case", "sleep", "--duration", "1ms", "--machine", "mine"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(simulated.status.success(), "{}", String::from_utf8_lossy(&simulated.stderr));
}

#[test]
fn one_of_a_thing_is_not_said_in_the_plural() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = scenario(folder.path(), "calls", "work = \"1us\"");
    let simulated =
        fairlock(&["sim", &scenario, "--duration", "1ms", "--locks", "fairlock:rwlock"]);
    let table = String::from_utf8(simulated.stdout).unwrap();
    assert!(table.contains("in 0 of 1 cell, ") && !table.contains("1 cells"), "{table}");
}

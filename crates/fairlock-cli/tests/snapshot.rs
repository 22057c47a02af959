//! `fairlock snapshot`, as its user meets it: programs that stand still.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

mod looks;
mod schema;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use fairlock_testing as _; // the watchdog
use looks::until_said;
use schema::differences;
use serde_json::Value;

/// A program that is killed where its test ends.
struct Running(Child);

impl Running {
    fn of(program: impl AsRef<Path>, arguments: &[&str]) -> Self {
        let mut command = Command::new(program.as_ref());
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().expect("the program starts"))
    }

    /// Looks at it until a snapshot is as described, and no thread runs: of one that has had no CPU yet, or that a timer
    /// woke, neither the stack is known nor what it waits for next.
    fn snapshot(&self, is_it: impl Fn(&Seen) -> bool) -> Seen {
        let pid = self.0.id().to_string();
        let look = || Seen::of(&fairlock(&["snapshot", &pid, "--json", "-"]));
        std::iter::repeat_with(look).find(|seen| seen.stands_still() && is_it(seen)).unwrap()
    }

    /// Looks at it until this thread waits for this.
    fn waits(&self, thread: &str, kind: &str) -> (Seen, Value) {
        let wait = |seen: &Seen| {
            let found = seen.thread(thread).map(|it| it["waits"].clone());
            found.filter(|wait| wait["kind"] == kind)
        };
        let seen = self.snapshot(|seen| wait(seen).is_some());
        let wait = wait(&seen).unwrap();
        (seen, wait)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a snapshot said.
struct Seen {
    code: Option<i32>,
    text: String,
    json: Value,
}

impl Seen {
    fn of(output: &Output) -> Self {
        let text = String::from_utf8(output.stderr.clone()).unwrap();
        let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{text}"));
        Self { code: output.status.code(), text, json }
    }

    fn thread(&self, name: &str) -> Option<&Value> {
        self.json["threads"].as_array().unwrap().iter().find(|thread| thread["name"] == name)
    }

    fn stands_still(&self) -> bool {
        self.json["threads"].as_array().unwrap().iter().all(|thread| thread["state"] != "R")
    }

    fn tid(&self, name: &str) -> u64 {
        self.thread(name).unwrap()["tid"].as_u64().unwrap()
    }

    fn functions(&self, thread: &str) -> Vec<String> {
        let stack = self.thread(thread).unwrap()["stack"].as_array().unwrap();
        stack.iter().map(|frame| frame["function"].as_str().unwrap().to_owned()).collect()
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlock"));
    command.env_remove("COLUMNS").args(arguments);
    command
}

fn fairlock(arguments: &[&str]) -> Output {
    command(arguments).output().expect("fairlock starts")
}

fn compile(name: &str, flags: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/stuck.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-g", "-o"]);
    let output = compiler.arg(&program).arg(source).args(flags).output();
    let output = output.unwrap_or_else(|error| panic!("cc cannot be run ({error}); install it"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn stuck() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("stuck", &["-O1"]))
}

#[test]
fn threads_that_wait_for_each_other_are_named_with_their_locks() {
    // Without optimization, functions have frames of another kind.
    let static_program = compile("stuck-static", &["-O1", "-static"]);
    for program in [stuck(), &compile("stuck-O0", &["-O0"]), &static_program] {
        let running = Running::of(program, &["orders"]);
        let seen = running.snapshot(|seen| seen.code == Some(35));
        let [transfer, audit] = ["transfer", "audit"].map(|name| seen.tid(name));
        assert_eq!(seen.json["deadlocks"], serde_json::json!([[transfer, audit]]));
        let line = seen.text.lines().next().unwrap();
        for said in [
            &*format!(
                "DEADLOCK: transfer ({transfer}) at transfer (stuck.c:28) holds accounts, waits for journal; "
            ),
            &*format!("audit ({audit}) at audit (stuck.c:36) holds journal, waits for accounts"),
        ] {
            assert!(line.contains(said), "{said}: {line}");
        }
        for name in ["transfer", "audit"] {
            let functions = seen.functions(name);
            assert!(functions.iter().any(|it| it == name), "{functions:?}");
        }
    }
}

#[test]
fn the_holder_of_each_kind_of_lock_is_named() {
    for (way, kind, name) in [
        ("mutex", "mutex", "accounts"),
        ("rwlock", "rwlock", "table"),
        ("stream", "stream", "stdout"),
        ("inherits", "PI mutex", "inherits"),
    ] {
        let running = Running::of(stuck(), &[way]);
        // Main waits for the waiter to end.
        running.waits("stuck", "join");
        let (seen, wait) = running.waits("waiter", kind);
        let holder = seen.tid("holder");
        assert_eq!((&wait["name"], &wait["owner"]["thread"]), (&name.into(), &holder.into()));
        assert_eq!((seen.code, &seen.json["deadlocks"]), (Some(0), &serde_json::json!([])));
        assert!(seen.text.contains(&format!("holder ({holder}), in pause")), "{}", seen.text);
        assert!(seen.text.contains("waits (stuck.c:"), "{}", seen.text);
        let main = &seen.thread("stuck").unwrap()["waits"];
        assert_eq!(
            (&main["kind"], &main["owner"]["thread"]),
            (&"join".into(), &seen.tid("waiter").into())
        );
    }
}

#[test]
fn what_is_not_held_by_a_thread_is_said() {
    let (_, wait) = Running::of(stuck(), &["reader"]).waits("waiter", "rwlock");
    assert_eq!((&wait["name"], &wait["owner"]["readers"]), (&"table".into(), &1.into()));
    for (kind, name) in
        [("condition", "never"), ("semaphore", "slots"), ("barrier", "gate, 1 of 3 there")]
    {
        let (_, wait) = Running::of(stuck(), &[kind]).waits("waiter", kind);
        assert_eq!((&wait["name"], &wait["owner"]), (&name.into(), &"nobody".into()));
    }
}

#[test]
fn a_holder_that_has_ended_or_is_of_another_process_is_said_to_be() {
    let (seen, wait) = Running::of(stuck(), &["ended"]).waits("waiter", "mutex");
    assert!(wait["owner"]["ended"].is_u64(), "{wait}");
    assert!(seen.text.contains(", which has ended"), "{}", seen.text);
    let running = Running::of(stuck(), &["shared"]);
    let (_, wait) = running.waits("stuck", "mutex");
    let (owner, pid) = (&wait["owner"]["elsewhere"], running.0.id());
    assert!(owner["name"] == "stuck" && owner["process"] != pid, "{wait}");
    let running = Running::of(stuck(), &["file"]);
    let (seen, wait) = running.waits("stuck", "flock");
    assert_eq!(wait["owner"]["elsewhere"]["process"], running.0.id(), "{}", seen.text);
}

/// The library, which Cargo built because this package asks for it in its tests.
fn library() -> PathBuf {
    let tests = std::env::current_exe().expect("this test has a path");
    tests.with_file_name("libfairlock_preload.so")
}

/// With glibc's locks, and with ours, whose futexes are not in the program's locks.
#[test]
fn what_a_process_records_of_itself_is_added() {
    for observe in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(stuck());
        command.arg("orders").env("LD_PRELOAD", library()).env("FAIRLOCK_PROFILE", folder.path());
        if observe {
            command.env("FAIRLOCK_OBSERVE", "1");
        }
        let running = Running(command.stdin(Stdio::null()).spawn().unwrap());
        // Our locks wake threads now and then, also between two looks of one snapshot.
        let is_whole = |seen: &Seen| seen.text.contains("at transfer (stuck.c:28) holds accounts");
        let seen = running.snapshot(|seen| seen.code == Some(35) && is_whole(seen));
        let [transfer, audit] = ["transfer", "audit"].map(|name| seen.tid(name));
        assert_eq!(seen.json["deadlocks"], serde_json::json!([[transfer, audit]]));
        let wait = &seen.thread("transfer").unwrap()["waits"];
        assert_eq!((&wait["name"], &wait["owner"]["thread"]), (&"journal".into(), &audit.into()));
        assert!(wait["waited_ns"].is_u64() && wait["held_ns"].is_u64(), "{wait}");
    }
}

/// One thread was interrupted within malloc, and its handler does not return.
#[test]
fn a_wait_within_malloc_is_named() {
    let running = Running::of(stuck(), &["malloc"]);
    let (seen, wait) = running.waits("waiter", "malloc");
    assert_eq!(wait["name"], "main arena", "{}", seen.text);
    assert!(wait["owner"]["unknown"].as_str().unwrap().contains("does not store"), "{wait}");
}

/// Nothing can be preloaded there, and these locks are not glibc's.
#[test]
fn locks_of_a_static_rust_program_have_names() {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stuck-rust");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stuck/stuck.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compiler = Command::new(rustc);
    compiler.args(["--edition=2021", "-g", "-O", "-C", "target-feature=+crt-static", "-o"]);
    let output = compiler.arg(&program).arg(source).output().expect("rustc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let running = Running::of(&program, &[]);
    let (seen, wait) = running.waits("waiter", "std mutex");
    assert!(wait["name"].as_str().unwrap().contains("LOCK"), "{wait}");
    assert!(wait["owner"]["unknown"].as_str().unwrap().contains("std's locks"), "{wait}");
    assert!(
        seen.functions("waiter").iter().any(|it| it.contains("takes_the_lock")),
        "{}",
        seen.text
    );
    let (_, wait) = running.waits("parked", "park");
    assert_eq!(wait["owner"], "nobody");
}

/// It is told apart by whether it records its locks.
#[test]
fn top_shows_which_threads_wait_and_which_one_holds() {
    for is_recorded in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut program = Command::new(stuck());
        program.arg("orders").stdin(Stdio::null());
        if is_recorded {
            program.env("LD_PRELOAD", library()).env("FAIRLOCK_PROFILE", folder.path());
        }
        let running = Running(program.spawn().unwrap());
        let seen = running.snapshot(|seen| seen.code == Some(35));
        let pid = running.0.id().to_string();
        let top = ["top", "--every", "1ms", "--looks", "1", &pid];
        let (_, text) = until_said(&mut command(&top), &["DEADLOCK: "]);
        let row = text.lines().find(|line| line.starts_with("journal ")).expect(&text);
        let holder = seen.tid("audit").to_string();
        let cells: Vec<&str> =
            row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert!(cells.contains(&"1") && row.contains(&holder) && row.contains("audit"), "{text}");
        assert_eq!(text.contains("taken"), is_recorded, "{text}");
    }
}

#[test]
fn a_snapshot_has_a_schema_and_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let pprof = folder.path().join("pprof");
    let running = Running::of(stuck(), &["mutex"]);
    let (seen, _) = running.waits("waiter", "mutex");
    let schema = fairlock(&["schema", "snapshot"]).stdout;
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    assert_eq!(seen.json["schema"], schema["properties"]["schema"]["const"]);
    assert_eq!(differences(&seen.json, &schema, &schema), [] as [String; 0]);
    let pid = running.0.id().to_string();
    let output = fairlock(&["snapshot", &pid, "--pprof", pprof.to_str().unwrap()]);
    assert!(output.status.success() && !output.stdout.is_empty());
    let mut proto = Vec::new();
    let mut file = flate2::read::GzDecoder::new(fs::File::open(pprof).unwrap());
    std::io::Read::read_to_end(&mut file, &mut proto).unwrap();
    let has = |text: &str| proto.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(["threads", "asleep", "accounts", "waits", "stuck.c"].into_iter().all(has));
    // All of it has room.
    let mut narrow = Command::new(env!("CARGO_BIN_EXE_fairlock"));
    let narrow = narrow.args(["snapshot", &pid]).env("COLUMNS", "80").output().unwrap();
    let text = String::from_utf8(narrow.stdout).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    for (pid, said) in [("4000000000", "there is no process 4000000000"), ("2", "process 2")] {
        let output = fairlock(&["snapshot", pid]);
        let text = String::from_utf8(output.stderr).unwrap();
        // In a container, 2 may be any process or none.
        assert!(output.status.code() == Some(1) && text.contains(said) || pid == "2", "{text}");
    }
    assert_eq!(fairlock(&["snapshot"]).status.code(), Some(2));
}

//! The tests in C and C++: compiled with all warnings as errors, linked with the static
//! library, and run.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use fairlock_testing as _; // the watchdog

/// What a Rust static library needs beside itself.
const SYSTEM_LIBS: [&str; 4] = ["-lgcc_s", "-lpthread", "-lm", "-ldl"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The static library, built by cargo as a C program's build would.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
        let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
        run(cargo.args(["build", "-p", "fairlock-capi", "--profile", profile]).current_dir(root()));
        // Beside the folder of this test: …/debug/deps/c-1234.
        let deps = env::current_exe().unwrap();
        deps.ancestors().nth(2).unwrap().join("libfairlock_capi.a")
    })
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("cannot run {command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}

/// Compiles and runs a program of `tests`.
fn compile_and_run(compiler: (&str, &str), standard: &str, source: &str) {
    let (variable, name) = compiler;
    let compiler = env::var_os(variable).unwrap_or(name.into());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.replace(['/', '.'], "-"));
    run(Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-O1", "-pthread"])
        .arg("-I")
        .arg(root().join("include"))
        .arg(root().join("tests").join(source))
        .arg(library())
        .args(SYSTEM_LIBS)
        .arg("-o")
        .arg(&program));
    run(&mut Command::new(program));
}

fn c(source: &str) {
    compile_and_run(("CC", "cc"), "-std=c11", source);
}

#[test]
fn rwlock() {
    c("c/rwlock.c");
}

#[test]
fn mutex() {
    c("c/mutex.c");
}

#[test]
fn range() {
    c("c/range.c");
}

#[test]
fn events() {
    c("c/events.c");
}

/// Only C is needed to build this workspace, so a machine without a compiler for C++ (`CXX`,
/// or `c++`) leaves this out, and says so past the test's captured output. `.ci/capi` needs one.
#[test]
fn cplusplus() {
    let compiler = env::var_os("CXX").unwrap_or("c++".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        let _ = writeln!(io::stderr(), "\nNOT TESTED: fairlock.hpp, as there is no {compiler:?}\n");
        return;
    }
    // The later standard deprecates things.
    for standard in ["-std=c++17", "-std=c++20"] {
        compile_and_run(("CXX", "c++"), standard, "cpp/fairlock.cpp");
    }
}

/// By its name in the source of a test, which says nothing about how well it is tested.
#[test]
fn every_function_of_the_header_is_tested() {
    let tests: String = fs::read_dir(root().join("tests/c"))
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let header = fs::read_to_string(root().join("include/fairlock.h")).unwrap();
    let functions: Vec<_> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '#', '/']))
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, _)| before.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("fairlock_"))
        .collect();
    assert!(functions.len() > 20, "found only {functions:?}");
    for function in functions {
        assert!(tests.contains(&format!("{function}(")), "no test in C calls {function}");
    }
}

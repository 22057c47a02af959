//! How programs are compiled and run with our locks.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fairlock_testing as _; // the watchdog

/// The library that Cargo built for this test.
pub(crate) fn library() -> PathBuf {
    let tests = std::env::current_exe().expect("this test has a path");
    let library = tests.with_file_name("libfairlock_preload.so");
    assert!(library.exists(), "no {}: run `cargo test -p fairlock-preload`", library.display());
    library
}

/// Compiles a program, of `tests/c` if it does not say otherwise.
pub(crate) fn compile(source: &str) -> PathBuf {
    compile_as(source, &["-rdynamic"])
}

/// Compiles a shared library.
#[allow(dead_code, reason = "not in every test")]
pub(crate) fn compile_library(source: &str) -> PathBuf {
    compile_as(source, &["-shared", "-fPIC"])
}

pub(crate) fn compile_as(source: &str, what: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.file_stem().unwrap());
    let cpp = source.extension().is_some_and(|extension| extension == "cpp");
    let (compiler, standard) = if cpp { ("c++", "-std=c++17") } else { ("cc", "-std=c11") };
    let output = Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"])
        .args(what)
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .arg("-ldl")
        .output()
        .unwrap_or_else(|error| panic!("{compiler} cannot be run ({error}); install it"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// The command that runs a program with our locks.
pub(crate) fn with_ours(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library());
    command
}

pub(crate) fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

//! The tests in C and C++: compiled with all warnings as errors, linked with the static
//! library, and run.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
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

/// The compilers for C: what `CC` names, or `cc`; and clang, if it is there.
fn c_compilers() -> Vec<OsString> {
    let clang = is_there("clang").then(|| "clang".into());
    [env::var_os("CC").unwrap_or("cc".into())].into_iter().chain(clang).collect()
}

/// The compilers for C++: what `CXX` names, or `c++`; and clang, if it is there. Only C is
/// needed to build this workspace, so a machine without one leaves the tests in C++ out, and
/// says so past their captured output. `.ci/capi` needs one.
fn cplusplus_compilers() -> Vec<OsString> {
    let all = [env::var_os("CXX").unwrap_or("c++".into()), "clang++".into()];
    let found: Vec<_> = all.into_iter().filter(|name| is_there(name)).collect();
    if found.is_empty() {
        let _ = writeln!(io::stderr(), "\nNOT TESTED: fairlock.hpp, as there is no compiler\n");
    }
    found
}

fn is_there(compiler: impl AsRef<OsStr>) -> bool {
    Command::new(compiler).arg("--version").output().is_ok()
}

/// A compiler with all warnings as errors.
fn strict(compiler: impl AsRef<OsStr>) -> Command {
    let mut compiler = Command::new(compiler);
    compiler.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]).arg(root().join("include"));
    compiler
}

/// Warnings beyond those, which some programs build with. In the headers nothing may cause one.
const PEDANTIC: [&str; 9] = [
    "-Wshadow",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wundef",
    "-Wcast-align",
    "-Wcast-qual",
    "-Wnull-dereference",
    "-Wdouble-promotion",
    "-Wformat=2",
];

#[test]
fn the_headers_cause_no_warning_of_a_strict_build() {
    for compiler in c_compilers() {
        for standard in ["-std=c89", "-std=c99", "-std=c11", "-std=c17"] {
            let flags = [&[standard, "-Wstrict-prototypes"], &PEDANTIC[..]].concat();
            compile_and_run(strict(&compiler), &flags, "c/strict.c");
        }
    }
    // Templates are looked at where they are used, so by a program that uses all.
    for standard in ["-std=c++17", "-std=c++20"] {
        let flags = [&[standard, "-Wold-style-cast", "-Wnon-virtual-dtor"], &PEDANTIC[..]].concat();
        cplusplus(&flags, "cpp/fairlock.cpp");
    }
}

/// In `safety.cpp`. What the headers do themselves causes no warning.
#[test]
fn clang_sees_what_is_used_without_its_lock() {
    cplusplus(&["-std=c++17"], "cpp/safety.cpp");
    if !is_there("clang++") {
        let _ = writeln!(io::stderr(), "\nNOT TESTED: -Wthread-safety, as there is no clang++\n");
        return;
    }
    let said = |flags: &[&str], source: &str| {
        let mut compiler = strict("clang++");
        compiler.args(["-std=c++20", "-Wthread-safety", "-fsyntax-only"]).args(flags);
        let output = compiler.arg(root().join("tests/cpp").join(source)).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(said(&[], "safety.cpp"), "");
    let wrong = said(&["-DWRONG"], "safety.cpp");
    let reports = wrong.lines().filter(|line| line.contains("-Wthread-safety-analysis"));
    let reported: Vec<usize> =
        reports.filter_map(|line| line.split(':').nth(1)?.parse().ok()).collect();
    let source = fs::read_to_string(root().join("tests/cpp/safety.cpp")).unwrap();
    let begins = (1..).zip(source.lines()).filter(|(_, line)| line.ends_with("// wrong"));
    let begins: Vec<usize> = begins.map(|(number, _)| number).collect();
    for (at, &begin) in begins.iter().enumerate() {
        let ends = begins.get(at + 1).copied().unwrap_or(usize::MAX);
        assert!(reported.iter().any(|line| (begin..ends).contains(line)), "{begin}: {wrong}");
    }
    assert_eq!(begins.len(), 8);
    let said = said(&[], "fairlock.cpp");
    assert!(!said.contains("fairlock.hpp:"), "{said}");
}

#[test]
fn gdb_shows_whether_a_lock_is_held_and_awaited() {
    let compilers = cplusplus_compilers();
    let Some(compiler) = compilers.first().filter(|_| is_there("gdb")) else {
        let _ = writeln!(io::stderr(), "\nNOT TESTED: fairlock-gdb.py, as there is no gdb\n");
        return;
    };
    let flags = ["-std=c++17", "-O0"];
    compile_and_run(strict(compiler), &flags, "cpp/shown.cpp");
    let expected = [
        ("untouched", "not used yet"),
        ("destroyed", "destroyed"),
        ("freed", "free"),
        ("copied", "moved, overwritten or never initialised (mark 0x4641"),
        ("read_by", "held by readers"),
        ("written", "held by a writer, threads wait"),
        ("awaited", "held, threads wait"),
        ("permits", "5 permits"),
        ("ranges", "ranges are held"),
        ("token", "cancelled"),
        ("shared", "{native_ = held by a writer}"),
    ];
    let program = program("cpp/shown.cpp", &flags);
    let core = program.with_extension("core");
    let gdb = || {
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-x"]).arg(root().join("gdb/fairlock-gdb.py")).arg(&program);
        gdb
    };
    let mut running = gdb();
    running.args(["-ex", "break stop_here", "-ex", "run"]);
    for (name, _) in expected {
        running.args(["-ex", &format!("print {name}")]);
    }
    running.args(["-ex", &format!("generate-core-file {}", core.display())]);
    let output = running.args(["-ex", "continue"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let shown: Vec<_> = said
        .lines()
        .filter_map(|line| line.strip_prefix('$'))
        .filter_map(|line| line.split_once(" = "))
        .map(|(_, shown)| shown)
        .collect();
    assert_eq!(shown.len(), expected.len(), "{output:?}");
    for ((name, expected), shown) in expected.into_iter().zip(shown) {
        assert!(shown.starts_with(expected), "{name}: {shown}");
    }
    assert!(said.contains("exited normally"), "{output:?}");
    let output = gdb().arg(&core).args(["-ex", "print written"]).output().unwrap();
    fs::remove_file(core).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("$1 = in use; whether it is held is known only"), "{output:?}");
}

/// Where the program from this source goes.
fn program(source: &str, flags: &[&str]) -> PathBuf {
    let program = source.to_owned() + &flags.concat();
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(program.replace(['/', '.'], "-"))
}

/// Compiles and runs a program of `tests`.
fn compile_and_run(mut compiler: Command, flags: &[&str], source: &str) {
    let program = program(source, flags);
    run(compiler
        .args(["-g", "-O1", "-pthread"])
        .args(flags)
        .arg(root().join("tests").join(source))
        // Not as what the flags may say that the source is.
        .args(["-x", "none"])
        .arg(library())
        .args(SYSTEM_LIBS)
        .arg("-o")
        .arg(&program));
    run(&mut Command::new(program));
}

fn c(source: &str) {
    compile_and_run(strict(&c_compilers()[0]), &["-std=c11"], source);
}

fn cplusplus(flags: &[&str], source: &str) {
    for compiler in cplusplus_compilers() {
        compile_and_run(strict(compiler), flags, source);
    }
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
fn cond() {
    c("c/cond.c");
}

#[test]
fn sem() {
    c("c/sem.c");
}

#[test]
fn range() {
    c("c/range.c");
}

#[test]
fn the_last_owner_takes_a_lock_with_it() {
    c("c/destroy.c");
}

#[test]
fn a_wait_that_ends_as_the_lock_is_released_has_it() {
    c("c/late.c");
}

#[test]
fn errno_is_not_touched() {
    c("c/errno.c");
}

#[test]
fn events() {
    c("c/events.c");
}

#[test]
fn stats() {
    c("c/stats.c");
}

#[test]
fn deadlock() {
    c("c/deadlock.c");
}

#[test]
fn the_header_is_strict_c_by_every_standard() {
    for compiler in c_compilers() {
        for standard in ["-std=c89", "-std=c99", "-std=c11", "-std=c17"] {
            compile_and_run(strict(&compiler), &[standard], "c/strict.c");
        }
    }
}

#[test]
fn the_header_is_strict_cplusplus_by_every_standard() {
    for standard in ["-std=c++98", "-std=c++11", "-std=c++14", "-std=c++17", "-std=c++20"] {
        cplusplus(&["-xc++", standard], "c/strict.c");
    }
}

#[test]
fn the_standard_library_works_with_the_locks() {
    // The later standard deprecates things.
    for standard in ["-std=c++17", "-std=c++20"] {
        cplusplus(&[standard], "cpp/fairlock.cpp");
    }
}

#[test]
fn the_locks_do_without_exceptions_and_run_time_types() {
    for flags in [&["-fno-exceptions", "-fno-rtti"][..], &["-fno-exceptions"], &["-fno-rtti"]] {
        cplusplus(&[&["-std=c++17"], flags].concat(), "cpp/plain.cpp");
    }
}

/// Two shared libraries, each with symbols of its own, and a program that uses both.
#[test]
fn a_recursive_mutex_knows_its_thread_in_another_shared_library() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = root().join("tests/cpp/part.cpp");
    for compiler in cplusplus_compilers() {
        let parts = ["first", "second"].map(|name| {
            let part = tmp.join(format!("lib{name}-{}.so", compiler.display()));
            run(strict(&compiler)
                .args(["-std=c++17", "-g", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"])
                .arg(format!("-DPART={name}"))
                .arg(&source)
                .arg("-o")
                .arg(&part));
            part
        });
        let program = tmp.join(format!("parts-{}", compiler.display()));
        run(strict(&compiler)
            .args(["-std=c++17", "-g", "-O1", "-pthread"])
            // The one copy of the library, which both parts find in the program.
            .arg("-rdynamic")
            .arg(&source)
            .args(parts)
            .args(["-Wl,--whole-archive"])
            .arg(library())
            .args(["-Wl,--no-whole-archive"])
            .args(SYSTEM_LIBS)
            .arg("-o")
            .arg(&program));
        run(&mut Command::new(program));
    }
}

#[test]
fn an_older_standard_of_cplusplus_gets_one_sentence() {
    for compiler in cplusplus_compilers() {
        for standard in ["-std=c++98", "-std=c++11", "-std=c++14"] {
            let said = refused(&compiler, standard, "#include \"fairlock.hpp\"\n");
            assert!(said.contains("fairlock.hpp needs C++17"), "{said}");
            assert_eq!(said.matches("error:").count(), 1, "{said}");
        }
    }
}

#[test]
fn a_reader_of_a_range_cannot_hold_what_a_writer_held() {
    let with = |body: &str| {
        format!(
            "#include \"fairlock.hpp\"\nusing namespace fairlock;\n\
             void f(read_range &reader, write_range &writer) {{ {body} }}\n"
        )
    };
    for compiler in cplusplus_compilers() {
        for body in [
            "read_range other(std::move(writer));",
            "read_range other{std::move(writer)};",
            "read_range other = std::move(writer);",
            "reader = std::move(writer);",
            "static_cast<range_guard &>(reader) = std::move(writer);",
            "writer = std::move(reader);",
            "write_range other{std::move(reader)};",
            "std::swap(reader, writer);",
            "read_range other(reader);",
        ] {
            refused(&compiler, "-std=c++17", &with(body));
        }
        let body = "read_range a{std::move(reader)}; a = downgrade(std::move(writer));
                    read_range b = a.split(1); std::swap(a, b);";
        let said = compile(&compiler, "-std=c++17", &with(body));
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }
}

/// What a compiler for C++ says of a source that it does not compile.
fn refused(compiler: &OsStr, standard: &str, source: &str) -> String {
    let said = compile(compiler, standard, source);
    assert!(!said.status.success(), "this compiles:\n{source}");
    String::from_utf8(said.stderr).unwrap()
}

/// Has a compiler look at a source in C++. Warnings do not matter.
fn compile(compiler: &OsStr, standard: &str, source: &str) -> Output {
    let mut compiler = Command::new(compiler)
        .args([standard, "-fsyntax-only", "-xc++", "-I"])
        .arg(root().join("include"))
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    compiler.wait_with_output().unwrap()
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

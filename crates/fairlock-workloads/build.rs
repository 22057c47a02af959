//! Compiles the C and C++ shims of the `native-peers` feature; without the
//! feature, nothing.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "native-peers")]
    native_peers::build();
}

#[cfg(feature = "native-peers")]
mod native_peers {
    use std::process::{Command, Stdio};

    /// A library whose locks are measured.
    struct Library {
        package: &'static str,
        /// Under `native/`.
        shim: &'static str,
        headers: &'static [&'static str],
        /// Its name for pkg-config, if it has one there.
        pkg_config: Option<&'static str>,
        /// What to link where pkg-config does not know it; nothing where all of
        /// it is in the headers.
        link: &'static [&'static str],
    }

    const LIBRARIES: [Library; 5] = [
        Library {
            package: "libtbb-dev",
            shim: "tbb.cpp",
            headers: &["oneapi/tbb/rw_mutex.h", "oneapi/tbb/queuing_rw_mutex.h"],
            pkg_config: Some("tbb"),
            link: &["tbb"],
        },
        Library {
            package: "libabsl-dev",
            shim: "abseil.cpp",
            headers: &["absl/synchronization/mutex.h"],
            pkg_config: Some("absl_synchronization"),
            link: &["absl_synchronization"],
        },
        Library {
            package: "libboost-thread-dev",
            shim: "boost.cpp",
            headers: &["boost/thread/shared_mutex.hpp"],
            pkg_config: None,
            link: &["boost_thread"],
        },
        Library {
            package: "libnsync-dev",
            shim: "nsync.c",
            headers: &["nsync.h"],
            pkg_config: None,
            link: &["nsync"],
        },
        Library {
            package: "libck-dev",
            shim: "ck.c",
            headers: &["ck_rwlock.h", "ck_pflock.h", "ck_tflock.h", "ck_spinlock.h"],
            pkg_config: None,
            link: &[],
        },
    ];

    impl Library {
        fn is_cpp(&self) -> bool {
            self.shim.ends_with(".cpp")
        }
    }

    pub(crate) fn build() {
        println!("cargo::rerun-if-changed=native");

        let mut missing = Vec::new();
        if !compiles(&compiler(true), "c++", "") {
            missing.push("g++");
        } else {
            missing.extend(
                LIBRARIES.iter().filter(|library| !is_installed(library)).map(|lib| lib.package),
            );
        }
        if !missing.is_empty() {
            println!(
                "cargo::error=the feature native-peers needs {}: run scripts/install-native-peers, \
                 or build without the feature",
                missing.join(", ")
            );
            return;
        }

        // The shims first: a static library is linked before what it uses.
        for cpp in [true, false] {
            compiler(cpp)
                .files(
                    LIBRARIES
                        .iter()
                        .filter(|library| library.is_cpp() == cpp)
                        .map(|library| format!("native/{}", library.shim)),
                )
                .compile(if cpp { "fairlock_peers_cpp" } else { "fairlock_peers_c" });
        }
        for library in &LIBRARIES {
            let known =
                library.pkg_config.is_some_and(|name| pkg_config::probe_library(name).is_ok());
            if !known {
                for name in library.link {
                    println!("cargo::rustc-link-lib={name}");
                }
            }
        }
    }

    /// Optimised whatever the Cargo profile: a peer is measured at its best.
    fn compiler(cpp: bool) -> cc::Build {
        let mut build = cc::Build::new();
        build
            .cpp(cpp)
            .std(if cpp { "c++17" } else { "c11" })
            .opt_level(2)
            .define("NDEBUG", None)
            .warnings(true)
            .extra_warnings(true);
        build
    }

    fn is_installed(library: &Library) -> bool {
        let source: String =
            library.headers.iter().map(|header| format!("#include <{header}>\n")).collect();
        let language = if library.is_cpp() { "c++" } else { "c" };
        compiles(&compiler(library.is_cpp()), language, &source)
    }

    /// Whether the compiler, run to the end of the preprocessor, takes `source`.
    fn compiles(build: &cc::Build, language: &str, source: &str) -> bool {
        use std::io::Write;

        let Ok(compiler) = build.clone().cargo_warnings(false).try_get_compiler() else {
            return false;
        };
        let mut command: Command = compiler.to_command();
        command.args(["-E", "-x", language, "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return false };
        let written =
            child.stdin.take().is_some_and(|mut stdin| stdin.write_all(source.as_bytes()).is_ok());
        child.wait().is_ok_and(|status| status.success()) && written
    }
}

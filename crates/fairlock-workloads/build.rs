//! Tells which Rust it is, whose standard library is a peer; and compiles the C and C++ shims of the
//! `native-peers` feature.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let said = std::env::var_os("RUSTC")
        .and_then(|rustc| Command::new(rustc).arg("--version").output().ok())
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    // As in "rustc 1.95.0 (59807616e 2026-04-14)".
    let version = said.as_deref().and_then(|said| said.split(' ').nth(1));
    println!("cargo::rustc-env=FAIRLOCK_RUSTC={}", version.unwrap_or("unknown"));
    #[cfg(feature = "native-peers")]
    native_peers::build();
}

#[cfg(feature = "native-peers")]
mod native_peers {
    /// A library whose locks are measured.
    struct Library {
        package: &'static str,
        /// Under `native/`.
        shim: &'static str,
        /// Its name for pkg-config, if it has one there.
        pkg_config: Option<&'static str>,
        /// What to link where pkg-config does not know it; nothing where all of
        /// it is in the headers.
        link: &'static [&'static str],
    }

    const LIBRARIES: [Library; 5] = [
        Library { package: "libtbb-dev", shim: "tbb.cpp", pkg_config: Some("tbb"), link: &["tbb"] },
        Library {
            package: "libabsl-dev",
            shim: "abseil.cpp",
            pkg_config: Some("absl_synchronization"),
            link: &["absl_synchronization"],
        },
        Library {
            package: "libboost-thread-dev",
            shim: "boost.cpp",
            pkg_config: None,
            link: &["boost_thread"],
        },
        Library { package: "libnsync-dev", shim: "nsync.c", pkg_config: None, link: &["nsync"] },
        Library { package: "libck-dev", shim: "ck.c", pkg_config: None, link: &[] },
    ];

    pub(crate) fn build() {
        println!("cargo::rerun-if-changed=native");

        // The shims first: a static library is linked before what it uses.
        let mut missing = Vec::new();
        for library in &LIBRARIES {
            let shim = library.shim;
            let output = format!("fairlock_peers_{}", shim.replace('.', "_"));
            let mut compiler = compiler(shim.ends_with(".cpp"));
            if compiler.file(format!("native/{shim}")).try_compile(&output).is_err() {
                missing.push(library.package);
            }
        }
        if !missing.is_empty() {
            println!(
                "cargo::error=the feature native-peers needs g++ and {}: run \
                 scripts/install-native-peers, or build without the feature",
                missing.join(", ")
            );
            return;
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
}

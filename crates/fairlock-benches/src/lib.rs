//! Benchmarks for who changes the locks: `cargo bench -p fairlock-benches`. They tell what a
//! change costs; how the locks compare with others, and how long is waited for them, is what the
//! command `fairlock bench` is for.

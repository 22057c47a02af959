//! The examples in Rust of README.md and docs/ as documentation tests:
//! `cargo test -p fairlock-guide`. `.ci/guide` checks that no page with such an example is
//! missing here.

/// The examples of each page.
macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {$(
        #[cfg(doctest)]
        #[doc = include_str!(concat!("../../../", $path))]
        mod $name {}
    )*};
}

pages! {
    readme: "README.md",
    fairlock: "crates/fairlock/README.md",
    fairlock_sim: "crates/fairlock-sim/README.md",
    starving_writer: "docs/guide/starving-writer.md",
    rust: "docs/guide/rust.md",
    migrating: "docs/guide/migrating.md",
    policies: "docs/guide/policies.md",
    bound: "docs/guide/bound.md",
    memory: "docs/guide/memory.md",
    platforms: "docs/guide/platforms.md",
    statistics: "docs/guide/statistics.md",
    add_a_lock: "docs/guide/add-a-lock.md",
    add_a_policy: "docs/guide/add-a-policy.md",
    add_a_machine: "docs/guide/add-a-machine.md",
}

/// With the feature `async`.
#[cfg(feature = "async")]
mod with_tasks {
    pages! {
        asynchronous: "docs/guide/async.md",
    }
}

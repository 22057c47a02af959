//! `include/fairlock.h` is what cbindgen makes of the sources.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use fairlock_capi::*;
use fairlock_testing as _; // the watchdog

/// What only the compiler knows, and what no function or type can say.
fn trailer() -> String {
    let mut text = String::from(
        "#ifdef __cplusplus\n}\n#elif defined(__clang__)\n#pragma clang diagnostic pop\n#endif\n\n",
    );
    let mut version = env!("CARGO_PKG_VERSION").split('.');
    for part in ["MAJOR", "MINOR", "PATCH"] {
        let _ = writeln!(text, "#define FAIRLOCK_VERSION_{part} {}", version.next().unwrap());
    }
    let _ = write!(
        text,
        r#"#define FAIRLOCK_VERSION "{}"

/* Free locks with the default policy, or one of its presets, and what else can be
 * initialised statically. Zero bytes are the same as those without a preset. */
#define FAIRLOCK_RWLOCK_INIT FAIRLOCK_RWLOCK_INIT_POLICY(FAIRLOCK_DEFAULT)
#define FAIRLOCK_RWLOCK_INIT_POLICY(preset) {{0, (preset), {{0}}}}
#define FAIRLOCK_MUTEX_INIT FAIRLOCK_MUTEX_INIT_BATCH(FAIRLOCK_BATCH_NONE)
#define FAIRLOCK_MUTEX_INIT_BATCH(size) {{0, (size), {{0}}}}
#define FAIRLOCK_COND_INIT {{0, 0, {{0}}}}
#define FAIRLOCK_SEM_INIT(permits) {{0, (permits), {{0}}}}
#define FAIRLOCK_RANGE_LOCK_INIT FAIRLOCK_RANGE_LOCK_INIT_POLICY(FAIRLOCK_RANGE_DEFAULT)
#define FAIRLOCK_RANGE_LOCK_INIT_POLICY(preset) {{0, (preset), {{0}}}}
#define FAIRLOCK_RANGE_INIT {{0, 0, {{0}}}}
#define FAIRLOCK_CANCEL_INIT {{0, 0, {{0}}}}
#define FAIRLOCK_EVENTS_INIT {{{{0}}}}

/* The library was built with the same layout. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define FAIRLOCK_LAYOUT(type, size, align) \
    static_assert(sizeof(type) == size && alignof(type) == align, #type)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define FAIRLOCK_LAYOUT(type, size, align) \
    _Static_assert(sizeof(type) == size && _Alignof(type) == align, #type)
#else
#define FAIRLOCK_LAYOUT(type, size, align) \
    typedef char type##_layout[sizeof(type) == size ? 1 : -1]
#endif
"#,
        env!("CARGO_PKG_VERSION"),
    );
    for (name, size, align) in layouts() {
        let _ = writeln!(text, "FAIRLOCK_LAYOUT({name}, {size}, {align});");
    }
    text.push_str(
        r#"#undef FAIRLOCK_LAYOUT

/* ThreadSanitizer does not see into the library. */
#if defined(__SANITIZE_THREAD__)
#include "fairlock_tsan.h"
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#include "fairlock_tsan.h"
#endif
#endif

#endif /* FAIRLOCK_H */"#,
    );
    text
}

/// Name, size and alignment of each struct.
fn layouts() -> Vec<(&'static str, usize, usize)> {
    macro_rules! layouts {
        ($($ty:ty),*) => { vec![$((stringify!($ty), size_of::<$ty>(), align_of::<$ty>())),*] };
    }
    layouts!(
        fairlock_policy_t,
        fairlock_rwlock_t,
        fairlock_mutex_t,
        fairlock_cond_t,
        fairlock_sem_t,
        fairlock_range_policy_t,
        fairlock_range_info_t,
        fairlock_range_lock_t,
        fairlock_range_t,
        fairlock_cancel_t,
        fairlock_events_t,
        fairlock_event_count_t,
        fairlock_times_t,
        fairlock_stats_t
    )
}

#[test]
fn the_committed_header_is_generated_from_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    config.trailer = Some(trailer());
    let header = config.header.take().unwrap();
    config.header = Some(layouts().iter().fold(header, |header, (name, size, _)| {
        header.replace(&format!("{{{name}}}"), &size.to_string())
    }));
    let mut sources = cbindgen::Builder::new().with_config(config);
    // In this order, which is that of the header.
    for module in [
        "version",
        "policy",
        "rwlock",
        "mutex",
        "cond",
        "sem",
        "range_lock",
        "range/node",
        "range",
        "cancel",
        "events",
        "stats",
    ] {
        sources = sources.with_src(root.join(format!("src/{module}.rs")));
    }
    let mut generated = Vec::new();
    sources.generate().unwrap().write(&mut generated);
    let generated = String::from_utf8(generated).unwrap();

    let path = root.join("include/fairlock.h");
    if env::var_os("FAIRLOCK_WRITE_HEADER").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    assert!(
        fs::read_to_string(&path).is_ok_and(|committed| committed == generated),
        "include/fairlock.h is not what the sources say; generate it again:\n\
         FAIRLOCK_WRITE_HEADER=1 cargo test -p fairlock-capi --test header"
    );
}

#[test]
fn the_guide_states_the_sizes() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/memory.md");
    let guide = fs::read_to_string(guide).unwrap().replace(',', "");
    for lock in [
        "fairlock_rwlock_t",
        "fairlock_mutex_t",
        "fairlock_cond_t",
        "fairlock_sem_t",
        "fairlock_range_lock_t",
    ] {
        let (_, size, _) = layouts().into_iter().find(|(name, ..)| *name == lock).unwrap();
        let row = format!("| `{lock}` | {size} |");
        assert!(guide.contains(&row), "the guide does not say {row}");
    }
}

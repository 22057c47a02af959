//! A place in a program.

use serde::{Deserialize, Serialize};

/// A function, inlined or not, and where in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Without a name: the object's name and the place in it.
    pub function: String,
    /// The source, if the program was built with lines (`-g`).
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The path of the loaded file.
    pub object: String,
}

impl Place {
    /// The function and the line, without folders and arguments.
    pub fn short(&self) -> String {
        let function = without_arguments(&self.function);
        match (self.file.as_deref().map(file_name), self.line) {
            (Some(file), Some(line)) => format!("{function} ({file}:{line})"),
            _ => function,
        }
    }

    /// It only hands the lock to its caller: a method of a lock or a guard, or of a library that
    /// wraps them.
    #[cfg(target_os = "linux")]
    pub fn is_wrapper(&self) -> bool {
        const WRAPPERS: [&str; 13] = [
            "std::",
            "__gnu_cxx::",
            "__gthread",
            "__glibcxx_",
            "pthread_",
            "__pthread",
            "mtx_",
            "boost::",
            "absl::",
            "core::",
            "alloc::",
            "parking_lot",
            "lock_api::",
        ];
        const LIBRARIES: [&str; 4] = ["libc.so", "libpthread", "libstdc++", "libfairlock_preload"];
        let name = self.function.trim_start_matches("void ").trim_start_matches("bool ");
        let name = name.trim_start_matches('<');
        WRAPPERS.iter().any(|wrapper| name.starts_with(wrapper))
            || LIBRARIES.iter().any(|library| file_name(&self.object).starts_with(library))
    }
}

/// `f(int)::{lambda()#1}::operator()() const` is `f::{lambda#1}`, nearly.
fn without_arguments(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "").replace("::operator()() const", "");
    let (mut out, mut depth) = (String::new(), 0_u32);
    for letter in name.chars() {
        match letter {
            '(' | '<' => depth += 1,
            ')' | '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(letter),
            _ => {}
        }
    }
    let out = out.trim_end_matches(" const").trim();
    if out.is_empty() { name } else { out.to_owned() }
}

/// Without its folders.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_arguments_but_not_themselves() {
        for (name, short) in [
            ("main", "main"),
            ("Cache::get(int, std::string const&) const", "Cache::get"),
            ("fill<int>(std::vector<int>&)", "fill"),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator"),
            ("(anonymous namespace)::f()", "f"),
        ] {
            assert_eq!(without_arguments(name), short);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_hands_a_lock_on_is_not_the_caller() {
        let is_wrapper =
            |name: &str| Place { function: name.into(), ..Place::default() }.is_wrapper();
        let wrappers = ["std::mutex::lock()", "__gthread_mutex_unlock", "__glibcxx_rwlock_unlock"];
        assert!(wrappers.into_iter().all(is_wrapper));
        assert!(!is_wrapper("Store::put(int)") && !is_wrapper("main"));
    }
}

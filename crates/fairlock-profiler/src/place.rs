//! A place in a program.

use serde::{Deserialize, Serialize};

/// A function, inlined or not, and a line in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CodePlace {
    /// The function's name; without one, the object's name and the place in the object.
    pub function: String,
    /// The source, if the program was built with lines (`-g`).
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The path of the loaded file.
    pub object: String,
    /// The function that it called, which takes several locks for its callers.
    #[serde(skip)]
    pub wrapper: Option<String>,
}

impl CodePlace {
    /// Whether only the object is known, and the place in it.
    #[cfg(target_os = "linux")] // where places are found
    pub fn is_nameless(&self) -> bool {
        let rest = self.function.strip_prefix(file_name(&self.object));
        rest.is_some_and(|rest| rest.starts_with("+0x")) && !self.object.is_empty()
    }

    /// A line of a file: of a lock that notes no stacks.
    #[cfg(target_os = "linux")] // where places are found
    pub fn in_file(file: &str, line: u32) -> Self {
        let function = format!("{}:{line}", file_name(file));
        Self { function, file: Some(file.to_owned()), line: Some(line), ..Self::default() }
    }

    /// The function and the line in a few words, without folders and arguments.
    pub fn short(&self) -> String {
        let mut function = without_arguments(&self.function);
        if let Some(wrapper) = &self.wrapper {
            function = format!("{function} <- {}", without_arguments(wrapper));
        }
        match (self.file.as_deref().map(file_name), self.line) {
            (Some(file), Some(line)) if self.function == format!("{file}:{line}") => function,
            (Some(file), Some(line)) => format!("{function} ({file}:{line})"),
            _ => function,
        }
    }
}

/// `f(int)::{lambda(int)#1}::operator()(int) const` is `f::{lambda#1}`.
fn without_arguments(name: &str) -> String {
    let name = without_trait(without_result(name)).replace("(anonymous namespace)::", "");
    let name = name.replace("}::operator()", "}").replace(") const::", ")::");
    let (mut out, mut depth, mut rest) = (String::new(), 0_u32, name.as_str());
    let mut last = ' ';
    while let Some(letter) = rest.chars().next() {
        if depth == 0
            && let Some(operator) = operator(rest, out.chars().last())
        {
            out.push_str(operator);
            rest = &rest[operator.len()..];
            continue;
        }
        match letter {
            '(' | '<' => depth += 1,
            // `->` ends nothing.
            ')' | '>' if (last, letter) != ('-', '>') => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(letter),
            _ => {}
        }
        last = letter;
        rest = &rest[letter.len_utf8()..];
    }
    let out = out.trim_end_matches(" const").trim();
    if out.is_empty() { name } else { out.to_owned() }
}

/// `<Type as Trait>::method` of Rust is `Type::method`.
fn without_trait(name: &str) -> String {
    let Some(rest) = name.strip_prefix('<') else { return name.to_owned() };
    let (mut depth, mut last) = (0, ' ');
    let mut of_type = None;
    for (at, letter) in rest.char_indices() {
        match letter {
            '>' if last == '-' => {}
            '>' if depth == 0 => {
                return format!("{}{}", &rest[..of_type.unwrap_or(at)], &rest[at + 1..]);
            }
            '<' => depth += 1,
            '>' => depth -= 1,
            ' ' if depth == 0 && rest[at..].starts_with(" as ") => of_type = of_type.or(Some(at)),
            _ => {}
        }
        last = letter;
    }
    name.to_owned()
}

/// `operator()` or `operator<<`, or of `operator bool` the word, if the text begins with such a name.
fn operator(text: &str, before: Option<char>) -> Option<&str> {
    const WORD: &str = "operator";
    let signs = text.strip_prefix(WORD)?;
    if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_') {
        return None;
    }
    let is_sign = |letter| !"<>=-!+*/%^&|~,".contains(letter);
    let len = match signs.starts_with("()") {
        true => 2,
        false => signs.find(is_sign).unwrap_or(signs.len()),
    };
    (len > 0 || signs.starts_with(' ')).then(|| &text[..WORD.len() + len])
}

/// The function's name and what follows it: names of templates begin with the type of the result.
fn without_result(name: &str) -> &str {
    // Others have neither arguments nor a result in their names: those of C and Rust.
    if !name.trim_end_matches(" const").ends_with(')') {
        return name;
    }
    let (mut start, mut depth) = (0, 0_i32);
    for (at, letter) in name.char_indices() {
        match letter {
            '(' if depth == 0 && !name[at..].starts_with("(anonymous namespace)") => break,
            'o' if depth == 0 && operator(&name[at..], name[..at].chars().last()).is_some() => {
                break;
            }
            '(' | '<' | '{' | '[' => depth += 1,
            ')' | '>' | '}' | ']' => depth -= 1,
            ' ' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    &name[start..]
}

/// The place of a stack at which the program itself asked for the lock: the innermost function that is
/// not a lock's.
pub fn caller(stack: &[CodePlace]) -> Option<&CodePlace> {
    caller_of(stack)
}

/// The same of any list of places.
pub fn caller_of<'a>(
    stack: impl IntoIterator<Item = &'a CodePlace> + Clone,
) -> Option<&'a CodePlace> {
    let mut places = stack.clone().into_iter();
    places.find(|place| !is_wrapper(place)).or(stack.into_iter().next())
}

/// The place of a stack that asked `wrapper`, which is one of its places, for the lock: the next one outside of it that
/// is not a wrapper, either.
#[cfg(target_os = "linux")] // where places are found
pub fn behind(
    stack: &[CodePlace],
    wrapper: &CodePlace,
    is_one: impl Fn(&CodePlace) -> bool,
) -> Option<CodePlace> {
    let outer = stack.iter().skip_while(|place| *place != wrapper).skip(1);
    let mut callers =
        outer.filter(|place| !is_wrapper(place) && place.function != wrapper.function);
    let found = callers.find(|place| !is_one(place))?;
    Some(CodePlace { wrapper: Some(wrapper.function.clone()), ..found.clone() })
}

/// Whether a function only hands the lock to its caller: it is a method of a lock or a guard, or of
/// a library that wraps them.
pub fn is_wrapper(place: &CodePlace) -> bool {
    const WRAPPERS: [&str; 10] = [
        "fairlock_",
        "std::",
        "__gnu_cxx::",
        "__gthread",
        "__glibcxx_",
        "pthread_",
        "__pthread",
        "mtx_",
        "boost::",
        "absl::",
    ];
    /// Crates of Rust. A namespace of C++ may have the same name, whose functions have arguments in theirs.
    const CRATES: [&str; 5] = ["core::", "alloc::", "parking_lot", "lock_api::", "fairlock::"];
    /// And parts of the paths of their files: the name of an inline function has no path.
    const SOURCES: [&str; 7] = [
        "/library/std/src/",
        "/library/core/src/",
        "/library/alloc/src/",
        "/lock_api-",
        "/parking_lot",
        "/fairlock-0.",
        "/fairlock/src/",
    ];
    const LIBRARIES: [&str; 4] = ["libc.so", "libpthread", "libstdc++", "libfairlock_preload"];
    let name = without_result(&place.function);
    let begins = |names: &[&str]| {
        names.iter().any(|wrapper| name.trim_start_matches('<').starts_with(wrapper))
    };
    let has_arguments = name.trim_end_matches(" const").ends_with(')');
    /// Where systems have the headers of libraries, whose inline functions take locks for others.
    const HEADERS: [&str; 3] = ["/usr/include/", "/usr/lib/gcc/", "/usr/lib/llvm"];
    let file = place.file.as_deref().unwrap_or_default();
    HEADERS.iter().any(|folder| file.starts_with(folder))
        || file.contains("/include/c++/")
        || SOURCES.iter().any(|part| file.contains(part))
        || begins(&WRAPPERS)
        || (begins(&CRATES) && !has_arguments)
        || LIBRARIES.iter().any(|library| file_name(&place.object).starts_with(library))
}

/// The last part of a path, without its folders.
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
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}"),
            (
                "main::{lambda()#1}::operator()() const::{lambda(int)#2}::operator()(int)",
                "main::{lambda#1}::{lambda#2}",
            ),
            ("Less::operator()(int, int) const", "Less::operator()"),
            ("operator<<(Stream&, Row<int> const&)", "operator<<"),
            ("my_operator()", "my_operator"),
            ("std::vector<int> fill<int>(std::vector<int>&)", "fill"),
            ("Cache::operator bool() const", "Cache::operator bool"),
            ("(anonymous namespace)::f()", "f"),
            ("<std::sys::futex::Mutex>::lock_contended", "std::sys::futex::Mutex::lock_contended"),
            ("<alloc::sync::Arc<T> as core::ops::Drop>::drop", "alloc::sync::Arc::drop"),
            ("<F<fn(A) -> B> as FnOnce<(A,)>>::call_once", "F::call_once"),
        ] {
            assert_eq!(without_arguments(name), short);
        }
    }

    #[test]
    fn what_hands_a_lock_on_is_not_the_caller() {
        let is_wrapper =
            |name: &str| is_wrapper(&CodePlace { function: name.into(), ..CodePlace::default() });
        let wrappers = [
            "std::mutex::lock()",
            "__gthread_mutex_unlock",
            "__glibcxx_rwlock_unlock",
            "fairlock_mutex_lock",
        ];
        assert!(wrappers.into_iter().all(is_wrapper));
        let crates = [
            "core::ops::function::FnOnce::call_once",
            "<alloc::sync::Arc<T> as core::ops::Drop>::drop",
        ];
        assert!(crates.into_iter().all(is_wrapper));
        assert!(is_wrapper("void std::lock<std::mutex>(std::mutex&)"));
        let callers = [
            "Store::put(int)",
            "main",
            "core::Store::put(int)",
            "alloc::take() const",
            "std::vector<int> Store::take<int>(std::mutex&)",
            "std::unique_lock<std::mutex> (anonymous namespace)::guard<int>()",
        ];
        assert!(!callers.into_iter().any(is_wrapper));
        let in_file = |file: &str| CodePlace {
            function: "main::{lambda()#1}::operator()() const".into(),
            file: Some(file.into()),
            ..CodePlace::default()
        };
        assert!(super::is_wrapper(&in_file("/usr/include/c++/14/condition_variable")));
        assert!(!super::is_wrapper(&in_file("/home/include/main.cpp")));
        for file in ["/rustc/1234/library/std/src/sync/mutex.rs", "/r/fairlock-0.1.0/src/mutex.rs"]
        {
            let inline = CodePlace { function: "lock".into(), ..in_file(file) };
            assert!(super::is_wrapper(&inline), "{file}");
        }
    }
}

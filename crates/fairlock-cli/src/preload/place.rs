//! A place in a program.

use serde::{Deserialize, Serialize};

/// A function, inlined or not, and a line in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The function's name; without one, the object's name and the place in the object.
    pub function: String,
    /// The source, if the program was built with lines (`-g`).
    pub file: Option<String>,
    pub line: Option<u32>,
    /// The path of the loaded file.
    pub object: String,
}

impl Place {
    /// The function and the line in a few words, without folders and arguments.
    pub fn short(&self) -> String {
        let function = without_arguments(&self.function);
        match (self.file.as_deref().map(file_name), self.line) {
            (Some(file), Some(line)) => format!("{function} ({file}:{line})"),
            _ => function,
        }
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
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda#1}::operator"),
            ("(anonymous namespace)::f()", "f"),
        ] {
            assert_eq!(without_arguments(name), short);
        }
    }
}

//! What can go wrong, as the user sees it: one line and an exit code.

use std::fmt;

/// The exit code of a failed check or run.
pub const FAILED: u8 = 1;
/// The exit code of a command line that makes no sense.
pub const USAGE: u8 = 2;
/// The exit code if threads are in a deadlock: Linux's number of EDEADLK.
pub const DEADLOCK: u8 = 35;
/// The exit code after Ctrl-C, as shells have it (128 + SIGINT).
pub const INTERRUPTED: u8 = 130;

/// One line that says what is wrong and how to mend it, and the exit code.
#[derive(Debug)]
pub struct Error {
    code: u8,
    message: String,
}

impl Error {
    /// The command line makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    /// The command line was right, but could not be carried out.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }

    /// The command line was right, but could not be carried out, for a reason that has an exit code
    /// of its own.
    pub fn with_code(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// What a reader of files says, without the names that types have in programs.
pub fn in_plain_words(message: &str) -> String {
    let Some((before, expected)) = message.split_once("expected ") else {
        return message.to_owned();
    };
    let end = |text: &str| text.find([' ', ',', ';']).unwrap_or(text.len());
    let (word, after) = expected.split_at(end(expected));
    match word {
        "usize" | "u64" | "u32" | "u16" | "u8" => {
            format!("{before}expected a whole number, 0 or more{after}")
        }
        "f64" => format!("{before}expected a number{after}"),
        "struct" => {
            let after = after.trim_start();
            format!("{before}expected a table{}", &after[end(after)..])
        }
        _ => message.to_owned(),
    }
}

/// There is no such name: the error says which name is like it, and all that there are.
pub fn unknown(what: &str, name: &str, known: &[&str]) -> Error {
    let all = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Error::usage(match nearest(name, known) {
        Some(near) => format!("no {what} '{name}': did you mean '{near}'? There are {all}"),
        None => format!("no {what} '{name}': there are {all}"),
    })
}

/// The known name most like `name`, if any is like it at all. `rwlok` is like `fairlock:rwlock`:
/// the part behind the family is compared as well.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let likeness = |candidate: &str| {
        let member = candidate.split(':').next_back().unwrap_or(candidate);
        strsim::jaro_winkler(name, candidate).max(strsim::jaro_winkler(name, member))
    };
    // Of names that are equally like it the first: that is ours, where all locks are meant.
    known
        .iter()
        .rev()
        .map(|&candidate| (likeness(candidate), candidate))
        .filter(|&(score, _)| score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_files_name_no_types() {
        for (said, plain) in [
            ("invalid value: integer `-1`, expected usize", ", expected a whole number, 0 or more"),
            ("x, expected u32 at line 1", "x, expected a whole number, 0 or more at line 1"),
            ("string \"x\", expected f64", "\"x\", expected a number"),
            ("integer `3`, expected struct WrittenStep", "`3`, expected a table"),
            ("integer `3`, expected struct A at line 1", "`3`, expected a table at line 1"),
            ("expected `spread` or `packed`", "expected `spread` or `packed`"),
            ("missing field `x`", "missing field `x`"),
        ] {
            assert!(in_plain_words(said).ends_with(plain), "{}", in_plain_words(said));
        }
    }
}

//! What the command says of a program that stands still: it may be looked at before it does.

use std::process::{Command, Output};

/// A text as one line, whatever the width that it is for.
pub(crate) fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Looks until all these words are said, a hundred times at most. Returns the exit code of that look, and its text.
#[track_caller]
pub(crate) fn until_said(look: &mut Command, words: &[&str]) -> (Option<i32>, String) {
    let mut text = String::new();
    for _ in 0..100 {
        let Output { status, stdout, stderr } = look.output().expect("fairlock starts");
        text = [stdout, stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
        let line = unwrapped(&text);
        if words.iter().all(|word| line.contains(word)) {
            return (status.code(), text);
        }
    }
    panic!("{words:?}: {text}");
}

//! Where text for people goes, and how wide it may be there.

use std::borrow::Cow;
use std::io::{self, Write};

use terminal_size::{Height, Width, terminal_size_of};
use textwrap::{WordSeparator, WordSplitter, WrapAlgorithm, core::display_width};

use crate::error::Error;

/// A stream that people read.
#[derive(Clone, Copy)]
pub enum Page {
    Stdout,
    Stderr,
}

/// The room for a screen; none where nothing bounds it.
#[derive(Clone, Copy)]
pub struct Room {
    pub columns: Option<usize>,
    pub rows: Option<usize>,
}

impl Room {
    /// How many lines a text is there.
    pub fn lines(self, text: &str) -> usize {
        wrapped(&visible_lines(text), self.columns).lines().count()
    }

    /// The first text for which there is room above the cursor, which is on a line of its own.
    pub fn first_that_fits(self, mut texts: impl Iterator<Item = String>) -> Option<String> {
        texts.find(|text| self.rows.is_none_or(|rows| self.lines(text) < rows))
    }
}

impl Page {
    /// The number of columns: what the variable COLUMNS says, or else what the terminal has. A
    /// pipe or a file has no bound.
    pub fn width(self) -> Option<usize> {
        self.size("COLUMNS", |(Width(columns), _)| columns)
    }

    /// The room for a screen: the rows likewise, by the variable LINES.
    pub fn room(self) -> Room {
        Room { columns: self.width(), rows: self.size("LINES", |(_, Height(rows))| rows) }
    }

    fn size(self, variable: &str, of: fn((Width, Height)) -> u16) -> Option<usize> {
        let asked = std::env::var(variable).ok().and_then(|text| text.parse().ok());
        let of_terminal = || match self {
            Self::Stdout => terminal_size_of(io::stdout()),
            Self::Stderr => terminal_size_of(io::stderr()),
        };
        asked.or_else(|| of_terminal().map(of).map(usize::from)).filter(|&size| size > 0)
    }

    /// Writes text, its long lines wrapped.
    pub fn show(self, text: &str) -> Result<(), Error> {
        let text = wrapped(&visible_lines(text), self.width());
        match self {
            Self::Stdout => print(text.as_bytes()),
            Self::Stderr => {
                // If stderr is closed, there is nobody to tell.
                let _ = io::stderr().write_all(text.as_bytes());
                Ok(())
            }
        }
    }
}

/// Text from a file or an argument may have control characters in it, which would move a terminal's
/// cursor or change its colours: here they are written as in Rust, such as `\u{1b}`.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    for c in text.chars() {
        match c {
            _ if c.is_control() => out.extend(c.escape_default()),
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The same for text of many lines, which stay lines.
pub fn visible_lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// Wraps lines that are too long between words; what follows is indented further.
fn wrapped(text: &str, width: Option<usize>) -> String {
    const FURTHER: usize = 2;
    let Some(width) = width else { return text.to_owned() };
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        if display_width(line.trim_end()) <= width {
            out.push_str(line);
            continue;
        }
        let indent = " ".repeat(line.len() - line.trim_start().len() + FURTHER);
        let options = between_words(width).subsequent_indent(&indent);
        for part in textwrap::wrap(line.trim_end(), options) {
            out.push_str(&part);
            out.push('\n');
        }
    }
    out
}

/// Lines of at most so many columns end at spaces.
pub fn between_words(width: usize) -> textwrap::Options<'static> {
    textwrap::Options::new(width)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
}

/// Whether stdout was closed when the program began.
#[cfg(target_os = "linux")]
mod closed {
    use std::sync::atomic::{AtomicBool, Ordering};

    static STDOUT: AtomicBool = AtomicBool::new(false);

    pub fn stdout() -> bool {
        // Relaxed: it was written before there was another thread.
        STDOUT.load(Ordering::Relaxed)
    }

    /// Runs before Rust's runtime, which opens `/dev/null` in place of what is closed.
    // SAFETY: the loader calls what is in this section as functions without a result, with arguments that C
    // functions may ignore. `look` needs nothing of the runtime.
    #[unsafe(link_section = ".init_array")]
    #[used]
    static LOOK: extern "C" fn() = look;

    extern "C" fn look() {
        // SAFETY: both arguments are numbers.
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        STDOUT.store(flags == -1, Ordering::Relaxed);
    }
}

/// Writes to stdout, as it is. A reader that has gone (`| head`) is not an error.
pub fn print(bytes: &[u8]) -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    if closed::stdout() {
        return Err(Error::failed("cannot write to stdout: it is closed"));
    }
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::failed(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// What came of two outputs of one run. The caller tells one error; if both failed, the first is told
/// here, unless the second says the same.
pub fn both<T>(first: Result<(), Error>, second: Result<T, Error>) -> Result<T, Error> {
    if let (Err(first), Err(second)) = (&first, &second)
        && first.to_string() != second.to_string()
    {
        complain(&first.to_string());
    }
    second.and_then(|value| first.map(|()| value))
}

/// Writes one line to stderr. If stderr is closed, there is nobody to tell.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "fairlock: {}", visible(message));
}

/// The command line of these words behind the program's name, without the flags that change no
/// result.
pub fn canonical(words: impl Iterator<Item = String>) -> String {
    const ELSEWHERE: [&str; 5] = ["--json", "--shard", "--trace", "--pprof", "--folded"];
    let mut kept = vec!["fairlock".to_owned()];
    let mut words = words;
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some((flag, _)) if ELSEWHERE.contains(&flag) => {}
            None if ELSEWHERE.contains(&word.as_str()) => {
                words.next();
            }
            _ => kept.push(word),
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_leaves_out_where_results_go() {
        let of = |line: &str| canonical(line.split(' ').map(str::to_owned));
        let plain = "fairlock sim all --seeds 2";
        assert_eq!(of("sim all --json a.json --seeds 2"), plain);
        assert_eq!(of("sim --shard=1/3 all --seeds 2 --json=b"), plain);
    }

    #[test]
    fn long_lines_end_between_words_and_short_ones_stay() {
        let text = "a   b\n  one two three four\n\n1234567890123 x\n";
        let narrow = "a   b\n  one two\n    three\n    four\n\n12345678\n  90123 x\n";
        assert_eq!(wrapped(text, Some(10)), narrow);
        assert_eq!(wrapped(text, None), text);
        assert_eq!(wrapped("no end", Some(80)), "no end");
    }
}

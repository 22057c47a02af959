//! What can go wrong, as the user sees it: one line and an exit code.

use std::fmt;

/// The exit code of a failed check or run.
pub const FAILED: u8 = 1;
/// The exit code of a command line that makes no sense.
pub const USAGE: u8 = 2;
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

    /// The command was right and could not be carried out.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { code: FAILED, message: message.into() }
    }

    /// The command was right and could not be carried out, for which there is a code
    /// of its own.
    #[cfg(target_os = "linux")] // used by `run`
    pub fn with_code(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The exit code that goes with it.
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

//! What is wrong with a machine file: where, what, and how to mend it.

use std::fmt;

/// A machine file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineError {
    /// The file, or the name that was asked for.
    pub file: String,
    /// The key, or empty if it is not about a key.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub mend: String,
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}; {}", self.problem, self.mend)
    }
}

impl std::error::Error for MachineError {}

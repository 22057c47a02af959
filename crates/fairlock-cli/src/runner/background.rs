//! Busy loops beside a measurement: processes that want a CPU all the time, as other programs do.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};

use super::process::{end_with_parent, this_program};
use crate::clock::busy;
use crate::error::Error;

/// The hidden subcommand that makes this program a busy loop.
pub const SUBCOMMAND: &str = "busy";

/// Busy loops that end when this value is dropped. If this process ends in another way, they end with it: each
/// waits for the end of its stdin.
pub struct Background(Vec<Child>);

impl Background {
    /// Begins this number of loops. They run when this returns.
    pub fn begin(loops: usize) -> Result<Self, Error> {
        let cannot = |error: io::Error| {
            Error::failed(format!("cannot start a busy loop: {error}; use a lower --beside"))
        };
        let mut background = Self(Vec::new());
        for _ in 0..loops {
            let mut command = Command::new(this_program().map_err(cannot)?);
            command.arg(SUBCOMMAND).stdin(Stdio::piped()).stdout(Stdio::piped());
            background.0.push(command.spawn().map_err(cannot)?);
        }
        for child in &mut background.0 {
            let mut began = child.stdout.take().expect("piped");
            began.read_exact(&mut [0]).map_err(cannot)?;
        }
        Ok(background)
    }

    /// The processes.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(Child::id)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended already is as good.
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

/// The process: says that it runs, and is busy until its stdin is closed.
pub fn loop_until_parent_ends() -> Result<(), Error> {
    end_with_parent();
    let mut stdout = io::stdout();
    let said = stdout.write_all(b"\n").and_then(|()| stdout.flush());
    said.map_err(|error| Error::failed(format!("`{SUBCOMMAND}` is for internal use ({error})")))?;
    loop {
        busy(1_000);
    }
}

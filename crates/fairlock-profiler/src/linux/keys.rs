//! The keyboard while `fairlock top` shows screens.

use std::io::{IsTerminal, stdin, stdout};

use rustix::io::read;
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

/// A terminal that hands on each key as it is pressed, until this is dropped.
pub struct Keys {
    before: Termios,
}

impl Keys {
    /// None if nobody can press a key: without a terminal, or if another program has it.
    pub fn new() -> Option<Self> {
        let has_terminal = stdin().is_terminal() && stdout().is_terminal();
        let before = has_terminal.then(|| tcgetattr(stdin()).ok())??;
        if tcgetpgrp(stdin()).ok()? != getpgrp() {
            return None;
        }
        let mut now = before.clone();
        now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        now.special_codes[SpecialCodeIndex::VMIN] = 0;
        now.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Now, &now).ok()?;
        Some(Self { before })
    }

    /// Whether `q` was pressed.
    pub fn ask_to_quit(&self) -> bool {
        let mut keys = [0; 32];
        read(stdin(), &mut keys).is_ok_and(|count| keys[..count].contains(&b'q'))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before); // the terminal may be gone
    }
}

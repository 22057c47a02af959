//! `fairlock completions`.

use clap::Command;
use clap_complete::Shell;

/// What bash needs for lists of locks.
const BASH_LISTS: &[u8] = include_bytes!("../data/completions.bash");

/// The completion script of a shell.
pub fn script(shell: Shell, mut command: Command) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "fairlock", &mut script);
    if shell == Shell::Bash {
        script.extend_from_slice(BASH_LISTS);
    }
    script
}

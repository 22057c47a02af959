//! The program `fairlock`; all of it is in the library, which `sim-score` uses too.

use std::process::ExitCode;

fn main() -> ExitCode {
    fairlock_cli::main()
}

//! `fairlock calibrate`: a machine file of this machine. Each number that is measured has beside it the
//! 10th and 90th of a hundred samples; all others are those of a machine that is built in, and say so.

#[cfg(target_os = "linux")]
mod figures;
#[cfg(target_os = "linux")]
mod file;

use std::time::Duration;

use crate::error::Error;

/// Measures for this long, and prints the file.
#[cfg(target_os = "linux")]
pub fn calibrate(lasting: Duration) -> Result<(), Error> {
    crate::output::print(file::text(&figures::measure(lasting)).as_bytes())
}

#[cfg(not(target_os = "linux"))]
pub fn calibrate(_: Duration) -> Result<(), Error> {
    Err(Error::usage("calibrate measures on Linux only: copy a file of `fairlock machines`"))
}

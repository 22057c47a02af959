//! This program as a child of itself.

use std::io;
use std::path::PathBuf;

use crate::error::INTERRUPTED;

/// The path of this program. On Linux that is not the path it was started by: a newer build may
/// have replaced that file since.
pub fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Ends this process when the parent ends: then nobody is left to take the result.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        // The parent writes no more to the pipe, so this ends when the parent does.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(i32::from(INTERRUPTED));
    });
}

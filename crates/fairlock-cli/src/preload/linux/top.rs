//! `fairlock top`: the profile of a program while it runs, again and again.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::profile::Profile;
use super::{catch_signals, caught, command, exit_code, find, folder, library, program, record};
use crate::error::Error;
use crate::output::{Page, print};
use crate::preload::TopFlags;

/// Clears the terminal.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// How soon a signal is noticed.
const SOON: Duration = Duration::from_millis(50);

/// Shows the locks of a program that runs already, or of one that it starts, until the program
/// ends. Then the exit code is that of the program it started. A signal ends both: this process goes
/// last, as it removes the record.
pub fn top(flags: &TopFlags) -> Result<ExitCode, Error> {
    if let Some(process) = flags.process {
        let folder = folder_of(process)?;
        let runs = || Path::new("/proc").join(process.to_string()).exists();
        watch(flags, &folder, || Ok((!runs()).then_some(ExitCode::SUCCESS)))
    } else if flags.program.is_empty() {
        Err(Error::usage(
            "top: no program to look at; name one that `fairlock run` or `fairlock top` has \
             started, `fairlock top PID`, or one to start, `fairlock top -- PROGRAM ARGUMENTS`",
        ))
    } else {
        let library = library::find(flags.locks.library.as_deref())?;
        let (found, arguments, _) = find(&flags.program)?;
        let folder = folder()?;
        let mut command = command(&flags.locks, &found, arguments, &library);
        record(&mut command, &flags.locks, folder.path(), flags.locks.observe);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        catch_signals();
        let mut child = command.spawn().map_err(|error| program::cannot_start(&found, &error))?;
        let outcome = watch(flags, folder.path(), || {
            let ended = child
                .try_wait()
                .map_err(|error| Error::failed(format!("cannot wait for the program: {error}")))?;
            Ok(ended.map(exit_code))
        });
        // If the program still runs after the last look, it is killed: its record goes now.
        let _ = child.kill();
        let _ = child.wait();
        outcome
    }
}

/// Shows the profile until the program has ended, or as many times as the flags say.
fn watch(
    flags: &TopFlags,
    folder: &Path,
    mut ended: impl FnMut() -> Result<Option<ExitCode>, Error>,
) -> Result<ExitCode, Error> {
    let is_terminal = io::stdout().is_terminal();
    let mut looks = 0;
    loop {
        sleep(*flags.every);
        let code = ended()?.or_else(|| caught().map(|signal| ExitCode::from(128 + signal)));
        let profile = Profile::read(folder)?;
        if is_terminal {
            print(CLEAR)?;
        }
        Page::Stdout.show(&profile.text(false, Page::Stdout.width()))?;
        looks += 1;
        if let Some(code) = code {
            return Ok(code);
        }
        if flags.looks.is_some_and(|most| looks >= most) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Returns sooner if a signal was caught.
fn sleep(time: Duration) {
    let began = Instant::now();
    while let Some(left) = time.checked_sub(began.elapsed())
        && caught().is_none()
    {
        thread::sleep(left.min(SOON));
    }
}

/// The folder with the records of a process, from its environment.
fn folder_of(process: u32) -> Result<PathBuf, Error> {
    const VARIABLE: &[u8] = b"FAIRLOCK_PROFILE=";
    let path = format!("/proc/{process}/environ");
    let environment = fs::read(&path).map_err(|error| {
        Error::failed(match error.kind() {
            io::ErrorKind::NotFound => format!("there is no process {process}: `ps` lists them"),
            io::ErrorKind::PermissionDenied => {
                format!("cannot look at process {process}: run this as the user whose it is")
            }
            _ => format!("cannot look at process {process}: {path}: {error}"),
        })
    })?;
    let mut variables = environment.split(|&byte| byte == 0);
    let told = variables.find_map(|variable| variable.strip_prefix(VARIABLE));
    let folder = told.map(|value| PathBuf::from(std::ffi::OsStr::from_bytes(value)));
    folder.filter(|folder| folder.is_dir()).ok_or_else(|| {
        Error::failed(format!(
            "nothing is recorded of the locks of process {process}: start it with `fairlock run`"
        ))
    })
}

//! `fairlock top`: what happens at a program's locks while it runs, again and again.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::profile::{Files, Profile};
use super::threads::Watch;
use super::{
    catch_signals, caught, command, exit_code, find, folder, library, program, record, survivors,
};
use crate::error::Error;
use crate::output::{Page, complain, print};
use crate::preload::TopFlags;

/// Clears the terminal.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// How soon a signal is noticed.
const SOON: Duration = Duration::from_millis(50);

/// Shows the locks of a program that runs already, or of one that it starts, until the program
/// ends. Then the exit code is that of the program it started, and the whole record is shown. A signal
/// ends both: this process goes last, as it removes the record.
pub fn top(flags: &TopFlags) -> Result<ExitCode, Error> {
    if let Some(process) = flags.process {
        let folder = folder_of(process)?;
        let look = |files: &mut Files| match &folder {
            Some(folder) => Profile::look(folder, files),
            None => Ok(Profile::mapped(process, files)),
        };
        let runs = || Path::new("/proc").join(process.to_string()).exists();
        let ended =
            watch(flags, &Watch::of(process), look, || Ok((!runs()).then_some(ExitCode::SUCCESS)))?;
        Ok(ended.unwrap_or(ExitCode::SUCCESS))
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
        let look = |files: &mut Files| Profile::look(folder.path(), files);
        let threads = Watch::of(child.id());
        let outcome = watch(flags, &threads, look, || {
            let ended = child
                .try_wait()
                .map_err(|error| Error::failed(format!("cannot wait for the program: {error}")))?;
            Ok(ended.map(exit_code).or_else(|| caught().map(|signal| ExitCode::from(128 + signal))))
        });
        // If the program still runs after the last look, it is killed: its record goes now.
        let _ = child.kill();
        let _ = child.wait();
        let Some(code) = outcome? else { return Ok(ExitCode::SUCCESS) };
        let profile = Profile::read(folder.path(), child.id())?;
        let threads = threads.end().with(profile.totals());
        let survivors = survivors::text(folder.path());
        let text = profile.text(survivors.is_some(), Page::Stdout.width());
        show(&(threads.text() + &text))?;
        survivors.iter().for_each(|text| complain(text));
        Ok(code)
    }
}

/// Shows the locks until the program has ended, and returns its exit code; or as many times as the
/// flags say.
fn watch(
    flags: &TopFlags,
    threads: &Watch,
    look: impl Fn(&mut Files) -> Result<Profile, Error>,
    mut ended: impl FnMut() -> Result<Option<ExitCode>, Error>,
) -> Result<Option<ExitCode>, Error> {
    let mut files = Files::default();
    let mut earlier = (look(&mut files)?, Instant::now());
    let mut looks = 0;
    while flags.looks.is_none_or(|most| looks < most) {
        sleep(flags.every);
        let profile = look(&mut files);
        // After the look: the record of a program that has ended may be gone.
        if let Some(code) = ended()? {
            return Ok(Some(code));
        }
        let now = (profile?, Instant::now());
        let known = now.0.totals().since(earlier.0.totals());
        let threads = threads.since_last().with(known).line();
        let time = now.1 - earlier.1;
        show(&now.0.rates(&earlier.0, time, threads, Page::Stdout.room()))?;
        earlier = now;
        looks += 1;
    }
    Ok(None)
}

fn show(text: &str) -> Result<(), Error> {
    print(if io::stdout().is_terminal() { CLEAR } else { b"\n" })?;
    Page::Stdout.show(text)
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

/// The folder with the records of a process and its children, from its environment; none if the process
/// was told a file, or if it has left the folder that the name was for.
fn folder_of(process: u32) -> Result<Option<PathBuf>, Error> {
    const VARIABLE: &[u8] = b"FAIRLOCK_PROFILE=";
    let path = format!("/proc/{process}/environ");
    let environment = fs::read(&path).map_err(|error| {
        Error::failed(match error.kind() {
            io::ErrorKind::NotFound => format!("there is no process {process}: `ps` lists them"),
            io::ErrorKind::PermissionDenied => {
                format!("cannot look at process {process}: run this as the user that owns it")
            }
            _ => format!("cannot look at process {process}: {path}: {error}"),
        })
    })?;
    let mut variables = environment.split(|&byte| byte == 0);
    let told = variables.find_map(|variable| variable.strip_prefix(VARIABLE));
    let value = told.filter(|value| !value.is_empty()).ok_or_else(|| {
        Error::failed(format!(
            "the locks of process {process} are not recorded: start it with `fairlock run`"
        ))
    })?;
    let folder = Path::new("/proc").join(process.to_string()).join("cwd");
    let folder = folder.join(OsStr::from_bytes(value));
    Ok(folder.is_dir().then_some(folder))
}

//! `fairlock top`: what happens at a program's locks while it runs, again and again; of a program that records nothing,
//! what its threads wait for.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::keys::Keys;
use super::profile::{Files, Profile, WhyNone, runs, told};
use super::threads::Watch;
use super::{
    catch_signals, caught, command, exit_code, find, folder, library, program, record, survivors,
};
use crate::TopFlags;
use crate::error::Error;
use crate::output::{Page, complain, print};
use crate::snapshot::{Looks, screen};

/// Clears the terminal.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// How soon a signal is noticed.
const SOON: Duration = Duration::from_millis(50);

/// Shows the locks of a program that runs already, or of one that it starts, until the program
/// ends. Then the exit code is that of the program it started, and the whole record is shown. A signal
/// ends both: this process goes last, as it removes the record.
pub fn top(flags: &TopFlags) -> Result<ExitCode, Error> {
    if let Some(process) = flags.process {
        catch_signals();
        let ended = || Ok(if runs(process) { by_signal() } else { Some(ExitCode::SUCCESS) });
        let ended = match folder_of(process)? {
            Recorded::Nowhere => watch_from_outside(flags, process, ended)?,
            Recorded::In(folder) => {
                let look = |files: &mut Files| Profile::look(&folder, files);
                watch(flags, &Watch::of(process), look, ended)?
            }
            Recorded::Apart => {
                let look = |files: &mut Files| Ok(Profile::mapped(process, files));
                watch(flags, &Watch::of(process), look, ended)?
            }
        };
        Ok(ended.unwrap_or(ExitCode::SUCCESS))
    } else if flags.program.is_empty() {
        Err(Error::usage(
            "top: no program to look at; name one that runs, `fairlock top PID`, or one to start, \
             `fairlock top -- PROGRAM ARGUMENTS`",
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
            Ok(ended.map(exit_code).or_else(by_signal))
        });
        // If the program still runs after the last look, it is killed: its record goes now.
        let _ = child.kill();
        let _ = child.wait();
        let Some(code) = outcome? else { return Ok(ExitCode::SUCCESS) };
        let profile = Profile::read(folder.path(), child.id())?;
        let threads = threads.end().with(profile.totals());
        let survivors = survivors::text(folder.path());
        let why_none = WhyNone::said_if(survivors.is_some());
        let text = profile.text(why_none, Page::Stdout.width());
        show(&(threads.text() + &text))?;
        survivors.iter().for_each(|text| complain(text));
        Ok(code)
    }
}

/// The exit code after a signal.
fn by_signal() -> Option<ExitCode> {
    caught().map(|signal| ExitCode::from(128 + signal))
}

/// Shows what the threads wait for until the process has ended, or as many times as the flags say.
fn watch_from_outside(
    flags: &TopFlags,
    process: u32,
    mut ended: impl FnMut() -> Result<Option<ExitCode>, Error>,
) -> Result<Option<ExitCode>, Error> {
    let keys = Keys::new();
    let mut outside = Looks::at(process);
    let mut looks = 0;
    while flags.looks.is_none_or(|most| looks < most) {
        let content = outside.look();
        // After the look: it fails if the process has ended.
        if let Some(code) = ended()? {
            return Ok(Some(code));
        }
        show(&screen(&content?, Page::Stdout.room()))?;
        looks += 1;
        let is_last = flags.looks == Some(looks);
        if !is_last && !sleep(flags.every, keys.as_ref()) {
            break;
        }
    }
    Ok(None)
}

/// Shows the locks until the program has ended, and returns its exit code; or as many times as the
/// flags say.
fn watch(
    flags: &TopFlags,
    threads: &Watch,
    look: impl Fn(&mut Files) -> Result<Profile, Error>,
    mut ended: impl FnMut() -> Result<Option<ExitCode>, Error>,
) -> Result<Option<ExitCode>, Error> {
    let keys = Keys::new();
    let mut files = Files::default();
    let mut earlier = (look(&mut files)?, Instant::now());
    let mut looks = 0;
    while flags.looks.is_none_or(|most| looks < most) {
        if !sleep(flags.every, keys.as_ref()) {
            break;
        }
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

/// Returns sooner if a signal was caught. False: the key `q` was pressed.
fn sleep(time: Duration, keys: Option<&Keys>) -> bool {
    let began = Instant::now();
    while let Some(left) = time.checked_sub(began.elapsed())
        && caught().is_none()
    {
        if keys.is_some_and(Keys::ask_to_quit) {
            return false;
        }
        thread::sleep(left.min(SOON));
    }
    true
}

/// Where the locks of a process are recorded.
enum Recorded {
    In(PathBuf),
    /// In files of its own.
    Apart,
    Nowhere,
}

/// Where the records of a process and its children are, from its environment: not in a folder if the process was told
/// a file, or if it has left the folder that the name was for.
fn folder_of(process: u32) -> Result<Recorded, Error> {
    let told = told(process).map_err(|error| {
        Error::failed(match error.kind() {
            io::ErrorKind::NotFound => format!("there is no process {process}: `ps` lists them"),
            io::ErrorKind::PermissionDenied => {
                format!("cannot look at process {process}: run this as the user that owns it")
            }
            _ => format!("cannot look at process {process}: {error}"),
        })
    })?;
    Ok(match told {
        None => Recorded::Nowhere,
        Some(folder) if folder.is_dir() => Recorded::In(folder),
        Some(_) => Recorded::Apart,
    })
}

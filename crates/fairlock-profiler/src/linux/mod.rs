//! Runs a program with the library for LD_PRELOAD.

mod both;
mod keys;
mod library;
pub mod profile;
mod program;
mod survivors;
pub mod threads;
mod top;

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};
use std::{fs, io, mem};

use libc::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGPWR, SIGQUIT, SIGSTKFLT, SIGTERM, SIGUSR1, SIGUSR2,
    SIGVTALRM, SIGXCPU,
};

use super::{LockFlags, RunFlags};
use crate::error::{DEADLOCK, Error};
use crate::json::Target;
use crate::output::canonical;
use crate::output::{Page, both, complain};
use profile::{Profile, WhyNone};
use tempfile::TempDir;
use threads::{Threads, Watch};
pub use top::top;

/// Runs the program, then prints the report to stderr, as stdout is the program's. Our exit code is
/// the program's, or 128 plus the number of the signal that ended it, or [`DEADLOCK`].
pub fn run(flags: &RunFlags) -> Result<ExitCode, Error> {
    let library = library::find(flags.locks.library.as_deref())?;
    let (program, arguments, obstacle) = find(&flags.program)?;
    if flags.compare {
        catch_signals();
        return both::run(flags, &program, |folder, observe| {
            let mut command = command(&flags.locks, &program, arguments, &library);
            record(&mut command, &flags.locks, folder, observe);
            command
        });
    }
    let targets = Targets::by(flags)?;
    let folder = folder()?;
    let mut command = command(&flags.locks, &program, arguments, &library);
    record(&mut command, &flags.locks, folder.path(), flags.locks.observe);
    catch_signals();
    hand_on_ignored(&mut command);
    let child = command.spawn().map_err(|error| program::cannot_start(&program, &error))?;
    let pid = child.id();
    let watch = Watch::of(pid);
    let status = wait(child)?;
    let threads = watch.end();
    if let Some(signal) = status.signal() {
        complain(&format!("{} was ended by signal {signal}", program.display()));
    }
    let why_none = WhyNone::said_if(tell_of_survivors(folder.path()) || obstacle);
    let is_deadlocked = targets.show(folder.path(), pid, why_none, threads, flags)?;
    Ok(if is_deadlocked { ExitCode::from(DEADLOCK) } else { exit_code(status) })
}

/// What is printed of a record, or of a folder with records.
pub fn text_of_record(path: &Path, width: Option<usize>) -> Result<String, Error> {
    let profile = Profile::recorded(path).ok_or_else(|| {
        Error::usage(format!(
            "{} is no record of locks, nor a folder with one: FAIRLOCK_PROFILE makes them",
            path.display()
        ))
    })?;
    Ok(profile.verdict(None) + &profile.text(WhyNone::Unsaid, width))
}

/// Says which processes of the program, which has ended, go on; false if none does.
fn tell_of_survivors(folder: &Path) -> bool {
    let survivors = survivors::text(folder);
    survivors.inspect(|text| complain(text)).is_some()
}

/// Where the program is, its arguments, and whether something keeps the library out of it. If
/// something does, says so.
fn find(written: &[OsString]) -> Result<(PathBuf, &[OsString], bool), Error> {
    let Some((name, arguments)) = written.split_first() else {
        return Err(Error::usage("name a program to run"));
    };
    let program = program::find(name)?;
    let obstacle = program::obstacle(&program);
    if let Some(obstacle) = &obstacle {
        complain(&format!("{}: {obstacle}", program.display()));
    }
    Ok((program, arguments, obstacle.is_some()))
}

/// A folder for what a run records, which is removed with what is in it.
struct Folder {
    _whole: TempDir,
    /// Where the program is to record.
    path: PathBuf,
}

impl Folder {
    fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes a folder for what a run records.
///
/// No other user can write to it. A program that root starts may become another user, whose children record
/// there, too: so everybody can write to root's, which is within another one, and whose name nobody can list
/// or guess.
fn folder() -> Result<Folder, Error> {
    let cannot =
        |error: io::Error| Error::failed(format!("cannot make a folder for the report: {error}"));
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    let make = || {
        let whole = tempfile::Builder::new().prefix("fairlock-run-").tempdir_in(profile::place())?;
        let mut path = whole.path().to_owned();
        if rustix::process::geteuid().is_root() {
            path = tempfile::Builder::new().rand_bytes(24).tempdir_in(path)?.keep();
            mode(&path, 0o1733)?;
            mode(whole.path(), 0o711)?;
        }
        Ok(Folder { _whole: whole, path })
    };
    make().map_err(cannot)
}

/// The command that starts the program with the library.
fn command(flags: &LockFlags, program: &Path, arguments: &[OsString], library: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    // Libraries that LD_PRELOAD names already stay in it.
    let others = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty());
    let ours = (!program::has_thread_sanitizer(program)).then(|| library.as_os_str().to_owned());
    let all: Vec<_> = [program::wants_first(program), ours, others].into_iter().flatten().collect();
    command.env("LD_PRELOAD", all.join(OsStr::new(":")));
    for variable in ["FAIRLOCK_PROFILE", "FAIRLOCK_OBSERVE"] {
        command.env_remove(variable);
    }
    if let Some(kind) = &flags.only {
        command.env("FAIRLOCK_ONLY", kind);
    }
    command
}

/// Makes the command record the program's locks: glibc's if they are only observed, or else ours.
fn record(command: &mut Command, flags: &LockFlags, folder: &Path, observe: bool) {
    let threshold = flags.threshold.as_nanos().min(u64::MAX.into()).to_string();
    // With a slash at its end: a process that comes when the folder is gone makes no file instead.
    command.env("FAIRLOCK_PROFILE", folder.join(""));
    command.env("FAIRLOCK_PROFILE_THRESHOLD", threshold);
    if observe {
        command.env("FAIRLOCK_OBSERVE", "1");
    }
}

/// Where a run's results go, by flag.
struct Targets {
    json: Option<Target>,
    pprof: Option<Target>,
    folded: Option<Target>,
    trace: Option<Target>,
}

impl Targets {
    fn by(flags: &RunFlags) -> Result<Self, Error> {
        let target = |flag, path: &Option<PathBuf>| {
            path.as_deref().map(|path| Target::new(flag, path)).transpose()
        };
        let json = target("--json", &flags.json)?;
        let pprof = target("--pprof", &flags.pprof)?;
        let folded = target("--folded", &flags.folded)?;
        let trace = target("--trace", &flags.trace)?;
        Target::check_apart([&json, &pprof, &folded, &trace])?;
        Ok(Self { json, pprof, folded, trace })
    }

    /// Shows them, and returns whether threads were in a deadlock.
    ///
    /// Text for people comes first, so that a full disk does not keep it from them.
    fn show(
        self,
        folder: &Path,
        pid: u32,
        why_none: WhyNone,
        threads: Threads,
        flags: &RunFlags,
    ) -> Result<bool, Error> {
        let (charge, width) = (flags.charge, Page::Stderr.width());
        let mut threads = threads;
        let doing = mem::take(&mut threads.doing);
        let profile = Profile::read(folder, pid)?.with(doing);
        let threads = threads.with(profile.totals());
        let verdict = profile.verdict(threads.document().as_ref());
        let text = verdict + &threads.text() + &profile.text(why_none, width);
        Page::Stderr.show(&text)?;
        let is_deadlocked = !profile.deadlocks().is_empty();
        let command = || command_line(&flags.program);
        let to = |target: Option<Target>, write: &dyn Fn(&Target) -> Result<(), Error>| {
            target.map_or(Ok(()), |target| write(&target))
        };
        // All of them, also where one cannot be written.
        let written = [
            to(self.json, &|to| to.write(&profile.json(command(), &threads))),
            to(self.pprof, &|to| to.write_bytes(&profile.pprof(charge)?)),
            to(self.folded, &|to| to.write_bytes(profile.folded(charge).as_bytes())),
            to(self.trace, &|to| to.write_bytes(&profile.trace())),
        ];
        written.into_iter().fold(Ok(()), both)?;
        Ok(is_deadlocked)
    }
}

/// What was typed, without the flags that say where results go: that is nobody's business. The
/// program's own words stay as they are.
fn command_line(program: &[OsString]) -> String {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let (own, others) = words.split_at(words.len().saturating_sub(program.len()));
    [&[canonical(own.iter().cloned())][..], others].concat().join(" ")
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => crate::error::FAILED.into(),
    };
    ExitCode::from(code as u8)
}

/// The process id of the program, for signal handlers; zero before it runs.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// A signal that came before the program ran.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Beside the number of a signal that the terminal sends to a group.
const TO_THE_GROUP: i32 = 1 << 8;
/// The last signal that came.
static CAUGHT: AtomicI32 = AtomicI32::new(0);

/// The last signal that has come since [`catch_signals`].
fn caught() -> Option<u8> {
    // Relaxed: no other memory is read on the strength of it.
    u8::try_from(CAUGHT.load(Ordering::Relaxed)).ok().filter(|&signal| signal != 0)
}

/// All signals that would end this process.
fn ending() -> impl Iterator<Item = libc::c_int> {
    const ENDING: [libc::c_int; 13] = [
        SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO,
        SIGPWR, SIGSTKFLT, SIGXCPU,
    ];
    ENDING.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

/// Hands on to the program from here on all signals that would end this process, which stays for the report.
/// Those from the terminal reach the program without us. A signal that is ignored, as under nohup, stays
/// ignored, so that the program finds it so.
fn catch_signals() {
    let handler: extern "C" fn(_, *mut libc::siginfo_t, _) = came;
    ending().filter(|&signal| !is_ignored(signal)).for_each(|it| handle(it, handler as usize));
}

/// Hands on those that are ignored, too: a shell's script ignores SIGINT and SIGQUIT for what it starts in the
/// background, and the program may handle them nevertheless. It still finds them ignored.
fn hand_on_ignored(command: &mut Command) {
    let handler: extern "C" fn(_, *mut libc::siginfo_t, _) = came;
    let ignored: Vec<_> = ending().filter(|&signal| is_ignored(signal)).collect();
    ignored.iter().for_each(|&signal| handle(signal, handler as usize));
    let ignore = move || {
        ignored.iter().for_each(|&signal| handle(signal, libc::SIG_IGN));
        Ok(())
    };
    // SAFETY: between fork and exec it only makes system calls that are allowed in a signal handler.
    unsafe { command.pre_exec(ignore) };
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: the action is plain data, which is written.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction == libc::SIG_IGN
    }
}

/// Sets a signal's handler, which is [`came`] or none.
fn handle(signal: libc::c_int, handler: usize) {
    // SAFETY: the action is plain data, filled in before it is used, and all that the handler does is allowed
    // in a signal handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

fn wait(mut child: Child) -> Result<ExitStatus, Error> {
    // SeqCst, as in the handler: each of the two stores one variable and then loads the other, and
    // one of them must see the other's store.
    CHILD.store(child.id() as i32, Ordering::SeqCst);
    pass_on(EARLY.load(Ordering::SeqCst));
    let ended = child.wait();
    CHILD.store(0, Ordering::SeqCst);
    ended.map_err(|error| Error::failed(format!("cannot wait for the program: {error}")))
}

extern "C" fn came(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    CAUGHT.store(signal, Ordering::Relaxed);
    // SAFETY: the kernel passes it to a handler that was set with SA_SIGINFO.
    let from_the_kernel = unsafe { (*info).si_code } > 0;
    let to_the_group = from_the_kernel && [SIGINT, SIGQUIT].contains(&signal);
    let signal = if to_the_group { signal | TO_THE_GROUP } else { signal };
    EARLY.store(signal, Ordering::SeqCst);
    pass_on(signal);
}

/// Sends the program the signal, if there is one, once there is the program. What the terminal sent, it sent to all
/// processes of the group in its foreground, which the program may have left; a hang-up only to the first of them.
fn pass_on(signal: libc::c_int) {
    let child = CHILD.load(Ordering::SeqCst);
    // SAFETY: a number, and none.
    let has_it =
        || signal & TO_THE_GROUP != 0 && unsafe { libc::getpgid(child) == libc::getpgrp() };
    if signal != 0 && child != 0 && !has_it() {
        // SAFETY: both arguments are numbers. Until the child has been waited for, its id is no
        // other process's.
        unsafe { libc::kill(child, signal & !TO_THE_GROUP) };
    }
}

//! One cell in one child process: the parent's side ([`run`]) and the child's ([`serve`]). The cell
//! goes to the child's stdin as JSON, and a reply comes from its stdout.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::background::Background;
use super::events::{Event, Events};
use super::process::{end_with_parent, this_program};
use crate::cell::{Cell, CellReport};
use crate::error::Error;
use crate::interference::Times;
use crate::locks::registry;
use crate::workload::testbed::Real;

/// The hidden subcommand that makes this program a child.
pub const SUBCOMMAND: &str = "cell";

/// What a child answers.
#[derive(Serialize, Deserialize)]
#[allow(clippy::large_enum_variant)] // one a child
enum Reply {
    Report(CellReport),
    Error(String),
}

/// What a child wrote before it closed its output.
pub struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// How a child ended.
#[allow(clippy::large_enum_variant)] // one a child
pub enum End {
    Report(CellReport),
    Failed(String),
    Interrupted,
}

/// Runs `cell` in a child process. A child that is not done `patience` after its window is killed:
/// its lock has lost a thread.
pub fn run(cell: &Cell, events: &Events<Output>, patience: Duration) -> Result<End, Error> {
    let (mut child, _lifeline) = spawn(cell, events)?;
    let window = Duration::from_secs_f64(cell.secs + cell.warm_up_secs());
    let end = match events.next(window + patience) {
        Some(Event::Done(Output { stdout, stderr })) => {
            let status = child.wait().map_err(|error| cannot("wait for", &error))?;
            return Ok(end(&stdout, &stderr, status));
        }
        Some(Event::Interrupted) => End::Interrupted,
        None => End::Failed(format!(
            "killed: a thread still had not got the lock {:.0} s after the window",
            patience.as_secs_f64()
        )),
    };
    // If the child has just ended by itself, killing does nothing.
    let _ = child.kill();
    child.wait().map_err(|error| cannot("wait for", &error))?;
    // The child's output ends with it, and must be taken here, or it would be taken for the next
    // child's.
    match events.next(patience) {
        Some(Event::Interrupted) => Ok(End::Interrupted),
        _ => Ok(end),
    }
}

/// A child that works on `cell`, and its stdin. The child ends when its stdin is closed, which
/// happens also when this process ends, in whatever way.
fn spawn(cell: &Cell, events: &Events<Output>) -> Result<(Child, ChildStdin), Error> {
    let program = this_program().map_err(|error| cannot("start", &error))?;
    let mut command = Command::new(program);
    command.arg(SUBCOMMAND);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    set_apart(&mut command);
    let mut child = command.spawn().map_err(|error| cannot("start", &error))?;
    let mut request = serde_json::to_vec(cell).map_err(|error| cannot("ask", &error.into()))?;
    request.push(b'\n');
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    // A child that has ended already says why on its stderr.
    let _ = stdin.write_all(&request);
    let sender = events.sender();
    std::thread::spawn(move || {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        // Both outputs are far shorter than what a pipe holds, so reading one after the other will
        // do.
        let _ = stdout.read_to_end(&mut out);
        let _ = stderr.read_to_end(&mut err);
        let _ = sender.send(Event::Done(Output { stdout: out, stderr: err }));
    });
    Ok((child, stdin))
}

/// Puts the child into a process group of its own: Ctrl-C goes to the parent alone, which ends the
/// child.
#[cfg(unix)]
fn set_apart(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.arg0("fairlock").process_group(0);
}

#[cfg(windows)]
fn set_apart(command: &mut Command) {
    use std::os::windows::process::CommandExt;
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
    command.creation_flags(CREATE_NEW_PROCESS_GROUP);
}

fn end(stdout: &[u8], stderr: &[u8], status: ExitStatus) -> End {
    match serde_json::from_slice(stdout) {
        Ok(Reply::Report(report)) => End::Report(report),
        Ok(Reply::Error(why)) => End::Failed(why),
        Err(_) => {
            let said = String::from_utf8_lossy(stderr);
            // The first line of a panic says where it was, and the second why.
            let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
            let said = lines.take(2).collect::<Vec<_>>().join(" ");
            End::Failed(format!("the run ended early ({status}): {said}"))
        }
    }
}

fn cannot(what: &str, error: &io::Error) -> Error {
    Error::failed(format!("cannot {what} a child process: {error}"))
}

/// The child: runs the cell on stdin, replies on stdout.
pub fn serve() -> Result<(), Error> {
    end_on_panic();
    let mut request = String::new();
    io::stdin()
        .read_line(&mut request)
        .map_err(|error| Error::failed(format!("no cell on stdin: {error}")))?;
    end_with_parent();
    let cell: Cell = serde_json::from_str(&request).map_err(|error| {
        Error::usage(format!("`{SUBCOMMAND}` is for internal use; use `bench` ({error})"))
    })?;
    let reply = match measure(&cell) {
        Ok(report) => Reply::Report(report),
        Err(error) => Reply::Error(error.to_string()),
    };
    let reply = serde_json::to_string(&reply)
        .map_err(|error| Error::failed(format!("cannot write the report: {error}")))?;
    // The parent may have ended, or have given up.
    let _ = writeln!(io::stdout(), "{reply}");
    Ok(())
}

fn measure(cell: &Cell) -> Result<CellReport, Error> {
    let lock = registry::find(&cell.lock)?;
    let background = Background::begin(cell.disturbance.loops())?;
    let before = Times::now_with(background.processes());
    fairlock::events::set_counting(cell.events);
    let testbed = Real::new(cell);
    let report = lock.run(cell, &testbed)?;
    let interference = Times::now_with(background.processes())
        .zip(before)
        .map(|(after, before)| after.since(&before));
    let (long_waits, events) = (testbed.long_waits(), testbed.events());
    Ok(CellReport { interference, long_waits, events, ..report })
}

/// Ends the process at a panic: a thread that panics in a lock leaves the others waiting for it.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::exit(101);
    }));
}

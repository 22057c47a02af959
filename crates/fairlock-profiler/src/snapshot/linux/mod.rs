//! Threads of a process on Linux.

mod deadlock;
mod glibc;
mod process;
mod text;
mod unwind;
mod waits;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use super::SnapshotFlags;
use super::document::{Content, Frame, OfHold, OfThread, SCHEMA};
use crate::error::{DEADLOCK, Error};
use crate::json::{Document, Target};
use crate::linux::profile::names::{Files, Names};
use crate::linux::profile::now::HoldNow;
use crate::linux::profile::{Profile, pprof};
use crate::machine::Machine;
use crate::output::both;
use crate::output::canonical;
use process::{Process, Thread};
use syscalls::x86_64::Sysno;
use unwind::Tables;
use waits::Waits;

/// Shows what the threads of a process wait for.
pub fn snapshot(flags: &SnapshotFlags) -> Result<ExitCode, Error> {
    let target =
        |flag, path: &Option<_>| path.as_deref().map(|it| Target::new(flag, it)).transpose();
    let json = target("--json", &flags.json)?;
    let pprof = target("--pprof", &flags.pprof)?;
    Target::check_apart([&json, &pprof])?;
    let page = Target::page_beside(&[&json, &pprof]);
    let content = Looks::at(flags.process).look()?;
    page.show(&text::text(&content, page.width()))?;
    let write = |to: Target| {
        let command = canonical(std::env::args().skip(1));
        to.write(&Document::new(SCHEMA, &Machine::this(), command, false, &content))
    };
    let json = json.map_or(Ok(()), write);
    let pprof = pprof.map_or(Ok(()), |to| to.write_bytes(&profile(&content)?));
    both(json, pprof)?;
    let is_stuck = !content.deadlocks.is_empty();
    Ok(if is_stuck { ExitCode::from(DEADLOCK) } else { ExitCode::SUCCESS })
}

pub use text::screen;

/// The threads as a profile: how many have each stack.
fn profile(content: &Content) -> Result<Vec<u8>, Error> {
    let sample = |thread: &OfThread| pprof::Sample {
        stack: thread.stack.iter().map(|frame| frame.place.clone()).collect(),
        values: vec![1, thread.asleep_ns.unwrap_or(0)],
        lock: thread.waits.as_ref().map(text::what).unwrap_or_default(),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let types = [("threads", "count"), ("asleep", "nanoseconds")];
    pprof::compressed(&types, content.threads.iter().map(sample), now.as_nanos() as u64)
}

/// A record of named locks is up to a second old. A wait that only a release ends, and that had gone on for so long then, goes
/// on, more likely than not; of a circle of such waits that is certain.
const SETTLED_NS: u64 = 100_000_000;

fn of_hold(hold: &HoldNow) -> OfHold {
    OfHold { name: hold.name.clone(), held_ns: hold.held_ns, at: hold.at.clone() }
}

/// Looks at a process, once or repeatedly.
pub struct Looks {
    process: u32,
    files: Files,
    tables: Tables,
}

impl Looks {
    /// At the process of which this is the number, or that of a thread.
    pub fn at(process: u32) -> Self {
        Self { process, files: Files::default(), tables: Tables::default() }
    }

    /// What its threads do now.
    pub fn look(&mut self) -> Result<Content, Error> {
        let process = Process::open(self.process)?;
        let threads = process.threads();
        let names = Names::of_modules(&process.modules(), &mut self.files);
        let profile = Profile::mapped(process.pid, &mut self.files);
        let (recorded, held) = profile.now();
        let waits =
            Waits { process: &process, names: &names, threads: &threads, recorded: &recorded };
        let mut of = |thread: &Thread| {
            let call = thread.call.as_ref();
            let frames = call.map_or_else(Vec::new, |it| self.tables.chain(&process, &names, it));
            let places = frames.iter().flat_map(|frame| {
                let of = |place: &_| Frame { place: Clone::clone(place), is_guess: frame.is_guess };
                names.places(frame.address).iter().map(of).collect::<Vec<_>>()
            });
            let stack: Vec<Frame> = places.collect();
            let places: Vec<_> = stack.iter().map(|frame| frame.place.clone()).collect();
            let number = call.and_then(|call| call.number);
            OfThread {
                tid: thread.tid,
                name: thread.name.clone(),
                state: thread.state,
                system_call: number.map(|it| match Sysno::new(it as usize) {
                    Some(known) => known.name().to_owned(),
                    None => it.to_string(),
                }),
                arguments: number.and(call).map_or_else(Vec::new, |call| {
                    call.arguments.iter().map(|it| format!("{it:#x}")).collect()
                }),
                in_kernel: thread.in_kernel.clone(),
                asleep_ns: thread.asleep_ns,
                waits: waits.of(thread, &places),
                holds: held.iter().filter(|hold| hold.tid == thread.inner).map(of_hold).collect(),
                stack,
            }
        };
        let seen: Vec<OfThread> = threads.iter().map(&mut of).collect();
        let deadlocks = deadlock::find(&seen, |tid| {
            let before = threads.iter().find(|it| it.tid == tid);
            let now = process.thread(tid, &mut BTreeMap::new());
            let place = |thread: &Thread| (thread.switches, thread.call.clone());
            let inner = before.map(|it| it.inner);
            let mut of_thread = recorded.iter().filter(|wait| Some(wait.tid) == inner);
            of_thread.any(|wait| wait.is_settled && wait.waited_ns >= SETTLED_NS)
                || before.map(place) == now.as_ref().map(place)
        });
        Ok(Content { pid: process.pid, program: process.program, deadlocks, threads: seen })
    }
}

//! What the library recorded of a program's locks, with names, in the forms that were asked for.

mod asleep;
mod folded;
mod json;
pub mod names;
pub mod now;
pub mod pprof;
mod rates;
mod stuck;
mod table;
mod trace;
mod verdict;

use std::cell::{OnceCell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fairlock_profile::layout::{MAGIC, NAMED, NEW, kind};
use fairlock_profile::{AtPlace, Contention, Lock, Record, Wait, buckets};

pub use self::names::Files;
use self::names::Names;
use super::threads::{Activities, Threads, Totals, monotonic_ns};
use crate::document::Document;
use crate::error::Error;
use crate::machine::Machine;
use crate::output::complain;
use crate::place::{self, CodePlace};
use crate::waited::Waited;
use crate::{Charge, sum};

/// The folder for records while the program runs: in memory, where there is a file system with room
/// for them. A disk writes changed pages out time and again, and threads wait for that.
pub fn place() -> PathBuf {
    const ROOM: u64 = 256 << 20;
    let memory = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(memory).map_or(0, |found| found.f_bavail * found.f_frsize);
    if room >= ROOM { memory.to_owned() } else { std::env::temp_dir() }
}

/// Opens what may not be a file, as somebody else may have made it.
fn open(path: &Path) -> io::Result<fs::File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    fs::File::options().read(true).custom_flags(flags).open(path)
}

pub fn runs(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Whether a file begins as records do.
fn is_record(path: &Path) -> bool {
    let mut begins = [0; MAGIC.len()];
    open(path).and_then(|mut file| file.read_exact(&mut begins)).is_ok() && begins == MAGIC
}

/// The record of named locks that is beside a record.
fn named_beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(NAMED);
    name.into()
}

/// What the `/proc/PID/status` of a process or a thread has behind this word.
pub fn field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// The number that a process or a thread has for itself, by its `/proc/PID/status`.
pub fn own_number(status: &str) -> Option<u32> {
    field(status, "NSpid:")?.split_whitespace().last()?.parse().ok()
}

/// Where a process that runs writes the record of its named locks, if it does.
fn named_of(process: u32) -> Option<PathBuf> {
    let told = told(process).ok()??;
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let own = own_number(&status)?;
    if !told.is_dir() {
        let told = told.to_string_lossy().replace("%p", &own.to_string());
        return Some(named_beside(Path::new(&told)));
    }
    let is_its = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with(&format!("{own}.")) && name.ends_with(NAMED))
    };
    // After `exec` there are several: the last one has the longest name.
    let all = paths(&told).ok()?.into_iter().filter(is_its);
    all.max_by_key(|path| (path.as_os_str().len(), path.clone()))
}

/// What `FAIRLOCK_PROFILE` told a process that runs: a path by which others find it.
pub fn told(process: u32) -> io::Result<Option<PathBuf>> {
    const VARIABLE: &[u8] = b"FAIRLOCK_PROFILE=";
    let environment = fs::read(format!("/proc/{process}/environ"))?;
    let mut variables = environment.split(|&byte| byte == 0);
    let told = variables.find_map(|variable| variable.strip_prefix(VARIABLE));
    let Some(value) = told.filter(|value| !value.is_empty()) else { return Ok(None) };
    let value = Path::new(OsStr::from_bytes(value));
    Ok(Some(seen_by(process, value)))
}

/// A path as the process itself sees it, which may be in a container.
fn seen_by(process: u32, path: &Path) -> PathBuf {
    let process = Path::new("/proc").join(process.to_string());
    match path.strip_prefix("/") {
        Ok(rest) => process.join("root").join(rest),
        Err(_) => process.join("cwd").join(path),
    }
}

/// The records of a folder that are whole.
fn paths(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: Vec<_> = fs::read_dir(folder)?.collect::<io::Result<_>>()?;
    let paths = entries.into_iter().map(|entry| entry.path());
    let new = format!("{NAMED}{NEW}");
    let is_new = |path: &Path| path.as_os_str().as_encoded_bytes().ends_with(new.as_bytes());
    Ok(paths.filter(|path| !is_new(path)).collect())
}

fn cannot_read(folder: &Path, error: &io::Error) -> Error {
    Error::failed(format!("cannot read {}: {error}", folder.display()))
}

/// Why there may be no record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WhyNone {
    /// It has been said already.
    Said,
    Unsaid,
}

impl WhyNone {
    pub fn said_if(is_said: bool) -> Self {
        if is_said { Self::Said } else { Self::Unsaid }
    }
}

/// What a program and its children recorded.
pub struct Profile {
    /// The processes that took locks, in the order in which they began.
    processes: Vec<Process>,
    /// Whether others were recorded.
    idle: Idle,
    doing: Activities,
}

/// Processes that took no lock.
#[derive(Clone, Copy, PartialEq)]
enum Idle {
    None,
    /// All processes have exited.
    Exited,
    /// Some were killed, or called `_exit` or `exec`.
    Left,
}

/// Which places ask for locks, as far as that was asked for.
#[derive(Default)]
struct Callers {
    /// By the numbers of stacks.
    known: RefCell<HashMap<u32, Option<CodePlace>>>,
    wrappers: OnceCell<HashSet<CodePlace>>,
}

/// What a process recorded, and the names of its addresses.
struct Process {
    record: Record,
    names: Names,
    callers: Callers,
    /// When it ended, or was looked at; none if it was ended in an unknown moment.
    until_ns: Option<u64>,
}

/// The records by when they began, those of named locks with those of their processes. A process that called `exec` has
/// several, of which the last one that began before is meant. The child of a fork has one of pthread locks from its first
/// such lock on, which may come after its first wait for a named one; after `exec` it is not the child of a fork.
fn joined(records: Vec<Record>) -> Vec<Record> {
    let (named, mut records): (Vec<_>, Vec<_>) =
        records.into_iter().partition(|record| record.as_of_ns.is_some());
    let mut alone = Vec::new();
    for named in named {
        let is_its = |it: &&mut Record| {
            let is_before = it.began_ns <= named.began_ns || named.parent.is_some();
            it.pid == named.pid && it.parent.is_some() == named.parent.is_some() && is_before
        };
        match records.iter_mut().filter(is_its).max_by_key(|it| it.began_ns) {
            Some(record) => record.join(named),
            None => alone.push(named),
        }
    }
    records.extend(alone);
    records.sort_by_key(|record| record.began_ns);
    records
}

impl Profile {
    /// Reads the records of a folder. A file that is no record, or a damaged one, is named and left
    /// out. The process `program` has just ended, if it has.
    pub fn read(folder: &Path, program: u32) -> Result<Self, Error> {
        let paths = paths(folder).map_err(|error| cannot_read(folder, &error))?;
        Ok(Self::load(paths, &mut Files::default(), Some(program)))
    }

    /// Reads a record, or those of a folder; none if there are none. The processes may have ended long ago.
    pub fn recorded(path: &Path) -> Option<Self> {
        let of_file = || vec![path.to_owned(), named_beside(path)];
        let paths = if path.is_dir() { paths(path).ok()? } else { of_file() };
        let paths: Vec<_> = paths.into_iter().filter(|path| is_record(path)).collect();
        (!paths.is_empty()).then(|| Self::load(paths, &mut Files::default(), None))
    }

    /// The same while the program runs, by one who knows some files already. The folder may go with the program.
    pub fn look(folder: &Path, files: &mut Files) -> Result<Self, Error> {
        let paths = match paths(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            paths => paths.map_err(|error| cannot_read(folder, &error))?,
        };
        Ok(Self::load(paths, files, None))
    }

    /// Reads the record that a process has mapped, and that of its named locks; nothing if it has none yet.
    pub fn mapped(process: u32, files: &mut Files) -> Self {
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        let shared = maps.lines().filter(|line| line.contains(" rw-s "));
        let path = |line: &str| Some(seen_by(process, Path::new(&line[line.find('/')?..])));
        let paths = shared.filter_map(path).chain(named_of(process));
        Self::load(paths.filter(|path| is_record(path)).collect::<BTreeSet<_>>(), files, None)
    }

    /// Reads these files. The process `program` has just ended, if it has.
    fn load(
        paths: impl IntoIterator<Item = PathBuf>,
        files: &mut Files,
        program: Option<u32>,
    ) -> Self {
        let mut records = Vec::new();
        for path in paths {
            match open(&path).and_then(fairlock_profile::load_file) {
                Ok(record) => records.push(record),
                // Its folder is being removed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => complain(&format!("{}: {error}", path.display())),
            }
        }
        let process = |record: Record| {
            let names = Names::of(&record, files);
            let until_ns = record.ended_ns.or_else(|| runs(record.pid).then(monotonic_ns));
            Process { names, record, callers: Callers::default(), until_ns }
        };
        let mut processes: Vec<_> = joined(records).into_iter().map(process).collect();
        // What called `exec` ended where its successor began.
        let mut after = HashMap::new();
        for process in processes.iter_mut().rev() {
            let next = after.insert(process.record.pid, process.record.began_ns);
            process.until_ns = process.record.ended_ns.or(next).or(process.until_ns);
        }
        let last = processes.iter_mut().rfind(|it| Some(it.record.pid) == program);
        last.into_iter().for_each(|process| _ = process.until_ns.get_or_insert_with(monotonic_ns));
        for process in &mut processes {
            // What waited then may have gone on since.
            process.until_ns =
                [process.until_ns, process.record.as_of_ns].into_iter().flatten().min();
            process.until_ns.iter().for_each(|&until| process.record.count_waits_until(until));
        }
        let all = processes.len();
        let exited = processes.iter().all(|process| process.record.ended_ns.is_some());
        processes.retain(|Process { record, .. }| !record.locks.is_empty() || record.lost > 0);
        let idle = match processes.len() < all {
            true if exited => Idle::Exited,
            true => Idle::Left,
            false => Idle::None,
        };
        Self { idle, processes, doing: Activities::default() }
    }

    /// The same, with what threads were seen to do.
    pub fn with(self, doing: Activities) -> Self {
        Self { doing, ..self }
    }

    /// What a thread did for most of a time in which others waited for it, in words; none if that is too short to be
    /// seen.
    fn meanwhile(&self, thread: u32, since: u64, until: u64) -> Option<String> {
        const SEEN_NS: u64 = 10_000_000;
        let (what, percent) = self.doing.mostly(thread, since, until)?;
        (until.saturating_sub(since) >= SEEN_NS).then(|| format!("{percent} % of it {what}"))
    }

    /// The holder that a wait was for, if it was a thread of another process, in words: with the place that took the
    /// lock there first, if the lock has the same address there, as after a fork.
    fn stranger(&self, process: &Process, wait: &Wait) -> Option<String> {
        if wait.holder == 0 || wait.holder_stack != 0 || wait.holder == process.record.pid {
            return None;
        }
        let is_its = |it: &&Process| {
            let record = &it.record;
            record.pid == wait.holder || record.thread(wait.holder).is_some()
        };
        let Some(other) = self.processes.iter().find(is_its) else {
            return Some(format!("another process (thread {})", wait.holder));
        };
        let lock = &process.record.locks[wait.lock];
        let same =
            other.record.locks.iter().find(|it| it.address == lock.address && it.kind == lock.kind);
        let place = same.and_then(|lock| Some(other.caller(lock.first_stack)?.short()));
        let place = place.map_or_else(String::new, |place| format!("{place} of "));
        Some(format!("{place}another process, PID {},", other.record.pid))
    }

    /// All locks, those at which most time was lost first.
    fn locks(&self) -> Vec<Seen<'_>> {
        let mut locks: Vec<Seen<'_>> = self.processes.iter().flat_map(Process::locks).collect();
        locks.sort_by_key(|seen| Reverse((seen.lost(), seen.taken())));
        locks
    }

    /// The waits for each lock that was waited for; those of locks with the same name together.
    pub fn by_name(&self) -> BTreeMap<String, Waited> {
        let mut all = BTreeMap::<String, Waited>::new();
        for seen in self.locks().into_iter().filter(|seen| seen.waits() > 0) {
            all.entry(seen.name()).or_default().add(Waited {
                waits: seen.waits(),
                lost_ns: seen.lost(),
                p999_ns: seen.wait(0.999).unwrap_or(0),
                longest_ns: seen.longest().unwrap_or(0),
            });
        }
        all
    }

    /// The longest waits, at most `most`.
    fn worst(&self, most: usize) -> Vec<(&Process, &Wait)> {
        let of = |process| -> Vec<(&Process, &Wait)> {
            let process: &Process = process;
            let locks = process.record.locks.iter().filter(|lock| kind::is_lock(lock.kind));
            let found = locks.filter_map(|lock| lock.contention.as_ref());
            found.flat_map(|found| &found.worst).map(|wait| (process, wait)).collect()
        };
        let mut all: Vec<_> = self.processes.iter().flat_map(of).collect();
        all.sort_by_key(|(_, wait)| Reverse(wait.waited_ns));
        all.truncate(most);
        all
    }

    /// What `--json` keeps of the profile that `command` recorded.
    pub fn json(&self, command: String, threads: &Threads) -> Document<Machine> {
        json::document(self, Some(command), threads.document())
    }

    /// The same of a record, of which neither the command nor the machine is known.
    pub fn recorded_json(&self) -> Document<Machine> {
        Document { machine: None, made: None, ..json::document(self, None, None) }
    }

    pub fn totals(&self) -> Totals {
        let slept = self.processes.iter().flat_map(asleep::of).map(|found| found.slept_ns);
        Totals { lost_ns: sum(self.locks().iter().map(Seen::lost)), slept_ns: sum(slept) }
    }

    /// The report for people.
    pub fn text(&self, why_none: WhyNone, width: Option<usize>) -> String {
        if self.processes.is_empty() && why_none == WhyNone::Said {
            return String::new();
        }
        table::text(self, width)
    }
}

impl Process {
    fn locks(&self) -> Vec<Seen<'_>> {
        let of = |(number, lock)| Seen { process: self, number, lock };
        let is_lock = |lock: &Lock| lock.address != 0 && kind::is_lock(lock.kind);
        let used = self.record.locks.iter().enumerate().filter(|(_, lock)| is_lock(lock));
        used.map(of).collect()
    }

    /// What was lost at each lock, by the places that it is charged to. A holder that has not
    /// released the lock yet is not known: its part is charged to no stack.
    fn charged(&self, charge: Charge) -> Vec<AtPlace> {
        #[cfg(test)]
        tests::LOOKED_AT.set(tests::LOOKED_AT.get() + self.record.waiters.len());
        let Record { waiters, holders, locks, .. } = &self.record;
        let is_lock = |number: usize| locks.get(number).is_some_and(|it| kind::is_lock(it.kind));
        if charge == Charge::Waiter {
            return waiters.iter().filter(|place| is_lock(place.lock)).cloned().collect();
        }
        let mut known = HashMap::<usize, u64>::new();
        for place in holders {
            let known = known.entry(place.lock).or_default();
            *known = sum([*known, place.waited_ns]);
        }
        let mut places: Vec<_> = holders.iter().filter(|it| is_lock(it.lock)).cloned().collect();
        for (number, lock) in locks.iter().enumerate().filter(|&(number, _)| is_lock(number)) {
            let lost = lock.contention.as_ref().map_or(0, |found| found.waited_ns);
            let waited_ns = lost.saturating_sub(known.get(&number).copied().unwrap_or(0));
            if waited_ns > 0 {
                places.push(AtPlace { lock: number, waited_ns, ..AtPlace::default() });
            }
        }
        places
    }

    /// The places of a stack, the innermost first.
    fn stack(&self, number: u32) -> Vec<CodePlace> {
        if number == 0 {
            let nobody = CodePlace { function: "(not known)".into(), ..CodePlace::default() };
            return vec![nobody];
        }
        self.places_of(number)
    }

    /// The same; none if that is not known.
    fn places_of(&self, number: u32) -> Vec<CodePlace> {
        match self.record.line(number) {
            Some(line) => vec![CodePlace::in_file(&line.file, line.line)],
            None => self.names.stack(self.record.stack(number)),
        }
    }

    /// The place at which the program itself asked for a lock. If several locks are asked for there, with the place
    /// that it was called from.
    fn caller(&self, stack: u32) -> Option<CodePlace> {
        if let Some(known) = self.callers.known.borrow().get(&stack) {
            return known.clone();
        }
        let places = self.places_of(stack);
        let wrappers = self.callers.wrappers.get_or_init(|| self.wrappers());
        let found = place::caller(&places).map(|place| {
            let behind = || place::behind(&places, place, |it| wrappers.contains(it));
            let behind = if wrappers.contains(place) { behind() } else { None };
            behind.unwrap_or_else(|| place.clone())
        });
        self.callers.known.borrow_mut().insert(stack, found.clone());
        found
    }

    /// The places that ask for more than one lock; and those that release such locks, unless they are in a function that
    /// called such a place.
    fn wrappers(&self) -> HashSet<CodePlace> {
        let Record { locks, waiters, holders, .. } = &self.record;
        let first = locks.iter().enumerate().map(|(number, lock)| (lock.first_stack, number));
        let asked = first.chain(waiters.iter().map(|place| (place.stack, place.lock)));
        let asked: HashSet<(u32, usize)> = asked.filter(|&(stack, _)| stack != 0).collect();
        let mut stacks = HashMap::<u32, Vec<CodePlace>>::new();
        let mut places = |number| {
            let names = || self.places_of(number);
            stacks.entry(number).or_insert_with(names).clone()
        };
        // Of each place the only lock, or none if there are several.
        let mut only = HashMap::<CodePlace, Option<usize>>::new();
        for &(stack, lock) in &asked {
            if let Some(place) = place::caller(&places(stack)) {
                let only = only.entry(place.clone()).or_insert(Some(lock));
                *only = only.filter(|&it| it == lock);
            }
        }
        let several = only.into_iter().filter(|(_, only)| only.is_none());
        let mut wrappers: HashSet<CodePlace> = several.map(|(place, _)| place).collect();
        // By lock, the functions that called those.
        let mut callers = HashMap::<usize, HashSet<String>>::new();
        for (stack, lock) in asked {
            let places = places(stack);
            if place::caller(&places).is_some_and(|place| wrappers.contains(place)) {
                let functions = places.into_iter().map(|place| place.function);
                callers.entry(lock).or_default().extend(functions);
            }
        }
        for holder in holders {
            if let Some(callers) = callers.get(&holder.lock)
                && let Some(place) = place::caller(&places(holder.stack))
                && !callers.contains(&place.function)
            {
                wrappers.insert(place.clone());
            }
        }
        wrappers
    }

    /// The wait of a wait's holder during which that one had the lock, if it was most of the hold; and how much.
    fn through(&self, wait: &Wait) -> Option<(&Wait, u64)> {
        let (since, until) = (wait.held_since_ns?.max(wait.began_ns), wait.held_until_ns?);
        let worst = self.record.locks.iter().filter_map(|lock| lock.contention.as_ref());
        let all = self.record.waits.iter().chain(worst.flat_map(|found| &found.worst));
        let of_holder = all.filter(|it| it.thread == wait.holder && it.lock != wait.lock);
        let during = of_holder.map(|it| {
            let end = it.began_ns.saturating_add(it.waited_ns);
            (it, end.min(until).saturating_sub(it.began_ns.max(since)))
        });
        let (found, waited) = during.max_by_key(|(_, waited)| *waited)?;
        (waited > until.saturating_sub(since) / 2).then_some((found, waited))
    }
}

/// A lock of a process.
#[derive(Clone, Copy)]
struct Seen<'a> {
    process: &'a Process,
    number: usize,
    lock: &'a Lock,
}

impl<'a> Seen<'a> {
    fn of(process: &'a Process, number: usize) -> Self {
        Self { process, number, lock: &process.record.locks[number] }
    }

    fn contention(&self) -> Option<&'a Contention> {
        self.lock.contention.as_deref()
    }

    fn taken(&self) -> u64 {
        sum([self.lock.reads, self.lock.writes])
    }

    fn waits(&self) -> u64 {
        self.contention().map_or(0, Contention::waits)
    }

    fn lost(&self) -> u64 {
        self.contention().map_or(0, |found| found.waited_ns)
    }

    fn longest(&self) -> Option<u64> {
        self.contention().map(|found| found.longest_ns)
    }

    fn kind(&self) -> &'static str {
        match self.lock.kind {
            kind::MUTEX => "mutex",
            kind::RECURSIVE => "recursive",
            kind::ERRORCHECK => "errorcheck",
            kind::ADAPTIVE => "adaptive",
            kind::RWLOCK => "rwlock",
            kind::SPIN => "spin",
            kind::CONDITION => "condition",
            kind::SEMAPHORE => "semaphore",
            kind::FUTEX => "futex",
            kind::NAMED => "named",
            _ => "lock",
        }
    }

    /// The name that the program gave it; or else of the variable that the lock is in, or of the place that took it first.
    fn name(&self) -> String {
        let Self { process, lock, .. } = *self;
        if let Some(name) = &lock.name {
            return name.replace(char::is_control, "?");
        }
        let first = process.record.stack(lock.first_stack);
        let variable = || process.names.variable(lock.address, first);
        let taker = || process.caller(lock.first_stack).map(|place| place.short());
        variable().or_else(taker).unwrap_or_else(|| format!("{:#x}", lock.address))
    }

    /// The time lost by the places to which it is charged: of holders, or of those that waited.
    fn places(&self, charge: Charge) -> BTreeMap<CodePlace, u64> {
        let mut times = BTreeMap::<CodePlace, u64>::new();
        let Record { waiters, holders, .. } = &self.process.record;
        let places = if charge == Charge::Holder { holders } else { waiters };
        for place in places.iter().filter(|place| place.lock == self.number) {
            if let Some(caller) = self.process.caller(place.stack) {
                let time = times.entry(caller).or_default();
                *time = sum([*time, place.waited_ns]);
            }
        }
        times
    }

    /// The place to which most of that time is charged.
    fn worst_place(&self, charge: Charge) -> Option<CodePlace> {
        self.places(charge).into_iter().max_by_key(|(_, time)| *time).map(|(place, _)| place)
    }

    fn wait(&self, share: f64) -> Option<u64> {
        self.contention()
            .filter(|found| found.waits() > 0)
            .map(|found| buckets::percentile(&found.waits_by_time, share).min(found.longest_ns))
    }

    fn hold(&self, share: f64) -> Option<u64> {
        self.contention().filter(|found| found.holds > 0).map(|found| {
            buckets::percentile(&found.holds_by_time, share).min(found.longest_held_ns)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use fairlock_profile::{Asleep, Thread};

    use super::*;
    use crate::document::OfProcess;
    use crate::layout::assert_fits;

    thread_local! {
        /// How many places were gone through to charge them.
        pub(super) static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
    }

    /// A lock of whose numbers each is the largest.
    fn damaged() -> Process {
        const MOST: u64 = u64::MAX;
        let waits_by_time = vec![MOST; buckets::COUNT];
        let contention = Contention {
            reads: MOST,
            writes: MOST,
            given_up: MOST,
            waited_ns: MOST,
            longest_ns: MOST,
            passed: MOST,
            most_passed: MOST,
            holds: MOST,
            held_ns: MOST,
            longest_held_ns: MOST,
            released_ns: MOST,
            held_since_ns: MOST,
            holds_by_time: waits_by_time.clone(),
            waits_by_time,
            worst: vec![Wait {
                began_ns: MOST,
                waited_ns: MOST,
                passed: MOST,
                name: "waiter".into(),
                ..Wait::default()
            }],
        };
        let lock = Lock { address: 8, reads: MOST, writes: MOST, ..Lock::default() };
        let waited = Lock { contention: Some(Box::new(contention)), ..lock.clone() };
        let place = AtPlace { count: MOST, waited_ns: MOST, ..AtPlace::default() };
        let condition = Lock { kind: kind::CONDITION, ..waited.clone() };
        let asleep = Asleep { lock: 32, ..Asleep::default() };
        let mut record = Record::default();
        record.lost = MOST;
        record.began_ns = 7;
        record.locks = [vec![waited; 30], vec![lock; 2], vec![condition]].concat();
        record.waiters = vec![place.clone(), place.clone(), AtPlace { lock: 32, ..place.clone() }];
        record.holders = vec![place; 2];
        record.waits = vec![Wait { lock: 1, began_ns: MOST, waited_ns: MOST, ..Wait::default() }];
        record.threads = vec![Thread { tid: 1, asleep: Some(asleep), ..Thread::default() }];
        let names = Names::of(&record, &mut Files::default());
        Process { names, record, callers: Callers::default(), until_ns: Some(MOST) }
    }

    #[test]
    fn numbers_of_a_damaged_record_are_no_panic_in_any_form() {
        let profile = Profile {
            processes: vec![damaged(), damaged()],
            idle: Idle::None,
            doing: Activities::default(),
        };
        let most = crate::units::count(u64::MAX);
        let text = profile.text(WhyNone::Unsaid, None);
        assert!(text.contains(&format!("taken {most} times")), "{text}");
        assert!(
            text.contains(&format!("{most} acquisitions and waits are not in the record")),
            "{text}"
        );
        for width in [80, 120] {
            assert_fits(&profile.text(WhyNone::Unsaid, Some(width)), width);
        }
        assert_eq!(profile.by_name()["0x8"].lost_ns, u64::MAX);
        for charge in [Charge::Holder, Charge::Waiter] {
            let folded = profile.folded(charge);
            assert_eq!(folded, format!("(not known) {}\n", u64::MAX / 1000));
            assert!(!profile.pprof(charge).unwrap().is_empty());
        }
        assert!(!profile.trace().is_empty());
        let document = json::document(&profile, None, None);
        assert!(document.processes.iter().all(|process| process.locks.len() == 32));
        let asleep = |process: &OfProcess| process.asleep.iter().map(|it| it.slept_ns).collect();
        let asleep: Vec<Vec<u64>> = document.processes.iter().map(asleep).collect();
        assert_eq!(asleep, [[u64::MAX]; 2]);
    }
}

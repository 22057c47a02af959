//! What the library recorded of a program's locks, with names, in the forms that were asked for.

mod asleep;
mod folded;
mod json;
mod names;
mod pprof;
mod rates;
mod table;
mod trace;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fairlock_profile::layout::{MAGIC, kind};
use fairlock_profile::{AtPlace, Contention, Lock, Record, Wait, buckets};

pub use self::names::Files;
use self::names::Names;
use super::named;
use super::threads::{Threads, Totals};
use crate::error::Error;
use crate::machine::Machine;
use crate::output::complain;
use crate::preload::document::Document;
use crate::preload::place::Place;
use crate::preload::waited::Waited;
use crate::preload::{Charge, sum};

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

/// The clock of records.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn runs(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// What a program and its children recorded.
pub struct Profile {
    /// The processes that took locks, in the order in which they began.
    processes: Vec<Process>,
    /// Whether others were recorded.
    has_idle: bool,
}

/// What a process recorded, and the names of its addresses.
struct Process {
    record: Record,
    names: Names,
    /// When it ended, or was looked at; none if it was ended in an unknown moment.
    until_ns: Option<u64>,
}

impl Profile {
    /// Reads the records of a folder. A file that is no record, or a damaged one, is named and left
    /// out. The process `program` has just ended, if it has.
    pub fn read(folder: &Path, program: u32) -> Result<Self, Error> {
        let mut profile = Self::look(folder, &mut Files::default())?;
        let last = profile.processes.iter_mut().rfind(|it| it.record.pid == program);
        last.into_iter().for_each(|process| _ = process.until_ns.get_or_insert_with(now));
        Ok(profile)
    }

    /// The same while the program runs, by one who knows some files already.
    pub fn look(folder: &Path, files: &mut Files) -> Result<Self, Error> {
        let cannot = |error| Error::failed(format!("cannot read {}: {error}", folder.display()));
        let entries: io::Result<Vec<_>> = fs::read_dir(folder).and_then(Iterator::collect);
        let entries = entries.map_err(cannot)?.into_iter();
        let is_record = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            !named::ENDS.iter().any(|end| name.as_encoded_bytes().ends_with(end.as_bytes()))
        };
        let paths = entries.filter(is_record).map(|entry| entry.path());
        Ok(Self::load(paths, files))
    }

    /// Reads the record that a process has mapped; nothing if it has none yet.
    pub fn mapped(process: u32, files: &mut Files) -> Self {
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        let shared = maps.lines().filter(|line| line.contains(" rw-s "));
        let paths = shared.filter_map(|line| Some(PathBuf::from(&line[line.find('/')?..])));
        let is_record = |path: &PathBuf| {
            let mut begins = [0; MAGIC.len()];
            open(path).and_then(|mut file| file.read_exact(&mut begins)).is_ok() && begins == MAGIC
        };
        Self::load(paths.filter(is_record).collect::<BTreeSet<_>>(), files)
    }

    fn load(paths: impl IntoIterator<Item = PathBuf>, files: &mut Files) -> Self {
        let mut processes = Vec::new();
        for path in paths {
            match open(&path).and_then(fairlock_profile::load_file) {
                Ok(record) => {
                    let names = Names::of(&record, files);
                    let until_ns = record.ended_ns.or_else(|| runs(record.pid).then(now));
                    processes.push(Process { names, record, until_ns });
                }
                // Its folder is being removed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => complain(&format!("{}: {error}", path.display())),
            }
        }
        processes.sort_by_key(|process| process.record.began_ns);
        // What called `exec` ended where its successor began.
        let mut after = HashMap::new();
        for process in processes.iter_mut().rev() {
            let next = after.insert(process.record.pid, process.record.began_ns);
            process.until_ns = process.record.ended_ns.or(next).or(process.until_ns);
        }
        let all = processes.len();
        processes.retain(|Process { record, .. }| !record.locks.is_empty() || record.lost > 0);
        Self { has_idle: processes.len() < all, processes }
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
        json::document(self, command, threads.document())
    }

    pub fn totals(&self) -> Totals {
        let slept = self.processes.iter().flat_map(asleep::of).map(|found| found.slept_ns);
        Totals { lost_ns: sum(self.locks().iter().map(Seen::lost)), slept_ns: Some(sum(slept)) }
    }

    /// The report for people. With `explained` it has been said already why there may be none.
    pub fn text(&self, explained: bool, width: Option<usize>) -> String {
        if self.processes.is_empty() && explained {
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
        let mut places = holders.clone();
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
    fn stack(&self, number: u32) -> Vec<Place> {
        if number == 0 {
            let nobody = Place { function: "(not known)".into(), ..Place::default() };
            return vec![nobody];
        }
        self.names.stack(self.record.stack(number))
    }

    fn caller(&self, stack: u32) -> Option<Place> {
        self.names.caller(self.record.stack(stack))
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
            _ => "lock",
        }
    }

    /// The name of the variable that the lock is in, or else of the place that took it first.
    fn name(&self) -> String {
        let Self { process, lock, .. } = *self;
        let first = process.record.stack(lock.first_stack);
        let variable = || process.names.variable(lock.address, first);
        let taker = || process.caller(lock.first_stack).map(|place| place.short());
        variable().or_else(taker).unwrap_or_else(|| format!("{:#x}", lock.address))
    }

    /// The time lost by the places to which it is charged: of holders, or of those that waited.
    fn places(&self, charge: Charge) -> BTreeMap<Place, u64> {
        let mut times = BTreeMap::<Place, u64>::new();
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
    fn worst_place(&self, charge: Charge) -> Option<Place> {
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
    use crate::layout::assert_fits;
    use crate::preload::document::OfProcess;

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
        record.threads = vec![Thread { tid: 1, asleep: Some(asleep) }];
        let names = Names::of(&record, &mut Files::default());
        Process { names, record, until_ns: Some(MOST) }
    }

    #[test]
    fn numbers_of_a_damaged_record_are_no_panic_in_any_form() {
        let profile = Profile { processes: vec![damaged(), damaged()], has_idle: false };
        let most = crate::units::count(u64::MAX);
        let text = profile.text(false, None);
        assert!(text.contains(&format!("taken {most} times")), "{text}");
        assert!(
            text.contains(&format!("{most} acquisitions and waits are not in the record")),
            "{text}"
        );
        for width in [80, 120] {
            assert_fits(&profile.text(false, Some(width)), width);
        }
        assert_eq!(profile.by_name()["0x8"].lost_ns, u64::MAX);
        for charge in [Charge::Holder, Charge::Waiter] {
            let folded = profile.folded(charge);
            assert_eq!(folded, format!("(not known) {}\n", u64::MAX / 1000));
            assert!(!profile.pprof(charge).unwrap().is_empty());
        }
        assert!(!profile.trace().is_empty());
        let document = json::document(&profile, String::new(), None);
        assert!(document.processes.iter().all(|process| process.locks.len() == 32));
        let asleep = |process: &OfProcess| process.asleep.iter().map(|it| it.slept_ns).collect();
        let asleep: Vec<Vec<u64>> = document.processes.iter().map(asleep).collect();
        assert_eq!(asleep, [[u64::MAX]; 2]);
    }
}

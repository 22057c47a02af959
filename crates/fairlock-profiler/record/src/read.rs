//! Reads a file, whatever is in it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::mem::offset_of;
use std::path::Path;

use crate::buckets;
use crate::layout::{
    AsleepEntry, CELLS, Cell, Chunk, ChunkKind, ContentionEntry, DEEPEST, ENDED, FIRSTS,
    FirstEntry, HOLDS, Header, HoldingEntry, LINE, LONGEST, LockEntry, MAGIC, NOTES, NameEntry,
    NoteEntry, Now, PAGE, PlaceEntry, STACK, StackEntry, ThreadEntry, VERSION, WORST, WaitEntry,
    name_of, side,
};
use crate::record::{Asleep, AtPlace, Contention, Holding, Line, Lock, Record, Thread, Wait};
use crate::write::{COUNTS_NOTHING, module};

/// Why bytes are no record.
#[derive(Debug, PartialEq, Eq)]
pub enum Error {
    /// They do not begin as one.
    Foreign,
    /// They are of this version of the format.
    Version(u32),
    /// They end too early.
    Truncated,
    /// What is at this place cannot be there.
    Damaged(usize),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(f, "not a record of locks"),
            Self::Version(found) => write!(
                f,
                "a record in version {found} of its format; this program reads version {VERSION}"
            ),
            Self::Truncated => write!(f, "a record of locks that was cut off"),
            Self::Damaged(at) => write!(f, "a damaged record of locks (at byte {at})"),
        }
    }
}

impl std::error::Error for Error {}

/// The field of a structure that begins there; zero where there is none.
macro_rules! field {
    ($bytes:expr, $at:expr, $structure:ty, $field:ident: u32) => {
        u32_at($bytes, $at + offset_of!($structure, $field))
    };
    ($bytes:expr, $at:expr, $structure:ty, $field:ident: u64) => {
        u64_at($bytes, $at + offset_of!($structure, $field))
    };
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let found = at.checked_add(4).and_then(|end| bytes.get(at..end)?.try_into().ok());
    found.map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let found = at.checked_add(8).and_then(|end| bytes.get(at..end)?.try_into().ok());
    found.map_or(0, u64::from_le_bytes)
}

/// What precedes the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn unless_zero<T: Default + PartialEq>(number: T) -> Option<T> {
    (number != T::default()).then_some(number)
}

/// Reads what is in use of a file, which may be far longer.
///
/// # Errors
/// It cannot be read, or is no record.
pub fn load(path: &Path) -> io::Result<Record> {
    load_file(File::open(path)?)
}

/// The same, of an open file. In a folder where others write, that should be opened with `O_NOFOLLOW` and
/// `O_NONBLOCK`. No more is read than a record can have.
///
/// # Errors
/// As of [`load`].
pub fn load_file(file: File) -> io::Result<Record> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    if !file.metadata()?.is_file() {
        return Err(invalid(Error::Foreign));
    }
    let mut file = file.take(LONGEST);
    let mut bytes = Vec::new();
    (&mut file).take(PAGE as u64).read_to_end(&mut bytes)?;
    if bytes.starts_with(&MAGIC) {
        let used = field!(&bytes, 0, Header, used: u64);
        file.take(used.saturating_sub(PAGE as u64)).read_to_end(&mut bytes)?;
    }
    Record::read(&bytes).map_err(invalid)
}

impl Record {
    /// The record in these bytes.
    ///
    /// # Errors
    /// They are none, of another version, cut off or damaged. Of a file that grows while it is read, what
    /// does not belong together is left out.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        if !bytes.starts_with(&MAGIC) {
            return Err(Error::Foreign);
        }
        let version = field!(bytes, 0, Header, version: u32);
        if version != VERSION {
            return Err(Error::Version(version));
        }
        if bytes.len() < PAGE {
            return Err(Error::Truncated);
        }
        let text_of = |at: usize, len: usize| text(&bytes[at..at + len]);
        let mut record = Self {
            pid: field!(bytes, 0, Header, pid: u32),
            parent: unless_zero(field!(bytes, 0, Header, parent: u32)),
            observed: field!(bytes, 0, Header, observed: u32) != 0,
            threshold_ns: field!(bytes, 0, Header, threshold_ns: u64),
            began_ns: field!(bytes, 0, Header, began_ns: u64),
            began_unix_ns: field!(bytes, 0, Header, began_unix_ns: u64),
            ended_ns: unless_zero(field!(bytes, 0, Header, ended_ns: u64)),
            as_of_ns: unless_zero(field!(bytes, 0, Header, as_of_ns: u64)),
            lost: field!(bytes, 0, Header, lost: u64),
            policy: text_of(offset_of!(Header, policy), 24),
            program: text_of(offset_of!(Header, program), 2048),
            ..Self::default()
        };
        let used = usize::try_from(field!(bytes, 0, Header, used: u64)).unwrap_or(usize::MAX);
        let bytes = bytes.get(..used).ok_or(Error::Truncated)?;
        let chunks = chunks(bytes)?;
        // Locks first: the others say which. Threads after what they add to.
        let order = [
            ChunkKind::Locks,
            ChunkKind::Contention,
            ChunkKind::Places,
            ChunkKind::Threads,
            ChunkKind::Waits,
            ChunkKind::Modules,
            ChunkKind::Names,
        ];
        for kind in order {
            for chunk in chunks.iter().filter(|chunk| chunk.kind == kind as u32) {
                record.take(kind, chunk, bytes)?;
            }
        }
        record.waits.sort_by_key(|wait| wait.number);
        record.waiters = merged(record.waiters);
        record.holders = merged(record.holders);
        record.find_stacks(bytes);
        Ok(record)
    }

    fn take(&mut self, kind: ChunkKind, chunk: &Found, bytes: &[u8]) -> Result<(), Error> {
        match kind {
            ChunkKind::Locks => {
                let first = chunk.first as usize;
                // Those before it may not all be there yet.
                if first < self.locks.len() || first > bytes.len() / size_of::<LockEntry>() {
                    return Err(Error::Damaged(chunk.at));
                }
                self.locks.resize(first, Lock::default());
                self.locks.extend(chunk.entries::<LockEntry>()?.map(|at| lock(bytes, at)));
            }
            ChunkKind::Contention => {
                let locks = self.locks.len();
                for at in chunk.entries::<ContentionEntry>()? {
                    let number = field!(bytes, at, ContentionEntry, lock: u32);
                    if let Some(lock) = self.numbered(number) {
                        let mut found = contention(bytes, at);
                        found.worst.retain(|wait| wait.lock < locks);
                        lock.contention = Some(Box::new(found));
                    }
                }
            }
            ChunkKind::Threads => {
                if chunk.entry == COUNTS_NOTHING {
                    chunk.spaced(COUNTS_NOTHING).for_each(|at| self.take_thread(bytes, at));
                    return Ok(());
                }
                for at in chunk.entries::<ThreadEntry>()? {
                    self.take_thread(bytes, at);
                    self.take_counts(bytes, at);
                    self.take_notes(bytes, at);
                }
            }
            ChunkKind::Places => {
                for at in chunk.entries::<PlaceEntry>()? {
                    let side = field!(bytes, at, PlaceEntry, side: u32);
                    let lock = field!(bytes, at, PlaceEntry, lock: u32);
                    let stack = field!(bytes, at, PlaceEntry, stack: u32);
                    let count = field!(bytes, at, PlaceEntry, count: u64);
                    let waited_ns = field!(bytes, at, PlaceEntry, waited_ns: u64);
                    self.add_place(side, lock, stack, count, waited_ns);
                }
            }
            ChunkKind::Waits => {
                let waits = chunk.entries::<WaitEntry>()?.filter_map(|at| wait(bytes, at));
                self.waits.extend(waits.filter(|wait| wait.lock < self.locks.len()));
            }
            ChunkKind::Modules => {
                let (at, end) = (chunk.at + size_of::<Chunk>(), chunk.at + chunk.bytes);
                let used = (field!(bytes, chunk.at, Chunk, used: u32) as usize).min(end - at);
                let text = String::from_utf8_lossy(&bytes[at..at + used]);
                let modules = text.lines().filter_map(|line| module(line, chunk.first));
                self.modules.retain(|module| module.unloads != chunk.first);
                self.modules.extend(modules);
            }
            ChunkKind::Names => {
                let used = field!(bytes, chunk.at, Chunk, used: u32) as usize;
                let end = (chunk.at + size_of::<Chunk>()).saturating_add(used);
                self.take_names(&bytes[..end.min(chunk.at + chunk.bytes)], chunk.at);
            }
            ChunkKind::Stacks => {}
        }
        Ok(())
    }

    /// The names of a chunk, with which these bytes end.
    fn take_names(&mut self, bytes: &[u8], chunk: usize) {
        let mut at = chunk + size_of::<Chunk>();
        while at + size_of::<NameEntry>() <= bytes.len() {
            let number = field!(bytes, at, NameEntry, number: u32);
            let line = field!(bytes, at, NameEntry, line: u32);
            let length = field!(bytes, at, NameEntry, length: u32) as usize;
            let from = at + size_of::<NameEntry>();
            let Some(name) = from.checked_add(length).and_then(|end| bytes.get(from..end)) else {
                return;
            };
            let name = String::from_utf8_lossy(name).into_owned();
            match field!(bytes, at, NameEntry, kind: u32) {
                name_of::LOCK => {
                    let lock = self.locks.get_mut(number as usize);
                    lock.into_iter().for_each(|lock| lock.name = Some(name.clone()));
                }
                name_of::PLACE => _ = self.lines.insert(number | LINE, Line { file: name, line }),
                name_of::THREAD => {
                    let mut threads = self.threads.iter_mut();
                    let thread = threads.find(|thread| thread.tid == number);
                    thread.into_iter().for_each(|thread| thread.name.clone_from(&name));
                }
                _ => {}
            }
            at = (from + length).next_multiple_of(8);
        }
    }

    /// What a thread waits for and holds.
    fn take_thread(&mut self, bytes: &[u8], at: usize) {
        let tid = field!(bytes, at, ThreadEntry, tid: u32);
        if tid != 0 {
            let name = at + offset_of!(ThreadEntry, name);
            let name = text(bytes.get(name..name + 16).unwrap_or_default());
            let asleep = Some(asleep(bytes, at + offset_of!(ThreadEntry, asleep)))
                .filter(|asleep| asleep.lock < self.locks.len());
            let holds = at + offset_of!(ThreadEntry, holds);
            let holds = (0..=HOLDS).map(|n| holding(bytes, holds + n * size_of::<HoldingEntry>()));
            let holds = holds.filter(|holding| holding.lock < self.locks.len()).collect();
            let firsts = at + offset_of!(ThreadEntry, firsts);
            let firsts = (0..FIRSTS).map(|n| firsts + n * size_of::<FirstEntry>()).map(|at| {
                let lock = (field!(bytes, at, FirstEntry, lock: u32) as usize).wrapping_sub(1);
                (lock, field!(bytes, at, FirstEntry, stack: u32))
            });
            let firsts = firsts.filter(|&(lock, _)| lock < self.locks.len()).collect();
            self.threads.push(Thread { tid, name, asleep, holds, firsts });
        }
    }

    /// What a thread has counted by itself.
    fn take_counts(&mut self, bytes: &[u8], at: usize) {
        for index in 0..CELLS {
            let at = at + offset_of!(ThreadEntry, cells) + index * size_of::<Cell>();
            let address = field!(bytes, at, Cell, address: u64) & !ENDED;
            let lock = self.locks.get_mut(field!(bytes, at, Cell, lock: u32) as usize);
            if let Some(lock) = lock.filter(|lock| address != 0 && lock.address == address) {
                lock.reads = lock.reads.saturating_add(field!(bytes, at, Cell, reads: u64));
                lock.writes = lock.writes.saturating_add(field!(bytes, at, Cell, writes: u64));
            }
        }
    }

    /// What a thread has seen of waits and not counted elsewhere.
    fn take_notes(&mut self, bytes: &[u8], at: usize) {
        for index in 0..NOTES {
            let at = at + offset_of!(ThreadEntry, notes) + index * size_of::<NoteEntry>();
            let number = field!(bytes, at, NoteEntry, lock: u32);
            let Some(found) = self.numbered(number) else { continue };
            let side = field!(bytes, at, NoteEntry, side: u32);
            let waited_ns = field!(bytes, at, NoteEntry, waited_ns: u64);
            let times = field!(bytes, at, NoteEntry, times: u32).into();
            let contention = found.contention.get_or_insert_default();
            if side & side::HELD == 0 {
                let passed = field!(bytes, at, NoteEntry, passed: u32).into();
                contention.add_waits(times, waited_ns, passed);
            }
            let held = field!(bytes, at, NoteEntry, held_ns: u64).checked_sub(1);
            held.into_iter().for_each(|held| contention.add_hold(held));
            if side & side::HELD == 0 || waited_ns > 0 {
                let stack = field!(bytes, at, NoteEntry, stack: u32);
                self.add_place(side, number, stack, times, waited_ns.saturating_mul(times));
            }
        }
    }

    /// The lock with this number and one.
    fn numbered(&mut self, number: u32) -> Option<&mut Lock> {
        self.locks.get_mut((number as usize).checked_sub(1)?)
    }

    fn add_place(&mut self, side: u32, number: u32, stack: u32, count: u64, waited_ns: u64) {
        let Some(found) = self.numbered(number) else { return };
        let (lock, reads) = (number as usize - 1, side & side::READ != 0);
        let place = AtPlace { lock, reads, stack, count, waited_ns };
        if side & side::HELD != 0 {
            return self.holders.push(place);
        }
        let contention = found.contention.get_or_insert_default();
        let count = match (side & side::GIVEN_UP != 0, place.reads) {
            (true, _) => &mut contention.given_up,
            (false, true) => &mut contention.reads,
            (false, false) => &mut contention.writes,
        };
        *count = count.saturating_add(place.count);
        contention.waited_ns = contention.waited_ns.saturating_add(place.waited_ns);
        self.waiters.push(place);
    }

    fn find_stacks(&mut self, bytes: &[u8]) {
        let of_locks = self.locks.iter().flat_map(|lock| {
            let worst = lock.contention.iter().flat_map(|found| &found.worst);
            worst.flat_map(|wait| [wait.stack, wait.holder_stack]).chain([lock.first_stack])
        });
        let of_places = self.waiters.iter().chain(&self.holders).map(|place| place.stack);
        let of_waits = self.waits.iter().flat_map(|wait| [wait.stack, wait.holder_stack]);
        let of_threads = self.threads.iter().flat_map(|thread| {
            let holds = thread.holds.iter().map(|holding| holding.stack);
            let firsts = thread.firsts.iter().map(|&(_, stack)| stack);
            thread.asleep.iter().map(|asleep| asleep.stack).chain(holds).chain(firsts)
        });
        let all = of_locks.chain(of_places).chain(of_waits).chain(of_threads);
        let named = all.filter(|&number| number != 0 && number & LINE == 0);
        let numbers: std::collections::BTreeSet<u32> = named.collect();
        let found = |number: u32| Some((number, stack(bytes, number)?));
        self.stacks = numbers.into_iter().filter_map(found).collect();
    }
}

/// The places, each once: several threads have notes of the same.
fn merged(places: Vec<AtPlace>) -> Vec<AtPlace> {
    let mut merged = BTreeMap::<_, AtPlace>::new();
    for place in places {
        let found = merged.entry((place.lock, place.stack, place.reads)).or_default();
        *found = AtPlace {
            count: found.count.saturating_add(place.count),
            waited_ns: found.waited_ns.saturating_add(place.waited_ns),
            ..place
        };
    }
    merged.into_values().collect()
}

/// A chunk in the file.
struct Found {
    at: usize,
    kind: u32,
    bytes: usize,
    first: u32,
    entry: usize,
    used: usize,
}

impl Found {
    /// Where its entries are.
    fn entries<T>(&self) -> Result<impl Iterator<Item = usize> + use<T>, Error> {
        if self.entry != size_of::<T>() {
            return Err(Error::Damaged(self.at));
        }
        Ok(self.spaced(size_of::<T>()))
    }

    /// The same of entries of this size.
    fn spaced(&self, size: usize) -> impl Iterator<Item = usize> + use<> {
        let room = (self.bytes - size_of::<Chunk>()) / size;
        let used = if self.kind == ChunkKind::Waits as u32 { room } else { self.used.min(room) };
        let first = self.at + size_of::<Chunk>();
        (0..used).map(move |index| first + index * size)
    }
}

fn chunks(bytes: &[u8]) -> Result<Vec<Found>, Error> {
    let (mut found, mut at) = (Vec::new(), PAGE);
    while at < bytes.len() {
        if bytes.len() - at < size_of::<Chunk>() {
            return Err(Error::Truncated);
        }
        let kind = field!(bytes, at, Chunk, kind: u32);
        if kind == 0 {
            // In the making, and so are those behind it.
            break;
        }
        let size = field!(bytes, at, Chunk, bytes: u64);
        let size = usize::try_from(size).map_err(|_| Error::Damaged(at))?;
        if size < PAGE || size % PAGE != 0 || kind > ChunkKind::Names as u32 {
            return Err(Error::Damaged(at));
        }
        if size > bytes.len() - at {
            return Err(Error::Truncated);
        }
        found.push(Found {
            at,
            kind,
            bytes: size,
            first: field!(bytes, at, Chunk, first: u32),
            entry: field!(bytes, at, Chunk, entry: u32) as usize,
            used: field!(bytes, at, Chunk, used: u32) as usize,
        });
        at += size;
    }
    Ok(found)
}

fn lock(bytes: &[u8], at: usize) -> Lock {
    Lock {
        name: None,
        address: field!(bytes, at, LockEntry, address: u64) & !ENDED,
        kind: field!(bytes, at, LockEntry, kind: u32),
        first_stack: field!(bytes, at, LockEntry, first_stack: u32),
        reads: field!(bytes, at, LockEntry, reads: u64),
        writes: field!(bytes, at, LockEntry, writes: u64),
        contention: None,
    }
}

fn asleep(bytes: &[u8], at: usize) -> Asleep {
    Asleep {
        lock: (field!(bytes, at, AsleepEntry, lock: u32) as usize).wrapping_sub(1),
        stack: field!(bytes, at, AsleepEntry, stack: u32),
        since_ns: field!(bytes, at, AsleepEntry, since_ns: u64),
        reads: field!(bytes, at, AsleepEntry, side: u32) & side::READ != 0,
        holder: field!(bytes, at, AsleepEntry, holder: u32),
        can_end: field!(bytes, at, AsleepEntry, side: u32) & side::CAN_END != 0,
    }
}

fn holding(bytes: &[u8], at: usize) -> Holding {
    Holding {
        lock: (field!(bytes, at, HoldingEntry, lock: u32) as usize).wrapping_sub(1),
        stack: field!(bytes, at, HoldingEntry, stack: u32),
        since_ns: unless_zero(field!(bytes, at, HoldingEntry, since_ns: u64)),
    }
}

fn contention(bytes: &[u8], at: usize) -> Contention {
    let counts = |from: usize| -> Vec<u64> {
        (0..buckets::COUNT).map(|index| u32_at(bytes, at + from + index * 4).into()).collect()
    };
    let worst = (0..WORST).filter_map(|index| {
        let from = offset_of!(ContentionEntry, worst) + index * size_of::<WaitEntry>();
        wait(bytes, at + from)
    });
    let mut worst: Vec<Wait> = worst.collect();
    worst.sort_by_key(|wait| std::cmp::Reverse(wait.waited_ns));
    let now = at + offset_of!(ContentionEntry, now);
    Contention {
        released_ns: field!(bytes, now, Now, released_ns: u64),
        held_since_ns: field!(bytes, now, Now, waited_since_ns: u64),
        longest_ns: field!(bytes, at, ContentionEntry, longest_ns: u64),
        passed: field!(bytes, at, ContentionEntry, passed: u64),
        most_passed: field!(bytes, at, ContentionEntry, most_passed: u64),
        holds: field!(bytes, at, ContentionEntry, holds: u64),
        held_ns: field!(bytes, at, ContentionEntry, held_ns: u64),
        longest_held_ns: field!(bytes, at, ContentionEntry, longest_held_ns: u64),
        waits_by_time: counts(offset_of!(ContentionEntry, waits_by_time)),
        holds_by_time: counts(offset_of!(ContentionEntry, holds_by_time)),
        worst,
        // The places say them.
        ..Contention::default()
    }
}

fn wait(bytes: &[u8], at: usize) -> Option<Wait> {
    let number = unless_zero(field!(bytes, at, WaitEntry, number: u64))?;
    let side = field!(bytes, at, WaitEntry, side: u32);
    let name = at + offset_of!(WaitEntry, name);
    Some(Wait {
        number,
        began_ns: field!(bytes, at, WaitEntry, began_ns: u64),
        waited_ns: field!(bytes, at, WaitEntry, waited_ns: u64),
        released_ns: unless_zero(field!(bytes, at, WaitEntry, released_ns: u64)),
        held_since_ns: unless_zero(field!(bytes, at, WaitEntry, held_since_ns: u64)),
        held_until_ns: unless_zero(field!(bytes, at, WaitEntry, held_until_ns: u64)),
        passed: field!(bytes, at, WaitEntry, passed: u64),
        lock: field!(bytes, at, WaitEntry, lock: u32) as usize,
        reads: side & side::READ != 0,
        given_up: side & side::GIVEN_UP != 0,
        thread: field!(bytes, at, WaitEntry, thread: u32),
        name: text(bytes.get(name..name + 16).unwrap_or_default()),
        stack: field!(bytes, at, WaitEntry, stack: u32),
        holder: field!(bytes, at, WaitEntry, holder: u32),
        holder_stack: field!(bytes, at, WaitEntry, holder_stack: u32),
    })
}

impl Contention {
    /// Adds so many waits of one length, which are counted at their place already.
    pub(crate) fn add_waits(&mut self, times: u64, waited_ns: u64, passed: u64) {
        self.longest_ns = self.longest_ns.max(waited_ns);
        self.passed = self.passed.saturating_add(passed);
        self.most_passed = self.most_passed.max(passed);
        add(&mut self.waits_by_time, times, waited_ns);
    }

    pub(crate) fn add_hold(&mut self, held_ns: u64) {
        self.holds = self.holds.saturating_add(1);
        self.held_ns = self.held_ns.saturating_add(held_ns);
        self.longest_held_ns = self.longest_held_ns.max(held_ns);
        add(&mut self.holds_by_time, 1, held_ns);
    }
}

fn add(by_time: &mut Vec<u64>, times: u64, ns: u64) {
    by_time.resize(buckets::COUNT, 0);
    let count = &mut by_time[buckets::of(ns)];
    *count = count.saturating_add(times);
}

fn stack(bytes: &[u8], number: u32) -> Option<Vec<u64>> {
    let at = number as usize * 8;
    let depth = field!(bytes, at, StackEntry, depth: u32) as usize;
    let mark = field!(bytes, at, StackEntry, mark: u32);
    let first = at + size_of::<StackEntry>();
    let whole = mark == STACK && depth <= DEEPEST && first + depth * 8 <= bytes.len();
    whole.then(|| (0..depth).map(|index| u64_at(bytes, first + index * 8)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file by hand: two locks, one of which was waited for.
    fn file() -> Vec<u8> {
        let mut bytes = vec![0; PAGE];
        bytes[..8].copy_from_slice(&MAGIC);
        put32(&mut bytes, offset_of!(Header, version), VERSION);
        put32(&mut bytes, offset_of!(Header, pid), 77);
        bytes[offset_of!(Header, program)..][..4].copy_from_slice(b"/bin");
        let locks = chunk(&mut bytes, ChunkKind::Locks, size_of::<LockEntry>(), 2);
        for (index, address) in [(0, 0x1000), (1, 0x2000)] {
            let at = locks + index * size_of::<LockEntry>();
            put64(&mut bytes, at + offset_of!(LockEntry, address), address);
            put64(&mut bytes, at + offset_of!(LockEntry, writes), 10);
        }
        let found = chunk(&mut bytes, ChunkKind::Contention, size_of::<ContentionEntry>(), 1);
        put32(&mut bytes, found + offset_of!(ContentionEntry, lock), 2);
        let worst = found + offset_of!(ContentionEntry, worst);
        put64(&mut bytes, worst + offset_of!(WaitEntry, number), 1);
        put64(&mut bytes, worst + offset_of!(WaitEntry, passed), 7);
        let places = chunk(&mut bytes, ChunkKind::Places, size_of::<PlaceEntry>(), 2);
        for (index, side) in [(0, side::WRITE), (1, side::HELD)] {
            let at = places + index * size_of::<PlaceEntry>();
            put32(&mut bytes, at + offset_of!(PlaceEntry, lock), 2);
            put32(&mut bytes, at + offset_of!(PlaceEntry, side), side);
            put64(&mut bytes, at + offset_of!(PlaceEntry, count), 3);
            put64(&mut bytes, at + offset_of!(PlaceEntry, waited_ns), 55);
        }
        let threads = chunk(&mut bytes, ChunkKind::Threads, size_of::<ThreadEntry>(), 1);
        put32(&mut bytes, threads + offset_of!(ThreadEntry, tid), 78);
        let asleep = threads + offset_of!(ThreadEntry, asleep);
        put32(&mut bytes, asleep + offset_of!(AsleepEntry, lock), 1);
        put64(&mut bytes, asleep + offset_of!(AsleepEntry, since_ns), 99);
        put32(&mut bytes, asleep + offset_of!(AsleepEntry, holder), 79);
        let holds = threads + offset_of!(ThreadEntry, holds) + HOLDS * size_of::<HoldingEntry>();
        put32(&mut bytes, holds + offset_of!(HoldingEntry, lock), 2);
        put64(&mut bytes, holds + offset_of!(HoldingEntry, since_ns), 98);
        let firsts = threads + offset_of!(ThreadEntry, firsts) + size_of::<FirstEntry>();
        put32(&mut bytes, firsts + offset_of!(FirstEntry, lock), 2);
        put32(&mut bytes, firsts + offset_of!(FirstEntry, stack), 7);
        bytes[threads + offset_of!(ThreadEntry, name)..][..6].copy_from_slice(b"worker");
        let cell = threads + offset_of!(ThreadEntry, cells) + 5 * size_of::<Cell>();
        put64(&mut bytes, cell + offset_of!(Cell, address), 0x2000 | ENDED);
        put64(&mut bytes, cell + offset_of!(Cell, reads), 4);
        put32(&mut bytes, cell + offset_of!(Cell, lock), 1);
        for (index, side, times, held) in [(3, side::WRITE, 2, 0), (4, side::HELD, 1, 31)] {
            let at = threads + offset_of!(ThreadEntry, notes) + index * size_of::<NoteEntry>();
            put32(&mut bytes, at + offset_of!(NoteEntry, lock), 2);
            put32(&mut bytes, at + offset_of!(NoteEntry, side), side);
            put32(&mut bytes, at + offset_of!(NoteEntry, passed), 9);
            put32(&mut bytes, at + offset_of!(NoteEntry, times), times);
            put64(&mut bytes, at + offset_of!(NoteEntry, waited_ns), 5);
            put64(&mut bytes, at + offset_of!(NoteEntry, held_ns), held);
        }
        let stacks = chunk(&mut bytes, ChunkKind::Stacks, 8, 0);
        put32(&mut bytes, stacks, 2);
        put32(&mut bytes, stacks + 4, STACK);
        put64(&mut bytes, stacks + 8, 0xaaaa);
        put64(&mut bytes, stacks + 16, 0xbbbb);
        put32(&mut bytes, worst + offset_of!(WaitEntry, stack), (stacks / 8) as u32);
        let line = b"1000-3000 rw-p 00002000 08:01 99      /lib/a b.so\n";
        let modules = chunk(&mut bytes, ChunkKind::Modules, 1, line.len() as u32);
        bytes[modules..][..line.len()].copy_from_slice(line);
        let used = bytes.len() as u64;
        put64(&mut bytes, offset_of!(Header, used), used);
        bytes
    }

    fn put32(bytes: &mut [u8], at: usize, value: u32) {
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn put64(bytes: &mut [u8], at: usize, value: u64) {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Adds one; where its entries begin.
    fn chunk(bytes: &mut Vec<u8>, kind: ChunkKind, entry: usize, used: u32) -> usize {
        let at = bytes.len();
        let size =
            (size_of::<Chunk>() + entry * used as usize).next_multiple_of(PAGE).max(2 * PAGE);
        bytes.resize(at + size, 0);
        put32(bytes, at + offset_of!(Chunk, kind), kind as u32);
        put32(bytes, at + offset_of!(Chunk, entry), entry as u32);
        put64(bytes, at + offset_of!(Chunk, bytes), size as u64);
        put32(bytes, at + offset_of!(Chunk, used), used);
        at + size_of::<Chunk>()
    }

    #[test]
    fn what_threads_count_by_themselves_is_added_to_the_locks() {
        let record = Record::read(&file()).unwrap();
        assert_eq!((record.pid, record.program.as_str(), record.locks.len()), (77, "/bin", 2));
        assert_eq!((record.locks[0].reads, record.locks[0].writes), (0, 10));
        assert_eq!((record.locks[1].reads, record.locks[1].writes), (4, 10));
        let found = record.locks[1].contention.as_ref().unwrap();
        assert_eq!((found.waits(), found.worst.len(), found.worst[0].passed), (5, 1, 7));
        assert_eq!((found.longest_ns, found.passed, found.most_passed), (5, 9, 9));
        assert_eq!((found.holds, found.held_ns, found.longest_held_ns), (1, 30, 30));
        let by_time = |counts: &[u64], all| counts.iter().position(|&count| count == all);
        assert_eq!(by_time(&found.waits_by_time, 2), Some(buckets::of(5)));
        assert_eq!(by_time(&found.holds_by_time, 1), Some(buckets::of(30)));
        let places = [&record.waiters, &record.holders];
        assert!(places.iter().all(|places| places.len() == 1 && places[0].lock == 1));
        assert_eq!((found.writes, found.waited_ns, record.holders[0].waited_ns), (5, 65, 60));
        assert_eq!(record.stack(found.worst[0].stack), [0xaaaa, 0xbbbb]);
        let asleep = Asleep { lock: 0, since_ns: 99, holder: 79, ..Asleep::default() };
        let holds = vec![Holding { lock: 1, stack: 0, since_ns: Some(98) }];
        let name = "worker".to_owned();
        assert_eq!(
            record.threads,
            [Thread { tid: 78, name, asleep: Some(asleep), holds, firsts: vec![(1, 7)] }]
        );
        let module = &record.modules[0];
        assert_eq!((module.start, module.offset, module.inode), (0x1000, 0x2000, 99));
        assert_eq!(module.path, "/lib/a b.so");
    }

    #[test]
    fn what_is_no_record_is_refused_with_the_reason() {
        let reason = |bytes: &[u8]| Record::read(bytes).unwrap_err();
        assert_eq!(reason(b""), Error::Foreign);
        assert_eq!(reason(b"#!/bin/sh\n"), Error::Foreign);
        let mut bytes = file();
        put32(&mut bytes, offset_of!(Header, version), VERSION + 1);
        assert_eq!(reason(&bytes), Error::Version(VERSION + 1));
        let bytes = file();
        assert_eq!(reason(&bytes[..100]), Error::Truncated);
        assert_eq!(reason(&bytes[..PAGE + 10]), Error::Truncated);
        assert_eq!(reason(&bytes[..bytes.len() - 1]), Error::Truncated);
        let mut bytes = file();
        put64(&mut bytes, PAGE + offset_of!(Chunk, bytes), 17);
        assert_eq!(reason(&bytes), Error::Damaged(PAGE));
    }

    /// A pipe, a device or a folder, also if it says that it goes on for ever.
    #[test]
    fn what_is_no_file_is_not_read() {
        for path in ["/dev/zero", "/"].into_iter().filter(|path| Path::new(path).exists()) {
            assert!(load_file(File::open(path).unwrap()).is_err(), "{path}");
        }
    }

    /// Wherever it ends, and whatever a byte of it says.
    #[test]
    fn no_damage_is_a_panic() {
        let read = |bytes: &[u8]| {
            let Ok(record) = Record::read(bytes) else { return };
            let found = || record.locks.iter().filter_map(|lock| lock.contention.as_ref());
            let waits = record.waits.iter().chain(found().flat_map(|found| &found.worst));
            let places = record.waiters.iter().chain(&record.holders).map(|place| place.lock);
            // Readers look the locks up.
            let asleep =
                record.threads.iter().filter_map(|thread| Some(thread.asleep.as_ref()?.lock));
            let holds = record.threads.iter().flat_map(|thread| &thread.holds).map(|it| it.lock);
            let firsts = record.threads.iter().flat_map(|thread| &thread.firsts).map(|it| it.0);
            let named = places.chain(waits.map(|wait| wait.lock)).chain(asleep).chain(holds);
            let named = named.chain(firsts);
            assert!(named.into_iter().all(|at| at < record.locks.len()));
            found().for_each(|found| _ = found.waits());
            (0..record.locks.len()).for_each(|lock| _ = record.held_now(lock));
            record.deadlocks();
        };
        let bytes = file();
        for end in (0..bytes.len()).step_by(7) {
            read(&bytes[..end]);
        }
        let places = (0..bytes.len()).filter(|at| at % PAGE < 256 || bytes[*at] != 0);
        for at in places {
            for value in [0x01, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                read(&damaged);
            }
        }
    }
}

//! Writes a record as a file has it.

use std::collections::BTreeMap;
use std::mem::offset_of;

use crate::buckets;
use crate::layout::{
    AsleepEntry, Chunk, ChunkKind, ContentionEntry, DEEPEST, HOLDS, Header, HoldingEntry,
    LockEntry, MAGIC, NameEntry, Now, PAGE, PlaceEntry, STACK, StackEntry, ThreadEntry, VERSION,
    WORST, WaitEntry, name_of, side,
};
use crate::record::{AtPlace, Contention, Module, Record, Thread, Wait};

/// Bytes of a structure, of which fields are set.
struct Entry(Vec<u8>);

macro_rules! set {
    ($entry:expr, $at:expr, $structure:ty { $($field:ident: $value:expr),* $(,)? }) => {
        $($entry.put($at + offset_of!($structure, $field), &$value.to_le_bytes());)*
    };
}

impl Entry {
    fn of(size: usize) -> Self {
        Self(vec![0; size])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// As much of a text as there is room for with a zero behind it.
    fn put_text(&mut self, at: usize, room: usize, text: &str) {
        let mut end = text.len().min(room - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.put(at, &text.as_bytes()[..end]);
    }
}

/// Where the stacks of a record are in the file.
type Stacks = BTreeMap<u32, u32>;

/// The size of the entry of a thread that counts nothing by itself.
pub(crate) const COUNTS_NOTHING: usize = offset_of!(ThreadEntry, notes);

impl Record {
    /// A file that says the same, but for what a reader of the process adds ([`owners`](Self::owners)), for waits that
    /// are not among the longest of a lock, and where threads took locks first. Of what a thread holds it has five locks.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut header = Entry::of(PAGE);
        header.put(0, &MAGIC);
        set!(
            header,
            0,
            Header {
                version: VERSION,
                pid: self.pid,
                parent: self.parent.unwrap_or(0),
                observed: u32::from(self.observed),
                threshold_ns: self.threshold_ns,
                began_ns: self.began_ns,
                began_unix_ns: self.began_unix_ns,
                ended_ns: self.ended_ns.unwrap_or(0),
                as_of_ns: self.as_of_ns.unwrap_or(0),
                lost: self.lost,
            }
        );
        header.put_text(offset_of!(Header, policy), 24, &self.policy);
        header.put_text(offset_of!(Header, program), 2048, &self.program);
        let mut bytes = header.0;
        let stacks = self.write_stacks(&mut bytes);
        self.write_locks(&mut bytes, &stacks);
        self.write_places(&mut bytes, &stacks);
        let threads: Vec<Entry> =
            self.threads.iter().map(|thread| thread_entry(thread, &stacks)).collect();
        chunk(&mut bytes, ChunkKind::Threads, COUNTS_NOTHING, &threads);
        let maps: String = self.modules.iter().map(line_of).collect();
        chunk(&mut bytes, ChunkKind::Modules, 1, &[Entry(maps.into_bytes())]);
        chunk(&mut bytes, ChunkKind::Names, 1, &[Entry(self.names())]);
        let used = bytes.len() as u64;
        let at = offset_of!(Header, used);
        bytes[at..at + 8].copy_from_slice(&used.to_le_bytes());
        bytes
    }

    /// What is mapped, from the text of `/proc/PID/maps`.
    pub fn read_maps(&mut self, maps: &str) {
        self.modules = maps.lines().filter_map(|line| module(line, 0)).collect();
    }

    fn write_stacks(&self, bytes: &mut Vec<u8>) -> Stacks {
        let mut numbers = Stacks::from_iter(self.lines.keys().map(|&line| (line, line)));
        let mut all = Vec::new();
        let first = bytes.len() + size_of::<Chunk>();
        for (number, frames) in self.stacks() {
            let frames = &frames[..frames.len().min(DEEPEST)];
            numbers.insert(number, ((first + all.len()) / 8) as u32);
            let mut entry = Entry::of(size_of::<StackEntry>());
            set!(entry, 0, StackEntry { depth: frames.len() as u32, mark: STACK });
            all.extend(entry.0);
            all.extend(frames.iter().flat_map(|frame| frame.to_le_bytes()));
        }
        chunk(
            bytes,
            ChunkKind::Stacks,
            8,
            &all.chunks(8).map(|it| Entry(it.to_vec())).collect::<Vec<_>>(),
        );
        numbers
    }

    fn write_locks(&self, bytes: &mut Vec<u8>, stacks: &Stacks) {
        let mut contention = Vec::new();
        let mut locks = Vec::new();
        for (number, lock) in self.locks.iter().enumerate() {
            let mut entry = Entry::of(size_of::<LockEntry>());
            set!(
                entry,
                0,
                LockEntry {
                    address: lock.address,
                    kind: lock.kind,
                    first_stack: stack(stacks, lock.first_stack),
                    reads: lock.reads,
                    writes: lock.writes,
                }
            );
            if let Some(found) = &lock.contention {
                contention.push(contention_entry(number, found, stacks));
                set!(entry, 0, LockEntry { contention: contention.len() as u32 });
            }
            locks.push(entry);
        }
        chunk(bytes, ChunkKind::Locks, size_of::<LockEntry>(), &locks);
        chunk(bytes, ChunkKind::Contention, size_of::<ContentionEntry>(), &contention);
    }

    fn write_places(&self, bytes: &mut Vec<u8>, stacks: &Stacks) {
        let entry = |place: &AtPlace, how: u32| {
            let mut entry = Entry::of(size_of::<PlaceEntry>());
            let side = how | if place.reads { side::READ } else { side::WRITE };
            set!(
                entry,
                0,
                PlaceEntry {
                    lock: place.lock as u32 + 1,
                    stack: stack(stacks, place.stack),
                    side: side,
                    count: place.count,
                    waited_ns: place.waited_ns,
                }
            );
            entry
        };
        let mut places: Vec<Entry> = self.waiters.iter().map(|place| entry(place, 0)).collect();
        places.extend(self.holders.iter().map(|place| entry(place, side::HELD)));
        chunk(bytes, ChunkKind::Places, size_of::<PlaceEntry>(), &places);
    }

    fn names(&self) -> Vec<u8> {
        let locks = self.locks.iter().enumerate().filter_map(|(number, lock)| {
            Some((name_of::LOCK, number as u32, 0, lock.name.as_deref()?))
        });
        let lines = self.lines.iter();
        let lines = lines.map(|(&number, line)| (name_of::PLACE, number, line.line, &*line.file));
        let threads = self.threads.iter();
        let threads = threads.map(|thread| (name_of::THREAD, thread.tid, 0, &*thread.name));
        let mut all = Vec::new();
        for (kind, number, line, name) in locks.chain(lines).chain(threads) {
            let mut entry = Entry::of(size_of::<NameEntry>());
            set!(
                entry,
                0,
                NameEntry { kind: kind, number: number, line: line, length: name.len() as u32 }
            );
            all.extend(entry.0);
            all.extend(name.bytes());
            all.resize(all.len().next_multiple_of(8), 0);
        }
        all
    }
}

/// Where a stack is; zero: it is not known.
fn stack(stacks: &Stacks, number: u32) -> u32 {
    stacks.get(&number).copied().unwrap_or(0)
}

/// Adds a chunk of entries, each of so many bytes; none if there are no entries.
fn chunk(bytes: &mut Vec<u8>, kind: ChunkKind, size: usize, entries: &[Entry]) {
    let length: usize = entries.iter().map(|entry| entry.0.len()).sum();
    if length == 0 {
        return;
    }
    let whole = (size_of::<Chunk>() + length).next_multiple_of(PAGE);
    let end = bytes.len() + whole;
    let mut head = Entry::of(size_of::<Chunk>());
    let count = (length / size) as u32;
    set!(
        head,
        0,
        Chunk {
            kind: kind as u32,
            entry: size as u32,
            bytes: whole as u64,
            capacity: count,
            used: count,
        }
    );
    bytes.extend(head.0);
    entries.iter().for_each(|entry| bytes.extend(&entry.0));
    bytes.resize(end, 0);
}

fn contention_entry(number: usize, found: &Contention, stacks: &Stacks) -> Entry {
    let mut entry = Entry::of(size_of::<ContentionEntry>());
    set!(
        entry,
        0,
        ContentionEntry {
            lock: number as u32 + 1,
            longest_ns: found.longest_ns,
            passed: found.passed,
            most_passed: found.most_passed,
            holds: found.holds,
            held_ns: found.held_ns,
            longest_held_ns: found.longest_held_ns,
        }
    );
    set!(
        entry,
        offset_of!(ContentionEntry, now),
        Now { released_ns: found.released_ns, waited_since_ns: found.held_since_ns }
    );
    for (index, wait) in found.worst.iter().take(WORST).enumerate() {
        let at = offset_of!(ContentionEntry, worst) + index * size_of::<WaitEntry>();
        put_wait(&mut entry, at, wait, stacks);
    }
    for (at, counts) in [
        (offset_of!(ContentionEntry, waits_by_time), &found.waits_by_time),
        (offset_of!(ContentionEntry, holds_by_time), &found.holds_by_time),
    ] {
        for (index, &count) in counts.iter().take(buckets::COUNT).enumerate() {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            entry.put(at + index * 4, &count.to_le_bytes());
        }
    }
    entry
}

fn put_wait(entry: &mut Entry, at: usize, wait: &Wait, stacks: &Stacks) {
    let reads = if wait.reads { side::READ } else { side::WRITE };
    let given_up = if wait.given_up { side::GIVEN_UP } else { 0 };
    set!(
        entry,
        at,
        WaitEntry {
            number: wait.number,
            began_ns: wait.began_ns,
            waited_ns: wait.waited_ns,
            released_ns: wait.released_ns.unwrap_or(0),
            held_since_ns: wait.held_since_ns.unwrap_or(0),
            held_until_ns: wait.held_until_ns.unwrap_or(0),
            passed: wait.passed,
            lock: wait.lock as u32,
            side: reads | given_up,
            thread: wait.thread,
            stack: stack(stacks, wait.stack),
            holder: wait.holder,
            holder_stack: stack(stacks, wait.holder_stack),
        }
    );
    entry.put_text(at + offset_of!(WaitEntry, name), 16, &wait.name);
}

fn thread_entry(thread: &Thread, stacks: &Stacks) -> Entry {
    let mut entry = Entry::of(COUNTS_NOTHING);
    set!(entry, 0, ThreadEntry { tid: thread.tid });
    entry.put_text(offset_of!(ThreadEntry, name), 16, &thread.name);
    if let Some(asleep) = &thread.asleep {
        let reads = if asleep.reads { side::READ } else { side::WRITE };
        let can_end = if asleep.can_end { side::CAN_END } else { 0 };
        set!(
            entry,
            offset_of!(ThreadEntry, asleep),
            AsleepEntry {
                lock: asleep.lock as u32 + 1,
                stack: stack(stacks, asleep.stack),
                since_ns: asleep.since_ns,
                side: reads | can_end,
                holder: asleep.holder,
            }
        );
    }
    for (index, holding) in thread.holds.iter().take(1 + HOLDS).enumerate() {
        let at = offset_of!(ThreadEntry, holds) + index * size_of::<HoldingEntry>();
        set!(
            entry,
            at,
            HoldingEntry {
                lock: holding.lock as u32 + 1,
                stack: stack(stacks, holding.stack),
                since_ns: holding.since_ns.unwrap_or(0),
            }
        );
    }
    entry
}

/// A line such as `7f00-7f80 r-xp 00001000 08:01 1234   /lib/x.so`.
pub(crate) fn module(line: &str, unloads: u32) -> Option<Module> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (_rights, offset, _device, inode) =
        (words.next()?, words.next()?, words.next()?, words.next()?);
    let path = words.next()?.trim_start();
    path.starts_with('/').then_some(())?;
    Some(Module {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        inode: inode.parse().ok()?,
        path: path.to_owned(),
        unloads,
    })
}

/// As `/proc/PID/maps` has it, as far as it is read.
fn line_of(module: &Module) -> String {
    let Module { start, end, offset, inode, path, .. } = module;
    format!("{start:x}-{end:x} r-xp {offset:08x} 00:00 {inode} {path}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        use crate::layout::{LINE, kind};
        use crate::record::{Asleep, Holding, Line, Lock};

        let mut record = Record {
            pid: 7,
            as_of_ns: Some(99),
            program: "/bin/täst".to_owned(),
            ..Record::default()
        };
        record.read_maps("1000-3000 r-xp 00002000 08:01 99      /lib/a b.so\n");
        let stack = record.add_stack(vec![0x1234, 0x5678]);
        let places = [("src/a.rs", 3), ("src/b.rs", 4)]
            .map(|(file, line)| record.add_line(Line { file: file.to_owned(), line }));
        assert_eq!(record.add_line(Line { file: "src/b.rs".to_owned(), line: 4 }), places[1]);
        assert!(
            places.iter().all(|place| place & LINE != 0)
                && record.add_stack(vec![0x1234, 0x5678]) == stack
        );
        let wait = Wait {
            number: 1,
            waited_ns: 50,
            lock: 1,
            name: "slow".to_owned(),
            stack: places[0],
            holder_stack: stack,
            ..Wait::default()
        };
        let contention = Contention {
            writes: 3,
            waited_ns: 80,
            longest_ns: 50,
            held_since_ns: 5,
            waits_by_time: vec![3; buckets::COUNT],
            holds_by_time: vec![0; buckets::COUNT],
            worst: vec![wait],
            ..Contention::default()
        };
        // A name may be anything.
        for (name, contention) in [("one\n\"two\"\0", None), ("größer", Some(Box::new(contention)))]
        {
            let name = Some(name.to_owned());
            record.locks.push(Lock {
                name,
                address: 8,
                kind: kind::NAMED,
                writes: 9,
                contention,
                ..Lock::default()
            });
        }
        record.waiters =
            vec![AtPlace { lock: 1, stack: places[0], reads: false, count: 3, waited_ns: 80 }];
        record.holders = vec![AtPlace { lock: 1, stack, reads: false, count: 1, waited_ns: 60 }];
        for tid in 1..=300 {
            let asleep = Asleep {
                lock: 1,
                stack: places[1],
                since_ns: 9,
                can_end: tid == 2,
                ..Asleep::default()
            };
            record.threads.push(Thread {
                tid,
                name: format!("a thread with a long name, {tid}"),
                asleep: Some(asleep),
                holds: vec![Holding { lock: 0, stack, since_ns: Some(4) }; tid as usize % 6],
                ..Thread::default()
            });
        }
        let bytes = record.to_bytes();
        let read = Record::read(&bytes).unwrap();
        assert_eq!((read.pid, read.as_of_ns, &*read.program), (7, Some(99), "/bin/täst"));
        assert_eq!(read.modules, record.modules);
        let at =
            |record: &Record, stack| (record.stack(stack).to_vec(), record.line(stack).cloned());
        for (read_lock, lock) in read.locks.iter().zip(&record.locks) {
            assert_eq!((&read_lock.name, read_lock.writes), (&lock.name, lock.writes));
        }
        let (found, wanted) =
            [&read, &record].map(|record| record.locks[1].contention.as_ref().unwrap()).into();
        assert_eq!(
            (found.writes, found.waited_ns, found.held_since_ns, &found.waits_by_time),
            (wanted.writes, wanted.waited_ns, wanted.held_since_ns, &wanted.waits_by_time)
        );
        let (wait, wanted) = (&found.worst[0], &wanted.worst[0]);
        assert_eq!((&wait.name, wait.waited_ns), (&wanted.name, wanted.waited_ns));
        assert_eq!(at(&read, wait.stack), at(&record, wanted.stack));
        assert_eq!(at(&read, wait.holder_stack), at(&record, wanted.holder_stack));
        assert_eq!(at(&read, read.holders[0].stack), at(&record, stack));
        assert_eq!(read.threads.len(), 300);
        for (thread, wanted) in read.threads.iter().zip(&record.threads) {
            assert_eq!((&thread.name, thread.holds.len()), (&wanted.name, wanted.holds.len()));
            let (asleep, wanted) =
                (thread.asleep.as_ref().unwrap(), wanted.asleep.as_ref().unwrap());
            assert_eq!((asleep.lock, asleep.can_end), (wanted.lock, wanted.can_end));
            assert_eq!(at(&read, asleep.stack), at(&record, wanted.stack));
        }
        // Cut off anywhere, or damaged anywhere, nothing panics.
        for end in (0..bytes.len()).step_by(97) {
            _ = Record::read(&bytes[..end]);
        }
        let names = bytes.len() - PAGE;
        for at in (names..bytes.len()).step_by(3) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            _ = Record::read(&damaged);
        }
    }
}

//! The file of this process. As much of it is mapped as is in use, in one mapping that grows: what is mapped,
//! `mlockall` makes take memory, and it fails for a process that may not lock as much. The file is closed as soon as it
//! is mapped, so a program that closes files that it did not open, or changes its user or its root, still has it. It is
//! opened again only to make it longer than [`AT_FIRST`].

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::fmt::Write;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use fairlock::platform::System;
use fairlock_profile::layout::{AT_FIRST, Chunk, ChunkKind, Header, LONGEST, MAGIC, PAGE, VERSION};

use crate::process::memory;
use crate::process::mutex::Mutex;
use crate::process::text::Text;
use crate::process::{self, clock, config};
use crate::thread::Preload;

/// A file that may not become this long is not made.
const SHORTEST: usize = 1 << 20;

static START: AtomicPtr<Header> = AtomicPtr::new(ptr::null_mut());
/// How long the file is.
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// How much of it is mapped. Not [`Header::used`]: a forked child shares that with its parent.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
/// Held while a chunk is made.
static MUTEX: Mutex = Mutex::new();

/// The file's header; `None` before there is a file, and where there can be none.
#[inline]
pub(super) fn header() -> Option<&'static Header> {
    // SAFETY: null, or the mapped file, which stays. Acquire: the header is written.
    unsafe { START.load(Ordering::Acquire).as_ref() }
}

/// Counts something that is missing in the record.
#[cold]
pub(super) fn lose() {
    if let Some(header) = header() {
        header.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Makes the file of this process. The file of the process that it was forked from is unmapped
/// here. One thread at a time.
pub(super) fn open(parent: u32) -> bool {
    let (old, mapped) =
        (START.swap(ptr::null_mut(), Ordering::Relaxed), MAPPED.swap(0, Ordering::Relaxed));
    if !old.is_null() {
        // SAFETY: mapped in the parent, and nobody in this process uses it.
        unsafe { memory::unmap(old.cast(), mapped) };
    }
    let Some(path) = config::variable(c"FAIRLOCK_PROFILE") else { return false };
    let (file, length) = match create(path) {
        Ok(made) => made,
        Err(why) => {
            // Where a parent could, the folder is gone, and the child is nobody's concern any more.
            if parent == 0 {
                process::say(why);
            }
            return false;
        }
    };
    let (rights, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_NORESERVE);
    // SAFETY: a new mapping of a file that was just made.
    let start = unsafe { libc::mmap(room(), PAGE, rights, flags, file, 0) };
    process::close(file);
    if start == libc::MAP_FAILED || !populate(start.cast(), PAGE) {
        process::say("fairlock: no room for the record of locks\n");
        return false;
    }
    let header = start.cast::<Header>();
    // SAFETY: a page of zeros that nobody else knows; all fields are plain or atomic numbers.
    unsafe {
        (*header).version = VERSION;
        (*header).pid = libc::getpid() as u32;
        (*header).parent = parent;
        (*header).observed = (config::mode() == config::Mode::Off).into();
        (*header).threshold_ns = super::threshold();
        (*header).began_ns = Preload::now();
        (*header).began_unix_ns = clock(libc::CLOCK_REALTIME);
        (*header).used = AtomicU64::new(PAGE as u64);
        let policy = config::policy_name().to_bytes();
        (&mut (*header).policy)[..policy.len()].copy_from_slice(policy);
        let program = &mut (*header).program;
        libc::readlink(c"/proc/self/exe".as_ptr(), program.as_mut_ptr().cast(), program.len() - 1);
        (*header).magic = MAGIC;
    }
    LENGTH.store(length, Ordering::Relaxed);
    MAPPED.store(PAGE, Ordering::Relaxed);
    // Release: see `header`.
    START.store(header, Ordering::Release);
    true
}

/// Makes a new file; in words, why there is none. In a folder it is named by the process's number, and
/// another one if there is such a file, as after `exec`.
fn create(path: &CStr) -> Result<(c_int, usize), &'static str> {
    // SAFETY: no arguments.
    let pid = unsafe { libc::getpid() };
    let mut name = Text::EMPTY;
    let length = AT_FIRST.min(longest());
    if length < SHORTEST {
        return Err(
            "fairlock: no record: the limit of the length of files (ulimit -f, LimitFSIZE) is less than the 1 MiB \
                    that it begins with\n",
        );
    }
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    let mut file = None;
    for attempt in 0..1000 {
        set_name(&mut name, path, pid as u32, attempt);
        ATTEMPT.store(attempt, Ordering::Relaxed);
        file = process::open(name.as_c_str(), flags);
        if file.is_some() || process::errno().get() != libc::EEXIST {
            break;
        }
    }
    let file = file.ok_or_else(|| match process::errno().get() {
        libc::ENOENT | libc::ENOTDIR => {
            "fairlock: no record: the folder of FAIRLOCK_PROFILE does not exist (in a chroot or a container it must be made \
             there)\n"
        }
        libc::EACCES | libc::EPERM => {
            "fairlock: no record: the program's user may not write to the folder of FAIRLOCK_PROFILE\n"
        }
        libc::EROFS => "fairlock: no record: the folder of FAIRLOCK_PROFILE cannot be written to: it is mounted read-only\n",
        libc::ENOSPC | libc::EDQUOT => "fairlock: no record: the file system of FAIRLOCK_PROFILE is full\n",
        libc::EMFILE | libc::ENFILE => "fairlock: no record: the process may not open one more file (ulimit -n)\n",
        _ => "fairlock: cannot make the file that FAIRLOCK_PROFILE names\n",
    })?;
    remember(file);
    // SAFETY: numbers.
    if unsafe { libc::ftruncate(file, length as i64) } == 0 {
        return Ok((file, length));
    }
    process::close(file);
    Err("fairlock: no record: its file system allows no file of 16 MiB\n")
}

/// What the file is when it is opened again: its path, device and inode, and whether system calls were filtered when it
/// was made.
struct Again {
    path: Path,
    identity: Option<(u64, u64)>,
    filtered: c_int,
}

/// Written while `OPENING` is held, and read while [`MUTEX`] is, when there is a file.
static AGAIN: Shared<Again> =
    Shared(UnsafeCell::new(Again { path: Path::EMPTY, identity: None, filtered: 0 }));

struct Shared<T>(UnsafeCell<T>);

// SAFETY: see `AGAIN`.
unsafe impl<T> Sync for Shared<T> {}

/// The device and the inode of an open file.
fn identity(file: c_int) -> Option<(u64, u64)> {
    // SAFETY: plain data; then it is written.
    unsafe {
        let mut found: libc::stat = core::mem::zeroed();
        (libc::fstat(file, &mut found) == 0).then_some((found.st_dev, found.st_ino))
    }
}

/// Whether system calls are filtered: a filter may end a process that opens a file.
fn filtered() -> c_int {
    // SAFETY: no further arguments.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP) }
}

/// Keeps what [`lengthen`] needs of the new file.
fn remember(file: c_int) {
    // SAFETY: one thread at a time makes a file, and no other one reads this before there is one.
    let again = unsafe { &mut *AGAIN.0.get() };
    let mut link = Text::<32>::EMPTY;
    let _ = write!(link, "/proc/self/fd/{file}");
    again.path.set_to_link(link.as_c_str());
    (again.identity, again.filtered) = (identity(file), filtered());
}

/// Makes the file long enough, which is at least twice as long; false if that cannot be. For a thread that has [`MUTEX`].
#[cold]
#[inline(never)] // its frame is large
fn lengthen(needed: usize) -> bool {
    let length = needed.next_power_of_two().min(longest());
    // SAFETY: there is a file, and the thread has the mutex.
    let again = unsafe { &*AGAIN.0.get() };
    if length < needed || filtered() != again.filtered {
        return false;
    }
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let Some(file) = process::open(again.path.as_c_str(), flags) else { return false };
    // Another file may be there by now.
    let is_it = again.identity.is_some() && identity(file) == again.identity;
    // SAFETY: numbers.
    let done = is_it && unsafe { libc::ftruncate(file, length as i64) } == 0;
    process::close(file);
    if done {
        LENGTH.store(length, Ordering::Relaxed);
    }
    done
}

type Path = Text<{ libc::PATH_MAX as usize }>;

/// The attempt that made the file.
static ATTEMPT: AtomicU32 = AtomicU32::new(0);

fn set_name(name: &mut Path, path: &CStr, pid: u32, attempt: u32) {
    name.clear();
    name.push_numbered(path.to_bytes(), pid);
    if is_folder(path) {
        let _ = write!(name, "/{pid}.fairlock");
    }
    if attempt > 0 {
        let _ = write!(name, ".{attempt}");
    }
}

/// Gives the file of a process that has ended without a lock the one name that such files have in a folder: a
/// build starts thousands of processes, and a record of one of them says as much as all.
pub(super) fn put_aside(header: &Header) {
    let Some(path) = config::variable(c"FAIRLOCK_PROFILE").filter(|path| is_folder(path)) else {
        return;
    };
    let (mut from, mut to) = (Path::EMPTY, Path::EMPTY);
    set_name(&mut from, path, header.pid, ATTEMPT.load(Ordering::Relaxed));
    to.push_numbered(path.to_bytes(), header.pid);
    to.push(b"/idle.fairlock");
    // SAFETY: C strings. Where it fails, the file keeps its name.
    unsafe { libc::rename(from.as_c_str().as_ptr(), to.as_c_str().as_ptr()) };
}

/// How long files of the process may become: writing beyond that would raise a signal.
fn longest() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is written.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } {
        0 => LONGEST.min(limit.rlim_cur) as usize / PAGE * PAGE,
        _ => LONGEST as usize,
    }
}

/// Where the mapping can grow: the lower end of much free space, which the kernel fills from above.
fn room() -> *mut c_void {
    let lengths = (SHORTEST.ilog2()..=40).rev().map(|bits| 1 << bits);
    let free = lengths.map(|length| {
        let (rights, flags) =
            (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping, which nobody uses.
        unsafe {
            let found = libc::mmap(ptr::null_mut(), length, rights, flags, -1, 0);
            (found != libc::MAP_FAILED && libc::munmap(found, length) == 0).then_some(found)
        }
    });
    free.flatten().next().unwrap_or(ptr::null_mut())
}

fn is_folder(path: &CStr) -> bool {
    // SAFETY: plain data; then it is written.
    unsafe {
        let mut found: libc::stat = core::mem::zeroed();
        libc::stat(path.as_ptr(), &mut found) == 0 && found.st_mode & libc::S_IFMT == libc::S_IFDIR
    }
}

/// Has the file system find room for this part of the file now: without room, a write to it would
/// kill the process. Kernels before 5.14 cannot do that, and sandboxes may refuse it.
fn populate(start: *mut u8, bytes: usize) -> bool {
    const MADV_POPULATE_WRITE: c_int = 23;
    // SAFETY: pages of the mapping; nothing in them changes.
    let populated = unsafe { libc::madvise(start.cast(), bytes, MADV_POPULATE_WRITE) } == 0;
    populated || ![libc::EFAULT, libc::ENOMEM].contains(&process::errno().get())
}

/// As [`populate`], for the first bytes of an entry whose chunk was not.
pub(super) fn have_room<T>(entry: &T, bytes: usize) -> bool {
    let start = ptr::from_ref(entry).cast::<u8>().cast_mut();
    let in_page = start.addr() % PAGE;
    populate(start.wrapping_sub(in_page), in_page + bytes)
}

/// Makes a chunk for `capacity` entries, which are zeros; `None` if the file has no room. For those of threads, which are
/// long and are not used as a whole, it [has room](have_room) later.
pub(super) fn add_chunk(
    kind: ChunkKind,
    entry: usize,
    first: u32,
    capacity: u32,
) -> Option<&'static Chunk> {
    let header = header()?;
    let _guard = MUTEX.lock();
    let at = header.used.load(Ordering::Relaxed) as usize;
    let bytes = (size_of::<Chunk>() + entry * capacity as usize).next_multiple_of(PAGE);
    if at + bytes > LENGTH.load(Ordering::Relaxed) && !lengthen(at + bytes) {
        return None;
    }
    let file = ptr::from_ref(header).cast::<u8>().cast_mut();
    // What an attempt before has mapped, and had no room for, is mapped still.
    let mapped = MAPPED.load(Ordering::Relaxed);
    if at + bytes > mapped {
        // SAFETY: the file's own mapping, which stays where it is.
        if unsafe { libc::mremap(file.cast(), mapped, at + bytes, 0) } == libc::MAP_FAILED {
            return None;
        }
        MAPPED.store(at + bytes, Ordering::Relaxed);
    }
    // SAFETY: within the mapping.
    let start = unsafe { file.add(at) };
    if !populate(start, if kind == ChunkKind::Threads { PAGE } else { bytes }) {
        return None;
    }
    let chunk = start.cast::<Chunk>();
    // SAFETY: zeros that nobody else knows, aligned to a page.
    unsafe {
        (*chunk).entry = entry as u32;
        (*chunk).bytes = bytes as u64;
        (*chunk).first = first;
        (*chunk).capacity = capacity;
        // Release, here and below: a thread that sees the chunk in use sees what it is.
        (*chunk).kind.store(kind as u32, Ordering::Release);
    }
    header.used.store((at + bytes) as u64, Ordering::Release);
    // SAFETY: a chunk, which stays.
    Some(unsafe { &*chunk })
}

/// The entry in the file at an offset that [`offset`] has returned.
#[inline(always)]
pub(super) fn at<T>(offset: usize) -> &'static T {
    // SAFETY: such an entry is there, and stays.
    unsafe { &*START.load(Ordering::Relaxed).cast::<u8>().add(offset).cast() }
}

/// Where an entry is in the file.
pub(super) fn offset<T>(entry: *const T) -> usize {
    entry.addr() - START.load(Ordering::Relaxed).addr()
}

/// This many chunks have each twice as many entries as the one before. All others have as many as
/// the last of these, so that nobody waits for a large one to be made.
const DOUBLING: u32 = 9;
const CHUNKS: usize = 4096;

/// Entries of one kind by their numbers, in chunks of the file.
pub(super) struct Records<T> {
    kind: ChunkKind,
    /// How many entries the first chunk has: a power of two.
    first: u32,
    len: AtomicU32,
    chunks: [AtomicPtr<Chunk>; CHUNKS],
    making: Mutex,
    entries: PhantomData<T>,
}

// SAFETY: entries are atomic numbers.
unsafe impl<T> Sync for Records<T> {}

impl<T> Records<T> {
    pub(super) const fn new(kind: ChunkKind, first: u32) -> Self {
        assert!(first.is_power_of_two());
        Self {
            kind,
            first,
            len: AtomicU32::new(0),
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            making: Mutex::new(),
            entries: PhantomData,
        }
    }

    /// Forgets all entries: a new process's file has none.
    pub(super) fn forget(&self) {
        self.len.store(0, Ordering::Relaxed);
        // They follow each other without a gap.
        for chunk in &self.chunks {
            if chunk.swap(ptr::null_mut(), Ordering::Relaxed).is_null() {
                break;
            }
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    /// Adds an entry, all zeros; `None` if there is no room.
    pub(super) fn add(&self) -> Option<(u32, &'static T)> {
        loop {
            let number = self.len.load(Ordering::Relaxed);
            let (index, place) = self.locate(number);
            // Before the number is given: chunks follow each other without a gap, also in a file
            // that had no room for a while.
            let chunk = self.chunk(index, number - place)?;
            let next = number.checked_add(1)?;
            // Relaxed: the number orders nothing but numbers.
            if self.len.compare_exchange(number, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                chunk.used.fetch_max(place + 1, Ordering::Relaxed);
                return Some((number, self.get(number)?));
            }
        }
    }

    /// The entry of this number, of a kind that counts none; all zeros at first. `None` if there is no room.
    pub(super) fn have(&self, number: u32) -> Option<&'static T> {
        let (index, place) = self.locate(number);
        self.chunk(index, number - place)?;
        self.get(number)
    }

    /// The chunk of this index, whose first entry has the number `first`. Makes it if there is none.
    fn chunk(&self, index: usize, first: u32) -> Option<&'static Chunk> {
        let link = self.chunks.get(index)?;
        let find = || {
            // SAFETY: null, or a chunk, which stays. Acquire: its header is written.
            unsafe { link.load(Ordering::Acquire).as_ref() }
        };
        find().or_else(|| {
            let _guard = self.making.lock();
            find().or_else(|| {
                let capacity = self.capacity(index);
                let new = add_chunk(self.kind, size_of::<T>(), first, capacity)?;
                // Release: a thread that finds the chunk finds its header.
                link.store(ptr::from_ref(new).cast_mut(), Ordering::Release);
                Some(new)
            })
        })
    }

    /// The entry of this number.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&'static T> {
        let (index, place) = self.locate(number);
        let chunk = self.chunks.get(index)?.load(Ordering::Acquire);
        // SAFETY: a chunk with room for more than `place` entries behind its header.
        (!chunk.is_null()).then(|| unsafe { &*chunk.add(1).cast::<T>().add(place as usize) })
    }

    fn capacity(&self, chunk: usize) -> u32 {
        self.first << (chunk as u32).min(DOUBLING - 1)
    }

    /// The chunk of an entry, and its place there.
    #[inline]
    fn locate(&self, number: u32) -> (usize, u32) {
        let doubling = self.first * ((1 << DOUBLING) - 1);
        if number < doubling {
            let chunk = (number / self.first + 1).ilog2();
            return (chunk as usize, number - self.first * ((1 << chunk) - 1));
        }
        let (rest, each) = (number - doubling, self.first << (DOUBLING - 1));
        ((DOUBLING + rest / each) as usize, rest % each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let records = Records::<u64>::new(ChunkKind::Locks, 8);
        let (mut chunk, mut place) = (0, 0);
        for number in 0..100_000 {
            assert_eq!(records.locate(number), (chunk, place));
            place += 1;
            if place == records.capacity(chunk) {
                (chunk, place) = (chunk + 1, 0);
            }
        }
    }

    /// It would leave a gap, which a reader takes for damage; and after 2^32 of them the numbers would
    /// begin again.
    #[test]
    fn an_attempt_without_room_takes_no_number() {
        let records = Records::<u64>::new(ChunkKind::Locks, 8);
        assert!((0..3).all(|_| records.add().is_none()), "this process has no file");
        assert_eq!(records.len(), 0);
    }
}

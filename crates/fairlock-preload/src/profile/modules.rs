//! What is mapped where, as `/proc/self/maps` says it, for readers that look for names. Read when
//! the record begins, and again when a stack has addresses in no known mapping, though not all the time.
//!
//! Code that is loaded may have the addresses of code that was unloaded. So what is read, and each stack, has with it
//! how often code had been unloaded by then.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use fairlock::platform::System;
use fairlock_profile::layout::{Chunk, ChunkKind, frame};

use super::file;
use crate::process::mutex::Mutex;
use crate::process::{self, memory};
use crate::thread::Preload;

/// How often code has been unloaded.
static UNLOADS: AtomicU32 = AtomicU32::new(0);

/// Where code was the last time, as far as there is room; then this library's own code.
const RANGES_LIMIT: usize = 512;
static RANGES: [[AtomicUsize; 2]; RANGES_LIMIT] =
    [const { [AtomicUsize::new(0), AtomicUsize::new(0)] }; RANGES_LIMIT];
static LEN: AtomicU32 = AtomicU32::new(0);
static OWN: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
/// When the mappings may be read again, and whether an address was unknown before that. A program may have
/// more of them than there is room for, or code that comes and goes.
static NEXT: AtomicU64 = AtomicU64::new(0);
static MISSES: AtomicBool = AtomicBool::new(false);
/// Of the time, reading them takes one part in this many. In times the last reading; compared, as a
/// time, with that since its end.
const SHARE: u64 = 100;
/// How often they were read: each time takes room in the file.
static TIMES: AtomicU32 = AtomicU32::new(0);
/// In times; compared with how often they were read.
const MOST_TIMES: u32 = 200;
static MUTEX: Mutex = Mutex::new();

/// A line has a path of at most this length.
const LONGEST_LINE: usize = 8192;

// Relaxed throughout: a thread that misses a range reads the mappings once more.

pub(super) fn forget() {
    LEN.store(0, Ordering::Relaxed);
    TIMES.store(0, Ordering::Relaxed);
    NEXT.store(0, Ordering::Relaxed);
    MISSES.store(false, Ordering::Relaxed);
}

/// Whether the address is in this library.
pub(super) fn is_own(address: usize) -> bool {
    (OWN[0].load(Ordering::Relaxed)..OWN[1].load(Ordering::Relaxed)).contains(&address)
}

/// Reads the mappings again if one of these addresses is in none that is known; at the end at the latest.
pub(super) fn make_sure_of(addresses: &[u64]) {
    if !addresses.iter().all(|&address| is_known((address & frame::ADDRESS) as usize)) {
        MISSES.store(true, Ordering::Relaxed);
        if Preload::now() >= NEXT.load(Ordering::Relaxed) {
            read_what_is_missed();
        }
    }
}

/// Reads the mappings again if that was put off.
pub(super) fn read_what_is_missed() {
    if MISSES.load(Ordering::Relaxed) && TIMES.fetch_add(1, Ordering::Relaxed) < MOST_TIMES {
        read();
    }
}

/// How often code has been unloaded, as far as that is counted.
#[inline(always)]
pub(super) fn unloads() -> u32 {
    UNLOADS.load(Ordering::Relaxed)
}

/// Code has been unloaded: nothing is known of what is mapped. Whether that is counted: not any more once the
/// mappings are no longer read.
pub(super) fn note_unload() -> bool {
    let _guard = MUTEX.lock();
    let counts = TIMES.load(Ordering::Relaxed) < MOST_TIMES;
    if counts {
        UNLOADS.store((unloads() + 1) & frame::MOST_UNLOADS, Ordering::Relaxed);
        LEN.store(0, Ordering::Relaxed);
    }
    counts
}

/// Where the objects begin and end that are loaded, as far as there is room.
pub(super) struct Loaded {
    memory: NonNull<c_void>,
    len: usize,
    /// How often the loader had unloaded anything.
    unloads: u64,
}

/// How many there is room for.
const OBJECTS_LIMIT: usize = 8192;

impl Loaded {
    /// `None` if there is no memory for it.
    pub(super) fn now() -> Option<Self> {
        let memory = memory::map(OBJECTS_LIMIT * size_of::<[usize; 2]>())?;
        let mut loaded = Self { memory, len: 0, unloads: 0 };
        each_object(|object, unloads| {
            loaded.unloads = unloads;
            if loaded.len < OBJECTS_LIMIT {
                loaded.len += 1;
                *loaded.objects().last_mut().expect("one more") = object;
            }
        });
        Some(loaded)
    }

    /// Those that are not loaded any more.
    pub(super) fn unloaded(&mut self) -> &[[usize; 2]] {
        let mut unloads = 0;
        each_object(|_, now| unloads = now);
        if unloads == self.unloads {
            return &[];
        }
        let (objects, mut len) = (self.objects(), 0);
        for at in 0..objects.len() {
            let mut is_here = false;
            each_object(|object, _| is_here |= object == objects[at]);
            if !is_here {
                objects[len] = objects[at];
                len += 1;
            }
        }
        &objects[..len]
    }

    fn objects(&mut self) -> &mut [[usize; 2]] {
        // SAFETY: there is room for so many, zeros at first, which is this thread's.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr().cast(), self.len) }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: mapped by `now`.
        unsafe { memory::unmap(self.memory.as_ptr(), OBJECTS_LIMIT * size_of::<[usize; 2]>()) };
    }
}

/// Calls `each` with where each loaded object begins and ends, and how often the loader has unloaded anything. Takes
/// the loader's lock.
fn each_object<F: FnMut([usize; 2], u64)>(mut each: F) {
    extern "C" fn call<F: FnMut([usize; 2], u64)>(
        info: *mut libc::dl_phdr_info,
        _: usize,
        each: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader's, and `each` below.
        let (info, each) = unsafe { (&*info, &mut *each.cast::<F>()) };
        // SAFETY: there are so many.
        let parts = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let parts = parts.iter().filter(|part| part.p_type == libc::PT_LOAD);
        let begin = parts.clone().map(|part| part.p_vaddr).min().unwrap_or(0);
        let end = parts.map(|part| part.p_vaddr + part.p_memsz).max().unwrap_or(0);
        let object = [begin, end].map(|at| info.dlpi_addr.wrapping_add(at) as usize);
        each(object, info.dlpi_subs);
        0
    }
    // SAFETY: `call` is called with what it takes.
    unsafe { libc::dl_iterate_phdr(Some(call::<F>), (&raw mut each).cast()) };
}

fn is_known(address: usize) -> bool {
    let len = (LEN.load(Ordering::Relaxed) as usize).min(RANGES_LIMIT);
    RANGES[..len].iter().any(|[start, end]| {
        (start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&address)
    })
}

/// Reads the mappings twice: first for how long they are, then to keep them.
pub(super) fn read() {
    let _guard = MUTEX.lock();
    let began = Preload::now();
    MISSES.store(false, Ordering::Relaxed);
    let mut bytes = 0;
    // A mapping without a path has no names.
    let has_path = |line: &[u8]| line.contains(&b'/');
    each_line(|line| bytes += if has_path(line) { line.len() } else { 0 });
    // They may be longer when they are read again.
    let capacity = bytes + bytes / 4 + 512;
    let Some(chunk) = file::add_chunk(ChunkKind::Modules, 1, unloads(), capacity as u32) else {
        return;
    };
    let mut used = 0;
    let mut ranges = 0;
    each_line(|line| {
        let Some((start, end, code)) = range(line) else { return };
        if code && ranges < RANGES_LIMIT {
            RANGES[ranges][0].store(start, Ordering::Relaxed);
            RANGES[ranges][1].store(end, Ordering::Relaxed);
            ranges += 1;
            if (start..end).contains(&(read as fn() as usize)) {
                OWN[0].store(start, Ordering::Relaxed);
                OWN[1].store(end, Ordering::Relaxed);
            }
        }
        if has_path(line) && used + line.len() <= capacity {
            // SAFETY: within the chunk's room.
            unsafe {
                let to = ptr::from_ref::<Chunk>(chunk).add(1).cast::<u8>().cast_mut().add(used);
                to.copy_from_nonoverlapping(line.as_ptr(), line.len());
            }
            used += line.len();
        }
    });
    LEN.store(ranges as u32, Ordering::Relaxed);
    chunk.used.store(used as u32, Ordering::Relaxed);
    let now = Preload::now();
    NEXT.store(now + (now - began) * SHARE, Ordering::Relaxed);
}

/// Where a mapping begins and ends, and whether it is code.
fn range(line: &[u8]) -> Option<(usize, usize, bool)> {
    let mut words = line.splitn(3, |byte| b"- ".contains(byte));
    let mut number = || usize::from_str_radix(str::from_utf8(words.next()?).ok()?, 16).ok();
    Some((number()?, number()?, words.next()?.get(2) == Some(&b'x')))
}

/// Calls `each` with each line, including its end.
fn each_line(mut each: impl FnMut(&[u8])) {
    // Not on the stack, which may be small.
    let Some(memory) = memory::map(LONGEST_LINE) else { return };
    // SAFETY: zeros, and nobody else's.
    let room = unsafe { core::slice::from_raw_parts_mut(memory.as_ptr().cast(), LONGEST_LINE) };
    read_lines(room, &mut each);
    // SAFETY: mapped above.
    unsafe { memory::unmap(memory.as_ptr(), LONGEST_LINE) };
}

fn read_lines(room: &mut [u8], each: &mut impl FnMut(&[u8])) {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let Some(file) = process::open(c"/proc/self/maps", flags) else { return };
    let mut len = 0;
    loop {
        let rest = &mut room[len..];
        // Not by `read`, at which the thread could be cancelled. SAFETY: there is room for that many bytes.
        let read = unsafe { libc::syscall(libc::SYS_read, file, rest.as_mut_ptr(), rest.len()) };
        let Ok(read @ 1..) = usize::try_from(read) else { break };
        len += read;
        let mut begin = 0;
        while let Some(end) = room[begin..len].iter().position(|&byte| byte == b'\n') {
            each(&room[begin..=begin + end]);
            begin += end + 1;
        }
        room.copy_within(begin..len, 0);
        len -= begin;
    }
    process::close(file);
}

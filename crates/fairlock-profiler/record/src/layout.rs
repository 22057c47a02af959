//! What is where in the file.
//!
//! The library shares these structures with its threads and with whoever reads the file
//! meanwhile, hence the atomics; all are used with relaxed ordering but for
//! [`Chunk::kind`], which is stored last, as is [`WaitEntry::number`].

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::buckets;

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"fairlock";
/// Of this format.
pub const VERSION: u32 = 11;
/// The header's length; chunks are multiples of it.
pub const PAGE: usize = 4096;
/// A new file is so long, or shorter where no file may be. It is sparse.
pub const AT_FIRST: usize = 16 << 20;
/// No file is longer.
pub const LONGEST: u64 = 4 << 30;
/// So many locks a thread counts by itself,
pub const CELLS: usize = 1024;
/// each in one of so many cells, which follow each other.
pub const WAYS: usize = 4;
/// So much a thread notes before it counts it where all threads count.
pub const NOTES: usize = 56;
/// So many of the longest waits are kept for each lock.
pub const WORST: usize = 4;
/// Of so many magnitudes of a hold, each twice the one before, the last is kept for each lock.
pub const MAGNITUDES: usize = 24;
/// So many holds of a thread are timed at a time; see [`ThreadEntry::holds`].
pub const HOLDS: usize = 4;
/// Of so many of its locks a thread notes where it took them first; see [`ThreadEntry::firsts`].
pub const FIRSTS: usize = 32;
/// A stack has no more frames.
pub const DEEPEST: usize = 64;

/// The beginning of the file.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`]. Stored last.
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// The process.
    pub pid: u32,
    /// The one that it was forked from, or zero if it began with the library.
    pub parent: u32,
    /// Not zero: the locks are the system's, and only watched.
    pub observed: u32,
    /// Waits this long are kept one by one.
    pub threshold_ns: u64,
    /// When the record begins.
    pub began_ns: u64,
    /// The same, since 1970.
    pub began_unix_ns: u64,
    /// When the process exited; zero as long as it runs, and if it was ended in another way.
    pub ended_ns: AtomicU64,
    /// When everything in the file was so, if a program wrote it as a whole; zero: the file is written while the program
    /// runs.
    pub as_of_ns: u64,
    /// So many bytes of the file are in use; what is behind them is nothing.
    pub used: AtomicU64,
    /// Acquisitions and waits that are not in the record: there was no room for them, or they were in a
    /// signal handler at an unlucky time.
    pub lost: AtomicU64,
    /// How the locks decide which thread goes next: a text that ends with a zero.
    pub policy: [u8; 24],
    /// The program's path, likewise.
    pub program: [u8; 2048],
}

/// What the entries of a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ChunkKind {
    /// [`LockEntry`]: the locks from number [`Chunk::first`] on.
    Locks = 1,
    /// [`ContentionEntry`], for locks that were waited for.
    Contention = 2,
    /// [`ThreadEntry`].
    Threads = 3,
    /// Stacks, one behind the other: see [`StackEntry`].
    Stacks = 4,
    /// [`WaitEntry`]: a ring. The chunk's `used` does not count.
    Waits = 5,
    /// [`PlaceEntry`].
    Places = 6,
    /// Text: lines of `/proc/PID/maps`. [`Chunk::first`] says how often code had been unloaded by
    /// then: the last chunk of each such number has everything.
    Modules = 7,
    /// [`NameEntry`], each with its text: the chunk's `used` counts bytes.
    Names = 8,
}

/// What precedes the entries.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Chunk {
    /// A [`ChunkKind`]; zero: there is no such chunk yet, nor one behind it.
    pub kind: AtomicU32,
    /// The size of an entry in bytes.
    pub entry: u32,
    /// The size of the chunk, this header included.
    pub bytes: u64,
    /// The number of the first entry.
    pub first: u32,
    /// There is room for so many.
    pub capacity: u32,
    /// So many are there; of stacks so many numbers of eight bytes, and of text bytes.
    pub used: AtomicU32,
}

/// What the name of a record of named locks ends with; and behind that, while it is written, [`NEW`].
pub const NAMED: &str = ".named";
/// See [`NAMED`].
pub const NEW: &str = ".new";

/// The kinds of locks, and of what threads wait for that nobody holds.
pub mod kind {
    /// `PTHREAD_MUTEX_NORMAL`.
    pub const MUTEX: u32 = 1;
    /// `PTHREAD_MUTEX_RECURSIVE`.
    pub const RECURSIVE: u32 = 2;
    /// `PTHREAD_MUTEX_ERRORCHECK`.
    pub const ERRORCHECK: u32 = 3;
    /// `PTHREAD_MUTEX_ADAPTIVE_NP`.
    pub const ADAPTIVE: u32 = 4;
    /// `pthread_rwlock_t`.
    pub const RWLOCK: u32 = 5;
    /// `pthread_spinlock_t`.
    pub const SPIN: u32 = 6;
    /// `pthread_cond_t`.
    pub const CONDITION: u32 = 7;
    /// `sem_t`.
    pub const SEMAPHORE: u32 = 8;
    /// A number at which a thread waited by the system call `futex` itself.
    pub const FUTEX: u32 = 9;
    /// A lock of the crate `fairlock` or of libfairlock that has a name.
    pub const NAMED: u32 = 10;

    /// Whether somebody may hold it, whom others wait for.
    pub fn is_lock(kind: u32) -> bool {
        kind < CONDITION || kind == NAMED
    }
}

/// A lock, or what threads wait for that nobody holds.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct LockEntry {
    /// Of the program's lock; see [`ENDED`]. What was destroyed and made again at the same place goes on.
    pub address: AtomicU64,
    /// See [`kind`].
    pub kind: AtomicU32,
    /// Who took it first, or waited there first.
    pub first_stack: AtomicU32,
    /// How often it was taken for reading, without what is in the threads' cells.
    pub reads: AtomicU64,
    /// How often otherwise, likewise.
    pub writes: AtomicU64,
    /// The number of its [`ContentionEntry`] and one, or zero.
    pub contention: AtomicU32,
}

/// Added to the address of a lock that the program has unloaded, in its entry and in threads' cells: what is at the
/// address now has an entry of its own.
pub const ENDED: u64 = 1 << 63;

/// Such an address.
pub fn ended(address: u64) -> u64 {
    address | ENDED
}

/// What is known of a lock that was waited for.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ContentionEntry {
    /// The lock's number and one; zero: not in use yet; `u32::MAX`: it never will be.
    pub lock: AtomicU32,
    /// Guards `worst`: not zero while somebody writes there.
    pub busy: AtomicU32,
    /// The longest wait. How many there were, and how long all of them, is in the [`PlaceEntry`]s.
    pub longest_ns: AtomicU64,
    /// Acquisitions by others while somebody waited, summed over the waits.
    pub passed: AtomicU64,
    /// The most in one wait.
    pub most_passed: AtomicU64,
    /// How often it was measured how long the lock was held.
    pub holds: AtomicU64,
    /// For how long, together.
    pub held_ns: AtomicU64,
    /// The longest.
    pub longest_held_ns: AtomicU64,
    /// What changes with each wait, and with releases now and then meanwhile.
    pub now: Now,
    /// The longest waits.
    pub worst: [WaitEntry; WORST],
    /// Waits by their [bucket](buckets::of).
    pub waits_by_time: [AtomicU32; buckets::COUNT],
    /// How long the lock was held, likewise.
    pub holds_by_time: [AtomicU32; buckets::COUNT],
}

/// Who waits now, and who has released the lock.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Now {
    /// How many wait, in the lower 16 bits. Above them, modulo 2^48: the times when waits ended
    /// less those when waits began. So all time that anybody has waited until `t` is this and
    /// `t` for each that waits.
    pub waiting: AtomicU64,
    /// So much of that is charged to holders, modulo 2^48.
    pub charged: AtomicU64,
    /// When that was, by the CPU's counter.
    pub charged_at: AtomicU64,
    /// Acquisitions while somebody waited, without the last few of each thread.
    pub passed: AtomicU64,
    /// When the first of those who wait came; zero: nobody since the last release that counts.
    pub waited_since_ns: AtomicU64,
    /// The last release that waits were charged to: when, since when it had been held (or zero), by
    /// which thread, and where.
    pub released_ns: AtomicU64,
    /// See `released_ns`.
    pub held_since_ns: AtomicU64,
    /// See `released_ns`.
    pub holder: AtomicU32,
    /// See `released_ns`.
    pub holder_stack: AtomicU32,
    /// See [`HoldEntry::via`].
    pub holder_via: AtomicU32,
    /// While others waited: by magnitude, the last hold. So whoever has waited finds a hold that was at
    /// least half as long as the longest meanwhile.
    pub held: [HoldEntry; MAGNITUDES],
}

/// A hold that was long.
#[repr(C)]
#[derive(Debug)]
pub struct HoldEntry {
    /// When it ended; zero: no hold, or one that is being written. Stored last.
    pub until_ns: AtomicU64,
    /// When it began, as far as is known.
    pub since_ns: AtomicU64,
    /// By which thread.
    pub holder: AtomicU32,
    /// Where the lock was released.
    pub stack: AtomicU32,
    /// Where the hold is charged: where the thread released the lock for which this one waited for most of the hold, or
    /// else `stack`; zero: as `stack`.
    pub via: AtomicU32,
}

/// A wait.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct WaitEntry {
    /// Of this wait, counted from one; zero: no wait, or one that is being written.
    pub number: AtomicU64,
    /// When it began.
    pub began_ns: AtomicU64,
    /// How long it was.
    pub waited_ns: AtomicU64,
    /// When the lock was released to it, or nearly so; zero: not known.
    pub released_ns: AtomicU64,
    /// Since when the holder had held it; zero: not known.
    pub held_since_ns: AtomicU64,
    /// Until when.
    pub held_until_ns: AtomicU64,
    /// How often others took the lock meanwhile.
    pub passed: AtomicU64,
    /// The number of the lock.
    pub lock: AtomicU32,
    /// See [`side`].
    pub side: AtomicU32,
    /// Who waited.
    pub thread: AtomicU32,
    /// Where.
    pub stack: AtomicU32,
    /// Who held the lock for the longest part of the wait, or if no hold is known, who released it last;
    /// zero: not known.
    pub holder: AtomicU32,
    /// Where that thread released it.
    pub holder_stack: AtomicU32,
    /// The waiter's name: sixteen bytes, a text that ends with a zero.
    pub name: [AtomicU64; 2],
}

/// For what a lock was waited for.
pub mod side {
    /// To write, or a mutex.
    pub const WRITE: u32 = 0;
    /// To read.
    pub const READ: u32 = 1;
    /// Added to it: the wait ended without the lock.
    pub const GIVEN_UP: u32 = 2;
    /// Not a wait, but a release while others waited.
    pub const HELD: u32 = 4;
    /// Added to it: the wait may end without a release, so it is part of no deadlock.
    pub const CAN_END: u32 = 8;
}

/// All waits for one lock at one place; or what others have waited while it was held, by the
/// places where it was released. Of what nobody holds: how often waits were ended at a place.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct PlaceEntry {
    /// The number of the lock and one; zero: not in use.
    pub lock: AtomicU32,
    /// Where.
    pub stack: AtomicU32,
    /// See [`side`].
    pub side: AtomicU32,
    /// How many waits, or releases.
    pub count: AtomicU64,
    /// How long others waited, together.
    pub waited_ns: AtomicU64,
}

/// A thread, or one that has its place now. Where threads count nothing by themselves, an entry ends
/// before `notes`: [`Chunk::entry`] says so.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ThreadEntry {
    /// Its number in the kernel; zero: nobody has this place.
    pub tid: AtomicU32,
    /// How many of its cells it uses. The file may have no room for the others yet.
    pub places: AtomicU32,
    /// Its name when it waited first, or for long: sixteen bytes, a text that ends with a zero.
    pub name: [AtomicU64; 2],
    /// What it waits for now.
    pub asleep: AsleepEntry,
    /// What it holds: of the locks that it waited for, or that it took while others waited, those that it has now. The
    /// first is the last one that is not timed. A lock that was taken while nobody waited is seldom here: the threads
    /// that wait for it name its holder.
    pub holds: [HoldingEntry; 1 + HOLDS],
    /// Where it took a lock first, the last one whose number leaves the same rest.
    pub firsts: [FirstEntry; FIRSTS],
    /// What it knows of waits, and has not counted elsewhere yet.
    pub notes: [NoteEntry; NOTES],
    /// What it has taken, of each lock.
    pub cells: [Cell; CELLS],
}

/// A wait that has not ended.
#[repr(C)]
#[derive(Debug)]
pub struct AsleepEntry {
    /// The number of what is waited for and one; zero: the thread does not wait. Stored last.
    pub lock: AtomicU32,
    /// Where.
    pub stack: AtomicU32,
    /// When the wait began.
    pub since_ns: AtomicU64,
    /// See [`side`].
    pub side: AtomicU32,
    /// The thread that held the lock alone then; zero: not known.
    pub holder: AtomicU32,
}

/// A lock that a thread holds.
#[repr(C)]
#[derive(Debug)]
pub struct HoldingEntry {
    /// The number of the lock and one; zero: none. Stored last.
    pub lock: AtomicU32,
    /// Where the thread took it; zero: not known.
    pub stack: AtomicU32,
    /// Since when; zero: not known.
    pub since_ns: AtomicU64,
}

/// Where a thread took a lock first.
#[repr(C)]
#[derive(Debug)]
pub struct FirstEntry {
    /// The number of the lock and one; zero: none. Stored last.
    pub lock: AtomicU32,
    /// Where.
    pub stack: AtomicU32,
}

/// A short wait that has ended, or a release: not yet counted in the [`ContentionEntry`] and the
/// [`PlaceEntry`].
#[repr(C)]
#[derive(Debug)]
pub struct NoteEntry {
    /// The number of the lock and one; zero: no note.
    pub lock: AtomicU32,
    /// Where.
    pub stack: AtomicU32,
    /// See [`side`].
    pub side: AtomicU32,
    /// Of a wait: how often others took the lock meanwhile.
    pub passed: AtomicU32,
    /// Of a wait: it stands for so many, with the others not noted.
    pub times: AtomicU32,
    /// How long the wait was, or what others have waited. Zero, of a release: nobody waited.
    pub waited_ns: AtomicU64,
    /// Of a release: how long the lock had been held, and one; zero: not known.
    pub held_ns: AtomicU64,
}

/// How often a thread has taken a lock, not yet counted in the [`LockEntry`].
#[repr(C)]
#[derive(Debug)]
pub struct Cell {
    /// Of the lock, likewise; zero: none.
    pub address: AtomicU64,
    /// For reading.
    pub reads: AtomicU64,
    /// Otherwise.
    pub writes: AtomicU64,
    /// The lock's number.
    pub lock: AtomicU32,
    /// Where the lock's [`ContentionEntry`] is in the file, in units of 64 bytes, if it has been waited
    /// for as far as the thread knows.
    pub contended: AtomicU32,
}

/// A name. As many bytes of text follow, and zeros until the next multiple of eight.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct NameEntry {
    /// See [`name_of`].
    pub kind: u32,
    /// Of what.
    pub number: u32,
    /// Of a place: the line.
    pub line: u32,
    /// The length of the text.
    pub length: u32,
}

/// What a name belongs to.
pub mod name_of {
    /// A lock: its number.
    pub const LOCK: u32 = 1;
    /// A place in a source file, in place of a stack: a number with the bit [`LINE`](super::LINE), and the file's name.
    pub const PLACE: u32 = 2;
    /// A thread: its number in the kernel.
    pub const THREAD: u32 = 3;
}

/// In the number of a stack: it is the place of a [`NameEntry`].
pub const LINE: u32 = 1 << 31;

/// A stack: its depth, and so many [frames](frame) behind it, the innermost first.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct StackEntry {
    /// How many frames follow; no more than [`DEEPEST`].
    pub depth: u32,
    /// [`STACK`], to tell it from anything else.
    pub mark: u32,
}

/// A frame of a stack: an address; above it, how often code had been unloaded by then.
pub mod frame {
    /// The top bit: the address is where a signal came; otherwise it is where a call returns to.
    pub const SIGNAL: u64 = 1 << 63;
    /// Where the number of unloads begins.
    pub const UNLOADS_SHIFT: u32 = 48;
    /// The largest such number: the count begins anew behind it.
    pub const MOST_UNLOADS: u32 = (1 << (63 - UNLOADS_SHIFT)) - 1;
    /// The bits of the address.
    pub const ADDRESS: u64 = (1 << UNLOADS_SHIFT) - 1;
}

/// See [`StackEntry::mark`].
pub const STACK: u32 = 0x6b_63_74_73;

const _: () = {
    assert!(size_of::<Header>() <= PAGE);
    assert!(size_of::<LockEntry>() == 64);
    assert!(size_of::<ContentionEntry>() <= 2688);
    assert!(size_of::<Chunk>() == 64);
};

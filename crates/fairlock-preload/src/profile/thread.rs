//! What a thread counts by itself: how often it has taken each of the locks that it uses now.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fairlock_profile::layout::{self, CELLS, ChunkKind, ThreadEntry, side};

use super::records::Records;
use super::stack::Memory;
use super::{Target, enter_process, file, locks};
use crate::process::fork;
use crate::process::pool::{Pool, Pooled};
use crate::thread::{self, State};

/// Of so many acquisitions of a lock that was waited for, one is timed.
pub(super) const SAMPLED: u64 = 64;

/// The thread's own variables for this. All zero at first.
pub(crate) struct Mine {
    entry: Cell<*const ThreadEntry>,
    local: Cell<*const Local>,
    /// How many of its holds are timed.
    timed: Cell<u32>,
    /// It is in the middle of this.
    busy: Cell<bool>,
}

impl Mine {
    /// In a new process.
    pub(crate) fn forget(&self) {
        self.entry.set(ptr::null());
        self.local.set(ptr::null());
        self.timed.set(0);
        self.busy.set(false);
    }
}

/// The rest: in memory that is never given back.
pub(super) struct Local {
    entry: Cell<*const ThreadEntry>,
    /// In which `entry` is: see [`fork::number`].
    process: Cell<u32>,
    memory: Memory,
    holds: [Cell<Hold>; HOLDS],
    number: u32,
    next: AtomicU32,
}

// SAFETY: a thread has it until it ends; the others know nothing of it but its number.
unsafe impl Sync for Local {}

/// So many holds are timed at once.
const HOLDS: usize = 4;

/// A lock that is held, and since when.
#[derive(Clone, Copy)]
struct Hold {
    /// Zero: none.
    address: usize,
    since: u64,
}

const NO_HOLD: Hold = Hold { address: 0, since: 0 };

impl Pooled for Local {
    fn next(&self) -> &AtomicU32 {
        &self.next
    }
}

static LOCALS: Pool<Local> = Pool::new();
static THREADS: Records<ThreadEntry> = Records::new(ChunkKind::Threads, 16);

pub(super) fn forget() {
    THREADS.forget();
}

/// While it lives, the thread is busy; and the program does not notice in `errno`.
pub(super) struct Busy {
    mine: &'static Mine,
    errno: i32,
}

impl Busy {
    /// `None` if it is already.
    pub(super) fn begin() -> Option<Self> {
        let mine = thread::enter().profile();
        // SAFETY: this thread's own.
        let errno = unsafe { *libc::__errno_location() };
        (!mine.busy.replace(true)).then_some(Self { mine, errno })
    }

    /// What the thread has for this, if there is a record.
    pub(super) fn local(&self) -> Option<&'static Local> {
        // SAFETY: null, or from the pool.
        unsafe { self.mine.local.get().as_ref() }.or_else(|| self.first())
    }

    #[cold]
    fn first(&self) -> Option<&'static Local> {
        if !enter_process() {
            return None;
        }
        let here = fork::number();
        let local = LOCALS.take(|number| Local {
            entry: Cell::new(ptr::null()),
            process: Cell::new(0),
            memory: Memory::new(),
            holds: [const { Cell::new(NO_HOLD) }; HOLDS],
            number,
            next: AtomicU32::new(0),
        });
        if local.process.get() != here {
            let Some((_, entry)) = THREADS.add() else {
                LOCALS.give(local.number, local);
                return None;
            };
            local.entry.set(entry);
            local.process.set(here);
        }
        local.memory.forget();
        local.holds.iter().for_each(|hold| hold.set(NO_HOLD));
        local.entry().tid.store(thread::state().tid(), Ordering::Relaxed);
        self.mine.entry.set(local.entry.get());
        self.mine.local.set(local);
        thread::tidy_up_at_exit(thread::state());
        Some(local)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.mine.busy.set(false);
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.errno };
    }
}

/// The thread ends: its counts go to the locks.
pub(crate) fn thread_ends(state: &State) {
    let mine = state.profile();
    // SAFETY: null, or from the pool.
    let Some(local) = (unsafe { mine.local.get().as_ref() }) else { return };
    let Some(_busy) = Busy::begin() else { return };
    mine.local.set(ptr::null());
    mine.entry.set(ptr::null());
    mine.timed.set(0);
    let entry = local.entry();
    entry.cells.iter().for_each(flush);
    entry.tid.store(0, Ordering::Relaxed);
    LOCALS.give(local.number, local);
}

/// The calling thread has taken a lock.
#[inline(always)]
pub(super) fn count(target: Target) {
    let state = thread::state();
    let mine = state.profile();
    // SAFETY: null, or in the file of this process.
    if let Some(entry) = unsafe { mine.entry.get().as_ref() }
        && state.is_of_this_process()
    {
        let cell = &entry.cells[place(target.address)];
        // Relaxed: only this thread stores here.
        if cell.address.load(Ordering::Relaxed) == target.address as u64 {
            let taken = add_one(cell, target.side);
            if cell.contended.load(Ordering::Relaxed) != 0 && taken.is_multiple_of(SAMPLED) {
                sample(target.address);
            }
            return;
        }
    }
    count_elsewhere(target);
}

#[inline(always)]
fn add_one(cell: &layout::Cell, side: u32) -> u64 {
    let count = if side & side::READ == 0 { &cell.writes } else { &cell.reads };
    let taken = count.load(Ordering::Relaxed) + 1;
    count.store(taken, Ordering::Relaxed);
    taken
}

/// Where a lock is counted, if it is.
#[inline(always)]
fn place(address: usize) -> usize {
    let hash = (address as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (u64::BITS - CELLS.ilog2())) as usize
}

/// It is not there yet.
#[cold]
#[inline(never)]
fn count_elsewhere(target: Target) {
    let counted = Busy::begin().and_then(|busy| {
        let cell = busy.local()?.cell(target)?;
        Some(add_one(cell, target.side))
    });
    if counted.is_none() {
        file::lose();
    }
}

#[cold]
fn sample(address: usize) {
    use fairlock::platform::Platform;
    if let Some(local) = Busy::begin().and_then(|busy| busy.local()) {
        local.time(address, crate::thread::platform::Preload::now());
    }
}

/// Whether the calling thread holds a lock whose hold is timed.
#[inline(always)]
pub(super) fn times_a_hold() -> bool {
    thread::state().profile().timed.get() != 0
}

fn flush(cell: &layout::Cell) {
    let address = cell.address.swap(0, Ordering::Relaxed);
    let (reads, writes) =
        (cell.reads.swap(0, Ordering::Relaxed), cell.writes.swap(0, Ordering::Relaxed));
    let lock = locks::get(cell.lock.load(Ordering::Relaxed)).filter(|_| address != 0);
    if let Some(lock) = lock {
        lock.reads.fetch_add(reads, Ordering::Relaxed);
        lock.writes.fetch_add(writes, Ordering::Relaxed);
    }
}

impl Local {
    fn entry(&self) -> &'static ThreadEntry {
        // SAFETY: set when it was taken, to an entry of the file.
        unsafe { &*self.entry.get() }
    }

    /// The stack of the calling thread, whose this is.
    pub(super) fn stack(&self) -> u32 {
        self.memory.here()
    }

    pub(super) fn tid(&self) -> u32 {
        self.entry().tid.load(Ordering::Relaxed)
    }

    /// Where the thread counts the lock from now on.
    pub(super) fn cell(&self, target: Target) -> Option<&'static layout::Cell> {
        let cell = &self.entry().cells[place(target.address)];
        if cell.address.load(Ordering::Relaxed) != target.address as u64 {
            let (number, lock) = locks::find(self, target)?;
            flush(cell);
            cell.lock.store(number, Ordering::Relaxed);
            let contended = lock.contention.load(Ordering::Relaxed) != 0;
            cell.contended.store(contended.into(), Ordering::Relaxed);
            cell.address.store(target.address as u64, Ordering::Relaxed);
        }
        Some(cell)
    }

    /// The number of a lock that the thread has taken.
    pub(super) fn number(&self, address: usize) -> Option<u32> {
        let cell = &self.entry().cells[place(address)];
        if cell.address.load(Ordering::Relaxed) == address as u64 {
            // It may not have been when the thread took it.
            cell.contended.store(1, Ordering::Relaxed);
            return Some(cell.lock.load(Ordering::Relaxed));
        }
        locks::known(address)
    }

    /// The thread holds the lock, since then.
    pub(super) fn time(&self, address: usize, since: u64) {
        let free = self.holds.iter().find(|hold| [0, address].contains(&hold.get().address));
        let was = free.map(|hold| hold.replace(Hold { address, since }));
        if was.is_some_and(|hold| hold.address == 0) {
            let timed = &thread::state().profile().timed;
            timed.set(timed.get() + 1);
        }
    }

    /// Since when the thread holds the lock that it is about to release, if that is timed.
    pub(super) fn held_since(&self, address: usize) -> Option<u64> {
        let hold = self.holds.iter().find(|hold| hold.get().address == address)?;
        let timed = &thread::state().profile().timed;
        timed.set(timed.get() - 1);
        Some(hold.replace(NO_HOLD).since)
    }
}

/// More threads are not asked what they have counted.
const MOST_ASKED: u32 = 128;

/// How often all threads have taken a lock.
pub(super) fn taken(address: usize, lock: &layout::LockEntry) -> Option<u64> {
    let len = THREADS.len();
    if len > MOST_ASKED {
        return None;
    }
    let both = |reads: &AtomicU64, writes: &AtomicU64| {
        reads.load(Ordering::Relaxed).wrapping_add(writes.load(Ordering::Relaxed))
    };
    let of_threads = (0..len).filter_map(|number| THREADS.get(number)).map(|thread| {
        let cell = &thread.cells[place(address)];
        match cell.address.load(Ordering::Relaxed) == address as u64 {
            true => both(&cell.reads, &cell.writes),
            false => 0,
        }
    });
    Some(of_threads.fold(both(&lock.reads, &lock.writes), u64::wrapping_add))
}

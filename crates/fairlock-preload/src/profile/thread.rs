//! What a thread counts by itself: how often it has taken each of the locks that it uses.

use core::cell::Cell;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fairlock::platform::System;
use fairlock::pool::Pooled;
use fairlock_profile::buckets;
use fairlock_profile::layout::{
    self, AsleepEntry, CELLS, ChunkKind, ContentionEntry, FIRSTS, HOLDS, HoldingEntry, NOTES,
    NoteEntry, PlaceEntry, ThreadEntry, WAYS, ended, kind, side,
};

use super::file::Records;
use super::stack::Memory;
use super::word::{Waiting, ends};
use super::{Target, enter_process, file, locks};
use crate::process::index::mix;
use crate::process::memory::{Pool, spread_over};
use crate::process::tls::of_each_thread;
use crate::process::{self, fork};
use crate::thread::{self, Preload};

/// After one of this many short waits the hold is timed. Of waits that end at once, one of so many is
/// noted, and stands for the others. And after so many acquisitions a thread tells others that it has
/// passed them: each time, a cache line goes from CPU to CPU while it has the lock. Of acquisitions of a lock that
/// was waited for, one of four times as many is timed. In waits, a power of
/// two; compared with a random number, or the acquisitions since it last told.
pub(super) const SAMPLED_WAITS: u32 = 16;

/// The thread's own variables for this. All zero at first.
pub(crate) struct Mine {
    entry: Cell<*const ThreadEntry>,
    /// How many of the entry's cells are used.
    places: Cell<usize>,
    local: Cell<*const Local>,
    /// How many of the thread's holds are timed.
    timed: Cell<u32>,
    /// The address of the lock that the first of [`ThreadEntry::holds`] is about; zero if that is empty.
    taken: Cell<usize>,
    /// The thread has taken a lock that was waited for.
    contends: Cell<bool>,
    /// How many of the locks that were waited for the thread knows.
    seen: Cell<u32>,
    /// The thread has so many notes that they are to be counted.
    many_notes: Cell<bool>,
    /// The thread is in the middle of recording.
    busy: Cell<bool>,
    /// A lock, by the place of its [`ContentionEntry`], and how often the thread has taken it while
    /// others waited, who do not know of it yet.
    passes: Cell<(u32, u32)>,
    /// How many of the thread's waits were short.
    waits: Cell<u64>,
    /// The process in which this is so: see [`fork::number`].
    process: Cell<u32>,
}

of_each_thread! {
    /// The calling thread's.
    mine: Mine, "fairlock_preload_profile"
}

impl Mine {
    #[inline(always)]
    fn is_of_this_process(&self) -> bool {
        self.process.get() == fork::number()
    }

    /// Forgets everything but whether it is busy: in a new process, and when the thread ends.
    fn forget(&self) {
        self.process.set(fork::number());
        self.entry.set(ptr::null());
        self.places.set(0);
        self.local.set(ptr::null());
        self.timed.set(0);
        self.taken.set(0);
        self.contends.set(false);
        self.seen.set(0);
        self.many_notes.set(false);
        self.passes.set((0, 0));
    }
}

/// The rest of the thread's variables, in memory that is never given back.
pub(super) struct Local {
    entry: Cell<*const ThreadEntry>,
    /// The process in which `entry` is: see [`fork::number`].
    process: Cell<u32>,
    memory: Memory,
    holds: [Cell<Hold>; HOLDS],
    /// How many notes the thread has in its entry.
    notes: Cell<usize>,
    /// Places at which the thread has counted waits, its own and others'.
    places: [Cell<Option<Known>>; PLACES],
    /// Which of a set's cells is given to another lock next.
    way: Cell<usize>,
    /// The last waits that were long, by turns.
    waited: [Cell<Waited>; WAITED],
    number: u32,
    next: AtomicU32,
}

// SAFETY: one thread has it until that ends; the others know nothing of it but its number.
unsafe impl Sync for Local {}

/// A place, and what [`locks::find_place`] has found for it.
type Known = ([u32; 3], &'static PlaceEntry);

/// How many of its cells a thread uses at first: with what is before them they have room in a page.
const IN_PAGE: usize = 32;
/// What is before them.
const HEAD: usize = offset_of!(ThreadEntry, cells);

/// The cells of an entry that its thread uses.
fn used(entry: &ThreadEntry) -> &[layout::Cell] {
    &entry.cells[..entry.places.load(Ordering::Relaxed) as usize]
}

/// How many of its waits a thread remembers.
const WAITED: usize = 4;

/// A wait for a lock that was long, and where that lock was released.
#[derive(Clone, Copy, Default)]
pub(super) struct Waited {
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) holder_stack: u32,
}

/// How many places a thread knows at a time.
const PLACES: usize = 32;

/// The address of a lock that is held, and since when; the address is zero if there is none.
type Hold = (usize, u64);

impl Pooled for Local {
    type Link = AtomicU32;

    fn link(&self) -> (u32, &AtomicU32) {
        (self.number, &self.next)
    }
}

// SAFETY: zero; `link` has what `make` was told, and an atomic that is for the pool.
static LOCALS: Pool<Local> = unsafe { Pool::new(AtomicU64::new(0)) };
static THREADS: Records<ThreadEntry> = Records::new(ChunkKind::Threads, 1);

pub(super) fn forget() {
    THREADS.forget();
}

/// While this lives, the thread is busy; the program's `errno` is restored afterwards.
pub(super) struct Busy {
    mine: &'static Mine,
    errno: i32,
}

impl Busy {
    /// `None` if the thread is busy already.
    fn begin() -> Option<Self> {
        thread::enter();
        let mine = mine();
        if !mine.is_of_this_process() {
            mine.forget();
            mine.busy.set(false);
        }
        let errno = process::errno().get();
        // Not `then_some`: what is made is dropped, and then the thread would seem not to be busy.
        (!mine.busy.replace(true)).then(|| Self { mine, errno })
    }

    /// What `record` records with the thread's variables for this; `None`, and nothing is done, if the
    /// thread is busy already, or there is no record.
    #[inline]
    pub(super) fn with<T>(record: impl FnOnce(&Local) -> T) -> Option<T> {
        let busy = Self::begin()?;
        busy.local().map(record)
    }

    /// The thread's variables for this, if there is a record. They are used only while the thread is
    /// busy: a signal handler would find them half changed.
    fn local(&self) -> Option<&Local> {
        // SAFETY: null, or from the pool.
        unsafe { self.mine.local.get().as_ref() }.or_else(|| self.first())
    }

    #[cold]
    fn first(&self) -> Option<&'static Local> {
        if !enter_process() {
            return None;
        }
        let here = fork::number();
        let new = |number| Local {
            entry: Cell::new(ptr::null()),
            process: Cell::new(0),
            memory: Memory::new(),
            holds: Default::default(),
            notes: Cell::new(0),
            places: Default::default(),
            way: Cell::new(0),
            waited: Default::default(),
            number,
            next: AtomicU32::new(0),
        };
        let local = LOCALS.take().or_else(|| LOCALS.make(new))?;
        if local.process.get() != here {
            let Some((_, entry)) = THREADS.add() else {
                // SAFETY: just taken, and nobody else knows it.
                unsafe { LOCALS.give(local) };
                return None;
            };
            local.entry.set(entry);
            local.process.set(here);
        }
        if !local.has_cells(IN_PAGE) {
            // SAFETY: as above.
            unsafe { LOCALS.give(local) };
            return None;
        }
        local.memory.forget();
        local.holds.iter().for_each(|hold| _ = hold.take());
        local.notes.set(0);
        local.waited.iter().for_each(|wait| _ = wait.take());
        local.places.iter().for_each(|place| place.set(None));
        let entry = local.entry();
        entry.holds.iter().for_each(|holding| holding.lock.store(0, Ordering::Relaxed));
        entry.firsts.iter().for_each(|first| first.lock.store(0, Ordering::Relaxed));
        entry.name.iter().for_each(|part| part.store(0, Ordering::Relaxed));
        entry.tid.store(thread::state().tid.get(), Ordering::Relaxed);
        self.mine.entry.set(local.entry.get());
        self.mine.local.set(local);
        thread::tidy_up_at_exit(thread::state());
        Some(local)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.mine.busy.set(false);
        process::errno().set(self.errno);
    }
}

/// The program has unloaded what was at these addresses: threads that have counted a lock there look for its entry again.
pub(super) fn end(is_gone: impl Fn(usize) -> bool) {
    let entries = (0..THREADS.len()).filter_map(|number| THREADS.get(number));
    for cell in entries.filter(|&entry| file::have_room(entry, HEAD)).flat_map(used) {
        let address = cell.address.load(Ordering::Relaxed);
        if is_gone(address as usize) {
            // Unless its thread has just given the cell to another lock.
            let order = (Ordering::Relaxed, Ordering::Relaxed);
            let _ = cell.address.compare_exchange(address, ended(address), order.0, order.1);
        }
    }
}

/// Called when the thread ends: its counts are added to the locks'.
pub(crate) fn thread_ends() {
    let mine = mine();
    // SAFETY: null, or from the pool.
    let Some(local) = (unsafe { mine.local.get().as_ref() }) else { return };
    let Some(_busy) = Busy::begin() else { return };
    tell_passes();
    local.ends_its_wait();
    local.count_notes();
    let entry = local.entry();
    used(entry).iter().for_each(flush);
    mine.forget();
    entry.tid.store(0, Ordering::Relaxed);
    // SAFETY: from the pool; the thread ends, and had it alone.
    unsafe { LOCALS.give(local) };
}

/// What is found out of a lock before it is taken. Others may be about to write to what is known of
/// their waits: a thread that looked there while it had the lock would keep it for longer.
#[derive(Clone, Copy)]
pub(crate) struct Coming {
    /// Where the thread counts the lock, if it does.
    cell: Option<&'static layout::Cell>,
    /// Others wait.
    passes: bool,
}

impl Coming {
    /// The calling thread is about to take the lock at an address.
    #[inline(always)]
    pub(crate) fn to(address: usize) -> Self {
        let cell = find(address);
        let contended = cell.map_or(0, |cell| cell.contended.load(Ordering::Relaxed));
        Self {
            cell,
            passes: contended != 0 && Waiting::now(&locks::contention_at(contended).now).is_any(),
        }
    }

    /// The calling thread has taken that lock.
    #[inline(always)]
    pub(crate) fn has_come(self, target: Target) {
        // A signal handler may have given the cell to another lock meanwhile, or forked.
        let is_it = |cell: &&layout::Cell| {
            cell.address.load(Ordering::Relaxed) == target.address as u64
                && mine().is_of_this_process()
        };
        let Some(cell) = self.cell.filter(is_it) else { return count_elsewhere(target) };
        let taken = add_one(cell, target.side);
        let contended = cell.contended.load(Ordering::Relaxed);
        if contended != 0 {
            if self.passes {
                passes(contended);
                takes(target.address, cell);
            }
            if taken.is_multiple_of(4 * u64::from(SAMPLED_WAITS)) {
                time_hold(target.address, cell);
            }
        }
    }
}

/// The calling thread has just taken the lock at an address: it is measured for how long it has it.
#[cold]
#[inline(never)]
fn time_hold(address: usize, cell: &layout::Cell) {
    let what = [cell.lock.load(Ordering::Relaxed), 0];
    Busy::with(|local| local.time(address, Preload::now(), what));
}

/// The calling thread has taken a lock, which it counts in this cell, while others waited. They cannot see by
/// themselves which thread has it.
#[inline(always)]
fn takes(address: usize, cell: &layout::Cell) {
    let mine = mine();
    // SAFETY: null, or in the file of this process.
    if let Some(entry) = unsafe { mine.entry.get().as_ref() } {
        note_hold(&entry.holds[0], [cell.lock.load(Ordering::Relaxed), 0], 0);
        mine.taken.set(address);
    }
}

#[inline(always)]
fn note_hold(entry: &HoldingEntry, [number, stack]: [u32; 2], since: u64) {
    entry.stack.store(stack, Ordering::Relaxed);
    entry.since_ns.store(since, Ordering::Relaxed);
    // Release: a reader that sees it sees the rest.
    entry.lock.store(number + 1, Ordering::Release);
}

/// Whether the calling thread has noted that it holds the lock at an address, without a time that is needed.
#[inline(always)]
pub(super) fn has_taken(address: usize) -> bool {
    mine().taken.get() == address
}

/// The calling thread is about to release that lock.
#[inline(never)] // its callers have few registers
pub(super) fn gives_back() {
    let mine = mine();
    mine.taken.set(0);
    // SAFETY: null, or in the file of this process.
    if let Some(entry) = unsafe { mine.entry.get().as_ref() } {
        entry.holds[0].lock.store(0, Ordering::Relaxed);
    }
}

/// The calling thread has taken a lock, whose [`ContentionEntry`] is at this place, while others waited.
#[inline(always)]
fn passes(contention: u32) {
    let passes = &mine().passes;
    let (place, mut count) = passes.get();
    if place != contention || count >= SAMPLED_WAITS {
        tell_passes();
        count = 0;
    }
    passes.set((contention, count + 1));
}

/// Tells the waiters how often the calling thread has passed them.
#[cold]
pub(super) fn tell_passes() {
    let (place, count) = mine().passes.take();
    if count > 0 {
        let now = &locks::contention_at(place).now;
        now.passed.fetch_add(count.into(), Ordering::Relaxed);
    }
}

/// Whether the short wait of the calling thread that has just ended is one of [`SAMPLED_WAITS`].
pub(super) fn is_sampled() -> bool {
    let waits = &mine().waits;
    // Drawn: at two locks by turns, the waits for one of them would be all that is sampled. By each
    // thread for itself: in all of them the same would be.
    let drawn = mix(waits.replace(waits.get() + 1), thread::state().tid.get().into());
    drawn >> (u64::BITS - SAMPLED_WAITS.ilog2()) == 0
}

/// Where the calling thread counts the lock, if it does.
#[inline(always)]
pub(super) fn find(address: usize) -> Option<&'static layout::Cell> {
    let mine = mine();
    // SAFETY: null, or in the file of this process, or of the one that it was forked from.
    let entry = unsafe { mine.entry.get().as_ref() }?;
    // Relaxed: only this thread stores here.
    let is_it = |cell: &&layout::Cell| cell.address.load(Ordering::Relaxed) == address as u64;
    let mut set = set(entry, mine.places.get(), address);
    if mine.is_of_this_process() { set.find(is_it) } else { None }
}

/// Whether a release has to be looked at, as the lock may have been waited for.
#[inline(always)]
pub(super) fn looks_at_releases() -> bool {
    mine().contends.get() || knows_less_than_all()
}

/// Whether locks have been waited for that the thread does not know of.
#[inline(always)]
fn knows_less_than_all() -> bool {
    mine().seen.get() != locks::contended()
}

/// Whether there are notes to be counted after a release.
#[inline(always)]
pub(super) fn has_many_notes() -> bool {
    mine().many_notes.get()
}

#[inline(always)]
fn add_one(cell: &layout::Cell, side: u32) -> u64 {
    let count = if side & side::READ == 0 { &cell.writes } else { &cell.reads };
    let taken = count.load(Ordering::Relaxed) + 1;
    count.store(taken, Ordering::Relaxed);
    taken
}

/// The cells, of so many that are used, in which a lock may be counted: mostly it is in the first.
#[inline(always)]
fn set(entry: &ThreadEntry, places: usize, address: usize) -> impl Iterator<Item = &layout::Cell> {
    let first = spread_over(address, places);
    (0..WAYS).map(move |way| &entry.cells[first ^ way])
}

/// Counts a lock that has no cell yet.
#[cold]
#[inline(never)]
fn count_elsewhere(target: Target) {
    let counted = Busy::with(|local| local.cell(target).map(|cell| add_one(cell, target.side)));
    if counted.flatten().is_none() {
        file::lose();
    }
}

/// Whether the calling thread has to look at a release that is of no interest to others: it times
/// one of its holds, or does not know of all locks that have been waited for.
#[inline(always)]
pub(super) fn looks_at_this_release() -> bool {
    mine().timed.get() != 0 || knows_less_than_all()
}

/// Notes in a cell whether its lock has been waited for.
pub(super) fn note_contended(cell: &layout::Cell, contention: Option<&'static ContentionEntry>) {
    cell.contended.store(contention.map_or(0, locks::place_of), Ordering::Relaxed);
    if contention.is_some() {
        mine().contends.set(true);
    }
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
        // SAFETY: it was set when the thread's variables were taken, to an entry of the file.
        unsafe { &*self.entry.get() }
    }

    /// The stack of the calling thread, to which these variables belong.
    pub(super) fn stack(&self) -> u32 {
        self.memory.here()
    }

    pub(super) fn tid(&self) -> u32 {
        self.entry().tid.load(Ordering::Relaxed)
    }

    /// The cell in which the thread counts the lock from now on.
    pub(super) fn cell(&self, target: Target) -> Option<&'static layout::Cell> {
        if let Some(cell) = find(target.address) {
            return Some(cell);
        }
        let mut here = 0;
        let (number, lock) = locks::find(target, || {
            here = self.stack();
            here
        })?;
        let set = || set(self.entry(), mine().places.get(), target.address);
        let free = || set().find(|cell| cell.address.load(Ordering::Relaxed) == 0);
        let cell = free().or_else(|| if self.empties_cells() { free() } else { None });
        if cell.is_some() {
            // Not where one lock takes another's place: a thread may use a million by turns.
            self.note_first(number, if here == 0 { self.stack() } else { here });
        }
        let cell = cell.or_else(|| {
            let way = self.way.replace((self.way.get() + 1) % WAYS);
            set().nth(way).inspect(|cell| flush(cell))
        })?;
        cell.lock.store(number, Ordering::Relaxed);
        note_contended(cell, locks::contention(lock));
        cell.address.store(target.address as u64, Ordering::Relaxed);
        Some(cell)
    }

    /// Notes where the thread takes a lock first.
    fn note_first(&self, number: u32, stack: u32) {
        let first = &self.entry().firsts[number as usize % FIRSTS];
        first.lock.store(0, Ordering::Relaxed);
        first.stack.store(stack, Ordering::Relaxed);
        // Release: a reader that sees it sees the rest.
        first.lock.store(number + 1, Ordering::Release);
    }

    /// Counts in so many of the entry's cells from now on, all of which are empty: false if the file has no room.
    fn has_cells(&self, places: usize) -> bool {
        let entry = self.entry();
        let has = file::have_room(entry, HEAD + places * size_of::<layout::Cell>());
        if has {
            entry.places.store(places as u32, Ordering::Relaxed);
            mine().places.set(places);
        }
        has
    }

    /// The same with four times as many, unless all are used. What was counted is added to the locks'.
    fn empties_cells(&self) -> bool {
        let places = mine().places.get();
        let may_grow = places < CELLS;
        if may_grow {
            used(self.entry()).iter().for_each(flush);
            self.has_cells((4 * places).min(CELLS));
        }
        may_grow
    }

    /// Notes which locks have been waited for since the last time.
    pub(super) fn learn(&self) {
        let seen = &mine().seen;
        seen.set(locks::contended_since(seen.get(), |address, contention| {
            if let Some(cell) = find(address) {
                note_contended(cell, Some(contention));
            }
        }));
    }

    /// The number of a lock that the thread has taken, and what is known of the waits for it.
    pub(super) fn contention(&self, address: usize) -> Option<(u32, &'static ContentionEntry)> {
        let number = match find(address) {
            Some(cell) => cell.lock.load(Ordering::Relaxed),
            None => locks::known(address)?,
        };
        Some((number, locks::contention(locks::get(number)?)?))
    }

    /// Keeps a note, to be counted later.
    pub(super) fn note(&self, note: Note) {
        if self.notes.get() == NOTES {
            self.count_notes();
        }
        let at = self.notes.replace(self.notes.get() + 1);
        note.write(&self.entry().notes[at]);
        if at == NOTES / 2 {
            mine().many_notes.set(true);
        }
    }

    /// Counts what was noted.
    pub(super) fn count_notes(&self) {
        mine().many_notes.set(false);
        for entry in &self.entry().notes[..self.notes.take()] {
            let Some(note) = Note::take(entry) else { continue };
            if let Some(contention) = locks::get(note.lock).and_then(locks::contention) {
                self.count_note(note, contention);
            }
        }
    }

    /// Counts a note where all threads count. `contention` is the lock's.
    pub(super) fn count_note(&self, note: Note, contention: &ContentionEntry) {
        if note.side & side::HELD == 0 {
            raise(&contention.longest_ns, note.waited);
            add(&contention.waits_by_time[buckets::of(note.waited)], note.times);
            if note.passed > 0 {
                contention.passed.fetch_add(note.passed, Ordering::Relaxed);
                raise(&contention.most_passed, note.passed);
            }
        }
        if let Some(held) = note.held {
            contention.holds.fetch_add(1, Ordering::Relaxed);
            contention.held_ns.fetch_add(held, Ordering::Relaxed);
            raise(&contention.longest_held_ns, held);
            add(&contention.holds_by_time[buckets::of(held)], 1);
        }
        if note.side & side::HELD == 0 || note.waited > 0 {
            let times = u64::from(note.times);
            self.count_at([note.lock + 1, note.stack, note.side], times, times * note.waited);
        }
    }

    /// The thread waits from now on at a place, to read or not, for what another thread holds, if that is known.
    pub(super) fn falls_asleep(&self, [number, stack, side]: [u32; 3], at: u64, holder: u32) {
        let entry = self.entry();
        if entry.name[0].load(Ordering::Relaxed) == 0 {
            self.note_name();
        }
        let asleep = &entry.asleep;
        asleep.stack.store(stack, Ordering::Relaxed);
        asleep.since_ns.store(at, Ordering::Relaxed);
        asleep.side.store(side, Ordering::Relaxed);
        asleep.holder.store(holder, Ordering::Relaxed);
        // Release: a reader that sees it sees the rest.
        asleep.lock.store(number + 1, Ordering::Release);
    }

    pub(super) fn wakes(&self) {
        self.entry().asleep.lock.store(0, Ordering::Relaxed);
    }

    /// Which thread held the lock that this one has waited for, when the wait began.
    pub(super) fn holder_it_waited_for(&self) -> u32 {
        self.entry().asleep.holder.load(Ordering::Relaxed)
    }

    /// The thread has waited for a lock.
    pub(super) fn has_waited(&self, wait: Waited) {
        let oldest = self.waited.iter().min_by_key(|wait| wait.get().ended);
        oldest.into_iter().for_each(|place| place.set(wait));
    }

    /// Where the lock was released that the thread has waited for longest in this time, if it waited for most of it.
    pub(super) fn waited_for(&self, since: u64, until: u64) -> Option<u32> {
        let during = |wait: &Cell<Waited>| {
            let Waited { began, ended, holder_stack } = wait.get();
            (ended.min(until).saturating_sub(began.max(since)), holder_stack)
        };
        let waits = || self.waited.iter().map(during);
        let all = waits().map(|(waited, _)| waited).sum::<u64>();
        let longest = waits().max().filter(|_| all > until.saturating_sub(since) / 2)?.1;
        (longest != 0).then_some(longest)
    }

    /// The thread was cancelled in a wait: it was until now.
    fn ends_its_wait(&self) {
        let AsleepEntry { lock, stack, since_ns, side, .. } = &self.entry().asleep;
        let Some(lock) = lock.swap(0, Ordering::Relaxed).checked_sub(1) else { return };
        let (began, at) = (since_ns.load(Ordering::Relaxed), Preload::now());
        let waited = at - began;
        let stack = stack.load(Ordering::Relaxed);
        let side = side.load(Ordering::Relaxed) & !side::CAN_END | side::GIVEN_UP;
        let Some(entry) = locks::get(lock) else { return };
        if let Some(contention) = locks::contention(entry) {
            ends(&contention.now, began, at, false);
        }
        if !kind::is_lock(entry.kind.load(Ordering::Relaxed)) {
            locks::asleep_at(entry.address.load(Ordering::Relaxed) as usize)
                .fetch_sub(1, Ordering::Relaxed);
        }
        self.note(Note { lock, stack, side, times: 1, waited, passed: 0, held: None });
    }

    /// Counts that `count` threads waited `waited` nanoseconds in all, at a place: see
    /// [`locks::find_place`].
    pub(super) fn count_at(&self, place: [u32; 3], count: u64, waited: u64) {
        let known = &self.places[locks::hash_of_place(place) as usize % PLACES];
        let entry = match known.get() {
            Some((known, entry)) if known == place => entry,
            _ => {
                let Some(entry) = locks::find_place(place) else { return file::lose() };
                known.set(Some((place, entry)));
                entry
            }
        };
        entry.count.fetch_add(count, Ordering::Relaxed);
        entry.waited_ns.fetch_add(waited, Ordering::Relaxed);
    }

    /// Notes the thread's name where readers find it; it may have another one later.
    pub(super) fn note_name(&self) -> [u64; 2] {
        let mut name = [0_u64; 2];
        // SAFETY: sixteen bytes, which is what is written.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        self.entry().name.iter().zip(name).for_each(|(to, part)| to.store(part, Ordering::Relaxed));
        name
    }

    /// Notes that the thread holds the lock since `since`, which is of use if somebody waits: `what` is the lock's
    /// number, and where it was taken.
    pub(super) fn takes(&self, address: usize, since: u64, what: [u32; 2]) {
        note_hold(&self.entry().holds[0], what, since);
        mine().taken.set(address);
    }

    /// As [`takes`](Self::takes), and measures for how long the thread holds it.
    pub(super) fn time(&self, address: usize, since: u64, what: [u32; 2]) {
        let free = |hold: &Cell<Hold>| [0, address].contains(&hold.get().0);
        let Some(at) = self.holds.iter().position(free) else {
            return self.takes(address, since, what);
        };
        if self.holds[at].replace((address, since)).0 == 0 {
            let timed = &mine().timed;
            timed.set(timed.get() + 1);
        }
        note_hold(&self.entry().holds[1 + at], what, since);
    }

    /// Since when the thread holds the lock that it is about to release, if that is timed, which it is not any more.
    pub(super) fn gives_back_timed(&self, address: usize) -> Option<u64> {
        let at = self.holds.iter().position(|hold| hold.get().0 == address)?;
        let timed = &mine().timed;
        timed.set(timed.get() - 1);
        self.entry().holds[1 + at].lock.store(0, Ordering::Relaxed);
        Some(self.holds[at].take().1)
    }
}

/// Adds to a count, up to half of what it may be: there is room for what all threads add at once.
fn add(count: &AtomicU32, times: u32) {
    if count.load(Ordering::Relaxed) < u32::MAX / 2 {
        count.fetch_add(times, Ordering::Relaxed);
    }
}

/// Raises a maximum. A load first: the line is shared.
fn raise(count: &AtomicU64, to: u64) {
    if count.load(Ordering::Relaxed) < to {
        count.fetch_max(to, Ordering::Relaxed);
    }
}

// Relaxed throughout: statistics.
const RELAXED: Ordering = Ordering::Relaxed;

/// What a thread knows of a wait that is over, or of a release, until it counts that where all threads
/// count: see [`NoteEntry`].
///
/// The counts of a lock are shared: each wait would move several cache lines from another CPU, while
/// the thread holds the lock that others want. So a thread notes it first, in its own part of the
/// file, and counts many at once after a release. Whoever reads the file counts the notes, too.
#[derive(Clone, Copy)]
pub(super) struct Note {
    /// The number of the lock.
    pub(super) lock: u32,
    pub(super) stack: u32,
    pub(super) side: u32,
    /// It stands for so many waits.
    pub(super) times: u32,
    pub(super) waited: u64,
    pub(super) passed: u64,
    pub(super) held: Option<u64>,
}

impl Note {
    pub(super) fn write(&self, to: &NoteEntry) {
        to.stack.store(self.stack, RELAXED);
        to.side.store(self.side, RELAXED);
        to.times.store(self.times, RELAXED);
        to.passed.store(u32::try_from(self.passed).unwrap_or(u32::MAX), RELAXED);
        to.waited_ns.store(self.waited, RELAXED);
        to.held_ns.store(self.held.map_or(0, |held| held + 1), RELAXED);
        to.lock.store(self.lock + 1, RELAXED);
    }

    /// The note of an entry, which is empty afterwards.
    pub(super) fn take(from: &NoteEntry) -> Option<Self> {
        let lock = from.lock.load(RELAXED).checked_sub(1)?;
        from.lock.store(0, RELAXED);
        Some(Self {
            lock,
            stack: from.stack.load(RELAXED),
            side: from.side.load(RELAXED),
            times: from.times.load(RELAXED),
            waited: from.waited_ns.load(RELAXED),
            passed: from.passed.load(RELAXED).into(),
            held: from.held_ns.load(RELAXED).checked_sub(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a signal handler does in the middle of recording, whose first attempt made the thread seem
    /// idle.
    #[test]
    fn a_thread_stays_busy_however_often_it_is_asked() {
        let busy = Busy::begin();
        assert!(busy.is_some());
        assert!((0..3).all(|_| Busy::begin().is_none()));
        drop(busy);
        assert!(Busy::begin().is_some());
    }
}

#[cfg(test)]
mod note_tests {
    use super::*;
    use fairlock_profile::layout::side;

    #[test]
    fn what_was_noted_is_counted_once() {
        // SAFETY: atomic numbers.
        let entry: NoteEntry = unsafe { core::mem::zeroed() };
        assert!(Note::take(&entry).is_none());
        for held in [None, Some(0), Some(7)] {
            let note = Note {
                lock: 0,
                stack: 3,
                side: side::HELD,
                times: 8,
                waited: 5,
                passed: 1 << 40,
                held,
            };
            note.write(&entry);
            let found = Note::take(&entry).unwrap();
            assert_eq!((found.lock, found.stack, found.side), (0, 3, side::HELD));
            assert_eq!((found.times, found.waited, found.held), (8, 5, held));
            assert_eq!(found.passed, u32::MAX.into(), "as many as there is room for");
            assert!(Note::take(&entry).is_none());
        }
    }
}

//! A wait: from an attempt that failed until the lock was had, or given up; and the releases that
//! end waits.

use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use fairlock::platform::Platform;
use fairlock_profile::buckets;
use fairlock_profile::layout::{
    Chunk, ChunkKind, ContentionEntry, LockEntry, PairEntry, WaitEntry, side,
};
use libc::{EOWNERDEAD, ETIMEDOUT};

use super::index::{Entries, Index, mix};
use super::records::Records;
use super::thread::{Busy, Local, taken};
use super::{Target, file, locks, threshold};
use crate::process::mutex::Mutex;
use crate::thread::platform::Preload;

// Relaxed, in all of this: statistics, and some of them may be of different moments.
const RELAXED: Ordering = Ordering::Relaxed;

/// Takes a lock that could not be had at once.
#[cold]
#[inline(never)]
pub(super) fn wait(target: Target, wait: impl FnOnce() -> c_int) -> c_int {
    let begun = Busy::begin().and_then(|busy| Begun::now(busy.local()?, target));
    let result = wait();
    let ended = Busy::begin().and_then(|busy| {
        // The record may have ended meanwhile, in a child.
        begun.filter(|begun| busy.local().is_some_and(|now| core::ptr::eq(now, begun.local)))
    });
    match ended {
        Some(begun) => {
            begun.end(result);
            super::counted(target, result)
        }
        None => {
            file::lose();
            result
        }
    }
}

struct Begun {
    local: &'static Local,
    target: Target,
    number: u32,
    lock: &'static LockEntry,
    contention: &'static ContentionEntry,
    stack: u32,
    at: u64,
    taken: Option<u64>,
}

impl Begun {
    fn now(local: &'static Local, target: Target) -> Option<Self> {
        let cell = local.cell(target)?;
        cell.contended.store(1, RELAXED);
        let number = cell.lock.load(RELAXED);
        let lock = locks::get(number)?;
        let contention = locks::make_contention(number, lock)?;
        let stack = local.stack();
        let at = Preload::now();
        let _ = contention.waited_since_ns.compare_exchange(0, at, RELAXED, RELAXED);
        let taken = taken(target.address, lock);
        Some(Self { local, target, number, lock, contention, stack, at, taken })
    }

    fn end(&self, result: c_int) {
        let now = Preload::now();
        let contention = self.contention;
        let given_up = match result {
            0 | EOWNERDEAD => false,
            ETIMEDOUT => true,
            // It did not wait.
            _ => return self.leave(),
        };
        let waited = now - self.at;
        let taken = taken(self.target.address, self.lock);
        let passed = self.taken.zip(taken).map(|(then, now)| now.wrapping_sub(then));
        // A thread may have been slow to count.
        let passed = passed.map(|passed| if passed > u64::MAX / 2 { 0 } else { passed });
        let count = match (given_up, self.target.side & side::READ != 0) {
            (true, _) => &contention.given_up,
            (false, true) => &contention.reads,
            (false, false) => &contention.writes,
        };
        count.fetch_add(1, RELAXED);
        contention.waited_ns.fetch_add(waited, RELAXED);
        raise(&contention.longest_ns, waited);
        contention.waits_by_time[buckets::of(waited)].fetch_add(1, RELAXED);
        if let Some(passed) = passed.filter(|&passed| passed > 0) {
            contention.passed.fetch_add(passed, RELAXED);
            raise(&contention.most_passed, passed);
        }
        let released = contention.released_ns.load(RELAXED);
        let known = !given_up && released >= self.at;
        let holder_stack = if known { contention.holder_stack.load(RELAXED) } else { 0 };
        let side = self.target.side | if given_up { side::GIVEN_UP } else { 0 };
        count_pair(self.number, self.stack, holder_stack, side, waited);
        if waited >= threshold() {
            let unless = |count: &AtomicU64| if known { count.load(RELAXED) } else { 0 };
            keep(
                contention,
                &Long {
                    began: self.at,
                    waited,
                    released: if known { released } else { 0 },
                    held_since: unless(&contention.held_since_ns),
                    passed: passed.unwrap_or(u64::MAX),
                    lock: self.number,
                    side,
                    thread: self.local.tid(),
                    stack: self.stack,
                    holder: if known { contention.holder.load(RELAXED) } else { 0 },
                    holder_stack,
                },
            );
        }
        if given_up {
            self.leave();
        } else {
            self.local.time(self.target.address, now);
        }
    }

    /// It does not wait any more; others may.
    fn leave(&self) {
        let since = &self.contention.waited_since_ns;
        let _ = since.compare_exchange(self.at, 0, RELAXED, RELAXED);
    }
}

/// A load first: the line is shared.
fn raise(count: &AtomicU64, to: u64) {
    if count.load(RELAXED) < to {
        count.fetch_max(to, RELAXED);
    }
}

/// The calling thread is about to release a lock for which somebody waits, or whose hold it times.
#[cold]
#[inline(never)]
pub(super) fn release(address: usize, wanted: bool) {
    let Some(busy) = Busy::begin() else { return };
    let Some(local) = busy.local() else { return };
    let since = local.held_since(address);
    if since.is_none() && !wanted {
        return;
    }
    let lock = local.number(address).and_then(locks::get);
    let Some(contention) = lock.and_then(locks::contention) else { return };
    let now = Preload::now();
    // Whoever came first found it held.
    let waited_since = if wanted { contention.waited_since_ns.swap(0, RELAXED) } else { 0 };
    let since = since.or((waited_since != 0).then_some(waited_since));
    if let Some(since) = since {
        let held = now.saturating_sub(since);
        contention.holds.fetch_add(1, RELAXED);
        contention.held_ns.fetch_add(held, RELAXED);
        raise(&contention.longest_held_ns, held);
        contention.holds_by_time[buckets::of(held)].fetch_add(1, RELAXED);
    }
    if wanted {
        contention.held_since_ns.store(since.unwrap_or(0), RELAXED);
        contention.holder.store(local.tid(), RELAXED);
        contention.holder_stack.store(local.stack(), RELAXED);
        contention.released_ns.store(now, RELAXED);
    }
}

/// A wait that is kept by itself.
struct Long {
    began: u64,
    waited: u64,
    released: u64,
    held_since: u64,
    passed: u64,
    lock: u32,
    side: u32,
    thread: u32,
    stack: u32,
    holder: u32,
    holder_stack: u32,
}

/// How many of the last ones there is room for.
const RING: u64 = 8192;
static WAITS: AtomicPtr<Chunk> = AtomicPtr::new(core::ptr::null_mut());
static MAKING: Mutex = Mutex::new();
static NUMBER: AtomicU64 = AtomicU64::new(0);

fn keep(contention: &ContentionEntry, long: &Long) {
    let number = NUMBER.fetch_add(1, RELAXED) + 1;
    let mut name = [0_u64; 2];
    // SAFETY: sixteen bytes, which is what is written.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    if let Some(place) = place_in_ring(number) {
        write(place, number, long, name);
    }
    let shortest = contention.worst.iter().min_by_key(|wait| wait.waited_ns.load(RELAXED));
    if let Some(place) = shortest
        && place.waited_ns.load(RELAXED) < long.waited
        // Acquire and Release: one at a time. Whoever is the second lets it be.
        && contention.busy.compare_exchange(0, 1, Ordering::Acquire, RELAXED).is_ok()
    {
        write(place, number, long, name);
        contention.busy.store(0, Ordering::Release);
    }
}

fn place_in_ring(number: u64) -> Option<&'static WaitEntry> {
    let mut ring = WAITS.load(Ordering::Acquire);
    if ring.is_null() {
        let _guard = MAKING.lock();
        ring = WAITS.load(Ordering::Acquire);
        if ring.is_null() {
            let new = file::add_chunk(ChunkKind::Waits, size_of::<WaitEntry>(), 0, RING as u32)?;
            ring = core::ptr::from_ref(new).cast_mut();
            // Release: who finds it finds what it begins with.
            WAITS.store(ring, Ordering::Release);
        }
    }
    // SAFETY: there is room for so many behind the header.
    Some(unsafe { &*ring.add(1).cast::<WaitEntry>().add(((number - 1) % RING) as usize) })
}

fn write(place: &WaitEntry, number: u64, long: &Long, name: [u64; 2]) {
    place.number.store(0, RELAXED);
    let times = [
        (&place.began_ns, long.began),
        (&place.waited_ns, long.waited),
        (&place.released_ns, long.released),
        (&place.held_since_ns, long.held_since),
        (&place.passed, long.passed),
        (&place.name[0], name[0]),
        (&place.name[1], name[1]),
    ];
    times.iter().for_each(|(place, value)| place.store(*value, RELAXED));
    let numbers = [
        (&place.lock, long.lock),
        (&place.side, long.side),
        (&place.thread, long.thread),
        (&place.stack, long.stack),
        (&place.holder, long.holder),
        (&place.holder_stack, long.holder_stack),
    ];
    numbers.iter().for_each(|(place, value)| place.store(*value, RELAXED));
    // Release: whoever sees the number sees the rest.
    place.number.store(number, Ordering::Release);
}

static PAIRS: Records<PairEntry> = Records::new(ChunkKind::Pairs, 64);
static INDEX: Index = Index::new();

pub(super) fn forget() {
    PAIRS.forget();
    INDEX.forget();
    WAITS.store(core::ptr::null_mut(), RELAXED);
    NUMBER.store(0, RELAXED);
}

/// A lock's number and one, and from where and for what it was waited for.
struct Places([u32; 4]);

impl Places {
    fn of(pair: &PairEntry) -> [u32; 4] {
        let all: [&AtomicU32; 4] = [&pair.lock, &pair.stack, &pair.holder_stack, &pair.side];
        all.map(|part| part.load(RELAXED))
    }
}

fn hash(places: [u32; 4]) -> u64 {
    places.iter().fold(0, |hash, &part| mix(hash, part.into()))
}

impl Entries for Places {
    fn hash(&self, number: u32) -> u64 {
        PAIRS.get(number).map_or(0, |pair| hash(Self::of(pair)))
    }

    fn is_it(&self, number: u32) -> bool {
        PAIRS.get(number).is_some_and(|pair| Self::of(pair) == self.0)
    }
}

fn count_pair(lock: u32, stack: u32, holder_stack: u32, side: u32, waited: u64) {
    let places = [lock + 1, stack, holder_stack, side];
    let found = INDEX.find_or_add(hash(places), &Places(places), || {
        let (number, pair) = PAIRS.add()?;
        let all = [&pair.lock, &pair.stack, &pair.holder_stack, &pair.side];
        all.iter().zip(places).for_each(|(part, value)| part.store(value, RELAXED));
        Some(number)
    });
    match found.and_then(|(number, _)| PAIRS.get(number)) {
        Some(pair) => {
            pair.waits.fetch_add(1, RELAXED);
            pair.waited_ns.fetch_add(waited, RELAXED);
        }
        None => file::lose(),
    }
}

//! Statistics of locks with a name.

use std::ffi::{CStr, c_char, c_void};
use std::time::Duration;

use fairlock::stats::{self, Longest, Now, Place, SideStats, Snapshot, Times};
use libc::c_int;

use crate::caller;
use crate::errno::{Errno, give, kept, status};
use crate::home;
use crate::mutex::fairlock_mutex_t;
use crate::rwlock::fairlock_rwlock_t;

/// How long something took, in nanoseconds. Percentiles are at most a quarter longer than the true
/// ones, and never shorter; the longest is exact.
#[repr(C)]
pub struct fairlock_times_t {
    /// How many there were.
    pub count: u64,
    /// Their sum.
    pub total_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub longest_ns: u64,
}

/// What was counted of those that read a lock, or of those that write it or hold a mutex.
#[repr(C)]
pub struct fairlock_stats_t {
    /// How often the lock was taken.
    pub acquisitions: u64,
    /// How many waits ended without the lock.
    pub given_up: u64,
    /// How often one that came later had the lock before one that waited; and that of one wait, at
    /// most.
    pub passed_over: u64,
    pub most_passed_over: u64,
    /// How long it took to have the lock, or to give up, where it was not free immediately: all waits.
    pub waited: fairlock_times_t,
    /// How long it was held: of each thread's acquisitions (of all, to write) one of 64. But the
    /// longest is of all that somebody waited for, too.
    pub held: fairlock_times_t,
    /// The threads that waited and held it longest: their names, cut off if need be.
    pub longest_waiter: [c_char; 32],
    pub longest_holder: [c_char; 32],
    /// From where they took it: the addresses to which these calls returned. Null if nobody did, and
    /// on other machines than x86-64.
    pub longest_wait_at: *const c_void,
    pub longest_hold_at: *const c_void,
    /// How long threads gave the mutex up for condition variables, until they had it again: of the
    /// mutex, to write; else zero.
    pub conditions: fairlock_times_t,
    /// How many threads wait now, and how long the first of them has waited.
    pub waiting: u64,
    pub waiting_ns: u64,
    /// How many threads hold it now, and how long the first of them has held it; zero if that is not
    /// timed, and nobody waits.
    pub holding: u64,
    pub holding_ns: u64,
}

/// # Safety
/// `name` is null, or a string.
unsafe fn name_of<'a>(name: *const c_char) -> Result<std::borrow::Cow<'a, str>, Errno> {
    if name.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy())
}

/// Gives the lock a name, which is copied. From then on, until it is destroyed, how it is used is
/// counted and timed: see fairlock_stats_get; and deadlocks are found: see fairlock_deadlocks. That
/// takes some nanoseconds of each call, and 6 kB. Several locks may have one name.
///
/// * 0: it has the name.
/// * EBUSY: it has one.
/// * EINVAL: not a lock, or `name` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_rwlock_set_name(
    lock: *mut fairlock_rwlock_t,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller provides a lock and a string.
    status(unsafe { home::get(lock).and_then(|lock| lock.set_name(&name_of(name)?)) })
}

/// As fairlock_rwlock_set_name. While a thread waits for a condition variable, the mutex is not
/// held; acquiring it again is part of that wait, and does not count as an acquisition.
///
/// * 0: it has the name.
/// * EBUSY: it has one.
/// * EINVAL: not a mutex, or `name` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_mutex_set_name(
    mutex: *mut fairlock_mutex_t,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller provides a mutex and a string.
    status(unsafe { home::get(mutex).and_then(|mutex| mutex.set_name(&name_of(name)?)) })
}

/// Writes what was counted of the locks with this name to `*stats`: of those that write, or hold the
/// mutex, if `writes`, else of those that read. The numbers of several locks with one name are added, also of those
/// that have been destroyed.
///
/// * 0: done.
/// * ENOENT: no lock has this name.
/// * EINVAL: `name` or `stats` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_stats_get(
    name: *const c_char,
    writes: bool,
    stats: *mut fairlock_stats_t,
) -> c_int {
    let read = |name: &str| {
        let now = kept(stats::snapshot);
        let lock = now.get(name).ok_or(Errno::NO_ENTRY)?;
        let made = if writes {
            fairlock_stats_t::new(&lock.writes, &lock.conditions)
        } else {
            fairlock_stats_t::new(&lock.reads, &Times::default())
        };
        // SAFETY: the caller provides room.
        unsafe { give(stats, made) }
    };
    // SAFETY: the caller provides a string.
    status(unsafe { name_of(name) }.and_then(|name| read(&name)))
}

/// Writes a table of all locks with a name to `text`, of which `size` bytes are used at most, the
/// last of them a zero. Returns how many bytes the table has without that zero: if not less
/// than `size`, it was cut off. `text` may be null if `size` is zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_stats_table(text: *mut c_char, size: usize) -> usize {
    // SAFETY: the caller provides room.
    unsafe { write(&named().to_string(), text, size) }
}

/// As fairlock_stats_table, as one object in JSON:
/// {"locks": [{"name": ..., "locks": ..., "reads": {...}, "writes": {...}, "conditions": {...}}, ...],
/// "deadlocks": [[{"thread": ..., "holds": {...}, "wants": {...}, "waited_ns": ...}, ...], ...]}.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_stats_json(text: *mut c_char, size: usize) -> usize {
    // SAFETY: the caller provides room.
    unsafe { write(&named().to_json(), text, size) }
}

/// Writes to `text`, as fairlock_stats_table, which threads wait for each other for ever, at locks that have
/// a name: a line for each deadlock, with the threads, what each holds and waits for, and from where. Returns 0 if
/// there is none. No thread stops for that, so it may be called every few seconds.
///
/// What is written is a deadlock: none of its threads can go on, unless somebody else releases a lock for them.
/// One in which a thread reads again behind a writer is found after a second. Not found: waits that can end, by a deadline, a
/// signal or a token; threads at condition variables, semaphores and range locks; and locks that
/// got their name after they were taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_deadlocks(text: *mut c_char, size: usize) -> usize {
    let lines: String = named().deadlocks().iter().map(|it| format!("{it}\n")).collect();
    // SAFETY: the caller provides room.
    unsafe { write(&lines, text, size) }
}

/// Switches the statistics of all locks with a name on or off. On at first.
#[unsafe(no_mangle)]
pub extern "C" fn fairlock_stats_set_collecting(on: bool) {
    stats::set_collecting(on);
}

fn named() -> Snapshot {
    kept(|| stats::snapshot().with_names(caller::name))
}

/// # Safety
/// `to` has room for `size` bytes.
unsafe fn write(text: &str, to: *mut c_char, size: usize) -> usize {
    if size > 0 && !to.is_null() {
        let length = text.len().min(size - 1);
        // SAFETY: the caller's promise.
        unsafe {
            to.copy_from_nonoverlapping(text.as_ptr().cast(), length);
            to.add(length).write(0);
        }
    }
    text.len()
}

impl fairlock_stats_t {
    fn new(side: &SideStats, conditions: &Times) -> Self {
        Self {
            acquisitions: side.acquisitions,
            given_up: side.given_up,
            passed_over: side.passed_over,
            most_passed_over: side.most_passed_over,
            waited: fairlock_times_t::new(&side.waited),
            held: fairlock_times_t::new(&side.held),
            longest_waiter: thread_of(side.longest_wait.as_ref()),
            longest_holder: thread_of(side.longest_hold.as_ref()),
            longest_wait_at: address_of(side.longest_wait.as_ref()),
            longest_hold_at: address_of(side.longest_hold.as_ref()),
            conditions: fairlock_times_t::new(conditions),
            waiting: side.waiting.len() as u64,
            waiting_ns: longest(&side.waiting),
            holding: side.held_now.len() as u64,
            holding_ns: longest(&side.held_now),
        }
    }
}

impl fairlock_times_t {
    fn new(times: &Times) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            count: times.count,
            total_ns: ns(times.total),
            p50_ns: ns(times.p50),
            p99_ns: ns(times.p99),
            p999_ns: ns(times.p999),
            longest_ns: ns(times.longest),
        }
    }
}

/// The first of them is the longest.
fn longest(all: &[Now]) -> u64 {
    let time = all.first().and_then(|now| now.time).unwrap_or_default();
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn address_of(longest: Option<&Longest>) -> *const c_void {
    match longest.and_then(|it| it.at) {
        Some(Place::Address(address)) => std::ptr::without_provenance(address),
        _ => std::ptr::null(),
    }
}

fn thread_of(longest: Option<&Longest>) -> [c_char; 32] {
    let mut name = [0; 32];
    for (to, from) in name[..31].iter_mut().zip(longest.map_or("", |it| &it.thread).bytes()) {
        *to = from as c_char;
    }
    name
}

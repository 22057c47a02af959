//! The lock on ranges: making one, and looking at it. How ranges are locked is in `range`.

use std::time::Duration;

use fairlock::RangeRwLock;
use fairlock::range::{RangeAccess, RangeInfo, RangePolicy};
use libc::c_int;

use crate::errno::{Errno, give, status};
use crate::events::{self, fairlock_events_t};
use crate::home::{self, Home};

/// Preset: a range that waits may be overtaken for 4 ms; nearly the speed of an unfair lock.
pub const FAIRLOCK_RANGE_DEFAULT: u32 = 0;
/// Preset: first come, first served among ranges that overlap.
pub const FAIRLOCK_RANGE_FIFO: u32 = 1;

/// A lock on closed ranges of uint64_t: any number of readers together at a position, or
/// one writer alone. What the positions number is up to the program: bytes of a file,
/// pages, blocks.
///
/// Ranges that do not overlap have nothing to do with each other. A range that waits may be
/// overtaken for a few milliseconds, then it is served in order of arrival among those that
/// overlap. A thread that reads a range again that it holds waits for itself as soon as a
/// writer waits: see fairlock_range_read_recursive.
///
/// The lock allocates memory when many ranges are held or waited for; if there is none,
/// the process ends, as Rust's allocator has no error for that.
#[repr(C)]
pub struct fairlock_range_lock_t {
    mark: u32,
    preset: u32,
    memory: [u64; 191],
}

// SAFETY: as the trait asks.
unsafe impl Home for fairlock_range_lock_t {
    type Value = RangeRwLock;

    fn preset(preset: u32) -> Option<RangeRwLock> {
        Some(RangeRwLock::with_policy(match preset {
            FAIRLOCK_RANGE_DEFAULT => RangePolicy::DEFAULT,
            FAIRLOCK_RANGE_FIFO => RangePolicy::FIFO,
            _ => return None,
        }))
    }
}

/// What a range lock promises those that wait.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct fairlock_range_policy_t {
    /// How long a waiting range may be overtaken, in nanoseconds (more if many wait).
    /// Zero: not at all.
    pub overtaken_for_ns: u64,
    /// For later versions: zero.
    pub reserved: [u64; 3],
}

/// One that holds a range, or waits for one.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct fairlock_range_info_t {
    /// The first position.
    pub start: u64,
    /// The last position: it belongs to the range.
    pub last: u64,
    /// Which thread, as fairlock_this_thread names them, and for how long it has waited,
    /// or held or waited before, in nanoseconds. Of holders this is known only if they
    /// waited, or came while ranges were traced; else both are zero.
    pub who: u64,
    pub how_long_ns: u64,
    /// For writing.
    pub writes: bool,
    /// Waited for; held otherwise.
    pub waits: bool,
}

impl From<RangeInfo> for fairlock_range_info_t {
    fn from(info: RangeInfo) -> Self {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            start: info.span.start(),
            last: info.span.last(),
            who: info.who.map_or(0, |who| who as u64),
            how_long_ns: info.how_long.map_or(0, ns),
            writes: info.access == RangeAccess::Write,
            waits: info.waiting,
        }
    }
}

/// Makes `*lock` a free lock that follows `policy`; if that is null, the default.
/// Not needed for a lock that was initialised statically, or is zero.
///
/// * 0: `*lock` is a lock, whatever it was before.
/// * EINVAL: `lock` is null or misaligned, or `policy` has reserved fields that are not zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_lock_init(
    lock: *mut fairlock_range_lock_t,
    policy: *const fairlock_range_policy_t,
) -> c_int {
    // SAFETY: null, or the caller's policy.
    let policy = match unsafe { policy.as_ref() } {
        None => Ok(RangePolicy::DEFAULT),
        Some(fairlock_range_policy_t { overtaken_for_ns, reserved: [0, 0, 0] }) => {
            Ok(RangePolicy { overtaken_for: Duration::from_nanos(*overtaken_for_ns) })
        }
        Some(_) => Err(Errno::INVALID),
    };
    // SAFETY: the caller provides a lock that nobody uses.
    status(policy.and_then(|policy| unsafe { home::init(lock, RangeRwLock::with_policy(policy)) }))
}

/// Ends the use of a lock, and frees the memory it has allocated. Every later call with it
/// returns EINVAL, until it is initialised again.
///
/// * 0: it is not a lock any more.
/// * EBUSY: a range is held or waited for; the lock is as it was.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_lock_destroy(lock: *mut fairlock_range_lock_t) -> c_int {
    // SAFETY: the caller provides a lock.
    status(unsafe { home::destroy(lock, |lock| lock.ranges().is_empty()) })
}

/// Whether any range is held at this instant; false if it is not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_lock_is_locked(lock: *const fairlock_range_lock_t) -> bool {
    // SAFETY: the caller provides a lock.
    unsafe { home::get(lock) }.is_ok_and(RangeRwLock::is_locked)
}

/// Writes down the policy that the lock follows.
///
/// * 0: `*policy` was written.
/// * EINVAL: not a lock, or `policy` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_lock_policy(
    lock: *const fairlock_range_lock_t,
    policy: *mut fairlock_range_policy_t,
) -> c_int {
    let look = |lock: &RangeRwLock| {
        let ns = lock.policy().overtaken_for.as_nanos();
        let overtaken_for_ns = u64::try_from(ns).unwrap_or(u64::MAX);
        // SAFETY: the caller provides room for a policy.
        unsafe { give(policy, fairlock_range_policy_t { overtaken_for_ns, reserved: [0; 3] }) }
    };
    // SAFETY: the caller provides a lock.
    status(unsafe { home::get(lock) }.and_then(look))
}

/// Writes down which threads hold and wait for which ranges, for diagnostics, to `ranges`,
/// which has room for `room` of them. Returns how many there are, which may be more; 0 if
/// it is not a lock. Ranges that come and go meanwhile may be missed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_lock_ranges(
    lock: *const fairlock_range_lock_t,
    ranges: *mut fairlock_range_info_t,
    room: usize,
) -> usize {
    // SAFETY: the caller provides a lock.
    let Ok(lock) = (unsafe { home::get(lock) }) else { return 0 };
    let all = lock.ranges();
    let room = if ranges.is_null() { 0 } else { room };
    for (i, range) in all.iter().enumerate().take(room) {
        // SAFETY: the caller provides room for this many.
        unsafe { ranges.add(i).write((*range).into()) };
    }
    all.len()
}

/// Notes which thread takes a range and since when, for fairlock_range_lock_ranges, or no longer.
/// Locking is slower meanwhile. Off at first.
///
/// * 0: done.
/// * EINVAL: not a lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_lock_set_traced(
    lock: *mut fairlock_range_lock_t,
    traced: bool,
) -> c_int {
    // SAFETY: the caller provides a lock.
    status(unsafe { home::get(lock) }.map(|lock| lock.set_traced(traced)))
}

/// The name of the calling thread in fairlock_range_info_t: the same as long as the thread
/// lives, and no other live thread's.
#[unsafe(no_mangle)]
pub extern "C" fn fairlock_this_thread() -> u64 {
    RangeRwLock::this_thread() as u64
}

/// Counts the lock's events in `events` too; if that is null, no longer. Several locks may
/// share them. They stay where they are for as long as the lock is used.
///
/// * 0: done.
/// * EINVAL: not a lock, or `events` is misaligned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_range_lock_set_events(
    lock: *mut fairlock_range_lock_t,
    events: *mut fairlock_events_t,
) -> c_int {
    let set = |lock: &RangeRwLock| {
        // SAFETY: the caller provides events that outlive the lock.
        lock.set_events(unsafe { events::sink(events)? });
        Ok(())
    };
    // SAFETY: the caller provides a lock.
    status(unsafe { home::get(lock) }.and_then(set))
}

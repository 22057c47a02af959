//! What the slow paths of locks do, counted.

use std::ffi::{CStr, c_char};

use fairlock::events::{Event, EventCounts, global, set_counting};
use libc::c_int;

use crate::errno::{Errno, status};

/// Counters of what the slow paths of locks do. Zero bytes are counters at zero.
#[repr(C)]
pub struct fairlock_events_t {
    memory: [u64; 64],
}

// Zero bytes are counters at zero, and there is room for all of them.
const _: () = {
    assert!(size_of::<EventCounts>() == size_of::<[usize; COUNT]>());
    assert!(size_of::<EventCounts>() <= size_of::<fairlock_events_t>());
    assert!(align_of::<EventCounts>() <= align_of::<fairlock_events_t>());
};

/// What was counted: an event and how often it happened.
#[repr(C)]
pub struct fairlock_event_count_t {
    /// The event's name, as the Linux kernel has it; never freed.
    pub name: *const c_char,
    /// How often it happened.
    pub count: u64,
}

const COUNT: usize = Event::ALL.len();
const LONGEST_NAME: usize = 32;

/// The names as C strings, in the order of `Event::ALL`.
static NAMES: [[u8; LONGEST_NAME]; COUNT] = {
    let mut names = [[0; LONGEST_NAME]; COUNT];
    let mut event = 0;
    while event < COUNT {
        let name = Event::ALL[event].name().as_bytes();
        assert!(name.len() < LONGEST_NAME);
        let mut i = 0;
        while i < name.len() {
            names[event][i] = name[i];
            i += 1;
        }
        event += 1;
    }
    names
};

/// The counters behind a C pointer, or those of the process if it is null.
///
/// # Safety
/// `events` is null or points to counters.
unsafe fn counts<'a>(events: *const fairlock_events_t) -> Result<&'a EventCounts, Errno> {
    if !events.is_aligned() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller's promise; the struct is that of the counters and reserve.
    Ok(unsafe { events.cast::<EventCounts>().as_ref() }.unwrap_or_else(|| global()))
}

/// The counters that a lock is to count in, if there are any.
///
/// # Safety
/// `events` is null or points to counters that outlive the lock.
pub(crate) unsafe fn sink(
    events: *const fairlock_events_t,
) -> Result<Option<&'static EventCounts>, Errno> {
    if events.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { counts(events) }.map(Some)
}

/// Switches on or off the counters of the process, which count the events of all locks
/// together. Off at first. Locks that have counters of their own keep counting there.
#[unsafe(no_mangle)]
pub extern "C" fn fairlock_events_set_counting(on: bool) {
    set_counting(on);
}

/// Writes events and how often they were counted to `counts`, which has room for `room` of
/// them; those of the process if `events` is null. Returns how many there are, which may be
/// more than there is room for; 0 if `events` is misaligned. The order of events never changes;
/// new ones come last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_events_read(
    events: *const fairlock_events_t,
    counts: *mut fairlock_event_count_t,
    room: usize,
) -> usize {
    // SAFETY: the caller provides counters, or null.
    let Ok(counted) = (unsafe { self::counts(events) }) else { return 0 };
    let room = if counts.is_null() { 0 } else { room };
    for (i, (event, count)) in counted.snapshot().iter().enumerate().take(room) {
        let name = NAMES[event as usize].as_ptr().cast();
        // SAFETY: the caller provides room for this many.
        unsafe { counts.add(i).write(fairlock_event_count_t { name, count: count as u64 }) };
    }
    COUNT
}

/// How often the event of that name was counted; in the process if `events` is null. 0 for
/// a name that no event has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_events_get(
    events: *const fairlock_events_t,
    name: *const c_char,
) -> u64 {
    // SAFETY: the caller provides counters, or null.
    let Ok(counted) = (unsafe { counts(events) }) else { return 0 };
    if name.is_null() {
        return 0;
    }
    // SAFETY: the caller provides a string.
    let name = unsafe { CStr::from_ptr(name) };
    let named = |event: &Event| event.name().as_bytes() == name.to_bytes();
    Event::ALL.into_iter().find(named).map_or(0, |event| counted.get(event) as u64)
}

/// Sets counters to zero; those of the process if `events` is null. Events that are counted
/// meanwhile may be lost.
///
/// * 0: done.
/// * EINVAL: `events` is misaligned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fairlock_events_reset(events: *mut fairlock_events_t) -> c_int {
    // SAFETY: the caller provides counters, or null.
    status(unsafe { counts(events) }.map(EventCounts::reset))
}

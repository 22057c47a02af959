//! A wait, from an attempt that failed until the lock was taken or given up; and the releases that
//! end waits.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

use fairlock::platform::System;
use fairlock_profile::layout::{
    ChunkKind, ContentionEntry, HoldEntry, MAGNITUDES, Now, WaitEntry, side,
};
use libc::{EBUSY, ETIMEDOUT};

use super::file::Records;
use super::thread::{self, Busy, Local, Note, Waited};
use super::word::{Waiting, begins, charge_until, ends};
use super::{THRESHOLD_NS, Target, file, locks, threshold};
use crate::thread::Preload;

// Relaxed throughout: statistics, and some of them may be of different moments.
const RELAXED: Ordering = Ordering::Relaxed;

/// Takes a lock that could not be had at once.
#[cold]
#[inline(never)]
pub(super) fn wait(
    target: Target,
    mut attempt: impl FnMut() -> c_int,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let came = Preload::now();
    for _ in 0..ATTEMPTS {
        core::hint::spin_loop();
        match attempt() {
            EBUSY => {}
            result => return spun(target, came, result),
        }
    }
    let (result, ended) = recorded(
        |local| Begun::waiting(local, target),
        wait,
        |begun, local, &result| {
            begun.end(local, result);
        },
    );
    if ended { super::counted(target, result) } else { result }
}

/// Waits for what nobody holds: see [`super::asleep`]. A thread that is cancelled does not return from
/// `wait`: its wait ends as the thread does.
#[cold]
#[inline(never)]
pub(super) fn asleep<R>(
    target: Target,
    wait: impl FnOnce() -> R,
    errno: impl FnOnce(&R) -> c_int,
) -> R {
    let begin = |local: &_| Begun::asleep(local, target);
    recorded(begin, wait, |begun, local, result| begun.wakes(local, errno(result))).0
}

/// Counts where waits at an address are ended, if there are any.
#[cold]
#[inline(never)]
pub(super) fn ends_sleep(address: usize) {
    Busy::with(|local| {
        let number = locks::known_other(address)?;
        let contention = locks::contention(locks::get(number)?)?;
        Waiting::now(&contention.now)
            .is_any()
            .then(|| local.count_at([number + 1, local.stack(), side::HELD], 1, 0))
    });
}

/// Waits, with the beginning and the end recorded; returns whether they were.
#[inline(always)]
fn recorded<R>(
    begin: impl FnOnce(&Local) -> Option<Begun>,
    wait: impl FnOnce() -> R,
    end: impl FnOnce(&Begun, &Local, &R),
) -> (R, bool) {
    let begun = Busy::with(begin).flatten();
    let result = wait();
    let ended = Busy::with(|local| {
        // Not if the record has ended meanwhile, in a child.
        let begun = begun.filter(|begun| core::ptr::eq(local, begun.local));
        begun.inspect(|begun| end(begun, local, &result)).is_some()
    });
    let ended = ended == Some(true);
    if !ended {
        file::lose();
    }
    (result, ended)
}

/// A thread that has found a lock held tries so often again, for some 0.1 µs, before it tells others that
/// it waits. Where two threads run, most waits are shorter, and telling of them would take several times
/// as long. In attempts; compared with those of this call.
const ATTEMPTS: u32 = 4;

/// The calling thread, which came at this time, has had the answer `result` without waiting for long.
fn spun(target: Target, came: u64, result: c_int) -> c_int {
    if super::is_success(result) && thread::is_sampled() {
        let waited = Preload::now() - came;
        Busy::with(|local| {
            if let Some(begun) = Begun::coming(local, target) {
                local.note(Note { times: thread::SAMPLED_WAITS, ..begun.note(0, waited, 0) });
            }
        });
    }
    super::counted(target, result)
}

struct Begun {
    /// The thread's variables, as an address.
    local: *const Local,
    target: Target,
    number: u32,
    contention: &'static ContentionEntry,
    stack: u32,
    at: u64,
    passed: u64,
}

impl Begun {
    /// The calling thread waits from now on.
    fn waiting(local: &Local, target: Target) -> Option<Self> {
        thread::tell_passes();
        let begun = Self::coming(local, target)?;
        begins(&begun.contention.now, begun.at);
        begun.falls_asleep(local);
        Some(begun)
    }

    /// The calling thread has found the lock held.
    fn coming(local: &Local, target: Target) -> Option<Self> {
        let cell = local.cell(target)?;
        let number = cell.lock.load(RELAXED);
        let lock = locks::get(number)?;
        let contention = locks::make_contention(number, lock)?;
        thread::note_contended(cell, Some(contention));
        let stack = local.stack();
        let passed = contention.now.passed.load(RELAXED);
        // After what takes long the first time.
        let at = Preload::now();
        Some(Self { local, target, number, contention, stack, at, passed })
    }

    /// The calling thread waits from now on for what nobody holds.
    fn asleep(local: &Local, target: Target) -> Option<Self> {
        let (number, lock) = locks::find(target, || local.stack())?;
        let contention = locks::make_contention(number, lock)?;
        let stack = local.stack();
        let at = Preload::now();
        let begun = Self { local, target, number, contention, stack, at, passed: 0 };
        begins(&contention.now, at);
        locks::asleep_at(target.address).fetch_add(1, RELAXED);
        begun.falls_asleep(local);
        Some(begun)
    }

    /// What the calling thread is about to wait for is in the record as long as it waits.
    fn falls_asleep(&self, local: &Local) {
        let target = self.target;
        local.falls_asleep(
            [self.number, self.stack, target.side],
            self.at,
            (target.of.owner)(target.address),
        );
    }

    /// That wait is over, and has ended with this error number.
    fn wakes(&self, local: &Local, errno: c_int) {
        local.wakes();
        let at = Preload::now();
        ends(&self.contention.now, self.at, at, false);
        locks::asleep_at(self.target.address).fetch_sub(1, RELAXED);
        let how = match errno {
            _ if super::is_success(errno) => 0,
            ETIMEDOUT => side::GIVEN_UP,
            _ => return,
        };
        let waited = at - self.at;
        let note = self.note(how, waited, 0);
        if waited < THRESHOLD_NS {
            local.note(note)
        } else {
            local.count_note(note, self.contention)
        }
    }

    /// That the wait is over, after so long.
    fn note(&self, how: u32, waited: u64, passed: u64) -> Note {
        let side = self.target.side & !side::CAN_END | how;
        let (lock, stack) = (self.number, self.stack);
        Note { lock, stack, side, times: 1, waited, passed, held: None }
    }

    /// The thread of another process that held the lock when the wait began, if it was one: it is charged, at a place that is
    /// not known here.
    fn stranger(&self, local: &Local, at: u64) -> Option<Held> {
        let holder = local.holder_it_waited_for();
        // SAFETY: numbers; signal zero is not sent.
        let is_here =
            || unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), holder as c_int, 0) == 0 };
        if holder == 0 || is_here() {
            return None;
        }
        let waited = charge_until(at, &self.contention.now);
        local.count_at([self.number + 1, 0, side::HELD], 1, waited);
        Some(Held { since: self.at, until: at, holder, ..NOBODY })
    }

    fn end(&self, local: &Local, result: c_int) {
        let at = Preload::now();
        local.wakes();
        let now = &self.contention.now;
        let taken = super::is_success(result);
        ends(now, self.at, at, taken && self.target.side & side::READ == 0);
        let given_up = match result {
            _ if taken => false,
            ETIMEDOUT => true,
            // The thread did not wait.
            _ => return,
        };
        let waited = at - self.at;
        let passed = now.passed.load(RELAXED).wrapping_sub(self.passed);
        let how = if given_up { side::GIVEN_UP } else { 0 };
        let note = self.note(how, waited, passed);
        // A short wait is noted; a longer one, or one that is kept by itself, is counted at once.
        let is_short = waited < THRESHOLD_NS.min(threshold());
        if taken && (!is_short || thread::is_sampled()) {
            local.time(self.target.address, at, [self.number, self.stack]);
        } else if taken {
            local.takes(self.target.address, at, [self.number, self.stack]);
        }
        if is_short {
            return local.note(note);
        }
        local.count_note(note, self.contention);
        let mut last = Held::last(now);
        if given_up || last.until < self.at {
            last = NOBODY;
        }
        // What has passed since the release is charged to it, too. For short waits this is not done,
        // and the next release is charged.
        let gap = if last.stack != 0 { charge_until(at, now) } else { 0 };
        if gap > 0 {
            local.count_at([self.number + 1, last.via(), side::HELD], 0, gap);
        }
        let mut held = longest_hold(&now.held, self.at).unwrap_or(last);
        if taken {
            local.has_waited(Waited { began: self.at, ended: at, holder_stack: held.via() });
        }
        if held == NOBODY && taken {
            held = self.stranger(local, at).unwrap_or(held);
        }
        if waited >= threshold() {
            let wait = Wait { began: self.at, released: last.until, held, note };
            keep(self.contention, &wait, local);
        }
    }
}

/// A release that comes sooner than this after one that was charged is not looked at: what others
/// wait meanwhile is charged to the next. So no time is lost. Of holds that are shorter, each place
/// has its share by chance, which on average is its share of the time. In ticks of the CPU's
/// counter: about ten microseconds. In ticks; compared with those since the last release that was
/// charged.
const TOO_SOON: u64 = 25_000;

/// The calling thread releases a lock that may have been waited for: it has done so at a time, or is
/// about to.
#[cold]
#[inline(never)]
pub(super) fn release(address: usize, at: Option<u64>) {
    if !is_of_no_interest(address) {
        Busy::with(|local| charge(local, address, at));
    }
}

/// Whether a release need not be looked at: most need not.
#[inline(always)]
fn is_of_no_interest(address: usize) -> bool {
    let Some(cell) = thread::find(address) else { return false };
    if thread::looks_at_this_release() {
        return false;
    }
    let contended = cell.contended.load(RELAXED);
    if contended == 0 {
        return true;
    }
    let now = &locks::contention_at(contended).now;
    Waiting::now(now) == Waiting::charged(now)
        || ticks().wrapping_sub(now.charged_at.load(RELAXED)) < TOO_SOON
}

/// The CPU's counter.
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: reads it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The calling thread releases a lock: it is charged with what others have waited since the last release.
fn charge(local: &Local, address: usize, released: Option<u64>) {
    local.learn();
    thread::tell_passes();
    let since = local.gives_back_timed(address);
    let Some((lock, contention)) = local.contention(address) else { return };
    let now = &contention.now;
    let waiting = Waiting::now(now);
    if since.is_none() && waiting == Waiting::charged(now) {
        return;
    }
    let at = released.unwrap_or_else(Preload::now);
    let delay = charge_until(at, now);
    let wanted = delay > 0 || waiting.is_any();
    let waited_since = if wanted { now.waited_since_ns.swap(0, RELAXED) } else { 0 };
    // The first waiter found the lock held: by this thread, unless another has it by now.
    let known = waited_since != 0 && released.is_none();
    let since = since.or(known.then_some(waited_since));
    let stack = if wanted { local.stack() } else { 0 };
    // What the thread itself has waited meanwhile is charged further on.
    let via = since.and_then(|since| local.waited_for(since, at)).unwrap_or(stack);
    let hold = Held { since: since.unwrap_or(0), until: at, holder: local.tid(), stack, via };
    if wanted {
        now.charged_at.store(ticks(), RELAXED);
        hold.becomes_last(now);
    }
    if wanted && since.is_some() {
        keep_hold(&now.held, hold);
    }
    let held = since.map(|since| at.saturating_sub(since));
    if held.is_some() || delay > 0 {
        local.note(Note {
            lock,
            stack: via,
            side: side::HELD,
            times: 1,
            waited: delay,
            passed: 0,
            held,
        });
    }
}

/// Who has held a lock, and where it was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    since: u64,
    until: u64,
    holder: u32,
    stack: u32,
    /// Where the thread released what this one waited for meanwhile, if it did for most of the time; or `stack`.
    via: u32,
}

const NOBODY: Held = Held { since: 0, until: 0, holder: 0, stack: 0, via: 0 };

impl Held {
    /// By whom the lock was held last, as far as somebody waited then.
    fn last(now: &Now) -> Self {
        Self {
            until: now.released_ns.load(RELAXED),
            since: now.held_since_ns.load(RELAXED),
            holder: now.holder.load(RELAXED),
            stack: now.holder_stack.load(RELAXED),
            via: now.holder_via.load(RELAXED),
        }
    }

    /// Where the time is charged.
    fn via(self) -> u32 {
        if self.via == 0 { self.stack } else { self.via }
    }

    fn becomes_last(self, now: &Now) {
        now.held_since_ns.store(self.since, RELAXED);
        now.holder.store(self.holder, RELAXED);
        now.holder_stack.store(self.stack, RELAXED);
        now.holder_via.store(self.via, RELAXED);
        now.released_ns.store(self.until, RELAXED);
    }
}

/// Holds shorter than this are not kept: about 16 us. In bits of a time in ns; compared with those
/// of how long the lock was held.
const SHORTEST_KEPT: u32 = 14;

/// A hold has ended while others waited.
fn keep_hold(held: &[HoldEntry; MAGNITUDES], hold: Held) {
    let Some(magnitude) = hold.until.saturating_sub(hold.since).checked_ilog2() else { return };
    let Some(magnitude) = magnitude.checked_sub(SHORTEST_KEPT) else { return };
    let place = &held[(magnitude as usize).min(MAGNITUDES - 1)];
    place.until_ns.store(0, RELAXED);
    place.since_ns.store(hold.since, RELAXED);
    place.holder.store(hold.holder, RELAXED);
    place.stack.store(hold.stack, RELAXED);
    place.via.store(hold.via, RELAXED);
    // Release: a thread that sees the time sees the rest.
    place.until_ns.store(hold.until, Ordering::Release);
}

/// The hold that was the longest part of a wait since `began`, of those that are kept.
fn longest_hold(held: &[HoldEntry; MAGNITUDES], began: u64) -> Option<Held> {
    let read = |place: &HoldEntry| Held {
        // Acquire: what was stored before.
        until: place.until_ns.load(Ordering::Acquire),
        since: place.since_ns.load(RELAXED),
        holder: place.holder.load(RELAXED),
        stack: place.stack.load(RELAXED),
        via: place.via.load(RELAXED),
    };
    let found = held.iter().map(read).filter(|hold| hold.until > began);
    found.max_by_key(|hold| hold.until.saturating_sub(hold.since.max(began)))
}

/// The calling thread has released a lock.
#[cold]
#[inline(never)]
pub(super) fn released() {
    Busy::with(Local::count_notes);
}

/// What is said of a wait.
struct Wait {
    began: u64,
    released: u64,
    held: Held,
    note: Note,
}

/// How many of the last waits there is room for: in eight chunks, each twice the one before.
const RING: u32 = IN_PAGE * ((1 << 8) - 1);
/// How many of them a page has room for.
const IN_PAGE: u32 = 32;
static WAITS: Records<WaitEntry> = Records::new(ChunkKind::Waits, IN_PAGE);
static NUMBER: AtomicU64 = AtomicU64::new(0);

fn keep(contention: &ContentionEntry, long: &Wait, local: &Local) {
    let number = NUMBER.fetch_add(1, RELAXED) + 1;
    let (thread, name) = (local.tid(), local.note_name());
    if let Some(place) = WAITS.have((number - 1) as u32 % RING) {
        write(place, number, long, thread, name);
    }
    let shortest = contention.worst.iter().min_by_key(|wait| wait.waited_ns.load(RELAXED));
    if let Some(place) = shortest
        && place.waited_ns.load(RELAXED) < long.note.waited
        // Acquire and Release: one thread at a time. A second one leaves its wait out.
        && contention.busy.compare_exchange(0, 1, Ordering::Acquire, RELAXED).is_ok()
    {
        write(place, number, long, thread, name);
        contention.busy.store(0, Ordering::Release);
    }
}

fn write(place: &WaitEntry, number: u64, long: &Wait, thread: u32, name: [u64; 2]) {
    place.number.store(0, RELAXED);
    let times = [
        (&place.began_ns, long.began),
        (&place.waited_ns, long.note.waited),
        (&place.released_ns, long.released),
        (&place.held_since_ns, long.held.since),
        (&place.held_until_ns, long.held.until),
        (&place.passed, long.note.passed),
        (&place.name[0], name[0]),
        (&place.name[1], name[1]),
    ];
    times.iter().for_each(|(place, value)| place.store(*value, RELAXED));
    let numbers = [
        (&place.lock, long.note.lock),
        (&place.side, long.note.side),
        (&place.thread, thread),
        (&place.stack, long.note.stack),
        (&place.holder, long.held.holder),
        (&place.holder_stack, long.held.stack),
    ];
    numbers.iter().for_each(|(place, value)| place.store(*value, RELAXED));
    // Release: a reader that sees the number sees the rest.
    place.number.store(number, Ordering::Release);
}

pub(super) fn forget() {
    WAITS.forget();
    NUMBER.store(0, RELAXED);
}

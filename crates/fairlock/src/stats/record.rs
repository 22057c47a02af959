//! What is counted of one lock.

use core::array;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::boxed::Box;
use std::string::{String, ToString};
use std::sync::{Mutex, PoisonError};
use std::vec::Vec;

use super::collecting::is_collecting;
use super::histogram::Histogram;
use super::hold::{Ended, Hold, Holds, Seen, Timed, Waits};
use super::long_wait::{self, Holder, LongWait};
use super::place::{Access, Place, Want};
use super::places::Places;
use super::snapshot::{LockStats, Longest, SideStats};
use super::threads::{name_of, number_of, own_place};
#[cfg(feature = "async")]
use super::waiting::{TaskNote, WaitingTasks};
use crate::platform::{Native, System};

/// The statistics of one lock while it lives.
///
/// What the usual path reads and writes comes first: the writer's hold, then whether somebody waits;
/// a reader writes its own place instead of the former.
#[repr(C)]
pub struct Record {
    writer: Hold,
    waiters: Waiters,
    readers: Places,
    /// Reads of threads that have no place.
    other_reads: AtomicU64,
    /// Ranges that were taken for writing. Each has been counted as a read, by its thread.
    range_writes: AtomicU64,
    /// Among the named locks of the process.
    pub(super) number: u64,
    pub(super) name: Box<str>,
    sides: [Box<Side>; 2],
    /// Times without the mutex, for a condition variable.
    conditions: Histogram,
    longest_condition: LongestSlot,
    #[cfg(feature = "async")]
    tasks: WaitingTasks,
}

/// What those that wait write, and all look at. The processor's own atomics, all relaxed but for
/// `since`: statistics order nothing.
#[repr(align(64))]
struct Waiters {
    waiting: AtomicUsize,
    /// When the first of them came.
    since: AtomicU64,
    /// Acquisitions without a wait while somebody waited.
    overtakes: AtomicU64,
    /// Acquisitions after a wait.
    served: AtomicU64,
}

/// What is counted of those that read, or of those that write.
struct Side {
    waited: Histogram,
    given_up: AtomicU64,
    passed_over: AtomicU64,
    most_passed_over: AtomicU64,
    longest_wait: LongestSlot,
    /// Of samples; the longest of all that were timed.
    held: Histogram,
    longest_hold: LongestSlot,
}

/// What took longest so far. Its lock is taken when something takes longer still, and for a snapshot.
#[derive(Default)]
struct LongestSlot(Mutex<Option<Longest>>);

/// The state of a lock at the moment when somebody begins to wait.
struct Arrival {
    began: u64,
    passed: [u64; 2],
    ahead: u64,
    /// The thread that held the lock, if `on_long_wait` may have to name it.
    holder: Option<(usize, Holds)>,
}

/// The wait of a task that has not ended.
#[cfg(feature = "async")]
pub(super) struct TaskWait {
    arrival: Arrival,
    pub(super) note: TaskNote,
}

impl Record {
    pub(super) fn new(number: u64, name: &str) -> Self {
        Self {
            writer: Hold::new(),
            waiters: Waiters {
                waiting: AtomicUsize::new(0),
                since: AtomicU64::new(0),
                overtakes: AtomicU64::new(0),
                served: AtomicU64::new(0),
            },
            readers: Places::new(),
            other_reads: AtomicU64::new(0),
            range_writes: AtomicU64::new(0),
            number,
            name: name.into(),
            sides: array::from_fn(|_| Box::new(Side::new())),
            conditions: Histogram::new(),
            longest_condition: LongestSlot::default(),
            #[cfg(feature = "async")]
            tasks: WaitingTasks::new(),
        }
    }

    /// Takes the lock: by `attempt` if that succeeds, else by `wait`, which may end without it if `can_end`.
    #[inline]
    pub fn take<E>(
        &self,
        want: Want,
        can_end: bool,
        at: Place,
        attempt: impl FnOnce() -> bool,
        wait: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if self.attempt(want, at, attempt) { Ok(()) } else { self.wait(want, can_end, at, wait) }
    }

    /// Takes the lock by `attempt`, or not.
    #[inline]
    pub fn attempt(&self, want: Want, at: Place, attempt: impl FnOnce() -> bool) -> bool {
        let taken = attempt();
        if taken {
            if self.waiters.waiting.load(Ordering::Relaxed) == 0 {
                self.begin(want, at, Timed::No, Native::now);
            } else {
                self.overtake(want, at);
            }
        }
        taken
    }

    #[cold]
    #[inline(never)]
    fn overtake(&self, want: Want, at: Place) {
        self.waiters.overtakes.fetch_add(1, Ordering::Relaxed);
        self.begin(want, at, Timed::Yes, Native::now);
    }

    /// Waits for the lock by `wait`, which may end without it.
    #[cold]
    #[inline(never)]
    fn wait<E>(
        &self,
        want: Want,
        can_end: bool,
        at: Place,
        wait: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let arrival = self.arrive(want, can_end, at);
        let result = wait();
        let ended = self.depart(want.access(), at, &arrival, result.is_ok());
        self.waited(want, at, &arrival, ended, result.is_ok());
        result
    }

    /// A wait has ended, with the lock or without: how long it was, and when, says `depart`.
    fn waited(
        &self,
        want: Want,
        at: Place,
        arrival: &Arrival,
        (waited, now): (u64, u64),
        taken: bool,
    ) {
        let told = long_wait::is_long(waited).then(|| {
            let holder = arrival.holder.as_ref();
            let holder =
                holder.map(|(by, hold)| Holder::new(name_of(*by), hold.at, hold.began, now));
            let thread = thread_name();
            Box::new(self.long_wait(want.access(), waited, thread, at.known(), holder))
        });
        if taken {
            self.waiters.served.fetch_add(1, Ordering::Relaxed);
            self.begin(want, at, Timed::Yes, || now);
            let is_range = matches!(want, Want::RangeRead | Want::RangeWrite);
            let hold = if is_range { self.readers.own() } else { self.hold(want.access()) };
            if let (Some(hold), Some(told)) = (hold, told) {
                hold.tell(told);
            }
        } else if let Some(told) = told {
            told.tell();
        }
    }

    /// A task begins to wait. Its wait is to be [listed](Self::list_task) when it is where it stays.
    #[cfg(feature = "async")]
    #[cold]
    pub(super) fn begin_task(&self, want: Want, at: Place) -> TaskWait {
        let arrival = self.arrive_unnoted();
        let note = TaskNote::new(Waits { since: arrival.began, want, can_end: true }, at);
        TaskWait { arrival, note }
    }

    /// # Safety
    /// It is not listed, and stays where it is until it is [ended](Self::end_task).
    #[cfg(feature = "async")]
    pub(super) unsafe fn list_task(&self, wait: &TaskWait) {
        // SAFETY: the caller's promise.
        unsafe { self.tasks.add(&wait.note) };
    }

    /// The wait of a task ends, with the lock or without.
    ///
    /// # Safety
    /// It is listed here.
    #[cfg(feature = "async")]
    #[cold]
    pub(super) unsafe fn end_task(&self, wait: &TaskWait, taken: bool) {
        // SAFETY: the caller's promise.
        unsafe { self.tasks.remove(&wait.note) };
        let TaskWait { arrival, note: TaskNote { wait: Waits { want, .. }, at, .. } } = wait;
        let ended = self.depart_unnoted(want.access(), *at, arrival, taken);
        self.waited(*want, *at, arrival, ended, taken);
    }

    /// The holder, an upgradable reader, becomes the writer: by `attempt`, or else by `wait`, which
    /// returns whether it did.
    pub(super) fn upgrade(
        &self,
        can_end: bool,
        at: Place,
        attempt: impl FnOnce() -> bool,
        wait: impl FnOnce() -> bool,
    ) -> bool {
        let attempt = self.try_upgrade(attempt);
        attempt
            || self.try_upgrade(|| {
                let arrival = self.arrive(Want::Upgrade, can_end, at);
                let done = wait();
                self.depart(Access::Write, at, &arrival, done);
                done
            })
    }

    /// The holder, an upgradable reader, becomes the writer by `attempt`, or not.
    pub(super) fn try_upgrade(&self, attempt: impl FnOnce() -> bool) -> bool {
        let done = attempt();
        if done {
            self.writer.set_by(own_place(), false);
        }
        done
    }

    /// What the writer holds, it holds as the upgradable reader from now on, as `change` does it.
    pub(super) fn downgrade_to_upgradable(&self, change: impl FnOnce()) {
        self.writer.set_by(own_place(), true);
        change();
    }

    fn arrive(&self, want: Want, can_end: bool, at: Place) -> Arrival {
        let arrival = self.arrive_unnoted();
        if let Some(own) = self.readers.own() {
            own.begin_wait(Waits { since: arrival.began, want, can_end }, at);
        }
        arrival
    }

    /// As [`arrive`](Self::arrive), of a task: no thread waits.
    fn arrive_unnoted(&self) -> Arrival {
        #[cfg(all(target_os = "linux", not(miri)))]
        super::file::begin_in_child();
        self.tell_long_waits();
        let (began, passed) = (Native::now(), self.waiters.passed());
        if self.waiters.waiting.load(Ordering::Relaxed) == 0 {
            self.waiters.since.store(began, Ordering::Relaxed);
        }
        // Release: a thread that sees that somebody waits sees since when.
        let ahead = self.waiters.waiting.fetch_add(1, Ordering::Release);
        let holder = if long_wait::is_on() { self.holder() } else { None };
        Arrival { began, passed, ahead: ahead as u64, holder }
    }

    /// A wait is over, with the lock or without; returns how long it was, and the time.
    fn depart(&self, access: Access, at: Place, arrival: &Arrival, taken: bool) -> (u64, u64) {
        if let Some(own) = self.readers.own() {
            own.end_wait();
        }
        self.depart_unnoted(access, at, arrival, taken)
    }

    /// As [`depart`](Self::depart), of a task.
    fn depart_unnoted(
        &self,
        access: Access,
        at: Place,
        arrival: &Arrival,
        taken: bool,
    ) -> (u64, u64) {
        self.waiters.waiting.fetch_sub(1, Ordering::Relaxed);
        let side = self.side(access);
        let now = Native::now();
        let waited = now.saturating_sub(arrival.began);
        if side.waited.add(waited) {
            side.longest_wait.put(waited, now, at.known());
        }
        let [overtakes, served] = self.waiters.passed();
        // Waiters ahead do not count as overtaking. If some of them gave up, more threads overtook
        // than are counted.
        let passed = overtakes.wrapping_sub(arrival.passed[0])
            + served.wrapping_sub(arrival.passed[1]).saturating_sub(arrival.ahead);
        side.passed_over.fetch_add(passed, Ordering::Relaxed);
        side.most_passed_over.fetch_max(passed, Ordering::Relaxed);
        if !taken {
            side.given_up.fetch_add(1, Ordering::Relaxed);
        }
        (waited, now)
    }

    #[inline(always)] // as `Hold::begin`
    fn begin(&self, want: Want, at: Place, timed: Timed, now: impl FnOnce() -> u64) {
        if matches!(want, Want::RangeRead | Want::RangeWrite) {
            return self.begin_range(want, at, timed, now);
        }
        if want.access() == Access::Write {
            self.writer.set_by(own_place(), want == Want::Upgradable);
        }
        match self.hold(want.access()) {
            Some(hold) => hold.begin(want, at, timed, now),
            None => _ = self.other_reads.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Several threads may have ranges, also for writing: each has its hold at its place.
    fn begin_range(&self, want: Want, at: Place, timed: Timed, now: impl FnOnce() -> u64) {
        let writes = want == Want::RangeWrite;
        if writes {
            self.range_writes.fetch_add(1, Ordering::Relaxed);
        }
        match self.readers.own() {
            Some(hold) => {
                hold.set_by(own_place(), writes);
                hold.begin(want, at, timed, now);
            }
            None => _ = self.other_reads.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Releases a range by `release`; as [`leave`](Self::leave).
    pub(super) fn leave_range(&self, want: Want, release: impl FnOnce()) {
        self.leave_hold(self.readers.own(), want.access(), release);
    }

    /// A range that the calling thread writes is read from now on.
    pub(super) fn downgrade_range(&self) {
        self.readers.own().into_iter().for_each(|own| own.set_by(own_place(), false));
    }

    #[inline]
    fn hold(&self, access: Access) -> Option<&Hold> {
        match access {
            Access::Read => self.readers.own(),
            Access::Write => Some(&self.writer),
        }
    }

    fn side(&self, access: Access) -> &Side {
        &self.sides[access as usize]
    }

    /// Releases the lock by `release`. After that nothing of `self` is used: another thread may have
    /// taken the lock, and dropped it.
    #[inline]
    pub fn leave(&self, access: Access, release: impl FnOnce()) {
        self.leave_hold(self.hold(access), access, release);
    }

    #[inline]
    fn leave_hold(&self, hold: Option<&Hold>, access: Access, release: impl FnOnce()) {
        if let Some(hold) = hold {
            // Relaxed: a waiter that comes at this moment is as good as none.
            if hold.is_timed() || self.waiters.waiting.load(Ordering::Relaxed) != 0 {
                return self.leave_timed(hold, access, release);
            }
            hold.end_untimed();
        }
        release();
    }

    #[cold]
    #[inline(never)]
    fn leave_timed(&self, hold: &Hold, access: Access, release: impl FnOnce()) {
        let ended = self.end(hold, access, Native::now());
        release();
        if let Some((Ended { told: Some(mut told), .. }, held)) = ended {
            told.held = Some(Duration::from_nanos(held));
            told.tell();
        }
    }

    /// The hold ends `now`; and for how long it lasted, at least. None: its thread has the lock still.
    fn end(&self, hold: &Hold, access: Access, now: u64) -> Option<(Ended, u64)> {
        let ended = hold.end()?;
        // Acquire: pairs with that of the waiter. One that was not timed began before anybody waited.
        let is_waited_for = self.waiters.waiting.load(Ordering::Acquire) != 0;
        let since = || if is_waited_for { self.waiters.since.load(Ordering::Relaxed) } else { now };
        let held = now.saturating_sub(ended.began.unwrap_or_else(since));
        let side = self.side(access);
        let is_longest =
            if ended.is_sample { side.held.add(held) } else { side.held.add_longest(held) };
        if is_longest {
            side.longest_hold.put(held, now, ended.at);
        }
        Some((ended, held))
    }

    /// What was held in one way is held in another from now on, as `change` does it.
    pub fn change(&self, from: Access, to: Access, change: impl FnOnce()) {
        let ended = self.hold(from).and_then(|hold| Some(self.end(hold, from, Native::now())?.0));
        // Before: then another thread may write what the writer writes.
        if let (Some(hold), Some(ended)) = (self.hold(to), ended) {
            let began = ended.began.map(|_| Native::now());
            let want = if to == Access::Read { Want::Read } else { Want::Write };
            hold.resume(want, ended, began);
        }
        change();
    }

    /// The writer is without the lock during `pause`, for a condition variable, and holds it again after.
    pub fn pause<R>(&self, pause: impl FnOnce() -> R) -> R {
        let without = Pause::new(self);
        let result = pause();
        without.end();
        result
    }

    fn long_wait(
        &self,
        access: Access,
        waited: u64,
        thread: String,
        at: Option<Place>,
        holder: Option<Holder>,
    ) -> LongWait {
        LongWait {
            lock: self.name.to_string(),
            access,
            waited: Duration::from_nanos(waited),
            held: None,
            thread,
            at,
            holder,
            ongoing: false,
            left_out: 0,
        }
    }

    /// Tells of waits that have not ended and are long, each once.
    pub(super) fn tell_long_waits(&self) {
        if !long_wait::is_on() || self.waiters.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let now = Native::now();
        let is_long = |wait: &Waits| long_wait::is_long(now.saturating_sub(wait.since));
        let mut long = self.waits();
        long.retain(|(place, wait, _)| is_long(wait) && self.readers.is_to_tell(*place, *wait));
        #[cfg(feature = "async")]
        long.extend(self.tasks.to_tell(is_long));
        for (place, wait, at) in long {
            let waited = now.saturating_sub(wait.since);
            let holder =
                self.holder().map(|(by, hold)| Holder::new(name_of(by), hold.at, hold.began, now));
            let (access, thread) = (wait.want.access(), name_of(place));
            let told = self.long_wait(access, waited, thread, at, holder);
            LongWait { ongoing: true, ..told }.tell();
        }
    }

    /// Waits of tasks that have not ended.
    #[cfg(feature = "async")]
    pub(super) fn waits_of_tasks(&self) -> Vec<Seen> {
        self.tasks.all()
    }

    /// Waits of threads that have not ended.
    pub(super) fn waits(&self) -> Vec<Seen> {
        if self.waiters.waiting.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let wait = |(place, hold): (usize, &Hold)| hold.wait().map(|(wait, at)| (place, wait, at));
        self.readers.all().into_iter().filter_map(wait).collect()
    }

    /// Holds that have not ended: whose, by its place; in which way; and the hold.
    pub(super) fn holds(&self) -> Vec<(usize, Access, Holds)> {
        let reader = |(place, hold): (usize, &Hold)| {
            let held = hold.held()?;
            Some((place, if held.is_other { Access::Write } else { Access::Read }, held))
        };
        let writer = self.writer.held().map(|hold| (hold.by, Access::Write, hold));
        self.readers.all().into_iter().filter_map(reader).chain(writer).collect()
    }

    /// One of them: the writer's, if there is a writer.
    fn holder(&self) -> Option<(usize, Holds)> {
        self.holds().pop().map(|(place, _, hold)| (place, hold))
    }

    /// Since when threads wait, without a pause.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(super) fn waited_since(&self) -> u64 {
        self.waiters.since.load(Ordering::Relaxed)
    }

    /// How long a hold has lasted: if it is not timed, while somebody has waited.
    pub(super) fn lasts(&self, hold: &Holds, now: u64) -> Option<Duration> {
        // Acquire: as in `end`.
        let is_waited_for = || self.waiters.waiting.load(Ordering::Acquire) != 0;
        let waited = || is_waited_for().then(|| self.waiters.since.load(Ordering::Relaxed));
        hold.began.or_else(waited).map(|since| Duration::from_nanos(now.saturating_sub(since)))
    }

    /// Counts what `other` has counted, too.
    pub(super) fn absorb(&self, other: &Self) {
        self.writer.absorb(other.count_writes());
        self.other_reads.fetch_add(other.count_reads(), Ordering::Relaxed);
        for (side, other) in self.sides.iter().zip(&other.sides) {
            side.absorb(other);
        }
        self.conditions.absorb(&other.conditions);
        self.longest_condition.absorb(&other.longest_condition);
    }

    fn count_reads(&self) -> u64 {
        let counted = self.readers.all().iter().map(|(_, hold)| hold.count()).sum::<u64>();
        let all = counted + self.other_reads.load(Ordering::Relaxed);
        all.saturating_sub(self.range_writes.load(Ordering::Relaxed))
    }

    fn count_writes(&self) -> u64 {
        self.writer.count() + self.range_writes.load(Ordering::Relaxed)
    }

    /// The numbers as they are now.
    pub(super) fn stats(&self) -> LockStats {
        LockStats {
            name: self.name.to_string(),
            locks: 0,
            reads: self.side(Access::Read).stats(self.count_reads()),
            writes: self.side(Access::Write).stats(self.count_writes()),
            conditions: self.conditions.times(),
            longest_condition: self.longest_condition.get(),
        }
    }
}

/// The writer is without the lock, for a condition variable. A task may not take it again: then this is dropped.
pub struct Pause<'a> {
    record: &'a Record,
    began: u64,
    /// The hold that goes on afterwards, and for how long it had lasted.
    hold: Option<(Ended, u64)>,
}

impl<'a> Pause<'a> {
    pub(super) fn new(record: &'a Record) -> Self {
        let began = Native::now();
        Self { record, began, hold: record.end(&record.writer, Access::Write, began) }
    }

    /// The calling thread is the writer again.
    pub(super) fn end(mut self) {
        let (hold, writer) = (self.hold.take(), &self.record.writer);
        let at = hold.as_ref().and_then(|(ended, _)| ended.at);
        let now = self.count(at);
        writer.set_by(own_place(), false);
        if let Some((ended, _)) = hold {
            writer.resume(Want::Write, ended, Some(now));
        }
        core::mem::forget(self);
    }

    /// Counts the wait of a hold that began there; returns the time.
    fn count(&self, at: Option<Place>) -> u64 {
        let (record, now) = (self.record, Native::now());
        let waited = now.saturating_sub(self.began);
        if is_collecting() && record.conditions.add(waited) {
            record.longest_condition.put(waited, now, at);
        }
        now
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let hold = self.hold.take();
        self.count(hold.as_ref().and_then(|(ended, _)| ended.at));
        if let Some((Ended { told: Some(mut told), .. }, held)) = hold {
            told.held = Some(Duration::from_nanos(held));
            told.tell();
        }
    }
}

impl Waiters {
    /// How many had the lock without a wait, while others waited, and after one.
    fn passed(&self) -> [u64; 2] {
        [&self.overtakes, &self.served].map(|count| count.load(Ordering::Relaxed))
    }
}

impl Side {
    fn new() -> Self {
        Self {
            waited: Histogram::new(),
            given_up: AtomicU64::new(0),
            passed_over: AtomicU64::new(0),
            most_passed_over: AtomicU64::new(0),
            longest_wait: LongestSlot::default(),
            held: Histogram::new(),
            longest_hold: LongestSlot::default(),
        }
    }

    fn absorb(&self, other: &Self) {
        self.waited.absorb(&other.waited);
        self.held.absorb(&other.held);
        for (to, from) in
            [(&self.given_up, &other.given_up), (&self.passed_over, &other.passed_over)]
        {
            to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let most = other.most_passed_over.load(Ordering::Relaxed);
        self.most_passed_over.fetch_max(most, Ordering::Relaxed);
        self.longest_wait.absorb(&other.longest_wait);
        self.longest_hold.absorb(&other.longest_hold);
    }

    fn stats(&self, acquisitions: u64) -> SideStats {
        SideStats {
            acquisitions,
            waited: self.waited.times(),
            given_up: self.given_up.load(Ordering::Relaxed),
            passed_over: self.passed_over.load(Ordering::Relaxed),
            most_passed_over: self.most_passed_over.load(Ordering::Relaxed),
            longest_wait: self.longest_wait.get(),
            held: self.held.times(),
            longest_hold: self.longest_hold.get(),
            waiting: Vec::new(),
            held_now: Vec::new(),
        }
    }
}

impl LongestSlot {
    /// The calling thread has taken `ns`, until a time, from `at`.
    fn put(&self, ns: u64, until: u64, at: Option<Place>) {
        let time = Duration::from_nanos(ns);
        let number = number_of(own_place());
        self.keep(Longest { time, thread: thread_name(), at, name: None, number, until });
    }

    fn absorb(&self, other: &Self) {
        if let Some(longest) = other.get() {
            self.keep(longest);
        }
    }

    fn keep(&self, longest: Longest) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_none_or(|slot| slot.time < longest.time) {
            *slot = Some(longest);
        }
    }

    fn get(&self) -> Option<Longest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The calling thread's name: Rust's, or else the system's, or else its number.
fn thread_name() -> String {
    let thread = std::thread::current();
    if let Some(name) = thread.name() {
        return name.into();
    }
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Ok(name) = rustix::thread::name() {
        return name.to_string_lossy().into();
    }
    std::format!("{:?}", thread.id())
}

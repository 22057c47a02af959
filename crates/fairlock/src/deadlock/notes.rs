//! What threads note of the locks they hold and wait for, and the search for circles in that.

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::fmt;
use std::format;
use std::panic::Location;
use std::string::String;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use std::vec::Vec;

use super::{HeldAs, circles};
use crate::stats::{Access, Claim, Place, name_of, own_place};
use crate::system::fork::{self, PerProcess};

/// A thread that waits for another one of its circle.
#[derive(Debug, Clone)]
pub struct DeadlockedThread {
    thread_id: usize,
    name: String,
    holds: Vec<Claim>,
    wants: Claim,
    backtrace: Arc<Backtrace>,
}

impl DeadlockedThread {
    /// The system's number of the thread on Linux, as debuggers show it; elsewhere a number
    /// that no other live thread has.
    pub fn thread_id(&self) -> usize {
        self.thread_id
    }

    /// Its name: Rust's, cut off after 32 bytes, or else the system's, or else its number.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The locks that it holds, in the order in which it took them, with where it did. A lock without a
    /// [name](crate::stats) is called by a number that no other lock has.
    pub fn holds(&self) -> &[Claim] {
        &self.holds
    }

    /// The lock that it waits for, and from where.
    pub fn wants(&self) -> &Claim {
        &self.wants
    }

    /// From where it waits. Captured whatever `RUST_BACKTRACE` says.
    pub fn backtrace(&self) -> &Backtrace {
        &self.backtrace
    }
}

/// On one line: its name and number, what it holds, and what it waits for.
impl fmt::Display for DeadlockedThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.thread_id)?;
        for (i, held) in self.holds.iter().enumerate() {
            write!(f, "{} {held}", if i == 0 { " holds" } else { "," })?;
        }
        write!(f, "; waits for {}", self.wants)
    }
}

/// Looks for deadlocks that have come about since the last call: one list for each, in which
/// every thread waits for the next one, and the last for the first.
///
/// Of several circles that share threads one is reported. All threads that acquire or release a lock
/// wait meanwhile, for some microseconds.
///
/// ```
/// use std::time::Duration;
///
/// use fairlock::deadlock;
///
/// std::thread::spawn(|| {
///     loop {
///         for threads in deadlock::check_deadlock() {
///             eprintln!("DEADLOCK");
///             for thread in threads {
///                 // checkout (4711) holds accounts at src/pay.rs:31:20; waits for journal at …
///                 eprintln!("{thread}\n{}", thread.backtrace());
///             }
///         }
///         std::thread::sleep(Duration::from_secs(10));
///     }
/// });
/// ```
pub fn check_deadlock() -> Vec<Vec<DeadlockedThread>> {
    unnoted(look).unwrap_or_default()
}

fn look() -> Vec<Vec<DeadlockedThread>> {
    let records = locked(&RECORDS);
    // All threads are locked at the same instant; otherwise they might be seen to hold what they
    // held one after the other. A thread that was granted its lock and has not noted that yet still
    // seems to wait. But then nobody is in its way, or seems to be, as a release is noted before it
    // is made.
    let mut threads: Vec<_> = records.iter().map(|record| locked(&record.state)).collect();
    let next: Vec<_> = threads.iter().map(|thread| in_the_way(thread, &threads)).collect();
    for wait in threads.iter_mut().filter_map(|thread| thread.waits.as_mut()) {
        wait.seen = true;
    }
    let mut found = Vec::new();
    for circle in circles(&next) {
        let mut is_new = false;
        let mut list = Vec::new();
        for thread in circle {
            let State { holds, waits } = &mut *threads[thread];
            if let Some(wait) = waits {
                is_new |= !core::mem::replace(&mut wait.reported, true);
                let backtrace = wait.backtrace.clone();
                // Relaxed: it changes only in the child of a fork, before there are other threads.
                let thread_id = records[thread].thread_id.load(Ordering::Relaxed);
                let name = name_of(records[thread].place_in_names);
                let holds = holds.iter().map(|held| held.call.claim(held.lock, held.mode));
                let (holds, wants) = (holds.collect(), wait.call.claim(wait.lock, wait.mode));
                list.push(DeadlockedThread { thread_id, name, holds, wants, backtrace });
            }
        }
        if is_new {
            found.push(list);
        }
    }
    found
}

impl HeldAs {
    /// Whether a thread that wants a lock in this mode waits behind those that have waited longer
    /// to have the lock alone.
    fn queues(self) -> bool {
        matches!(self, Self::Shared | Self::Upgradable)
    }

    /// Whether a thread that wants a lock in this mode waits for one that holds it in that mode.
    /// Threads that come at the same time do not wait for each other.
    fn waits_for(self, held: HeldAs) -> bool {
        match self {
            HeldAs::Shared | HeldAs::Recursive => held == HeldAs::Exclusive,
            HeldAs::Upgradable => held != HeldAs::Shared,
            HeldAs::Exclusive => true,
        }
    }
}

/// Identifies a lock, wherever it moves. Its address does not: if a guard was forgotten, the lock is noted
/// for ever, and another lock may come to its place.
#[derive(Debug)]
pub(crate) struct Id(AtomicU64);

impl Id {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// A number that no other lock has; chosen by the first call.
    fn number(&self) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: the number orders nothing.
        let order = Ordering::Relaxed;
        if self.0.load(order) == 0 {
            _ = self.0.compare_exchange(0, LAST.fetch_add(1, order) + 1, order, order);
        }
        self.0.load(order)
    }
}

/// Under which name a lock is used, and from where.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    name: Option<&'static str>,
    at: &'static Location<'static>,
}

impl Call {
    #[track_caller]
    pub(super) fn new(name: Option<&'static str>) -> Self {
        Self { name, at: Location::caller() }
    }

    /// The one that runs, or else of a lock without a name.
    #[track_caller]
    fn now() -> Self {
        match CALL.get() {
            Some(call) => call,
            None => Self::new(None),
        }
    }

    fn claim(self, lock: u64, mode: HeldAs) -> Claim {
        let is_shared = matches!(mode, HeldAs::Shared | HeldAs::Recursive);
        let access = if is_shared { Access::Read } else { Access::Write };
        let name = self.name.map_or_else(|| format!("lock {lock}"), String::from);
        Claim::new(name, access, Some(Place::Line(self.at)))
    }
}

/// Locks that `f` uses are used by this call.
pub(crate) fn called<R>(call: Call, f: impl FnOnce() -> R) -> R {
    /// Even if `f` panics.
    struct Reset(Option<Call>);

    impl Drop for Reset {
        fn drop(&mut self) {
            CALL.set(self.0);
        }
    }

    let _reset = Reset(CALL.replace(Some(call)));
    f()
}

/// The lock was taken.
#[track_caller]
pub(crate) fn acquired(lock: &Id, mode: HeldAs) {
    let call = Call::now();
    note(|thread| {
        thread.waits = None;
        thread.holds.push(Held { lock: lock.number(), mode, call });
    });
}

/// The lock is about to be held in another mode. Called before it is, if others can have it then.
#[track_caller]
pub(crate) fn changes(lock: &Id, from: HeldAs, to: HeldAs) {
    let call = Call::now();
    note(|thread| {
        thread.waits = None;
        let lock = lock.number();
        let call = thread.take(lock, from).unwrap_or(call);
        thread.holds.push(Held { lock, mode: to, call });
    });
}

/// The lock is about to be released. Returns how it was taken, if that is known.
pub(crate) fn releases(lock: &Id, mode: HeldAs) -> Option<Call> {
    let lock = lock.number();
    note(|thread| thread.take(lock, mode))?.or_else(|| {
        // The lock was taken by another thread.
        let take = || locked(&RECORDS).iter().find_map(|it| locked(&it.state).take(lock, mode));
        unnoted(take).flatten()
    })
}

/// The lock is waited for until it is [`acquired`].
#[track_caller]
pub(super) fn note_wait(lock: &Id, mode: HeldAs, upgrades: bool) {
    let call = Call::now();
    let Some(backtrace) = unnoted(|| Arc::new(Backtrace::force_capture())) else { return };
    let (lock, began) = (lock.number(), Instant::now());
    let wait = Wait { lock, mode, call, upgrades, began, backtrace, seen: false, reported: false };
    note(|thread| thread.waits = Some(wait));
}

/// All threads that have used a lock and have not ended.
static RECORDS: PerProcess<Mutex<Vec<Arc<Record>>>> = PerProcess::new(Mutex::new(Vec::new()));

struct Record {
    thread_id: AtomicUsize,
    /// Where the thread has its variables.
    place: usize,
    /// Under which its name is known.
    place_in_names: usize,
    /// Locked by its thread, and by others only under [`RECORDS`].
    state: PerProcess<Mutex<State>>,
}

#[derive(Default)]
struct State {
    holds: Vec<Held>,
    waits: Option<Wait>,
}

struct Held {
    lock: u64,
    mode: HeldAs,
    call: Call,
}

struct Wait {
    lock: u64,
    mode: HeldAs,
    call: Call,
    /// The thread has the lock as the upgradable reader meanwhile.
    upgrades: bool,
    began: Instant,
    backtrace: Arc<Backtrace>,
    /// By an earlier search.
    seen: bool,
    reported: bool,
}

impl Wait {
    /// Whether it does not end before the `other`, which is for having the lock alone.
    fn is_behind(&self, other: &Self) -> bool {
        let same_lock = self.lock == other.lock && other.mode == HeldAs::Exclusive;
        let settled = self.seen && other.seen && other.began < self.began;
        same_lock && settled && self.mode.queues()
    }
}

impl State {
    /// The thread holds the lock in this mode no more, or once less. Returns how it took it; `None`: it did not hold it.
    fn take(&mut self, lock: u64, mode: HeldAs) -> Option<Call> {
        let held = self.holds.iter().rposition(|held| held.lock == lock && held.mode == mode)?;
        Some(self.holds.remove(held).call)
    }
}

/// The calling thread's record; ends with the thread. The record of a thread that came here in the destructor of
/// a pthread key, too late for its own destructors, ends with the next thread in its place.
struct Registration(Arc<Record>);

impl Registration {
    fn new() -> Self {
        static IS_TOLD: AtomicBool = AtomicBool::new(false);
        fork::tell(&IS_TOLD, in_child);
        let state = PerProcess::new(Mutex::default());
        let place = IS_INSIDE.with(|own| core::ptr::from_ref(own).addr());
        let record = Arc::new(Record {
            thread_id: thread_id().into(),
            place,
            place_in_names: own_place(),
            state,
        });
        let mut records = locked(&RECORDS);
        records.retain(|other| other.place != place);
        records.push(record.clone());
        Self(record)
    }
}

/// In the child of a fork there is only the thread that forked.
extern "C" fn in_child() {
    // SAFETY: it is alone in the child, and did not fork in here.
    unsafe { RECORDS.renew(Mutex::new(Vec::new())) };
    // Does nothing if the thread forked in a destructor of its variables.
    let keep_own = || {
        OWN.try_with(|Registration(own)| {
            own.thread_id.store(thread_id(), Ordering::Relaxed);
            if own.state.try_lock().is_err() {
                // Another thread was about to change the state: what the thread holds is not known.
                // SAFETY: as above.
                unsafe { own.state.renew(Mutex::default()) };
            }
            let mut records = locked(&RECORDS);
            if !records.iter().any(|record| Arc::ptr_eq(record, own)) {
                records.push(own.clone());
            }
        })
    };
    _ = unnoted(keep_own);
}

impl Drop for Registration {
    fn drop(&mut self) {
        locked(&RECORDS).retain(|record| !Arc::ptr_eq(record, &self.0));
    }
}

std::thread_local! {
    static OWN: Registration = Registration::new();
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    static CALL: Cell<Option<Call>> = const { Cell::new(None) };
}

/// Runs `f`, unless it is called inside another one: what is done here may use locks of the
/// program's allocator.
fn unnoted<R>(f: impl FnOnce() -> R) -> Option<R> {
    if IS_INSIDE.replace(true) {
        return None;
    }
    let result = f();
    IS_INSIDE.set(false);
    Some(result)
}

/// Changes what is noted of the calling thread. Does nothing in destructors of its variables.
fn note<R>(change: impl FnOnce(&mut State) -> R) -> Option<R> {
    unnoted(|| OWN.try_with(|own| change(&mut locked(&own.0.state))).ok()).flatten()
}

fn thread_id() -> usize {
    #[cfg(target_os = "linux")]
    return rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs() as usize;
    #[cfg(not(target_os = "linux"))]
    lock_api::GetThreadId::nonzero_thread_id(&crate::RawThreadId).get()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Those of `threads` that `thread` cannot go on without.
fn in_the_way(thread: &State, threads: &[MutexGuard<'_, State>]) -> Vec<usize> {
    let Some(wait) = &thread.waits else { return Vec::new() };
    let is_in_the_way = |other: &State| {
        let own = wait.upgrades && core::ptr::eq(other, thread);
        if other.waits.as_ref().is_some_and(|other| wait.is_behind(other)) {
            return true;
        }
        other.holds.iter().any(|&Held { lock, mode, .. }| {
            lock == wait.lock && wait.mode.waits_for(mode) && !(own && mode == HeldAs::Upgradable)
        })
    };
    let others = threads.iter().enumerate();
    others.filter(|(_, other)| is_in_the_way(other)).map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_child_looks_for_deadlocks_whoever_did_so_at_the_fork() {
        fairlock_testing::alone(|| {
            let [looks, forked] = [(); 2].map(|()| std::sync::Barrier::new(2));
            let lock = crate::Mutex::new(());
            let _held = lock.lock();
            std::thread::scope(|s| {
                s.spawn(|| {
                    let records = locked(&RECORDS);
                    let states: Vec<_> =
                        records.iter().map(|record| locked(&record.state)).collect();
                    looks.wait();
                    forked.wait();
                    drop(states);
                });
                looks.wait();
                fairlock_testing::in_child(|| {
                    // Joined: a scope does not wait until its threads have given back their records.
                    std::thread::spawn(|| drop(crate::Mutex::new(()).lock())).join().unwrap();
                    assert!(check_deadlock().is_empty());
                    let records = locked(&RECORDS);
                    let ids = records.iter().map(|record| record.thread_id.load(Ordering::Relaxed));
                    assert_eq!(ids.collect::<Vec<_>>(), [thread_id()]);
                });
                forked.wait();
            });
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_locks_in_the_destructor_of_a_pthread_key_leaves_no_record() {
        fairlock_testing::at_end_of_threads(300, || drop(crate::Mutex::new(()).lock()));
        // As many as there have been threads at a time, with those of other tests.
        assert!(locked(&RECORDS).len() < 100);
    }

    #[test]
    fn who_is_in_whose_way() {
        use HeldAs::{Exclusive, Shared, Upgradable};
        let ways = [
            (Shared, [false, false, true]),
            (Upgradable, [false, true, true]),
            (Exclusive, [true, true, true]),
        ];
        for (wanted, expected) in ways {
            assert_eq!(
                [Shared, Upgradable, Exclusive].map(|held| wanted.waits_for(held)),
                expected
            );
        }
    }
}

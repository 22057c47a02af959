//! What belongs to a thread: its number, the locks that it reads, and its record in the locks.

pub(crate) mod cancel;
pub(crate) mod held;
pub(crate) mod jump;

use core::cell::{Cell, UnsafeCell};
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use fairlock::Policy;
use fairlock::lock::{Slots, VisibleOwners, VisibleReaders};
use fairlock::platform::linux::Linux;
use fairlock::platform::{PooledPlatform, System, WaitOutcome};
use fairlock::pool::Pooled;
use fairlock::wait::{self, Thread};
use libc::EAGAIN;

use self::held::Held;
use crate::process::config::{self, Kind, Mode};
use crate::process::memory::{self, Mapped, Pool};
use crate::process::mutex::{Blocked, Guard, Mutex};
use crate::process::tls::of_each_thread;
use crate::process::{clock, fork, glibc, quietly, real};

/// What a thread may do at once with a mutex where nobody is in the way.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mutexes {
    /// Nothing; or it has not [entered](enter).
    InGeneral = 0,
    /// Use it as a thin one; `tid` is known.
    Thin,
    /// The same, and it is counted for the profile.
    ThinCounted,
    /// All are glibc's, and counted. Normal ones are taken and released as glibc does it, with `tid`.
    AsGlibcCounted,
    /// All are glibc's, and counted.
    GlibcsCounted,
}

/// A thread's own variables. All zero at first.
pub(crate) struct State {
    /// Free rwlocks may be taken in one step, and `tid` is known.
    pub(crate) plain: Cell<bool>,
    /// The same for mutexes.
    pub(crate) mutexes: Cell<Mutexes>,
    /// The question of the thread that cancels this one, or did so last: its number in the upper
    /// half; below it the number of that thread's record, plus one. Other threads write this: see
    /// `cancel`.
    asked: AtomicU64,
    /// The thread's number in the kernel, as glibc stores it in a lock; zero before it has
    /// [entered](enter).
    pub(crate) tid: Cell<u32>,
    /// The thread forked, and is in the child: see [`TID_IN_PARENT`].
    forked: Cell<bool>,
    /// The process in which the thread has entered: see [`fork::number`].
    process: Cell<u32>,
    /// The thread's record. Other threads read this.
    record: AtomicPtr<Record>,
    /// What is added to the thread's priority while it waits.
    more_priority: Cell<u8>,
    /// Outside this library, the thread can be cancelled at any instruction; for the time of a call: see `cancel`.
    anywhere: Cell<bool>,
    /// How often such a thread had been cancelled when the call began, and whether the call has given up since.
    cancels: Cell<u32>,
    gave_up: Cell<bool>,
    /// The innermost call of this library that the thread is in, if any: see `jump`.
    call: Cell<*const jump::Call>,
    /// The lock that the thread is about to read may become visible.
    pub(crate) watches: Cell<bool>,
    /// The locks that the thread reads.
    pub(crate) held: Held,
}

impl State {
    /// Whether this is the thread of number `tid`; or was, in the process that this one was forked
    /// from. For a thread that has entered.
    #[inline]
    pub(crate) fn is_named(&self, tid: u32) -> bool {
        // Relaxed: a thread that took the number since has cleared it before it took a lock.
        let in_parent = || self.forked.get() && is_in_parent(tid);
        tid != 0 && (tid == self.tid.get() || in_parent())
    }

    /// Runs `wait`, which waits with `more` added to the priority. A signal handler that uses other
    /// locks meanwhile has its own.
    #[inline(always)]
    pub(crate) fn with_more_priority<T>(&self, more: u8, wait: impl FnOnce() -> T) -> T {
        let before = self.more_priority.replace(more);
        let result = wait();
        self.more_priority.set(before);
        result
    }
}

of_each_thread! {
    /// The calling thread's variables.
    state: State, "fairlock_preload_state"
}

/// As [`state`], after the first call in a thread that uses a lock, or in the first thread of a new
/// process.
#[inline]
pub(crate) fn enter() -> &'static State {
    let state = state();
    let process = fork::number();
    if state.process.get() != process {
        first(state, process);
    }
    state
}

#[cold]
fn first(state: &State, process: u32) {
    let on = config::mode() == Mode::On;
    let counted = config::profiles();
    let plain = on && !counted && config::serves(Kind::Rwlock);
    if state.tid.get() == 0 {
        state.held.init();
        if plain {
            state.held.open_short_path();
        }
    }
    let before = state.tid.replace(gettid());
    take_number(state, before);
    // A child takes a new record: queues that do not exist here may have kept the old record's
    // node.
    state.record.store(ptr::null_mut(), Ordering::Relaxed);
    state.process.set(process);
    let thin = on && config::serves(Kind::Mutex);
    let tid = state.tid.get();
    state.mutexes.set(match (thin, counted) {
        (true, false) => Mutexes::Thin,
        (true, true) => Mutexes::ThinCounted,
        // If a sandbox hides the thread's number, glibc's mutexes are not taken as glibc does it.
        (false, true) if tid < UNKNOWN && glibc::is_known(tid) => Mutexes::AsGlibcCounted,
        (false, true) => Mutexes::GlibcsCounted,
        (false, false) => Mutexes::InGeneral,
    });
    state.plain.set(plain);
    // SAFETY: the process has not used locks yet; so a lock that a thread of its parent was about to take is there, unless the
    // process has given up its memory before all else.
    unsafe { VISIBLE.finish_for_parent() };
}

/// The number that the thread that forked had in the parent. Locks that it held then have that number. Zero once
/// another thread has it: the parent has ended, and a lock of that number is the other thread's.
static TID_IN_PARENT: AtomicU32 = AtomicU32::new(0);

/// Whether the thread that forked had this number in the parent, and no thread has it here.
pub(crate) fn is_in_parent(tid: u32) -> bool {
    // Relaxed: as below.
    tid != 0 && tid == TID_IN_PARENT.load(Ordering::Relaxed)
}

/// The calling thread, which had the number `before` in the parent, if it was there, has one in this process.
fn take_number(state: &State, before: u32) {
    // Relaxed throughout: numbers are compared with those in locks, which order what is done under them.
    if before != 0 {
        state.forked.set(true);
        TID_IN_PARENT.store(before, Ordering::Relaxed);
    } else if TID_IN_PARENT.load(Ordering::Relaxed) == state.tid.get() {
        TID_IN_PARENT.store(0, Ordering::Relaxed);
    }
}

/// Lets others go on, whatever their priority. Not by one of libc's ways to sleep: those are
/// cancellation points, and locking is none.
pub(crate) fn nap() {
    wait::nap::<Preload>();
}

/// Called when the calling thread is the only one of a new process.
pub(crate) fn enter_child() {
    if state().tid.get() != 0 {
        enter();
    }
}

/// A thread's number, from here on, is not the one of the kernel.
const UNKNOWN: u32 = 1 << 31;

fn gettid() -> u32 {
    // SAFETY: no arguments.
    match quietly(|| unsafe { libc::gettid() }) {
        // A sandbox refuses the call. No thread has a number as high, nor another thread this one.
        -1 => UNKNOWN | (ptr::from_ref(state()).addr() >> 4) as u32,
        tid => tid as u32,
    }
}

/// A thread as the locks know it, in memory that is never given back.
#[repr(C, align(128))]
pub(crate) struct Record {
    thread: Thread<Preload>,
    cancels: cancel::Cancels,
    number: u32,
    next: AtomicU32,
}

impl Pooled for Record {
    type Link = AtomicU32;

    fn link(&self) -> (u32, &AtomicU32) {
        (self.number, &self.next)
    }
}

// SAFETY: zero; `link` has what `make` was told, and an atomic that is for the pool.
static RECORDS: Pool<Record> = unsafe { Pool::new(AtomicU64::new(0)) };

/// The record of this number, if there is one.
fn by_number(number: u32) -> Option<&'static Record> {
    match number {
        // Acquire: it is made. SAFETY: null, or memory that is always there.
        SPARE_NUMBER => unsafe { SPARE.load(Ordering::Acquire).as_ref() },
        number => memory::item(&RECORDS, number),
    }
}

/// The calling thread's record, as the locks know it.
#[inline]
pub(crate) fn record() -> &'static Thread<Preload> {
    &whole_record().thread
}

#[inline]
fn whole_record() -> &'static Record {
    own_record().expect("a thread without a record is in no lock's queue")
}

/// `None` if there is no memory for one.
#[inline]
fn own_record() -> Option<&'static Record> {
    let state = state();
    // Relaxed, here and below: the thread's own. SAFETY: null, or from the pool.
    unsafe { state.record.load(Ordering::Relaxed).as_ref() }.or_else(|| new_record(state))
}

/// Whether the calling thread has a record, or could have one made. It may wait only if it has.
#[inline]
pub(crate) fn has_record() -> bool {
    own_record().is_some()
}

impl Record {
    fn new(number: u32) -> Self {
        Self {
            thread: Thread::new(),
            cancels: cancel::Cancels::default(),
            number,
            next: AtomicU32::default(),
        }
    }
}

/// The record of threads that have none, one at a time. Null before it was needed.
static SPARE: AtomicPtr<Record> = AtomicPtr::new(ptr::null_mut());
/// Its number: no record of the pool has it.
const SPARE_NUMBER: u32 = u32::MAX - 1;

/// The memory for it, which is there from the beginning.
struct Room(UnsafeCell<MaybeUninit<Record>>);

// SAFETY: used once, under a mutex.
unsafe impl Sync for Room {}

/// While this lives, the calling thread has a record: if there is no memory for one of its own, the
/// spare one. Then it must not wait for what others do with the program's locks.
pub(crate) struct Recorded(Option<Guard<'static>>);

impl Recorded {
    #[inline]
    pub(crate) fn begin() -> Self {
        if has_record() { Self(None) } else { Self::with_spare() }
    }

    #[cold]
    fn with_spare() -> Self {
        static SPARE_IS_USED: Mutex = Mutex::new();
        let guard = SPARE_IS_USED.lock();
        static ROOM: Room = Room(UnsafeCell::new(MaybeUninit::uninit()));
        // Relaxed, but for the store: under the mutex.
        if SPARE.load(Ordering::Relaxed).is_null() {
            // SAFETY: nobody else knows the room.
            let made = unsafe { (*ROOM.0.get()).write(Record::new(SPARE_NUMBER)) };
            // Release: a thread that finds the record finds it made.
            SPARE.store(made, Ordering::Release);
        }
        state().record.store(SPARE.load(Ordering::Relaxed), Ordering::Relaxed);
        Self(Some(guard))
    }
}

impl Drop for Recorded {
    #[inline]
    fn drop(&mut self) {
        if self.0.is_some() {
            state().record.store(ptr::null_mut(), Ordering::Relaxed);
        }
    }
}

#[cold]
fn new_record(state: &State) -> Option<&'static Record> {
    let record = RECORDS.take().or_else(|| RECORDS.make(Record::new))?;
    // SeqCst: see `cancel`.
    state.record.store(ptr::from_ref(record).cast_mut(), Ordering::SeqCst);
    cancel::answer(state, record.number);
    tidy_up_at_exit(state);
    Some(record)
}

/// The key whose destructor runs when a thread ends, plus one; zero before there is one, and once the program needs it.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);
/// Held while the key is used or deleted.
static EXIT_KEY_MUTEX: Mutex = Mutex::new();

/// The first keys have their place in the thread.
const KEYS_IN_THREAD: usize = 32;

/// Makes threads tidy up when they end. Of the keys that have their place in the thread this takes the last: programs
/// have the others, by the numbers that they have without this library. `ends` has to call [`tidy_up`].
pub(crate) fn start(ends: unsafe extern "C" fn(*mut c_void)) {
    let mut keys = [0; KEYS_IN_THREAD];
    // SAFETY: each key is written, and `ends` takes anything.
    let made = keys.each_mut().map(|key| unsafe { real::pthread_key_create(key, Some(ends)) } == 0);
    let mut made = keys.into_iter().zip(made).filter_map(|(key, made)| made.then_some(key));
    if let Some(last) = made.next_back() {
        // Relaxed, here and below: no other memory is read on the strength of it.
        EXIT_KEY.store(last + 1, Ordering::Relaxed);
    }
    // SAFETY: made above, and not used.
    made.for_each(|key| unsafe { _ = libc::pthread_key_delete(key) });
}

/// Makes a key of the program's by `make`: if there is no other left, of this library's. Then threads do not tidy up
/// any more.
pub(crate) fn make_key(make: impl Fn() -> c_int) -> c_int {
    let made = make();
    let is_given_up = made == EAGAIN && {
        let _guard = EXIT_KEY_MUTEX.lock();
        let key = EXIT_KEY.swap(0, Ordering::Relaxed).checked_sub(1);
        // SAFETY: the key was made, and is not used from now on.
        key.is_some_and(|key| unsafe { libc::pthread_key_delete(key) } == 0)
    };
    if is_given_up { make() } else { made }
}

/// Called by a thread that has something to give back. The key has its place in the thread, so nothing is
/// allocated.
pub(crate) fn tidy_up_at_exit(state: &State) {
    let _guard = EXIT_KEY_MUTEX.lock();
    if let Some(key) = EXIT_KEY.load(Ordering::Relaxed).checked_sub(1) {
        // SAFETY: the key was made. If the call fails the thread's record is not recycled.
        unsafe { libc::pthread_setspecific(key, ptr::from_ref(state).cast()) };
    }
}

/// Called when the calling thread ends.
pub(crate) fn tidy_up() {
    let state = state();
    state.held.tidy_up();
    let record = state.record.swap(ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: null, or from the pool.
    if let Some(record) = unsafe { record.as_ref() } {
        // SAFETY: from the pool; its thread ends, or has no use for it any more.
        unsafe { RECORDS.give(record) };
    }
}

/// Linux as `fairlock` has it, with thread records and a count of CPUs that need neither the
/// program's allocator nor the standard library, and with libc's clock, which works under valgrind.
pub(crate) struct Preload;

// SAFETY: a thread has its record until it ends, when it goes back to a pool that is
// never freed; all else is Linux's.
unsafe impl System for Preload {
    type AtomicUsize = AtomicUsize;
    type AtomicU32 = AtomicU32;
    type AtomicU64 = AtomicU64;
    type Thread = Thread<Self>;

    #[inline(always)]
    fn pause() {
        Linux::pause();
    }

    fn yield_now() {
        Linux::yield_now();
    }

    #[inline]
    fn now() -> u64 {
        clock(libc::CLOCK_MONOTONIC)
    }

    fn wait(
        word: &AtomicU32,
        expected: u32,
        deadline: Option<u64>,
        interruptible: bool,
    ) -> WaitOutcome {
        Linux::wait(word, expected, deadline, interruptible)
    }

    fn wake_one(word: &AtomicU32) {
        Linux::wake_one(word);
    }

    #[inline]
    fn hold_signals() -> Option<u64> {
        Blocked::begin().suspend()
    }

    #[inline]
    fn let_signals(before: Option<u64>) {
        drop(Blocked::resume(before));
    }

    #[inline]
    fn thread() -> &'static Thread<Self> {
        record()
    }

    #[inline(always)]
    fn thread_hint() -> usize {
        state().record.load(Ordering::Relaxed) as usize
    }

    #[inline]
    fn cpu() -> Option<u32> {
        Linux::cpu()
    }

    #[inline(always)]
    fn light_fence() {
        Linux::light_fence();
    }

    fn process_barrier() {
        Linux::process_barrier();
    }

    fn has_process_barrier() -> bool {
        Linux::has_process_barrier()
    }

    fn priority() -> u8 {
        let own = if MAY_BE_REAL_TIME.load(Ordering::Relaxed) { Linux::priority() } else { 0 };
        own.saturating_add(state().more_priority.get())
    }

    fn cpus() -> usize {
        static CPUS: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: a cached number that any thread may compute again.
        match CPUS.load(Ordering::Relaxed) {
            0 => {
                let n = count_cpus();
                CPUS.store(n, Ordering::Relaxed);
                n
            }
            n => n,
        }
    }
}

/// Where locks have their queues while threads wait for them.
static SLOTS: Slots<Preload> = Slots::new_const();
static VISIBLE: VisibleReaders<Preload> = VisibleReaders::new_const();
static OWNERS: VisibleOwners<Preload> = VisibleOwners::new_const();

// SAFETY: the hint is the address of the thread's record, whose first part is the `Thread`; and there is one pool.
unsafe impl PooledPlatform for Preload {
    type Memory = Mapped;

    const POLICY: Policy = config::POLICY;

    const NAMES_MAY_BE_STRAY: bool = true;

    fn slots() -> &'static Slots<Self> {
        &SLOTS
    }

    #[inline(always)]
    fn visible_readers() -> Option<&'static VisibleReaders<Self>> {
        Some(&VISIBLE)
    }

    #[inline(always)]
    fn visible_owners() -> Option<&'static VisibleOwners<Self>> {
        Some(&OWNERS)
    }

    const WATCHES_READERS: bool = true;

    #[inline(always)]
    fn may_watch() -> bool {
        state().watches.get()
    }

    #[inline(always)]
    fn process() -> usize {
        fork::number() as usize
    }

    fn forgetting(forget: impl FnOnce()) {
        static FORGETTING: Mutex = Mutex::new();
        enter();
        let _guard = FORGETTING.lock();
        forget();
    }
}

/// Whether the process asked for a real-time policy, for any of its threads, or was started under one. Otherwise a
/// thread that waits does not ask for its own: a sandbox may end the process at that call.
pub(crate) static MAY_BE_REAL_TIME: AtomicBool = AtomicBool::new(false);

/// The process asks for this scheduling policy.
pub(crate) fn note_policy(policy: c_int) {
    if ![libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE].contains(&policy) {
        // Relaxed, here and above: a thread that comes to have the policy sees what its process did before.
        MAY_BE_REAL_TIME.store(true, Ordering::Relaxed);
    }
}

/// Asks for what cannot be asked in a sandbox. Called when the library is loaded.
pub(crate) fn ask() {
    MAY_BE_REAL_TIME.store(Linux::priority() > 0, Ordering::Relaxed);
    Preload::cpu();
    Preload::cpus();
    // While there is one thread: later the kernel takes a while.
    Preload::has_process_barrier();
}

/// The number of CPUs that this thread may run on.
fn count_cpus() -> usize {
    // SAFETY: a set of CPUs is plain bits; the kernel writes no more than it is told.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        if quietly(|| libc::sched_getaffinity(0, size_of_val(&set), &mut set)) != 0 {
            return 1; // more than the set has room for
        }
        (libc::CPU_COUNT(&set) as usize).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_state() {
        let here = enter();
        assert!(core::ptr::eq(here, state()) && here.tid.get() == gettid());
        let (here, tid) = (ptr::from_ref(here) as usize, here.tid.get());
        std::thread::spawn(move || {
            assert_eq!(state().tid.get(), 0, "new threads have not entered");
            assert!(ptr::from_ref(enter()) as usize != here && state().tid.get() != tid);
        })
        .join()
        .unwrap();
    }

    /// The parent of a daemon has ended, and a new thread gets its number: what that thread holds is not the daemon's.
    #[test]
    fn the_number_of_an_ended_parent_names_whoever_has_it_now() {
        fairlock_testing::alone(|| {
            let (child, in_parent) = (enter(), 1 << 30);
            take_number(child, in_parent);
            assert!(child.is_named(in_parent) && child.is_named(child.tid.get()));
            std::thread::spawn(move || {
                assert!(!enter().is_named(in_parent), "a thread that did not fork");
                state().tid.set(in_parent);
                take_number(state(), 0);
                assert!(state().is_named(in_parent));
            })
            .join()
            .unwrap();
            assert!(!child.is_named(in_parent) && child.is_named(child.tid.get()));
        });
    }

    #[test]
    fn records_of_ended_threads_are_used_again() {
        fairlock_testing::alone(|| {
            extern "C" fn ends(_: *mut c_void) {
                tidy_up();
            }
            start(ends);
            let record = || std::thread::spawn(|| ptr::from_ref(record()) as usize);
            let first = record().join().unwrap();
            assert!((0..200).all(|_| record().join().unwrap() == first));
        });
    }
}

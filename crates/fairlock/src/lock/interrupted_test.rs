//! A signal handler that uses visible locks may interrupt a reader of such a lock between any two of its steps. Here each
//! operation of an atomic is a step, and at every two of them something happens: what a handler does, or another thread.
//! One thread does it all, so nothing depends on timing.

use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{self, AtomicU32, Ordering};
use std::vec::Vec;

use super::word::HELD;
use super::{PooledPlatform, RawRwLock, Shown, Slots, VisibleReaders};
use crate::platform::{Atomic, ConstZero, System, Thread, WaitOutcome};
use crate::pool::Heap;
use crate::wait::{Access, Waiter};

struct Interrupted;
type Lock = RawRwLock<Interrupted>;
type Event = (usize, Rc<dyn Fn()>);

std::thread_local! {
    static THREAD: Cell<&'static Thread<Interrupted>> = Cell::new(leak(Thread::new()));
    static READERS: Cell<&'static VisibleReaders<Interrupted>> = Cell::new(leak(VisibleReaders::new()));
    static STEPS: Cell<usize> = const { Cell::new(0) };
    /// What the clock says, and how far it goes at each look.
    static CLOCK: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    /// What happens, and before which step.
    static EVENTS: RefCell<Vec<Event>> = const { RefCell::new(Vec::new()) };
}

fn leak<T>(what: T) -> &'static T {
    Box::leak(Box::new(what))
}

fn step() {
    let now = STEPS.replace(STEPS.get() + 1);
    let due = || {
        EVENTS.with_borrow_mut(|events| {
            let due = events.iter().position(|(at, _)| *at == now)?;
            Some(events.remove(due).1)
        })
    };
    while let Some(happens) = due() {
        happens();
    }
}

/// Runs `what`, and the events in it.
fn interrupted(events: &mut Vec<Event>, what: impl FnOnce()) {
    EVENTS.with_borrow_mut(|all| core::mem::swap(all, events));
    what();
    EVENTS.with_borrow_mut(|all| core::mem::swap(all, events));
}

macro_rules! stepping {
    (each: $($method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $method(&self, $($argument: $type),*) -> $result {
            step();
            self.0.$method($($argument),*)
        }
    )*};
    ($($name:ident: $int:ty;)*) => {$(
        struct $name(atomic::$name);

        impl ConstZero for $name {
            const ZERO: Self = Self(ConstZero::ZERO);
        }

        impl Atomic<$int> for $name {
            fn new(value: $int) -> Self {
                Self(atomic::$name::new(value))
            }
            stepping! { each:
                load(order: Ordering) -> $int;
                store(value: $int, order: Ordering) -> ();
                swap(value: $int, order: Ordering) -> $int;
                fetch_add(value: $int, order: Ordering) -> $int;
                fetch_sub(value: $int, order: Ordering) -> $int;
                fetch_or(value: $int, order: Ordering) -> $int;
                fetch_and(value: $int, order: Ordering) -> $int;
                compare_exchange(old: $int, new: $int, ok: Ordering, fail: Ordering) -> Result<$int, $int>;
                compare_exchange_weak(old: $int, new: $int, ok: Ordering, fail: Ordering) -> Result<$int, $int>;
            }
        }
    )*};
}
stepping! { AtomicU64: u64; AtomicUsize: usize; }

// SAFETY: one thread, with one record at a time while it is inside; the processor's atomics; nobody sleeps.
unsafe impl System for Interrupted {
    type AtomicUsize = AtomicUsize;
    type AtomicU32 = AtomicU32;
    type AtomicU64 = AtomicU64;
    type Thread = Thread<Self>;

    fn pause() {}

    fn now() -> u64 {
        let (now, tick) = CLOCK.get();
        CLOCK.set((now + tick, tick));
        now
    }

    fn wait(_: &AtomicU32, _: u32, _: Option<u64>, _: bool) -> WaitOutcome {
        unreachable!("an attempt waits")
    }

    fn wake_one(_: &AtomicU32) {
        assert!(std::thread::panicking(), "nobody waits");
    }

    fn thread() -> &'static Thread<Self> {
        THREAD.get()
    }

    fn thread_hint() -> usize {
        THREAD.get().hint()
    }

    fn has_process_barrier() -> bool {
        true
    }

    fn cpus() -> usize {
        1
    }
}

// SAFETY: one static pool; the platform has thread records.
unsafe impl PooledPlatform for Interrupted {
    type Memory = Heap;

    fn slots() -> &'static Slots<Self> {
        static SLOTS: Slots<Interrupted> = Slots::new_const();
        &SLOTS
    }

    fn visible_readers() -> Option<&'static VisibleReaders<Self>> {
        Some(READERS.get())
    }
}

impl Lock {
    /// How many readers it has: those that it counts, and those that are shown.
    fn readers_inside(&self) -> usize {
        let word = self.raw.load();
        if !word.is_visible() {
            return word.readers();
        }
        (word.readers() + READERS.get().count(word.shown())).wrapping_sub(HELD)
    }
}

/// Two locks that have one place in the record of a thread.
struct Pair {
    all: Vec<Lock>,
    which: [usize; 2],
    /// How many readers each has whose guards a handler has kept.
    kept: [Cell<usize>; 2],
}

impl Pair {
    fn new() -> Self {
        let all: Vec<_> = (0..64).map(|_| Lock::new_const()).collect();
        let place = |lock: &Lock| Shown::<Interrupted>::place(core::ptr::from_ref(lock).addr());
        let mut pairs =
            (0..all.len()).flat_map(|later| (0..later).map(move |sooner| [sooner, later]));
        let same = |&[sooner, later]: &[usize; 2]| place(&all[sooner]) == place(&all[later]);
        let which = pairs.find(same).expect("there are 16 places");
        which.iter().for_each(|&i| assert!(all[i].show_readers()));
        Self { all, which, kept: Default::default() }
    }

    fn lock(&self, which: usize) -> &Lock {
        &self.all[self.which[which]]
    }

    fn happens(&self, what: What) {
        match what {
            What::Read(which) if self.lock(which).try_read() => self.leave(which),
            What::Keep(which) if self.lock(which).try_read() => {
                self.kept[which].set(self.kept[which].get() + 1);
            }
            What::Write(which) if self.lock(which).try_write() => {
                assert_eq!(self.kept[which].get(), 0);
                // SAFETY: just taken.
                unsafe { self.lock(which).unlock_write() };
            }
            What::Revoke(which) => {
                let lock = self.lock(which);
                let word = lock.raw.load();
                if word.is_visible() {
                    lock.words().revoke(word);
                }
            }
            _ => {}
        }
    }

    fn leave(&self, which: usize) {
        // SAFETY: the caller has taken it.
        unsafe { self.lock(which).unlock_read() };
    }

    /// So many readers are inside beside those that a handler has kept, and no writer.
    fn check(&self, inside: [usize; 2]) {
        for (which, inside) in inside.into_iter().enumerate() {
            let kept = self.kept[which].get();
            assert_eq!(self.lock(which).readers_inside(), inside + kept, "of lock {which}");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A handler reads and leaves,
    Read(usize),
    /// keeps its guard,
    Keep(usize),
    /// or writes.
    Write(usize),
    /// Another thread revokes the name.
    Revoke(usize),
}
use What::*;

/// The reader of a lock, with two events before these of its steps. Whether each has happened.
fn read(is_known: bool, events: [(usize, What); 2]) -> [bool; 2] {
    THREAD.set(leak(Thread::new()));
    READERS.set(leak(VisibleReaders::new()));
    let pair = Rc::new(Pair::new());
    let lock = pair.lock(0);
    if is_known {
        lock.read();
        pair.leave(0);
    }
    let mut coming: Vec<_> = events
        .iter()
        .map(|&(at, what)| {
            let pair = pair.clone();
            (at, Rc::new(move || pair.happens(what)) as Rc<dyn Fn()>)
        })
        .collect();
    STEPS.set(0);
    interrupted(&mut coming, || assert!(lock.try_read()));
    let steps = STEPS.get();
    pair.check([1, 0]);
    STEPS.set(steps);
    interrupted(&mut coming, || pair.leave(0));
    pair.check([0, 0]);
    let happened = |at| coming.iter().all(|(left, _)| *left != at);
    let happened = events.map(|(at, _)| happened(at));
    drop(coming);
    for which in [0, 1] {
        for _ in 0..pair.kept[which].replace(0) {
            assert!(!lock_is_free(pair.lock(which)));
            pair.leave(which);
        }
        assert!(lock_is_free(pair.lock(which)));
    }
    happened
}

fn lock_is_free(lock: &Lock) -> bool {
    let is_free = lock.try_write();
    if is_free {
        // SAFETY: just taken.
        unsafe { lock.unlock_write() };
    }
    is_free
}

#[test]
fn a_signal_handler_between_any_two_steps_of_a_reader_leaves_no_reader_behind_and_takes_none_away()
{
    let all = [Read(0), Keep(0), Write(0), Revoke(0), Read(1), Keep(1), Revoke(1)];
    for is_known in [true, false] {
        for (first, second) in all.iter().flat_map(|&first| all.map(|second| (first, second))) {
            for at in 0.. {
                let begins = |then| read(is_known, [(at, first), (then, second)]);
                if !(at..).map(begins).take_while(|happened| happened[1]).all(|both| both[0]) {
                    unreachable!("the first event comes first");
                }
                if !begins(usize::MAX)[0] {
                    break;
                }
            }
        }
    }
}

/// A release that wakes the waiter that is next takes the queue lock. Where a handler has interrupted its own thread under
/// that lock, it would wait for ever: the documentation forbids it.
#[test]
#[should_panic(expected = "an attempt waits")]
fn a_signal_handler_that_leaves_a_lock_whose_queue_its_thread_changes_waits_for_that_thread() {
    THREAD.set(leak(Thread::new()));
    CLOCK.set((0, 1_000));
    let waiter = || leak(Waiter::new(Access::Exclusive, THREAD.get(), 0, 0));
    for at in 0.. {
        let lock: &Lock = leak(Lock::new_const());
        lock.read();
        let queue = |waiter: &Waiter<Interrupted>| {
            // SAFETY: each is queued once, and stays where it is.
            unsafe { lock.raw.queue_sleeping_writer(waiter) };
        };
        queue(waiter());
        // SAFETY: taken above.
        let leaves = Rc::new(move || unsafe { lock.unlock_read() });
        STEPS.set(0);
        let mut coming: Vec<Event> = std::vec![(at, leaves as Rc<dyn Fn()>)];
        interrupted(&mut coming, || queue(waiter()));
        // The queueing is over before this step.
        if !coming.is_empty() {
            break;
        }
    }
}

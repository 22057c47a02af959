//! The whole lock against the naive model: one thread that never waits, in every
//! policy, and threads that wait in order of arrival.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fairlock_testing::{join, rounds, scope, until};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult};

use super::model::{Model, POSITIONS, Places, span};
use super::rules::{Step, choose, part, step};
use super::{Lock, ReadGuard, WriteGuard};
use crate::events::{Event, EventCounts};
use crate::range::{RangeError, RangePolicy};
use crate::wait::{CancelToken, Kind, Wait};

enum Guard<'a> {
    Read(ReadGuard<'a>),
    Write(WriteGuard<'a>),
}

impl<'a> Guard<'a> {
    fn ask(
        lock: &'a Lock,
        places: Places,
        kind: Kind,
        stop: &CancelToken<crate::platform::Native>,
    ) -> Result<Self, RangeError> {
        match kind {
            Kind::Reader => {
                lock.read_with(span(places), Wait::FOREVER.cancellable(stop)).map(Guard::Read)
            }
            Kind::Writer => {
                lock.write_with(span(places), Wait::FOREVER.cancellable(stop)).map(Guard::Write)
            }
        }
    }

    fn try_ask(lock: &'a Lock, places: Places, kind: Kind) -> Result<Self, RangeError> {
        match kind {
            Kind::Reader => lock.try_read(span(places)).map(Guard::Read),
            Kind::Writer => lock.try_write(span(places)).map(Guard::Write),
        }
    }

    fn downgrade(self) -> Self {
        match self {
            Guard::Write(guard) => Guard::Read(guard.downgrade()),
            read => read,
        }
    }

    fn shrink(&mut self, places: Places) {
        match self {
            Guard::Read(guard) => guard.shrink(span(places)).unwrap(),
            Guard::Write(guard) => guard.shrink(span(places)).unwrap(),
        }
    }

    fn split(self, mid: usize) -> (Self, Self) {
        let mid = span((mid, mid)).start();
        match self {
            Guard::Read(guard) => {
                let (low, high) = guard.split_at(mid).unwrap();
                (Guard::Read(low), Guard::Read(high))
            }
            Guard::Write(guard) => {
                let (low, high) = guard.split_at(mid).unwrap();
                (Guard::Write(low), Guard::Write(high))
            }
        }
    }
}

/// What a step does to a range that is held; the same with and without waiters. Returns whom the
/// model grants.
fn step_of_holder<'a>(
    step: &Step,
    model: &mut Model,
    guards: &mut HashMap<usize, Guard<'a>>,
) -> Vec<usize> {
    match *step {
        Step::Leave(n) => {
            let Some(name) = choose(model, true, n) else { return vec![] };
            drop(guards.remove(&name));
            model.leave(name)
        }
        Step::Downgrade(n) => {
            let Some(name) = choose(model, true, n) else { return vec![] };
            let guard = guards.remove(&name).unwrap().downgrade();
            guards.insert(name, guard);
            model.downgrade(name)
        }
        Step::Shrink(n, a, b) => {
            let Some(name) = choose(model, true, n) else { return vec![] };
            let to = part(model.find(name).places, a, b);
            guards.get_mut(&name).unwrap().shrink(to);
            model.shrink(name, to)
        }
        Step::Split(n, at) => {
            let Some(name) = choose(model, true, n) else { return vec![] };
            let (first, last) = model.find(name).places;
            if first < last {
                let mid = first + 1 + at % (last - first);
                let (low, high) = guards.remove(&name).unwrap().split(mid);
                guards.insert(name, low);
                guards.insert(model.split(name, mid), high);
            }
            vec![]
        }
        _ => vec![],
    }
}

/// A recursive read, which is to succeed exactly if the model says so.
fn try_ahead<'a>(lock: &'a Lock, places: Places, model: &Model) -> Option<Guard<'a>> {
    let mut asked = model.clone();
    let name = asked.ask_ahead(places);
    let guard = lock.try_read_recursive(span(places)).ok().map(Guard::Read);
    assert_eq!(guard.is_some(), asked.find(name).held, "{places:?}");
    guard
}

/// Regions of four positions: some ranges have one, some several.
const SHIFT: u32 = 2;

fn without_waiting(
    policy: RangePolicy,
    traced: bool,
    striped: bool,
    steps: &[Step],
) -> TestCaseResult {
    let lock = Lock::with_policy(policy);
    lock.set_traced(traced);
    prop_assert!(!striped || traced || lock.stripe(SHIFT));
    let mut model = Model::default();
    let mut guards = HashMap::new();
    for step in steps {
        match *step {
            Step::Ask(places, kind) | Step::Try(places, kind) => {
                let guard = Guard::try_ask(&lock, places, kind);
                prop_assert_eq!(guard.is_ok(), model.is_free(places, kind), "{:?}", step);
                if let Ok(guard) = guard {
                    guards.insert(model.ask(places, kind), guard);
                }
            }
            Step::AskAhead(places) => {
                if let Some(guard) = try_ahead(&lock, places, &model) {
                    guards.insert(model.ask_ahead(places), guard);
                }
            }
            _ => {
                step_of_holder(step, &mut model, &mut guards);
            }
        }
        let held = lock.ranges().len();
        // A range in two stripes is listed as two.
        let most = if striped { 2 * guards.len() } else { guards.len() };
        prop_assert!(held <= most && (held > 0 || guards.is_empty()));
    }
    guards.clear();
    super::assert_free(&lock);
    Ok(())
}

proptest! {
    #![proptest_config(Config::with_cases(rounds(500) as u32))]
    #[test]
    fn one_thread_finds_free_what_is_free(
        steps in proptest::collection::vec(step(), 1..80),
        traced in proptest::bool::weighted(0.2),
    ) {
        for striped in [false, true] {
            without_waiting(RangePolicy::DEFAULT, traced, striped, &steps)?;
            without_waiting(RangePolicy::FIFO, traced, striped, &steps)?;
        }
    }
}

/// A thread that waits for a range, and what ends its wait.
struct Waiting<'a> {
    stop: &'a CancelToken<crate::platform::Native>,
    done: mpsc::Receiver<Result<Guard<'a>, RangeError>>,
}

impl<'a> Waiting<'a> {
    /// How the wait ends.
    fn end(self) -> Result<Guard<'a>, RangeError> {
        let mut end = None;
        super::until(|| {
            end = self.done.try_recv().ok();
            end.is_some()
        });
        end.unwrap()
    }
}

/// Waiting threads are granted exactly what the model says, and nobody else is.
fn with_waiting(
    striped: bool,
    steps: &[Step],
    tokens: &[CancelToken<crate::platform::Native>],
) -> TestCaseResult {
    let lock = Lock::with_policy(RangePolicy::FIFO);
    let lock = &lock;
    prop_assert!(!striped || lock.stripe(SHIFT));
    super::scope(|s| {
        let mut model = Model::default();
        let mut guards = HashMap::new();
        let mut waiting: HashMap<usize, Waiting<'_>> = HashMap::new();
        let mut tokens = tokens.iter();
        for step in steps {
            let granted = match *step {
                Step::Ask(places, kind) => {
                    let Some(stop) = tokens.next() else { break };
                    let name = model.ask(places, kind);
                    if model.find(name).held {
                        guards.insert(name, Guard::try_ask(lock, places, kind).ok().unwrap());
                    } else {
                        let (send, done) = mpsc::channel();
                        s.spawn(move || send.send(Guard::ask(lock, places, kind, stop)));
                        waiting.insert(name, Waiting { stop, done });
                        super::until(|| {
                            lock.core.with_queue(|q| q.ranges.waiting()) == waiting.len()
                        });
                    }
                    vec![]
                }
                Step::Try(places, kind) => {
                    let free = model.is_free(places, kind);
                    assert_eq!(Guard::try_ask(lock, places, kind).is_ok(), free);
                    vec![]
                }
                Step::GiveUp(n) => {
                    let Some(name) = choose(&model, false, n) else { continue };
                    let waiter = waiting.remove(&name).unwrap();
                    waiter.stop.cancel();
                    let end = waiter.end();
                    assert_eq!(end.err(), Some(RangeError::Cancelled));
                    model.leave(name)
                }
                Step::AskAhead(places) => {
                    if let Some(guard) = try_ahead(lock, places, &model) {
                        guards.insert(model.ask_ahead(places), guard);
                    }
                    vec![]
                }
                _ => step_of_holder(step, &mut model, &mut guards),
            };
            for name in granted {
                let waiter = waiting.remove(&name).unwrap();
                let guard = waiter.end().unwrap();
                guards.insert(name, guard);
            }
            for waiter in waiting.values() {
                assert!(waiter.done.try_recv().is_err(), "granted too early");
            }
        }
        // All leave, in order of arrival.
        while let Some(name) = model.requests.first().map(|r| r.name) {
            drop(guards.remove(&name).unwrap());
            for name in model.leave(name) {
                let waiter = waiting.remove(&name).unwrap();
                guards.insert(name, waiter.end().unwrap());
            }
        }
    });
    super::assert_free(lock);
    Ok(())
}

proptest! {
    #![proptest_config(Config::with_cases(rounds(100) as u32))]
    #[test]
    fn waiting_threads_are_granted_in_order_of_arrival(
        steps in proptest::collection::vec(step(), 1..40),
        striped: bool,
    ) {
        let tokens: Vec<_> = (0..20).map(|_| CancelToken::new()).collect();
        with_waiting(striped, &steps, &tokens)?;
    }
}

/// The policy alone bounds the waits: the test does not.
#[test]
fn a_range_that_waits_is_not_overtaken_for_longer_than_the_policy_says() {
    let lock = Lock::with_policy(RangePolicy { overtaken_for: Duration::from_millis(2) });
    let lock = &lock;
    let places = (0, POSITIONS - 1);
    let stop = &AtomicBool::new(false);
    super::scope(|s| {
        // Readers that overlap each other: there always is one inside.
        let readers = [0, 1, 2].map(|i| {
            s.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let guard = lock.read(span((i, places.1))).unwrap();
                    thread::sleep(Duration::from_micros(200));
                    drop(guard);
                }
            })
        });
        super::join(s.spawn(|| {
            for _ in 0..10 {
                drop(lock.write(span((0, POSITIONS / 2))).unwrap());
            }
        }));
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(super::join);
    });
}

/// The waiter waits for two ranges, of which one comes and goes.
#[test]
fn a_waiter_may_be_woken_in_vain_any_number_of_times() {
    let lock = &Lock::with_policy(RangePolicy { overtaken_for: Duration::MAX });
    let guard = lock.write(0..5).unwrap();
    super::scope(|s| {
        let waiter = s.spawn(|| drop(lock.write(0..10).unwrap()));
        super::until(|| lock.core.shown.has_patient());
        for _ in 0..rounds(200) {
            drop(lock.read(5..10).unwrap());
            thread::sleep(Duration::from_micros(100));
        }
        assert!(!waiter.is_finished());
        drop(guard);
        super::join(waiter);
    });
    super::assert_free(lock);
}

/// A range that falls idle does not stay so until the time of those that wait for it is over.
#[test]
fn everybody_who_can_go_on_is_woken() {
    const PARTS: u64 = 12;
    let lock = &Lock::with_policy(RangePolicy { overtaken_for: Duration::MAX });
    for by_one in [true, false] {
        super::scope(|s| {
            let parts = || (0..PARTS).map(|part| 10 * part..10 * part + 5);
            let held: Vec<_> = if by_one {
                vec![lock.write(0..10 * PARTS).unwrap()]
            } else {
                parts().map(|part| lock.write(part).unwrap()).collect()
            };
            let waiters: Vec<_> =
                parts().map(|part| s.spawn(move || drop(lock.write(part).unwrap()))).collect();
            super::until(|| lock.ranges().iter().filter(|range| range.waiting).count() == 12);
            thread::sleep(Duration::from_millis(5)); // asleep
            drop(held);
            waiters.into_iter().for_each(super::join);
        });
    }
    super::assert_free(lock);
}

/// Whoever sleeps, is woken to compete, or gives up is counted, in the counts that the lock was given.
#[test]
fn sleeps_wake_ups_and_failures_are_counted() {
    static COUNTS: [EventCounts; 2] = [const { EventCounts::new() }; 2];
    // By default a waiter that nobody may overtake any more is granted its range, and not woken to compete.
    let patient = RangePolicy { overtaken_for: Duration::MAX };
    for (policy, counts) in [RangePolicy::FIFO, patient].into_iter().zip(&COUNTS) {
        let counted = || {
            [Event::SleepWriter, Event::WakeWriter, Event::WriteFail, Event::ReadFail]
                .map(|event| counts.get(event) > 0)
        };
        let lock = Lock::with_policy(policy);
        lock.set_events(Some(counts));
        let held = lock.write(5..20).unwrap();
        scope(|s| {
            let waits = s.spawn(|| drop(lock.write(0..10)));
            until(|| counts.get(Event::SleepWriter) > 0);
            assert_eq!(counted(), [true, false, false, false]);
            drop(held);
            join(waits);
        });
        let wakes = policy != RangePolicy::FIFO;
        assert_eq!(counted(), [true, wakes, false, false]);
        let _held = lock.write(5..20);
        lock.write_with(0..10, Wait::within(Duration::from_millis(1))).unwrap_err();
        assert_eq!(counted(), [true, wakes, true, false]);
    }
}

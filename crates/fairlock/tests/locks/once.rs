//! Something that is done once.
#![cfg(feature = "std")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use fairlock::{Once, OnceState};
use fairlock_testing::{join, rounds, scope};

#[test]
fn of_many_threads_one_calls_its_function_and_all_see_what_it_did() {
    for _ in 0..rounds(300) {
        let (once, calls, value) = (Once::new(), AtomicU32::new(0), AtomicU32::new(0));
        scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    once.call_once(|| {
                        calls.fetch_add(1, Ordering::Relaxed);
                        std::thread::yield_now();
                        value.store(7, Ordering::Relaxed);
                    });
                    assert_eq!(value.load(Ordering::Relaxed), 7);
                    assert!(once.state().done());
                });
            }
        });
        assert_eq!(calls.into_inner(), 1);
    }
}

fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[test]
fn a_panic_poisons_until_a_function_returns() {
    let once = Once::new();
    assert_eq!(once.state(), OnceState::New);
    assert!(panics(|| once.call_once(|| resume_unwind(Box::new(())))));
    assert_eq!(once.state(), OnceState::Poisoned);
    // Without being called, and the state stays.
    assert!(panics(|| once.call_once(|| unreachable!("called"))));
    assert_eq!(once.state(), OnceState::Poisoned);
    assert!(panics(|| once.call_once_force(|state| {
        assert!(state.poisoned());
        assert_eq!(once.state(), OnceState::InProgress);
        resume_unwind(Box::new(()))
    })));
    once.call_once_force(|state| assert!(state.poisoned()));
    assert_eq!(once.state(), OnceState::Done);
    once.call_once(|| unreachable!("called"));
    once.call_once_force(|_| unreachable!("called"));
}

#[test]
fn a_panic_lets_those_that_wait_go_on() {
    for _ in 0..rounds(100) {
        let once = Once::new();
        let panicked = AtomicU32::new(0);
        scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    if panics(|| {
                        once.call_once_force(|state| {
                            if !state.poisoned() {
                                resume_unwind(Box::new(()));
                            }
                        });
                    }) {
                        panicked.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!((panicked.into_inner(), once.state()), (1, OnceState::Done));
    }
}

#[test]
fn a_wait_ends_when_a_function_has_returned_whether_it_began_before_or_after() {
    for _ in 0..rounds(100) {
        let (once, value) = (Once::new(), AtomicU32::new(0));
        scope(|s| {
            for wait in [Once::wait, Once::wait_force] {
                let (once, value) = (&once, &value);
                s.spawn(move || {
                    wait(once);
                    assert_eq!(value.load(Ordering::Relaxed), 7);
                });
            }
            std::thread::yield_now();
            assert!(!once.is_completed());
            once.call_once(|| value.store(7, Ordering::Relaxed));
            assert!(once.is_completed() && once.state().is_completed());
        });
    }
    let completed = Once::new_completed();
    completed.wait();
    completed.call_once(|| unreachable!("called"));
}

#[test]
fn a_panic_ends_a_wait_by_a_panic_unless_it_is_forced() {
    for _ in 0..rounds(100) {
        let (once, forced) = (Once::new(), AtomicU32::new(0));
        scope(|s| {
            let unforced = s.spawn(|| assert!(panics(|| once.wait())));
            s.spawn(|| {
                once.wait_force();
                assert_eq!(forced.load(Ordering::Relaxed), 1);
            });
            std::thread::yield_now();
            assert!(panics(|| once.call_once(|| resume_unwind(Box::new(())))));
            assert!(once.state().is_poisoned() && panics(|| once.wait()));
            join(unforced);
            once.call_once_force(|_| forced.store(1, Ordering::Relaxed));
        });
    }
}

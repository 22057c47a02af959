//! Something that is done once.
#![cfg(feature = "std")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use fairlock::{Once, OnceState};
use fairlock_testing::{rounds, scope};

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

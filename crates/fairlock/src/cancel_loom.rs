//! Cancelling a token beside waits that come and go, in every interleaving:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib loom`
//!
//! A handler takes no lock, so it is like another thread, but for what its own thread has half
//! done: here that is a cancel in the middle of a change. A lost cancel is a deadlock.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::cancel::CancelToken;
use crate::platform::System;
use crate::platform::loom::Loom;
use crate::wait::Wait;

type Token = CancelToken<Loom>;

/// Waits until the token is cancelled.
fn wait(token: &Token) {
    let me = Loom::thread();
    Wait::FOREVER.cancellable(token).begin().listed(me, || {
        while !token.is_cancelled() {
            me.parker.park(None, false);
        }
    });
}

/// Is listed, and waits for nothing.
fn come_and_go(token: &Token) {
    Wait::FOREVER.cancellable(token).begin().listed(Loom::thread(), || ());
}

/// Runs all of these at once, the last one in the model's own thread.
fn check<const N: usize>(threads: [fn(&Token); N]) {
    loom::model(move || {
        let token = Arc::new(Token::new());
        let [others @ .., own] = &threads[..] else { return };
        let others: Vec<_> = others
            .iter()
            .map(|&other| {
                let token = token.clone();
                thread::spawn(move || other(&token))
            })
            .collect();
        own(&token);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(token.is_cancelled());
    });
}

struct Told {
    token: Token,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is written before the token is cancelled, and read afterwards (loom checks that).
unsafe impl Sync for Told {}
// SAFETY: as above.
unsafe impl Send for Told {}

#[test]
fn who_is_cancelled_sees_what_came_before() {
    loom::model(|| {
        let told = Arc::new(Told { token: Token::new(), value: UnsafeCell::new(0) });
        let canceller = told.clone();
        let canceller = thread::spawn(move || {
            // SAFETY: nobody reads it yet.
            canceller.value.with_mut(|value| unsafe { *value = 1 });
            canceller.token.cancel();
        });
        if told.token.is_cancelled() {
            // SAFETY: nobody writes it any more.
            told.value.with(|value| assert_eq!(unsafe { *value }, 1));
        }
        canceller.join().unwrap();
    });
}

#[test]
fn two_that_wait() {
    check([wait, wait, CancelToken::cancel]);
}

#[test]
fn one_that_waits_beside_one_that_comes_and_goes() {
    check([wait, come_and_go, CancelToken::cancel]);
}

/// The first waiter's record is in another list when `cancel` comes by. `cancel` must not conclude
/// that it has seen all of this list.
#[test]
fn one_that_waits_behind_one_that_goes_to_another_token() {
    loom::model(|| {
        let token = Arc::new(Token::new());
        let other = Arc::new(Token::new());
        let (leaver, canceller, elsewhere) = (token.clone(), token.clone(), other.clone());
        let leaver = thread::spawn(move || {
            come_and_go(&leaver);
            come_and_go(&elsewhere);
        });
        let canceller = thread::spawn(move || canceller.cancel());
        // The wait comes first, as loom starts with this thread: so the others have preemptions to
        // spare.
        wait(&token);
        leaver.join().unwrap();
        canceller.join().unwrap();
        assert!(!other.is_cancelled());
    });
}

#[test]
fn two_that_cancel() {
    check([wait, CancelToken::cancel, |token| {
        come_and_go(token);
        token.cancel();
    }]);
}

#[test]
fn one_that_cancels_while_it_is_listed() {
    check([wait, |token| {
        let me = Loom::thread();
        token.change(|| {
            token.link(me);
            token.cancel();
        });
        token.change(|| token.unlink(me));
    }]);
}

#[test]
fn one_that_cancels_while_it_is_taken_out_beside_another_that_cancels() {
    check([wait, CancelToken::cancel, |token| {
        let me = Loom::thread();
        token.change(|| token.link(me));
        token.change(|| {
            token.cancel();
            token.unlink(me);
        });
    }]);
}

//! Each way to give up, at each place in the queue, beside readers and writers.
#![cfg_attr(
    not(all(target_os = "linux", not(miri))),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        reason = "the portable platform does not tell of signals"
    )
)]

use crate::platform::System;
use std::sync::atomic::{AtomicBool, AtomicPtr};
use std::sync::mpsc;
use std::time::Instant;

use super::*;

#[derive(Clone, Copy, Debug)]
enum GiveUp {
    Timeout,
    Cancel,
    Signal,
}

/// The wait that ends without the lock, in this way.
fn give_up(lock: &Lock, kind: Kind, how: GiveUp, token: &CancelToken<Native>) -> WaitError {
    let result = match (kind, how) {
        (Kind::Reader, GiveUp::Timeout) => lock.read_with(Wait::until_nanos(soon(10))),
        (Kind::Writer, GiveUp::Timeout) => lock.write_with(Wait::until_nanos(soon(10))),
        (Kind::Reader, GiveUp::Cancel) => lock.read_with(Wait::FOREVER.cancellable(token)),
        (Kind::Writer, GiveUp::Cancel) => lock.write_with(Wait::FOREVER.cancellable(token)),
        (Kind::Reader, GiveUp::Signal) => lock.read_with(Wait::FOREVER.interruptible()),
        (Kind::Writer, GiveUp::Signal) => lock.write_with(Wait::FOREVER.interruptible()),
    };
    result.expect_err("got the lock while another wrote")
}

extern "C" fn handler(_signal: libc::c_int) {}

/// Three threads queue while the caller writes; the one at `position` gives up; then the others
/// have their turns.
fn gives_up_at(lock: &Lock, position: usize, kinds: [Kind; 3], how: GiveUp) {
    let token = CancelToken::new();
    lock.write();
    scope(|s| {
        let (mut others, mut leaver) = (Vec::new(), None);
        let (send_id, id) = mpsc::channel();
        for (i, kind) in kinds.into_iter().enumerate() {
            if i == position {
                let (token, send_id) = (&token, send_id.clone());
                let thread = s.spawn(move || {
                    // SAFETY: always succeeds.
                    send_id.send(unsafe { libc::pthread_self() }).unwrap();
                    give_up(lock, kind, how, token)
                });
                leaver = Some(thread);
            } else {
                others.push(s.spawn(move || visit(lock, kind)));
            }
            // A waiter that has timed out already has had its test.
            until(|| {
                let staying = leaver.as_ref().is_some_and(|leaver| !leaver.is_finished());
                waiters(lock) == others.len() + usize::from(staying)
            });
        }
        let (leaver, id) = (leaver.unwrap(), id.recv().unwrap());
        let expected = match how {
            GiveUp::Timeout => WaitError::TimedOut,
            GiveUp::Cancel => {
                token.cancel();
                WaitError::Cancelled
            }
            #[cfg(any(not(target_os = "linux"), miri))]
            GiveUp::Signal => unreachable!("the portable platform does not tell of signals"),
            #[cfg(all(target_os = "linux", not(miri)))]
            GiveUp::Signal => {
                until(|| {
                    // SAFETY: the thread has not been joined, so its id is valid.
                    unsafe { libc::pthread_kill(id, signal(0)) };
                    leaver.is_finished()
                });
                WaitError::Interrupted
            }
        };
        assert_eq!(join(leaver), expected);
        assert_eq!(waiters(lock), 2);
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        others.into_iter().for_each(|other| join(other));
    });
    assert_free(lock);
}

fn at_every_position(how: GiveUp) {
    for_each_policy(|lock| {
        for position in 0..3 {
            // All mixes of readers and writers; under Miri, which is slow, one.
            for kinds in if cfg!(miri) { 2..3 } else { 0..8 } {
                let kind = |i| if kinds >> i & 1 == 0 { Kind::Reader } else { Kind::Writer };
                gives_up_at(lock, position, [kind(0), kind(1), kind(2)], how);
            }
        }
    });
}

#[test]
fn timed_out_waiter_leaves_no_trace_wherever_it_stands() {
    at_every_position(GiveUp::Timeout);
}

#[test]
fn cancelled_waiter_leaves_no_trace_wherever_it_stands() {
    at_every_position(GiveUp::Cancel);
}

#[test]
#[cfg(all(target_os = "linux", not(miri)))] // the portable platform does not tell
fn interrupted_waiter_leaves_no_trace_wherever_it_stands() {
    // SAFETY: a zeroed `sigaction` is a valid one; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        assert_eq!(libc::sigaction(signal(0), &action, std::ptr::null_mut()), 0);
    }
    at_every_position(GiveUp::Signal);
}

/// All waiters give up at once, in every order that comes up, and nothing is left.
#[test]
fn all_give_up_and_the_lock_is_only_held() {
    for_each_policy(|lock| {
        let token = CancelToken::new();
        lock.write();
        let held = word(lock);
        scope(|s| {
            let all: Vec<_> = (0..8)
                .map(|i| {
                    let kind = if i % 3 == 0 { Kind::Writer } else { Kind::Reader };
                    let token = &token;
                    s.spawn(move || give_up(lock, kind, GiveUp::Cancel, token))
                })
                .collect();
            until(|| waiters(lock) == 8);
            token.cancel();
            for one in all {
                assert_eq!(join(one), WaitError::Cancelled);
            }
        });
        assert_eq!(word(lock), held);
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
    });
}

static HANDLER_RUNS: AtomicBool = AtomicBool::new(false);
static HANDLER_MAY_END: AtomicBool = AtomicBool::new(false);

extern "C" fn slow_handler(_signal: libc::c_int) {
    HANDLER_RUNS.store(true, Ordering::SeqCst);
    while !HANDLER_MAY_END.load(Ordering::SeqCst) {
        core::hint::spin_loop();
    }
}

/// A wake-up that comes while the handler runs does not hide that it ran.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn wait_is_interrupted_although_it_is_woken_at_the_same_time() {
    // SAFETY: a zeroed `sigaction` is a valid one; the handler uses atomics only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = slow_handler as *const () as usize;
        assert_eq!(libc::sigaction(signal(1), &action, std::ptr::null_mut()), 0);
    }
    for_each_policy(|lock| {
        HANDLER_RUNS.store(false, Ordering::SeqCst);
        HANDLER_MAY_END.store(false, Ordering::SeqCst);
        lock.write();
        scope(|s| {
            let (send, who) = mpsc::channel();
            let waiter = s.spawn(move || {
                // SAFETY: always succeed.
                let ids = unsafe { (libc::pthread_self(), libc::gettid()) };
                send.send((ids, Native::thread())).unwrap();
                lock.read_with(Wait::FOREVER.interruptible())
            });
            let ((thread, id), record) = who.recv().unwrap();
            // Nowhere else from then on: a signal that comes while it is on its way there is not told.
            until(|| record.is_asleep() && rules::sleeps(id));
            // SAFETY: the thread has not been joined, so its id is valid.
            unsafe { libc::pthread_kill(thread, signal(1)) };
            until(|| HANDLER_RUNS.load(Ordering::SeqCst));
            record.parker.unpark();
            HANDLER_MAY_END.store(true, Ordering::SeqCst);
            assert_eq!(join(waiter), Err(WaitError::Interrupted));
        });
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
    });
}

/// What the handler cancels.
static HANDLED: AtomicPtr<CancelToken<Native>> = AtomicPtr::new(core::ptr::null_mut());

extern "C" fn cancelling_handler(_signal: libc::c_int) {
    // SAFETY: the address of a token that is never freed.
    unsafe { &*HANDLED.load(Ordering::SeqCst) }.cancel();
}

/// Threads begin waits under a token and end them. A signal handler interrupts one of them
/// somewhere and cancels the token: all waits end by that.
#[test]
#[cfg(all(target_os = "linux", not(miri)))] // elsewhere a handler must not
fn a_handler_cancels_whatever_its_thread_is_doing() {
    const ROUNDS: usize = 300;
    const WAITERS: usize = 3;
    let signal = signal(2);
    // SAFETY: a zeroed `sigaction` is a valid one; the handler stores and wakes.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = cancelling_handler as *const () as usize;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
    // Begins a wait and ends it, again and again, until one is cancelled.
    let wait = |lock: &Lock, token: &'static CancelToken<Native>| loop {
        match lock.read_with(Wait::until_nanos(0).cancellable(token)) {
            Err(WaitError::TimedOut) => {}
            ended => break ended,
        }
        if token.is_cancelled() {
            break Err(WaitError::Cancelled);
        }
    };
    let lock = &Lock::new(POLICIES[0].1);
    lock.write();
    for round in 0..ROUNDS {
        let token: &'static CancelToken<Native> = Box::leak(Box::default());
        HANDLED.store(core::ptr::from_ref(token).cast_mut(), Ordering::SeqCst);
        scope(|s| {
            let (send, ids) = mpsc::channel();
            let waiters: [_; WAITERS] = core::array::from_fn(|which| {
                let send = send.clone();
                s.spawn(move || {
                    // SAFETY: always succeeds.
                    send.send(unsafe { libc::pthread_self() }).unwrap();
                    // One sleeps; the others come and go.
                    if which == 0 {
                        lock.write_with(Wait::FOREVER.cancellable(token))
                    } else {
                        wait(lock, token)
                    }
                })
            });
            let ids: Vec<_> = ids.iter().take(WAITERS).collect();
            (0..round % 100 * 20).for_each(|_| core::hint::spin_loop());
            // SAFETY: the threads have not been joined, so their ids are valid.
            unsafe { libc::pthread_kill(ids[round % WAITERS], signal) };
            for waiter in waiters {
                assert_eq!(join(waiter), Err(WaitError::Cancelled));
            }
        });
    }
    // SAFETY: taken above.
    unsafe { lock.unlock_write() };
    assert_free(lock);
}

#[test]
fn whichever_comes_first_ends_a_wait() {
    for_each_policy(|lock| {
        let (stop, go_on) = (CancelToken::new(), CancelToken::new());
        stop.cancel();
        lock.write();
        let (soon, late) = (Duration::from_millis(2), Duration::MAX);
        for (wait, why) in [
            (Wait::within(soon).cancellable(&go_on).interruptible(), WaitError::TimedOut),
            (Wait::until(Instant::now() + soon).cancellable(&go_on), WaitError::TimedOut),
            (Wait::within(late).cancellable(&stop), WaitError::Cancelled),
            (Wait::FOREVER.interruptible().cancellable(&stop), WaitError::Cancelled),
        ] {
            assert_eq!([lock.read_with(wait), lock.write_with(wait)], [Err(why); 2], "{wait:?}");
        }
        // SAFETY: taken above.
        unsafe { lock.unlock_write() };
        assert_eq!(lock.write_with(Wait::within(Duration::ZERO).cancellable(&stop)), Ok(()));
        // SAFETY: just taken.
        unsafe { lock.unlock_write() };
    });
}

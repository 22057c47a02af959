//! Steps of the lock's protocols by themselves: where waiters park, the solo holder, what a fair release says. The whole
//! lock is in `ticket_loom`.
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib loom`

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::Adaptive;
use super::lock::TicketLock;
use super::park::{Inbox, Lot, Parked};
use super::solo::Solo;
use super::word::{AtomicWord, Word};
use crate::platform::System;
use crate::platform::loom::Loom;
use crate::wait::{MOST_DOUBLINGS, WaitContext};

const MAX: u32 = 16;

struct Scene {
    inbox: Inbox<Loom>,
    /// The waiter's while it is out, else the holder's (loom checks that).
    entry: Parked<Loom>,
    solo: Solo<Loom>,
    lock: TicketLock<Loom, Adaptive<MAX>>,
    /// Belongs to the holder.
    value: UnsafeCell<u32>,
}

// SAFETY: `entry` and `value` are touched as they say.
unsafe impl Sync for Scene {}
// SAFETY: as above.
unsafe impl Send for Scene {}

impl Scene {
    fn new() -> Self {
        Self {
            inbox: Inbox::new(),
            entry: Parked::new(0, &Loom::thread().ticket_parker),
            solo: Solo::new(),
            lock: TicketLock::after(100),
            value: UnsafeCell::new(0),
        }
    }

    fn push(&self, ticket: u32) {
        self.entry.ticket.set(ticket);
        // SAFETY: the lists are not used any more when the scene goes.
        unsafe { self.inbox.push(&self.entry, true) };
    }

    fn add(&self) {
        // SAFETY: the caller is the holder (loom checks that).
        self.value.with_mut(|value| unsafe { *value += 1 });
    }
}

/// A waiter parks, and once more when its entry is out, beside a holder that empties the inbox.
fn park(gives_up: bool, take_out: fn(&mut Lot<Loom>)) {
    loom::model(move || {
        let scene = Arc::new(Scene::new());
        let holder = {
            let scene = scene.clone();
            thread::spawn(move || {
                let mut lot = Lot::new();
                lot.collect(&scene.inbox, Word::SOLE, MAX);
                take_out(&mut lot);
            })
        };
        scene.push(1);
        if gives_up {
            _ = scene.entry.give_up();
        }
        if scene.entry.is_out() {
            scene.push(2);
        }
        holder.join().unwrap();
    });
}

/// Who takes an entry out is done with it when its waiter sees that, and sees it as its waiter pushed it.
#[test]
fn an_entry_is_its_waiters_again_when_it_is_out() {
    park(false, |lot| drop(lot.pop_ready(false)));
    park(false, |lot| drop(lot.pop_ready(true)));
    park(true, |lot| _ = lot.pop_given_up(Word::after(1)));
}

/// It comes with the record of the thread that waits, which may be new.
#[test]
fn a_solo_holder_finds_who_waits_for_it() {
    loom::model(|| {
        let scene = Arc::new(Scene::new());
        assert!(scene.solo.enter());
        let first = {
            let scene = scene.clone();
            thread::spawn(move || {
                scene.solo.wait_until_free(&WaitContext::FOREVER).unwrap();
                scene.add();
            })
        };
        scene.add();
        scene.solo.leave_to_waiter();
        first.join().unwrap();
    });
}

/// Tickets 100 and 101 are of the batch, 102 is of the next.
#[test]
fn who_sees_a_fair_release_knows_that_the_batch_may_not_be_reopened() {
    loom::model(|| {
        let mut scene = Scene::new();
        let lock = &mut scene.lock;
        let word = lock.load().with_ticket().with_ticket().with_ticket().with_left(2, MAX);
        lock.word = AtomicWord::new(word);
        Adaptive::<MAX>::set_spent(&mut lock.own.get_mut().pace, word.head(), 1, 0);
        // SAFETY: nobody else is there.
        lock.allow_reopening(MOST_DOUBLINGS, word, unsafe { &(*lock.own.get()).pace });
        let scene = Arc::new(scene);
        let waiter = {
            let scene = scene.clone();
            thread::spawn(move || {
                if scene.lock.reopen(102, scene.lock.load(), u64::MAX) {
                    // SAFETY: the lock was taken.
                    assert_eq!(scene.value.with(|value| unsafe { *value }), 0);
                }
            })
        };
        let lock = &scene.lock;
        if lock.take(lock.load(), 100, &WaitContext::FOREVER).is_some() {
            scene.add();
            // SAFETY: just taken.
            unsafe { lock.unlock_fair() };
        }
        waiter.join().unwrap();
    });
}

//! Two mutexes that are wrong on purpose, of the simplest sort.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread, ThreadId};
use std::time::Duration;

use super::{Lock, Pair};
use crate::torture::seat::{Seat, Subject};
use crate::torture::visit::{How, Visit};

pub(super) const LOCKS: &[Lock] = &[
    // A mutex that forgets every hundredth wake-up.
    Lock { name: "broken:lost-wake-up", make: || Box::new(Toy::new(Mistake::ForgetsWakeUps)) },
    // A mutex that the thread which had it first keeps taking before all others.
    Lock { name: "broken:starving", make: || Box::new(Toy::new(Mistake::Starves)) },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    ForgetsWakeUps,
    Starves,
}

#[derive(Default)]
struct State {
    locked: bool,
    queue: VecDeque<Thread>,
    releases: u64,
    favourite: Option<ThreadId>,
}

struct Toy {
    mistake: Mistake,
    state: Mutex<State>,
    pair: Pair,
}

impl Toy {
    fn new(mistake: Mistake) -> Self {
        Self { mistake, state: Mutex::default(), pair: Pair::default() }
    }

    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        f(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) {
        let me = thread::current();
        loop {
            let taken = self.with(|state| {
                let mine = *state.favourite.get_or_insert(me.id()) == me.id();
                let may = mine || self.mistake != Mistake::Starves;
                if may && !state.locked {
                    state.locked = true;
                    return true;
                }
                if self.mistake == Mistake::ForgetsWakeUps {
                    state.queue.push_back(me.clone());
                }
                false
            });
            match self.mistake {
                _ if taken => return,
                Mistake::ForgetsWakeUps => thread::park(),
                Mistake::Starves => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn unlock(&self) {
        self.with(|state| {
            state.locked = false;
            state.releases += 1;
            let first = state.queue.pop_front();
            if !state.releases.is_multiple_of(100) {
                first.iter().for_each(Thread::unpark);
            }
        });
    }
}

impl Subject for Toy {
    fn visit(&self, visit: &Visit, seat: &Seat<'_>) {
        let visit = Visit { how: How::Wait, ..*visit };
        let taken = seat.acquire(&visit, |_| {
            self.lock();
            Ok(())
        });
        if taken.is_some() {
            self.pair.write(seat, visit.section);
            seat.release(|| self.unlock());
        }
    }

    fn planned_ns(&self, others: usize) -> Option<u64> {
        Some(super::wake_ups(others))
    }

    fn state(&self) -> String {
        self.with(|state| format!("locked: {}, {} queued", state.locked, state.queue.len()))
    }

    fn check_guarded(&self) -> Result<(), String> {
        self.pair.check_idle()
    }
}

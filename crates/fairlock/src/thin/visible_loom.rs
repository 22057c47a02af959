//! Visible readers and a thread that revokes their name, by themselves: the word of a lock is only its name here, so these
//! models are small enough to be tried whole. Whole locks are in `thin_loom`.
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib loom`

use core::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::AtomicU64;

use crate::models::{self, Scene, models};
use crate::platform::System;
use crate::platform::loom::Loom;
use crate::rwsem::{Policy, RwSem};
use crate::thin::local::Cleared;
use crate::thin::visible::{HELD, VisibleReaders};

/// What the readers of the two locks show, in the same slot.
const NAMES: [u64; 2] = [4, 8];
const PLACE: usize = 0;

struct Lock {
    /// What its readers show; zero: `full` is the lock, and counts them.
    name: AtomicU64,
    /// Has the units.
    full: RwSem<Loom>,
    value: UnsafeCell<u32>,
}

struct Both {
    all: VisibleReaders<Loom>,
    locks: [Lock; 2],
}

// SAFETY: `value` is touched under the lock only (loom checks that).
unsafe impl Sync for Lock {}
// SAFETY: as above.
unsafe impl Send for Lock {}

#[derive(Clone, Copy)]
enum Visit {
    Read(usize),
    Revoke(usize),
    /// Revokes the name, and writes if nobody reads.
    Write(usize),
}
use Visit::*;

impl Both {
    fn new() -> Self {
        let locks = NAMES.map(|name| {
            let full = RwSem::new(Policy::DEFAULT);
            // SAFETY: nobody uses it.
            unsafe { full.adopt_readers(HELD) };
            Lock { name: AtomicU64::new(name), full, value: UnsafeCell::new(0) }
        });
        Self { all: VisibleReaders::new(), locks }
    }

    fn has_name(&self, which: usize) -> bool {
        self.locks[which].name.load(Ordering::Acquire) == NAMES[which]
    }

    /// Whether the calling thread is inside.
    fn enter(&self, which: usize) -> bool {
        let shown = &Loom::thread().shown;
        self.all.list(Loom::thread());
        if !shown.has(PLACE, 0) && !shown.reclaim(PLACE) {
            return false;
        }
        shown.show(PLACE, NAMES[which]);
        let is_in = self.has_name(which) || shown.withdraw(PLACE) == Cleared::Counted;
        if is_in {
            // SAFETY: a reader is inside (loom checks that).
            self.locks[which].value.with(|value| unsafe { *value });
        }
        is_in
    }

    fn leave(&self, which: usize) {
        let shown = &Loom::thread().shown;
        let has_left = shown.has(PLACE, NAMES[which])
            && self.has_name(which)
            && (shown.hide(PLACE, &self.all.scans) || shown.settle(PLACE) == Cleared::Left);
        if !has_left {
            // SAFETY: one of the units is the thread's.
            unsafe { self.locks[which].full.unlock_read() };
        }
    }

    fn revoke(&self, which: usize) {
        let Lock { name, full, .. } = &self.locks[which];
        let (ok, fail) = (Ordering::AcqRel, Ordering::Relaxed);
        let close = || name.compare_exchange(NAMES[which], 0, ok, fail).is_ok();
        // SAFETY: it has the units, and `close` takes the name off.
        unsafe { self.all.revoke(NAMES[which], full, 0, close) };
    }
}

impl Scene for Both {
    type Visit = Visit;

    fn visit(&self, visit: Visit) -> u32 {
        match visit {
            Read(which) => {
                if self.enter(which) {
                    self.leave(which);
                }
            }
            Revoke(which) => self.revoke(which),
            Write(which) => {
                self.revoke(which);
                let Lock { full, value, .. } = &self.locks[which];
                if full.try_write() {
                    // SAFETY: a writer is alone (loom checks that).
                    value.with_mut(|value| unsafe { *value += 1 });
                    // SAFETY: just taken.
                    unsafe { full.unlock_write() };
                    return 1;
                }
            }
        }
        0
    }

    fn check(&self, _: u32) {
        for (which, lock) in self.locks.iter().enumerate() {
            self.revoke(which);
            assert!(!lock.full.is_locked(), "a reader is counted that has left");
        }
    }
}

fn check(_: Option<crate::fault::Fault>, threads: &'static [&'static [Visit]]) {
    models::check(&Builder::new(), None, Both::new, threads);
}

models! {
    check;
    a_reader_and_a_writer: [&[Read(0)], &[Write(0)]];
    a_reader_that_comes_again_and_a_writer: [&[Read(0), Read(0)], &[Write(0)]];
    a_reader_of_two_locks_and_a_writer_of_the_first: [&[Read(0), Read(1)], &[Write(0)]];
    a_reader_of_a_lock_that_has_no_name_any_more: [&[Revoke(1), Read(0), Read(1)], &[Write(0)]];
    two_writers_of_different_locks: [&[Read(0)], &[Write(0)], &[Revoke(1)]];
    two_readers_and_a_writer: [&[Read(0)], &[Read(0)], &[Write(0)]];
}

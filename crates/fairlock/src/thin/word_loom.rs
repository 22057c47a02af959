//! The words of thin locks and of their slots, each step of a protocol by itself: the whole locks are in `thin_loom`.
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib loom`

use core::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use crate::platform::loom::Loom;
use crate::rwsem::{Policy, RwSem};
use crate::thin::inflate::Full;
use crate::thin::word::{AtomicOf, Codec, Pins, RwWord};
use crate::wait::Access;

struct Scene {
    /// Of a lock that has the slot.
    word: AtomicOf<RwWord, AtomicU64>,
    pins: Pins<Loom>,
    full: RwSem<Loom>,
    /// Belongs to who has pinned the slot, and to who has taken it from the lock.
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is touched as it says (loom checks that).
unsafe impl Sync for Scene {}
// SAFETY: as above.
unsafe impl Send for Scene {}

const INFLATED: fn() -> RwWord = || RwWord::inflated(1);

impl Scene {
    fn read(&self) {
        // SAFETY: nobody writes (loom checks that).
        self.value.with(|value| unsafe { *value });
    }

    fn write(&self) {
        // SAFETY: nobody else has it (loom checks that).
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    /// Pins the slot if the lock has it; whether it does.
    fn pin(&self) -> bool {
        self.pins.add().is_ok() && self.word.load() == INFLATED()
    }
}

fn check<const N: usize>(others: [fn(&Scene); N], own: fn(&Scene)) {
    loom::model(move || {
        let scene = Arc::new(Scene {
            word: AtomicOf::new(INFLATED()),
            pins: Pins::new(),
            full: RwSem::new(Policy::DEFAULT),
            value: UnsafeCell::new(0),
        });
        let others = others.map(|other| {
            let scene = scene.clone();
            thread::spawn(move || other(&scene))
        });
        own(&scene);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// Whoever follows a name finds the slot as it was when the word got the name.
#[test]
fn a_word_that_is_found_comes_with_what_was_done_before() {
    let publish: fn(&Scene) = |scene| {
        scene.write();
        scene.word.exchange(INFLATED(), RwWord::FREE, Ordering::Release).unwrap();
    };
    check([publish], |scene| {
        if scene.word.load() == RwWord::FREE {
            scene.read();
        }
    });
    check([publish], |scene| {
        if scene.word.exchange(RwWord::READ, RwWord::FREE, Ordering::Relaxed) == Err(RwWord::FREE) {
            scene.read();
        }
    });
}

/// A thread that pins the slot and then sees the lock's name for it is at the right lock, before and after the slot was
/// closed and opened again.
#[test]
fn a_slot_is_not_taken_from_its_lock_while_it_is_pinned() {
    check(
        [|scene| {
            if scene.pin() {
                scene.read();
            }
            scene.pins.remove();
        }],
        |scene| {
            if scene.pins.close(Some(Access::Exclusive)) {
                scene.word.exchange(INFLATED(), RwWord::FREE, Ordering::Release).unwrap();
                scene.pins.reopen();
                scene.write();
            }
        },
    );
}

/// What a thread does that comes too late to pin the slot comes before what is done by the lock that has it next.
#[test]
fn a_slot_is_given_on_when_nobody_has_pinned_it() {
    check(
        [|scene| {
            if scene.pins.add().is_err() {
                scene.read();
            }
            scene.pins.remove();
        }],
        |scene| {
            if scene.pins.close(Some(Access::Exclusive)) {
                scene.pins.reopen();
                if !scene.pins.any() {
                    scene.write();
                }
            }
        },
    );
}

/// Of a thread that is to wait, and one that makes the lock visible, one sees the other (V6 of `visible`).
#[test]
fn nobody_waits_at_a_full_lock_that_is_visible() {
    check(
        [|scene| {
            if scene.pin() {
                scene.read();
            }
        }],
        |scene| {
            let visible = RwWord::visible_and_full(1, 1);
            scene.word.exchange(INFLATED(), visible, Ordering::AcqRel).unwrap();
            if !scene.pins.any_before() {
                scene.write();
            }
        },
    );
}

/// Who has sealed the lock, and makes it thin, has seen what readers did who have left.
#[test]
fn a_seal_comes_after_the_sections_before() {
    let read: fn(&Scene) = |scene| {
        let word = &scene.full.head().word;
        if !word.enter(Access::Shared, Ordering::Acquire).is_written() {
            scene.read();
        }
        word.leave(Access::Shared, Ordering::Release);
    };
    check([read], |scene| {
        if scene.full.head().word.seal_free() {
            scene.write();
        }
    });
    check([read], |scene| {
        let word = &scene.full.head().word;
        word.enter(Access::Shared, Ordering::Acquire);
        // SAFETY: just entered.
        if unsafe { word.seal_alone(Access::Shared) } {
            scene.write();
        }
    });
}

/// A reader has closed the slot, but others read beside it. It opens the slot, and leaves; then another reader seals the
/// lock. A thread that came too late to pin does not take that seal for the first one's.
#[test]
fn a_seal_of_another_reader_is_seen_with_the_slot_open() {
    loom::model(|| {
        let scene = Arc::new((Pins::<Loom>::new(), RwSem::<Loom>::new(Policy::DEFAULT)));
        let (pins, full) = &*scene;
        let word = &full.head().word;
        word.enter(Access::Shared, Ordering::Relaxed);
        assert!(pins.close(Some(Access::Shared)));
        let other = {
            let scene = scene.clone();
            thread::spawn(move || {
                let word = &scene.1.head().word;
                word.enter(Access::Shared, Ordering::Acquire);
                // SAFETY: just entered.
                _ = unsafe { word.seal_alone(Access::Shared) };
            })
        };
        let late = {
            let scene = scene.clone();
            thread::spawn(move || {
                let (pins, full) = &*scene;
                let word = &full.head().word;
                assert!(!word.is_sealed(true) || !pins.is_closed());
            })
        };
        pins.reopen();
        word.leave(Access::Shared, Ordering::Release);
        other.join().unwrap();
        late.join().unwrap();
    });
}

//! No more readers stay than there is room for, however they come in:
//! `RUSTFLAGS="--cfg fairlock_loom" LOOM_MAX_PREEMPTIONS=2 cargo test --manifest-path crates/fairlock-loom/Cargo.toml --release --lib loom`

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use loom::sync::Arc;
use loom::thread;

use super::word::{READERS_LIMIT, Word};
use super::{Percent, Policy, RwSem};
use crate::models::enough;
use crate::platform::loom::Loom;
use crate::wait::{Wait, WaitError};

const SHORT: Policy =
    Policy { aim: Duration::from_nanos(1), budget: Percent::new(100).unwrap(), ..Policy::DEFAULT };

/// A writer becomes the last reader but one, while two others come. Not one of loom's
/// atomics: `inside` is to be seen as it is.
fn room_for_one(policy: Policy) {
    enough().check(move || {
        let lock = Arc::new(RwSem::<Loom>::new(policy));
        let inside = Arc::new(AtomicUsize::new(0));
        lock.write();
        let others = [(); 2].map(|()| {
            let (lock, inside) = (lock.clone(), inside.clone());
            thread::spawn(move || match lock.read_with(Wait::FOREVER) {
                Ok(()) => {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "there was room for one");
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    // SAFETY: just taken.
                    unsafe { lock.unlock_read() };
                }
                Err(error) => assert_eq!(error, WaitError::TooManyReaders),
            })
        });
        lock.word.enter_readers(READERS_LIMIT - 2, Ordering::Relaxed);
        // SAFETY: written above.
        unsafe { lock.downgrade() };
        others.into_iter().for_each(|other| other.join().unwrap());
        let full_but_one = Word::FREE.with_readers(READERS_LIMIT - 1);
        assert_eq!(lock.word.load(Ordering::Relaxed), full_but_one);
    });
}

#[test]
fn room_for_one_is_for_one_short_tenure() {
    room_for_one(SHORT);
}

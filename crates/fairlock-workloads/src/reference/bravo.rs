//! BRAVO (Dice and Kogan, 2019), after its description: readers of a lock that was read lately leave
//! a mark in a table in place of taking the lock. A writer takes the lock, ends that, waits for each
//! mark that it finds, and forbids marks for some times as long as that took. The table here is of
//! one lock; in the publication all locks share one.

use core::sync::atomic::Ordering;

use fairlock::platform::Atomic;

use super::{Asks, Line, spin_until};
use crate::locks::BenchLock;

const SLOTS: usize = 4096;
const IN_LINE: usize = 16;
/// For how many times as long as the revocation took marks are forbidden.
const FORBID: u64 = 9;

/// Over a reader/writer lock `L`.
pub struct Bravo<P: Asks, L> {
    lock: L,
    /// 1 while readers may leave marks. Set by a reader that holds the lock, cleared by a writer.
    marks: P::AtomicU32,
    /// When marks are allowed again.
    from_ns: P::AtomicU64,
    /// 1 where a reader is.
    slots: Box<[Line<[P::AtomicUsize; IN_LINE]>]>,
}

impl<P: Asks, L: BenchLock> Bravo<P, L> {
    /// The calling thread's slot.
    fn slot(&self) -> &P::AtomicUsize {
        // A multiplicative hash: neighbours are not in one line.
        let slot = P::number().wrapping_mul(0x9E37_79B1) % SLOTS;
        &self.slots[slot / IN_LINE].0[slot % IN_LINE]
    }

    #[cold]
    fn revoke(&self) {
        // Sequentially consistent, as the looks below and those of readers: a reader that does not
        // see this is seen here.
        self.marks.store(0, Ordering::SeqCst);
        let begun = P::now();
        for slot in self.slots.iter().flat_map(|line| &line.0) {
            if slot.load(Ordering::SeqCst) != 0 {
                spin_until::<P, _, _>(slot, |mark| mark == 0);
            }
        }
        let now = P::now();
        self.from_ns.store(now + FORBID * (now - begun), Ordering::Relaxed);
    }
}

impl<P: Asks, L: BenchLock> BenchLock for Bravo<P, L> {
    fn create() -> Self {
        let line = |_| Line(core::array::from_fn(|_| P::AtomicUsize::new(0)));
        Self {
            lock: L::create(),
            marks: P::AtomicU32::new(0),
            from_ns: P::AtomicU64::new(0),
            slots: (0..SLOTS / IN_LINE).map(line).collect(),
        }
    }

    fn read<R>(&self, section: impl FnOnce() -> R) -> R {
        // Relaxed: a guess.
        if self.marks.load(Ordering::Relaxed) == 1 {
            let slot = self.slot();
            // See `revoke`. In vain if another thread has the same slot.
            if slot.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                if self.marks.load(Ordering::SeqCst) == 1 {
                    let result = section();
                    // Release: the section happens before that of the writer that waits for this.
                    slot.store(0, Ordering::Release);
                    return result;
                }
                slot.store(0, Ordering::Relaxed);
            }
        }
        self.lock.read(|| {
            // Relaxed: the lock orders this with writers.
            if self.marks.load(Ordering::Relaxed) == 0
                && P::now() >= self.from_ns.load(Ordering::Relaxed)
            {
                self.marks.store(1, Ordering::Relaxed);
            }
            section()
        })
    }

    fn write<R>(&self, section: impl FnOnce() -> R) -> R {
        self.lock.write(|| {
            if self.marks.load(Ordering::Relaxed) == 1 {
                self.revoke();
            }
            section()
        })
    }
}

//! The spinners' guess of who is inside: the owner word and its flags.
//!
//! All of these are hints: a wrong one costs a bounded spin, or a needless wait. Hence Relaxed
//! throughout.

use core::sync::atomic::Ordering;

use super::word::Word;
use super::{ReaderSpin, RwSem};
use crate::platform::{Atomic, Platform};
use crate::system::all_zero;
use crate::wait::{Kind, Sleeper};

/// In the owner word: readers took the lock by a slow path after that writer.
pub(crate) const READER_OWNED: usize = 1 << 0;
/// In the owner word: spinning for the readers inside is no use. Stays set until a writer has the
/// lock.
const NONSPINNABLE: usize = 1 << 1;
/// In the owner word, under [`ReaderSpin::Always`]: readers do not spin. Stays set until a writer
/// has the lock that does not know of a vain spin.
const READERS_NONSPINNABLE: usize = 1 << 2;
/// What the owner word has beside the hint.
const FLAGS: usize = READER_OWNED | NONSPINNABLE | READERS_NONSPINNABLE;

/// Who wrote last: a thread hint, plus flags. Never dereferenced.
pub(crate) struct Owner<P: Platform>(P::AtomicUsize);

all_zero!(Owner of [AtomicUsize]: [0], []);

impl<P: Platform> Owner<P> {
    #[inline(always)]
    pub(super) fn set(&self, owner: usize) {
        self.0.store(owner, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where a writer that came by a slow path was: its hint, and in the low bits the
/// CPU it was on.
pub(crate) struct Seen<P: Platform>(P::AtomicUsize);

all_zero!(Seen of [AtomicUsize]: [0], []);

impl<P: Platform> Seen<P> {
    fn note(&self, me: &'static Sleeper<P>) {
        if let Some(cpu) = P::cpu() {
            self.0.store(me.hint() | cpu_tag(cpu), Ordering::Relaxed);
        }
    }

    /// Whether that writer may be running. A writer that was last seen on the CPU the caller is on
    /// is not; of others nothing is known. The caller itself is not inside: then the writer that is
    /// has not stored its hint yet.
    fn may_run(&self, owner: usize) -> bool {
        if owner == P::thread_hint() {
            return true;
        }
        let seen = self.0.load(Ordering::Relaxed);
        seen & !CPU_TAG != owner || P::cpu().is_none_or(|cpu| seen & CPU_TAG != cpu_tag(cpu))
    }
}

/// The low bits of a thread hint, which its alignment leaves free.
const CPU_TAG: usize = 127;

/// A CPU's number as far as it fits; never zero.
fn cpu_tag(cpu: u32) -> usize {
    cpu as usize % CPU_TAG + 1
}

impl<P: Platform> RwSem<P> {
    /// The hint of the writer inside, or `READER_OWNED`. Rule 9: the writer may not have stored its
    /// hint yet; a wrong hint costs a bounded spin.
    pub(crate) fn holder(&self, word: Word) -> usize {
        if !word.is_written() {
            return READER_OWNED;
        }
        self.owner.get() & !FLAGS
    }

    /// Whether the holder may let the lock go soon.
    pub(crate) fn holder_is_worth_it(&self, word: Word) -> bool {
        match self.holder(word) {
            READER_OWNED => self.owner.get() & NONSPINNABLE == 0,
            owner => self.spinners.seen.may_run(owner),
        }
    }

    /// Tells later spinners not to wait for the readers inside, unless a
    /// writer has come.
    pub(crate) fn set_nonspinnable(&self) {
        let owner = self.owner.get();
        let flags = READER_OWNED | NONSPINNABLE;
        // On failure a writer has stored its hint, or another spinner the flags.
        let new = owner | flags;
        let _ = self.owner.0.compare_exchange(owner, new, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Under [`ReaderSpin::Always`]: whether a thread of this side, which is about to queue, knows
    /// of a vain spin. A writer knows that spinning for readers is no use, a reader that readers do
    /// not spin.
    pub(crate) fn knows_of_vain_spin(&self, side: Kind) -> bool {
        let sign = match side {
            Kind::Reader => READERS_NONSPINNABLE,
            Kind::Writer => NONSPINNABLE,
        };
        self.policy.reader_spin == ReaderSpin::Always && self.owner.get() & sign != 0
    }

    /// A thread that knows of a vain spin has been given the lock.
    pub(crate) fn discourage_readers(&self) {
        // Not written without need: everybody looks at the word.
        if !self.readers_are_discouraged() {
            self.owner.0.fetch_or(READERS_NONSPINNABLE, Ordering::Relaxed);
        }
    }

    pub(crate) fn readers_are_discouraged(&self) -> bool {
        self.owner.get() & READERS_NONSPINNABLE != 0
    }

    /// Readers took the lock by a slow path.
    pub(crate) fn note_readers(&self) {
        let owner = self.owner.get();
        if owner & READER_OWNED == 0 {
            self.owner.set(owner | READER_OWNED);
        }
    }

    /// A writer took the lock by a slow path.
    pub(crate) fn note_writer(&self, me: &'static Sleeper<P>) {
        self.owner.set(me.hint());
        self.spinners.seen.note(me);
    }
}

#[cfg(all(test, feature = "std", not(fairlock_loom)))]
mod tests {
    use super::*;
    use crate::platform::{Native, System, Thread};
    use crate::published::Policy;

    type Lock = RwSem<Native>;

    fn spinning(reader_spin: ReaderSpin) -> Lock {
        Lock::new(Policy { reader_spin, ..Policy::HANDOFF })
    }

    /// Whether it pays to spin for a writer that was last seen on this CPU. Asked until the answer
    /// is no, as the test may have moved to another CPU meanwhile.
    fn may_run(owner: &'static Thread<Native>) -> bool {
        let lock = &Lock::new(Policy::HANDOFF);
        (0..1000).all(|_| {
            lock.note_writer(owner);
            lock.holder_is_worth_it(Word::WRITTEN)
        })
    }

    #[test]
    fn a_hint_of_the_callers_own_is_old_and_another_writer_is_inside() {
        assert!(may_run(Native::thread()));
        let other = Box::leak(Box::new(Thread::new()));
        assert_eq!(may_run(other), Native::cpu().is_none());
    }

    #[test]
    fn readers_are_discouraged_by_a_vain_spin_until_a_writer_knows_of_none() {
        let lock = &spinning(ReaderSpin::Always);
        let me = Native::thread();
        assert!(!lock.knows_of_vain_spin(Kind::Writer));
        lock.set_nonspinnable();
        assert!(lock.knows_of_vain_spin(Kind::Writer) && !lock.knows_of_vain_spin(Kind::Reader));
        // That writer has the lock.
        lock.note_writer(me);
        lock.discourage_readers();
        assert!(lock.readers_are_discouraged() && lock.knows_of_vain_spin(Kind::Reader));
        assert_eq!(lock.holder(Word::WRITTEN), me.hint());
        // Readers keep that flag; a writer that came by the fast path does not.
        lock.note_readers();
        assert!(lock.readers_are_discouraged());
        lock.write();
        assert!(!lock.readers_are_discouraged());
    }

    #[test]
    fn other_policies_do_not_discourage() {
        let lock = &Lock::new(Policy::HANDOFF);
        lock.set_nonspinnable();
        assert!(!lock.knows_of_vain_spin(Kind::Writer));
    }
}
